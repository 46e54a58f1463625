//! Well-behaved servers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crow_core::tool::{Effects, Progress, ToolCategory, ToolSource as _, ToolStatus};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Servers, call, context, text_result, tool};

#[tokio::test]
async fn the_tools_of_a_server_are_called_by_their_names() {
    let servers = Servers::of("time", |_, mut io| async move {
        io.offer(&json!([tool("now"), tool("zone")])).await;
        io.echo().await;
    });
    let session = servers.start().await;
    assert_eq!(session.names(), ["mcp__time__now", "mcp__time__zone"]);
    let result = session.call("mcp__time__now", json!({"city": "Oslo"})).await;
    assert_eq!(
        (result.status, result.output.as_str()),
        (ToolStatus::Success, r#"{"city":"Oslo"}"#)
    );
    assert_eq!(session.news(), [""; 0]);
}

#[tokio::test]
async fn a_call_needs_permission_and_may_change_files_whatever_the_server_says() {
    let servers = Servers::of("liar", |_, mut io| async move {
        let mut harmless = tool("harmless");
        harmless["annotations"] = json!({"readOnlyHint": true, "destructiveHint": false});
        io.offer(&json!([harmless])).await;
        io.echo().await;
    });
    let session = servers.start().await;
    let tool = session.tool("mcp__liar__harmless");
    let plan = tool.plan(&json!({"path": "/etc/passwd\u{1b}[2J"}), &context()).await.unwrap();
    assert_eq!((tool.category(), tool.requires_permission()), (ToolCategory::External, true));
    assert_eq!(plan.effects, Effects::Unknown);
    assert_eq!(plan.title, r#"liar: harmless {"path":"/etc/passwd\u001b[2J"}"#);
}

#[tokio::test]
async fn calls_of_a_server_configured_to_change_no_files_have_no_effects() {
    let mut servers = Servers::of("docs", |_, mut io| async move {
        io.offer(&json!([tool("read")])).await;
        io.echo().await;
    });
    servers.settings[0].changes_no_files = true;
    let session = servers.start().await;
    let plan = session.tool("mcp__docs__read").plan(&json!({}), &context()).await.unwrap();
    assert_eq!((plan.effects, plan.title.as_str()), (Effects::None, "docs: read"));
}

#[tokio::test]
async fn progress_is_reported_while_the_call_runs_and_in_order() {
    let servers = Servers::of("slow", |_, mut io| async move {
        io.offer(&json!([tool("work")])).await;
        let call = io.call().await.unwrap();
        let token = &call["params"]["_meta"]["progressToken"];
        for step in 1..=3 {
            let params = json!({"progressToken": token, "progress": step, "total": 3, "message": format!("step\u{1b}[1m {step}")});
            io.write(
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
            .await;
        }
        io.answer(&call, text_result("done")).await;
        io.echo().await;
    });
    let session = servers.start().await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let mut ctx = context();
    let sink = Arc::clone(&reports);
    ctx.progress = Progress::new(move |report| sink.lock().unwrap().push(report));
    let result = call(session.tool("mcp__slow__work").as_ref(), json!({}), &ctx).await;
    assert_eq!(result.output, "done");
    assert_eq!(*reports.lock().unwrap(), ["1/3 step 1\n", "2/3 step 2\n", "3/3 step 3\n"]);
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_the_server_is_notified_with_its_id() {
    let (sender, mut ids) = mpsc::channel(2);
    let servers = Servers::of("slow", move |_, mut io| {
        let sender = sender.clone();
        async move {
            io.offer(&json!([tool("work")])).await;
            let call = io.call().await.unwrap();
            sender.send(call["id"].clone()).await.unwrap();
            let cancelled = io.read_method("notifications/cancelled").await.unwrap();
            sender.send(cancelled["params"]["requestId"].clone()).await.unwrap();
            io.echo().await;
        }
    });
    let session = servers.start().await;
    let ctx = context();
    let tool = session.tool("mcp__slow__work");
    let cancel_when_begun = async {
        let id = ids.recv().await.unwrap();
        ctx.cancellation.cancel();
        id
    };
    let (result, id) = tokio::join!(call(tool.as_ref(), json!({}), &ctx), cancel_when_begun);
    assert_eq!(result.status, ToolStatus::Cancelled);
    assert_eq!(ids.recv().await.unwrap(), id);
    assert_eq!(session.call("mcp__slow__work", json!({})).await.output, "{}");
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_call_up_to_the_total_limit() {
    let servers = Servers::of("slow", |_, mut io| async move {
        io.offer(&json!([tool("work")])).await;
        let first = io.call().await.unwrap();
        report_progress(&mut io, &first, 5).await;
        io.answer(&first, text_result("took long")).await;
        let second = io.call().await.unwrap();
        report_progress(&mut io, &second, 100).await;
        io.echo().await;
    });
    let session = servers.start().await;
    assert_eq!(session.call("mcp__slow__work", json!({})).await.output, "took long");
    let endless = session.call("mcp__slow__work", json!({})).await;
    assert_eq!(endless.output, "MCP server slow: the call took more than 600 s and was cancelled");
}

async fn report_progress(io: &mut crate::support::Io, call: &Value, times: u32) {
    for step in 0..times {
        tokio::time::sleep(Duration::from_secs(50)).await;
        let params =
            json!({"progressToken": call["params"]["_meta"]["progressToken"], "progress": step});
        io.write(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_times_out() {
    let servers = Servers::of("dead", |_, mut io| async move {
        io.offer(&json!([tool("work")])).await;
        let first = io.call().await.unwrap();
        let mut is_cancelled = false;
        while let Some(message) = io.read().await {
            if message["method"] == "notifications/cancelled" {
                assert_eq!(message["params"]["requestId"], first["id"]);
                assert_eq!(message["params"]["reason"], "timeout");
                is_cancelled = true;
            } else {
                // The next call comes with the cancellation, before or after it.
                let cancellation = io.read_unless(is_cancelled).await;
                assert!(
                    is_cancelled
                        || cancellation.is_some_and(
                            |cancellation| cancellation["params"]["requestId"] == first["id"]
                        )
                );
                io.answer(&message, text_result("next")).await;
            }
        }
    });
    let session = servers.start().await;
    let result = session.call("mcp__dead__work", json!({})).await;
    assert_eq!(
        result.output,
        "MCP server dead: the server sent nothing for 60 s, so the call was cancelled"
    );
    assert!(result.is_error());
    assert_eq!(session.call("mcp__dead__work", json!({})).await.output, "next");
}

#[tokio::test]
async fn a_server_may_request_roots_and_pings_and_nothing_else() {
    let (sender, mut answers) = mpsc::channel(8);
    let servers = Servers::of("curious", move |_, mut io| {
        let sender = sender.clone();
        async move {
            io.offer(&json!([tool("work")])).await;
            let call = io.call().await.unwrap();
            let sample = json!({"messages": [], "maxTokens": 1});
            let form =
                json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
            for (id, method, params) in [
                ("a", "ping", json!({})),
                ("b", "roots/list", json!({})),
                ("c", "sampling/createMessage", sample),
                ("d", "elicitation/create", form),
                ("e", "no/such", json!({})),
            ] {
                io.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
                    .await;
                let answer = loop {
                    let message = io.read().await.unwrap();
                    if message["id"] == id {
                        break message;
                    }
                };
                sender.send(answer).await.unwrap();
            }
            io.answer(&call, text_result("done")).await;
            io.echo().await;
        }
    });
    let session = servers.start().await;
    assert_eq!(session.call("mcp__curious__work", json!({})).await.output, "done");
    assert_eq!(answers.recv().await.unwrap()["result"], json!({}));
    let roots = answers.recv().await.unwrap();
    assert_eq!(roots["result"]["roots"][0]["uri"], "file:///p/my%20project");
    for _ in 0..3 {
        assert_eq!(answers.recv().await.unwrap()["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn an_exited_server_is_restarted_by_the_next_call() {
    let servers = Servers::of("frail", |number, mut io| async move {
        io.offer(&json!([tool("work")])).await;
        if number > 0 {
            io.echo().await;
        }
    });
    let session = servers.start().await;
    let result = session.call("mcp__frail__work", json!({"a": 1})).await;
    assert_eq!((result.output.as_str(), session.starts()), (r#"{"a":1}"#, 2));
    let news = session.news().join("\n");
    assert!(news.is_empty() || news.contains("it ended with exit code 7"), "{news}");
}

#[tokio::test]
async fn a_call_that_may_have_had_effects_is_not_made_twice() {
    let servers = Servers::of("frail", |_, mut io| async move {
        io.offer(&json!([tool("pay")])).await;
        io.call().await.unwrap();
        io.spec.stderr_tail.push(b"panic: out of money\n");
    });
    let session = servers.start().await;
    let result = session.call("mcp__frail__pay", json!({})).await;
    assert!(result.is_error());
    insta::assert_snapshot!(result.output);
    assert_eq!(session.starts(), 1);
}

#[tokio::test]
async fn closing_a_session_ends_its_servers() {
    let (alive, mut ends) = mpsc::channel::<()>(1);
    let servers = Servers::of("time", move |_, mut io| {
        let alive = alive.clone();
        async move {
            io.offer(&json!([tool("now")])).await;
            io.echo().await;
            drop(alive);
            std::future::pending::<()>().await;
        }
    });
    let session = servers.start().await;
    let now = session.tool("mcp__time__now");
    session.tools.close().await;
    let result = call(now.as_ref(), json!({}), &context()).await;
    assert_eq!(result.output, "the MCP server time is unavailable: the session is ending");
    drop((session, now));
    assert_eq!(ends.recv().await, None, "the script was dropped");
}
