//! Tests of reports with sample runs.

use crow_core::{
    event::{AgentEvent, Failure, RunOutcome},
    ids::CallId,
    model::{ModelRef, Price, ProviderError, ProviderErrorKind},
    permission::DenialSource,
    tool::ToolResult,
    turn::TurnEnd,
};
use crow_testkit::sample::{self, Story};

use super::*;

fn build(story: &Story) -> ReportBuilder {
    let mut builder = ReportBuilder::new().with_hints(super::SAMPLE_HINTS);
    story.events.iter().for_each(|envelope| builder.on_event(envelope));
    builder
}

fn report(story: &Story) -> RunReport {
    build(story).report()
}

fn failed(error: &str) -> RunOutcome {
    Failure::other(error).into()
}

fn completed() -> RunOutcome {
    RunOutcome::Completed { summary: "Done.".into(), verified: true }
}

#[test]
fn a_good_run_is_reported() {
    insta::assert_json_snapshot!(report(&sample::good_run()));
}

#[test]
fn a_bad_run_is_reported_with_its_refusals() {
    insta::assert_json_snapshot!(report(&sample::bad_run()));
}

#[test]
fn a_reviewed_run_is_reported() {
    let report = report(&sample::reviewed_run());
    assert_eq!(
        (report.exit_code, report.verified, report.outcome),
        (0, true, ReportOutcome::Completed)
    );
    assert_eq!(report.summary.as_deref(), Some("The greeting is fixed."));
    assert_eq!(report.text, "The greeting is fixed.", "the last reply had no text");
    assert_eq!(report.steps, 2, "those of the reviewer count");
}

#[test]
fn the_error_is_set_if_and_only_if_the_exit_code_is_not_0() {
    let ends = [
        completed(),
        RunOutcome::NeedsInput,
        RunOutcome::Cancelled,
        failed("no"),
        RunOutcome::Stopped { reason: TurnEnd::InvalidCalls },
        RunOutcome::Stopped { reason: TurnEnd::Text },
        RunOutcome::Stopped { reason: TurnEnd::Refusal },
    ];
    for end in ends {
        let mut story = Story::run();
        story.run_end(end.clone());
        let report = report(&story);
        assert_eq!(report.error.is_some(), report.exit_code != 0, "{end:?}");
    }
    assert!(report(&Story::run()).error.is_some(), "a run without an end");
    let error = ErrorReport::new(ExitCode::Usage, "no such option");
    assert_eq!(RunReport::not_started(ExitCode::Usage, error).code(), ExitCode::Usage);
}

fn refused_step() -> Story {
    let mut story = Story::run();
    story.reply("", "", &[("c1", "edit_file")]);
    story.refused("c1", "edit a.rs", DenialSource::Policy, "it changes files").next_reply();
    story
}

#[test]
fn a_refusal_in_the_last_step_with_calls_decides_the_code() {
    let mut answered = refused_step();
    answered.answer("I may not.");
    assert_eq!(report(&answered).exit_code, 6);
    let mut went_on = refused_step();
    went_on
        .reply("", "", &[("c2", "bash")])
        .call("c2", "bash", "ls", sample::command_result(1))
        .next_reply();
    went_on.answer("Another way.");
    assert_eq!(report(&went_on).exit_code, 0);
    let mut complete = refused_step();
    complete.push(AgentEvent::TaskComplete { summary: "Done.".into(), verified: true });
    complete.run_end(completed());
    assert_eq!(report(&complete).exit_code, 0);
    for story in [answered, went_on, complete] {
        assert_eq!(report(&story).refusals.len(), 1, "each refusal is listed");
    }
}

#[test]
fn a_refusal_by_the_user_or_in_a_child_does_not_decide_the_code() {
    let mut by_user = Story::run();
    by_user.reply("", "", &[("c1", "edit_file")]);
    by_user.refused("c1", "edit a.rs", DenialSource::User, "").next_reply().answer("Fine.");
    let mut in_child = Story::run();
    in_child.reply("", "", &[("c1", "task")]);
    in_child.with_child("explorer", |story| {
        story.reply("", "", &[("c1", "edit_file")]);
        story.refused("c1", "edit a.rs", DenialSource::Policy, "read-only");
    });
    in_child.call("c1", "task", "explore", sample::command_result(1)).next_reply().answer("Fine.");
    for story in [by_user, in_child] {
        let report = report(&story);
        assert_eq!((report.exit_code, report.refusals.len()), (0, 1));
    }
}

fn provider_error(kind: ProviderErrorKind) -> AgentEvent {
    let error = ProviderError::new(kind, "");
    AgentEvent::Error { error: error.to_string(), provider: Some(error) }
}

#[test]
fn a_provider_error_followed_by_a_reply_does_not_decide_the_code() {
    let mut story = Story::run();
    story.with_child("explorer", |story| {
        story.push(provider_error(ProviderErrorKind::Auth));
    });
    story.reply("", "Then without it.", &[]).run_end(failed("the disk is full"));
    let report = report(&story);
    assert_eq!(report.exit_code, 1);
    assert_eq!(report.error.unwrap().message, "the disk is full");
}

#[test]
fn a_later_error_without_a_kind_keeps_that_of_the_provider() {
    let mut story = Story::run();
    story.push(provider_error(ProviderErrorKind::Auth));
    story.push(AgentEvent::Error { error: "the turn failed".into(), provider: None });
    story.run_end(failed("the turn failed"));
    let report = report(&story);
    assert_eq!(report.exit_code, 3);
    assert_eq!(report.error.unwrap().code, "auth");
}

#[test]
fn files_stand_in_the_order_of_their_first_change_without_duplicates() {
    let mut story = Story::run();
    let changed = |files: &[&str]| AgentEvent::FilesChanged {
        call_id: CallId::new("c"),
        files: files.iter().map(Into::into).collect(),
        snapshot: None,
    };
    story.push(changed(&["b.rs", "a.rs"]));
    let mut result = ToolResult::success("");
    result.metadata.files_modified = vec!["a.rs".into(), "c.rs".into()];
    story.end("c", "edit_file", result, None).push(changed(&["b.rs"]));
    assert_eq!(report(&story).files_changed, ["b.rs", "a.rs", "c.rs"]);
}

#[test]
fn the_cost_is_set_if_every_price_is_known() {
    let mut builder = build(&sample::good_run());
    assert_eq!(builder.report().usage.cost_usd, None);
    let model = ModelRef { provider: "anthropic".into(), model: "claude-sonnet-4-5".into() };
    assert_eq!(builder.models(), std::slice::from_ref(&model));
    let price =
        Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6.0 };
    builder.set_price(model, price);
    let usage = builder.report().usage;
    assert_eq!(usage.tokens.input_tokens, 18_000);
    let expected = price.cost(&usage.tokens);
    assert!((usage.cost_usd.unwrap() - expected).abs() < 1e-12);
}

#[test]
fn a_new_run_starts_a_new_report() {
    let mut story = sample::bad_run();
    story.prompt("Again").answer("Now it works.");
    let report = report(&story);
    assert_eq!((report.exit_code, report.text.as_str(), report.steps), (0, "Now it works.", 1));
    assert!(report.refusals.is_empty() && report.error.is_none());
    assert_eq!(report.model.as_deref(), Some("anthropic/claude-sonnet-4-5"));
}

#[test]
fn a_verdict_of_the_caller_overrides_the_events() {
    let mut builder = build(&sample::good_run());
    builder.on_failure(ExitCode::Failed, ErrorReport::new(ExitCode::Failed, "the pipe is closed"));
    let failed = builder.report();
    assert_eq!((failed.exit_code, failed.outcome), (1, ReportOutcome::Failed));
    builder.on_interrupt();
    let interrupted = builder.report();
    assert_eq!((interrupted.exit_code, interrupted.outcome), (130, ReportOutcome::Cancelled));
    assert!(interrupted.error.unwrap().hint.unwrap().contains(sample::ROOT));
}
