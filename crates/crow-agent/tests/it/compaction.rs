//! Compaction of a conversation that comes close to the window of its model.

use std::sync::Arc;

use crow_agent::AgentConfig;
use crow_core::{
    event::{AgentEvent, CompactionTrigger, Envelope, FailureKind, RunOutcome},
    message::{Block, Message},
    model::{ProviderError, ProviderErrorKind, StopReason},
    tool::ToolCategory::Read,
    turn::TurnLimits,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, SeenToolChoice, call, reply, text},
};
use serde_json::json;

use crate::tools::{Act, tools};

const WINDOW: u64 = 8_192;

/// About 600 tokens.
pub(crate) const OUTPUT: &str = concat!(
    "the quick brown fox jumps over the lazy dog and then it looks around for something else to do; ",
    include_str!("compaction_output.txt")
);

fn steps(count: usize) -> Vec<Play> {
    (0..count)
        .map(|number| reply([call(&format!("c{number}"), "look", json!({"n": number}))]))
        .collect()
}

fn options() -> HarnessOptions {
    HarnessOptions {
        tools: tools(vec![("look", Read, Act::Say(OUTPUT))]),
        ..HarnessOptions::default()
    }
}

fn compactions(events: &[Arc<Envelope>]) -> Vec<&AgentEvent> {
    let events = events.iter().map(|event| &event.event);
    events.filter(|event| matches!(event, AgentEvent::Compaction { .. })).collect()
}

fn outcome(events: &[Arc<Envelope>]) -> &RunOutcome {
    match &events.last().unwrap().event {
        AgentEvent::RunEnd { result, .. } => result,
        other => panic!("the last event is {other:?}"),
    }
}

fn characters(messages: &[Arc<Message>]) -> usize {
    let texts = messages.iter().map(|message| match message.as_ref() {
        Message::User(user) => Block::text_of(&user.content).len(),
        Message::Assistant(_) => 0,
        Message::Results(results) => {
            results.results.iter().map(|result| Block::text_of(&result.content).len()).sum()
        }
    });
    texts.sum()
}

fn overflow() -> Play {
    Play::Fail(ProviderError::new(ProviderErrorKind::ContextLength, "too long"))
}

#[tokio::test]
async fn a_long_run_goes_on_after_its_conversation_was_summarized() {
    let plays = steps(60).into_iter().chain([reply([text("done")])]);
    let model = ScriptedModel::new(plays)
        .with_window(Some(WINDOW))
        .with_summary(reply([text("## Goal\nlook around")]));
    let mut harness = AgentHarness::start(model, options());
    let events = harness.run("look at all of it").await;
    assert_eq!(*outcome(&events), RunOutcome::NeedsInput);
    harness.model.assert_finished();
    let compactions = compactions(&events);
    assert!(compactions.len() > 2, "{compactions:?}");
    for event in compactions {
        let AgentEvent::Compaction { report: Some(report), .. } = event else { unreachable!() };
        assert_eq!(report.trigger, CompactionTrigger::Window);
        assert!(report.tokens_after < report.tokens_before * 3 / 4, "{report:?}");
    }
    for request in harness.model.requests() {
        assert!(characters(&request.messages) < usize::try_from(WINDOW).unwrap() * 4);
        assert!(request.outline()[0].contains("look at all of it"));
    }
}

#[tokio::test]
async fn the_request_for_a_summary_continues_the_conversation_and_permits_no_calls() {
    let plays = steps(60).into_iter().chain([reply([text("done")])]);
    let model = ScriptedModel::new(plays)
        .with_window(Some(WINDOW))
        .with_summary(reply([text("## Goal\nlook around")]));
    let mut harness = AgentHarness::start(model, options());
    harness.run("look at all of it").await;
    let requests = harness.model.requests();
    let at =
        requests.iter().position(crow_testkit::scripted::SeenRequest::asks_for_summary).unwrap();
    assert_eq!(requests[at].tool_choice, SeenToolChoice::None);
    assert_eq!(requests[at].tools, requests[at - 1].tools);
    assert!(requests[at].messages.starts_with(&requests[at - 1].messages));
    let summary = requests[at + 1].outline().into_iter().find(|line| line.contains("<summary"));
    assert!(summary.unwrap().contains("## Goal\nlook around"));
}

#[tokio::test]
async fn a_summary_has_a_limit_of_tokens_unless_the_model_thinks_before_it() {
    for thinks in [false, true] {
        let plays = steps(60).into_iter().chain([reply([text("done")])]);
        let model = ScriptedModel::new(plays)
            .with_window(Some(WINDOW))
            .with_summary(reply([text("## Goal\nlook around")]));
        let model = if thinks { model } else { model.without_thinking() };
        let mut harness = AgentHarness::start(model, options());
        harness.run("look at all of it").await;
        let requests = harness.model.requests();
        let limits: Vec<_> = requests
            .iter()
            .filter(|request| request.asks_for_summary())
            .map(|request| request.max_tokens)
            .collect();
        let is_limited = |limit: &Option<u64>| limit.is_some_and(|limit| limit <= WINDOW / 4);
        assert!(!limits.is_empty());
        assert!(limits.iter().all(|limit| is_limited(limit) != thinks), "{thinks}: {limits:?}");
        assert!(
            requests
                .iter()
                .filter(|request| !request.asks_for_summary())
                .all(|request| { request.max_tokens == requests[0].max_tokens })
        );
    }
}

#[tokio::test]
async fn outputs_become_placeholders_before_anything_is_summarized() {
    let plays = steps(20).into_iter().chain([reply([text("done")])]);
    let model = ScriptedModel::new(plays).with_window(Some(WINDOW));
    let mut harness = AgentHarness::start(model, options());
    let events = harness.run("look at all of it").await;
    let AgentEvent::Compaction { summary, masked, .. } = compactions(&events)[0] else {
        unreachable!()
    };
    assert!(summary.is_empty() && !masked.is_empty(), "{masked:?}");
    assert_eq!(harness.model.requests().len(), 21);
    let last = harness.model.requests()[20].outline();
    assert!(last[2].contains("[output left out to save space: "), "{}", last[2]);
}

#[tokio::test]
async fn a_summary_that_cannot_be_used_is_replaced_by_one_without_a_model() {
    for play in [
        reply([text("  ")]),
        Play::Fail(ProviderError::new(ProviderErrorKind::Overloaded, "busy")),
        reply([call("x", "look", json!({}))]),
        reply([text("## Goal\nlook around, and then")]).stopping(StopReason::MaxTokens),
    ] {
        let plays = steps(60).into_iter().chain([reply([text("done")])]);
        let model = ScriptedModel::new(plays).with_window(Some(WINDOW)).with_summary(play);
        let mut harness = AgentHarness::start(model, options());
        let events = harness.run("look at all of it").await;
        assert_eq!(*outcome(&events), RunOutcome::NeedsInput);
        let summaries: Vec<_> = compactions(&events)
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::Compaction { summary, .. } if !summary.is_empty() => Some(summary),
                _ => None,
            })
            .collect();
        assert!(summaries[0].contains("- look {\"n\":1}: ok"), "{summaries:?}");
    }
}

#[tokio::test]
async fn a_request_that_the_provider_refuses_as_too_long_is_compacted_and_sent_again() {
    let plays = steps(30).into_iter().chain([overflow(), reply([text("done")])]);
    let model = ScriptedModel::new(plays)
        .with_window(None)
        .with_summary(reply([text("## Goal\nlook around")]));
    let mut harness = AgentHarness::start(model, options());
    let events = harness.run("look at all of it").await;
    assert_eq!(*outcome(&events), RunOutcome::NeedsInput);
    let compactions = compactions(&events);
    assert_eq!(compactions.len(), 1);
    let AgentEvent::Compaction { report: Some(report), .. } = compactions[0] else {
        unreachable!()
    };
    assert_eq!(report.trigger, CompactionTrigger::Overflow);
}

#[tokio::test]
async fn a_conversation_that_cannot_be_made_shorter_ends_the_run_with_the_providers_error() {
    let model = ScriptedModel::new([overflow()]).with_window(Some(1_000));
    let mut harness = AgentHarness::start(model, options());
    let events = harness.run(&OUTPUT.repeat(4)).await;
    let RunOutcome::Failed { error, kind } = outcome(&events) else {
        panic!("{:?}", outcome(&events))
    };
    assert_eq!(*kind, FailureKind::Request);
    assert!(error.contains("too long"), "{error}");
    assert_eq!(harness.model.requests().len(), 1);
}

/// Asks for a compaction and returns the events up to the end of its run.
async fn compact(harness: &mut AgentHarness, focus: Option<&str>) -> Vec<Arc<Envelope>> {
    harness.handle.compact(focus.map(str::to_owned)).unwrap();
    harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await
}

#[tokio::test]
async fn the_user_can_ask_for_a_compaction_and_say_what_matters() {
    let plays = steps(8).into_iter().chain([reply([text("done")]), reply([text("again")])]);
    let model = ScriptedModel::new(plays)
        .with_window(None)
        .with_summary(reply([text("## Goal\nlook around on port 8123")]));
    let mut harness = AgentHarness::start(model, options());
    harness.run("look at all of it").await;
    let events = compact(&mut harness, Some("the port number")).await;
    let AgentEvent::Compaction { report: Some(report), .. } = compactions(&events)[0] else {
        unreachable!()
    };
    assert_eq!(report.trigger, CompactionTrigger::User);
    assert!(report.tokens_after < report.tokens_before * 3 / 5, "{report:?}");
    assert_eq!(*outcome(&events), RunOutcome::NeedsInput);
    let asked = harness.model.requests().last().unwrap().outline();
    assert!(asked.last().unwrap().contains("keep above all: the port number"), "{asked:?}");
    harness.run("go on").await;
    let outline = harness.model.requests().last().unwrap().outline();
    assert!(outline[0].contains("look at all of it"));
    assert!(outline.iter().any(|line| line.contains("port 8123")), "{outline:?}");
    assert!(outline.last().unwrap().contains("go on"));
}

#[tokio::test]
async fn a_compaction_with_nothing_to_leave_out_asks_no_model_and_says_so() {
    let model = ScriptedModel::new([reply([text("hello")])]);
    let mut harness = AgentHarness::start(model, options());
    for _ in 0..2 {
        let events = compact(&mut harness, None).await;
        assert!(compactions(&events).is_empty());
        let is_told = |event: &Arc<Envelope>| matches!(&event.event, AgentEvent::Notice { text, .. } if text.contains("nothing to compact"));
        assert!(events.iter().any(is_told), "{events:?}");
        if harness.model.requests().is_empty() {
            harness.run("hi").await;
        }
    }
    assert_eq!(harness.model.requests().len(), 1);
}

#[tokio::test]
async fn a_cancelled_compaction_leaves_the_conversation_as_it_was() {
    let plays = steps(8).into_iter().chain([reply([text("done")]), reply([text("again")])]);
    let model =
        ScriptedModel::new(plays).with_window(None).with_summary(Play::Stall("## Goal".to_owned()));
    let mut harness = AgentHarness::start(model, options());
    harness.run("look at all of it").await;
    let sent = harness.model.requests().last().unwrap().messages.len();
    let run = harness.handle.compact(None).unwrap();
    harness.model.wait_for_request(10).await;
    assert!(harness.handle.cancel_run(&run));
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(*outcome(&events), RunOutcome::Cancelled);
    assert!(compactions(&events).is_empty());
    harness.run("go on").await;
    // The reply and the new prompt came to it.
    assert_eq!(harness.model.requests().last().unwrap().messages.len(), sent + 2);
}

#[tokio::test]
async fn what_was_left_out_is_found_with_recall_which_is_offered_from_then_on() {
    let find = |id: &str, arguments| reply([call(id, "recall", arguments)]);
    let plays = steps(8).into_iter().chain([
        reply([text("The secret word is xylophone.")]),
        find("r1", json!({"id": "c1"})),
        find("r2", json!({"query": "SECRET word"})),
        find("r3", json!({"query": "*(", "id": "c1"})),
        find("r4", json!({"query": "*("})),
        find("r5", json!({"id": "c77"})),
        reply([text("found")]),
    ]);
    let model =
        ScriptedModel::new(plays).with_window(None).with_summary(reply([text("## Goal\nlook")]));
    let mut harness = AgentHarness::start(model, options());
    harness.run("look at all of it").await;
    assert!(
        harness.model.requests().iter().all(|request| !request.tools.contains(&"recall".into()))
    );
    compact(&mut harness, None).await;
    harness.run("what was it?").await;
    let requests = harness.model.requests();
    assert!(requests.last().unwrap().tools.contains(&"recall".into()));
    let outline = requests.last().unwrap().outline();
    let found: Vec<_> = outline.iter().rev().step_by(2).take(5).collect();
    assert!(found[4].contains(OUTPUT.lines().next().unwrap()), "{found:#?}");
    assert!(found[3].contains("line 1: The secret word is xylophone."), "{found:#?}");
    assert!(found[2].contains("either query or id"), "{found:#?}");
    assert!(found[1].contains("nothing in this session matches"), "{found:#?}");
    assert!(found[0].contains("no call of this session with that id"), "{found:#?}");
}

#[tokio::test]
async fn a_placeholder_names_the_id_with_which_recall_finds_the_output() {
    let plays = steps(20).into_iter().chain([reply([text("done")])]);
    let model = ScriptedModel::new(plays).with_window(Some(WINDOW));
    let mut harness = AgentHarness::start(model, options());
    harness.run("look at all of it").await;
    let last = harness.model.requests()[20].outline();
    assert!(last[2].contains(" bytes, id c0]"), "{}", last[2]);
    assert!(harness.model.requests()[20].tools.contains(&"recall".into()));
}

#[tokio::test]
async fn rules_requests_and_open_failures_survive_ten_compactions() {
    let first = [reply([call("build", "build", json!({}))]), reply([text("It does not build.")])];
    let plays = first.into_iter().chain(steps(160)).chain([reply([text("done")])]);
    let model = ScriptedModel::new(plays)
        .with_window(Some(WINDOW))
        .with_summary(reply([text("## Goal\nlook around")]));
    let options = HarnessOptions {
        tools: tools(vec![("look", Read, Act::Say(OUTPUT)), ("build", Read, Act::Panic)]),
        config: AgentConfig {
            limits: TurnLimits { max_steps: 300, ..TurnLimits::default() },
            ..AgentConfig::default()
        },
        ..HarnessOptions::default()
    };
    let mut harness = AgentHarness::start(model, options);
    harness.run("build it. RULE-7431: never delete anything").await;
    let events = harness.run("REQUEST-2: look at all of it").await;
    assert!(compactions(&events).len() >= 10, "{}", compactions(&events).len());
    assert_eq!(*outcome(&events), RunOutcome::NeedsInput);
    let failure = "panicked";
    for request in harness.model.requests().iter().skip(2) {
        let sent = request.outline().join("\n");
        for needle in ["RULE-7431: never delete anything", "REQUEST-2: look", failure] {
            assert!(sent.contains(needle), "{needle} is not in {sent}");
        }
    }
}
