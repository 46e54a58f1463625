//! Ownership of the end of a run.

use crow_core::{
    control::{CoagentTools, CompletionOwner, ControlFlow},
    event::{AgentEvent, AgentRole, RunOutcome},
};
use crow_testkit::scripted::Play;
use proptest::prelude::*;

use super::transcript::{Team, calls, ends, says};

/// Random replies of a model that calls tools whether it has them or not.
fn plays() -> impl Strategy<Value = Play> {
    prop_oneof![
        "[a-c]".prop_map(|words| says(&words)),
        Just(calls("look")),
        Just(calls("write")),
        Just(ends("task_complete", "done")),
        Just(ends("submit_for_review", "look at it")),
    ]
}

fn flows() -> impl Strategy<Value = ControlFlow> {
    let tools = prop_oneof![
        Just(CoagentTools::None),
        Just(CoagentTools::ReadOnly),
        Just(CoagentTools::Full)
    ];
    prop_oneof![
        (-1_i64..=5).prop_map(|level| ControlFlow::from_level(level).unwrap()),
        (tools, any::<bool>()).prop_map(|(tools, can_terminate)| ControlFlow::Coagent {
            tools,
            can_terminate,
            max_rounds: Some(4),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn only_the_agent_that_owns_the_end_can_complete_a_run(
        flow in flows(),
        primary in proptest::collection::vec(plays(), 40),
        coagent in proptest::collection::vec(plays(), 40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let owner = flow.completion_owner();
        let events = runtime.block_on(async {
            let coagents = match flow.coagent_tools() {
                Some(_) => vec![coagent],
                None => vec![],
            };
            // A script that is too short fails like a provider: the run ends as failed.
            let mut team = Team::start(flow, primary, coagents);
            team.harness.run("go").await
        });
        let role = match owner {
            CompletionOwner::Primary => AgentRole::Primary,
            CompletionOwner::Coagent => AgentRole::Coagent,
        };
        for event in &events {
            if matches!(event.event, AgentEvent::TaskComplete { .. }) {
                prop_assert_eq!(event.role, role);
            }
        }
        let completed = events.iter().any(|event| {
            matches!(&event.event, AgentEvent::RunEnd { result: RunOutcome::Completed { .. }, .. })
        });
        let is_completion = |event: &AgentEvent| matches!(
            event,
            AgentEvent::CallEnd { tool, result, .. } if tool == "task_complete" && !result.is_error()
        );
        let mut owners = events.iter().filter(|event| is_completion(&event.event));
        prop_assert!(owners.all(|event| event.role == role), "only the owner has the tool");
        if completed {
            prop_assert!(events.iter().any(|event| is_completion(&event.event)));
        }
    }
}
