//! Error messages and exit codes.

use std::{
    fs,
    time::{Duration, Instant},
};

use crow_testkit::{
    ModelServer, ScriptStep, ScriptedReply, VendorError, WireDialect, refused_base_url,
};
use serde_json::json;

use crate::{config::write_user_config, program::Fixture};

const MODEL: &str = "anthropic/claude-test";

/// Returns a fixture in which no local model server can be found.
fn fixture_without_servers() -> Fixture {
    let mut fixture = Fixture::new();
    for name in ["OLLAMA_HOST", "LLAMACPP_HOST", "LMSTUDIO_HOST", "VLLM_HOST"] {
        fixture.set_env(name, "127.0.0.1:9");
    }
    fixture
}

#[tokio::test]
async fn a_run_without_a_key_or_server_explains_how_to_start() {
    let start = Instant::now();
    let ran = fixture_without_servers().run(&["run", "hello"]).await;
    ran.exited(3);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(
        ran.err.contains("ANTHROPIC_API_KEY") && ran.err.contains("crow-agent demo"),
        "{}",
        ran.err
    );
    assert!(ran.err.lines().count() < 24);
}

#[tokio::test]
async fn a_named_provider_without_a_key_names_the_variable() {
    let ran = fixture_without_servers()
        .run(&["run", "hello", "-m", "gemini/gemini-x", "-o", "json"])
        .await;
    let result = ran.exited(3).result();
    assert_eq!(result["error"]["code"], "no_credentials");
    assert!(result["error"]["hint"].as_str().unwrap().contains("GEMINI_API_KEY"));
}

#[tokio::test]
async fn an_unknown_provider_gets_a_suggestion() {
    let ran = fixture_without_servers().run(&["run", "hello", "-m", "antropic/claude"]).await;
    assert!(ran.exited(2).err.contains("did you mean \"anthropic\"?"), "{}", ran.err);
}

#[tokio::test]
async fn a_usage_error_shows_control_characters_of_its_arguments_as_signs() {
    let ran = fixture_without_servers().run(&["restore", "a\u{1b}]0;x\u{7}\u{202e}b"]).await;
    assert!(ran.exited(2).err.contains("\\u{202e}b"), "{}", ran.err);
    assert!(!ran.err.contains(['\u{1b}', '\u{202e}']), "{}", ran.err);
}

#[tokio::test]
async fn a_usage_error_with_json_output_still_prints_a_result_line() {
    let ran = fixture_without_servers()
        .run(&["run", "hello", "--no-such-flag", "--output", "json"])
        .await;
    assert_eq!(ran.exited(2).result()["error"]["code"], "usage");
}

#[tokio::test]
async fn an_unknown_key_in_a_provider_file_is_reported_with_its_position() {
    let fixture = fixture_without_servers();
    let folder = fixture.home(".config/crow-agent/providers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.toml"), "[provider]\nname = \"mine\"\ntyp = \"openai\"\n").unwrap();
    let ran = fixture.run(&["run", "hello"]).await;
    ran.exited(2);
    assert!(
        ran.err.contains("mine.toml:3:1") && ran.err.contains("did you mean \"type\"?"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_dead_endpoint_is_reported_and_given_up_within_twelve_seconds() {
    let mut fixture = fixture_without_servers();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    fixture.set_env("ANTHROPIC_BASE_URL", &refused_base_url(WireDialect::AnthropicMessages).await);
    let start = Instant::now();
    let ran = fixture.run(&["run", "hello", "-m", MODEL, "-o", "json"]).await;
    let result = ran.exited(4).result();
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_eq!(result["error"]["code"], "network");
    let lines = ran.lines();
    let resets = lines.iter().filter(|line| line["type"] == "reply_reset").count();
    assert!(resets > 0, "nothing was said while it was tried again: {}", ran.out);
}

#[tokio::test]
async fn a_rejected_key_exits_with_three_and_is_not_shown() {
    let server = ModelServer::start([ScriptStep::Error(VendorError::Authentication)]).await;
    let fixture = fixture_without_servers().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "hello", "-m", MODEL]).await;
    ran.exited(3);
    assert!(!ran.err.contains("sk-test-0123456789"), "{}", ran.err);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_unknown_model_exits_with_two() {
    let server = ModelServer::start([ScriptStep::Error(VendorError::ModelNotFound)]).await;
    let fixture = fixture_without_servers().with_server(&server, WireDialect::OpenAiResponses);
    let ran = fixture.run(&["run", "hello", "-m", "openai/no-such-model"]).await;
    assert!(
        ran.exited(2).err.contains("no-such-model") || ran.err.contains("model"),
        "{}",
        ran.err
    );
    server.finish().await.unwrap();
}

#[tokio::test]
async fn the_step_limit_exits_with_five() {
    let look = |n: u32| {
        ScriptedReply::new().call(format!("c{n}"), "bash", &json!({"command": format!("echo {n}")}))
    };
    let server =
        ModelServer::start([look(1), look(2), ScriptedReply::new().text("half done")]).await;
    let fixture = fixture_without_servers().with_server(&server, WireDialect::AnthropicMessages);
    let ran =
        fixture.run(&["run", "count", "-m", MODEL, "-p", "full-auto", "--max-steps", "2"]).await;
    assert_eq!(ran.exited(5).out, "half done\n");
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_budget_ends_the_run_with_five_and_one_that_cannot_be_held_is_refused() {
    let look = ScriptedReply::new().call("c1", "bash", &json!({"command": "echo 1"}));
    let server = ModelServer::start([look]).await;
    let fixture = fixture_without_servers().with_server(&server, WireDialect::AnthropicMessages);
    let run = |budget: &'static str| {
        ["run", "count", "-m", MODEL, "-p", "full-auto", "-o", "json", "--budget", budget]
    };
    // A reply of the test kit has 120 tokens.
    let ran = fixture.run(&run("30m, 100 tokens")).await;
    let result = ran.exited(5).result();
    assert!(result["error"]["message"].as_str().unwrap().contains("token"), "{result}");
    server.finish().await.unwrap();
    // The price of this model is not known.
    let unknown = fixture.run(&run("$2")).await;
    let error = unknown.exited(2).result()["error"].clone();
    let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap());
    assert!(message.starts_with("an amount of money limits the run, but the price of"), "{error}");
    assert!(hint.contains("leave money out of the budget"), "{error}");
    let odd = fixture.run(&run("much")).await;
    assert!(odd.exited(2).err.contains("write amounts such as $2, 30m"), "{}", odd.err);
}

#[tokio::test]
async fn a_model_that_reads_the_same_file_for_ever_is_stopped() {
    let read = |number: usize| {
        let call = ScriptedReply::new().call(
            format!("call-{number}"),
            "read_file",
            &json!({"path": "a.txt"}),
        );
        ScriptStep::from(call)
    };
    let server = ModelServer::start((0..40).map(read).collect::<Vec<_>>()).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fs::write(fixture.project("a.txt"), "one\ntwo\n").unwrap();
    let ran = fixture.run(&["run", "look", "-m", MODEL, "-o", "json"]).await;
    let steps = ran.exited(5).lines().iter().filter(|line| line["type"] == "step_complete").count();
    assert!(steps <= 10, "{steps} steps");
    assert!(ran.result()["error"].to_string().contains("in turn"), "{}", ran.result());
}

#[tokio::test]
async fn a_data_folder_that_cannot_be_written_is_named() {
    let server = ModelServer::start(Vec::<ScriptedReply>::new()).await;
    let mut fixture =
        fixture_without_servers().with_server(&server, WireDialect::AnthropicMessages);
    fs::write(fixture.home("file"), "").unwrap();
    let data = fixture.home("file/data");
    fixture.set_env("XDG_DATA_HOME", data.to_str().unwrap());
    let ran = fixture.run(&["run", "hello", "-m", MODEL]).await;
    assert!(
        ran.exited(2).err.contains("cannot write") && ran.err.contains("XDG_DATA_HOME"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_directory_that_does_not_exist_is_named() {
    let ran = fixture_without_servers()
        .run(&["run", "hello", "-m", MODEL, "--cwd", "/no/such/place"])
        .await;
    assert!(ran.exited(2).err.contains("/no/such/place"), "{}", ran.err);
}

#[tokio::test]
async fn an_unknown_session_is_named() {
    let ran = fixture_without_servers().run(&["sessions", "show", "nope"]).await;
    assert!(ran.exited(2).err.contains("there is no session nope"), "{}", ran.err);
}

#[tokio::test]
async fn an_empty_prompt_is_refused() {
    for args in [["run", ""], ["run", "  \n"]] {
        fixture_without_servers().run(&args).await.exited(2);
    }
    fixture_without_servers().run(&["run"]).await.exited(2);
}

#[tokio::test]
async fn escape_sequences_of_the_model_do_not_reach_the_terminal() {
    let server =
        ModelServer::start([ScriptedReply::new().text("safe \u{1b}]0;owned\u{7} \u{202e}text")])
            .await;
    let fixture = fixture_without_servers().with_server(&server, WireDialect::AnthropicMessages);
    let ran = fixture.run(&["run", "hello", "-m", MODEL]).await;
    assert!(
        !ran.exited(0).out.contains('\u{1b}') && !ran.out.contains('\u{202e}'),
        "{:?}",
        ran.out
    );
    server.finish().await.unwrap();
}

#[tokio::test]
async fn an_unknown_model_causes_one_warning_per_session_that_names_the_file() {
    let server = ModelServer::start([
        ScriptedReply::new().text("one"),
        ScriptedReply::new().text("two"),
        ScriptedReply::new().text("three"),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let unknown = "its window and its price are unknown";
    let file = fixture.home(".config/crow-agent/providers/anthropic.toml");
    let file = format!("in {}, a new file", file.display());
    let ran = fixture.run(&["run", "hello", "-m", MODEL, "-o", "json"]).await;
    let error_text = &ran.exited(0).err;
    assert!(error_text.contains(unknown) && error_text.contains(&file), "{error_text}");
    let id = ran.result()["session_id"].as_str().unwrap().to_owned();
    let ran = fixture.run(&["run", "--resume", &id, "and more"]).await;
    assert!(!ran.exited(0).err.contains(unknown), "{}", ran.err);
    let ran = fixture.run(&["run", "--resume", &id, "and more", "-m", "anthropic/other"]).await;
    assert!(ran.exited(0).err.contains(unknown), "another model: {}", ran.err);
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_cost_limit_without_a_price_is_a_configuration_error_naming_both_files() {
    let mut fixture = fixture_without_servers();
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    write_user_config(&fixture, "agents/acp/BUILD-HITL.toml", "[limits]\nmax_money = 1.0\n");
    let ran = fixture.run(&["run", "hello", "-a", "BUILD-HITL", "-m", MODEL, "-o", "json"]).await;
    let error = ran.exited(2).result()["error"].clone();
    let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap());
    for part in ["agents/acp/BUILD-HITL.toml:2", "max_money", MODEL] {
        assert!(message.contains(part), "{part}: {message}");
    }
    for part in ["providers/anthropic.toml", "[models.\"claude-test\"]", "price = {", "max_money"] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
}
