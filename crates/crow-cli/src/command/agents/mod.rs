//! The commands about agents: list, show and create.

mod create;
mod list;
mod show;

pub(crate) use create::create;
pub(crate) use list::list;
pub(crate) use show::show;
