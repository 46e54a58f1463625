//! A session with all kinds of events, as three kinds of clients see it.

use std::{path::Path, sync::Arc};

use crow_core::{
    event::{AgentEvent, CheckRun, InputSource, NoticeAudience, NoticeLevel, RunOutcome, Verdict},
    ids::{CallId, MessageId, RequestId, RunId, SnapshotId},
    permission::{Denial, DenialSource},
    todo::{TodoItem, TodoStatus},
    tool::{ChangeCounts, CommandLine, CommandMeaning, FileDiff, Patch, Subject, ToolResult},
    turn::TurnEnd,
};
use serde_json::json;

use super::{
    sample::{Files, ROOT, Story, bare, everything, lines, view_with, zed},
    screen::Screen,
};
use crate::view::{ClientAbilities, SessionView, contents::DiffContent};

fn changed(old: &str, new: &str) -> ToolResult {
    let mut result = ToolResult::success("Edited a.rs.");
    result.metadata.snapshot_before = Some(SnapshotId::new("s1"));
    result.metadata.snapshot_after = Some(SnapshotId::new("s2"));
    result.metadata.files_modified = vec!["/p/a.rs".into()];
    result.metadata.changes = Some(ChangeCounts { modified: 1, ..ChangeCounts::default() });
    let diff = FileDiff::of_text(Path::new("/p/a.rs"), old, new);
    result.metadata.diff = Some(Patch { files: vec![diff] });
    result.metadata.duration_ms = 12;
    result
}

fn files() -> Files {
    Files::default().captured("s1", "/p/a.rs", DiffContent::Known("old\n".into())).captured(
        "s2",
        "/p/a.rs",
        DiffContent::Known("new\n".into()),
    )
}

fn view(abilities: ClientAbilities) -> SessionView {
    view_with(abilities, Arc::new(files()))
}

fn work(story: &mut Story) {
    story
        .tell(AgentEvent::RunStart { run_id: RunId::new("run"), settings: None })
        .tell(AgentEvent::RoundStart);
    story.input(InputSource::Prompt, "Fix the bug").tell(AgentEvent::TurnStart { turn: 1 });
    story.thinking_delta("a", 0, "Where is it?");
    let edit = json!({"path": "a.rs", "old_string": "old", "new_string": "new"});
    story.reply("a", &["I see. ", "I edit it."], &[("c1", "edit_file", edit.clone())]);
    story.begin("c1", "edit_file", "edit a.rs", edit).end(
        "c1",
        "edit_file",
        changed("old\n", "new\n"),
    );
    let test = json!({"command": "cargo test"});
    story.reply("b", &["Now the tests."], &[("c2", "bash", test.clone())]);
    let mut failed = ToolResult::failure("running 1 test\nfailed\n[exit code 101]");
    failed.metadata.extra = json!({"exit_code": 101});
    story.begin("c2", "bash", "cargo test", test).progress("c2", "running 1 test\n");
    story.end("c2", "bash", failed);
    asked(story);
    let mut todos = ToolResult::success("1 todo");
    let item =
        TodoItem { content: "Test".into(), status: TodoStatus::InProgress, active_form: None };
    todos.metadata.extra = json!({ "todos": [item] });
    story.begin("c4", "todo_write", "todos", json!({})).end("c4", "todo_write", todos);
    story.tell(AgentEvent::Plan { items: vec![item] });
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
    story.tell(AgentEvent::Notice { level, audience, text: "the disk is nearly full".into() });
}

fn asked(story: &mut Story) {
    let push = json!({"command": "git push"});
    story.whole_reply("c", "", &[("c3", "bash", push.clone())]);
    story.pending("c3", "bash", "git push", push);
    let line = CommandLine {
        text: "git push".into(),
        folder: None,
        meaning: CommandMeaning::Unclear("a test".into()),
    };
    let (request_id, call_id) = (RequestId::new("q"), CallId::new("c3"));
    story.tell(AgentEvent::PermissionRequest {
        request_id: request_id.clone(),
        call_id: call_id.clone(),
        tool: "bash".into(),
        title: "git push".into(),
        subject: Subject::Command(line),
        reason: "no rule allows it".into(),
        offers: Vec::new(),
    });
    let answer = crow_core::capability::PermissionAnswer::Deny { feedback: None };
    story.tell(AgentEvent::PermissionDecision { request_id, call_id, answer, waited_ms: None });
    let denial = Denial { source: DenialSource::User, reason: String::new() };
    story.ended("c3", "bash", ToolResult::failure("The user said no."), Some(denial));
}

fn subagent(story: &mut Story) {
    let task =
        json!({"agent": "explorer", "description": "Look around", "prompt": "Find all uses"});
    story.whole_reply("d", "", &[("c5", "task", task.clone())]);
    story.begin("c5", "task", "explorer: Look around", task);
    story.subagent("explorer", "c5").input(InputSource::Prompt, "Find all uses");
    story.tell(AgentEvent::TurnStart { turn: 1 });
    story.reply("e", &["I ", "search."], &[("c1", "grep", json!({"pattern": "x"}))]);
    story.begin("c1", "grep", "grep x", json!({"pattern": "x"}));
    story.end("c1", "grep", ToolResult::success("a.rs:1: x"));
    story.begin("c2", "bash", "wc", json!({"command": "wc -l a.rs"}));
    story.end("c2", "bash", ToolResult::success("1 a.rs\n[exit code 0]"));
    story.tell(AgentEvent::TurnComplete { turn: 1, end: TurnEnd::Text });
    story.primary().end("c5", "task", ToolResult::success("There is one use."));
}

fn review(story: &mut Story) {
    let (from, to) = ("builder".to_owned(), "critic".to_owned());
    story.tell(AgentEvent::Handoff { from: from.clone(), to, prompt: "Judge this".into() });
    let (primary, coagent) = (from.clone(), "critic".to_owned());
    story.tell(AgentEvent::CoagentStart { primary, coagent });
    story.coagent("critic").input(InputSource::ControlFlow, "Judge this");
    story.tell(AgentEvent::TurnStart { turn: 1 });
    story.reply("f", &["The tests ", "fail."], &[]);
    let edit = json!({"path": "a.rs"});
    story.begin("c1", "edit_file", "edit a.rs", edit);
    story.end("c1", "edit_file", changed("old\n", "new\n"));
    story.tell(AgentEvent::TurnComplete { turn: 1, end: TurnEnd::Text });
    story.primary();
    let (reviewer, verdict) = ("critic".to_owned(), Verdict::Rejected);
    story.tell(AgentEvent::ReviewVerdict { reviewer, verdict });
    let (primary, coagent) = (from, "critic".to_owned());
    story.tell(AgentEvent::CoagentEnd { primary, coagent }).tell(AgentEvent::RoundEnd);
    story.round = 2;
    story.tell(AgentEvent::RoundStart).input(InputSource::Reviewer, "The tests fail.");
}

fn finish(story: &mut Story) {
    let check = CheckRun {
        name: "test".into(),
        command: "cargo test".into(),
        exit_code: Some(0),
        error: None,
        duration_ms: 40,
        fresh: false,
    };
    story.tell(AgentEvent::Checks { checks: vec![check], passed: true, unverified: None });
    let summary = "The bug is fixed.".to_owned();
    story.tell(AgentEvent::TaskComplete { summary: summary.clone(), verified: true });
    let first_kept = MessageId::new("m");
    story.tell(AgentEvent::Compaction {
        summary: "They fixed a bug.".into(),
        first_kept,
        kept: Vec::new(),
        masked: Vec::new(),
        report: None,
    });
    story.tell(AgentEvent::JobChanges {
        call_id: CallId::new("c2"),
        files: vec!["/p/a.rs".into()],
        before: SnapshotId::new("s1"),
        after: SnapshotId::new("s2"),
        changes: ChangeCounts { modified: 1, ..ChangeCounts::default() },
        shared: false,
        cut_off: false,
    });
    let result = RunOutcome::Completed { summary, verified: true };
    story.tell(AgentEvent::RunEnd { run_id: RunId::new("run"), result, assessment: None });
}

fn cancelled(story: &mut Story) {
    story.tell(AgentEvent::RunStart { run_id: RunId::new("run-2"), settings: None });
    story.input(InputSource::Prompt, "And now?");
    story.whole_reply("g", "", &[("c9", "bash", json!({"command": "sleep 99"}))]);
    story.begin("c9", "bash", "sleep 99", json!({"command": "sleep 99"}));
    story.tell(AgentEvent::Cancelling).end("c9", "bash", ToolResult::cancelled());
    story.tell(AgentEvent::TurnComplete { turn: 2, end: TurnEnd::Cancelled });
    story.tell(AgentEvent::Cancelled);
    let result = RunOutcome::Cancelled;
    story.tell(AgentEvent::RunEnd { run_id: RunId::new("run-2"), result, assessment: None });
}

fn story() -> Story {
    let mut story = Story::new();
    work(&mut story);
    subagent(&mut story);
    review(&mut story);
    finish(&mut story);
    cancelled(&mut story);
    story
}

#[test]
fn a_bare_client_sees_it_all_as_words_and_calls() {
    let out = story().live(&mut view(bare()));
    assert_eq!(Screen::of(&out).open(), 0);
    insta::assert_snapshot!(lines(&out));
}

#[test]
fn a_client_like_zed_sees_commands_in_terminals() {
    let out = story().live(&mut view(zed()));
    assert_eq!(Screen::of(&out).open(), 0);
    insta::assert_snapshot!(lines(&out));
}

#[test]
fn a_client_that_can_everything_sees_agents_as_sessions() {
    let out = story().live(&mut view(everything()));
    assert_eq!(Screen::of(&out).open(), 0);
    insta::assert_snapshot!(lines(&out));
}

#[test]
fn a_bare_client_that_loads_the_session_sees_the_same_work() {
    let out = story().replay(&mut view(bare()));
    insta::assert_snapshot!(lines(&out));
}

#[test]
fn a_replay_shows_the_same_calls_and_words_as_the_session_itself() {
    for abilities in [bare(), zed(), everything()] {
        let live = Screen::of(&story().live(&mut view(abilities.clone())));
        let replayed = Screen::of(&story().replay(&mut view(abilities)));
        assert_eq!(live.calls, replayed.calls);
        assert_eq!(live.texts, replayed.texts);
        assert_eq!(live.ends, replayed.ends);
    }
}

#[test]
fn input_of_the_control_flow_is_never_shown_as_the_users() {
    let mut story = Story::new();
    story.input(InputSource::ControlFlow, "Go on.").input(InputSource::Reviewer, "No.");
    for abilities in [bare(), everything()] {
        for out in [story.live(&mut view(abilities.clone())), story.replay(&mut view(abilities))] {
            let text = lines(&out);
            assert!(!text.contains("user_message_chunk"), "{text}");
            assert!(text.contains("Round 1: Go on."), "{text}");
        }
    }
}

#[test]
fn a_generated_message_is_shown_once_in_the_session() {
    let mut story = Story::new();
    story.coagent("generator").input(InputSource::ControlFlow, "Write a message.");
    story.reply("g", &["See to the tests."], &[]);
    story.primary().input(InputSource::Generator, "See to the tests.\n\nGo on.");
    for abilities in [bare(), zed(), everything()] {
        for mut out in
            [story.live(&mut view(abilities.clone())), story.replay(&mut view(abilities))]
        {
            out.retain(|update| update.session_id.0.as_ref() == ROOT);
            let text = lines(&out);
            let shown = text.lines().filter(|line| line.contains("See to the tests."));
            assert_eq!(shown.count(), 1, "{text}");
        }
    }
}

#[test]
fn the_reviewer_speaks_to_the_primary_although_a_generator_wrote_the_handoff() {
    let mut story = Story::new();
    story.coagent("generator").input(InputSource::ControlFlow, "Write a handoff.");
    story.reply("g", &["Judge this"], &[]).primary();
    review(&mut story);
    for out in [story.live(&mut view(everything())), story.replay(&mut view(everything()))] {
        let text = lines(&out);
        let messages = text.lines().filter(|line| {
            line.contains("session_message")
                && line.contains("\"senderSessionId\":\"child-critic\"")
                && line.contains("The tests fail.")
        });
        // In the transcripts of both.
        assert_eq!(messages.count(), 2, "{text}");
    }
}

#[test]
fn notices_for_the_model_alone_are_not_shown() {
    let (level, audience) = (NoticeLevel::Warning, NoticeAudience::Model);
    let mut story = Story::new();
    story.tell(AgentEvent::Notice { level, audience, text: "hurry".into() });
    assert!(story.live(&mut view(everything())).is_empty());
}

#[test]
fn a_review_without_a_verdict_ends_with_its_round() {
    let mut story = Story::new();
    let (from, to) = ("builder".to_owned(), "critic".to_owned());
    story.tell(AgentEvent::Handoff { from, to, prompt: "Look".into() });
    story.coagent("critic").reply("f", &["Fine."], &[]).primary().tell(AgentEvent::RoundEnd);
    let out = story.replay(&mut view(bare()));
    let screen = Screen::of(&out);
    assert_eq!((screen.calls.len(), screen.open()), (1, 0));
    assert!(lines(&out).contains("Fine."));
}

#[test]
fn a_summary_that_the_agent_has_said_is_not_repeated() {
    for (text, times) in [("All done.", 1), ("I fixed it.", 0)] {
        let mut story = Story::new();
        story.reply("a", &[text], &[]);
        let summary = "All done.".to_owned();
        story.tell(AgentEvent::TaskComplete { summary, verified: false });
        let screen = Screen::of(&story.live(&mut view(bare())));
        let count = screen.texts.iter().filter(|(_, text)| text == "All done.").count();
        assert_eq!((count, screen.texts.len()), (1, 2 - times));
    }
}
