//! Servers of the Model Context Protocol: configuration, trust, calls, deferred tools, and the commands of `mcp`.

use std::{fs, path::Path};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::Fixture;

/// A server as a bash script. Its tool answers with `TOKEN` and its working directory.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  case $line in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"f","version":"1"}}' ;;
    *'"method":"tools/list"'*) say '{"tools":[{"name":"look up","description":"Looks things up.","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"prompts/list"'*) say '{"prompts":[{"name":"explain","description":"Explains a book.","arguments":[{"name":"title","required":true}]}]}' ;;
    *'"method":"tools/call"'*) echo called >> calls; say "{\"content\":[{\"type\":\"text\",\"text\":\"found with $TOKEN in $PWD\"}]}" ;;
  esac
done
"#;
const TOOL: &str = "mcp__docs__look_up";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn fixture(server: &ModelServer) -> Fixture {
    let fixture = Fixture::new().with_server(server, WireDialect::AnthropicMessages);
    write(&fixture.home("server.sh"), SERVER);
    fixture
}

/// Adds the server to the user's configuration, followed by the text `more`.
fn configure(fixture: &Fixture, more: &str) {
    let script = fixture.home("server.sh").display().to_string();
    let text = format!(
        "[mcp.servers.docs]\ncommand = \"bash\"\nargs = [\"{script}\"]\nenv = {{ TOKEN = \"${{DOCS_TOKEN:-none}}\" }}\n{more}"
    );
    write(&fixture.home(".config/crow-agent/config.toml"), &text);
}

fn calls() -> [ScriptedReply; 2] {
    [
        ScriptedReply::new().call("c1", TOOL, &json!({"q": "x"})),
        ScriptedReply::new().text("It is found."),
    ]
}

#[tokio::test]
async fn a_configured_server_provides_its_tools_to_a_run() {
    let server = ModelServer::start(calls()).await;
    let mut fixture = fixture(&server);
    fixture.set_env("DOCS_TOKEN", "word");
    configure(&fixture, "");
    let ran = fixture.run(&["run", "look", "-p", "full-auto", "-o", "json"]).await;
    let end = ran.exited(0).lines().into_iter().find(|line| line["type"] == "call_end").unwrap();
    let output = end["result"]["output"].as_str().unwrap();
    assert!(output.starts_with("found with word in /"), "{end}");
    // It runs in the session's directory, and its changes are recorded.
    assert!(fixture.project("calls").exists());
    assert_eq!(end["result"]["metadata"]["changes"]["created"], 1, "{end}");
    let requests = server.finish().await.unwrap();
    let tools = requests[0].body["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == TOOL).unwrap();
    assert_eq!(tool["description"], "Looks things up.");
}

#[tokio::test]
async fn an_mcp_call_without_a_terminal_is_refused_unless_a_rule_allows_it() {
    let server = ModelServer::start(calls().into_iter().chain(calls()).collect::<Vec<_>>()).await;
    let fixture = fixture(&server);
    configure(&fixture, "");
    let ran = fixture.run(&["run", "look"]).await;
    assert!(ran.exited(6).err.contains("docs: look up"), "{}", ran.err);
    assert!(!fixture.project("calls").exists());
    let rule = json!({"version": 1, "rules": [
        {"id": "docs", "matcher": {"tool_name": "mcp__docs__*"}, "decision": "allow"}
    ]});
    write(&fixture.home(".config/crow-agent/permissions.json"), &rule.to_string());
    let explained = fixture.run(&["permissions", "explain", TOOL]).await;
    assert!(explained.exited(0).out.contains("the rule docs"), "{}", explained.out);
    fixture.run(&["run", "look again"]).await.exited(0);
    assert!(fixture.project("calls").exists());
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_project_starts_no_server_before_it_is_trusted() {
    let server = ModelServer::start(
        [ScriptedReply::new().text("hello")].into_iter().chain(calls()).collect::<Vec<_>>(),
    )
    .await;
    let fixture = fixture(&server);
    let script = fixture.home("server.sh").display().to_string();
    let file = json!({"mcpServers": {"docs": {"command": "bash", "args": [script], "env": {"TOKEN": "of the project"}}}});
    write(&fixture.project(".mcp.json"), &file.to_string());
    let ran = fixture.run(&["run", "hi"]).await;
    assert!(ran.exited(0).err.contains("is not trusted"), "{}", ran.err);
    let trusted = fixture.run(&["trust", "--yes"]).await;
    assert!(trusted.exited(0).out.contains("starts `bash "), "{}", trusted.out);
    assert!(
        trusted.out.contains(" with TOKEN=of the project as the MCP server docs"),
        "{}",
        trusted.out
    );
    let ran = fixture.run(&["run", "look", "-p", "full-auto", "-o", "json"]).await;
    assert!(ran.exited(0).out.contains("found with of the project"), "{}", ran.out);
    let requests = server.finish().await.unwrap();
    assert!(!requests[0].body.to_string().contains(TOOL));
}

#[tokio::test]
async fn a_server_whose_program_changed_is_not_started_until_it_is_restored() {
    let script = ["first", "second", "third"].map(|text| ScriptedReply::new().text(text));
    let server = ModelServer::start(script).await;
    let fixture = fixture(&server);
    write(&fixture.project("tools/server.sh"), SERVER);
    for folder in ["sub", ".git"] {
        fs::create_dir(fixture.project(folder)).unwrap();
    }
    let file = json!({"mcpServers": {"docs": {"command": "bash", "args": ["tools/server.sh"]}}});
    write(&fixture.project(".mcp.json"), &file.to_string());
    let trusted = fixture.run(&["trust", "--yes"]).await;
    assert!(trusted.exited(0).out.contains("tools/server.sh"), "{}", trusted.out);
    // It is started at the root of the project, even if the session works in a subfolder.
    fixture.run(&["run", "one", "--cwd", "sub"]).await.exited(0);
    write(&fixture.project("tools/server.sh"), &format!("touch ../pwned\n{SERVER}"));
    let ran = fixture.run(&["run", "two"]).await;
    assert!(ran.exited(0).err.contains("changed since you trusted it"), "{}", ran.err);
    assert!(!fixture.project("../pwned").exists());
    let shown = fixture.run(&["trust"]).await;
    assert!(shown.exited(2).out.contains("tools/server.sh  [changed]"), "{}", shown.out);
    write(&fixture.project("tools/server.sh"), SERVER);
    fixture.run(&["run", "three"]).await.exited(0);
    let requests = server.finish().await.unwrap();
    let offered: Vec<_> = requests.iter().map(|one| one.body.to_string().contains(TOOL)).collect();
    assert_eq!(offered, [true, false, true]);
}

#[tokio::test]
async fn a_project_gets_no_variables_of_the_user() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = fixture(&server);
    let file = r#"{"mcpServers": {"x": {"command": "touch", "args": ["${ANTHROPIC_API_KEY}"]}}}"#;
    write(&fixture.project(".mcp.json"), file);
    fixture.run(&["trust", "--yes"]).await.exited(0);
    let ran = fixture.run(&["run", "hi"]).await;
    assert!(ran.exited(0).err.contains("a project cannot use your variables"), "{}", ran.err);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_failing_server_is_reported_and_the_run_continues() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = fixture(&server);
    configure(
        &fixture,
        "[mcp.servers.sick]\ncommand = \"bash\"\nargs = [\"-c\", \"echo no key >&2; exit 3\"]\n",
    );
    let ran = fixture.run(&["run", "hi"]).await;
    assert_eq!(ran.exited(0).out, "hello\n");
    assert!(
        ran.err.contains("the MCP server sick is unavailable: it ended with exit code 3"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("no key"), "{}", ran.err);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn servers_are_listed_and_tested() {
    let fixture = Fixture::new();
    write(&fixture.home("server.sh"), SERVER);
    assert!(fixture.run(&["mcp", "list"]).await.exited(0).out.contains("There are no MCP servers"));
    configure(
        &fixture,
        "[mcp.servers.off]\ncommand = \"x\"\nenabled = false\n[mcp.servers.gone]\ncommand = \"no-such-program\"\n",
    );
    let listed = fixture.run(&["mcp", "list"]).await;
    assert!(listed.exited(0).out.contains("docs  stdio  bash "), "{}", listed.out);
    assert!(
        listed.out.contains("never seen") && listed.out.contains("off  switched off"),
        "{}",
        listed.out
    );
    assert!(!listed.out.contains("TOKEN"), "{}", listed.out);
    let tried = fixture.run(&["mcp", "test", "docs"]).await;
    assert!(tried.exited(0).out.starts_with("docs works: 1 tools in "), "{}", tried.out);
    assert!(tried.out.contains("mcp__docs__look_up  Looks things up."), "{}", tried.out);
    let listed = fixture.run(&["mcp", "list", "-o", "json"]).await;
    let line = listed.exited(0).lines().into_iter().find(|line| line["name"] == "docs").unwrap();
    assert_eq!((&line["seen"], &line["tools"][0]["own_name"]), (&json!(true), &json!("look up")));
    let commands = fixture.run(&["commands", "list"]).await;
    let expected =
        "/mcp__docs__explain TITLE  [prompt of an MCP server]\n  Explains a book.\n  docs\n";
    assert_eq!(commands.exited(0).out, expected);
    let commands = fixture.run(&["commands", "list", "-o", "json"]).await;
    assert_eq!(commands.exited(0).lines()[0]["name"], "mcp__docs__explain");
    let gone = fixture.run(&["mcp", "test", "gone"]).await;
    assert!(gone.exited(1).err.contains("no-such-program cannot be started"), "{}", gone.err);
    let none = fixture.run(&["mcp", "test", "dcos"]).await;
    assert!(none.exited(2).err.contains("did you mean \"docs\"?"), "{}", none.err);
    assert!(fixture.run(&["mcp", "test", "off"]).await.exited(2).err.contains("switched off"));
}

#[tokio::test]
async fn an_invalid_server_entry_is_reported_with_its_position() {
    let fixture = Fixture::new();
    for (text, expected) in [
        ("[mcp.servers.a]\n", "config.toml:1:1: a server needs a command or a url"),
        (
            "[mcp.servers.a]\ncommand = \"x\"\nurl = \"http://x\"\n",
            "config.toml:3:7: a server has a command or a url, not both",
        ),
        (
            "[mcp.servers.a]\nurl = \"ftp://x\"\n",
            "config.toml:2:7: a url begins with http:// or https://",
        ),
        ("[mcp.servers.a]\ncommand = \"x\"\nheaders = { A = \"b\" }\n", "config.toml:3:"),
        (
            "[mcp.servers.a]\ncommand = \"x\"\ntool_timeout = 0\n",
            "config.toml:3:16: 0 is not possible here",
        ),
        ("[mcp.servers.a]\ncomand = \"x\"\n", "config.toml:2:"),
    ] {
        write(&fixture.home(".config/crow-agent/config.toml"), text);
        let ran = fixture.run(&["mcp", "list"]).await;
        assert!(ran.exited(2).err.contains(expected), "{text}\n{}", ran.err);
    }
}

/// Configures a server that starts and never answers.
fn configure_silent_server(fixture: &Fixture, timeout: &str) {
    let text = format!(
        "[mcp.servers.hung]\ncommand = \"sleep\"\nargs = [\"600\"]\nstartup_timeout = \"{timeout}\"\n"
    );
    write(&fixture.home(".config/crow-agent/config.toml"), &text);
}

#[tokio::test]
async fn mcp_test_of_a_silent_server_names_the_server_it_waits_for() {
    let fixture = Fixture::new();
    configure_silent_server(&fixture, "1s");
    let ran = fixture.run(&["mcp", "test", "hung"]).await;
    assert!(ran.exited(1).err.contains("waiting for the MCP server hung, "), "{}", ran.err);
}

#[tokio::test]
async fn waiting_for_tools_is_not_reported_as_waiting_for_the_model() {
    let server = ModelServer::start([ScriptedReply::new().text("hello")]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    configure_silent_server(&fixture, "5s");
    let ran = fixture.run(&["run", "hi", "-m", "anthropic/claude-test"]).await;
    let err = &ran.exited(0).err;
    assert!(err.contains("waiting for the tools of hung"), "{err}");
    assert!(!err.contains("waiting for anthropic/"), "{err}");
    server.finish().await.unwrap();
}

/// A server with 400 tools, of which each has a description and an argument.
const LARGE_SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
tools=
for n in {1..400}; do
  tools+=",{\"name\":\"op_$n\",\"description\":\"Runs the operation number $n on the records of the archive.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"record\":{\"type\":\"string\"}}}}"
done
tools+=',{"name":"weather","description":"Tells the weather of a city.","inputSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}'
while IFS= read -r line; do
  [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  case $line in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"f","version":"1"}}' ;;
    *'"method":"tools/list"'*) say "{\"tools\":[${tools:1}]}" ;;
    *'"name":"weather"'*) say '{"content":[{"type":"text","text":"rain in Oslo"}]}' ;;
  esac
done
"#;

#[tokio::test]
async fn hundreds_of_tools_are_found_by_a_search_and_called_under_their_own_names() {
    let inner = json!({"name": "mcp__docs__weather", "arguments": {"city": "Oslo"}});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "find_tools", &json!({"query": "weather in a city"})),
        ScriptedReply::new().call("c2", "call_tool", &inner),
        ScriptedReply::new().text("It rains."),
    ])
    .await;
    let fixture = fixture(&server);
    write(&fixture.home("server.sh"), LARGE_SERVER);
    configure(&fixture, "");
    let rule = json!({"version": 1, "rules": [
        {"id": "w", "matcher": {"tool_name": "mcp__docs__weather"}, "decision": "allow"}
    ]});
    write(&fixture.home(".config/crow-agent/permissions.json"), &rule.to_string());
    let ran = fixture.run(&["run", "weather?", "-o", "json"]).await;
    let lines = ran.exited(0).lines();
    let ends: Vec<_> = lines.iter().filter(|line| line["type"] == "call_end").collect();
    let found = ends[0]["result"]["output"].as_str().unwrap();
    assert!(found.starts_with(r#"{"name":"mcp__docs__weather""#), "{found}");
    assert!(found.contains(r#""required":["city"]"#), "{found}");
    // Rules, events and records know the call by the name of its tool.
    assert_eq!(ends[1]["tool"], "mcp__docs__weather", "{}", ends[1]);
    assert_eq!(ends[1]["result"]["output"], "rain in Oslo");
    let told = lines.iter().filter(|line| line["type"] == "notice");
    let told: Vec<&str> = told.filter_map(|line| line["text"].as_str()).collect();
    assert!(told.iter().any(|text| text.starts_with("401 tools of MCP servers (")), "{told:?}");
    let requests = server.finish().await.unwrap();
    let size = requests[0].body.to_string().len();
    assert!(size <= 15_000, "the first request has {size} bytes");
    assert!(!requests[0].body.to_string().contains("op_17"));
}

#[tokio::test]
async fn servers_are_added_listed_and_removed_by_commands() {
    let fixture = Fixture::new();
    let script = fixture.home("server.sh").display().to_string();
    write(&fixture.home("server.sh"), SERVER);
    let added = fixture.run(&["mcp", "add", "docs", "-e", "TOKEN=word", "bash", &script]).await;
    assert!(added.exited(0).out.contains("docs is added to "), "{}", added.out);
    let tested = fixture.run(&["mcp", "test", "docs"]).await;
    assert!(tested.exited(0).out.contains(TOOL), "{}", tested.out);
    let again = fixture.run(&["mcp", "add", "docs", "https://docs.test/mcp"]).await;
    assert!(again.exited(2).err.contains("--replace replaces it"), "{}", again.err);
    let options = ["--replace", "--client-id", "crow", "-H", "X-Team: birds"];
    let replaced = [&["mcp", "add"][..], &options, &["docs", "https://docs.test/mcp"]].concat();
    fixture.run(&replaced).await.exited(0);
    let listed = fixture.run(&["mcp", "list"]).await;
    assert!(
        listed.exited(0).out.starts_with("docs  http  https://docs.test/mcp"),
        "{}",
        listed.out
    );
    let wrong = fixture.run(&["mcp", "add", "x", "-e", "TOKEN", "bash"]).await;
    assert!(wrong.exited(2).err.contains("--env NAME=VALUE"), "{}", wrong.err);
    fixture.run(&["mcp", "remove", "docs"]).await.exited(0);
    let gone = fixture.run(&["mcp", "remove", "docs"]).await;
    assert!(gone.exited(2).err.contains("defines no MCP server docs"), "{}", gone.err);
}
