//! Reads the body of a reply in a task of its own.
//!
//! A reply may arrive in thousands of pieces per second. Each piece wakes the task that reads it, and a wake-up polls all
//! futures of that task: in an agent, everything that waits for the reply. This task waits for pieces alone, and passes
//! on several of them together.

use std::{panic::resume_unwind, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use reqwest::Response;
use tokio::{
    sync::mpsc,
    task::{JoinSet, yield_now},
    time::sleep,
};

/// Time for which the pieces of a long reply are gathered, too short to be seen.
const GATHERING: Duration = Duration::from_millis(4);
/// Number of pieces that are passed on at once: a short reply is never delayed.
const UNGATHERED_PIECES: usize = 64;
/// Number of gathered bytes from which on no more are gathered.
const LARGEST_GATHERED: usize = 64 * 1024;
/// Number of polls in a row without a piece, after which gathering ends. The task of the connection hands over one piece each time
/// it runs.
const MOST_MISSES: usize = 2;

/// Bytes of a body, or `None` at its end.
type BodyPart = reqwest::Result<Option<Bytes>>;

/// The body of a reply. The task that reads it ends when this is dropped.
pub(super) struct BodyReader {
    parts: mpsc::Receiver<BodyPart>,
    task: JoinSet<()>,
}

impl BodyReader {
    /// Starts to read the body of a response.
    pub(super) fn start(response: Response) -> Self {
        let (sender, parts) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(read(response, sender));
        Self { parts, task }
    }

    /// Waits for the next bytes. `None` is the end of the body, after which this must not be called again. Cancel-safe.
    ///
    /// # Panics
    /// If the task panicked.
    pub(super) async fn next(&mut self) -> BodyPart {
        if let Some(part) = self.parts.recv().await {
            return part;
        }
        match self.task.join_next().await {
            Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime shuts down.
            Some(Ok(()) | Err(_)) | None => std::future::pending().await,
        }
    }
}

async fn read(mut response: Response, parts: mpsc::Sender<BodyPart>) {
    let mut pieces = 0_usize;
    loop {
        let part = response.chunk().await;
        pieces = pieces.saturating_add(1);
        let (bytes, end) = match part {
            Ok(Some(first)) if pieces > UNGATHERED_PIECES => gather(first, &mut response).await,
            Ok(Some(bytes)) => (Some(bytes), None),
            end => (None, Some(end)),
        };
        if let Some(bytes) = bytes
            && parts.send(Ok(Some(bytes))).await.is_err()
        {
            return;
        }
        if let Some(end) = end {
            // The connection is free before the end is known.
            drop(response);
            // If nobody reads it, nobody needs it.
            drop(parts.send(end).await);
            return;
        }
    }
}

/// Adds the bytes that arrive within [`GATHERING`] to the first ones. Returns also how the body ended, if it did.
///
/// Nothing is read meanwhile: the system gathers cheaper than many small reads.
async fn gather(first: Bytes, response: &mut Response) -> (Option<Bytes>, Option<BodyPart>) {
    sleep(GATHERING).await;
    let mut gathered = BytesMut::from(first);
    let mut misses = 0;
    while gathered.len() < LARGEST_GATHERED && misses < MOST_MISSES {
        match response.chunk().now_or_never() {
            Some(Ok(Some(bytes))) => {
                gathered.extend_from_slice(&bytes);
                misses = 0;
            }
            Some(end) => return (Some(gathered.freeze()), Some(end)),
            None => {
                misses += 1;
                yield_now().await;
            }
        }
    }
    (Some(gathered.freeze()), None)
}
