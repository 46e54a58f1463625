//! While the agent works: events go to the screen, what is typed goes to the agent.

use std::{io, sync::Arc, time::Duration};

use crow_core::{
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use rustix::{
    process::{Signal, kill_current_process_group},
    termios::{QueueSelector, tcflush},
};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{
    asked::{QuestionLine, QuestionOnScreen},
    command::ChatLine,
    conversation::{ChatEnd, ChatLoop, SessionRetention, failure, unwritable},
    feed::InputFeed,
    interrupts::{ChatPhase, InterruptAction},
    modes::{PASTE_OFF, PASTE_ON},
    pastes::size_above,
};
use crate::{
    error::CliError,
    output::{ExitCode, ReportBuilder},
    render::{LiveInput, RunActivity, one_line},
    run::{
        AnswerDelivery, Effect, PumpEnd, TICK, TerminalQuestion, TypedLine, Wish, is_end,
        learn_prices,
    },
};

/// How long after a run the agent may take to begin with words that it has not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the process may take to stop.
const STOPPED: Duration = Duration::from_millis(200);

/// How many characters of words are shown that could not be sent.
const NAMED: usize = 40;

/// How far the agent is with what it was told.
#[derive(Debug, Default)]
pub(super) struct AgentWork {
    report: ReportBuilder,
    phase: WorkPhase,
    /// How many inputs the agent has not read yet.
    unread: usize,
    /// The last error that is on the screen.
    pub(super) error: String,
    /// Whether this run made calls.
    calls: RunActivity,
    /// The questions of this run, as they were asked.
    requests: Vec<Arc<Envelope>>,
    /// The question that is on the screen, where keys come one by one.
    asked: Option<QuestionOnScreen>,
}

/// Longer words that were entered while the agent works are not shown whole.
const MOST_ECHOED_LINES: usize = 200;
const MOST_ECHOED_BYTES: usize = 20 * 1024;

/// Whether a run is under way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WorkPhase {
    #[default]
    Running,
    /// A run ended, and what came of it is not on the screen yet.
    Ended,
    /// It was shown. Words that are not read begin another one.
    Shown(Instant),
}

impl ChatLoop {
    /// Shows events and takes words until the agent has nothing to do. Returns how the person left, if so.
    pub(super) async fn follow(&mut self) -> Result<Option<ChatEnd>, CliError> {
        self.work.phase = WorkPhase::Running;
        self.work.unread = 1;
        self.work.calls = RunActivity::None;
        self.resume_typing();
        let ahead = self.feed.as_mut().map(InputFeed::take).unwrap_or_default();
        if !ahead.is_empty()
            && let Some(left) = self.on_bytes(&ahead).await?
        {
            return Ok(Some(left));
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_done() {
            self.ask_next();
            let has_room = self.screen.has_room() && self.work.phase != WorkPhase::Ended;
            tokio::select! {
                biased;
                wish = self.signals.next() => if let Some(left) = self.on_wish(wish) {
                    return Ok(Some(left));
                },
                typed = self.keyboard.read() => {
                    let Ok(bytes) = typed else { return Ok(Some(ChatEnd::Interrupted)) };
                    if let Some(left) = self.on_bytes(&bytes).await? {
                        return Ok(Some(left));
                    }
                }
                event = self.events.next(), if has_room => match event {
                    Some(event) => self.take(event),
                    None => return Err(failure(&*self.handle.ended().await)),
                },
                pumped = self.screen.pump() => match pumped {
                    PumpEnd::Room => {}
                    PumpEnd::Failed => return Err(unwritable()),
                },
                end = self.handle.ended(), if has_room => return Err(failure(&end)),
                _ = ticks.tick() => self.screen.tick(Timestamp::now()),
            }
            if self.work.phase == WorkPhase::Ended {
                self.show_end().await;
            }
        }
        self.pause_typing();
        Ok(None)
    }

    /// Takes an event and those that wait behind it.
    pub(super) fn take(&mut self, first: Arc<Envelope>) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.work.report.on_event(&event);
            if self.questions.on_event(&event.event) == Effect::Closed {
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
            // The greeting said it.
            if !matches!(event.event, AgentEvent::SessionStart { .. }) {
                self.screen.push(event);
            }
            let goes_on = self.screen.has_room() && self.work.phase != WorkPhase::Ended;
            next = if goes_on { self.events.try_next() } else { None };
        }
    }

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
        if is_end(envelope) {
            self.work.phase = WorkPhase::Ended;
        }
    }

    fn is_done(&self) -> bool {
        match self.work.phase {
            WorkPhase::Running | WorkPhase::Ended => false,
            WorkPhase::Shown(at) => self.work.unread == 0 || at.elapsed() > PATIENCE,
        }
    }

    async fn show_end(&mut self) {
        learn_prices(&mut self.work.report, &*self.models).await;
        let mut report = self.work.report.report();
        if report.code() == ExitCode::Interrupted {
            // Who interrupted it knows, and is still here.
            report.error = None;
        }
        self.work.requests.clear();
        self.screen.push_report(report, self.work.calls);
        self.interrupts.reset();
        self.work.phase = WorkPhase::Shown(Instant::now());
    }

    fn on_wish(&mut self, wish: Wish) -> Option<ChatEnd> {
        match wish {
            Wish::Interrupt => match self.interrupts.press(ChatPhase::Work) {
                InterruptAction::Leave => Some(ChatEnd::Interrupted),
                InterruptAction::Stop | InterruptAction::Warn => {
                    self.handle.interrupt();
                    let kept = if self.take_back_words() {
                        ", and what it has not read is on your line"
                    } else {
                        ""
                    };
                    self.screen.push_say(format!("stopping{kept}; ctrl-c again leaves"));
                    None
                }
            },
            Wish::End => Some(ChatEnd::Interrupted),
            Wish::Continue => {
                self.resume_typing();
                self.ask_again();
                None
            }
        }
    }

    async fn on_bytes(&mut self, bytes: &[u8]) -> Result<Option<ChatEnd>, CliError> {
        let typed = match (bytes.is_empty(), self.modes.is_live()) {
            // Where keys come one by one, no key ends the input.
            (true, true) => return Ok(Some(ChatEnd::Interrupted)),
            (true, false) => vec![TypedLine::EndOfInput],
            (false, _) => self.typing.push(bytes),
        };
        if let Some(asked) = &mut self.work.asked
            && (!self.typing.text().is_empty() || !typed.is_empty())
        {
            asked.began.get_or_insert_with(Instant::now);
        }
        self.show_input();
        // Lines that come at once are one input: there is room for a few only.
        let mut words: Vec<String> = Vec::new();
        for typed in typed {
            match typed {
                TypedLine::Suspend => {
                    if let Some(left) = self.suspend().await {
                        return Ok(Some(left));
                    }
                }
                TypedLine::Redraw => self.ask_again(),
                TypedLine::EndOfInput if self.questions.is_open() => self.refuse(),
                TypedLine::EndOfInput => {}
                TypedLine::Line(line) if self.questions.is_open() => self.answer(&line),
                TypedLine::Line(line) => {
                    // It may have been begun at the prompt.
                    let line = self.pastes.take_into(&line).unwrap_or(line);
                    match ChatLine::parse(&line) {
                        ChatLine::Nothing if words.is_empty() => {}
                        ChatLine::Nothing => words.push(String::new()),
                        ChatLine::Prompt(_) => words.push(line),
                        ChatLine::Command { name, argument } => {
                            self.steer(&mut words);
                            self.echo(&line);
                            let left = self.command(&name, &argument, ChatPhase::Work).await?;
                            if left.is_some() {
                                return Ok(left);
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

    /// Passes words on to the working agent. Those that it cannot take stay on the line.
    fn steer(&mut self, words: &mut Vec<String>) {
        let text = std::mem::take(words).join("\n").trim().to_owned();
        if text.is_empty() {
            return;
        }
        self.interrupts.reset();
        match self.handle.steer(vec![Block::text(text.clone())]) {
            Ok(()) => {
                self.work.unread += 1;
                self.kept = SessionRetention::Yes;
                self.echo(&text);
            }
            Err(error) => {
                let first = shorten(&text);
                let message = format!("not sent, and put back: {first}: {error}");
                self.complain(&CliError::failed(message));
                self.typing.put_before(&text);
            }
        }
    }

    /// Shows what was entered. Where the terminal shows it by itself, it stands there already.
    fn echo(&mut self, text: &str) {
        if !self.modes.is_live() {
            return;
        }
        let shown = match size_above(MOST_ECHOED_LINES, MOST_ECHOED_BYTES, text) {
            Some(size) => format!("{} [{size}]", shorten(text)),
            None => text.replace('\n', "\n  "),
        };
        self.screen.push_say(format!("> {shown}"));
    }

    /// Asks the next question when everything before it is on the screen.
    fn ask_next(&mut self) {
        if !self.screen.is_idle() {
            return;
        }
        let Some(question) = self.questions.open_next() else { return };
        let text = question.choices();
        self.ask(&text);
    }

    fn ask(&mut self, text: &str) {
        if !self.modes.is_live() {
            // What was typed before the question was not meant for it.
            let _ = tcflush(io::stdin(), QueueSelector::IFlush);
            self.typing.replace(String::new());
            self.screen.push_prompt(text.to_owned());
            return;
        }
        let (offers, prompt) = text.rsplit_once('\n').unwrap_or(("", text));
        if !offers.is_empty() {
            self.screen.push_say(offers.to_owned());
        }
        let before = self.typing.replace(String::new());
        self.work.asked = Some(QuestionOnScreen::new(prompt.to_owned(), before));
        self.show_input();
    }

    /// Shows the open question once more.
    fn ask_again(&mut self) {
        let Some(question) = self.questions.open() else { return };
        let text = question.choices();
        let mut asked = self.work.requests.iter();
        if let Some(request) = asked.find(|event| question.is_asked_by(&event.event)) {
            self.screen.push_again(Arc::clone(request));
        }
        if !self.modes.is_live() {
            return self.screen.push_prompt(text);
        }
        if let Some((offers, _)) = text.rsplit_once('\n') {
            self.screen.push_say(offers.to_owned());
        }
        self.show_input();
    }

    fn answer(&mut self, line: &str) {
        let Some(question) = self.questions.open() else { return };
        let (hint, text) = (question.not_understood(), question.choices());
        let looks =
            if question.is_plain_answer(line) { QuestionLine::Plain } else { QuestionLine::Words };
        let may_answer = self.work.asked.as_ref().is_none_or(|asked| asked.may_answer(looks));
        if may_answer && let Some(answered) = self.questions.answer(line) {
            return self.send(answered, line);
        }
        let is_kept = self.work.asked.as_mut().is_some_and(|asked| asked.keep(line));
        let kept = if is_kept { "\nwhat you typed is kept for after the question" } else { "" };
        self.screen.push_say(format!("{hint}{kept}"));
        if !self.modes.is_live() {
            self.ask(&text);
        }
    }

    /// Answers the open question as somebody who wants none of it.
    fn refuse(&mut self) {
        let Some(line) = self.questions.open().map(TerminalQuestion::refusal) else { return };
        if let Some(answered) = self.questions.refuse() {
            self.send(answered, line);
        }
    }

    fn send(&mut self, answered: AnswerDelivery, line: &str) {
        let asked = self.work.asked.as_ref().map(|asked| format!("{}{line}", asked.prompt));
        self.put_back();
        if let Some(asked) = asked {
            self.screen.push_say(asked);
        }
        // The question may have been withdrawn by a cancel.
        drop(answered.send(&self.handle));
    }

    /// The question that the person looks at needs no answer any more.
    fn end_question(&mut self) {
        if self.modes.is_live() {
            self.put_back();
        } else {
            self.screen.push_prompt("\n".to_owned());
        }
    }

    /// Puts words that the agent has not read back to where they were typed. Returns whether there were any.
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

    /// Goes on with what was typed before the question.
    fn put_back(&mut self) {
        if let Some(asked) = self.work.asked.take() {
            // What is typed and not entered is not an answer either, and may go on.
            let typed = self.typing.replace(asked.before);
            self.typing.append(&typed);
        }
        self.show_input();
    }

    fn show_input(&mut self) {
        if self.modes.is_live() {
            let prompt = self.work.asked.as_ref().map(|asked| asked.prompt.clone());
            let text = self.typing.text().to_owned();
            self.screen.push_input(LiveInput { prompt, text });
        }
    }

    fn resume_typing(&mut self) {
        if self.modes.is_live() {
            self.modes.work();
            self.screen.push_prompt(PASTE_ON.to_owned());
        }
        self.show_input();
    }

    /// What is typed and not entered stays for the prompt.
    fn pause_typing(&mut self) {
        if self.modes.is_live() {
            self.screen.push_input(LiveInput::default());
            self.screen.push_prompt(PASTE_OFF.to_owned());
        }
    }

    async fn suspend(&mut self) -> Option<ChatEnd> {
        self.pause_typing();
        self.screen.push_say("stopped; fg goes on".to_owned());
        let _ = self.screen.shown().await;
        let left = self.stop().await;
        self.resume_typing();
        self.ask_again();
        left
    }

    /// Stops as ctrl-z does elsewhere, with the terminal as it was. Returns how a signal ended that.
    pub(super) async fn stop(&mut self) -> Option<ChatEnd> {
        self.modes.restore();
        let _ = kill_current_process_group(Signal::TSTP);
        // The stop may come a moment later, and a process that nobody could wake is not stopped at all.
        match timeout(STOPPED, self.signals.next()).await {
            Ok(Wish::End) => Some(ChatEnd::Interrupted),
            Ok(Wish::Interrupt | Wish::Continue) | Err(_) => None,
        }
    }
}

/// The beginning of a text, to tell it from others.
fn shorten(text: &str) -> String {
    let text = one_line(text);
    let begin: String = text.chars().take(NAMED).collect();
    if begin.len() < text.len() { format!("“{begin}…”") } else { format!("“{begin}”") }
}

fn text_of_block(block: Block) -> Option<String> {
    match block {
        Block::Text { text } => Some(text),
        Block::Image(_) => None,
    }
}
