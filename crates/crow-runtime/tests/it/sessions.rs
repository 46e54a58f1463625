//! Sessions on disk.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, InputSource, ParentCall},
    ids::{CallId, MessageId, SessionId},
    message::Block,
    model::Abilities,
    permission::{PermissionMode, PermissionPolicy},
};
use crow_runtime::{
    AgentSession, FileStore, MemoryStore, RuntimeConfig, SessionError, SessionFilter, SessionSpec,
    SessionStore, UnusedSessions,
};
use crow_testkit::telemetry::CheckedRuntime;
use tempfile::TempDir;

use crate::support::{SOON, idle};

struct StoreFixture {
    folder: TempDir,
    config: RuntimeConfig,
}

fn fixture() -> StoreFixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path().join("data/sessions")));
    StoreFixture { config: RuntimeConfig { store, ..RuntimeConfig::default() }, folder }
}

fn spec(id: &str) -> SessionSpec {
    let id = Some(SessionId::new(id));
    SessionSpec { id, ..SessionSpec::new("builder", "anthropic/claude".parse().unwrap(), "/p") }
}

impl StoreFixture {
    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("data/sessions").join(file)
    }

    fn create(&self, id: &str) -> AgentSession {
        AgentSession::create(&self.config, spec(id)).unwrap()
    }

    /// Creates a session whose log has one event after the first.
    fn create_with_input(&self, id: &str) {
        drop(self.create(id));
        let opened = self.config.store.open(&SessionId::new(id)).unwrap();
        let mut log = opened.log;
        let first = opened.stored.events.first().unwrap();
        log.append(&input(first, 2)).unwrap();
    }

    fn error(&self, id: &str) -> SessionError {
        self.config.store.open(&SessionId::new(id)).unwrap_err()
    }
}

fn input(first: &Envelope, seq: u64) -> Envelope {
    let event = AgentEvent::UserInput {
        message_id: MessageId::new("m"),
        source: InputSource::Prompt,
        context: None,
        content: vec![Block::text("hello")],
    };
    Envelope { seq: Some(seq), event, ..first.clone() }
}

#[test]
fn the_header_has_exactly_the_documented_keys() {
    let fixture = fixture();
    fixture.create("s1");
    let header: serde_json::Value =
        serde_json::from_slice(&fs::read(fixture.path("s1/metadata.json")).unwrap()).unwrap();
    let keys: BTreeSet<_> = header.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = [
        "session_id",
        "agent_type",
        "parent_session_id",
        "parent_tool_use_id",
        "child_session_ids",
        "model",
        "provider",
        "created_at",
        "updated_at",
        "metadata",
    ];
    assert_eq!(keys, BTreeSet::from(documented));
    assert_eq!(header["metadata"]["crow"]["root_id"], "s1");
}

#[test]
fn only_the_owner_can_read_a_session() {
    let fixture = fixture();
    fixture.create("s1");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.path("s1")), 0o700);
    assert_eq!(mode(&fixture.path("s1/metadata.json")), 0o600);
    assert_eq!(mode(&fixture.path("s1/history.jsonl")), 0o600);
}

#[test]
fn a_torn_last_line_is_cut_off_and_saved_to_another_file() {
    for tail in [b"{\"seq\":3,\"ti".as_slice(), b"{\"seq\":3", b"\x00\xff\n", b"\n"] {
        let fixture = fixture();
        fixture.create_with_input("s1");
        let original = fs::read(fixture.path("s1/history.jsonl")).unwrap();
        fs::OpenOptions::new()
            .append(true)
            .open(fixture.path("s1/history.jsonl"))
            .unwrap()
            .write_all(tail)
            .unwrap();
        let opened = fixture.config.store.open(&SessionId::new("s1")).unwrap();
        assert_eq!((opened.stored.events.len(), opened.torn_bytes), (2, tail.len()));
        assert_eq!(fs::read(fixture.path("s1/history.jsonl")).unwrap(), original);
        assert_eq!(fs::read(fixture.path("s1/history.torn")).unwrap(), tail);
    }
}

#[test]
fn reading_a_session_does_not_repair_its_log() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let path = fixture.path("s1/history.jsonl");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"half").unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(fixture.config.store.read(&SessionId::new("s1")).unwrap().events.len(), 2);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_damaged_line_in_the_middle_is_reported_with_its_line_number() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let path = fixture.path("s1/history.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    fs::write(&path, format!("{first}\nnonsense\n{rest}")).unwrap();
    let opened = fixture.config.store.open(&SessionId::new("s1")).unwrap();
    assert_eq!(opened.stored.damage.to_string(), "line 2 of the log is damaged");
    let seqs: Vec<_> = opened.stored.events.iter().filter_map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2]);
}

#[test]
fn a_second_writer_is_refused_with_the_pid_of_the_first() {
    let fixture = fixture();
    let first = fixture.create("s1");
    assert!(
        matches!(fixture.error("s1"), SessionError::Locked { pid: Some(pid), .. } if pid == std::process::id())
    );
    assert!(matches!(fixture.config.store.remove(first.id()), Err(SessionError::Locked { .. })));
    drop(first);
    fixture.config.store.open(&SessionId::new("s1")).unwrap();
}

#[test]
fn a_session_id_cannot_be_used_twice() {
    let fixture = fixture();
    drop(fixture.create("s1"));
    assert!(matches!(
        AgentSession::create(&fixture.config, spec("s1")),
        Err(SessionError::Exists { .. })
    ));
}

#[test]
fn a_session_id_cannot_escape_the_store_directory() {
    let fixture = fixture();
    for id in ["../x", "a/b", "", ".", "..", ".hidden", "a\0b", &"x".repeat(200)] {
        assert!(
            matches!(
                AgentSession::create(&fixture.config, spec(id)),
                Err(SessionError::BadId { .. })
            ),
            "{id}"
        );
        assert!(fixture.config.store.find(id).is_err(), "{id}");
    }
}

#[test]
fn a_log_of_a_newer_format_version_is_refused() {
    let fixture = fixture();
    drop(fixture.create("s1"));
    let path = fixture.path("s1/metadata.json");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("\"format_version\": 1", "\"format_version\": 9");
    fs::write(&path, text).unwrap();
    assert!(matches!(fixture.error("s1"), SessionError::NewerFormat { found: 9, .. }));
}

#[test]
fn a_list_contains_only_root_sessions_newest_first() {
    let fixture = fixture();
    drop(fixture.create("a"));
    drop(fixture.create("b"));
    let parent =
        Some(ParentCall { session_id: SessionId::new("a"), call_id: Some(CallId::new("c")) });
    let child = SessionSpec { parent, role: AgentRole::Subagent, ..spec("child") };
    drop(AgentSession::create(&fixture.config, child).unwrap());
    let ids: Vec<_> = fixture
        .config
        .store
        .list(&SessionFilter::default())
        .unwrap()
        .into_iter()
        .map(|metadata| metadata.session_id.to_string())
        .collect();
    assert_eq!(ids, ["b", "a"]);
}

#[test]
fn the_list_of_an_unused_store_is_empty() {
    assert_eq!(fixture().config.store.list(&SessionFilter::default()).unwrap(), []);
}

#[test]
fn a_session_beyond_repair_does_not_hide_the_others() {
    let fixture = fixture();
    drop(fixture.create("a"));
    drop(fixture.create("b"));
    fs::write(fixture.path("a/metadata.json"), "{").unwrap();
    fs::write(fixture.path("a/history.jsonl"), "{").unwrap();
    assert_eq!(fixture.config.store.list(&SessionFilter::default()).unwrap().len(), 1);
    assert!(matches!(fixture.error("a"), SessionError::Damaged { .. }));
}

#[test]
fn a_session_is_found_by_a_unique_id_prefix() {
    for store in [
        Arc::clone(&fixture().config.store),
        Arc::new(MemoryStore::default()) as Arc<dyn SessionStore>,
    ] {
        let config = RuntimeConfig { store, ..RuntimeConfig::default() };
        for id in ["abc1", "abc2", "xyz"] {
            drop(AgentSession::create(&config, spec(id)).unwrap());
        }
        assert_eq!(config.store.find("x").unwrap(), SessionId::new("xyz"));
        assert!(matches!(config.store.find("abc"), Err(SessionError::Ambiguous { count: 2, .. })));
        assert!(matches!(config.store.find("q"), Err(SessionError::Unknown { .. })));
    }
}

#[test]
fn a_removed_session_cannot_be_opened() {
    let fixture = fixture();
    drop(fixture.create("s1"));
    fixture.config.store.remove(&SessionId::new("s1")).unwrap();
    assert!(!fixture.path("s1").exists());
    assert!(matches!(fixture.error("s1"), SessionError::Unknown { .. }));
}

#[test]
fn an_opened_session_has_the_stored_history() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let session =
        AgentSession::open(&fixture.config, &SessionId::new("s1"), Abilities::default()).unwrap();
    assert_eq!(session.history().messages().unwrap().len(), 1);
    assert_eq!(session.history().last_seq(), 2);
}

#[test]
fn the_error_of_an_unwritable_store_names_its_path() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data"), "a file").unwrap();
    let config = RuntimeConfig {
        store: Arc::new(FileStore::new(folder.path().join("data/sessions"))),
        ..RuntimeConfig::default()
    };
    let error = AgentSession::create(&config, spec("s1")).unwrap_err().to_string();
    assert!(error.starts_with("cannot write ") && error.contains("data/sessions"), "{error}");
}

#[test]
fn a_list_can_be_limited_and_filtered_by_directory() {
    let fixture = fixture();
    for (id, cwd) in [("a", "/p"), ("b", "/q"), ("c", "/p")] {
        let spec = SessionSpec { cwd: cwd.into(), ..spec(id) };
        drop(AgentSession::create(&fixture.config, spec).unwrap());
    }
    let list = |filter: SessionFilter| {
        let sessions = fixture.config.store.list(&filter).unwrap();
        sessions.into_iter().map(|metadata| metadata.session_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(list(SessionFilter { limit: Some(2), ..SessionFilter::default() }), ["c", "b"]);
    assert_eq!(
        list(SessionFilter { cwd: Some("/p".into()), ..SessionFilter::default() }),
        ["c", "a"]
    );
}

#[test]
fn a_complete_line_that_does_not_parse_is_reported_and_not_cut_off() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let path = fixture.path("s1/history.jsonl");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"seq\":3}\n").unwrap();
    let before = fs::read(&path).unwrap();
    let opened = fixture.config.store.open(&SessionId::new("s1")).unwrap();
    assert_eq!((opened.stored.damage.lines[0].line, opened.torn_bytes), (3, 0));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_empty_header_is_rebuilt_from_the_log() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    fs::write(fixture.path("s1/metadata.json"), "").unwrap();
    let opened = fixture.config.store.open(&SessionId::new("s1")).unwrap();
    assert_eq!(opened.stored.metadata.model_ref().to_string(), "anthropic/claude");
    assert_eq!(opened.stored.metadata.crow().cwd, Path::new("/p"));
}

#[test]
fn a_session_beyond_repair_can_be_removed() {
    let fixture = fixture();
    drop(fixture.create("s1"));
    fs::write(fixture.path("s1/metadata.json"), "{").unwrap();
    fs::write(fixture.path("s1/history.jsonl"), "nonsense\n").unwrap();
    assert!(matches!(fixture.error("s1"), SessionError::Damaged { .. }));
    fixture.config.store.remove(&SessionId::new("s1")).unwrap();
}

#[test]
fn reading_a_session_right_after_opening_it_reuses_the_parsed_log() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let id = SessionId::new("s1");
    let open = || AgentSession::open(&fixture.config, &id, Abilities::default()).unwrap();
    let path = fixture.path("s1/history.jsonl");
    let original = fs::read_to_string(&path).unwrap();
    let has_hello = |events: &[Envelope]| format!("{events:?}").contains("hello");
    let read = || fixture.config.store.read(&id).unwrap().events;
    let session = open();
    // The file is changed, so the events show whether it was read again. Lines appended since opening come from the disk.
    let third_line = serde_json::to_string(&input(&read()[0], 3)).unwrap();
    drop(session);
    let session = open();
    fs::write(&path, original.replace("hello", "other") + &third_line + "\n").unwrap();
    let events = read();
    assert_eq!(events.iter().filter_map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(has_hello(&events[..2]));
    // The parsed log serves one read only, and is dropped when the session is closed.
    assert!(!has_hello(&read()[..2]));
    fs::write(&path, &original).unwrap();
    drop(session);
    drop(open());
    fs::write(&path, original.replace("hello", "other")).unwrap();
    assert!(!has_hello(&read()));
}

#[test]
fn reading_the_header_does_not_need_the_log() {
    let fixture = fixture();
    fixture.create_with_input("s1");
    let id = SessionId::new("s1");
    let expected = fixture.config.store.read(&id).unwrap().metadata;
    fs::remove_file(fixture.path("s1/history.jsonl")).unwrap();
    assert_eq!(fixture.config.store.header(&id).unwrap(), expected);
}

#[test]
fn creating_a_session_removes_unfinished_ones_of_killed_processes() {
    let fixture = fixture();
    // One that only has to be moved to its place, one without files, and one that another process is creating.
    for (folder, files) in [("a", &["lock", "history.jsonl", "metadata.json"][..]), ("b", &[])] {
        fs::create_dir_all(fixture.path(".new").join(folder)).unwrap();
        for file in files {
            fs::write(fixture.path(".new").join(folder).join(file), "").unwrap();
        }
    }
    fs::create_dir(fixture.path(".new/c")).unwrap();
    let lock_file = fs::File::create(fixture.path(".new/c/lock")).unwrap();
    lock_file.lock().unwrap();
    drop(fixture.create("s1"));
    let remaining: Vec<_> = fs::read_dir(fixture.path(".new")).unwrap().flatten().collect();
    assert_eq!(remaining.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>(), ["c"]);
    assert_eq!(fixture.config.store.list(&SessionFilter::default()).unwrap().len(), 1);
    assert!(matches!(fixture.config.store.find("."), Err(SessionError::Unknown { .. })));
}

#[test]
fn another_model_is_recorded_as_a_switch() {
    let fixture = fixture();
    drop(fixture.create("s1"));
    let mut session =
        AgentSession::open(&fixture.config, &SessionId::new("s1"), Abilities::default()).unwrap();
    for _ in 0..2 {
        session
            .set_model(&fixture.config, &"ollama/other".parse().unwrap(), Abilities::default())
            .unwrap();
    }
    drop(session);
    let stored = fixture.config.store.read(&SessionId::new("s1")).unwrap();
    assert_eq!(stored.metadata.model_ref().to_string(), "ollama/other");
    let change = "model: anthropic/claude -> ollama/other".to_owned();
    assert_eq!(
        stored.events[1..].iter().map(|line| &line.event).collect::<Vec<_>>(),
        [&AgentEvent::Switch { change }]
    );
}

async fn mode_of(config: &RuntimeConfig, session: AgentSession) -> PermissionMode {
    let runtime = CheckedRuntime::new(config.clone());
    let handle = runtime.spawn(session, idle);
    let mode = handle.permissions().policy().mode();
    runtime.shutdown(handle.session_id(), SOON).await;
    mode
}

#[tokio::test]
async fn a_permission_mode_survives_reopening_and_forking() {
    let config = RuntimeConfig::default();
    let runtime = CheckedRuntime::new(config.clone());
    let session = AgentSession::create(&config, spec("s1")).unwrap();
    let handle = runtime.spawn(session, idle);
    handle.permissions().set_mode(PermissionMode::ReadOnly).unwrap();
    runtime.shutdown(handle.session_id(), SOON).await;
    let (id, abilities) = (handle.session_id(), Abilities::default());
    let forked = AgentSession::fork(&config, id, abilities).unwrap();
    assert_eq!(mode_of(&config, forked).await, PermissionMode::ReadOnly);
    let opened = AgentSession::open(&config, id, abilities).unwrap();
    assert_eq!(mode_of(&config, opened).await, PermissionMode::ReadOnly);
}

#[tokio::test]
async fn a_permission_mode_of_the_caller_overrides_the_stored_one() {
    let config = RuntimeConfig::default();
    let full_auto = SessionSpec { permissions: Some(PermissionMode::FullAuto), ..spec("s1") };
    let session = AgentSession::create(&config, full_auto).unwrap();
    assert_eq!(mode_of(&config, session).await, PermissionMode::FullAuto);
    let mut session =
        AgentSession::open(&config, &SessionId::new("s1"), Abilities::default()).unwrap();
    session.set_permission_mode(Some(PermissionMode::ReadOnly)).unwrap();
    assert_eq!(mode_of(&config, session).await, PermissionMode::ReadOnly);
}

#[tokio::test]
async fn a_session_without_a_stored_permission_mode_uses_the_configured_one() {
    let policy = PermissionPolicy::new(PermissionMode::AcceptEdits);
    let config = RuntimeConfig { policy, ..RuntimeConfig::default() };
    let session = AgentSession::create(&config, spec("s1")).unwrap();
    assert_eq!(mode_of(&config, session).await, PermissionMode::AcceptEdits);
}

/// Returns the ids of the listed sessions without unused ones.
fn listed_ids(fixture: &StoreFixture) -> Vec<String> {
    let unused = UnusedSessions::LeftOut;
    let filter = SessionFilter { unused, ..SessionFilter::default() };
    let sessions = fixture.config.store.list(&filter).unwrap();
    sessions.into_iter().map(|metadata| metadata.session_id.to_string()).collect()
}

#[test]
fn listing_without_unused_sessions_removes_those_that_are_not_open() {
    let fixture = fixture();
    drop(fixture.create("a"));
    let open_session = fixture.create("b");
    drop(fixture.create("titled"));
    AgentSession::rename(&fixture.config, &SessionId::new("titled"), "mine").unwrap();
    assert_eq!(listed_ids(&fixture), ["titled"]);
    assert!(!fixture.path("a").exists());
    assert!(fixture.path("b").exists(), "somebody has it");
    drop(open_session);
    assert_eq!(listed_ids(&fixture), ["titled"]);
    assert!(!fixture.path("b").exists());
    assert!(fixture.path("titled").exists());
}

#[test]
fn a_session_whose_log_is_longer_than_its_header_says_is_never_removed() {
    let fixture = fixture();
    fixture.create_with_input("a");
    drop(fixture.create("torn"));
    let torn_log = fixture.path("torn/history.jsonl");
    let start = fs::read_to_string(&torn_log).unwrap();
    fs::write(&torn_log, format!("{start}{{\"seq\":2,\"ti")).unwrap();
    assert!(listed_ids(&fixture).is_empty());
    assert!(fixture.path("a").exists() && fixture.path("torn").exists());
}
