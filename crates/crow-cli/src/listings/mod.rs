//! Lists and reports that the command line prints and a session shows: skills, hooks, MCP servers, statistics, and the report
//! of a session. They know neither the commands nor the sessions.

mod command_listing;
pub(crate) mod hooks;
mod report;
pub(crate) mod servers;
pub(crate) mod skills;
mod statistics;

pub(crate) use command_listing::CommandListing;
pub(crate) use report::{default_report_file, report_html, write_report};
pub(crate) use statistics::statistics;
