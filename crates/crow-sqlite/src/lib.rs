//! Reads tables of `SQLite` database files, and writes nothing.
//!
//! A database may be in use: the committed part of its write-ahead log counts. `SQLite` itself would write files beside it to
//! read that, and is 1.4 MB of the program. There are no queries: a [`SqliteTable`] gives all rows, or the row with an id.

mod sqlite_file;
mod sqlite_record;

pub use sqlite_file::{SqliteFile, SqliteFileError, SqliteRow, SqliteTable};
pub use sqlite_record::SqliteValue;
