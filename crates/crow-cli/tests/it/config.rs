//! The configuration commands: `get`, `set`, `explain`, `validate`, `schema`, and invalid or hostile files.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::{Duration, Instant},
};

use crate::program::{Fixture, RunOutput};

/// Writes a file of the user's configuration.
pub(crate) fn write_user_config(fixture: &Fixture, file: &str, text: &str) {
    put(&fixture.home(".config/crow-agent").join(file), text);
}

/// Writes a file of the project's configuration.
pub(crate) fn write_project_config(fixture: &Fixture, file: &str, text: &str) {
    put(&fixture.project(".crow-agent").join(file), text);
}

fn put(path: &std::path::Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns stdout and stderr, with the paths of home and project replaced by `HOME` and `PROJECT`.
pub(crate) fn normalized_output(fixture: &Fixture, ran: &RunOutput) -> String {
    let home = fixture.home("").canonicalize().unwrap();
    let home = home.to_str().unwrap();
    let project = fixture.project("");
    let normalize = |text: &str| {
        text.replace(home, "HOME")
            .replace(fixture.home("").to_str().unwrap(), "HOME/")
            .replace(project.to_str().unwrap().trim_end_matches('/'), "PROJECT")
    };
    format!("{}{}", normalize(&ran.out), normalize(&ran.err))
}

const COMMENTED: &str = "\
# My builder.

[model]            # for now
provider = \"anthropic\"
model    = \"claude-old\"   # cheap

# Slow machine.
[react]
max_iterations = 20
";

#[tokio::test]
async fn config_set_preserves_comments_order_layout_and_mode() {
    let fixture = Fixture::new();
    let file = "agents/base/builder.toml";
    write_user_config(&fixture, file, COMMENTED);
    let path = fixture.home(".config/crow-agent").join(file);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let set = |key: &'static str, value: &'static str| {
        let fixture = &fixture;
        async move { fixture.run(&["config", "set", key, value]).await.exited(0).out.clone() }
    };
    set("agents.base.builder.model.model", "claude-new").await;
    set("agents.base.builder.react.max_iterations", "30").await;
    set("agents.base.builder.model.fallbacks", "[\"openai/gpt-6\"]").await;
    let expected = COMMENTED
        .replace("\"claude-old\"", "\"claude-new\"")
        .replace("= 20", "= 30")
        .replace("# cheap\n", "# cheap\nfallbacks = [\"openai/gpt-6\"]\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    // A symlink, as in a dotfiles repository, is written through and not replaced.
    let target = fixture.home("dotfiles.toml");
    fs::rename(&path, &target).unwrap();
    symlink(&target, &path).unwrap();
    set("agents.base.builder.react.max_iterations", "31").await;
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), expected.replace("= 30", "= 31"));
    let ran = fixture.run(&["config", "get", "agents.base.builder.model.model"]).await;
    assert_eq!(ran.exited(0).out, "claude-new\n");
    let ran = fixture.run(&["config", "get", "agents.base.builder.model"]).await;
    assert_eq!(
        ran.exited(0).out,
        "fallbacks = [\"openai/gpt-6\"]\nmodel = \"claude-new\"\nprovider = \"anthropic\"\n"
    );
}

#[tokio::test]
async fn an_invalid_value_is_not_written() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/base/builder.toml", COMMENTED);
    write_user_config(&fixture, "agents/base/broken.toml", "[agent\n");
    write_user_config(&fixture, "agents/mine.md", "---\n---\nx\n");
    let mut outputs = Vec::new();
    for (key, value) in [
        ("agents.base.builder.react.max_iterations", "many"),
        ("agents.base.builder.react.max_iterations", "0"),
        ("agents.base.builder.react.max_iteration", "3"),
        ("agents.base.builder.tools.enabled", "[\"basj\"]"),
        ("agents.base.builder.agent.name", "other"),
        ("agents.base.builder.prompt.system", "{{nobody}}"),
        ("agents.base.builder.model", "x"),
        ("agents.base.builder.model.model.x", "x"),
        ("agents.base.builder", "x"),
        ("agents.base.broken.model.model", "x"),
        ("agents.base.mine.model.model", "x"),
        ("agents.base.nobody.model.model", "x"),
        ("agents.acp.BUILD-SMART.composition.coagent", "revewer"),
        ("agents.acp.BUILD-HITL.control_flow.type", "judge"),
        ("agents.acp.BUILD-SMART.control_flow.level", "9"),
        ("model", "gpt"),
        ("checks.commands", "[1]"),
        ("sandbox.memory_gib", "-1"),
    ] {
        let ran = fixture.run(&["config", "set", key, value]).await;
        ran.exited(2);
        outputs.push(format!(
            "{key} {value}\n    {}",
            normalized_output(&fixture, &ran).trim().replace('\n', "\n    ")
        ));
    }
    insta::assert_snapshot!(outputs.join("\n"));
    let path = fixture.home(".config/crow-agent/agents/base/builder.toml");
    assert_eq!(fs::read_to_string(path).unwrap(), COMMENTED);
    assert!(!fixture.home(".config/crow-agent/config.toml").exists());
    assert!(!fixture.home(".config/crow-agent/agents/acp/BUILD-SMART.toml").exists());
}

#[tokio::test]
async fn config_explain_shows_each_layer_of_a_value() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/base/builder.toml", COMMENTED);
    write_user_config(&fixture, "config.toml", "model = \"a/b\"\n[sandbox]\nnetwork = true\n");
    write_project_config(&fixture, "agents/base/builder.toml", "[react]\nmax_iterations = 7\n");
    write_project_config(
        &fixture,
        "config.toml",
        "model = \"c/d\"\n[checks]\ncommands = [\"cargo test\"]\n",
    );
    let before = fixture.run(&["config", "explain", "agents.base.builder.react"]).await;
    assert!(!before.exited(0).out.contains("= 7") && before.err.contains("is not trusted"));
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let mut outputs = Vec::new();
    for key in [
        "agents.base.builder.react",
        "agents.base.builder.prompt.system",
        "agents.acp.BUILD-CHAT.control_flow",
        "model",
        "sandbox.network",
        "sandbox.memory_gib",
        "checks",
    ] {
        let ran = fixture.run(&["config", "explain", key]).await;
        outputs.push(normalized_output(&fixture, ran.exited(0)));
    }
    insta::assert_snapshot!(outputs.join("\n"));
}

#[tokio::test]
async fn an_unknown_agent_cannot_be_set_as_default() {
    let fixture = Fixture::new();
    let ran = fixture.run(&["config", "set", "agent", "BUILD-LOPP"]).await;
    let message = &ran.exited(2).err;
    assert!(
        message.contains("did you mean \"BUILD-LOOP\"?") && message.contains("nothing was written")
    );
    fixture.run(&["config", "set", "agent", "BUILD-LOOP"]).await.exited(0);
    // An invalid value that is already in the file does not prevent other changes.
    write_user_config(&fixture, "config.toml", "agent = \"GONE\"\n");
    fixture.run(&["config", "set", "sandbox.memory_gib", "4"]).await.exited(0);
}

#[tokio::test]
async fn validate_lists_every_bad_file_and_the_others_work() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["config", "validate"]).await.code, Some(0));
    write_user_config(&fixture, "agents/base/broken.toml", "[agent\n");
    write_user_config(&fixture, "agents/base/typo.toml", "[tools]\nenabled = [\"basj\"]\n");
    write_user_config(
        &fixture,
        "agents/alien.md",
        "---\ntools: Read, WebFetch\ncolor: red\n---\nLook.\n",
    );
    write_user_config(
        &fixture,
        "agents/acp/ALONE.toml",
        "[composition]\nprimary = \"nobody\"\n[control_flow]\ntype = \"hitl\"\n",
    );
    write_user_config(&fixture, "agents/acp/BUILD-LOOP.toml", "[control_flow]\nlevel = 7\n");
    write_user_config(&fixture, "config.toml", "agent = \"NOBODY\"\n");
    write_user_config(&fixture, "providers/x.toml", "[provider]\nname = \"x\"\n");
    let ran = fixture.run(&["config", "validate"]).await;
    insta::assert_snapshot!(normalized_output(&fixture, ran.exited(2)));
    fixture.run(&["agents", "show", "BUILD-SMART"]).await.exited(0);
    let broken = fixture.run(&["agents", "show", "broken"]).await;
    assert!(broken.exited(2).err.contains("broken.toml:1:7"), "{}", broken.err);
}

#[tokio::test]
async fn validate_checks_servers_and_prompts_and_finds_misplaced_agents() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/mine.toml", "[agent]\n");
    write_user_config(&fixture, "prompts/commands/two words.md", "Look.\n");
    write_user_config(&fixture, "mcp.json", r#"{"servers": {"one": {"command": "x"}}}"#);
    let ran = fixture.run(&["config", "validate"]).await;
    for expected in [
        "agents/mine.toml is not read: base agents belong in agents/base, compositions in agents/acp",
        "mcp.json: it names no server: the key mcpServers is missing",
        "two words.md",
    ] {
        assert!(ran.exited(0).out.contains(expected), "{expected}: {}", ran.out);
    }
    write_user_config(&fixture, "mcp.json", "{\n  \"mcpServers\": {\"one\": }\n}\n");
    let ran = fixture.run(&["config", "validate"]).await;
    assert!(ran.exited(2).out.contains("mcp.json:2:25: "), "{}", ran.out);
}

#[tokio::test]
async fn validate_checks_and_reports_unused_prompts() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "prompts/p.md", "{{ unclosed\n");
    write_user_config(&fixture, "prompts/system/rules.md", "Be kind.\n");
    write_user_config(&fixture, "prompts/system/spare.md", "Be kind, too.\n");
    write_user_config(&fixture, "prompts/system/mine.md", "{{> rules}}\n");
    write_user_config(&fixture, "prompts/commands/look.md", "Look at {{ this.\n");
    let base = "[tools]\nenabled = []\n[prompt]\nsystem = { file = \"prompts/system/mine.md\" }\n";
    write_user_config(&fixture, "agents/base/mine.toml", base);
    let ran = fixture.run(&["config", "validate"]).await;
    let output = ran.exited(0).out.clone();
    for name in ["prompts/p.md", "prompts/system/spare.md"] {
        assert!(
            output.contains(&format!("{name} is not read: no agent names it")),
            "{name}: {output}"
        );
    }
    for name in ["rules.md", "mine.md", "look.md"] {
        assert!(!output.contains(name), "{name}: {output}");
    }
    write_user_config(&fixture, "prompts/system/spare.md", "Be kind.\n{{ unclosed\n");
    write_user_config(&fixture, "prompts/handoff/other.md", "{{nobody}}\n");
    let ran = fixture.run(&["config", "validate"]).await;
    for expected in [
        "error: ",
        "prompts/system/spare.md:3:1: this tag is not complete",
        "prompts/handoff/other.md:1:",
    ] {
        assert!(ran.exited(2).out.contains(expected), "{expected}: {}", ran.out);
    }
}

#[tokio::test]
async fn the_schema_lists_every_key_of_the_specification() {
    let fixture = Fixture::new();
    for (kind, keys) in [
        ("base", "agent model tools react prompt"),
        ("composition", "agent composition control_flow handoff limits"),
        (
            "config",
            "agent model review_model checks sandbox mcp telemetry web_search skills hooks terminal",
        ),
        ("permissions", "version rules"),
        ("providers", "provider auth defaults models headers timeouts limits"),
    ] {
        let ran = fixture.run(&["config", "schema", kind]).await;
        let schema: serde_json::Value = serde_json::from_str(&ran.exited(0).out).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties.keys().cloned().collect::<Vec<_>>().join(" "), keys);
        assert_eq!(schema["additionalProperties"], false, "{kind}");
    }
}

#[tokio::test]
async fn config_schema_without_a_kind_lists_the_kinds() {
    let ran = Fixture::new().run(&["config", "schema"]).await;
    let message = &ran.exited(2).err;
    for kind in ["base", "composition", "config", "permissions", "providers"] {
        assert!(message.contains(&format!("{kind} (")), "{kind}: {message}");
    }
    assert!(message.contains("#:schema"), "{message}");
    assert_eq!(ran.out, "");
}

#[tokio::test]
async fn a_hostile_trusted_configuration_is_refused_quickly() {
    let tenfold = |name: &str| format!("{{{{> {name}}}}}").repeat(10);
    let base = "[tools]\nenabled = []\n[prompt]\nsystem = ";
    let deep = format!("{base}\"{}\"\n", "{{#if role}}".repeat(5_000));
    let nested = format!("{base}{}\"x\"\n", "[".repeat(20_000));
    let dotted = format!("{}x = 1\n", "a.".repeat(60_000));
    let cases: [(&str, &str, &str); 8] = [
        ("agents/base/x.toml", &format!("{base}\"{{{{> a}}}}\"\n"), "20000 parts"),
        ("agents/base/x.toml", &deep, "200 blocks"),
        ("agents/base/x.toml", &nested, "recursion"),
        ("agents/base/x.toml", &dotted, "recursion"),
        ("agents/base/x.toml", &format!("{base}\"{{{{> itself}}}}\"\n"), "includes itself"),
        (
            "agents/base/x.toml",
            &format!("{base}{{ file = \"permissions.json\" }}\n"),
            "not below prompts/",
        ),
        (
            "agents/base/x.toml",
            &format!("{base}{{ file = \"prompts/../../../../etc/passwd\" }}\n"),
            "not below prompts/",
        ),
        (
            "agents/base/x.toml",
            &format!("{base}{{ file = \"/etc/passwd\" }}\n"),
            "not below prompts/",
        ),
    ];
    for (file, text, reason) in cases {
        let fixture = Fixture::new();
        for n in 0..6 {
            let name = ["a", "b", "c", "d", "e", "f"][n];
            let next = ["b", "c", "d", "e", "f", "g"][n];
            write_project_config(&fixture, &format!("prompts/system/{name}.md"), &tenfold(next));
        }
        write_project_config(&fixture, "prompts/system/g.md", "boom");
        write_project_config(&fixture, "prompts/system/itself.md", "{{> itself}}");
        write_project_config(&fixture, file, text);
        let started = Instant::now();
        fixture.run(&["trust", "--yes"]).await.exited(0);
        let ran = fixture.run(&["agents", "show", "x"]).await;
        assert!(ran.exited(2).err.contains(reason), "{reason}: {}", ran.err);
        fixture.run(&["agents", "show", "builder"]).await.exited(0);
        assert!(started.elapsed() < Duration::from_secs(20), "{reason}");
    }
}

#[tokio::test]
async fn huge_files_pipes_and_devices_are_not_read() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/base/small.toml", "");
    let folder = fixture.home(".config/crow-agent/agents/base");
    fs::File::create(folder.join("huge.toml")).unwrap().set_len(100 << 20).unwrap();
    let pipe = folder.join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("/dev/zero", folder.join("endless.toml")).unwrap();
    let ran = fixture.run(&["config", "validate"]).await;
    for reason in
        ["huge.toml: is larger than", "pipe.toml: is not a file", "endless.toml: is not a file"]
    {
        assert!(ran.exited(2).out.contains(reason), "{reason}: {}", ran.out);
    }
    fixture.run(&["agents", "show", "BUILD-SMART"]).await.exited(0);
}

#[tokio::test]
async fn a_default_value_is_shown_with_its_source() {
    let fixture = Fixture::new();
    let steps = fixture.run(&["config", "get", "agents.base.builder.react.max_iterations"]).await;
    steps.exited(0);
    assert_eq!(steps.out, "100\n");
    assert!(steps.err.contains("built in, no file sets it"), "{}", steps.err);
    let set = ["config", "set", "agents.base.builder.react.max_iterations", "7"];
    fixture.run(&set).await.exited(0);
    let steps = fixture.run(&["config", "get", "agents.base.builder.react.max_iterations"]).await;
    let file = fixture.home(".config/crow-agent/agents/base/builder.toml");
    let source = format!("react.max_iterations: {}:", file.display());
    assert!(steps.out == "7\n" && steps.err.contains(&source), "{steps:?}");
    for (key, out) in [("agent", "BUILD-HITL\n"), ("sandbox.network", "false\n")] {
        assert_eq!(fixture.run(&["config", "get", key]).await.out, out);
    }
    let bound = fixture.run(&["config", "get", "agents.acp.BUILD-HITL.limits.max_money"]).await;
    bound.exited(1);
    assert!(bound.err.contains("limits.max_money is not set: no bound"), "{}", bound.err);
    let shown = fixture.run(&["agents", "show", "BUILD-HITL"]).await.out;
    let rounds = "limits.max_rounds = 25\n    built in, no file sets it\n";
    assert!(shown.contains(rounds) && shown.contains("limits.max_money: no bound"), "{shown}");
    let agent = fixture.run(&["agents", "show", "builder", "--output", "json"]).await.out;
    let agent: serde_json::Value = serde_json::from_str(&agent).unwrap();
    assert_eq!(agent["values"]["react.doom_loop_threshold"]["value"], 5);
    assert_eq!(agent["values"]["react.doom_loop_threshold"]["from"], "default");
    assert_ne!(agent["values"]["react.max_iterations"]["from"], "default");
}
