use super::*;

fn read(text: &str) -> Result<BaseDefinition, DefinitionError> {
    registry(&[("agents/x.md", text)]).base("x")
}

#[test]
fn front_matter_and_body_make_an_agent() {
    let base = read(
        "---\nname: x\ndescription: \"Reviews: security\"\nrole: subagent\nmodel: openai/gpt-6\nfallbacks_: 1\n---\n",
    );
    assert_eq!(
        base.unwrap_err().to_string(),
        "user/agents/x.md:6:1: unknown key \"fallbacks_\"; known are name, description, role, mode, provider, model, temperature, max_tokens, thinking, max_iterations, doom_loop_threshold, tools"
    );
    let base = read(
        "---\nname: x\ndescription: \"Reviews: security\"\nrole: subagent\nmodel: openai/gpt-6\ntemperature: 0.5\nmax_tokens: 100\nthinking: high\ntools: Read, Grep, bash\nmax_iterations: 7\n---\n\nYou are {{agent_name}}.\n",
    )
    .unwrap();
    assert_eq!(base.description, "Reviews: security");
    assert_eq!(base.role, DefinedRole::Subagent);
    assert_eq!(base.model.reference().unwrap(), "openai/gpt-6");
    assert_eq!(base.tools, ["read_file", "grep", "bash"]);
    assert_eq!(base.limits.max_steps, 7);
    assert_eq!(base.model.config.max_tokens, Some(100));
    assert_eq!(base.prompt.trim(), "You are {{agent_name}}.");
    assert_eq!(base.warnings, [""; 0]);
}

#[test]
fn agents_of_other_programs_load_and_say_what_is_left_out() {
    let claude = "---\nname: x\ndescription: >-\n  Use this agent\n  after changes.\ntools: Read, Edit, Bash(git log:*, git diff:*), WebFetch, mcp__github__search, Frobnicate\nmodel: sonnet\ncolor: blue\n---\n\nReview it.\n";
    let base = read(claude).unwrap();
    assert_eq!(base.description, "Use this agent after changes.");
    assert_eq!(base.tools, ["read_file", "edit_file", "bash", "web_fetch", "mcp__github__search"]);
    assert_eq!(base.model.reference(), None);
    insta::assert_snapshot!(base.warnings.join("\n"));

    let opencode = "---\ndescription: Looks at code\nmode: subagent\nmodel: anthropic/claude-x\ntemperature: 0.1\ntools:\n  write: false\n  edit: false\n  bash: false\npermission:\n  edit: deny\n---\nLook.\n";
    let base = read(opencode).unwrap();
    assert_eq!(base.role, DefinedRole::Subagent);
    assert_eq!(base.model.reference().unwrap(), "anthropic/claude-x");
    for gone in ["write_file", "edit_file", "bash", "submit_for_review"] {
        assert!(!base.tools.contains(&gone.to_owned()), "{:?}", base.tools);
    }
    assert!(base.tools.contains(&"read_file".to_owned()), "{:?}", base.tools);
    assert_eq!(base.warnings.len(), 1, "permission: {:?}", base.warnings);
}

#[test]
fn an_agent_without_a_list_of_tools_has_all() {
    let base = read("---\ndescription: d\n---\nWork.\n").unwrap();
    assert_eq!(
        base.tools.len(),
        TOOLS.len() + 8,
        "with the tasks, task_complete, skills, web tools and what servers have: {:?}",
        base.tools
    );
}

#[test]
fn what_is_wrong_is_told_with_its_line_in_the_file() {
    let lines: Vec<_> = [
        "You are x.\n",
        "---\nname: x\n",
        "---\nname\n---\nx\n",
        "---\n- a\n---\nx\n",
        "---\nnmae: x\n---\nx\n",
        "---\nname: y\n---\nx\n",
        "---\nname: x\nname: x\n---\nx\n",
        "---\nname: x\n---\n\n",
        "---\nrole: boss\n---\nx\n",
        "---\ntemperature: warm\n---\nx\n",
        "---\nname: x\n---\nOne.\nTwo {{three}}.\n",
        "---\ndescription: a\n  b\n---\nx\n",
    ]
    .iter()
    .map(|text| format!("{}\n    {}", text.trim().replace('\n', " ⏎ "), read(text).unwrap_err()))
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
