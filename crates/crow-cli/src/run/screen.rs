//! The thread that writes runs to the terminal or as JSON lines. A write may block as long as the reader does not read;
//! only this thread waits for it.
//!
//! Commands pass through two bounded queues: `pending`, which [`ScreenThread`] fills on the side of the event loop, and
//! the channel `orders` to the thread. [`ScreenThread::pump`] moves commands from the first to the second; the caller
//! polls it in its `select!` and stops taking events while [`ScreenThread::has_room`] is false. Events are gathered
//! into batches of up to [`BATCH`], which the thread flushes as one. After a write error the thread drains its channel
//! without showing anything, so that no sender blocks, and reports the failure through a `watch` channel. It writes to
//! a [`RunSink`].

use std::{
    collections::VecDeque,
    io::{self, Stderr, Stdout, Write as _},
    sync::Arc,
    time::Duration,
};

use crow_app::ProcessEnvironment;
use crow_console::{
    AnswerDestination, ConsoleRenderer, LiveInput, RunActivity, RunReport, terminal_width,
};
use crow_core::event::Envelope;
use crow_terminal::{InlineScreen, InputView, ResizeBehavior, ScreenSize, Theme};
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    args::OutputForm,
    output::{Deltas, JsonWriter},
    terminal::console_style,
};

/// Capacity of the channel to the thread, in commands.
const ORDERS: usize = 8;
/// Number of pending commands at which events have to wait.
const MOST_PENDING: usize = 32;
/// Maximum number of events in one command.
const BATCH: usize = 512;
/// Time that an event waits for others to share its batch: too short to be visible, and the thread wakes up less often.
const GATHER: Duration = Duration::from_millis(4);

/// Error: the output can no longer be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScreenGone;

/// Reason for which [`ScreenThread::pump`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PumpEnd {
    /// The queue of pending commands was full and has room again.
    Room,
    /// The output can no longer be written. Reported once.
    Failed,
}

/// Command to the thread.
enum ScreenCommand {
    Events(Vec<Arc<Envelope>>),
    Tick(Timestamp),
    Prompt(String),
    Say(String),
    Aside(String),
    Input(LiveInput),
    /// The prompt and the status line of an inline screen.
    View(Box<InputView>),
    /// Text that the user entered.
    Entered(String),
    /// Removes the live region of an inline screen.
    Leave,
    /// Draws an inline screen anew.
    Redraw,
    /// Shows a question again.
    Again(Arc<Envelope>),
    /// Shows the end of a run in a chat.
    Reply(Box<RunReport>, RunActivity),
    Report(Box<RunReport>),
    /// Signals that all previous commands have been carried out.
    Shown(oneshot::Sender<()>),
}

/// Handle of the thread that shows runs, with the commands that it has not received yet.
pub(crate) struct ScreenThread {
    orders: mpsc::Sender<ScreenCommand>,
    pending: VecDeque<ScreenCommand>,
    /// Time at which the pending commands go to the thread.
    due: Instant,
    failed: watch::Receiver<bool>,
    /// True if the failure has been reported.
    reported: bool,
    thread: JoinHandle<io::Result<()>>,
}

impl ScreenThread {
    pub(crate) fn start(sink: RunSink) -> Self {
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
                | ScreenCommand::View(_)
                | ScreenCommand::Entered(_)
                | ScreenCommand::Leave
                | ScreenCommand::Redraw
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

    /// Queues the prompt for an answer. The question itself is an event.
    pub(crate) fn push_prompt(&mut self, prompt: String) {
        self.pending.push_back(ScreenCommand::Prompt(prompt));
    }

    /// Queues a message that belongs to no event, in complete lines.
    pub(crate) fn push_say(&mut self, text: String) {
        self.pending.push_back(ScreenCommand::Say(text));
    }

    /// Queues a message that is shown dimly.
    pub(crate) fn push_dim_message(&mut self, text: String) {
        self.pending.push_back(ScreenCommand::Aside(text));
    }

    /// Queues the current input line; replaces the one at the end of the queue.
    pub(crate) fn push_input(&mut self, input: LiveInput) {
        if matches!(self.pending.back(), Some(ScreenCommand::Input(_))) {
            self.pending.pop_back();
        }
        self.pending.push_back(ScreenCommand::Input(input));
    }

    /// Queues the prompt and the status line; replaces those at the end of the queue.
    pub(crate) fn push_view(&mut self, view: InputView) {
        if matches!(self.pending.back(), Some(ScreenCommand::View(_))) {
            self.pending.pop_back();
        }
        self.pending.push_back(ScreenCommand::View(Box::new(view)));
    }

    /// Queues what the user entered.
    pub(crate) fn push_entered(&mut self, text: String) {
        self.pending.push_back(ScreenCommand::Entered(text));
    }

    /// Queues the removal of the live region.
    pub(crate) fn push_leave(&mut self) {
        self.pending.push_back(ScreenCommand::Leave);
    }

    /// Queues a frame that does not rely on what is on the screen.
    pub(crate) fn push_redraw(&mut self) {
        self.pending.push_back(ScreenCommand::Redraw);
    }

    /// Queues the report of a run, after which others may follow.
    pub(crate) fn push_report(&mut self, report: RunReport, calls: RunActivity) {
        self.pending.push_back(ScreenCommand::Reply(Box::new(report), calls));
    }

    /// Queues a question that is shown again.
    pub(crate) fn push_repeated_question(&mut self, question: Arc<Envelope>) {
        self.pending.push_back(ScreenCommand::Again(question));
    }

    /// Waits until everything pushed so far is shown. Fails if the output can no longer be written.
    pub(crate) async fn wait_until_shown(&mut self) -> Result<(), ScreenGone> {
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
    pub(crate) fn has_room(&self) -> bool {
        let is_full = self.pending.len() >= MOST_PENDING;
        !is_full
            && !matches!(self.pending.back(), Some(ScreenCommand::Events(events)) if events.len() >= BATCH)
    }

    /// Returns true if everything pushed so far has been handed to the thread.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Redraws the waiting line, unless the thread is busy.
    pub(crate) fn tick(&self, now: Timestamp) {
        // A full channel means that the thread is busy: the tick is dropped.
        drop(self.orders.try_send(ScreenCommand::Tick(now)));
    }

    /// Hands pending commands to the thread. Returns when a full queue has room again or the output can no longer be
    /// written, otherwise never. Safe to drop at any time: a command leaves the queue only when its slot in the channel
    /// is reserved.
    pub(crate) async fn pump(&mut self) -> PumpEnd {
        let had_room = self.has_room();
        if had_room && !self.pending.is_empty() {
            tokio::time::sleep_until(self.due).await;
        }
        loop {
            tokio::select! {
                failed = self.failed.wait_for(|failed| *failed), if !self.reported => {
                    self.reported = true;
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
            // Wakes a caller that waits for room: otherwise its next tick would set the pace.
            if !had_room && self.has_room() {
                return PumpEnd::Room;
            }
        }
    }

    /// Shows the result, waits until everything is shown, and ends the thread.
    pub(crate) async fn finish(self, report: RunReport) -> io::Result<()> {
        let Self { orders, pending, thread, .. } = self;
        for order in pending.into_iter().chain([ScreenCommand::Report(Box::new(report))]) {
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
fn show(
    mut sink: RunSink,
    mut orders: mpsc::Receiver<ScreenCommand>,
    failure: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut result = Ok(());
    while let Some(order) = orders.blocking_recv() {
        if result.is_err() {
            continue;
        }
        result = match order {
            ScreenCommand::Events(events) => {
                events.iter().try_for_each(|event| sink.event(event)).and_then(|()| sink.flush())
            }
            ScreenCommand::Tick(now) => sink.tick(now),
            ScreenCommand::Prompt(text) => prompt(&text),
            ScreenCommand::Say(text) => sink.show_message(&text),
            ScreenCommand::Aside(text) => sink.show_dim_message(&text),
            ScreenCommand::Input(input) => sink.set_input(input),
            ScreenCommand::View(view) => sink.set_view(*view),
            ScreenCommand::Entered(text) => sink.show_entered(&text),
            ScreenCommand::Leave => sink.leave(),
            ScreenCommand::Redraw => sink.redraw(),
            ScreenCommand::Again(question) => sink.repeat_question(&question),
            ScreenCommand::Reply(report, calls) => sink.finish_reply(&report, calls),
            ScreenCommand::Report(report) => sink.finish(&report),
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

fn prompt(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// Output of a run, and whether its waits need messages.
pub(crate) struct RunDisplay {
    pub(crate) sink: RunSink,
    /// True if no waiting line is visible, so that a wait for the model must be reported as a message.
    pub(crate) reports_waits: bool,
}

impl RunDisplay {
    pub(crate) fn new(form: OutputForm, environment: &ProcessEnvironment) -> Self {
        let waits_silently = !environment.stderr_is_terminal || form == OutputForm::Json;
        Self { sink: RunSink::new(form, environment), reports_waits: waits_silently }
    }

    /// Shows the answer at the end, from the report.
    pub(crate) fn with_answer_at_end(self) -> Self {
        let sink = match self.sink {
            RunSink::Console(renderer) => {
                RunSink::Console(Box::new(renderer.with_answer(AnswerDestination::AtEnd)))
            }
            other @ (RunSink::Json(_) | RunSink::Inline(_)) => other,
        };
        Self { sink, ..self }
    }

    /// Sets whether JSON lines include deltas.
    pub(crate) fn with_deltas(self, deltas: Deltas) -> Self {
        let sink = match self.sink {
            RunSink::Json(writer) => RunSink::Json(writer.with_deltas(deltas)),
            other @ (RunSink::Console(_) | RunSink::Inline(_)) => other,
        };
        Self { sink, ..self }
    }
}

/// Renderer of a run.
pub(crate) enum RunSink {
    Console(Box<ConsoleRenderer<Stdout, Stderr>>),
    Json(JsonWriter<Stdout>),
    /// Finished lines above a live region, in a chat.
    Inline(Box<InlineScreen<Stdout>>),
}

/// Returns the size of the terminal, if there is one.
pub(crate) fn screen_size() -> Option<ScreenSize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some(ScreenSize { columns, rows })
}

impl RunSink {
    pub(crate) fn new(form: OutputForm, environment: &ProcessEnvironment) -> Self {
        match form {
            OutputForm::Text => Self::Console(Box::new(ConsoleRenderer::new(
                console_style(environment),
                io::stdout(),
                io::stderr(),
            ))),
            OutputForm::Json => Self::Json(JsonWriter::new(io::stdout())),
        }
    }

    /// Makes the screen of a chat with an editor.
    pub(crate) fn inline(environment: &ProcessEnvironment) -> Self {
        let style = console_style(environment);
        let theme = if style.colour { Theme::Terminal } else { Theme::Monochrome };
        // These cut off rows that do not fit a narrower screen; all others wrap them.
        let term = environment.var("TERM").unwrap_or_default();
        let cuts_off = term.starts_with("screen") || term == "linux";
        let resize = if cuts_off { ResizeBehavior::Truncate } else { ResizeBehavior::Wrap };
        let size = screen_size().unwrap_or(ScreenSize { columns: style.width, rows: 24 });
        Self::Inline(Box::new(InlineScreen::new(io::stdout(), size, theme, resize, style)))
    }

    pub(crate) fn event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.on_event(envelope),
            Self::Console(renderer) => renderer.render(envelope),
            Self::Json(writer) => writer.event(envelope),
        }
    }

    /// Writes the buffered output. Called when no event is queued.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.flush(),
            Self::Json(writer) => writer.flush(),
            Self::Inline(screen) => screen.flush(screen_size()),
        }
    }

    pub(crate) fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.tick(now)
            }
            Self::Json(_) => Ok(()),
            Self::Inline(screen) => screen.tick(now, screen_size()),
        }
    }

    /// Shows a message that belongs to no event. JSON output omits it.
    pub(crate) fn show_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.show_message(text),
            Self::Json(_) => Ok(()),
            Self::Inline(screen) => screen.show_message(text),
        }
    }

    /// Shows a message dimly. JSON output omits it.
    fn show_dim_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.show_dim_message(text),
            Self::Json(_) => Ok(()),
            Self::Inline(screen) => screen.show_dim_message(text),
        }
    }

    /// Shows the current input line. JSON output omits it.
    fn set_input(&mut self, input: LiveInput) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.set_input(input)
            }
            Self::Json(_) | Self::Inline(_) => Ok(()),
        }
    }

    /// Shows the prompt and the status line of an inline screen.
    fn set_view(&mut self, view: InputView) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.set_input(view, screen_size()),
            Self::Console(_) | Self::Json(_) => Ok(()),
        }
    }

    /// Shows what the user entered on an inline screen. Others show it while it is typed.
    fn show_entered(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.show_prompt(text),
            Self::Console(_) | Self::Json(_) => Ok(()),
        }
    }

    /// Removes the live region of an inline screen.
    fn leave(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.leave(),
            Self::Console(_) | Self::Json(_) => Ok(()),
        }
    }

    /// Draws an inline screen anew.
    fn redraw(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.redraw(),
            Self::Console(_) | Self::Json(_) => Ok(()),
        }
    }

    /// Shows a question again. JSON output, which has it already, omits it.
    fn repeat_question(&mut self, question: &Envelope) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.ask_again(question),
            Self::Json(_) => Ok(()),
            Self::Inline(screen) => screen.repeat_question(question),
        }
    }

    /// Shows the end of a run in a chat.
    fn finish_reply(&mut self, report: &RunReport, calls: RunActivity) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.finish_reply(report, calls),
            Self::Json(writer) => writer.result(report),
            Self::Inline(screen) => screen.finish_reply(report, calls),
        }
    }

    pub(crate) fn finish(&mut self, report: &RunReport) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.finish(report),
            Self::Json(writer) => writer.result(report),
            Self::Inline(screen) => screen.finish_reply(report, RunActivity::Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::Story;

    use super::*;

    /// Returns a screen whose thread receives nothing, with the other ends of its channels.
    fn idle_screen() -> (ScreenThread, mpsc::Receiver<ScreenCommand>, watch::Sender<bool>) {
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
}
