//! The commands about agents, and runs with broken ones.

use std::{fs, time::Instant};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::Value;

use crate::{
    config::{normalized_output, write_project_config, write_user_config},
    program::Fixture,
};

#[tokio::test]
async fn agents_list_shows_purpose_and_origin_of_each_agent() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/base/builder.toml", "[model]\nmodel = \"m\"\n");
    write_user_config(&fixture, "agents/base/broken.toml", "[agent\n");
    write_user_config(
        &fixture,
        "agents/looker.md",
        "---\nrole: subagent\ndescription: looks \u{1b}[31mred\n---\nLook.\n",
    );
    write_project_config(
        &fixture,
        "agents/acp/TEAM.toml",
        "[agent]\ndescription = \"of the team\"\n[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"looker\"]\nconsensus = \"majority\"\n[control_flow]\ntype = \"judge\"\n",
    );
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let ran = fixture.run(&["agents", "list"]).await;
    insta::assert_snapshot!("agents_list", normalized_output(&fixture, ran.exited(0)));
    let ran = fixture.run(&["agents", "list", "-o", "json"]).await;
    let lines = ran.exited(0).lines();
    let agent = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap().clone();
    assert_eq!(lines.len(), 16);
    assert_eq!(agent("builder")["overlaid"], true);
    assert_eq!(
        (&agent("TEAM")["from"], &agent("TEAM")["kind"]),
        (&"project".into(), &"composition".into())
    );
    assert!(agent("broken")["error"].as_str().unwrap().contains("broken.toml:1:7"));
}

#[tokio::test]
async fn agents_show_names_the_source_of_each_value() {
    let fixture = Fixture::new();
    write_user_config(&fixture, "agents/base/explorer.toml", "# Mine.\n[model]\nmodel = \"m\"\n");
    write_user_config(&fixture, "prompts/system/trust.md", "Trust nobody.\n");
    for name in ["BUILD-CHAT", "explorer"] {
        let ran = fixture.run(&["agents", "show", name]).await;
        insta::assert_snapshot!(
            format!("agents_show_{name}"),
            normalized_output(&fixture, ran.exited(0))
        );
    }
    let ran = fixture.run(&["agents", "show", "explorer", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&ran.exited(0).out).unwrap();
    assert_eq!(shown["values"]["model.model"]["from"], "user");
    assert_eq!(shown["values"]["model.model"]["line"], 3);
    assert!(shown["system_prompt"].as_str().unwrap().ends_with("Trust nobody."));
    let ran = fixture.run(&["agents", "show", "bulider"]).await;
    assert!(ran.exited(2).err.contains("did you mean \"builder\"?"), "{}", ran.err);
}

#[tokio::test]
async fn a_new_agent_is_valid_and_replaces_no_existing_one() {
    let fixture = Fixture::new();
    fixture.run(&["agents", "new", "mine"]).await.exited(0);
    fixture.run(&["agents", "new", "MY-CHAT", "--from", "BUILD-CHAT"]).await.exited(0);
    fixture.run(&["agents", "new", "other", "--from", "reviewer"]).await.exited(0);
    fixture.run(&["config", "validate"]).await.exited(0);
    let path = fixture.home(".config/crow-agent/agents/base/mine.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("# ") && text.contains("name = \"mine\""), "{text}");
    for (args, reason) in [
        (&["agents", "new", "mine"][..], "an agent mine already exists"),
        (&["agents", "new", "builder"], "an agent builder already exists"),
        (&["agents", "new", "../x"], "is not a valid agent name"),
        (&["agents", "new", "--", "-p"], "is not a valid agent name"),
        (&["agents", "new", "my agent"], "up to 64 ASCII letters"),
        (&["agents", "new", "x", "--from", "nobody"], "there is no agent \"nobody\""),
    ] {
        let ran = fixture.run(args).await;
        assert!(ran.exited(2).err.contains(reason), "{reason}: {}", ran.err);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let (chat, mine) =
        (agent_json(&fixture, "BUILD-CHAT").await, agent_json(&fixture, "MY-CHAT").await);
    assert_eq!(
        chat["values"]["control_flow.max_turns"]["value"],
        mine["values"]["control_flow.max_turns"]["value"]
    );
}

async fn agent_json(fixture: &Fixture, name: &str) -> Value {
    let ran = fixture.run(&["agents", "show", name, "-o", "json"]).await;
    serde_json::from_str(&ran.exited(0).out).unwrap()
}

#[tokio::test]
async fn two_hundred_agents_do_not_slow_down_a_start() {
    let fixture = Fixture::new();
    let text = "[agent]\ndescription = \"d\"\n[tools]\nenabled = [\"bash\"]\n[prompt]\nsystem = \"Work. {{> trust}}\"\n";
    let time = |fixture: &Fixture| {
        let started = Instant::now();
        let ran = fixture.command(&["config", "get", "agents.base.builder.agent.name"]).output();
        assert!(ran.unwrap().status.success());
        started.elapsed()
    };
    let fastest = |fixture: &Fixture| (0..5).map(|_| time(fixture)).min().unwrap();
    let without = fastest(&fixture);
    for n in 0..200 {
        write_user_config(&fixture, &format!("agents/base/a{n}.toml"), text);
    }
    let with = fastest(&fixture);
    let more = with.saturating_sub(without);
    assert!(more.as_millis() <= 30, "{more:?} more than {without:?}");
}

#[tokio::test]
async fn a_broken_agent_does_not_affect_runs_of_other_agents() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    write_user_config(&fixture, "agents/base/broken.toml", "[agent\n");
    let ran = fixture.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_agent_in_the_wrong_folder_is_reported() {
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    let folder = fixture.home(".config/crow-agent/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("foo.toml"), "description = \"x\"\n").unwrap();
    let note = "agents/foo.toml is not read: base agents belong in agents/base";
    let ran = fixture.run(&["run", "hi", "--agent", "foo", "-m", "anthropic/claude-test"]).await;
    assert!(ran.exited(2).err.contains(note), "{}", ran.err);
    let ran = fixture.run(&["agents", "list"]).await;
    assert!(ran.exited(0).err.contains(note), "{}", ran.err);
    let ran = fixture.run(&["agents", "show", "foo"]).await;
    assert!(ran.exited(2).err.contains(note), "{}", ran.err);
}
