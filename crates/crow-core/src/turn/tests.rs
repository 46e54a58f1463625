use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    ids::CallId,
    message::{CallArguments, ToolCall},
    model::{StopReason, TextCallNotes, ToolChoice},
    tool_types::ToolStatus,
};

/// Wraps a machine with short methods for the facts of a table.
struct Turn {
    machine: TurnMachine,
}

impl Turn {
    fn new(max_steps: u32) -> Self {
        let limits = TurnLimits { max_steps, doom_loop_threshold: 5 };
        Self { machine: TurnMachine::new(limits) }
    }

    fn reply(mut self, text: &str, calls: &[&str], stop: StopReason) -> Self {
        assert!(matches!(self.machine.next_step(), NextStep::CallModel { .. }));
        let calls = calls.iter().enumerate().map(|(index, name)| call(index, name)).collect();
        let text_calls = TextCallNotes::default();
        self.machine.on_reply(ReplyFacts { calls, text: text.to_owned(), stop, text_calls });
        self
    }

    fn reply_text(self, text: &str) -> Self {
        self.reply(text, &[], StopReason::EndTurn)
    }

    /// Lets the model write something that begins like a call, but cannot be read as one.
    fn reply_unread(mut self, calls: &[&str], stop: StopReason) -> Self {
        assert!(matches!(self.machine.next_step(), NextStep::CallModel { .. }));
        let calls = calls.iter().enumerate().map(|(index, name)| call(index, name)).collect();
        let text_calls =
            TextCallNotes { repair: None, unread: Some("That is not a call.".to_owned()) };
        self.machine.on_reply(ReplyFacts {
            calls,
            text: "<tool_call>".to_owned(),
            stop,
            text_calls,
        });
        self
    }

    /// Lets the model call tools, each with an output that it never had before.
    fn calls(self, names: &[&str]) -> Self {
        let steps = self.machine.steps();
        let outputs = names.iter().map(|name| outcome(name, &format!("{name} at {steps}")));
        let outputs: Vec<_> = outputs.collect();
        self.reply("", names, StopReason::ToolUse).answered(&outputs)
    }

    fn answered(mut self, outcomes: &[CallOutcome]) -> Self {
        assert!(matches!(self.machine.next_step(), NextStep::CallTools(_)));
        self.machine.on_tools_done(outcomes);
        self
    }

    fn with_steering(mut self) -> Self {
        self.machine.on_steering();
        self
    }

    fn end(mut self) -> TurnEnd {
        let NextStep::Done(end) = self.machine.next_step() else { panic!("the turn goes on") };
        end
    }

    fn model_call(&mut self) -> (ToolChoice<'static>, Option<String>) {
        let step = self.machine.next_step();
        let NextStep::CallModel { tool_choice, reminder } = step else {
            panic!("the turn does not call the model but {step:?}")
        };
        (tool_choice, reminder)
    }

    fn refusals(&mut self) -> Vec<bool> {
        let step = self.machine.next_step();
        let NextStep::CallTools(calls) = step else {
            panic!("the turn does not call tools but {step:?}")
        };
        calls.iter().map(|requested| requested.refusal.is_some()).collect()
    }
}

fn call(index: usize, name: &str) -> ToolCall {
    ToolCall {
        id: CallId::new(format!("c{index}")),
        name: name.to_owned(),
        arguments: CallArguments::parse("{}"),
    }
}

fn outcome(tool: &str, output: &str) -> CallOutcome {
    CallOutcome {
        tool: tool.to_owned(),
        arguments: json!({}),
        output: output.to_owned(),
        status: ToolStatus::Success,
        validity: Validity::Valid,
        effect: CallEffect::None,
    }
}

fn invalid(output: &str) -> CallOutcome {
    CallOutcome {
        status: ToolStatus::Error,
        validity: Validity::Invalid,
        ..outcome("none", output)
    }
}

fn completes(summary: &str) -> CallOutcome {
    let end = TurnEnd::TaskComplete { summary: summary.to_owned() };
    CallOutcome { effect: CallEffect::EndsTurn(end), ..outcome("task_complete", "ok") }
}

/// An outcome that refuses the end, each time with another text.
fn refused(number: usize) -> CallOutcome {
    CallOutcome {
        arguments: json!({ "summary": number }),
        effect: CallEffect::EndRefused,
        status: ToolStatus::Error,
        ..outcome("task_complete", &format!("failed in {number} ms"))
    }
}

#[test]
fn repeated_refused_ends_without_a_change_of_files_are_a_loop() {
    let mut turn = Turn::new(100);
    for number in 1..=5 {
        turn = turn.calls(&["read"]);
        turn = turn.reply("", &["task_complete"], StopReason::ToolUse).answered(&[refused(number)]);
        if number == 3 {
            let (_, reminder) = turn.model_call();
            assert!(reminder.is_some_and(|text| text.contains("refused 3 times")));
        }
    }
    let TurnEnd::DoomLoop { reason } = turn.end() else { panic!("no loop") };
    assert_eq!(reason, "task_complete was refused 5 times, and no file changed in between");

    let mut turn = Turn::new(100);
    for number in 1..=9 {
        let changed = CallOutcome {
            effect: CallEffect::FilesChanged,
            ..outcome("write", &number.to_string())
        };
        turn = turn.reply("", &["write"], StopReason::ToolUse).answered(&[changed]);
        turn = turn.reply("", &["task_complete"], StopReason::ToolUse).answered(&[refused(number)]);
    }
    assert_eq!(turn.reply_text("I give up").end(), TurnEnd::Text);
}

// Ends

#[test]
fn a_turn_ends_in_each_of_the_documented_ways() {
    let summary = || "done".to_owned();
    let submits = CallOutcome {
        effect: CallEffect::EndsTurn(TurnEnd::SubmitForReview { summary: summary() }),
        ..outcome("submit_for_review", "ok")
    };
    let same = [outcome("a", "r")];
    let mut again = Turn::new(100);
    for _ in 0..5 {
        again = again.reply("", &["a"], StopReason::ToolUse).answered(&same);
    }
    let mut cancelled = Turn::new(100).calls(&["a"]);
    cancelled.machine.on_cancelled();
    let mut over_budget = Turn::new(100);
    over_budget.machine.on_budget(LimitKind::Money);
    let mut failed = Turn::new(100);
    failed.machine.on_error("no disk");
    let cut = |turn: Turn| turn.reply("half", &[], StopReason::MaxTokens);
    for (turn, end) in [
        (Turn::new(100).reply_text("hello"), TurnEnd::Text),
        (Turn::new(100).calls(&["a"]).reply_text("hello"), TurnEnd::Text),
        (
            Turn::new(100)
                .reply("", &["task_complete"], StopReason::ToolUse)
                .answered(&[completes("done")]),
            TurnEnd::TaskComplete { summary: summary() },
        ),
        (
            Turn::new(100)
                .reply("", &["submit_for_review"], StopReason::ToolUse)
                .answered(&[submits]),
            TurnEnd::SubmitForReview { summary: summary() },
        ),
        (
            Turn::new(2).calls(&["a"]).calls(&["b"]).reply_text("report"),
            TurnEnd::MaxSteps { steps: 2 },
        ),
        (again, TurnEnd::DoomLoop { reason: "the same call was made 5 times in a row".to_owned() }),
        (
            Turn::new(100)
                .reply("", &["x"], StopReason::ToolUse)
                .answered(&[invalid("1")])
                .reply("", &["x"], StopReason::ToolUse)
                .answered(&[invalid("2")])
                .reply("", &["y"], StopReason::ToolUse)
                .answered(&[CallOutcome { tool: "y".into(), ..invalid("3") }]),
            TurnEnd::InvalidCalls,
        ),
        (cut(cut(cut(Turn::new(100)))), TurnEnd::OutputLimit),
        (Turn::new(100).reply("no", &[], StopReason::Refusal), TurnEnd::Refusal),
        (over_budget, TurnEnd::Budget { limit: LimitKind::Money }),
        (cancelled, TurnEnd::Cancelled),
        (failed, TurnEnd::Error { error: "no disk".to_owned() }),
    ] {
        assert_eq!(turn.end(), end);
    }
}

#[test]
fn every_end_has_its_own_text_and_survives_json() {
    let ends = [
        TurnEnd::Text,
        TurnEnd::TaskComplete { summary: "s".into() },
        TurnEnd::SubmitForReview { summary: "s".into() },
        TurnEnd::MaxSteps { steps: 3 },
        TurnEnd::DoomLoop { reason: "r".into() },
        TurnEnd::InvalidCalls,
        TurnEnd::OutputLimit,
        TurnEnd::Refusal,
        TurnEnd::Budget { limit: LimitKind::Tokens },
        TurnEnd::Cancelled,
        TurnEnd::Error { error: "e".into() },
    ];
    let texts: std::collections::BTreeSet<_> = ends.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), ends.len());
    for end in ends {
        let json = serde_json::to_string(&end).unwrap();
        assert_eq!(serde_json::from_str::<TurnEnd>(&json).unwrap(), end, "{json}");
    }
}

#[test]
fn facts_that_come_after_the_end_change_nothing() {
    let mut turn = Turn::new(100).reply("", &["a"], StopReason::ToolUse);
    turn.machine.on_cancelled();
    turn.machine.on_tools_done(&[outcome("a", "r")]);
    turn.machine.on_reply(ReplyFacts {
        calls: vec![call(0, "a")],
        text: String::new(),
        stop: StopReason::ToolUse,
        text_calls: TextCallNotes::default(),
    });
    turn.machine.on_steering();
    assert_eq!(turn.end(), TurnEnd::Cancelled);
}

// Calls written as text

#[test]
fn a_call_that_cannot_be_read_is_reminded_of_twice_and_ends_the_turn_the_third_time() {
    let mut turn = Turn::new(100);
    for _ in 0..2 {
        turn = turn.reply_unread(&[], StopReason::EndTurn);
        assert_eq!(turn.model_call().1.as_deref(), Some("That is not a call."));
    }
    assert_eq!(turn.reply_unread(&[], StopReason::EndTurn).end(), TurnEnd::InvalidCalls);
}

#[test]
fn a_call_that_is_read_resets_the_count_of_those_that_were_not() {
    let mut turn = Turn::new(100);
    for _ in 0..4 {
        turn = turn.reply_unread(&[], StopReason::EndTurn).calls(&["a"]);
    }
    assert_eq!(turn.reply_text("done").end(), TurnEnd::Text);
}

#[test]
fn calls_beside_one_that_cannot_be_read_are_run_before_the_reminder() {
    let mut turn =
        Turn::new(100).reply_unread(&["a"], StopReason::ToolUse).answered(&[outcome("a", "r")]);
    assert_eq!(turn.model_call().1.as_deref(), Some("That is not a call."));
}

#[test]
fn a_call_cut_at_the_output_limit_is_to_be_made_again_and_not_continued() {
    let mut turn = Turn::new(100).reply_unread(&[], StopReason::MaxTokens);
    let (_, reminder) = turn.model_call();
    assert!(reminder.unwrap().contains("Make the call again"));
}

#[test]
fn the_note_on_calls_in_a_text_goes_to_the_first_of_them() {
    let mut machine = TurnMachine::new(TurnLimits { max_steps: 5, doom_loop_threshold: 5 });
    machine.on_reply(ReplyFacts {
        calls: vec![call(0, "a"), call(1, "b")],
        text: String::new(),
        stop: StopReason::ToolUse,
        text_calls: TextCallNotes { repair: Some("It was text.".to_owned()), unread: None },
    });
    let NextStep::CallTools(calls) = machine.next_step() else { panic!("there are calls") };
    let notes: Vec<_> = calls.into_iter().map(|call| call.note).collect();
    assert_eq!(notes, [Some("It was text.".to_owned()), None]);
}

// Limits

#[test]
fn the_model_is_reminded_once_at_80_and_once_at_95_percent_of_the_steps() {
    for (most, at) in [(10, [8, 10]), (11, [9, 11]), (20, [16, 19]), (100, [80, 95])] {
        let mut turn = Turn::new(most);
        for step in 1..most {
            turn = turn.calls(&["a"]);
            let (_, reminder) = turn.model_call();
            let expected = at.contains(&step).then(|| {
                format!(
                    "{step} of {most} steps are used. Finish with the {} that are left.",
                    most - step
                )
            });
            assert_eq!(reminder, expected, "step {step} of {most}");
        }
    }
    let mut few = Turn::new(5);
    for _ in 0..4 {
        few = few.calls(&["a"]);
    }
    assert_eq!(few.model_call(), (ToolChoice::Auto, None));
}

#[test]
fn at_the_limit_the_model_may_only_report() {
    let (tool_choice, reminder) = Turn::new(2).calls(&["a"]).calls(&["b"]).model_call();
    assert_eq!(tool_choice, ToolChoice::None);
    assert!(reminder.unwrap().starts_with("The limit of 2 steps is reached"));
    let (tool_choice, _) = Turn::new(0).model_call();
    assert_eq!(tool_choice, ToolChoice::None);
}

#[test]
fn calls_in_a_report_are_answered_but_not_run() {
    let mut turn = Turn::new(1).calls(&["a"]).reply("", &["b", "c"], StopReason::ToolUse);
    assert_eq!(turn.refusals(), [true, true]);
    let turn = turn.answered(&[outcome("b", "no"), outcome("c", "no")]);
    assert_eq!(turn.end(), TurnEnd::MaxSteps { steps: 1 });
}

#[test]
fn a_report_that_is_cut_empty_or_paused_ends_the_turn_too() {
    for (text, stop) in
        [("half", StopReason::MaxTokens), ("", StopReason::EndTurn), ("wait", StopReason::Pause)]
    {
        let turn = Turn::new(1).calls(&["a"]).reply(text, &[], stop);
        assert_eq!(turn.end(), TurnEnd::MaxSteps { steps: 1 }, "{stop:?}");
    }
}

// Replies

#[test]
fn the_cut_call_of_a_reply_is_not_run() {
    for (stop, refused) in [
        (StopReason::MaxTokens, [false, true]),
        (StopReason::Refusal, [true, true]),
        (StopReason::ToolUse, [false, false]),
        (StopReason::EndTurn, [false, false]),
    ] {
        let mut turn = Turn::new(100).reply("", &["a", "b"], stop);
        assert_eq!(turn.refusals(), refused, "{stop:?}");
    }
}

#[test]
fn a_refusal_in_the_middle_of_a_call_ends_the_turn_when_the_call_is_answered() {
    let turn =
        Turn::new(100).reply("", &["a"], StopReason::Refusal).answered(&[outcome("a", "no")]);
    assert_eq!(turn.end(), TurnEnd::Refusal);
}

#[test]
fn calls_that_are_cut_again_and_again_end_the_turn() {
    let cut = |turn: Turn, names: &[&str], output: &str| {
        let outcomes: Vec<_> = names.iter().map(|name| outcome(name, output)).collect();
        turn.reply("", names, StopReason::MaxTokens).answered(&outcomes)
    };
    let turn = cut(cut(cut(Turn::new(100), &["a"], "1"), &["a"], "2"), &["a"], "3");
    assert_eq!(turn.end(), TurnEnd::OutputLimit);
    // A complete call before the cut one is progress.
    let mut turn = cut(cut(cut(Turn::new(100), &["a"], "1"), &["b", "a"], "2"), &["a"], "3");
    assert_eq!(turn.model_call().0, ToolChoice::Auto);
}

#[test]
fn a_cut_text_gives_a_reminder_and_calls_reset_the_count() {
    let cut = |turn: Turn| turn.reply("half", &[], StopReason::MaxTokens);
    let (_, reminder) = cut(Turn::new(100)).model_call();
    assert!(reminder.unwrap().starts_with("Your reply was cut"));
    let mut turn = cut(cut(cut(cut(Turn::new(100))).calls(&["a"])));
    assert_eq!(turn.model_call().0, ToolChoice::Auto);
}

#[test]
fn the_first_empty_reply_gives_a_reminder_and_the_second_ends_the_turn() {
    let (_, reminder) = Turn::new(100).reply_text("  \n").model_call();
    assert!(reminder.unwrap().starts_with("Your reply was empty."));
    assert_eq!(Turn::new(100).reply_text("").reply_text("").end(), TurnEnd::Text);
    assert_eq!(
        Turn::new(100).reply_text("").calls(&["a"]).reply_text("").model_call().0,
        ToolChoice::Auto
    );
}

#[test]
fn a_pause_continues_without_a_reminder() {
    let mut turn = Turn::new(100).reply("so far", &[], StopReason::Pause);
    assert_eq!(turn.model_call(), (ToolChoice::Auto, None));
}

#[test]
fn reminders_are_given_once() {
    let mut turn = Turn::new(100).reply_text("");
    assert!(matches!(turn.machine.next_step(), NextStep::CallModel { reminder: Some(_), .. }));
    assert!(matches!(turn.machine.next_step(), NextStep::CallModel { reminder: None, .. }));
}

// Steering

#[test]
fn steering_continues_a_turn_that_the_model_ended() {
    assert_eq!(Turn::new(100).reply_text("hello").with_steering().model_call().0, ToolChoice::Auto);
    let completed = Turn::new(100)
        .reply("", &["task_complete"], StopReason::ToolUse)
        .answered(&[completes("done")]);
    assert_eq!(completed.with_steering().model_call().0, ToolChoice::Auto);
}

#[test]
fn steering_at_the_limit_gets_a_report_only() {
    assert_eq!(Turn::new(1).reply_text("hello").with_steering().model_call().0, ToolChoice::None);
}

#[test]
fn steering_resets_the_guard_and_the_count_of_invalid_calls() {
    let mut turn = Turn::new(100);
    for round in 0..8 {
        turn = turn.reply("", &["a"], StopReason::ToolUse).answered(&[outcome("a", "same")]);
        turn = turn.reply("", &["x"], StopReason::ToolUse).answered(&[invalid(&round.to_string())]);
        turn = turn.reply("", &["x"], StopReason::ToolUse).answered(&[invalid("same")]);
        turn = turn.with_steering();
    }
    assert_eq!(turn.model_call().0, ToolChoice::Auto);
}

// Calls

#[test]
fn invalid_calls_count_only_in_a_row() {
    let bad = |turn: Turn, output: &str| {
        turn.reply("", &["x"], StopReason::ToolUse).answered(&[invalid(output)])
    };
    let mut turn = bad(bad(bad(bad(Turn::new(100), "1"), "2").calls(&["a"]), "3"), "4");
    assert_eq!(turn.model_call().0, ToolChoice::Auto);
}

#[test]
fn a_tool_that_ends_the_turn_ends_it_whatever_other_calls_return() {
    let turn = Turn::new(1)
        .reply("", &["x", "task_complete", "a"], StopReason::ToolUse)
        .answered(&[invalid("1"), completes("done"), outcome("a", "r")]);
    assert_eq!(turn.end(), TurnEnd::TaskComplete { summary: "done".to_owned() });
}

#[test]
fn the_same_text_with_other_calls_ends_the_turn_when_they_are_answered() {
    let mut turn = Turn::new(100);
    for step in 1..=5 {
        turn = turn.reply("Let me look.", &["a"], StopReason::ToolUse);
        assert_eq!(turn.refusals(), [false]);
        turn = turn.answered(&[outcome("a", &step.to_string())]);
        if step == 3 {
            let (_, reminder) = turn.model_call();
            assert!(reminder.unwrap().starts_with("You said the same thing three times."));
        }
    }
    let reason = "the same text was said 5 times in a row".to_owned();
    assert_eq!(turn.end(), TurnEnd::DoomLoop { reason });
}

#[test]
fn steering_after_a_repeated_text_continues_the_turn() {
    let mut turn = Turn::new(100);
    for step in 1..=5 {
        turn = turn.reply("Let me look.", &["a"], StopReason::ToolUse);
        if step == 5 {
            turn = turn.with_steering();
        }
        turn = turn.answered(&[outcome("a", &step.to_string())]);
    }
    assert_eq!(turn.model_call().0, ToolChoice::Auto);
}

#[test]
fn the_guard_remembers_a_bounded_number_of_calls() {
    let mut guard = LoopGuard::new(5);
    for output in 0..1000 {
        guard.on_call(CallSignature::new("t", &json!({}), &output.to_string(), false));
    }
    assert!(serde_json::to_string(&guard).unwrap().len() < 8000);
}

// Property tests over arbitrary replies

#[derive(Debug, Clone)]
struct FakeCall {
    tool: &'static str,
    output: &'static str,
    status: ToolStatus,
    validity: Validity,
    ends: bool,
}

#[derive(Debug, Clone)]
struct FakeReply {
    text: &'static str,
    calls: Vec<FakeCall>,
    stop: StopReason,
    /// True if a user steers after the reply, and after the results.
    steering: (bool, bool),
    /// True if something in the text begins like a call.
    unread: bool,
}

fn any_call() -> impl Strategy<Value = FakeCall> {
    let status = prop::sample::select(vec![
        ToolStatus::Success,
        ToolStatus::Success,
        ToolStatus::Error,
        ToolStatus::Cancelled,
    ]);
    let validity = prop::sample::select(vec![Validity::Valid, Validity::Valid, Validity::Invalid]);
    let names = prop::sample::select(vec!["a", "b"]);
    let outputs = prop::sample::select(vec!["1", "2", "3"]);
    (names, outputs, status, validity, prop::bool::weighted(0.05)).prop_map(
        |(tool, output, status, validity, ends)| FakeCall { tool, output, status, validity, ends },
    )
}

fn any_reply() -> impl Strategy<Value = FakeReply> {
    let stop = prop::sample::select(vec![
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::Refusal,
        StopReason::Pause,
    ]);
    let text = prop::sample::select(vec!["", "hello", "again"]);
    let calls = prop::collection::vec(any_call(), 0..4);
    let steering = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let unread = prop::bool::weighted(0.2);
    (text, calls, stop, steering, unread).prop_map(|(text, calls, stop, steering, unread)| {
        FakeReply { text, calls, stop, steering, unread }
    })
}

fn facts(reply: &FakeReply) -> ReplyFacts {
    let calls = reply.calls.iter().enumerate();
    ReplyFacts {
        calls: calls.map(|(index, fake)| call(index, fake.tool)).collect(),
        text: reply.text.to_owned(),
        stop: reply.stop,
        text_calls: TextCallNotes {
            repair: None,
            unread: reply.unread.then(|| "That is not a call.".to_owned()),
        },
    }
}

fn outcomes(reply: &FakeReply, requested: &[RequestedCall]) -> Vec<CallOutcome> {
    let pairs = reply.calls.iter().zip(requested);
    pairs
        .map(|(fake, requested)| CallOutcome {
            tool: fake.tool.to_owned(),
            arguments: json!({}),
            output: fake.output.to_owned(),
            status: fake.status,
            validity: fake.validity,
            effect: if fake.ends && requested.refusal.is_none() {
                CallEffect::EndsTurn(TurnEnd::TaskComplete { summary: String::new() })
            } else {
                CallEffect::None
            },
        })
        .collect()
}

fn restored(machine: &TurnMachine) -> TurnMachine {
    serde_json::from_str(&serde_json::to_string(machine).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn any_turn_ends_within_its_step_limit_and_can_be_saved_in_any_state(
        max_steps in 0u32..15,
        replies in prop::collection::vec(any_reply(), 1..8),
    ) {
        let limits = TurnLimits { max_steps, doom_loop_threshold: 5 };
        let mut machine = TurnMachine::new(limits);
        let mut replies = replies.iter().cycle();
        let mut model_calls = 0;
        let end = loop {
            let mut twin = restored(&machine);
            prop_assert_eq!(&twin, &machine);
            let step = machine.next_step();
            prop_assert_eq!(&twin.next_step(), &step);
            match step {
                NextStep::Done(end) => break end,
                NextStep::CallTools(_) => unreachable!("calls are answered below"),
                NextStep::CallModel { tool_choice, .. } => {
                    model_calls += 1;
                    prop_assert!(model_calls <= max_steps + 1);
                    prop_assert_eq!(tool_choice == ToolChoice::None, model_calls > max_steps);
                    let reply = replies.next().unwrap();
                    machine.on_reply(facts(reply));
                    machine = restored(&machine);
                    if reply.steering.0 {
                        machine.on_steering();
                    }
                    if let NextStep::CallTools(requested) = machine.next_step() {
                        prop_assert_eq!(requested.len(), reply.calls.len());
                        let refused = requested.iter().filter(|call| call.refusal.is_some()).count();
                        let expected = match reply.stop {
                            _ if tool_choice == ToolChoice::None => requested.len(),
                            StopReason::Refusal => requested.len(),
                            StopReason::MaxTokens => 1,
                            StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::Pause => 0,
                        };
                        prop_assert_eq!(refused, expected);
                        machine.on_tools_done(&outcomes(reply, &requested));
                        machine = restored(&machine);
                        if reply.steering.1 {
                            machine.on_steering();
                        }
                    }
                }
            }
        };
        prop_assert_eq!(machine.steps(), model_calls);
        if let TurnEnd::MaxSteps { steps } = end {
            prop_assert_eq!(steps, max_steps);
            prop_assert_eq!(model_calls, max_steps + 1);
        }
    }
}
