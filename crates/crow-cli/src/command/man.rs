//! `man`, and writing to stdout.

use clap::CommandFactory as _;
use crow_console::ExitCode;

use crate::{args::Cli, error::CliError, terminal::write_out};

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
