//! `undo`, `redo`, `restore` and `diff` with the real program.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
    process::Command,
};

use crow_testkit::{Fault, ModelServer, ScriptedReply, StreamGate, wait_until};
use serde_json::json;

use crate::{
    program::{Fixture, feed, finish},
    terminal::Terminal,
    undo_fixture::{MODEL, bash, run, stdout_of, with_replies},
};

const RUIN: &str = "rm -rf src && find . -name '*.md' -exec sed -i s/a/b/ {} +";

/// Fills the project with files, an executable, a binary, an empty folder and a link.
fn fill_project(fixture: &Fixture) {
    let write = |name: &str, text: &str| {
        let path = fixture.project(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("README.md", "a readme\n");
    write("docs/a b.md", "a page\n");
    write("src/main.rs", "fn main() {}\n");
    write("src/run.sh", "#!/bin/sh\n");
    write("src/deep/er/x", "\u{0}binary");
    write("notes.txt", "a note\n");
    fs::set_permissions(fixture.project("src/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(fixture.project("src/empty")).unwrap();
    std::os::unix::fs::symlink("../notes.txt", fixture.project("src/link")).unwrap();
}

/// Returns each path below a folder with its mode and content.
fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "folder".to_owned()
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(&path).unwrap().display())
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        };
        found.insert(name, format!("{:o} {content}", metadata.permissions().mode()));
    }
    found
}

/// Panics with the paths that differ from the expected ones, without the equal ones.
#[track_caller]
fn assert_same(fixture: &Fixture, expected: &BTreeMap<String, String>) {
    let actual = tree(&fixture.project(""));
    let differs = |name: &&String| actual.get(*name) != expected.get(*name);
    let differing: Vec<_> = actual.keys().chain(expected.keys()).filter(differs).collect();
    let contents = |tree: &BTreeMap<String, String>| -> Vec<Option<String>> {
        differing.iter().map(|name| tree.get(*name).cloned()).collect()
    };
    assert!(
        differing.is_empty(),
        "{differing:?}: {:?} is not {:?}",
        contents(&actual),
        contents(expected)
    );
}

fn git(fixture: &Fixture, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=T", "-c", "user.email=t@example.org"]).args(args);
    let done =
        command.current_dir(fixture.project("")).env("HOME", fixture.home("")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn undo_restores_a_ruined_project_with_and_without_git() {
    for with_git in [false, true] {
        let (server, fixture) =
            with_replies([bash("c1", RUIN), ScriptedReply::new().text("Done.").into()]).await;
        fill_project(&fixture);
        if with_git {
            git(&fixture, &["init", "-q"]);
            git(&fixture, &["add", "."]);
            git(&fixture, &["commit", "-qm", "first"]);
        }
        // Includes `.git`.
        let original = tree(&fixture.project(""));
        let ran = run(&fixture, "clean up").await;
        assert!(ran.exited(0).err.contains("  6 files changed, +2 -5, 4 deleted\n"), "{}", ran.err);
        let ruined = tree(&fixture.project(""));
        assert!(ruined != original);
        // A dry run changes nothing, and reports the same as the undo that follows.
        let preview = stdout_of(&fixture, &["undo", "--dry-run"], 0).await;
        assert_same(&fixture, &ruined);
        let report = stdout_of(&fixture, &["undo"], 0).await;
        assert_same(&fixture, &original);
        let expected = preview.replace("would be ", "").replace("; nothing was changed", "");
        assert_eq!(expected + "crow-agent redo brings it back\n", report);
        insta::allow_duplicates! { insta::assert_snapshot!("undone", report) };
        let again = stdout_of(&fixture, &["redo"], 0).await;
        assert_same(&fixture, &ruined);
        insta::allow_duplicates! { insta::assert_snapshot!("redone", again) };
        stdout_of(&fixture, &["undo"], 0).await;
        assert_same(&fixture, &original);
        let nothing = fixture.run(&["undo"]).await;
        assert!(nothing.exited(1).err.contains("there is nothing to undo"), "{}", nothing.err);
        server.finish().await.unwrap();
    }
}

#[tokio::test]
async fn undo_keeps_later_edits_unless_forced_and_then_saves_copies() {
    let (server, fixture) = with_replies([
        bash("c1", "echo new > a.txt; echo new > b.txt; rm c.txt"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    for name in ["a.txt", "b.txt", "c.txt"] {
        fs::write(fixture.project(name), "old\n").unwrap();
    }
    run(&fixture, "change").await.exited(0);
    fs::write(fixture.project("a.txt"), "mine\n").unwrap();
    fs::write(fixture.project("c.txt"), "mine, too\n").unwrap();
    let read = |name: &str| fs::read_to_string(fixture.project(name)).unwrap();
    insta::assert_snapshot!("conflict", stdout_of(&fixture, &["undo"], 1).await);
    assert_eq!([read("a.txt"), read("b.txt"), read("c.txt")], ["mine\n", "old\n", "mine, too\n"]);
    let dry = stdout_of(&fixture, &["undo", "--force", "--dry-run"], 0).await;
    assert!(dry.contains("2 paths would be put back"), "{dry}");
    assert!(dry.contains("copies of what others may have changed would be kept"), "{dry}");
    assert_eq!(read("a.txt"), "mine\n");
    let forced = fixture.run(&["undo", "--force", "-o", "json"]).await;
    let report = forced.exited(0).lines().remove(0);
    assert_eq!([read("a.txt"), read("c.txt")], ["old\n", "old\n"]);
    let copies: Vec<_> = report["paths"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|path| path["copy"].as_str())
        .collect();
    let contents: Vec<_> = copies.iter().map(|copy| fs::read_to_string(copy).unwrap()).collect();
    assert_eq!(contents, ["mine\n", "mine, too\n"], "{report}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn single_calls_turns_and_the_whole_session_can_be_undone() {
    let (server, fixture) = with_replies([
        bash("call-1", "echo 1 > one"),
        bash("call-2", "echo 2 > two"),
        ScriptedReply::new().text("Done.").into(),
        bash("call-3", "echo 3 > three"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    run(&fixture, "first").await.exited(0);
    let id = fixture.id();
    fixture.run(&["run", "second", "--resume", &id, "-p", "full-auto"]).await.exited(0);
    let existing = || ["one", "two", "three"].map(|name| fixture.project(name).exists());
    insta::assert_snapshot!(
        "changes",
        stdout_of(&fixture, &["sessions", "show", &id, "--changes"], 0).await
    );
    let chat = fixture.run(&["undo", "--turn", "1", "--chat"]).await;
    assert!(chat.exited(2).err.contains("--back-to 1 --chat undoes them all"), "{}", chat.err);
    // Undo by call, by turn, back to a turn, and of the whole session, with redos in between.
    stdout_of(&fixture, &["undo", "--call", "call-1"], 0).await;
    assert_eq!(existing(), [false, true, true]);
    stdout_of(&fixture, &["redo"], 0).await;
    assert_eq!(existing(), [true, true, true]);
    stdout_of(&fixture, &["undo", "--turn", "1"], 0).await;
    assert_eq!(existing(), [false, false, true]);
    stdout_of(&fixture, &["undo", "--back-to", "1"], 0).await;
    assert_eq!(existing(), [false, false, false]);
    stdout_of(&fixture, &["redo"], 0).await;
    stdout_of(&fixture, &["redo"], 0).await;
    assert_eq!(existing(), [true, true, true]);
    stdout_of(&fixture, &["undo", "--to-start"], 0).await;
    assert_eq!(existing(), [false, false, false]);
    insta::assert_snapshot!(
        "changes_undone",
        stdout_of(&fixture, &["sessions", "show", &id, "--changes"], 0).await
    );
    // Unknown, ambiguous and contradictory arguments.
    for (args, code) in [
        (vec!["undo", "--call", "call"], 2),
        (vec!["undo", "--call", "nobody"], 2),
        (vec!["undo", "--turn", "9"], 2),
        (vec!["undo", "--turn", "0"], 2),
        (vec!["undo", "--back-to", "0"], 2),
        (vec!["diff", "2..1"], 2),
        (vec!["diff", "call-2..call-1"], 2),
        (vec!["diff", "call-3..1"], 2),
        (vec!["diff", "2..call-1"], 2),
        (vec!["undo", "--turn", "1"], 1),
        (vec!["undo", "--turn", "1", "--to-start"], 2),
        (vec!["undo", "--session", "nobody"], 2),
        (vec!["diff", "1..2..3"], 2),
        (vec!["restore", "one"], 2),
    ] {
        let ran = fixture.run(&args).await;
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{args:?}");
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn restore_resets_one_path_to_a_point_and_can_be_undone() {
    let (server, fixture) = with_replies([
        bash("c1", "echo one > docs/a@b.txt"),
        bash("c2", "echo two > docs/a@b.txt; echo two > other"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    fs::create_dir(fixture.project("docs")).unwrap();
    let file = fixture.project("docs/a@b.txt");
    fs::write(&file, "zero\n").unwrap();
    run(&fixture, "change").await.exited(0);
    let read = || fs::read_to_string(&file).unwrap();
    for (at, expected) in [
        ("c1", "one\n"),
        ("c1^", "zero\n"),
        ("c2", "two\n"),
        ("start", "zero\n"),
        ("c2^", "one\n"),
        ("1", "two\n"),
    ] {
        let target = format!("docs/a@b.txt@{at}");
        let preview = stdout_of(&fixture, &["restore", &target, "--dry-run"], 0).await;
        let before = read();
        let report = stdout_of(&fixture, &["restore", &target], 0).await;
        assert_eq!(read(), expected, "{at}");
        assert_eq!(
            preview.contains("would be changed back"),
            before != expected,
            "{at} {preview}{report}"
        );
    }
    stdout_of(&fixture, &["restore", "docs/a@b.txt@start"], 0).await;
    insta::assert_snapshot!("restore_undone", stdout_of(&fixture, &["undo"], 0).await);
    assert_eq!(read(), "two\n");
    assert!(fixture.project("other").exists(), "nothing else was touched");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn git_applies_a_diff_in_both_directions() {
    let (server, fixture) = with_replies([
        bash("c1", "mv notes.txt 'my notes'; ln -s here there; echo more >> README.md; : > empty; printf 'no end' > src/main.rs; echo : > tool; chmod +x tool; seq 1000 > long; chmod +x docs/*"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    fill_project(&fixture);
    git(&fixture, &["init", "-q"]);
    let original = tree(&fixture.project(""));
    run(&fixture, "change").await.exited(0);
    let changed = tree(&fixture.project(""));
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    // The diff contains a long file completely.
    let numbers: Vec<_> = (2..1000).map(|line| format!("+{line}\n")).collect();
    let shown = diff.replace(&numbers.concat(), "…\n");
    insta::assert_snapshot!("diff", shown);
    assert_eq!(diff, stdout_of(&fixture, &["diff", "c1"], 0).await);
    assert_eq!(diff, stdout_of(&fixture, &["diff", "1.."], 0).await);
    fs::write(fixture.home("patch"), &diff).unwrap();
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &original);
    git(&fixture, &["apply", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &changed);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn git_applies_every_kind_of_change_in_both_directions() {
    let odd = "\"$(printf 'two\\nlines')\"";
    let command = format!(
        "chmod 600 mode; chmod 600 both; echo more >> both; : > emptied; : > emptied-open; chmod 755 binary; \
         echo filled > filled; ln -sfn there link; ln -sfn {odd} odd-link; rm file; ln -s 'a target, mode 755' file; \
         rm was-link; echo text > was-link; rm none; ln -s to none; chmod 755 {odd}; chmod 700 run; rm 'a link'; \
         rm tool; ln -s to tool; printf 'b\\rc\\r' > returns"
    );
    let (server, fixture) =
        with_replies([bash("c1", &command), ScriptedReply::new().text("Done.").into()]).await;
    let project = |name: &str| fixture.project(name);
    for (name, text) in [
        ("mode", "a\n"),
        ("both", "a\n"),
        ("emptied", "a\nb\n"),
        ("emptied-open", "no end"),
        ("binary", "\0"),
        ("filled", ""),
        ("file", "text\n"),
        ("none", ""),
        ("returns", "a\rb\r"),
        ("two\nlines", "text\n"),
        ("run", "#!/bin/sh\n"),
        ("tool", "#!/bin/sh\n"),
    ] {
        fs::write(project(name), text).unwrap();
    }
    for name in ["run", "tool"] {
        fs::set_permissions(project(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["link", "odd-link", "was-link", "a link"] {
        std::os::unix::fs::symlink("here", project(name)).unwrap();
    }
    git(&fixture, &["init", "-q"]);
    let original = tree(&project(""));
    run(&fixture, "change").await.exited(0);
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    insta::assert_snapshot!("diff_of_every_kind", diff);
    fs::write(fixture.home("patch"), &diff).unwrap();
    // Git stores only the executable bit of modes.
    let private = |name: &str, mode| {
        fs::set_permissions(project(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("mode", 0o644), ("both", 0o644), ("run", 0o755)] {
        private(name, mode);
    }
    let changed = tree(&project(""));
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &original);
    git(&fixture, &["apply", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &changed);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn git_applies_binary_latin_1_and_large_files_in_both_directions() {
    let command = "printf '\\000\\001' > new; printf 'caf\\351\\n' > latin; seq 300000 > large; rm gone; \
                   head -c 100000 /dev/urandom > binary; chmod 755 binary; : > emptied; echo text > text; \
                   rm was-file; ln -s \"$(printf 'caf\\351')\" was-file; printf '\\000' > filled";
    let (server, fixture) =
        with_replies([bash("c1", command), ScriptedReply::new().text("Done.").into()]).await;
    for (name, bytes) in [
        ("latin", b"th\xe9\n".as_slice()),
        ("gone", b"\0gone"),
        ("binary", b"\0\xff"),
        ("emptied", b"\0"),
        ("was-file", b"\0"),
        ("filled", b""),
    ] {
        fs::write(fixture.project(name), bytes).unwrap();
    }
    git(&fixture, &["init", "-q"]);
    let original = tree(&fixture.project(""));
    run(&fixture, "change").await.exited(0);
    let changed = tree(&fixture.project(""));
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    fs::write(fixture.home("patch"), &diff).unwrap();
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &original);
    git(&fixture, &["apply", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &changed);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_diff_that_leaves_out_a_file_without_stored_content_still_applies() {
    let (server, fixture) = with_replies([
        bash("c1", "head -c 20000000 /dev/zero > huge; echo text > text"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    git(&fixture, &["init", "-q"]);
    run(&fixture, "change").await.exited(0);
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    assert!(diff.contains("# huge: left out, its content is not known\n"), "{diff}");
    fs::write(fixture.home("patch"), &diff).unwrap();
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert!(fixture.project("huge").exists() && !fixture.project("text").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_diff_of_a_subdirectory_of_a_repository_applies_in_both_directories() {
    let (server, fixture) =
        with_replies([bash("c1", "echo text > text"), ScriptedReply::new().text("Done.").into()])
            .await;
    let above = fixture.project("");
    let above = above.parent().unwrap();
    let git_above = |args: &[&str]| {
        let done = Command::new("git").args(args).current_dir(above).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git_above(&["init", "-q"]);
    run(&fixture, "change").await.exited(0);
    fs::write(fixture.home("patch"), stdout_of(&fixture, &["diff"], 0).await).unwrap();
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert!(!fixture.project("text").exists());
    git_above(&["apply", fixture.home("patch").to_str().unwrap()]);
    assert!(fixture.project("text").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn two_sessions_in_one_folder_undo_their_own_changes() {
    let (server, fixture) = with_replies([
        bash("c1", "echo first > shared; echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
        bash("c1", "echo second > shared; echo 2 > two"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    fs::write(fixture.project("shared"), "zero\n").unwrap();
    for id in ["first", "second"] {
        // The server expects one conversation with a growing prefix.
        server.allow_prefix_break();
        let args = ["run", "change", "-m", MODEL, "-p", "full-auto", "--session-id", id];
        fixture.run(&args).await.exited(0);
    }
    // The shared file belongs to the second session now, so only the other file is undone.
    let conflict = stdout_of(&fixture, &["undo", "--session", "first"], 1).await;
    assert!(conflict.contains("! shared  left alone: it was changed since"), "{conflict}");
    assert!(!fixture.project("one").exists() && fixture.project("two").exists());
    // Without a session id the last session is used.
    stdout_of(&fixture, &["undo"], 0).await;
    assert!(!fixture.project("two").exists());
    assert_eq!(fs::read_to_string(fixture.project("shared")).unwrap(), "first\n");
    let rest = stdout_of(&fixture, &["undo", "-s", "first"], 0).await;
    assert!(rest.contains("crow-agent redo --session first brings it back"), "{rest}");
    assert_eq!(fs::read_to_string(fixture.project("shared")).unwrap(), "zero\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn undo_of_interleaved_sessions_stops_at_changes_of_the_other() {
    let (server, fixture) = with_replies([
        bash("c1", "echo first > shared; echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
        bash("c1", "echo second > shared; echo 2 > two"),
        ScriptedReply::new().text("Done.").into(),
        bash("c2", "echo third > shared; echo 3 > one"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    for id in ["first", "second"] {
        server.allow_prefix_break();
        let args = ["run", "change", "-m", MODEL, "-p", "full-auto", "--session-id", id];
        fixture.run(&args).await.exited(0);
    }
    server.allow_prefix_break();
    fixture.run(&["run", "again", "--resume", "first", "-p", "full-auto"]).await.exited(0);
    let preview = stdout_of(&fixture, &["undo", "-s", "first", "--to-start", "--dry-run"], 1).await;
    let report = stdout_of(&fixture, &["undo", "-s", "first", "--to-start"], 1).await;
    insta::assert_snapshot!("took_turns", format!("{preview}----\n{report}"));
    assert_eq!(fs::read_to_string(fixture.project("shared")).unwrap(), "second\n");
    assert!(!fixture.project("one").exists() && fixture.project("two").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_model_is_informed_of_an_undo_when_the_session_resumes() {
    let (server, fixture) = with_replies([
        bash("c1", "echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
        ScriptedReply::new().text("I see.").into(),
    ])
    .await;
    run(&fixture, "make one").await.exited(0);
    stdout_of(&fixture, &["undo"], 0).await;
    let id = fixture.id();
    let resumed = fixture.run(&["run", "go on", "--resume", &id]).await;
    assert!(resumed.exited(0).err.contains("the agent is told: The user undid"), "{}", resumed.err);
    let request = server.finish().await.unwrap()[2].body.to_string();
    assert!(
        request.contains("The user undid some of your changes") && request.contains("make one")
    );
}

/// A session with two turns, of which the second created the file `one`. One more reply is left.
async fn greeted_and_made_one() -> (ModelServer, Fixture, String) {
    let (server, fixture) = with_replies([
        ScriptedReply::new().text("Hello.").into(),
        bash("c1", "echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
        ScriptedReply::new().text("I see.").into(),
    ])
    .await;
    run(&fixture, "say hello").await.exited(0);
    let id = fixture.id();
    fixture.run(&["run", "make one", "--resume", &id, "-p", "full-auto"]).await.exited(0);
    (server, fixture, id)
}

#[tokio::test]
async fn undo_with_chat_also_rewinds_the_conversation() {
    let (server, fixture, id) = greeted_and_made_one().await;
    let dry = stdout_of(&fixture, &["undo", "--chat", "--dry-run"], 0).await;
    assert!(dry.contains("the conversation would go back to before turn 2"), "{dry}");
    insta::assert_snapshot!("chat_undone", stdout_of(&fixture, &["undo", "--chat"], 0).await);
    assert!(!fixture.project("one").exists());
    server.allow_prefix_break();
    let resumed = fixture.run(&["run", "go on", "--resume", &id]).await;
    assert_eq!(resumed.exited(0).out, "I see.\n");
    let shown = stdout_of(&fixture, &["sessions", "show", &id], 0).await;
    assert!(shown.contains("the conversation was rewound to an earlier point"), "{shown}");
    let request = server.finish().await.unwrap()[3].body.to_string();
    assert!(request.contains("say hello") && request.contains("go on"), "{request}");
    assert!(!request.contains("make one") && !request.contains("undid"), "{request}");
}

#[tokio::test]
async fn the_conversation_goes_back_without_the_files_and_the_model_knows_what_stays() {
    let (server, fixture, id) = greeted_and_made_one().await;
    let undone = stdout_of(&fixture, &["undo", "--chat-only"], 0).await;
    assert!(undone.contains("the conversation goes back to before turn 2"), "{undone}");
    assert!(undone.contains("1 path keeps its changes"), "{undone}");
    assert!(fixture.project("one").exists());
    server.allow_prefix_break();
    fixture.run(&["run", "go on", "--resume", &id]).await.exited(0);
    let request = server.finish().await.unwrap()[3].body.to_string();
    assert!(request.contains("say hello") && !request.contains("make one"), "{request}");
    assert!(request.contains("Changes made in it stay in: one."), "{request}");
    let refused = fixture.run(&["undo", "--chat-only", "--force"]).await;
    assert!(refused.exited(2).err.contains("cannot be used with"), "{}", refused.err);
    stdout_of(&fixture, &["undo", "--turn", "2"], 0).await;
    assert!(!fixture.project("one").exists());
}

#[tokio::test]
async fn an_agent_in_another_process_is_informed_of_an_undo_before_its_next_step() {
    let gate = StreamGate::new();
    let stalled_reply = ScriptedReply::new()
        .call("c2", "bash", &json!({"command": "true"}))
        .with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let (server, fixture) = with_replies([
        bash("c1", "echo 1 > one"),
        stalled_reply,
        ScriptedReply::new().text("I see.").into(),
    ])
    .await;
    let working = fixture.start(&["run", "make one", "-m", MODEL, "-p", "full-auto"]);
    gate.wait_for_arrival(1).await;
    // The running session locks its conversation, but not the files.
    let refused = fixture.run(&["undo", "--chat"]).await;
    assert!(refused.exited(2).err.contains("is in use by another process"), "{}", refused.err);
    let undone = stdout_of(&fixture, &["undo"], 0).await;
    assert!(undone.contains("runs elsewhere: it is told before its next step"), "{undone}");
    assert!(!fixture.project("one").exists());
    gate.open();
    finish(working).await.exited(0);
    let requests = server.finish().await.unwrap();
    assert!(requests[2].body.to_string().contains("The user undid some of your changes"));
}

#[tokio::test]
async fn changes_of_a_killed_command_need_a_forced_undo() {
    let (_server, fixture) =
        with_replies([bash("c1", "rm keep.txt; echo 1 > one; touch started; sleep 600")]).await;
    fs::write(fixture.project("keep.txt"), "keep\n").unwrap();
    let original = tree(&fixture.project(""));
    let mut child = fixture.start(&["run", "wait", "-m", MODEL, "-p", "full-auto"]);
    wait_until(|| fixture.project("started").exists()).await;
    child.kill().unwrap();
    child.wait().unwrap();
    insta::assert_snapshot!("cut_off", stdout_of(&fixture, &["undo"], 1).await);
    stdout_of(&fixture, &["undo", "--force"], 0).await;
    // It is unknown who created these files, so copies are kept.
    for (copy, content) in [("one.crow-kept", "1\n"), ("started.crow-kept", "")] {
        assert_eq!(fs::read_to_string(fixture.project(copy)).unwrap(), content);
        fs::remove_file(fixture.project(copy)).unwrap();
    }
    assert_same(&fixture, &original);
}

#[tokio::test]
async fn the_chat_undoes_redoes_and_shows_changes() {
    let gate = StreamGate::new();
    let stalled_reply = ScriptedReply::new()
        .text("one two three")
        .with(Fault::StallAfter { events: 3, gate: gate.clone() });
    let (server, fixture) = with_replies([
        bash("call-1", "echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
        stalled_reply,
        ScriptedReply::new().text("I see.").into(),
    ])
    .await;
    let one = fixture.project("one");
    let args = ["-m", MODEL, "-p", "full-auto"];
    let mut terminal = Terminal::start(&fixture, &args, 80, "xterm-256color");
    terminal.wait_for_prompt("").await;
    terminal.type_keys("/undo\r");
    terminal.wait_for_text("there is nothing to undo").await.wait_for_prompt("").await;
    terminal.type_keys("make one\r");
    terminal
        .wait_for_text("1 file changed, +1 -0, 1 new: one")
        .await
        .wait_for_text("Done.")
        .await
        .wait_for_prompt("")
        .await;
    for (command, expected) in [
        ("/changes", "1     call-1  bash"),
        ("/diff call-1", "+++ b/one"),
        ("/diff -- two", "nothing changed"),
        ("/diff two", "/diff -- PATH"),
        ("/undo --dry-run", "1 path would be put back"),
        ("/undo -n -- one", "1 path would be put back"),
        ("/undo -- two", "there is nothing to undo at two"),
        ("/undo everything", "unexpected argument 'everything'"),
        ("/undo turn 7", "/changes lists what was changed"),
    ] {
        terminal.type_keys(&format!("{command}\r"));
        terminal.wait_for_text(expected).await.wait_for_prompt("").await;
        assert!(one.exists(), "{command}");
    }
    terminal.type_keys("/undo\r");
    terminal.wait_for_text("/redo brings it back").await.wait_for_prompt("").await;
    assert!(!one.exists());
    terminal.type_keys("/redo\r");
    terminal.wait_for_text("/undo takes it back").await.wait_for_prompt("").await;
    assert!(one.exists());
    terminal.type_keys("/undo call call-1\r");
    terminal
        .wait_for("a second undo", |screen| screen.matches("/redo brings it back").count() == 2)
        .await;
    terminal.wait_for_prompt("").await;
    assert!(!one.exists());
    // While the agent works, a redo is refused.
    terminal.type_keys("count\r");
    gate.wait_for_arrival(1).await;
    terminal.type_keys("/redo\r");
    terminal.wait_for_text("the agent is working; ctrl-c stops it").await;
    gate.open();
    terminal.wait_for_run_end("one two three").await.wait_for_prompt("").await;
    assert!(!one.exists());
    server.allow_prefix_break();
    terminal.type_keys("/undo back-to 1 --chat\r");
    terminal
        .wait_for_text("the conversation goes back to before turn 1")
        .await
        .wait_for_prompt("")
        .await;
    terminal.type_keys("start anew\r");
    terminal.wait_for_run_end("I see.").await.wait_for_prompt("").await;
    terminal.type_keys("\u{4}");
    terminal.wait_for_exit(0).await;
    let requests = server.finish().await.unwrap();
    assert!(requests[2].body.to_string().contains("The user undid some of your changes"));
    let last = requests[3].body.to_string();
    assert!(last.contains("start anew") && !last.contains("make one"), "{last}");
}

#[tokio::test]
async fn undo_output_fits_forty_columns() {
    let long = "a-folder-with-a-rather-long-name/and-a-file-with-a-rather-long-name.txt";
    let command =
        format!("mkdir -p {0}; echo x > {long}; echo y > b", long.split('/').next().unwrap());
    let (server, fixture) =
        with_replies([bash("c1", &command), ScriptedReply::new().text("Done.").into()]).await;
    run(&fixture, "change").await.exited(0);
    fs::write(fixture.project("b"), "mine\n").unwrap();
    let id = fixture.id();
    for (args, code) in [
        (vec!["sessions", "show", &id, "--changes"], 0),
        (vec!["undo", "--dry-run"], 1),
        (vec!["undo"], 1),
        (vec!["redo"], 0),
        (vec!["diff"], 0),
    ] {
        let mut terminal = Terminal::start(&fixture, &args, 40, "xterm-256color");
        terminal.wait_for("an end", |screen| !screen.is_empty()).await;
        let screen = terminal.wait_for_exit(code).await;
        if args[0] != "diff" {
            assert!(screen.lines().all(|line| line.chars().count() <= 40), "{screen}");
            insta::assert_snapshot!(
                format!("narrow_{}", args.join("_").replace(&id, "ID")),
                screen
            );
        }
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn undo_in_a_subdirectory_uses_the_last_session_of_the_project() {
    let (server, fixture) = with_replies([
        bash("c1", "mkdir -p deep/er; echo 1 > deep/one"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    run(&fixture, "make one").await.exited(0);
    let mut command = fixture.command(&["undo", "--dry-run"]);
    command.current_dir(fixture.project("deep/er"));
    let ran = feed(command, "").await;
    assert!(ran.exited(0).out.contains("would be removed"), "{}", ran.out);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn undo_without_a_session_explains_how_to_name_one() {
    let (_server, fixture) = with_replies([]).await;
    let ran = fixture.run(&["undo"]).await;
    assert!(ran.exited(2).err.contains("crow-agent sessions list"), "{}", ran.err);
    let ran = fixture.run(&["redo", "-o", "json"]).await;
    assert_eq!(ran.exited(2).result()["error"]["code"], "unknown_session");
}

#[tokio::test]
async fn removing_a_session_removes_its_snapshots() {
    let (server, fixture) = with_replies([
        bash("c1", "head -c 300000 /dev/urandom > noise; rm noise; echo 1 > one"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    fs::write(fixture.project("large"), vec![b'x'; 100_000]).unwrap();
    fs::write(fixture.project("one"), "a line that is kept\n").unwrap();
    run(&fixture, "change").await.exited(0);
    let objects = || {
        let files = tree(&fixture.home(".local/share/crow-agent/snapshots"));
        let is_object = |(name, state): &(&String, &String)| {
            name.contains("/objects/") && !state.ends_with(" folder")
        };
        files.iter().filter(is_object).count()
    };
    assert!(objects() > 0);
    fixture.run(&["sessions", "rm", &fixture.id()]).await.exited(0);
    assert_eq!(objects(), 0);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn undo_handles_a_file_name_that_is_not_utf8() {
    let (server, fixture) = with_replies([
        bash("c1", "echo x > \"$(printf 'caf\\351')\"; echo y > \"$(printf 'two\\nlines')\""),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    git(&fixture, &["init", "-q"]);
    let original = tree(&fixture.project(""));
    run(&fixture, "touch").await.exited(0);
    let changed = tree(&fixture.project(""));
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    insta::assert_snapshot!("diff_of_odd_names", diff);
    fs::write(fixture.home("patch"), &diff).unwrap();
    let json = fixture.run(&["diff", "-o", "json"]).await.exited(0).lines().remove(0);
    assert_eq!(json["files"][0]["path"].as_str().unwrap().rsplit('/').next(), Some("caf\\351\""));
    fixture
        .run(&["sessions", "show", &fixture.id(), "--changes", "-o", "json"])
        .await
        .exited(0)
        .lines();
    let undone = stdout_of(&fixture, &["undo"], 0).await;
    assert!(undone.contains("- two lines  removed"), "{undone}");
    assert_same(&fixture, &original);
    git(&fixture, &["apply", fixture.home("patch").to_str().unwrap()]);
    assert_same(&fixture, &changed);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn restore_accepts_a_file_name_that_is_not_utf8() {
    let (server, fixture) = with_replies([
        bash("c1", "for file in note*; do echo agent > \"$file\"; done"),
        ScriptedReply::new().text("done").into(),
    ])
    .await;
    let name = OsStr::from_bytes(b"note-\xff.txt");
    fs::write(fixture.project("").join(name), "user\n").unwrap();
    run(&fixture, "change it").await.exited(0);
    let text = || fs::read_to_string(fixture.project("").join(name)).unwrap();
    assert_eq!(text(), "agent\n");
    let mut command = fixture.command(&["restore"]);
    command.arg(OsStr::from_bytes(b"note-\xff.txt@start"));
    finish(command.spawn().unwrap()).await.exited(0);
    assert_eq!(text(), "user\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_file_name_that_is_not_utf8_is_quoted_like_git_and_accepted_back() {
    let (server, fixture) = with_replies([
        bash("c1", "for file in note*; do echo agent > \"$file\"; done"),
        ScriptedReply::new().text("done").into(),
    ])
    .await;
    let name = fixture.project("").join(OsStr::from_bytes(b"note-\xff.txt"));
    fs::write(&name, "user\n").unwrap();
    run(&fixture, "change it").await.exited(0);
    let quoted = "\"note-\\377.txt\"";
    let output = stdout_of(&fixture, &["undo", "-n"], 0).await;
    assert!(output.contains(&format!(" {quoted}  would be")), "{output}");
    let quoted_path = format!(
        "\"{}/note-\\377.txt\"",
        fixture.project("").to_str().unwrap().trim_end_matches('/')
    );
    let undo = fixture.run(&["undo", "-n", "-o", "json"]).await.exited(0).lines().remove(0);
    assert_eq!(undo["paths"][0]["path"], quoted_path);
    let diff = fixture.run(&["diff", "-o", "json"]).await.exited(0).lines().remove(0);
    assert_eq!(diff["files"][0]["path"], quoted_path);
    for name in [quoted, &quoted_path] {
        let diff = stdout_of(&fixture, &["diff", "--", name], 0).await;
        assert!(diff.contains("-user\n+agent\n"), "{name}: {diff}");
    }
    stdout_of(&fixture, &["restore", &format!("{quoted}@start")], 0).await;
    assert_eq!(fs::read_to_string(name).unwrap(), "user\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_diff_shows_only_the_paths_that_are_named() {
    let (server, fixture) = with_replies([
        bash("c1", "mkdir src lib; echo 1 > src/a.txt; echo 2 > lib/b.txt; echo 3 > c.txt"),
        ScriptedReply::new().text("done").into(),
    ])
    .await;
    run(&fixture, "write").await.exited(0);
    let absolute = fixture.project("lib/b.txt");
    for (args, names) in [
        (&["--", "src"][..], &["src/a.txt"][..]),
        (&["--", "src/", "./c.txt"], &["c.txt", "src/a.txt"]),
        (&["c1", "--", absolute.to_str().unwrap()], &["lib/b.txt"]),
        (&["1", "--", "lib/../c.txt"], &["c.txt"]),
        (&["--", "sr"], &[]),
        (&["--", "."], &["c.txt", "lib/b.txt", "src/a.txt"]),
        // An argument that is no call id is treated as a path.
        (&["c.txt"], &["c.txt"]),
        (&["lib"], &["lib/b.txt"]),
    ] {
        let diff = stdout_of(&fixture, &[&["diff"], args].concat(), 0).await;
        let added = diff.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        assert_eq!(added.collect::<Vec<_>>(), names, "{args:?}");
    }
    for (args, says) in [
        (&["diff", "no.txt"][..], "has an id that begins with no.txt"),
        (&["diff", "no.txt"], "`crow-agent diff -- PATH`"),
        (&["diff", "no.txt", "--", "src"], "has an id that begins with no.txt"),
        (&["diff", "1..2..3"], "name a call or a turn"),
    ] {
        let ran = fixture.run(args).await;
        assert!(ran.exited(2).err.contains(says), "{args:?}: {}", ran.err);
    }
    server.finish().await.unwrap();
}

#[tokio::test]
async fn undo_with_paths_leaves_the_other_changes_of_the_turn() {
    let (server, fixture) = with_replies([
        bash("c1", "mkdir src; echo 1 > src/a.txt; echo 1 > b.txt; echo 1 > c.txt"),
        ScriptedReply::new().text("done").into(),
    ])
    .await;
    run(&fixture, "write").await.exited(0);
    let exist = || ["src/a.txt", "b.txt", "c.txt"].map(|name| fixture.project(name).exists());
    let dry = stdout_of(&fixture, &["undo", "-n", "--", "src"], 0).await;
    assert!(dry.contains("would be undone in part") && exist() == [true; 3], "{dry}");
    let undone = stdout_of(&fixture, &["undo", "--", "src/", "./b.txt"], 0).await;
    assert_eq!(exist(), [false, false, true], "{undone}");
    assert!(undone.contains("undone in part") && undone.contains("1 other path keeps its changes"));
    stdout_of(&fixture, &["redo"], 0).await;
    assert_eq!(exist(), [true; 3]);
    for (args, says) in [
        (&["undo", "--", "b.txt", "d.txt"][..], "nothing to undo at d.txt"),
        (&["undo", "--chat", "--", "b.txt"], "cannot be used with"),
        (&["undo", "b.txt"], "undo [OPTIONS] [-- <PATH>...]"),
    ] {
        let ran = fixture.run(args).await;
        assert!(ran.exited(2).err.contains(says), "{args:?}: {}", ran.err);
    }
    assert_eq!(exist(), [true; 3]);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_file_name_that_begins_with_a_dash_can_be_named() {
    let (server, fixture) = with_replies([
        bash("c1", "echo 1 > ./-n; echo 1 > ./--force; echo 1 > plain"),
        ScriptedReply::new().text("done").into(),
    ])
    .await;
    run(&fixture, "write").await.exited(0);
    let exist = || ["-n", "--force", "plain"].map(|name| fixture.project(name).exists());
    let diff = stdout_of(&fixture, &["diff", "--", "-n"], 0).await;
    assert!(diff.contains("+++ b/-n") && !diff.contains("plain"), "{diff}");
    stdout_of(&fixture, &["undo", "--", "-n"], 0).await;
    assert_eq!(exist(), [false, true, true]);
    stdout_of(&fixture, &["restore", "--", "--force@start"], 0).await;
    assert_eq!(exist(), [false, false, true]);
    stdout_of(&fixture, &["restore", "--", "-n@c1"], 0).await;
    assert_eq!(exist(), [true, false, true]);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn git_ignored_files_are_undone_and_listed_separately() {
    let work = "echo new > a.py; mkdir __pycache__ .cache; \
        for i in 1 2 3 4 5 6; do printf '\\0%s' $i > __pycache__/$i.pyc; done; echo 1 > .cache/run";
    let done = ScriptedReply::new().text("Done.").into();
    let (server, fixture) = with_replies([bash("c1", work), done]).await;
    git(&fixture, &["init", "-q"]);
    fs::write(fixture.project(".gitignore"), "__pycache__/\n.cache/*\n").unwrap();
    fs::write(fixture.project("a.py"), "old\n").unwrap();
    run(&fixture, "test it").await.exited(0);
    let diff = stdout_of(&fixture, &["diff"], 0).await;
    let (source, note) = diff.split_once("# 7 files that git ignores changed, too").unwrap();
    assert!(source.contains("+new") && !source.contains("pycache"), "{diff}");
    assert!(note.contains(".cache/run, __pycache__/1.pyc, __pycache__/2.pyc and 4 more"), "{diff}");
    fs::write(fixture.home("patch"), &diff).unwrap();
    git(&fixture, &["apply", "-R", fixture.home("patch").to_str().unwrap()]);
    assert_eq!(fs::read_to_string(fixture.project("a.py")).unwrap(), "old\n");
    fs::write(fixture.project("a.py"), "new\n").unwrap();
    assert!(stdout_of(&fixture, &["diff", "--ignored"], 0).await.contains("__pycache__/6.pyc"));
    let output = stdout_of(&fixture, &["diff", "--output", "json"], 0).await;
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let count = |name: &str| output[name].as_array().unwrap().len();
    assert_eq!((count("files"), count("ignored")), (8, 7));
    let undone = stdout_of(&fixture, &["undo"], 0).await;
    insta::assert_snapshot!("undo_of_files_that_git_ignores", undone);
    assert!(!fixture.project("__pycache__").exists() && !fixture.project(".cache").exists());
    assert_eq!(fs::read_to_string(fixture.project("a.py")).unwrap(), "old\n");
    server.finish().await.unwrap();
}
