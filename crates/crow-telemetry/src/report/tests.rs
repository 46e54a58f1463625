//! Tests of the report.

use std::{collections::BTreeMap, time::Instant};

use base64::Engine as _;
use crow_core::{
    event::{AgentEvent, Envelope, RunOutcome},
    ids::SessionId,
    tool::ToolResult,
    turn::TurnEnd,
};
use crow_testkit::sample::{ROOT, Story, edit_result};
use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use super::{
    SessionReport,
    session_report::{REPORT_STYLE, STYLE_HASH},
};

fn report(events: &[Envelope], title: &str) -> String {
    SessionReport {
        session_id: &SessionId::new(ROOT),
        title,
        cwd: "/p/crow",
        model: "anthropic/claude-sonnet-4-5",
        events,
        prices: &BTreeMap::new(),
        zone: TimeZone::UTC,
        version: "0.0.0",
    }
    .to_html()
}

/// A session of this many turns, each with two calls that print much.
fn long_session(turns: usize) -> Vec<Envelope> {
    let mut story = Story::session();
    story.prompt("Fix everything");
    let output = "warning: unused variable `x` in src/main.rs\n".repeat(200);
    for turn in 0..turns {
        let (first, second) = (format!("a{turn}"), format!("b{turn}"));
        story.reply_without_deltas(
            "",
            "I look at it and change what is wrong. ",
            &[(&first, "bash"), (&second, "edit_file")],
        );
        story.call(&first, "bash", "cargo test --workspace", ToolResult::success(output.clone()));
        story.call(&second, "edit_file", "edit src/main.rs", edit_result()).next_reply();
    }
    story.answer("All is fixed.");
    story.events
}

#[test]
fn the_permitted_style_sheet_is_the_one_in_the_document() {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(REPORT_STYLE));
    assert_eq!(STYLE_HASH, format!("sha256-{hash}"));
    let html = report(&long_session(1), "t");
    assert!(html.contains(&format!("style-src '{STYLE_HASH}'")));
    assert!(html.contains(&format!("<style>{REPORT_STYLE}</style>")));
}

#[test]
fn nothing_in_a_session_becomes_markup() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";
    let mut story = Story::session();
    story.prompt(hostile);
    story.reply(hostile, hostile, &[("c", "bash")]);
    story.call("c", "bash", hostile, ToolResult::success(hostile));
    story.call("d", hostile, hostile, ToolResult::failure(hostile));
    story.push(AgentEvent::Handoff {
        from: hostile.into(),
        to: hostile.into(),
        prompt: hostile.into(),
    });
    story.run_end(RunOutcome::Cancelled);
    let html = report(&story.events, hostile);
    assert_eq!(html.matches("<script").count(), 1, "only the data");
    assert_eq!(html.matches("</script").count(), 1);
    for part in ["<img", "onerror=\"", "\u{1b}", "\u{202e}", "http-equiv=\"refresh"] {
        assert!(!html.contains(part), "{part}");
    }
}

#[test]
fn a_report_of_200_turns_has_at_most_400_kb_and_one_of_1000_is_made_within_a_second() {
    let html = report(&long_session(200), "t");
    assert!(html.len() <= 400_000, "{} bytes", html.len());
    let events = long_session(1_000);
    let started = Instant::now();
    let html = report(&events, "t");
    let elapsed = started.elapsed();
    assert!(html.len() <= 1_600_000, "{} bytes", html.len());
    // Without optimization and beside other tests it may take several times as long.
    assert!(elapsed.as_secs() < 30, "{elapsed:?}");
}

#[test]
fn the_data_of_a_report_can_be_read() {
    let html = report(&long_session(3), "t");
    let (_, rest) = html.split_once("id=\"crow-report\">").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["spans"].as_array().unwrap().len(), 12);
    assert_eq!(data["session"], ROOT);
}

#[test]
fn a_session_without_a_run_has_a_report() {
    let story = Story::session();
    assert!(report(&story.events, "").contains("<h1>Session</h1>"));
    let mut story = Story::run();
    story.turn_end(TurnEnd::Cancelled).run_end(RunOutcome::Cancelled);
    assert!(report(&story.events, "").contains("cancelled"));
}
