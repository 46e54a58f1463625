//! The loop guard: detects when a model repeats itself.
//!
//! It looks for four patterns: the same call in a row (same result, or failed each time), a cycle of two or three
//! calls, the same text in a row, and refused attempts to end the turn without a change of files in between. Each
//! first gives a warning for the model and then the stop of the turn. Calls and texts are compared by hash.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hash::fnv1a;

/// Number of calls remembered.
const WINDOW: usize = 64;
/// Longest cycle of calls that is looked for.
const LONGEST_CYCLE: usize = 3;
/// Number of rounds of a cycle that ends the turn.
const CYCLES: usize = 3;
/// Number of times the same text may come in a row before the model is warned.
const SAME_TEXT: u32 = 3;

/// Hashes of a call and its result, for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSignature {
    call: u64,
    result: u64,
    failed: bool,
}

impl CallSignature {
    /// Makes the signature of a call. The order of keys in `arguments` does not matter.
    pub fn new(tool: &str, arguments: &Value, output: &str, failed: bool) -> Self {
        let mut bytes = tool.as_bytes().to_vec();
        write_canonical(arguments, &mut bytes);
        Self { call: fnv1a(&bytes), result: fnv1a(output.as_bytes()), failed }
    }
}

fn write_canonical(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| key.as_str());
            bytes.push(b'{');
            for (key, value) in pairs {
                bytes.extend_from_slice(key.as_bytes());
                bytes.push(0);
                write_canonical(value, bytes);
            }
            bytes.push(b'}');
        }
        Value::Array(items) => {
            bytes.push(b'[');
            for item in items {
                write_canonical(item, bytes);
            }
            bytes.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            bytes.extend_from_slice(value.to_string().as_bytes());
        }
    }
    bytes.push(1);
}

/// The decision of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardVerdict {
    /// Continue.
    Fine,
    /// Continue, but tell the model this text.
    Warn(String),
    /// End the turn for this reason.
    Stop(String),
}

/// Detects when a model repeats itself. Is reset by input during the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopGuard {
    threshold: u32,
    calls: VecDeque<CallSignature>,
    /// Hash of the last text.
    text: u64,
    /// Number of times it came in a row.
    texts: u32,
    /// Number of refused attempts to end the turn since a file changed.
    refused_ends: u32,
}

impl LoopGuard {
    /// Makes a guard that stops at `threshold` identical calls with identical results (at least 2).
    pub fn new(threshold: u32) -> Self {
        Self {
            threshold: threshold.max(2),
            calls: VecDeque::new(),
            text: 0,
            texts: 0,
            refused_ends: 0,
        }
    }

    /// Forgets all calls, texts and refused ends.
    pub fn reset(&mut self) {
        *self = Self::new(self.threshold);
    }

    /// Records an answered call.
    pub fn on_call(&mut self, signature: CallSignature) -> GuardVerdict {
        self.calls.push_back(signature);
        if self.calls.len() > WINDOW {
            self.calls.pop_front();
        }
        // Number of identical calls at the end of the window: with the same result, and failed each time.
        let same = self
            .run_length(|other| other.call == signature.call && other.result == signature.result);
        let failed = self
            .run_length(|other| other.call == signature.call && other.failed && signature.failed);
        let (stop, warn) = (self.threshold, self.threshold.saturating_sub(2).max(2));
        if same >= stop || failed >= stop {
            return GuardVerdict::Stop(format!(
                "the same call was made {} times in a row",
                same.max(failed)
            ));
        }
        // A cycle needs at least two different calls, so it is not looked for within a run of identical ones.
        if same < 2
            && let Some(verdict) = self.cycle()
        {
            return verdict;
        }
        if same == warn || (failed == 2 && same <= 2) {
            let times = same.max(failed);
            let text = format!(
                "You made the same call {times} times in a row{}. Do not repeat it: look at what it said, and try something else or say what stands in your way.",
                if failed == times { " and it failed" } else { " and got the same result" }
            );
            return GuardVerdict::Warn(text);
        }
        GuardVerdict::Fine
    }

    /// Records that files changed, so that a refused end of the turn may now be accepted.
    pub fn on_change(&mut self) {
        self.refused_ends = 0;
    }

    /// Records that `tool` was to end the turn and was refused, whatever its arguments.
    pub fn on_refused_end(&mut self, tool: &str) -> GuardVerdict {
        self.refused_ends = self.refused_ends.saturating_add(1);
        let times = self.refused_ends;
        if times >= self.threshold {
            return GuardVerdict::Stop(format!(
                "{tool} was refused {times} times, and no file changed in between"
            ));
        }
        if times == self.threshold.saturating_sub(2).max(2) {
            return GuardVerdict::Warn(format!(
                "{tool} was refused {times} times, and no file changed in between. Repair what it was refused for, or end your turn with a text that says why you cannot."
            ));
        }
        GuardVerdict::Fine
    }

    /// Records the text of a reply that continues with calls.
    pub fn on_text(&mut self, text: &str) -> GuardVerdict {
        if text.trim().is_empty() {
            return GuardVerdict::Fine;
        }
        let hash = fnv1a(text.trim().as_bytes());
        self.texts = if hash == self.text { self.texts + 1 } else { 1 };
        self.text = hash;
        if self.texts >= self.threshold.max(SAME_TEXT + 1) {
            return GuardVerdict::Stop(format!(
                "the same text was said {} times in a row",
                self.texts
            ));
        }
        if self.texts == SAME_TEXT {
            return GuardVerdict::Warn(
                "You said the same thing three times. Do something else, or finish.".to_owned(),
            );
        }
        GuardVerdict::Fine
    }

    fn run_length(&self, same: impl Fn(&CallSignature) -> bool) -> u32 {
        u32::try_from(self.calls.iter().rev().take_while(|call| same(call)).count())
            .unwrap_or(u32::MAX)
    }

    /// Looks for a cycle of two or three calls at the end of the window.
    fn cycle(&self) -> Option<GuardVerdict> {
        for period in 2..=LONGEST_CYCLE {
            let latest_first: Vec<_> = self.calls.iter().rev().collect();
            let repeats = latest_first
                .iter()
                .zip(latest_first.iter().skip(period))
                .take_while(|(new, old)| new == old)
                .count();
            if repeats >= period * (CYCLES - 1) {
                return Some(GuardVerdict::Stop(format!(
                    "the same {period} calls were made {CYCLES} times in turn"
                )));
            }
            if repeats == period {
                let text = format!(
                    "You made the same {period} calls twice in turn with the same results. Try something else."
                );
                return Some(GuardVerdict::Warn(text));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(threshold: u32, calls: &str) -> Vec<&'static str> {
        let mut guard = LoopGuard::new(threshold);
        let verdicts = calls.chars().map(|call| {
            // An upper-case letter is a failing call; a digit is the call `x` with a new result.
            let (name, output) = if call.is_ascii_digit() { ('x', call) } else { (call, 'r') };
            let arguments = serde_json::json!({ "name": name.to_string() });
            match guard.on_call(CallSignature::new(
                "t",
                &arguments,
                &output.to_string(),
                name.is_uppercase(),
            )) {
                GuardVerdict::Fine => "-",
                GuardVerdict::Warn(_) => "warn",
                GuardVerdict::Stop(_) => "stop",
            }
        });
        verdicts.collect()
    }

    #[test]
    fn the_same_call_with_the_same_result_gives_a_warning_then_a_stop() {
        assert_eq!(feed(5, "aaaaa"), ["-", "-", "warn", "-", "stop"]);
        assert_eq!(feed(3, "aaa"), ["-", "warn", "stop"]);
    }

    #[test]
    fn a_call_whose_result_changes_is_accepted_as_polling() {
        assert!(feed(5, "123456789").iter().all(|verdict| *verdict == "-"));
    }

    #[test]
    fn a_failing_call_is_warned_of_earlier() {
        assert_eq!(feed(5, "AAAAA"), ["-", "warn", "warn", "-", "stop"]);
    }

    #[test]
    fn cycles_of_two_and_three_are_stopped_at_the_third_round() {
        assert_eq!(feed(5, "ababab"), ["-", "-", "-", "warn", "-", "stop"]);
        assert_eq!(feed(5, "abcabcabc"), ["-", "-", "-", "-", "-", "warn", "-", "-", "stop"]);
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let one = CallSignature::new("t", &serde_json::json!({"a": 1, "b": [2]}), "r", false);
        let two = CallSignature::new("t", &serde_json::json!({"b": [2], "a": 1}), "r", false);
        assert_eq!(one, two);
    }

    #[test]
    fn repeated_text_is_warned_of_then_stopped() {
        let mut guard = LoopGuard::new(5);
        let verdicts: Vec<_> = (0..5).map(|_| guard.on_text("again")).collect();
        assert!(
            matches!(verdicts[2], GuardVerdict::Warn(_))
                && matches!(verdicts[4], GuardVerdict::Stop(_))
        );
        guard.reset();
        assert_eq!(guard.on_text("again"), GuardVerdict::Fine);
    }
}
