//! The queue of questions for the person at the terminal. One is asked at a time.

use std::collections::VecDeque;

use crow_core::{
    capability::{PermissionAnswer, QuestionAnswer, UserQuestion},
    event::AgentEvent,
    ids::RequestId,
    permission::GrantOffer,
};
use crow_runtime::{AgentHandle, AnswerError};

use super::{permission_question, user_question};

/// Question to the person at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalQuestion {
    pub id: RequestId,
    topic: Topic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Topic {
    /// Permission for a call, with the grants that a yes can include.
    Call(Vec<GrantOffer>),
    /// Question of an agent to the user.
    User(UserQuestion),
}

/// Answer to the request with this id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerDelivery {
    id: RequestId,
    answer: TerminalAnswer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TerminalAnswer {
    Call(PermissionAnswer),
    User(QuestionAnswer),
}

impl TerminalQuestion {
    /// Returns the question in an event, if it has one.
    fn from_event(event: &AgentEvent) -> Option<Self> {
        if let AgentEvent::PermissionRequest { request_id, offers, .. } = event {
            return Some(Self { id: request_id.clone(), topic: Topic::Call(offers.clone()) });
        }
        if let AgentEvent::QuestionAsked { request_id, question, .. } = event {
            return Some(Self { id: request_id.clone(), topic: Topic::User(question.clone()) });
        }
        None
    }

    /// Returns true if the event asks this question.
    pub fn is_asked_by(&self, event: &AgentEvent) -> bool {
        Self::from_event(event).is_some_and(|question| question.id == self.id)
    }

    /// Returns the possible answers; the last line is the prompt before the answer.
    pub fn choices(&self) -> String {
        match &self.topic {
            Topic::Call(offers) => permission_question::choices(offers),
            Topic::User(question) => user_question::prompt(question),
        }
    }

    /// Returns the message for an unparsable answer: it lists the possible ones.
    pub fn invalid_answer_message(&self) -> String {
        match &self.topic {
            Topic::Call(offers) => permission_question::invalid_answer_message(offers),
            Topic::User(question) => user_question::invalid_answer_message(question),
        }
    }

    /// Returns true if the line is unmistakably an answer, even if it was typed ahead.
    pub fn is_plain_answer(&self, line: &str) -> bool {
        match &self.topic {
            Topic::Call(_) => !line.trim().contains(|character: char| !character.is_alphabetic()),
            Topic::User(question) => user_question::is_plain(line, question),
        }
    }

    fn parse(&self, line: &str) -> Option<TerminalAnswer> {
        match &self.topic {
            Topic::Call(offers) => {
                permission_question::parse_answer(line, offers).map(TerminalAnswer::Call)
            }
            Topic::User(question) => {
                user_question::parse_answer(line, question).map(TerminalAnswer::User)
            }
        }
    }

    /// Returns the line that refuses the call or declines the question.
    pub fn refusal(&self) -> &'static str {
        match &self.topic {
            Topic::Call(_) => "n",
            Topic::User(_) => user_question::DECLINE,
        }
    }

    fn unanswered(&self, hint: String) -> TerminalAnswer {
        match &self.topic {
            Topic::Call(_) => TerminalAnswer::Call(PermissionAnswer::Nobody { hint }),
            Topic::User(_) => TerminalAnswer::User(QuestionAnswer::Nobody { hint }),
        }
    }
}

impl AnswerDelivery {
    /// Delivers the answer to the agent. Fails if the request is no longer open.
    pub fn send(self, handle: &AgentHandle) -> Result<(), AnswerError> {
        match self.answer {
            TerminalAnswer::Call(answer) => handle.answer(&self.id, answer),
            TerminalAnswer::User(answer) => handle.answer_question(&self.id, answer),
        }
    }
}

/// The waiting questions, and the one that is open on the screen.
#[derive(Debug, Default)]
pub struct QuestionQueue {
    waiting: VecDeque<TerminalQuestion>,
    open: Option<TerminalQuestion>,
}

/// Effect of an event on the open question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionEffect {
    /// The question is unchanged.
    Unchanged,
    /// The question was answered or withdrawn elsewhere.
    Closed,
}

impl QuestionQueue {
    /// Adds the question of an event to the queue, or removes the one that the event closes.
    pub fn on_event(&mut self, event: &AgentEvent) -> QuestionEffect {
        self.waiting.extend(TerminalQuestion::from_event(event));
        if let AgentEvent::PermissionDecision { request_id, .. }
        | AgentEvent::PermissionWithdrawn { request_id, .. }
        | AgentEvent::QuestionAnswered { request_id, .. }
        | AgentEvent::QuestionWithdrawn { request_id, .. } = event
        {
            self.waiting.retain(|question| question.id != *request_id);
            if self.open.take_if(|question| question.id == *request_id).is_some() {
                return QuestionEffect::Closed;
            }
        }
        QuestionEffect::Unchanged
    }

    /// Returns true if a question is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Opens the next question. Returns `None` if one is open already or none waits.
    pub fn open_next(&mut self) -> Option<&TerminalQuestion> {
        if self.open.is_some() {
            return None;
        }
        self.open = self.waiting.pop_front();
        self.open.as_ref()
    }

    /// Returns the open question.
    pub fn open(&self) -> Option<&TerminalQuestion> {
        self.open.as_ref()
    }

    /// Parses an answer to the open question and closes it. Returns `None`, and leaves it open, if the line does not
    /// parse.
    pub fn answer(&mut self, line: &str) -> Option<AnswerDelivery> {
        let answer = self.open.as_ref()?.parse(line)?;
        self.open.take().map(|question| AnswerDelivery { id: question.id, answer })
    }

    /// Closes the open question with a refusal.
    pub fn refuse(&mut self) -> Option<AnswerDelivery> {
        self.answer(self.open.as_ref()?.refusal())
    }

    /// Closes the open question because no one can answer it any more; `hint` says why.
    pub fn close_unanswerable(&mut self, hint: String) -> Option<AnswerDelivery> {
        let question = self.open.take()?;
        Some(AnswerDelivery { answer: question.unanswered(hint), id: question.id })
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{ids::CallId, tool::Subject};

    use super::*;

    fn request(id: &str) -> AgentEvent {
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
    fn questions_are_asked_one_at_a_time_and_withdrawn_ones_are_skipped() {
        let mut questions = QuestionQueue::default();
        for id in ["1", "2", "3"] {
            assert_eq!(questions.on_event(&request(id)), QuestionEffect::Unchanged);
        }
        assert_eq!(questions.open_next().unwrap().id, RequestId::new("1"));
        assert_eq!(questions.open_next(), None);
        assert_eq!(questions.on_event(&withdrawn("2")), QuestionEffect::Unchanged);
        assert_eq!(questions.answer("what?"), None);
        let delivery = questions.answer("y").unwrap();
        assert_eq!(delivery.id, RequestId::new("1"));
        assert_eq!(delivery.answer, TerminalAnswer::Call(PermissionAnswer::AllowOnce));
        assert_eq!(questions.open_next().unwrap().id, RequestId::new("3"));
        assert_eq!(questions.on_event(&withdrawn("3")), QuestionEffect::Closed);
        assert!(!questions.is_open());
    }
}
