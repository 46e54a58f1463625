//! A permission rule.

use std::{cmp::Reverse, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallFacts, RuleMatcher};
use crate::{
    ids::SessionId,
    tool_types::{Access, ToolCategory},
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
