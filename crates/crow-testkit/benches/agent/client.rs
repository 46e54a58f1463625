//! What is measured: a program that talks to the server.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Instant,
};

use crow_testkit::{Dialect, ModelServer};
use tempfile::TempDir;

use crate::bare_loop;

/// A program that talks to the server.
pub(crate) struct Client {
    program: PathBuf,
    is_crow: bool,
    /// Home and project of all its runs.
    folder: TempDir,
}

/// A started client.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) at: Instant,
}

impl Client {
    pub(crate) fn crow(program: PathBuf) -> Self {
        Self { program, is_crow: true, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn bare() -> Self {
        Self {
            program: std::env::current_exe().unwrap(),
            is_crow: false,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts a run against the server.
    pub(crate) fn start(&self, server: &ModelServer) -> Started {
        let url = server.base_url(Dialect::AnthropicMessages);
        let mut command = self.command();
        if self.is_crow {
            let run = [
                "run",
                "work",
                "-m",
                "anthropic/claude-sonnet-4-5",
                "-p",
                "full-auto",
                "--max-steps",
                "5000",
            ];
            command.args(run).env("ANTHROPIC_API_KEY", "sk-bench").env("ANTHROPIC_BASE_URL", url);
        } else {
            command.args([bare_loop::MODE, &url]);
        }
        let at = Instant::now();
        Started { child: command.spawn().unwrap(), at }
    }

    /// Runs the program with other arguments to its end and returns how long it took.
    pub(crate) fn time(&self, args: &[&str]) -> std::time::Duration {
        let begun = Instant::now();
        self.command().args(args).status().unwrap();
        begun.elapsed()
    }

    pub(crate) fn program(&self) -> &PathBuf {
        &self.program
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}
