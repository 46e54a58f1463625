//! What the control flow costs beside the turns that it drives.

use std::time::Instant;

use crow_agent::{
    AcpAgent, AcpAgentParts, AcpSession, AgentConfig, BaseAgent, Coagent, EndTools, RunInput,
};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::InputSource,
    message::Block,
    tool::ToolRegistry,
    turn::RunLimits,
};
use crow_runtime::{AgentRuntime, AgentSession, RuntimeConfig, SessionSpec};
use crow_testkit::scripted::{ScriptedModel, reply, text};
use tokio_util::sync::CancellationToken;

use crate::table::TableRow;

const ROUNDS: u32 = 500;

fn agent(name: &str, turns: u32) -> BaseAgent {
    // No two texts are the same: nobody goes round in circles here.
    let script = (0..turns).map(|turn| reply([text(&format!("turn {turn}"))]));
    let model = ScriptedModel::new(script).resolved();
    BaseAgent::new(name, AgentConfig::default(), model, ToolRegistry::new())
}

/// Times what `work` does with a session of its own, per round, in microseconds.
async fn time<F, Fut>(work: F) -> f64
where
    F: FnOnce(crow_runtime::AgentInternals) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), crow_runtime::AgentError>> + Send + 'static,
{
    let config = RuntimeConfig::default();
    let runtime = AgentRuntime::new(config.clone());
    let spec = SessionSpec::new("bench", "scripted/model".parse().unwrap(), "/");
    let session = AgentSession::create(&config, spec).unwrap();
    let started = Instant::now();
    let handle = runtime.spawn(session, work);
    assert_eq!(handle.wait_for_end().await.result, Ok(()));
    started.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
}

/// The same turns, told one by one and driven by a control flow.
async fn driven(flow: ControlFlow, has_reviewer: bool) -> f64 {
    let primary = agent("builder", ROUNDS);
    let coagents = if has_reviewer {
        vec![Coagent::Base(Box::new(agent("reviewer", ROUNDS)))]
    } else {
        Vec::new()
    };
    let limits = RunLimits { max_rounds: ROUNDS, ..RunLimits::default() };
    let composed = AcpAgent::new(AcpAgentParts {
        name: "TEAM".to_owned(),
        description: String::new(),
        primary,
        coagents,
        control_flow: flow,
        consensus: Consensus::All,
        handoff: None,
        limits,
        end_tools: EndTools::default(),
    })
    .unwrap();
    time(move |internals| async move {
        let mut session = AcpSession::new(internals, crow_agent::Surroundings::default());
        let input = RunInput::prompt(vec![Block::text("go")]);
        let result = composed.run(&mut session, input, &CancellationToken::new()).await?;
        assert_eq!(result.rounds, ROUNDS);
        Ok(())
    })
    .await
}

/// Turns without anybody who decides what comes after them.
async fn told(agents: Vec<BaseAgent>) -> f64 {
    time(move |mut internals| async move {
        let mut all = Vec::new();
        for agent in agents.iter().skip(1) {
            let spec = crow_runtime::ChildSpec {
                agent: agent.name().to_owned(),
                role: crow_core::event::AgentRole::Coagent,
                model: agent.model().clone(),
                task: String::new(),
                call_id: None,
                access: crow_runtime::AgentAccess::ReadOnly,
            };
            all.push(internals.child(spec).await?);
        }
        let cancel = CancellationToken::new();
        for _ in 0..ROUNDS {
            for (agent, seat) in agents.iter().zip(std::iter::once(&mut internals).chain(&mut all))
            {
                let words = vec![Block::text("Go on with the task.")];
                seat.add_input(InputSource::ControlFlow, None, words).await?;
                agent.execute_turn(seat, &cancel).await?;
            }
        }
        Ok(())
    })
    .await
}

pub(crate) async fn all() -> Vec<TableRow> {
    let alone = driven(ControlFlow::Loop { max_rounds: None }, false).await;
    let alone_told = told(vec![agent("builder", ROUNDS)]).await;
    let pair = driven(ControlFlow::judge(), true).await;
    let pair_told = told(vec![agent("builder", ROUNDS), agent("reviewer", ROUNDS)]).await;
    let row = |what, ours: f64, reference: f64| TableRow {
        what,
        bound: "≤ 1 ms more",
        ours: format!("{:.3} ms", ours / 1e3),
        reference: format!("{:.3} ms (the turns alone)", reference / 1e3),
    };
    vec![
        row("a round of one agent, 500 in a run", alone, alone_told),
        row("a round with a review, 500 in a run", pair, pair_told),
    ]
}
