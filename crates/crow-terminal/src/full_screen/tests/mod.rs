//! Tests of the views as a person sees them, on a terminal in memory.

mod pager_tests;
mod picker_tests;
mod screen;
