use std::sync::Arc;

use crow_core::{
    context::TokenEstimator,
    event::{AgentEvent, AgentRole, Envelope, InputSource},
    history::{History, is_user_input},
    ids::{CallId, MessageId, ReplyId, SessionId},
    message::{
        Block, CallArguments, Message, Origin, ReplyBlock, ReplyContent, ToolCall, UserMessage,
    },
    model::StopReason,
    tool::ToolResult,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// One step of a conversation.
#[derive(Debug, Clone)]
enum Step {
    User(usize),
    /// A reply with calls: the size of each output, and true if the call failed.
    Calls(Vec<(usize, bool)>),
    Text(usize),
}

fn words(count: usize) -> String {
    "word ".repeat(count)
}

fn envelope(seq: u64, event: AgentEvent) -> Envelope {
    Envelope {
        seq: Some(seq),
        time: jiff::Timestamp::UNIX_EPOCH,
        session_id: SessionId::new("s"),
        root_id: SessionId::new("s"),
        agent: "builder".into(),
        role: AgentRole::Primary,
        parent: None,
        round: 1,
        event,
    }
}

fn reply(id: &str, blocks: Vec<ReplyBlock>) -> AgentEvent {
    AgentEvent::Reply {
        reply_id: ReplyId::new(id),
        blocks,
        stop: StopReason::ToolUse,
        origin: Origin {
            dialect: "chat".into(),
            provider: "p".into(),
            base_url: "u".into(),
            model: "m".into(),
        },
        response_id: None,
    }
}

fn call(id: &str, tool: &str, argument: &str) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Call(ToolCall {
        id: CallId::new(id),
        name: tool.into(),
        arguments: CallArguments::Json(json!({"argument": argument})),
    }))
}

fn text(text: String) -> ReplyBlock {
    ReplyBlock::without_native_item(ReplyContent::Text { text })
}

/// A session with events that are numbered as they come.
#[derive(Default)]
struct Session {
    history: History,
    seq: u64,
}

impl Session {
    fn of(steps: &[Step]) -> Self {
        let mut session = Self::default();
        for step in steps {
            session.step(step);
        }
        session
    }

    fn add(&mut self, event: AgentEvent) {
        self.seq += 1;
        self.history.apply(&envelope(self.seq, event)).unwrap();
    }

    fn user(&mut self, text: &str) {
        let message_id = MessageId::new(format!("m{}", self.seq));
        let content = vec![Block::text(text)];
        let source = InputSource::Prompt;
        self.add(AgentEvent::UserInput { message_id, source, context: None, content });
    }

    fn call(&mut self, tool: &str, argument: &str, result: ToolResult) {
        let id = format!("c{}", self.seq);
        self.add(reply(&format!("r{}", self.seq), vec![call(&id, tool, argument)]));
        self.end(&id, tool, result);
    }

    fn end(&mut self, id: &str, tool: &str, result: ToolResult) {
        self.add(AgentEvent::CallEnd {
            call_id: CallId::new(id),
            reply_id: ReplyId::new("r"),
            tool: tool.into(),
            result,
            denial: None,
        });
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::User(size) => self.user(&words(*size)),
            Step::Text(size) => {
                self.add(reply(&format!("r{}", self.seq), vec![text(words(*size))]));
            }
            Step::Calls(outputs) => {
                let first = self.seq;
                let ids: Vec<_> =
                    (0..outputs.len()).map(|index| format!("c{first}-{index}")).collect();
                let blocks = ids.iter().map(|id| call(id, "bash", id)).collect();
                self.add(reply(&format!("r{first}"), blocks));
                for (id, (size, fails)) in ids.iter().zip(outputs) {
                    let output = words(*size);
                    let result = if *fails {
                        ToolResult::failure(output)
                    } else {
                        ToolResult::success(output)
                    };
                    self.end(id, "bash", result);
                }
            }
        }
    }

    fn messages(&self) -> Vec<Arc<Message>> {
        self.history.messages().unwrap().to_vec()
    }

    fn compact(&mut self, plan: &CompactionPlan, summary: &str) {
        self.add(AgentEvent::Compaction {
            summary: summary.into(),
            first_kept: plan.first_kept.clone(),
            kept: plan.kept.clone(),
            masked: plan.masked.clone(),
            report: None,
        });
    }
}

fn counter() -> TokenEstimator {
    TokenEstimator::new("", &[])
}

fn tokens(messages: &[Arc<Message>]) -> u64 {
    let counter = counter();
    messages.iter().map(|message| counter.message(message)).sum()
}

#[test]
fn the_limits_of_usual_windows() {
    let limits: Vec<_> = [4_096, 8_192, 32_768, 131_072, 200_000, 1_000_000]
        .map(|window| WindowLimits::new(window, Some(8_192)))
        .iter()
        .map(|limits| {
            (limits.trigger, limits.target, limits.tail, limits.user_messages, limits.summary)
        })
        .collect();
    assert_eq!(
        limits,
        [
            (2_909, 1_740, 727, 581, 400),
            (5_817, 3_480, 1_454, 1_163, 727),
            (23_266, 13_920, 5_816, 4_653, 2_908),
            (109_830, 65_880, 20_000, 20_000, 6_000),
            (170_000, 102_000, 20_000, 20_000, 6_000),
            (850_000, 510_000, 20_000, 20_000, 6_000),
        ]
    );
}

#[test]
fn an_empty_window_has_limits_of_nothing() {
    let limits = WindowLimits::new(0, None);
    assert_eq!((limits.trigger, limits.target, limits.tail), (0, 0, 0));
}

#[test]
fn a_file_that_was_read_again_is_masked_before_others() {
    let mut session = Session::default();
    session.user("do it");
    for _ in 0..4 {
        session.call("read_file", "a.rs", ToolResult::success(words(2_000)));
    }
    session.call("read_file", "b.rs", ToolResult::success(words(2_000)));
    session.call("bash", "ls", ToolResult::success(words(6_000)));
    let limits = WindowLimits::new(32_768, None);
    let messages = session.messages();
    let plan = plan_masking(&messages, &counter(), 0, &limits).unwrap();
    assert_eq!(plan.masked, ["c1", "c3", "c5"].map(CallId::new));
    assert_eq!(plan.cut, 0);
}

#[test]
fn errors_are_not_masked() {
    let mut session = Session::default();
    session.user("do it");
    session.call("bash", "make", ToolResult::failure(words(9_000)));
    session.call("bash", "make all", ToolResult::success(words(9_000)));
    session.call("bash", "ls", ToolResult::success(words(3_000)));
    let limits = WindowLimits::new(32_768, None);
    let plan = plan_masking(&session.messages(), &counter(), 0, &limits);
    assert_eq!(plan.unwrap().masked, ["c3"].map(CallId::new));
}

#[test]
fn outputs_that_the_model_has_not_seen_are_not_masked() {
    let mut session = Session::default();
    session.user("do it");
    session.call("bash", "cat big", ToolResult::success(words(20_000)));
    let limits = WindowLimits::new(32_768, None);
    assert_eq!(plan_masking(&session.messages(), &counter(), 0, &limits), None);
}

#[test]
fn masking_that_does_not_save_enough_is_no_plan() {
    let mut session = Session::default();
    session.user(&words(12_000));
    session.call("bash", "ls", ToolResult::success(words(9_000)));
    let limits = WindowLimits::new(32_768, None);
    assert_eq!(plan_masking(&session.messages(), &counter(), 0, &limits), None);
}

#[test]
fn a_summary_plan_keeps_the_first_and_the_newest_words_of_the_user() {
    let mut session = Session::default();
    session.user("the task and the rules");
    for round in 0..20 {
        session.user(&format!("{round} {}", words(400)));
        session.call("bash", "ls", ToolResult::success(words(800)));
    }
    let limits = WindowLimits::new(32_768, None);
    let messages = session.messages();
    let plan = plan_summary(&messages, &counter(), &limits, CompactionRung::Full).unwrap();
    let inputs: Vec<_> = messages.iter().filter(|message| is_user_input(message)).collect();
    assert_eq!(plan.kept.first(), Some(inputs[0].id()));
    let newest = &plan.kept[1..];
    let before_cut = messages[..plan.cut].iter().filter(|message| is_user_input(message)).count();
    let expected: Vec<_> = inputs[before_cut - newest.len()..before_cut]
        .iter()
        .map(|message| message.id().clone())
        .collect();
    assert_eq!(newest, expected);
    assert!(newest.len() >= 3, "{newest:?}");
}

#[test]
fn a_conversation_of_one_step_cannot_be_summarized() {
    let mut session = Session::default();
    session.user(&words(9_000));
    let limits = WindowLimits::new(8_192, None);
    assert_eq!(plan_summary(&session.messages(), &counter(), &limits, CompactionRung::Least), None);
}

#[test]
fn a_summary_that_is_empty_or_longer_than_what_it_replaces_is_refused() {
    let limits = WindowLimits::new(32_768, None);
    let check = |text: &str, replaced| check_summary(text, &counter(), &limits, replaced);
    assert_eq!(check(" \n", 5_000), Err(SummaryRejection::Empty));
    assert!(matches!(check(&words(300), 100), Err(SummaryRejection::TooLong { most: 100, .. })));
    assert!(matches!(check(&words(9_000), 20_000), Err(SummaryRejection::TooLong { .. })));
    assert_eq!(check(" They did it. ", 5_000).unwrap(), "They did it.");
}

#[test]
fn a_failure_is_open_until_the_same_call_succeeds() {
    let mut session = Session::default();
    session.user("do it");
    session.call("bash", "make", ToolResult::failure("no rule to make"));
    session.call("bash", "lint", ToolResult::failure("unused variable"));
    session.call("bash", "make", ToolResult::success("built"));
    let messages = session.messages();
    let failures = open_failures(&messages, messages.len());
    let outputs: Vec<_> = failures.iter().map(|failure| failure.output.as_str()).collect();
    assert_eq!(outputs, ["unused variable"]);
    let summary = compose_summary("They built it.", &failures, Some("[ ] lint"));
    assert!(summary.starts_with("They built it.\n"));
    assert!(summary.contains("unused variable") && summary.ends_with("[ ] lint"));
}

#[test]
fn open_failures_are_carried_from_one_summary_to_the_next() {
    let failure =
        |call: &str, output: &str| OpenFailure { call: call.into(), output: output.into() };
    let before = [failure("bash make", "no rule\n\n- to make it"), failure("bash lint", "unused")];
    let text = compose_summary("They built it.", &before, Some("[ ] lint"));
    let text = crow_core::message::wrap_in_tag("summary", "the conversation before", &text);
    let id = MessageId::new("compaction-7");
    let summary = Message::User(UserMessage { id, content: vec![Block::text(text)] });
    let mut session = Session::default();
    session.call("bash", "look", ToolResult::success("ok"));
    let mut messages = vec![Arc::new(summary)];
    messages.extend(session.messages());
    assert_eq!(open_failures(&messages, messages.len()), before);
    let Message::Assistant(look) = messages[1].as_ref() else { unreachable!() };
    let call = look.calls().next().unwrap();
    let line = format!("bash {}", call.arguments.to_object());
    let solved = compose_summary("", &[failure(&line, "it failed"), before[1].clone()], None);
    let id = MessageId::new("compaction-8");
    let content = vec![Block::text(solved)];
    messages[0] = Arc::new(Message::User(UserMessage { id, content }));
    assert_eq!(open_failures(&messages, messages.len()), [before[1].clone()]);
}

#[test]
fn a_mechanical_summary_names_the_newest_steps_within_its_limit() {
    let mut session = Session::default();
    session.user("do it");
    for number in 0..400 {
        session.call("bash", &format!("make step-{number}"), ToolResult::success("ok"));
    }
    let limits = WindowLimits::new(32_768, None);
    let summary = mechanical_summary(&session.messages(), &counter(), &limits);
    assert!(summary.contains("step-399\"}: ok") && !summary.contains("step-0\""));
    assert!(summary.contains("earlier replies left out"));
    assert!(counter().text(&summary) <= limits.summary + 40, "{}", counter().text(&summary));
}

#[test]
fn compactions_without_calls_or_growth_between_them_have_to_wait_for_progress() {
    let mut cooldown = Cooldown::default();
    for _ in 0..3 {
        assert!(cooldown.permits(1_000));
        cooldown.on_compaction(1_000, 900);
        cooldown.on_model_call();
    }
    assert!(!cooldown.permits(1_000));
    assert!(cooldown.permits(1_100), "the request has grown");
    cooldown.on_model_call();
    cooldown.on_model_call();
    assert!(cooldown.permits(1_000), "there were three calls");
}

#[test]
fn calls_or_growth_between_compactions_are_progress() {
    let (mut calls, mut growth) = (Cooldown::default(), Cooldown::default());
    for _ in 0..9 {
        calls.on_compaction(1_000, 900);
        (0..3).for_each(|_| calls.on_model_call());
        growth.on_compaction(1_200, 900);
    }
    assert!(calls.permits(900) && growth.permits(900));
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1_usize..600).prop_map(Step::User),
        (1_usize..300).prop_map(Step::Text),
        prop::collection::vec((0_usize..3_000, any::<bool>()), 1..4).prop_map(Step::Calls),
    ];
    prop::collection::vec(step, 2..60)
}

fn rung() -> impl Strategy<Value = CompactionRung> {
    prop::sample::select(vec![CompactionRung::Full, CompactionRung::Tight, CompactionRung::Least])
}

proptest! {
    /// The history accepts every plan, so no result loses its call; the first and last words of the user and the
    /// newest failures stay; and the size afterwards is what the plan says.
    #[test]
    fn a_plan_can_be_applied_and_keeps_what_must_stay(
        steps in steps(),
        rung in rung(),
        window in prop::sample::select(vec![8_192_u64, 32_768, 200_000]),
    ) {
        let mut session = Session::default();
        session.user("the task");
        for step in &steps {
            session.step(step);
        }
        let limits = WindowLimits::new(window, None);
        let before = session.messages();
        if let Some(plan) = plan_summary(&before, &counter(), &limits, rung) {
            session.compact(&plan, "");
            let after = session.messages();
            prop_assert_eq!(after[0].id(), before[0].id());
            prop_assert!(after.len() <= before.len());
            prop_assert!(tokens(&after) <= plan.tokens + 20 * u64::try_from(plan.masked.len()).unwrap());
            prop_assert!(tokens(&after) <= tokens(&before));
            let last_input = |messages: &[Arc<Message>]| {
                messages.iter().rfind(|message| is_user_input(message)).map(|message| message.id().clone())
            };
            prop_assert_eq!(last_input(&after), last_input(&before));
        }
    }

    /// Masking keeps every message, and what it says of the size is true.
    #[test]
    fn masking_keeps_every_message_and_reaches_the_target(steps in steps()) {
        let mut session = Session::of(&steps);
        let limits = WindowLimits::new(32_768, None);
        let before = session.messages();
        if let Some(plan) = plan_masking(&before, &counter(), 0, &limits) {
            session.compact(&plan, "");
            let after = session.messages();
            prop_assert_eq!(after.len(), before.len());
            prop_assert!(tokens(&after) <= limits.target);
        }
    }

    /// However often it is compacted, the first message and the last words of the user are there word for word.
    #[test]
    fn repeated_compactions_keep_the_first_and_the_last_input(steps in prop::collection::vec(steps(), 1..8)) {
        let limits = WindowLimits::new(8_192, None);
        let mut session = Session::default();
        session.user("the task and the rules of the project");
        let first = session.messages()[0].clone();
        for part in &steps {
            session.user("the newest request");
            for step in part.iter().filter(|step| !matches!(step, Step::User(_))) {
                session.step(step);
            }
            let messages = session.messages();
            let newest = messages.iter().rfind(|message| is_user_input(message)).unwrap().clone();
            if let Some(plan) = plan_summary(&messages, &counter(), &limits, CompactionRung::Full) {
                session.compact(&plan, "a summary");
            }
            let after = session.messages();
            prop_assert_eq!(&after[0], &first);
            prop_assert!(after.contains(&newest));
        }
    }
}
