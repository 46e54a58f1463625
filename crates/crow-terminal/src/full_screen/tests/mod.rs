//! Tests of the views as a person sees them, on a terminal in memory.

mod diff_tests;
mod pager_tests;
mod picker_tests;
mod property_tests;
mod screen;
