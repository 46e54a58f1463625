//! MCP servers that the client of the protocol library serves.

use std::sync::Arc;

use agent_client_protocol::{
    Agent, ByteStreams, Client, Error, NullRun,
    mcp_server::{McpOutcome, McpRequest, McpRequestContext, McpServer, McpService},
    schema::ProtocolVersion,
    v1::{
        SessionMessage,
        schema::{CancelNotification, InitializeRequest, StopReason},
    },
};
use crow_testkit::scripted::{call, reply, text};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{io::DuplexStream, sync::Notify, task::JoinSet};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use crate::{client::Product, links::setup_result};

/// A server with one tool, which answers with the server's name, or runs until it is cancelled.
#[derive(Clone)]
struct Service {
    name: &'static str,
    runs_until_cancelled: bool,
    started: Arc<Notify>,
    stopped: Arc<Notify>,
}

impl Service {
    fn new(name: &'static str) -> Self {
        Self { name, runs_until_cancelled: false, started: Arc::default(), stopped: Arc::default() }
    }

    fn server(&self) -> McpServer<Agent> {
        McpServer::new_service(self.name, self.clone(), NullRun)
    }

    async fn answer(
        self,
        request: McpRequest,
        context: McpRequestContext<Agent>,
    ) -> Result<McpOutcome, Error> {
        let result = match setup_result(&request.method) {
            Some(result) => result,
            None => self.call_tool(&request, &context).await?,
        };
        Ok(McpOutcome::Result(result))
    }

    async fn call_tool(
        &self,
        request: &McpRequest,
        context: &McpRequestContext<Agent>,
    ) -> Result<Value, Error> {
        let params = json!(request.params);
        let token = &params["_meta"]["progressToken"];
        let progress = json!({ "progressToken": token, "progress": 1, "message": "on the way" });
        let progress = progress.as_object().cloned();
        context.send_notification("notifications/progress", progress).await?;
        if self.runs_until_cancelled {
            self.started.notify_one();
            context.operation_cancellation().cancelled().await;
            self.stopped.notify_one();
            return Err(Error::request_cancelled());
        }
        let text = format!("{} got {}", self.name, params["arguments"]);
        Ok(json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" }))
    }
}

impl McpService<Agent> for Service {
    fn execute(
        &self,
        request: McpRequest,
        context: McpRequestContext<Agent>,
    ) -> BoxFuture<'static, Result<McpOutcome, Error>> {
        Box::pin(self.clone().answer(request, context))
    }
}

type Half<T> = Compat<T>;
type Streams =
    ByteStreams<Half<tokio::io::WriteHalf<DuplexStream>>, Half<tokio::io::ReadHalf<DuplexStream>>>;

/// Serves a product over a pipe, and returns the client's end.
fn pipe(product: &Product, server_task: &mut JoinSet<()>) -> Streams {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (incoming, outgoing) = tokio::io::split(theirs);
    let server = product.server.clone();
    server_task.spawn(async move {
        server.serve(incoming, outgoing, std::future::pending()).await.unwrap();
    });
    let (read, write) = tokio::io::split(ours);
    ByteStreams::new(write.compat_write(), read.compat())
}

#[tokio::test]
async fn tools_of_two_servers_of_the_librarys_client_are_called() {
    let product = Product::new([
        reply([call("c1", "mcp__one__t", json!({ "x": 1 }))]),
        reply([call("c2", "mcp__two__t", json!({ "y": 2 }))]),
        reply([text("Done.")]),
    ]);
    let mut server_task = JoinSet::new();
    let transport = pipe(&product, &mut server_task);
    let cwd = product.cwd();
    let reply_text = Client
        .v1()
        .connect_with(transport, async |to| {
            let hello = to.send_request(InitializeRequest::new(ProtocolVersion::V1));
            assert!(hello.block_task().await?.agent_capabilities.mcp_capabilities.acp);
            to.build_session(cwd)
                .with_mcp_server(Service::new("one").server())?
                .with_mcp_server(Service::new("two").server())?
                .block_task()
                .run_until(async |mut setup| {
                    let session = &mut setup.session;
                    session.send_prompt("go")?;
                    session.read_to_string().await
                })
                .await
        })
        .await
        .unwrap();
    assert_eq!(reply_text, "Done.");
    product.model.assert_finished();
    let outline = product.model.requests().pop().unwrap().outline().join("\n");
    assert!(outline.contains(r#"one got {"x":1}"#), "{outline}");
    assert!(outline.contains(r#"two got {"y":2}"#), "{outline}");
    server_task.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_cancelled_call_stops_the_service_of_the_librarys_client() {
    let product = Product::new([reply([call("c1", "mcp__one__t", json!({}))])]);
    let mut server_task = JoinSet::new();
    let transport = pipe(&product, &mut server_task);
    let (cwd, service) =
        (product.cwd(), Service { runs_until_cancelled: true, ..Service::new("one") });
    let stop = Client
        .v1()
        .connect_with(transport, async |to| {
            let hello = to.send_request(InitializeRequest::new(ProtocolVersion::V1));
            hello.block_task().await?;
            to.build_session(cwd)
                .with_mcp_server(service.server())?
                .block_task()
                .run_until(async |mut setup| {
                    let session = &mut setup.session;
                    session.send_prompt("go")?;
                    service.started.notified().await;
                    let cancel = CancelNotification::new(session.session_id().clone());
                    to.send_notification(cancel)?;
                    service.stopped.notified().await;
                    loop {
                        let message = session.read_update().await?;
                        if let SessionMessage::PromptResponse(response) = message {
                            return Ok(response?.stop_reason);
                        }
                    }
                })
                .await
        })
        .await
        .unwrap();
    assert_eq!(stop, StopReason::Cancelled);
    server_task.join_next().await.unwrap().unwrap();
}
