//! Compositions: who spoke, in which order, and who ended it.

mod handoffs;
mod levels;
mod ownership;
mod records;
mod reviewers;
mod seams;
mod story;
