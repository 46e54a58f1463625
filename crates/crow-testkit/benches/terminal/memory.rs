//! Memory of the chat compared with `run` without a terminal.

use std::{thread, time::Duration};

use crow_testkit::{Delivery, Fault, ModelServer, ScriptStep, ScriptedReply, StreamGate};
use serde_json::json;

use crate::{
    chat_program::{ChatProgram, start_server, wait_for_arrival},
    figures::mb,
    paced_stream,
    proc::Proc,
    table::TableRow,
};

/// Calls of the session, each after a text.
const CALLS: usize = 100;
/// Deltas of each text.
const DELTAS: usize = 200;

pub(crate) async fn rows(program: &ChatProgram) -> Vec<TableRow> {
    let (gate, server) = waiting_model().await;
    let mut chat = program.open_chat(&server);
    chat.type_keys("work\r");
    wait_for_arrival(&gate).await;
    let ours = settled_pss(chat.pid());
    gate.open();
    chat.wait_for_run_end();
    chat.wait_for_empty_prompt();
    chat.quit();
    server.finish().await.unwrap();

    let (gate, server) = waiting_model().await;
    let run = program.start_run(&server);
    wait_for_arrival(&gate).await;
    let theirs = settled_pss(run.pid());
    gate.open();
    run.wait_for_end();
    server.finish().await.unwrap();

    vec![TableRow {
        what: "memory (PSS) while waiting for the model after 100 calls and texts",
        bound: "≤ 10 MB more",
        ours: format!("{} ({} more)", mb(ours), mb(ours - theirs)),
        reference: format!("{} (`run` to a pipe)", mb(theirs)),
    }]
}

/// A model that makes calls, and then begins a reply that waits at the gate.
async fn waiting_model() -> (StreamGate, ModelServer) {
    let gate = StreamGate::new();
    let text = paced_stream::text_of(DELTAS);
    let call = |number: usize| {
        let command = json!({"command": format!("seq {number} {}", number + 50)});
        // The same text again and again would end the run.
        let reply = ScriptedReply::new().text(format!("Part {number}.\n\n{text}"));
        ScriptStep::from(reply.call(format!("toolu_{number}"), "bash", &command))
    };
    let last =
        ScriptedReply::new().text("done").with(Fault::StallAfter { events: 1, gate: gate.clone() });
    let script: Vec<ScriptStep> = (0..CALLS).map(call).chain([last]).collect();
    let server = start_server(script, Delivery::Each).await;
    (gate, server)
}

/// Returns the memory of a process that has had time to do the rest of its work.
fn settled_pss(pid: u32) -> f64 {
    thread::sleep(Duration::from_secs(1));
    Proc::new(pid).pss_mb()
}
