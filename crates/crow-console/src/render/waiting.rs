//! The waiting line: a spinner with the subject of the wait and the elapsed time.

use jiff::Timestamp;

use super::{
    ConsoleStyle, one_line, words,
    wrap::{shorten_end, shorten_middle, width},
};

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
    pub(super) last_line: String,
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
            super::Glyphs::Unicode => frame(&UNICODE_FRAMES, elapsed),
            super::Glyphs::Ascii => frame(&ASCII_FRAMES, elapsed),
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
