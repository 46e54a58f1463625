//! Serves a product over the Agent Client Protocol and talks to it as an editor does, line by line.
//!
//! The product is that of the test kit, whose model plays a script; any other [`AgentHost`](crow_runtime::AgentHost) stands
//! in its place. A program serves its own standard input and output instead of a pipe in memory.
//! `cargo run -p crow-acp --example talk`

use std::{error::Error, io, io::Write as _, sync::Arc};

use crow_acp::{AcpIdentity, AcpServer};
use crow_core::tool::ToolRegistry;
use crow_runtime::RuntimeConfig;
use crow_testkit::{
    host::ScriptedHost,
    scripted::{ScriptedModel, reply, text},
};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// A client: what it asks, and what it is told meanwhile.
struct Client {
    write: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    asked: u64,
}

impl Client {
    /// Asks, prints what comes, and returns the answer.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Box<dyn Error>> {
        self.asked += 1;
        let id = self.asked;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write.write_all(format!("{request}\n").as_bytes()).await?;
        while let Some(line) = self.lines.next_line().await? {
            writeln!(io::stdout(), "{method} -> {line}")?;
            let message: Value = serde_json::from_str(&line)?;
            if message.get("id").is_some_and(|answered| *answered == id) {
                return Ok(message.get("result").cloned().unwrap_or_default());
            }
        }
        Err("the server is gone".into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([reply([text("Caw!")])]);
    let host = ScriptedHost::new(model, ToolRegistry::new(), RuntimeConfig::default());
    let identity = AcpIdentity {
        name: "example".to_owned(),
        title: "Example".to_owned(),
        version: "1".to_owned(),
        ..AcpIdentity::default()
    };
    let server = AcpServer::new(Arc::new(host), identity);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (incoming, outgoing) = tokio::io::split(theirs);
    let (read, write) = tokio::io::split(ours);
    let mut client = Client { write, lines: BufReader::new(read).lines(), asked: 0 };
    let talk = async move {
        client.ask("initialize", json!({"protocolVersion": 1})).await?;
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let new = client.ask("session/new", json!({"cwd": folder, "mcpServers": []})).await?;
        let prompt = json!([{"type": "text", "text": "What does the crow say?"}]);
        let params = json!({"sessionId": new.get("sessionId"), "prompt": prompt});
        client.ask("session/prompt", params).await?;
        Ok(())
    };
    tokio::select! {
        said = talk => said,
        end = server.serve(incoming, outgoing, std::future::pending()) => Ok(end?),
    }
}
