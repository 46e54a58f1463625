//! Parsing of requests, with errors that do not quote the input.
//!
//! The library's own parse errors repeat the whole input. It may contain secrets, such as headers of providers and of
//! MCP servers, which would end up in the client's log.

use agent_client_protocol::{
    Error, JsonRpcMessage, JsonRpcRequest, UntypedMessage, v1::schema::ClientRequest,
};
use serde_json::{Value, json};

/// A request of a client. Its parse errors state the reason without quoting the input.
#[derive(Debug, Clone)]
pub(super) struct ParsedRequest(pub ClientRequest);

impl JsonRpcMessage for ParsedRequest {
    fn matches_method(method: &str) -> bool {
        ClientRequest::matches_method(method)
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage, Error> {
        self.0.to_untyped_message()
    }

    fn parse_message(method: &str, params: &Value) -> Result<Self, Error> {
        ClientRequest::parse_message(method, params).map(Self).map_err(without_input)
    }
}

impl JsonRpcRequest for ParsedRequest {
    type Response = <ClientRequest as JsonRpcRequest>::Response;
}

fn without_input(mut error: Error) -> Error {
    let reason = error.data.as_ref().and_then(|data| data.get("error")).and_then(Value::as_str);
    error.data = reason.map(|reason| json!({ "error": without_quotes(reason) }));
    error
}

/// Replaces quoted input by `…`: in `invalid type: string "SECRET", expected a map` and in "unknown variant `SECRET`".
pub(super) fn without_quotes(reason: &str) -> String {
    if let (Some((before, _)), Some((_, after))) = (reason.split_once('"'), reason.rsplit_once('"'))
    {
        return format!("{before}…{after}");
    }
    // In all other messages backticks quote names of the protocol.
    let is_of_client = reason.starts_with("invalid ") || reason.starts_with("unknown variant");
    if is_of_client
        && let Some((before, rest)) = reason.split_once('`')
        && let Some((_, after)) = rest.split_once('`')
    {
        return format!("{before}…{after}");
    }
    reason.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_errors_keep_names_of_the_protocol() {
        for (why, expected) in [
            ("missing field `cwd`", "missing field `cwd`"),
            (
                "unknown variant `sk-0123`, expected `a` or `b`",
                "unknown variant …, expected `a` or `b`",
            ),
        ] {
            assert_eq!(without_quotes(why), expected);
        }
    }

    #[test]
    fn parse_errors_do_not_quote_the_input() {
        let gateway = |headers: Value| {
            json!({
                "providerId": "main",
                "apiType": "openai",
                "baseUrl": "https://sk-0123.test",
                "headers": headers,
            })
        };
        for (headers, why) in [
            (json!({ "a": 7, "b": "sk-0123" }), "invalid type: integer …, expected a string"),
            (json!("a \"sk-0123\""), "invalid type: string …, expected a map"),
        ] {
            let error = ParsedRequest::parse_message("providers/set", &gateway(headers));
            let error = error.unwrap_err();
            assert_eq!(error.data, Some(json!({ "error": why })));
            assert_eq!(i32::from(error.code), -32602);
        }
    }
}
