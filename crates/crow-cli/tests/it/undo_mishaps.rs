//! Undo in the real program after kills, races and odd files.

use std::{collections::BTreeSet, fs, time::Duration};

use crow_testkit::ScriptedReply;
use serde_json::json;

use crate::{
    program::{Fixture, finish},
    undo_fixture::{bash, run, with_replies},
};

#[tokio::test]
async fn a_file_name_that_is_not_utf8_breaks_neither_run_nor_session() {
    let (_server, fixture) = with_replies([
        bash("c1", "printf x > \"$(printf 'a\\377b')\""),
        ScriptedReply::new().text("Done.").into(),
        ScriptedReply::new().text("Going on.").into(),
    ])
    .await;
    let ran = run(&fixture, "go").await;
    let id = fixture.id();
    let resumed = fixture.run(&["run", "go on", "--resume", &id, "-p", "full-auto"]).await;
    assert_eq!((ran.code, resumed.code), (Some(0), Some(0)), "{}\n{}", ran.err, resumed.err);
}

/// Returns the file names in `d`.
fn names(fixture: &Fixture) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(fixture.project("d")) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn an_undo_killed_halfway_is_completed_by_the_next_and_fully_redone() {
    let (_server, fixture) = with_replies([
        bash("c1", "mkdir d; cd d; for i in $(seq 1 1500); do echo $i > $i; done"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    run(&fixture, "go").await.exited(0);
    let made = names(&fixture);
    let mut killed = fixture.start(&["undo"]);
    while names(&fixture).len() > 1000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    killed.kill().unwrap();
    finish(killed).await;
    let half = names(&fixture).len();
    assert!(half > 0, "too late");
    fixture.run(&["undo"]).await.exited(0);
    assert_eq!(names(&fixture), BTreeSet::new());
    fixture.run(&["redo"]).await.exited(0);
    let back = names(&fixture).len();
    assert_eq!(back, made.len(), "{half} were left when it was killed, {back} came back");
}

#[tokio::test]
async fn two_concurrent_undos_act_as_one_and_one_redo_reverts_them() {
    let (_server, fixture) = with_replies([
        bash("c1", "mkdir d; cd d; for i in $(seq 1 300); do echo $i > $i; done"),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    run(&fixture, "go").await.exited(0);
    let made = names(&fixture);
    let (one, two) = (fixture.start(&["undo"]), fixture.start(&["undo"]));
    let (one, two) = tokio::join!(finish(one), finish(two));
    assert_eq!(names(&fixture), BTreeSet::new(), "{one:?} {two:?}");
    fixture.run(&["redo"]).await.exited(0);
    assert_eq!(names(&fixture).len(), made.len(), "{one:?} {two:?}");
}

#[tokio::test]
async fn undo_of_an_edit_through_a_link_restores_the_target() {
    let edit = json!({"path": "link", "old_string": "old", "new_string": "new"});
    let (_server, fixture) = with_replies([
        ScriptedReply::new().call("c0", "read_file", &json!({"path": "link"})).into(),
        ScriptedReply::new().call("c1", "edit_file", &edit).into(),
        ScriptedReply::new().text("Done.").into(),
    ])
    .await;
    fs::write(fixture.project("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", fixture.project("link")).unwrap();
    run(&fixture, "go").await.exited(0);
    assert_eq!(fs::read_to_string(fixture.project("real")).unwrap(), "new");
    fixture.run(&["undo"]).await.exited(0);
    assert_eq!(fs::read_to_string(fixture.project("real")).unwrap(), "old");
    assert!(fs::symlink_metadata(fixture.project("link")).unwrap().is_symlink());
}

#[tokio::test]
async fn undo_does_not_recreate_the_old_directory_of_a_moved_project() {
    let (_server, fixture) =
        with_replies([bash("c1", "rm a"), ScriptedReply::new().text("Done.").into()]).await;
    fs::write(fixture.project("a"), "old").unwrap();
    fs::write(fixture.project("b"), "old").unwrap();
    run(&fixture, "go").await.exited(0);
    let id = fixture.id();
    let old = fixture.project("").components().as_path().to_path_buf();
    let new = old.with_file_name("moved");
    fs::rename(&old, &new).unwrap();
    let mut command = fixture.command(&["undo", "--session", &id]);
    let ran = finish(command.current_dir(&new).spawn().unwrap()).await;
    assert!(!old.exists(), "{ran:?}");
}

#[tokio::test]
async fn output_redirected_into_the_project_is_not_attributed_to_a_call() {
    for form in ["json", "text"] {
        let (server, fixture) = with_replies([
            bash("c1", "echo text > text"),
            bash("c2", "echo more > more"),
            ScriptedReply::new().text("Done.").into(),
        ])
        .await;
        let file = |name: &str| fs::File::create(fixture.project(name)).unwrap();
        let mut command =
            fixture.command(&["run", "-o", form, "--permissions", "full-auto", "change"]);
        let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        finish(child).await.exited(0);
        let printed = ["out", "err"].map(|name| fs::read(fixture.project(name)).unwrap());
        assert!(!printed[0].is_empty() && (form == "json" || !printed[1].is_empty()));
        let undone = fixture.run(&["undo"]).await;
        undone.exited(0);
        assert!(undone.out.contains("2 paths"), "{form}: {}", undone.out);
        assert_eq!(["out", "err"].map(|name| fs::read(fixture.project(name)).unwrap()), printed);
        server.finish().await.unwrap();
    }
}
