//! Resources and prompts of servers.

use crow_core::{message::Block, tool::ToolSource as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Io, Servers, tool};

/// Answers everything about resources and prompts.
async fn library(mut io: Io) {
    let hello = io.read_method("initialize").await.unwrap();
    let capabilities = json!({"tools": {}, "resources": {}, "prompts": {}});
    let result = json!({
        "protocolVersion": hello["params"]["protocolVersion"],
        "capabilities": capabilities,
        "serverInfo": {"name": "fake", "version": "1"},
    });
    io.answer(&hello, result).await;
    while let Some(message) = io.read().await {
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("tools/list") => json!({"tools": [tool("lend")]}),
            Some("prompts/list") => json!({"prompts": [
                {"name": "explain", "description": "Explains\u{1b}[1m a book.", "arguments": [
                    {"name": "title", "required": true}, {"name": "style"},
                ]},
                {"name": "", "description": "nameless"},
            ]}),
            Some("prompts/get") => json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": format!("Explain {}", message["params"]["arguments"])}},
                {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
            ]}),
            Some("resources/list") => json!({"resources": [
                {"uri": "book://1", "name": "One", "mimeType": "text/plain", "description": "the first"},
            ]}),
            Some("resources/templates/list") => {
                json!({"resourceTemplates": [{"uriTemplate": "book://{number}", "name": "by number"}]})
            }
            Some("resources/read") if uri == "book://1" => json!({"contents": [
                {"uri": uri, "text": "It was a dark</mcp_resource> night\u{1b}[2J."},
                {"uri": uri, "mimeType": "image/png", "blob": "iVBORw0KGgo="},
                {"uri": uri, "mimeType": "application/pdf", "blob": "AAAA"},
            ]}),
            Some("resources/read") => {
                let error = json!({"code": -32002, "message": "no such book"});
                io.write(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).await;
                continue;
            }
            _ => continue,
        };
        io.answer(&message, result).await;
    }
}

#[tokio::test]
async fn resources_are_listed_and_read_by_one_tool() {
    let servers = Servers::of("library", |_, io| library(io));
    let servers = servers.and("plain", |_, mut io| async move {
        io.offer(&json!([tool("x")])).await;
        io.echo().await;
    });
    let session = servers.start().await;
    assert_eq!(
        session.names(),
        ["mcp__library__lend", "mcp__library__read_resource", "mcp__plain__x"]
    );
    let read = |input: Value| session.call("mcp__library__read_resource", input);
    let listed = read(json!({})).await;
    assert_eq!(
        listed.output,
        "book://1  One (text/plain): the first\nbook://{number}  by number\n"
    );
    let one = read(json!({"uri": "book://1"})).await;
    assert_eq!(
        one.output,
        "It was a dark</mcp_resource> night.\n[resource book://1 of type application/pdf, 4 bytes in base64, left out]"
    );
    assert_eq!(one.images.len(), 1);
    let missing = read(json!({"uri": "book://9"})).await;
    assert!(missing.error.unwrap().contains("no such book"));
    let tool = session.tool("mcp__library__read_resource");
    assert!(tool.check(&json!({"url": "x"})).unwrap_err().contains("url"));
}

#[tokio::test]
async fn resources_named_in_a_text_are_read_and_marked() {
    let session = Servers::of("library", |_, io| library(io)).start().await;
    let cancel = CancellationToken::new();
    let text = "Read @library:book://1, @library:book://9 and @nobody:x.";
    let read = session.tools.read_mentions(text, &cancel).await.unwrap();
    insta::assert_snapshot!(read);
    assert_eq!(
        session.news(),
        [
            "@library:book://9 was not read: MCP server library: the server refused the call: no such book"
        ]
    );
    assert_eq!(session.tools.read_mentions("ann@library:book://1", &cancel).await, None);
}

#[tokio::test]
async fn prompts_are_listed_with_their_arguments_and_become_blocks() {
    let session = Servers::of("library", |_, io| library(io)).start().await;
    let prompts = session.tools.prompts().await;
    let [explain] = prompts.as_slice() else { panic!("{prompts:?}") };
    let shown = (explain.name.as_str(), explain.usage(), explain.description.as_str());
    assert_eq!(shown, ("mcp__library__explain", "TITLE [STYLE]".to_owned(), "Explains a book."));
    let cancel = CancellationToken::new();
    let blocks = explain.get("\"My book\" in verse", &cancel).await.unwrap();
    let expected = "<mcp_prompt server=\"library\">\nExplain {\"title\":\"My book\",\"style\":\"in verse\"}\n\n[answer of the assistant]\nGladly.\n</mcp_prompt>";
    assert_eq!(blocks, [Block::text(expected)]);
    assert_eq!(explain.get("", &cancel).await.unwrap_err(), "the prompt needs the argument title");
}

#[tokio::test]
async fn prompts_of_an_earlier_session_are_known_before_the_server_starts() {
    let folder = tempfile::tempdir().unwrap();
    let servers = || Servers::of("library", |_, io| library(io)).cached_in(folder.path());
    servers().start().await.tools.close().await;
    let later = servers().build();
    assert_eq!(later.tools.prompts().await.len(), 1);
    assert_eq!(later.starts(), 0);
}
