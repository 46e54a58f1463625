//! An editor that reads when it wants to.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use crow_testkit::{ModelServer, WireDialect};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bare_agent;

/// What the replies consist of.
pub(crate) const WORD: &str = "word ";

/// An agent that can be started.
pub(crate) struct AgentProgram {
    path: PathBuf,
    is_crow: bool,
    folder: TempDir,
}

/// A started agent, spoken to in lines.
pub(crate) struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    started: Instant,
    last_id: u64,
    project: PathBuf,
}

/// What came before an answer.
pub(crate) struct EditorAnswer {
    pub(crate) result: Value,
    pub(crate) updates: usize,
    /// How many words of the reply they brought.
    pub(crate) words: usize,
    /// From the first update to the answer.
    pub(crate) streaming: Duration,
}

impl AgentProgram {
    pub(crate) fn crow(path: PathBuf) -> Self {
        Self { path, is_crow: true, folder: folders() }
    }

    pub(crate) fn bare() -> Self {
        Self { path: std::env::current_exe().unwrap(), is_crow: false, folder: folders() }
    }

    /// Starts it against the server.
    pub(crate) fn start(&self, server: &ModelServer) -> Editor {
        let folder = self.folder.path().canonicalize().unwrap();
        let mut command = Command::new(&self.path);
        command
            .current_dir(folder.join("project"))
            .env_clear()
            // As if it was started from a shell: else the login shell is asked first.
            .env("SHLVL", "1")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder.join("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if self.is_crow {
            let url = server.base_url(WireDialect::AnthropicMessages);
            command.args(["acp", "-m", "anthropic/claude-sonnet-4-5", "-p", "full-auto"]);
            command.env("ANTHROPIC_API_KEY", "sk-bench").env("ANTHROPIC_BASE_URL", url);
        } else {
            command.arg(bare_agent::MODE);
        }
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let project = folder.join("project");
        Editor { child, input, output: BufReader::new(output), started, last_id: 0, project }
    }
}

impl Editor {
    /// Introduces itself and returns how long that took since the start.
    pub(crate) fn initialize(&mut self) -> Duration {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        self.ask("initialize", &params);
        self.started.elapsed()
    }

    /// Makes a session and returns it, and how long that took.
    pub(crate) fn create(&mut self) -> (String, Duration) {
        let began = Instant::now();
        let answer = self.ask("session/new", &json!({"cwd": self.project, "mcpServers": []}));
        (answer.result["sessionId"].as_str().unwrap().to_owned(), began.elapsed())
    }

    /// Loads a session, and returns how long it took until the answer.
    pub(crate) fn load(&mut self, session: &str) -> Duration {
        let began = Instant::now();
        self.ask(
            "session/load",
            &json!({"sessionId": session, "cwd": self.project, "mcpServers": []}),
        );
        began.elapsed()
    }

    /// Returns the log of a session.
    pub(crate) fn log(&self, session: &str) -> PathBuf {
        let home = self.project.with_file_name("home");
        home.join(".local/share/crow-agent/sessions").join(session).join("history.jsonl")
    }

    /// Prompts, and does not wait for the answer.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    pub(crate) fn cancel(&mut self, session: &str) {
        let params = json!({"sessionId": session});
        self.write(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}));
    }

    /// Reads up to the answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> EditorAnswer {
        // A word may come in two updates, so letters are counted.
        let (mut updates, mut letters) = (0, 0);
        let mut first = None;
        let end = format!("\"id\":{id},");
        loop {
            let line = self.line();
            if line.contains("\"method\":\"session/update\"") {
                updates += 1;
                // Parsing only these keeps the reader faster than the writer.
                if line.contains("agent_message_chunk") {
                    letters += letters_in(&line);
                }
                first.get_or_insert_with(Instant::now);
                continue;
            }
            assert!(line.contains(&end), "{line}");
            let message: Value = serde_json::from_str(&line).unwrap();
            assert!(message["error"].is_null(), "{message}");
            let streaming = first.map_or(Duration::ZERO, |first| first.elapsed());
            let words = letters / WORD.len();
            return EditorAnswer { result: message["result"].clone(), updates, words, streaming };
        }
    }

    /// Reads up to an update that shows something.
    pub(crate) fn shows(&mut self, text: &str) {
        while !self.line().contains(text) {}
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the input and waits for the end of the agent.
    pub(crate) fn end(self) {
        let Self { mut child, input, output, .. } = self;
        drop(input);
        // What is on its way may not fit into the pipe.
        output.lines().for_each(drop);
        assert!(child.wait().unwrap().success());
    }

    fn ask(&mut self, method: &str, params: &Value) -> EditorAnswer {
        let id = self.send(method, params);
        self.answer(id)
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the agent ended");
        line
    }
}

/// Makes a home and a project beside it: in a home nothing is captured.
fn folders() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["home", "project"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    folder
}

/// Returns how many letters of the reply an update brought.
fn letters_in(update: &str) -> usize {
    let update: Value = serde_json::from_str(update).unwrap();
    let update = &update["params"]["update"];
    let is_reply = update["sessionUpdate"] == "agent_message_chunk";
    update["content"]["text"].as_str().filter(|_| is_reply).map_or(0, str::len)
}
