//! Sets of rules, and their JSON.

use std::{
    collections::HashSet,
    path::{Component, Path},
};

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::{PermissionRule, RuleMatcher, RuleScope, paths::normalize_separators};

/// Rules from one source, such as a file or an agent. All of them are valid and no two have the same id.
///
/// As JSON:
///
/// ```json
/// {
///   "version": 1,
///   "rules": [
///     {
///       "id": "no-push",
///       "scope": "global",
///       "priority": 10,
///       "matcher": { "command_prefix": ["git", "push"] },
///       "decision": "deny",
///       "description": "releases are pushed by hand"
///     }
///   ]
/// }
/// ```
///
/// - `scope`, if it is not `global`: `managed`, `user`, `{"agent": NAME}`, `{"session": ID}`.
/// - `priority`, if it is not 0.
/// - `matcher`: `all`, `{"tool_name": NAME}`, `{"tool_category": NAME}`, `{"command_prefix": [WORD, ..]}`,
///   `{"regex": PATTERN}`, `{"path": {"access": "read" or "write", "path": PATH}}`, `{"host": PATTERN}`.
/// - `decision`: `allow`, `deny`, `ask_user`.
/// - `description`, if there is one.
///
/// An unknown key or name is an error, and one broken rule invalidates the whole document: no rule is ever left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleSet(Vec<PermissionRule>);

/// The rules of permissions.json.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PermissionRules")]
struct RuleSetFile<Rules> {
    /// The version of the format: 1.
    #[schemars(extend("const" = RuleSet::VERSION))]
    version: u32,
    rules: Rules,
}

/// The location of an error that is not about a single rule.
const WHOLE: &str = "the document of rules";

/// The part of the document that decides whether the rest can be read.
#[derive(Deserialize)]
struct RuleSetVersion {
    version: u32,
}

/// Error for rules that cannot be used or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The JSON is not valid, or a rule cannot be written as JSON.
    #[error("{place} cannot be parsed as JSON: {source}")]
    Json {
        /// The rule and key, as far as known.
        place: String,
        /// The JSON error, with line and column.
        source: serde_json::Error,
    },
    /// The document was written by a newer program.
    #[error("the rules have version {found}, but only version {known} is supported", known = RuleSet::VERSION)]
    Version {
        /// The version in the document.
        found: u32,
    },
    /// Two rules have one id.
    #[error("two rules have the id `{id}`")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// A rule would match nothing, or something else than it seems to.
    #[error("the rule `{id}` cannot be used: {problem}")]
    Unsound {
        /// The rule.
        id: String,
        /// The problem.
        problem: &'static str,
    },
    /// A rule contains a function.
    #[error("the rule `{id}` cannot be saved: its matcher `{matcher}` is a function")]
    Custom {
        /// The rule.
        id: String,
        /// The matcher.
        matcher: String,
    },
}

impl RuleSet {
    /// The version of the JSON document.
    pub const VERSION: u32 = 1;

    /// Makes a set of rules. Fails if a rule is unsound or two have the same id.
    pub fn new(rules: impl IntoIterator<Item = PermissionRule>) -> Result<Self, RuleError> {
        let rules = rules.into_iter().map(validate_rule).collect::<Result<Vec<_>, _>>()?;
        let mut ids = HashSet::new();
        for rule in &rules {
            if !ids.insert(rule.id.as_str()) {
                return Err(RuleError::DuplicateId { id: rule.id.clone() });
            }
        }
        Ok(Self(rules))
    }

    /// Returns the rules in the order in which they were given, which has no meaning.
    pub fn rules(&self) -> &[PermissionRule] {
        &self.0
    }

    /// Returns the rules.
    pub fn into_rules(self) -> Vec<PermissionRule> {
        self.0
    }

    /// Returns the JSON Schema of the document.
    pub fn schema() -> Schema {
        schema_for!(RuleSetFile<Vec<PermissionRule>>)
    }

    /// Parses the JSON document.
    pub fn from_json(text: &str) -> Result<Self, RuleError> {
        let head: RuleSetVersion = serde_json::from_str(text)
            .map_err(|source| RuleError::Json { place: WHOLE.to_owned(), source })?;
        if head.version != Self::VERSION {
            return Err(RuleError::Version { found: head.version });
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let document: RuleSetFile<Vec<PermissionRule>> =
            serde_path_to_error::deserialize(&mut json).map_err(|error| RuleError::Json {
                place: place(text, error.path()),
                source: error.into_inner(),
            })?;
        Self::new(document.rules)
    }

    /// Formats the JSON document. Fails if a rule contains a function.
    pub fn to_json(&self) -> Result<String, RuleError> {
        for rule in &self.0 {
            if let RuleMatcher::Custom(matcher) = &rule.matcher {
                let (id, matcher) = (rule.id.clone(), matcher.name().to_owned());
                return Err(RuleError::Custom { id, matcher });
            }
        }
        let document = RuleSetFile { version: Self::VERSION, rules: &self.0 };
        serde_json::to_string_pretty(&document)
            .map_err(|source| RuleError::Json { place: WHOLE.to_owned(), source })
    }
}

/// Checks a rule and normalizes its path. Fails if it would never match, or match something else than it seems to.
pub(super) fn validate_rule(mut rule: PermissionRule) -> Result<PermissionRule, RuleError> {
    if rule.id.is_empty() {
        return Err(RuleError::Unsound { id: String::new(), problem: "its id is empty" });
    }
    // 1) The scope must name something.
    match &rule.scope {
        RuleScope::Agent(name) if name.is_empty() => {
            return Err(RuleError::Unsound { id: rule.id, problem: "the agent has no name" });
        }
        RuleScope::Session(session) if session.as_str().is_empty() => {
            return Err(RuleError::Unsound { id: rule.id, problem: "the session has no id" });
        }
        RuleScope::Managed
        | RuleScope::Global
        | RuleScope::User
        | RuleScope::Agent(_)
        | RuleScope::Session(_) => {}
    }
    // 2) The matcher must be able to match.
    let problem = match &rule.matcher {
        RuleMatcher::ToolName(name) if name.trim().is_empty() => Some("the tool has no name"),
        RuleMatcher::CommandPrefix(words) if words.first().is_none_or(String::is_empty) => {
            Some("the command has no first word")
        }
        RuleMatcher::CommandPrefix(words) if words.iter().any(String::is_empty) => {
            Some("a word of the command is empty")
        }
        RuleMatcher::CommandPrefix(words)
            if words.first().is_some_and(|word| word.contains(char::is_whitespace)) =>
        {
            Some(
                "there is a blank in the first word of the command; write `git push` as two words: [\"git\", \"push\"]",
            )
        }
        RuleMatcher::Path { path, .. } if path.to_string_lossy().starts_with('~') => {
            Some("`~` is not expanded in a path; write the folder out")
        }
        RuleMatcher::Path { path, .. } if !is_clean(path) => {
            Some("the path is empty or has `.` or `..` in it")
        }
        RuleMatcher::Path { path, .. } if has_star(folder_of_pattern(path)) => Some(
            "a path cannot be a pattern; write `secrets` for the folder with its contents, or a `regex` for files of a name in any folder: \"(^|/)secrets/\"",
        ),
        RuleMatcher::ToolName(_)
        | RuleMatcher::ToolCategory(_)
        | RuleMatcher::Host(_)
        | RuleMatcher::CommandPrefix(_)
        | RuleMatcher::Regex(_)
        | RuleMatcher::CommandRegex(_)
        | RuleMatcher::Path { .. }
        | RuleMatcher::Custom(_)
        | RuleMatcher::All => None,
    };
    if let Some(problem) = problem {
        return Err(RuleError::Unsound { id: rule.id, problem });
    }
    // 3) Paths are compared byte by byte, so they are stored in one form.
    if let RuleMatcher::Path { path, .. } = &mut rule.matcher {
        *path = normalize_separators(folder_of_pattern(path)).into_owned();
    }
    Ok(rule)
}

/// Returns the directory of `folder/**`, which means the same as its path alone.
fn folder_of_pattern(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if path.ends_with("**") && !folder.as_os_str().is_empty() => folder,
        Some(_) | None => path,
    }
}

/// Returns true if a component of a path begins or ends with a star, as in patterns of other programs.
fn has_star(path: &Path) -> bool {
    path.components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        part.starts_with('*') || part.ends_with('*')
    })
}

fn is_clean(path: &Path) -> bool {
    path.components().next().is_some()
        && path.components().all(|part| !matches!(part, Component::CurDir | Component::ParentDir))
}

/// Returns the location of an error: the path in the document, and the rule's id if it has one.
fn place(text: &str, path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    let index = path.iter().find_map(|segment| match segment {
        Segment::Seq { index } => Some(*index),
        Segment::Map { .. } | Segment::Enum { .. } | Segment::Unknown => None,
    });
    let id = index.and_then(|index| {
        let document: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(document.get("rules")?.get(index)?.get("id")?.as_str()?.to_owned())
    });
    match (path.iter().next(), id) {
        (None, _) => WHOLE.to_owned(),
        (Some(_), None) => path.to_string(),
        (Some(_), Some(id)) => format!("{path} (the rule `{id}`)"),
    }
}
