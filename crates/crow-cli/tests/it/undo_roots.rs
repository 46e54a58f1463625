//! Undoing what commands did in the folders of a session that an editor opened with several, with the real program.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use crow_testkit::{NamedPipe, ScriptedReply};
use serde_json::{Value, json};

use crate::{
    program::{Place, finish},
    undo_place::{MODEL, bash, place, said},
};

/// A client that speaks the Agent Client Protocol, as far as is needed to let an agent work.
struct Editor {
    program: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Editor {
    fn start(place: &Place) -> Self {
        let mut command = place.command(&["acp", "-m", MODEL, "-p", "full-auto"]);
        let mut program = command.stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        let mut editor = Self { program, input, output: BufReader::new(output), asked: 0 };
        editor.answer_to("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        editor
    }

    fn ask(&mut self, method: &str, params: &Value) {
        self.asked += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
    }

    /// Blocks until there is an answer.
    fn answer_to(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params);
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "{method} has no answer");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.asked {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].clone();
            }
        }
    }

    /// Opens a session in the project and in another folder; returns what says something in it.
    fn open(&mut self, place: &Place, further: &[PathBuf]) -> Value {
        let params =
            json!({"cwd": place.project(""), "additionalDirectories": further, "mcpServers": []});
        let session = self.answer_to("session/new", &params);
        json!({"sessionId": session["sessionId"], "prompt": [{"type": "text", "text": "go"}]})
    }
}

/// Makes a folder beside the project.
fn beside(place: &Place) -> PathBuf {
    let path = place.project("kept").parent().unwrap().with_file_name("beside");
    fs::create_dir(&path).unwrap();
    for folder in [place.project(""), path.clone()] {
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
    let (server, place) =
        place([bash("c1", ruin), ScriptedReply::new().text("Done.").into()]).await;
    let other = beside(&place);
    let both = || (texts(&place.project("")), texts(&other));
    let whole = both();
    let (mut editor, further) = (Editor::start(&place), vec![other.clone()]);
    let prompt = editor.open(&place, &further);
    let ended = tokio::task::spawn_blocking(move || {
        let answer = editor.answer_to("session/prompt", &prompt);
        drop(editor.input);
        (answer, editor.program)
    });
    let (answer, program) = ended.await.unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    finish(program).await.exited(0);
    let ruined = both();
    assert!(ruined.0 != whole.0 && ruined.1 != whole.1);
    let named = |text: String| text.replace(other.to_str().unwrap(), "/beside");
    let diff = said(&place, &["diff"], 0).await;
    insta::assert_snapshot!("diff_of_two_folders", diff);
    insta::assert_snapshot!("undone_in_two_folders", named(said(&place, &["undo"], 0).await));
    assert_eq!(both(), whole);
    said(&place, &["redo"], 0).await;
    assert_eq!(both(), ruined);
    fs::write(other.join("kept"), "mine\n").unwrap();
    let told = said(&place, &["undo"], 1).await;
    assert!(told.contains("beside/kept"), "{told}");
    assert_eq!(fs::read_to_string(other.join("kept")).unwrap(), "mine\n");
    assert_eq!(texts(&place.project("")), whole.0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_command_killed_while_it_changed_two_folders_needs_a_forced_undo() {
    let line = "rm kept; echo new > ../beside/made; echo > pipe; sleep 1000";
    let (_server, place) =
        place([bash("c1", line), ScriptedReply::new().text("Done.").into()]).await;
    let other = beside(&place);
    let pipe = NamedPipe::at(&place.project("pipe"));
    let whole = (texts(&place.project("")), texts(&other));
    let mut editor = Editor::start(&place);
    let prompt = editor.open(&place, std::slice::from_ref(&other));
    editor.ask("session/prompt", &prompt);
    pipe.told().await;
    editor.program.kill().unwrap();
    finish(editor.program).await;
    let told = said(&place, &["undo"], 1).await;
    assert!(told.contains("0 paths put back, 2 left alone"), "{told}");
    place.run(&["undo", "--force"]).await.exited(0);
    fs::remove_file(other.join("made.crow-kept")).unwrap();
    assert_eq!((texts(&place.project("")), texts(&other)), whole);
}
