//! Whole screens of the chat, in three sizes.
//!
//! `INSTA_UPDATE=always cargo test -p crow-cli --test it screens` accepts new ones; read the difference.

use crow_testkit::{
    Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate, VendorError, WireDialect,
};
use regex::Regex;
use serde_json::json;

use crate::{
    program::Fixture,
    terminal::{STATUS, Terminal},
};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// Columns and rows.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];
const ANSWER: &str = "# Title\n\nSome **bold** text with `code`, and a sentence that is longer than forty columns.\n\n\
| name | value |\n|---|---:|\n| one | 1 |\n| two | 22 |\n\n\
```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n\n1. first\n2. second\n";

/// A chat in a terminal, with all that it needs.
struct Stage {
    terminal: Terminal,
    columns: u16,
    _server: ModelServer,
    _fixture: Fixture,
}

impl Stage {
    async fn open(size: (u16, u16), replies: Vec<ScriptStep>) -> Self {
        Self::open_with(size, replies, "xterm-256color", &[]).await
    }

    async fn open_with(
        size: (u16, u16),
        replies: Vec<ScriptStep>,
        term: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let server = ModelServer::start(replies).await;
        let dialect = WireDialect::AnthropicMessages;
        let mut fixture = Fixture::with_tally().without_collector().with_server(&server, dialect);
        for (name, value) in variables {
            fixture.set_env(name, value);
        }
        let mut terminal = Terminal::start_sized(&fixture, &["-m", MODEL], size, term);
        terminal.wait_for_text("/help shows").await.wait_for_prompt("").await;
        let mut stage = Self { terminal, columns: size.0, _server: server, _fixture: fixture };
        if term != "dumb" {
            stage.terminal.wait_for_text(STATUS).await;
            stage.wait_for_idle_hints().await;
        }
        stage
    }

    /// Types a prompt, and waits for the end of the run and for its cost in the status line.
    async fn run_to_end(&mut self, prompt: &str) {
        self.terminal.type_keys(&format!("{prompt}\r"));
        self.terminal.wait_for_run_end(prompt).await.wait_for_prompt("").await;
        let columns = self.columns;
        self.terminal.wait_for("the cost", |screen| has_cost(screen, columns)).await;
        self.wait_for_idle_hints().await;
    }

    /// Waits for the line of keys that an empty prompt has on terminals that are high enough.
    async fn wait_for_idle_hints(&mut self) {
        let columns = self.columns;
        let expected = |screen: &str| columns < 80 || screen.contains("/ commands · @ files");
        self.terminal.wait_for("the keys of the prompt", expected).await;
    }

    /// Waits for a condition, and returns the screen without what differs from run to run. Ends the program.
    async fn screen(mut self, what: &str, expected: impl Fn(&str) -> bool) -> String {
        self.terminal.wait_for(what, expected).await;
        let (text, cursor) = self.terminal.with_screen(|screen| {
            let (row, column) = screen.cursor_position();
            let cursor = if screen.hide_cursor() {
                "no cursor".to_owned()
            } else {
                format!("cursor in row {row}, column {column}")
            };
            (screen.contents(), cursor)
        });
        self.terminal.kill().await;
        let rows: Vec<String> = text.lines().map(|line| format!("|{}\n", masked(line))).collect();
        let rows = rows.concat();
        format!("{rows}({cursor})\n")
    }
}

/// Returns a row without times, ids, ports and the frames of the spinner.
fn masked(row: &str) -> String {
    let masks = [
        (r"crow-agent \d+\.\d+\.\d+", "crow-agent VERSION"),
        (r"\b\d+(\.\d+)? (ms|s)\b", "N s"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE"),
        (r"\b[0-9a-f]{8}-[0-9a-f-]+", "ID"),
        // The key at the end of its row stands at the edge of the terminal.
        (r" {3,}(esc stops)$", "   $1"),
        (r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*"),
    ];
    masks.iter().fold(row.trim_end().to_owned(), |row, (pattern, mask)| {
        Regex::new(pattern).unwrap().replace_all(&row, *mask).into_owned()
    })
}

/// Compares the screens of all sizes with the accepted ones.
async fn assert_screens(name: &str, screen: impl AsyncFn((u16, u16)) -> String) {
    let mut screens = String::new();
    for (columns, rows) in SIZES {
        let shown = screen((columns, rows)).await;
        screens.extend([format!("{columns}x{rows}\n{shown}\n")]);
    }
    insta::assert_snapshot!(name, screens);
}

fn reply(text: &str) -> ScriptStep {
    ScriptedReply::new().text(text).into()
}

fn bash_call(command: &str) -> ScriptStep {
    ScriptedReply::new().call("c1", "bash", &json!({ "command": command })).into()
}

/// Returns true if the status line has the cost of the model call, for which there is room on wide terminals only.
fn has_cost(screen: &str, columns: u16) -> bool {
    columns < 120 || screen.lines().any(|line| line.contains(STATUS) && line.contains('$'))
}

#[tokio::test]
async fn the_greeting() {
    assert_screens("screen_greeting", async |size| {
        Stage::open(size, Vec::new()).await.screen("the status", |text| text.contains(STATUS)).await
    })
    .await;
}

#[tokio::test]
async fn an_answer() {
    assert_screens("screen_answer", async |size| {
        let mut stage = Stage::open(size, vec![reply(ANSWER)]).await;
        stage.run_to_end("hello").await;
        stage.screen("the end", |text| text.contains("2. second")).await
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_streams() {
    assert_screens("screen_streaming", async |size| {
        let gate = StreamGate::new();
        let stall = Fault::StallAfter { events: 30, gate: gate.clone() };
        let mut stage =
            Stage::open(size, vec![ScriptedReply::new().text(ANSWER).with(stall)]).await;
        stage.terminal.type_keys("hello\r");
        stage.terminal.wait_for_text("~33 tokens").await.type_keys("and more");
        stage.screen("typed text", |text| text.contains("> and more")).await
    })
    .await;
}

#[tokio::test]
async fn a_question() {
    assert_screens("screen_question", async |size| {
        let mut stage = Stage::open(size, vec![bash_call("sh check.sh")]).await;
        stage.terminal.type_keys("run the check\r");
        stage.terminal.wait_for_question().await;
        stage.screen("the cost", |text| has_cost(text, size.0)).await
    })
    .await;
}

#[tokio::test]
async fn the_list_of_commands() {
    assert_screens("screen_commands", async |size| {
        let mut stage = Stage::open(size, Vec::new()).await;
        stage.terminal.type_keys("/co");
        stage.screen("commands", |text| text.contains("/copy [N]")).await
    })
    .await;
}

#[tokio::test]
async fn the_list_of_files() {
    assert_screens("screen_files", async |size| {
        let mut stage = Stage::open(size, Vec::new()).await;
        stage.terminal.type_keys("see @");
        let is_whole = |text: &str| text.contains("total.sh") || text.contains("3 more");
        stage.screen("files", is_whole).await
    })
    .await;
}

#[tokio::test]
async fn a_call_that_runs() {
    let command =
        "for word in one two three; do echo $word; done; while [ ! -e go ]; do sleep 0.02; done";
    assert_screens("screen_running_call", async |size| {
        let mut stage = Stage::open(size, vec![bash_call(command)]).await;
        stage.terminal.type_keys("run it\r");
        stage.terminal.wait_for_text("for word in one").await;
        let has_tail = |text: &str| size.1 < 24 || text.contains("\n    three");
        stage.screen("output", |text| has_cost(text, size.0) && has_tail(text)).await
    })
    .await;
}

#[tokio::test]
async fn a_todo_list() {
    let todos = json!({"todos": [
        {"content": "Read the script", "status": "completed"},
        {"content": "Fix the bug", "status": "in_progress"},
        {"content": "Run the check", "status": "pending"},
    ]});
    assert_screens("screen_todos", async |size| {
        let gate = StreamGate::new();
        let stall = Fault::StallAfter { events: 4, gate: gate.clone() };
        let replies = vec![
            ScriptedReply::new().call("t", "todo_write", &todos).into(),
            ScriptedReply::new().text("I work on it.").with(stall),
        ];
        let mut stage = Stage::open(size, replies).await;
        stage.terminal.type_keys("go\r");
        stage.terminal.wait_for_text("~21 tokens").await;
        stage.screen("the cost", |text| has_cost(text, size.0)).await
    })
    .await;
}

#[tokio::test]
async fn an_error() {
    assert_screens("screen_error", async |size| {
        let mut stage =
            Stage::open(size, vec![ScriptStep::Error(VendorError::Authentication)]).await;
        stage.terminal.type_keys("hello\r");
        stage.terminal.wait_for_text("failed").await.wait_for_prompt("").await;
        stage.wait_for_idle_hints().await;
        stage.screen("the status", |text| text.contains(STATUS)).await
    })
    .await;
}

#[tokio::test]
async fn the_transcript() {
    assert_screens("screen_transcript", async |size| {
        let mut stage = Stage::open(size, vec![reply(ANSWER)]).await;
        stage.run_to_end("hello").await;
        stage.terminal.type_keys("\u{f}");
        stage.screen("the transcript", |text| text.contains("transcript")).await
    })
    .await;
}

#[tokio::test]
async fn the_list_of_sessions() {
    assert_screens("screen_sessions", async |size| {
        let mut stage = Stage::open(size, vec![reply("Hello.")]).await;
        stage.run_to_end("hello").await;
        stage.terminal.type_keys("/sessions\r");
        stage.screen("the list", |text| text.contains("continue a session")).await
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_colours() {
    assert_screens("screen_no_colour", async |size| {
        let variables = [("NO_COLOR", "1")];
        let mut stage =
            Stage::open_with(size, vec![reply(ANSWER)], "xterm-256color", &variables).await;
        stage.run_to_end("hello").await;
        let is_coloured = stage.terminal.with_screen(|screen| {
            let (rows, columns) = screen.size();
            let cells =
                (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
            let colours = cells.filter_map(|(row, column)| screen.cell(row, column));
            colours
                .flat_map(|cell| [cell.fgcolor(), cell.bgcolor()])
                .any(|colour| colour != vt100::Color::Default)
        });
        assert!(!is_coloured, "{}", stage.terminal.screen());
        stage.screen("the end", |text| text.contains("2. second")).await
    })
    .await;
}

#[tokio::test]
async fn an_answer_on_plain_lines() {
    // All output up to the end of the run: an event after it that shows nothing may begin another line with a prompt.
    assert_screens("screen_dumb", async |size| {
        let mut stage = Stage::open_with(size, vec![reply(ANSWER)], "dumb", &[]).await;
        stage.terminal.type_keys("hello\r");
        stage.terminal.wait_for_run_end("second").await;
        let output = String::from_utf8(stage.terminal.received_bytes()).unwrap();
        assert!(!output.contains('\u{1b}'), "{output:?}");
        stage.terminal.kill().await;
        let (before, end) = output.split_once(" in · ").unwrap();
        let end = end.lines().next().unwrap();
        let lines = format!("{before} in · {end}");
        lines.lines().map(|line| format!("|{}\n", masked(line))).collect::<Vec<_>>().concat()
    })
    .await;
}
