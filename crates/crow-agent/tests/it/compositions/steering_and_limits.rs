//! Compositions with steering, interrupts, limits and reopened sessions.

use std::sync::Arc;

use crow_agent::{
    AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent, Handoff, Surroundings, serve,
};
use crow_core::{
    control::ControlFlow,
    event::{AgentEvent, AgentRole, Envelope},
    message::Block,
    model::TextCallNotes,
    tool::ToolCategory,
    turn::RunLimits,
    usage::TokenUsage,
};
use crow_runtime::AgentSession;
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call},
};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::Barrier;

use super::transcript::{Team, all_tools, base, calls, ends, parts, says, transcript};
use crate::tools::{Act, tools};

fn submits() -> Play {
    ends("submit_for_review", "ready")
}

fn approves() -> Play {
    ends("task_complete", "fine")
}

fn is_end(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::RunEnd { .. })
}

/// A builder and a judge that waits in the tool `meet` until the test has sent steering.
struct PausedReview {
    harness: AgentHarness,
    judge: ScriptedModel,
    barrier: Arc<Barrier>,
}

impl PausedReview {
    fn start(builder: Vec<Play>, judge: Vec<Play>, limits: RunLimits) -> Self {
        let barrier = Arc::new(Barrier::new(2));
        let judge = ScriptedModel::new(judge);
        let meet = tools([("meet", ToolCategory::Read, Act::Meet(Arc::clone(&barrier)))]);
        let judge_agent = BaseAgent::new("judge", AgentConfig::default(), judge.resolved(), meet);
        let options = HarnessOptions { tools: all_tools(), ..HarnessOptions::default() };
        let model = ScriptedModel::new(builder);
        let harness = AgentHarness::start_composed(model, options, |primary| {
            let coagents = vec![Coagent::Base(Box::new(judge_agent))];
            let parts = parts(primary, ControlFlow::judge());
            AcpAgent::new(AcpAgentParts { coagents, limits, ..parts }).unwrap()
        });
        Self { harness, judge, barrier }
    }

    /// Sends steering during the review and returns the events up to the end of the run.
    async fn steer_in_review(&mut self, words: &str) -> Vec<Arc<Envelope>> {
        self.harness.handle.send_input(vec![Block::text("fix it")]).unwrap();
        let meets = |event: &AgentEvent| matches!(event, AgentEvent::CallStart { tool, .. } if tool == "meet");
        let mut events = self.harness.until(meets).await;
        self.harness.handle.steer(vec![Block::text(words)]).unwrap();
        self.barrier.wait().await;
        events.extend(self.harness.until(is_end).await);
        events
    }
}

#[tokio::test]
async fn steering_during_an_approving_review_is_handled_before_the_run_ends() {
    let builder = vec![submits(), says("I do that, too.")];
    let judge = vec![calls("meet"), approves(), approves()];
    let mut review = PausedReview::start(builder, judge, RunLimits::default());
    let events = review.steer_in_review("and the docs").await;
    let expected = [
        "user: fix it",
        "builder: [submit_for_review]",
        "judge is told: Review the work of build",
        "judge: [meet]",
        "judge: [task_complete]",
        "judge approves",
        "user interrupts: and the docs",
        "builder: I do that, too.",
        "judge is told: Review the work of build",
        "judge: [task_complete]",
        "judge approves",
        "judge ends it: fine",
        "completed",
    ];
    assert_eq!(transcript(&events), expected);
    let handoff_text =
        format!("{:?}", review.judge.requests().last().unwrap().messages.last().unwrap());
    assert!(
        handoff_text.contains("and the docs"),
        "the judge measures by the new words: {handoff_text}"
    );
}

#[tokio::test]
async fn steering_during_the_last_review_starts_the_next_run() {
    let builder = vec![submits(), submits()];
    let judge = vec![calls("meet"), says("No."), approves()];
    let limits = RunLimits { max_rounds: 1, ..RunLimits::default() };
    let mut review = PausedReview::start(builder, judge, limits);
    let events = review.steer_in_review("and the docs").await;
    assert_eq!(transcript(&events).last().unwrap(), "stopped: the limit of rounds was reached");
    let next =
        tokio::time::timeout(std::time::Duration::from_secs(20), review.harness.until(is_end));
    let next = transcript(&next.await.expect("the words are answered"));
    assert_eq!(next[0], "user: and the docs");
    assert_eq!(next.last().unwrap(), "completed");
}

#[tokio::test]
async fn a_money_limit_without_a_known_price_fails_the_run() {
    let mut team = Team::start_with(ControlFlow::judge(), [], vec![vec![]], |parts| {
        let limits = RunLimits { max_money: Some(1.0), ..RunLimits::default() };
        AcpAgentParts { limits, ..parts }
    });
    let lines = team.run("fix it").await;
    let expected = "failed: max_money limits the run, but the price of scripted/model is unknown: give the price under [models.\"model\"] in the TOML of provider scripted, or take max_money out of the agent's file";
    assert_eq!(lines, ["user: fix it", expected]);
}

#[tokio::test]
async fn an_interrupt_while_a_message_is_generated_cancels_only_the_run() {
    let flow = ControlFlow::Generated { generator_prompt: "Write.".to_owned(), max_rounds: None };
    let script = [says("half"), Play::Stall("- the".to_owned()), ends("task_complete", "all")];
    let mut team = Team::start(flow, script, vec![]);
    team.harness.handle.send_input(vec![Block::text("fix it")]).unwrap();
    team.harness.model.wait_for_request(2).await;
    team.harness.handle.interrupt();
    let events = team.harness.until(is_end).await;
    assert_eq!(transcript(&events).last().unwrap(), "cancelled");
    assert_eq!(team.run("go on").await.last().unwrap(), "completed");
}

#[tokio::test]
async fn an_interrupt_while_a_handoff_is_generated_skips_the_review() {
    let script = [submits(), Play::Stall("Look".to_owned())];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![vec![]], |parts| {
        let handoff = Some(Handoff::Generated { generator_prompt: "Write.".to_owned() });
        AcpAgentParts { handoff, ..parts }
    });
    team.harness.handle.send_input(vec![Block::text("fix it")]).unwrap();
    team.harness.model.wait_for_request(2).await;
    team.harness.handle.interrupt();
    let events = team.harness.until(is_end).await;
    assert_eq!(transcript(&events).last().unwrap(), "cancelled");
    assert!(team.coagents[0].requests().is_empty());
}

#[tokio::test]
async fn the_token_limit_stops_the_run_inside_the_generator() {
    // A reply uses 110 tokens: the primary's is within the limit, the generator's is not.
    let flow = ControlFlow::Generated { generator_prompt: "Write.".to_owned(), max_rounds: None };
    let mut team = Team::start_with(flow, [says("half")], vec![], |parts| {
        let limits = RunLimits { max_tokens: Some(110), ..RunLimits::default() };
        AcpAgentParts { limits, ..parts }
    });
    let lines = team.run("fix it").await;
    assert_eq!(lines.last().unwrap(), "stopped: the limit of tokens was reached");
}

#[tokio::test]
async fn the_token_limit_applies_to_estimated_usage() {
    let silent = |number: usize| Play::Reply {
        blocks: vec![call(&format!("c{number}"), "look", json!({ "n": number }))],
        stop: None,
        usage: TokenUsage::default(),
        text_calls: TextCallNotes::default(),
    };
    let mut team = Team::start_with(ControlFlow::Hitl, (0..100).map(silent), vec![], |parts| {
        let limits = RunLimits { max_tokens: Some(2000), ..RunLimits::default() };
        AcpAgentParts { limits, ..parts }
    });
    let events = team.harness.run(&"several words about it ".repeat(50)).await;
    assert_eq!(transcript(&events).last().unwrap(), "stopped: the limit of tokens was reached");
    assert!(
        events
            .iter()
            .all(|event| { !matches!(event.event, AgentEvent::Usage { estimated: false, .. }) })
    );
}

#[tokio::test]
async fn broken_off_attempts_count_against_the_token_limit() {
    let words = "several words about it ".repeat(50);
    let broken = Play::Retried(words, Box::new(calls("look")));
    let mut team = Team::start_with(ControlFlow::Hitl, [broken], vec![], |parts| {
        // The reply itself uses 110 tokens, the attempt before it more than 200.
        let limits = RunLimits { max_tokens: Some(300), ..RunLimits::default() };
        AcpAgentParts { limits, ..parts }
    });
    let lines = team.run("fix it").await;
    assert_eq!(lines.last().unwrap(), "stopped: the limit of tokens was reached");
}

#[tokio::test]
async fn a_reopened_session_continues_the_session_of_its_reviewer() {
    let judge = vec![approves(), approves()];
    let mut team = Team::start(ControlFlow::judge(), [submits(), submits()], vec![judge]);
    let first = team.harness.run("fix it").await;
    let (id, config) =
        (team.harness.handle.session_id().clone(), team.harness.runtime.config().clone());
    team.harness.handle.shutdown();
    team.harness.handle.wait_for_end().await;
    let (builder, judge) = (team.harness.model.clone(), team.coagents[0].clone());
    let session = AgentSession::open(&config, &id, builder.resolved().info.abilities).unwrap();
    let coagents = vec![Coagent::Base(Box::new(base("reviewer", &judge)))];
    let parts = parts(base("builder", &builder), ControlFlow::judge());
    let agent = AcpAgent::new(AcpAgentParts { coagents, ..parts }).unwrap();
    let surroundings = Surroundings { cwd: team.harness.cwd(), ..Surroundings::default() };
    let handle =
        team.harness.runtime.spawn(session, |internals| serve(agent, surroundings, internals));
    let mut events = handle.stream().unwrap();
    handle.send_input(vec![Block::text("once more")]).unwrap();
    let mut second = Vec::new();
    while second.last().is_none_or(|last: &Arc<Envelope>| !is_end(&last.event)) {
        second.push(events.next().await.unwrap());
    }
    assert_eq!(transcript(&second).last().unwrap(), "completed");
    builder.assert_finished();
    judge.assert_finished();
    let of_coagent = |events: &[Arc<Envelope>]| {
        let event = events.iter().find(|event| event.role == AgentRole::Coagent);
        event.unwrap().session_id.clone()
    };
    assert_eq!(of_coagent(&first), of_coagent(&second));
    assert_eq!(handle.header().children(), [of_coagent(&first)]);
    let [_, again] = &judge.requests()[..] else { panic!("the judge was asked twice") };
    assert!(again.messages.len() > 2, "it remembers its first review");
}

#[tokio::test]
async fn the_advice_of_several_advisers_is_labelled_by_name_only() {
    let script = [says("done?"), ends("task_complete", "all")];
    let advisers = vec![vec![says("Mind the list.")], vec![says("And the docs.")]];
    let mut team = Team::start(ControlFlow::advise(), script, advisers);
    let lines = team.run("fix it").await;
    let message = lines.iter().find(|line| line.contains("hears its reviewer")).unwrap();
    let expected =
        "builder hears its reviewer: reviewer:\nMind the list.\n\nsecond:\nAnd the docs.";
    assert_eq!(message, expected);
}
