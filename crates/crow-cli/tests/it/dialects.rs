//! A run that fixes a bug, through each wire format.

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::json;

use crate::program::{Fixture, any_file_contains};

/// Returns the model's replies: read and check in parallel, edit, check again, complete; with thinking where the format has
/// it.
fn script(dialect: WireDialect) -> Vec<ScriptedReply> {
    let with_thinking = |reply: ScriptedReply| match dialect {
        WireDialect::OpenAiChat => reply,
        WireDialect::AnthropicMessages | WireDialect::OpenAiResponses | WireDialect::Gemini => {
            reply.thinking("I look first.", "c2lnbmF0dXJl")
        }
    };
    let fix = json!({"path": "largest.sh", "old_string": "sort -r |", "new_string": "sort -rn |"});
    vec![
        with_thinking(ScriptedReply::new())
            .text("I look at it.")
            .call("call_1", "read_file", &json!({"path": "largest.sh"}))
            .call("call_2", "bash", &json!({"command": "sh check.sh"})),
        with_thinking(ScriptedReply::new()).call("call_3", "edit_file", &fix),
        ScriptedReply::new().text("Now the check.").call(
            "call_4",
            "bash",
            &json!({"command": "sh check.sh"}),
        ),
        ScriptedReply::new().call(
            "call_5",
            "task_complete",
            &json!({"summary": "Numbers are compared as numbers now."}),
        ),
    ]
}

async fn fixes_the_bug(dialect: WireDialect, model: &str) {
    let server = ModelServer::start(script(dialect)).await;
    let fixture = Fixture::with_bug().with_server(&server, dialect);
    assert!(!fixture.check().status.success());
    let ran = fixture
        .run(&["run", "the check fails, fix it", "-m", model, "-p", "full-auto", "-o", "json"])
        .await;
    ran.exited(0);
    assert!(fixture.check().status.success());
    let result = ran.result();
    assert_eq!(result["outcome"], "completed");
    assert_eq!(result["summary"], "Numbers are compared as numbers now.");
    assert_eq!(result["verified"], false);
    assert_eq!(result["steps"], 4);
    assert_eq!(result["files_changed"], json!([fixture.project("largest.sh")]));
    assert!(result["usage"]["input_tokens"].as_u64().unwrap() > 0);
    assert!(
        !any_file_contains(&fixture.session(), "sk-test-0123456789"),
        "the key is in the session"
    );
    assert!(
        !ran.out.contains("sk-test-0123456789") && !ran.err.contains("sk-test-0123456789"),
        "the key was printed"
    );
    assert_eq!(server.connections(), 1);
    let requests = server.finish().await.unwrap();
    assert_eq!(requests.len(), 4);
    let last = requests[3].body.to_string();
    assert!(last.contains("exit code"), "the check's end did not reach the model: {last}");
}

#[tokio::test]
async fn a_bug_is_fixed_through_anthropic_messages() {
    fixes_the_bug(WireDialect::AnthropicMessages, "anthropic/claude-test").await;
}

#[tokio::test]
async fn a_bug_is_fixed_through_openai_responses() {
    fixes_the_bug(WireDialect::OpenAiResponses, "openai/gpt-test").await;
}

#[tokio::test]
async fn a_bug_is_fixed_through_chat_completions() {
    fixes_the_bug(WireDialect::OpenAiChat, "openai-chat/gpt-test").await;
}

#[tokio::test]
async fn a_bug_is_fixed_through_gemini() {
    fixes_the_bug(WireDialect::Gemini, "gemini/gemini-test").await;
}

#[tokio::test]
async fn every_byte_of_a_request_has_an_owner_in_the_ledger() {
    for (dialect, model) in [
        (WireDialect::AnthropicMessages, "anthropic/claude-test"),
        (WireDialect::OpenAiResponses, "openai/gpt-test"),
        (WireDialect::OpenAiChat, "openai-chat/gpt-test"),
        (WireDialect::Gemini, "gemini/gemini-test"),
    ] {
        let server = ModelServer::start(script(dialect)).await;
        let fixture = Fixture::with_bug().with_server(&server, dialect);
        fixture.run(&["run", "fix it", "-m", model, "-p", "full-auto"]).await.exited(0);
        let requests = server.finish().await.unwrap();
        let ledger = fixture.run(&["ledger", "-o", "json"]).await;
        let lines = ledger.exited(0).lines();
        assert_eq!(lines.len(), requests.len(), "{model}");
        for (line, request) in lines.iter().zip(&requests) {
            let shares = line["shares"].as_array().unwrap();
            let of = |share: &serde_json::Value| share["bytes"].as_u64().unwrap();
            let (format, contents): (_, u64) =
                (line["format_bytes"].as_u64().unwrap(), shares.iter().map(of).sum());
            assert_eq!(line["bytes"], request.raw_body.len(), "{model}: {line}");
            assert_eq!(format + contents, request.raw_body.len() as u64, "{model}: {line}");
            // Contents are most of a request; only ids, names of fields and parameters surround them.
            assert!(format > 0 && format < contents / 4, "{model}: {line}");
        }
        let text = fixture.run(&["ledger", "-r", "2"]).await;
        let sum = format!("input {:>44}", requests[1].raw_body.len());
        assert!(text.exited(0).out.contains(&sum), "{}", text.out);
        // The row of the JSON syntax shows zero tokens, zero cached tokens and a cost.
        let is_format = |line: &&str| line.starts_with("JSON around them");
        let format: Vec<_> =
            text.out.lines().find(is_format).unwrap().split_whitespace().skip(3).collect();
        let bytes = lines[1]["format_bytes"].to_string();
        assert!(format.len() == 4 && format[..3] == [&bytes, "0", "0"], "{}", text.out);
    }
}

#[tokio::test]
async fn temperature_and_seed_of_a_run_reach_every_provider_that_takes_them() {
    for (dialect, model, sampling, temperature) in [
        // Models of OpenAI that think refuse a temperature.
        (WireDialect::OpenAiChat, "openai-chat/gpt-test", "/", None),
        (WireDialect::Gemini, "gemini/gemini-test", "/generationConfig/", Some(json!(0.5))),
    ] {
        let server = ModelServer::start([ScriptedReply::new().text("Four.")]).await;
        let fixture = Fixture::new().with_server(&server, dialect);
        let args = ["run", "What is two plus two?", "-m", model, "--temperature", "0.5"];
        fixture.run(&[&args[..], &["--seed", "7"]].concat()).await;
        let requests = server.finish().await.unwrap();
        let field = |name: &str| requests[0].body.pointer(&format!("{sampling}{name}")).cloned();
        assert_eq!((field("temperature"), field("seed")), (temperature, Some(json!(7))));
    }
    let hot = Fixture::new().run(&["run", "x", "--temperature", "3"]).await;
    assert!(hot.exited(2).err.contains("not between 0 and 2"), "{}", hot.err);
}
