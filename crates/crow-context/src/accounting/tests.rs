use std::time::Duration;

use crow_core::{
    context::TokenEstimator,
    event::{AgentEvent, RequestPrefix},
    ids::UndoId,
    model::ToolDefinition,
};
use crow_testkit::session_log::{LogBuilder, LoggedRequest};
use serde_json::json;

use super::*;

/// What happens between two requests.
type Change = fn(&mut LogBuilder) -> &mut LogBuilder;

fn prefix(system: &str, tools: &[&str]) -> RequestPrefix {
    let tools: Vec<_> = tools
        .iter()
        .map(|name| ToolDefinition {
            name: (*name).to_owned(),
            description: "A tool that does something useful.".to_owned(),
            parameters: json!({ "type": "object" }),
        })
        .collect();
    RequestPrefix::new(Some(32_000), system, &tools)
}

/// A log that begins with a message of the user after facts about the project.
fn log_with_input(text: &str) -> LogBuilder {
    let mut log = LogBuilder::new();
    log.input_after("m1", &"the project has rules ".repeat(20), text);
    log
}

fn audit(log: &LogBuilder) -> ContextAudit {
    ContextAudit::from_log(log.lines()).unwrap()
}

fn counter() -> TokenEstimator {
    TokenEstimator::new("", &[])
}

fn causes(log: &LogBuilder) -> Vec<CacheOutcome> {
    audit(log).requests().iter().map(|request| request.cache.clone()).collect()
}

fn share<'a>(usage: &'a ContextUsage, owner: &ContextOwner) -> &'a ContextShare {
    usage.shares.iter().find(|share| share.owner == *owner).unwrap()
}

#[test]
fn the_shares_of_the_last_request_add_up_to_what_the_provider_counted() {
    let mut log = log_with_input("fix the build");
    let request = LoggedRequest::new(3_000, 0, "error ".repeat(300));
    log.request_with(
        request.with_prefix(prefix("You are a coding agent.", &["bash", "read_file"])),
    );
    let usage = audit(&log).usage(&counter());
    let outputs = share(&usage, &ContextOwner::Outputs("bash".into())).tokens;
    let calls = share(&usage, &ContextOwner::Calls("bash".into())).tokens;
    let sent = usage.tokens - outputs - calls;
    assert!(sent.abs_diff(3_000) <= 5, "{sent} in {usage:?}");
    assert_eq!((usage.window, usage.largest.len()), (Some(32_000), 1));
    assert!(usage.compaction_at.unwrap() < 32_000);
    assert_eq!(share(&usage, &ContextOwner::ToolDefinitions).count, 2);
    let preface = share(&usage, &ContextOwner::Preface).tokens;
    let words = share(&usage, &ContextOwner::UserMessages).tokens;
    assert!(preface > 10 * words && words > 0, "{preface} and {words}");
    // The provider has said nothing of a cache yet.
    assert_eq!(usage.cached(), 0);
    log.request(4_000, 2_900, "ok");
    let usage = audit(&log).usage(&counter());
    assert!(usage.cached().abs_diff(4_000) <= 5, "{usage:?}");
    let outputs = share(&usage, &ContextOwner::Outputs("bash".into()));
    assert!(0 < outputs.cached && outputs.cached < outputs.tokens, "{outputs:?}");
}

#[test]
fn a_request_that_adds_to_the_one_before_is_a_hit() {
    let mut log = log_with_input("go");
    log.request(2_000, 0, "a").request(2_500, 1_920, "b");
    log.request(3_000, 2_432, "c");
    assert_eq!(causes(&log), [CacheOutcome::First, CacheOutcome::Hit, CacheOutcome::Hit]);
}

#[test]
fn a_provider_without_a_cache_has_no_misses() {
    let mut log = log_with_input("go");
    log.request(20_000, 0, "a").request(25_000, 0, "b");
    assert_eq!(causes(&log), [CacheOutcome::First, CacheOutcome::NotReported]);
    assert!(!audit(&log).reports_cache());
}

#[test]
fn every_miss_has_its_cause() {
    let miss = |lost, cause| CacheOutcome::Miss { lost, cause };
    let table: [(Change, CacheMissCause); 5] = [
        (
            |log| log.compaction("done so far: nothing", "r3", &["m1"], &["c3"]),
            CacheMissCause::Compaction,
        ),
        (
            |log| {
                let undo_id = UndoId::new("u1");
                // The fourth line is the result of the first request.
                log.push(AgentEvent::Rewind { undo_id, last_kept: 4 })
            },
            CacheMissCause::Rewind,
        ),
        (
            |log| log.set_model("other"),
            CacheMissCause::ModelSwitch { before: "p/m".parse().unwrap() },
        ),
        (|log| log.wait(Duration::from_mins(7)), CacheMissCause::Idle(Duration::from_mins(7))),
        (|log| log, CacheMissCause::Provider),
    ];
    for (change, cause) in table {
        let mut log = log_with_input("go");
        log.request(5_000, 0, "a").request(6_000, 4_900, "b");
        log.request(8_000, 5_900, "c");
        change(&mut log).request(9_000, 512, "d");
        assert_eq!(causes(&log).last(), Some(&miss(7_488, cause.clone())), "{cause}");
        log.request(9_500, 8_900, "e");
        assert_eq!(causes(&log).last(), Some(&CacheOutcome::Hit), "after {cause}");
    }
}

#[test]
fn changed_tools_and_prompts_are_named() {
    let mut log = log_with_input("go");
    let (one, two) = (prefix("one", &["bash", "old"]), prefix("two", &["bash", "new"]));
    log.request_with(LoggedRequest::new(5_000, 1, "a").with_prefix(one));
    log.request_with(LoggedRequest::new(6_000, 10, "b").with_prefix(two));
    let parts = vec!["system prompt".to_owned(), "new".to_owned(), "old".to_owned()];
    let cause = CacheMissCause::PrefixChanged { parts };
    assert_eq!(causes(&log)[1], CacheOutcome::Miss { lost: 4_990, cause });
}

#[test]
fn the_first_difference_is_told_with_its_message_and_byte() {
    let mut log = log_with_input("go");
    log.request(5_000, 0, "a").request(6_000, 4_900, "a long output");
    log.compaction("made once", "r2", &["m1"], &["c3"]).request(4_000, 0, "c");
    let audit = audit(&log);
    let difference = audit.requests()[2].difference.clone().unwrap();
    // The first message is the same; in place of the first reply there is the summary.
    assert_eq!(difference.message, 1);
    assert!(difference.before.starts_with("assistant"), "{difference:?}");
    assert!(difference.after.starts_with("user"), "{difference:?}");
    assert_eq!(audit.requests()[1].difference, None);
    let compaction = &audit.compactions()[0];
    assert_eq!((compaction.left_out, compaction.masked.len()), (2, 1));
}

#[test]
fn after_a_compaction_nothing_counts_as_cached_until_the_next_request() {
    let mut log = log_with_input("go");
    log.request(5_000, 4_000, "a").request(6_000, 4_900, &"b ".repeat(500));
    log.compaction("made once", "r2", &["m1"], &["c3"]);
    let usage = audit(&log).usage(&counter());
    assert_eq!(usage.cached(), 0);
    assert_eq!(share(&usage, &ContextOwner::Summary).count, 1);
}

#[test]
fn a_log_that_cannot_be_folded_is_refused() {
    let mut log = log_with_input("go");
    log.compaction("x", "unknown", &[], &["c3"]);
    assert!(ContextAudit::from_log(log.lines()).is_err());
}

#[test]
fn the_parts_of_a_request_add_up_to_what_the_provider_counted() {
    let mut log = LogBuilder::new();
    log.input("m1", "make it work");
    for (input, cached) in [(1_003, 0), (1_507, 1_003), (2_111, 1_507)] {
        log.request(input, cached, &"error: no such file\n".repeat(20));
    }
    for (number, request) in [(1, (1_003, 0)), (2, (1_507, 1_003)), (3, (2_111, 1_507))] {
        let audit = ContextAudit::until_request(log.lines(), number).unwrap();
        let usage = audit.last_request(&counter()).unwrap();
        let sum = |of: fn(&ContextShare) -> u64| usage.shares.iter().map(of).sum::<u64>();
        assert_eq!((sum(|share| share.tokens), sum(|share| share.cached)), request, "{number}");
    }
    assert!(ContextAudit::new().last_request(&counter()).is_none());
}
