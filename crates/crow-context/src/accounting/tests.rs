use std::time::Duration;

use crow_core::{
    context::TokenEstimator,
    event::{
        AgentEvent, AgentRole, CompactionReport, CompactionTrigger, Envelope, InputSource,
        RequestPrefix,
    },
    ids::{CallId, MessageId, ReplyId, SessionId, UndoId},
    message::{Block, CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{StopReason, ToolDefinition},
    tool::ToolResult,
    usage::TokenUsage,
};
use jiff::Timestamp;
use serde_json::json;

use super::*;

/// What happens between two requests.
type Change = fn(&mut LogBuilder) -> &mut LogBuilder;

/// A log that is written event by event.
struct LogBuilder {
    lines: Vec<Envelope>,
    time: Timestamp,
    model: &'static str,
    replies: usize,
}

impl LogBuilder {
    fn new() -> Self {
        let time = "2026-03-01T09:00:00Z".parse().unwrap();
        Self { lines: Vec::new(), time, model: "m", replies: 0 }
    }

    fn push(&mut self, event: AgentEvent) -> &mut Self {
        let id = SessionId::new("s");
        self.lines.push(Envelope {
            seq: Some(self.lines.len() as u64 + 1),
            time: self.time,
            session_id: id.clone(),
            root_id: id,
            agent: "a".to_owned(),
            role: AgentRole::Primary,
            parent: None,
            round: 1,
            event,
        });
        self
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.time += time;
        self
    }

    fn input(&mut self, id: &str, text: &str) -> &mut Self {
        self.push(AgentEvent::UserInput {
            message_id: MessageId::new(id),
            source: InputSource::Prompt,
            context: (id == "m1").then(|| "the project has rules ".repeat(20)),
            content: vec![Block::text(text)],
        })
    }

    /// A request that reads `cached` of its `input` tokens from the cache, and is answered with a call of `bash`.
    fn request(&mut self, input: u64, cached: u64, output: &str) -> &mut Self {
        self.request_with(input, cached, output, None)
    }

    fn request_with(
        &mut self,
        input: u64,
        cached: u64,
        output: &str,
        prefix: Option<RequestPrefix>,
    ) -> &mut Self {
        self.replies += 1;
        let reply_id = ReplyId::new(format!("r{}", self.replies));
        let call_id = CallId::new(format!("c{}", self.replies));
        let call = ToolCall {
            id: call_id.clone(),
            name: "bash".to_owned(),
            arguments: CallArguments::Json(json!({ "command": "make" })),
        };
        self.push(AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks: vec![ReplyBlock::without_native_item(ReplyContent::Call(call))],
            stop: StopReason::ToolUse,
            origin: Origin {
                dialect: "d".into(),
                provider: "p".into(),
                base_url: "u".into(),
                model: self.model.into(),
            },
            response_id: None,
        });
        self.push(AgentEvent::Usage {
            reply_id: reply_id.clone(),
            usage: TokenUsage {
                input_tokens: input,
                output_tokens: 20,
                cache_read_tokens: cached,
                ..TokenUsage::default()
            },
            estimated: false,
            prefix: prefix.map(Box::new),
        });
        self.push(AgentEvent::CallEnd {
            call_id,
            reply_id,
            tool: "bash".to_owned(),
            result: ToolResult::success(output),
            denial: None,
        })
    }

    fn compaction(&mut self, first_kept: &str, kept: &[&str], summary: &str) -> &mut Self {
        self.push(AgentEvent::Compaction {
            summary: summary.to_owned(),
            first_kept: MessageId::new(first_kept),
            kept: kept.iter().map(|id| MessageId::new(*id)).collect(),
            masked: vec![CallId::new("c3")],
            report: Some(CompactionReport {
                trigger: CompactionTrigger::Window,
                tokens_before: 9000,
                tokens_after: 3000,
            }),
        })
    }

    fn audit(&self) -> ContextAudit {
        ContextAudit::from_log(&self.lines).unwrap()
    }
}

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

fn counter() -> TokenEstimator {
    TokenEstimator::new("", &[])
}

fn causes(log: &LogBuilder) -> Vec<CacheOutcome> {
    log.audit().requests().iter().map(|request| request.cache.clone()).collect()
}

fn share<'a>(usage: &'a ContextUsage, owner: &ContextOwner) -> &'a ContextShare {
    usage.shares.iter().find(|share| share.owner == *owner).unwrap()
}

#[test]
fn the_shares_of_the_last_request_add_up_to_what_the_provider_counted() {
    let mut log = LogBuilder::new();
    log.input("m1", "fix the build").request_with(
        3_000,
        0,
        &"error ".repeat(300),
        Some(prefix("You are a coding agent.", &["bash", "read_file"])),
    );
    let mut audit = log.audit();
    let usage = audit.usage(&counter());
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
    audit = log.audit();
    let usage = audit.usage(&counter());
    assert!(usage.cached().abs_diff(4_000) <= 5, "{usage:?}");
    let outputs = share(&usage, &ContextOwner::Outputs("bash".into()));
    assert!(0 < outputs.cached && outputs.cached < outputs.tokens, "{outputs:?}");
}

#[test]
fn a_request_that_adds_to_the_one_before_is_a_hit() {
    let mut log = LogBuilder::new();
    log.input("m1", "go").request(2_000, 0, "a").request(2_500, 1_920, "b");
    log.request(3_000, 2_432, "c");
    assert_eq!(causes(&log), [CacheOutcome::First, CacheOutcome::Hit, CacheOutcome::Hit]);
}

#[test]
fn a_provider_without_a_cache_has_no_misses() {
    let mut log = LogBuilder::new();
    log.input("m1", "go").request(20_000, 0, "a").request(25_000, 0, "b");
    assert_eq!(causes(&log), [CacheOutcome::First, CacheOutcome::NotReported]);
    assert!(!log.audit().reports_cache());
}

#[test]
fn every_miss_has_its_cause() {
    let miss = |lost, cause| CacheOutcome::Miss { lost, cause };
    let table: [(Change, CacheMissCause); 5] = [
        (|log| log.compaction("r3", &["m1"], "done so far: nothing"), CacheMissCause::Compaction),
        (
            |log| {
                let undo_id = UndoId::new("u1");
                // The fourth line is the result of the first request.
                log.push(AgentEvent::Rewind { undo_id, last_kept: 4 })
            },
            CacheMissCause::Rewind,
        ),
        (
            |log| {
                log.model = "other";
                log
            },
            CacheMissCause::ModelSwitch { before: "p/m".parse().unwrap() },
        ),
        (|log| log.wait(Duration::from_mins(7)), CacheMissCause::Idle(Duration::from_mins(7))),
        (|log| log, CacheMissCause::Provider),
    ];
    for (change, cause) in table {
        let mut log = LogBuilder::new();
        log.input("m1", "go").request(5_000, 0, "a").request(6_000, 4_900, "b");
        log.request(8_000, 5_900, "c");
        change(&mut log).request(9_000, 512, "d");
        assert_eq!(causes(&log).last(), Some(&miss(7_488, cause.clone())), "{cause}");
        log.request(9_500, 8_900, "e");
        assert_eq!(causes(&log).last(), Some(&CacheOutcome::Hit), "after {cause}");
    }
}

#[test]
fn changed_tools_and_prompts_are_named() {
    let mut log = LogBuilder::new();
    log.input("m1", "go").request_with(5_000, 1, "a", Some(prefix("one", &["bash", "old"])));
    log.request_with(6_000, 10, "b", Some(prefix("two", &["bash", "new"])));
    let parts = vec!["system prompt".to_owned(), "new".to_owned(), "old".to_owned()];
    let cause = CacheMissCause::PrefixChanged { parts };
    assert_eq!(causes(&log)[1], CacheOutcome::Miss { lost: 4_990, cause });
}

#[test]
fn the_first_difference_is_told_with_its_message_and_byte() {
    let mut log = LogBuilder::new();
    log.input("m1", "go").request(5_000, 0, "a").request(6_000, 4_900, "a long output");
    log.compaction("r2", &["m1"], "made once").request(4_000, 0, "c");
    let audit = log.audit();
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
    let mut log = LogBuilder::new();
    log.input("m1", "go").request(5_000, 4_000, "a").request(6_000, 4_900, &"b ".repeat(500));
    log.compaction("r2", &["m1"], "made once");
    let usage = log.audit().usage(&counter());
    assert_eq!(usage.cached(), 0);
    assert_eq!(share(&usage, &ContextOwner::Summary).count, 1);
}

#[test]
fn a_log_that_cannot_be_folded_is_refused() {
    let mut log = LogBuilder::new();
    log.input("m1", "go").compaction("unknown", &[], "x");
    assert!(ContextAudit::from_log(&log.lines).is_err());
}
