//! The last line of a terminal: what is waited for, and what the person is typing.

use std::io::{self, Write};

use crow_core::event::{AgentEvent, Envelope};
use jiff::Timestamp;

use super::{
    ConsoleRenderer, ConsoleStyle, RunActivity, end, neutralise,
    paint::Paint,
    style,
    wrap::{hanging, keep_end, shorten_end, width},
};
use crate::output::RunReport;

/// What the person at the terminal is typing while events are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveInput {
    /// What stands before it if it answers a question.
    pub prompt: Option<String>,
    /// What is typed so far.
    pub text: String,
}

/// The least columns for what is typed.
const LEAST_INPUT: usize = 12;
/// What stands before words to the agent.
const WORDS: &str = "> ";

impl LiveInput {
    pub(super) fn is_empty(&self) -> bool {
        self.prompt.is_none() && self.text.is_empty()
    }

    /// Writes the line; `waiting` is what is waited for. It never fills the last column.
    fn line(&self, style: &ConsoleStyle, waiting: &str, waiting_width: usize) -> String {
        let room = style.width.saturating_sub(1);
        let text = neutralise(&self.text.replace('\n', " "));
        let (before, before_width) = match &self.prompt {
            Some(prompt) => {
                let prompt = shorten_end(prompt, room.saturating_sub(LEAST_INPUT), style.glyphs);
                let columns = width(&prompt);
                (prompt, columns)
            }
            None if waiting.is_empty() => (WORDS.to_owned(), WORDS.len()),
            // On a narrow screen what is typed goes before what is waited for.
            None if waiting_width + WORDS.len() + 2 + width(&text).min(LEAST_INPUT) > room => {
                (WORDS.to_owned(), WORDS.len())
            }
            None => (format!("{waiting}  {WORDS}"), waiting_width + WORDS.len() + 2),
        };
        before + &keep_end(&text, room.saturating_sub(before_width), style.glyphs)
    }
}

impl<O: Write, E: Write> ConsoleRenderer<O, E> {
    /// Shows how long something has been waited for, on a terminal. The caller calls it a few times a second.
    pub fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        if !self.style.live {
            return Ok(());
        }
        self.now = Some(now);
        self.draw()
    }

    /// Takes what the person at the terminal is typing, and shows it.
    pub fn set_input(&mut self, input: LiveInput) -> io::Result<()> {
        self.input = input;
        if !self.style.live {
            return Ok(());
        }
        self.draw()
    }

    /// Shows a question once more, with all that it is about.
    pub fn ask_again(&mut self, question: &Envelope) -> io::Result<()> {
        if let AgentEvent::PermissionRequest { call_id, title, subject, reason, .. } =
            &question.event
        {
            self.show_question(question, call_id, (title, subject, reason))?;
        }
        if let AgentEvent::QuestionAsked { question: asked, .. } = &question.event {
            self.show_user_question(question, asked)?;
        }
        self.flush()
    }

    /// Shows how a run of a chat ended, see [`finish`](Self::finish). Words alone are not a task that is done.
    pub fn finish_reply(&mut self, report: &RunReport, calls: RunActivity) -> io::Result<()> {
        let last = end::reply_line(&self.style, report, calls);
        self.end_with(report, &last)
    }

    /// Learns how wide the terminal is now.
    pub fn set_width(&mut self, columns: Option<usize>) {
        if let Some(columns) = columns {
            self.style.width = columns.max(style::LEAST_WIDTH);
            self.screen.set_columns(columns);
        }
    }

    /// Says something that belongs to no event, in whole lines. The text may be of others.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        let lines: String =
            neutralise(text).lines().map(|line| self.said(line, Paint::Plain)).collect();
        self.lines(&lines)?;
        self.flush()
    }

    /// Says something as [`say`](Self::say) does, dimly.
    pub fn say_aside(&mut self, text: &str) -> io::Result<()> {
        let lines: String =
            neutralise(text).lines().map(|line| self.said(line, Paint::Dim)).collect();
        self.lines(&lines)?;
        self.flush()
    }

    /// Breaks a line between words; what follows the break stands a little to the right.
    fn said(&self, line: &str, paint: Paint) -> String {
        let words = line.trim_start();
        if words.is_empty() {
            return "\n".to_owned();
        }
        let blanks = line.chars().take_while(|character| *character == ' ').count();
        let (first, rest) = (" ".repeat(blanks), " ".repeat(blanks + 2));
        hanging(&self.style, paint, (&first, &rest), words.trim_end())
    }

    pub(super) fn draw(&mut self) -> io::Result<()> {
        if self.screen.is_mid_line() {
            let words = if self.input.is_empty() {
                String::new()
            } else {
                self.input.line(&self.style, "", 0)
            };
            self.screen.set_below(&words)?;
            return self.screen.flush();
        }
        let waiting = self.now.and_then(|now| Some((self.awaited(now)?, now)));
        let mut line = String::new();
        let mut columns = 0;
        if let Some((waiting, now)) = waiting {
            // Beside words that are being typed there is no room for what a call prints.
            let typing = ConsoleStyle { width: self.style.width.min(40), ..self.style };
            let style = if self.input.is_empty() { &self.style } else { &typing };
            let plain = waiting.line(style, now);
            columns = width(&plain);
            Paint::Dim.write(&self.style, &plain, &mut line);
        }
        if !self.input.is_empty() {
            line = self.input.line(&self.style, &line, columns);
        }
        if line.is_empty() {
            self.screen.clear_status()?;
        } else {
            self.screen.set_status(&line)?;
        }
        self.screen.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(columns: usize, prompt: Option<&str>, waiting: &str, text: &str) -> String {
        let input = LiveInput { prompt: prompt.map(str::to_owned), text: text.to_owned() };
        input.line(&ConsoleStyle::plain(columns), waiting, width(waiting))
    }

    #[test]
    fn words_stand_behind_what_is_waited_for_and_their_end_is_seen() {
        assert_eq!(line(80, None, "⠋ thinking  0 s", "and tests"), "⠋ thinking  0 s  > and tests");
        assert_eq!(line(80, None, "", "one\ntwo"), "> one two");
        assert_eq!(line(80, Some("  allow? "), "⠋ ls", "n not"), "  allow? n not");
        assert_eq!(
            line(24, None, "⠋ thinking  0 s", "and then the tests too"),
            "> …d then the tests too"
        );
    }

    #[test]
    fn the_line_fits_a_narrow_screen_whatever_is_typed() {
        for columns in [20, 40, 60] {
            for text in ["x".repeat(200), "漢".repeat(200), String::new()] {
                for prompt in [None, Some("  allow? [y]es, [a], [b], [n]o, or n and why: ")] {
                    let line = line(columns, prompt, "⠋ cargo test  10 s", &text);
                    assert!(width(&line) < columns, "{line}");
                }
            }
        }
    }
}
