//! The event loop of a headless or interactive run: sends one prompt to a started agent and shows the run to its end.
//!
//! A [`Driver`] owns all sources: events of the agent, signals, the keyboard and a tick. Two rules give the loop its
//! shape. Events are taken only while the [`ScreenThread`] has room, so that its queue stays bounded with a slow
//! reader. A question is asked only when the screen is idle, so that its prompt follows the events before it.

use std::{io, sync::Arc, time::Duration};

use crow_app::Audience;
use crow_console::{
    AnswerDelivery, ErrorReport, ExitCode, Keyboard, LineInputBuffer, PumpEnd, QuestionEffect,
    QuestionQueue, ReportBuilder, ReportOutcome, RunReport, ScreenThread, Signals, TypedLine,
};
use crow_core::{
    event::{AgentEvent, Envelope},
    message::{Block, UserPrompt},
    model::Models,
};
use crow_runtime::{AgentHandle, EventStream};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::output_schema::{MOST_REPAIRS, OutputSchema, add_earlier};

use crate::{
    error::CliError,
    run::{RunDisplay, RunSink, StartedAgent, screen::write_prompt},
    terminal::{PROGRAM_HINTS, print_message},
};

/// Interval at which the waiting line is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// Time without output from the model after which the run reports that it waits.
const SILENCE: Duration = Duration::from_millis(800);
/// Time limit for the shutdown of the agents after the run.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(3);

/// What a run is to do.
pub(crate) struct RunTask {
    pub(crate) prompt: UserPrompt,
    /// The form of the answer; any text if absent.
    pub(crate) form: Option<AnswerForm>,
}

/// The form that an answer must have.
pub(crate) struct AnswerForm {
    pub(crate) schema: OutputSchema,
    /// Returns the answer as it is shown to people, and the exit code that it means.
    pub(crate) show: fn(&Value) -> (String, ExitCode),
}

/// Runs one prompt to its end and returns the exit code of the process.
pub(crate) async fn drive(
    launched: StartedAgent,
    task: RunTask,
    show: RunDisplay,
    models: Arc<dyn Models>,
) -> Result<ExitCode, CliError> {
    let StartedAgent { host, handle, audience, warnings } = launched;
    let events = event_stream(&handle)?;
    let RunTask { mut prompt, form } = task;
    if prompt.content.iter().any(|block| matches!(block, Block::Image(_))) {
        let model = handle.metadata().model_ref();
        let resolved = models.resolve(&model).await;
        if resolved.is_ok_and(|resolved| !resolved.info.abilities.vision) {
            return Err(CliError::usage(format!("--image: {model} cannot see pictures")));
        }
    }
    if let (Some(form), Some(Block::Text { text })) = (&form, prompt.content.first_mut()) {
        text.push_str(&form.schema.instruction());
    }
    handle.send_prompt(prompt).map_err(|error| CliError::failed(error.to_string()))?;
    for warning in warnings {
        print_message(&warning);
    }
    // 1) The run, shown until it ends or a second signal abandons it.
    let mut driver = Driver {
        handle: handle.clone(),
        events,
        keyboard: keyboard(audience)?,
        typing: LineInputBuffer::default(),
        questions: QuestionQueue::default(),
        report: ReportBuilder::new().with_hints(PROGRAM_HINTS),
        screen: ScreenThread::start(show.sink),
        signals: listen_to_signals()?,
        silence: show.reports_waits.then(|| Instant::now() + SILENCE),
        awaits_tools: false,
        interrupts: 0,
        failed: false,
        ended: false,
    };
    if driver.follow(&handle).await.is_none() {
        return Ok(ExitCode::Interrupted);
    }
    // 2) The form of the answer, for which the model may be asked again.
    set_prices(&mut driver.report, &*models).await;
    let mut earlier: Vec<RunReport> = Vec::new();
    let mut structured = None;
    if let Some(form) = &form {
        loop {
            let report = driver.report.report();
            if report.code() != ExitCode::Done || driver.interrupts > 0 || driver.failed {
                break;
            }
            let fault = match form.schema.check(&report.text) {
                Ok(value) => {
                    structured = Some(Ok(value));
                    break;
                }
                Err(fault) => fault,
            };
            let repairs = u32::try_from(earlier.len()).unwrap_or(u32::MAX);
            if repairs == MOST_REPAIRS {
                structured = Some(Err(fault));
                break;
            }
            print_message("the answer does not fit the schema; the model is asked again");
            let prompt = vec![Block::text(OutputSchema::repair_prompt(&fault))];
            handle.send_input(prompt).map_err(|error| CliError::failed(error.to_string()))?;
            earlier.push(report);
            driver.ended = false;
            if driver.follow(&handle).await.is_none() {
                return Ok(ExitCode::Interrupted);
            }
            set_prices(&mut driver.report, &*models).await;
        }
    }
    // 3) The report, which needs the prices, and the shutdown of the agents.
    let change = move |report: &mut RunReport| {
        earlier.iter().rev().for_each(|earlier| add_earlier(report, earlier));
        match (structured, form) {
            (Some(Ok(value)), Some(form)) => {
                let (text, code) = (form.show)(&value);
                (report.text, report.structured_output) = (text, Some(value));
                report.exit_code = code.number();
            }
            (Some(Err(fault)), _) => {
                let message = format!("the answer does not fit the schema: {fault}");
                report.outcome = ReportOutcome::Failed;
                report.exit_code = ExitCode::Failed.number();
                report.error = Some(ErrorReport::new(ExitCode::Failed, message));
            }
            (Some(Ok(_)) | None, _) => {}
        }
    };
    let exit = driver.finish(change).await;
    if let Some(message) = host.shut_down(SHUTDOWN).await {
        print_message(&message);
    }
    Ok(exit)
}

/// Returns the events of an agent, which only one reader gets.
fn event_stream(handle: &AgentHandle) -> Result<EventStream, CliError> {
    handle.stream().ok_or_else(|| CliError::failed("the agent's events are already in use"))
}

/// Looks up the prices of the models that the run used and sets them in the report.
async fn set_prices(report: &mut ReportBuilder, models: &dyn Models) {
    for model in report.models() {
        if let Some(price) = models.price(&model).await {
            report.set_price(model, price);
        }
    }
}

/// Returns listeners for the signals that end the program.
pub(crate) fn listen_to_signals() -> Result<Signals, CliError> {
    Signals::new().map_err(|error| CliError::failed(error.to_string()))
}

fn keyboard(audience: Audience) -> Result<Option<Keyboard>, CliError> {
    match audience {
        Audience::Unattended => Ok(None),
        Audience::Person => Keyboard::new()
            .map(Some)
            .map_err(|error| CliError::failed(format!("the terminal cannot be read: {error}"))),
    }
}

struct Driver {
    handle: AgentHandle,
    events: EventStream,
    /// The source of answers; `None` if no person is at the terminal.
    keyboard: Option<Keyboard>,
    typing: LineInputBuffer,
    questions: QuestionQueue,
    report: ReportBuilder,
    screen: ScreenThread<RunSink>,
    signals: Signals,
    /// Time at which the run reports that it waits for the model, unless the model replies before.
    silence: Option<Instant>,
    /// True if the run waits for tools and has not yet reported that it waits for the model.
    awaits_tools: bool,
    interrupts: u32,
    /// True if the output can no longer be written.
    failed: bool,
    ended: bool,
}

impl Driver {
    /// Shows events until the run ends. Returns `None` if a second signal arrives before that.
    async fn follow(&mut self, handle: &AgentHandle) -> Option<()> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.ended {
            self.ask_next();
            let has_room = self.screen.has_room();
            tokio::select! {
                biased;
                // The first signal interrupts the run, the second one abandons it.
                _ = self.signals.next() => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        return None;
                    }
                    handle.interrupt();
                }
                event = self.events.next(), if has_room => match event {
                    Some(event) => self.on_event(event),
                    None => return Some(()),
                },
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    // A closed output ends the run: no one would see its result.
                    PumpEnd::Failed => {
                        self.failed = true;
                        handle.interrupt();
                    }
                },
                input = answers(self.keyboard.as_ref()), if self.questions.is_open() => self.take_typed(input),
                _ = ticks.tick() => {
                    self.screen.tick(Timestamp::now());
                    self.break_silence(handle);
                }
            }
        }
        Some(())
    }

    /// Reports once, after [`SILENCE`], which model the run waits for: an unreachable address looks like a thinking
    /// model.
    fn break_silence(&mut self, handle: &AgentHandle) {
        if self.silence.is_some_and(|until| Instant::now() >= until) {
            self.silence = None;
            print_message(&format!("waiting for {}", handle.metadata().model_ref()));
        }
    }

    /// Updates the deadline of the waiting message. A wait for tools suspends it, since the model has not been called
    /// yet; the next event of the agent starts it anew.
    fn on_waiting(&mut self, event: &AgentEvent) {
        if matches!(event, AgentEvent::ToolsWait { .. }) {
            self.awaits_tools = self.silence.take().is_some();
        } else if std::mem::take(&mut self.awaits_tools) {
            self.silence = Some(Instant::now() + SILENCE);
        }
        if is_model_output(event) {
            self.silence = None;
        }
    }

    /// Handles an event and those queued behind it, while the screen has room.
    fn on_event(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.report.on_event(&event);
            self.on_waiting(&event.event);
            self.ended |= is_root_run_end(&event);
            self.on_question(&event.event);
            self.screen.push(event);
            next =
                if self.screen.has_room() && !self.ended { self.events.try_next() } else { None };
        }
    }

    /// Shows the result and returns the exit code. A second signal ends the wait for a reader that does not read.
    async fn finish(mut self, change: impl FnOnce(&mut RunReport)) -> ExitCode {
        if self.interrupts > 0 {
            self.report.on_interrupt();
        } else if self.failed {
            let code = ExitCode::Failed;
            self.report.on_failure(code, ErrorReport::new(code, "the output cannot be written"));
        }
        let mut report = self.report.report();
        change(&mut report);
        let exit = report.code();
        let writing = self.screen.finish(move |sink| sink.finish(&report));
        tokio::pin!(writing);
        loop {
            tokio::select! {
                biased;
                written = &mut writing => return match written {
                    Ok(()) => exit,
                    Err(error) => {
                        print_message(&format!("the output cannot be written: {error}"));
                        match exit {
                            ExitCode::Done | ExitCode::Findings => ExitCode::Failed,
                            other => other,
                        }
                    }
                },
                _ = self.signals.next() => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        return ExitCode::Interrupted;
                    }
                }
            }
        }
    }

    /// Updates the question queue; ends the prompt line if the open question was closed.
    fn on_question(&mut self, event: &AgentEvent) {
        if self.keyboard.is_some() && self.questions.on_event(event) == QuestionEffect::Closed {
            self.screen.push_action(|_| write_prompt("\n"));
        }
    }

    /// Asks the next question if all previous output has been handed to the screen.
    fn ask_next(&mut self) {
        if self.screen.is_idle()
            && let Some(question) = self.questions.open_next()
        {
            let prompt = question.choices();
            self.ask(prompt);
        }
    }

    fn ask(&mut self, prompt: String) {
        // Input typed before the question was not meant for it. The error of a closed terminal is ignored: it has no
        // input.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        self.typing.replace(String::new());
        self.screen.push_action(move |_| write_prompt(&prompt));
    }

    fn take_typed(&mut self, bytes: io::Result<Vec<u8>>) {
        let delivery = match bytes {
            // The end of input counts as a refusal.
            Ok(bytes) if bytes.is_empty() => self.questions.refuse(),
            Ok(bytes) => {
                return self.typing.push(&bytes).into_iter().for_each(|typed| self.answer(typed));
            }
            Err(error) => {
                self.questions.close_unanswerable(format!("the terminal cannot be read: {error}"))
            }
        };
        self.send(delivery);
    }

    fn send(&self, delivery: Option<AnswerDelivery>) {
        if let Some(delivery) = delivery {
            // The question may have been withdrawn by a cancel.
            drop(delivery.send(&self.handle));
        }
    }

    fn answer(&mut self, typed: TypedLine) {
        let delivery = match typed {
            TypedLine::Line(line) => self.questions.answer(&line),
            TypedLine::EndOfInput => self.questions.refuse(),
            // In line mode the terminal handles ctrl-z itself, and there is nothing to redraw.
            TypedLine::Suspend | TypedLine::Redraw => return,
        };
        if delivery.is_some() {
            return self.send(delivery);
        }
        if let Some(question) = self.questions.open() {
            let prompt = question.choices();
            print_message(&question.invalid_answer_message());
            self.ask(prompt);
        }
    }
}

/// Returns true if the event ends the run of the root session.
fn is_root_run_end(envelope: &Envelope) -> bool {
    matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.is_root()
}

/// Returns true if an event shows that the model, or its provider with an error, has responded.
fn is_model_output(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::TextDelta { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::Reply { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::Error { .. }
    )
}

async fn answers(keyboard: Option<&Keyboard>) -> io::Result<Vec<u8>> {
    match keyboard {
        Some(keyboard) => keyboard.read().await,
        None => std::future::pending().await,
    }
}
