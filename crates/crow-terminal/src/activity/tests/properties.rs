//! Properties of the panel with any events in any order.

use crow_console::Glyphs;
use crow_core::event::{AgentEvent, AgentRole, AgentState};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::script::*;
use crate::activity::{ActivityPanel, ActivitySpace};

/// Texts that are hard to measure or to draw.
const TEXTS: [&str; 10] = [
    "cargo test",
    "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
    "a\u{301}\u{301}\u{301}e\u{301}",
    "👩\u{200d}💻 🇩🇪 ❤\u{fe0f} ⚠\u{fe0f}",
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;t\u{7}",
    "\u{202e}\u{2066}\u{200b}\u{feff}",
    "one\r\ntwo\tthree\u{8}\u{8}\n10%\r20%",
    "",
    "لا إله لا لا",
    "a long line of plain words that does not fit into any of the rows that a terminal of a usual width has",
];

fn text_strategy() -> impl Strategy<Value = String> {
    (0..TEXTS.len(), 0_usize..4).prop_map(|(index, repeats)| TEXTS[index].repeat(repeats))
}

fn sender() -> impl Strategy<Value = Sender> {
    let role =
        prop_oneof![Just(AgentRole::Primary), Just(AgentRole::Coagent), Just(AgentRole::Subagent)];
    let session = prop_oneof![3 => Just(0_u32), 4 => 1_u32..5, 1 => 5_u32..120];
    let parent = proptest::option::of((0_u32..6, proptest::option::of(0_u32..4)));
    let name = |number: u32| if number == 0 { ROOT.to_owned() } else { format!("s{number}") };
    (session, text_strategy(), role, parent).prop_map(move |(session, agent, role, parent)| {
        Sender {
            session: name(session),
            agent,
            role,
            parent: parent
                .map(|(parent, call)| (name(parent), call.map(|call| format!("c{call}")))),
        }
    })
}

fn event() -> impl Strategy<Value = AgentEvent> {
    let call = || (0_u32..6).prop_map(|call| format!("c{call}"));
    let named_call = || (call(), text_strategy());
    let state = prop_oneof![
        4 => Just(AgentState::Processing),
        1 => Just(AgentState::Idle),
        1 => Just(AgentState::Done),
    ];
    prop_oneof![
        4 => Just(run_start()),
        1 => Just(run_end()),
        1 => Just(input()),
        3 => Just(turn_start()),
        2 => Just(turn_end()),
        1 => Just(reply()),
        1 => Just(AgentEvent::Cancelling),
        2 => (0_u64..40, text_strategy()).prop_map(|(offset, delta)| text(offset, &delta)),
        2 => (0_u64..40, text_strategy()).prop_map(|(offset, delta)| thinking(offset, &delta)),
        1 => any::<u64>().prop_map(usage),
        1 => (any::<u32>(), any::<u64>()).prop_map(|(attempt, wait)| retry(attempt, wait)),
        3 => named_call().prop_map(|(call, title)| pending(&call, &title)),
        9 => named_call().prop_map(|(call, title)| start(&call, &title)),
        6 => named_call().prop_map(|(call, output)| progress(&call, &output)),
        2 => named_call().prop_map(|(call, reason)| call_wait(&call, &reason)),
        3 => call().prop_map(|call| end(&call)),
        1 => call().prop_map(|call| end_with(&call, &json!({ "task_id": "task-1" }))),
        2 => (call(), 0_u32..50).prop_map(|(call, job)| job_start(&call, &format!("job-{job}"))),
        2 => (call(), 0_u32..4).prop_map(|(call, q)| permission_request(&q.to_string(), &call)),
        2 => (call(), 0_u32..4).prop_map(|(call, q)| permission_withdrawn(&q.to_string(), &call)),
        3 => (sender(), text_strategy()).prop_map(|(child, task)| subagent_start(&child, &task)),
        1 => sender().prop_map(|child| subagent_end(&child)),
        1 => sender().prop_map(|child| review_start(&child.agent)),
        1 => sender().prop_map(|child| review_end(&child.agent)),
        2 => proptest::collection::vec(
            (prop_oneof![Just(""), Just("x"), Just(">")], text_strategy()),
            0..9,
        )
        .prop_map(|items| {
            let items: Vec<String> =
                items.iter().map(|(mark, text)| format!("{mark}-{text}")).collect();
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            plan(&items)
        }),
        1 => proptest::collection::vec(text_strategy(), 0..6)
            .prop_map(|servers| AgentEvent::ToolsWait { servers }),
        2 => state.prop_map(|state| AgentEvent::StateChange { state }),
    ]
}

fn check_rows(
    panel: &ActivityPanel,
    now: Timestamp,
    space: ActivitySpace,
) -> Result<(), TestCaseError> {
    let rows = panel.rows(now, space);
    prop_assert!(rows.len() <= space.rows);
    for row in &rows {
        let text = row.text();
        prop_assert!(row.width() <= space.columns, "{text:?} in {space:?}");
        prop_assert!(crow_console::wrap::width(&text) <= space.columns, "{text:?} in {space:?}");
        prop_assert!(!text.contains(char::is_control), "{text:?}");
        prop_assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}']), "{text:?}");
    }
    if panel.root_progress().is_some() && space.columns > 0 && space.rows > 0 {
        prop_assert!(!rows.is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_events_give_rows_that_fit(
        events in proptest::collection::vec((sender(), event(), -500_i64..3000), 0..80),
        columns in 0_usize..90,
        rows in 0_usize..20,
        is_ascii in any::<bool>(),
    ) {
        let mut panel = ActivityPanel::new(if is_ascii { Glyphs::Ascii } else { Glyphs::Unicode });
        let mut millis = 1_700_000_000_000;
        for (sender, event, pause) in events {
            millis += pause;
            let now = Timestamp::from_millisecond(millis).unwrap();
            panel.on_event(&envelope(&sender, now, event));
            check_rows(&panel, now, ActivitySpace { columns, rows })?;
            check_rows(&panel, now, ActivitySpace { columns: 1, rows: 1 })?;
            prop_assert!(panel.roster.len() <= 64 && panel.agents.len() <= 64);
            prop_assert!(panel.jobs.running().len() <= 32);
        }
        let far = Timestamp::MAX;
        check_rows(&panel, far, ActivitySpace { columns: 80, rows: 12 })?;
        check_rows(&panel, far, ActivitySpace { columns: 40, rows: 10 })?;
    }
}
