//! A provider that plays the model's side of a recorded conversation, while the tools really run.
//!
//! # The format
//! ```json
//! {
//!   "format": "crow-replay",
//!   "version": 1,
//!   "model": "claude-sonnet-5-5",
//!   "pace_ms": 15,
//!   "replies": [
//!     {
//!       "blocks": [
//!         { "thinking": "First the test." },
//!         { "text": "I run the tests." },
//!         { "call": { "id": "call_1", "name": "bash", "arguments": { "command": "cargo test" } } }
//!       ],
//!       "usage": { "input_tokens": 1200, "output_tokens": 40 }
//!     },
//!     { "expect": "1 failed", "blocks": [{ "text": "One test fails." }], "stop": "end_turn" }
//!   ]
//! }
//! ```
//! The n-th request of a conversation gets the n-th reply. `expect` is a text that the results of the calls before it
//! must contain. `model`, `pace_ms` (the pause between two deltas), `id`, `usage`, `expect` and `stop` may be left out.

mod provider;
mod recording;

pub use provider::ReplayProvider;
pub use recording::RecordingError;
