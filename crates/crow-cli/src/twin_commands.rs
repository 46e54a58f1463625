//! Commands of the command line that a session has as well: they do the same for its directory, and return the same text.

use std::{fmt::Write as _, time::Duration};

use clap::ValueEnum as _;
use crow_app::host::{CommandSession, blocking, server_state};
use crow_console::{ConsoleStyle, prices_of};
use crow_runtime::{HostCommand, HostError};
use crow_telemetry::TraceBuilder;
use crow_text::one_line;

use crate::{
    args::{OutputForm, StatsArgs, StatsGroup},
    doctor::doctor_text,
    error::CliError,
    listings::{self, default_report_file, report_html, statistics, write_report},
    session_trace::trace_text,
};

/// Number of days that `/stats` sums up, as `stats` does.
const DAYS: u32 = 30;

/// A command of the command line that a session has as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwinCommand {
    Report,
    Trace,
    Stats,
    Doctor,
    Hooks,
    Skills,
    Mcp,
}

impl TwinCommand {
    const ALL: [Self; 7] = [
        Self::Report,
        Self::Trace,
        Self::Stats,
        Self::Doctor,
        Self::Hooks,
        Self::Skills,
        Self::Mcp,
    ];

    /// Returns all of them in the order in which they are listed.
    pub(crate) fn list() -> impl Iterator<Item = HostCommand> {
        Self::ALL.into_iter().map(Self::command)
    }

    /// Returns the command of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|twin| twin.command().name == name)
    }

    const fn command(self) -> HostCommand {
        match self {
            Self::Report => HostCommand::new(
                "report",
                "[FILE]",
                "write this session as one HTML page; with its calls, times, costs and changes",
            ),
            Self::Trace => HostCommand::new(
                "trace",
                "[MS]",
                "show what took how long; or what took MS ms or more",
            ),
            Self::Stats => HostCommand::new(
                "stats",
                "[day|model|project|agent|tool]",
                "show what was used in the last 30 days; by day or by another group",
            ),
            Self::Doctor => HostCommand::new(
                "doctor",
                "",
                "check machine, sandbox, configuration, keys and models",
            ),
            Self::Hooks => {
                HostCommand::new("hooks", "", "list the hooks, and why any does not run")
            }
            Self::Skills => HostCommand::new("skills", "[NAME]", "list the skills, or show one"),
            Self::Mcp => {
                HostCommand::new("mcp", "", "list the MCP servers; and their state in this session")
            }
        }
    }

    /// Runs the command for the directory of a session and returns its output.
    pub(crate) async fn answer(
        self,
        session: &CommandSession,
        argument: &str,
        style: ConsoleStyle,
    ) -> Result<String, HostError> {
        let text = match self {
            Self::Report => report(session, argument).await?,
            Self::Trace => trace(session, argument, &style).await?,
            Self::Stats => stats(session, argument, style).await?,
            Self::Doctor => {
                no_argument(argument)?;
                doctor_text(&session.environment()).await.map_err(refused)?
            }
            Self::Hooks => {
                no_argument(argument)?;
                let environment = session.environment();
                let listed = move || listings::hooks::listing(OutputForm::Text, &environment);
                blocking(listed).await?.map_err(refused)?.into_text()
            }
            Self::Skills => {
                let (environment, name) = (session.environment(), argument.to_owned());
                let listed = move || match name.as_str() {
                    "" => listings::skills::listing(OutputForm::Text, &environment),
                    name => listings::skills::shown(name, OutputForm::Text, &environment),
                };
                blocking(listed).await?.map_err(refused)?.into_text()
            }
            Self::Mcp => {
                no_argument(argument)?;
                servers(session).await?
            }
        };
        Ok(text.trim_end().to_owned())
    }
}

/// Writes the report of a session, and says where it is. A file that the user names is not overwritten.
async fn report(session: &CommandSession, file: &str) -> Result<String, HostError> {
    let record = session.record().await?;
    let html = report_html(&record, prices_of(&record.events, &*session.models).await);
    let crow = record.metadata.crow();
    let path = if file.is_empty() {
        crow.cwd.join(default_report_file(&record.metadata.session_id))
    } else {
        crow.cwd.join(file)
    };
    let is_named = !file.is_empty();
    let written = move || {
        if is_named && path.symlink_metadata().is_ok() {
            let message = format!("{} exists already", path.display());
            return Err(CliError::usage(message).hint("/report FILE names another one"));
        }
        write_report(&path, &html)?;
        Ok(format!("written to {}", path.display()))
    };
    blocking(written).await?.map_err(refused)
}

/// Returns the waterfall of a session, without what took less than a number of milliseconds.
async fn trace(
    session: &CommandSession,
    shortest: &str,
    style: &ConsoleStyle,
) -> Result<String, HostError> {
    let shortest = match shortest {
        "" => Ok(0),
        given => given.parse(),
    };
    let shortest =
        shortest.map_err(|_| refused(CliError::usage("give a number of milliseconds")))?;
    let spans = TraceBuilder::spans(&session.record().await?.events);
    Ok(trace_text(style, &spans, Duration::from_millis(shortest)))
}

async fn stats(
    session: &CommandSession,
    group: &str,
    style: ConsoleStyle,
) -> Result<String, HostError> {
    let by = match group {
        "" => StatsGroup::Day,
        group => StatsGroup::from_str(group, true).map_err(|_| {
            let groups =
                StatsGroup::value_variants().iter().filter_map(StatsGroup::to_possible_value);
            let names: Vec<_> = groups.map(|one| one.get_name().to_owned()).collect();
            refused(CliError::usage(format!("give one of {}", names.join(", "))))
        })?,
    };
    let args = StatsArgs { by, days: DAYS, cwd: None, output: OutputForm::Text };
    let listing = statistics(&args, None, &style, &session.environment()).await;
    Ok(listing.map_err(refused)?.into_text())
}

/// Lists the configured servers, and below them those of the session with their state.
async fn servers(session: &CommandSession) -> Result<String, HostError> {
    let environment = session.environment();
    let listed = move || listings::servers::listing(OutputForm::Text, &environment);
    let mut text = blocking(listed).await?.map_err(refused)?.into_text();
    if !session.servers.is_empty() {
        text.push_str("\nin this session:");
    }
    for server in &session.servers {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}: {}", one_line(&server.name), server_state(server));
    }
    Ok(text)
}

fn no_argument(argument: &str) -> Result<(), HostError> {
    if argument.is_empty() {
        return Ok(());
    }
    Err(refused(CliError::usage("this command takes no argument")))
}

/// Converts an error of the command line into one of a session.
pub(crate) fn refused(error: CliError) -> HostError {
    let CliError { message, hint, .. } = error;
    HostError::Refused { message, hint: hint.unwrap_or_default() }
}
