//! Whether a line touches more than when it was allowed: between the two somebody may have put a link in its way.

use std::path::Path;

use crow_core::{
    tool::{Access, CommandLine, CommandMeaning, Extent, SimpleCommand},
    workspace::Workspace,
};

/// Returns whether a line does what it was not allowed to do. What lies below a place that was known before, or is read
/// in the workspace, makes no difference.
pub(in crate::shell) fn is_widened(
    before: &CommandLine,
    now: &CommandLine,
    workspace: &Workspace,
) -> bool {
    match (&before.meaning, &now.meaning) {
        (CommandMeaning::Commands(before), CommandMeaning::Commands(now)) => {
            let is_longer = before.len() != now.len();
            let commands = before.iter().zip(now);
            is_longer
                || commands.into_iter().any(|(before, now)| {
                    let was_read = matches!(before.extent, Extent::Reads | Extent::HeldReads);
                    was_read && now.extent != before.extent
                        || places(now).any(|(access, path)| {
                            let is_known = places(before)
                                .any(|(known, place)| known == access && path.starts_with(place));
                            !(is_known || access == Access::Read && workspace.contains(path))
                        })
                })
        }
        (CommandMeaning::Unclear(_), CommandMeaning::Unclear(_)) => false,
        (CommandMeaning::Unclear(_), CommandMeaning::Commands(_))
        | (CommandMeaning::Commands(_), CommandMeaning::Unclear(_)) => true,
    }
}

fn places(command: &SimpleCommand) -> impl Iterator<Item = (Access, &Path)> {
    let touches = command.touches.iter().map(|touch| (touch.access, touch.path.as_path()));
    let redirects = command.redirects.iter().filter(|redirect| !redirect.is_device());
    touches.chain(redirects.filter_map(|it| Some((it.access, it.path.as_deref()?))))
}
