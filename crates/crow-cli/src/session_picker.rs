//! Choosing a stored session at the terminal: `--resume` without an id.

use std::io::{self, BufRead, Write};

use crow_app::{ProcessEnvironment, product};
use crow_console::ConsoleStyle;
use crow_core::ids::SessionId;
use crow_runtime::{SessionFilter, SessionMetadata, UnusedSessions};
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};

use crate::{
    error::CliError,
    render::{SessionRow, session_table},
    terminal::console_style,
};

/// Maximum number of sessions that are shown.
const SHOWN: usize = 15;

/// Shows the sessions of the current directory, or of all if it has none, and lets the user choose one. Returns `None` if the
/// user leaves. Blocks.
pub(crate) fn pick_session(
    environment: &ProcessEnvironment,
) -> Result<Option<SessionId>, CliError> {
    let cwd = environment.current_dir()?;
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf());
    let filter = SessionFilter { unused: UnusedSessions::LeftOut, ..SessionFilter::default() };
    let all = product::session_store(environment)?.list(&filter)?;
    if all.is_empty() {
        return Err(
            CliError::usage("there are no sessions to resume").hint("crow-agent starts a new one")
        );
    }
    // Input typed before was not meant for this. The error of a closed terminal is ignored: it has no input.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let picker = SessionPicker { all: &all, cwd: &cwd, style: console_style(environment) };
    let chosen = picker.pick(&mut io::stdin().lock(), &mut io::stderr().lock());
    chosen.map_err(|error| CliError::failed(format!("the terminal cannot be used: {error}")))
}

struct SessionPicker<'a> {
    /// The newest first.
    all: &'a [SessionMetadata],
    cwd: &'a std::path::Path,
    style: ConsoleStyle,
}

impl SessionPicker<'_> {
    fn pick(
        &self,
        input: &mut impl BufRead,
        output: &mut impl Write,
    ) -> io::Result<Option<SessionId>> {
        let here = self.all.iter().filter(|session| session.crow().cwd == self.cwd);
        let mut shown: Vec<&SessionMetadata> = here.collect();
        if shown.is_empty() {
            shown = self.all.iter().collect();
        }
        loop {
            self.show(&shown, output)?;
            let mut line = Vec::new();
            if input.read_until(b'\n', &mut line)? == 0 {
                output.write_all(b"\n")?;
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&line);
            let typed = line.trim();
            if matches!(typed, "q" | "quit") {
                return Ok(None);
            }
            let number = if typed.is_empty() { Some(1) } else { typed.parse::<usize>().ok() };
            if let Some(number) = number {
                let visible = shown.iter().take(SHOWN);
                match number.checked_sub(1).and_then(|index| visible.clone().nth(index)) {
                    Some(session) => return Ok(Some(session.session_id.clone())),
                    None => writeln!(output, "There is no number {number}.")?,
                }
                continue;
            }
            let found = self.all.iter().filter(|session| matches_words(session, typed));
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                let typed = crow_text::one_line(typed);
                writeln!(output, "No session has {typed} in its title, directory or id.")?;
            } else {
                shown = found;
            }
        }
    }

    fn show(&self, shown: &[&SessionMetadata], output: &mut impl Write) -> io::Result<()> {
        let rows: Vec<SessionRow> = shown
            .iter()
            .take(SHOWN)
            .zip(1..)
            .map(|(session, number): (_, usize)| SessionRow {
                // The number is what is typed.
                id: format!("{number:<8}"),
                updated: session.updated_at,
                title: session.crow().title,
                usage: String::new(),
                model: session.model_ref().to_string(),
                cwd: session.crow().cwd.display().to_string(),
            })
            .collect();
        let table = session_table(&self.style, &rows, Timestamp::now());
        output.write_all(table.replacen("ID", "NO", 1).as_bytes())?;
        let more = shown.len().saturating_sub(SHOWN);
        if more > 0 {
            writeln!(output, "and {more} more")?;
        }
        output.write_all(b"number, words to search for, enter for 1, q to leave: ")?;
        output.flush()
    }
}

/// Returns true if all words are in the title, the directory or the id of a session, whatever their case.
fn matches_words(session: &SessionMetadata, words: &str) -> bool {
    let crow = session.crow();
    let text = format!("{} {} {}", crow.title, crow.cwd.display(), session.session_id);
    let text = text.to_lowercase();
    words.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::{io::Cursor, path::Path, sync::Arc};

    use crow_runtime::{AgentSession, MemoryStore, RuntimeConfig, SessionSpec};

    use super::*;

    /// Returns what the picker gives for typed lines, and what it showed.
    fn pick(typed: &str) -> (Option<String>, String) {
        let config =
            RuntimeConfig { store: Arc::new(MemoryStore::default()), ..RuntimeConfig::default() };
        for (title, cwd) in [
            ("fix the parser", "/projects/a"),
            ("write docs", "/projects/a"),
            ("Fix the lexer", "/projects/b"),
        ] {
            let spec = SessionSpec::new("own", "none/none".parse().unwrap(), cwd);
            let session = AgentSession::create(&config, spec).unwrap();
            let id = session.id().clone();
            drop(session);
            AgentSession::rename(&config, &id, title).unwrap();
        }
        let all = config.store.list(&SessionFilter::default()).unwrap();
        let style = ConsoleStyle::of_process(|_| None);
        let picker = SessionPicker { all: &all, cwd: Path::new("/projects/a"), style };
        let mut output = Vec::new();
        let chosen = picker.pick(&mut Cursor::new(typed), &mut output).unwrap();
        let title = chosen.map(|id| {
            let session = all.iter().find(|session| session.session_id == id);
            session.unwrap().crow().title
        });
        (title, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_session_is_chosen_by_its_number_or_found_by_words() {
        for (typed, expected) in [
            ("\n", Some("write docs")),
            ("2\n", Some("fix the parser")),
            ("9\n1\n", Some("write docs")),
            ("fix lexer\n\n", Some("Fix the lexer")),
            ("nothing like it\n2\n", Some("fix the parser")),
            ("q\n", None),
            ("", None),
        ] {
            let (picked, shown) = pick(typed);
            assert_eq!(picked.as_deref(), expected, "{typed:?}: {shown}");
        }
    }

    #[test]
    fn sessions_of_other_directories_are_shown_only_if_they_are_searched_for() {
        assert!(!pick("q\n").1.contains("lexer"));
        assert!(pick("fix\nq\n").1.contains("lexer"));
        assert!(pick("9\nq\n").1.contains("There is no number 9."));
    }
}
