//! The questions that wait for the person at the terminal. One is asked at a time.

use std::collections::VecDeque;

use crow_core::{
    capability::PermissionAnswer, event::AgentEvent, ids::RequestId, permission::GrantOffer,
};

use super::answerer::parse_answer;

/// A question on its way to the person at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) id: RequestId,
    pub(crate) offers: Vec<GrantOffer>,
}

/// The questions that wait for an answer, and the one that the person is looking at.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: VecDeque<Question>,
    open: Option<Question>,
}

/// What an event did to the question that the person is looking at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is as it was.
    None,
    /// It needs no answer any more.
    Closed,
}

impl Questions {
    /// Keeps count of the questions that are open.
    pub(crate) fn on_event(&mut self, event: &AgentEvent) -> Effect {
        if let AgentEvent::PermissionRequest { request_id, offers, .. } = event {
            let question = Question { id: request_id.clone(), offers: offers.clone() };
            self.waiting.push_back(question);
        }
        if let AgentEvent::PermissionDecision { request_id, .. }
        | AgentEvent::PermissionWithdrawn { request_id, .. } = event
        {
            self.waiting.retain(|question| question.id != *request_id);
            if self.open.take_if(|question| question.id == *request_id).is_some() {
                return Effect::Closed;
            }
        }
        Effect::None
    }

    /// Returns whether the person is looking at a question.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next question to be asked, unless one is open.
    pub(crate) fn open_next(&mut self) -> Option<&Question> {
        if self.open.is_some() {
            return None;
        }
        self.open = self.waiting.pop_front();
        self.open.as_ref()
    }

    /// Returns the question that the person is looking at.
    pub(crate) fn open(&self) -> Option<&Question> {
        self.open.as_ref()
    }

    /// Reads an answer to the open question, which is closed by it; none if it is not understood.
    pub(crate) fn answer(&mut self, line: &str) -> Option<(RequestId, PermissionAnswer)> {
        let answer = parse_answer(line, &self.open.as_ref()?.offers)?;
        self.open.take().map(|question| (question.id, answer))
    }

    /// Closes the open question with an answer that nobody typed.
    pub(crate) fn close(
        &mut self,
        answer: PermissionAnswer,
    ) -> Option<(RequestId, PermissionAnswer)> {
        self.open.take().map(|question| (question.id, answer))
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{ids::CallId, tool::Subject};

    use super::*;

    fn asked(id: &str) -> AgentEvent {
        AgentEvent::PermissionRequest {
            request_id: RequestId::new(id),
            call_id: CallId::new("c"),
            tool: "bash".into(),
            title: "ls".into(),
            subject: Subject::Nothing,
            reason: "it runs a command".into(),
            offers: Vec::new(),
        }
    }

    fn withdrawn(id: &str) -> AgentEvent {
        AgentEvent::PermissionWithdrawn {
            request_id: RequestId::new(id),
            call_id: CallId::new("c"),
        }
    }

    #[test]
    fn questions_are_asked_one_after_another_and_those_withdrawn_are_not() {
        let mut questions = Questions::default();
        for id in ["1", "2", "3"] {
            assert_eq!(questions.on_event(&asked(id)), Effect::None);
        }
        assert_eq!(questions.open_next().unwrap().id, RequestId::new("1"));
        assert_eq!(questions.open_next(), None);
        assert_eq!(questions.on_event(&withdrawn("2")), Effect::None);
        assert_eq!(questions.answer("what?"), None);
        let (id, answer) = questions.answer("y").unwrap();
        assert_eq!((id, answer), (RequestId::new("1"), PermissionAnswer::AllowOnce));
        assert_eq!(questions.open_next().unwrap().id, RequestId::new("3"));
        assert_eq!(questions.on_event(&withdrawn("3")), Effect::Closed);
        assert!(!questions.is_open());
    }
}
