//! Tests with real agents, tools and snapshots: their events are such as the view expects.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use crow_agent::{
    AcpAgent, AcpAgentParts, AgentConfig, BaseAgent, Coagent, EndTools, Subagent, Subagents, Task,
};
use crow_core::{
    control::{Consensus, ControlFlow},
    event::{AgentEvent, Envelope},
    message::Block,
    tool::{ToolRegistry, TypedToolAdapter},
    turn::RunLimits,
};
use crow_runtime::{AgentAccess, RuntimeConfig, SnapshotLimits, SnapshotStores};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, call, reply, text},
};
use crow_tools::register_builtin;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    sample::{bare, everything, show, updates, zed},
    screen::Screen,
};
use crate::view::{
    ClientAbilities, EventSource, SessionUpdateOut, SessionView, StoredContents, replayable,
};

/// A builder, its reviewer, and a subagent, all with the built-in tools.
struct Team {
    harness: AgentHarness,
    _data: TempDir,
}

impl Team {
    fn new(builder: Vec<Play>, critic: Vec<Play>, explorer: Vec<Play>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("snapshots");
        let stores = SnapshotStores::new(folder, SnapshotLimits::default(), None);
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let runtime = RuntimeConfig {
            snapshots: Some(Arc::new(stores)),
            child_env: BTreeMap::from([path]).into(),
            ..RuntimeConfig::default()
        };
        let base = |name: &str, plays: Vec<Play>| {
            let model = ScriptedModel::new(plays).resolved();
            BaseAgent::new(name, AgentConfig::default(), model, builtin())
        };
        let explorer = AcpAgent::solo(base("explorer", explorer));
        let subagents = Subagents::new(
            vec![Subagent { agent: explorer, access: AgentAccess::Policy }],
            crow_agent::Surroundings::default(),
        );
        let mut tools = builtin();
        tools.register(TypedToolAdapter::new(Task::new(subagents.clone())));
        let options = HarnessOptions {
            tools,
            runtime,
            subagents: Some(Arc::new(subagents)),
            ..HarnessOptions::default()
        };
        let critic = Coagent::Base(Box::new(base("critic", critic)));
        let compose = |primary| parts(primary, critic);
        let harness = AgentHarness::start_composed(ScriptedModel::new(builder), options, compose);
        Self { harness, _data: data }
    }

    fn view(&self, abilities: ClientAbilities) -> SessionView {
        let handle = &self.harness.handle;
        let contents = Arc::new(StoredContents::of(handle));
        SessionView::new(abilities, handle.session_id().clone(), self.harness.cwd(), contents)
    }

    /// Returns the events that a replay shows, from the logs of all agents.
    fn logged(&self) -> Vec<Envelope> {
        let store = &self.harness.runtime.config().store;
        let read = |id| store.read(id).unwrap().events;
        let mut events = read(self.harness.handle.session_id());
        events.extend(self.harness.handle.header().children().iter().flat_map(read));
        replayable(events)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.harness.cwd().join(name)
    }
}

fn builtin() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    register_builtin(&mut tools);
    tools
}

fn parts(primary: BaseAgent, critic: Coagent) -> AcpAgent {
    AcpAgent::new(AcpAgentParts {
        name: "TEAM".to_owned(),
        description: String::new(),
        primary,
        coagents: vec![critic],
        control_flow: ControlFlow::smart(),
        consensus: Consensus::All,
        handoff: None,
        limits: RunLimits::default(),
        end_tools: EndTools::default(),
    })
    .unwrap()
}

fn does(id: &str, tool: &str, arguments: Value) -> Play {
    reply([text(&format!("Step {id}. ")), call(id, tool, arguments)])
}

fn team() -> Team {
    let builder = vec![
        does("1", "bash", json!({"command": "printf 'one\\n' > a.txt; echo made; echo it"})),
        does("2", "read_file", json!({"path": "a.txt"})),
        does("3", "edit_file", json!({"path": "a.txt", "old_string": "one", "new_string": "two"})),
        does("4", "bash", json!({"command": "sed -i s/two/three/ a.txt"})),
        does("5", "bash", json!({"command": "echo no; exit 3"})),
        does("6", "todo_write", json!({"todos": [{"content": "Ship", "status": "in_progress"}]})),
        does("7", "no_such_tool", json!({})),
        does("8", "task", json!({"agent": "explorer", "description": "look", "prompt": "look"})),
        does("9", "submit_for_review", json!({"summary": "ready"})),
    ];
    let explorer = vec![
        does("1", "grep", json!({"pattern": "three"})),
        does("2", "bash", json!({"command": "wc -l a.txt"})),
        reply([text("There is one line.")]),
    ];
    let critic = vec![
        does("1", "write_file", json!({"path": "b.txt", "content": "new\n"})),
        does("2", "task_complete", json!({"summary": "all is well"})),
    ];
    Team::new(builder, critic, explorer)
}

/// Runs the team and returns the live updates of each client.
async fn run(team: &mut Team, clients: &[ClientAbilities]) -> Vec<Vec<SessionUpdateOut>> {
    team.harness.handle.send_input(vec![Block::text("go")]).unwrap();
    let mut events = Vec::new();
    // The runs of other agents end before that of the builder.
    while !events.last().is_some_and(ends_all) {
        events.push(Envelope::clone(&team.harness.events.next().await.unwrap()));
    }
    let end = serde_json::to_value(events.last().unwrap()).unwrap();
    assert_eq!(end["result"]["outcome"], "completed", "{end}");
    let seen = clients.iter().map(|client| {
        let out = show(&mut team.view(client.clone()), &events, EventSource::Live);
        renamed(out, team)
    });
    seen.collect()
}

fn ends_all(envelope: &Envelope) -> bool {
    envelope.parent.is_none() && matches!(envelope.event, AgentEvent::RunEnd { .. })
}

/// Gives the root session the id that it has in made-up sessions.
fn renamed(mut out: Vec<SessionUpdateOut>, team: &Team) -> Vec<SessionUpdateOut> {
    for outgoing in &mut out {
        if *outgoing.session_id.0 == *team.harness.handle.session_id().as_str() {
            outgoing.session_id = super::sample::ROOT.into();
        }
    }
    out
}

#[tokio::test]
async fn work_of_real_agents_is_shown_once_and_the_same_in_a_replay() {
    let mut team = team();
    let clients = [bare(), zed(), everything()];
    let updates_of_clients = run(&mut team, &clients).await;
    for (client, live) in clients.into_iter().zip(updates_of_clients) {
        let replayed = show(&mut team.view(client), &team.logged(), EventSource::Replayed);
        let (live, replayed) = (Screen::of(&live), Screen::of(&renamed(replayed, &team)));
        assert_eq!(live.open(), 0, "{:#?}", live.calls);
        assert_eq!(live.calls, replayed.calls);
        assert_eq!(live.texts, replayed.texts);
        let titles: Vec<_> = live.calls.values().map(|call| call.title.as_str()).collect();
        assert!(titles.iter().any(|title| title.contains("wc -l a.txt")), "{titles:?}");
        assert!(live.calls.values().any(|call| call.name.as_deref() == Some("review")));
        assert!(
            live.texts.iter().any(|(_, text)| text.contains("all is well")),
            "{:#?}",
            live.texts
        );
    }
}

#[tokio::test]
async fn changes_of_real_calls_are_shown_with_the_texts_before_and_after() {
    let mut team = team();
    let live = run(&mut team, &[bare()]).await.remove(0);
    let replayed = show(&mut team.view(bare()), &team.logged(), EventSource::Replayed);
    for out in [live, replayed] {
        let diffs: Vec<_> = updates(&out)
            .into_iter()
            .filter(|update| update["status"] == "completed")
            .filter_map(|update| update["content"].as_array().cloned())
            .flatten()
            .filter(|content| content["type"] == "diff")
            .collect();
        let diff = |file: &str, old: Option<&str>, new: &str| {
            let mut diff = json!({"type": "diff", "path": team.file(file), "newText": new});
            if let Some(old) = old {
                diff["oldText"] = json!(old);
            }
            diff
        };
        let expected = [
            diff("a.txt", None, "one\n"),
            diff("a.txt", Some("one\n"), "two\n"),
            diff("a.txt", Some("two\n"), "three\n"),
            diff("b.txt", None, "new\n"),
        ];
        assert_eq!(diffs, expected);
    }
}

#[tokio::test]
async fn the_terminal_of_a_real_command_has_its_output_once_and_its_exit_code() {
    let mut team = team();
    let live = run(&mut team, &[zed()]).await.remove(0);
    let terminal = |out: &[SessionUpdateOut], id: &str| {
        let updates = updates(out);
        let of_call = updates.iter().filter(|update| update["toolCallId"] == id);
        let (mut data, mut code) = (String::new(), Value::Null);
        for update in of_call {
            data.push_str(update["_meta"]["terminal_output"]["data"].as_str().unwrap_or(""));
            if let Some(exit) = update["_meta"].get("terminal_exit") {
                code = exit["exit_code"].clone();
            }
        }
        (data, code)
    };
    let replayed = show(&mut team.view(zed()), &team.logged(), EventSource::Replayed);
    for out in [live, replayed] {
        let made = ("made\nit\n[exit code 0]".to_owned(), json!(0));
        assert_eq!(terminal(&out, "1"), made);
        assert_eq!(terminal(&out, "5"), ("no\n[exit code 3]".to_owned(), json!(3)));
    }
}
