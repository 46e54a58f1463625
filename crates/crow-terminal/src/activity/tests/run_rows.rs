//! Rows for what the agent that the user talks to does.

use crow_console::Glyphs;
use crow_core::{
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    ids::{MessageId, ReplyId},
};

use super::script::*;
use crate::{
    activity::ActivitySpace,
    styled_text::{Emphasis, TextRole},
};

/// Returns the spinner line without its frame and its hint, after the steps in a turn.
///
/// A step is an event, and the milliseconds after it.
fn spinner(steps: Vec<(AgentEvent, i64)>) -> String {
    let mut script = Script::turn();
    for (event, millis) in steps {
        script.on(event).wait(millis);
    }
    let line = script.rows(80, 1).remove(0);
    let subject = line.chars().skip(2).collect::<String>();
    subject.trim_end_matches("esc stops").trim_end().to_owned()
}

fn model_wait(wait_ms: Option<u64>) -> AgentEvent {
    AgentEvent::ModelWait {
        reply_id: ReplyId::new("r"),
        reason: "30 requests per minute".into(),
        wait_ms,
    }
}

#[test]
fn the_spinner_line_names_the_phase_of_the_model_call() {
    let tools_wait = || AgentEvent::ToolsWait { servers: vec!["docs".into(), "tickets".into()] };
    let retried = || retry(1, 4000);
    let table = [
        (vec![], "waiting for the model  0 s"),
        (vec![(thinking(0, "hm"), 3000)], "thinking  3 s  ↓ ~1 tokens"),
        (vec![(text(0, "I will"), 0)], "writing  0 s  ↓ ~2 tokens"),
        (vec![(reply(), 0)], "working  0 s"),
        (vec![(turn_end(), 0)], "working  0 s"),
        (vec![(retried(), 500)], "retrying in 4 s (attempt 2): 429 rate limited"),
        (vec![(retried(), 5000)], "waiting for the model (attempt 2)  5 s"),
        (vec![(retried(), 0), (text(0, "a"), 0)], "writing  0 s  ↓ ~1 tokens"),
        (vec![(model_wait(Some(2500)), 0)], "waiting for the model, 3 s: 30 requests per minute"),
        (vec![(model_wait(None), 0)], "waiting for the model: 30 requests per minute  0 s"),
        (vec![(tools_wait(), 1000)], "waiting for the tools of docs, tickets  1 s"),
        (vec![(tools_wait(), 0), (processing(), 0)], "waiting for the model  0 s"),
    ];
    for (steps, expected) in table {
        assert_eq!(spinner(steps), expected);
    }
}

#[test]
fn the_spinner_line_names_calls_questions_and_the_cancellation_before_the_phase() {
    let ls = || start("c", "ls");
    let asked = || permission_request("q", "d");
    let table = [
        (vec![(pending("c", "ls"), 0), (ls(), 61_000)], "ls  1 min 1 s"),
        (vec![(ls(), 0), (end("c"), 2000)], "waiting for the model  2 s"),
        (vec![(ls(), 50), (start("d", "cat x"), 50)], "ls (+1)  0 s"),
        (
            vec![(pending("c", "ls"), 0), (call_wait("c", "another agent works"), 0)],
            "ls (waits: another agent works)  0 s",
        ),
        (vec![(ls(), 0), (asked(), 0)], "waiting for your answer  0 s"),
        (vec![(start("c", "ask"), 0), (question("q", "c"), 0)], "waiting for your answer  0 s"),
        (vec![(ls(), 0), (asked(), 0), (permission_withdrawn("q", "d"), 0)], "ls  0 s"),
        (vec![(ls(), 0), (question("q", "c"), 0), (end("c"), 0)], "waiting for the model  0 s"),
        (vec![(ls(), 0), (asked(), 0), (AgentEvent::Cancelling, 1000)], "stopping  1 s"),
    ];
    for (steps, expected) in table {
        assert_eq!(spinner(steps), expected);
    }
}

#[test]
fn a_run_without_a_turn_compacts() {
    let mut script = Script::new(Glyphs::Unicode);
    script.on(run_start()).on(processing()).wait(1000);
    assert_eq!(script.rows(40, 1), ["⠇ compacting the conversation  1 s"]);
    script.on(AgentEvent::Compaction {
        summary: "all".into(),
        first_kept: MessageId::new("m"),
        kept: Vec::new(),
        masked: Vec::new(),
        report: None,
    });
    assert_eq!(script.rows(40, 1), ["⠋ working  0 s                 esc stops"]);
}

#[test]
fn the_hint_then_the_tokens_and_then_the_time_are_left_out_on_narrow_screens() {
    let mut script = Script::turn();
    script.on(text(0, &"x".repeat(5000))).on(usage(1234)).wait(2000);
    script.on(start("c", "cargo nextest run --workspace --all-features")).wait(12_000);
    let lines: Vec<String> = [90, 80, 60, 44, 40, 20, 16, 8, 3, 2, 1]
        .map(|columns| script.rows(columns, 1).remove(0))
        .into();
    insta::assert_snapshot!(lines.join("\n"), @"
    ⠋ cargo nextest run --workspace --all-features  12 s  ↓ 1.2k tokens              esc stops
    ⠋ cargo nextest run --workspace --all-features  12 s  ↓ 1.2k tokens    esc stops
    ⠋ cargo nextest run …ace --all-features  12 s  ↓ 1.2k tokens
    ⠋ cargo nextest run …ce --all-features  12 s
    ⠋ cargo nextest ru… --all-features  12 s
    ⠋ cargo …tures  12 s
    ⠋ cargo n…atures
    ⠋ car…es
    ⠋ …
    ⠋ 
    ⠋
    ");
}

#[test]
fn the_spinner_turns_with_the_time_and_stands_still_for_a_question() {
    let mut script = Script::turn();
    let frame = |script: &Script| script.rows(80, 1)[0].chars().next().unwrap();
    assert_eq!(frame(&script), '⠋');
    assert_eq!(frame(script.wait(120)), '⠙');
    assert_eq!(frame(script.wait(1080)), '⠋');
    script.on(permission_request("q", "c"));
    assert_eq!(script.rows(80, 1), ["? waiting for your answer  0 s"]);
    script.wait(1000);
    assert_eq!(script.rows(80, 1), ["? waiting for your answer  1 s"]);
}

#[test]
fn the_output_of_the_only_call_is_below_the_spinner_line() {
    let mut script = Script::turn();
    script.on(start("c", "cargo test --workspace")).on(progress(
        "c",
        "   Compiling crow v0.1.0\n\u{1b}[32mrunning\u{1b}[0m 120 tests\ntest a ... ok\n10%\r20%",
    ));
    script.wait(2000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠦ cargo test --workspace  2 s                                          esc stops|
        running 120 tests                                                           |
        test a ... ok                                                               |
        20%                                                                         |
    ⠦ cargo test --workspace  2 s  esc stops|
        running 120 tests                   |
        test a ... ok                       |
        20%                                 |
    ");
    // In one row its last line follows.
    assert_eq!(script.rows(80, 1), ["⠦ cargo test --workspace  2 s  20%"]);
}

#[test]
fn several_calls_have_a_row_each_and_the_newest_output() {
    let mut script = Script::turn();
    for (number, title) in
        ["cargo test", "cargo clippy --all-targets", "npm test"].iter().enumerate()
    {
        script.on(start(&number.to_string(), title)).wait(1000);
    }
    script.on(progress("0", "old output")).on(progress("1", "Checking a\nChecking b\n"));
    insta::assert_snapshot!(script.screen(10), @"
    ⠴ running 3 calls  3 s                                                 esc stops|
      · cargo test  3 s                                                             |
      · cargo clippy --all-targets  2 s                                             |
        Checking a                                                                  |
        Checking b                                                                  |
      · npm test  1 s                                                               |
    ⠴ running 3 calls  3 s         esc stops|
      · cargo test  3 s                     |
      · cargo clippy --all-targets  2 s     |
        Checking a                          |
        Checking b                          |
      · npm test  1 s                       |
    ");
    insta::assert_snapshot!(script.screen(2), @"
    ⠴ running 3 calls  3 s                                                 esc stops|
      · cargo test (+2)  3 s                                                        |
    ⠴ running 3 calls  3 s         esc stops|
      · cargo test (+2)  3 s                |
    ");
}

#[test]
fn at_most_four_calls_have_a_row() {
    let mut script = Script::turn();
    for number in 0..7 {
        script.on(start(&number.to_string(), &format!("read file-{number}.rs"))).wait(100);
    }
    script.wait(1000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠼ running 7 calls  1 s                                                 esc stops|
      · read file-0.rs  1 s                                                         |
      · read file-1.rs  1 s                                                         |
      · read file-2.rs  1 s                                                         |
      · read file-3.rs  1 s                                                         |
      … and 3 more calls                                                            |
    ⠼ running 7 calls  1 s         esc stops|
      · read file-0.rs  1 s                 |
      · read file-1.rs  1 s                 |
      · read file-2.rs  1 s                 |
      · read file-3.rs  1 s                 |
      … and 3 more calls                    |
    ");
}

#[test]
fn the_todo_list_is_a_window_around_the_item_in_progress() {
    let mut script = Script::turn();
    script.on(plan(&["xread", "xplan", "xedit", ">test", "document", "commit", "report"]));
    insta::assert_snapshot!(script.screen(10), @"
    ⠋ waiting for the model  0 s                                           esc stops|
      todo 3/7                                                                      |
        ☑ plan                                                                      |
        ☑ edit                                                                      |
        ▸ Now: test                                                                 |
        ☐ document                                                                  |
        ☐ commit                                                                    |
    ⠋ waiting for the model  0 s   esc stops|
      todo 3/7                              |
        ☑ plan                              |
        ☑ edit                              |
        ▸ Now: test                         |
        ☐ document                          |
        ☐ commit                            |
    ");
    insta::assert_snapshot!(script.screen(4), @"
    ⠋ waiting for the model  0 s                                           esc stops|
      todo 3/7                                                                      |
        ▸ Now: test                                                                 |
        ☐ document                                                                  |
    ⠋ waiting for the model  0 s   esc stops|
      todo 3/7                              |
        ▸ Now: test                         |
        ☐ document                          |
    ");
    insta::assert_snapshot!(script.screen(2), @"
    ⠋ waiting for the model  0 s                                           esc stops|
      todo 3/7  ▸ Now: test                                                         |
    ⠋ waiting for the model  0 s   esc stops|
      todo 3/7  ▸ Now: test                 |
    ");
    script.on(plan(&["xread", "test", "report"]));
    insta::assert_snapshot!(script.screen(3), @"
    ⠋ waiting for the model  0 s                                           esc stops|
      todo 1/3  ☐ test                                                              |
    ⠋ waiting for the model  0 s   esc stops|
      todo 1/3  ☐ test                      |
    ");
    script.on(plan(&["xread", "xtest"]));
    assert_eq!(script.rows(80, 10).len(), 1);
}

#[test]
fn todos_look_by_their_status() {
    let mut script = Script::turn();
    script.on(plan(&["xread", ">test", "report"]));
    let rows = script.panel.rows(script.now(), ActivitySpace { columns: 80, rows: 10 });
    let looks: Vec<(String, TextRole, Emphasis)> = rows[2..]
        .iter()
        .map(|row| {
            let last = row.spans().last().unwrap();
            (last.text.clone(), last.look.role, last.look.emphasis)
        })
        .collect();
    assert_eq!(
        looks,
        [
            ("read".to_owned(), TextRole::Dim, Emphasis::STRIKETHROUGH),
            ("Now: test".to_owned(), TextRole::Accent, Emphasis::BOLD),
            ("    ☐ report".to_owned(), TextRole::Plain, Emphasis::NONE),
        ]
    );
}

#[test]
fn background_jobs_outlive_the_run() {
    let mut script = Script::turn();
    script.on(start("c", "npm run dev")).on(job_start("c", "job-1")).wait(125_000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠙ waiting for the model  2 min 5 s                                     esc stops|
      1 job: npm run dev (2 min)                                                    |
    ⠙ waiting for the model  2 min 5 s      |
      1 job: npm run dev (2 min)            |
    ");
    script.on(start("d", "cargo watch --exec test --workspace")).on(job_start("d", "job-2"));
    script.on(run_end()).wait(5000);
    assert!(!script.is_busy());
    insta::assert_snapshot!(script.screen(10), @"
    2 jobs: npm run dev (2 min), cargo watch -…t --workspace (5 s)                |
    2 jobs: npm…dev (2 min), car…ace (5 s)|
    ");
    script.on(AgentEvent::Notice {
        level: NoticeLevel::Info,
        audience: NoticeAudience::Model,
        text: "job-1 (npm run dev) ended with exit code 0; its output was not read".into(),
    });
    assert_eq!(script.rows(80, 10), ["  1 job: cargo watch --exec test --workspace (5 s)"]);
}

#[test]
fn all_marks_have_an_ascii_form() {
    let mut script = Script::new(Glyphs::Ascii);
    script.run().on(text(0, "some text")).on(plan(&["xread", ">test", "report"]));
    let child = subagent("child", "explorer", ROOT, "t");
    script.on(start("t", "explorer: look")).on(subagent_start(&child, "look"));
    script.by(&child, start("c1", "grep"));
    for call in ["a", "b"] {
        script.on(start(call, "cargo test"));
    }
    script.on(progress("a", "ok")).wait(1000);
    for columns in [10, 30, 80] {
        for row in script.rows(columns, 20) {
            assert!(row.is_ascii(), "{row}");
        }
    }
}

#[test]
fn text_of_others_cannot_command_the_terminal() {
    let evil = "a\u{1b}[2J\u{202e}b\nc\u{7}";
    let child = subagent("child", evil, ROOT, "t");
    let mut script = Script::turn();
    script.on(plan(&[evil, evil])).on(start("t", evil)).on(subagent_start(&child, evil));
    script.by(&child, start("c", evil)).on(start("d", evil)).on(start("e", evil));
    script.on(progress("d", evil)).on(call_wait("e", evil)).wait(1000);
    script.on(start("j", evil)).on(job_start("j", evil));
    let rows = script.rows(200, 30).join("\n");
    let is_obeyed = |character: char| character.is_control() && character != '\n';
    assert!(!rows.contains(is_obeyed) && !rows.contains('\u{202e}'), "{rows}");
    assert!(rows.contains("a␛[2J"), "{rows}");
}
