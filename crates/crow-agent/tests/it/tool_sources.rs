//! Tools of a source, which change while a session is open.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use crow_agent::{AcpAgent, AgentConfig, BaseAgent, Surroundings, serve};
use crow_core::{
    event::{AgentEvent, NoticeLevel},
    message::Block,
    permission::{PermissionMode, PermissionPolicy},
    tool::{SourceNotice, SourcedTools, Tool, ToolCategory, ToolRegistry, ToolSource},
};
use crow_runtime::{AgentSession, RuntimeConfig, SessionSpec};
use crow_testkit::scripted::{ScriptedModel, ScriptedModels, call, reply, text};
use crow_testkit::telemetry::CheckedRuntime;
use futures_util::StreamExt as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::tools::{Act, tools};

/// A source with a list of tool sets; each call of `ready` switches to the next one.
#[derive(Debug, Default)]
struct Steps {
    upcoming: Mutex<VecDeque<Vec<&'static str>>>,
    current: Mutex<Vec<&'static str>>,
    revision: AtomicU32,
    news: Mutex<Vec<SourceNotice>>,
    closed: AtomicBool,
}

impl Steps {
    fn of(steps: &[&[&'static str]]) -> Arc<Self> {
        let upcoming = steps.iter().map(|step| step.to_vec()).collect();
        Arc::new(Self { upcoming: Mutex::new(upcoming), ..Self::default() })
    }
}

#[async_trait]
impl ToolSource for Steps {
    async fn ready(&self, _cancel: &CancellationToken) {
        if let Some(next) = self.upcoming.lock().unwrap().pop_front() {
            let text = format!("now there are {}", next.join(" "));
            *self.current.lock().unwrap() = next;
            self.revision.fetch_add(1, Ordering::SeqCst);
            self.news.lock().unwrap().push(SourceNotice { level: NoticeLevel::Info, text });
        }
    }

    fn tools(&self) -> SourcedTools {
        let names = self.current.lock().unwrap().clone();
        let sourced = |name| (name, ToolCategory::External, Act::Say("sourced"));
        let registry = tools(names.into_iter().map(sourced).collect::<Vec<_>>());
        let tools: Vec<Arc<dyn Tool>> =
            registry.names().map(|name| Arc::clone(registry.get(name).unwrap())).collect();
        let revision = u64::from(self.revision.load(Ordering::SeqCst));
        SourcedTools { revision, tools: tools.into() }
    }

    fn take_notices(&self) -> Vec<SourceNotice> {
        std::mem::take(&mut self.news.lock().unwrap())
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// Runs an agent that takes the tools matching `patterns` from the source, and returns its events.
async fn run(
    model: &ScriptedModel,
    source: Arc<Steps>,
    patterns: &[&str],
    own: ToolRegistry,
) -> Vec<AgentEvent> {
    let folder = tempfile::tempdir().unwrap();
    let config = RuntimeConfig {
        models: Arc::new(ScriptedModels(model.clone())),
        policy: PermissionPolicy::new(PermissionMode::FullAuto),
        ..RuntimeConfig::default()
    };
    let resolved = model.resolved();
    let spec = SessionSpec {
        abilities: resolved.info.abilities,
        ..SessionSpec::new("builder", resolved.info.reference.clone(), folder.path())
    };
    let session = AgentSession::create(&config, spec).unwrap();
    let patterns = patterns.iter().map(|one| (*one).to_owned()).collect();
    let agent =
        BaseAgent::new("builder", AgentConfig::default(), resolved, own).with_sourced(patterns);
    let runtime = CheckedRuntime::new(config);
    let handle = runtime.spawn(session, |internals| {
        assert!(internals.offer_tools(source));
        serve(AcpAgent::solo(agent), Surroundings::default(), internals)
    });
    let mut events = handle.stream().unwrap();
    handle.send_input(vec![Block::text("go")]).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.event.clone());
        if matches!(event.event, AgentEvent::RunEnd { .. }) {
            break;
        }
    }
    seen
}

fn offered(model: &ScriptedModel) -> Vec<Vec<String>> {
    model.requests().into_iter().map(|request| request.tools).collect()
}

fn results(events: &[AgentEvent]) -> Vec<String> {
    let output = |event: &AgentEvent| match event {
        AgentEvent::CallEnd { result, .. } => Some(result.output.clone()),
        _ => None,
    };
    events.iter().filter_map(output).collect()
}

fn notices(events: &[AgentEvent]) -> Vec<String> {
    let notice_text = |event: &AgentEvent| match event {
        AgentEvent::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(notice_text).collect()
}

#[tokio::test]
async fn tools_that_arrive_late_are_offered_with_the_next_request_and_announced() {
    let model = ScriptedModel::new([
        reply([call("a", "look", json!({}))]),
        reply([call("b", "mcp__time__now", json!({}))]),
        reply([text("done")]),
    ]);
    let own = tools(vec![("look", ToolCategory::Read, Act::Say("seen"))]);
    let source = Steps::of(&[&[], &["mcp__time__now"]]);
    let events = run(&model, source, &["mcp__*"], own).await;
    let [first, second, third] = offered(&model).try_into().unwrap();
    assert_eq!(first, ["look", "task_complete"]);
    assert_eq!(second, ["look", "mcp__time__now", "task_complete"]);
    assert_eq!(third, second);
    assert_eq!(results(&events), ["seen", "sourced"]);
    assert_eq!(notices(&events), ["now there are ", "now there are mcp__time__now"]);
}

#[tokio::test]
async fn an_agent_takes_only_tools_that_match_its_patterns_and_keeps_its_own() {
    let model = ScriptedModel::new([
        reply([call("a", "look", json!({}))]),
        reply([call("b", "mcp__git__push", json!({}))]),
        reply([text("done")]),
    ]);
    let own = tools(vec![("look", ToolCategory::Read, Act::Say("own"))]);
    let source = Steps::of(&[&["look", "mcp__git__push", "mcp__time__now"]]);
    let events = run(&model, source, &["mcp__time__*", "look"], own).await;
    assert_eq!(offered(&model)[0], ["look", "mcp__time__now", "task_complete"]);
    let results = results(&events);
    assert_eq!(results[0], "own");
    assert!(results[1].contains("mcp__git__push"), "{results:?}");
}

#[tokio::test]
async fn an_agent_without_patterns_does_not_query_the_tool_source() {
    let model = ScriptedModel::new([reply([text("done")])]);
    let source = Steps::of(&[&["mcp__time__now"]]);
    let events = run(&model, Arc::clone(&source), &[], ToolRegistry::new()).await;
    assert_eq!(offered(&model), [[""; 0]]);
    assert_eq!((notices(&events).len(), source.upcoming.lock().unwrap().len()), (0, 1));
}
