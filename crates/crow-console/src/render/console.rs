//! The renderer: a state machine over events that writes lines for people; also those of a stored session.
//!
//! Three parts of the state matter:
//! - Received text: `reply` knows which bytes of the open reply have been rendered, so that repeated deltas and the
//!   final blocks add only the rest.
//! - Open block: `block` is a streamed text or reasoning without its last line end. All other output closes it first;
//!   the method `lines` does so.
//! - Candidate for the answer: with [`AnswerDestination::AtEnd`], `held` collects the text of the reply. A call, another
//!   reply or a reaction of the user or a reviewer proves that it is not the answer, and releases it to stderr.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::ReplyId,
    message::ReplyBlock,
    model::{ModelRef, Price, ProviderError},
    todo::TodoItem,
};
use jiff::Timestamp;

use super::{
    AnswerDestination, ConsoleStyle, Neutraliser, Visibility,
    calls::OpenCalls,
    end,
    live::WaitIndicator,
    neutralise,
    phrase::{self, checklist},
    screen::{OutputScreen, ScreenStream},
    style::Paint,
    wrap::{Wrapper, wrap},
};
use crate::{
    open_reply::{StreamedReplyProgress, text_of, thinking_of},
    report::{ReportBuilder, RunReport},
};

/// Name of the tool that reports completion. Text in the same reply is the answer.
const COMPLETION: &str = "task_complete";
/// Text of the waiting line while no call runs.
const THINKING: &str = "thinking";
/// Text of the waiting line after a cancel.
const STOPPING: &str = "stopping";
/// Milliseconds without a delta after which the waiting line appears during a streamed text.
const STALL_MS: i64 = 1000;

/// Renderer of events for people.
///
/// Text of the root session's agent is shown as it streams; that of other agents is shown when it is complete, with
/// their name. Stdout gets the agent's text and nothing else, see [`AnswerDestination`]; the rest goes to stderr. A write
/// error is returned at once and the buffered output is lost: the caller stops rendering.
#[derive(Debug)]
pub struct ConsoleRenderer<O, E> {
    pub(crate) style: ConsoleStyle,
    pub(super) screen: OutputScreen<O, E>,
    reply: StreamedReplyProgress,
    block: ConsoleOpenBlock,
    /// Text of the open reply that is the answer, unless a call or another reply follows it.
    held: String,
    pub(super) calls: OpenCalls,
    pub(super) waiting: Option<WaitIndicator>,
    /// Time of the last tick.
    pub(super) now: Option<Timestamp>,
    stopping: bool,
    pub(super) questions: u32,
    todos: Vec<TodoItem>,
    error: String,
}

/// The block of the open reply that is partly on the screen.
#[derive(Debug)]
enum ConsoleOpenBlock {
    None,
    Text(Neutraliser),
    Thinking(Neutraliser, Wrapper),
}

impl<O: Write, E: Write> ConsoleRenderer<O, E> {
    /// Sets when the answer is shown.
    #[must_use]
    pub fn with_answer(mut self, answer: AnswerDestination) -> Self {
        self.style.answer = answer;
        self
    }

    /// Creates a renderer that writes the answer to `out` and everything else to `err`.
    pub fn new(style: ConsoleStyle, out: O, err: E) -> Self {
        Self {
            style,
            screen: OutputScreen::new(out, err),
            reply: StreamedReplyProgress::default(),
            block: ConsoleOpenBlock::None,
            held: String::new(),
            calls: OpenCalls::default(),
            waiting: None,
            now: None,
            stopping: false,
            questions: 0,
            todos: Vec::new(),
            error: String::new(),
        }
    }

    /// Renders an event. Output is buffered until [`flush`](Self::flush), unless it is large.
    pub fn render(&mut self, envelope: &Envelope) -> io::Result<()> {
        match &envelope.event {
            AgentEvent::RunStart { .. } => self.on_run_start(envelope),
            AgentEvent::RunEnd { .. } => self.on_run_end(envelope),
            AgentEvent::TextDelta { reply_id, offset, delta } => {
                self.on_text(envelope, reply_id, *offset, delta)
            }
            AgentEvent::TextComplete { reply_id, text } => {
                self.on_text(envelope, reply_id, 0, text)
            }
            AgentEvent::ThinkingDelta { reply_id, offset, delta } => {
                self.on_thinking(envelope, reply_id, *offset, delta)
            }
            AgentEvent::ThinkingComplete { reply_id, text } => {
                self.on_thinking(envelope, reply_id, 0, text)
            }
            AgentEvent::ReplyReset { error, attempt, wait_ms, .. } => {
                self.on_reset(envelope, error, (*attempt, *wait_ms))
            }
            AgentEvent::Reply { reply_id, blocks, .. } => self.on_reply(envelope, reply_id, blocks),
            AgentEvent::CallPending { call_id, tool, title, preview, .. } => {
                self.on_call_pending(envelope, (call_id, tool), title, preview.as_ref())
            }
            AgentEvent::CallStart { call_id, tool, title, .. } => {
                self.on_call_start(envelope, (call_id, tool), title)
            }
            AgentEvent::CallProgress { call_id, output } => {
                if let Some(running) = self.calls.running(envelope, call_id) {
                    running.on_output(output);
                }
                Ok(())
            }
            AgentEvent::CallEnd { call_id, tool, result, denial, .. } => {
                self.on_call_end(envelope, (call_id, tool), result, denial.as_ref())
            }
            AgentEvent::PermissionRequest { call_id, title, subject, reason, .. } => {
                self.questions += 1;
                self.show_question(envelope, call_id, (title, subject, reason))
            }
            AgentEvent::QuestionAsked { question, .. } => {
                self.questions += 1;
                self.show_user_question(envelope, question)
            }
            AgentEvent::PermissionDecision { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. } => self.on_question_closed(envelope),
            AgentEvent::Cancelling => {
                self.on_cancelling(envelope);
                Ok(())
            }
            AgentEvent::Plan { items } => self.on_plan(envelope, items),
            AgentEvent::Error { error, .. } => self.on_error(envelope, error),
            // A reaction follows: the previous text is not the answer, and is released before the reaction.
            AgentEvent::RoundStart
            | AgentEvent::UserInput { .. }
            | AgentEvent::Handoff { .. }
            | AgentEvent::CoagentStart { .. } => self.on_reaction(envelope),
            AgentEvent::SessionStart { .. }
            | AgentEvent::RoundEnd
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::ModelWait { .. }
            | AgentEvent::ToolsWait { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::Instructions { .. }
            | AgentEvent::FilesRestored { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. }
            | AgentEvent::Checks { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::TaskComplete { .. }
            | AgentEvent::StateChange { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::Compaction { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Cancelled => self.lines(&phrase::event(&self.style, envelope)),
        }
    }

    /// Writes the buffered output. The caller calls it when no event is queued.
    pub fn flush(&mut self) -> io::Result<()> {
        self.screen.flush()
    }

    /// Shows the end of the run: the answer if it is not on the screen yet, the error, and the last line.
    pub fn finish(&mut self, report: &RunReport) -> io::Result<()> {
        self.end_with(report, &end::end_line(&self.style, report))
    }

    pub(super) fn end_with(&mut self, report: &RunReport, last: &str) -> io::Result<()> {
        // 1) The answer, from the report, unless it was streamed.
        self.close_block()?;
        self.held.clear();
        let answered = match self.style.answer {
            AnswerDestination::Streamed => !self.reply.text.is_empty(),
            AnswerDestination::AtEnd => false,
            AnswerDestination::Separate => true,
        };
        if !answered && !report.text.is_empty() {
            self.screen.end_line()?;
            self.screen.write(ScreenStream::Out, &neutralise(&report.text))?;
            self.screen.end_line()?;
        }
        // 2) Summary, error and last line.
        self.lines(&end::summary(&self.style, report))?;
        if let Some(error) = &report.error {
            self.lines(&end::error_lines(&self.style, error, &self.error))?;
        }
        self.lines(last)?;
        self.screen.clear_status()?;
        self.screen.flush()
    }

    #[expect(clippy::unnecessary_wraps, reason = "as all that shows an event")]
    fn on_run_start(&mut self, envelope: &Envelope) -> io::Result<()> {
        if envelope.is_root() {
            self.calls.clear();
            self.error.clear();
            self.questions = 0;
            self.stopping = false;
            self.reply = StreamedReplyProgress::default();
            self.waiting = Some(WaitIndicator::new(envelope.time, THINKING));
        }
        Ok(())
    }

    /// Switches the waiting line to [`STOPPING`].
    fn on_cancelling(&mut self, envelope: &Envelope) {
        if envelope.is_root() && self.waiting.is_some() {
            self.waiting = Some(WaitIndicator::new(envelope.time, STOPPING));
            self.stopping = true;
        }
    }

    fn on_error(&mut self, envelope: &Envelope, error: &str) -> io::Result<()> {
        error.clone_into(&mut self.error);
        self.lines(&phrase::event(&self.style, envelope))
    }

    fn on_run_end(&mut self, envelope: &Envelope) -> io::Result<()> {
        if !envelope.is_root() {
            return Ok(());
        }
        self.calls.clear();
        self.waiting = None;
        self.close_block()?;
        self.screen.clear_status()
    }

    fn on_text(
        &mut self,
        envelope: &Envelope,
        reply_id: &ReplyId,
        offset: u64,
        delta: &str,
    ) -> io::Result<()> {
        if !envelope.is_root() {
            return Ok(());
        }
        self.switch_to(reply_id)?;
        let fresh = self.reply.text.take(offset, delta);
        if fresh.is_empty() {
            return Ok(());
        }
        restart_wait(&mut self.waiting, envelope);
        if self.style.answer == AnswerDestination::Separate {
            return Ok(());
        }
        // With stdout piped the text waits: only the end of the run decides whether it is the answer.
        if self.style.answer == AnswerDestination::AtEnd {
            self.held.push_str(fresh);
            return Ok(());
        }
        if !matches!(self.block, ConsoleOpenBlock::Text(_)) {
            self.close_block()?;
            self.block = ConsoleOpenBlock::Text(Neutraliser::default());
        }
        let mut text = String::with_capacity(fresh.len());
        if let ConsoleOpenBlock::Text(neutraliser) = &mut self.block {
            neutraliser.push(fresh, &mut text);
        }
        self.screen.write(ScreenStream::Out, &text)
    }

    fn on_thinking(
        &mut self,
        envelope: &Envelope,
        reply_id: &ReplyId,
        offset: u64,
        delta: &str,
    ) -> io::Result<()> {
        if !envelope.is_root() {
            return Ok(());
        }
        self.switch_to(reply_id)?;
        let fresh = self.reply.thinking.take(offset, delta);
        if fresh.is_empty() || self.style.thinking == Visibility::Hide {
            return Ok(());
        }
        if !matches!(self.block, ConsoleOpenBlock::Thinking(..)) {
            self.close_block()?;
            let prefix = self.style.glyphs.pick("┆ ", ": ");
            let wrapper = Wrapper::new(&self.style, Paint::Dim, prefix);
            self.block = ConsoleOpenBlock::Thinking(Neutraliser::default(), wrapper);
        }
        let mut lines = String::new();
        if let ConsoleOpenBlock::Thinking(neutraliser, wrapper) = &mut self.block {
            let mut text = String::with_capacity(fresh.len());
            neutraliser.push(fresh, &mut text);
            wrapper.push(&text, &mut lines);
        }
        self.screen.write(ScreenStream::Err, &lines)
    }

    fn on_reset(
        &mut self,
        envelope: &Envelope,
        error: &ProviderError,
        attempt_and_wait: (u32, u64),
    ) -> io::Result<()> {
        let mut suffix = "";
        if envelope.is_root() {
            if self.style.answer == AnswerDestination::Streamed && !self.reply.text.is_empty() {
                suffix = "; discard the text above";
            }
            self.held.clear();
            self.reply.reset();
            restart_wait(&mut self.waiting, envelope);
        }
        let agent = phrase::agent_prefix(&self.style, envelope);
        self.lines(&phrase::retry(&self.style, &agent, error, attempt_and_wait, suffix))
    }

    fn on_reply(
        &mut self,
        envelope: &Envelope,
        reply_id: &ReplyId,
        blocks: &[ReplyBlock],
    ) -> io::Result<()> {
        self.calls.record_calls(envelope, blocks);
        if envelope.is_root() {
            self.switch_to(reply_id)?;
            self.on_thinking(envelope, reply_id, 0, &thinking_of(blocks))?;
            self.on_text(envelope, reply_id, 0, &text_of(blocks))?;
            restart_wait(&mut self.waiting, envelope);
            return self.close_block();
        }
        let text = neutralise(text_of(blocks).trim());
        let prefix = format!("  {}", phrase::agent_prefix(&self.style, envelope));
        self.lines(&wrap(&self.style, Paint::Plain, &prefix, &text))
    }

    fn on_plan(&mut self, envelope: &Envelope, items: &[TodoItem]) -> io::Result<()> {
        if !envelope.is_root() || self.todos == items {
            return Ok(());
        }
        self.todos = items.to_vec();
        self.lines(&checklist(&self.style, items))
    }

    /// Releases the text before a call, which is not the answer unless the call reports completion.
    pub(super) fn before_call(&mut self, envelope: &Envelope, tool: &str) -> io::Result<()> {
        if !envelope.is_root() {
            return Ok(());
        }
        self.close_block()?;
        if tool == COMPLETION { Ok(()) } else { self.release_held() }
    }

    /// Switches to another reply, which proves that held text of the previous one was not the answer.
    fn switch_to(&mut self, reply_id: &ReplyId) -> io::Result<()> {
        if !self.reply.switch_to(reply_id) {
            return Ok(());
        }
        self.close_block()?;
        self.release_held()
    }

    /// Shows an event that reacts to the text of the agent.
    fn on_reaction(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.close_block()?;
        self.release_held()?;
        self.lines(&phrase::event(&self.style, envelope))
    }

    /// Writes held text, which is not the answer, to stderr.
    fn release_held(&mut self) -> io::Result<()> {
        if self.held.trim().is_empty() {
            self.held.clear();
            return Ok(());
        }
        let text = neutralise(&std::mem::take(&mut self.held));
        self.screen.lines(&text)?;
        self.screen.end_line()
    }

    /// Writes complete lines to stderr, after closing the open block.
    pub(super) fn lines(&mut self, lines: &str) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.close_block()?;
        self.screen.lines(lines)
    }

    /// Ends the open block: writes what the neutraliser and the wrapper still buffer, and ends the line.
    fn close_block(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.block, ConsoleOpenBlock::None) {
            ConsoleOpenBlock::None => Ok(()),
            ConsoleOpenBlock::Text(mut neutraliser) => {
                let mut text = String::new();
                neutraliser.finish(&mut text);
                self.screen.write(ScreenStream::Out, &text)?;
                self.screen.end_line()
            }
            ConsoleOpenBlock::Thinking(mut neutraliser, mut wrapper) => {
                let (mut text, mut lines) = (String::new(), String::new());
                neutraliser.finish(&mut text);
                wrapper.push(&text, &mut lines);
                wrapper.finish(&mut lines);
                self.screen.write(ScreenStream::Err, &lines)
            }
        }
    }

    /// Returns the subject of the waiting line. A running call has priority over the model; while a question is open
    /// there is none.
    pub(super) fn wait_indicator(&self, now: Timestamp) -> Option<WaitIndicator> {
        if self.stopping {
            return self.waiting.clone();
        }
        if self.questions > 0 {
            return None;
        }
        if let Some(running) = self.calls.longest_running() {
            return Some(running);
        }
        let waiting = self.waiting.as_ref()?;
        let stalled = now.as_millisecond() - waiting.since.as_millisecond() >= STALL_MS;
        (stalled || matches!(self.block, ConsoleOpenBlock::None)).then(|| waiting.clone())
    }
}

/// Restarts the time of a wait at an event of the root session.
pub(super) fn restart_wait(waiting: &mut Option<WaitIndicator>, envelope: &Envelope) {
    if let Some(waiting) = waiting
        && envelope.is_root()
    {
        waiting.since = envelope.time;
    }
}

/// Renders a session as it was shown live, plus the prompts of the user, to one sink.
///
/// `log` is the events of the root session's log, or those of root and children merged by `seq`. Each run ends with its
/// usage, and its cost if `prices` has all of its models.
pub fn show_session<'a>(
    style: &ConsoleStyle,
    log: impl IntoIterator<Item = &'a Envelope>,
    prices: &[(ModelRef, Price)],
    sink: impl Write,
) -> io::Result<()> {
    let sink = RefCell::new(sink);
    let style = ConsoleStyle {
        live: false,
        answer: AnswerDestination::Streamed,
        prompts: Visibility::Show,
        ..*style
    };
    let mut renderer = ConsoleRenderer::new(style, SharedSink(&sink), SharedSink(&sink));
    let mut report = ReportBuilder::new().with_hints(style.hints);
    for (model, price) in prices {
        report.set_price(model.clone(), *price);
    }
    for envelope in log {
        report.on_event(envelope);
        renderer.render(envelope)?;
        if matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.is_root() {
            renderer.finish(&report.report())?;
        }
    }
    renderer.flush()
}

/// Writer to the common sink of the renderer's two streams.
#[derive(Debug)]
struct SharedSink<'a, W>(&'a RefCell<W>);

impl<W: Write> Write for SharedSink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
