//! Transport over a WebSocket, one message per frame, which counts written updates.

use std::{io, sync::Arc};

use agent_client_protocol::Lines;
use axum::extract::ws::{Message, WebSocket};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, future::ready, stream};

use super::wire::{ClientWire, UNPARSABLE_LINE};

/// Creates a transport from a WebSocket. Binary messages become [`JUNK`].
pub(super) fn messages(
    socket: WebSocket,
    wire: Arc<ClientWire>,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let (outgoing, incoming) = socket.split();
    let (counter, closer) = (Arc::clone(&wire), Arc::clone(&wire));
    let outgoing = outgoing
        .with(move |message: String| {
            counter.count_written(message.as_bytes());
            ready(Ok::<_, axum::Error>(Message::Text(message.into())))
        })
        .sink_map_err(move |error| {
            // The client no longer reads: it is gone.
            closer.end();
            io::Error::other(error)
        });
    let incoming = stream::unfold((incoming, wire), |(mut incoming, wire)| async move {
        loop {
            let message = match incoming.next().await {
                Some(Ok(Message::Text(text))) => text.to_string(),
                Some(Ok(Message::Binary(_))) => UNPARSABLE_LINE.to_owned(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    wire.end();
                    return None;
                }
            };
            return Some((Ok(message), (incoming, wire)));
        }
    });
    Lines::new(outgoing, incoming)
}
