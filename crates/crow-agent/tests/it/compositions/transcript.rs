//! Runs as transcripts, with a line for each relevant event.

use std::sync::Arc;

use crow_agent::{AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent, EndTools};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::{AgentEvent, Envelope, InputSource, RunOutcome, Verdict},
    message::{Block, ReplyContent},
    tool::{ToolCategory, ToolRegistry},
    turn::RunLimits,
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply, text},
};
use serde_json::json;

use crate::tools::{Act, tools};

/// Returns all tools; the control flow decides which of them an agent gets.
pub(super) fn all_tools() -> ToolRegistry {
    tools([
        ("look", ToolCategory::Read, Act::Say("seen")),
        ("write", ToolCategory::Write, Act::Say("written")),
        ("fetch", ToolCategory::Network, Act::Say("fetched")),
        ("delegate", ToolCategory::Agent, Act::Say("delegated")),
        ("run", ToolCategory::Execute, Act::Say("ran")),
        ("think", ToolCategory::Session, Act::Say("thought")),
    ])
}

pub(super) fn base(name: &str, model: &ScriptedModel) -> BaseAgent {
    BaseAgent::new(name, AgentConfig::default(), model.resolved(), all_tools())
}

pub(super) fn parts(primary: BaseAgent, control_flow: ControlFlow) -> AcpAgentParts {
    AcpAgentParts {
        name: "TEAM".to_owned(),
        description: String::new(),
        primary,
        coagents: Vec::new(),
        control_flow,
        consensus: Consensus::All,
        handoff: None,
        limits: RunLimits::default(),
        end_tools: EndTools::default(),
    }
}

/// A primary and the coagents that look at its work.
pub(super) struct Team {
    pub(super) harness: AgentHarness,
    pub(super) coagents: Vec<ScriptedModel>,
}

impl Team {
    /// Starts a team: the primary plays the first script, its coagents the others.
    pub(super) fn start(
        flow: ControlFlow,
        primary: impl IntoIterator<Item = Play>,
        coagents: Vec<Vec<Play>>,
    ) -> Self {
        Self::start_with(flow, primary, coagents, |parts| parts)
    }

    pub(super) fn start_with(
        flow: ControlFlow,
        primary: impl IntoIterator<Item = Play>,
        coagents: Vec<Vec<Play>>,
        change: impl FnOnce(AcpAgentParts) -> AcpAgentParts,
    ) -> Self {
        let coagents: Vec<_> = coagents.into_iter().map(ScriptedModel::new).collect();
        let names = ["reviewer", "second", "third"];
        let agents = coagents.iter().zip(names);
        let agents = agents.map(|(model, name)| Coagent::Base(Box::new(base(name, model))));
        let options = HarnessOptions { tools: all_tools(), ..HarnessOptions::default() };
        let model = ScriptedModel::new(primary);
        let harness = AgentHarness::start_composed(model, options, |builder| {
            let parts = AcpAgentParts { coagents: agents.collect(), ..parts(builder, flow) };
            AcpAgent::new(change(parts)).unwrap()
        });
        Self { harness, coagents }
    }

    /// Runs a prompt and returns its transcript. Every script must have been played to its end.
    pub(super) async fn run(&mut self, prompt: &str) -> Vec<String> {
        let events = self.harness.run(prompt).await;
        self.harness.model.assert_finished();
        self.coagents.iter().for_each(ScriptedModel::assert_finished);
        transcript(&events)
    }
}

pub(super) fn says(words: &str) -> Play {
    reply([text(words)])
}

pub(super) fn calls(tool: &str) -> Play {
    reply([call("c", tool, json!({}))])
}

pub(super) fn ends(tool: &str, summary: &str) -> Play {
    reply([call("e", tool, json!({ "summary": summary }))])
}

/// Returns the transcript of these events: a line for each message, verdict and end.
pub(super) fn transcript(events: &[Arc<Envelope>]) -> Vec<String> {
    events.iter().filter_map(|envelope| line(envelope)).collect()
}

fn line(envelope: &Envelope) -> Option<String> {
    let agent = &envelope.agent;
    Some(match &envelope.event {
        AgentEvent::UserInput { source, content, .. } => {
            let words = Block::text_of(content);
            let first = words.lines().next().unwrap_or_default();
            match source {
                InputSource::Prompt => format!("user: {first}"),
                InputSource::Steering => format!("user interrupts: {first}"),
                InputSource::Reviewer => format!("{agent} hears its reviewer: {words}"),
                InputSource::ControlFlow | InputSource::Generator => {
                    let start: String = first.chars().take(24).collect();
                    format!("{agent} is told: {start}")
                }
            }
        }
        AgentEvent::Reply { blocks, .. } => {
            let words = blocks.iter().map(|block| match &block.content {
                ReplyContent::Text { text } => text.clone(),
                ReplyContent::Call(call) => format!("[{}]", call.name),
                other => format!("{other:?}"),
            });
            format!("{agent}: {}", words.collect::<Vec<_>>().join(" "))
        }
        AgentEvent::CallEnd { tool, result, .. } if result.is_error() => {
            format!("{tool} fails: {}", result.error.clone().unwrap_or_default())
        }
        AgentEvent::ReviewVerdict { reviewer, verdict: Verdict::Approved } => {
            format!("{reviewer} approves")
        }
        AgentEvent::ReviewVerdict { reviewer, verdict: Verdict::Rejected } => {
            format!("{reviewer} does not approve")
        }
        AgentEvent::ReviewVerdict { reviewer, verdict: Verdict::Unfinished } => {
            format!("{reviewer} does not finish")
        }
        AgentEvent::TaskComplete { summary, .. } => format!("{agent} ends it: {summary}"),
        AgentEvent::RunEnd { result, .. } => match result {
            RunOutcome::Completed { .. } => "completed".to_owned(),
            RunOutcome::NeedsInput => "the user's turn".to_owned(),
            RunOutcome::Stopped { reason } => format!("stopped: {reason}"),
            RunOutcome::Cancelled => "cancelled".to_owned(),
            RunOutcome::Failed { error, .. } => format!("failed: {error}"),
        },
        _ => return None,
    })
}
