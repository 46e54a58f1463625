//! What a process prints while it runs, as text, for those who watch it.

use std::time::{Duration, Instant};

use crow_core::tool::Progress;

/// How long output is gathered before it is reported.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How much is gathered at most: more is reported at once.
const GATHERED: usize = 64 << 10;

/// Reports all that a process prints, in order, a few times a second. Characters are not torn apart.
pub(super) struct LiveOutput {
    progress: Progress,
    gathered: Vec<u8>,
    /// When the first of what is gathered came.
    since: Instant,
}

impl LiveOutput {
    pub(super) fn new(progress: Progress) -> Self {
        Self { progress, gathered: Vec::new(), since: Instant::now() }
    }

    /// Takes in what was printed.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.gathered.is_empty() {
            self.since = Instant::now();
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED {
            self.report();
        }
    }

    /// Returns when what is gathered is to be reported, if there is anything.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.gathered.is_empty()).then(|| self.since + REPORT_EVERY)
    }

    /// Reports what is gathered, without the beginning of a character whose end has not come yet.
    pub(super) fn report(&mut self) {
        let whole = self.gathered.len() - torn_character(&self.gathered);
        let rest = self.gathered.split_off(whole);
        let whole = std::mem::replace(&mut self.gathered, rest);
        self.since = Instant::now();
        if !whole.is_empty() {
            self.progress.report(String::from_utf8_lossy(&whole));
        }
    }

    /// Reports all that is left.
    pub(super) fn finish(&mut self) {
        let left = std::mem::take(&mut self.gathered);
        if !left.is_empty() {
            self.progress.report(String::from_utf8_lossy(&left));
        }
    }
}

/// How many bytes at the end begin a character that is not complete.
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
    fn a_character_is_torn_only_if_more_of_it_may_come() {
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
            let heard = Arc::clone(&reported);
            let progress = Progress::new(move |part| heard.lock().unwrap().push_str(&part));
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
