//! Additional directories of a session.

use crow_core::permission::PermissionMode;
use crow_runtime::{
    AgentHost as _, HostError, SandboxConfig, SessionSetup, UndoOptions, UndoTarget,
};
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use super::scene::{Scene, run};

#[tokio::test]
async fn an_additional_directory_is_writable_also_after_a_resume() {
    let scene = Scene::new();
    let beside = scene.beside("beside");
    let setup = SessionSetup {
        permissions: Some(PermissionMode::AcceptEdits),
        additional_directories: Some(vec![beside.clone()]),
        ..SessionSetup::default()
    };
    let handle = scene.create(setup).await;
    let id = handle.session_id().clone();
    let write = |name: &str| {
        let path = beside.join(name).display().to_string();
        reply([call(name, "write_file", json!({"path": path, "content": "x\n"}))])
    };
    scene.model.push(write("a.txt"));
    scene.model.push(reply([text("Written.")]));
    run(&handle, "write there").await;
    assert!(beside.join("a.txt").exists(), "{:?}", scene.model.requests()[1].outline());
    assert!(scene.model.requests()[0].outline()[0].contains(&beside.display().to_string()));
    drop(handle);
    scene.host.close(&id).await.unwrap();
    let handle = scene.host.open(&id, SessionSetup::default()).await.unwrap();
    scene.model.push(write("b.txt"));
    scene.model.push(reply([text("Written.")]));
    run(&handle, "and another").await;
    assert!(beside.join("b.txt").exists());
    let undone = tokio::task::spawn_blocking(move || {
        handle.undo_journal().unwrap().undo(&UndoTarget::LastTurn, UndoOptions::default())
    });
    undone.await.unwrap().unwrap();
    assert!(!beside.join("b.txt").exists() && beside.join("a.txt").exists());
}

#[tokio::test]
async fn a_directory_that_was_not_added_is_outside_the_workspace() {
    let scene = Scene::new();
    let beside = scene.beside("beside");
    let setup =
        SessionSetup { permissions: Some(PermissionMode::AcceptEdits), ..SessionSetup::default() };
    let handle = scene.create(setup).await;
    let path = beside.join("a.txt").display().to_string();
    scene.model.push(reply([call("c1", "write_file", json!({"path": path, "content": "x\n"}))]));
    scene.model.push(reply([text("Refused.")]));
    run(&handle, "write there").await;
    assert!(!beside.join("a.txt").exists());
}

#[tokio::test]
async fn the_additional_directories_of_an_open_session_cannot_change() {
    let scene = Scene::new();
    let beside = scene.beside("beside");
    let with = |folders: Vec<std::path::PathBuf>| SessionSetup {
        additional_directories: Some(folders),
        ..SessionSetup::default()
    };
    let handle = scene.create(with(vec![beside.clone()])).await;
    let id = handle.session_id();
    scene.host.open(id, with(vec![beside])).await.unwrap();
    let refused = scene.host.open(id, with(Vec::new())).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn sandboxed_commands_change_an_additional_directory_and_no_other() {
    let scene = Scene::with_sandbox(|home| Some(SandboxConfig::new(home.join("sandbox"))));
    let (beside, other) = (scene.beside("beside"), scene.beside("other"));
    let setup = SessionSetup {
        permissions: Some(PermissionMode::FullAuto),
        additional_directories: Some(vec![beside.clone()]),
        ..SessionSetup::default()
    };
    let handle = scene.create(setup).await;
    let (here, there) = (beside.join("a.txt"), other.join("a.txt"));
    let command = format!("echo x > {}; echo x > {}", here.display(), there.display());
    scene.model.push(reply([call("c1", "bash", json!({"command": command}))]));
    scene.model.push(reply([text("Done.")]));
    run(&handle, "write there").await;
    let outline = scene.model.requests()[1].outline();
    assert!(here.exists() && !there.exists(), "{outline:?}");
}

#[tokio::test]
async fn a_removed_additional_directory_breaks_neither_commands_nor_undo() {
    let scene = Scene::with_sandbox(|home| Some(SandboxConfig::new(home.join("sandbox"))));
    let beside = scene.beside("beside");
    let setup = SessionSetup {
        permissions: Some(PermissionMode::FullAuto),
        additional_directories: Some(vec![beside.clone()]),
        ..SessionSetup::default()
    };
    let handle = scene.create(setup).await;
    for name in ["a.txt", "b.txt"] {
        scene.model.push(reply([call(
            name,
            "bash",
            json!({"command": format!("echo x > {name}")}),
        )]));
        scene.model.push(reply([text("Done.")]));
        run(&handle, "write here").await;
        let outline = scene.model.requests().last().unwrap().outline();
        assert!(scene.project.join(name).exists(), "{outline:?}");
        if beside.exists() {
            std::fs::remove_dir(&beside).unwrap();
        }
    }
    let undone = tokio::task::spawn_blocking(move || {
        handle.undo_journal().unwrap().undo(&UndoTarget::ToStart, UndoOptions::default())
    });
    assert!(undone.await.unwrap().unwrap().is_complete());
    assert!(!scene.project.join("a.txt").exists() && !scene.project.join("b.txt").exists());
}
