//! Live output of a running process, reported as text.

use std::time::{Duration, Instant};

use crow_core::tool::Progress;

/// Interval between two reports.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Buffer size in bytes that triggers an immediate report.
const MAX_BUFFERED: usize = 64 << 10;

/// Reports all output of a process, in order, a few times a second, without splitting characters.
pub(super) struct LiveOutput {
    progress: Progress,
    buffered: Vec<u8>,
    /// Arrival time of the first buffered byte.
    since: Instant,
}

impl LiveOutput {
    pub(super) fn new(progress: Progress) -> Self {
        Self { progress, buffered: Vec::new(), since: Instant::now() }
    }

    /// Buffers output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffered.is_empty() {
            self.since = Instant::now();
        }
        self.buffered.extend_from_slice(bytes);
        if self.buffered.len() >= MAX_BUFFERED {
            self.report();
        }
    }

    /// Returns the time of the next report, or `None` if the buffer is empty.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.buffered.is_empty()).then(|| self.since + REPORT_EVERY)
    }

    /// Reports the buffered output except an incomplete character at its end.
    pub(super) fn report(&mut self) {
        let complete = self.buffered.len() - torn_character(&self.buffered);
        let rest = self.buffered.split_off(complete);
        let complete = std::mem::replace(&mut self.buffered, rest);
        self.since = Instant::now();
        if !complete.is_empty() {
            self.progress.report(String::from_utf8_lossy(&complete));
        }
    }

    /// Reports the rest of the buffer, incomplete characters included.
    pub(super) fn finish(&mut self) {
        let rest = std::mem::take(&mut self.buffered);
        if !rest.is_empty() {
            self.progress.report(String::from_utf8_lossy(&rest));
        }
    }
}

/// Returns the number of bytes at the end that belong to an incomplete character.
pub(super) fn torn_character(bytes: &[u8]) -> usize {
    let continues = |byte: &&u8| **byte & 0xC0 == 0x80;
    let back = bytes.iter().rev().take(3).take_while(continues).count() + 1;
    let first = bytes.iter().rev().nth(back - 1).copied().unwrap_or_default();
    let needed = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if back < needed { back } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn only_an_incomplete_character_counts_as_torn() {
        for (bytes, torn) in [
            (&b""[..], 0),
            (b"a", 0),
            ("ä".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"\xe6\xbc", 2),
            (b"\xf0\x9f\x98", 3),
            ("😀".as_bytes(), 0),
            (b"\x80\x80\x80\x80", 0),
            (b"\xff", 0),
        ] {
            assert_eq!(torn_character(bytes), torn, "{bytes:?}");
        }
    }

    #[test]
    fn every_byte_is_reported_in_order_and_no_character_is_torn() {
        let text = "é and 🐦 and \u{fffd}".repeat(20_000);
        for size in [1, 2, 3, 5, 4096, 100_000] {
            let reported = Arc::new(Mutex::new(String::new()));
            let received = Arc::clone(&reported);
            let progress = Progress::new(move |part| received.lock().unwrap().push_str(&part));
            let mut output = LiveOutput::new(progress);
            for (number, chunk) in text.as_bytes().chunks(size).enumerate() {
                output.push(chunk);
                if number % 7 == 0 {
                    output.report();
                }
            }
            output.finish();
            assert_eq!(output.due(), None);
            assert!(*reported.lock().unwrap() == text, "{size}");
        }
    }
}
