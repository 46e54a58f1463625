//! Compositions: who spoke, in which order, and who ended it.

mod levels;
mod ownership;
mod reviewers;
mod story;
