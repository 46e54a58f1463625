//! Runs with models that call tools in text.

use std::fs;

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, RunOutput};

const MODEL: &str = "local/small";

/// Returns a fixture with a buggy project and a provider whose model calls tools in this way.
async fn with_model(tool_calls: &str, replies: &[&str]) -> (ModelServer, Fixture) {
    let replies: Vec<ScriptStep> =
        replies.iter().map(|text| ScriptedReply::new().text(*text).into()).collect();
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::with_bug();
    configure(&fixture, &server, tool_calls);
    (server, fixture)
}

fn configure(fixture: &Fixture, server: &ModelServer, tool_calls: &str) {
    let folder = fixture.home(".config/crow-agent/providers");
    fs::create_dir_all(&folder).unwrap();
    let url = server.base_url(WireDialect::OpenAiChat);
    let text = format!(
        "[provider]\nname = \"local\"\ntype = \"openai-chat\"\nbase_url = \"{url}\"\n\n\
         [models.small]\ncontext_window = 32000\ntool_calls = \"{tool_calls}\"\n"
    );
    fs::write(folder.join("local.toml"), text).unwrap();
}

async fn run(fixture: &Fixture) -> RunOutput {
    fixture
        .run(&["run", "the check fails, fix it", "-m", MODEL, "-p", "full-auto", "-o", "json"])
        .await
}

#[tokio::test]
async fn a_bug_is_fixed_with_calls_in_text_only() {
    let (server, fixture) = with_model(
        "text",
        &[
            "I look at it.\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"largest.sh\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"sh check.sh\"}}\n</tool_call>",
            "```json\n{\"name\": \"edit_file\", \"arguments\": {\"path\": \"largest.sh\", \"old_string\": \"sort -r |\", \"new_string\": \"sort -rn |\"}}\n```",
            "Now the check.\n<function=bash>\n<parameter=command>\nsh check.sh\n</parameter>\n</function>",
            "{\"name\": \"task_complete\", \"arguments\": {\"summary\": \"Numbers are compared as numbers now.\"}}",
        ],
    )
    .await;
    assert!(!fixture.check().status.success());
    let ran = run(&fixture).await;
    ran.exited(0);
    assert!(fixture.check().status.success());
    let result = ran.result();
    assert_eq!(result["outcome"], "completed");
    assert_eq!(result["summary"], "Numbers are compared as numbers now.");
    assert_eq!(result["files_changed"], json!([fixture.project("largest.sh")]));
    // The session contains calls, not their markup.
    assert!(!ran.out.contains("<tool_call>"), "{}", ran.out);
    let requests = server.finish().await.unwrap();
    assert!(requests.iter().all(|request| request.body.get("tools").is_none()));
}

#[tokio::test]
async fn a_call_that_is_never_understood_is_reminded_of_twice_and_fails_the_run() {
    for tool_calls in ["text", "native"] {
        let (server, fixture) = with_model(
            tool_calls,
            &[
                "<tool_call>\n{\"name\": \"write_file\", \"arguments\": {\"path\": \"a",
                "<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>",
                "All is done!\n<tool_call>\n{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>",
            ],
        )
        .await;
        let ran = run(&fixture).await;
        ran.exited(5);
        assert_eq!(ran.result()["outcome"], "stopped", "{tool_calls}");
        let requests = server.finish().await.unwrap();
        let last = |index: usize| {
            let messages = requests[index].body["messages"].as_array().unwrap();
            messages.last().unwrap()["content"].to_string()
        };
        assert!(last(1).contains("is incomplete"), "{}", last(1));
        assert!(last(2).contains("There is no tool named"), "{}", last(2));
    }
}

#[tokio::test]
async fn a_model_with_native_calls_may_write_one_as_text() {
    let (server, fixture) = with_model(
        "native",
        &[
            "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"touch made\"}}\n</tool_call>",
            "It is done.",
        ],
    )
    .await;
    let ran = run(&fixture).await;
    assert!(fixture.project("made").exists(), "{}", ran.out);
    let requests = server.finish().await.unwrap();
    let messages = requests[1].body["messages"].to_string();
    assert!(messages.contains("The call was written as text"), "{messages}");
}

#[tokio::test]
async fn a_server_that_refuses_tools_is_asked_in_text_and_the_user_is_told_once() {
    let (server, fixture) = with_model("native", &[]).await;
    let body = json!({"error": {"message": "small does not support tools", "type": "api_error"}});
    server.push(ScriptStep::Http {
        status: 400,
        headers: Vec::new(),
        body: body.to_string().into(),
    });
    for text in [
        "I mend it.\n\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"sed -i 's/sort -r |/sort -rn |/' largest.sh && sh check.sh\"}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"task_complete\", \"arguments\": {\"summary\": \"Numbers are compared as numbers now.\"}}\n</tool_call>",
    ] {
        server.push(ScriptedReply::new().text(text));
    }
    let ran = run(&fixture).await;
    ran.exited(0);
    assert!(fixture.check().status.success(), "{}", ran.out);
    assert_eq!(ran.result()["outcome"], "completed");
    let lines = ran.lines();
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "notice" && line["audience"] == "user")
        .filter_map(|line| line["text"].as_str())
        .filter(|text| text.contains("tools"))
        .collect();
    assert_eq!(
        told,
        [
            "local/small accepts no tools (small does not support tools), so from now on it calls them in text. To begin with that, set tool_calls = \"text\" under [models.\"small\"] in the file of the provider local."
        ]
    );
    let requests = server.finish().await.unwrap();
    let has_tools: Vec<_> =
        requests.iter().map(|request| request.body.get("tools").is_some()).collect();
    assert_eq!(has_tools, [true, false, false]);
    // The session contains the call, and resuming it is no matter of its form.
    assert!(!ran.out.contains("<tool_call>"), "{}", ran.out);
}

/// Returns a fixture with a buggy project and a provider whose model `tiny:3b` has the profile of small models.
async fn with_small_model(replies: &[&str]) -> (ModelServer, Fixture) {
    let (server, fixture) = with_model("native", replies).await;
    let file = fixture.home(".config/crow-agent/providers/local.toml");
    let text = fs::read_to_string(&file).unwrap();
    let model = "[models.\"tiny:3b\"]\ncontext_window = 32000\n";
    let start = text.find("[models.small]").unwrap();
    fs::write(&file, format!("{}{model}", &text[..start])).unwrap();
    (server, fixture)
}

#[tokio::test]
async fn a_small_model_fixes_a_bug_with_code_blocks() {
    let (server, fixture) = with_small_model(&[
        "The numbers are sorted as text.\n\n```bash\nsed -i 's/sort -r |/sort -rn |/' largest.sh\n```\nNow it works!",
        "```python\nimport subprocess\nprint(subprocess.run(['sh', 'check.sh']).returncode)\n```",
        "`largest.sh` compares numbers now, and `sh check.sh` succeeds.",
    ])
    .await;
    assert!(!fixture.check().status.success());
    let prompt = "check.sh fails because of largest.sh, fix it";
    let arguments = ["run", prompt, "-m", "local/tiny:3b", "-p", "full-auto", "-o", "json"];
    let ran = fixture.run(&arguments).await;
    ran.exited(0);
    assert!(fixture.check().status.success());
    assert_eq!(ran.result()["files_changed"], json!([fixture.project("largest.sh")]));
    let requests = server.finish().await.unwrap();
    // The first request is small, and shows the files that the message names.
    let first = &requests[0];
    assert!(first.raw_body.len() <= 6_000, "{} bytes", first.raw_body.len());
    assert!(first.body.get("tools").is_none());
    let message = first.body["messages"][1]["content"].to_string();
    assert!(message.contains("<named_file path=\\\"largest.sh\\\">"), "{message}");
    assert!(message.contains("sort -r"), "{message}");
    // A command is sent again as the block that it was, without what the model wrote after it.
    let replies = requests[2].body["messages"].as_array().unwrap();
    let reply = |index: usize| replies[index]["content"].as_str().unwrap();
    assert!(reply(2).ends_with("```bash\nsed -i 's/sort -r |/sort -rn |/' largest.sh\n```"));
    assert!(reply(4).starts_with("```python\nimport subprocess"));
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_not_shown_for_being_named() {
    let (server, fixture) = with_small_model(&["I see no reason."]).await;
    fs::write(fixture.project("private.txt"), "the-private-text").unwrap();
    fs::write(fixture.project(".env"), "the-private-text").unwrap();
    let rules = json!({"version": 1, "rules": [{
        "id": "no-private", "decision": "deny",
        "matcher": {"path": {"access": "read", "path": fixture.project("private.txt")}},
    }]});
    fs::write(fixture.home(".config/crow-agent/permissions.json"), rules.to_string()).unwrap();
    let outside = fixture.home("outside.txt");
    fs::write(&outside, "the-private-text").unwrap();
    let prompt = format!("Why do private.txt, .env and {} differ?", outside.display());
    let ran = fixture.run(&["run", &prompt, "-m", "local/tiny:3b", "-o", "json"]).await;
    ran.exited(0);
    let requests = server.finish().await.unwrap();
    let sent = requests[0].body.to_string();
    assert!(!sent.contains("the-private-text"), "{sent}");
}
