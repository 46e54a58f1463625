use super::*;

#[test]
fn an_overlay_in_a_file_of_the_same_name_is_partial() {
    let user = [("agents/base/builder.toml", "model.model = \"m\"\n[react]\nmax_iterations = 7\n")];
    let base = registry(&user).base("builder").unwrap();
    assert_eq!(base.model.model.as_deref(), Some("m"));
    assert_eq!(base.limits.max_steps, 7);
    assert!(base.tools.len() > 5 && base.prompt.contains("You are builder"));
}

#[test]
fn a_project_overrides_the_user_and_a_prompt_can_be_replaced_alone() {
    let layers = vec![
        layer(
            LayerKind::Project,
            &[
                ("agents/base/builder.toml", "model.model = \"of project\"\n"),
                ("prompts/system/trust.md", "Of project."),
            ],
        ),
        ConfigLayer::shipped(SHIPPED),
        layer(
            LayerKind::User,
            &[
                ("agents/base/builder.toml", "model.model = \"of user\"\nmodel.provider = \"p\"\n"),
                ("prompts/system/builder.md", "Of user. {{> trust}}"),
            ],
        ),
    ];
    let registry = AgentRegistry::new(Layers::new(layers), ToolNames::new(TOOLS));
    let base = registry.base("builder").unwrap();
    assert_eq!(base.model.reference().unwrap(), "p/of project");
    let context = crate::definition::PromptContext::new(&base, Vec::new(), true);
    assert_eq!(registry.prompts().system(&base.prompt, &context).unwrap(), "Of user. Of project.");
}

#[test]
fn a_base_agent_is_a_composition_that_works_alone() {
    let solo = registry(&[]).composition("builder").unwrap();
    assert_eq!((solo.name.as_str(), solo.primary.as_str()), ("builder", "builder"));
    assert_eq!((solo.coagents.len(), solo.control_flow.name()), (0, "hitl"));
}

#[test]
fn a_broken_file_is_of_no_consequence_to_the_others() {
    let registry = registry(&[
        ("agents/base/broken.toml", "[agent\n"),
        ("agents/acp/BUILD-LOOP.toml", "[control_flow]\ntype = 1\n"),
        ("agents/acp/bad name.toml", ""),
    ]);
    let broken: Vec<_> = registry
        .list()
        .into_iter()
        .filter_map(|agent| Some(format!("{}: {}", agent.name, agent.definition.err()?)))
        .collect();
    insta::assert_snapshot!(broken.join("\n"));
    assert!(registry.composition("BUILD-SMART").is_ok() && registry.base("builder").is_ok());
}

#[test]
fn two_files_for_one_agent_in_a_layer_are_an_error() {
    let both = [("agents/base/x.toml", BASE), ("agents/x.md", "---\n---\nx\n")];
    assert_eq!(
        registry(&both).base("x").unwrap_err().to_string(),
        "user/agents/x.md: agents/base/x.toml describes the same agent; keep one of them"
    );
}

#[test]
fn compositions_that_review_each_other_in_a_circle_are_rejected() {
    let reviewed_by = |coagent: &str| {
        format!(
            "[composition]\nprimary = \"builder\"\ncoagent = \"{coagent}\"\n[control_flow]\ntype = \"judge\"\n"
        )
    };
    let (a, b, c) = (reviewed_by("B"), reviewed_by("C"), reviewed_by("A"));
    let circle = registry(&[
        ("agents/acp/A.toml", &a),
        ("agents/acp/B.toml", &b),
        ("agents/acp/C.toml", &c),
    ]);
    assert_eq!(
        circle.composition("A").unwrap_err().to_string(),
        "user/agents/acp/C.toml:3:11: agents review each other in a cycle: A → B → C → A"
    );
    let chain: Vec<_> = (0..9)
        .map(|n| (format!("agents/acp/C{n}.toml"), reviewed_by(&format!("C{}", n + 1))))
        .collect();
    let files: Vec<_> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(
        registry(&files).composition("C0").unwrap_err().to_string(),
        "user/agents/acp/C4.toml:3:11: more than 4 compositions review each other"
    );
}

#[test]
fn compositions_that_share_reviewers_are_checked_once() {
    let of = |level: usize| {
        let next: Vec<_> = (0..6).map(|n| format!("\"L{}-{n}\"", level + 1)).collect();
        let next = if level == 3 { "\"reviewer\"".to_owned() } else { next.join(", ") };
        format!(
            "[composition]\nprimary = \"builder\"\ncoagents = [{next}]\n[control_flow]\ntype = \"judge\"\n"
        )
    };
    let files: Vec<_> = (0..4)
        .flat_map(|level| (0..6).map(move |n| (format!("agents/acp/L{level}-{n}.toml"), of(level))))
        .collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(registry(&files).composition("L0-0").unwrap().coagents.len(), 6);
}

#[test]
fn primaries_and_subagents_are_listed_separately() {
    let registry = registry(&[]);
    let names = |agents: Vec<ListedAgent>| {
        agents.into_iter().map(|agent| agent.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(registry.list_subagents()), "TASK-SMART explorer task_executor task_reviewer");
    assert_eq!(
        names(registry.list_primary()),
        "BUILD-CHAT BUILD-HITL BUILD-JUDGE BUILD-LOOP BUILD-SMART PLAN builder planner reviewer"
    );
}
