//! Questions of agents, and what the client answers.

use crow_core::{
    capability::{PermissionAnswer, PermissionRequest, QuestionRequest},
    event::AgentEvent,
};

use super::{peer::SessionProgress, pump::Pump, question};
use crate::view::{self, PermissionReply};

impl Pump {
    /// Asks what an agent of the session asks, and takes back what is no question any more.
    pub(super) async fn question(&mut self, event: &AgentEvent) {
        if let AgentEvent::PermissionRequest { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask(question);
            }
        }
        if let AgentEvent::PermissionWithdrawn { request_id, .. }
        | AgentEvent::PermissionDecision { request_id, .. } = event
            && let Some(asked) = self.asked.remove(request_id)
        {
            asked.abort();
            if self.asked.is_empty() {
                self.peer.progress(&self.root, SessionProgress::GoesOn);
            }
        }
        if let AgentEvent::QuestionAsked { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_user_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask_user(question);
            }
        }
        if let AgentEvent::QuestionWithdrawn { request_id, .. }
        | AgentEvent::QuestionAnswered { request_id, .. } = event
            && let Some(asked) = self.asked.remove(request_id)
        {
            asked.abort();
            if self.asked.is_empty() {
                self.peer.progress(&self.root, SessionProgress::GoesOn);
            }
        }
    }

    /// Asks the user about a call. The question goes when it is answered otherwise.
    pub(super) fn ask(&mut self, question: PermissionRequest) {
        let request = self.view.permission_request(&question, &mut self.out);
        self.send();
        let answered = self.peer.ask(request);
        let (handle, id) = (self.handle.clone(), question.id.clone());
        let task = self.tasks.spawn(async move {
            let answer = match answered.await {
                Ok(response) => match view::answer(&response.outcome, &question) {
                    PermissionReply::Answer(answer) => answer,
                    PermissionReply::Cancelled => return handle.interrupt(),
                },
                Err(error) => PermissionAnswer::Nobody {
                    hint: format!("the editor could not ask: {}", error.message),
                },
            };
            // Somebody else was faster.
            drop(handle.answer(&question.id, answer));
        });
        self.asked.insert(id, task);
        self.peer.progress(&self.root, SessionProgress::Waits);
    }

    /// Asks the user what an agent wants to know: with a form, or a choice, or not at all.
    pub(super) fn ask_user(&mut self, asked: QuestionRequest) {
        let root = self.root.clone();
        let id = asked.id.clone();
        let handle = self.handle.clone();
        let task = if self.abilities.forms.is_yes() {
            let filled = self.peer.elicit(question::form(root, &asked));
            self.tasks.spawn(async move {
                let answer = match filled.await {
                    Ok(response) => question::form_answer(response, &asked.question),
                    Err(_) => question::nobody(),
                };
                // Somebody else was faster.
                drop(handle.answer_question(&asked.id, answer));
            })
        } else if let Some(request) = question::choice(root, &asked) {
            let chosen = self.peer.ask(request);
            self.tasks.spawn(async move {
                let answer = match chosen.await {
                    Ok(response) => question::choice_answer(response.outcome, &asked.question),
                    Err(_) => Some(question::nobody()),
                };
                match answer {
                    Some(answer) => drop(handle.answer_question(&asked.id, answer)),
                    None => handle.interrupt(),
                }
            })
        } else {
            // As above.
            drop(self.handle.answer_question(&id, question::nobody()));
            return;
        };
        self.asked.insert(id, task);
        self.peer.progress(&self.root, SessionProgress::Waits);
    }
}
