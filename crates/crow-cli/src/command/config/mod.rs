//! The commands about the configuration: showing, changing and checking it.

mod change;
mod commands;
mod schema;
mod validate;

pub(crate) use change::set;
pub(crate) use commands::{explain, get, one_line_value, paths};
pub(crate) use schema::print as print_schema;
pub(crate) use validate::{check, validate};
