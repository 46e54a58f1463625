//! The least that an agent of the protocol can be: no model, no tools, no log. A prompt that names a number streams so many
//! updates; one that does not starts a process that a cancel kills.

use std::{
    io::{BufRead as _, Write as _},
    process::{Child, Command},
};

use serde_json::{Value, json};

use crate::editor::WORD;

/// The argument that turns the benchmark into the bare agent.
pub(crate) const MODE: &str = "--bare-agent";

/// Speaks until the input ends.
pub(crate) fn run() {
    let mut out = std::io::stdout().lock();
    let mut sessions = 0;
    let mut running: Option<(Value, Child)> = None;
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let id = &message["id"];
        let mut say = |message: Value| {
            serde_json::to_writer(&mut out, &message).unwrap();
            out.write_all(b"\n").unwrap();
            out.flush().unwrap();
        };
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match message["method"].as_str().unwrap() {
            "initialize" => say(answer(json!({"protocolVersion": 1}))),
            "session/new" => {
                sessions += 1;
                say(answer(json!({"sessionId": sessions.to_string()})));
            }
            "session/prompt" => {
                let count = message["params"]["prompt"][0]["text"].as_str().unwrap().parse();
                let Ok(count) = count else {
                    say(update(
                        &message,
                        &json!({"sessionUpdate": "tool_call_update", "status": "in_progress"}),
                    ));
                    let child = Command::new("sleep").arg("1000").spawn().unwrap();
                    running = Some((id.clone(), child));
                    continue;
                };
                for _ in 0..count {
                    let content = json!({"type": "text", "text": WORD});
                    say(update(
                        &message,
                        &json!({"sessionUpdate": "agent_message_chunk", "content": content}),
                    ));
                }
                say(answer(json!({"stopReason": "end_turn"})));
            }
            "session/cancel" => {
                if let Some((id, mut child)) = running.take() {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    say(json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "cancelled"}}));
                }
            }
            other => panic!("{other}"),
        }
    }
}

fn update(prompt: &Value, update: &Value) -> Value {
    let session = &prompt["params"]["sessionId"];
    json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    })
}
