//! The parts of a call that rules are matched against one by one.
//!
//! A shell line has a part per command, plus one per path that the command is known to touch or redirect; a file tool
//! has one per path. A rule that denies or asks counts if it touches any part ([`CallPart::match_restriction`], which may
//! be unsure); a rule that allows must cover a part ([`CallPart::is_covered_by`], which must be sure), and all parts
//! must be covered or free for the call to be allowed.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    CallFacts, PermissionMode, RuleMatcher,
    access_class::{AccessClass, is_protected, subject_access},
    command::{CommandFolder, CommandPart, UnclearLine, is_harmless, only_reads},
    evaluate::DecisionContext,
    is_secret_file_in,
    paths::PermissionPath,
    rule::shortened,
};
use crate::{
    network::HostAddress,
    tool_types::{Access, CommandMeaning, Effects, SimpleCommand, Subject, TouchDepth},
    workspace::Workspace,
};

/// One part of a call.
#[derive(Debug)]
pub(super) enum CallPart<'a> {
    /// The whole call: nothing finer is known.
    Call,
    /// A command.
    Command(CommandPart<'a>),
    /// A shell line that could not be parsed.
    Line(UnclearLine<'a>),
    /// A path that the call touches.
    Path { path: PermissionPath<'a>, access: Access, class: AccessClass, origin: PathOrigin },
    /// A path that the call is about, although it may touch others.
    Subject { path: PermissionPath<'a>, access: Access },
    /// A host that is sent a request.
    Host(&'a HostAddress),
}

/// The reason why a call touches a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathOrigin {
    /// The call is about it.
    Call,
    /// The call reads what it then writes: whoever allows the write allows this, but a rule may forbid it.
    ReadToWrite,
    /// A word of a command names it: it is allowed with the command, unless it is guarded.
    Word {
        depth: TouchDepth,
        /// True if the program may change what it is only seen to read.
        may_change: bool,
    },
    /// A command's output goes there, in a mode that asks about edits.
    AskedRedirect,
    /// A command reads from there, or writes there in a mode that allows edits.
    FreeRedirect,
}

/// The certainty with which a rule that denies or asks matches a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleMatch {
    No,
    /// It depends on a word that is only known when the line runs, or on more input than is examined.
    Maybe,
    Yes,
}

impl RuleMatch {
    /// Returns the more certain of two.
    pub(super) fn or(self, other: Self) -> Self {
        self.max(other)
    }
}

impl From<bool> for RuleMatch {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Yes } else { Self::No }
    }
}

/// Splits a call into parts. There is at least one part.
pub(super) fn parts<'a>(facts: &CallFacts<'a>, setting: &DecisionContext<'a>) -> Vec<CallPart<'a>> {
    let workspace = setting.workspace;
    let mut parts = Vec::new();
    if let Subject::Command(line) = &facts.plan.subject {
        match &line.meaning {
            CommandMeaning::Unclear(_) => parts.push(CallPart::Line(UnclearLine::new(&line.text))),
            CommandMeaning::Commands(commands) => {
                let folder = CommandFolder::for_line(line, workspace);
                for command in commands {
                    let reads = only_reads(command, setting.containment);
                    parts.push(CallPart::Command(CommandPart::new(command, line, folder, reads)));
                    parts.extend(paths_of(command, setting));
                }
            }
        }
    }
    if let Effects::Paths(paths) = &facts.plan.effects {
        parts.extend(paths.iter().map(|effect| CallPart::Path {
            path: PermissionPath::new(&effect.path, setting),
            access: effect.access,
            class: AccessClass::of_path(&effect.path, effect.access, setting),
            origin: if effect.is_read_of_written(paths) {
                PathOrigin::ReadToWrite
            } else {
                PathOrigin::Call
            },
        }));
    } else if let Subject::Path(path) = &facts.plan.subject {
        let access = subject_access(facts.category);
        parts.push(CallPart::Call);
        parts.push(CallPart::Subject { path: PermissionPath::new(path, setting), access });
    }
    if let Subject::Host(host) = &facts.plan.subject {
        parts.push(CallPart::Host(host));
        // Unknown effects beside the request need a permission for the whole call.
        if facts.plan.effects == Effects::Unknown {
            parts.push(CallPart::Call);
        }
    }
    // Without commands and paths the call is one part.
    if parts.is_empty() {
        parts.push(CallPart::Call);
    }
    parts
}

/// Returns the paths that a command is known to touch.
fn paths_of<'a>(
    command: &'a SimpleCommand,
    setting: &DecisionContext<'a>,
) -> impl Iterator<Item = CallPart<'a>> {
    let (mode, setting) = (setting.mode, *setting);
    let touches = command.touches.iter().map(move |touch| {
        let reach = AccessClass::of_touch(touch, &setting);
        let place = PermissionPath::new(&touch.path, &setting);
        let place =
            if reach == AccessClass::WriteProtected { place.into_protected() } else { place };
        CallPart::Path {
            path: place,
            access: touch.access,
            class: reach,
            origin: PathOrigin::Word { depth: touch.depth, may_change: command.may_change_read },
        }
    });
    let redirects = command.redirects.iter().filter(|redirect| !redirect.is_device());
    let redirects = redirects.filter_map(move |redirect| {
        let path = redirect.path.as_ref()?;
        let edits_pass = matches!(mode, PermissionMode::AcceptEdits | PermissionMode::FullAuto);
        let origin = if redirect.access == Access::Read || edits_pass {
            PathOrigin::FreeRedirect
        } else {
            PathOrigin::AskedRedirect
        };
        let reach = AccessClass::of_redirect(path, redirect.access, &setting);
        Some(CallPart::Path {
            path: PermissionPath::new(path, &setting),
            access: redirect.access,
            class: reach,
            origin,
        })
    });
    touches.chain(redirects)
}

/// Returns true if a rule's path names what guards a path: a protected directory, a hidden place or a file that holds
/// keys must be part of it. A rule for a whole project or home allows none of them.
fn names_guard(
    named: &Path,
    place: &PermissionPath<'_>,
    access: Access,
    reach: AccessClass,
    origin: PathOrigin,
    setting: &DecisionContext<'_>,
) -> bool {
    let DecisionContext { workspace, sandbox_paths: places, .. } = *setting;
    // A relative path of a rule applies in each root.
    let roots = workspace.roots().iter().map(|root| root.join(named));
    let forms: Vec<PathBuf> =
        if named.is_absolute() { vec![named.to_path_buf()] } else { roots.collect() };
    let rule_names = |is_guard: &dyn Fn(&Path) -> bool| forms.iter().any(|form| is_guard(form));
    let is_hidden = matches!(reach, AccessClass::ReadHidden | AccessClass::WriteHidden);
    // For a command this was judged with the command.
    let is_secret = origin == PathOrigin::Call && is_secret_file_in(place.path(), workspace);
    (access == Access::Read
        || !place.is_protected()
        || rule_names(&|form| is_protected(form, setting)))
        && (!is_hidden || rule_names(&|form| places.hides(form, workspace)))
        && (!is_secret || rule_names(&|form| is_secret_file_in(form, workspace)))
}

impl CallPart<'_> {
    /// Returns true if the part is allowed as soon as another part is.
    pub(super) fn is_free(&self) -> bool {
        match self {
            Self::Call | Self::Line(_) | Self::Host(_) => false,
            Self::Command(part) => part.is_read || is_harmless(part.command),
            Self::Path { class: reach, origin, .. } => match origin {
                PathOrigin::ReadToWrite => true,
                PathOrigin::Word { .. } | PathOrigin::FreeRedirect => !reach.is_guarded(),
                PathOrigin::Call | PathOrigin::AskedRedirect => *reach == AccessClass::ReadInside,
            },
            Self::Subject { .. } => true,
        }
    }

    /// Returns true if allowing the tool, its category or everything allows this part.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Path { class: reach, .. } => !reach.is_guarded(),
            Self::Call
            | Self::Command(_)
            | Self::Line(_)
            | Self::Subject { .. }
            | Self::Host(_) => true,
        }
    }

    /// Returns true if a narrow rule that allows covers this part.
    pub(super) fn is_covered_by(
        &self,
        matcher: &RuleMatcher,
        setting: &DecisionContext<'_>,
    ) -> bool {
        match (self, matcher) {
            (Self::Command(part), RuleMatcher::CommandPrefix(prefix)) => {
                part.is_covered_by_prefix(prefix)
            }
            (Self::Command(part), RuleMatcher::Regex(regex) | RuleMatcher::CommandRegex(regex)) => {
                part.is_covered_by_regex(regex)
            }
            (
                Self::Path { path: place, access, class: reach, origin },
                RuleMatcher::Path { access: named_access, path: named },
            ) => {
                access == named_access
                    && place.is_within(named)
                    && names_guard(named, place, *access, *reach, *origin, setting)
            }
            (Self::Path { path: place, class: reach, .. }, RuleMatcher::Regex(regex)) => {
                !reach.is_guarded() && place.match_regex(regex) == RuleMatch::Yes
            }
            (Self::Host(host), RuleMatcher::Host(pattern)) => pattern.covers(host),
            (
                Self::Call
                | Self::Command(_)
                | Self::Line(_)
                | Self::Path { .. }
                | Self::Subject { .. }
                | Self::Host(_),
                _,
            ) => false,
        }
    }

    /// Returns whether a narrow rule that denies or asks matches this part.
    pub(super) fn match_restriction(
        &self,
        matcher: &RuleMatcher,
        workspace: &Workspace,
    ) -> RuleMatch {
        match (self, matcher) {
            (Self::Command(part), RuleMatcher::CommandPrefix(prefix)) => part.match_prefix(prefix),
            (Self::Line(line), RuleMatcher::CommandPrefix(prefix)) => line.mentions(prefix),
            (Self::Command(part), RuleMatcher::Regex(regex) | RuleMatcher::CommandRegex(regex)) => {
                part.match_regex(regex)
            }
            (Self::Line(line), RuleMatcher::Regex(regex) | RuleMatcher::CommandRegex(regex)) => {
                line.match_regex(regex)
            }
            (Self::Command(part), RuleMatcher::Path { access, path }) => {
                let leads_there = part
                    .redirects(workspace)
                    .iter()
                    .any(|(place, redirected)| redirected == access && place.is_within(path));
                let may_touch = part.hides_files() || part.input_may_name(path);
                let unsure = if may_touch { RuleMatch::Maybe } else { RuleMatch::No };
                unsure.or(leads_there.into())
            }
            (Self::Line(_), RuleMatcher::Path { .. }) => RuleMatch::Maybe,
            (
                Self::Path {
                    path: place,
                    access,
                    origin: PathOrigin::Word { depth: TouchDepth::Below | TouchDepth::Within, .. },
                    ..
                },
                RuleMatcher::Path { access: named_access, path: named },
            ) if access == named_access && !place.is_within(named) && place.contains(named) => {
                RuleMatch::Maybe
            }
            (
                Self::Path {
                    path: place,
                    access: Access::Read,
                    origin: PathOrigin::Word { may_change: true, .. },
                    ..
                },
                RuleMatcher::Path { access: Access::Write, path: named },
            ) if place.is_within(named) => RuleMatch::Maybe,
            (
                Self::Path { path: place, access, .. } | Self::Subject { path: place, access },
                RuleMatcher::Path { access: named_access, path: named },
            ) => (access == named_access && place.is_within(named)).into(),
            (
                Self::Path { path: place, .. } | Self::Subject { path: place, .. },
                RuleMatcher::Regex(regex),
            ) => place.match_regex(regex),
            (Self::Host(host), RuleMatcher::Host(pattern)) => pattern.covers(host).into(),
            (
                Self::Call
                | Self::Command(_)
                | Self::Line(_)
                | Self::Path { .. }
                | Self::Subject { .. }
                | Self::Host(_),
                _,
            ) => RuleMatch::No,
        }
    }

    /// Returns a warning for a part of a shell line that reaches further than running a command.
    pub(super) fn warning(&self) -> Option<String> {
        match self {
            Self::Call
            | Self::Subject { .. }
            | Self::Host(_)
            | Self::Path { origin: PathOrigin::Call | PathOrigin::ReadToWrite, .. } => None,
            Self::Path { path: place, class: reach, .. } => {
                let name = shortened(place.display_text());
                match reach {
                    AccessClass::ReadOutside => {
                        Some(format!("it reads `{name}`, outside the workspace"))
                    }
                    AccessClass::ReadHidden => {
                        Some(format!("it reads `{name}`, which the sandbox hides from commands"))
                    }
                    AccessClass::WriteOutside | AccessClass::WriteReleased => {
                        Some(format!("it changes `{name}`, outside the workspace"))
                    }
                    AccessClass::WriteHidden => {
                        Some(format!("it changes `{name}`, which the sandbox hides from commands"))
                    }
                    AccessClass::WriteProtected | AccessClass::WriteInstructions => Some(format!(
                        "it changes `{name}`, which starts programs or instructs agents"
                    )),
                    AccessClass::Session
                    | AccessClass::ReadInside
                    | AccessClass::ReadSecret
                    | AccessClass::WriteInside
                    | AccessClass::WriteSecret
                    | AccessClass::HostAllowed
                    | AccessClass::HostElsewhere
                    | AccessClass::Anything => None,
                }
            }
            Self::Command(part) => part.warning(),
            Self::Line(_) => Some("it is unclear what it would run".to_owned()),
        }
    }

    /// Returns a name of the part for use in a sentence.
    pub(super) fn name<'b>(&'b self, tool: &'b str) -> Cow<'b, str> {
        match self {
            Self::Call => Cow::Borrowed(tool),
            Self::Command(part) => Cow::Owned(shortened(part.text())),
            Self::Line(line) => Cow::Owned(shortened(line.text)),
            Self::Host(host) => Cow::Owned(shortened(&host.to_string())),
            Self::Path { path: place, .. } | Self::Subject { path: place, .. } => {
                Cow::Owned(shortened(place.display_text()))
            }
        }
    }
}
