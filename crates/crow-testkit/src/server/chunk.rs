//! Steps of sending a response body.

use std::time::Duration;

use bytes::Bytes;

use super::StreamGate;

/// One step of sending a body.
#[derive(Debug, Clone)]
pub enum BodyChunk {
    /// Sends the bytes as one HTTP chunk.
    Data(Bytes),
    /// Waits at the gate, or until the client disconnects.
    Gate(StreamGate),
    /// Waits for this time, or until the client disconnects.
    Delay(Duration),
    /// Ends the body in the given way; a body without this step ends cleanly.
    End(BodyEnd),
}

impl BodyChunk {
    /// Creates a chunk of data.
    pub fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into())
    }
}

/// End of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// The HTTP body is complete, whatever its events contain; the connection stays open.
    Clean,
    /// The connection is closed in the middle of the HTTP body.
    Close,
    /// The connection is reset (RST).
    Reset,
}
