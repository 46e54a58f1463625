//! Tests of the complete output of sample runs.

use std::{cell::RefCell, io::Write, rc::Rc};

use crow_core::{
    event::{AgentEvent, Failure, RunOutcome},
    ids::{CallId, UndoId},
    permission::DenialSource,
    tool::{ChangeCounts, NotRestorable},
    turn::TurnEnd,
};
use crow_testkit::sample::{self, Story, with_readable_escapes};
use proptest::prelude::*;

use super::*;
use crate::report::{ErrorReport, ExitCode, ReportBuilder, RunReport, SAMPLE_HINTS};

/// Renders a story with its report; returns stdout and stderr.
fn show(style: ConsoleStyle, story: &Story) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let style = ConsoleStyle { hints: SAMPLE_HINTS, ..style };
    let mut renderer = ConsoleRenderer::new(style, &mut out, &mut err);
    let mut report = ReportBuilder::new().with_hints(SAMPLE_HINTS);
    for envelope in &story.events {
        report.on_event(envelope);
        renderer.render(envelope).unwrap();
    }
    renderer.finish(&report.report()).unwrap();
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// Returns the style of a terminal in colour.
fn terminal(columns: usize) -> ConsoleStyle {
    ConsoleStyle {
        colour: true,
        live: true,
        questions: Visibility::Show,
        answer: AnswerDestination::Streamed,
        ..ConsoleStyle::plain(columns)
    }
}

#[derive(Clone, Default)]
struct Tube(Rc<RefCell<Vec<u8>>>);

impl Write for Tube {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Tube {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

/// Renders a story with stdout and stderr on the same screen.
fn screen(style: ConsoleStyle, story: &Story) -> String {
    let tube = Tube::default();
    let style = ConsoleStyle { hints: SAMPLE_HINTS, ..style };
    let mut renderer = ConsoleRenderer::new(style, tube.clone(), tube.clone());
    let mut report = ReportBuilder::new().with_hints(SAMPLE_HINTS);
    for envelope in &story.events {
        report.on_event(envelope);
        renderer.render(envelope).unwrap();
        renderer.flush().unwrap();
    }
    renderer.finish(&report.report()).unwrap();
    tube.text()
}

#[test]
fn a_good_run_on_a_terminal() {
    let style = ConsoleStyle { colour: false, ..terminal(80) };
    insta::assert_snapshot!(screen(style, &sample::good_run()));
}

#[test]
fn a_good_run_in_colour() {
    insta::assert_snapshot!(with_readable_escapes(&screen(terminal(80), &sample::good_run())));
}

#[test]
fn a_good_run_on_a_narrow_terminal() {
    let style = ConsoleStyle { colour: false, ..terminal(40) };
    insta::assert_snapshot!(screen(style, &sample::good_run()));
}

#[test]
fn a_good_run_in_ascii_without_thinking() {
    let style = ConsoleStyle {
        glyphs: Glyphs::Ascii,
        thinking: Visibility::Hide,
        ..ConsoleStyle::plain(80)
    };
    let (out, err) = show(style, &sample::good_run());
    assert!(err.is_ascii());
    insta::assert_snapshot!(format!("{out}----\n{err}"));
}

#[test]
fn a_bad_run_on_a_terminal() {
    let style = ConsoleStyle { colour: false, ..terminal(80) };
    insta::assert_snapshot!(screen(style, &sample::bad_run()));
}

#[test]
fn a_bad_run_in_colour_on_a_narrow_terminal() {
    insta::assert_snapshot!(with_readable_escapes(&screen(terminal(40), &sample::bad_run())));
}

#[test]
fn a_reviewed_run() {
    let style = ConsoleStyle { colour: false, ..terminal(80) };
    insta::assert_snapshot!(screen(style, &sample::reviewed_run()));
}

#[test]
fn a_generated_message_is_shown_once() {
    let mut story = Story::run();
    story.reply("", "Half of it.", &[]).next_reply();
    story.generated_message("See to the tests.").answer("All of it.");
    let (_, err) = show(ConsoleStyle::plain(80), &story);
    let lines: Vec<_> = err.lines().filter(|line| !line.trim().is_empty()).collect();
    let message = lines.iter().position(|line| *line == "  generator: See to the tests.");
    assert_eq!(lines[message.unwrap() + 1], "→ generator → builder", "{err}");
    assert_eq!(err.matches("See to the tests.").count(), 1, "{err}");
}

#[test]
fn a_transcript_has_the_words_of_the_user_and_the_end_of_each_run() {
    let mut story = sample::good_run();
    story.prompt("Thanks.\nNow say goodbye").answer("Goodbye");
    let log: Vec<_> = story.events.iter().filter(|envelope| envelope.event.is_durable()).collect();
    let mut sink = Vec::new();
    show_session(&ConsoleStyle::plain(80), log, &[], &mut sink).unwrap();
    insta::assert_snapshot!(String::from_utf8(sink).unwrap());
}

#[test]
fn piped_stdout_gets_the_answer_and_nothing_else() {
    let (out, err) = show(ConsoleStyle::plain(80), &sample::good_run());
    assert_eq!(out, "The greeting is right now.\n\nAll tests pass.\n");
    assert!(err.contains("I will fix the greeting.\n"), "earlier text is for people: {err}");
    assert!(!err.contains("All tests pass"), "{err}");
    assert!(!err.contains(['\u{1b}', '\r']), "{err}");
}

#[test]
fn text_beside_the_completing_call_is_the_answer() {
    let mut story = Story::run();
    story
        .reply("", "All done.", &[("c1", "task_complete")])
        .call("c1", "task_complete", "complete", sample::command_result(1))
        .run_end(RunOutcome::Completed { summary: "Fixed it.".into(), verified: false });
    let (out, err) = show(ConsoleStyle::plain(80), &story);
    assert_eq!(out, "All done.\n");
    assert!(!err.contains("All done."), "{err}");
    assert!(err.contains("Fixed it."), "{err}");
}

#[test]
fn the_summary_is_the_answer_of_a_run_that_ends_without_text() {
    let mut story = Story::run();
    story
        .reply("", "", &[("c1", "task_complete")])
        .call("c1", "task_complete", "complete", sample::command_result(1))
        .run_end(RunOutcome::Completed { summary: "Fixed it.".into(), verified: false });
    for style in [ConsoleStyle::plain(80), terminal(80)] {
        let (out, err) = show(style, &story);
        assert_eq!((out.as_str(), err.contains("Fixed it.")), ("Fixed it.\n", false), "{err}");
    }
}

#[test]
fn the_answer_of_an_earlier_run_is_not_repeated() {
    let mut story = sample::good_run();
    story.prompt("More").run_end(RunOutcome::Cancelled);
    let (out, _) = show(ConsoleStyle::plain(80), &story);
    assert_eq!(out, "");
}

#[test]
fn text_voided_by_a_retry_is_not_the_answer() {
    let mut story = Story::run();
    story.text_delta(0, "The answer is 41").retry(1).answer("The answer is 42");
    let (out, err) = show(ConsoleStyle::plain(80), &story);
    assert_eq!(out, "The answer is 42\n");
    assert!(err.contains("anthropic: overloaded, trying again in 2 s (1)\n"), "{err}");
}

#[test]
fn a_repeated_or_missing_delta_changes_nothing() {
    let mut story = Story::run();
    story.text_delta(0, "one ").text_delta(0, "one ").text_delta(8, "three");
    story.reply_without_deltas("", "one two three", &[]).run_end(RunOutcome::NeedsInput);
    assert_eq!(show(terminal(80), &story).0, "one two three\n");
    assert_eq!(show(ConsoleStyle::plain(80), &story).0, "one two three\n");
}

#[test]
fn many_small_deltas_cause_few_writes() {
    #[derive(Default)]
    struct Counter(usize, usize);
    impl Write for &mut Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += 1;
            self.1 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (mut out, mut err) = (Counter::default(), Counter::default());
    let mut renderer = ConsoleRenderer::new(terminal(80), &mut out, &mut err);
    let mut story = Story::run();
    for number in 0..20_000 {
        story.text_delta(number * 4, "word");
    }
    for (number, envelope) in story.events.iter().enumerate() {
        renderer.render(envelope).unwrap();
        if number % 1000 == 0 {
            renderer.flush().unwrap();
        }
    }
    drop(renderer);
    assert!(out.0 <= 25, "{} writes", out.0);
}

#[test]
fn the_wait_is_shown_while_it_lasts_and_cleared_before_anything_else() {
    let tube = Tube::default();
    let mut renderer = ConsoleRenderer::new(terminal(60), tube.clone(), tube.clone());
    let mut story = Story::run();
    story.start("c1", "bash", "cargo test");
    for envelope in &story.events {
        renderer.render(envelope).unwrap();
    }
    story.wait(3200);
    renderer.tick(story.now()).unwrap();
    let output = "Compiling crow\n   Compiling more\n".to_owned();
    story.push(AgentEvent::CallProgress { call_id: crow_core::ids::CallId::new("c1"), output });
    renderer.render(story.events.last().unwrap()).unwrap();
    renderer.tick(story.now()).unwrap();
    story.end("c1", "bash", sample::command_result(3200), None);
    renderer.render(story.events.last().unwrap()).unwrap();
    renderer.flush().unwrap();
    insta::assert_snapshot!(with_readable_escapes(&tube.text()));
}

#[test]
fn a_command_that_changes_files_says_so_and_so_do_undos() {
    let mut story = Story::run();
    let mut result = sample::command_result(12);
    result.metadata.diff = Some(sample::patch());
    result.metadata.files_modified = vec!["/p/src/main.rs".into(), "/p/old.rs".into()];
    result.metadata.changes =
        Some(ChangeCounts { created: 0, deleted: 1, modified: 1, additions: 2, deletions: 9 });
    let reason = "the file is too large".into();
    result.metadata.not_restorable = vec![NotRestorable { path: "/p/old.rs".into(), reason }];
    story.reply("", "", &[("c1", "bash")]);
    story.pending("c1", "bash", "sed -i s/a/b/ src/main.rs; rm old.rs", None);
    story.push(AgentEvent::CallWait {
        call_id: CallId::new("c1"),
        reason: "another agent changes files here".into(),
    });
    story.start("c1", "bash", "sed -i s/a/b/ src/main.rs; rm old.rs").wait(500);
    story.end("c1", "bash", result, None).next_reply();
    story.answer("Done.");
    let undo_id = UndoId::new("u1");
    let text =
        "The user undid some of your changes. Calls: rm (bash).\nNot as you left them: a.".into();
    story.push(AgentEvent::FilesRestored { undo_id: undo_id.clone(), text });
    story.push(AgentEvent::Rewind { undo_id, last_kept: 3 });
    let style = ConsoleStyle { colour: false, ..terminal(80) };
    insta::assert_snapshot!(screen(style, &story));
}

#[test]
fn a_wait_for_the_provider_is_shown_unless_it_is_short() {
    for (wait_ms, expected) in [
        (Some(11_200), "waiting: 30 requests per minute at open␛ai, 12 s"),
        (Some(90_000), "waiting: 30 requests per minute at open␛ai, 1 min 30 s"),
        (None, "waiting: 30 requests per minute at open␛ai\n"),
        (Some(999), ""),
    ] {
        let mut story = Story::run();
        let reason = "30 requests per minute at open\u{1b}ai".to_owned();
        let reply_id = story.reply_id();
        story.push(AgentEvent::ModelWait { reply_id, reason, wait_ms }).answer("Hi");
        let (out, err) = show(ConsoleStyle::plain(80), &story);
        assert_eq!(out, "Hi\n");
        assert_eq!(err.contains("waiting"), !expected.is_empty(), "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn a_wait_for_tools_names_their_servers() {
    let mut story = Story::run();
    let servers = vec!["docs".to_owned(), "slow\u{1b}er".to_owned()];
    story.push(AgentEvent::ToolsWait { servers }).answer("Hi");
    let (out, err) = show(ConsoleStyle::plain(80), &story);
    assert_eq!(out, "Hi\n");
    assert!(err.contains("waiting for the tools of docs, slow␛er"), "{err}");
}

#[test]
fn a_question_shows_the_change_once_and_no_wait() {
    let style = ConsoleStyle { colour: false, ..terminal(60) };
    let tube = Tube::default();
    let mut renderer = ConsoleRenderer::new(style, tube.clone(), tube.clone());
    let mut story = Story::run();
    story.pending("c1", "edit_file", "edit src/main.rs", Some(sample::patch()));
    story.question("c1", "edit src/main.rs");
    for envelope in &story.events {
        renderer.render(envelope).unwrap();
    }
    story.wait(60_000);
    renderer.tick(story.now()).unwrap();
    story.start("c1", "edit_file", "edit src/main.rs").end(
        "c1",
        "edit_file",
        sample::edit_result(),
        None,
    );
    for envelope in story.events.iter().rev().take(2).rev() {
        renderer.render(envelope).unwrap();
    }
    renderer.flush().unwrap();
    insta::assert_snapshot!(tube.text());
}

#[test]
fn a_run_that_never_began_says_why_and_what_to_do() {
    let error = ErrorReport::new(ExitCode::Usage, "unknown model \"x/\u{1b}y\"")
        .with_hint("`crow-agent models` lists the models");
    let report = RunReport::not_started(ExitCode::Usage, error);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut renderer = ConsoleRenderer::new(ConsoleStyle::plain(80), &mut out, &mut err);
    renderer.finish(&report).unwrap();
    assert!(out.is_empty());
    insta::assert_snapshot!(String::from_utf8(err).unwrap());
}

#[test]
fn runs_that_end_early_say_why_in_their_last_line() {
    let mut text = String::new();
    let ends = [
        RunOutcome::Stopped { reason: TurnEnd::MaxSteps { steps: 3 } },
        RunOutcome::Cancelled,
        Failure::other("the disk is full").into(),
    ];
    for outcome in ends {
        let mut story = Story::run();
        story.run_end(outcome);
        text.push_str(&show(ConsoleStyle::plain(80), &story).1);
    }
    let mut story = Story::run();
    story.reply("", "", &[("c1", "edit_file")]).refused("c1", "edit a", DenialSource::Policy, "no");
    story.next_reply().answer("I could not.");
    text.push_str(&show(ConsoleStyle::plain(80), &story).1);
    insta::assert_snapshot!(text);
}

/// Removes the renderer's own escape sequences: colours and the clearing of the line.
fn without_own_sequences(text: &str) -> String {
    let mut text = text.replace("\r\u{1b}[2K", "");
    for sgr in ["0", "1", "2", "31", "32", "33", "36", "7;31", "7;32"] {
        text = text.replace(&format!("\u{1b}[{sgr}m"), "");
    }
    text
}

/// Returns a run in which every field that can contain foreign text contains `text`.
fn hostile_run(text: &str) -> Story {
    let mut story = Story::run();
    let owned = || text.to_owned();
    let mut result = sample::edit_result();
    if let Some(patch) = &mut result.metadata.diff {
        patch.files[0].path = owned().into();
        patch.files[0].hunks = format!("@@ -1 +1 @@\n-{text}\n+x{text}\n");
        let again = patch.files[0].clone();
        patch.files.push(again);
    }
    story
        .reply(text, text, &[("c1", "edit_file"), ("c2", text)])
        .call("c1", "edit_file", text, result)
        .call("c2", text, text, crow_core::tool::ToolResult::failure(owned()))
        .refused("c3", text, DenialSource::Policy, text)
        .refused("c4", text, DenialSource::User, text)
        .question("c5", text)
        .next_reply()
        .push(AgentEvent::Handoff { from: owned(), to: owned(), prompt: owned() })
        .push(AgentEvent::Checks {
            checks: vec![crow_core::event::CheckRun {
                name: owned(),
                command: owned(),
                exit_code: Some(1),
                error: Some(owned()),
                duration_ms: 5,
                fresh: false,
            }],
            passed: false,
            unverified: Some(owned()),
        })
        .push(AgentEvent::Switch { change: owned() })
        .push(AgentEvent::Error { error: owned(), provider: None })
        .push(AgentEvent::SubagentStart {
            parent: owned(),
            subagent: owned(),
            child_id: crow_core::ids::SessionId::new("child"),
            task: owned(),
        })
        .with_child("child", |story| {
            story.reply("", text, &[]);
        })
        .notice(
            crow_core::event::NoticeLevel::Warning,
            crow_core::event::NoticeAudience::User,
            text,
        )
        .run_end(Failure::other(owned()).into());
    story
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn foreign_text_cannot_control_the_terminal(text in "[a-z \n\r\t\u{1b}\u{9b}\\[\\]0-9;mJ\u{7}\u{8}\u{202e}\u{200b}漢]{0,60}") {
        for style in [terminal(40), ConsoleStyle::plain(40)] {
            let shown = screen(style, &hostile_run(&text));
            let rest = without_own_sequences(&shown);
            prop_assert!(!rest.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{rest:?}");
            prop_assert!(!rest.contains(['\u{202e}', '\u{200b}']), "{rest:?}");
        }
    }

    #[test]
    fn the_size_of_deltas_does_not_change_the_output(
        text in "[a-z \n\r\u{1b}\\[漢]{1,80}",
        thinking in "[a-z \n\r\u{1b}\\[漢]{0,80}",
        size in 1_usize..9,
    ) {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        let mut whole = Story::run();
        whole.reply_without_deltas(&thinking, &text, &[]).run_end(RunOutcome::NeedsInput);
        let mut cut = Story::run();
        let mut offset = 0;
        for piece in characters(&thinking).chunks(size) {
            let delta: String = piece.iter().collect();
            let (reply_id, length) = (cut.reply_id(), delta.len() as u64);
            cut.push(AgentEvent::ThinkingDelta { reply_id, offset, delta });
            offset += length;
        }
        let mut offset = 0;
        for piece in characters(&text).chunks(size) {
            let delta: String = piece.iter().collect();
            cut.text_delta(offset, &delta);
            offset += delta.len();
        }
        cut.reply_without_deltas(&thinking, &text, &[]).run_end(RunOutcome::NeedsInput);
        for style in [terminal(40), ConsoleStyle::plain(40)] {
            let duration = |shown: &str| shown.rsplit_once(" step").map(|(start, _)| start.to_owned());
            prop_assert_eq!(duration(&screen(style, &whole)), duration(&screen(style, &cut)));
        }
    }
}
