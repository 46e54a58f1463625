//! Agents for tests.

use std::{sync::Arc, time::Duration};

use crow_core::{
    capability::Answerer,
    event::{AgentEvent, AgentRole, Envelope, NoticeAudience, NoticeLevel},
    ids::ReplyId,
    model::ToolDefinition,
    permission::{PermissionMode, PermissionPolicy},
    tool::{DelegatedTool, ToolCategory, ToolRegistry},
};
use crow_runtime::{
    AgentAccess, AgentError, AgentHandle, AgentInternals, AgentSession, ChildSpec, Observer,
    ObserverItem, RuntimeConfig, SessionSpec,
};
use crow_testkit::telemetry::CheckedRuntime;
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{ScriptedModel, call, reply, text},
};
use futures_util::StreamExt as _;
use proptest::test_runner::Config as ProptestConfig;
use serde_json::json;

pub(crate) const SOON: Duration = Duration::from_secs(1);
/// Number of events that exceeds the capacity of every queue of the runtime.
pub(crate) const MANY: usize = 3000;

pub(crate) fn create(config: &RuntimeConfig) -> AgentSession {
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), "/");
    AgentSession::create(config, spec).unwrap()
}

pub(crate) fn spawn<F, Fut>(agent: F) -> (CheckedRuntime, AgentHandle)
where
    F: FnOnce(AgentInternals) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    spawn_with(RuntimeConfig::default(), agent)
}

pub(crate) fn spawn_with<F, Fut>(config: RuntimeConfig, agent: F) -> (CheckedRuntime, AgentHandle)
where
    F: FnOnce(AgentInternals) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    let session = create(&config);
    let runtime = CheckedRuntime::new(config);
    let handle = runtime.spawn(session, agent);
    (runtime, handle)
}

/// Agent that receives input until it is shut down.
pub(crate) async fn idle(mut internals: AgentInternals) -> Result<(), AgentError> {
    loop {
        internals.receive().await?;
    }
}

pub(crate) fn child(agent: &str) -> ChildSpec {
    ChildSpec {
        agent: agent.to_owned(),
        role: AgentRole::Subagent,
        model: ScriptedModel::new([]).resolved(),
        task: "help".to_owned(),
        call_id: None,
        access: AgentAccess::Policy,
    }
}

/// A durable event.
pub(crate) fn notice(text: impl Into<String>) -> AgentEvent {
    let (level, audience) = (NoticeLevel::Info, NoticeAudience::User);
    AgentEvent::Notice { level, audience, text: text.into() }
}

/// A text delta, an event that is not logged.
pub(crate) fn delta(reply: &str, offset: usize, delta: &str) -> AgentEvent {
    let reply_id = ReplyId::new(reply);
    AgentEvent::TextDelta { reply_id, offset: offset as u64, delta: delta.to_owned() }
}

pub(crate) async fn emit_notices(
    internals: &mut AgentInternals,
    count: usize,
) -> Result<(), AgentError> {
    for number in 0..count {
        internals.emit(notice(number.to_string())).await?;
    }
    Ok(())
}

/// Reads an observer to its end and returns everything that it saw.
pub(crate) async fn collect_items(mut observer: Observer) -> Vec<ObserverItem> {
    let mut seen = Vec::new();
    while let Some(observed) = observer.next().await {
        seen.push(observed);
    }
    seen
}

/// Returns the events among these items. Panics if the observer lost events.
pub(crate) fn events(seen: &[ObserverItem]) -> Vec<&Arc<Envelope>> {
    let events = seen.iter().filter_map(|observed| match observed {
        ObserverItem::Event(event) => Some(event),
        ObserverItem::Lagged { .. } | ObserverItem::OpenReply(_) => None,
        ObserverItem::Lost(error) => panic!("{error}"),
    });
    events.collect()
}

/// Returns the sequence numbers of the durable events among these items.
pub(crate) fn seqs(seen: &[ObserverItem]) -> Vec<u64> {
    events(seen).iter().filter_map(|event| event.seq).collect()
}

/// Returns a registry with `deploy`, a tool that is run outside of the agent.
pub(crate) fn deploy_tools() -> ToolRegistry {
    let definition = ToolDefinition {
        name: "deploy".to_owned(),
        description: "Deploys.".to_owned(),
        parameters: json!({"type": "object"}),
    };
    let mut tools = ToolRegistry::new();
    tools.register(DelegatedTool::new(definition, ToolCategory::Execute));
    tools
}

/// Starts an agent whose model calls `deploy` and then replies "done".
pub(crate) fn deploying(mode: PermissionMode, answerer: Arc<dyn Answerer>) -> AgentHarness {
    deploying_ids(["c1"], mode, answerer)
}

/// Starts an agent whose model calls `deploy` twice in one reply.
pub(crate) fn deploying_twice(mode: PermissionMode, answerer: Arc<dyn Answerer>) -> AgentHarness {
    deploying_ids(["c1", "c2"], mode, answerer)
}

fn deploying_ids<const N: usize>(
    ids: [&str; N],
    mode: PermissionMode,
    answerer: Arc<dyn Answerer>,
) -> AgentHarness {
    let calls = ids.map(|id| call(id, "deploy", json!({})));
    let options = HarnessOptions {
        tools: deploy_tools(),
        runtime: RuntimeConfig { answerer, ..RuntimeConfig::default() },
        policy: Some(PermissionPolicy::new(mode)),
        ..HarnessOptions::default()
    };
    AgentHarness::start(ScriptedModel::new([reply(calls), reply([text("done")])]), options)
}

/// Reads the main stream to its end.
pub(crate) async fn collect_events(mut stream: crow_runtime::EventStream) -> Vec<Arc<Envelope>> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

/// Proptest configuration with `default_cases` cases, unless `PROPTEST_CASES` sets another number.
pub(crate) fn cases(default_cases: u32) -> ProptestConfig {
    let defaults = ProptestConfig::default();
    let cases = if defaults.cases == 256 { default_cases } else { defaults.cases };
    ProptestConfig { cases, failure_persistence: None, ..defaults }
}
