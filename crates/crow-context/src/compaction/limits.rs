//! Token limits that follow from the window of a model.

/// Tokens that are reserved for the reply at least, in a window that is large enough.
const REPLY_RESERVE: u64 = 16_000;
/// Maximum length of what is kept whole: the last steps, and the user's messages.
const KEPT_MOST: u64 = 20_000;
/// Maximum length of a summary.
const SUMMARY_MOST: u64 = 6_000;
/// Minimum length that a summary may have, in a window however small.
const SUMMARY_LEAST: u64 = 400;

/// When a conversation is compacted, and how long its parts may be afterwards. All numbers are tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// The window of the model: input and output together.
    pub window: u64,
    /// A request of this length is compacted first.
    pub trigger: u64,
    /// A compacted request should not be longer.
    pub target: u64,
    /// The last steps that are kept whole.
    pub tail: u64,
    /// The user's messages before them that are kept.
    pub user_messages: u64,
    /// The summary.
    pub summary: u64,
}

impl WindowLimits {
    /// Derives the limits from a window and the longest reply of the model.
    ///
    /// The reserve for the reply is at most a quarter of the window, and 4 % are left for the error of estimates.
    pub fn new(window: u64, max_output: Option<u64>) -> Self {
        let reserve = max_output.unwrap_or(0).max(REPLY_RESERVE).min(window / 4);
        let trigger = (window - reserve - window / 25).min(window / 100 * 85);
        Self {
            window,
            trigger,
            target: trigger / 100 * 60,
            tail: KEPT_MOST.min(trigger / 4),
            user_messages: KEPT_MOST.min(trigger / 5),
            summary: (trigger / 8).clamp(SUMMARY_LEAST, SUMMARY_MOST),
        }
    }

    /// Derives the limits of a compaction that the user asks for: the conversation becomes much shorter than it is,
    /// however large the window. `request` are the tokens of the next request.
    pub fn on_request(request: u64, window: Option<u64>) -> Self {
        let scale = window.map_or(request, |window| window.min(request));
        // A summary is asked for in the conversation itself, which needs some room after it.
        Self { window: window.unwrap_or(request.saturating_mul(2)), ..Self::new(scale, None) }
    }

    /// Returns true if a request of this length is compacted first.
    pub fn is_due(&self, request: u64) -> bool {
        request >= self.trigger
    }
}
