//! [`AgentConsole`]: shows the runs of an agent, and asks the person at the terminal about its calls.

use std::{
    collections::VecDeque,
    io::{self, Stderr, Stdout, Write},
    time::Duration,
};

use crow_core::{
    event::{AgentEvent, Envelope},
    message::Block,
};
use crow_runtime::{AgentHandle, EventStream, HandleError};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    questions::{AnswerDelivery, QuestionEffect, QuestionQueue},
    render::{ConsoleRenderer, ConsoleStyle},
    report::{ReportBuilder, RunReport},
    typing::{Keyboard, LineInputBuffer, TypedLine},
};

/// Interval at which the waiting line is redrawn.
const TICK: Duration = Duration::from_millis(100);

/// Error of an [`AgentConsole`].
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    /// Another reader has taken the agent's events.
    #[error("the agent's events are already in use")]
    EventsInUse,
    /// The agent takes no input.
    #[error(transparent)]
    Input(#[from] HandleError),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
}

impl From<io::Error> for ConsoleError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// A console for an agent: sends it prompts, shows its runs on two streams, and asks about its calls.
///
/// The agent's runtime must leave questions to the holder of the handle, with
/// [`HandleAnswerer`](crow_runtime::HandleAnswerer). Answers are typed at the terminal or come through a pipe, a line for
/// each question; without either every question is refused, and the agent learns why. The console handles no signals: a program that wants ctrl-c to interrupt a run
/// calls [`AgentHandle::interrupt`] while it waits for [`run`](Self::run).
#[derive(Debug)]
pub struct AgentConsole<O, E> {
    handle: AgentHandle,
    events: EventStream,
    renderer: ConsoleRenderer<O, E>,
    report: ReportBuilder,
    questions: QuestionQueue,
    /// Source of answers; `None` if no one can answer.
    keyboard: Option<Keyboard>,
    typing: LineInputBuffer,
    /// Complete lines that no question has taken yet.
    lines: VecDeque<TypedLine>,
    /// True if the run of the root session has ended.
    ended: bool,
}

impl AgentConsole<Stdout, Stderr> {
    /// Creates a console on the standard streams. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Fails if the agent's events are read elsewhere.
    pub fn new(handle: AgentHandle, style: ConsoleStyle) -> Result<Self, ConsoleError> {
        let renderer = ConsoleRenderer::new(style, io::stdout(), io::stderr());
        // A file or a closed input cannot be waited for: then the questions are refused.
        Self::with_renderer(handle, renderer, Keyboard::new().ok())
    }
}

impl<O: Write, E: Write> AgentConsole<O, E> {
    /// Creates a console that shows runs with `renderer` and takes answers from `keyboard`; without one, all questions
    /// are refused.
    ///
    /// # Errors
    /// Fails if the agent's events are read elsewhere.
    pub fn with_renderer(
        handle: AgentHandle,
        renderer: ConsoleRenderer<O, E>,
        keyboard: Option<Keyboard>,
    ) -> Result<Self, ConsoleError> {
        let events = handle.stream().ok_or(ConsoleError::EventsInUse)?;
        let hints = renderer.style.hints;
        Ok(Self {
            handle,
            events,
            renderer,
            report: ReportBuilder::new().with_hints(hints),
            questions: QuestionQueue::default(),
            keyboard,
            typing: LineInputBuffer::default(),
            lines: VecDeque::new(),
            ended: false,
        })
    }

    /// Sends a prompt, which starts a run. [`run`](Self::run) shows it.
    ///
    /// # Errors
    /// Fails if the agent has ended or its queue is full.
    pub fn send_input(&self, prompt: impl Into<String>) -> Result<(), ConsoleError> {
        self.handle.send_input(vec![Block::text(prompt)])?;
        Ok(())
    }

    /// Shows events and asks questions until the run of the root session ends, or the agent. Returns the report.
    ///
    /// # Errors
    /// Fails if the output cannot be written. The run goes on then.
    pub async fn run(&mut self) -> Result<RunReport, ConsoleError> {
        self.ended = false;
        while !self.ended {
            self.advance().await?;
        }
        let report = self.report.report();
        self.renderer.finish(&report)?;
        Ok(report)
    }

    /// Shows the question in an event, asks the person, and delivers the answer. Returns when no question is open any
    /// more, because all are answered or withdrawn, or when the run ends. [`run`](Self::run) does the same.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub async fn handle_permission_request(
        &mut self,
        request: &Envelope,
    ) -> Result<(), ConsoleError> {
        self.show(request)?;
        self.ask_next()?;
        while self.questions.is_open() && !self.ended {
            self.advance().await?;
        }
        Ok(())
    }

    /// Waits for an event, typed input or the next tick, and handles it.
    async fn advance(&mut self) -> Result<(), ConsoleError> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate.
        ticks.tick().await;
        tokio::select! {
            biased;
            event = self.events.next() => {
                let mut next = event;
                self.ended = next.is_none();
                while let Some(event) = next {
                    self.show(&event)?;
                    next = if self.ended { None } else { self.events.try_next() };
                }
                self.renderer.flush()?;
                self.ask_next()
            }
            typed = typed(self.keyboard.as_ref()), if self.questions.is_open() => {
                self.take_typed(typed);
                self.ask_next()
            }
            _ = ticks.tick() => Ok(self.renderer.tick(Timestamp::now())?),
        }
    }

    fn show(&mut self, envelope: &Envelope) -> Result<(), ConsoleError> {
        self.report.on_event(envelope);
        self.renderer.render(envelope)?;
        if self.questions.on_event(&envelope.event) == QuestionEffect::Closed {
            self.renderer.show_prompt("\n")?;
        }
        self.ended |= matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.is_root();
        Ok(())
    }

    /// Asks the waiting questions, one at a time, and answers them with the lines that are there. Refuses all if no one
    /// can answer.
    fn ask_next(&mut self) -> Result<(), ConsoleError> {
        loop {
            if self.questions.is_open() {
                let Some(line) = self.lines.pop_front() else { return Ok(()) };
                self.answer(&line)?;
                continue;
            }
            let Some(question) = self.questions.open_next() else { return Ok(()) };
            let prompt = question.choices();
            if self.keyboard.is_some() {
                self.ask(&prompt)?;
            } else {
                let hint = "there is no terminal to ask at".to_owned();
                let delivery = self.questions.close_unanswerable(hint);
                self.deliver(delivery);
            }
        }
    }

    fn ask(&mut self, prompt: &str) -> Result<(), ConsoleError> {
        // Discards keys typed before the question, which cannot be its answer. Lines of a pipe can.
        if self.is_at_terminal() {
            // Fails if the terminal is gone, which the next read finds out.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            self.typing.replace(String::new());
            self.lines.clear();
        }
        Ok(self.renderer.show_prompt(prompt)?)
    }

    fn is_at_terminal(&self) -> bool {
        self.keyboard.as_ref().is_some_and(Keyboard::is_terminal)
    }

    fn take_typed(&mut self, bytes: io::Result<Vec<u8>>) {
        let delivery = match bytes {
            // The end of input counts as a refusal.
            Ok(bytes) if bytes.is_empty() => self.questions.refuse(),
            Ok(bytes) => {
                self.lines.extend(self.typing.push(&bytes));
                None
            }
            Err(error) => {
                self.questions.close_unanswerable(format!("the terminal cannot be read: {error}"))
            }
        };
        self.deliver(delivery);
    }

    fn answer(&mut self, typed: &TypedLine) -> Result<(), ConsoleError> {
        let delivery = match typed {
            TypedLine::Line(line) => {
                if !self.is_at_terminal() {
                    self.renderer.show_prompt("\n")?;
                }
                self.questions.answer(line)
            }
            TypedLine::EndOfInput => self.questions.refuse(),
            TypedLine::Suspend | TypedLine::Redraw => return Ok(()),
        };
        if delivery.is_some() {
            self.deliver(delivery);
        } else if let Some(question) = self.questions.open() {
            let (prompt, message) = (question.choices(), question.invalid_answer_message());
            self.renderer.show_message(&message)?;
            self.ask(&prompt)?;
        }
        Ok(())
    }

    fn deliver(&self, delivery: Option<AnswerDelivery>) {
        if let Some(delivery) = delivery {
            // The question may have been withdrawn by a cancel.
            drop(delivery.send(&self.handle));
        }
    }
}

async fn typed(keyboard: Option<&Keyboard>) -> io::Result<Vec<u8>> {
    match keyboard {
        Some(keyboard) => keyboard.read().await,
        None => std::future::pending().await,
    }
}
