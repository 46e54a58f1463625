use proptest::prelude::*;
use std::time::Duration;

use super::*;
use crate::{
    run::{Failure, FailureKind, InputSource, Verdict},
    turn::{LimitKind, RunLimits, RunUsage, TurnEnd},
    usage::TokenUsage,
};

fn machine(flow: ControlFlow, has_coagents: bool) -> ControlMachine {
    ControlMachine::new(flow, RunLimits::default(), has_coagents, Consensus::All)
}

fn turn(end: TurnEnd, text: &str) -> TurnFacts {
    TurnFacts { end, text: text.to_owned(), calls: Vec::new(), changed: true }
}

fn review(verdict: Verdict, text: &str) -> Review {
    Review { reviewer: "reviewer".to_owned(), verdict, text: text.to_owned() }
}

fn complete() -> TurnEnd {
    TurnEnd::TaskComplete { summary: "done".to_owned() }
}

fn submitted() -> TurnEnd {
    TurnEnd::SubmitForReview { summary: "look".to_owned() }
}

fn message_of(action: &NextAction) -> Option<(InputSource, &str)> {
    match action {
        NextAction::PrimaryTurn { message } => {
            message.as_ref().map(|(source, text)| (*source, text.as_str()))
        }
        NextAction::Generate { .. } | NextAction::Review | NextAction::Finish(_) => None,
    }
}

#[test]
fn levels_are_those_of_the_seed() {
    let table = [
        (-1, "hitl", EndTool::TaskComplete, None),
        (0, "loop", EndTool::TaskComplete, None),
        (1, "static", EndTool::TaskComplete, None),
        (2, "generated", EndTool::TaskComplete, None),
        (3, "advise", EndTool::TaskComplete, None),
        (4, "judge", EndTool::SubmitForReview, Some(EndTool::TaskComplete)),
        (5, "smart", EndTool::SubmitForReview, Some(EndTool::TaskComplete)),
    ];
    for (level, name, primary, coagent) in table {
        let flow = ControlFlow::from_level(level).unwrap();
        assert_eq!(flow.name(), name);
        assert_eq!((flow.end_tool_of_primary(), flow.end_tool_of_coagent()), (primary, coagent));
    }
    for level in [-2, 6] {
        assert_eq!(ControlFlow::from_level(level), Err(UnknownLevel { level }));
    }
}

#[test]
fn in_a_hitl_flow_a_turn_returns_to_the_user() {
    let mut machine = machine(ControlFlow::Hitl, false);
    assert_eq!(machine.next_action(), NextAction::PrimaryTurn { message: None });
    machine.on_primary_turn(&turn(TurnEnd::Text, "Which one?"), RunUsage::default());
    assert_eq!(machine.next_action(), NextAction::Finish(RunFinish::NeedsInput));
}

#[test]
fn a_turn_that_ends_after_the_deadline_ends_the_run_as_out_of_time() {
    for flow in [ControlFlow::Hitl, ControlFlow::Loop { max_rounds: None }] {
        for end in [TurnEnd::Text, complete()] {
            let limits =
                RunLimits { max_time: Some(Duration::from_secs(2)), ..RunLimits::default() };
            let mut machine = ControlMachine::new(flow.clone(), limits, false, Consensus::All);
            let spent = RunUsage { time: Duration::from_secs(5), ..RunUsage::default() };
            machine.on_primary_turn(&turn(end, "late"), spent);
            let stopped = RunFinish::Stopped(TurnEnd::Budget { limit: LimitKind::Time });
            assert_eq!(machine.next_action(), NextAction::Finish(stopped), "{flow:?}");
        }
    }
}

#[test]
fn a_loop_continues_until_the_primary_completes_the_task() {
    let mut machine = machine(ControlFlow::Loop { max_rounds: None }, false);
    machine.on_primary_turn(&turn(TurnEnd::Text, "half"), RunUsage::default());
    assert_eq!(
        message_of(&machine.next_action()),
        Some((InputSource::ControlFlow, CONTINUE_MESSAGE))
    );
    machine.on_primary_turn(&turn(complete(), "all"), RunUsage::default());
    let by = CompletionOwner::Primary;
    let finish = RunFinish::Completed { summary: "done".to_owned(), by };
    assert_eq!(machine.next_action(), NextAction::Finish(finish));
    assert_eq!(machine.rounds(), 1);
}

#[test]
fn the_generator_is_asked_after_each_turn() {
    let mut machine = machine(ControlFlow::from_level(2).unwrap(), false);
    machine.on_primary_turn(&turn(TurnEnd::Text, "one"), RunUsage::default());
    let generate = NextAction::Generate { prompt: CRITERIA_PROMPT.to_owned() };
    assert_eq!(machine.next_action(), generate);
    machine.on_generated(Ok("- it builds\n".to_owned()), RunUsage::default());
    let message = format!("- it builds\n\n{CONTINUE_MESSAGE}");
    assert_eq!(
        message_of(&machine.next_action()),
        Some((InputSource::Generator, message.as_str()))
    );
    machine.on_primary_turn(&turn(TurnEnd::Text, "two"), RunUsage::default());
    assert_eq!(machine.next_action(), generate);
}

#[test]
fn advice_goes_to_the_primary_which_says_when_it_is_done() {
    let mut machine = machine(ControlFlow::advise(), true);
    machine.on_primary_turn(&turn(TurnEnd::Text, "done?"), RunUsage::default());
    assert_eq!(machine.next_action(), NextAction::Review);
    // An approval has no effect: a coagent does not own the end here.
    let reviews = [review(Verdict::Approved, "test the empty list")];
    machine.on_review(Ok(&reviews), false, RunUsage::default());
    let message =
        message_of(&machine.next_action()).map(|(source, text)| (source, text.to_owned()));
    assert_eq!(message, Some((InputSource::Reviewer, "test the empty list".to_owned())));
}

#[test]
fn a_judge_sends_back_and_then_approves() {
    let mut machine = machine(ControlFlow::judge(), true);
    machine.on_primary_turn(&turn(submitted(), ""), RunUsage::default());
    machine.on_review(Ok(&[review(Verdict::Rejected, "no test")]), false, RunUsage::default());
    machine.on_primary_turn(&turn(submitted(), ""), RunUsage::default());
    machine.on_review(Ok(&[review(Verdict::Approved, "good")]), false, RunUsage::default());
    let by = CompletionOwner::Coagent;
    let finish = RunFinish::Completed { summary: "good".to_owned(), by };
    assert_eq!(machine.next_action(), NextAction::Finish(finish));
}

#[test]
fn votes_are_counted_as_the_consensus_says() {
    for (consensus, enough) in [
        (Consensus::All, [false, false, false, true]),
        (Consensus::Majority, [false, false, true, true]),
        (Consensus::Any, [false, true, true, true]),
    ] {
        for (approvals, expected) in enough.into_iter().enumerate() {
            assert_eq!(consensus.is_reached(approvals, 3), expected, "{consensus:?} {approvals}");
        }
        assert!(!consensus.is_reached(0, 0), "{consensus:?}: nobody approves of nothing");
    }
}

#[test]
fn texts_of_several_reviewers_are_labelled_with_their_names() {
    let limits = RunLimits::default();
    let mut machine = ControlMachine::new(ControlFlow::judge(), limits, true, Consensus::All);
    machine.on_primary_turn(&turn(submitted(), ""), RunUsage::default());
    let no = Review { reviewer: "safety".to_owned(), ..review(Verdict::Rejected, "rm -rf?") };
    machine.on_review(Ok(&[review(Verdict::Approved, "fine"), no]), false, RunUsage::default());
    let expected = "reviewer (approves):\nfine\n\nsafety (does not approve):\nrm -rf?";
    assert_eq!(message_of(&machine.next_action()), Some((InputSource::Reviewer, expected)));
}

#[test]
fn a_turn_that_failed_ends_the_run_at_every_level() {
    let ends = [
        (TurnEnd::Cancelled, RunFinish::Cancelled),
        (TurnEnd::Error { error: "x".into() }, RunFinish::Failed(Failure::other("x"))),
        (
            TurnEnd::Refusal,
            RunFinish::Failed(Failure {
                error: "the model refused".into(),
                kind: FailureKind::Refusal,
            }),
        ),
        (
            TurnEnd::Budget { limit: LimitKind::Money },
            RunFinish::Stopped(TurnEnd::Budget { limit: LimitKind::Money }),
        ),
    ];
    for level in -1..=5 {
        for (end, finish) in &ends {
            let mut machine = machine(ControlFlow::from_level(level).unwrap(), level >= 3);
            machine.on_primary_turn(&turn(end.clone(), "text"), RunUsage::default());
            assert_eq!(machine.next_action(), NextAction::Finish(finish.clone()), "level {level}");
        }
    }
}

#[test]
fn a_turn_that_reaches_its_step_limit_does_not_end_the_run() {
    let end = TurnEnd::MaxSteps { steps: 3 };
    for (level, has_coagents) in
        [(0, false), (1, false), (2, false), (3, true), (4, true), (5, true)]
    {
        let flow = ControlFlow::from_level(level).unwrap();
        let is_alone = flow == ControlFlow::Hitl;
        let mut machine = machine(flow, has_coagents);
        machine.on_primary_turn(&turn(end.clone(), "so far"), RunUsage::default());
        let next = machine.next_action();
        let finished = NextAction::Finish(RunFinish::Stopped(end.clone()));
        assert_eq!(next == finished, is_alone, "level {level}: {next:?}");
        let is_expected = match &next {
            NextAction::Review => has_coagents,
            NextAction::PrimaryTurn { message } => !has_coagents && message.is_some(),
            NextAction::Generate { .. } => level == 2,
            NextAction::Finish(_) => is_alone,
        };
        assert!(is_expected, "level {level}: {next:?}");
    }
}

#[test]
fn the_lowest_bound_wins_and_no_review_is_begun_past_it() {
    let tokens = TokenUsage { input_tokens: 100, ..TokenUsage::default() };
    let limits = RunLimits { max_tokens: Some(100), ..RunLimits::default() };
    let mut machine = ControlMachine::new(ControlFlow::smart(), limits, true, Consensus::All);
    machine.on_primary_turn(
        &turn(submitted(), ""),
        RunUsage { usage: tokens, time: Duration::ZERO, ..RunUsage::default() },
    );
    let stopped = |limit| NextAction::Finish(RunFinish::Stopped(TurnEnd::Budget { limit }));
    assert_eq!(machine.next_action(), stopped(LimitKind::Tokens));

    let flow = ControlFlow::Loop { max_rounds: Some(2) };
    let mut machine = ControlMachine::new(flow, RunLimits::default(), false, Consensus::All);
    for text in ["one", "two"] {
        machine.on_primary_turn(&turn(TurnEnd::Text, text), RunUsage::default());
    }
    assert_eq!(machine.next_action(), stopped(LimitKind::Rounds));
}

#[test]
fn repeated_rounds_without_changes_end_the_run() {
    let idle = |text: &str| TurnFacts { changed: false, ..turn(TurnEnd::Text, text) };
    let mut machine = machine(ControlFlow::Loop { max_rounds: None }, false);
    for text in ["a", "same", "same"] {
        machine.on_primary_turn(&idle(text), RunUsage::default());
        assert!(message_of(&machine.next_action()).is_some(), "{text}");
    }
    machine.on_primary_turn(&idle("same"), RunUsage::default());
    assert!(matches!(
        machine.next_action(),
        NextAction::Finish(RunFinish::Stopped(TurnEnd::DoomLoop { .. }))
    ));
}

#[test]
fn rounds_without_text_differ_by_their_calls() {
    let silent = |call: &str| TurnFacts {
        calls: vec![call.to_owned()],
        changed: false,
        ..turn(TurnEnd::MaxSteps { steps: 3 }, "")
    };
    let mut machine = machine(ControlFlow::Loop { max_rounds: None }, false);
    for file in ["a", "b", "c", "d", "e"] {
        machine.on_primary_turn(&silent(&format!("read_file {file}: ok")), RunUsage::default());
        assert!(message_of(&machine.next_action()).is_some(), "{file}");
    }
    for _ in 0..2 {
        machine.on_primary_turn(&silent("read_file e: ok"), RunUsage::default());
    }
    let next = machine.next_action();
    assert!(
        matches!(next, NextAction::Finish(RunFinish::Stopped(TurnEnd::DoomLoop { .. }))),
        "{next:?}"
    );
}

#[test]
fn steering_during_a_review_is_answered_before_the_end() {
    let mut machine = machine(ControlFlow::judge(), true);
    machine.on_primary_turn(&turn(submitted(), ""), RunUsage::default());
    machine.on_review(Ok(&[review(Verdict::Approved, "good")]), false, RunUsage::default());
    machine.on_steering();
    assert_eq!(machine.next_action(), NextAction::PrimaryTurn { message: None });
}

#[test]
fn a_silent_reviewer_gives_a_standard_message() {
    let mut machine = machine(ControlFlow::smart(), true);
    machine.on_primary_turn(&turn(submitted(), ""), RunUsage::default());
    machine.on_review(Ok(&[review(Verdict::Rejected, " \n")]), false, RunUsage::default());
    assert!(message_of(&machine.next_action()).unwrap().1.contains("did not approve"));
}

fn flows() -> impl Strategy<Value = ControlFlow> {
    prop_oneof![
        (-1_i64..=5).prop_map(|level| ControlFlow::from_level(level).unwrap()),
        (
            prop_oneof![
                Just(CoagentTools::None),
                Just(CoagentTools::ReadOnly),
                Just(CoagentTools::Full)
            ],
            any::<bool>(),
            proptest::option::of(1_u32..5),
        )
            .prop_map(|(tools, can_terminate, max_rounds)| ControlFlow::Coagent {
                tools,
                can_terminate,
                max_rounds
            }),
    ]
}

fn ends() -> impl Strategy<Value = TurnEnd> {
    prop_oneof![
        4 => Just(TurnEnd::Text),
        3 => Just(complete()),
        3 => Just(submitted()),
        1 => Just(TurnEnd::Cancelled),
        1 => Just(TurnEnd::MaxSteps { steps: 1 }),
    ]
}

proptest! {
    #[test]
    fn any_run_ends_by_its_owner_within_its_round_limit_and_can_be_saved_in_any_state(
        flow in flows(),
        has_coagents: bool,
        turns in proptest::collection::vec((ends(), "[ab]", any::<bool>(), any::<bool>()), 60),
    ) {
        let owner = flow.completion_owner();
        let mut machine = machine(flow, has_coagents);
        let mut last_owner = None;
        for (end, text, changed, approves) in turns {
            let saved = serde_json::to_string(&machine).unwrap();
            machine = serde_json::from_str(&saved).unwrap();
            match machine.next_action() {
                NextAction::PrimaryTurn { .. } => {
                    let by_primary = matches!(end, TurnEnd::TaskComplete { .. });
                    last_owner = by_primary.then_some(CompletionOwner::Primary);
                    let facts = TurnFacts { end, text, calls: Vec::new(), changed };
                    machine.on_primary_turn(&facts, RunUsage::default());
                }
                NextAction::Generate { .. } => machine.on_generated(Ok(text), RunUsage::default()),
                NextAction::Review => {
                    let verdict = if approves { Verdict::Approved } else { Verdict::Rejected };
                    last_owner = approves.then_some(CompletionOwner::Coagent);
                    machine.on_review(Ok(&[review(verdict, &text)]), changed, RunUsage::default());
                }
                NextAction::Finish(finish) => {
                    if let RunFinish::Completed { by, .. } = finish {
                        prop_assert_eq!(by, owner);
                        prop_assert_eq!(last_owner, Some(owner), "somebody who may must have said so");
                    }
                    break;
                }
            }
        }
        prop_assert!(machine.rounds() <= RunLimits::default().max_rounds);
        prop_assert!(matches!(machine.next_action(), NextAction::Finish(_)));
    }
}
