//! The examples, started as a user would start them.
#![expect(clippy::disallowed_methods, reason = "the tests start the examples as a user would")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, too")]

use std::{
    env::current_exe,
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use crow::{
    serde_json::json,
    tokio::{
        self,
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
        net::TcpStream,
        process::{Child, ChildStdout, Command},
        time::timeout,
    },
};
use crow_testkit::{
    ModelServer, PrefixCheck, Script, ScriptedReply, ServerChecks, ServerOptions, WireDialect,
};
use tempfile::TempDir;

/// Time in which an example must end, or print its next line.
const DEADLINE: Duration = Duration::from_mins(1);
const MODEL: &str = "anthropic/claude-sonnet-4-5";

/// A folder for an example to work in, and a home beside it.
struct ExampleFolders(TempDir);

impl ExampleFolders {
    fn new() -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folders.project()).unwrap();
        fs::create_dir(folders.0.path().join("home")).unwrap();
        folders
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }
}

/// Returns the command of an example that finds its model at the server.
fn example(
    name: &str,
    arguments: &[&str],
    server: &ModelServer,
    folders: &ExampleFolders,
) -> Command {
    let mut command = offline_example(name, arguments, folders);
    command.envs([
        ("ANTHROPIC_API_KEY", "sk-test-0123456789".to_owned()),
        ("ANTHROPIC_BASE_URL", server.base_url(WireDialect::AnthropicMessages)),
    ]);
    command
}

/// Returns the command of an example that has no model.
fn offline_example(name: &str, arguments: &[&str], folders: &ExampleFolders) -> Command {
    // Tests lie in `deps`, beside the folder of the examples.
    let program = current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(name);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folders.project())
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")])
        .env("HOME", folders.0.path().join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Starts a server for an agent whose environment changes. It is the last message of a request, and the next request
/// replaces it.
async fn server_of_environment(script: impl Into<Script>) -> ModelServer {
    let checks = ServerChecks { prefix: PrefixCheck::Off, ..ServerChecks::default() };
    ModelServer::start_with(script, ServerOptions { checks, ..ServerOptions::default() }).await
}

/// Runs an example to its end.
async fn output(command: &mut Command) -> Output {
    let child = command.spawn().unwrap();
    let output = timeout(DEADLINE, child.wait_with_output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// Runs an example to its end and returns what it printed.
async fn printed(command: &mut Command) -> String {
    String::from_utf8(output(command).await.stdout).unwrap()
}

/// An example that runs until it is ended.
struct Service {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn next_line(&mut self) -> String {
        timeout(DEADLINE, self.lines.next_line()).await.unwrap().unwrap().unwrap()
    }

    async fn end(mut self) {
        timeout(DEADLINE, self.child.kill()).await.unwrap().unwrap();
    }
}

/// Returns the body of each request as text.
async fn finish(server: ModelServer) -> Vec<String> {
    let requests = server.finish().await.unwrap();
    requests.iter().map(|request| request.body.to_string()).collect()
}

#[tokio::test]
async fn basic_execution_prints_the_events_of_a_run_with_an_environment() {
    let server = ModelServer::start([ScriptedReply::new().text("Hello, you.")]).await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "say hello"];
    let out = printed(&mut example("basic_execution", &arguments, &server, &folders)).await;
    assert!(
        out.starts_with("Turn 1 begins.\nHello, you.\nThe agent has answered.\nThe run used "),
        "{out}"
    );
    let requests = finish(server).await;
    assert_eq!(requests.len(), 1);
    for text in ["You are a helpful assistant.", "say hello", r#"extension state: \"initial\""#] {
        assert!(requests[0].contains(text), "{text}: {}", requests[0]);
    }
}

#[tokio::test]
async fn a_model_corrects_a_call_of_the_weather_tool_that_failed() {
    let call = |id: &str, arguments| ScriptedReply::new().call(id, "get_weather", &arguments);
    let server = ModelServer::start([
        call("c1", json!({"place": "Oslo"})),
        call("c2", json!({"location": "Atlantis"})),
        call("c3", json!({"location": "Oslo"})),
        ScriptedReply::new().text("It rains in Oslo."),
    ])
    .await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "How is the weather in Oslo?"];
    let out = printed(&mut example("weather_tool", &arguments, &server, &folders)).await;
    assert!(out.starts_with("It rains in Oslo.\n"), "{out}");
    assert!(out.contains(r#""conditions":"rain""#), "{out}");
    let requests = finish(server).await;
    assert!(requests[0].contains("The location to get weather for"), "{}", requests[0]);
    assert!(requests[1].contains("location: missing, wanted string"), "{}", requests[1]);
    assert!(requests[2].contains("no station is named"), "{}", requests[2]);
    assert!(requests[3].contains("temperature"), "{}", requests[3]);
}

#[tokio::test]
async fn typed_environment_prints_its_extension_and_the_text_for_a_model() {
    let folders = ExampleFolders::new();
    let out = printed(&mut offline_example("typed_environment", &[], &folders)).await;
    for line in [
        "The directory tree has 4 entries.",
        "Designing Environment with 1 method.",
        "working directory: /projects/agent",
        "current step: Examine the existing code",
        "Go on.",
    ] {
        assert!(out.lines().any(|found| found == line), "{line}: {out}");
    }
    assert!(
        out.contains("Not a number: the value at /extensions/code_design does not fit"),
        "{out}"
    );
}

#[tokio::test]
async fn data_analysis_keeps_the_results_of_its_tools_as_a_typed_value() {
    let server = server_of_environment([
        ScriptedReply::new().call("c1", "read_csv", &json!({"path": "sales.csv"})),
        ScriptedReply::new().call(
            "c2",
            "analyze_data",
            &json!({"path": "sales.csv", "column": "sales", "group_by": "region"}),
        ),
        ScriptedReply::new().text("North sells most."),
    ])
    .await;
    let folders = ExampleFolders::new();
    let csv = "product,region,sales\n\"Widget, blue\",North,1200\n\"2\"\" pipe\",South,950.5\nWidget,North,300\n";
    fs::write(folders.project().join("sales.csv"), csv).unwrap();
    let arguments = [MODEL, "Analyse sales.csv"];
    let out = printed(&mut example("data_analysis", &arguments, &server, &folders)).await;
    let expected = "North sells most.\n\
        sales.csv: 3 rows of product, region, sales\n\
        sales.csv: sales {\"total\":2450.5,\"by_group\":{\"North\":1500.0,\"South\":950.5}}\n";
    assert_eq!(out, expected);
    let requests = finish(server).await;
    assert!(requests[1].contains("Widget, blue"), "{}", requests[1]);
    assert!(requests[1].contains("extension datasets"), "the model is told: {}", requests[1]);
}

#[tokio::test]
async fn data_analysis_reads_no_file_outside_of_its_folder() {
    let server = server_of_environment([
        ScriptedReply::new().call("c1", "read_csv", &json!({"path": "../secret.csv"})),
        ScriptedReply::new().text("I may not."),
    ])
    .await;
    let folders = ExampleFolders::new();
    fs::write(folders.0.path().join("secret.csv"), "name,pin\nme,1234\n").unwrap();
    let arguments = [MODEL, "Analyse ../secret.csv"];
    let out = printed(&mut example("data_analysis", &arguments, &server, &folders)).await;
    assert_eq!(out, "I may not.\n");
    let requests = finish(server).await;
    assert!(!requests[1].contains("1234") && !requests[1].contains("pin"), "{}", requests[1]);
}

#[tokio::test]
async fn a_debate_ends_when_one_side_agrees() {
    let server = ModelServer::start([
        ScriptedReply::new().text("Tabs save bytes."),
        ScriptedReply::new().text("AGREED: they do."),
    ])
    .await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "Tabs are better."];
    let out = printed(&mut example("debate", &arguments, &server, &folders)).await;
    let expected =
        "for: Tabs save bytes.\n\nagainst: AGREED: they do.\n\nThe side against agreed.\n";
    assert_eq!(out, expected);
    let requests = finish(server).await;
    assert!(requests[0].contains("You debate for a thesis."), "{}", requests[0]);
    assert!(requests[0].contains("The thesis: Tabs are better."), "{}", requests[0]);
    assert!(requests[1].contains("You debate against a thesis."), "{}", requests[1]);
    assert!(requests[1].contains("Tabs save bytes."), "{}", requests[1]);
}

#[tokio::test]
async fn a_debate_without_agreement_ends_after_six_statements() {
    let replies = (1..=6).map(|number| ScriptedReply::new().text(format!("Statement {number}.")));
    let server = ModelServer::start(replies.collect::<Vec<_>>()).await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "Tabs are better."];
    let out = printed(&mut example("debate", &arguments, &server, &folders)).await;
    assert!(out.ends_with("against: Statement 6.\n\nNo agreement after 6 statements.\n"), "{out}");
    let requests = finish(server).await;
    assert_eq!(requests.len(), 6);
    // Each side remembers its own statements.
    assert!(requests[4].contains("Statement 1.") && requests[4].contains("Statement 4."));
}

#[tokio::test]
async fn each_change_in_a_watched_folder_starts_a_turn() {
    let server = server_of_environment([
        ScriptedReply::new().call("c1", "read_file", &json!({"path": "one.md"})),
        ScriptedReply::new().text("one.md greets."),
        ScriptedReply::new().text("two.md is new."),
    ])
    .await;
    let folders = ExampleFolders::new();
    let notes = folders.project().join("notes");
    fs::create_dir(&notes).unwrap();
    // A file that is moved into the folder is seen as a whole.
    let add = |name: &str, text: &str| {
        let written = folders.project().join(name);
        fs::write(&written, text).unwrap();
        fs::rename(written, notes.join(name)).unwrap();
    };
    let arguments = [MODEL, "notes"];
    let mut watcher = Service::start(&mut example("file_watcher", &arguments, &server, &folders));
    assert_eq!(watcher.next_line().await, "Watching 0 files.");
    add("one.md", "good morning\n");
    assert_eq!(watcher.next_line().await, "Changed: one.md");
    assert_eq!(watcher.next_line().await, "one.md greets.");
    add("two.md", "good night\n");
    assert_eq!(watcher.next_line().await, "Changed: two.md");
    assert_eq!(watcher.next_line().await, "two.md is new.");
    watcher.end().await;
    let requests = finish(server).await;
    assert!(requests[1].contains("good morning"), "{}", requests[1]);
}

#[tokio::test]
async fn the_http_service_starts_a_task_and_streams_its_events() {
    let server = ModelServer::start([ScriptedReply::new().text("A joke.")]).await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "127.0.0.1:0"];
    let mut service = Service::start(&mut example("http_service", &arguments, &server, &folders));
    let line = service.next_line().await;
    let address = line.strip_prefix("Listening on http://").unwrap();
    let started = http(address, "POST /tasks", "tell a joke").await;
    assert!(
        started.starts_with("HTTP/1.1 201 Created\r\n") && started.ends_with("1\n"),
        "{started}"
    );
    let events = http(address, "GET /tasks/1/events", "").await;
    assert!(events.contains("content-type: text/event-stream\r\n"), "{events}");
    let at = |kind: &str| events.find(&format!("\"type\":\"{kind}\"")).unwrap_or(usize::MAX);
    assert!(at("run_start") < at("text_complete"), "{events}");
    assert!(at("text_complete") < at("run_end") && at("run_end") < usize::MAX, "{events}");
    // The events of a task have one reader.
    let again = http(address, "GET /tasks/1/events", "").await;
    assert!(again.starts_with("HTTP/1.1 404 Not Found\r\n"), "{again}");
    service.end().await;
    assert_eq!(finish(server).await.len(), 1);
}

/// Sends a request on a connection of its own and returns the whole response.
async fn http(address: &str, request: &str, body: &str) -> String {
    let exchange = async {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).await.unwrap();
        response
    };
    timeout(DEADLINE, exchange).await.unwrap()
}

#[tokio::test]
async fn the_console_agent_example_shows_the_answer_and_ends_with_its_input() {
    let server = ModelServer::start([ScriptedReply::new().text("Hello, you.")]).await;
    let folders = ExampleFolders::new();
    let arguments = [MODEL, "say hello"];
    let out = printed(&mut example("console_agent", &arguments, &server, &folders)).await;
    assert!(out.contains("Hello, you."), "{out}");
    assert_eq!(finish(server).await.len(), 1);
}

#[tokio::test]
async fn the_coder_agent_example_asks_answers_calls_and_saves_its_session() {
    let server = ModelServer::start([
        ScriptedReply::new()
            .text("I write it.")
            .call("c1", "write_file", &json!({"path": "new.txt", "content": "one\n"}))
            .call("c2", "bash", &json!({"command": "git push origin main"})),
        ScriptedReply::new().call("c3", "bash", &json!({"command": "make new.txt"})),
        ScriptedReply::new().text("It says one."),
    ])
    .await;
    let folders = ExampleFolders::new();
    let project = folders.project();
    // The first question is answered with yes, the second with a message for the model.
    let (input, mut answers) = std::io::pipe().unwrap();
    answers.write_all(b"y\nn, not now\n").unwrap();
    drop(answers);
    let arguments = [MODEL, "write it"];
    let mut command = example("coder_agent", &arguments, &server, &folders);
    let output = output(command.stdin(input)).await;
    let requests = server.finish().await.unwrap();
    let last = requests.last().unwrap().body.to_string();
    assert_eq!(requests.len(), 3);
    assert!(last.contains("Not permitted by policy"), "a rule denies the push: {last}");
    assert!(last.contains("The user said no to this call and says: not now"), "{last}");
    assert_eq!(fs::read_to_string(project.join("new.txt")).unwrap(), "one\n");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("It says one."), "{out}");
    let sessions = fs::read_dir(project.join(".coder_agent/sessions")).unwrap();
    let log = sessions.map(|entry| entry.unwrap().path().join("history.jsonl")).next().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches(r#""type":"call_end""#).count(), 3, "{log}");
}
