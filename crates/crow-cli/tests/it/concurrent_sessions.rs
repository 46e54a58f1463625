//! Sessions that work in one project at the same time, and which of their commands wait for each other.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use crow_core::{
    event::{AgentEvent, Envelope},
    message::Block,
    tool::{ToolRegistry, ToolResult},
};
use crow_runtime::{RuntimeConfig, SandboxConfig, SnapshotLimits, SnapshotStores};
use crow_testkit::{
    NamedPipe,
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
    wait_until,
};
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::json;
use tempfile::TempDir;

/// Number of sessions that read while another one writes.
const READERS: usize = 20;

fn model_that_runs(command: &str) -> ScriptedModel {
    let command = json!({"command": command});
    ScriptedModel::new([reply([call("c", "bash", command)]), reply([text("Done.")])])
}

fn options(data_dir: &Path, sandbox: Option<SandboxConfig>) -> HarnessOptions {
    let mut tools = ToolRegistry::new();
    crow_tools::register_builtin(&mut tools);
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let snapshots =
        SnapshotStores::new(data_dir.join("snapshots"), SnapshotLimits::default(), None);
    let runtime = RuntimeConfig {
        child_env: BTreeMap::from([path]).into(),
        sandbox,
        snapshots: Some(snapshots.into()),
        ..RuntimeConfig::default()
    };
    HarnessOptions { tools, runtime, ..HarnessOptions::default() }
}

/// Waits until a command reads from a pipe, and returns the writing end. The command continues when it is dropped.
async fn wait_for_reader(pipe: &Path) -> rustix::fd::OwnedFd {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut opened = None;
    wait_until(|| {
        opened = rustix::fs::openat(CWD, pipe, flags, Mode::empty()).ok();
        opened.is_some()
    })
    .await;
    opened.unwrap()
}

fn call_result(events: &[Arc<Envelope>]) -> &ToolResult {
    let result = |event: &'_ Arc<Envelope>| matches!(event.event, AgentEvent::CallEnd { .. });
    let ended = events.iter().find(|event| result(event)).map(|event| &event.event);
    let Some(AgentEvent::CallEnd { result, .. }) = ended else { panic!("{events:#?}") };
    result
}

#[tokio::test]
async fn read_only_commands_run_concurrently_with_each_other_and_with_a_writer() {
    let data_dir = TempDir::new().unwrap();
    let sandbox = || Some(SandboxConfig::new(data_dir.path().join("sandbox")));
    let new_options = || options(data_dir.path(), sandbox());
    let writer =
        AgentHarness::start(model_that_runs("echo x > made; read line < gate"), new_options());
    // 1) The writer holds the lease until its gate opens.
    let gate = writer.cwd().join("gate");
    NamedPipe::make(&gate);
    writer.handle.send_input(vec![Block::text("go")]).unwrap();
    let gate_fd = wait_for_reader(&gate).await;
    // 2) Readers that each wait for their pipe.
    let mut readers = Vec::new();
    for number in 0..READERS {
        let pipe = writer.cwd().join(format!("pipe{number}"));
        NamedPipe::make(&pipe);
        let reader =
            writer.start_another(model_that_runs(&format!("cat pipe{number}")), new_options());
        reader.handle.send_input(vec![Block::text("go")]).unwrap();
        readers.push((reader, pipe));
    }
    // No reader can end before all have begun.
    let mut open = Vec::new();
    for (reader, pipe) in &mut readers {
        let ended = reader.until(|event| matches!(event, AgentEvent::RunEnd { .. }));
        tokio::select! {
            begun = wait_for_reader(pipe) => open.push(begun),
            events = ended => panic!("it ended before it began to read: {events:#?}"),
        }
    }
    drop(open);
    // 3) They end without having waited for the writer, and without snapshots.
    for (reader, _) in &mut readers {
        let events = reader.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
        let waits = |event: &AgentEvent| matches!(event, AgentEvent::CallWait { .. });
        assert!(!events.iter().any(|event| waits(&event.event)), "{events:#?}");
        let result = call_result(&events);
        assert_eq!(result.output, "(no output)\n[exit code 0]");
        assert_eq!(result.metadata.snapshot_before, None);
    }
    drop(gate_fd);
    let mut writer = writer;
    let events = writer.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    let written = &call_result(&events).metadata;
    assert!(!written.shared, "who reads is no other who changes files: {written:?}");
    assert_eq!(written.files_modified, [writer.cwd().join("made")]);
}

#[tokio::test]
async fn without_a_sandbox_a_reader_waits_for_the_writer() {
    let data_dir = TempDir::new().unwrap();
    let mut writer = AgentHarness::start(
        model_that_runs("read line < gate; echo x > made"),
        options(data_dir.path(), None),
    );
    let gate = writer.cwd().join("gate");
    NamedPipe::make(&gate);
    writer.handle.send_input(vec![Block::text("go")]).unwrap();
    let gate_fd = wait_for_reader(&gate).await;
    let mut reader =
        writer.start_another(model_that_runs("cat made"), options(data_dir.path(), None));
    reader.handle.send_input(vec![Block::text("go")]).unwrap();
    let events = reader.until(|event| matches!(event, AgentEvent::CallWait { .. })).await;
    let Some(AgentEvent::CallWait { reason, .. }) = events.last().map(|it| &it.event) else {
        panic!("it did not wait");
    };
    assert_eq!(reason, "another agent changes files here");
    drop(gate_fd);
    writer.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    let events = reader.until(|event| matches!(event, AgentEvent::CallEnd { .. })).await;
    assert_eq!(call_result(&events).output, "x\n[exit code 0]");
    assert_eq!(fs::read_to_string(writer.cwd().join("made")).unwrap(), "x\n");
}
