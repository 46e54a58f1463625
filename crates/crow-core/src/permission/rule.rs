//! Permission rules, and the matchers that say to which calls they apply.

use std::{
    cmp::Reverse,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallFacts, call_part::RuleMatch};
use crate::{
    ids::SessionId,
    network::HostPattern,
    tool_types::{Access, ToolCategory, replaced_by},
};

/// A rule about calls.
///
/// Denials are looked at first, whatever their scope. Among rules that allow or ask the scope decides, then the
/// priority, then the narrower matcher; where all that is equal, asking wins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionRule {
    /// Names the rule among those that it came with.
    pub id: String,
    /// For whom it applies, and before which other rules.
    #[serde(default)]
    pub scope: RuleScope,
    /// Among rules of one scope the higher one goes first.
    #[serde(default)]
    pub priority: i32,
    /// Which calls it matches.
    pub matcher: RuleMatcher,
    /// What it says.
    pub decision: RuleDecision,
    /// Why, for people and for the model that is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The file that contains it, shown to people. None for rules that are in no file.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// For whom a rule applies, and before which other rules.
///
/// The order of rules that allow or ask is user, session, agent, global, managed. A managed denial is named first, a
/// managed permission only fills what all others leave open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// For everybody, by those who administer the machine.
    #[serde(alias = "Managed")]
    Managed,
    /// For everybody.
    #[default]
    #[serde(alias = "Global")]
    Global,
    /// For the agent of this name.
    #[serde(alias = "Agent")]
    Agent(String),
    /// For this session alone, and for all agents that are started in it.
    #[serde(alias = "Session")]
    Session(SessionId),
    /// By the person who uses the agent.
    #[serde(alias = "User")]
    User,
}

/// What a rule decides about the calls that it matches.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RuleDecision {
    /// They may not run.
    #[serde(alias = "Deny")]
    Deny,
    /// The user is asked.
    #[serde(alias = "AskUser", alias = "ask")]
    AskUser,
    /// They may run.
    #[serde(alias = "Allow")]
    Allow,
}

impl RuleDecision {
    fn verb(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::AskUser => "ask for",
            Self::Allow => "allow",
        }
    }
}

impl PermissionRule {
    /// Makes a global rule of priority 0.
    pub fn new(id: impl Into<String>, matcher: RuleMatcher, decision: RuleDecision) -> Self {
        Self {
            id: id.into(),
            scope: RuleScope::default(),
            priority: 0,
            matcher,
            decision,
            description: None,
            file: None,
        }
    }

    /// Allows every call of a tool.
    pub fn allow_tool(name: impl Into<String>) -> Self {
        Self::for_tool(name.into(), RuleDecision::Allow)
    }

    /// Denies every call of a tool.
    pub fn deny_tool(name: impl Into<String>) -> Self {
        Self::for_tool(name.into(), RuleDecision::Deny)
    }

    /// Asks about every call of a tool.
    pub fn ask_for_tool(name: impl Into<String>) -> Self {
        Self::for_tool(name.into(), RuleDecision::AskUser)
    }

    /// Allows every call of the tools of a category.
    pub fn allow_category(category: ToolCategory) -> Self {
        Self::for_category(category, RuleDecision::Allow)
    }

    /// Denies every call of the tools of a category.
    pub fn deny_category(category: ToolCategory) -> Self {
        Self::for_category(category, RuleDecision::Deny)
    }

    /// Asks about every call of the tools of a category.
    pub fn ask_for_category(category: ToolCategory) -> Self {
        Self::for_category(category, RuleDecision::AskUser)
    }

    /// Allows shell commands that begin with these words: `["git", "log"]`.
    pub fn allow_bash_prefix<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self::for_command(words, RuleDecision::Allow)
    }

    /// Denies shell commands that begin with these words, whatever options are between them.
    pub fn deny_bash_prefix<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self::for_command(words, RuleDecision::Deny)
    }

    /// Asks about shell commands that begin with these words, whatever options are between them.
    pub fn ask_for_bash_prefix<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self::for_command(words, RuleDecision::AskUser)
    }

    /// Allows access to a file, or to everything below a directory. Such a rule also allows places outside the
    /// workspace, and protected directories that it names.
    pub fn allow_path(access: Access, path: impl Into<PathBuf>) -> Self {
        Self::for_path(access, path.into(), RuleDecision::Allow)
    }

    /// Denies access to a file, or to everything below a directory.
    pub fn deny_path(access: Access, path: impl Into<PathBuf>) -> Self {
        Self::for_path(access, path.into(), RuleDecision::Deny)
    }

    /// Asks about access to a file, or to everything below a directory.
    pub fn ask_for_path(access: Access, path: impl Into<PathBuf>) -> Self {
        Self::for_path(access, path.into(), RuleDecision::AskUser)
    }

    /// Sets the id. The constructors derive one from the rule.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the scope.
    #[must_use]
    pub fn with_scope(mut self, scope: RuleScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the reason for the rule.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the file that contains it.
    #[must_use]
    pub fn with_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Returns true if the rule applies to the agent and session of the call.
    pub(super) fn applies_to(&self, facts: &CallFacts<'_>) -> bool {
        match &self.scope {
            RuleScope::Managed | RuleScope::Global | RuleScope::User => true,
            RuleScope::Agent(agent) => agent == facts.agent,
            RuleScope::Session(session) => session == facts.session_id,
        }
    }

    /// Returns a key that orders rules: the greatest one decides. The id is part of it, so that the same rule is
    /// always named.
    pub(super) fn rank(&self) -> impl Ord + use<'_> {
        let denial = match (self.decision, &self.scope) {
            (RuleDecision::Deny, RuleScope::Managed) => 2,
            (RuleDecision::Deny, _) => 1,
            (RuleDecision::AskUser | RuleDecision::Allow, _) => 0,
        };
        let scope = match self.scope {
            RuleScope::Managed => 0,
            RuleScope::Global => 1,
            RuleScope::Agent(_) => 2,
            RuleScope::Session(_) => 3,
            RuleScope::User => 4,
        };
        let specificity = self.matcher.specificity();
        let severity = Reverse(self.decision);
        (denial, scope, self.priority, specificity, severity, Reverse(self.id.as_str()))
    }

    /// Allows requests of web tools to hosts.
    pub fn allow_host(host: HostPattern) -> Self {
        let id = format!("allow host {host}");
        Self::new(id, RuleMatcher::Host(host), RuleDecision::Allow)
    }

    /// Denies requests of web tools to hosts.
    pub fn deny_host(host: HostPattern) -> Self {
        let id = format!("deny host {host}");
        Self::new(id, RuleMatcher::Host(host), RuleDecision::Deny)
    }

    fn for_tool(name: String, decision: RuleDecision) -> Self {
        let id = format!("{} tool {name}", decision.verb());
        Self::new(id, RuleMatcher::ToolName(name), decision)
    }

    fn for_category(category: ToolCategory, decision: RuleDecision) -> Self {
        let id = format!("{} category {category}", decision.verb());
        Self::new(id, RuleMatcher::ToolCategory(category), decision)
    }

    fn for_command<W: Into<String>>(
        words: impl IntoIterator<Item = W>,
        decision: RuleDecision,
    ) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        let id = format!("{} command {}", decision.verb(), words.join(" "));
        Self::new(id, RuleMatcher::CommandPrefix(words), decision)
    }

    fn for_path(access: Access, path: PathBuf, decision: RuleDecision) -> Self {
        let verb = match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        let id = format!("{} {verb} {}", decision.verb(), path.display());
        Self::new(id, RuleMatcher::Path { access, path }, decision)
    }
}

/// The condition under which a rule applies to a call or to a part of it.
///
/// A call has parts: each command of a shell line and each path that is touched. The tool, the category, a custom
/// matcher and `All` match the whole call; a prefix, a pattern and a path match single parts. A call is allowed
/// if every part is, and denied if one part is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleMatcher {
    /// Every call of this tool, or of all tools whose names begin with what stands before a `*` at the end:
    /// `mcp__github__*`. Upper and lower case are one.
    #[serde(alias = "ToolName")]
    ToolName(String),
    /// Every call of tools of this category.
    #[serde(alias = "ToolCategory")]
    ToolCategory(ToolCategory),
    /// Commands that begin with these words.
    #[serde(alias = "CommandPrefix")]
    CommandPrefix(Vec<String>),
    /// Commands (their words joined by blanks) and paths (absolute, or as seen from the working directory) in which
    /// the pattern is found. Longer ones than 16 KiB are not looked into: no pattern allows them, and one that denies or
    /// asks lets the user be asked.
    #[serde(alias = "Regex")]
    Regex(#[schemars(with = "String")] RuleRegex),
    /// Commands, as for a `regex`, but no paths.
    CommandRegex(#[schemars(with = "String")] RuleRegex),
    /// A file, or everything below a folder.
    #[serde(alias = "Path")]
    Path {
        /// How it is touched.
        access: Access,
        /// The file or folder: absolute, or relative to any root of the workspace.
        path: PathBuf,
    },
    /// Requests of web tools to a host (`docs.rs`), or to all hosts below a name (`*.example.org`); also `NAME:PORT`.
    #[serde(alias = "Host")]
    Host(HostPattern),
    /// What a function says yes to. Such a rule cannot be saved.
    #[serde(skip)]
    Custom(CustomMatcher),
    /// Every call.
    #[serde(alias = "All")]
    All,
}

impl RuleMatcher {
    /// Returns a key that orders matchers by how narrow they are.
    fn specificity(&self) -> (u8, usize) {
        match self {
            Self::All => (0, 0),
            Self::ToolCategory(_) => (1, 0),
            Self::ToolName(name) => (2, name.strip_suffix('*').map_or(usize::MAX, str::len)),
            Self::Custom(_) => (3, 0),
            Self::Regex(_) | Self::CommandRegex(_) => (4, 0),
            Self::CommandPrefix(words) => (5, words.len()),
            Self::Path { path, .. } => (5, path.components().count()),
            Self::Host(host) => (5, host.specificity()),
        }
    }
}

/// Returns true if `pattern` names the tool, or is `name*` and the tool's name begins so. Case is ignored.
pub(super) fn names_tool(pattern: &str, tool: &str) -> bool {
    let Some(start) = pattern.strip_suffix('*') else { return pattern.eq_ignore_ascii_case(tool) };
    tool.as_bytes().get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
}

/// Returns true if a rule that denies or asks about a tool applies to another one, too: to one that replaces it.
pub(super) fn restricts_tool(pattern: &str, tool: &str) -> bool {
    names_tool(pattern, tool) || replaced_by(tool).iter().any(|name| names_tool(pattern, name))
}

/// A pattern of a rule. Its size and the length of the text are limited, and thereby the time.
///
/// `\w` matches thousands of letters and takes half of the size; `(?-u:\w)`, the ASCII ones, takes almost none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RuleRegex(Regex);

/// Error for a pattern that cannot be used in a rule.
#[derive(Debug, thiserror::Error)]
#[error("the pattern `{pattern}` cannot be used")]
pub struct RegexError {
    /// The pattern, shortened.
    pub pattern: String,
    /// The error of the regex crate.
    #[source]
    pub source: Box<regex::Error>,
}

impl RuleRegex {
    /// Maximum memory of a compiled pattern, in bytes.
    const SIZE_LIMIT: usize = 1 << 16;
    /// Maximum memory of the matcher's cache, in bytes.
    const CACHE_LIMIT: usize = 1 << 20;
    /// Maximum length of a text to search, in bytes.
    const LONGEST_TEXT: usize = 16 * 1024;

    /// Compiles a pattern. Fails if it is invalid or too big.
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        RegexBuilder::new(pattern)
            .size_limit(Self::SIZE_LIMIT)
            .dfa_size_limit(Self::CACHE_LIMIT)
            .nest_limit(100)
            .build()
            .map(Self)
            .map_err(|source| RegexError { pattern: shortened(pattern), source: Box::new(source) })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Searches for the pattern. In a text that is too long the answer is [`RuleMatch::Maybe`].
    pub(super) fn find_in(&self, text: &str) -> RuleMatch {
        if text.len() > Self::LONGEST_TEXT {
            RuleMatch::Maybe
        } else {
            self.0.is_match(text).into()
        }
    }
}

impl fmt::Debug for RuleRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleRegex({})", self.as_str())
    }
}

impl PartialEq for RuleRegex {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl TryFrom<String> for RuleRegex {
    type Error = String;

    /// Includes the cause in the text, because a JSON parser passes on nothing else of the error.
    fn try_from(pattern: String) -> Result<Self, String> {
        Self::new(&pattern).map_err(|error| format!("{error}: {}", error.source))
    }
}

impl From<RuleRegex> for String {
    fn from(regex: RuleRegex) -> Self {
        regex.as_str().to_owned()
    }
}

/// A function that decides which calls a rule matches.
#[derive(Clone)]
pub struct CustomMatcher {
    name: String,
    matches: Arc<CallPredicate>,
}

type CallPredicate = dyn Fn(&CallFacts<'_>) -> bool + Send + Sync;

impl CustomMatcher {
    /// Makes a matcher of a function. The name is shown to people in errors and explanations.
    ///
    /// The function is called while a decision is drawn, for calls of several agents at once. It must not call the
    /// policy that it belongs to, which may be locked. If it panics, a rule that allows does not match, and one that
    /// denies or asks makes the policy ask the user.
    pub fn new(
        name: impl Into<String>,
        matches: impl Fn(&CallFacts<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), matches: Arc::new(matches) }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn matches(&self, facts: &CallFacts<'_>) -> RuleMatch {
        let matches = AssertUnwindSafe(|| (self.matches)(facts));
        catch_unwind(matches).map_or(RuleMatch::Maybe, RuleMatch::from)
    }
}

impl fmt::Debug for CustomMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomMatcher({})", self.name)
    }
}

impl PartialEq for CustomMatcher {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.matches, &other.matches)
    }
}

/// Shortens a text to 80 characters for use in a sentence.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
