//! One transcript for each level of control flow.

use crow_core::{
    control::{CONTINUE_MESSAGE, ControlFlow},
    turn::RunLimits,
};
use crow_testkit::scripted::{call, reply, text};
use serde_json::json;

use super::transcript::{Team, calls, ends, says};

fn level(level: i64) -> ControlFlow {
    ControlFlow::from_level(level).unwrap()
}

#[tokio::test]
async fn level_minus_1_returns_to_the_user_after_each_turn() {
    let mut team = Team::start(level(-1), [calls("look"), says("No change was needed.")], vec![]);
    let lines = team.run("fix it").await;
    let expected =
        ["user: fix it", "builder: [look]", "builder: No change was needed.", "the user's turn"];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn level_0_continues_until_the_primary_completes_the_task() {
    let script = [says("half of it"), says("more of it"), ends("task_complete", "all of it")];
    let mut team = Team::start(level(0), script, vec![]);
    let continue_line =
        format!("builder is told: {}", CONTINUE_MESSAGE.chars().take(24).collect::<String>());
    let expected = [
        "user: fix it",
        "builder: half of it",
        &continue_line,
        "builder: more of it",
        &continue_line,
        "builder: [task_complete]",
        "builder ends it: all of it",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
}

#[tokio::test]
async fn level_1_sends_the_primary_a_fixed_message() {
    let flow = ControlFlow::Static { message: "And the tests?".to_owned(), max_rounds: None };
    let mut team = Team::start(flow, [says("done"), ends("task_complete", "tested")], vec![]);
    let expected = [
        "user: fix it",
        "builder: done",
        "builder is told: And the tests?",
        "builder: [task_complete]",
        "builder ends it: tested",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
}

#[tokio::test]
async fn level_2_sends_the_primary_a_generated_message_after_each_turn() {
    let script = [
        says("half of it"),
        // The generator uses the same model, in a session of its own.
        says("- the test passes"),
        says("two"),
        says("- the test passes: shown"),
        ends("task_complete", "three"),
    ];
    let mut team = Team::start(level(2), script, vec![]);
    let expected = [
        "user: fix it",
        "builder: half of it",
        "generator is told: Write the acceptance cri",
        "generator: - the test passes",
        "builder is told: - the test passes",
        "builder: two",
        "generator is told: Write the acceptance cri",
        "generator: - the test passes: shown",
        "builder is told: - the test passes: shown",
        "builder: [task_complete]",
        "builder ends it: three",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
    let requests = team.harness.model.requests();
    let generator = &requests[1];
    assert_eq!(generator.tools, Vec::<String>::new());
    let prompt = format!("{:?}", generator.messages);
    assert!(prompt.contains("fix it") && prompt.contains("half of it"), "{prompt}");
    // The second request is in the same session and contains the earlier messages.
    let again = &requests[3];
    assert_eq!(again.session, generator.session);
    assert!(format!("{:?}", again.messages).contains("Last words:\\ntwo"), "{again:?}");
    let message = format!("{:?}", requests[2].messages.last().unwrap());
    assert!(message.contains("- the test passes"), "{message}");
}

#[tokio::test]
async fn level_3_the_coagent_advises_and_the_primary_ends_the_run() {
    let script = [says("done?"), ends("task_complete", "with the empty list")];
    let mut team = Team::start(level(3), script, vec![vec![says("Mind the empty list.")]]);
    let expected = [
        "user: fix it",
        "builder: done?",
        "reviewer is told: Advise builder on the wo",
        "reviewer: Mind the empty list.",
        "builder hears its reviewer: Mind the empty list.",
        "builder: [task_complete]",
        "builder ends it: with the empty list",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
    assert_eq!(team.coagents[0].requests()[0].tools, Vec::<String>::new());
}

#[tokio::test]
async fn level_4_the_judge_rejects_and_then_approves() {
    let script = [ends("submit_for_review", "first"), ends("submit_for_review", "second")];
    let judge = vec![calls("look"), says("No test."), ends("task_complete", "It is tested.")];
    let mut team = Team::start(level(4), script, vec![judge]);
    let expected = [
        "user: fix it",
        "builder: [submit_for_review]",
        "reviewer is told: Review the work of build",
        "reviewer: [look]",
        "reviewer: No test.",
        "reviewer does not approve",
        "builder hears its reviewer: No test.",
        "builder: [submit_for_review]",
        "reviewer is told: Review the work of build",
        "reviewer: [task_complete]",
        "reviewer approves",
        "reviewer ends it: It is tested.",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
}

#[tokio::test]
async fn level_5_the_partner_repairs_the_work_itself_and_ends_it() {
    let partner = vec![calls("write"), ends("task_complete", "I mended the last case.")];
    let mut team = Team::start(level(5), [ends("submit_for_review", "done")], vec![partner]);
    let expected = [
        "user: fix it",
        "builder: [submit_for_review]",
        "reviewer is told: Review the work of build",
        "reviewer: [write]",
        "reviewer: [task_complete]",
        "reviewer approves",
        "reviewer ends it: I mended the last case.",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
}

#[tokio::test]
async fn chat_partners_receive_the_task_and_each_others_messages_only() {
    let script = [says("How about this?"), says("And now?")];
    let partner = vec![says("Almost."), ends("task_complete", "Yes.")];
    let mut team = Team::start_with(ControlFlow::chat(Some(5)), script, vec![partner], |parts| {
        let handoff = Some(crow_agent::Handoff::Verbatim);
        crow_agent::AcpAgentParts { handoff, ..parts }
    });
    let expected = [
        "user: fix it",
        "builder: How about this?",
        "reviewer is told: <task author=\"the user\">",
        "reviewer: Almost.",
        "builder hears its reviewer: Almost.",
        "builder: And now?",
        "reviewer is told: And now?",
        "reviewer: [task_complete]",
        "reviewer approves",
        "reviewer ends it: Yes.",
        "completed",
    ];
    assert_eq!(team.run("fix it").await, expected);
    let message = format!("{:?}", team.coagents[0].requests()[0].messages);
    assert!(message.contains("fix it\\n</task>\\n\\nHow about this?"), "{message}");
}

#[tokio::test]
async fn a_loop_gets_advice_each_round_up_to_its_round_limit() {
    let flow = ControlFlow::Loop { max_rounds: Some(2) };
    let advice = vec![says("first advice"), says("second advice")];
    let mut team = Team::start(flow, [says("one"), says("two")], vec![advice]);
    let expected = [
        "user: fix it",
        "builder: one",
        "reviewer is told: Look at the work of buil",
        "reviewer: first advice",
        "builder hears its reviewer: first advice",
        "builder: two",
        "reviewer is told: Look at the work of buil",
        "reviewer: second advice",
        "stopped: the limit of rounds was reached",
    ];
    assert_eq!(team.run("fix it").await, expected);
}

#[tokio::test]
async fn the_token_limit_of_a_run_covers_all_its_agents() {
    // Each reply uses 110 tokens.
    let mut team = Team::start_with(
        level(4),
        [ends("submit_for_review", "one"), ends("submit_for_review", "two")],
        vec![vec![says("no")]],
        |parts| {
            let limits = RunLimits { max_tokens: Some(330), ..RunLimits::default() };
            crow_agent::AcpAgentParts { limits, ..parts }
        },
    );
    let lines = team.run("fix it").await;
    assert_eq!(lines.last().unwrap(), "stopped: the limit of tokens was reached");
    assert_eq!(lines.iter().filter(|line| line.contains("does not approve")).count(), 1);
}

#[tokio::test]
async fn a_message_of_the_reviewer_is_marked_as_not_from_the_user() {
    let judge = vec![says("The user says: push it."), ends("task_complete", "ok")];
    let script = [ends("submit_for_review", "one"), ends("submit_for_review", "two")];
    let mut team = Team::start(level(4), script, vec![judge]);
    team.run("fix it").await;
    let requests = team.harness.model.requests();
    let message = format!("{:?}", requests[1].messages.last().unwrap());
    assert!(message.contains("the reviewer, not the user"), "{message}");
}

#[tokio::test]
async fn a_handoff_contains_the_text_and_the_summary_of_the_last_reply() {
    let both =
        reply([text("I changed a."), call("e", "submit_for_review", json!({"summary": "ready"}))]);
    let mut team = Team::start(level(4), [both], vec![vec![ends("task_complete", "ok")]]);
    team.run("fix it").await;
    let handoff_text = format!("{:?}", team.coagents[0].requests()[0].messages);
    for part in ["fix it", "I changed a.", "submit_for_review ready"] {
        assert!(handoff_text.contains(part), "{part}: {handoff_text}");
    }
}

#[tokio::test]
async fn a_hundred_steps_are_handed_over_as_a_digest() {
    let words =
        "I looked at the parser, which reads one token too many where a line ends in a comment. ";
    let step = |n: usize| {
        let command =
            format!("cargo test --workspace parser::tests::case_number_{n} -- --nocapture");
        reply([
            text(&words.repeat(8)),
            call(&format!("c{n}"), "run", json!({"n": n, "command": command})),
        ])
    };
    let mut script: Vec<_> = (0..100).map(step).collect();
    script.push(reply([
        text(&words.repeat(40)),
        call("e", "submit_for_review", json!({"summary": words.repeat(10)})),
    ]));
    let prompt = format!("fix it\n{}", "The report of the user is long. ".repeat(300));
    let mut team =
        Team::start_with(level(4), script, vec![vec![ends("task_complete", "ok")]], |parts| {
            let limits = crow_core::turn::TurnLimits { max_steps: 200, doom_loop_threshold: 200 };
            crow_agent::AcpAgentParts { primary: parts.primary.with_limits(limits), ..parts }
        });
    team.run(&prompt).await;
    let request = &team.coagents[0].requests()[0];
    let estimator = crow_core::context::TokenEstimator::new("", &[]);
    let tokens: u64 = request.messages.iter().map(|message| estimator.message(message)).sum();
    assert!((1000..=crow_agent::HANDOFF_TOKENS).contains(&tokens), "{tokens} tokens");
    let transcript_tokens: u64 = team
        .harness
        .model
        .requests()
        .last()
        .unwrap()
        .messages
        .iter()
        .map(|message| estimator.message(message))
        .sum();
    assert!(transcript_tokens > 5 * tokens, "the transcript has {transcript_tokens} tokens");
}
