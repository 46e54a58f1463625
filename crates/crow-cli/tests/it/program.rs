//! The fixture of all tests: runs the program in its own home and project.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use crow_testkit::{ModelServer, WireDialect, telemetry::TelemetryCollector};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// Maximum duration of a program.
const DEADLINE: Duration = Duration::from_mins(5);

/// A home, a project, and environment variables for the program.
///
/// The program sends its telemetry to a collector, which is held against the conventions at the end of each test.
pub(crate) struct Fixture {
    folder: TempDir,
    /// Path of the project in the folder.
    project: &'static str,
    env: Vec<(String, String)>,
    collector: Option<TelemetryCollector>,
}

/// Output and exit code of the program.
#[derive(Debug)]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_project_at("project")
    }

    /// Creates a fixture with the project of the demonstration, a shell script with a bug, in `~/tally`.
    pub(crate) fn with_tally() -> Self {
        let fixture = Self::with_project_at("home/tally");
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/project");
        for file in fs::read_dir(demo).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            fs::copy(&path, fixture.project(name)).unwrap();
        }
        fixture
    }

    fn with_project_at(project: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join(project)).unwrap();
        let collector = Some(TelemetryCollector::start());
        Self { folder, project, env: Vec::new(), collector }
    }

    /// Sends telemetry nowhere.
    pub(crate) fn without_collector(mut self) -> Self {
        self.collector = None;
        self
    }

    /// Returns the collector of the telemetry.
    pub(crate) fn collector(&self) -> &TelemetryCollector {
        self.collector.as_ref().expect("the test wants none")
    }

    /// Creates a fixture whose project has a bug and a check that fails because of it.
    pub(crate) fn with_bug() -> Self {
        let fixture = Self::new();
        fs::write(fixture.project("largest.sh"), BUG).unwrap();
        fs::write(fixture.project("check.sh"), CHECK).unwrap();
        fixture
    }

    /// Sets the address of a provider to the server, and its key.
    pub(crate) fn with_server(mut self, server: &ModelServer, dialect: WireDialect) -> Self {
        let name = match dialect {
            WireDialect::AnthropicMessages => "ANTHROPIC",
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat => "OPENAI",
            WireDialect::Gemini => "GEMINI",
        };
        self.set_env(&format!("{name}_API_KEY"), "sk-test-0123456789");
        self.set_env(&format!("{name}_BASE_URL"), &server.base_url(dialect));
        self
    }

    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn project(&self, file: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(self.project).join(file)
    }

    pub(crate) fn home(&self, file: &str) -> PathBuf {
        self.folder.path().join("home").join(file)
    }

    /// Returns the folder of the only session.
    pub(crate) fn session(&self) -> PathBuf {
        let sessions = fs::read_dir(self.home(".local/share/crow-agent/sessions")).unwrap();
        let mut folders: Vec<_> = sessions.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders.remove(0)
    }

    /// Returns the id of the only session.
    pub(crate) fn id(&self) -> String {
        self.session().file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Returns the id of the only root session.
    pub(crate) fn root(&self) -> String {
        let sessions = fs::read_dir(self.home(".local/share/crow-agent/sessions")).unwrap();
        let mut roots = sessions.map(|entry| entry.unwrap().path()).filter(|folder| {
            let header = fs::read(folder.join("metadata.json")).unwrap();
            serde_json::from_slice::<Value>(&header).unwrap()["parent_session_id"].is_null()
        });
        let root = roots.next().unwrap();
        assert!(roots.next().is_none());
        root.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// Returns the environment of the program.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let home = self.home("").to_str().unwrap().to_owned();
        let base = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", &home), ("LANG", "C.UTF-8")];
        let base = base.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let endpoint = self.collector.as_ref().map(TelemetryCollector::endpoint);
        let endpoint =
            endpoint.map(|endpoint| ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint));
        base.into_iter().chain(endpoint).chain(self.env.iter().cloned()).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(with_default_signals(program()), args)
    }

    /// Returns a shell that runs a line in the project, with the program in its `PATH` and both outputs on standard
    /// output.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command =
            self.command_of(Command::new("sh"), &["-c", &format!("exec 2>&1\n{line}")]);
        let folder = program().parent().unwrap().to_str().unwrap();
        command.env("PATH", format!("{folder}:/usr/local/bin:/usr/bin:/bin"));
        command
    }

    /// Returns a command that runs the program with these signals ignored from its start.
    pub(crate) fn command_ignoring(&self, signals: &str, args: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg(format!("--ignore-signal={signals}")).arg(program());
        self.command_of(command, args)
    }

    fn command_of(&self, mut command: Command, args: &[&str]) -> Command {
        command
            .args(args)
            .current_dir(self.project(""))
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs the program to its end, without blocking the model server of the test.
    pub(crate) async fn run(&self, args: &[&str]) -> RunOutput {
        finish(self.start(args)).await
    }

    /// Runs the program with a text on standard input.
    pub(crate) async fn run_with_input(&self, args: &[&str], input: &str) -> RunOutput {
        feed(self.command(args), input).await
    }

    /// Runs the project's check.
    pub(crate) fn check(&self) -> Output {
        Command::new("sh").arg("check.sh").current_dir(self.project("")).output().unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(collector) = self.collector.as_ref().filter(|_| !std::thread::panicking()) {
            collector.check().unwrap_or_else(|violations| panic!("{violations}"));
        }
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_crow-agent"))
}

/// Returns a command that starts with default signal handling. Under `nohup` and in some CI systems the tests ignore signals,
/// which their child processes would inherit.
fn with_default_signals(program: &Path) -> Command {
    /// Mask of SIGHUP, SIGINT, SIGQUIT and SIGTERM.
    const USER_SIGNALS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if ignored & USER_SIGNALS == 0 {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(program);
    command
}

/// Runs a command to its end with a text on standard input.
pub(crate) async fn feed(mut command: Command, input: &str) -> RunOutput {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    finish(child).await
}

/// Waits for the end of a program. After [`DEADLINE`] it is killed, and the test fails.
pub(crate) async fn finish(child: Child) -> RunOutput {
    let pid = child.id().cast_signed();
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap());
    tokio::pin!(ended);
    let in_time = tokio::time::timeout(DEADLINE, &mut ended).await;
    let is_late = in_time.is_err();
    let output = if let Ok(output) = in_time {
        output
    } else {
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        ended.await
    };
    let output = output.unwrap();
    assert!(!is_late, "the program did not end within {DEADLINE:?}: {output:?}");
    RunOutput {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

impl RunOutput {
    /// Panics unless the program exited with this code.
    pub(crate) fn exited(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// Returns the lines of the JSON output.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
            })
            .collect()
    }

    /// Returns the result line, which must be the last line and the only one of its type.
    pub(crate) fn result(&self) -> Value {
        let lines = self.lines();
        let results = lines.iter().filter(|line| line["type"] == "result").count();
        assert_eq!(
            (results, &lines.last().unwrap()["type"]),
            (1, &Value::from("result")),
            "{}",
            self.out
        );
        lines.last().unwrap().clone()
    }
}

/// Returns true if any file below a folder contains `text`.
pub(crate) fn any_file_contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            any_file_contains(&path, text)
        } else {
            String::from_utf8_lossy(&fs::read(path).unwrap()).contains(text)
        }
    })
}

/// Script with a bug: it compares numbers as text, so 9 counts as larger than 10.
const BUG: &str = "#!/bin/sh
# Prints the largest of the numbers on standard input.
sort -r | head -n 1
";

const CHECK: &str = "#!/bin/sh
actual=$(printf '9\\n10\\n2\\n' | sh largest.sh)
[ \"$actual\" = 10 ] || { echo \"FAILED: the largest is $actual\"; exit 1; }
echo passed
";
