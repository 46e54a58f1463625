//! The pieces that an answer's body is sent in.

use std::time::Duration;

use bytes::Bytes;

use super::StreamGate;

/// One thing the server does while it sends a body.
#[derive(Debug, Clone)]
pub enum BodyChunk {
    /// Sends the bytes as one HTTP chunk.
    Data(Bytes),
    /// Waits at the gate, or until the client leaves.
    Gate(StreamGate),
    /// Waits for a time.
    Delay(Duration),
    /// Ends the body here, in the given way; a body without it ends cleanly.
    End(BodyEnd),
}

impl BodyChunk {
    /// A chunk of data.
    pub fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into())
    }
}

/// How the server stops sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// The HTTP body is complete, whatever the events in it say; the connection stays.
    Clean,
    /// The connection is closed in the middle of the HTTP body.
    Close,
    /// The connection is reset (RST).
    Reset,
}
