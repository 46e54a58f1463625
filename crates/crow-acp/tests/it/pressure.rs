//! A client that does not read.

use crow_testkit::{
    scripted::{call, reply, text},
    wait_until,
};
use serde_json::json;

use crate::client::Product;

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_a_cancel() {
    let arguments =
        json!({ "command": "yes flood | head -c 30000000; echo $$ > pid; exec sleep 1000" });
    let product = Product::new([reply([call("1", "bash", arguments)]), reply([text("end")])]);
    let mut client = product.connect_with(4 << 10);
    client.initialize(json!({})).await;
    let session = client.session().await;
    let prompt = client.begin_prompt(&session, "flood").await;
    let pid = product.cwd().join("pid");
    wait_until(|| !std::fs::read_to_string(&pid).unwrap_or_default().is_empty()).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    let pid = std::fs::read_to_string(&pid).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    wait_until(|| !process.exists()).await;
    // The client reads only from here on.
    assert_eq!(client.answer(prompt).await["result"]["stopReason"], "cancelled");
}
