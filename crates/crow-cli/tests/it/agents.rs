//! The agents that there are, through the program.

use std::{fs, time::Instant};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::Value;

use crate::{
    config::{brings, configured, told},
    program::Place,
};

#[tokio::test]
async fn agents_list_shows_purpose_and_origin_of_each_agent() {
    let place = Place::new();
    configured(&place, "agents/base/builder.toml", "[model]\nmodel = \"m\"\n");
    configured(&place, "agents/base/broken.toml", "[agent\n");
    configured(
        &place,
        "agents/looker.md",
        "---\nrole: subagent\ndescription: looks \u{1b}[31mred\n---\nLook.\n",
    );
    brings(
        &place,
        "agents/acp/TEAM.toml",
        "[agent]\ndescription = \"of the team\"\n[composition]\nprimary = \"builder\"\ncoagents = [\"reviewer\", \"looker\"]\nconsensus = \"majority\"\n[control_flow]\ntype = \"judge\"\n",
    );
    place.run(&["trust", "--yes"]).await.exited(0);
    let ran = place.run(&["agents", "list"]).await;
    insta::assert_snapshot!("agents_list", told(&place, ran.exited(0)));
    let ran = place.run(&["agents", "list", "-o", "json"]).await;
    let lines = ran.exited(0).lines();
    let of = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap().clone();
    assert_eq!(lines.len(), 16);
    assert_eq!(of("builder")["overlaid"], true);
    assert_eq!(
        (&of("TEAM")["from"], &of("TEAM")["kind"]),
        (&"project".into(), &"composition".into())
    );
    assert!(of("broken")["error"].as_str().unwrap().contains("broken.toml:1:7"));
}

#[tokio::test]
async fn agents_show_names_the_source_of_each_value() {
    let place = Place::new();
    configured(&place, "agents/base/explorer.toml", "# Mine.\n[model]\nmodel = \"m\"\n");
    configured(&place, "prompts/system/trust.md", "Trust nobody.\n");
    for name in ["BUILD-CHAT", "explorer"] {
        let ran = place.run(&["agents", "show", name]).await;
        insta::assert_snapshot!(format!("agents_show_{name}"), told(&place, ran.exited(0)));
    }
    let ran = place.run(&["agents", "show", "explorer", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&ran.exited(0).out).unwrap();
    assert_eq!(shown["values"]["model.model"]["from"], "user");
    assert_eq!(shown["values"]["model.model"]["line"], 3);
    assert!(shown["system_prompt"].as_str().unwrap().ends_with("Trust nobody."));
    let ran = place.run(&["agents", "show", "bulider"]).await;
    assert!(ran.exited(2).err.contains("did you mean \"builder\"?"), "{}", ran.err);
}

#[tokio::test]
async fn a_new_agent_is_valid_and_replaces_no_existing_one() {
    let place = Place::new();
    place.run(&["agents", "new", "mine"]).await.exited(0);
    place.run(&["agents", "new", "MY-CHAT", "--from", "BUILD-CHAT"]).await.exited(0);
    place.run(&["agents", "new", "other", "--from", "reviewer"]).await.exited(0);
    place.run(&["config", "validate"]).await.exited(0);
    let path = place.home(".config/crow-agent/agents/base/mine.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("# ") && text.contains("name = \"mine\""), "{text}");
    for (args, reason) in [
        (&["agents", "new", "mine"][..], "there is an agent mine already"),
        (&["agents", "new", "builder"], "there is an agent builder already"),
        (&["agents", "new", "../x"], "cannot name an agent"),
        (&["agents", "new", "--", "-p"], "cannot name an agent"),
        (&["agents", "new", "my agent"], "up to 64 letters"),
        (&["agents", "new", "x", "--from", "nobody"], "there is no agent \"nobody\""),
    ] {
        let ran = place.run(args).await;
        assert!(ran.exited(2).err.contains(reason), "{reason}: {}", ran.err);
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let (chat, mine) = (shown(&place, "BUILD-CHAT").await, shown(&place, "MY-CHAT").await);
    assert_eq!(
        chat["values"]["control_flow.max_turns"]["value"],
        mine["values"]["control_flow.max_turns"]["value"]
    );
}

async fn shown(place: &Place, name: &str) -> Value {
    let ran = place.run(&["agents", "show", name, "-o", "json"]).await;
    serde_json::from_str(&ran.exited(0).out).unwrap()
}

#[tokio::test]
async fn two_hundred_agents_do_not_slow_down_a_start() {
    let place = Place::new();
    let text = "[agent]\ndescription = \"d\"\n[tools]\nenabled = [\"bash\"]\n[prompt]\nsystem = \"Work. {{> trust}}\"\n";
    let time = |place: &Place| {
        let started = Instant::now();
        let ran = place.command(&["config", "get", "agents.base.builder.agent.name"]).output();
        assert!(ran.unwrap().status.success());
        started.elapsed()
    };
    let fastest = |place: &Place| (0..5).map(|_| time(place)).min().unwrap();
    let without = fastest(&place);
    for n in 0..200 {
        configured(&place, &format!("agents/base/a{n}.toml"), text);
    }
    let with = fastest(&place);
    let more = with.saturating_sub(without);
    assert!(more.as_millis() <= 30, "{more:?} more than {without:?}");
}

#[tokio::test]
async fn a_broken_agent_does_not_affect_runs_of_other_agents() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let place = Place::new().with_server(&server, WireDialect::AnthropicMessages);
    configured(&place, "agents/base/broken.toml", "[agent\n");
    let ran = place.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_agent_in_the_wrong_folder_is_reported() {
    let mut place = Place::new();
    place.set("ANTHROPIC_API_KEY", "sk-test-0123456789");
    let folder = place.home(".config/crow-agent/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("foo.toml"), "description = \"x\"\n").unwrap();
    let note = "agents/foo.toml is not read: base agents stand in agents/base";
    let ran = place.run(&["run", "hi", "--agent", "foo", "-m", "anthropic/claude-test"]).await;
    assert!(ran.exited(2).err.contains(note), "{}", ran.err);
    let ran = place.run(&["agents", "list"]).await;
    assert!(ran.exited(0).err.contains(note), "{}", ran.err);
    let ran = place.run(&["agents", "show", "foo"]).await;
    assert!(ran.exited(2).err.contains(note), "{}", ran.err);
}
