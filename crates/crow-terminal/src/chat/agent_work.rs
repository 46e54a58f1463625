//! The work of the agent as the chat follows it: phases of the run, its report, and text that is sent meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crow_console::{ExitCode, QuestionEffect, ReportBuilder, RunActivity, RunReport};
use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    message::{Block, UserPrompt},
};
use crow_runtime::AgentHandle;

use super::{
    ChatError,
    chat_loop::{ChatLoop, SessionRetention},
    greeting::shorten,
    pasted_images::{blocks_of, put_back_blocks},
    questions::end_question,
    user_shell::take_command_outputs,
};
use crate::{activity::BackgroundJobs, prompt_input::EnteredLine};

/// Time after a run within which the agent may start to process unread input.
const PATIENCE: Duration = Duration::from_secs(1);
/// Length of the excerpt that names a text, in characters.
const EXCERPT: usize = 40;
/// Bounds above which text entered while the agent works is echoed as an excerpt.
const MOST_ECHOED_LINES: usize = 200;
const MOST_ECHOED_BYTES: usize = 20 * 1024;

/// State of the agent and of its current run.
#[derive(Debug, Default)]
pub(super) struct AgentWork {
    pub(super) report: ReportBuilder,
    phase: WorkPhase,
    /// Number of inputs that the agent has not read yet.
    unread: usize,
    /// Last error shown on the screen.
    pub(super) error: String,
    /// Activity of the current run: calls, or text alone.
    activity: RunActivity,
    time: RunTime,
    /// Part of the budget that the current run has used, or that the last one used; `None` without a limit.
    pub(super) used_budget: Option<f64>,
    /// The jobs that run in the background.
    pub(super) jobs: BackgroundJobs,
    /// True once the user has stopped the run.
    is_stopping: bool,
    /// Question events of the current run, for showing them again.
    pub(super) requests: Vec<Arc<Envelope>>,
}

/// Time that the current run takes, or the last one took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RunTime {
    /// There was none.
    #[default]
    None,
    Since(Instant),
    Lasted(Duration),
}

/// Phase of the current run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WorkPhase {
    /// There is none.
    #[default]
    Idle,
    /// One was requested and has not begun. Text that steers it is held back: the agent would read it before the prompt.
    Requested,
    Running,
    /// The run has ended and its result is not on the screen yet. No further events are taken until it is, so that it stands
    /// below its own output.
    Ended,
    /// The result was shown at this time. Unread input starts another run.
    Shown(Instant),
}

impl AgentWork {
    /// Returns true from the start of a run until its result is shown, and while unread input may start another one.
    pub(super) fn is_busy(&self) -> bool {
        match self.phase {
            WorkPhase::Idle => false,
            WorkPhase::Requested | WorkPhase::Running | WorkPhase::Ended => true,
            WorkPhase::Shown(at) => self.unread > 0 && at.elapsed() <= PATIENCE,
        }
    }

    /// Returns true if a run was requested and has not begun.
    pub(super) fn is_requested(&self) -> bool {
        self.phase == WorkPhase::Requested
    }

    /// Updates the part of the budget that is used, until the result of the run is shown: the time after a run uses none.
    pub(super) fn update_used_budget(&mut self, agent: &AgentHandle) {
        if matches!(self.phase, WorkPhase::Running | WorkPhase::Ended) {
            self.used_budget = agent.used_budget();
        }
    }

    /// Returns true if a run has ended whose result is not shown yet.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == WorkPhase::Ended
    }

    /// Records that a run is requested, for which this number of inputs was sent.
    pub(super) fn begin(&mut self, inputs: usize) {
        self.unread = inputs;
        self.on_run_start();
        self.phase = WorkPhase::Requested;
    }

    /// Returns the time since the start of the current run, or that of the last one, in whole seconds.
    pub(super) fn run_time(&self) -> Option<Duration> {
        let time = match self.time {
            RunTime::None => return None,
            RunTime::Since(start) => start.elapsed(),
            RunTime::Lasted(time) => time,
        };
        Some(Duration::from_secs(time.as_secs()))
    }

    fn on_run_start(&mut self) {
        (self.phase, self.activity) = (WorkPhase::Running, RunActivity::None);
        self.time = RunTime::Since(Instant::now());
        self.is_stopping = false;
    }

    /// Updates phase and number of unread inputs from an event of the root session.
    fn on_progress(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::UserInput {
                source: InputSource::Prompt | InputSource::Steering, ..
            } => self.unread = self.unread.saturating_sub(1),
            AgentEvent::RunStart { .. } => self.on_run_start(),
            AgentEvent::RunEnd { .. } => {
                self.phase = WorkPhase::Ended;
                if let RunTime::Since(start) = self.time {
                    self.time = RunTime::Lasted(start.elapsed());
                }
            }
            _ => {}
        }
    }

    /// Returns the report of the run that has ended, as a chat shows it.
    fn take_report(&mut self) -> (RunReport, RunActivity) {
        let mut report = self.report.report();
        if report.code() == ExitCode::Interrupted {
            // The user interrupted it, so no error is shown.
            report.error = None;
        }
        if report.assessment.as_ref().is_some_and(|assessment| assessment.is_question) {
            // In a chat a question is an ordinary end: the user answers it with the next prompt.
            report.exit_code = ExitCode::Done.number();
            report.error = None;
        }
        self.requests.clear();
        self.phase = WorkPhase::Shown(Instant::now());
        (report, self.activity)
    }
}

impl ChatLoop {
    /// Handles an event and those that are queued behind it, as far as the screen has room.
    pub(super) fn on_events(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.on_event(event);
            let may_continue = self.screen.has_room() && !self.work.has_ended();
            next = if may_continue { self.events.try_next() } else { None };
        }
    }

    fn on_event(&mut self, event: Arc<Envelope>) {
        self.work.report.on_event(&event);
        self.work.jobs.on_event(&event);
        if self.questions.on_event(&event.event) == QuestionEffect::Closed {
            end_question(self);
        }
        match &event.event {
            AgentEvent::PermissionRequest { .. } | AgentEvent::QuestionAsked { .. } => {
                self.work.requests.push(Arc::clone(&event));
            }
            AgentEvent::Error { error, .. } => self.work.error.clone_from(error),
            AgentEvent::CallEnd { denial: None, .. } => self.work.activity = RunActivity::Some,
            AgentEvent::Reply { .. } => self.is_status_due = true,
            _ => {}
        }
        if event.is_root() {
            self.work.on_progress(&event.event);
        }
        // The greeting shows these facts already.
        if !matches!(event.event, AgentEvent::SessionStart { .. }) {
            self.leave_line_prompt();
            self.screen.push(event);
        }
    }

    /// Sends input to the agent, which starts a run.
    ///
    /// # Errors
    /// Fails if the agent takes no input any more.
    pub(super) fn send_prompt(&mut self, mut prompt: UserPrompt) -> Result<(), ChatError> {
        prompt.content.splice(0..0, take_command_outputs(self));
        self.retention = SessionRetention::Yes;
        let sent = self.handle.send_prompt(prompt);
        sent.map_err(|error| ChatError::AgentEnded {
            message: error.to_string(),
            is_shown: false,
        })?;
        self.work.begin(1);
        Ok(())
    }

    /// Shows the result of a run that has ended.
    pub(super) async fn show_end(&mut self) {
        for model in self.work.report.models() {
            if let Some(price) = self.models.price(&model).await {
                self.work.report.set_price(model, price);
            }
        }
        self.work.update_used_budget(&self.handle);
        let (report, activity) = self.work.take_report();
        self.screen.push_action(move |screen| screen.finish_reply(&report, activity));
        self.interrupts.reset();
        self.is_status_due = true;
    }

    /// Interrupts the agent. Input that it has not read comes back to the prompt.
    pub(super) fn stop_agent(&mut self) {
        if std::mem::replace(&mut self.work.is_stopping, true) {
            return;
        }
        self.handle.interrupt();
        let suffix = if self.take_back_steering() {
            "; unread input is back on your input line"
        } else {
            ""
        };
        self.say(format!("stopping{suffix}; ctrl-c again leaves"));
    }

    /// Sends text to the working agent. If it is refused, the text is put back on the line.
    pub(super) fn steer(&mut self, lines: &mut Vec<EnteredLine>) {
        let line = EnteredLine::join(std::mem::take(lines));
        if line.text.trim().is_empty() {
            return;
        }
        self.interrupts.reset();
        let outputs = take_command_outputs(self);
        let blocks = blocks_of(self, &line);
        match self.handle.steer([outputs.clone(), blocks.clone()].concat()) {
            Ok(()) => {
                self.work.unread += 1;
                self.retention = SessionRetention::Yes;
                self.echo(line.shown.trim());
            }
            Err(error) => {
                let first = excerpt(line.text.trim());
                self.say(format!("error: not sent, back on your input line: {first}: {error}"));
                if !outputs.is_empty() {
                    self.context_of_next_prompt.push(Block::text_of(&outputs));
                }
                put_back_blocks(self, blocks);
            }
        }
    }

    /// Moves unread input of the agent back to the input line. Returns true if there was any.
    fn take_back_steering(&mut self) -> bool {
        let inputs = self.handle.take_back_steering();
        self.work.unread = self.work.unread.saturating_sub(inputs.len());
        if inputs.is_empty() {
            return false;
        }
        // Each comes before the ones after it.
        for blocks in inputs.into_iter().rev() {
            put_back_blocks(self, blocks);
        }
        self.show_input();
        true
    }

    /// Shows a text that was entered, as an excerpt if it is very long. On plain lines the terminal shows it itself.
    pub(super) fn echo(&mut self, text: &str) {
        let lines = text.lines().count();
        let shown = if lines > MOST_ECHOED_LINES {
            format!("{} [{lines} lines]", excerpt(text))
        } else if text.len() > MOST_ECHOED_BYTES {
            format!("{} [{} kB]", excerpt(text), text.len() / 1024)
        } else {
            text.to_owned()
        };
        self.screen.push_action(move |screen| screen.show_entered(&shown));
    }
}

/// Returns the beginning of a text, in quotes.
fn excerpt(text: &str) -> String {
    format!("“{}”", shorten(text, EXCERPT))
}
