//! The `crow-agent` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    crow_cli::main(std::env::args_os(), &crow_cli::ProcessEnvironment::from_process())
}
