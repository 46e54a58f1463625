//! Whether a line touches more than when it was allowed: between the two somebody may have put a link in its way.

use std::path::Path;

use crow_core::{
    tool::{Access, CommandLine, CommandMeaning, CommandWord, SideEffects, SimpleCommand},
    workspace::Workspace,
};

/// Returns whether a line does what it was not allowed to do. What lies below a place that was known before, or is read
/// in the workspace, makes no difference.
pub fn is_widened(before: &CommandLine, now: &CommandLine, workspace: &Workspace) -> bool {
    match (&before.meaning, &now.meaning) {
        (CommandMeaning::Commands(before), CommandMeaning::Commands(now)) => {
            let is_longer = before.len() != now.len();
            let commands = before.iter().zip(now);
            is_longer
                || commands.into_iter().any(|(before, now)| {
                    let was_read =
                        matches!(before.extent, SideEffects::Reads | SideEffects::HeldReads);
                    was_read && now.extent != before.extent
                        || places(now).any(|(access, path)| {
                            let is_known = places(before)
                                .any(|(known, place)| known == access && path.starts_with(place));
                            let is_read = access == Access::Read;
                            !(is_known
                                || is_read && workspace.contains(path)
                                || is_read && matches_again(before, path))
                        })
                })
        }
        (CommandMeaning::Unclear(_), CommandMeaning::Unclear(_)) => false,
        (CommandMeaning::Unclear(_), CommandMeaning::Commands(_))
        | (CommandMeaning::Commands(_), CommandMeaning::Unclear(_)) => true,
    }
}

/// Returns whether a file lies in a folder whose files a pattern of the command named before: in folders such as `/proc`
/// files come and go all the time. What a link leads to lies elsewhere, and is not one of them.
fn matches_again(before: &SimpleCommand, path: &Path) -> bool {
    let patterns = before.words.iter().filter_map(|word| match word {
        CommandWord::Computed(text) => Some(text.as_str()),
        CommandWord::Literal(_) => None,
    });
    let folders = patterns.filter_map(|text| {
        let (start, _) = text.split_at_checked(text.find(['*', '?', '['])?)?;
        let (folder, _) = start.rsplit_once('/')?;
        let is_plain =
            !folder.is_empty() && !folder.contains(['$', '`', '"', '\'', '\\', '{', '~']);
        (is_plain && folder.starts_with('/')).then(|| Path::new(folder))
    });
    folders.into_iter().any(|folder| {
        let was_read = |place: &Path| place.starts_with(folder);
        path.starts_with(folder)
            && places(before).any(|(access, place)| access == Access::Read && was_read(place))
    })
}

fn places(command: &SimpleCommand) -> impl Iterator<Item = (Access, &Path)> {
    let touches = command.touches.iter().map(|touch| (touch.access, touch.path.as_path()));
    let redirects = command.redirects.iter().filter(|redirect| !redirect.is_device());
    touches.chain(redirects.filter_map(|it| Some((it.access, it.path.as_deref()?))))
}
