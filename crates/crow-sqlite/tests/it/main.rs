//! The reader beside `SQLite` itself.

mod common;
mod random;
mod reading;
