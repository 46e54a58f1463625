//! The thread that shows runs. Writing may block for as long as a reader does not read; nothing else waits for it.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use crow_core::event::Envelope;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

use super::RunSink;
use crate::{
    output::RunReport,
    render::{LiveInput, RunActivity},
};

/// How many orders may wait for the thread.
const ORDERS: usize = 8;
/// How many orders may be pending before events have to wait.
const MOST_PENDING: usize = 32;
/// How many events one order may hold.
const BATCH: usize = 512;
/// How long an event may wait for others that are shown with it. Nobody sees it, and the thread wakes less often.
const GATHER: Duration = Duration::from_millis(4);

/// The output cannot be written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScreenGone;

/// Why [`ScreenThread::pump`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PumpEnd {
    /// There was no room for events, and now there is.
    Room,
    /// The output cannot be written any more. Told once.
    Failed,
}

/// What the thread is to do.
enum ScreenCommand {
    Events(Vec<Arc<Envelope>>),
    Tick(Timestamp),
    Prompt(String),
    Say(String),
    Aside(String),
    Input(LiveInput),
    /// Shows a question once more.
    Again(Arc<Envelope>),
    /// Shows how a run of a chat ended.
    Reply(Box<RunReport>, RunActivity),
    Report(Box<RunReport>),
    /// Tells when everything before it is shown.
    Shown(oneshot::Sender<()>),
}

/// The thread that shows runs, and what it has not taken yet.
pub(crate) struct ScreenThread {
    orders: mpsc::Sender<ScreenCommand>,
    pending: VecDeque<ScreenCommand>,
    /// When what is pending goes to the thread.
    due: Instant,
    failed: watch::Receiver<bool>,
    /// Whether the failure was told.
    told: bool,
    thread: JoinHandle<io::Result<()>>,
}

impl ScreenThread {
    pub(crate) fn start(sink: RunSink) -> Self {
        let (orders, taken) = mpsc::channel(ORDERS);
        let (failure, failed) = watch::channel(false);
        let thread = tokio::task::spawn_blocking(move || show(sink, taken, &failure));
        Self { orders, pending: VecDeque::new(), due: Instant::now(), failed, told: false, thread }
    }

    /// Adds an event to what is to be shown.
    pub(crate) fn push(&mut self, event: Arc<Envelope>) {
        if self.pending.is_empty() {
            self.due = Instant::now() + GATHER;
        }
        match self.pending.back_mut() {
            Some(ScreenCommand::Events(events)) => events.push(event),
            Some(
                ScreenCommand::Tick(_)
                | ScreenCommand::Prompt(_)
                | ScreenCommand::Say(_)
                | ScreenCommand::Aside(_)
                | ScreenCommand::Input(_)
                | ScreenCommand::Again(_)
                | ScreenCommand::Reply(..)
                | ScreenCommand::Report(_)
                | ScreenCommand::Shown(_),
            )
            | None => {
                self.pending.push_back(ScreenCommand::Events(vec![event]));
            }
        }
    }

    /// Asks the person at the terminal to type an answer. The question itself is an event.
    pub(crate) fn push_prompt(&mut self, prompt: String) {
        self.pending.push_back(ScreenCommand::Prompt(prompt));
    }

    /// Says something that belongs to no event, in whole lines.
    pub(crate) fn push_say(&mut self, text: String) {
        self.pending.push_back(ScreenCommand::Say(text));
    }

    /// Says something that is less important than the rest.
    pub(crate) fn push_aside(&mut self, text: String) {
        self.pending.push_back(ScreenCommand::Aside(text));
    }

    /// Shows what the person at the terminal is typing.
    pub(crate) fn push_input(&mut self, input: LiveInput) {
        if matches!(self.pending.back(), Some(ScreenCommand::Input(_))) {
            self.pending.pop_back();
        }
        self.pending.push_back(ScreenCommand::Input(input));
    }

    /// Shows how a run ended. Others may follow.
    pub(crate) fn push_report(&mut self, report: RunReport, calls: RunActivity) {
        self.pending.push_back(ScreenCommand::Reply(Box::new(report), calls));
    }

    /// Shows a question once more.
    pub(crate) fn push_again(&mut self, question: Arc<Envelope>) {
        self.pending.push_back(ScreenCommand::Again(question));
    }

    /// Waits until everything that was pushed is shown, or cannot be.
    pub(crate) async fn shown(&mut self) -> Result<(), ScreenGone> {
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

    /// Returns whether more can be pushed: what is pending is bounded.
    pub(crate) fn has_room(&self) -> bool {
        let is_full = self.pending.len() >= MOST_PENDING;
        !is_full
            && !matches!(self.pending.back(), Some(ScreenCommand::Events(events)) if events.len() >= BATCH)
    }

    /// Returns whether everything that was pushed is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Draws the waiting line anew, unless there is something better to do.
    pub(crate) fn tick(&self, now: Timestamp) {
        // A full queue means that the screen is busy.
        drop(self.orders.try_send(ScreenCommand::Tick(now)));
    }

    /// Hands pending orders to the thread until there is room again, where there was none, or the output cannot be written
    /// any more. May be dropped at any time.
    pub(crate) async fn pump(&mut self) -> PumpEnd {
        let had_room = self.has_room();
        if had_room && !self.pending.is_empty() {
            tokio::time::sleep_until(self.due).await;
        }
        loop {
            tokio::select! {
                failed = self.failed.wait_for(|failed| *failed), if !self.told => {
                    self.told = true;
                    if failed.is_ok() {
                        return PumpEnd::Failed;
                    }
                }
                permit = self.orders.reserve(), if !self.pending.is_empty() => match (permit, self.pending.pop_front()) {
                    (Ok(permit), Some(order)) => permit.send(order),
                    (Ok(_), None) => {}
                    (Err(_), _) => self.pending.clear(),
                },
                else => std::future::pending().await,
            }
            // Whoever waits to push more is woken: else its next tick would set the pace.
            if !had_room && self.has_room() {
                return PumpEnd::Room;
            }
        }
    }

    /// Shows the result and waits until everything is shown.
    pub(crate) async fn finish(self, report: RunReport) -> io::Result<()> {
        let Self { orders, pending, thread, .. } = self;
        for order in pending.into_iter().chain([ScreenCommand::Report(Box::new(report))]) {
            if orders.send(order).await.is_err() {
                break;
            }
        }
        // A thread that shows nothing any more waits for the end of the orders.
        drop(orders);
        thread.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// Does what it is told. After an error it takes orders and shows nothing.
fn show(
    mut sink: RunSink,
    mut orders: mpsc::Receiver<ScreenCommand>,
    failure: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut shown = Ok(());
    while let Some(order) = orders.blocking_recv() {
        if shown.is_err() {
            continue;
        }
        shown = match order {
            ScreenCommand::Events(events) => {
                events.iter().try_for_each(|event| sink.event(event)).and_then(|()| sink.flush())
            }
            ScreenCommand::Tick(now) => sink.tick(now),
            ScreenCommand::Prompt(text) => prompt(&text),
            ScreenCommand::Say(text) => sink.say(&text),
            ScreenCommand::Aside(text) => sink.say_aside(&text),
            ScreenCommand::Input(input) => sink.set_input(input),
            ScreenCommand::Again(question) => sink.ask_again(&question),
            ScreenCommand::Reply(report, calls) => sink.finish_reply(&report, calls),
            ScreenCommand::Report(report) => sink.finish(&report),
            ScreenCommand::Shown(done) => {
                // Nobody may wait for it any more.
                let _ = done.send(());
                Ok(())
            }
        };
        if shown.is_err() {
            failure.send_replace(true);
        }
    }
    shown
}

fn prompt(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample::Story;

    /// A screen whose thread takes nothing.
    fn idle_screen() -> (ScreenThread, mpsc::Receiver<ScreenCommand>, watch::Sender<bool>) {
        let (orders, taken) = mpsc::channel(ORDERS);
        let (failure, failed) = watch::channel(false);
        let thread = tokio::task::spawn_blocking(|| Ok(()));
        let (pending, due) = (VecDeque::new(), Instant::now());
        (ScreenThread { orders, pending, due, failed, told: false, thread }, taken, failure)
    }

    #[tokio::test]
    async fn a_full_batch_that_is_handed_on_makes_room_at_once() {
        let (mut screen, mut taken, _failure) = idle_screen();
        let event = Arc::new(Story::session().events.remove(0));
        (0..BATCH).for_each(|_| screen.push(Arc::clone(&event)));
        assert!(!screen.has_room());
        let pumped = tokio::time::timeout(Duration::from_secs(20), screen.pump()).await;
        assert_eq!(pumped, Ok(PumpEnd::Room), "nobody woke who waited for room");
        assert!(screen.has_room());
        assert!(
            matches!(taken.try_recv(), Ok(ScreenCommand::Events(events)) if events.len() == BATCH)
        );
    }

    #[tokio::test]
    async fn output_that_cannot_be_written_is_told_once() {
        let (mut screen, _taken, failure) = idle_screen();
        failure.send_replace(true);
        assert_eq!(screen.pump().await, PumpEnd::Failed);
        let again = std::pin::pin!(screen.pump());
        assert!(futures_util::poll!(again).is_pending());
    }
}
