//! Permission requests and user questions of agents, and the client's answers to them.

use crow_core::{
    capability::{PermissionAnswer, PermissionRequest, QuestionRequest},
    event::AgentEvent,
};

use super::{peer::SessionProgress, pump::Pump, question};
use crate::view::{self, PermissionReply};

impl Pump {
    /// Sends the client the question that an event asks, or withdraws the one that it settles.
    pub(super) async fn on_question_event(&mut self, event: &AgentEvent) {
        // 1) Permission requests.
        if let AgentEvent::PermissionRequest { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask(question);
            }
        }
        if let AgentEvent::PermissionWithdrawn { request_id, .. }
        | AgentEvent::PermissionDecision { request_id, .. } = event
            && let Some(task) = self.question_tasks.remove(request_id)
        {
            task.abort();
            if self.question_tasks.is_empty() {
                self.peer.report_progress(&self.root, SessionProgress::Running);
            }
        }
        // 2) Questions to the user.
        if let AgentEvent::QuestionAsked { request_id, .. } = event {
            self.flush().await;
            let open = self.handle.open_user_questions();
            if let Some(question) = open.into_iter().find(|open| open.id == *request_id) {
                self.ask_user(question);
            }
        }
        if let AgentEvent::QuestionWithdrawn { request_id, .. }
        | AgentEvent::QuestionAnswered { request_id, .. } = event
            && let Some(task) = self.question_tasks.remove(request_id)
        {
            task.abort();
            if self.question_tasks.is_empty() {
                self.peer.report_progress(&self.root, SessionProgress::Running);
            }
        }
    }

    /// Asks the user about a call. The question is withdrawn when it is settled elsewhere.
    pub(super) fn ask(&mut self, question: PermissionRequest) {
        let request = self.view.permission_request(&question, &mut self.updates);
        self.send();
        let pending_response = self.peer.request_permission(request);
        let (handle, id) = (self.handle.clone(), question.id.clone());
        let task = self.tasks.spawn(async move {
            let answer = match pending_response.await {
                Ok(response) => match view::answer(&response.outcome, &question) {
                    PermissionReply::Answer(answer) => answer,
                    PermissionReply::Cancelled => return handle.interrupt(),
                },
                Err(error) => PermissionAnswer::Nobody {
                    hint: format!("the editor could not ask: {}", error.message),
                },
            };
            // Fails if the question was pending_response elsewhere first.
            drop(handle.answer(&question.id, answer));
        });
        self.question_tasks.insert(id, task);
        self.peer.report_progress(&self.root, SessionProgress::Asking);
    }

    /// Asks the user an agent's question: with a form, else with a choice, else answers that nobody can be asked.
    pub(super) fn ask_user(&mut self, request: QuestionRequest) {
        let root = self.root.clone();
        let id = request.id.clone();
        let handle = self.handle.clone();
        let task = if self.abilities.forms.is_yes() {
            let pending_form = self.peer.create_elicitation(question::form(root, &request));
            self.tasks.spawn(async move {
                let answer = match pending_form.await {
                    Ok(response) => question::form_answer(response, &request.question),
                    Err(_) => question::nobody(),
                };
                // Fails if the question was answered elsewhere first.
                drop(handle.answer_question(&request.id, answer));
            })
        } else if let Some(permission_request) = question::choice(root, &request) {
            let pending_choice = self.peer.request_permission(permission_request);
            self.tasks.spawn(async move {
                let answer = match pending_choice.await {
                    Ok(response) => question::choice_answer(response.outcome, &request.question),
                    Err(_) => Some(question::nobody()),
                };
                match answer {
                    Some(answer) => drop(handle.answer_question(&request.id, answer)),
                    None => handle.interrupt(),
                }
            })
        } else {
            // Fails if the question was answered elsewhere first.
            drop(self.handle.answer_question(&id, question::nobody()));
            return;
        };
        self.question_tasks.insert(id, task);
        self.peer.report_progress(&self.root, SessionProgress::Asking);
    }
}
