//! The program, with a home and a project of its own.

use std::{
    fs,
    io::Read as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::{self, JoinHandle},
};

use crow_testkit::{
    Delivery, ModelServer, PrefixCheck, Script, ServerChecks, ServerOptions, StreamGate,
    WireDialect,
};
use portable_pty::CommandBuilder;
use tempfile::TempDir;

use crate::chat_terminal::{ChatTerminal, PATIENCE};

/// Arguments that choose the model and the permissions.
const CHOICES: [&str; 4] = ["-m", "anthropic/claude-sonnet-4-5", "-p", "full-auto"];

/// The measured program.
pub(crate) struct ChatProgram {
    path: PathBuf,
    /// Home and project of all its runs.
    folder: TempDir,
}

/// A run without a terminal, whose output goes to a pipe that is read.
pub(crate) struct PipedRun {
    child: Child,
    reader: JoinHandle<()>,
}

impl ChatProgram {
    pub(crate) fn new(path: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Beside each other: in a home nothing is captured.
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { path, folder }
    }

    /// Opens a chat, and waits for its prompt.
    pub(crate) fn open_chat(&self, server: &ModelServer) -> ChatTerminal {
        let mut terminal = self.start_chat(server);
        terminal.wait_for_empty_prompt();
        terminal
    }

    /// Starts a chat.
    pub(crate) fn start_chat(&self, server: &ModelServer) -> ChatTerminal {
        self.start_on_terminal(&CHOICES, server)
    }

    /// Starts the program on a terminal.
    pub(crate) fn start_on_terminal(&self, args: &[&str], server: &ModelServer) -> ChatTerminal {
        let mut command = CommandBuilder::new(&self.path);
        command.args(args);
        command.cwd(self.project());
        command.env_clear();
        for (name, value) in self.variables(server) {
            command.env(name, value);
        }
        ChatTerminal::start(command)
    }

    /// Starts a run with a prompt.
    pub(crate) fn start_run(&self, server: &ModelServer) -> PipedRun {
        let mut command = Command::new(&self.path);
        command
            .args(["run", "work", "--max-steps", "5000"])
            .args(CHOICES)
            .current_dir(self.project())
            .env_clear()
            .envs(self.variables(server))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(1..) = output.read(&mut bytes) {}
        });
        PipedRun { child, reader }
    }

    pub(crate) fn project(&self) -> PathBuf {
        // A chat names the folder as the system does.
        self.folder.path().canonicalize().unwrap().join("project")
    }

    fn variables(&self, server: &ModelServer) -> [(&'static str, String); 7] {
        [
            // As if it was started from a shell: else the login shell is asked first.
            ("SHLVL", "1".to_owned()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", self.folder.path().join("home").to_str().unwrap().to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
            ("ANTHROPIC_API_KEY", "sk-bench".to_owned()),
            ("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages)),
        ]
    }
}

impl PipedRun {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_for_end(mut self) {
        assert!(self.child.wait().unwrap().success());
        self.reader.join().unwrap();
    }
}

/// Starts a model server. Each of its chunks is written at once, unless `delivery` says otherwise.
pub(crate) async fn start_server(script: impl Into<Script>, delivery: Delivery) -> ModelServer {
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    let options = ServerOptions { checks, delivery, ..ServerOptions::default() };
    ModelServer::start_with(script, options).await
}

/// Waits until the server has sent what is before a gate.
pub(crate) async fn wait_for_arrival(gate: &StreamGate) {
    let arrived = tokio::time::timeout(PATIENCE, gate.wait_for_arrival(1)).await;
    arrived.expect("the server is not asked for the reply, or cannot send it");
}
