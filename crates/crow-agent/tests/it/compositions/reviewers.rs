//! Several reviewers, reviewers that are compositions, and reviewers that fail.

use crow_agent::{AcpAgent, AcpAgentParts, Coagent, CompositionError};
use crow_core::{
    control::{Consensus, ControlFlow},
    model::{ProviderError, ProviderErrorKind},
    turn::TurnLimits,
};
use crow_testkit::scripted::{Play, ScriptedModel};

use super::transcript::{Team, base, calls, ends, parts, says};

fn approves() -> Vec<Play> {
    vec![ends("task_complete", "fine")]
}

#[tokio::test]
async fn two_of_three_reviewers_approve_by_majority() {
    let coagents = vec![approves(), vec![says("I doubt it.")], approves()];
    let script = [ends("submit_for_review", "done")];
    let mut team = Team::start_with(ControlFlow::judge(), script, coagents, |parts| {
        AcpAgentParts { consensus: Consensus::Majority, ..parts }
    });
    let lines = team.run("fix it").await;
    let votes: Vec<_> =
        lines.iter().filter(|line| line.contains("approve") && !line.contains("ends it")).collect();
    assert_eq!(votes, ["reviewer approves", "second does not approve", "third approves"]);
    assert_eq!(lines.last().unwrap(), "completed");
}

#[tokio::test]
async fn with_consensus_all_one_rejection_is_returned_with_the_reviewers_name() {
    let again = |mut first: Vec<Play>| {
        first.extend(approves());
        first
    };
    let coagents = vec![again(approves()), again(vec![says("I doubt it.")])];
    let script = [ends("submit_for_review", "one"), ends("submit_for_review", "two")];
    let mut team = Team::start(ControlFlow::judge(), script, coagents);
    let lines = team.run("fix it").await;
    let message = lines.iter().find(|line| line.contains("hears its reviewer")).unwrap();
    assert!(message.contains("second (does not approve):\nI doubt it."), "{message}");
    assert_eq!(lines.last().unwrap(), "completed");
}

#[tokio::test]
async fn several_reviewers_get_no_writing_tools() {
    let script = [ends("submit_for_review", "done")];
    let mut team = Team::start(ControlFlow::smart(), script, vec![approves(), approves()]);
    team.run("fix it").await;
    for model in &team.coagents {
        // The harness has no sandbox, so a read-only agent gets no tool that runs commands.
        assert_eq!(model.requests()[0].tools, ["look", "task_complete", "think"]);
    }
}

#[tokio::test]
async fn a_composition_as_a_reviewer_has_one_vote() {
    let (inner_primary, inner_judge) = (
        ScriptedModel::new([ends("submit_for_review", "I see no fault.")]),
        ScriptedModel::new(approves()),
    );
    let judge = Coagent::Base(Box::new(base("second reader", &inner_judge)));
    let inner = AcpAgentParts {
        name: "PANEL".to_owned(),
        coagents: vec![judge],
        ..parts(base("reader", &inner_primary), ControlFlow::judge())
    };
    let inner = Coagent::Composition(Box::new(AcpAgent::new(inner).unwrap()));
    let script = [ends("submit_for_review", "done")];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![], |parts| AcpAgentParts {
        coagents: vec![inner],
        ..parts
    });
    let expected = [
        "user: fix it",
        "builder: [submit_for_review]",
        "PANEL is told: Review the work of build",
        "PANEL: [submit_for_review]",
        "second reader is told: Review the work of reade",
        "second reader: [task_complete]",
        "second reader approves",
        "PANEL approves",
        "PANEL ends it: fine",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
    // Inner agents get no tools that the outer level forbids.
    assert_eq!(inner_primary.requests()[0].tools, ["look", "submit_for_review", "think"]);
}

#[tokio::test]
async fn a_failing_reviewer_does_not_approve_and_fails_the_run_if_it_is_the_only_one() {
    let broken = || vec![Play::Fail(ProviderError::new(ProviderErrorKind::Auth, "no such key"))];
    let script = || [ends("submit_for_review", "done")];
    let mut team = Team::start(ControlFlow::judge(), script(), vec![broken()]);
    let lines = team.run("fix it").await;
    let last = lines.last().unwrap();
    assert!(last.starts_with("failed: reviewer could not review the work"), "{last}");
    assert_eq!(lines[lines.len() - 2], "reviewer does not finish");

    let mut team =
        Team::start_with(ControlFlow::judge(), script(), vec![broken(), approves()], |parts| {
            AcpAgentParts { consensus: Consensus::Any, ..parts }
        });
    let lines = team.run("fix it").await;
    assert_eq!(lines.last().unwrap(), "completed");
}

#[tokio::test]
async fn a_reviewer_at_its_step_limit_is_unfinished_and_asked_again() {
    let limits = TurnLimits { max_steps: 1, doom_loop_threshold: 5 };
    let reviewer = ScriptedModel::new([
        calls("look"),
        says("So far, so good."),
        ends("task_complete", "fine"),
    ]);
    let coagent = Coagent::Base(Box::new(base("reviewer", &reviewer).with_limits(limits)));
    let script = [ends("submit_for_review", "one"), ends("submit_for_review", "two")];
    let mut team = Team::start_with(ControlFlow::judge(), script, vec![], |parts| AcpAgentParts {
        coagents: vec![coagent],
        ..parts
    });
    let lines = team.run("fix it").await;
    assert!(lines.contains(&"reviewer does not finish".to_owned()), "{lines:#?}");
    assert!(!lines.contains(&"reviewer does not approve".to_owned()), "{lines:#?}");
    let message = lines.iter().find(|line| line.contains("hears its reviewer")).unwrap();
    assert!(message.contains("limit of 1 model calls"), "{message}");
    assert_eq!(lines.last().unwrap(), "completed");
}

#[tokio::test]
async fn a_coagent_remembers_its_previous_round() {
    let script = [ends("submit_for_review", "one"), ends("submit_for_review", "two")];
    let judge = vec![says("Rename it."), ends("task_complete", "Renamed.")];
    let mut team = Team::start(ControlFlow::judge(), script, vec![judge]);
    team.run("fix it").await;
    let second = format!("{:?}", team.coagents[0].requests()[1].messages);
    assert!(second.contains("Rename it.") && second.contains("round 2"), "{second}");
}

#[tokio::test]
async fn an_interrupted_primary_is_not_reviewed() {
    let script = [Play::Stall("hm".to_owned())];
    let mut team = Team::start(ControlFlow::judge(), script, vec![vec![]]);
    team.harness.handle.send_input(vec![crow_core::message::Block::text("fix it")]).unwrap();
    team.harness.model.wait_for_request(1).await;
    team.harness.handle.interrupt();
    let events = team
        .harness
        .until(|event| matches!(event, crow_core::event::AgentEvent::RunEnd { .. }))
        .await;
    assert_eq!(super::transcript::transcript(&events).last().unwrap(), "cancelled");
    assert!(team.coagents[0].requests().is_empty());
}

#[tokio::test]
async fn an_interrupted_review_ends_the_run_as_cancelled() {
    let judge = vec![Play::Stall("let me see".to_owned())];
    let mut team =
        Team::start(ControlFlow::judge(), [ends("submit_for_review", "done")], vec![judge]);
    team.harness.handle.send_input(vec![crow_core::message::Block::text("fix it")]).unwrap();
    team.coagents[0].wait_for_request(1).await;
    team.harness.handle.interrupt();
    let events = team
        .harness
        .until(|event| matches!(event, crow_core::event::AgentEvent::RunEnd { .. }))
        .await;
    let lines = super::transcript::transcript(&events);
    assert_eq!(lines[lines.len() - 2..], ["reviewer does not finish", "cancelled"]);
}

#[test]
fn a_flow_without_a_coagent_and_a_coagent_without_a_flow_are_refused() {
    let model = ScriptedModel::new([]);
    let alone = parts(base("builder", &model), ControlFlow::judge());
    let error = AcpAgent::new(alone).unwrap_err();
    assert_eq!(error, CompositionError::NoCoagent { agent: "TEAM".into(), flow: "judge" });
    let coagents = vec![Coagent::Base(Box::new(base("reviewer", &model)))];
    let unused = AcpAgentParts { coagents, ..parts(base("builder", &model), ControlFlow::Hitl) };
    let error = AcpAgent::new(unused).unwrap_err().to_string();
    let expected =
        "TEAM: the control flow \"hitl\" never asks a coagent, and reviewer is named as one";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn the_coagent_lacks_tools_that_its_level_forbids() {
    let judge = vec![calls("write"), ends("task_complete", "ok")];
    let mut team =
        Team::start(ControlFlow::judge(), [ends("submit_for_review", "done")], vec![judge]);
    let lines = team.run("fix it").await;
    assert!(lines.iter().any(|line| line.starts_with("write fails: ")), "{lines:#?}");
}
