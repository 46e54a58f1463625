//! Undo of changes in a session with several root folders, opened by an editor, with the real program.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use crow_testkit::{NamedPipe, ScriptedReply};
use serde_json::{Value, json};

use crate::{
    program::{Fixture, finish},
    undo_fixture::{MODEL, bash, stdout_of, with_replies},
};

/// A minimal client of the Agent Client Protocol.
struct Editor {
    program: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Editor {
    fn start(fixture: &Fixture) -> Self {
        let mut command = fixture.command(&["acp", "-m", MODEL, "-p", "full-auto"]);
        let mut program = command.stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        let mut editor = Self { program, input, output: BufReader::new(output), last_id: 0 };
        editor.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        editor
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
    }

    /// Sends a request and blocks until its result arrives.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.send(method, params);
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "{method} has no answer");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.last_id {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].clone();
            }
        }
    }

    /// Opens a session in the project and further folders. Returns the parameters of a prompt in it.
    fn open_session(&mut self, fixture: &Fixture, further: &[PathBuf]) -> Value {
        let params =
            json!({"cwd": fixture.project(""), "additionalDirectories": further, "mcpServers": []});
        let session = self.request("session/new", &params);
        json!({"sessionId": session["sessionId"], "prompt": [{"type": "text", "text": "go"}]})
    }
}

/// Creates a folder beside the project, and equal files in both.
fn second_root(fixture: &Fixture) -> PathBuf {
    let path = fixture.project("kept").parent().unwrap().with_file_name("beside");
    fs::create_dir(&path).unwrap();
    for folder in [fixture.project(""), path.clone()] {
        fs::write(folder.join("kept"), "old\n").unwrap();
        fs::create_dir(folder.join("d")).unwrap();
        fs::write(folder.join("d/more"), "more\n").unwrap();
    }
    path
}

fn texts(folder: &std::path::Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.push((path, String::new()));
        } else if path.is_file() {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn undo_restores_both_folders_of_an_editor_session() {
    let ruin = "rm -rf d ../beside/d; echo new | tee kept ../beside/kept > made; mv made ../beside";
    let (server, fixture) =
        with_replies([bash("c1", ruin), ScriptedReply::new().text("Done.").into()]).await;
    let other = second_root(&fixture);
    let both = || (texts(&fixture.project("")), texts(&other));
    let original = both();
    let (mut editor, further) = (Editor::start(&fixture), vec![other.clone()]);
    let prompt = editor.open_session(&fixture, &further);
    let ended = tokio::task::spawn_blocking(move || {
        let answer = editor.request("session/prompt", &prompt);
        drop(editor.input);
        (answer, editor.program)
    });
    let (answer, program) = ended.await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    finish(program).await.exited(0);
    let ruined = both();
    assert!(ruined.0 != original.0 && ruined.1 != original.1);
    let normalize = |text: String| text.replace(other.to_str().unwrap(), "/beside");
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    insta::assert_snapshot!("diff_of_two_folders", diff);
    insta::assert_snapshot!(
        "undone_in_two_folders",
        normalize(stdout_of(&fixture, &["undo"], 0).await)
    );
    assert_eq!(both(), original);
    stdout_of(&fixture, &["redo"], 0).await;
    assert_eq!(both(), ruined);
    fs::write(other.join("kept"), "mine\n").unwrap();
    let report = stdout_of(&fixture, &["undo"], 1).await;
    assert!(report.contains("beside/kept"), "{report}");
    assert_eq!(fs::read_to_string(other.join("kept")).unwrap(), "mine\n");
    assert_eq!(texts(&fixture.project("")), original.0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_command_killed_while_it_changed_two_folders_needs_a_forced_undo() {
    let line = "rm kept; echo new > ../beside/made; echo > pipe; sleep 1000";
    let (_server, fixture) =
        with_replies([bash("c1", line), ScriptedReply::new().text("Done.").into()]).await;
    let other = second_root(&fixture);
    let pipe = NamedPipe::at(&fixture.project("pipe"));
    let original = (texts(&fixture.project("")), texts(&other));
    let mut editor = Editor::start(&fixture);
    let prompt = editor.open_session(&fixture, std::slice::from_ref(&other));
    editor.send("session/prompt", &prompt);
    pipe.wait_for_signal().await;
    editor.program.kill().unwrap();
    finish(editor.program).await;
    let report = stdout_of(&fixture, &["undo"], 1).await;
    assert!(report.contains("0 paths put back, 2 left alone"), "{report}");
    fixture.run(&["undo", "--force"]).await.exited(0);
    fs::remove_file(other.join("made.crow-kept")).unwrap();
    assert_eq!((texts(&fixture.project("")), texts(&other)), original);
}
