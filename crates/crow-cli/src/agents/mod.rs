//! The commands about agents: list, show, and begin a new one.

mod create;
mod list;
mod show;

pub(crate) use create::create;
pub(crate) use list::list;
pub(crate) use show::show;
