use std::{fs, path::Path};

use crow_core::{
    event::{AgentEvent, Envelope},
    history::{History, HistoryEntry},
    ids::SessionId,
    message::{Block, Message, ReplyContent},
};
use crow_runtime::{MemoryStore, SessionStore as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    claude::ClaudeSessions,
    codex::CodexSessions,
    events::imported_session,
    format::SessionFormat,
    gemini::GeminiSessions,
    json_lines::{LineProblems, for_each_object},
    opencode::OpenCodeSessions,
    pi::PiSessions,
};

/// Writes a file of these records, one a line.
fn write(path: &Path, records: &[Value]) {
    let lines = records.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, lines).unwrap();
}

/// Imports the one session of a program, and returns the events, or why it cannot be read.
fn import(format: &dyn SessionFormat) -> Result<(Vec<Envelope>, Vec<String>), String> {
    let files = format.files()?;
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert_eq!(format.cwd(file)?, Some("/project".into()));
    let conversation = format.read(file)?;
    let notes = conversation.notes.clone();
    let store = MemoryStore::default();
    let id = SessionId::new("p-1");
    let redactor = crow_core::redact::Redactor::new(["secret-token-1234567890".to_owned()]);
    let session = imported_session(conversation, id.clone(), "other", &redactor);
    session.add_to(&store).unwrap();
    Ok((store.read(&id).unwrap().events, notes))
}

/// Describes the timeline and then what the model is sent: one line for each entry.
fn shown(events: &[Envelope]) -> String {
    let history = History::from_log(events).unwrap();
    let entries = history.entries().into_iter().filter_map(|entry| match entry {
        HistoryEntry::User { content, .. } => Some(format!("> {content}")),
        HistoryEntry::AssistantText { content, .. } => Some(content),
        HistoryEntry::Thinking { content, .. } => Some(format!("~ {content}")),
        HistoryEntry::ToolCall { name, arguments, .. } => {
            Some(format!("{name}({})", arguments.to_object()))
        }
        HistoryEntry::ToolResult { status, output, .. } => Some(format!("= {status:?} {output}")),
        HistoryEntry::Handoff { .. } | HistoryEntry::System { .. } => None,
    });
    let mut lines: Vec<String> = entries.collect();
    lines.push(format!("({} messages for the model)", history.messages().unwrap().len()));
    lines.join("\n")
}

fn claude(records: &[Value]) -> Result<(Vec<Envelope>, Vec<String>), String> {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("projects/-project/11.jsonl"), records);
    write(&folder.path().join("projects/-project/11/subagents/agent-1.jsonl"), &[]);
    import(&ClaudeSessions { folder: folder.path().to_owned() })
}

/// A record of Claude Code.
fn claude_record(id: &str, parent: Option<&str>, kind: &str, message: &Value) -> Value {
    json!({
        "type": kind, "uuid": id, "parentUuid": parent, "cwd": "/project", "sessionId": "11",
        "timestamp": "2026-01-02T03:04:05.678Z", "isSidechain": false, "message": message,
    })
}

fn claude_call(id: &str, parent: &str, message: &str, call: &str) -> Value {
    let block =
        json!({ "type": "tool_use", "id": call, "name": "Bash", "input": { "command": call } });
    claude_record(
        id,
        Some(parent),
        "assistant",
        &json!({ "id": message, "model": "claude-x", "content": [block] }),
    )
}

fn claude_result(id: &str, parent: &str, call: &str) -> Value {
    let block =
        json!({ "type": "tool_result", "tool_use_id": call, "content": format!("did {call}") });
    claude_record(id, Some(parent), "user", &json!({ "role": "user", "content": [block] }))
}

fn claude_text(id: &str, parent: &str, text: &str) -> Value {
    let block = json!({ "type": "text", "text": text });
    claude_record(
        id,
        Some(parent),
        "assistant",
        &json!({ "id": id, "model": "claude-x", "content": [block] }),
    )
}

#[test]
fn results_of_calls_that_claude_code_ran_at_once_are_all_found() {
    // The chain of parents goes over the second result only.
    let (events, notes) = claude(&[
        claude_record("u1", None, "user", &json!({ "role": "user", "content": "go" })),
        claude_call("a1", "u1", "m", "one"),
        claude_result("r1", "a1", "one"),
        claude_call("a2", "a1", "m", "two"),
        claude_result("r2", "a2", "two"),
        claude_text("a3", "r2", "both done"),
    ])
    .unwrap();
    assert_eq!(notes, [""; 0]);
    insta::assert_snapshot!(shown(&events));
}

#[test]
fn what_claude_code_rewound_or_added_is_left_out() {
    let user = |id: &str, parent: Option<&str>, text: &str| {
        claude_record(id, parent, "user", &json!({ "role": "user", "content": text }))
    };
    let mut hidden = user("x", Some("u1"), "a caveat");
    hidden["isMeta"] = json!(true);
    let mut aside = user("y", None, "a task of a subagent");
    aside["isSidechain"] = json!(true);
    let (events, notes) = claude(&[
        user("u1", None, "first"),
        hidden,
        aside,
        claude_text("a1", "x", "rewound"),
        user(
            "u2",
            Some("u1"),
            "<command-name>/review</command-name><command-args>now</command-args>",
        ),
        user("u3", Some("u2"), "<local-command-stdout>done</local-command-stdout>"),
        claude_text("a2", "u3", "kept"),
        json!({ "type": "custom-title", "customTitle": "mine" }),
        json!({ "type": "of-the-future", "uuid": "z", "parentUuid": "a2" }),
    ])
    .unwrap();
    insta::assert_snapshot!(format!("{}\n{notes:#?}", shown(&events)));
}

#[test]
fn a_summary_becomes_a_compaction_and_the_log_keeps_what_it_replaced() {
    let mut summary =
        claude_record("s", None, "user", &json!({ "role": "user", "content": "we counted" }));
    summary["isCompactSummary"] = json!(true);
    summary["logicalParentUuid"] = json!("a1");
    let (events, _) = claude(&[
        claude_record("u1", None, "user", &json!({ "role": "user", "content": "count" })),
        claude_text("a1", "u1", "two"),
        summary,
        claude_record("u2", Some("s"), "user", &json!({ "role": "user", "content": "go on" })),
        claude_text("a2", "u2", "three"),
    ])
    .unwrap();
    insta::assert_snapshot!(shown(&events));
}

#[test]
fn damaged_lines_are_named_and_cost_only_themselves() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("projects/-project/11.jsonl");
    let good = claude_record("u1", None, "user", &json!({ "role": "user", "content": "hello" }));
    write(&path, &[json!([1]), good]);
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("\n{\"type\":\"user\",\"uu");
    fs::write(&path, text).unwrap();
    let (events, notes) = import(&ClaudeSessions { folder: folder.path().to_owned() }).unwrap();
    assert_eq!(notes, ["2 lines are damaged and were skipped, the first is line 1"]);
    assert!(shown(&events).starts_with("> hello"), "{}", shown(&events));
}

#[test]
fn a_call_without_a_result_is_answered_and_secrets_are_not_copied() {
    let (events, _) = claude(&[
        claude_record(
            "u1",
            None,
            "user",
            &json!({ "role": "user", "content": "my secret-token-1234567890" }),
        ),
        claude_call("a1", "u1", "m", "one"),
    ])
    .unwrap();
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("secret-token"), "{text}");
    insta::assert_snapshot!(shown(&events));
}

fn codex(records: &[(&str, Value)]) -> Result<(Vec<Envelope>, Vec<String>), String> {
    let folder = TempDir::new().unwrap();
    let records: Vec<Value> = records
        .iter()
        .map(|(kind, payload)| {
            json!({ "timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload })
        })
        .collect();
    write(&folder.path().join("sessions/2026/01/02/rollout-1.jsonl"), &records);
    import(&CodexSessions { folder: folder.path().to_owned() })
}

#[test]
fn sessions_of_codex_are_read_without_what_the_program_added() {
    let message = |role: &str, text: &str| {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
    };
    let (events, notes) = codex(&[
        ("session_meta", json!({ "id": "22", "cwd": "/project", "model_provider": "openai", "source": "cli" })),
        ("turn_context", json!({ "model": "gpt-x" })),
        ("response_item", message("developer", "be good")),
        ("response_item", message("user", "<environment_context>x</environment_context>")),
        ("response_item", message("user", "rolled back")),
        ("response_item", message("assistant", "rolled back")),
        ("event_msg", json!({ "type": "thread_rolled_back", "num_turns": 1 })),
        ("response_item", message("user", "list the files")),
        ("response_item", json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "hm" }] })),
        ("response_item", json!({ "type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "c1" })),
        ("response_item", json!({ "type": "function_call_output", "call_id": "c1", "output": "{\"output\":\"no\",\"metadata\":{\"exit_code\":2}}" })),
        ("response_item", json!({ "type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c2" })),
        ("response_item", json!({ "type": "custom_tool_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "ok" }] })),
        ("response_item", message("assistant", "done")),
        ("response_item", json!({ "type": "hologram" })),
        ("compacted", json!({ "message": "we listed" })),
        ("response_item", message("user", "thanks")),
    ])
    .unwrap();
    insta::assert_snapshot!(format!("{}\n{notes:#?}", shown(&events)));
}

fn pi(records: &[Value]) -> Result<(Vec<Envelope>, Vec<String>), String> {
    let folder = TempDir::new().unwrap();
    write(&folder.path().join("sessions/--project--/1_33.jsonl"), records);
    import(&PiSessions { folder: folder.path().to_owned() })
}

#[test]
fn sessions_of_pi_are_read_along_the_branch_of_the_last_entry() {
    let message = |id: &str, parent: &str, message: Value| {
        json!({
            "type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-02T03:04:05Z",
            "message": message,
        })
    };
    let user = |text: &str| json!({ "role": "user", "content": text });
    let reply = |content: Value| json!({ "role": "assistant", "provider": "p", "model": "m", "content": content });
    let (events, notes) = pi(&[
        json!({ "type": "session", "version": 3, "id": "33", "cwd": "/project", "timestamp": "2026-01-02T03:04:05Z" }),
        message("a", "", user("first")),
        message("b", "a", reply(json!([{ "type": "text", "text": "left behind" }]))),
        message("c", "a", reply(json!([
            { "type": "thinking", "thinking": "hm" },
            { "type": "toolCall", "id": "t", "name": "bash", "arguments": { "command": "ls" } },
        ]))),
        message("d", "c", json!({ "role": "toolResult", "toolCallId": "t", "isError": true, "content": [{ "type": "text", "text": "no" }] })),
        message("e", "d", json!({ "role": "bashExecution", "command": "pwd", "output": "/project", "exitCode": 0 })),
        json!({ "type": "compaction", "id": "f", "parentId": "e", "summary": "we tried", "firstKeptEntryId": "d", "timestamp": "2026-01-02T03:04:05Z" }),
        message("g", "f", user("go on")),
        message("h", "g", reply(json!([{ "type": "text", "text": "done" }]))),
    ])
    .unwrap();
    insta::assert_snapshot!(format!("{}\n{notes:#?}", shown(&events)));
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let refused = pi(&[json!({ "type": "session", "version": 4, "id": "33", "cwd": "/project" })]);
    assert_eq!(refused.unwrap_err(), "its format has the version 4; the newest known is 3");
    let refused = pi(&[json!({ "type": "of-the-future" })]);
    assert_eq!(refused.unwrap_err(), "it does not begin with a record of the type `session`");
}

fn gemini(name: &str, records: &[Value]) -> Result<(Vec<Envelope>, Vec<String>), String> {
    let folder = TempDir::new().unwrap();
    let project = folder.path().join("tmp/project");
    write(&project.join("chats").join(name), records);
    fs::write(project.join(".project_root"), "/project\n").unwrap();
    import(&GeminiSessions { folder: folder.path().to_owned(), current_dir: None })
}

#[test]
fn a_session_whose_project_is_only_a_hash_is_found_from_the_project() {
    let folder = TempDir::new().unwrap();
    // SHA-256 of `/project`.
    let hash = "ea0135bca5e3bd815f5b7b8f8c83d86f584697bc29e0cc3b30937153abef2844";
    let chats = folder.path().join("tmp").join(hash).join("chats");
    let user = json!({ "id": "a", "type": "user", "content": [{ "text": "hello" }] });
    write(&chats.join("session-1.jsonl"), &[gemini_heading(), user]);
    let import_in = |directory: &str| {
        let current_dir = Some(directory.into());
        import(&GeminiSessions { folder: folder.path().to_owned(), current_dir })
    };
    for directory in ["/project", "/project/src/deep"] {
        assert!(import_in(directory).is_ok(), "{directory}");
    }
    let refused = import_in("/elsewhere").unwrap_err();
    assert_eq!(refused, "only a hash of its working directory is recorded: import in it");
}

/// The heading of a session of Gemini CLI.
fn gemini_heading() -> Value {
    json!({ "sessionId": "44", "projectHash": "h", "startTime": "2026-01-02T03:04:05Z", "kind": "main" })
}

#[test]
fn records_of_gemini_cli_change_the_conversation_before_them() {
    let user =
        |id: &str, text: &str| json!({ "id": id, "type": "user", "content": [{ "text": text }] });
    let call = json!({
        "id": "c", "name": "run_shell_command", "args": { "command": "ls" }, "status": "error",
        "result": [{ "functionResponse": { "id": "c", "name": "x", "response": { "error": "no" } } }],
    });
    let response =
        json!({ "functionResponse": { "id": "c", "name": "x", "response": { "error": "no" } } });
    let (events, notes) = gemini("session-1.jsonl", &[
        gemini_heading(),
        user("a", "<session_context>"),
        user("b", "first"),
        user("c", "dropped"),
        json!({ "$rewindTo": "c" }),
        json!({ "id": "d", "type": "gemini", "content": "I look", "model": "m" }),
        json!({ "id": "d", "type": "gemini", "content": "I look", "model": "m", "toolCalls": [call] }),
        json!({ "id": "e", "type": "user", "content": [response] }),
        json!({ "id": "f", "type": "info", "content": "an update is there" }),
        // The list is sent again when the session is resumed, and is shorter after a compression.
        json!({ "$set": { "messages": [user("a", "<session_context>")] } }),
        json!({ "$set": { "messages": [
            user("a", "<session_context>"),
            user("b", "first"),
            { "id": "d", "type": "gemini", "content": [{ "text": "hm", "thought": true }, { "functionCall": { "id": "c", "name": "run_shell_command", "args": {} } }] },
            { "id": "d", "type": "user", "content": [response] },
        ] } }),
        json!({ "$set": { "messages": [user("g", "what was: first")] } }),
        json!({ "id": "h", "type": "gemini", "content": "understood", "model": "m" }),
    ])
    .unwrap();
    insta::assert_snapshot!(format!("{}\n{notes:#?}", shown(&events)));
}

#[test]
fn older_files_of_gemini_cli_are_one_object() {
    let mut whole = gemini_heading();
    whole["messages"] = json!([{ "id": "a", "type": "user", "content": "hello" }]);
    let (events, _) = gemini("session-1.json", &[whole]).unwrap();
    assert!(shown(&events).starts_with("> hello"), "{}", shown(&events));
    let refused = gemini("session-1.json", &[json!([1])]);
    assert_eq!(refused.unwrap_err(), "it is no JSON object");
}

#[test]
fn every_run_of_an_imported_session_ends() {
    let (events, _) = claude(&[
        claude_record("u1", None, "user", &json!({ "role": "user", "content": "one" })),
        claude_record("u2", Some("u1"), "user", &json!({ "role": "user", "content": "two" })),
    ])
    .unwrap();
    let count = |is: fn(&AgentEvent) -> bool| events.iter().filter(|line| is(&line.event)).count();
    assert_eq!(count(|event| matches!(event, AgentEvent::RunStart { .. })), 2);
    assert_eq!(count(|event| matches!(event, AgentEvent::RunEnd { .. })), 2);
}

#[test]
fn a_fork_of_codex_begins_with_what_it_shares_with_its_session() {
    let folder = TempDir::new().unwrap();
    let record = |ordinal: u64, kind: &str, payload: Value| json!({ "timestamp": "2026-01-02T03:04:05Z", "ordinal": ordinal, "type": kind, "payload": payload });
    let user = |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let day = folder.path().join("sessions/2026/01/02");
    write(
        &day.join("rollout-1-aa.jsonl"),
        &[
            record(0, "session_meta", json!({ "id": "aa", "cwd": "/project" })),
            record(1, "response_item", user("shared")),
            record(2, "response_item", user("only there")),
        ],
    );
    let base = json!({ "thread_id": "aa", "end_ordinal_exclusive": 2 });
    let fork = day.join("rollout-2-bb.jsonl");
    let meta = json!({ "id": "bb", "cwd": "/project", "history_base": base });
    write(&fork, &[record(2, "session_meta", meta), record(3, "response_item", user("only here"))]);
    let format = CodexSessions { folder: folder.path().to_owned() };
    let file = format.files().unwrap().into_iter().find(|file| file.path == fork).unwrap();
    let conversation = format.read(&file).unwrap();
    assert_eq!((conversation.id.as_str(), conversation.prompts()), ("bb", 2));
    assert_eq!(conversation.title(), "shared");
    fs::remove_file(day.join("rollout-1-aa.jsonl")).unwrap();
    let alone = format.read(&file).unwrap();
    assert_eq!((alone.title().as_str(), alone.prompts()), ("only here", 1));
    let note = "its beginning is not imported: it was forked from the session aa, which is missing";
    assert_eq!(alone.notes, [note]);
}

#[test]
fn sessions_of_opencode_are_read_from_a_database_in_use_and_no_file_of_it_changes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a folder%").join("opencode.db");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute_batch(
            "PRAGMA journal_mode = wal;
             CREATE TABLE session (id, parent_id, directory, title, time_created, revert);
             CREATE TABLE message (id, session_id, time_created, data);
             CREATE TABLE part (id, message_id, session_id, data);
             INSERT INTO session VALUES
                 ('s', NULL, '/project', 'a title', 1, '{\"messageID\":\"m5\"}'),
                 ('child', 's', '/project', 'of a subagent', 2, NULL);
             INSERT INTO message VALUES
                 ('m1', 's', 1, '{\"role\":\"user\"}'),
                 ('m2', 's', 2, '{\"role\":\"assistant\",\"providerID\":\"p\",\"modelID\":\"m\"}'),
                 ('m3', 's', 3, '{\"role\":\"assistant\",\"summary\":true,\"finish\":\"stop\"}'),
                 ('m4', 's', 4, '{\"role\":\"user\"}'),
                 ('m5', 's', 5, '{\"role\":\"user\"}');
             INSERT INTO part VALUES
                 ('p1', 'm1', 's', '{\"type\":\"text\",\"text\":\"list\"}'),
                 ('p2', 'm1', 's', '{\"type\":\"text\",\"text\":\"added\",\"synthetic\":true}'),
                 ('p3', 'm2', 's', '{\"type\":\"reasoning\",\"text\":\"hm\"}'),
                 ('p4', 'm2', 's', '{\"type\":\"tool\",\"callID\":\"c\",\"tool\":\"bash\",\"state\":{\"status\":\"error\",\"input\":{\"command\":\"ls\"},\"error\":\"no\"}}'),
                 ('p5', 'm2', 's', '{\"type\":\"hologram\"}'),
                 ('p6', 'm2', 's', 'no JSON'),
                 ('p7', 'm3', 's', '{\"type\":\"text\",\"text\":\"we listed\"}'),
                 ('p8', 'm4', 's', '{\"type\":\"text\",\"text\":\"go on\"}'),
                 ('p9', 'm5', 's', '{\"type\":\"text\",\"text\":\"reverted\"}');",
        )
        .unwrap();
    let state = || {
        let entries =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.map(|path| (fs::read(&path).unwrap(), path)).collect();
        files.sort();
        files
    };
    // In use, with everything in the journal, and closed.
    for database in [Some(database), None] {
        let before = state();
        let (events, notes) = import(&OpenCodeSessions::new(path.clone())).unwrap();
        assert!(state() == before, "files of opencode changed");
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{}\n{notes:#?}", shown(&events)));
        }
        drop(database);
    }
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.execute_batch("ALTER TABLE part RENAME COLUMN data TO content").unwrap();
    drop(newer);
    let refused = import(&OpenCodeSessions::new(path)).unwrap_err();
    assert!(refused.contains("data"), "{refused}");
}

#[test]
fn a_damaged_line_does_not_cost_what_stands_before_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("projects/-project/11.jsonl");
    let user = |id: &str, parent: Option<&str>, text: &str| {
        claude_record(id, parent, "user", &json!({ "role": "user", "content": text }))
    };
    let records = [
        user("u1", None, "first"),
        claude_text("a1", "u1", "one"),
        user("u2", Some("a1"), "second"),
        claude_text("a2", "u2", "two"),
    ];
    write(&path, &records);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let damaged = [lines[0], &lines[1][..40], lines[2], lines[3]].join("\n");
    fs::write(&path, damaged).unwrap();
    let (events, notes) = import(&ClaudeSessions { folder: folder.path().to_owned() }).unwrap();
    assert!(shown(&events).starts_with("> first\n> second\ntwo\n"), "{}", shown(&events));
    assert_eq!(notes[0], "line 2 is damaged and was skipped");
    assert!(notes[1].starts_with("parents that are not in the file: 1"), "{notes:?}");
}

#[test]
fn a_prompt_that_was_typed_while_claude_code_worked_is_imported() {
    let mut queued = claude_record("q", Some("u1"), "attachment", &json!(null));
    queued["attachment"] = json!({
        "type": "queued_command", "commandMode": "prompt", "origin": { "kind": "human" },
        "prompt": [{ "type": "text", "text": "and the tests" }],
    });
    let (events, _) = claude(&[
        claude_record("u1", None, "user", &json!({ "role": "user", "content": "fix it" })),
        queued,
        claude_text("a1", "q", "done"),
    ])
    .unwrap();
    assert!(shown(&events).starts_with("> fix it\n> and the tests\ndone\n"), "{}", shown(&events));
}

#[test]
fn a_summary_without_text_replaces_nothing() {
    let user = |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let (events, _) = codex(&[
        ("session_meta", json!({ "id": "22", "cwd": "/project" })),
        ("response_item", user("the task")),
        ("compacted", json!({ "message": "", "replacement_history": [] })),
        ("response_item", user("go on")),
    ])
    .unwrap();
    assert!(shown(&events).ends_with("(3 messages for the model)"), "{}", shown(&events));
}

#[test]
fn a_result_is_found_wherever_it_stands_and_counts_once() {
    let item = |value: Value| ("response_item", value);
    let call = |id: &str| {
        item(json!({ "type": "function_call", "name": "shell", "arguments": "{}", "call_id": id }))
    };
    let output = |id: &str, text: &str| {
        item(json!({ "type": "function_call_output", "call_id": id, "output": text }))
    };
    let reply = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "wait" }] });
    let (events, _) = codex(&[
        ("session_meta", json!({ "id": "22", "cwd": "/project" })),
        call("a"),
        call("b"),
        output("a", "of a"),
        output("a", "of a"),
        item(reply),
        output("b", "of b"),
        call("a"),
        output("a", "of the second a"),
    ])
    .unwrap();
    let shown = shown(&events);
    let results: Vec<_> = shown.lines().filter(|line| line.starts_with('=')).collect();
    assert_eq!(results, ["= Success of a", "= Success of b", "= Success of the second a"]);
}

#[test]
fn ids_that_are_used_twice_or_look_generated_stay_unique() {
    let user = |id: &str, parent: Option<&str>, text: &str| {
        claude_record(id, parent, "user", &json!({ "role": "user", "content": text }))
    };
    let mut summary = user("s", Some("entry-1"), "so far");
    summary["isCompactSummary"] = json!(true);
    let (events, _) = claude(&[
        user("entry-1", None, "one"),
        summary,
        claude_text("a", "s", "two"),
        user("entry-2", Some("a"), "three"),
        user("entry-2", Some("entry-2"), "four"),
    ])
    .unwrap();
    let ids = events.iter().filter_map(|line| match &line.event {
        AgentEvent::UserInput { message_id, .. } => Some(message_id.to_string()),
        AgentEvent::Reply { reply_id, .. } => Some(reply_id.to_string()),
        _ => None,
    });
    let ids: Vec<String> = ids.collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

#[test]
fn a_pipe_as_a_session_file_is_refused_and_not_waited_for() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("projects/-project/11.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let refused = import(&ClaudeSessions { folder: folder.path().to_owned() });
    assert_eq!(refused.unwrap_err(), "it is no regular file");
}

/// A JSON array of many small values, which would take a hundred times its size in memory.
fn many_values() -> String {
    format!("[{}1]", "1,".repeat(600_000))
}

const TOO_LARGE: &str = "too large (more than 32 MiB or 500000 values)";

#[test]
fn a_line_of_too_many_values_is_skipped_and_noted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("projects/-project/11.jsonl");
    let user = |id: &str, text: &str| {
        claude_record(id, None, "user", &json!({ "role": "user", "content": text }))
    };
    // Separators inside of a text are no values.
    write(&path, &[user("u1", "hello"), user("u2", &"\\\",[{:".repeat(300_000))]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{{\"type\":\"x\",\"y\":{}}}\n{text}", many_values())).unwrap();
    let format = ClaudeSessions { folder: folder.path().to_owned() };
    let (_, notes) = import(&format).unwrap();
    assert_eq!(notes[0], format!("line 1 is {TOO_LARGE} and was skipped"));
    let conversation = format.read(&format.files().unwrap()[0]).unwrap();
    assert_eq!(conversation.prompts(), 1);
    assert_eq!(notes[1], "messages on other branches (rewound) are left out: 1");
}

#[test]
fn a_document_of_too_many_values_is_refused() {
    let folder = TempDir::new().unwrap();
    let project = folder.path().join("tmp/project");
    fs::create_dir_all(project.join("chats")).unwrap();
    fs::write(project.join(".project_root"), "/project").unwrap();
    let whole = format!("{{\"sessionId\":\"44\",\"messages\":{}}}", many_values());
    fs::write(project.join("chats/session-1.json"), whole).unwrap();
    let format = GeminiSessions { folder: folder.path().to_owned(), current_dir: None };
    let refused = format.cwd(&format.files().unwrap()[0]);
    assert_eq!(refused.unwrap_err(), format!("it is {TOO_LARGE}"));
}

#[test]
fn lines_that_are_written_while_a_file_is_read_are_not_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, "{}\n{}\n").unwrap();
    let mut count = 0;
    let mut problems = LineProblems::default();
    for_each_object(&path, &mut problems, |_, _| {
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, b"{}\n").unwrap();
        count += 1;
        count < 100
    })
    .unwrap();
    assert_eq!(count, 2);
}

#[test]
fn only_the_first_kinds_of_unknown_records_are_named() {
    let mut records =
        vec![claude_record("u1", None, "user", &json!({ "role": "user", "content": "hello" }))];
    records.extend((0..100).map(|number| json!({ "type": format!("kind-{number:02}") })));
    let (_, notes) = claude(&records).unwrap();
    assert_eq!(notes.len(), 11, "{notes:?}");
    assert_eq!(notes[0], "records of the unknown type \"kind-00\" were skipped: 1");
    assert_eq!(notes[10], "records of other unknown types were skipped: 90");
}

/// A compaction of Claude Code with its metadata.
fn claude_compaction(id: &str, logical_parent: &str, metadata: &Value) -> Value {
    let mut record = claude_record(id, None, "system", &json!(null));
    record["subtype"] = json!("compact_boundary");
    record["logicalParentUuid"] = json!(logical_parent);
    record["compactMetadata"] = metadata.clone();
    record
}

fn claude_user(id: &str, parent: Option<&str>, text: &str) -> Value {
    claude_record(id, parent, "user", &json!({ "role": "user", "content": text }))
}

fn claude_summary(id: &str, parent: &str, text: &str) -> Value {
    let mut record = claude_user(id, Some(parent), text);
    record["isCompactSummary"] = json!(true);
    record
}

/// Returns what the model is sent, one line for each message.
fn sent(events: &[Envelope]) -> Vec<String> {
    let history = History::from_log(events).unwrap();
    let messages = history.messages().unwrap();
    let lines = messages.iter().map(|message| match message.as_ref() {
        Message::User(user) => {
            let text = Block::text_of(&user.content);
            match text.strip_prefix("<summary") {
                Some(summary) => format!("summary: {}", summary.lines().nth(1).unwrap()),
                None => format!("> {text}"),
            }
        }
        Message::Assistant(reply) => {
            let parts = reply.blocks.iter().map(|block| match &block.content {
                ReplyContent::Text { text } | ReplyContent::Thinking { text } => text.clone(),
                ReplyContent::Call(call) => format!("{}()", call.name),
                ReplyContent::Opaque => String::new(),
            });
            parts.collect::<Vec<_>>().join(" ")
        }
        Message::Results(results) => {
            let texts = results.results.iter().map(|result| Block::text_of(&result.content));
            format!("= {}", texts.collect::<Vec<_>>().join(" "))
        }
    });
    // The last one says that the conversation was imported.
    let mut lines: Vec<String> = lines.collect();
    assert!(lines.pop().is_some_and(|last| last.contains("imported")), "{lines:?}");
    lines
}

#[test]
fn messages_that_a_compaction_of_claude_code_keeps_are_sent_behind_the_summary() {
    let kept = ["u2", "a2"];
    let anchors = json!({ "headUuid": "u2", "anchorUuid": "s", "tailUuid": "a2" });
    for metadata in [
        json!({ "preservedMessages": { "anchorUuid": "s", "uuids": kept, "allUuids": kept }, "preservedSegment": anchors }),
        // As older versions wrote it.
        json!({ "preservedSegment": anchors }),
    ] {
        // An automatic compaction names the last message before it, one that the user began at a message the one before that.
        for logical_parent in ["a2", "a1"] {
            let (events, notes) = claude(&[
                claude_user("u1", None, "count"),
                claude_text("a1", "u1", "two"),
                claude_user("u2", Some("a1"), "write it"),
                claude_text("a2", "u2", "written"),
                claude_compaction("b", logical_parent, &metadata),
                claude_summary("s", "b", "they counted"),
                claude_user("u3", Some("s"), "go on"),
                claude_text("a3", "u3", "done"),
            ])
            .unwrap();
            assert_eq!(notes, [""; 0]);
            assert_eq!(
                sent(&events),
                ["summary: they counted", "> write it", "written", "> go on", "done"]
            );
            assert!(shown(&events).starts_with("> count\ntwo\n> write it\n"), "{}", shown(&events));
        }
    }
}

#[test]
fn messages_that_a_compaction_keeps_are_sent_if_nothing_was_said_since() {
    let (events, _) = claude(&[
        claude_user("u1", None, "count"),
        claude_text("a1", "u1", "two"),
        claude_compaction(
            "b",
            "a1",
            &json!({ "preservedMessages": { "anchorUuid": "s", "uuids": ["a1"] } }),
        ),
        claude_summary("s", "b", "they counted"),
    ])
    .unwrap();
    assert_eq!(sent(&events), ["summary: they counted", "two"]);
}

#[test]
fn a_later_compaction_may_keep_messages_that_an_earlier_one_kept() {
    let keep = |anchor: &str, ids: &[&str]| json!({ "preservedMessages": { "anchorUuid": anchor, "uuids": ids } });
    let (events, _) = claude(&[
        claude_user("u1", None, "one"),
        claude_user("u2", Some("u1"), "two"),
        claude_user("u3", Some("u2"), "three"),
        claude_compaction("b1", "u3", &keep("s1", &["u2", "u3"])),
        claude_summary("s1", "b1", "of one"),
        claude_user("u4", Some("s1"), "four"),
        claude_compaction("b2", "u4", &keep("s2", &["u3", "u4"])),
        claude_summary("s2", "b2", "of two"),
        claude_user("u5", Some("s2"), "five"),
    ])
    .unwrap();
    assert_eq!(sent(&events), ["summary: of two", "> three", "> four", "> five"]);
    assert!(shown(&events).starts_with("> one\n> two\n> three\n> four\n> five\n"));
}

#[test]
fn a_conversation_that_was_rewound_into_the_messages_that_a_compaction_kept_goes_on_there() {
    let (events, notes) = claude(&[
        claude_user("u1", None, "one"),
        claude_user("u2", Some("u1"), "two"),
        claude_user("u3", Some("u2"), "three"),
        claude_compaction(
            "b",
            "u3",
            &json!({ "preservedMessages": { "anchorUuid": "s", "uuids": ["u2", "u3"] } }),
        ),
        claude_summary("s", "b", "of one"),
        claude_user("u4", Some("s"), "four"),
        claude_user("u5", Some("u2"), "five"),
    ])
    .unwrap();
    assert_eq!(sent(&events), ["summary: of one", "> two", "> five"]);
    assert_eq!(notes, ["messages on other branches (rewound) are left out: 2"]);
}

#[test]
fn a_summary_of_the_end_of_a_conversation_follows_the_beginning_that_it_kept() {
    let keep = json!({ "preservedMessages": { "anchorUuid": "b", "uuids": ["u1", "a1"] } });
    let (events, notes) = claude(&[
        claude_user("u1", None, "count"),
        claude_text("a1", "u1", "two"),
        claude_user("u2", Some("a1"), "write it"),
        claude_text("a2", "u2", "written"),
        claude_compaction("b", "a1", &keep),
        claude_summary("s", "b", "they wrote"),
        claude_user("u3", Some("s"), "go on"),
    ])
    .unwrap();
    assert_eq!(sent(&events), ["> count", "two", "> they wrote", "> go on"]);
    assert_eq!(notes, ["messages on other branches (rewound) are left out: 2"]);
}

#[test]
fn a_compaction_without_a_summary_leaves_what_it_keeps() {
    let keep = json!({ "preservedMessages": { "anchorUuid": "b", "uuids": ["u1", "a1"] } });
    let (events, _) = claude(&[
        claude_user("u1", None, "count"),
        claude_text("a1", "u1", "two"),
        claude_user("u2", Some("a1"), "write it"),
        claude_compaction("b", "a1", &keep),
    ])
    .unwrap();
    assert_eq!(sent(&events), ["> count", "two"]);
}

/// Imports a session of opencode with these messages (id, data) and parts (message, id, data).
fn opencode(
    revert: &Value,
    messages: &[(&str, Value)],
    parts: &[(&str, &str, Value)],
) -> (Vec<Envelope>, Vec<String>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("opencode.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE session (id, parent_id, directory, title, time_created, revert);
             CREATE TABLE message (id, session_id, time_created, data);
             CREATE TABLE part (id, message_id, session_id, data);",
        )
        .unwrap();
    let revert = (!revert.is_null()).then(|| revert.to_string());
    database
        .execute("INSERT INTO session VALUES ('s', NULL, '/project', 'a title', 1, ?)", [revert])
        .unwrap();
    for (time, (id, data)) in messages.iter().enumerate() {
        database
            .execute(
                "INSERT INTO message VALUES (?, 's', ?, ?)",
                (id, i64::try_from(time).unwrap(), data.to_string()),
            )
            .unwrap();
    }
    for (message, id, data) in parts {
        database
            .execute("INSERT INTO part VALUES (?, ?, 's', ?)", (id, message, data.to_string()))
            .unwrap();
    }
    drop(database);
    import(&OpenCodeSessions::new(path)).unwrap()
}

fn opencode_user() -> Value {
    json!({ "role": "user" })
}

fn opencode_reply() -> Value {
    json!({ "role": "assistant", "providerID": "p", "modelID": "m", "finish": "stop" })
}

fn opencode_text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

#[test]
fn a_session_of_opencode_that_was_reverted_to_a_part_has_the_parts_before_it() {
    let messages = [("m1", opencode_user()), ("m2", opencode_reply()), ("m3", opencode_user())];
    let call = json!({
        "type": "tool", "callID": "c", "tool": "bash",
        "state": { "status": "completed", "input": {}, "output": "gone" },
    });
    let parts = [
        ("m1", "p1", opencode_text("count")),
        ("m2", "p2", opencode_text("I count")),
        ("m2", "p3", call),
        ("m2", "p4", opencode_text("two")),
        ("m3", "p5", opencode_text("thanks")),
    ];
    let lines = |revert: Value| sent(&opencode(&revert, &messages, &parts).0);
    let part = json!({ "messageID": "m2", "partID": "p3", "snapshot": "x" });
    assert_eq!(lines(part), ["> count", "I count"]);
    let whole = lines(json!({ "messageID": "m3" }));
    assert_eq!(whole, ["> count", "I count bash() two", "= gone"]);
    // As the program does if the part or the message is gone.
    assert_eq!(lines(json!({ "messageID": "m2", "partID": "p9" })), whole);
    assert_eq!(lines(json!({ "messageID": "m9" })).len(), 4);
}

#[test]
fn messages_that_a_compaction_of_opencode_keeps_are_sent_behind_the_summary() {
    let compaction =
        |tail: &str| json!({ "type": "compaction", "auto": false, "tail_start_id": tail });
    let summary = |parent: &str| {
        json!({
            "role": "assistant", "providerID": "p", "modelID": "m", "mode": "compaction",
            "finish": "stop", "summary": true, "parentID": parent,
        })
    };
    let (events, notes) = opencode(
        &Value::Null,
        &[
            ("m1", opencode_user()),
            ("m2", opencode_reply()),
            ("m3", opencode_user()),
            ("m4", opencode_reply()),
            ("m5", opencode_user()),
            ("m6", summary("m5")),
            ("m7", opencode_user()),
            ("m8", opencode_user()),
            ("m9", summary("m8")),
            ("n1", opencode_user()),
        ],
        &[
            ("m1", "p1", opencode_text("count")),
            ("m2", "p2", opencode_text("two")),
            ("m3", "p3", opencode_text("write it")),
            ("m4", "p4", opencode_text("written")),
            ("m5", "p5", compaction("m3")),
            ("m6", "p6", opencode_text("they counted")),
            ("m7", "p7", opencode_text("and read it")),
            ("m8", "p8", compaction("m4")),
            ("m9", "p9", opencode_text("they wrote")),
            ("n1", "q1", opencode_text("go on")),
        ],
    );
    assert_eq!(notes, [""; 0]);
    assert_eq!(sent(&events), ["summary: they wrote", "written", "> and read it", "> go on"]);
    assert!(shown(&events).starts_with("> count\ntwo\n> write it\nwritten\n> and read it\n"));
}

#[test]
fn replies_and_outputs_that_opencode_does_not_send_are_left_out() {
    let with_error = |name: &str| {
        let mut reply = opencode_reply();
        reply["error"] = json!({ "name": name, "data": {} });
        reply
    };
    let call = |id: &str, state: Value| json!({ "type": "tool", "callID": id, "tool": id, "state": state });
    let (events, notes) = opencode(
        &Value::Null,
        &[
            ("m1", opencode_user()),
            ("m2", with_error("APIError")),
            ("m3", with_error("MessageAbortedError")),
            ("m4", with_error("MessageAbortedError")),
            ("m5", opencode_reply()),
        ],
        &[
            ("m1", "p1", opencode_text("count")),
            ("m2", "p2", opencode_text("failed")),
            ("m3", "p3", json!({ "type": "reasoning", "text": "hm" })),
            ("m4", "p4", opencode_text("I will")),
            (
                "m5",
                "p5",
                call(
                    "old",
                    json!({ "status": "completed", "input": {}, "output": "long", "time": { "start": 1, "end": 2, "compacted": 3 } }),
                ),
            ),
            (
                "m5",
                "p6",
                call(
                    "cut",
                    json!({ "status": "error", "input": {}, "error": "aborted", "metadata": { "interrupted": true, "output": "half" } }),
                ),
            ),
        ],
    );
    assert_eq!(notes, ["replies that failed are left out: 2"]);
    assert_eq!(
        sent(&events),
        ["> count", "I will", "old() cut()", "= [Old tool result content cleared] half"]
    );
}

#[test]
fn of_two_files_with_one_id_the_one_that_went_on_is_imported() {
    let folder = TempDir::new().unwrap();
    let home = folder.path().to_str().unwrap();
    let environment = crate::environment::ProcessEnvironment::with([("HOME", home)]);
    let record = |kind: &str, time: &str, payload: Value| json!({ "timestamp": time, "type": kind, "payload": payload });
    let user = |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let file = |path: &str, time: &str, text: &str| {
        let meta = json!({ "id": "22", "cwd": home });
        let records =
            [record("session_meta", time, meta), record("response_item", time, user(text))];
        write(&folder.path().join(".codex").join(path), &records);
    };
    file("archived_sessions/rollout-1-22.jsonl", "2026-01-02T03:04:05Z", "old");
    file("sessions/2026/01/02/rollout-1-22.jsonl", "2026-01-03T03:04:05Z", "new");
    let choice = crate::import::SessionChoice::All;
    let plan = crate::import::plan_import(crate::import::ImportSource::Codex, &environment, choice);
    let plan = plan.unwrap();
    let [item] = plan.items.as_slice() else { panic!("{:?}", plan.items) };
    assert!(item.notes[0].starts_with("\"new\""), "{:?}", item.notes);
    let [left] = plan.left_out.as_slice() else { panic!("{:?}", plan.left_out) };
    assert!(left.what.contains("archived_sessions"), "{left:?}");
    assert_eq!(left.why, "another one of this name or id goes before it");
}

#[test]
fn a_folder_of_sessions_that_cannot_be_listed_is_named() {
    let folder = TempDir::new().unwrap();
    let loops = |path: &Path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(path, path).unwrap();
    };
    let path = folder.path().to_owned();
    let formats: [(&str, Box<dyn SessionFormat>); 5] = [
        ("projects", Box::new(ClaudeSessions { folder: path.clone() })),
        ("archived_sessions", Box::new(CodexSessions { folder: path.clone() })),
        ("sessions", Box::new(PiSessions { folder: path.clone() })),
        ("tmp", Box::new(GeminiSessions { folder: path.clone(), current_dir: None })),
        ("opencode.db", Box::new(OpenCodeSessions::new(path.join("opencode.db")))),
    ];
    for (name, format) in formats {
        assert_eq!(format.files(), Ok(Vec::new()), "{name}");
        loops(&path.join(name));
        let read = format.files().and_then(|files| format.cwd(files.last().unwrap()));
        let why = read.unwrap_err();
        assert!(why.contains("Too many levels of symbolic links"), "{name}: {why}");
        fs::remove_file(path.join(name)).unwrap();
    }
}

#[test]
fn a_database_that_cannot_be_used_is_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("opencode.db");
    let refused = || OpenCodeSessions::new(path.clone()).files().unwrap_err();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refused(), "the file is not a SQLite database");
    fs::remove_file(&path).unwrap();
    // Without a log, so that writers change the file itself.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE session (id, parent_id, directory)").unwrap();
    assert_eq!(refused(), "the database has no table “message”");
    database
        .execute_batch(
            "CREATE TABLE message (id, session_id); CREATE TABLE part (id, session_id);
             BEGIN EXCLUSIVE; INSERT INTO session VALUES ('s', NULL, '/project');",
        )
        .unwrap();
    // The journal is there once a page was written.
    database.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1;").unwrap();
    for _ in 0..200 {
        database
            .execute("INSERT INTO session VALUES (?, NULL, '/project')", ["x".repeat(1000)])
            .unwrap();
    }
    assert_eq!(refused(), "the database is being written");
}

#[test]
fn half_of_a_character_costs_only_itself() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("projects/-project/11.jsonl");
    write(&path, &[claude_user("u1", None, "TEXT")]);
    let line = fs::read_to_string(&path).unwrap();
    for (written, text) in [
        // A text that JavaScript cut in the middle of a character.
        (br"a \ud83d" as &[u8], "a \u{fffd}"),
        (br"\ude00 b", "\u{fffd} b"),
        (br"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (br"\\ud83d \ud83dx \u00e9", "\\ud83d \u{fffd}x \u{e9}"),
        (b"a \xf0\x9f b", "a \u{fffd} b"),
    ] {
        let (before, after) = line.split_once("TEXT").unwrap();
        fs::write(&path, [before.as_bytes(), written, after.as_bytes()].concat()).unwrap();
        let (events, notes) = import(&ClaudeSessions { folder: folder.path().to_owned() }).unwrap();
        assert_eq!(notes, [""; 0]);
        assert_eq!(sent(&events), [format!("> {text}")]);
    }
}
