//! Driving a started agent through one prompt, and showing it.

use std::{io, sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, Envelope},
    message::Block,
    model::Models,
};
use crow_runtime::{AgentHandle, EventStream};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    AnswerDelivery, Audience, Effect, Keyboard, LineInputBuffer, PumpEnd, QuestionQueue,
    ScreenThread, Show, Signals, StartedAgent, TypedLine,
};
use crate::{
    error::CliError,
    output::{ErrorReport, ExitCode, ReportBuilder},
    render::neutralise,
};

/// How often the waiting line is drawn anew.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// How long a run may say nothing before it says that it waits.
const SILENCE: Duration = Duration::from_millis(800);
/// How long the agent may take to end after its run.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(3);

/// Runs one prompt to its end and returns how the process exits.
pub(crate) async fn drive(
    launched: StartedAgent,
    prompt: String,
    show: Show,
    models: Arc<dyn Models>,
) -> Result<ExitCode, CliError> {
    let StartedAgent { host, handle, audience, warnings } = launched;
    let events = handle.stream().ok_or_else(|| CliError::failed("the agent's events are taken"))?;
    handle
        .send_input(vec![Block::text(prompt)])
        .map_err(|error| CliError::failed(error.to_string()))?;
    for warning in warnings {
        say(&warning);
    }
    let mut driver = Driver {
        handle: handle.clone(),
        events,
        keyboard: keyboard(audience)?,
        typing: LineInputBuffer::default(),
        questions: QuestionQueue::default(),
        report: ReportBuilder::new(),
        screen: ScreenThread::start(show.sink),
        signals: Signals::new()?,
        silence: show.waits_silently.then(|| Instant::now() + SILENCE),
        awaits_tools: false,
        interrupts: 0,
        failed: false,
        ended: false,
    };
    if driver.follow(&handle).await.is_none() {
        return Ok(ExitCode::Interrupted);
    }
    learn_prices(&mut driver.report, &*models).await;
    let exit = driver.finish().await;
    host.runtime().shutdown_all(SHUTDOWN).await;
    Ok(exit)
}

/// Looks up what the calls of a run cost.
pub(crate) async fn learn_prices(report: &mut ReportBuilder, models: &dyn Models) {
    for model in report.models() {
        if let Some(price) = models.price(&model).await {
            report.set_price(model, price);
        }
    }
}

fn keyboard(audience: Audience) -> Result<Option<Keyboard>, CliError> {
    match audience {
        Audience::Nobody => Ok(None),
        Audience::Person => Keyboard::new()
            .map(Some)
            .map_err(|error| CliError::failed(format!("the terminal cannot be read: {error}"))),
    }
}

/// Says something to the person at the terminal that belongs to no event.
#[expect(clippy::print_stderr, reason = "the binary speaks to people")]
pub(crate) fn say(text: &str) {
    eprintln!("crow-agent: {}", neutralise(text));
}

struct Driver {
    handle: AgentHandle,
    events: EventStream,
    /// Where answers come from, if somebody is there.
    keyboard: Option<Keyboard>,
    typing: LineInputBuffer,
    questions: QuestionQueue,
    report: ReportBuilder,
    screen: ScreenThread,
    signals: Signals,
    /// When it is said that the model is waited for, unless it says something before.
    silence: Option<Instant>,
    /// Whether tools are waited for, and the model afterwards.
    awaits_tools: bool,
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
                _ = self.signals.next() => {
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
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    // A reader that went away ends the run: nobody would see its end.
                    PumpEnd::Failed => {
                        self.failed = true;
                        handle.interrupt();
                    }
                },
                typed = answers(self.keyboard.as_ref()), if self.questions.is_open() => self.take_typed(typed),
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

    /// Keeps count of whether it was said what is waited for. While tools are waited for the model was not asked yet: its turn
    /// comes with the next word of the agent.
    fn on_waiting(&mut self, event: &AgentEvent) {
        if matches!(event, AgentEvent::ToolsWait { .. }) {
            self.awaits_tools = self.silence.take().is_some();
        } else if std::mem::take(&mut self.awaits_tools) {
            self.silence = Some(Instant::now() + SILENCE);
        }
        if is_a_word(event) {
            self.silence = None;
        }
    }

    /// Takes an event and those that wait behind it.
    fn take(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.report.on_event(&event);
            self.on_waiting(&event.event);
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
                _ = self.signals.next() => {
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
        if self.keyboard.is_some() && self.questions.on_event(event) == Effect::Closed {
            self.screen.push_prompt("\n".to_owned());
        }
    }

    /// Asks the next question when everything before it is on the screen.
    fn ask_next(&mut self) {
        if self.screen.is_idle()
            && let Some(question) = self.questions.open_next()
        {
            let prompt = question.choices();
            self.ask(prompt);
        }
    }

    fn ask(&mut self, prompt: String) {
        // What was typed before the question was not meant for it. A terminal that is gone has nothing to forget.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        self.typing.replace(String::new());
        self.screen.push_prompt(prompt);
    }

    fn take_typed(&mut self, bytes: io::Result<Vec<u8>>) {
        let answered = match bytes {
            // The end of input is a no.
            Ok(bytes) if bytes.is_empty() => self.questions.refuse(),
            Ok(bytes) => {
                return self.typing.push(&bytes).into_iter().for_each(|typed| self.answer(typed));
            }
            Err(error) => self.questions.give_up(format!("the terminal cannot be read: {error}")),
        };
        self.send(answered);
    }

    fn send(&self, answered: Option<AnswerDelivery>) {
        if let Some(answered) = answered {
            // The question may have been withdrawn by a cancel.
            drop(answered.send(&self.handle));
        }
    }

    fn answer(&mut self, typed: TypedLine) {
        let answered = match typed {
            TypedLine::Line(line) => self.questions.answer(&line),
            TypedLine::EndOfInput => self.questions.refuse(),
            // The terminal itself stops the process.
            TypedLine::Suspend | TypedLine::Redraw => return,
        };
        if answered.is_some() {
            return self.send(answered);
        }
        if let Some(question) = self.questions.open() {
            let prompt = question.choices();
            say(&question.not_understood());
            self.ask(prompt);
        }
    }
}

/// Whether the run of the root is over.
pub(crate) fn is_end(envelope: &Envelope) -> bool {
    matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.is_root()
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

async fn answers(keyboard: Option<&Keyboard>) -> io::Result<Vec<u8>> {
    match keyboard {
        Some(keyboard) => keyboard.read().await,
        None => std::future::pending().await,
    }
}
