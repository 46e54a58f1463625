//! The chat while the agent works: events go to the screen, typed text goes to the agent.
//!
//! `ChatLoop::follow` runs from one input until the agent has nothing left to do. It waits for signals, keys, events,
//! room on the screen and ticks at once. [`WorkPhase`] tracks the run: after its end no further events are taken
//! until the result is shown, so that it stands below its own output; after that, input that the agent has not read
//! (`unread`) may start another run.
//!
//! Typed text is collected in `typing`. A question takes the input line: text typed before it moves to
//! `QuestionOnScreen::before` and comes back after the answer. A question can appear while the user types words for the
//! agent. Such words must not answer it, so a line counts as an answer only if it was started some time after the question
//! appeared, or cannot be anything else.

use std::{io, sync::Arc, time::Duration};

use crow_console::{
    AnswerDelivery, ExitCode, LiveInput, QuestionEffect, ReportBuilder, RunActivity,
    TerminalQuestion,
};
use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
};
use crow_terminal::InputAction;
use futures_util::StreamExt as _;
use rustix::{
    process::{Signal, kill_current_process_group},
    termios::{QueueSelector, tcflush},
};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{
    chat_input::ChatInput,
    commands::ChatLine,
    conversation::{
        ChatEnd, ChatLoop, ChatPhase, InterruptAction, SessionRetention, failure, unwritable,
    },
    feed::{InputFeed, size_if_longer},
    greeting::shorten,
    inline_prompt::{on_tick, show_entered, show_view},
    modes::{PASTE_OFF, PASTE_ON},
    status_line::refresh_status,
};
use crate::{
    error::CliError,
    run::{PumpEnd, SignalAction, TICK, is_root_run_end, set_prices},
};

/// Time after a run within which the agent may start to process unread input.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time the process may take to stop after ctrl-z.
const STOP_WAIT: Duration = Duration::from_millis(200);

/// Length of the excerpt that names text which could not be sent, in characters.
const EXCERPT: usize = 40;

/// State of the agent and of its current run.
#[derive(Debug, Default)]
pub(super) struct AgentWork {
    report: ReportBuilder,
    phase: WorkPhase,
    /// Number of inputs that the agent has not read yet.
    unread: usize,
    /// Last error shown on the screen.
    pub(super) error: String,
    /// Activity of the current run: calls, or text alone.
    calls: RunActivity,
    /// Question events of the current run, for showing them again.
    requests: Vec<Arc<Envelope>>,
    /// Question on the screen; only used if keys arrive one by one.
    asked: Option<QuestionOnScreen>,
}

/// Bounds above which text entered while the agent works is echoed as an excerpt.
const MOST_ECHOED_LINES: usize = 200;
const MOST_ECHOED_BYTES: usize = 20 * 1024;

/// Phase of the current run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WorkPhase {
    #[default]
    Running,
    /// The run has ended and its result is not on the screen yet.
    Ended,
    /// The result was shown at this time. Unread input starts another run.
    Shown(Instant),
}

impl AgentWork {
    /// Returns true while a question is on the screen.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some()
    }
}

impl ChatLoop {
    /// Shows events and passes typed text on until the agent is done. Returns the end of the chat if the user left.
    pub(super) async fn follow(&mut self) -> Result<Option<ChatEnd>, CliError> {
        self.work.phase = WorkPhase::Running;
        self.work.unread = 1;
        self.work.calls = RunActivity::None;
        self.resume_typing();
        // Keys typed ahead of the end of the prompt come first.
        let ahead = self.feed.as_mut().map(InputFeed::take).unwrap_or_default();
        if !ahead.is_empty()
            && let Some(chat_end) = self.on_bytes(&ahead).await?
        {
            return Ok(Some(chat_end));
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_done() {
            self.ask_next();
            // No events are taken while the screen is full, or while the end of the run waits to be shown.
            let has_room = self.screen.has_room() && self.work.phase != WorkPhase::Ended;
            tokio::select! {
                biased;
                wish = self.signals.next() => if let Some(chat_end) = self.on_wish(wish) {
                    return Ok(Some(chat_end));
                },
                typed = self.keyboard.read() => {
                    let Ok(bytes) = typed else { return Ok(Some(ChatEnd::Interrupted)) };
                    if let Some(chat_end) = self.on_bytes(&bytes).await? {
                        return Ok(Some(chat_end));
                    }
                }
                event = self.events.next(), if has_room => match event {
                    Some(event) => self.on_events(event),
                    None => return Err(failure(&*self.handle.wait_for_end().await)),
                },
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    PumpEnd::Failed => return Err(unwritable()),
                },
                end = self.handle.wait_for_end(), if has_room => return Err(failure(&end)),
                _ = ticks.tick() => {
                    on_tick(self);
                    let actions = self.typing.on_pause();
                    if !actions.is_empty()
                        && let Some(chat_end) = self.on_actions(actions).await?
                    {
                        return Ok(Some(chat_end));
                    }
                }
            }
            if self.work.phase == WorkPhase::Ended {
                self.show_end().await;
            }
        }
        self.pause_typing();
        Ok(None)
    }

    /// Handles an event and those that are queued behind it, as far as the screen has room.
    pub(super) fn on_events(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.work.report.on_event(&event);
            if self.questions.on_event(&event.event) == QuestionEffect::Closed {
                self.end_question();
            }
            if matches!(
                event.event,
                AgentEvent::PermissionRequest { .. } | AgentEvent::QuestionAsked { .. }
            ) {
                self.work.requests.push(Arc::clone(&event));
            }
            if let AgentEvent::Error { error, .. } = &event.event {
                self.work.error.clone_from(error);
            }
            if matches!(event.event, AgentEvent::CallEnd { denial: None, .. }) {
                self.work.calls = RunActivity::Some;
            }
            self.on_progress(&event);
            // The greeting shows these facts already.
            if !matches!(event.event, AgentEvent::SessionStart { .. }) {
                self.screen.push(event);
            }
            let may_continue = self.screen.has_room() && self.work.phase != WorkPhase::Ended;
            next = if may_continue { self.events.try_next() } else { None };
        }
    }

    /// Updates phase and number of unread inputs from the events of the root session.
    fn on_progress(&mut self, envelope: &Envelope) {
        if !envelope.is_root() {
            return;
        }
        if let AgentEvent::UserInput { source, .. } = &envelope.event
            && matches!(source, InputSource::Prompt | InputSource::Steering)
        {
            self.work.unread = self.work.unread.saturating_sub(1);
        }
        if matches!(envelope.event, AgentEvent::RunStart { .. }) {
            self.work.phase = WorkPhase::Running;
            self.work.calls = RunActivity::None;
        }
        if is_root_run_end(envelope) {
            self.work.phase = WorkPhase::Ended;
        }
    }

    fn is_done(&self) -> bool {
        match self.work.phase {
            WorkPhase::Running | WorkPhase::Ended => false,
            WorkPhase::Shown(at) => self.work.unread == 0 || at.elapsed() > PATIENCE,
        }
    }

    /// Shows the result of a run that has ended.
    async fn show_end(&mut self) {
        set_prices(&mut self.work.report, &*self.models).await;
        let mut report = self.work.report.report();
        if report.code() == ExitCode::Interrupted {
            // The user interrupted it, so no error is shown.
            report.error = None;
        }
        if report.assessment.as_ref().is_some_and(|assessment| assessment.is_question) {
            // In a chat a question is an ordinary end: the user answers it with the next prompt.
            report.exit_code = ExitCode::Done.number();
            report.error = None;
        }
        self.work.requests.clear();
        self.screen.push_report(report, self.work.calls);
        self.interrupts.reset();
        self.work.phase = WorkPhase::Shown(Instant::now());
        refresh_status(self).await;
    }

    fn on_wish(&mut self, wish: SignalAction) -> Option<ChatEnd> {
        match wish {
            SignalAction::Interrupt => match self.interrupts.press(ChatPhase::Work) {
                InterruptAction::Leave => Some(ChatEnd::Interrupted),
                InterruptAction::Stop | InterruptAction::Warn => {
                    self.handle.interrupt();
                    let suffix = if self.take_back_words() {
                        "; unread input is back on your input line"
                    } else {
                        ""
                    };
                    self.screen.push_say(format!("stopping{suffix}; ctrl-c again leaves"));
                    None
                }
            },
            SignalAction::End => Some(ChatEnd::Interrupted),
            SignalAction::Continue => {
                self.resume_typing();
                self.ask_again();
                None
            }
        }
    }

    /// Handles typed bytes: edits the line, answers questions, runs commands and steers the agent. Returns the end of
    /// the chat if the user left.
    async fn on_bytes(&mut self, bytes: &[u8]) -> Result<Option<ChatEnd>, CliError> {
        let typed = match (bytes.is_empty(), self.modes.is_live()) {
            // Keys that arrive one by one do not end the input: an empty read means that the terminal is gone.
            (true, true) => return Ok(Some(ChatEnd::Interrupted)),
            (true, false) => vec![InputAction::EndOfInput],
            (false, _) => self.typing.push(bytes),
        };
        if let Some(asked) = &mut self.work.asked
            && (!self.typing.text().is_empty() || !typed.is_empty())
        {
            asked.began.get_or_insert_with(Instant::now);
        }
        self.show_input();
        self.on_actions(typed).await
    }

    async fn on_actions(&mut self, typed: Vec<InputAction>) -> Result<Option<ChatEnd>, CliError> {
        // Lines that arrive together are sent as one input: the queue of inputs is short.
        let mut words: Vec<String> = Vec::new();
        for typed in typed {
            match typed {
                InputAction::Interrupt | InputAction::Escape => {
                    if let Some(chat_end) = self.on_wish(SignalAction::Interrupt) {
                        return Ok(Some(chat_end));
                    }
                }
                InputAction::Suspend => {
                    if let Some(chat_end) = self.suspend().await {
                        return Ok(Some(chat_end));
                    }
                }
                InputAction::Redraw => self.ask_again(),
                InputAction::EndOfInput if self.questions.is_open() => self.refuse(),
                InputAction::EndOfInput if matches!(self.typing, ChatInput::Lines(_)) => {}
                InputAction::EndOfInput if self.work.phase == WorkPhase::Running => {
                    self.screen.push_say("the agent is working; esc stops it".to_owned());
                }
                InputAction::EndOfInput => self.ahead.push_back(InputAction::EndOfInput),
                InputAction::Line(line) if self.questions.is_open() => self.answer(&line),
                InputAction::Line(line) => {
                    // The line may have been started at the prompt, and contain placeholders of pastes.
                    let line = self.pastes.take_into(&line).unwrap_or(line);
                    match ChatLine::parse(&line) {
                        ChatLine::Nothing if words.is_empty() => {}
                        ChatLine::Nothing => words.push(String::new()),
                        ChatLine::Prompt(_) => words.push(line),
                        ChatLine::Command { name, argument } => {
                            self.steer(&mut words);
                            self.echo(&line);
                            let chat_end = self.command(&name, &argument, ChatPhase::Work).await?;
                            if chat_end.is_some() {
                                return Ok(chat_end);
                            }
                        }
                    }
                }
            }
        }
        self.steer(&mut words);
        self.show_input();
        Ok(None)
    }

    /// Sends text to the working agent. If it is refused, the text is put back on the line.
    fn steer(&mut self, words: &mut Vec<String>) {
        let text = std::mem::take(words).join("\n").trim().to_owned();
        if text.is_empty() {
            return;
        }
        self.interrupts.reset();
        match self.handle.steer(vec![Block::text(text.clone())]) {
            Ok(()) => {
                self.work.unread += 1;
                self.retention = SessionRetention::Yes;
                self.echo(&text);
            }
            Err(error) => {
                let first = excerpt(&text);
                let message = format!("not sent, back on your input line: {first}: {error}");
                self.show_error(&CliError::failed(message));
                self.typing.put_before(&text);
            }
        }
    }

    /// Echoes entered text, unless the terminal echoes it itself.
    fn echo(&mut self, text: &str) {
        if !self.modes.is_live() {
            return;
        }
        let shown = match size_if_longer(MOST_ECHOED_LINES, MOST_ECHOED_BYTES, text) {
            Some(size) => format!("{} [{size}]", excerpt(text)),
            None => text.replace('\n', "\n  "),
        };
        show_entered(self, &shown);
    }

    /// Shows the next question once all earlier output is on the screen.
    fn ask_next(&mut self) {
        if !self.screen.is_idle() {
            return;
        }
        let Some(question) = self.questions.open_next() else { return };
        let text = question.choices();
        self.ask(&text);
    }

    /// Shows the choices of a question and gives it the input line.
    fn ask(&mut self, text: &str) {
        if !self.modes.is_live() {
            // Text typed before the question was not meant for it.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            self.typing.replace(String::new());
            self.screen.push_prompt(text.to_owned());
            return;
        }
        if matches!(self.typing, ChatInput::Editor(_)) {
            self.screen.push_say(text.to_owned());
            let before = self.typing.replace(String::new());
            self.work.asked = Some(QuestionOnScreen::new("? ".to_owned(), before));
            return self.show_input();
        }
        let (offers, prompt) = text.rsplit_once('\n').unwrap_or(("", text));
        if !offers.is_empty() {
            self.screen.push_say(offers.to_owned());
        }
        let before = self.typing.replace(String::new());
        self.work.asked = Some(QuestionOnScreen::new(prompt.to_owned(), before));
        self.show_input();
    }

    /// Shows the open question again.
    fn ask_again(&mut self) {
        let Some(question) = self.questions.open() else { return };
        let text = question.choices();
        let mut requests = self.work.requests.iter();
        if let Some(request) = requests.find(|event| question.is_asked_by(&event.event)) {
            self.screen.push_repeated_question(Arc::clone(request));
        }
        if !self.modes.is_live() {
            return self.screen.push_prompt(text);
        }
        if let Some((offers, _)) = text.rsplit_once('\n') {
            self.screen.push_say(offers.to_owned());
        }
        self.show_input();
    }

    /// Takes a line as the answer of the open question, or keeps it and explains the possible answers.
    fn answer(&mut self, line: &str) {
        let Some(question) = self.questions.open() else { return };
        let (hint, text) = (question.invalid_answer_message(), question.choices());
        let kind =
            if question.is_plain_answer(line) { QuestionLine::Plain } else { QuestionLine::Words };
        let may_answer = self.work.asked.as_ref().is_none_or(|asked| asked.may_answer(kind));
        if may_answer && let Some(answered) = self.questions.answer(line) {
            return self.send(answered, line);
        }
        let is_kept = self.work.asked.as_mut().is_some_and(|asked| asked.keep(line));
        let suffix = if is_kept { "\nwhat you typed is kept for after the question" } else { "" };
        self.screen.push_say(format!("{hint}{suffix}"));
        if !self.modes.is_live() {
            self.ask(&text);
        }
    }

    /// Answers the open question with a refusal.
    fn refuse(&mut self) {
        let Some(line) = self.questions.open().map(TerminalQuestion::refusal) else { return };
        if let Some(answered) = self.questions.refuse() {
            self.send(answered, line);
        }
    }

    /// Delivers an answer and shows it above the input line.
    fn send(&mut self, answered: AnswerDelivery, line: &str) {
        let answered_line =
            self.work.asked.as_ref().map(|question| format!("{}{line}", question.prompt));
        self.put_back();
        if let Some(answered_line) = answered_line {
            self.screen.push_say(answered_line);
        }
        // The question may be gone because of a cancel; then there is nothing to do.
        drop(answered.send(&self.handle));
    }

    /// Removes a question from the screen that needs no answer any more.
    fn end_question(&mut self) {
        if self.modes.is_live() {
            self.put_back();
        } else {
            self.screen.push_prompt("\n".to_owned());
        }
    }

    /// Moves unread input of the agent back to the input line. Returns true if there was any.
    fn take_back_words(&mut self) -> bool {
        let words = self.handle.take_back_steering();
        self.work.unread = self.work.unread.saturating_sub(words.len());
        let texts: Vec<_> = words.into_iter().flatten().filter_map(text_of_block).collect();
        if texts.is_empty() {
            return false;
        }
        self.typing.put_before(&texts.join("\n"));
        self.show_input();
        true
    }

    /// Restores the text typed before the question.
    fn put_back(&mut self) {
        if let Some(asked) = self.work.asked.take() {
            // Text that was not entered is no answer; it stays behind the restored text.
            let typed = self.typing.replace(asked.before);
            self.typing.append(&typed);
        }
        self.show_input();
    }

    pub(super) fn show_input(&mut self) {
        if matches!(self.typing, ChatInput::Editor(_)) {
            show_view(self);
        } else if self.modes.is_live() {
            let prompt = self.work.asked.as_ref().map(|asked| asked.prompt.clone());
            let text = self.typing.text().to_owned();
            self.screen.push_input(LiveInput { prompt, text });
        }
    }

    fn resume_typing(&mut self) {
        if matches!(self.typing, ChatInput::Editor(_)) {
            self.modes.prompt();
            self.screen.push_prompt(PASTE_ON.to_owned());
        } else if self.modes.is_live() {
            self.modes.work();
            self.screen.push_prompt(PASTE_ON.to_owned());
        }
        self.show_input();
    }

    /// Clears the live line. Text that was not entered stays for the prompt.
    fn pause_typing(&mut self) {
        if matches!(self.typing, ChatInput::Editor(_)) {
            return;
        }
        if self.modes.is_live() {
            self.screen.push_input(LiveInput::default());
            self.screen.push_prompt(PASTE_OFF.to_owned());
        }
    }

    /// Stops the process on ctrl-z, and shows input and question again when it continues.
    async fn suspend(&mut self) -> Option<ChatEnd> {
        self.pause_typing();
        self.screen.push_say("stopped; fg resumes".to_owned());
        self.screen.push_leave();
        let _ = self.screen.wait_until_shown().await;
        let chat_end = self.stop().await;
        self.resume_typing();
        self.ask_again();
        chat_end
    }

    /// Stops the process group with the terminal restored. Returns the end of the chat if a signal ended it
    /// meanwhile.
    pub(super) async fn stop(&mut self) -> Option<ChatEnd> {
        self.modes.restore();
        let _ = kill_current_process_group(Signal::TSTP);
        // The stop may be delivered a moment later. A process in an orphaned process group, which nobody could
        // continue, is not stopped at all.
        match timeout(STOP_WAIT, self.signals.next()).await {
            Ok(SignalAction::End) => Some(ChatEnd::Interrupted),
            Ok(SignalAction::Interrupt | SignalAction::Continue) | Err(_) => None,
        }
    }
}

/// Returns the beginning of a text, in quotes.
fn excerpt(text: &str) -> String {
    format!("“{}”", shorten(text, EXCERPT))
}

fn text_of_block(block: Block) -> Option<String> {
    match block {
        Block::Text { text } => Some(text),
        Block::Image(_) => None,
    }
}

/// Time a question must be visible before a line that is started then counts as meant for it.
const SEEN: Duration = Duration::from_millis(500);

/// Kind of an entered line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionLine {
    /// It can only be an answer.
    Plain,
    /// It may be meant for the agent.
    Words,
}

/// The question on the screen.
#[derive(Debug)]
struct QuestionOnScreen {
    /// Text before the answer on the input line.
    prompt: String,
    /// Text typed before the question, or entered and not taken as an answer.
    before: String,
    shown: Instant,
    /// Time at which the current line was started; `None` while it is empty.
    began: Option<Instant>,
    /// True once the possible answers were explained.
    explained: bool,
}

impl QuestionOnScreen {
    fn new(prompt: String, before: String) -> Self {
        Self { prompt, before, shown: Instant::now(), began: None, explained: false }
    }

    /// Returns true if a line may be taken as an answer. Text that was being typed when the question appeared was not
    /// meant for it; a plain answer with nothing typed before is accepted at once.
    fn may_answer(&self, line: QuestionLine) -> bool {
        let began = self.began.map_or(Duration::MAX, |began| began - self.shown);
        let is_meant = line == QuestionLine::Plain && self.before.is_empty();
        self.explained || began >= SEEN || is_meant
    }

    /// Appends a line that is no answer to `before`. Returns true if there was text to keep; a single letter is
    /// dropped.
    fn keep(&mut self, line: &str) -> bool {
        let only_a_letter = self.before.is_empty() && line.trim().chars().count() < 2;
        let line = if only_a_letter { "" } else { line };
        let continues_line =
            self.began.is_some_and(|began| began - self.shown < SEEN) && !self.explained;
        if !continues_line && !self.before.is_empty() && !line.is_empty() {
            self.before.push(' ');
        }
        self.before.push_str(line);
        self.began = None;
        self.explained = true;
        !line.trim().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_began_before_the_question_was_seen_answers_only_if_nothing_else_was_typed() {
        // Text typed before the question, milliseconds until the line was started, its kind, whether it may answer.
        let table = [
            ("", 0, QuestionLine::Plain, true),
            ("", 0, QuestionLine::Words, false),
            ("", 499, QuestionLine::Words, false),
            ("", 500, QuestionLine::Words, true),
            ("please make it eas", 0, QuestionLine::Plain, false),
            ("please make it eas", 500, QuestionLine::Plain, true),
        ];
        for (before, millis, line, expected) in table {
            let mut question = QuestionOnScreen::new("allow? ".to_owned(), before.to_owned());
            question.began = Some(question.shown + Duration::from_millis(millis));
            assert_eq!(question.may_answer(line), expected, "{before:?} {millis} {line:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_answer_is_appended_to_the_text_before() {
        let mut question = QuestionOnScreen::new("allow? ".to_owned(), "rena".to_owned());
        question.began = Some(question.shown);
        assert!(question.keep("me it"));
        assert!(question.keep("and test"));
        assert!(!question.keep(""));
        assert_eq!(question.before, "rename it and test");
        assert!(question.may_answer(QuestionLine::Words), "it was said what can be answered");
    }
}
