//! Tests of the guard from a command's point of view, and of skipped passes.

mod guard;
mod moved_roots;
mod nested;
mod pass_record;
mod rebases;
