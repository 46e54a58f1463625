use std::collections::BTreeSet;

use crow_core::control::{CoagentTools, CompletionOwner, ControlFlow};

use super::*;
use crate::{definition::PromptContext, prompt::HANDOFF_VARIABLES};

fn shipped() -> AgentRegistry {
    AgentRegistry::built_in(ToolNames::new(TOOLS))
}

#[test]
fn every_shipped_agent_can_be_used_and_says_what_it_is_for() {
    let registry = shipped();
    let listed = registry.list();
    let names: Vec<_> = listed.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "BUILD-CHAT",
            "BUILD-HITL",
            "BUILD-JUDGE",
            "BUILD-LOOP",
            "BUILD-SMART",
            "PLAN",
            "TASK-SMART",
            "builder",
            "explorer",
            "planner",
            "reviewer",
            "task_executor",
            "task_reviewer",
        ]
    );
    for agent in &listed {
        let (_, description) = agent.definition.as_ref().unwrap();
        assert!(!description.is_empty(), "{}", agent.name);
    }
    for name in registry.names(AgentKind::Composition) {
        assert_eq!(registry.composition(&name).unwrap().warnings, [""; 0], "{name}");
    }
    for name in registry.names(AgentKind::Base) {
        let base = registry.base(&name).unwrap();
        assert_eq!((base.warnings, base.model.reference()), (Vec::new(), None), "{name}");
    }
}

#[test]
fn every_agent_file_of_the_crate_is_shipped() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut present = BTreeSet::new();
    for folder in ["agents/acp", "agents/base", "profiles", "prompts/system"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            present.insert(format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()));
        }
    }
    let shipped: BTreeSet<_> = SHIPPED.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(shipped, present);
}

#[test]
fn who_ends_a_run_of_the_shipped_compositions() {
    let registry = shipped();
    let lines: Vec<_> = registry
        .names(AgentKind::Composition)
        .iter()
        .map(|name| {
            let agent = registry.composition(name).unwrap();
            let ends = match agent.control_flow.completion_owner() {
                CompletionOwner::Primary => &agent.primary,
                CompletionOwner::Coagent => agent.coagents.first().unwrap(),
            };
            let flow = agent.control_flow.name();
            format!("{name}: {flow}, {:?} rounds, {ends}", agent.control_flow.max_rounds())
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    BUILD-CHAT: smart, Some(10) rounds, reviewer
    BUILD-HITL: hitl, None rounds, builder
    BUILD-JUDGE: judge, None rounds, reviewer
    BUILD-LOOP: loop, Some(10) rounds, builder
    BUILD-SMART: smart, None rounds, reviewer
    PLAN: hitl, None rounds, planner
    TASK-SMART: smart, Some(5) rounds, task_reviewer
    ");
}

#[test]
fn a_chat_hands_over_text_verbatim() {
    let chat = shipped().composition("BUILD-CHAT").unwrap();
    assert_eq!(chat.handoff, Some(HandoffDefinition::Verbatim));
    assert_eq!(shipped().composition("BUILD-SMART").unwrap().handoff, None);
}

#[test]
fn an_agent_that_starts_tasks_can_collect_and_cancel_them() {
    let registry = shipped();
    let mut starters = Vec::new();
    for name in registry.names(AgentKind::Base) {
        let tools = registry.base(&name).unwrap().tools;
        let has = |tool: &str| tools.iter().any(|known| known == tool);
        if has("task") {
            assert!(has("task_output") && has("task_cancel"), "{name}: {tools:?}");
            starters.push(name);
        }
    }
    assert_eq!(starters, ["builder"]);
}

#[test]
fn the_reviewer_of_a_subtask_gets_a_generated_prompt() {
    let part = shipped().composition("TASK-SMART").unwrap();
    let Some(HandoffDefinition::Generated { generator_prompt }) = &part.handoff else {
        panic!("{:?}", part.handoff)
    };
    assert!(generator_prompt.contains("a review prompt for this specific task"));
    assert!(generator_prompt.contains("task_complete"), "it names the end of the review");
}

#[test]
fn a_system_prompt_names_the_tools_of_its_agent() {
    let registry = shipped();
    let prompt = |name: &str, tools: &[&str]| {
        let base = registry.base(name).unwrap();
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        registry.prompts().system(&base.prompt, &PromptContext::new(&base, tools, true)).unwrap()
    };
    let alone = prompt("builder", &["task_complete"]);
    assert!(alone.contains("call task_complete") && !alone.contains("reviewer"), "{alone}");
    let reviewed = prompt("builder", &["submit_for_review"]);
    assert!(reviewed.contains("call submit_for_review") && !reviewed.contains("task_complete"));
    assert!(reviewed.contains("the reviewer's word"), "{reviewed}");
    let judge = prompt("reviewer", &["read_file", "task_complete"]);
    assert!(judge.contains("You cannot change files") && judge.contains("call task_complete"));
    let adviser = prompt("reviewer", &[]);
    assert!(!adviser.contains("task_complete") && adviser.contains("what you advise"));
    let partner = prompt("reviewer", &["edit_file", "task_complete"]);
    assert!(partner.contains("You may repair"), "{partner}");
    for name in registry.names(AgentKind::Base) {
        let text = prompt(&name, &["read_file", "edit_file", "task_complete"]);
        assert!(!text.contains("{{") && text.contains("# Trust"), "{name}: {text}");
        assert!(text.len() < 5_000, "{name}: {} bytes", text.len());
    }
}

#[test]
fn the_agents_of_the_specification_load_unchanged() {
    let builder = include_str!("../../../tests/seed/agents/base/builder.toml");
    let smart = include_str!("../../../tests/seed/agents/acp/BUILD-SMART.toml");
    let user = [
        ("agents/base/builder.toml", builder),
        ("agents/acp/BUILD-SMART.toml", smart),
        ("agents/base/reviewer.toml", BASE),
        ("prompts/system/builder.md", "You build."),
    ];
    let alone = Layers::new(vec![layer(LayerKind::User, &user)]);
    for registry in [AgentRegistry::new(alone, ToolNames::new(TOOLS)), registry(&user)] {
        let base = registry.base("builder").unwrap();
        assert_eq!(base.prompt, "You build.");
        assert_eq!(base.model.reference().unwrap(), "anthropic/claude-sonnet-4-20250514");
        assert_eq!(base.model.config.temperature, Some(0.7));
        assert_eq!(base.model.config.max_tokens, Some(8192));
        assert_eq!((base.limits.max_steps, base.limits.doom_loop_threshold), (20, 3));
        assert_eq!(base.tools.len(), 12, "{:?}", base.tools);
        assert_eq!(base.warnings, [""; 0]);
        let agent = registry.composition("BUILD-SMART").unwrap();
        assert_eq!(
            (agent.primary.as_str(), agent.coagents.as_slice()),
            ("builder", &["reviewer".to_owned()][..])
        );
        assert_eq!(agent.control_flow, ControlFlow::smart());
        assert_eq!(agent.control_flow.coagent_tools(), Some(CoagentTools::Full));
        let Some(HandoffDefinition::Template(template)) = &agent.handoff else {
            panic!("{:?}", agent.handoff)
        };
        let values: BTreeMap<_, _> = HANDOFF_VARIABLES.iter().map(|name| (*name, *name)).collect();
        let text = registry.prompts().handoff(template, &values).unwrap();
        assert!(text.contains("Current task state:\ntodo_state\n"), "{text}");
    }
}
