//! Driving a started agent through one prompt, and showing it.

use std::{
    collections::VecDeque,
    io::{self, BufRead as _},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope},
    ids::RequestId,
    message::Block,
    model::Models,
    permission::GrantOffer,
};
use crow_runtime::{AgentHandle, EventStream};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    Audience, Launched, Sink,
    answerer::{choices, parse_answer},
    screen::Screen,
};
use crate::{
    CliError,
    output::{ErrorReport, ExitCode, ReportBuilder},
};

/// How often the waiting line is drawn anew.
const TICK: Duration = Duration::from_millis(100);
/// How long a run may say nothing before it says that it waits.
const SILENCE: Duration = Duration::from_millis(800);
/// How long the agent may take to end after its run.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// Runs one prompt to its end and returns how the process exits.
pub(crate) async fn drive(
    launched: Launched,
    prompt: String,
    sink: Sink,
    models: Arc<dyn Models>,
) -> Result<ExitCode, CliError> {
    let Launched { host, handle, audience, warning, waits_silently } = launched;
    let events = handle.stream().ok_or_else(|| CliError::failed("the agent's events are taken"))?;
    handle
        .send_input(vec![Block::text(prompt)])
        .map_err(|error| CliError::failed(error.to_string()))?;
    if let Some(warning) = warning {
        say(&warning);
    }
    let mut driver = Driver {
        handle: handle.clone(),
        events,
        audience,
        questions: VecDeque::new(),
        open: None,
        report: ReportBuilder::new(),
        screen: Screen::start(sink),
        signals: Signals::new()?,
        silence: waits_silently.then(|| Instant::now() + SILENCE),
        interrupts: 0,
        failed: false,
        ended: false,
    };
    if driver.follow(&handle).await.is_none() {
        return Ok(ExitCode::Interrupted);
    }
    for model in driver.report.models() {
        if let Some(price) = models.price(&model).await {
            driver.report.set_price(model, price);
        }
    }
    let exit = driver.finish().await;
    host.runtime().shutdown_all(SHUTDOWN).await;
    Ok(exit)
}

/// Says something to the person at the terminal that belongs to no event.
#[expect(clippy::print_stderr, reason = "the binary speaks to people")]
pub(crate) fn say(text: &str) {
    eprintln!("crow-agent: {text}");
}

struct Driver {
    handle: AgentHandle,
    events: EventStream,
    audience: Audience,
    /// The questions that wait for the person at the terminal.
    questions: VecDeque<Question>,
    /// The question that the person is looking at, and the line that is being typed.
    open: Option<(Question, JoinHandle<io::Result<String>>)>,
    report: ReportBuilder,
    screen: Screen,
    signals: Signals,
    /// When it is said that the model is waited for, unless it says something before.
    silence: Option<Instant>,
    interrupts: u32,
    /// Whether the output cannot be written any more.
    failed: bool,
    ended: bool,
}

impl Driver {
    /// Shows events until the run ends. Returns none if the user would not wait for that.
    async fn follow(&mut self, handle: &AgentHandle) -> Option<()> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.ended {
            self.ask_next();
            let has_room = self.screen.has_room();
            tokio::select! {
                biased;
                () = self.signals.next() => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        return None;
                    }
                    handle.interrupt();
                }
                event = self.events.next(), if has_room => match event {
                    Some(event) => self.take(event),
                    None => return Some(()),
                },
                // A reader that went away ends the run: nobody would see its end.
                () = self.screen.pump() => {
                    self.failed = true;
                    handle.interrupt();
                }
                line = typed(&mut self.open) => self.answer(line),
                _ = ticks.tick() => {
                    self.screen.tick(Timestamp::now());
                    self.break_silence(handle);
                }
            }
        }
        Some(())
    }

    /// Says what is waited for when nothing else has been said for a while: an address that nobody answers at looks like a
    /// model that thinks.
    fn break_silence(&mut self, handle: &AgentHandle) {
        if self.silence.is_some_and(|until| Instant::now() >= until) {
            self.silence = None;
            say(&format!("waiting for {}", handle.metadata().model_ref()));
        }
    }

    /// Takes an event and those that wait behind it.
    fn take(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.report.on_event(&event);
            if is_a_word(&event.event) {
                self.silence = None;
            }
            self.ended |= is_end(&event);
            self.on_question(&event.event);
            self.screen.push(event);
            next =
                if self.screen.has_room() && !self.ended { self.events.try_next() } else { None };
        }
    }

    /// Shows the result. A second signal ends the wait for a reader that does not read.
    async fn finish(mut self) -> ExitCode {
        if self.interrupts > 0 {
            self.report.on_interrupt();
        } else if self.failed {
            let code = ExitCode::Failed;
            self.report.on_failure(code, ErrorReport::new(code, "the output cannot be written"));
        }
        let report = self.report.report();
        let exit = report.code();
        let shown = self.screen.finish(report);
        tokio::pin!(shown);
        loop {
            tokio::select! {
                biased;
                written = &mut shown => return match written {
                    Ok(()) => exit,
                    Err(error) => {
                        say(&format!("the output cannot be written: {error}"));
                        if exit == ExitCode::Done { ExitCode::Failed } else { exit }
                    }
                },
                () = self.signals.next() => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        return ExitCode::Interrupted;
                    }
                }
            }
        }
    }

    /// Keeps count of the questions that are open.
    fn on_question(&mut self, event: &AgentEvent) {
        if self.audience == Audience::Nobody {
            return;
        }
        if let AgentEvent::PermissionRequest { request_id, offers, .. } = event {
            let question = Question { id: request_id.clone(), offers: offers.clone() };
            self.questions.push_back(question);
        }
        if let AgentEvent::PermissionDecision { request_id, .. }
        | AgentEvent::PermissionWithdrawn { request_id, .. } = event
        {
            self.questions.retain(|question| question.id != *request_id);
        }
    }

    /// Asks the next question when everything before it is on the screen.
    fn ask_next(&mut self) {
        if self.open.is_none()
            && self.screen.is_idle()
            && let Some(question) = self.questions.pop_front()
        {
            self.ask(question);
        }
    }

    fn ask(&mut self, question: Question) {
        // What was typed before the question was not meant for it. A terminal that is gone has nothing to forget.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        self.screen.push_prompt(choices(&question.offers));
        self.open = Some((question, tokio::task::spawn_blocking(read_line)));
    }

    fn answer(&mut self, line: io::Result<String>) {
        let Some((question, _)) = self.open.take() else { return };
        let nobody = |hint: String| PermissionAnswer::Nobody { hint };
        let answer = match line {
            // The end of input is a no.
            Ok(line) if line.is_empty() => PermissionAnswer::Deny { feedback: None },
            Ok(line) => {
                let Some(answer) = parse_answer(&line, &question.offers) else {
                    say("answer y for yes, n for no, or n and what the model should do instead");
                    return self.ask(question);
                };
                answer
            }
            Err(error) => nobody(format!("the terminal cannot be read: {error}")),
        };
        // The question may have been withdrawn by a cancel.
        drop(self.handle.answer(&question.id, answer));
    }
}

/// A question on its way to the person at the terminal.
struct Question {
    id: RequestId,
    offers: Vec<GrantOffer>,
}

/// Whether the run of the root is over.
fn is_end(envelope: &Envelope) -> bool {
    matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.session_id == envelope.root_id
}

/// Whether an event shows that the model, or what stands for it, said something.
fn is_a_word(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::TextDelta { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::Reply { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::Error { .. }
    )
}

async fn typed(
    open: &mut Option<(Question, JoinHandle<io::Result<String>>)>,
) -> io::Result<String> {
    match open {
        Some((_, reading)) => reading.await.unwrap_or_else(|error| Err(io::Error::other(error))),
        None => std::future::pending().await,
    }
}

/// Reads a line; an empty text is the end of input.
fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// The signals that end a run, but those that whoever started the program wants to be ignored (`nohup`).
struct Signals(Vec<Signal>);

impl Signals {
    fn new() -> Result<Self, CliError> {
        let ignored = ignored_signals();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let wanted = kinds.into_iter().filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed(format!("signals cannot be received: {error}")))
        };
        wanted.map(listen).collect::<Result<_, _>>().map(Self)
    }

    async fn next(&mut self) {
        let received = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        if received.len() == 0 {
            return std::future::pending().await;
        }
        futures_util::future::select_all(received).await;
    }
}

/// Reads which signals were ignored when the program started, a bit each; none where the system does not say.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
