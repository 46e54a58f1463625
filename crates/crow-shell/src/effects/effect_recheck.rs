//! Detects that a line touches more than when it was allowed: a link may have been put in its way meanwhile.

use std::path::Path;

use crow_core::{
    tool::{Access, CommandLine, CommandMeaning, CommandWord, SideEffects, SimpleCommand},
    workspace::Workspace,
};

/// Returns whether a line does more than was allowed. Paths below one that was planned before, and reads in the
/// workspace, do not count.
pub fn exceeds_allowed(before: &CommandLine, now: &CommandLine, workspace: &Workspace) -> bool {
    match (&before.meaning, &now.meaning) {
        (CommandMeaning::Commands(before), CommandMeaning::Commands(now)) => {
            let is_longer = before.len() != now.len();
            let commands = before.iter().zip(now);
            is_longer
                || commands.into_iter().any(|(before, now)| {
                    let was_read = matches!(
                        before.side_effects,
                        SideEffects::Reads | SideEffects::SandboxedReads
                    );
                    was_read && now.side_effects != before.side_effects
                        || accesses(now).any(|(access, path)| {
                            let is_known = accesses(before)
                                .any(|(known, base)| known == access && path.starts_with(base));
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

/// Returns whether a path is in a folder whose files a pattern of the command named before: in folders such as
/// `/proc` files come and go all the time. The target of a link is elsewhere, and does not count.
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
        let was_read = |base: &Path| base.starts_with(folder);
        path.starts_with(folder)
            && accesses(before).any(|(access, base)| access == Access::Read && was_read(base))
    })
}

fn accesses(command: &SimpleCommand) -> impl Iterator<Item = (Access, &Path)> {
    let touches = command.touches.iter().map(|touch| (touch.access, touch.path.as_path()));
    let redirects = command.redirects.iter().filter(|redirect| !redirect.is_device());
    touches.chain(redirects.filter_map(|it| Some((it.access, it.path.as_deref()?))))
}
