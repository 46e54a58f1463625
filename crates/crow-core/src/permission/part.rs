//! The parts of a call that rules look at one by one.

use std::{borrow::Cow, path::PathBuf};

use super::{
    CallFacts, RuleMatcher,
    command::{CommandPart, Folder, is_harmless},
    matcher::shortened,
    place::Place,
    reach::{Reach, is_protected},
    unclear::UnclearLine,
};
use crate::{
    tool::{Access, CommandMeaning, Effects, Subject, ToolCategory},
    workspace::Workspace,
};

/// One part of a call.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// All of it: nothing finer is known.
    Call,
    /// A command.
    Command(CommandPart<'a>),
    /// A shell line that is not understood.
    Line(UnclearLine<'a>),
    /// A path that the call touches.
    Path { place: Place<'a>, access: Access, reach: Reach },
    /// A path that the call is about, although it may touch others.
    Subject { place: Place<'a>, access: Access },
}

/// Whether a rule that denies or asks speaks of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// It depends on a word that is only known when the line runs, or there is too much to look at.
    Maybe,
    Yes,
}

impl Match {
    /// Returns the surer of two.
    pub(super) fn or(self, other: Self) -> Self {
        self.max(other)
    }
}

impl From<bool> for Match {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Yes } else { Self::No }
    }
}

/// Takes a call apart. There is at least one part.
pub(super) fn parts<'a>(
    facts: &CallFacts<'a>,
    workspace: &Workspace,
    readable: &[PathBuf],
) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    if let Subject::Command(line) = &facts.plan.subject {
        match &line.meaning {
            CommandMeaning::Unclear(_) => parts.push(Part::Line(UnclearLine::new(&line.text))),
            CommandMeaning::Commands(commands) => {
                let folder = Folder::of(line, workspace);
                let part = |command| Part::Command(CommandPart::new(command, folder));
                parts.extend(commands.iter().map(part));
            }
        }
    }
    if let Effects::Paths(paths) = &facts.plan.effects {
        parts.extend(paths.iter().map(|effect| Part::Path {
            place: Place::new(&effect.path, workspace),
            access: effect.access,
            reach: Reach::of_path(&effect.path, effect.access, workspace, readable),
        }));
    } else if let Subject::Path(path) = &facts.plan.subject {
        let access = match facts.category {
            ToolCategory::Read => Access::Read,
            ToolCategory::Write
            | ToolCategory::Execute
            | ToolCategory::Network
            | ToolCategory::Session
            | ToolCategory::Agent => Access::Write,
        };
        parts.push(Part::Call);
        parts.push(Part::Subject { place: Place::new(path, workspace), access });
    }
    if parts.is_empty() {
        parts.push(Part::Call);
    }
    parts
}

impl Part<'_> {
    /// Returns whether it passes as soon as another part is allowed.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Call | Self::Line(_) => false,
            Self::Command(part) => is_harmless(part.command),
            Self::Path { reach, .. } => *reach == Reach::ReadInside,
            Self::Subject { .. } => true,
        }
    }

    /// Returns whether allowing the tool, its category or everything allows this part.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Path { reach, .. } => !reach.is_guarded(),
            Self::Call | Self::Command(_) | Self::Line(_) | Self::Subject { .. } => true,
        }
    }

    /// Returns whether a narrow rule that allows covers this part.
    pub(super) fn is_covered_by(&self, matcher: &RuleMatcher, workspace: &Workspace) -> bool {
        match (self, matcher) {
            (Self::Command(part), RuleMatcher::CommandPrefix(prefix)) => {
                part.is_covered_by_prefix(prefix)
            }
            (Self::Command(part), RuleMatcher::Regex(regex)) => part.is_covered_by_regex(regex),
            (
                Self::Path { place, access, .. },
                RuleMatcher::Path { access: named_access, path: named },
            ) => {
                access == named_access
                    && place.lies_in(named)
                    && (*access == Access::Read
                        || !place.is_protected()
                        || is_protected(named, workspace))
            }
            (Self::Path { place, reach, .. }, RuleMatcher::Regex(regex)) => {
                !reach.is_guarded() && place.is_found_by(regex) == Match::Yes
            }
            (
                Self::Call
                | Self::Command(_)
                | Self::Line(_)
                | Self::Path { .. }
                | Self::Subject { .. },
                _,
            ) => false,
        }
    }

    /// Returns whether a narrow rule that denies or asks speaks of this part.
    pub(super) fn is_touched_by(&self, matcher: &RuleMatcher, workspace: &Workspace) -> Match {
        match (self, matcher) {
            (Self::Command(part), RuleMatcher::CommandPrefix(prefix)) => part.begins_with(prefix),
            (Self::Line(line), RuleMatcher::CommandPrefix(prefix)) => line.mentions(prefix),
            (Self::Command(part), RuleMatcher::Regex(regex)) => part.is_found_by(regex),
            (Self::Line(line), RuleMatcher::Regex(regex)) => line.is_found_by(regex),
            (Self::Command(part), RuleMatcher::Path { access, path }) => part
                .redirects(workspace)
                .iter()
                .any(|(place, redirected)| redirected == access && place.lies_in(path))
                .into(),
            (
                Self::Path { place, access, .. } | Self::Subject { place, access },
                RuleMatcher::Path { access: named_access, path: named },
            ) => (access == named_access && place.lies_in(named)).into(),
            (Self::Path { place, .. } | Self::Subject { place, .. }, RuleMatcher::Regex(regex)) => {
                place.is_found_by(regex)
            }
            (
                Self::Call
                | Self::Command(_)
                | Self::Line(_)
                | Self::Path { .. }
                | Self::Subject { .. },
                _,
            ) => Match::No,
        }
    }

    /// Names the part in a sentence.
    pub(super) fn name<'b>(&'b self, tool: &'b str) -> Cow<'b, str> {
        match self {
            Self::Call => Cow::Borrowed(tool),
            Self::Command(part) => Cow::Owned(shortened(part.text())),
            Self::Line(line) => Cow::Owned(shortened(line.text)),
            Self::Path { place, .. } | Self::Subject { place, .. } => {
                Cow::Owned(shortened(place.shown()))
            }
        }
    }
}
