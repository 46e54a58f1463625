use super::*;

/// Returns each of these texts with the error that it gives.
fn errors_of(texts: &[&str], read: impl Fn(&str) -> Option<String>) -> String {
    let lines = texts.iter().map(|text| {
        let error = read(text).unwrap_or_else(|| panic!("this was read: {text}"));
        format!("{}\n    {error}", text.trim().replace('\n', " ⏎ "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_base_agent_that_cannot_be_used_says_where_and_why() {
    let with_base = |text: &str| format!("{BASE}{text}");
    let texts = [
        "",
        "[tools]\nenabled = []\n",
        "[agent\n",
        "agent = 1",
        "[agnt]\nname = \"x\"\n",
        "[agent]\nname = \"y\"\n[tools]\nenabled = []\n",
        "[agent]\nrole = \"coagent\"\n",
        "[tools]\nenabled = [\"read_file\", \"edit_fiel\"]\n",
        "[tools]\nenabled = [\"Bash\"]\n[prompt]\nsystem = \"\"\n",
        "[tools]\nenabled = \"bash\"\n",
        "[tools]\nenabled = [1]\n",
        &with_base("[react]\nmax_iterations = 0\n"),
        &with_base("[react]\nmax_iterations = -3\n"),
        &with_base("[react]\nmax_iterations = 1.5\n"),
        &with_base("[react]\ndoom_loop_threshold = 1\n"),
        &with_base("[model]\ntemprature = 0.7\n"),
        &with_base("[model]\ntemperature = 9\n"),
        &with_base("[model]\nmax_tokens = \"8k\"\n"),
        &with_base("[model]\nthinking = \"much\"\n"),
        &with_base("[model]\nthinking = -1\n"),
        &with_base("[model]\nfallbacks = [\"gpt\"]\n"),
        &with_base("[model]\nprovider = \"\"\n"),
        "[tools]\nenabled = []\n[prompt]\nsystem = \" \"\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = 1\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = { fiel = \"x\" }\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = { file = \"prompts/none.md\" }\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = { file = \"../key\" }\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = { file = \"permissions.json\" }\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = { file = \"/etc/passwd\" }\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = \"\"\"\nA\nB {{agent}}\n\"\"\"\n",
        "[tools]\nenabled = []\n[prompt]\nsystem = \"{{#if}}\"\n",
        "when = 2024-01-01",
    ];
    insta::assert_snapshot!(errors_of(&texts, |text| base(text)
        .err()
        .map(|error| error.to_string())));
}

#[test]
fn a_composition_that_cannot_be_used_says_where_and_why() {
    let pair = "[composition]\nprimary = \"builder\"\ncoagent = \"reviewer\"\n";
    let solo = "[composition]\nprimary = \"builder\"\n";
    let with = |start: &str, text: &str| format!("{start}{text}");
    let texts = [
        "[control_flow]\ntype = \"hitl\"\n",
        "[composition]\n",
        solo,
        "[composition]\nprimary = \"bilder\"\n[control_flow]\ntype = \"hitl\"\n",
        "[composition]\nprimary = \"PLAN\"\n[control_flow]\ntype = \"hitl\"\n",
        "[composition]\nprimary = \"builder\"\ncoagent = \"nobody\"\n[control_flow]\ntype = \"smart\"\n",
        "[composition]\nprimary = \"builder\"\ncoagent = \"X\"\n[control_flow]\ntype = \"smart\"\n",
        "[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"planer\"]\n[control_flow]\ntype = \"judge\"\n",
        "[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"reviewer\"]\n[control_flow]\ntype = \"judge\"\n",
        "[composition]\nprimary = \"builder\"\ncoagent = \"reviewer\"\ncoagents = []\n[control_flow]\ntype = \"judge\"\n",
        "[composition]\nprimary = \"builder\"\nconsensus = \"most\"\n",
        &with(solo, "[control_flow]\ntype = \"judge\"\n"),
        &with(solo, "[control_flow]\nlevel = 4\n"),
        &with(pair, "[control_flow]\nlevel = 6\n"),
        &with(pair, "[control_flow]\nlevel = -2\n"),
        &with(pair, "[control_flow]\nlevel = \"5\"\n"),
        &with(pair, "[control_flow]\nlevel = 5\ntype = \"smart\"\n"),
        &with(pair, "[control_flow]\nlevel = 5\nmax_turns = 5\ncan_terminate = true\n"),
        &with(pair, "[control_flow]\ntype = \"smrt\"\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\nmax_turns = 5\n"),
        &with(pair, "[control_flow]\ntype = \"loop\"\nmax_iterations = 0\n"),
        &with(pair, "[control_flow]\ntype = \"loop\"\nmax_iterations = 3\nmax_rounds = 3\n"),
        &with(solo, "[control_flow]\ntype = \"hitl\"\nmax_rounds = 3\n"),
        &with(solo, "[control_flow]\ntype = \"static\"\n"),
        &with(solo, "[control_flow]\ntype = \"loop\"\nmessage = \"go\"\n"),
        &with(pair, "[control_flow]\ntype = \"coagent\"\ntools = \"all\"\n"),
        &with(
            pair,
            "[control_flow]\ntype = \"smart\"\n[handoff]\ntype = \"template\"\ntemplate = \"\"\"\nIt was\n  {{tsk}}\n\"\"\"\n",
        ),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[handoff]\ntype = \"template\"\n"),
        &with(
            pair,
            "[control_flow]\ntype = \"smart\"\n[handoff]\ntype = \"template\"\ntext = \"x\"\n",
        ),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[handoff]\ntype = \"generated\"\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[handoff]\ntext = \"x\"\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[limits]\nmax_time = \"soon\"\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[limits]\nmax_time = 0\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[limits]\nmax_money = -1\n"),
        &with(pair, "[control_flow]\ntype = \"smart\"\n[limits]\nmax_monney = 1\n"),
    ];
    insta::assert_snapshot!(errors_of(&texts, |text| composition(text)
        .err()
        .map(|error| error.to_string())));
}

#[test]
fn an_unknown_name_gets_the_nearest_agent_as_a_suggestion() {
    let registry = registry(&[]);
    for (name, meant) in [
        ("build-smart", Some("BUILD-SMART")),
        ("BUILD-SMRT", Some("BUILD-SMART")),
        ("bulider", Some("builder")),
        ("../../etc/passwd", None),
        ("", None),
    ] {
        let Err(DefinitionError::Unknown { nearest, .. }) = registry.composition(name) else {
            panic!("{name} is there")
        };
        assert_eq!(nearest.as_deref(), meant, "{name}");
    }
}
