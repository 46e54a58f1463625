//! A turn with the client of the protocol library.

use agent_client_protocol::{
    ByteStreams, Client,
    schema::ProtocolVersion,
    v1::schema::{InitializeRequest, SessionNotification, SessionUpdate, StopReason},
};
use crow_testkit::scripted::{reply, text};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use crate::client::Product;

#[tokio::test]
async fn a_turn_completes_with_the_librarys_client() {
    let product = Product::new([reply([text("Hello.")])]);
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (incoming, outgoing) = tokio::io::split(theirs);
    let server = product.server.clone();
    let mut server_task = JoinSet::new();
    server_task.spawn(async move {
        server.serve(incoming, outgoing, std::future::pending()).await.unwrap();
    });
    let (read, write) = tokio::io::split(ours);
    let transport = ByteStreams::new(write.compat_write(), read.compat());
    let (sender, mut updates) = mpsc::channel(64);
    let cwd = product.cwd();
    let stop = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _| {
                sender.send(update).await.unwrap();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(transport, async |to| {
            let hello = to.send_request(InitializeRequest::new(ProtocolVersion::V1));
            let hello = hello.block_task().await?;
            assert!(hello.agent_capabilities.load_session);
            let new = agent_client_protocol::v1::schema::NewSessionRequest::new(cwd);
            let session = to.send_request(new).block_task().await?;
            let prompt = agent_client_protocol::v1::schema::PromptRequest::new(
                session.session_id,
                vec!["hi".into()],
            );
            Ok(to.send_request(prompt).block_task().await?.stop_reason)
        })
        .await
        .unwrap();
    assert_eq!(stop, StopReason::EndTurn);
    let mut reply_text = String::new();
    while let Ok(update) = updates.try_recv() {
        if let SessionUpdate::AgentMessageChunk(chunk) = update.update {
            reply_text
                .push_str(serde_json::to_value(chunk.content).unwrap()["text"].as_str().unwrap());
        }
    }
    assert_eq!(reply_text, "Hello.");
    server_task.join_next().await.unwrap().unwrap();
}
