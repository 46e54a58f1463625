//! `man`, and writing to stdout.

use std::io;

use clap::CommandFactory as _;

use crate::{args::Cli, error::CliError, output::ExitCode};

/// Prints the manual page of the program, followed by those of its commands.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    let mut pages = Vec::new();
    let mut command = Cli::command();
    command.build();
    render_page(&command, &mut pages)?;
    write_out(&pages)
}

fn render_page(command: &clap::Command, pages: &mut Vec<u8>) -> Result<(), CliError> {
    let page = clap_mangen::Man::new(command.clone());
    page.render(pages).map_err(|error| CliError::failed(error.to_string()))?;
    command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
        .try_for_each(|sub| render_page(sub, pages))
}

/// Writes to stdout. A closed pipe is no error: the reader has enough.
pub(crate) fn write_out(bytes: &[u8]) -> Result<ExitCode, CliError> {
    use io::Write as _;
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::Done),
        Err(error) => Err(CliError::failed(format!("the output cannot be written: {error}"))),
    }
}
