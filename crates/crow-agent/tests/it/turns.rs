//! Turns of a base agent.

use std::sync::Arc;

use crow_agent::AgentConfig;
use crow_core::{
    event::{AgentEvent, AgentState, Envelope, RunOutcome},
    message::Block,
    model::{ProviderError, ProviderErrorKind, StopReason, TextCallNotes},
    permission::{DenialSource, PermissionMode, PermissionPolicy},
    tool::ToolCategory::{Execute, Read, Write},
    turn::{TurnEnd, TurnLimits},
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, SeenToolChoice, call, malformed_call, reply, text, thinking},
};
use serde_json::json;
use tokio::sync::Barrier;

use crate::tools::{Act, tools};

fn options(list: Vec<(&'static str, crow_core::tool::ToolCategory, Act)>) -> HarnessOptions {
    HarnessOptions { tools: tools(list), ..HarnessOptions::default() }
}

fn outcome(events: &[Arc<Envelope>]) -> RunOutcome {
    match &events.last().unwrap().event {
        AgentEvent::RunEnd { result, .. } => result.clone(),
        other => panic!("the last event is {other:?}"),
    }
}

fn kinds(events: &[Arc<Envelope>]) -> Vec<String> {
    let name = |event: &AgentEvent| {
        serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned()
    };
    events.iter().map(|event| name(&event.event)).collect()
}

async fn play(
    plays: impl IntoIterator<Item = Play>,
    options: HarnessOptions,
) -> (AgentHarness, Vec<Arc<Envelope>>) {
    let mut harness = AgentHarness::start(ScriptedModel::new(plays), options);
    let events = harness.run("do it").await;
    (harness, events)
}

#[tokio::test]
async fn a_reply_without_calls_ends_the_turn_and_returns_to_the_user() {
    let (harness, events) = play([reply([thinking("hm"), text("done")])], options(vec![])).await;
    assert_eq!(outcome(&events), RunOutcome::NeedsInput);
    let expected = [
        "run_start",
        "round_start",
        "user_input",
        "turn_start",
        "state_change",
        "thinking_delta",
        "text_delta",
        "reply",
        "thinking_complete",
        "text_complete",
        "usage",
        "turn_complete",
        "round_end",
        "run_end",
    ];
    assert_eq!(kinds(&events)[..], expected);
    harness.model.assert_finished();
}

#[tokio::test]
async fn task_complete_ends_the_turn_after_its_sibling_calls_are_answered() {
    let calls = reply([
        call("a", "task_complete", json!({"summary": "all done"})),
        call("b", "look", json!({})),
    ]);
    let (harness, events) = play([calls], options(vec![("look", Read, Act::Say("seen"))])).await;
    assert_eq!(
        outcome(&events),
        RunOutcome::Completed { summary: "all done".into(), verified: false }
    );
    let ends =
        events.iter().filter(|event| matches!(event.event, AgentEvent::CallEnd { .. })).count();
    assert_eq!(ends, 2);
    harness.model.assert_finished();
}

#[tokio::test]
async fn a_call_starts_before_it_ends_and_its_result_goes_back_to_the_model() {
    let plays = [reply([text("look"), call("a", "look", json!({}))]), reply([text("ok")])];
    let (harness, events) = play(plays, options(vec![("look", Read, Act::Say("seen"))])).await;
    let kinds = kinds(&events);
    let at = |kind: &str| kinds.iter().position(|other| other == kind).unwrap();
    assert!(at("call_pending") < at("call_start") && at("call_start") < at("call_end"));
    assert_eq!(
        harness.model.requests()[1].outline()[1..],
        ["assistant: look(a)", "results: a: seen"]
    );
}

#[tokio::test]
async fn reading_calls_run_concurrently() {
    let together = Act::Meet(Arc::new(Barrier::new(3)));
    let calls = reply(["a", "b", "c"].map(|id| call(id, "look", json!({}))));
    let (harness, _) =
        play([calls, reply([text("ok")])], options(vec![("look", Read, together)])).await;
    assert_eq!(harness.model.requests()[1].outline()[2], "results: a: met & b: met & c: met");
}

#[tokio::test]
async fn invalid_calls_are_answered_and_three_in_a_row_end_the_turn() {
    let plays = [
        reply([call("a", "no_such_tool", json!({}))]),
        reply([call("b", "look", json!({"n": {"x": 1}}))]),
        reply([malformed_call("c", "look", "][")]),
    ];
    let (harness, events) = play(plays, options(vec![("look", Read, Act::Say("seen"))])).await;
    assert_eq!(outcome(&events), RunOutcome::Stopped { reason: TurnEnd::InvalidCalls });
    assert!(harness.model.requests()[1].outline()[2].contains("no_such_tool"));
}

fn unread(reason: &str) -> TextCallNotes {
    TextCallNotes { repair: None, unread: Some(reason.to_owned()) }
}

#[tokio::test]
async fn text_with_a_call_that_was_not_understood_is_no_answer() {
    let half = || reply([text("Done: <tool_call>")]).with_text_calls(unread("It is incomplete."));
    let (harness, events) = play(
        [half(), half(), half(), reply([text("not asked for")])],
        options(vec![("look", Read, Act::Say("seen"))]),
    )
    .await;
    assert_eq!(outcome(&events), RunOutcome::Stopped { reason: TurnEnd::InvalidCalls });
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[1].outline()[2].contains("It is incomplete."), "{:?}", requests[1].outline());
}

#[tokio::test]
async fn a_reminder_of_how_to_call_lets_the_turn_go_on() {
    let (harness, events) = play(
        [
            reply([text("<tool_call>")]).with_text_calls(unread("It is incomplete.")),
            reply([call("a", "look", json!({}))]),
            reply([text("ok")]),
        ],
        options(vec![("look", Read, Act::Say("seen"))]),
    )
    .await;
    assert_eq!(outcome(&events), RunOutcome::NeedsInput);
    harness.model.assert_finished();
}

#[tokio::test]
async fn the_note_on_a_call_in_text_stands_before_its_result() {
    let note = TextCallNotes { repair: Some("It was text.".to_owned()), unread: None };
    let calls = reply([call("a", "look", json!({})), call("b", "look", json!({}))]);
    let (harness, _) = play(
        [calls.with_text_calls(note), reply([text("ok")])],
        options(vec![("look", Read, Act::Say("seen"))]),
    )
    .await;
    let outline = harness.model.requests()[1].outline();
    assert_eq!(outline[2], "results: a: [It was text.]\nseen & b: seen");
}

#[tokio::test]
async fn at_the_step_limit_the_model_gets_one_reply_without_tools() {
    let config = AgentConfig {
        limits: TurnLimits { max_steps: 2, doom_loop_threshold: 5 },
        ..AgentConfig::default()
    };
    let plays = [
        reply([call("a", "look", json!({"n": 1}))]),
        reply([call("b", "look", json!({"n": 2}))]),
        reply([text("half done")]),
    ];
    let options = HarnessOptions { config, ..options(vec![("look", Read, Act::Say("seen"))]) };
    let (harness, events) = play(plays, options).await;
    assert_eq!(outcome(&events), RunOutcome::Stopped { reason: TurnEnd::MaxSteps { steps: 2 } });
    let requests = harness.model.requests();
    assert_eq!(requests[2].tool_choice, SeenToolChoice::None);
    assert!(requests[2].outline().last().unwrap().contains("limit of 2 steps"));
}

#[tokio::test]
async fn a_repeated_identical_call_stops_the_turn() {
    let plays = (0..5).map(|n| reply([call(&format!("c{n}"), "look", json!({}))]));
    let (_, events) = play(plays, options(vec![("look", Read, Act::Say("same"))])).await;
    assert!(matches!(outcome(&events), RunOutcome::Stopped { reason: TurnEnd::DoomLoop { .. } }));
}

#[tokio::test]
async fn an_interrupt_during_a_reply_cancels_the_run() {
    let mut harness =
        AgentHarness::start(ScriptedModel::new([Play::Stall("well".into())]), options(vec![]));
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    harness.until(|event| matches!(event, AgentEvent::TextDelta { .. })).await;
    harness.handle.interrupt();
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(outcome(&events), RunOutcome::Cancelled);
    harness.model.push(reply([text("again")]));
    assert_eq!(outcome(&harness.run("once more").await), RunOutcome::NeedsInput);
}

#[tokio::test]
async fn an_interrupt_while_a_tool_runs_answers_every_open_call() {
    let calls = reply([call("a", "slow", json!({})), call("b", "slow", json!({}))]);
    let mut harness = AgentHarness::start(
        ScriptedModel::new([calls]),
        options(vec![("slow", Execute, Act::Obey)]),
    );
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    harness.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    harness.handle.interrupt();
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(outcome(&events), RunOutcome::Cancelled);
    harness.model.push(reply([text("again")]));
    harness.run("go on").await;
    let results = &harness.model.requests()[1].outline()[2];
    assert!(results.starts_with("results: a! ") && results.contains(" & b! "), "{results}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_the_cancel_is_dropped() {
    let calls = reply([call("a", "deaf", json!({}))]);
    let mut harness = AgentHarness::start(
        ScriptedModel::new([calls]),
        options(vec![("deaf", Execute, Act::Ignore)]),
    );
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    harness.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    harness.handle.interrupt();
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(outcome(&events), RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_panic_in_a_tool_is_an_error_of_that_call_alone() {
    let plays = [reply([call("a", "bad", json!({}))]), reply([text("ok")])];
    let (harness, events) = play(plays, options(vec![("bad", Execute, Act::Panic)])).await;
    assert_eq!(outcome(&events), RunOutcome::NeedsInput);
    assert!(harness.model.requests()[1].outline()[2].contains("broken tool"));
}

#[tokio::test]
async fn a_write_without_an_answerer_is_denied_by_policy() {
    let plays = [reply([call("a", "change", json!({}))]), reply([text("could not")])];
    let options = HarnessOptions {
        policy: Some(PermissionPolicy::new(PermissionMode::Ask)),
        ..options(vec![("change", Write, Act::Say("x"))])
    };
    let (harness, events) = play(plays, options).await;
    let denial = events.iter().find_map(|event| match &event.event {
        AgentEvent::CallEnd { denial, .. } => denial.clone(),
        _ => None,
    });
    assert_eq!(denial.unwrap().source, DenialSource::Policy);
    assert!(harness.model.requests()[1].outline()[2].contains("Not permitted by policy"));
}

#[tokio::test]
async fn a_run_whose_model_fails_ends_as_failed_and_the_next_one_works() {
    let error = ProviderError::new(ProviderErrorKind::Auth, "bad key");
    let mut harness = AgentHarness::start(
        ScriptedModel::new([Play::Fail(error), reply([text("ok")])]),
        options(vec![]),
    );
    let events = harness.run("one").await;
    assert!(matches!(outcome(&events), RunOutcome::Failed { .. }));
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.event, AgentEvent::Error { provider: Some(_), .. }))
    );
    assert_eq!(outcome(&harness.run("two").await), RunOutcome::NeedsInput);
}

#[tokio::test]
async fn steering_reaches_the_model_before_its_next_call() {
    let calls = reply([call("a", "meet", json!({}))]);
    let barrier = Arc::new(Barrier::new(2));
    let tool = ("meet", Execute, Act::Meet(Arc::clone(&barrier)));
    let mut harness =
        AgentHarness::start(ScriptedModel::new([calls, reply([text("ok")])]), options(vec![tool]));
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    harness.until(|event| matches!(event, AgentEvent::CallStart { .. })).await;
    harness.handle.steer(vec![Block::text("left, please")]).unwrap();
    barrier.wait().await;
    harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(
        harness.model.requests()[1].outline()[2..],
        ["results: a: met", "user: left, please"]
    );
}

#[tokio::test]
async fn unread_steering_precedes_the_next_prompt_after_an_interrupt() {
    let script = [reply([text("ok")]), reply([text("ok")])];
    let mut harness = AgentHarness::start(ScriptedModel::new(script), options(vec![]));
    harness.run("one").await;
    harness.handle.steer(vec![Block::text("unread")]).unwrap();
    harness.handle.interrupt();
    harness.run("two").await;
    let outline = harness.model.requests()[1].outline().join("\n");
    let (unread, two) = (outline.find("user: unread").unwrap(), outline.find("user: two").unwrap());
    assert!(unread < two, "{outline}");
}

#[tokio::test]
async fn a_call_cut_at_the_output_limit_is_not_run() {
    let cut = reply([call("a", "look", json!({})), call("b", "look", json!({}))])
        .stopping(StopReason::MaxTokens);
    let (harness, _) =
        play([cut, reply([text("ok")])], options(vec![("look", Read, Act::Say("seen"))])).await;
    let results = &harness.model.requests()[1].outline()[2];
    assert!(
        results.starts_with("results: a: seen & b! ")
            && results.contains("cut at the output limit"),
        "{results}"
    );
}

#[tokio::test]
async fn two_calls_with_the_same_id_get_different_ids() {
    let calls = reply([call("call_0", "look", json!({})), call("call_0", "look", json!({}))]);
    let (harness, _) =
        play([calls, reply([text("ok")])], options(vec![("look", Read, Act::Say("seen"))])).await;
    assert_eq!(harness.model.requests()[1].outline()[2], "results: call_0: seen & call_0-2: seen");
}

#[tokio::test]
async fn an_unread_stream_stalls_neither_interrupt_nor_shutdown() {
    let many: Vec<_> = (0..5000).map(|_| text("x")).collect();
    let harness = AgentHarness::start(ScriptedModel::new([reply(many)]), options(vec![]));
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    harness.model.wait_for_request(1).await;
    harness.handle.interrupt();
    harness.handle.shutdown();
    tokio::time::timeout(std::time::Duration::from_secs(5), harness.handle.wait_for_end())
        .await
        .unwrap();
    assert_eq!(harness.handle.state(), AgentState::Done);
}

#[tokio::test]
async fn the_history_from_the_log_equals_the_messages_sent_to_the_model() {
    let plays = [reply([call("a", "look", json!({}))]), reply([text("ok")])];
    let (harness, _) = play(plays, options(vec![("look", Read, Act::Say("seen"))])).await;
    let history = harness.handle.history().unwrap();
    let seen = harness.model.requests()[1].messages.clone();
    assert_eq!(history.messages().unwrap()[..seen.len()], seen);
}
