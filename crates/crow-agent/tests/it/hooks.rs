//! Hooks and termination conditions of the program in the built-in loop.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use crow_agent::{
    AcpAgent, AgentHooks, BaseAgent, HookDecision, RequestDraft, TerminationCondition,
    TextContains, TimeElapsed, TokensUsed, ToolSucceeded, TurnResult,
};
use crow_core::{
    event::{AgentEvent, RunOutcome},
    message::{Block, CallArguments, Message},
    model::ModelReply,
    tool::ToolCategory::Read,
    turn::{RequestedCall, TurnEnd},
};
use crow_runtime::{AgentError, AgentInternals, ExecutedCall};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply, text},
};
use serde_json::json;

use crate::tools::{Act, tools};

fn options() -> HarnessOptions {
    HarnessOptions {
        tools: tools(vec![("look", Read, Act::Say("nothing here"))]),
        ..HarnessOptions::default()
    }
}

fn start(plays: Vec<Play>, change: impl FnOnce(BaseAgent) -> BaseAgent) -> AgentHarness {
    let model = ScriptedModel::new(plays);
    AgentHarness::start_composed(model, options(), |agent| AcpAgent::solo(change(agent)))
}

fn look(id: &str) -> Play {
    reply([call(id, "look", json!({}))])
}

/// Runs a prompt and returns the outcome of the run.
async fn run(harness: &mut AgentHarness) -> RunOutcome {
    match &harness.run("go").await.last().unwrap().event {
        AgentEvent::RunEnd { result, .. } => result.clone(),
        other => panic!("the last event is {other:?}"),
    }
}

fn stopped(reason: &str) -> RunOutcome {
    RunOutcome::Stopped { reason: TurnEnd::Condition { reason: reason.to_owned() } }
}

/// Writes down which hooks ran.
#[derive(Debug, Default)]
struct Recorder {
    seen: Mutex<Vec<String>>,
    /// The hook that ends the turn.
    ends_at: Option<&'static str>,
}

impl Recorder {
    fn record(&self, hook: &str) -> HookDecision {
        self.seen.lock().unwrap().push(hook.to_owned());
        match self.ends_at {
            Some(end) if end == hook => HookDecision::EndTurn(format!("ended at {hook}")),
            Some(_) | None => HookDecision::Continue,
        }
    }
}

#[async_trait]
impl AgentHooks for Recorder {
    async fn before_turn(&self, _agent: &mut AgentInternals) -> Result<HookDecision, AgentError> {
        Ok(self.record("before turn"))
    }

    async fn before_model_call(
        &self,
        _agent: &mut AgentInternals,
        _draft: &mut RequestDraft,
    ) -> Result<HookDecision, AgentError> {
        Ok(self.record("before model call"))
    }

    async fn after_model_call(
        &self,
        _agent: &mut AgentInternals,
        _reply: &ModelReply,
    ) -> Result<HookDecision, AgentError> {
        Ok(self.record("after model call"))
    }

    async fn before_call(
        &self,
        _agent: &mut AgentInternals,
        call: &mut RequestedCall,
    ) -> Result<(), AgentError> {
        self.record(&format!("before {}", call.call.id));
        Ok(())
    }

    async fn after_call(
        &self,
        _agent: &mut AgentInternals,
        call: &ExecutedCall,
    ) -> Result<HookDecision, AgentError> {
        Ok(self.record(&format!("after {}", call.id)))
    }

    async fn after_turn(
        &self,
        _agent: &mut AgentInternals,
        result: &TurnResult,
    ) -> Result<(), AgentError> {
        self.record(&format!("after turn: {}", result.end.name()));
        Ok(())
    }
}

#[tokio::test]
async fn hooks_run_before_and_after_turns_model_calls_and_calls() {
    let hooks = Arc::new(Recorder::default());
    let added: Arc<dyn AgentHooks> = hooks.clone();
    let mut harness =
        start(vec![look("c1"), reply([text("done")])], |agent| agent.with_hooks(added));
    assert_eq!(run(&mut harness).await, RunOutcome::NeedsInput);
    let seen = hooks.seen.lock().unwrap().join(", ");
    assert_eq!(
        seen,
        "before turn, before model call, after model call, before c1, after c1, before model call, after model call, after turn: text"
    );
}

#[tokio::test]
async fn a_hook_ends_the_turn_at_every_point_and_every_call_has_a_result() {
    for (end, requests) in
        [("before turn", 0), ("before model call", 0), ("after model call", 1), ("after c1", 1)]
    {
        let hooks = Arc::new(Recorder { ends_at: Some(end), ..Recorder::default() });
        let plays = vec![look("c1"), reply([text("done")])];
        let mut harness = start(plays, |agent| agent.with_hooks(hooks));
        assert_eq!(run(&mut harness).await, stopped(&format!("ended at {end}")));
        assert_eq!(harness.model.requests().len(), requests, "{end}");
        assert!(harness.handle.history().unwrap().open_calls().is_empty(), "{end}");
    }
}

/// Refuses the first call and replaces the arguments of the others.
#[derive(Debug)]
struct CallEditor;

#[async_trait]
impl AgentHooks for CallEditor {
    async fn before_call(
        &self,
        _agent: &mut AgentInternals,
        call: &mut RequestedCall,
    ) -> Result<(), AgentError> {
        if call.call.id.as_str() == "c1" {
            call.refusal = Some("the office is closed".to_owned());
        } else {
            call.call.arguments = CallArguments::Json(json!({ "where": "here" }));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_hook_refuses_a_call_or_changes_its_arguments() {
    let plays = vec![
        reply([call("c1", "look", json!({})), call("c2", "look", json!({}))]),
        reply([text("done")]),
    ];
    let mut harness = start(plays, |agent| agent.with_hooks(Arc::new(CallEditor)));
    harness.handle.send_input(vec![Block::text("go")]).unwrap();
    let events = harness.until(|event| matches!(event, AgentEvent::RunEnd { .. })).await;
    let started: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event {
            AgentEvent::CallStart { call_id, arguments, .. } => Some((call_id.as_str(), arguments)),
            _ => None,
        })
        .collect();
    assert_eq!(started, [("c2", &json!({ "where": "here" }))]);
    let outline = harness.model.requests()[1].outline();
    assert!(outline.last().unwrap().contains("the office is closed"), "{outline:?}");
}

/// Sends the model the last two messages only.
#[derive(Debug)]
struct LastTwo;

#[async_trait]
impl AgentHooks for LastTwo {
    async fn before_model_call(
        &self,
        agent: &mut AgentInternals,
        draft: &mut RequestDraft,
    ) -> Result<HookDecision, AgentError> {
        let messages = agent.history().messages().unwrap();
        draft.messages = Some(messages[messages.len().saturating_sub(2)..].to_vec());
        Ok(HookDecision::Continue)
    }
}

#[tokio::test]
async fn a_hook_decides_which_messages_the_model_is_sent() {
    let plays = vec![look("c1"), look("c2"), reply([text("done")])];
    let model = ScriptedModel::new(plays).with_views();
    let mut harness = AgentHarness::start_composed(model, options(), |agent| {
        AcpAgent::solo(agent.with_hooks(Arc::new(LastTwo)))
    });
    assert_eq!(run(&mut harness).await, RunOutcome::NeedsInput);
    let requests = harness.model.requests();
    let sent = |index: usize| requests[index].messages.len();
    assert_eq!([sent(0), sent(1), sent(2)], [1, 2, 2]);
    assert!(matches!(requests[2].messages[0].as_ref(), Message::Assistant(_)));
    // The log has all of it.
    assert_eq!(harness.handle.history().unwrap().messages().unwrap().len(), 6);
}

/// Sends a result without its call.
#[derive(Debug)]
struct LastOne;

#[async_trait]
impl AgentHooks for LastOne {
    async fn before_model_call(
        &self,
        agent: &mut AgentInternals,
        draft: &mut RequestDraft,
    ) -> Result<HookDecision, AgentError> {
        draft.messages = agent.history().messages().unwrap().last().map(|last| vec![last.clone()]);
        Ok(HookDecision::Continue)
    }
}

#[tokio::test]
async fn messages_with_a_result_but_not_its_call_are_not_sent() {
    let mut harness = start(vec![look("c1")], |agent| agent.with_hooks(Arc::new(LastOne)));
    let RunOutcome::Failed { error, .. } = run(&mut harness).await else { unreachable!() };
    assert!(error.contains("call c1 and its result"), "{error}");
    assert_eq!(harness.model.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_ends_under_each_condition() {
    async fn ended(plays: Vec<Play>, condition: impl TerminationCondition + 'static) -> RunOutcome {
        run(&mut start(plays, |agent| agent.with_condition(condition))).await
    }
    let plays = || vec![look("c1"), look("c2"), reply([text("done")])];
    let marked = vec![reply([text("GOAL reached"), call("c1", "look", json!({}))])];
    let goal = TextContains("GOAL".to_owned());
    assert_eq!(ended(marked, goal).await, stopped("the model wrote \"GOAL\""));
    let tool = ToolSucceeded("look".to_owned());
    assert_eq!(ended(plays(), tool).await, stopped("look was called"));
    // Each scripted reply uses 110 tokens.
    assert_eq!(ended(plays(), TokensUsed(220)).await, stopped("the turn used 220 tokens"));
    let time = TimeElapsed(std::time::Duration::ZERO);
    assert_eq!(ended(plays(), time).await, stopped("the turn took 0ns"));
    assert_eq!(ended(plays(), ToolSucceeded("other".to_owned())).await, RunOutcome::NeedsInput);
}
