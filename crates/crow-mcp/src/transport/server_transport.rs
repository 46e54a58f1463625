//! The transports to servers as one type: the library has 150 kB of code for each type that it serves a client over.

use std::{future::Future, io};

use crow_core::capability::HttpError;
use futures_util::{FutureExt as _, TryFutureExt as _};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport, Transport, streamable_http_client::StreamableHttpError,
    },
};

use super::{http::HttpAdapter, line::LineTransport, link::LinkTransport};

/// A transport to a server, of any kind.
pub(crate) enum ServerTransport {
    /// The streams of a process.
    Lines(LineTransport),
    /// HTTP.
    Http(StreamableHttpClientTransport<HttpAdapter>),
    /// A link of the client.
    Link(LinkTransport),
}

/// Error of a transport to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The stream or the link failed.
    #[error(transparent)]
    Stream(#[from] io::Error),
    /// A request by HTTP failed.
    #[error(transparent)]
    Http(#[from] StreamableHttpError<HttpError>),
}

impl Transport<RoleClient> for ServerTransport {
    type Error = TransportError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match self {
            Self::Lines(lines) => lines.send(item).err_into().boxed(),
            Self::Http(http) => http.send(item).err_into().boxed(),
            Self::Link(link) => link.send(item).err_into().boxed(),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Lines(lines) => lines.receive().await,
            Self::Http(http) => http.receive().await,
            Self::Link(link) => link.receive().await,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match self {
            Self::Lines(lines) => lines.close().await?,
            Self::Http(http) => http.close().await?,
            Self::Link(link) => link.close().await?,
        }
        Ok(())
    }
}
