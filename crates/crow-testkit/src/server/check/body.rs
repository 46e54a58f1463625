//! Checks of a single request.

use serde_json::Value;

use super::{Rule, Violation, anthropic, chat, gemini, responses, tools};
use crate::server::RecordedRequest;
use crate::wire::WireDialect;

/// Checks a body against the rules of its dialect: streaming, required fields, tools, roles, pairing, cache marks.
pub fn check_body(dialect: WireDialect, body: &Value) -> Vec<Violation> {
    let mut found = Findings::default();
    tools::check(dialect, body, &mut found);
    match dialect {
        WireDialect::AnthropicMessages => anthropic::check(body, &mut found),
        WireDialect::OpenAiResponses => responses::check(body, &mut found),
        WireDialect::OpenAiChat => chat::check(body, &mut found),
        WireDialect::Gemini => gemini::check(body, &mut found),
    }
    found.0
}

/// Checks the body of a request, and the query and headers that its dialect requires.
pub(in super::super) fn check_record(request: &RecordedRequest) -> Vec<Violation> {
    let mut found = Findings(check_body(request.dialect, &request.body));
    match request.dialect {
        WireDialect::AnthropicMessages => {
            found.demand(Rule::Required, request.header("anthropic-version").is_some(), || {
                "header anthropic-version is missing".to_owned()
            });
        }
        WireDialect::Gemini => {
            let is_sse = request.query.split('&').any(|pair| pair == "alt=sse");
            found.demand(Rule::Streaming, is_sse, || {
                format!("the query is {:?}, without alt=sse", request.query)
            });
        }
        WireDialect::OpenAiResponses | WireDialect::OpenAiChat => {}
    }
    let content_type = request.header("content-type").unwrap_or_default();
    found.demand(Rule::Required, content_type.starts_with("application/json"), || {
        format!("content-type is {content_type:?}")
    });
    found.0
}

/// Collector of violations.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Violation>);

impl Findings {
    pub(super) fn add(&mut self, rule: Rule, detail: impl Into<String>) {
        self.0.push(Violation::new(rule, detail));
    }

    /// Adds a violation unless `holds`.
    pub(super) fn demand(&mut self, rule: Rule, holds: bool, detail: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, detail());
        }
    }

    /// Demands `stream: true` and a model.
    pub(super) fn demand_streaming_model(&mut self, body: &Value) {
        let stream = field(body, "stream");
        self.demand(Rule::Streaming, stream == &Value::Bool(true), || {
            format!("stream is {stream}, not true")
        });
        self.demand(Rule::Required, !text(body, "model").is_empty(), || {
            "model is missing".to_owned()
        });
    }
}

/// Returns a field; null if it is absent.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Returns a text field; empty if it is absent or no text.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    field(value, name).as_str().unwrap_or_default()
}

/// Returns the elements of an array field; empty if it is absent or no array.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    field(value, name).as_array().map(Vec::as_slice).unwrap_or_default()
}
