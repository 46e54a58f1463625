//! Draws the spinner line.

use crow_console::{Glyphs, words::count};
use jiff::Timestamp;

use super::{
    agent_progress::{ASKING, AgentProgress},
    layout::SectionRows,
    live_calls::LiveCall,
    model_phase::{PhaseText, call_count, elapsed, millis_between},
    panel::STOPPING,
    rows::{LEAST_REST, LEAST_SUBJECT, PanelRows},
    text_fit::columns_of,
};
use crate::styled_text::{StyledLine, TextRole};

/// Columns that the subject keeps before the number of tokens is left out.
const SUBJECT_COLUMNS: usize = 24;
/// Milliseconds for each frame of the spinner.
const FRAME_MS: u64 = 120;
const UNICODE_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
const HINT: &str = "esc stops";

/// The subject of the spinner line.
struct SpinnerSubject {
    text: PhaseText,
    motion: SpinnerMotion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpinnerMotion {
    /// It turns, and the user can stop it.
    Work,
    /// It turns, and is being stopped.
    Stop,
    /// It stands still: the user is waited for.
    Question,
}

impl PanelRows<'_> {
    fn subject(&self, root: &AgentProgress, given: SectionRows) -> SpinnerSubject {
        let plain = |text: String, since: Timestamp| SpinnerSubject {
            text: PhaseText { text, since: Some(since), role: TextRole::Plain },
            motion: SpinnerMotion::Work,
        };
        if let Some(since) = self.panel.run.stopping_since {
            let text =
                PhaseText { text: STOPPING.into(), since: Some(since), role: TextRole::Warning };
            return SpinnerSubject { text, motion: SpinnerMotion::Stop };
        }
        if let Some(since) = self.panel.asking_since() {
            let text =
                PhaseText { text: ASKING.into(), since: Some(since), role: TextRole::Accent };
            return SpinnerSubject { text, motion: SpinnerMotion::Question };
        }
        let calls = self.named_calls(root, given);
        let agents = self.agents_text();
        let Some((call, since)) = oldest_of(&calls) else {
            // Calls that started agents are not named beside the rows of these.
            let waits_for_agents = root.phase.is_preparation() || !root.calls.is_empty();
            return match agents.filter(|_| waits_for_agents) {
                Some((text, since)) => plain(text, since),
                None => SpinnerSubject {
                    text: root.phase.describe(self.now),
                    motion: SpinnerMotion::Work,
                },
            };
        };
        match calls.len() {
            1 => plain(call.description(), since),
            number if given.calls > 0 => plain(format!("running {}", call_count(number)), since),
            number => plain(format!("{} (+{})", call.description(), number - 1), since),
        }
    }

    /// Returns the running calls, without those that started agents if these have rows.
    fn named_calls<'b>(&self, root: &'b AgentProgress, given: SectionRows) -> Vec<&'b LiveCall> {
        let is_named = |call: &&LiveCall| given.agents == 0 || !self.panel.is_delegated(call);
        root.calls.running().filter(is_named).collect()
    }

    /// Returns the text for a wait for other agents, and since when they work. None if none is waited for.
    fn agents_text(&self) -> Option<(String, Timestamp)> {
        let awaited = || self.agents.iter().filter(|entry| !entry.agent.is_background);
        let first = awaited().next()?;
        let since = awaited().filter_map(|entry| entry.agent.work).map(|work| work.since).min()?;
        let text = match awaited().filter(|entry| entry.depth == 0).count() {
            0 | 1 => format!("waiting for {}", first.agent.label.name),
            number => format!("waiting for {}", count(number as u64, "agent")),
        };
        Some((text, since))
    }

    pub(super) fn spinner_row(
        &self,
        root: &AgentProgress,
        given: SectionRows,
        columns: usize,
    ) -> StyledLine {
        let SpinnerSubject { text: PhaseText { text, since, role }, motion } =
            self.subject(root, given);
        let mut row = self.row(columns);
        row.push(self.frame(since, motion), TextRole::Accent);
        row.push(" ", TextRole::Plain);
        let time = since.map(|since| format!("  {}", elapsed(since, self.now))).unwrap_or_default();
        let arrow = self.glyphs().pick("↓", "received");
        let tokens = self.panel.run.tokens.text(arrow).map(|text| format!("  {text}"));
        let tokens = tokens.unwrap_or_default();
        // The time is left out before the subject becomes unreadable, the tokens before that.
        let fits = |taken: usize, least: usize| columns_of(&text).min(least) + taken <= row.room();
        let has_time = fits(columns_of(&time), LEAST_SUBJECT);
        let has_tokens = fits(columns_of(&time) + columns_of(&tokens), SUBJECT_COLUMNS);
        let mut rest = String::new();
        if has_time {
            rest.push_str(&time);
        }
        if has_tokens {
            rest.push_str(&tokens);
        }
        row.push_middle(&text, row.room().saturating_sub(columns_of(&rest)), role);
        row.push(&rest, TextRole::Dim);
        // Without rows for calls and their output, the last line of the named call follows.
        let named = oldest_of(&self.named_calls(root, given));
        let named = named.filter(|_| given.calls + given.tail == 0);
        let last = named.and_then(|(call, _)| call.tail.last_lines(1).pop());
        if let Some(last) =
            last.filter(|_| motion == SpinnerMotion::Work && row.room() >= LEAST_REST + 2)
        {
            row.push("  ", TextRole::Plain);
            row.push(last.trim_start(), TextRole::Dim);
        } else if motion == SpinnerMotion::Work {
            row.push_right(HINT, TextRole::Dim);
        }
        row.finish()
    }

    fn frame(&self, since: Option<Timestamp>, motion: SpinnerMotion) -> &'static str {
        if motion == SpinnerMotion::Question {
            return "?";
        }
        let frames: &[&str] = match self.glyphs() {
            Glyphs::Unicode => &UNICODE_FRAMES,
            Glyphs::Ascii => &ASCII_FRAMES,
        };
        let millis = millis_between(since.unwrap_or(Timestamp::UNIX_EPOCH), self.now);
        let frame = usize::try_from(millis / FRAME_MS).unwrap_or(0) % frames.len();
        frames[frame]
    }
}

/// Returns the call that has run longest, and since when.
fn oldest_of<'a>(calls: &[&'a LiveCall]) -> Option<(&'a LiveCall, Timestamp)> {
    let times = calls.iter().filter_map(|call| Some((*call, call.since()?)));
    times.min_by_key(|(_, since)| *since)
}
