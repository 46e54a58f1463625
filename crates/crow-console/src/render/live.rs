//! The status line at the bottom of a terminal: a spinner with the subject of the wait and the elapsed time.

use std::io::{self, Write};

use crow_core::event::{AgentEvent, Envelope};
use jiff::Timestamp;

use super::{
    ConsoleRenderer, ConsoleStyle, Glyphs, RunActivity, end, neutralise, one_line,
    screen::ScreenStream,
    style::{self, Paint},
    words,
    wrap::{shorten_end, shorten_middle, width, wrap_hanging},
};
use crate::report::RunReport;

impl<O: Write, E: Write> ConsoleRenderer<O, E> {
    /// Redraws the waiting line on a terminal. The caller calls it a few times a second.
    pub fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        if !self.style.live {
            return Ok(());
        }
        self.now = Some(now);
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

    /// Draws the status line, unless the screen is in the middle of a line of text.
    pub(super) fn draw(&mut self) -> io::Result<()> {
        let waiting = self.now.and_then(|now| Some((self.wait_indicator(now)?, now)));
        match waiting {
            Some((waiting, now)) => {
                let mut line = String::new();
                Paint::Dim.write(&self.style, &waiting.line(&self.style, now), &mut line);
                self.screen.set_status(&line)?;
            }
            None => self.screen.clear_status()?,
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
