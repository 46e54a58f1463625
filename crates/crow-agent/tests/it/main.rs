//! Turns of the built-in loop on the real runtime, with a scripted model.
#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

mod tools;
mod turns;
