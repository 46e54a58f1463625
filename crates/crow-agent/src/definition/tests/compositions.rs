use std::time::Duration;

use crow_core::control::{CoagentTools, Consensus, ControlFlow};

use super::*;

const PAIR: &str = "[composition]\nprimary = \"builder\"\ncoagent = \"reviewer\"\n[control_flow]\n";

fn flow(text: &str) -> ControlFlow {
    composition(&format!("{PAIR}{text}")).unwrap().control_flow
}

#[test]
fn every_control_flow_can_be_written_by_word_and_by_level() {
    let coagent = |tools, can_terminate, max_rounds| ControlFlow::Coagent {
        tools,
        can_terminate,
        max_rounds,
    };
    for (text, expected) in [
        ("type = \"hitl\"", ControlFlow::Hitl),
        ("level = -1", ControlFlow::Hitl),
        ("type = \"loop\"\nmax_iterations = 3", ControlFlow::Loop { max_rounds: Some(3) }),
        ("level = 0\nmax_iterations = 3", ControlFlow::Loop { max_rounds: Some(3) }),
        (
            "type = \"static\"\nmessage = \"go\"",
            ControlFlow::Static { message: "go".to_owned(), max_rounds: None },
        ),
        ("level = 1", ControlFlow::from_level(1).unwrap()),
        ("type = \"generated\"", ControlFlow::from_level(2).unwrap()),
        (
            "type = \"generated\"\ngenerator_prompt = \"p\"\nmax_rounds = 2",
            ControlFlow::Generated { generator_prompt: "p".to_owned(), max_rounds: Some(2) },
        ),
        ("type = \"advise\"", ControlFlow::advise()),
        ("level = 3", ControlFlow::advise()),
        ("type = \"judge\"", ControlFlow::judge()),
        ("level = 4\nmax_rounds = 7", coagent(CoagentTools::ReadOnly, true, Some(7))),
        ("type = \"smart\"\nmax_rounds = 7", coagent(CoagentTools::Full, true, Some(7))),
        ("level = 5", ControlFlow::smart()),
        ("type = \"chat\"\nmax_turns = 4", ControlFlow::chat(Some(4))),
        ("type = \"coagent\"\ntools = \"full\"", coagent(CoagentTools::Full, false, None)),
        (
            "type = \"coagent\"\ntools = \"none\"\ncan_terminate = true",
            coagent(CoagentTools::None, true, None),
        ),
    ] {
        assert_eq!(flow(text), expected, "{text}");
    }
}

#[test]
fn consensus_and_limits_of_a_run_are_read() {
    let text = "[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"PLAN\"]\nconsensus = \"majority\"\n[control_flow]\ntype = \"judge\"\n[limits]\nmax_rounds = 3\nmax_tokens = 100000\nmax_money = 2\nmax_time = \"30m\"\n";
    let agent = composition(text).unwrap();
    assert_eq!((agent.consensus, agent.coagents.len()), (Consensus::Majority, 2));
    assert_eq!((agent.limits.max_rounds, agent.limits.max_tokens), (3, Some(100_000)));
    assert_eq!(agent.limits.max_money, Some(2.0));
    assert_eq!(agent.limits.max_time, Some(Duration::from_mins(30)));
    assert_eq!(agent.warnings, [""; 0]);
}

#[test]
fn settings_without_effect_give_warnings() {
    let warnings_of = |text: &str| composition(text).unwrap().warnings;
    let pair = format!("{PAIR}type = \"hitl\"\n");
    assert_eq!(
        warnings_of(&pair),
        ["user/agents/acp/X.toml:3:11: hitl uses no coagent; the named one is ignored"]
    );
    let several = "[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"planner\"]\n[control_flow]\ntype = \"smart\"\n";
    assert_eq!(
        warnings_of(several),
        [
            "user/agents/acp/X.toml:3:12: several coagents work at the same time, so each of them only reads"
        ]
    );
    let handoff = "[composition]\nprimary = \"builder\"\n[control_flow]\ntype = \"loop\"\n[handoff]\ntype = \"static\"\ntext = \"x\"\n";
    assert_eq!(
        warnings_of(handoff),
        ["user/agents/acp/X.toml:5:1: handoff is unused without a coagent"]
    );
}

#[test]
fn an_overlay_replaces_its_keys_and_another_type_starts_anew() {
    let load = |name: &str, text: &str| {
        registry(&[(&format!("agents/acp/{name}.toml"), text)]).composition(name).unwrap()
    };
    let chat = load("BUILD-CHAT", "control_flow.max_turns = 3\n");
    assert_eq!(chat.control_flow, ControlFlow::chat(Some(3)));
    assert_eq!(chat.coagents, ["reviewer"]);
    let chat = load("BUILD-CHAT", "control_flow.max_rounds = 4\n");
    assert_eq!(chat.control_flow, ControlFlow::chat(Some(4)));
    let judge = load("BUILD-CHAT", "control_flow.type = \"judge\"\n");
    assert_eq!((judge.control_flow, judge.handoff), (ControlFlow::judge(), None));
    let level = load("BUILD-CHAT", "control_flow.level = 5\n");
    assert_eq!(level.control_flow, ControlFlow::smart());
    let several = load("BUILD-JUDGE", "composition.coagents = [\"reviewer\", \"planner\"]\n");
    assert_eq!(several.coagents, ["reviewer", "planner"]);
}
