//! Highlights a block of code on a thread of its own.
//!
//! The first lines in a language compile regular expressions, for 5 to 30 ms, and a line that is made for it takes longer. The
//! thread that draws the screen also echoes keys, so it does not wait for that.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    thread,
    time::Instant,
};

use super::highlighter::{Highlighter, LineRoles};

/// Most lines that wait for their roles.
const MOST_WAITING: usize = 1000;

/// A thread that finds the roles of a block, line by line. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct BlockHighlighter {
    lines: SyncSender<String>,
    roles: Receiver<LineRoles>,
}

/// Error of a block that has no roles: its language is not known, or its thread is too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoles;

impl BlockHighlighter {
    /// Starts the thread for a language by its name or the extension of its files. Returns `None` for plain text.
    pub(super) fn start(language: &str) -> Option<Self> {
        if matches!(
            language.to_ascii_lowercase().as_str(),
            "" | "text" | "txt" | "plain" | "plaintext"
        ) {
            return None;
        }
        let language = language.to_owned();
        let (lines, unread) = sync_channel::<String>(MOST_WAITING);
        let (found, roles) = sync_channel(MOST_WAITING);
        let highlight = move || {
            let Some(mut highlighter) = Highlighter::new(&language) else { return };
            for line in unread {
                if found.send(highlighter.roles(&line)).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("highlighter".to_owned()).spawn(highlight);
        thread.is_ok().then_some(Self { lines, roles })
    }

    /// Returns a highlighter that never finds roles, while the second value exists.
    #[cfg(test)]
    pub(super) fn silent() -> (Self, impl Sized) {
        let (lines, unread) = sync_channel(2);
        let (found, roles) = sync_channel(2);
        (Self { lines, roles }, (unread, found))
    }

    /// Adds the next line.
    pub(super) fn push(&self, line: &str) -> Result<(), NoRoles> {
        self.lines.try_send(line.to_owned()).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => NoRoles,
        })
    }

    /// Returns the roles of the next line; `None` if they are not found before `deadline`.
    pub(super) fn next_roles(&self, deadline: Instant) -> Result<Option<LineRoles>, NoRoles> {
        match self.roles.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(roles) => Ok(Some(roles)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(NoRoles),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::styled_text::TextRole;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn lines_get_their_roles_in_order() {
        let highlighter = BlockHighlighter::start("json").unwrap();
        highlighter.push("[1]").unwrap();
        highlighter.push("").unwrap();
        let roles = highlighter.next_roles(soon()).unwrap().unwrap();
        assert!(roles.contains(&(1..2, TextRole::Number)), "{roles:?}");
        assert_eq!(highlighter.next_roles(soon()), Ok(Some(vec![(0..0, TextRole::Plain)])));
        assert_eq!(highlighter.next_roles(Instant::now()), Ok(None));
    }

    #[test]
    fn a_language_that_is_not_known_has_no_roles() {
        assert_eq!(BlockHighlighter::start("nonsense").unwrap().next_roles(soon()), Err(NoRoles));
        assert!(BlockHighlighter::start("Text").is_none());
    }

    #[test]
    fn lines_that_nobody_reads_are_bounded() {
        let (highlighter, _others) = BlockHighlighter::silent();
        assert_eq!([(); 3].map(|()| highlighter.push("a")), [Ok(()), Ok(()), Err(NoRoles)]);
    }
}
