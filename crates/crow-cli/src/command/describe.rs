//! `completions` and `man`.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::{CliError, args::Cli, output::ExitCode};

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "crow-agent", &mut script);
    write_out(&script)
}

/// Prints the manual page.
pub(crate) fn man() -> Result<ExitCode, CliError> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
    rendered.map_err(|error| CliError::failed(error.to_string()))?;
    write_out(&page)
}

/// Writes to stdout. A reader that has enough is no error.
pub(crate) fn write_out(bytes: &[u8]) -> Result<ExitCode, CliError> {
    use io::Write as _;
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::Done),
        Err(error) => Err(CliError::failed(format!("the output cannot be written: {error}"))),
    }
}
