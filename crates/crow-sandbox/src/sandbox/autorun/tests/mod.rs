//! Tests of the guard from a command's point of view, and of skipped passes.

mod commondirs;
mod guard;
mod long_texts;
mod moved_roots;
mod nested;
mod pass_record;
mod planned_writes;
mod rebases;
