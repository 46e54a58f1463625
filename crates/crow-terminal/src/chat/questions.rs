//! Questions of the agent: showing them, and delivering the answers.
//!
//! With an editor, the answers are listed below it ([`QuestionPanel`]) and the prompt keeps its text; on plain lines the next
//! line that is entered is the answer.

use std::{io, sync::Arc, time::Instant};

use crow_console::{AnswerDelivery, QuestionQueue, TerminalQuestion};
use rustix::termios::{QueueSelector, tcflush};

use super::{
    chat_loop::ChatLoop,
    question_panel::{QuestionKeyEffect, QuestionPanel, QuestionTitles},
};
use crate::keys::Key;

/// Shows the next question once all earlier output is on the screen.
pub(super) fn ask_next(chat: &mut ChatLoop) {
    // Under a view it would not be seen, and keys for the view would answer it.
    if !chat.screen.is_idle() || chat.view.is_some() {
        return;
    }
    let Some(question) = chat.questions.open_next() else { return };
    if chat.modes.is_live() {
        let has_waited = question.has_waited;
        let panel = QuestionPanel::new(question, chat.typing.text(), Instant::now());
        chat.panel = Some(panel);
        // Others may stand below it on the screen.
        if has_waited {
            return ask_again(chat);
        }
        chat.show_input();
    } else {
        let text = question.choices();
        ask_on_lines(chat, text);
    }
}

/// Shows the possible answers on plain lines.
fn ask_on_lines(chat: &mut ChatLoop, text: String) {
    // Text typed before the question was not meant for it.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    chat.typing.replace(String::new());
    chat.screen.push_action(move |screen| screen.show_line_prompt(&text));
}

/// Shows the open question again.
pub(super) fn ask_again(chat: &mut ChatLoop) {
    let Some(question) = chat.questions.open() else { return };
    let text = question.choices();
    let mut requests = chat.work.requests.iter();
    if let Some(request) = requests.find(|event| question.is_asked_by(&event.event)) {
        let request = Arc::clone(request);
        chat.screen.push_action(move |screen| screen.repeat_question(&request));
    }
    if chat.modes.is_live() {
        chat.show_input();
    } else {
        chat.screen.push_action(move |screen| screen.show_line_prompt(&text));
    }
}

/// Passes a key to the list of answers. Returns true if it was taken.
pub(super) fn on_question_key(chat: &mut ChatLoop, key: Key) -> bool {
    let Some(panel) = &mut chat.panel else { return false };
    match panel.on_key(key, chat.typing.text(), Instant::now()) {
        QuestionKeyEffect::NotTaken => return false,
        QuestionKeyEffect::Redraw => {}
        QuestionKeyEffect::Answer(line) => {
            if !panel.takes_keys(Instant::now()) {
                // The answer was typed at the prompt.
                chat.typing.replace(String::new());
            }
            answer(chat, &line);
        }
        QuestionKeyEffect::WordsMode(is_typing_words) => {
            switch_words_mode(chat, is_typing_words);
        }
        QuestionKeyEffect::PutOff => open_following(chat),
    }
    chat.show_input();
    true
}

/// Opens the next question, if one waits.
fn open_following(chat: &mut ChatLoop) {
    if chat.questions.put_off() {
        close_panel(chat);
    }
}

/// Returns the open question among those that wait.
pub(super) fn question_titles(questions: &QuestionQueue) -> QuestionTitles {
    QuestionTitles {
        title: questions.open().map(|question| question.title.clone()).unwrap_or_default(),
        waiting: questions.waiting().map(|question| question.title.clone()).collect(),
    }
}

/// Lets the prompt take the answer to a question that only words answer.
pub(super) fn on_question_tick(chat: &mut ChatLoop) {
    if chat.panel.as_ref().is_some_and(|panel| panel.wants_words(Instant::now())) {
        switch_words_mode(chat, true);
    }
    if chat.panel.is_some() {
        chat.show_input();
    }
}

/// Begins or ends an answer in words. The draft of the prompt rests meanwhile, and words that were not sent are appended to
/// it.
fn switch_words_mode(chat: &mut ChatLoop, is_typing_words: bool) {
    let (Some(panel), Some(editor)) = (&mut chat.panel, chat.typing.editor()) else { return };
    if panel.is_typing_words() == is_typing_words {
        return;
    }
    if is_typing_words {
        panel.begin_words(editor.take_draft());
        return;
    }
    let typed = editor.replace("");
    editor.restore_draft(panel.end_words());
    let between = if typed.is_empty() || editor.is_empty() { "" } else { " " };
    editor.append(&format!("{between}{typed}"));
}

/// Takes a line as an answer in words. Returns false if the prompt takes none at the moment.
pub(super) fn answer_in_words(chat: &mut ChatLoop, words: &str) -> bool {
    if !chat.panel.as_ref().is_some_and(QuestionPanel::is_typing_words) {
        return false;
    }
    let Some(question) = chat.questions.open() else { return false };
    if !words.trim().is_empty() {
        let line = question.line_of_words(words.trim());
        answer(chat, &line);
    }
    true
}

/// Takes a line as the answer of the open question, or explains the possible answers.
pub(super) fn answer(chat: &mut ChatLoop, line: &str) {
    let Some(question) = chat.questions.open() else { return };
    let (hint, text) = (question.invalid_answer_message(), question.choices());
    if let Some(answered) = chat.questions.answer(line) {
        return send_answer(chat, answered, line);
    }
    chat.say(hint);
    if !chat.modes.is_live() {
        ask_on_lines(chat, text);
    }
}

/// Answers the open question with a refusal.
pub(super) fn refuse(chat: &mut ChatLoop) {
    let Some(line) = chat.questions.open().map(TerminalQuestion::refusal) else { return };
    if let Some(answered) = chat.questions.refuse() {
        send_answer(chat, answered, line);
    }
}

/// Delivers an answer and shows it.
fn send_answer(chat: &mut ChatLoop, answered: AnswerDelivery, line: &str) {
    close_panel(chat);
    if chat.modes.is_live() {
        chat.say_dimly(format!("  answer: {line}"));
    }
    // The question may be gone because of a cancel; then there is nothing to do.
    drop(answered.send(&chat.handle));
}

/// Removes a question that needs no answer any more.
pub(super) fn end_question(chat: &mut ChatLoop) {
    if chat.modes.is_live() {
        close_panel(chat);
    } else {
        chat.screen.push_action(|screen| screen.show_line_prompt("\n"));
    }
}

/// Removes the list of answers. The prompt gets the text back that it had before an answer in words.
fn close_panel(chat: &mut ChatLoop) {
    switch_words_mode(chat, false);
    chat.panel = None;
    chat.show_input();
}
