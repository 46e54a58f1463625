//! Questions of the agent: showing them, and delivering the answers.
//!
//! With an editor, the answers are listed below it ([`QuestionPanel`]) and the prompt keeps its text; on plain lines the next
//! line that is entered is the answer.

use std::{io, sync::Arc, time::Instant};

use crow_console::{AnswerDelivery, TerminalQuestion};
use rustix::termios::{QueueSelector, tcflush};

use super::{
    chat_loop::ChatLoop,
    question_panel::{QuestionKeyEffect, QuestionPanel},
};
use crate::keys::Key;

impl ChatLoop {
    /// Shows the next question once all earlier output is on the screen.
    pub(super) fn ask_next(&mut self) {
        if !self.screen.is_idle() {
            return;
        }
        let Some(question) = self.questions.open_next() else { return };
        if self.modes.is_live() {
            let panel = QuestionPanel::new(question, self.typing.text(), Instant::now());
            self.panel = Some(panel);
            self.show_input();
        } else {
            let text = question.choices();
            self.ask_on_lines(text);
        }
    }

    /// Shows the possible answers on plain lines.
    fn ask_on_lines(&mut self, text: String) {
        // Text typed before the question was not meant for it.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        self.typing.replace(String::new());
        self.screen.push_action(move |screen| screen.show_line_prompt(&text));
    }

    /// Shows the open question again.
    pub(super) fn ask_again(&mut self) {
        let Some(question) = self.questions.open() else { return };
        let text = question.choices();
        let mut requests = self.work.requests.iter();
        if let Some(request) = requests.find(|event| question.is_asked_by(&event.event)) {
            let request = Arc::clone(request);
            self.screen.push_action(move |screen| screen.repeat_question(&request));
        }
        if self.modes.is_live() {
            self.show_input();
        } else {
            self.screen.push_action(move |screen| screen.show_line_prompt(&text));
        }
    }

    /// Passes a key to the list of answers. Returns true if it was taken.
    pub(super) fn on_question_key(&mut self, key: Key) -> bool {
        let Some(panel) = &mut self.panel else { return false };
        match panel.on_key(key, self.typing.text(), Instant::now()) {
            QuestionKeyEffect::NotTaken => return false,
            QuestionKeyEffect::Redraw => {}
            QuestionKeyEffect::Answer(line) => {
                if !panel.takes_keys(Instant::now()) {
                    // The answer was typed at the prompt.
                    self.typing.replace(String::new());
                }
                self.answer(&line);
            }
            QuestionKeyEffect::WordsMode(is_typing_words) => {
                self.switch_words_mode(is_typing_words);
            }
        }
        self.show_input();
        true
    }

    /// Lets the prompt take the answer to a question that only words answer.
    pub(super) fn on_question_tick(&mut self) {
        if self.panel.as_ref().is_some_and(|panel| panel.wants_words(Instant::now())) {
            self.switch_words_mode(true);
        }
        if self.panel.is_some() {
            self.show_input();
        }
    }

    fn switch_words_mode(&mut self, is_typing_words: bool) {
        let Some(panel) = &mut self.panel else { return };
        let typed = self.typing.replace(String::new());
        let text = panel.switch_words_mode(is_typing_words, typed.clone());
        // Words that were not sent stay, behind the text from before.
        let is_kept = !is_typing_words && text != typed && !typed.is_empty();
        let between = if is_kept && !text.is_empty() { " " } else { "" };
        let kept = if is_kept { typed.as_str() } else { "" };
        self.typing.replace(format!("{text}{between}{kept}"));
    }

    /// Takes a line as an answer in words. Returns false if the prompt takes none at the moment.
    pub(super) fn answer_in_words(&mut self, words: &str) -> bool {
        if !self.panel.as_ref().is_some_and(QuestionPanel::is_typing_words) {
            return false;
        }
        let Some(question) = self.questions.open() else { return false };
        if !words.trim().is_empty() {
            let line = question.line_of_words(words.trim());
            self.answer(&line);
        }
        true
    }

    /// Takes a line as the answer of the open question, or explains the possible answers.
    pub(super) fn answer(&mut self, line: &str) {
        let Some(question) = self.questions.open() else { return };
        let (hint, text) = (question.invalid_answer_message(), question.choices());
        if let Some(answered) = self.questions.answer(line) {
            return self.send_answer(answered, line);
        }
        self.say(hint);
        if !self.modes.is_live() {
            self.ask_on_lines(text);
        }
    }

    /// Answers the open question with a refusal.
    pub(super) fn refuse(&mut self) {
        let Some(line) = self.questions.open().map(TerminalQuestion::refusal) else { return };
        if let Some(answered) = self.questions.refuse() {
            self.send_answer(answered, line);
        }
    }

    /// Delivers an answer and shows it.
    fn send_answer(&mut self, answered: AnswerDelivery, line: &str) {
        self.close_panel();
        if self.modes.is_live() {
            self.say_dimly(format!("  answer: {line}"));
        }
        // The question may be gone because of a cancel; then there is nothing to do.
        drop(answered.send(&self.handle));
    }

    /// Removes a question that needs no answer any more.
    pub(super) fn end_question(&mut self) {
        if self.modes.is_live() {
            self.close_panel();
        } else {
            self.screen.push_action(|screen| screen.show_line_prompt("\n"));
        }
    }

    /// Removes the list of answers. The prompt gets the text back that it had before an answer in words.
    fn close_panel(&mut self) {
        self.switch_words_mode(false);
        self.panel = None;
        self.show_input();
    }
}
