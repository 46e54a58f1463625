//! The thread that writes runs to the terminal, or as lines for programs. A write may block as long as the reader does not
//! read; only this thread waits for it.
//!
//! Commands pass through two bounded queues: `pending`, which [`ScreenThread`] fills on the side of the event loop, and the
//! channel `orders` to the thread. [`ScreenThread::pump`] moves commands from the first to the second; the caller polls it in
//! its `select!` and stops taking events while [`ScreenThread::has_room`] is false. Events are gathered into batches of up to
//! [`BATCH`], which the thread flushes as one. After a write error the thread drains its channel without showing anything, so
//! that no sender blocks, and reports the failure through a `watch` channel.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use crow_core::event::Envelope;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

/// Capacity of the channel to the thread, in commands.
const ORDERS: usize = 8;
/// Number of pending commands at which events have to wait.
const MOST_PENDING: usize = 32;
/// Maximum number of events in one command.
const BATCH: usize = 512;
/// Time that an event waits for others to share its batch: too short to be visible, and the thread wakes up less often.
const GATHER: Duration = Duration::from_millis(4);

/// Output of events, used by the thread of a [`ScreenThread`].
pub trait ScreenSink: Send + 'static {
    /// Takes an event. Its output may be buffered until the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    fn on_event(&mut self, event: &Envelope) -> io::Result<()>;

    /// Writes the buffered output. Called when no event is queued.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    fn flush(&mut self) -> io::Result<()>;

    /// Redraws what changes with time.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    fn tick(&mut self, now: Timestamp) -> io::Result<()>;
}

/// Error: the output can no longer be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the output cannot be written")]
pub struct ScreenGone;

/// Reason for which [`ScreenThread::pump`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PumpEnd {
    /// The queue of pending commands was full and has room again.
    Room,
    /// The output can no longer be written. Reported once.
    Failed,
}

/// An operation on the output.
type SinkAction<S> = Box<dyn FnOnce(&mut S) -> io::Result<()> + Send>;

/// Command to the thread.
enum ScreenCommand<S> {
    Events(Vec<Arc<Envelope>>),
    Tick(Timestamp),
    Action(SinkAction<S>),
    /// An action that has no effect if another one of this kind follows it at once.
    Replaceable(SinkAction<S>),
    /// Signals that all previous commands have been carried out.
    Shown(oneshot::Sender<()>),
}

/// Handle of the thread that writes to a sink, with the commands that it has not received yet.
pub struct ScreenThread<S> {
    orders: mpsc::Sender<ScreenCommand<S>>,
    pending: VecDeque<ScreenCommand<S>>,
    /// Time at which the pending commands go to the thread.
    due: Instant,
    failed: watch::Receiver<bool>,
    /// True if the failure has been reported.
    reported: bool,
    thread: JoinHandle<io::Result<()>>,
}

impl<S> std::fmt::Debug for ScreenThread<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ScreenThread")
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl<S: ScreenSink> ScreenThread<S> {
    /// Starts the thread. Must be called within a tokio runtime.
    pub fn start(sink: S) -> Self {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let (failure, failed) = watch::channel(false);
        let thread = tokio::task::spawn_blocking(move || show(sink, receiver, &failure));
        Self {
            orders,
            pending: VecDeque::new(),
            due: Instant::now(),
            failed,
            reported: false,
            thread,
        }
    }

    /// Queues an event; joins it to the batch at the end of the queue, if there is one.
    pub fn push(&mut self, event: Arc<Envelope>) {
        if self.pending.is_empty() {
            self.due = Instant::now() + GATHER;
        }
        if let Some(ScreenCommand::Events(events)) = self.pending.back_mut() {
            events.push(event);
        } else {
            self.pending.push_back(ScreenCommand::Events(vec![event]));
        }
    }

    /// Queues an operation on the output.
    pub fn push_action(&mut self, action: impl FnOnce(&mut S) -> io::Result<()> + Send + 'static) {
        self.pending.push_back(ScreenCommand::Action(Box::new(action)));
    }

    /// Queues an operation on the output, such as showing the current input; replaces the one at the end of the queue that
    /// was queued by this method.
    pub fn push_replaceable(
        &mut self,
        action: impl FnOnce(&mut S) -> io::Result<()> + Send + 'static,
    ) {
        if matches!(self.pending.back(), Some(ScreenCommand::Replaceable(_))) {
            self.pending.pop_back();
        }
        self.pending.push_back(ScreenCommand::Replaceable(Box::new(action)));
    }

    /// Waits until everything pushed so far is shown.
    ///
    /// # Errors
    /// Fails if the output can no longer be written.
    pub async fn wait_until_shown(&mut self) -> Result<(), ScreenGone> {
        let (done, mut shown) = oneshot::channel();
        self.pending.push_back(ScreenCommand::Shown(done));
        loop {
            tokio::select! {
                biased;
                shown = &mut shown => return shown.map_err(|_| ScreenGone),
                pumped = self.pump() => match pumped {
                    PumpEnd::Room => {}
                    PumpEnd::Failed => return Err(ScreenGone),
                },
            }
        }
    }

    /// Returns true if more events may be pushed: the queue is bounded.
    pub fn has_room(&self) -> bool {
        let is_full = self.pending.len() >= MOST_PENDING;
        !is_full
            && !matches!(self.pending.back(), Some(ScreenCommand::Events(events)) if events.len() >= BATCH)
    }

    /// Returns true if everything pushed so far has been handed to the thread.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Redraws what changes with time, unless the thread is busy.
    pub fn tick(&self, now: Timestamp) {
        // A full channel means that the thread is busy: the tick is dropped.
        drop(self.orders.try_send(ScreenCommand::Tick(now)));
    }

    /// Hands pending commands to the thread. Returns when a full queue has room again or the output can no longer be
    /// written, otherwise never. Safe to drop at any time: a command leaves the queue only when its slot in the channel
    /// is reserved.
    pub async fn pump(&mut self) -> PumpEnd {
        let had_room = self.has_room();
        if had_room && !self.pending.is_empty() {
            tokio::time::sleep_until(self.due).await;
        }
        loop {
            tokio::select! {
                // The thread may also be gone because of a panic.
                _ = self.failed.wait_for(|failed| *failed), if !self.reported => {
                    self.reported = true;
                    return PumpEnd::Failed;
                }
                permit = self.orders.reserve(), if !self.pending.is_empty() => match (permit, self.pending.pop_front()) {
                    (Ok(permit), Some(order)) => permit.send(order),
                    (Ok(_), None) => {}
                    (Err(_), _) => self.pending.clear(),
                },
                else => std::future::pending().await,
            }
            // Wakes a caller that waits for room: otherwise its next tick would set the pace.
            if !had_room && self.has_room() {
                return PumpEnd::Room;
            }
        }
    }

    /// Carries out a last operation, waits until everything is shown, and ends the thread.
    ///
    /// # Errors
    /// Fails if the output could not be written.
    pub async fn finish(
        self,
        last: impl FnOnce(&mut S) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let Self { orders, pending, thread, .. } = self;
        for order in pending.into_iter().chain([ScreenCommand::Action(Box::new(last))]) {
            if orders.send(order).await.is_err() {
                break;
            }
        }
        // The thread ends with the channel, even after a write error.
        drop(orders);
        thread.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// Body of the thread: carries out commands until the channel closes. After a write error it discards them.
fn show<S: ScreenSink>(
    mut sink: S,
    mut orders: mpsc::Receiver<ScreenCommand<S>>,
    failure: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut result = Ok(());
    while let Some(order) = orders.blocking_recv() {
        if result.is_err() {
            continue;
        }
        result = match order {
            ScreenCommand::Events(events) => {
                events.iter().try_for_each(|event| sink.on_event(event)).and_then(|()| sink.flush())
            }
            ScreenCommand::Tick(now) => sink.tick(now),
            ScreenCommand::Action(action) | ScreenCommand::Replaceable(action) => action(&mut sink),
            ScreenCommand::Shown(done) => {
                // The receiver may be gone.
                let _ = done.send(());
                Ok(())
            }
        };
        if result.is_err() {
            failure.send_replace(true);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::Story;

    use super::*;

    struct NoOutput;

    impl ScreenSink for NoOutput {
        fn on_event(&mut self, _event: &Envelope) -> io::Result<()> {
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn tick(&mut self, _now: Timestamp) -> io::Result<()> {
            Ok(())
        }
    }

    type Orders = mpsc::Receiver<ScreenCommand<NoOutput>>;

    /// Returns a screen whose thread receives nothing, with the other ends of its channels.
    fn idle_screen() -> (ScreenThread<NoOutput>, Orders, watch::Sender<bool>) {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let (failure, failed) = watch::channel(false);
        let thread = tokio::task::spawn_blocking(|| Ok(()));
        let (pending, due) = (VecDeque::new(), Instant::now());
        (ScreenThread { orders, pending, due, failed, reported: false, thread }, receiver, failure)
    }

    #[tokio::test]
    async fn handing_over_a_full_batch_makes_room_at_once() {
        let (mut screen, mut receiver, _failure) = idle_screen();
        let event = Arc::new(Story::session().events.remove(0));
        (0..BATCH).for_each(|_| screen.push(Arc::clone(&event)));
        assert!(!screen.has_room());
        let pumped = tokio::time::timeout(Duration::from_secs(20), screen.pump()).await;
        assert_eq!(pumped, Ok(PumpEnd::Room), "nobody woke who waited for room");
        assert!(screen.has_room());
        assert!(
            matches!(receiver.try_recv(), Ok(ScreenCommand::Events(events)) if events.len() == BATCH)
        );
    }

    #[tokio::test]
    async fn a_write_failure_is_reported_once() {
        let (mut screen, _receiver, failure) = idle_screen();
        failure.send_replace(true);
        assert_eq!(screen.pump().await, PumpEnd::Failed);
        let again = std::pin::pin!(screen.pump());
        assert!(futures_util::poll!(again).is_pending());
    }

    #[tokio::test]
    async fn a_panic_of_the_thread_is_a_failure() {
        let mut screen = ScreenThread::start(NoOutput);
        screen.push_action(|_| panic!("a fault of the renderer"));
        let pumped = tokio::time::timeout(Duration::from_secs(20), screen.pump()).await;
        assert_eq!(pumped, Ok(PumpEnd::Failed));
    }

    #[tokio::test]
    async fn a_replaceable_action_replaces_the_one_before_it_and_no_other() {
        let (mut screen, _receiver, _failure) = idle_screen();
        screen.push_replaceable(|_| Ok(()));
        screen.push_replaceable(|_| Ok(()));
        assert_eq!(screen.pending.len(), 1);
        screen.push_action(|_| Ok(()));
        screen.push_replaceable(|_| Ok(()));
        assert_eq!(screen.pending.len(), 3);
    }
}
