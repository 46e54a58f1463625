//! Tests of the views as a person sees them, on a terminal in memory.

mod picker_tests;
mod screen;
