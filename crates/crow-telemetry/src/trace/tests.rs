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
