//! Rows and labels of several agents.

use crow_core::{
    event::{AgentEvent, AgentState},
    ids::SessionId,
};
use serde_json::json;

use super::script::*;
use crate::{activity::ActivitySpace, styled_text::TextRole};

/// Begins the work of a subagent that a call of the root starts.
fn delegate(script: &mut Script, call: &str, child: &Sender, task: &str) {
    script.on(start(call, &format!("{}: {task}", child.agent)));
    script.by(
        child,
        AgentEvent::SessionStart {
            format_version: 1,
            model: "p/m".into(),
            cwd: "/p".into(),
            settings: None,
        },
    );
    script.on(subagent_start(child, task)).by(child, run_start()).by(child, input());
    script.by(child, turn_start()).wait(1000);
}

#[test]
fn a_subagent_is_shown_with_its_task_and_what_it_does() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    delegate(&mut script, "t", &child, "find the parser");
    script.by(&child, thinking(0, "hm")).wait(5000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠋ waiting for explorer  6 s                                            esc stops|
      └─ explorer  find the parser · thinking  6 s                                  |
    ⠋ waiting for explorer  6 s    esc stops|
      └─ explorer  thinking  6 s            |
    ");
    script.by(&child, start("c", "grep \"fn parse\" in crates/")).wait(5000);
    insta::assert_snapshot!(script.screen(10), @r#"
    ⠙ waiting for explorer  11 s                                           esc stops|
      └─ explorer  find the parser · grep "fn parse" in crates/  11 s · 1 call      |
    ⠙ waiting for explorer  11 s   esc stops|
      └─ explorer  grep "fn …n crates/  11 s|
    "#);
    // In one row, the title of the call says more.
    assert_eq!(
        script.rows(80, 1)[0].trim_end_matches("esc stops").trim_end(),
        "⠙ explorer: find the parser  11 s"
    );
    script.on(subagent_end(&child));
    assert_eq!(script.rows(80, 10).len(), 1);
    script.on(end("t"));
    assert!(script.rows(80, 10)[0].contains("waiting for the model"));
}

#[test]
fn parallel_and_nested_agents_form_a_tree() {
    let mut script = Script::turn();
    let children =
        ["one", "two", "three"].map(|session| subagent(session, "explorer", ROOT, session));
    for child in &children {
        delegate(&mut script, &child.session, child, &format!("look at part {}", child.session));
    }
    let planner = subagent("plan", "planner", "one", "p");
    script
        .by(&children[0], start("p", "planner: plan"))
        .by(&children[0], subagent_start(&planner, "plan"));
    script.by(&planner, run_start()).by(&planner, start("x", "read src/lib.rs"));
    let writer = subagent("write", "writer", "plan", "w");
    script.by(&planner, start("w", "writer: write")).by(&planner, subagent_start(&writer, "write"));
    script.by(&writer, text(0, "text")).wait(60_000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠴ waiting for 3 agents  1 min 3 s                                      esc stops|
      ├─ explorer  look at part one · planner: plan  1 min 3 s · 1 call             |
      │  └─ planner  plan · writer: write  1 min 0 s · 2 calls                      |
      │     └─ writer  write · writing  1 min 0 s                                   |
      ├─ explorer 2  look at part two · thinking  1 min 2 s                         |
      └─ explorer 3  look at part three · thinking  1 min 1 s                       |
    ⠴ waiting for 3 agents  1 min 3 s       |
      ├─ explorer  planner: plan  1 min 3 s |
      │  └─ planner  writer…write  1 min 0 s|
      │     └─ writer  write · writing      |
      ├─ explorer 2  thinking  1 min 2 s    |
      └─ explorer 3  thinking  1 min 1 s    |
    ");
    insta::assert_snapshot!(script.screen(4), @"
    ⠴ waiting for 3 agents  1 min 3 s                                      esc stops|
      ├─ explorer  look at part one · planner: plan  1 min 3 s · 1 call             |
      │  └─ planner  plan · writer: write  1 min 0 s · 2 calls                      |
      └─ … and 3 more agents                                                        |
    ⠴ waiting for 3 agents  1 min 3 s       |
      ├─ explorer  planner: plan  1 min 3 s |
      │  └─ planner  writer…write  1 min 0 s|
      └─ … and 3 more agents                |
    ");
    insta::assert_snapshot!(script.screen(2), @"
    ⠴ waiting for 3 agents  1 min 3 s                                      esc stops|
      5 agents: explorer, planner, writer, explorer 2, explorer 3                   |
    ⠴ waiting for 3 agents  1 min 3 s       |
      5 agents: explorer, planner, writer, …|
    ");
    script.on(end("two"));
    // The end of an agent ends those below it.
    script.on(subagent_end(&children[0]));
    insta::assert_snapshot!(script.screen(10), @"
    ⠇ waiting for explorer 3  1 min 1 s                                    esc stops|
      └─ explorer 3  look at part three · thinking  1 min 1 s                       |
    ⠇ waiting for explorer 3  1 min 1 s     |
      └─ explorer 3  thinking  1 min 1 s    |
    ");
}

#[test]
fn calls_beside_agents_have_rows() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    delegate(&mut script, "t", &child, "find the parser");
    script.on(start("c", "cargo test")).on(progress("c", "ok")).wait(1000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠇ cargo test  1 s                                                      esc stops|
        ok                                                                          |
      └─ explorer  find the parser · thinking  2 s                                  |
    ⠇ cargo test  1 s              esc stops|
        ok                                  |
      └─ explorer  thinking  2 s            |
    ");
}

#[test]
fn a_coagent_is_shown_from_the_start_to_the_end_of_its_review() {
    let mut script = Script::turn();
    let reviewer = coagent("review", "reviewer");
    script.on(turn_end()).by(
        &reviewer,
        AgentEvent::SessionStart {
            format_version: 1,
            model: "p/m".into(),
            cwd: "/p".into(),
            settings: None,
        },
    );
    assert_eq!(script.rows(80, 10).len(), 1);
    script.on(review_start("reviewer")).by(&reviewer, input()).by(&reviewer, turn_start());
    script.by(&reviewer, start("c", "cargo test")).wait(2000);
    insta::assert_snapshot!(script.screen(10), @"
    ⠦ waiting for reviewer  2 s                                            esc stops|
      └─ reviewer  review · cargo test  2 s · 1 call                                |
    ⠦ waiting for reviewer  2 s    esc stops|
      └─ reviewer  review · cargo test  2 s |
    ");
    script.by(&reviewer, end("c")).by(&reviewer, turn_end());
    assert_eq!(script.rows(80, 10).len(), 2, "a review may have another turn");
    script.on(review_end("reviewer"));
    assert_eq!(script.rows(80, 10).len(), 1);
    // The next review of the same session counts its calls anew.
    script.on(review_start("reviewer")).by(&reviewer, turn_start()).wait(1000);
    assert_eq!(script.rows(80, 10)[1], "  └─ reviewer  review · thinking  1 s");
}

#[test]
fn a_coagent_whose_start_is_unknown_ends_with_its_turn() {
    let mut script = Script::turn();
    let generator = coagent("generate", "generator");
    script.on(turn_end()).by(&generator, input()).by(&generator, turn_start());
    assert_eq!(script.rows(80, 10)[1], "  └─ generator  thinking  0 s");
    script.by(&generator, turn_end());
    assert_eq!(script.rows(80, 10).len(), 1);
}

#[test]
fn a_question_of_a_subagent_is_waited_for() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    delegate(&mut script, "t", &child, "find the parser");
    script.by(&child, pending("c", "rm")).by(&child, permission_request("q", "c"));
    let rows = script.rows(80, 10);
    assert_eq!(rows[0], "? waiting for your answer  0 s");
    assert_eq!(rows[1], "  └─ explorer  find the parser · waiting for your answer  1 s");
    script.on(subagent_end(&child));
    assert!(script.rows(80, 10)[0].contains("explorer: find the parser"));
}

#[test]
fn an_agent_in_the_background_outlives_its_call_and_the_run() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    delegate(&mut script, "t", &child, "watch");
    script.on(end_with("t", &json!({ "task_id": "task-1", "agent": "explorer" })));
    assert!(script.rows(80, 10)[0].contains("waiting for the model"));
    script.on(run_end()).wait(1000);
    assert!(!script.is_busy());
    assert_eq!(script.rows(80, 10), ["  └─ explorer  watch · thinking  2 s"]);
    // One that starts after the end of its call is recognized, too.
    let late = subagent("late", "tester", ROOT, "u");
    script.run().on(start("u", "tester: test"));
    script.on(end_with("u", &json!({ "task_id": "task-2", "agent": "tester" })));
    script.by(&late, run_start()).on(run_end());
    assert_eq!(script.rows(80, 1), ["  2 agents: explorer, tester"]);
    script.on(AgentEvent::StateChange { state: AgentState::Done });
    assert_eq!(script.rows(80, 10), [""; 0]);
}

#[test]
fn a_subagent_whose_end_is_lost_ends_with_its_call() {
    let mut script = Script::turn();
    let child = subagent("child", "explorer", ROOT, "t");
    // Its start comes before its own events, which say what call started it.
    script.on(start("t", "explorer: look")).on(subagent_start(&child, "look"));
    script.by(&child, text(0, "found")).on(end("t"));
    assert_eq!(script.rows(80, 10).len(), 1);
    assert_eq!(script.panel.roster.work(&SessionId::new("child")), None);
}

#[test]
fn a_full_panel_shares_the_rows() {
    let mut script = Script::turn();
    script.on(plan(&["xread", ">test", "document", "commit", "report"]));
    script.on(start("j", "npm run dev")).on(job_start("j", "job-1"));
    script.on(thinking(0, &"x".repeat(8000)));
    for name in ["explorer", "tester"] {
        delegate(&mut script, name, &subagent(name, name, ROOT, name), "look");
    }
    script.on(start("a", "cargo test")).on(start("b", "cargo clippy"));
    script.on(progress("b", "one\ntwo\nthree\nfour")).wait(1000);
    assert_eq!(script.rows(80, 100).len(), 15);
    insta::assert_snapshot!(script.screen(15), @"
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens                                 esc stops|
      · cargo test  1 s                                                             |
      · cargo clippy  1 s                                                           |
        two                                                                         |
        three                                                                       |
        four                                                                        |
      ├─ explorer  look · thinking  3 s                                             |
      └─ tester  look · thinking  2 s                                               |
      todo 1/5                                                                      |
        ☑ read                                                                      |
        ▸ Now: test                                                                 |
        ☐ document                                                                  |
        ☐ commit                                                                    |
        ☐ report                                                                    |
      1 job: npm run dev (3 s)                                                      |
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens  |
      · cargo test  1 s                     |
      · cargo clippy  1 s                   |
        two                                 |
        three                               |
        four                                |
      ├─ explorer  look · thinking  3 s     |
      └─ tester  look · thinking  2 s       |
      todo 1/5                              |
        ☑ read                              |
        ▸ Now: test                         |
        ☐ document                          |
        ☐ commit                            |
        ☐ report                            |
      1 job: npm run dev (3 s)              |
    ");
    insta::assert_snapshot!(script.screen(9), @"
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens                                 esc stops|
      · cargo test  1 s                                                             |
      · cargo clippy  1 s                                                           |
        three                                                                       |
        four                                                                        |
      ├─ explorer  look · thinking  3 s                                             |
      └─ tester  look · thinking  2 s                                               |
      todo 1/5  ▸ Now: test                                                         |
      1 job: npm run dev (3 s)                                                      |
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens  |
      · cargo test  1 s                     |
      · cargo clippy  1 s                   |
        three                               |
        four                                |
      ├─ explorer  look · thinking  3 s     |
      └─ tester  look · thinking  2 s       |
      todo 1/5  ▸ Now: test                 |
      1 job: npm run dev (3 s)              |
    ");
    insta::assert_snapshot!(script.screen(5), @"
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens                                 esc stops|
      · cargo test (+1)  1 s                                                        |
      2 agents: explorer, tester                                                    |
      todo 1/5  ▸ Now: test                                                         |
      1 job: npm run dev (3 s)                                                      |
    ⠇ running 2 calls  1 s  ↓ ~2.0k tokens  |
      · cargo test (+1)  1 s                |
      2 agents: explorer, tester            |
      todo 1/5  ▸ Now: test                 |
      1 job: npm run dev (3 s)              |
    ");
}

#[test]
fn agents_of_one_name_are_numbered_while_they_work_at_the_same_time() {
    let mut script = Script::turn();
    let agents =
        ["one", "two", "three"].map(|session| subagent(session, "explorer", ROOT, session));
    let label = |script: &Script, agent: &Sender| {
        script.panel.roster.find(&SessionId::new(agent.session.as_str())).unwrap().label.clone()
    };
    delegate(&mut script, "one", &agents[0], "a");
    delegate(&mut script, "two", &agents[1], "b");
    script.on(end("one"));
    delegate(&mut script, "three", &agents[2], "c");
    let labels = agents.each_ref().map(|agent| label(&script, agent));
    assert_eq!(
        labels.each_ref().map(|label| label.name.as_str()),
        ["explorer", "explorer 2", "explorer"]
    );
    let colours = labels.map(|label| label.colour);
    assert_eq!(colours, [TextRole::Accent, TextRole::Keyword, TextRole::StringLiteral]);
    // The first begins again: its name is taken.
    script.by(&agents[0], run_start());
    assert_eq!(label(&script, &agents[0]).name, "explorer 3");
    assert_eq!(label(&script, &agents[0]).colour, TextRole::Accent);
}

#[test]
fn the_name_of_an_agent_has_its_colour_and_is_cut() {
    let mut script = Script::turn();
    let child = subagent("child", "a-very-long-agent-name", ROOT, "t");
    delegate(&mut script, "t", &child, "look");
    let rows = script.panel.rows(script.now(), ActivitySpace { columns: 80, rows: 10 });
    let name = rows[1].spans().iter().find(|span| span.text == "a-very-l…nt-name").unwrap();
    assert_eq!(name.look.role, TextRole::Accent);
}
