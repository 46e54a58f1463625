//! Tests of the fold of events into spans.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use crow_core::{
    event::{AgentEvent, Envelope, ModelCallTiming, RunOutcome, Verdict},
    ids::{CallId, RequestId},
    model::{ProviderError, ProviderErrorKind},
    permission::{DenialSource, PermissionAnswer},
    tool::ToolResult,
    turn::TurnEnd,
    usage::TokenUsage,
};
use crow_testkit::sample::{Story, edit_result};

use super::*;

fn spans(story: &Story) -> Vec<TraceSpan> {
    TraceBuilder::spans(&story.events)
}

/// A run with a call, a question, a reviewer and an end.
fn reviewed_run() -> Story {
    let mut story = Story::run();
    story.wait(1_500).reply("", "I will edit it.", &[("c1", "edit_file")]);
    story.push(AgentEvent::PermissionDecision {
        request_id: RequestId::new("q"),
        call_id: CallId::new("c1"),
        answer: PermissionAnswer::AllowOnce,
        waited_ms: Some(400),
    });
    story.call("c1", "edit_file", "edit src/main.rs", edit_result()).next_reply();
    story.reply("", "Done.", &[]).turn_end(TurnEnd::Text);
    story.with_child("reviewer", |child| {
        child.push(AgentEvent::TurnStart { turn: 1 });
        child.reply("", "It is good.", &[]).turn_end(TurnEnd::Text);
    });
    let (reviewer, verdict) = ("reviewer".to_owned(), Verdict::Approved);
    story.push(AgentEvent::ReviewVerdict { reviewer, verdict });
    story.run_end(RunOutcome::Completed { summary: "Done.".into(), verified: false });
    story
}

/// Writes spans as a tree of names and outcomes.
fn tree(spans: &[TraceSpan]) -> String {
    fn below(
        spans: &[TraceSpan],
        parent: Option<crow_core::trace::SpanId>,
        depth: usize,
        out: &mut String,
    ) {
        let mut children: Vec<_> = spans.iter().filter(|span| span.parent == parent).collect();
        children.sort_by_key(|span| (span.start, span.end));
        for span in children {
            let millis = span.duration().as_millis();
            let outcome = match &span.outcome {
                SpanOutcome::Succeeded => String::new(),
                SpanOutcome::Failed { kind, .. } => format!(" {kind}"),
                SpanOutcome::Cancelled => " cancelled".to_owned(),
                SpanOutcome::Unfinished => " unfinished".to_owned(),
            };
            let (indent, name) = ("  ".repeat(depth), span.name());
            writeln!(out, "{indent}{name} {millis} ms{outcome}").unwrap();
            below(spans, Some(span.id), depth + 1, out);
        }
    }
    let mut out = String::new();
    below(spans, None, 0, &mut out);
    out
}

#[test]
fn a_run_has_turns_with_model_calls_tool_calls_and_waits() {
    insta::assert_snapshot!(tree(&spans(&reviewed_run())), @r"
    run 2250 ms
      builder 2140 ms
        claude-sonnet-4-5 1550 ms
        permission 400 ms
        edit_file 510 ms
        claude-sonnet-4-5 20 ms
      reviewer 60 ms
        claude-sonnet-4-5 40 ms
      verdict 0 ms
    ");
}

#[test]
fn a_run_sums_up_all_agents() {
    let spans = spans(&reviewed_run());
    let SpanWork::Run(run) = &spans.last().unwrap().work else { panic!("the run ends last") };
    assert_eq!((run.model_calls, run.tool_calls, run.waited_ms), (3, 1, 400));
    assert_eq!(run.total_usage().input_tokens, 18_000);
    assert_eq!(run.verdict, Some(Verdict::Approved));
    assert_eq!(run.prompt.as_deref(), Some("Fix the greeting and run the tests"));
    assert_eq!((run.result.as_str(), run.verified), ("completed", false));
}

#[test]
fn every_span_but_a_run_has_a_parent_that_is_given_out_and_ids_are_unique() {
    for story in [reviewed_run(), unfinished_run()] {
        let spans = spans(&story);
        let ids: HashSet<_> = spans.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), spans.len());
        for span in &spans {
            let is_run = matches!(span.work, SpanWork::Run(_));
            assert_eq!(span.parent.is_none(), is_run, "{span:?}");
            assert!(span.parent.is_none_or(|parent| ids.contains(&parent)), "{span:?}");
            assert!(span.start <= span.end && span.trace_id == spans[0].trace_id);
        }
    }
}

/// A run whose process died while a call ran.
fn unfinished_run() -> Story {
    let mut story = Story::run();
    story.reply("", "", &[("c1", "bash")]).start("c1", "bash", "make");
    story
}

#[test]
fn what_has_no_end_is_unfinished() {
    insta::assert_snapshot!(tree(&spans(&unfinished_run())), @r"
    run 50 ms unfinished
      builder 30 ms unfinished
        claude-sonnet-4-5 10 ms
        bash 0 ms unfinished
    ");
}

#[test]
fn a_run_without_an_end_counts_the_calls_that_were_open() {
    let spans = spans(&unfinished_run());
    let run = spans.iter().find_map(|span| match &span.work {
        SpanWork::Run(run) => Some(run),
        _ => None,
    });
    assert_eq!(run.unwrap().tool_calls, 1);
}

#[test]
fn no_span_begins_before_its_parent_or_ends_before_it_begins_if_the_clock_is_set() {
    let mut story = Story::session();
    story.push(AgentEvent::RunStart { run_id: crow_core::ids::RunId::new("run"), settings: None });
    story.wait(-60_000).push(AgentEvent::TurnStart { turn: 1 });
    // A call of an hour by the steady clock, within 10 ms by the other one.
    story.push(usage("r", 5, false, 3_600_000));
    story.reply("", "Yes.", &[("c1", "bash")]).start("c1", "bash", "make");
    story.wait(-60_000);
    let (request_id, call_id) = (RequestId::new("q"), CallId::new("c1"));
    story.push(AgentEvent::QuestionWithdrawn { request_id, call_id });
    story.end("c1", "bash", ToolResult::success(""), None).turn_end(TurnEnd::Text);
    story.run_end(RunOutcome::NeedsInput);
    let spans = spans(&story);
    let start_of = |id| spans.iter().find(|span| Some(span.id) == id).map(|span| span.start);
    for span in &spans {
        assert!(span.start <= span.end, "{span:?}");
        assert!(start_of(span.parent).is_none_or(|start| start <= span.start), "{span:?}");
    }
    assert_eq!(spans.len(), 6);
}

#[test]
fn a_question_belongs_to_the_open_call_though_an_earlier_one_had_the_same_id() {
    let mut story = Story::run();
    story.reply("", "", &[("c1", "bash")]).call("c1", "bash", "one", ToolResult::success(""));
    story.next_reply().reply("", "", &[("c1", "bash")]).start("c1", "bash", "two");
    let (request_id, call_id) = (RequestId::new("q"), CallId::new("c1"));
    story.push(AgentEvent::QuestionWithdrawn { request_id, call_id });
    story.end("c1", "bash", ToolResult::success(""), None).turn_end(TurnEnd::Text);
    story.run_end(RunOutcome::NeedsInput);
    let spans = spans(&story);
    let question = spans.iter().find(|span| matches!(span.work, SpanWork::Question(_))).unwrap();
    let parent = spans.iter().find(|span| Some(span.id) == question.parent).unwrap();
    assert!(matches!(&parent.work, SpanWork::ToolCall(call) if call.title == "two"), "{parent:?}");
}

#[test]
fn an_agent_that_works_in_the_background_is_part_of_the_later_run() {
    let mut story = Story::run();
    story.reply("", "", &[("c1", "task")]).call("c1", "task", "look", ToolResult::success(""));
    story.with_child("helper", |child| {
        child.push(AgentEvent::TurnStart { turn: 1 });
    });
    story.turn_end(TurnEnd::Text).run_end(RunOutcome::NeedsInput);
    let run_id = crow_core::ids::RunId::new("second");
    story.push(AgentEvent::RunStart { run_id, settings: None });
    story.push(AgentEvent::TurnStart { turn: 2 });
    story.with_child("helper", |child| {
        child.reply("", "Found.", &[]).turn_end(TurnEnd::Text);
    });
    story.turn_end(TurnEnd::Text).run_end(RunOutcome::NeedsInput);
    for parent in story.events.iter_mut().filter_map(|event| event.parent.as_mut()) {
        parent.call_id = Some(CallId::new("c1"));
    }
    let spans = spans(&story);
    let last_trace = spans.last().unwrap().trace_id;
    let in_trace: Vec<_> = spans.iter().filter(|span| span.trace_id == last_trace).collect();
    let ids: HashSet<_> = in_trace.iter().map(|span| span.id).collect();
    assert!(in_trace.iter().any(|span| span.agent == "helper"));
    assert!(in_trace.iter().all(|span| span.parent.is_none_or(|id| ids.contains(&id))));
}

#[test]
fn a_resumed_session_closes_the_run_before_and_has_a_trace_for_each_run() {
    let mut story = unfinished_run();
    story.push(AgentEvent::RunStart {
        run_id: crow_core::ids::RunId::new("second"),
        settings: None,
    });
    story.push(AgentEvent::TurnStart { turn: 2 }).reply("", "Yes.", &[]);
    story.run_end(RunOutcome::NeedsInput);
    let spans = spans(&story);
    let mut by_trace: HashMap<_, usize> = HashMap::new();
    for span in &spans {
        *by_trace.entry(span.trace_id).or_default() += 1;
    }
    let mut counts: Vec<usize> = by_trace.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 4]);
}

fn usage(reply: &str, input_tokens: u64, estimated: bool, duration_ms: u64) -> AgentEvent {
    AgentEvent::Usage {
        reply_id: crow_core::ids::ReplyId::new(reply),
        usage: TokenUsage { input_tokens, output_tokens: 5, ..TokenUsage::default() },
        estimated,
        prefix: None,
        timing: Some(ModelCallTiming { duration_ms, first_chunk_ms: Some(30), retries: 1 }),
        request_bytes: None,
    }
}

#[test]
fn attempts_are_part_of_the_call_that_succeeded_and_other_calls_stand_alone() {
    let mut story = Story::run();
    story.wait(5_000).push(usage("reply-0", 100, true, 2_000));
    story.reply("", "Now.", &[]).next_reply();
    // A summary: usage without a reply.
    story.wait(5_000).push(usage("other", 900, false, 3_000)).turn_end(TurnEnd::Text);
    let spans = spans(&story);
    let calls: Vec<_> = spans
        .iter()
        .filter_map(|span| match &span.work {
            SpanWork::ModelCall(call) => {
                Some((call.purpose, call.usage.unwrap().input_tokens, span.duration().as_millis()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(calls[0].0, ModelCallPurpose::Reply);
    assert_eq!(calls[0].1, 6_100);
    assert_eq!(calls[1], (ModelCallPurpose::Other, 900, 3_000));
    assert_eq!(calls.len(), 2);
}

#[test]
fn a_request_that_fails_at_once_is_a_failed_model_call() {
    let mut story = Story::run();
    let provider = Some(ProviderError::new(ProviderErrorKind::Auth, "wrong key"));
    story.wait(200).push(AgentEvent::Error { error: "wrong key".into(), provider });
    let failed = spans(&story);
    let failed = failed.iter().find(|span| matches!(span.work, SpanWork::ModelCall(_))).unwrap();
    let (kind, message) = ("auth".to_owned(), "wrong key".to_owned());
    assert_eq!(failed.outcome, SpanOutcome::Failed { kind, message });
    assert_eq!(failed.name(), "claude-sonnet-4-5");
}

#[test]
fn refused_and_failed_calls_say_so() {
    let mut story = Story::run();
    story.refused("c1", "edit a", DenialSource::User, "not now");
    story.call("c2", "bash", "make", ToolResult::failure("exit code 2\nmore"));
    let kinds: Vec<_> = spans(&story)
        .into_iter()
        .filter(|span| matches!(span.work, SpanWork::ToolCall(_)))
        .map(|span| span.outcome)
        .collect();
    let failed = |kind: &str, message: &str| SpanOutcome::Failed {
        kind: kind.to_owned(),
        message: message.to_owned(),
    };
    assert_eq!(kinds[1], failed("tool_error", "exit code 2"));
    assert!(matches!(&kinds[0], SpanOutcome::Failed { kind, .. } if kind == "denied"));
}

#[test]
fn a_live_stream_gives_the_same_spans_as_its_log() {
    let story = reviewed_run();
    let durable: Vec<&Envelope> =
        story.events.iter().filter(|event| event.event.is_durable()).collect();
    assert_eq!(TraceBuilder::spans(durable), spans(&story));
}

#[test]
fn a_span_survives_json() {
    for span in spans(&reviewed_run()) {
        let text = serde_json::to_string(&span).unwrap();
        assert_eq!(serde_json::from_str::<TraceSpan>(&text).unwrap(), span);
    }
}
