//! Limit on compactions that do not help.

/// Model calls between two compactions that count as progress.
const PROGRESS_CALLS: u32 = 3;
/// Growth of the request since the last compaction that counts as progress, in percent.
const PROGRESS_GROWTH: u64 = 20;
/// Compactions in a row without progress before the next one has to wait for progress.
const FRUITLESS_MOST: u32 = 2;

/// Counts compactions in a row that were followed neither by some model calls nor by some growth before the next one:
/// the rest of the conversation alone fills the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cooldown {
    last: Option<LastCompaction>,
    fruitless: u32,
}

#[derive(Debug, Clone, Copy)]
struct LastCompaction {
    /// Model calls since.
    calls: u32,
    /// Tokens of the request after it.
    tokens_after: u64,
}

impl LastCompaction {
    /// Returns true if there were some model calls or some growth of the request since.
    fn was_followed_by_progress(&self, tokens: u64) -> bool {
        let grown = self.tokens_after.saturating_mul(100 + PROGRESS_GROWTH) / 100;
        self.calls >= PROGRESS_CALLS || tokens >= grown
    }
}

impl Cooldown {
    /// Records an answered model call.
    pub fn on_model_call(&mut self) {
        if let Some(last) = &mut self.last {
            last.calls = last.calls.saturating_add(1);
        }
    }

    /// Records a compaction, with the tokens of the request before and after; the same number for one that failed.
    pub fn on_compaction(&mut self, tokens_before: u64, tokens_after: u64) {
        let is_fruitless =
            self.last.is_some_and(|last| !last.was_followed_by_progress(tokens_before));
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        self.last = Some(LastCompaction { calls: 0, tokens_after });
    }

    /// Returns true if a request of this length may be compacted: the last compactions helped, or there was some
    /// progress since.
    pub fn permits(&self, tokens: u64) -> bool {
        self.fruitless < FRUITLESS_MOST
            || self.last.is_some_and(|last| last.was_followed_by_progress(tokens))
    }
}
