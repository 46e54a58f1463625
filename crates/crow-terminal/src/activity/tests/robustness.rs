//! Events out of order, lost and repeated ones.

use std::num::NonZero;

use crow_console::Glyphs;
use crow_core::event::{AgentEvent, AgentState};
use jiff::Timestamp;

use super::script::*;
use crate::{activity::ActivitySpace, theme::Theme};

#[test]
fn nothing_is_shown_without_a_run() {
    let script = Script::new(Glyphs::Unicode);
    assert_eq!(script.rows(80, 10), [""; 0]);
}

#[test]
fn the_end_of_a_run_clears_what_belonged_to_it() {
    for last in [run_end(), AgentEvent::StateChange { state: AgentState::Idle }] {
        let mut script = Script::turn();
        let child = subagent("child", "explorer", ROOT, "t");
        script.on(plan(&[">test"])).on(start("c", "ls")).on(permission_request("q", "d"));
        script.on(start("t", "explorer: look")).on(subagent_start(&child, "look"));
        script.by(&child, run_start()).on(AgentEvent::Cancelling);
        assert!(script.is_busy());
        script.on(last.clone()).wait(1000);
        assert!(!script.is_busy());
        assert_eq!(script.rows(80, 10), [""; 0], "{last:?}");
        // Late events are not shown, neither now nor in the next run.
        script
            .on(start("late", "late"))
            .on(end("c"))
            .on(text(0, "late"))
            .by(&child, text(0, "late"));
        assert_eq!(script.rows(80, 10), [""; 0], "{last:?}");
        script.run();
        let rows = script.rows(80, 10);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0].contains("waiting for the model  0 s"), "{rows:?}");
    }
}

#[test]
fn an_end_without_a_start_and_a_repeated_start_change_nothing() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    let before = script.rows(80, 10);
    script.on(end("unknown")).on(subagent_end(&child)).on(review_end("reviewer"));
    script.on(permission_withdrawn("q", "c")).on(progress("c", "out")).on(call_wait("c", "x"));
    script.by(&child, end("c")).by(&child, run_end());
    assert_eq!(script.rows(80, 10), before);
    script.on(start("c", "ls")).wait(2000).on(start("c", "ls"));
    assert!(script.rows(80, 1)[0].contains("ls  2 s"));
    script.on(subagent_start(&child, "look")).on(subagent_start(&child, "look"));
    let rows = script.rows(80, 10);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].contains("ls  2 s") && rows[1].contains("explorer  look"), "{rows:?}");
}

#[test]
fn another_root_session_replaces_everything() {
    let mut script = Script::turn();
    script.on(start("c", "npm run dev")).on(job_start("c", "job-1"));
    let mut other = envelope(&root(), script.now(), run_start());
    other.session_id = crow_core::ids::SessionId::new("other");
    other.root_id = other.session_id.clone();
    script.panel.on_event(&other);
    let rows = script.rows(80, 10);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(!rows[0].contains("npm"), "{rows:?}");
}

#[test]
fn the_agents_that_never_end_are_bounded() {
    let mut script = Script::turn();
    for number in 0..200 {
        let child = subagent(&format!("child-{number}"), "explorer", ROOT, &format!("t{number}"));
        script.on(subagent_start(&child, "look")).by(&child, run_start());
        script.by(&child, start("c", "ls"));
        assert!(script.panel.agents.len() <= 64 && script.panel.roster.len() <= 64);
    }
    assert_eq!(script.panel.roster.working_tree().len(), 63);
    let rows = script.rows(80, 40);
    assert_eq!(rows.last().unwrap(), "  └─ … and 57 more agents");
    assert!(script.is_busy(), "the root is never dropped");
}

#[test]
fn agents_that_ended_are_dropped_before_others() {
    let mut script = Script::turn();
    let first = subagent("first", "planner", ROOT, "p");
    script.on(subagent_start(&first, "plan"));
    for number in 0..100 {
        let child = subagent(&format!("child-{number}"), "explorer", ROOT, &format!("t{number}"));
        script.on(subagent_start(&child, "look")).on(subagent_end(&child));
    }
    assert_eq!(script.rows(80, 10)[1..], ["  └─ planner  plan  0 s"]);
}

#[test]
fn agents_that_are_each_below_the_other_are_shown_once() {
    let mut script = Script::turn();
    let (one, two) = (subagent("one", "a", "two", "c"), subagent("two", "b", "one", "c"));
    script.by(&one, run_start()).by(&two, run_start());
    let tree = script.panel.roster.working_tree();
    assert_eq!(tree.len(), 2);
    // One that is its own parent.
    let own = subagent("own", "c", "own", "c");
    script.by(&own, run_start()).on(run_end()).on(run_start());
    assert!(script.panel.roster.working_tree().len() <= 3);
}

#[test]
fn a_clock_that_goes_back_shows_zero_seconds() {
    let mut script = Script::turn();
    script.on(start("c", "ls"));
    let rows = script.panel.rows(Timestamp::UNIX_EPOCH, ActivitySpace { columns: 80, rows: 5 });
    assert!(rows[0].text().starts_with("⠋ ls  0 s"), "{rows:?}");
}

#[test]
fn painted_rows_fill_their_own_rows_of_a_terminal() {
    let mut script = Script::turn();
    let child = subagent("child", "漢字 explorer", ROOT, "t");
    script.on(plan(&[
        "x漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
        ">e\u{301}e\u{301}",
        "report",
    ]));
    script.on(start("t", "explorer: look")).on(subagent_start(&child, &"漢字 ".repeat(20)));
    script.on(start("a", &"漢字 ".repeat(20))).on(start("b", "cargo test"));
    script.on(progress("b", &"漢".repeat(50))).wait(1000);
    for columns in [7_u16, 20, 40, 80] {
        let space = ActivitySpace { columns: columns.into(), rows: 12 };
        let rows = script.panel.rows(script.now(), space);
        let (height, width) = (NonZero::new(12).unwrap(), NonZero::new(columns).unwrap());
        let mut terminal = vt100::Parser::new(height, width, 0);
        let painted: Vec<String> = rows.iter().map(|row| Theme::Dark.paint(row).text).collect();
        terminal.process(painted.join("\r\n").as_bytes());
        let shown: Vec<String> = terminal.screen().rows(0, columns).take(rows.len()).collect();
        let expected: Vec<String> =
            rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
        assert_eq!(shown, expected, "{columns}");
    }
}

#[test]
fn the_rows_depend_on_nothing_but_events_time_and_space() {
    let make = || {
        let mut script = Script::turn();
        for number in 0..5 {
            let child =
                subagent(&format!("child-{number}"), "explorer", ROOT, &format!("t{number}"));
            script.on(subagent_start(&child, "look")).by(&child, start("c", "ls"));
        }
        script.wait(1000);
        script
    };
    assert_eq!(make().rows(80, 10), make().rows(80, 10));
}
