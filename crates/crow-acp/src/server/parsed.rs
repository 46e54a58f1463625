//! Requests as they are read, and what is said of those that cannot be.
//!
//! The library answers with the whole of what it cannot read. That may hold secrets, which then stand in the client's log:
//! headers of providers and of servers.

use agent_client_protocol::{
    Error, JsonRpcMessage, JsonRpcRequest, UntypedMessage, v1::schema::ClientRequest,
};
use serde_json::{Value, json};

/// A request of a client. The error of one that cannot be read says why, and nothing that was in it.
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
        ClientRequest::parse_message(method, params).map(Self).map_err(discreet)
    }
}

impl JsonRpcRequest for ParsedRequest {
    type Response = <ClientRequest as JsonRpcRequest>::Response;
}

fn discreet(mut error: Error) -> Error {
    let why = error.data.as_ref().and_then(|data| data.get("error")).and_then(Value::as_str);
    error.data = why.map(|why| json!({ "error": without_quotes(why) }));
    error
}

/// Takes out what was read: in `invalid type: string "SECRET", expected a map` and in "unknown variant `SECRET`".
pub(super) fn without_quotes(why: &str) -> String {
    if let (Some((before, _)), Some((_, after))) = (why.split_once('"'), why.rsplit_once('"')) {
        return format!("{before}…{after}");
    }
    // What else stands in such marks is the protocol's own.
    let is_of_client = why.starts_with("invalid ") || why.starts_with("unknown variant");
    if is_of_client
        && let Some((before, rest)) = why.split_once('`')
        && let Some((_, after)) = rest.split_once('`')
    {
        return format!("{before}…{after}");
    }
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_protocol_stay() {
        for (why, told) in [
            ("missing field `cwd`", "missing field `cwd`"),
            (
                "unknown variant `sk-0123`, expected `a` or `b`",
                "unknown variant …, expected `a` or `b`",
            ),
        ] {
            assert_eq!(without_quotes(why), told);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_without_what_was_in_it() {
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
