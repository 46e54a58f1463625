//! Compositions: the order of their agents' messages, and which agent ends a run.

mod handoffs;
mod levels;
mod ownership;
mod records;
mod reviewers;
mod seams;
mod story;
