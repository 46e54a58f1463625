//! Sessions whose files are damaged.

use std::{fs, path::PathBuf, sync::Arc};

use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, InputSource, ParentCall, RunOutcome},
    history::History,
    ids::{CallId, MessageId, ReplyId, RunId, SessionId, SnapshotId},
    message::{Block, CallArguments, Message, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{Abilities, StopReason, Thinking},
    permission::PermissionMode,
    tool::ToolResult,
    usage::TokenUsage,
};
use crow_runtime::{
    AgentSession, CrowMetadata, FileStore, InputMessage, ObserverItem, OpenedWith, RuntimeConfig,
    SessionError, SessionFilter, SessionMetadata, SessionSpec,
};
use crow_testkit::telemetry::CheckedRuntime;
use serde_json::json;
use tempfile::TempDir;

use crate::support::SOON;

struct SessionFixture {
    folder: TempDir,
    config: RuntimeConfig,
}

fn id() -> SessionId {
    SessionId::new("s1")
}

/// A session in which a model made two calls and then answered.
fn fixture() -> SessionFixture {
    fixture_of(spec())
}

fn spec() -> SessionSpec {
    SessionSpec {
        id: Some(id()),
        ..SessionSpec::new("builder", "anthropic/claude".parse().unwrap(), "/p")
    }
}

fn fixture_of(spec: SessionSpec) -> SessionFixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path().join("sessions")));
    let config = RuntimeConfig { store, ..RuntimeConfig::default() };
    drop(AgentSession::create(&config, spec).unwrap());
    let opened = config.store.open(&id()).unwrap();
    let mut log = opened.log;
    let first = opened.stored.events.first().unwrap();
    for (event, seq) in events().into_iter().zip(2..) {
        log.append(&Envelope { seq: Some(seq), event, ..first.clone() }).unwrap();
    }
    SessionFixture { folder, config }
}

fn events() -> Vec<AgentEvent> {
    let reply = |id: &str, blocks, stop| AgentEvent::Reply {
        reply_id: ReplyId::new(id),
        blocks,
        stop,
        origin: Origin {
            dialect: "d".to_owned(),
            provider: "anthropic".to_owned(),
            base_url: "u".to_owned(),
            model: "claude-2".to_owned(),
        },
        response_id: None,
    };
    let usage = |id: &str| AgentEvent::Usage {
        reply_id: ReplyId::new(id),
        usage: TokenUsage { input_tokens: 7, ..TokenUsage::default() },
        estimated: false,
        prefix: None,
        timing: None,
        request_bytes: None,
    };
    let call = |id: &str| {
        ReplyBlock::without_native_item(ReplyContent::Call(ToolCall {
            id: CallId::new(id),
            name: "bash".to_owned(),
            arguments: CallArguments::Json(json!({"command": id})),
        }))
    };
    let start = |id: &str| AgentEvent::CallStart {
        call_id: CallId::new(id),
        reply_id: ReplyId::new("r1"),
        tool: "bash".to_owned(),
        title: format!("run {id}"),
        arguments: json!({"command": id}),
        snapshot: Some(SnapshotId::new("before")),
    };
    let end = |id: &str| {
        let mut result = ToolResult::success(format!("output of {id}"));
        result.metadata.snapshot_before = Some(SnapshotId::new("before"));
        result.metadata.snapshot_after = Some(SnapshotId::new("after"));
        AgentEvent::CallEnd {
            call_id: CallId::new(id),
            reply_id: ReplyId::new("r1"),
            tool: "bash".to_owned(),
            result,
            denial: None,
        }
    };
    vec![
        AgentEvent::RunStart { run_id: RunId::new("run"), settings: None },
        AgentEvent::UserInput {
            message_id: MessageId::new("m"),
            source: InputSource::Prompt,
            context: None,
            content: vec![Block::text("do two things\nplease")],
        },
        AgentEvent::TurnStart { turn: 1 },
        reply("r1", vec![call("a"), call("b")], StopReason::ToolUse),
        usage("r1"),
        start("a"),
        end("a"),
        start("b"),
        end("b"),
        reply(
            "r2",
            vec![ReplyBlock::without_native_item(ReplyContent::Text {
                text: "both are done".to_owned(),
            })],
            StopReason::EndTurn,
        ),
        usage("r2"),
        AgentEvent::RunEnd {
            run_id: RunId::new("run"),
            result: RunOutcome::NeedsInput,
            assessment: None,
        },
    ]
}

impl SessionFixture {
    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("sessions/s1").join(file)
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("history.jsonl")).unwrap();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    /// Makes the lines of these numbers unreadable.
    fn damage(&self, numbers: &[usize]) {
        let mut lines = self.lines();
        for number in numbers {
            lines[number - 1] = lines[number - 1].replacen('{', "\u{1}", 1);
        }
        fs::write(self.path("history.jsonl"), lines.concat()).unwrap();
    }

    fn open(&self) -> AgentSession {
        AgentSession::open(&self.config, &id(), Abilities::default()).unwrap()
    }

    fn listed(&self) -> Vec<SessionMetadata> {
        self.config.store.list(&SessionFilter::default()).unwrap()
    }

    /// Opens and closes the session, then returns its events with lost ones replaced.
    fn read(&self) -> Vec<Envelope> {
        drop(self.open());
        self.config.store.read(&id()).unwrap().events
    }
}

fn texts_of(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| format!("{message:?}")).collect()
}

#[test]
fn one_damaged_byte_loses_at_most_one_event() {
    let fixture = fixture();
    let log = fs::read(fixture.path("history.jsonl")).unwrap();
    let original = History::from_log(&fixture.read()).unwrap();
    let is_edge = |at: usize| log[at] == b'\n' || at == 0 || log[at - 1] == b'\n';
    for at in (0..log.len()).filter(|at| at % 7 == 0 || is_edge(*at)) {
        for byte in [b'x', 0xff] {
            let mut damaged = log.clone();
            damaged[at] = byte;
            fs::write(fixture.path("history.jsonl"), &damaged).unwrap();
            let stored = fixture.config.store.read(&id());
            let stored = stored.unwrap_or_else(|error| panic!("byte {at}: {error}"));
            assert!(stored.damage.lines.len() <= 1, "byte {at}: {}", stored.damage);
            let intact = (1..=13).filter(|seq| stored.events.iter().any(|e| e.seq == Some(*seq)));
            assert!(intact.count() >= 12, "byte {at}");
            // A process forked by another test holds the inherited lock until it calls exec.
            fs::remove_file(fixture.path("lock")).unwrap();
            // Opening cuts a damaged last line off.
            let opened = AgentSession::open(&fixture.config, &id(), Abilities::default());
            let opened = opened.unwrap_or_else(|error| panic!("byte {at}: {error}"));
            assert!(opened.damage().lines.len() <= 2, "byte {at}: {}", opened.damage());
            let messages = opened.history().messages();
            let message_count =
                messages.map_or_else(|_| opened.history().results().count() + 3, <[_]>::len);
            assert!(message_count + 1 >= original.messages().unwrap().len(), "byte {at}");
        }
    }
}

#[test]
fn a_lost_result_is_replaced_and_keeps_the_snapshot_before_its_call() {
    let fixture = fixture();
    fixture.damage(&[8]);
    let events = fixture.read();
    let history = History::from_log(&events).unwrap();
    let messages = texts_of(history.messages().unwrap());
    assert!(messages[2].contains("The result of this call is lost"), "{messages:#?}");
    assert!(messages[2].contains("output of b"), "{messages:#?}");
    assert!(messages.concat().contains("line 8 of the log is damaged"), "{messages:#?}");
    let end = events.iter().find_map(|line| match &line.event {
        AgentEvent::CallEnd { call_id, result, .. } if call_id.as_str() == "a" => Some(result),
        _ => None,
    });
    let metadata = &end.unwrap().metadata;
    assert_eq!(metadata.snapshot_before, Some(SnapshotId::new("before")));
    assert!(metadata.shared && metadata.snapshot_after.is_none());
}

#[test]
fn a_lost_reply_is_rebuilt_from_its_calls() {
    let fixture = fixture();
    fixture.damage(&[5]);
    let history = History::from_log(&fixture.read()).unwrap();
    let calls: Vec<_> = history
        .messages()
        .unwrap()
        .iter()
        .filter_map(|message| match message.as_ref() {
            Message::Assistant(reply) => Some(reply.calls().cloned().collect::<Vec<_>>()),
            Message::User(_) | Message::Results(_) => None,
        })
        .flatten()
        .collect();
    let arguments: Vec<_> = calls.iter().map(|call| call.arguments.clone()).collect();
    let expected = ["a", "b"].map(|id| CallArguments::Json(json!({"command": id})));
    assert_eq!(arguments, expected);
    assert_eq!(history.results().count(), 2);
}

#[test]
fn a_lost_call_start_is_rebuilt_from_its_end() {
    let fixture = fixture();
    fixture.damage(&[7]);
    let events = fixture.read();
    let start = events.iter().find_map(|line| match &line.event {
        AgentEvent::CallStart { call_id, snapshot, .. } if call_id.as_str() == "a" => {
            Some((line.seq, snapshot.clone()))
        }
        _ => None,
    });
    assert_eq!(start, Some((Some(7), Some(SnapshotId::new("before")))));
}

#[test]
fn a_lost_first_line_is_rebuilt_with_or_without_the_header() {
    let fixture = fixture();
    fixture.damage(&[1]);
    let start = |fixture: &SessionFixture| fixture.read().into_iter().next().unwrap().event;
    let expected = AgentEvent::SessionStart {
        format_version: 1,
        model: "anthropic/claude".to_owned(),
        cwd: "/p".into(),
        settings: Some(Box::default()),
    };
    assert_eq!(start(&fixture), expected);
    fs::remove_file(fixture.path("metadata.json")).unwrap();
    assert_eq!(start(&fixture), expected);
}

#[test]
fn a_session_with_a_lost_header_is_listed_as_rebuilt_and_can_be_opened() {
    for header in [None, Some(""), Some("{"), Some("{\"session_id\":\"s1\"}")] {
        let fixture = fixture();
        match header {
            None => fs::remove_file(fixture.path("metadata.json")).unwrap(),
            Some(text) => fs::write(fixture.path("metadata.json"), text).unwrap(),
        }
        let listed = fixture.listed();
        let [entry] = listed.as_slice() else { panic!("{header:?}: {listed:?}") };
        let crow = entry.crow();
        assert!(crow.rebuilt);
        assert_eq!((crow.title.as_str(), crow.turns), ("do two things", 1));
        assert_eq!(crow.usage.input_tokens, 14);
        assert_eq!(entry.model_ref().to_string(), "anthropic/claude-2");
        assert_eq!(fixture.config.store.find("s").unwrap(), id());
        let mut session = fixture.open();
        assert!(session.damage().header.is_some());
        session.set_permission_mode(None).unwrap();
        drop(session);
        let listed = fixture.listed();
        assert!(!listed[0].crow().rebuilt, "{header:?}");
        assert_eq!(listed[0].crow().title, "do two things");
    }
}

#[test]
fn a_rebuilt_header_has_the_children_and_forgets_grants() {
    let fixture = fixture();
    let stored = fixture.config.store.read(&id()).unwrap();
    let child = SessionId::new("child");
    let parent = ParentCall { session_id: id(), call_id: Some(CallId::new("a")) };
    let mut metadata = stored.metadata.clone();
    metadata.session_id = child.clone();
    metadata.parent_session_id = Some(id());
    let line = Envelope {
        seq: Some(14),
        session_id: child.clone(),
        role: AgentRole::Subagent,
        parent: Some(parent),
        ..stored.events[0].clone()
    };
    fixture.config.store.create(&metadata).unwrap().append(&line).unwrap();
    fs::remove_file(fixture.path("metadata.json")).unwrap();
    let metadata = fixture.config.store.read(&id()).unwrap().metadata;
    assert_eq!(metadata.child_session_ids, [child]);
    assert_eq!(metadata.crow().grants_forgotten, 14);
}

/// Deletes the header, repairs the session and returns the rebuilt header.
fn rebuild_header(fixture: &SessionFixture) -> CrowMetadata {
    fs::remove_file(fixture.path("metadata.json")).unwrap();
    fixture.config.store.repair(&id()).unwrap();
    fixture.config.store.header(&id()).unwrap().crow()
}

fn smart_agent() -> OpenedWith {
    OpenedWith { thinking: Some(Thinking::High), ..OpenedWith::new("BUILD-SMART") }
}

#[test]
fn a_rebuilt_header_has_the_agent_and_directories_of_the_session() {
    let fixture = fixture_of(SessionSpec {
        opened_with: Some(smart_agent()),
        additional_directories: vec!["/beside".into()],
        ..spec()
    });
    let crow = rebuild_header(&fixture);
    assert_eq!(crow.opened_with, Some(smart_agent()));
    assert_eq!(crow.additional_directories, [PathBuf::from("/beside")]);
    assert!(!crow.agent_lost);
}

#[test]
fn a_rebuilt_header_lowers_the_permission_mode_to_ask_at_most() {
    use PermissionMode::{AcceptEdits, Ask, FullAuto, ReadOnly};
    let table = [(ReadOnly, ReadOnly), (Ask, Ask), (AcceptEdits, Ask), (FullAuto, Ask)];
    for (before, after) in table {
        let fixture = fixture_of(SessionSpec { permissions: Some(before), ..spec() });
        assert_eq!(rebuild_header(&fixture).permissions, Some(after), "{before}");
    }
}

#[test]
fn a_header_rebuilt_from_a_log_without_settings_is_read_only() {
    let fixture = fixture_of(SessionSpec { opened_with: Some(smart_agent()), ..spec() });
    let log = fs::read_to_string(fixture.path("history.jsonl")).unwrap();
    let (first, rest) = log.split_once('\n').unwrap();
    let mut first: serde_json::Value = serde_json::from_str(first).unwrap();
    assert!(first.as_object_mut().unwrap().remove("settings").is_some());
    fs::write(fixture.path("history.jsonl"), format!("{first}\n{rest}")).unwrap();
    // While the header is intact, nothing is missing.
    let crow = fixture.config.store.header(&id()).unwrap().crow();
    assert_eq!((crow.opened_with, crow.agent_lost), (Some(smart_agent()), false));
    let crow = rebuild_header(&fixture);
    assert_eq!((crow.opened_with, crow.agent_lost), (None, true));
    assert_eq!(crow.permissions, Some(PermissionMode::ReadOnly));
    // The agent is unknown until one is set.
    let mut session = fixture.open();
    session.set_agent(&fixture.config, "builder", smart_agent()).unwrap();
    let crow = session.metadata().crow();
    assert_eq!((crow.opened_with, crow.agent_lost), (Some(smart_agent()), false));
}

#[tokio::test]
async fn a_run_start_records_the_settings_only_if_they_changed() {
    let fixture =
        fixture_of(SessionSpec { opened_with: Some(OpenedWith::new("builder")), ..spec() });
    let runtime = CheckedRuntime::new(fixture.config.clone());
    let handle = runtime.spawn(fixture.open(), |mut internals| async move {
        loop {
            let InputMessage::UserInput { run_id, .. } = internals.receive().await? else {
                continue;
            };
            let run = internals.start_run(run_id).await?;
            internals.end_run(run, RunOutcome::NeedsInput).await?;
        }
    });
    let run = async || {
        let started_run = handle.send_input(vec![Block::text("go on")]).unwrap();
        let mut events = handle.subscribe();
        while let Some(observed) = events.next().await {
            if let ObserverItem::Event(event) = observed
                && matches!(&event.event, AgentEvent::RunEnd { run_id, .. } if *run_id == started_run)
            {
                break;
            }
        }
    };
    run().await;
    handle.header().set_opened_with(smart_agent()).unwrap();
    handle.permissions().set_mode(PermissionMode::ReadOnly).unwrap();
    run().await;
    run().await;
    runtime.shutdown(handle.session_id(), SOON).await;
    let settings = fixture.read().into_iter().filter_map(|line| match line.event {
        AgentEvent::RunStart { settings, .. } => Some(settings.is_some()),
        _ => None,
    });
    // The first run is the one of the prepared log.
    assert_eq!(settings.collect::<Vec<_>>(), [false, false, true, false]);
    let crow = rebuild_header(&fixture);
    assert_eq!(crow.opened_with, Some(smart_agent()));
    assert_eq!(crow.permissions, Some(PermissionMode::ReadOnly));
}

#[test]
fn a_rebuilt_header_includes_the_usage_of_child_agents() {
    let fixture = fixture();
    let stored = fixture.config.store.read(&id()).unwrap();
    let mut metadata = stored.metadata.clone();
    metadata.session_id = SessionId::new("child");
    metadata.parent_session_id = Some(id());
    let mut log = fixture.config.store.create(&metadata).unwrap();
    for (line, seq) in stored.events.iter().zip(100..) {
        let parent = Some(ParentCall { session_id: id(), call_id: Some(CallId::new("a")) });
        let (session_id, seq) = (metadata.session_id.clone(), Some(seq));
        log.append(&Envelope { seq, session_id, parent, ..line.clone() }).unwrap();
    }
    drop(log);
    fs::remove_file(fixture.path("metadata.json")).unwrap();
    let child_tokens = |metadata: &SessionMetadata| {
        metadata.crow().spent.iter().map(|spent| spent.usage.input_tokens).sum::<u64>()
    };
    assert_eq!(child_tokens(&fixture.listed()[0]), 28);
    fixture.config.store.repair(&id()).unwrap();
    assert_eq!(child_tokens(&fixture.listed()[0]), 28);
}

#[test]
fn a_repair_keeps_copies_of_damaged_files_and_reports_the_lost_lines() {
    let fixture = fixture();
    fixture.damage(&[5, 9]);
    fs::write(fixture.path("metadata.json"), "nothing").unwrap();
    let damaged = fs::read(fixture.path("history.jsonl")).unwrap();
    let read = fixture.read();
    let repair = fixture.config.store.repair(&id()).unwrap();
    let lines: Vec<_> = repair.damage.lines.iter().map(|lost| lost.line).collect();
    assert_eq!((lines, repair.damage.header.is_some()), (vec![5, 9], true));
    assert_eq!(
        repair.copies,
        [fixture.path("history.jsonl.damaged"), fixture.path("metadata.json.damaged")]
    );
    assert_eq!(fs::read(fixture.path("history.jsonl.damaged")).unwrap(), damaged);
    assert_eq!(fs::read(fixture.path("metadata.json.damaged")).unwrap(), b"nothing");
    let repaired = fixture.config.store.read(&id()).unwrap();
    assert!(repaired.damage.is_none(), "{}", repaired.damage);
    assert_eq!(repaired.events, read);
    assert!(!fixture.listed()[0].crow().rebuilt);
    // Nothing is left to repair, and after new damage the first copy is kept.
    assert_eq!(fixture.config.store.repair(&id()).unwrap(), crow_runtime::SessionRepair::default());
    fixture.damage(&[3]);
    let again = fixture.config.store.repair(&id()).unwrap();
    assert_eq!(again.copies, [fixture.path("history.jsonl.damaged-2")]);
}

#[test]
fn a_session_in_use_is_not_repaired() {
    let fixture = fixture();
    let _session = fixture.open();
    let refused = fixture.config.store.repair(&id());
    assert!(matches!(refused, Err(SessionError::Locked { .. })), "{refused:?}");
}
