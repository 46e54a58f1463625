//! What the program tells about a call before it decides on it: events, questions and texts without the content of files
//! that the call may not read.

use serde_json::{Value, json};

use crate::{attack::Attack, canaries::FILE_SECRET, trial_runner::try_all};

const MODES: [&str; 4] = ["ask", "accept-edits", "read-only", "full-auto"];

fn write(path: &str) -> (&'static str, Value) {
    ("write_file", json!({"path": path, "content": "new\n"}))
}

fn edit(path: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old_string": "canary-of", "new_string": "new"}))
}

/// Adds calls that would change files with secrets; none of them may show the old content.
fn with_calls(attack: Attack, calls: &[(&'static str, Value)]) -> Attack {
    calls.iter().fold(attack, |attack, (tool, input)| attack.call(tool, input.clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_may_not_read_a_file_shows_nothing_of_it_before_it_is_refused() {
    let hidden = [
        edit("{home}/.netrc"),
        write("{home}/.netrc"),
        edit("{home}/.ssh/id_ed25519"),
        write("{home}/.ssh/id_ed25519"),
        edit("../home/.aws/../.aws/credentials"),
        edit("/proc/self/root{home}/.netrc"),
        edit("link"),
        write("link"),
        edit("folder/id_ed25519"),
        write("folder/id_ed25519"),
        edit("second"),
        write("second"),
        ("read_file", json!({"path": "second"})),
        ("grep", json!({"pattern": "c[a]nary", "path": "folder"})),
        ("glob", json!({"pattern": "folder/*"})),
    ];
    let before = "ln -s {home}/.netrc link; ln -s {home}/.ssh folder; ln -f {home}/.netrc second";
    let cases = MODES.iter().flat_map(|&mode| {
        let case = |name: &str| {
            let attack = Attack::new(format!("events: {name}, {mode}"), mode)
                .file("second", "replaced by a second name of a hidden file")
                .before(before);
            with_calls(attack, &hidden)
        };
        [case("hidden files as JSON").fails(), case("hidden files as text").text()]
    });
    // Where reads of keys are asked about, nothing of the old text may appear in an event either.
    let keys = [edit(".env"), write(".env"), edit("sub/server.pem"), write("alias")];
    let keys = ["ask", "accept-edits", "read-only"].into_iter().map(|mode| {
        let text = format!("TOKEN={FILE_SECRET}\n");
        let attack = Attack::new(format!("events: files named like keys, {mode}"), mode)
            .file(".env", &text)
            .file("sub/server.pem", &text)
            .before("ln -s .env alias");
        with_calls(attack, &keys)
    });
    let denied = [
        ("edit_file", json!({"path": "private/key", "old_string": "denied", "new_string": "new"})),
        // Where nothing matches, the answer shows the closest passage.
        (
            "edit_file",
            json!({"path": "way/key", "old_string": "text-of-a-denied-fild\n", "new_string": "new"}),
        ),
        write("private/key"),
        write("way/key"),
        ("read_file", json!({"path": "way/../private/key"})),
        ("grep", json!({"pattern": "denied", "path": "."})),
    ];
    let denied = MODES.iter().map(|&mode| {
        let attack = Attack::new(format!("events: denied reads, {mode}"), mode)
            .rule("deny", &json!({"path": {"path": "private", "access": "read"}}))
            .file("private/key", "text-of-a-denied-file\n")
            .before("ln -s private way")
            .hides("text-of-a-denied-file");
        with_calls(attack, &denied)
    });
    try_all(cases.chain(keys).chain(denied).collect()).await;
}

/// The answer to an edit does not tell whether a guess about the content of a hidden file is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_do_not_confirm_guesses_about_hidden_files() {
    let guess = |text: &str| {
        ("edit_file", json!({"path": "{home}/.netrc", "old_string": text, "new_string": "x"}))
    };
    let cases = MODES.iter().map(|&mode| {
        let attack = Attack::new(format!("events: guesses, {mode}"), mode);
        with_calls(attack, &[guess("canary-of"), guess("no such text"), guess("77e1")])
            .hides("not found")
            .hides("no match")
            .hides("does not contain")
            .hides("does not occur")
            .fails()
    });
    try_all(cases.collect()).await;
}
