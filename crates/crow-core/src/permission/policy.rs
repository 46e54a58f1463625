//! The decision about a call.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Ask, Denial, DenialSource, Permit};
use crate::{
    ids::{CallId, SessionId},
    tool::{Access, CallPlan, Effects, PathEffect, ToolCategory},
    workspace::Workspace,
};

/// What happens to a call of which no rule speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads in the workspace pass, everything else is asked.
    #[default]
    Ask,
    /// Changes of files in the workspace pass too.
    AcceptEdits,
    /// Only reads pass, and nothing is asked about writes and commands: they are refused.
    ReadOnly,
    /// Everything passes.
    FullAuto,
}

impl PermissionMode {
    /// All modes, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::ReadOnly, Self::FullAuto];

    /// Returns the name in configuration and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::ReadOnly => "read-only",
            Self::FullAuto => "full-auto",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| format!("unknown mode; known are {}", known()))
    }
}

/// What the policy knows of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// The call.
    pub call_id: &'a CallId,
    /// The session of the agent that wants to make it.
    pub session_id: &'a SessionId,
    /// That agent's name.
    pub agent: &'a str,
    /// Its arguments.
    pub input: &'a Value,
    /// The tool's name.
    pub tool: &'a str,
    /// The tool's category.
    pub category: ToolCategory,
    /// Whether the tool wants permission by default.
    pub requires_permission: bool,
    /// What the call would do.
    pub plan: &'a CallPlan,
}

/// What the policy says to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow(Permit),
    /// The user is to be asked.
    Ask(Ask),
    /// It may not run.
    Deny(Denial),
}

/// Decides about calls.
#[derive(Debug, Clone, Default)]
pub struct PermissionPolicy {
    mode: PermissionMode,
    readable: Vec<std::path::PathBuf>,
}

/// What a call does, as far as modes tell calls apart.
enum Reach {
    Session,
    ReadInside,
    ReadOutside,
    WriteInside,
    /// Inside, but of a kind that starts programs or rules over agents.
    WriteProtected,
    WriteOutside,
    Anything,
}

impl PermissionPolicy {
    /// Makes a policy of a mode alone.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, readable: Vec::new() }
    }

    /// Lets reads of a folder outside the workspace pass: the session's own output files.
    #[must_use]
    pub fn with_readable(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.readable.push(folder.into());
        self
    }

    /// Lets reads of a folder outside the workspace pass.
    pub fn add_readable(&mut self, folder: impl Into<std::path::PathBuf>) {
        self.readable.push(folder.into());
    }

    /// Sets the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.mode = mode;
    }

    /// Returns the mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Decides about a call.
    pub fn decide(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Decision {
        let permit = Permit::new(facts.call_id, facts.input);
        let reach = self.reach(facts, workspace);
        let ask = |reason: &str| {
            Decision::Ask(Ask::new(reason.to_owned(), Permit::new(facts.call_id, facts.input)))
        };
        match (self.mode, reach) {
            (_, Reach::Session | Reach::ReadInside)
            | (PermissionMode::FullAuto, _)
            | (PermissionMode::AcceptEdits, Reach::WriteInside) => Decision::Allow(permit),
            (
                PermissionMode::ReadOnly,
                Reach::WriteInside | Reach::WriteProtected | Reach::WriteOutside | Reach::Anything,
            ) => Decision::Deny(Denial {
                source: DenialSource::Policy,
                reason: format!("the mode is read-only and {} is not a read", facts.tool),
            }),
            (_, _) if !facts.requires_permission => Decision::Allow(permit),
            (_, Reach::ReadOutside) => ask("it reads outside the workspace"),
            (_, Reach::WriteInside) => ask("it changes files"),
            (_, Reach::WriteProtected) => ask(
                "it changes settings of git, an editor, an agent or the CI, which start programs",
            ),
            (_, Reach::WriteOutside) => ask("it changes files outside the workspace"),
            (_, Reach::Anything) if facts.category == ToolCategory::Network => {
                ask("it uses the network")
            }
            (_, Reach::Anything) => ask("it runs a command"),
        }
    }

    fn reach(&self, facts: CallFacts<'_>, workspace: &Workspace) -> Reach {
        match (&facts.plan.effects, facts.category) {
            (Effects::None, ToolCategory::Session | ToolCategory::Agent) => Reach::Session,
            (Effects::None, ToolCategory::Read) => Reach::ReadInside,
            (Effects::Paths(paths), _) => {
                let inside = paths.iter().all(|effect| {
                    workspace.contains(&effect.path) || self.may_read(effect.access, &effect.path)
                });
                let writes = paths.iter().any(|effect| effect.access == Access::Write);
                match (writes, inside) {
                    (false, true) => Reach::ReadInside,
                    (false, false) => Reach::ReadOutside,
                    (true, true) if paths.iter().any(|effect| is_protected(effect, workspace)) => {
                        Reach::WriteProtected
                    }
                    (true, true) => Reach::WriteInside,
                    (true, false) => Reach::WriteOutside,
                }
            }
            (Effects::Unknown, _)
            | (
                Effects::None,
                ToolCategory::Write | ToolCategory::Execute | ToolCategory::Network,
            ) => Reach::Anything,
        }
    }

    fn may_read(&self, access: Access, path: &std::path::Path) -> bool {
        access == Access::Read && self.readable.iter().any(|folder| path.starts_with(folder))
    }
}

/// Folders whose files start programs or rule over agents. Changes of them are asked about also where edits pass.
const PROTECTED: [&str; 8] =
    [".git", ".crow-agent", ".vscode", ".idea", ".zed", ".claude", ".opencode", ".github"];

/// Whether a write goes below such a folder, seen from the workspace's root: the root itself may lie in one.
fn is_protected(effect: &PathEffect, workspace: &Workspace) -> bool {
    let below = workspace
        .roots()
        .iter()
        .find_map(|root| effect.path.strip_prefix(root).ok())
        .unwrap_or(&effect.path);
    let is_one = |name: &std::ffi::OsStr| {
        PROTECTED.iter().any(|protected| name.eq_ignore_ascii_case(protected))
    };
    effect.access == Access::Write
        && below.components().any(|component| is_one(component.as_os_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Subject;

    fn decide(mode: PermissionMode, category: ToolCategory, effects: Effects) -> &'static str {
        let plan = CallPlan { title: "t".into(), effects, subject: Subject::Nothing };
        let (call_id, input) = (CallId::new("c"), serde_json::json!({}));
        let facts = CallFacts {
            call_id: &call_id,
            session_id: &SessionId::new("s"),
            agent: "builder",
            input: &input,
            tool: "t",
            category,
            requires_permission: true,
            plan: &plan,
        };
        match PermissionPolicy::new(mode)
            .with_readable("/scratch")
            .decide(facts, &Workspace::new("/p"))
        {
            Decision::Allow(permit) => {
                assert!(permit.covers(&call_id, &input));
                "allow"
            }
            Decision::Ask(_) => "ask",
            Decision::Deny(_) => "deny",
        }
    }

    fn path(path: &str, access: Access) -> Effects {
        Effects::Paths(vec![PathEffect { path: path.into(), access }])
    }

    #[test]
    fn each_mode_decides_as_documented() {
        use {
            Access::{Read, Write},
            ToolCategory as C,
        };
        let calls = [
            ("todo", C::Session, Effects::None),
            ("read inside", C::Read, path("/p/a", Read)),
            ("read scratch", C::Read, path("/scratch/a", Read)),
            ("read outside", C::Read, path("/etc/passwd", Read)),
            ("write inside", C::Write, path("/p/a", Write)),
            ("write protected", C::Write, path("/p/.git/config", Write)),
            ("write scratch", C::Write, path("/scratch/a", Write)),
            ("command", C::Execute, Effects::Unknown),
        ];
        let expected = [
            (PermissionMode::Ask, ["allow", "allow", "allow", "ask", "ask", "ask", "ask", "ask"]),
            (
                PermissionMode::AcceptEdits,
                ["allow", "allow", "allow", "ask", "allow", "ask", "ask", "ask"],
            ),
            (
                PermissionMode::ReadOnly,
                ["allow", "allow", "allow", "ask", "deny", "deny", "deny", "deny"],
            ),
            (
                PermissionMode::FullAuto,
                ["allow", "allow", "allow", "allow", "allow", "allow", "allow", "allow"],
            ),
        ];
        for (mode, row) in expected {
            for ((name, category, effects), want) in calls.iter().zip(row) {
                assert_eq!(decide(mode, *category, effects.clone()), want, "{mode}: {name}");
            }
        }
    }

    #[test]
    fn a_permit_covers_no_other_call_and_no_other_input() {
        let permit = Permit::new(&CallId::new("a"), &serde_json::json!({"x": 1}));
        assert!(!permit.covers(&CallId::new("b"), &serde_json::json!({"x": 1})));
        assert!(!permit.covers(&CallId::new("a"), &serde_json::json!({"x": 2})));
    }
}
