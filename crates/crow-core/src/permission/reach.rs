//! How far a call reaches, as far as modes tell calls apart.

use std::path::{Path, PathBuf};

use super::{
    CallFacts, PermissionMode, RuleDecision, command::only_reads, evaluate::Setting,
    policy::Containment,
};
use crate::{
    tool::{
        Access, CommandLine, CommandMeaning, Depth, Effects, Redirect, Subject, ToolCategory, Touch,
    },
    workspace::{PROTECTED, Workspace},
};

/// Why a command is asked about of which nothing else is to be said.
pub(super) const RUNS_A_COMMAND: &str = "it runs a command";

/// What a call does, as far as modes tell calls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Session,
    ReadInside,
    ReadOutside,
    WriteInside,
    /// Inside, but of a kind that starts programs or rules over agents.
    WriteProtected,
    WriteOutside,
    Anything,
}

impl Reach {
    /// Returns how far a call reaches.
    pub(super) fn of(facts: &CallFacts<'_>, setting: &Setting<'_>) -> Self {
        let Setting { workspace, readable, .. } = *setting;
        if let Subject::Command(line) = &facts.plan.subject
            && is_read(line, setting)
        {
            return Self::ReadInside;
        }
        let Effects::Paths(paths) = &facts.plan.effects else {
            return match (&facts.plan.effects, facts.category) {
                (Effects::None, ToolCategory::Session | ToolCategory::Agent)
                | (Effects::UserCommands, _) => Self::Session,
                (Effects::None, ToolCategory::Read) => Self::ReadInside,
                (Effects::Paths(_) | Effects::Unknown, _)
                | (
                    Effects::None,
                    ToolCategory::Write
                    | ToolCategory::Execute
                    | ToolCategory::Network
                    | ToolCategory::External,
                ) => Self::Anything,
            };
        };
        // Paths say nothing about what a program does, or what is sent elsewhere.
        if matches!(
            facts.category,
            ToolCategory::Execute | ToolCategory::Network | ToolCategory::External
        ) {
            return Self::Anything;
        }
        let inside =
            paths.iter().all(|effect| is_inside(&effect.path, effect.access, workspace, readable));
        let writes = paths.iter().any(|effect| effect.access == Access::Write);
        let protected = paths
            .iter()
            .any(|effect| effect.access == Access::Write && is_protected(&effect.path, workspace));
        match (writes, inside) {
            (false, true) => Self::ReadInside,
            (false, false) => Self::ReadOutside,
            (true, true) if protected => Self::WriteProtected,
            (true, true) => Self::WriteInside,
            (true, false) => Self::WriteOutside,
        }
    }

    /// Returns how far it reaches when a command touches a file or folder.
    pub(super) fn of_touch(touch: &Touch, workspace: &Workspace, readable: &[PathBuf]) -> Self {
        let reach = Self::of_path(&touch.path, touch.access, workspace, readable);
        // The protected folders are in it.
        match (reach, touch.depth) {
            (Self::WriteInside, Depth::Below) if workspace.roots().contains(&touch.path) => {
                Self::WriteProtected
            }
            (reach, Depth::Itself | Depth::Below) => reach,
        }
    }

    /// Returns how far touching one path reaches.
    pub(super) fn of_path(
        path: &Path,
        access: Access,
        workspace: &Workspace,
        readable: &[PathBuf],
    ) -> Self {
        let inside = is_inside(path, access, workspace, readable);
        match (access, inside) {
            (Access::Read, true) => Self::ReadInside,
            (Access::Read, false) => Self::ReadOutside,
            (Access::Write, true) if is_protected(path, workspace) => Self::WriteProtected,
            (Access::Write, true) => Self::WriteInside,
            (Access::Write, false) => Self::WriteOutside,
        }
    }

    /// Returns whether a rule must name the path: allowing a tool or everything does not open such places.
    pub(super) fn is_guarded(self) -> bool {
        match self {
            Self::ReadOutside | Self::WriteProtected | Self::WriteOutside => true,
            Self::Session | Self::ReadInside | Self::WriteInside | Self::Anything => false,
        }
    }

    /// Returns whether something may change.
    pub(super) fn changes(self) -> bool {
        match self {
            Self::WriteInside | Self::WriteProtected | Self::WriteOutside | Self::Anything => true,
            Self::Session | Self::ReadInside | Self::ReadOutside => false,
        }
    }
}

/// Returns what a mode says to a call of which no rule speaks, and why.
pub(super) fn by_mode(
    mode: PermissionMode,
    containment: Containment,
    reach: Reach,
    facts: &CallFacts<'_>,
) -> (RuleDecision, &'static str) {
    let allow = |reason| (RuleDecision::Allow, reason);
    let ask = |reason| (RuleDecision::AskUser, reason);
    match (mode, reach) {
        (PermissionMode::ReadOnly, Reach::Anything)
            if containment.holds_all && facts.category == ToolCategory::Execute =>
        {
            allow("the sandbox lets it change nothing")
        }
        (PermissionMode::ReadOnly, reach) if reach.changes() => {
            (RuleDecision::Deny, "it is not a read")
        }
        (_, Reach::Session) => allow("it touches only the session"),
        (_, Reach::ReadInside) => allow("it reads in the workspace"),
        (_, Reach::Anything)
            if containment.is_missing && facts.category == ToolCategory::Execute =>
        {
            ask("no sandbox holds the command")
        }
        (PermissionMode::FullAuto, _) => allow("everything passes"),
        (PermissionMode::AcceptEdits, Reach::WriteInside) => {
            allow("it changes files in the workspace")
        }
        (_, _) if !facts.requires_permission => allow("the tool needs no permission"),
        (_, Reach::ReadOutside) => ask("it reads outside the workspace"),
        (_, Reach::WriteInside) => ask("it changes files"),
        (_, Reach::WriteProtected) => {
            ask("it changes settings of git, an editor, an agent or the CI, which start programs")
        }
        (_, Reach::WriteOutside) => ask("it changes files outside the workspace"),
        (_, Reach::Anything) if facts.category == ToolCategory::Network => {
            ask("it uses the network")
        }
        (_, Reach::Anything) if facts.category == ToolCategory::External => {
            ask("a server outside of the sandbox does it")
        }
        (_, Reach::Anything) => ask(RUNS_A_COMMAND),
    }
}

/// Whether a shell line reads files in the workspace, and does nothing else.
fn is_read(line: &CommandLine, setting: &Setting<'_>) -> bool {
    let Setting { workspace, readable, .. } = *setting;
    let CommandMeaning::Commands(commands) = &line.meaning else { return false };
    let may_start = line.folder.as_ref().is_none_or(|folder| workspace.contains(folder));
    let may_touch =
        |touch: &Touch| Reach::of_touch(touch, workspace, readable) == Reach::ReadInside;
    let may_redirect = |redirect: &Redirect| {
        let reads = |path: &PathBuf| {
            redirect.access == Access::Read
                && Reach::of_path(path, Access::Read, workspace, readable) == Reach::ReadInside
        };
        redirect.is_device() || redirect.path.as_ref().is_some_and(reads)
    };
    may_start
        && !commands.is_empty()
        && commands.iter().all(|command| {
            only_reads(command, setting.containment)
                && command.touches.iter().all(may_touch)
                && command.redirects.iter().all(may_redirect)
        })
}

/// Whether a path lies in the workspace or may be read. One that is relative, or goes up again, may lie anywhere.
fn is_inside(path: &Path, access: Access, workspace: &Workspace, readable: &[PathBuf]) -> bool {
    let is_clear = path.is_absolute()
        && !path
            .as_os_str()
            .as_encoded_bytes()
            .split(|byte| std::path::is_separator(char::from(*byte)))
            .any(|part| part == b"." || part == b"..");
    let may_read =
        || access == Access::Read && readable.iter().any(|folder| path.starts_with(folder));
    is_clear && (workspace.contains(path) || may_read())
}

/// Whether a path is or lies in one of the [`PROTECTED`] or in `.git`, seen from the workspace's root: the root itself may lie in one.
pub(super) fn is_protected(path: &Path, workspace: &Workspace) -> bool {
    let below =
        workspace.roots().iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
    below.components().any(|component| {
        let name = component.as_os_str();
        protected().any(|protected| name.eq_ignore_ascii_case(protected))
            || !name.is_ascii() && {
                let name = folded(&name.to_string_lossy());
                protected().any(|protected| *protected == name)
            }
    })
}

fn protected() -> impl Iterator<Item = &'static &'static str> {
    PROTECTED.iter().chain(&[".git"])
}

/// A name as file systems see it that do not tell letters apart: some leave invisible characters away, too.
fn folded(name: &str) -> String {
    let is_ignored = |char: char| {
        matches!(
            char,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
    };
    let letters = name.chars().filter(|char| !is_ignored(*char));
    let folded = letters.map(|char| if char == '\u{17f}' { 's' } else { char });
    folded.flat_map(char::to_lowercase).collect()
}
