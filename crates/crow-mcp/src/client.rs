//! Answers to the requests that a server may send: `ping` and `roots/list`.

use std::{fmt::Write as _, path::PathBuf};

#[expect(
    deprecated,
    reason = "servers ask for roots, whatever becomes of them in the protocol"
)]
use rmcp::model::{ListRootsResult, Root, RootsCapabilities};
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode,
        Implementation,
    },
    service::RequestContext,
};

/// Handler of a server's requests. There is no model to sample and no user to ask, so sampling and elicitation are
/// answered with "method not found".
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// `file://` URIs of the workspace roots; none if the capability `roots` is not declared.
    roots: Option<Vec<String>>,
}

impl Client {
    /// Creates the client for stateless servers: it declares no capabilities, since those servers send no requests.
    pub(crate) fn stateless() -> Self {
        Self { roots: None }
    }

    pub(crate) fn new(roots: &[PathBuf]) -> Self {
        Self { roots: Some(roots.iter().map(|root| file_uri(root)).collect()) }
    }
}

#[expect(deprecated, reason = "servers ask for roots, whatever becomes of them in the protocol")]
impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = self.roots.as_ref().map(|_| RootsCapabilities::default());
        let own = Implementation::new("crow-agent", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, own)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.iter().flatten().map(Root::new).collect()))
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let text = "elicitation/create is not supported by this client";
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }
}

/// Converts a path to a `file://` URI; percent-encodes all bytes except unreserved ones and slashes.
fn file_uri(path: &std::path::Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            byte => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_uri_escapes_reserved_characters() {
        let uri = file_uri(std::path::Path::new("/p/ä b/#x"));
        assert_eq!(uri, "file:///p/%C3%A4%20b/%23x");
    }
}
