//! Compositions: the order of their agents' messages, and which agent ends a run.

mod handoffs;
mod levels;
mod ownership;
mod records;
mod reviewers;
mod spans;
mod steering_and_limits;
mod transcript;
