//! OTLP over gRPC: the same messages, sent as calls of the collector's services.

use std::{collections::HashMap, error::Error as _, str::FromStr as _, time::Duration};

use prost::bytes::{Buf as _, BufMut as _};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    metadata::{MetadataKey, MetadataValue},
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use super::{OtelEndpoint, exporter::SendFailure};

/// Time after which the other side of a connection is asked whether it is there, and time that it has to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Connections to collectors, by address. A connection is made with the first call, and made again when it is lost.
#[derive(Debug, Default)]
pub(super) struct GrpcConnections(HashMap<String, Channel>);

impl GrpcConnections {
    /// Calls a method of a collector with an encoded message.
    pub(super) async fn call(
        &mut self,
        endpoint: &OtelEndpoint,
        method: &'static str,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<(), SendFailure> {
        let channel = self.channel(endpoint)?;
        let mut request = Request::new(message);
        request.set_timeout(timeout);
        for (name, value) in &endpoint.headers {
            let name = MetadataKey::from_str(&name.to_ascii_lowercase());
            let value = MetadataValue::from_str(value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(SendFailure::Final("a header cannot be sent over gRPC".to_owned()));
            };
            request.metadata_mut().insert(name, value);
        }
        let mut client = Grpc::new(channel);
        client.ready().await.map_err(|error| SendFailure::Transient(error.to_string()))?;
        let called = client.unary(request, PathAndQuery::from_static(method), EncodedMessages);
        called.await.map(|_| ()).map_err(|status| failure(&status))
    }

    fn channel(&mut self, endpoint: &OtelEndpoint) -> Result<Channel, SendFailure> {
        if let Some(channel) = self.0.get(&endpoint.url) {
            return Ok(channel.clone());
        }
        let is_unusable = |error: tonic::transport::Error| SendFailure::Final(error.to_string());
        let mut target = Endpoint::from_shared(endpoint.url.clone()).map_err(is_unusable)?;
        if endpoint.url.starts_with("https://") {
            let tls = ClientTlsConfig::new().with_native_roots();
            target = target.tls_config(tls).map_err(is_unusable)?;
        }
        // A connection that is silently dead is noticed.
        let channel = target
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .connect_lazy();
        self.0.insert(endpoint.url.clone(), channel.clone());
        Ok(channel)
    }
}

/// Sorts a failure by the codes that the OTLP specification names as transient. Exhausted resources are so only where the
/// collector says when to try again, which is not read: most often the request is too large.
fn failure(status: &Status) -> SendFailure {
    let mut reason = format!("{}: {}", status.code(), status.message());
    let mut cause = status.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    match status.code() {
        // The library's word for a connection that broke. A collector's own has no cause.
        Code::Unknown if status.source().is_some() => SendFailure::Transient(reason),
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => SendFailure::Transient(reason),
        _ => SendFailure::Final(reason),
    }
}

/// Messages that are encoded already; answers are not read.
#[derive(Debug, Clone, Copy)]
struct EncodedMessages;

impl Codec for EncodedMessages {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EncodedMessages {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for EncodedMessages {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        let is_transient = |status: Status| matches!(failure(&status), SendFailure::Transient(_));
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted, Code::Cancelled] {
            assert!(is_transient(Status::new(code, "later")), "{code}");
        }
        for code in [Code::Unauthenticated, Code::InvalidArgument, Code::ResourceExhausted] {
            assert!(!is_transient(Status::new(code, "never")), "{code}");
        }
        assert!(!is_transient(Status::unknown("a collector's own error")));
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert!(is_transient(Status::from_error(Box::new(broken))));
    }
}
