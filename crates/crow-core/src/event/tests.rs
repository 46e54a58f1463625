use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};

use super::*;
use crate::{
    capability::{PermissionAnswer, QuestionAnswer, QuestionChoice, UserQuestion},
    file_views::ContentHash,
    ids::{CallId, MessageId, ReplyId, RequestId, RunId, SessionId, SnapshotId, UndoId},
    message::{Block, CallArguments, Image, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{ProviderError, ProviderErrorKind, StopReason, ToolDefinition},
    permission::{Denial, DenialSource, Grant, GrantOffer},
    todo::{TodoItem, TodoStatus},
    tool_types::{
        Access, ChangeCounts, CommandLine, CommandMeaning, CommandWord, FileChange, FileDiff,
        NotRestorable, Patch, Redirect, SimpleCommand, Subject, ToolMetadata, ToolResult,
    },
    turn::TurnEnd,
    usage::TokenUsage,
};

fn call_id() -> CallId {
    CallId::new("call-1")
}

fn reply_id() -> ReplyId {
    ReplyId::new("reply-1")
}

fn patch() -> Patch {
    Patch {
        files: vec![FileDiff {
            path: "/p/a".into(),
            change: FileChange::Created,
            additions: 1,
            deletions: 1,
            hunks: "@@ -1 +1 @@\n-a\n+b\n".into(),
            truncated: false,
            note: "mode 755".into(),
            contents: None,
        }],
    }
}

fn provider_error() -> ProviderError {
    ProviderError {
        provider: "p".into(),
        url: "https://u".into(),
        status: Some(429),
        code: Some("slow_down".into()),
        retry_after: Some(Duration::from_secs(2)),
        request_id: Some("req".into()),
        ..ProviderError::new(ProviderErrorKind::RateLimited, "later")
    }
}

fn lifecycle() -> Vec<AgentEvent> {
    let run_id = || RunId::new("run-1");
    let end = |result| AgentEvent::RunEnd { run_id: run_id(), result, assessment: None };
    vec![
        AgentEvent::SessionStart {
            format_version: 1,
            model: "p/m".into(),
            cwd: "/p".into(),
            settings: None,
        },
        AgentEvent::RunStart { run_id: run_id(), settings: None },
        end(RunOutcome::Completed { summary: "done".into(), verified: true }),
        end(RunOutcome::NeedsInput),
        end(RunOutcome::Stopped { reason: TurnEnd::MaxSteps { steps: 100 } }),
        end(RunOutcome::Cancelled),
        end(Failure::other("no disk").into()),
        AgentEvent::RoundStart,
        AgentEvent::RoundEnd,
        AgentEvent::TurnStart { turn: 1 },
        AgentEvent::TurnComplete { turn: 1, end: TurnEnd::Text },
        AgentEvent::StepComplete { step: 1 },
        AgentEvent::StateChange { state: AgentState::Processing },
        AgentEvent::StateChange { state: AgentState::ExecutingTool("bash".into()) },
        AgentEvent::Switch { change: "model: p/m -> p/n".into() },
        AgentEvent::JobChanges {
            call_id: call_id(),
            files: vec!["/p/b".into()],
            before: SnapshotId::new("s-3"),
            after: SnapshotId::new("s-4"),
            changes: ChangeCounts { created: 1, ..ChangeCounts::default() },
            shared: true,
            cut_off: false,
        },
        AgentEvent::Instructions {
            files: vec![InstructionFile {
                path: "/p/AGENTS.md".into(),
                author: InstructionAuthor::Repository,
                hash: Some(ContentHash::of_content(b"x")),
                bytes: 40,
                shown_bytes: 30,
            }],
            text: "use tabs".into(),
        },
        AgentEvent::FilesRestored { undo_id: UndoId::new("u-1"), text: "undone".into() },
        AgentEvent::Rewind { undo_id: UndoId::new("u-2"), last_kept: 7 },
        AgentEvent::Compaction {
            summary: "before".into(),
            first_kept: MessageId::new("m-7"),
            kept: vec![MessageId::new("m-1")],
            masked: vec![call_id()],
            report: Some(CompactionReport {
                trigger: CompactionTrigger::Window,
                tokens_before: 30_000,
                tokens_after: 9_000,
            }),
        },
        AgentEvent::Notice {
            level: NoticeLevel::Warning,
            audience: NoticeAudience::Model,
            text: "mind".into(),
        },
        AgentEvent::Error { error: "slow".into(), provider: Some(provider_error()) },
        AgentEvent::Cancelled,
    ]
}

fn talk() -> Vec<AgentEvent> {
    let delta = || (reply_id(), 5, "more".to_owned());
    let image = Image { media_type: "image/png".into(), data: "AAAA".into() };
    let call =
        |arguments| ReplyContent::Call(ToolCall { id: call_id(), name: "bash".into(), arguments });
    let (text_delta, thinking_delta) = (delta(), delta());
    vec![
        AgentEvent::UserInput {
            message_id: MessageId::new("m-1"),
            source: InputSource::Prompt,
            context: Some("facts".into()),
            content: vec![Block::text("go"), Block::Image(image)],
        },
        AgentEvent::TextDelta { reply_id: text_delta.0, offset: text_delta.1, delta: text_delta.2 },
        AgentEvent::TextComplete { reply_id: reply_id(), text: "all".into() },
        AgentEvent::ThinkingDelta {
            reply_id: thinking_delta.0,
            offset: thinking_delta.1,
            delta: thinking_delta.2,
        },
        AgentEvent::ThinkingComplete { reply_id: reply_id(), text: "all".into() },
        AgentEvent::ToolsWait { servers: vec!["docs".into()] },
        AgentEvent::ModelWait {
            reply_id: reply_id(),
            reason: "30 requests per minute".into(),
            wait_ms: Some(1500),
        },
        AgentEvent::ReplyReset {
            reply_id: reply_id(),
            error: ProviderError::new(ProviderErrorKind::Network, "gone"),
            attempt: 1,
            wait_ms: 500,
        },
        AgentEvent::Reply {
            reply_id: reply_id(),
            blocks: vec![
                ReplyBlock::with_native(
                    ReplyContent::Thinking { text: "hm".into() },
                    json!({"signature": "s"}),
                ),
                ReplyBlock::with_native(ReplyContent::Opaque, json!({"data": "d"})),
                ReplyBlock::without_native_item(ReplyContent::Text { text: "I will.".into() }),
                ReplyBlock::without_native_item(call(CallArguments::Json(
                    json!({"command": "ls"}),
                ))),
                ReplyBlock::without_native_item(call(CallArguments::Malformed("{".into()))),
            ],
            stop: StopReason::ToolUse,
            origin: Origin {
                dialect: "anthropic".into(),
                provider: "p".into(),
                base_url: "https://u".into(),
                model: "m".into(),
            },
            response_id: Some("msg_1".into()),
        },
        AgentEvent::Usage {
            reply_id: reply_id(),
            usage: TokenUsage {
                input_tokens: 10,
                output_tokens: 5,
                reasoning_tokens: Some(2),
                cache_read_tokens: 3,
                cache_write_tokens: 4,
                cache_write_1h_tokens: 1,
            },
            estimated: false,
            prefix: Some(Box::new(RequestPrefix::new(
                Some(200_000),
                "You are a coding agent.",
                &[ToolDefinition {
                    name: "bash".into(),
                    description: "Runs a command.".into(),
                    parameters: json!({ "type": "object" }),
                }],
            ))),
            timing: Some(ModelCallTiming {
                duration_ms: 2500,
                first_chunk_ms: Some(400),
                retries: 1,
            }),
            request_bytes: Some(4_321),
        },
    ]
}

/// The result of a call that changed files.
fn result_of_a_change() -> ToolResult {
    let mut result = ToolResult::success("done");
    result.metadata = ToolMetadata {
        files_modified: vec!["/p/a".into()],
        snapshot_before: Some(SnapshotId::new("s-1")),
        snapshot_after: Some(SnapshotId::new("s-2")),
        diff: Some(patch()),
        changes: Some(ChangeCounts {
            created: 1,
            deleted: 2,
            modified: 3,
            additions: 4,
            deletions: 5,
        }),
        not_restorable: vec![NotRestorable { path: "/p/b".into(), reason: "too large".into() }],
        shared: true,
        cut_off: false,
        duration_ms: 12,
        extra: json!({"exit_code": 0}),
    };
    result
}

fn calls() -> Vec<AgentEvent> {
    let request_id = || RequestId::new("request-1");
    let decision = |answer| AgentEvent::PermissionDecision {
        request_id: request_id(),
        call_id: call_id(),
        answer,
        waited_ms: Some(1200),
    };
    let target = CommandWord::Computed("$a".into());
    let result = result_of_a_change();
    vec![
        AgentEvent::CallPending {
            call_id: call_id(),
            tool: "edit_file".into(),
            title: "edit a".into(),
            arguments: json!({"path": "a"}),
            preview: Some(patch()),
        },
        AgentEvent::CallStart {
            call_id: call_id(),
            reply_id: reply_id(),
            tool: "edit_file".into(),
            title: "edit a".into(),
            arguments: json!({"path": "a"}),
            snapshot: Some(SnapshotId::new("s-1")),
        },
        AgentEvent::CallWait { call_id: call_id(), reason: "another agent works".into() },
        AgentEvent::CallProgress { call_id: call_id(), output: "line\n".into() },
        AgentEvent::CallEnd {
            call_id: call_id(),
            reply_id: reply_id(),
            tool: "edit_file".into(),
            result,
            denial: None,
        },
        AgentEvent::CallEnd {
            call_id: call_id(),
            reply_id: reply_id(),
            tool: "bash".into(),
            result: ToolResult::failure("Not permitted\nby policy"),
            denial: Some(Denial { source: DenialSource::Policy, reason: "read-only".into() }),
        },
        AgentEvent::FilesChanged {
            call_id: call_id(),
            files: vec!["/p/a".into()],
            snapshot: Some(SnapshotId::new("s-2")),
        },
        AgentEvent::PermissionRequest {
            request_id: request_id(),
            call_id: call_id(),
            tool: "bash".into(),
            title: "run ls".into(),
            subject: Subject::Command(CommandLine {
                text: "ls > a".into(),
                folder: None,
                meaning: CommandMeaning::Commands(vec![SimpleCommand {
                    words: vec![CommandWord::Literal("ls".into())],
                    wrappers: Vec::new(),
                    assignments: vec!["LANG".into()],
                    redirects: vec![Redirect { access: Access::Write, target, path: None }],
                    ..SimpleCommand::default()
                }]),
            }),
            reason: "it runs a command".into(),
            offers: vec![GrantOffer {
                label: "commands that begin with `ls`".into(),
                grants: vec![Grant::Command(vec!["ls".into()])],
            }],
        },
        AgentEvent::Cancelling,
        AgentEvent::PermissionWithdrawn { request_id: request_id(), call_id: call_id() },
        decision(PermissionAnswer::AllowOnce),
        decision(PermissionAnswer::AllowSession { grants: vec![Grant::Tool("bash".into())] }),
        decision(PermissionAnswer::Deny { feedback: Some("no".into()) }),
        decision(PermissionAnswer::Nobody { hint: "use --permissions".into() }),
    ]
}

fn questions() -> Vec<AgentEvent> {
    let request_id = || RequestId::new("request-2");
    let answered = |answer| AgentEvent::QuestionAnswered {
        request_id: request_id(),
        call_id: call_id(),
        answer,
    };
    let label = || "PostgreSQL".to_owned();
    vec![
        AgentEvent::QuestionAsked {
            request_id: request_id(),
            call_id: call_id(),
            question: UserQuestion {
                text: "Which database?".into(),
                header: Some("database".into()),
                choices: vec![QuestionChoice {
                    label: label(),
                    description: Some("as in production".into()),
                }],
                multiple: true,
                free_text: true,
            },
        },
        answered(QuestionAnswer::Text { text: "neither".into() }),
        answered(QuestionAnswer::Chosen { labels: vec![label()] }),
        answered(QuestionAnswer::Declined),
        answered(QuestionAnswer::Nobody { hint: "no terminal".into() }),
        AgentEvent::QuestionWithdrawn { request_id: request_id(), call_id: call_id() },
    ]
}

fn agents() -> Vec<AgentEvent> {
    let (primary, coagent) = (|| "builder".to_owned(), || "reviewer".to_owned());
    let child_id = || SessionId::new("child-1");
    vec![
        AgentEvent::Plan {
            items: vec![TodoItem {
                content: "Add a test".into(),
                status: TodoStatus::InProgress,
                active_form: Some("Adding a test".into()),
            }],
        },
        AgentEvent::Handoff { from: primary(), to: coagent(), prompt: "judge".into() },
        AgentEvent::CoagentStart { primary: primary(), coagent: coagent() },
        AgentEvent::CoagentEnd { primary: primary(), coagent: coagent() },
        AgentEvent::SubagentStart {
            parent: primary(),
            subagent: "explorer".into(),
            child_id: child_id(),
            task: "look".into(),
        },
        AgentEvent::SubagentEnd {
            parent: primary(),
            subagent: "explorer".into(),
            child_id: child_id(),
            result: "seen".into(),
        },
        AgentEvent::Checks {
            checks: vec![CheckRun {
                name: "test".into(),
                command: "cargo test".into(),
                exit_code: Some(1),
                error: Some("exit code 1".into()),
                duration_ms: 5,
                fresh: false,
            }],
            passed: false,
            unverified: None,
        },
        AgentEvent::ReviewVerdict { reviewer: coagent(), verdict: Verdict::Rejected },
        AgentEvent::TaskComplete { summary: "done".into(), verified: false },
    ]
}

/// At least one event of each variant.
pub(crate) fn samples() -> Vec<AgentEvent> {
    [lifecycle(), talk(), calls(), questions(), agents()].concat()
}

fn line(event: AgentEvent) -> Envelope {
    Envelope {
        seq: event.is_durable().then_some(7),
        time: "2026-11-21T12:00:00.5Z".parse().unwrap(),
        session_id: SessionId::new("s"),
        root_id: SessionId::new("s"),
        agent: "builder".into(),
        role: AgentRole::Primary,
        parent: None,
        round: 1,
        event,
    }
}

fn type_of(event: &AgentEvent) -> String {
    let json = serde_json::to_value(event).unwrap();
    json["type"].as_str().unwrap().to_owned()
}

/// Returns the docs of each variant by its name in JSON.
fn documented() -> BTreeMap<String, String> {
    let schema = schemars::schema_for!(AgentEvent).to_value();
    let variants = schema["oneOf"].as_array().unwrap().iter().map(|variant| {
        let name = variant["properties"]["type"]["const"].as_str().unwrap();
        (name.to_owned(), variant["description"].as_str().unwrap().to_owned())
    });
    variants.collect()
}

#[test]
fn every_variant_has_a_sample() {
    let sampled: BTreeSet<_> = samples().iter().map(type_of).collect();
    let known: BTreeSet<_> = documented().into_keys().collect();
    assert_eq!(sampled, known);
}

/// A change here is a change of the log's format: old logs must still be read.
#[test]
fn the_json_line_of_every_event_matches_the_snapshot() {
    let lines: Vec<_> =
        samples().iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn an_envelope_is_one_flat_object_on_one_line() {
    let mut child = line(AgentEvent::TurnStart { turn: 1 });
    child.role = AgentRole::Subagent;
    child.parent = Some(ParentCall { session_id: SessionId::new("p"), call_id: Some(call_id()) });
    let lines = [line(AgentEvent::RoundStart), line(AgentEvent::StepComplete { step: 1 }), child];
    let lines: Vec<_> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"seq":7,"time":"2026-11-21T12:00:00.5Z","session_id":"s","root_id":"s","agent":"builder","role":"primary","round":1,"type":"round_start"}
    {"time":"2026-11-21T12:00:00.5Z","session_id":"s","root_id":"s","agent":"builder","role":"primary","round":1,"type":"step_complete","step":1}
    {"seq":7,"time":"2026-11-21T12:00:00.5Z","session_id":"s","root_id":"s","agent":"builder","role":"subagent","parent":{"session_id":"p","call_id":"call-1"},"round":1,"type":"turn_start","turn":1}
    "#);
}

#[test]
fn every_envelope_survives_json() {
    for event in samples() {
        let mut line = line(event);
        line.parent = Some(ParentCall { session_id: SessionId::new("p"), call_id: None });
        let json = serde_json::to_string(&line).unwrap();
        assert!(!json.contains('\n'));
        assert_eq!(serde_json::from_str::<Envelope>(&json).unwrap(), line, "{json}");
    }
}

#[test]
fn no_field_of_an_event_has_the_name_of_a_field_of_the_envelope() {
    let envelope = ["seq", "time", "session_id", "root_id", "agent", "role", "parent", "round"];
    for event in samples() {
        let json = serde_json::to_value(&event).unwrap();
        let clash = json.as_object().unwrap().keys().find(|key| envelope.contains(&key.as_str()));
        assert_eq!(clash, None, "{json}");
    }
}

#[test]
fn an_event_is_durable_as_its_docs_say() {
    let documented = documented();
    for event in samples() {
        let docs = &documented[&type_of(&event)];
        assert_eq!(event.is_durable(), docs.contains("Durable"), "{docs}");
    }
}

#[test]
fn the_durable_events_are_those_of_the_design() {
    let durable: BTreeSet<_> =
        samples().iter().filter(|event| event.is_durable()).map(type_of).collect();
    let design = [
        "session_start",
        "run_start",
        "run_end",
        "round_start",
        "round_end",
        "turn_start",
        "turn_complete",
        "user_input",
        "instructions",
        "reply",
        "usage",
        "call_start",
        "call_end",
        "permission_decision",
        "question_asked",
        "question_answered",
        "question_withdrawn",
        "handoff",
        "notice",
        "checks",
        "review_verdict",
        "task_complete",
        "compaction",
        "job_changes",
        "files_restored",
        "rewind",
        "switch",
        "error",
        "cancelled",
    ];
    assert_eq!(durable, design.map(str::to_owned).into_iter().collect());
}

#[test]
fn a_field_of_a_newer_version_is_ignored() {
    let mut json = serde_json::to_value(line(AgentEvent::RoundStart)).unwrap();
    json["new"] = Value::from(1);
    assert_eq!(serde_json::from_value::<Envelope>(json).unwrap(), line(AgentEvent::RoundStart));
}

#[test]
fn checks_of_an_older_log_are_read_without_their_commands() {
    let line = json!({"type": "checks", "commands": [["cargo test", 1]], "passed": false});
    let event: AgentEvent = serde_json::from_value(line).unwrap();
    assert_eq!(event, AgentEvent::Checks { checks: Vec::new(), passed: false, unverified: None });
}

#[test]
fn a_report_of_checks_is_parsed_from_extra() {
    let report = CheckReport::verified(Vec::new(), crate::ids::FilesId::new("f"));
    let extra = serde_json::to_value(&report).unwrap();
    assert_eq!(CheckReport::from_extra(&extra), Some(report));
    assert_eq!(CheckReport::from_extra(&Value::Null), None);
    assert_eq!(CheckReport::from_extra(&json!({"checks": 1})), None);
}
