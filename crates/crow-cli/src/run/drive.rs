//! Driving a started agent through one prompt, and showing it.

use std::{
    io::{self, BufRead as _, Write as _},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope},
    message::Block,
    model::Models,
};
use crow_runtime::EventStream;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::{
    Launched, Sink,
    answerer::{Question, parse_answer},
};
use crate::{
    CliError,
    output::{ErrorReport, ExitCode, ReportBuilder},
};

/// How often the waiting line is drawn anew.
const TICK: Duration = Duration::from_millis(100);
/// How long the agent may take to end after its run.
const SHUTDOWN: Duration = Duration::from_secs(3);
/// How many events are shown before the screen is written.
const BATCH: usize = 512;

/// Runs one prompt to its end and returns how the process exits.
pub(crate) async fn drive(
    launched: Launched,
    prompt: String,
    mut sink: Sink,
    models: Arc<dyn Models>,
) -> Result<ExitCode, CliError> {
    let Launched { runtime, handle, questions, warning } = launched;
    let events = handle.stream().ok_or_else(|| CliError::failed("the agent's events are taken"))?;
    handle
        .send_input(vec![Block::text(prompt)])
        .map_err(|error| CliError::failed(error.to_string()))?;
    if let Some(warning) = warning {
        say(&warning);
    }
    let mut driver = Driver {
        events,
        questions,
        open: None,
        report: ReportBuilder::new(),
        signals: Signals::new()?,
        interrupts: 0,
        gone: None,
        ended: false,
    };
    let finished = driver.follow(&handle, &mut sink).await;
    for model in driver.report.models() {
        if let Some(price) = models.price(&model).await {
            driver.report.set_price(model, price);
        }
    }
    if driver.interrupts > 0 {
        driver.report.on_interrupt();
    }
    if let Some(error) = &driver.gone {
        let code = ExitCode::Failed;
        driver.report.on_failure(
            code,
            ErrorReport::new(code, format!("the output cannot be written: {error}")),
        );
    }
    let report = driver.report.report();
    let shown = sink.finish(&report);
    handle.shutdown();
    if finished.is_some() {
        runtime.shutdown_all(SHUTDOWN).await;
    }
    drop(shown);
    Ok(report.code())
}

/// Says something to the person at the terminal that belongs to no event.
#[expect(clippy::print_stderr, reason = "the binary speaks to people")]
pub(crate) fn say(text: &str) {
    eprintln!("crow-agent: {text}");
}

struct Driver {
    events: EventStream,
    questions: Option<mpsc::Receiver<Question>>,
    /// The question that the person at the terminal is looking at.
    open: Option<(Question, JoinHandle<io::Result<String>>)>,
    report: ReportBuilder,
    signals: Signals,
    interrupts: u32,
    /// Why the output cannot be written any more.
    gone: Option<io::Error>,
    ended: bool,
}

impl Driver {
    /// Shows events until the run ends. Returns none if the user would not wait for that.
    async fn follow(&mut self, handle: &crow_runtime::AgentHandle, sink: &mut Sink) -> Option<()> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.ended {
            tokio::select! {
                biased;
                () = self.signals.next() => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        return None;
                    }
                    handle.interrupt();
                }
                event = self.events.next() => match event {
                    Some(event) => self.show(handle, sink, &event),
                    None => return Some(()),
                },
                line = typed(&mut self.open) => self.answer(line),
                question = asked(&mut self.questions), if self.open.is_none() => self.ask(question),
                _ = ticks.tick() => {
                    let drawn = sink.tick(Timestamp::now());
                    self.note(handle, drawn);
                }
            }
        }
        Some(())
    }

    /// Shows an event and those that wait behind it.
    fn show(&mut self, handle: &crow_runtime::AgentHandle, sink: &mut Sink, first: &Arc<Envelope>) {
        let mut next = Some(Arc::clone(first));
        let mut shown = 0;
        while let Some(event) = next {
            self.report.on_event(&event);
            let written = sink.event(&event);
            self.note(handle, written);
            self.ended |= matches!(event.event, AgentEvent::RunEnd { .. });
            shown += 1;
            next = if shown < BATCH && !self.ended { self.events.try_next() } else { None };
        }
        let flushed = sink.flush();
        self.note(handle, flushed);
    }

    /// A reader that went away ends the run: nobody would see its end.
    fn note(&mut self, handle: &crow_runtime::AgentHandle, written: io::Result<()>) {
        if let Err(error) = written
            && self.gone.is_none()
        {
            self.gone = Some(error);
            handle.interrupt();
        }
    }

    #[expect(clippy::print_stderr, reason = "a question to the person at the terminal")]
    fn ask(&mut self, question: Question) {
        eprint!("  allow? [y]es, [n]o, or n and why: ");
        // What cannot be shown cannot be answered; reading says so.
        drop(io::stderr().flush());
        self.open = Some((question, tokio::task::spawn_blocking(read_line)));
    }

    fn answer(&mut self, line: io::Result<String>) {
        let Some((question, _)) = self.open.take() else { return };
        match line {
            Ok(line) if line.is_empty() => {
                let answer =
                    PermissionAnswer::Nobody { hint: "the terminal was closed".to_owned() };
                drop(question.answer.send(answer));
            }
            Ok(line) => match parse_answer(&line) {
                // The question may have been withdrawn by a cancel.
                Some(answer) => drop(question.answer.send(answer)),
                None => self.ask(question),
            },
            Err(error) => {
                let answer = PermissionAnswer::Nobody {
                    hint: format!("the terminal cannot be read: {error}"),
                };
                drop(question.answer.send(answer));
            }
        }
    }
}

async fn typed(
    open: &mut Option<(Question, JoinHandle<io::Result<String>>)>,
) -> io::Result<String> {
    match open {
        Some((_, reading)) => reading.await.unwrap_or_else(|error| Err(io::Error::other(error))),
        None => std::future::pending().await,
    }
}

async fn asked(questions: &mut Option<mpsc::Receiver<Question>>) -> Question {
    let question = match questions {
        Some(questions) => questions.recv().await,
        None => None,
    };
    match question {
        Some(question) => question,
        None => std::future::pending().await,
    }
}

/// Reads a line; an empty text is the end of input.
fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// The signals that end a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed(format!("signals cannot be received: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
