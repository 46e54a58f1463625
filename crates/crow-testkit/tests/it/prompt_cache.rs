//! Tests of the simulated prompt cache.

use crow_testkit::{
    ModelServer, ReplyUsage, Rule, Script, ScriptedReply, ServerOptions, UsageSource, WireDialect,
};
use serde_json::{Value, json};

use crate::bodies::{assistant_text, first_request, messages, user_text, with_messages};
use crate::client::Client;

/// Returns the usages reported for consecutive requests.
async fn usages(dialect: WireDialect, bodies: &[Value]) -> Vec<ReplyUsage> {
    let mut options = ServerOptions { usage: UsageSource::Measured, ..ServerOptions::default() };
    options.checks = options.checks.without(Rule::Prefix);
    let script = Script::repeating(ScriptedReply::new().text("Yes."));
    let server = ModelServer::start_with(script, options).await;
    let mut client = Client::connect(&server).await;
    for body in bodies {
        client.ask(dialect, body).await;
    }
    server.assert_clean();
    (0..bodies.len()).map(|index| server.answer(index).unwrap().usage.unwrap()).collect()
}

/// Returns the body, for Anthropic with a cache mark on its last message.
fn marked(dialect: WireDialect, mut body: Value) -> Value {
    if dialect == WireDialect::AnthropicMessages {
        let last = messages(dialect, &mut body).last_mut().unwrap();
        if let Some(text) = last["content"].as_str() {
            last["content"] = json!([{"type": "text", "text": text}]);
        }
        last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    }
    body
}

/// Returns the requests of a session with 40 turns.
fn long_session(dialect: WireDialect) -> Vec<Value> {
    let mut body = first_request(dialect, &"Begin with this. ".repeat(1000));
    let mut bodies = Vec::new();
    for turn in 0..40 {
        bodies.push(marked(dialect, body.clone()));
        let more = [assistant_text(dialect, "Yes."), user_text(dialect, &format!("Go on {turn}."))];
        body = with_messages(dialect, &body, &more);
    }
    bodies
}

#[tokio::test]
async fn a_growing_session_is_read_from_the_cache() {
    for dialect in WireDialect::ALL {
        let usages = usages(dialect, &long_session(dialect)).await;
        assert_eq!(usages[0].cache_read, 0);
        let (read, all) = usages[1..]
            .iter()
            .fold((0, 0), |(read, all), usage| (read + usage.cache_read, all + usage.prompt()));
        assert!(read * 100 >= all * 95, "{dialect:?}: {read} of {all}");
        let writes = usages.iter().any(|usage| usage.cache_write > 0);
        assert_eq!(writes, dialect == WireDialect::AnthropicMessages);
    }
}

#[tokio::test]
async fn a_changed_beginning_or_a_short_prompt_reads_nothing() {
    for dialect in WireDialect::ALL {
        let mut bodies = long_session(dialect);
        bodies.truncate(2);
        let tools = bodies[1]["tools"].to_string().replace("look", "other");
        bodies[1]["tools"] = serde_json::from_str(&tools).unwrap();
        assert_eq!(usages(dialect, &bodies).await[1].cache_read, 0, "{dialect:?}");
        let short = marked(dialect, first_request(dialect, "Begin."));
        assert_eq!(usages(dialect, &[short.clone(), short]).await[1].cache_read, 0, "{dialect:?}");
    }
}

#[tokio::test]
async fn anthropic_reads_nothing_that_was_not_marked() {
    let dialect = WireDialect::AnthropicMessages;
    let body = first_request(dialect, &"Begin with this. ".repeat(1000));
    let usages = usages(dialect, &[body.clone(), body]).await;
    assert_eq!((usages[1].cache_read, usages[1].cache_write), (0, 0));
    assert!(usages[1].input > 4000);
    let mut bodies = long_session(dialect);
    bodies.truncate(1);
    bodies.push(first_request(dialect, &"Begin with this. ".repeat(1000)));
    let usages = self::usages(dialect, &bodies).await;
    assert!(usages[0].cache_write > 4000);
    assert_eq!(usages[1].cache_read, 0, "a request without marks does not read");
}
