//! Properties that hold for every session.

use std::collections::BTreeMap;

use crow_core::{
    event::{AgentEvent, InputSource, RunOutcome, Verdict},
    ids::{CallId, RequestId, RunId},
    permission::{Denial, DenialSource},
    tool::ToolResult,
};
use proptest::prelude::*;
use serde_json::json;

use super::{
    sample::{Story, bare, everything, show, view, zed},
    screen::Screen,
};
use crate::view::{ClientAbilities, EventSource, replayable};

/// Agent that acts.
#[derive(Debug, Clone, Copy)]
enum Agent {
    Primary,
    Critic,
    Explorer,
}

/// Course of a call, and its outcome.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    Failed,
    Denied,
    Asked,
    Invalid,
    Cancelled,
}

/// A step of a random session.
#[derive(Debug, Clone)]
enum Act {
    Says(Agent, String),
    Calls(Agent, usize, Fate),
    Reviews(bool),
    Prompt,
    Ends,
}

const TOOLS: [&str; 6] =
    ["read_file", "edit_file", "bash", "todo_write", "task_complete", "mcp__x"];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let agent = || prop_oneof![Just(Agent::Primary), Just(Agent::Critic), Just(Agent::Explorer)];
    let fate = prop_oneof![
        Just(Fate::Done),
        Just(Fate::Failed),
        Just(Fate::Denied),
        Just(Fate::Asked),
        Just(Fate::Invalid),
        Just(Fate::Cancelled),
    ];
    let act = prop_oneof![
        (agent(), "[a-zé ]{0,12}").prop_map(|(agent, text)| Act::Says(agent, text)),
        (agent(), 0..TOOLS.len(), fate)
            .prop_map(|(agent, tool, fate)| Act::Calls(agent, tool, fate)),
        any::<bool>().prop_map(Act::Reviews),
        Just(Act::Prompt),
        Just(Act::Ends),
    ];
    prop::collection::vec(act, 0..25)
}

/// Converts acts to the events that the runtime would emit.
#[derive(Debug)]
struct Play {
    story: Story,
    replies: usize,
}

impl Play {
    fn speak(&mut self, agent: Agent) -> &mut Story {
        match agent {
            Agent::Primary => self.story.primary(),
            Agent::Critic => self.story.coagent("critic"),
            Agent::Explorer => self.story.subagent("explorer", "task"),
        }
    }

    fn act(&mut self, act: &Act) {
        self.replies += 1;
        let reply = format!("r{}", self.replies);
        match act {
            Act::Says(agent, text) => {
                let half =
                    text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
                let (first, last) = text.split_at(half);
                self.speak(*agent).reply(&reply, &[first, last], &[]);
            }
            Act::Calls(agent, tool, fate) => self.call(*agent, TOOLS[*tool], *fate, &reply),
            Act::Reviews(approves) => self.review(*approves),
            Act::Prompt => {
                self.story
                    .primary()
                    .tell(AgentEvent::RunStart { run_id: RunId::new("run"), settings: None });
                self.story.input(InputSource::Prompt, "go on");
            }
            Act::Ends => {
                let (run_id, result) = (RunId::new("run"), RunOutcome::NeedsInput);
                self.story.primary().tell(AgentEvent::RunEnd { run_id, result, assessment: None });
            }
        }
    }

    /// Adds a call. Its id may repeat an earlier one, as with some models.
    fn call(&mut self, agent: Agent, tool: &str, fate: Fate, reply: &str) {
        let arguments = json!({"path": "a", "command": "make"});
        let id = format!("c{}", self.replies % 3);
        let story = self.speak(agent);
        story.whole_reply(reply, "", &[(&id, tool, arguments.clone())]);
        let denial = Denial { source: DenialSource::Policy, reason: "no".into() };
        match fate {
            Fate::Done | Fate::Failed | Fate::Cancelled => {
                story.begin(&id, tool, "title", arguments).progress(&id, "out\n");
                let result = match fate {
                    Fate::Failed => ToolResult::failure("bad"),
                    Fate::Cancelled => ToolResult::cancelled(),
                    Fate::Done | Fate::Denied | Fate::Asked | Fate::Invalid => {
                        ToolResult::success("out\nall")
                    }
                };
                story.end(&id, tool, result);
            }
            Fate::Denied => {
                story.pending(&id, tool, "title", arguments);
                story.ended(&id, tool, ToolResult::failure("no"), Some(denial));
            }
            Fate::Asked => {
                story.pending(&id, tool, "title", arguments.clone());
                let (request_id, call_id) = (RequestId::new("q"), CallId::new(id.as_str()));
                let answer = crow_core::capability::PermissionAnswer::AllowOnce;
                story.tell(AgentEvent::PermissionDecision {
                    request_id,
                    call_id,
                    answer,
                    waited_ms: None,
                });
                story.start(&id, tool, "title", arguments).end(&id, tool, ToolResult::success("x"));
            }
            Fate::Invalid => {
                story.end(&id, tool, ToolResult::failure("no such tool"));
            }
        }
    }

    fn review(&mut self, approves: bool) {
        let story = self.story.primary();
        let (from, to) = ("builder".to_owned(), "critic".to_owned());
        story.tell(AgentEvent::Handoff { from, to, prompt: "look".into() });
        self.act(&Act::Says(Agent::Critic, "hm".into()));
        self.act(&Act::Calls(Agent::Critic, 1, Fate::Done));
        let verdict = if approves { Verdict::Approved } else { Verdict::Rejected };
        let reviewer = "critic".to_owned();
        self.story.primary().tell(AgentEvent::ReviewVerdict { reviewer, verdict });
        self.story.tell(AgentEvent::RoundEnd);
    }
}

fn play(acts: &[Act]) -> Story {
    let mut play = Play { story: Story::new(), replies: 0 };
    play.story.whole_reply("first", "", &[("task", "task", json!({"prompt": "look"}))]);
    play.story.begin("task", "task", "explorer", json!({"prompt": "look"}));
    for act in acts {
        play.act(act);
    }
    play.story.primary().end("task", "task", ToolResult::success("found"));
    play.story
}

fn clients() -> [ClientAbilities; 3] {
    [bare(), zed(), everything()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_call_is_shown_once_ends_once_and_a_replay_shows_the_same(acts in acts()) {
        let story = play(&acts);
        for abilities in clients() {
            let live = Screen::of(&story.live(&mut view(abilities.clone())));
            let replayed = Screen::of(&story.replay(&mut view(abilities)));
            prop_assert_eq!(live.open(), 0);
            prop_assert_eq!(live.ends, live.calls.len());
            prop_assert_eq!(titled(&live), titled(&replayed));
            prop_assert_eq!(live.texts, replayed.texts);
        }
    }

    #[test]
    fn lost_transient_events_do_not_change_the_final_state(
        acts in acts(),
        lost in prop::collection::vec(any::<bool>(), 0..200),
    ) {
        let story = play(&acts);
        let mut lost = lost.into_iter();
        let seen: Vec<_> = story
            .events
            .iter()
            .filter(|envelope| envelope.seq.is_some() || !lost.next().unwrap_or(false))
            .cloned()
            .collect();
        for abilities in clients() {
            let complete = Screen::of(&story.live(&mut view(abilities.clone())));
            let screen = Screen::of(&show(&mut view(abilities), &seen, EventSource::Live));
            prop_assert_eq!(screen.open(), 0);
            prop_assert_eq!(titled(&screen), titled(&complete));
            prop_assert_eq!(screen.texts, complete.texts);
        }
    }

    #[test]
    fn settling_at_any_time_leaves_no_call_open(acts in acts(), at in 0..200_usize) {
        let story = play(&acts);
        let at = at.min(story.events.len());
        for abilities in clients() {
            let mut view = view(abilities);
            let mut out = show(&mut view, &story.events[..at], EventSource::Live);
            view.settle(&mut out, "Cancelled.");
            let mut screen = Screen::of(&out);
            prop_assert_eq!(screen.open(), 0);
            screen.take(&show(&mut view, &story.events[at..], EventSource::Live));
            prop_assert_eq!(screen.open(), 0);
            prop_assert_eq!(screen.ends, screen.calls.len());
        }
    }

    #[test]
    fn a_replay_leaves_out_events_that_a_rewind_removed(acts in acts(), kept in 0..20_u64) {
        let mut story = play(&acts);
        let undo_id = crow_core::ids::UndoId::new("u");
        story.tell(AgentEvent::Rewind { undo_id, last_kept: kept });
        let shown = replayable(story.durable());
        let is_rewind = |event: &AgentEvent| matches!(event, AgentEvent::Rewind { .. });
        let mut rest = shown.iter().filter(|envelope| envelope.seq > Some(kept));
        prop_assert!(rest.all(|envelope| is_rewind(&envelope.event)));
    }
}

/// Returns the names and statuses of the calls by id. Titles are left out: in a replay, a call that never started has
/// the tool's name as its title.
fn titled(screen: &Screen) -> BTreeMap<(String, String), (Option<String>, String)> {
    let calls = screen.calls.iter();
    calls
        .map(|(key, call)| (key.clone(), (call.name.clone(), format!("{:?}", call.status))))
        .collect()
}
