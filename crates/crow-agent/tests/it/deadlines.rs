//! The time limit of a run is a deadline: it cancels a reply or call in progress.

use std::{sync::Arc, time::Duration};

use crow_agent::{AcpAgent, AcpAgentParts, EndTools};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::{AgentEvent, Envelope, RunOutcome},
    message::Block,
    tool::ToolCategory::Execute,
    turn::{LimitKind, RunLimits, TurnEnd},
};
use crow_runtime::RuntimeConfig;
use crow_testkit::{
    TokioClock,
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply},
};
use serde_json::json;
use tokio::time::Instant;

use crate::tools::{Act, tools};

const MAX_TIME: Duration = Duration::from_secs(2);

fn start(plays: impl IntoIterator<Item = Play>) -> AgentHarness {
    let options = HarnessOptions {
        tools: tools([("wait", Execute, Act::Obey)]),
        runtime: RuntimeConfig { clock: Arc::new(TokioClock::start()), ..RuntimeConfig::default() },
        ..HarnessOptions::default()
    };
    AgentHarness::start_composed(ScriptedModel::new(plays), options, |primary| {
        AcpAgent::new(AcpAgentParts {
            name: "builder".to_owned(),
            description: String::new(),
            primary,
            coagents: Vec::new(),
            control_flow: ControlFlow::Hitl,
            consensus: Consensus::default(),
            handoff: None,
            limits: RunLimits { max_time: Some(MAX_TIME), ..RunLimits::default() },
            end_tools: EndTools::default(),
        })
        .unwrap()
    })
}

fn ends(events: &[Arc<Envelope>]) -> (TurnEnd, RunOutcome) {
    let turn = events.iter().find_map(|event| match &event.event {
        AgentEvent::TurnComplete { end, .. } => Some(end.clone()),
        _ => None,
    });
    match &events.last().unwrap().event {
        AgentEvent::RunEnd { result, .. } => (turn.unwrap(), result.clone()),
        other => panic!("the last event is {other:?}"),
    }
}

fn out_of_time() -> (TurnEnd, RunOutcome) {
    let end = TurnEnd::Budget { limit: LimitKind::Time };
    (end.clone(), RunOutcome::Stopped { reason: end })
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cancels_a_reply_that_does_not_end() {
    let mut harness = start([Play::Stall("hm".to_owned())]);
    let started = Instant::now();
    let events = harness.run("do it").await;
    assert_eq!(ends(&events), out_of_time());
    assert!((MAX_TIME..MAX_TIME * 2).contains(&started.elapsed()), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cancels_a_running_call_and_answers_it() {
    let mut harness = start([reply([call("a", "wait", json!({}))])]);
    let started = Instant::now();
    let events = harness.run("do it").await;
    assert_eq!(ends(&events), out_of_time());
    assert!((MAX_TIME..MAX_TIME * 2).contains(&started.elapsed()), "{:?}", started.elapsed());
    let is_answer = |event: &&Arc<Envelope>| matches!(event.event, AgentEvent::CallEnd { .. });
    assert_eq!(events.iter().filter(is_answer).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_the_deadline_ends_the_run_as_cancelled() {
    let mut harness = start([Play::Stall("hm".to_owned())]);
    harness.handle.send_input(vec![Block::text("do it")]).unwrap();
    harness.until(|event| matches!(event, AgentEvent::TextDelta { .. })).await;
    harness.handle.interrupt();
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    assert_eq!(ends(&events), (TurnEnd::Cancelled, RunOutcome::Cancelled));
}
