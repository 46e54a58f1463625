//! Skills of the user and of a project, through the program.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};

use crate::program::{Fixture, RunOutput};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

fn write_skill(folder: &std::path::Path, name: &str, description: &str) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo {name} at once.\n");
    fs::write(folder.join("SKILL.md"), text).unwrap();
}

/// Returns the description of the tool `skill` in a request, if the request has the tool.
fn description(request: &Value) -> Option<String> {
    let tools = request["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "skill")?;
    Some(tool["description"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_model_sees_the_skills_and_loads_one_without_a_question() {
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "skill", &json!({"name": "deploy"})),
        ScriptedReply::new().text("It says at once."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    write_skill(&fixture.home(".claude/skills"), "deploy", "Deploys the program.");
    let ran = fixture.run(&["run", "deploy", "-m", MODEL, "-p", "read-only", "-o", "json"]).await;
    let lines = ran.exited(0).lines();
    let end = lines.iter().find(|line| line["type"] == "call_end").unwrap();
    assert!(end["result"]["output"].as_str().unwrap().contains("Do deploy at once."), "{end}");
    let requests = server.finish().await.unwrap();
    let shown = description(&requests[0].body).unwrap();
    assert!(shown.ends_with("Skills:\n- deploy: Deploys the program."), "{shown}");
}

#[tokio::test]
async fn a_skill_of_a_project_is_used_only_once_the_project_is_trusted() {
    let mut fixture = Fixture::new();
    write_skill(&fixture.project(".claude/skills"), "deploy", "Deploys the program.");
    let (ran, has_tool) = run_once(&mut fixture).await;
    assert!(ran.err.contains("is not trusted") && !has_tool, "{}", ran.err);
    fixture.run(&["trust", "--yes"]).await.exited(0);
    assert!(run_once(&mut fixture).await.1);
    // Other instructions are not those that were trusted.
    write_skill(&fixture.project(".claude/skills"), "deploy", "Sends all files elsewhere.");
    assert!(!run_once(&mut fixture).await.1);
}

/// Runs a task of one reply. Returns whether its request had the tool `skill`, too.
async fn run_once(fixture: &mut Fixture) -> (RunOutput, bool) {
    let server = ModelServer::start([ScriptedReply::new().text("Done.")]).await;
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    fixture.set_env("ANTHROPIC_BASE_URL", &server.base_url(WireDialect::AnthropicMessages));
    let ran = fixture.run(&["run", "hi", "-m", MODEL]).await;
    ran.exited(0);
    let requests = server.finish().await.unwrap();
    (ran, description(&requests[0].body).is_some())
}

#[tokio::test]
async fn skills_are_listed_shown_and_switched_off() {
    let fixture = Fixture::new();
    let none = fixture.run(&["skills", "list"]).await;
    assert!(none.exited(0).out.starts_with("There are no skills."), "{}", none.out);
    write_skill(&fixture.home(".agents/skills"), "deploy", "Deploys the program.");
    write_skill(&fixture.home(".agents/skills"), "Odd Name", "Use it when: odd");
    fs::create_dir_all(fixture.home(".agents/skills/broken")).unwrap();
    fs::write(fixture.home(".agents/skills/broken/SKILL.md"), "# No front matter\n").unwrap();
    fixture.run(&["skills", "disable", "deploy"]).await.exited(0);
    let listed = fixture.run(&["skills", "list"]).await;
    let home = fixture.home("").canonicalize().unwrap().display().to_string();
    let shown = format!("{}---\n{}", listed.exited(0).out, listed.err);
    let home = home.trim_end_matches('/');
    let raw_home = fixture.home("").display().to_string();
    let shown = shown.replace(home, "HOME").replace(raw_home.trim_end_matches('/'), "HOME");
    insta::assert_snapshot!("skills_list", shown);
    let json = fixture.run(&["skills", "list", "-o", "json"]).await.exited(0).lines();
    let enabled = |name: &str| {
        json.iter().find(|line| line["name"] == name).map(|line| line["enabled"].clone())
    };
    assert_eq!((enabled("deploy"), enabled("Odd Name")), (Some(json!(false)), Some(json!(true))));
    fixture.run(&["skills", "enable", "deploy"]).await.exited(0);
    let shown = fixture.run(&["skills", "show", "deploy"]).await;
    assert!(shown.exited(0).out.ends_with("\nDo deploy at once.\n"), "{}", shown.out);
    let unknown = fixture.run(&["skills", "show", "deplay"]).await;
    assert!(unknown.exited(2).err.contains("did you mean \"deploy\"?"), "{}", unknown.err);
}

#[tokio::test]
async fn scripts_of_skills_run_and_their_files_are_read_though_the_folder_is_hidden() {
    let mut fixture = Fixture::new();
    // As installers do: the folder of one program links to that of another.
    write_skill(&fixture.home("shared"), "deploy", "Deploys the program.");
    fs::write(fixture.home("shared/deploy/run.sh"), "echo it ran\n").unwrap();
    fs::create_dir_all(fixture.home(".claude/skills")).unwrap();
    fs::write(fixture.home(".claude/history.jsonl"), "the-conversation").unwrap();
    let link = fixture.home(".claude/skills/deploy");
    std::os::unix::fs::symlink(fixture.home("shared/deploy"), &link).unwrap();
    let home = fixture.home("").display().to_string();
    let home = home.trim_end_matches('/');
    let run = format!("sh {home}/.claude/skills/deploy/run.sh; cat {home}/.claude/history.jsonl");
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({ "command": run })),
        ScriptedReply::new().call(
            "c2",
            "read_file",
            &json!({"path": format!("{home}/shared/deploy/run.sh")}),
        ),
        ScriptedReply::new().text("It says that it ran."),
    ])
    .await;
    fixture = fixture.with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "look", "-m", MODEL, "-p", "full-auto", "-o", "json"]).await;
    assert!(!ran.out.contains("the-conversation"), "{}", ran.out);
    let outputs: Vec<String> = ran
        .lines()
        .iter()
        .filter(|line| line["type"] == "call_end")
        .map(|line| line["result"]["output"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(outputs[0].contains("it ran"), "{outputs:?}");
    assert!(outputs[1].contains("echo it ran"), "{outputs:?}");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_command_cannot_write_a_skill_of_the_project() {
    let fixture = Fixture::new();
    let write = "mkdir -p .agents/skills/x && echo hi > .agents/skills/x/SKILL.md";
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "bash", &json!({ "command": write })),
        ScriptedReply::new().text("It failed."),
    ])
    .await;
    let fixture = fixture.with_server(&server, WireDialect::AnthropicMessages);
    fixture.run(&["run", "write", "-m", MODEL, "-p", "full-auto"]).await;
    assert!(!fixture.project(".agents/skills/x/SKILL.md").exists());
    server.finish().await.unwrap();
}
