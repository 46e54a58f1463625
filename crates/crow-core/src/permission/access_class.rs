//! Access classes: what a call reaches, as far as permission modes distinguish it.
//!
//! [`AccessClass::of_call`] maps a call to the classes of its paths (by region of the sandbox and protected names) plus
//! one for the call as a whole, if its paths do not tell everything. [`by_mode`] takes the mode's strictest decision
//! over them.

use std::path::{Path, PathBuf};

use super::{
    CallFacts, PermissionMode, RuleDecision,
    command::{base_name, only_reads},
    evaluate::DecisionContext,
    is_secret_file, is_secret_file_in,
    paths::Region,
};
use crate::{
    network::HostAddress,
    protected::{ProtectedKind, protected_kind},
    tool_types::{
        Access, CommandLine, CommandMeaning, CommandWord, Effects, PathTouch, Redirect, Subject,
        ToolCategory, TouchDepth,
    },
};

/// Reason to ask about a command if there is no more specific one.
pub(super) const RUNS_A_COMMAND: &str = "it runs a command";
/// Reason to ask about a file such as `.env`.
const NAMED_LIKE_KEYS: &str = "the file name suggests keys or passwords";

/// A class of access that a mode decides about as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessClass {
    /// Only the session itself.
    Session,
    /// A read in the workspace or of the session's own output.
    ReadInside,
    /// In the workspace, a file whose name suggests keys.
    ReadSecret,
    /// Outside the workspace, where commands can read, too.
    ReadOutside,
    /// A read where commands cannot read.
    ReadHidden,
    WriteInside,
    /// In the workspace, a file whose name suggests keys.
    WriteSecret,
    /// In the workspace, a file that instructs agents. Commands can change it.
    WriteInstructions,
    /// Outside the workspace or protected in it, but the user lets commands change it.
    WriteReleased,
    /// A write where commands could write, but of a file that starts programs.
    WriteProtected,
    /// A write where commands cannot write.
    WriteOutside,
    /// A write where commands can neither read nor write.
    WriteHidden,
    /// A request to a host that the user lets everything in the session reach.
    HostAllowed,
    /// A request to any other host.
    HostElsewhere,
    /// Any effect, as of a program.
    Anything,
}

impl AccessClass {
    /// Returns the access classes of a call, one per path if it touches several. There is at least one; the strictest
    /// counts.
    pub(super) fn of_call(facts: &CallFacts<'_>, setting: &DecisionContext<'_>) -> Vec<Self> {
        // 1) A shell line that only reads in the workspace.
        if let Subject::Command(line) = &facts.plan.subject
            && is_read(line, setting)
        {
            return vec![Self::ReadInside];
        }
        // 2) The paths that the call touches or is about.
        let touched: Vec<Self> = match (&facts.plan.effects, &facts.plan.subject) {
            (Effects::Paths(paths), _) => {
                let decisive = paths.iter().filter(|it| !it.is_read_of_written(paths));
                decisive.map(|it| Self::of_path(&it.path, it.access, setting)).collect()
            }
            (Effects::Unknown, Subject::Path(path)) => {
                vec![Self::of_path(path, subject_access(facts.category), setting)]
            }
            (Effects::Unknown | Effects::None | Effects::UserCommands, _) => Vec::new(),
        };
        let host = match &facts.plan.subject {
            Subject::Host(host) => Some(Self::of_host(host, setting)),
            Subject::Nothing | Subject::Path(_) | Subject::Command(_) => None,
        };
        // 3) The call as a whole, if its paths do not cover all that it does.
        let overall = match (&facts.plan.effects, facts.category) {
            // Its subject is all that it does.
            (Effects::None, ToolCategory::Network)
                if matches!(facts.plan.subject, Subject::Host(_)) =>
            {
                None
            }
            // Paths do not cover what a program does, or what is sent elsewhere.
            (
                Effects::Paths(_),
                ToolCategory::Execute | ToolCategory::Network | ToolCategory::External,
            )
            | (Effects::Unknown, _)
            | (
                Effects::None,
                ToolCategory::Write
                | ToolCategory::Execute
                | ToolCategory::Network
                | ToolCategory::External,
            ) => Some(Self::Anything),
            (Effects::None, ToolCategory::Session | ToolCategory::Agent)
            | (Effects::UserCommands, _) => Some(Self::Session),
            (Effects::None, ToolCategory::Read) => Some(Self::ReadInside),
            (
                Effects::Paths(_),
                ToolCategory::Read
                | ToolCategory::Write
                | ToolCategory::Session
                | ToolCategory::Agent,
            ) => touched.is_empty().then_some(Self::ReadInside),
        };
        overall.into_iter().chain(host).chain(touched).collect()
    }

    fn of_host(host: &HostAddress, setting: &DecisionContext<'_>) -> Self {
        if setting.network.allows(host) { Self::HostAllowed } else { Self::HostElsewhere }
    }

    /// Returns the access class of a file or directory that a command touches.
    pub(super) fn of_touch(touch: &PathTouch, setting: &DecisionContext<'_>) -> Self {
        let reach = Self::of_redirect(&touch.path, touch.access, setting);
        // A root contains its protected directories, so changing what is below it changes them.
        match (reach, touch.depth) {
            (Self::WriteInside, TouchDepth::Below)
                if setting.workspace.roots().contains(&touch.path) =>
            {
                Self::WriteProtected
            }
            (reach, TouchDepth::Itself | TouchDepth::Below | TouchDepth::Within) => reach,
        }
    }

    /// Returns the access class of a path that a command reads from or writes to. A name that suggests keys is
    /// ignored here: it was judged with the command, which then does not count as a read, so that the command itself
    /// is asked about.
    pub(super) fn of_redirect(path: &Path, access: Access, setting: &DecisionContext<'_>) -> Self {
        match Self::of_path(path, access, setting) {
            Self::ReadSecret | Self::ReadInside => Self::ReadInside,
            Self::WriteSecret | Self::WriteInside => Self::WriteInside,
            reach @ (Self::Session
            | Self::ReadOutside
            | Self::ReadHidden
            | Self::WriteInstructions
            | Self::WriteReleased
            | Self::WriteProtected
            | Self::WriteOutside
            | Self::WriteHidden
            | Self::HostAllowed
            | Self::HostElsewhere
            | Self::Anything) => reach,
        }
    }

    /// Returns the access class of one path.
    pub(super) fn of_path(path: &Path, access: Access, setting: &DecisionContext<'_>) -> Self {
        let DecisionContext { workspace, sandbox_paths: places, .. } = *setting;
        // A path that may lead anywhere gets the strict class.
        if !is_unambiguous(path) {
            return match access {
                Access::Read => Self::ReadHidden,
                Access::Write => Self::WriteOutside,
            };
        }
        let is_secret = || is_secret_file_in(path, workspace);
        match (access, places.region(path, workspace)) {
            (Access::Read, Region::Workspace | Region::Readable) if is_secret() => Self::ReadSecret,
            (Access::Read, Region::Workspace | Region::Readable) => Self::ReadInside,
            (Access::Read, Region::Writable | Region::Elsewhere) => Self::ReadOutside,
            (Access::Read, Region::Hidden) => Self::ReadHidden,
            (Access::Write, Region::Workspace) => match kind_of(path, setting) {
                Some(_) if places.is_unprotected(path, workspace) => Self::WriteReleased,
                Some(ProtectedKind::StartsPrograms) => Self::WriteProtected,
                Some(ProtectedKind::InstructsAgents) => Self::WriteInstructions,
                None if is_secret() => Self::WriteSecret,
                None => Self::WriteInside,
            },
            (Access::Write, Region::Writable) => match kind_of(path, setting) {
                Some(ProtectedKind::StartsPrograms) => Self::WriteProtected,
                Some(ProtectedKind::InstructsAgents) | None => Self::WriteReleased,
            },
            (Access::Write, Region::Readable | Region::Elsewhere) => Self::WriteOutside,
            (Access::Write, Region::Hidden) => Self::WriteHidden,
        }
    }

    /// Returns true if a rule must name the path: allowing a tool or everything does not allow such a path.
    pub(super) fn is_guarded(self) -> bool {
        match self {
            Self::ReadSecret
            | Self::ReadOutside
            | Self::ReadHidden
            | Self::WriteSecret
            | Self::WriteInstructions
            | Self::WriteReleased
            | Self::WriteProtected
            | Self::WriteOutside
            | Self::WriteHidden => true,
            Self::Session
            | Self::ReadInside
            | Self::WriteInside
            | Self::HostAllowed
            | Self::HostElsewhere
            | Self::Anything => false,
        }
    }

    /// Returns true if commands cannot reach the place or host either, so that no mode allows it.
    pub(super) fn is_denied_by_sandbox(self) -> bool {
        match self {
            Self::ReadHidden
            | Self::WriteProtected
            | Self::WriteOutside
            | Self::WriteHidden
            | Self::HostElsewhere => true,
            Self::Session
            | Self::ReadInside
            | Self::ReadSecret
            | Self::ReadOutside
            | Self::WriteInside
            | Self::WriteSecret
            | Self::WriteInstructions
            | Self::WriteReleased
            | Self::HostAllowed
            | Self::Anything => false,
        }
    }

    /// Returns true if the access may change something.
    pub(super) fn changes(self) -> bool {
        match self {
            Self::WriteInside
            | Self::WriteSecret
            | Self::WriteInstructions
            | Self::WriteReleased
            | Self::WriteProtected
            | Self::WriteOutside
            | Self::WriteHidden
            | Self::Anything => true,
            Self::Session
            | Self::ReadInside
            | Self::ReadSecret
            | Self::ReadOutside
            | Self::ReadHidden
            | Self::HostAllowed
            | Self::HostElsewhere => false,
        }
    }
}

/// Returns the access that a tool is assumed to have to the path that its call is about.
pub(super) fn subject_access(category: ToolCategory) -> Access {
    match category {
        ToolCategory::Read => Access::Read,
        ToolCategory::Write
        | ToolCategory::Execute
        | ToolCategory::Network
        | ToolCategory::Session
        | ToolCategory::Agent
        | ToolCategory::External => Access::Write,
    }
}

/// Returns the mode's decision on a call that no rule matches, and the reason.
pub(super) fn by_mode(
    setting: &DecisionContext<'_>,
    facts: &CallFacts<'_>,
) -> (RuleDecision, &'static str) {
    let reaches = AccessClass::of_call(facts, setting);
    let decisions = reaches.into_iter().map(|reach| of_reach(reach, setting, facts));
    // The strictest decision is the smallest; of several equally strict ones the first gives the reason.
    decisions
        .min_by_key(|(decision, _)| *decision)
        .unwrap_or((RuleDecision::AskUser, RUNS_A_COMMAND))
}

/// Returns the mode's decision on one access of a call.
fn of_reach(
    reach: AccessClass,
    setting: &DecisionContext<'_>,
    facts: &CallFacts<'_>,
) -> (RuleDecision, &'static str) {
    let DecisionContext { mode, containment, .. } = *setting;
    let allow = |reason| (RuleDecision::Allow, reason);
    let ask = |reason| (RuleDecision::AskUser, reason);
    match (mode, reach) {
        (PermissionMode::ReadOnly, AccessClass::Anything)
            if containment.confines_all && facts.category == ToolCategory::Execute =>
        {
            if names_secret(&facts.plan.subject) {
                ask(NAMED_LIKE_KEYS)
            } else if reads_outside(&facts.plan.subject, setting) {
                ask(RUNS_A_COMMAND)
            } else {
                allow("the sandbox lets it change nothing")
            }
        }
        (PermissionMode::ReadOnly, reach) if reach.changes() => {
            (RuleDecision::Deny, "it is not read-only")
        }
        (_, AccessClass::Session) => allow("it touches only the session"),
        (_, AccessClass::ReadInside) => allow("it reads in the workspace"),
        (_, AccessClass::HostAllowed) => allow("the settings allow the host"),
        (_, AccessClass::HostElsewhere) => ask("it sends a request to a host of the internet"),
        (_, AccessClass::Anything)
            if containment.is_missing && facts.category == ToolCategory::Execute =>
        {
            ask("no sandbox confines the command")
        }
        (PermissionMode::FullAuto, reach) if !reach.is_denied_by_sandbox() => {
            allow("the sandbox lets commands do the same")
        }
        (PermissionMode::AcceptEdits, AccessClass::WriteInside) => {
            allow("it changes files in the workspace")
        }
        (_, AccessClass::WriteInside | AccessClass::Anything) if !facts.requires_permission => {
            allow("the tool needs no permission")
        }
        (_, AccessClass::ReadSecret | AccessClass::WriteSecret) => ask(NAMED_LIKE_KEYS),
        (_, AccessClass::ReadOutside) => ask("it reads outside the workspace"),
        (_, AccessClass::ReadHidden) => {
            ask("it reads a place hidden from commands, with keys or the agent's own files")
        }
        (_, AccessClass::WriteInside) => ask("it changes files"),
        (_, AccessClass::WriteInstructions | AccessClass::WriteProtected) => {
            ask("it changes a file that starts programs or instructs agents")
        }
        (_, AccessClass::WriteReleased) => {
            ask("it changes files that only commands may change without asking")
        }
        (_, AccessClass::WriteOutside) => ask("it changes files outside the workspace"),
        (_, AccessClass::WriteHidden) => {
            ask("it changes a place hidden from commands, with keys or the agent's own files")
        }
        (_, AccessClass::Anything) if facts.category == ToolCategory::Network => {
            ask("it uses the network")
        }
        (_, AccessClass::Anything) if facts.category == ToolCategory::External => {
            ask("it runs on a server outside of the sandbox")
        }
        (_, AccessClass::Anything) => ask(RUNS_A_COMMAND),
    }
}

/// Returns true if a call reaches nothing that a rule must name, and no file whose name suggests keys.
pub(super) fn is_unguarded(setting: &DecisionContext<'_>, facts: &CallFacts<'_>) -> bool {
    AccessClass::of_call(facts, setting).into_iter().all(|reach| !reach.is_guarded())
        && !names_secret(&facts.plan.subject)
}

/// Returns true if a command is known to touch a file whose name suggests keys.
fn names_secret(subject: &Subject) -> bool {
    let Subject::Command(CommandLine { meaning: CommandMeaning::Commands(commands), .. }) = subject
    else {
        return false;
    };
    commands.iter().any(|command| {
        let redirects = command.redirects.iter().filter_map(|redirect| redirect.path.as_ref());
        let touches = command.touches.iter().map(|touch| &touch.path);
        touches.chain(redirects).any(|path| is_secret_file(path))
    })
}

/// Returns true if a command is known to read something outside the workspace. The file of its program is executed, not
/// read. Hidden places do not count: commands do not see them, and have a `/tmp` of their own.
fn reads_outside(subject: &Subject, setting: &DecisionContext<'_>) -> bool {
    let Subject::Command(CommandLine { meaning: CommandMeaning::Commands(commands), .. }) = subject
    else {
        return false;
    };
    let is_outside = |path: &Path, access: Access| {
        AccessClass::of_redirect(path, access, setting) == AccessClass::ReadOutside
    };
    commands.iter().any(|command| {
        let program = command.words.first().and_then(CommandWord::as_literal);
        let program = program.filter(|program| program.contains('/')).map(base_name);
        let is_program = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some() && (name == program || name == command.linked_program.as_deref())
        };
        let redirects = command.redirects.iter().filter(|redirect| !redirect.is_device());
        command
            .touches
            .iter()
            .any(|touch| is_outside(&touch.path, touch.access) && !is_program(&touch.path))
            || redirects
                .filter_map(|redirect| Some((redirect.path.as_ref()?, redirect.access)))
                .any(|(path, access)| is_outside(path, access))
    })
}

/// Returns true if a shell line only reads files in the workspace.
fn is_read(line: &CommandLine, setting: &DecisionContext<'_>) -> bool {
    let workspace = setting.workspace;
    let CommandMeaning::Commands(commands) = &line.meaning else { return false };
    let may_start = line.folder.as_ref().is_none_or(|folder| workspace.contains(folder));
    let may_touch =
        |touch: &PathTouch| AccessClass::of_touch(touch, setting) == AccessClass::ReadInside;
    let may_redirect = |redirect: &Redirect| {
        let reads = |path: &PathBuf| {
            redirect.access == Access::Read
                && AccessClass::of_redirect(path, Access::Read, setting) == AccessClass::ReadInside
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

/// Returns true if a path is unambiguous: a relative one, or one with `..`, may lead anywhere.
fn is_unambiguous(path: &Path) -> bool {
    path.is_absolute()
        && !path
            .as_os_str()
            .as_encoded_bytes()
            .split(|byte| std::path::is_separator(char::from(*byte)))
            .any(|part| part == b"." || part == b"..")
}

/// Returns true if a path is protected, seen from its root: the root itself may lie in a directory with a protected
/// name.
pub(super) fn is_protected(path: &Path, setting: &DecisionContext<'_>) -> bool {
    kind_of(path, setting).is_some()
}

fn kind_of(path: &Path, setting: &DecisionContext<'_>) -> Option<ProtectedKind> {
    if setting.sandbox_paths.protected.iter().any(|file| path.starts_with(file)) {
        return Some(ProtectedKind::StartsPrograms);
    }
    let mut roots = setting.workspace.roots().iter().chain(&setting.sandbox_paths.writable);
    let below = roots.find_map(|root| path.strip_prefix(root).ok());
    protected_kind(below.unwrap_or(path))
}
