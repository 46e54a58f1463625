//! Telemetry export over OTLP. `Fixture` checks every export against the OpenTelemetry conventions.

use crow_testkit::{
    ModelServer, ScriptedReply, WireDialect, refused_base_url, telemetry::TelemetryRecord,
};
use serde_json::json;

use crate::program::Fixture;

/// Starts a model that has a command print the span that it belongs to, and ends.
async fn server_with_command() -> ModelServer {
    let command = json!({ "command": "printf %s \"$TRACEPARENT\"" });
    let call = ScriptedReply::new().text("I look.").call("call_1", "bash", &command);
    ModelServer::start([call, ScriptedReply::new().text("Done.")]).await
}

fn names(record: &TelemetryRecord) -> Vec<String> {
    let mut names: Vec<_> = record.spans().iter().map(|span| span.span.name.clone()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_run_is_sent_as_one_trace_and_its_commands_find_their_span() {
    let server = server_with_command().await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let args = ["run", "-m", "anthropic/claude-test", "-p", "full-auto", "look"];
    fixture.run(&args).await.exited(0);
    let requests = server.finish().await.unwrap();
    let record = fixture.collector().record();
    assert_eq!(
        names(&record),
        [
            "chat claude-test",
            "chat claude-test",
            "execute_tool bash",
            "invoke_agent builder",
            "invoke_workflow builder",
        ]
    );
    let tool = record.spans().iter().find(|span| span.span.name == "execute_tool bash").unwrap();
    let hex =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let parent = format!("00-{}-{}-01", hex(&tool.span.trace_id), hex(&tool.span.span_id));
    let output = requests[1].body.to_string();
    assert!(output.contains(&parent), "{parent}: {output}");
    assert!(record.metrics().any(|metric| metric.name == "gen_ai.client.token.usage"));
}

#[tokio::test]
async fn the_names_after_1_41_are_sent_if_they_are_asked_for() {
    let server = server_with_command().await;
    let mut fixture = Fixture::new().with_server(&server, WireDialect::OpenAiChat);
    fixture.set_env("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental");
    let args = ["run", "-m", "openai-chat/gpt-test", "-p", "full-auto", "look"];
    fixture.run(&args).await.exited(0);
    server.finish().await.unwrap();
    let record = fixture.collector().record();
    let calls = record.spans().iter().filter(|span| span.span.name.starts_with("chat "));
    assert!(
        calls.clone().count() == 2
            && calls
                .clone()
                .all(|call| { call.integer("gen_ai.usage.cache_write.input_tokens").is_some() })
    );
    assert!(record.metrics().any(|metric| metric.name == "gen_ai.client.inference.duration"));
}

#[tokio::test]
async fn content_is_sent_only_if_it_is_asked_for() {
    for is_asked_for in [false, true] {
        let server = server_with_command().await;
        let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
        if is_asked_for {
            fixture.set_env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
            fixture.collector().record().allow_content();
        }
        let args = ["run", "-m", "anthropic/claude-test", "-p", "full-auto", "look about"];
        fixture.run(&args).await.exited(0);
        server.finish().await.unwrap();
        let record = fixture.collector().record();
        let has_prompt = record.spans().iter().any(|span| span.text("crow.prompt").is_some());
        assert_eq!(has_prompt, is_asked_for);
    }
}

#[tokio::test]
async fn a_collector_that_is_gone_fails_no_run_and_its_loss_is_told() {
    let server = server_with_command().await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut fixture = fixture.without_collector();
    fixture.set_env(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        &refused_base_url(WireDialect::AnthropicMessages).await,
    );
    let args = ["run", "-m", "anthropic/claude-test", "-p", "full-auto", "look"];
    let ran = fixture.run(&args).await;
    ran.exited(0);
    assert!(ran.err.contains("of the telemetry were not sent"), "{}", ran.err);
    server.finish().await.unwrap();
}
