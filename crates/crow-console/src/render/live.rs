//! The status line at the bottom of a terminal: a spinner with the subject of the wait and the elapsed time, and the input
//! of the person.
//!
//! If the screen is in the middle of a line of streamed text, the input is shown on the line below instead, see
//! `OutputScreen::set_below`.

use std::io::{self, Write};

use crow_core::event::{AgentEvent, Envelope};
use jiff::Timestamp;

use super::{
    ConsoleRenderer, ConsoleStyle, Glyphs, RunActivity, end, neutralise, one_line,
    screen::ScreenStream,
    style::{self, Paint},
    words,
    wrap::{shorten_end, shorten_middle, shorten_start, width, wrap_hanging},
};
use crate::report::RunReport;

/// Input of the person at the terminal while events are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveInput {
    /// Prompt before the text, if it answers a question.
    pub prompt: Option<String>,
    /// Text typed so far.
    pub text: String,
}

/// Minimum columns of the input.
const LEAST_INPUT: usize = 12;
/// Prompt before a message to the agent.
const WORDS: &str = "> ";

impl LiveInput {
    pub(super) fn is_empty(&self) -> bool {
        self.prompt.is_none() && self.text.is_empty()
    }

    /// Renders the line. `waiting` is the waiting text before the input, painted, of `waiting_width` columns. The line
    /// never fills the last column.
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
            // On a narrow screen the input has priority over the waiting text.
            None if waiting_width + WORDS.len() + 2 + width(&text).min(LEAST_INPUT) > room => {
                (WORDS.to_owned(), WORDS.len())
            }
            None => (format!("{waiting}  {WORDS}"), waiting_width + WORDS.len() + 2),
        };
        before + &shorten_start(&text, room.saturating_sub(before_width), style.glyphs)
    }
}

impl<O: Write, E: Write> ConsoleRenderer<O, E> {
    /// Redraws the waiting line on a terminal. The caller calls it a few times a second.
    pub fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        if !self.style.live {
            return Ok(());
        }
        self.now = Some(now);
        self.draw()
    }

    /// Sets the input of the person at the terminal, and shows it.
    pub fn set_input(&mut self, input: LiveInput) -> io::Result<()> {
        self.input = input;
        if !self.style.live {
            return Ok(());
        }
        self.draw()
    }

    /// Shows a question again, with its change or choices.
    pub fn ask_again(&mut self, question: &Envelope) -> io::Result<()> {
        if let AgentEvent::PermissionRequest { call_id, title, subject, reason, .. } =
            &question.event
        {
            self.show_question(question, call_id, (title, subject, reason))?;
        }
        if let AgentEvent::QuestionAsked { question: user_question, .. } = &question.event {
            self.show_user_question(question, user_question)?;
        }
        self.flush()
    }

    /// Shows the end of a run in a chat, see [`finish`](Self::finish). A successful run without calls gets no outcome,
    /// only its usage.
    pub fn finish_reply(&mut self, report: &RunReport, calls: RunActivity) -> io::Result<()> {
        let last = end::reply_line(&self.style, report, calls);
        self.end_with(report, &last)
    }

    /// Sets the width of the terminal; `None` keeps the previous one.
    pub fn set_width(&mut self, columns: Option<usize>) {
        if let Some(columns) = columns {
            self.style.width = columns.max(style::LEAST_WIDTH);
            self.screen.set_columns(columns);
        }
    }

    /// Shows a prompt that asks for an answer on the same line. Further output assumes that the line ends: a terminal
    /// shows the line end that a person types; in other cases the caller shows `"\n"`.
    pub fn show_prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.lines("")?;
        self.screen.write(ScreenStream::Err, prompt)?;
        self.screen.record_line_end();
        self.screen.flush()
    }

    /// Shows a message that belongs to no event, in complete lines. The text may be foreign: it is neutralised.
    pub fn show_message(&mut self, text: &str) -> io::Result<()> {
        self.show_painted(text, Paint::Plain)
    }

    /// Shows a message like [`show_message`](Self::show_message), dimly.
    pub fn show_dim_message(&mut self, text: &str) -> io::Result<()> {
        self.show_painted(text, Paint::Dim)
    }

    fn show_painted(&mut self, text: &str, paint: Paint) -> io::Result<()> {
        let lines: String =
            neutralise(text).lines().map(|line| self.wrapped_line(line, paint)).collect();
        self.lines(&lines)?;
        self.flush()
    }

    /// Wraps a line between words; continuation lines are indented by two more columns.
    fn wrapped_line(&self, line: &str, paint: Paint) -> String {
        let words = line.trim_start();
        if words.is_empty() {
            return "\n".to_owned();
        }
        let blanks = line.chars().take_while(|character| *character == ' ').count();
        let (first, rest) = (" ".repeat(blanks), " ".repeat(blanks + 2));
        wrap_hanging(&self.style, paint, (&first, &rest), words.trim_end())
    }

    /// Draws the status line: below an open line of text only the input, otherwise the waiting text and the input.
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
        let waiting = self.now.and_then(|now| Some((self.wait_indicator(now)?, now)));
        let mut line = String::new();
        let mut columns = 0;
        if let Some((waiting, now)) = waiting {
            // Next to the input there is no room for the output of a call.
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

/// Milliseconds for each frame of the spinner.
const FRAME_MS: i64 = 120;
const UNICODE_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Subject and start of a wait.
#[derive(Debug, Clone)]
pub(super) struct WaitIndicator {
    /// Start of the wait.
    pub(super) since: Timestamp,
    /// Subject of the wait: harmless text on one line.
    pub(super) subject: String,
    /// Last line of output of the call.
    last_line: String,
}

impl WaitIndicator {
    pub(super) fn new(since: Timestamp, what: impl Into<String>) -> Self {
        Self { since, subject: what.into(), last_line: String::new() }
    }

    /// Updates the last line from new output of the call; blank lines are skipped.
    pub(super) fn on_output(&mut self, output: &str) {
        let lines = output.lines().rev().map(one_line);
        if let Some(line) = lines.into_iter().find(|line| !line.is_empty()) {
            self.last_line = line;
        }
    }

    /// Renders the line: spinner, subject, elapsed time, last line of output. It never fills the last column.
    pub(super) fn line(&self, style: &ConsoleStyle, now: Timestamp) -> String {
        let elapsed = now.duration_since(self.since).as_millis().max(0);
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let seconds = words::whole_seconds(u64::try_from(elapsed / 1000).unwrap_or(0));
        let frame = match style.glyphs {
            Glyphs::Unicode => frame(&UNICODE_FRAMES, elapsed),
            Glyphs::Ascii => frame(&ASCII_FRAMES, elapsed),
        };
        let room = style.width.saturating_sub(1);
        let fixed = width(frame) + width(&seconds) + 3;
        let subject = shorten_middle(&self.subject, room.saturating_sub(fixed), style.glyphs);
        let mut line = format!("{frame} {subject}  {seconds}");
        let rest = room.saturating_sub(width(&line) + 2);
        if !self.last_line.is_empty() && rest >= 10 {
            line.push_str("  ");
            line.push_str(&shorten_end(&self.last_line, rest, style.glyphs));
        }
        line
    }
}

fn frame(frames: &[&'static str], elapsed: i64) -> &'static str {
    let index = usize::try_from(elapsed / FRAME_MS).unwrap_or(0) % frames.len();
    frames[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(columns: usize, prompt: Option<&str>, waiting: &str, text: &str) -> String {
        let input = LiveInput { prompt: prompt.map(str::to_owned), text: text.to_owned() };
        input.line(&ConsoleStyle::plain(columns), waiting, width(waiting))
    }

    #[test]
    fn the_input_follows_the_waiting_text_and_its_end_is_visible() {
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

    fn line_after(millis: i64, waiting: &WaitIndicator, columns: usize) -> String {
        let now = Timestamp::from_millisecond(waiting.since.as_millisecond() + millis).unwrap();
        waiting.line(&ConsoleStyle::plain(columns), now)
    }

    #[test]
    fn the_spinner_turns_and_the_seconds_count_up() {
        let waiting = WaitIndicator::new(Timestamp::UNIX_EPOCH, "thinking");
        assert_eq!(line_after(0, &waiting, 80), "⠋ thinking  0 s");
        assert_eq!(line_after(3130, &waiting, 80), "⠦ thinking  3 s");
    }

    #[test]
    fn a_clock_that_goes_back_shows_zero_seconds() {
        let waiting = WaitIndicator::new(Timestamp::UNIX_EPOCH, "thinking");
        assert_eq!(line_after(-5000, &waiting, 80), "⠋ thinking  0 s");
    }

    #[test]
    fn the_line_fits_a_narrow_screen() {
        let mut waiting = WaitIndicator::new(
            Timestamp::UNIX_EPOCH,
            "cargo nextest run -p crow-cli --all-targets",
        );
        waiting.on_output("   Compiling a\u{1b}[2J thing with a long name\n\n");
        for columns in [20, 40, 60, 80] {
            assert!(width(&line_after(61_000, &waiting, columns)) < columns);
        }
        let line = line_after(61_000, &waiting, 80);
        assert!(line.ends_with("1 min 1 s  Compiling a␛[2J thin…"), "{line}");
    }
}
