//! The event stream of one page: the list of sessions, and one session if it shows one.
//!
//! The stream is pulled: nothing is taken from the session before the browser took what was sent, so that one that never
//! reads holds one part of [`MAX_TOGETHER`] events and no more. What it misses, it gets from the log.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::body::{Body, Bytes};
use crow_core::ids::SessionId;
use futures_util::{FutureExt as _, future::OptionFuture, stream};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Interval, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    hosted::HostedSessions,
    message::LiveMessage,
    overview::{OverviewFeed, StoredSessions},
    session_feed::SessionFeed,
};

/// Time after which a comment is sent when nothing happens, so that a connection that is gone is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of events that are sent as one part.
const MAX_TOGETHER: usize = 256;

/// The state of the event stream of one page.
#[derive(Debug)]
pub(crate) struct PageStream {
    hosted: Arc<HostedSessions>,
    overview: OverviewFeed,
    session: Option<(SessionId, SessionFeed)>,
    openings: watch::Receiver<u64>,
    ended: CancellationToken,
    keep_alive: Interval,
    pending: VecDeque<LiveMessage>,
    /// Held while the stream is open: their number is bounded.
    _permit: OwnedSemaphorePermit,
}

impl PageStream {
    pub(crate) fn new(
        hosted: Arc<HostedSessions>,
        stored: Arc<StoredSessions>,
        session: Option<(SessionId, SessionFeed)>,
        ended: CancellationToken,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mut keep_alive = interval(KEEP_ALIVE_INTERVAL);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            overview: OverviewFeed::new(Arc::clone(&hosted), stored),
            openings: hosted.changes(),
            hosted,
            session,
            ended,
            keep_alive,
            pending: VecDeque::new(),
            _permit: permit,
        }
    }

    /// Returns the body of the response.
    pub(crate) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut stream| async move {
            let part = stream.next_part().await?;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(part)), stream))
        }))
    }

    /// Waits for the next messages; `None` ends the stream, and the page opens another one.
    async fn next_part(&mut self) -> Option<String> {
        while self.pending.is_empty() {
            let session = self.session.as_mut().map(|(_, feed)| feed.next());
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return None,
                // It pauses between two messages, so that it does not keep the others from being sent.
                message = self.overview.next() => self.pending.push_back(message),
                changed = self.openings.changed() => {
                    // A followed log of a session that was opened here by now is left for its agent.
                    if changed.is_err() || self.is_outdated() {
                        return None;
                    }
                }
                Some(messages) = OptionFuture::from(session) => self.pending.extend(messages?),
                _ = self.keep_alive.tick() => return Some(": here\n\n".to_owned()),
            }
        }
        // What is there already is sent with it.
        while self.pending.len() < MAX_TOGETHER {
            let Some((_, feed)) = &mut self.session else { break };
            match feed.next().now_or_never() {
                Some(Some(messages)) => self.pending.extend(messages),
                // The end is met again with the next part.
                Some(None) | None => break,
            }
        }
        let usage_changed =
            self.session.as_mut().is_some_and(|(_, feed)| feed.take_usage_changed());
        if usage_changed && let Some(usage) = self.usage().await {
            self.pending.push_back(usage);
        }
        Some(self.pending.drain(..).map(|message| message.to_event()).collect())
    }

    fn is_outdated(&self) -> bool {
        let follows_log = |(id, feed): &(SessionId, SessionFeed)| {
            feed.handle().is_none() && self.hosted.get(id).is_some()
        };
        self.session.as_ref().is_some_and(follows_log)
    }

    async fn usage(&self) -> Option<LiveMessage> {
        let (id, feed) = self.session.as_ref()?;
        feed.handle()?;
        let usage = self.hosted.host().usage(id).await.ok()?;
        Some(LiveMessage::Usage {
            context_tokens: usage.context_tokens,
            context_window: usage.context_window,
            cost_usd: usage.cost_usd,
        })
    }
}
