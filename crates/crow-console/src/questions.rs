//! Questions of agents to the person at the terminal: their text, the answers that are typed, and the order in which
//! they are asked, one at a time.

use std::{collections::VecDeque, fmt::Write as _};

use crow_core::{
    capability::{PermissionAnswer, QuestionAnswer, UserQuestion},
    event::AgentEvent,
    ids::RequestId,
    permission::GrantOffer,
};
use crow_runtime::{AgentHandle, AnswerError};
use crow_text::{approval_line, one_line};

/// Question to the person at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalQuestion {
    pub id: RequestId,
    /// Title of the call, or text of the question, on one line and neutralised.
    pub title: String,
    /// True if it waits or has waited behind another question.
    pub has_waited: bool,
    topic: Topic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Topic {
    /// Permission for a call, with the grants that a yes can include.
    Call(Vec<GrantOffer>),
    /// Question of an agent to the user.
    User(UserQuestion),
}

/// An answer to a question that one key gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// The key.
    pub key: char,
    /// Description of the answer. It may be foreign text: it is neutralised and has no line breaks.
    pub label: String,
    /// The line that gives this answer, see [`QuestionQueue::answer`].
    pub line: String,
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
        let (id, title, topic) = match event {
            AgentEvent::PermissionRequest { request_id, title, tool, offers, .. } => {
                let title = if title.is_empty() { tool } else { title };
                (request_id, title, Topic::Call(offers.clone()))
            }
            AgentEvent::QuestionAsked { request_id, question, .. } => {
                (request_id, &question.text, Topic::User(question.clone()))
            }
            _ => return None,
        };
        Some(Self { id: id.clone(), title: one_line(title), has_waited: false, topic })
    }

    /// Returns true if the event asks this question.
    pub fn is_asked_by(&self, event: &AgentEvent) -> bool {
        Self::from_event(event).is_some_and(|question| question.id == self.id)
    }

    /// Returns the possible answers; the last line is the prompt before the answer.
    pub fn choices(&self) -> String {
        match &self.topic {
            Topic::Call(offers) => permission_choices(offers),
            Topic::User(question) => user_prompt(question),
        }
    }

    /// Returns the message for an unparsable answer: it lists the possible ones.
    pub fn invalid_answer_message(&self) -> String {
        match &self.topic {
            Topic::Call(offers) => invalid_permission_message(offers),
            Topic::User(question) => invalid_user_answer_message(question),
        }
    }

    /// Returns the answers that can be given by one key, in the order in which they are listed.
    pub fn options(&self) -> Vec<QuestionOption> {
        let option = |key: char, label: String, line: String| QuestionOption { key, label, line };
        match &self.topic {
            Topic::Call(offers) => {
                let grants = OFFER_KEYS.into_iter().zip(offers).map(|(key, offer)| {
                    let label = approval_line(&offer.label);
                    let label = format!("yes, and {label} for the rest of this session");
                    option(key, label, key.to_string())
                });
                let yes = option('y', "yes".to_owned(), "y".to_owned());
                let no = option('n', "no".to_owned(), "n".to_owned());
                [yes].into_iter().chain(grants).chain([no]).collect()
            }
            Topic::User(question) => {
                let choices = ('1'..='9').zip(&question.choices);
                let choices = choices
                    .map(|(key, choice)| option(key, one_line(&choice.label), key.to_string()));
                let decline = option('-', "no answer".to_owned(), DECLINE.to_owned());
                choices.chain([decline]).collect()
            }
        }
    }

    /// Returns true if there is anything to choose; otherwise only words answer the question.
    pub fn has_choices(&self) -> bool {
        match &self.topic {
            Topic::Call(_) => true,
            Topic::User(question) => !question.choices.is_empty(),
        }
    }

    /// Returns true if several of the options can be chosen together.
    pub fn takes_several(&self) -> bool {
        matches!(&self.topic, Topic::User(question) if question.multiple && question.choices.len() > 1)
    }

    /// Returns the label of the answer in words; `None` if the question takes none.
    pub fn words_label(&self) -> Option<&'static str> {
        match &self.topic {
            Topic::Call(_) => Some("no, and tell it what to do instead"),
            Topic::User(question) if question.choices.is_empty() => Some("type an answer"),
            Topic::User(question) => question.free_text.then_some("another answer"),
        }
    }

    /// Returns the line that answers in words: a refusal with a reason, or the words themselves.
    pub fn line_of_words(&self, words: &str) -> String {
        match &self.topic {
            Topic::Call(_) => format!("n {words}"),
            Topic::User(_) => words.to_owned(),
        }
    }

    fn parse(&self, line: &str) -> Option<TerminalAnswer> {
        match &self.topic {
            Topic::Call(offers) => parse_permission(line, offers).map(TerminalAnswer::Call),
            Topic::User(question) => parse_user_answer(line, question).map(TerminalAnswer::User),
        }
    }

    /// Returns the line that refuses the call or declines the question.
    pub fn refusal(&self) -> &'static str {
        match &self.topic {
            Topic::Call(_) => "n",
            Topic::User(_) => DECLINE,
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
        if let Some(question) = TerminalQuestion::from_event(event) {
            let has_waited = self.open.is_some() || !self.waiting.is_empty();
            self.waiting.push_back(TerminalQuestion { has_waited, ..question });
        }
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

    /// Returns the questions that wait behind the open one, in their order.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &TerminalQuestion> {
        self.waiting.iter()
    }

    /// Puts the open question behind the others, so that the next one can be opened. Returns false if none waits.
    pub fn put_off(&mut self) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let open = self.open.take();
        self.waiting.extend(open.map(|open| TerminalQuestion { has_waited: true, ..open }));
        true
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

/// Parses a typed line: `y`, `n`, `n` with feedback for the model, or the letter of an offer. Returns `None` for
/// anything else.
fn parse_permission(line: &str, offers: &[GrantOffer]) -> Option<PermissionAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once([' ', ',', ':']).unwrap_or((line, ""));
    let feedback = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
    let word = word.to_ascii_lowercase();
    let offer = OFFER_KEYS.iter().zip(offers).find(|(key, _)| key.to_string() == word);
    match (word.as_str(), offer) {
        ("n" | "no", _) => Some(PermissionAnswer::Deny { feedback }),
        // A condition behind a yes would be lost.
        _ if feedback.is_some() => None,
        ("y" | "yes", _) => Some(PermissionAnswer::AllowOnce),
        (_, Some((_, offer))) => {
            Some(PermissionAnswer::AllowSession { grants: offer.grants.clone() })
        }
        (_, None) => None,
    }
}

/// Writes the offers, a line each, and the prompt with the possible answers.
fn permission_choices(offers: &[GrantOffer]) -> String {
    let mut text = String::new();
    let offers: Vec<_> = OFFER_KEYS.iter().zip(offers).collect();
    for (key, offer) in &offers {
        let label = approval_line(&offer.label);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {key} = yes, and {label} for the rest of this session");
    }
    text.push_str("  allow? [y]es, ");
    for (key, _) in &offers {
        let _ = write!(text, "[{key}], ");
    }
    text.push_str("[n]o, or n and why: ");
    text
}

/// Returns the message for an unparsable answer: it lists the possible ones.
fn invalid_permission_message(offers: &[GrantOffer]) -> String {
    let keys: Vec<_> = OFFER_KEYS.iter().zip(offers).map(|(key, _)| key.to_string()).collect();
    let keys = if keys.is_empty() {
        String::new()
    } else {
        format!("{} for yes in this session, ", keys.join(" or "))
    };
    format!("answer y for yes, {keys}n for no, or n and what the model should do instead")
}

/// Letters that accept the offers, in order; further offers cannot be chosen.
const OFFER_KEYS: [char; 3] = ['a', 'b', 'c'];

/// Line that declines to answer.
const DECLINE: &str = "-";

/// Parses a typed line. Returns `None` for a number without a choice, and for an answer that the question does not
/// accept.
fn parse_user_answer(line: &str, question: &UserQuestion) -> Option<QuestionAnswer> {
    let line = line.trim();
    if line == DECLINE {
        return Some(QuestionAnswer::Declined);
    }
    let answer = match labels(line, question) {
        QuestionInput::Labels(labels) => QuestionAnswer::Chosen { labels },
        QuestionInput::Words => QuestionAnswer::Text { text: line.to_owned() },
        QuestionInput::NoSuchNumber => return None,
    };
    question.accepts(&answer).then_some(answer)
}

/// Returns the prompt before the answer.
fn user_prompt(question: &UserQuestion) -> String {
    format!("  {}: ", accepted_forms(question))
}

/// Returns the message for an unparsable answer: it lists the possible ones.
fn invalid_user_answer_message(question: &UserQuestion) -> String {
    format!("answer with {}", accepted_forms(question))
}

fn accepted_forms(question: &UserQuestion) -> String {
    let count = question.choices.len();
    let numbers = match (count, question.multiple) {
        (0, _) => return format!("words, or {DECLINE} for no answer"),
        (1, _) => "1".to_owned(),
        (_, false) => format!("1 to {count}"),
        (_, true) => format!("some of 1 to {count} (such as 1,{count})"),
    };
    let words = if question.free_text { ", words" } else { "" };
    format!("{numbers}{words}, or {DECLINE} for no answer")
}

/// Classification of a typed line.
enum QuestionInput {
    Labels(Vec<String>),
    Words,
    NoSuchNumber,
}

fn labels(line: &str, question: &UserQuestion) -> QuestionInput {
    let choices = &question.choices;
    if let Some(choice) = choices.iter().find(|choice| choice.label.eq_ignore_ascii_case(line)) {
        return QuestionInput::Labels(vec![choice.label.clone()]);
    }
    let parts = line.split([',', ' ']).filter(|part| !part.is_empty());
    let numbers: Result<Vec<usize>, _> = parts.map(str::parse).collect();
    let Ok(numbers) = numbers else { return QuestionInput::Words };
    if choices.is_empty() {
        return QuestionInput::Words;
    }
    let chosen: Option<Vec<_>> = numbers
        .iter()
        .map(|number| Some(choices.get(number.checked_sub(1)?)?.label.clone()))
        .collect();
    match chosen {
        Some(labels) if !labels.is_empty() && (question.multiple || labels.len() == 1) => {
            QuestionInput::Labels(labels)
        }
        Some(_) | None => QuestionInput::NoSuchNumber,
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{capability::QuestionChoice, ids::CallId, permission::Grant, tool::Subject};

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

    fn offer(label: &str) -> GrantOffer {
        GrantOffer { label: label.into(), grants: vec![Grant::Tool(label.into())] }
    }

    #[test]
    fn answers_are_yes_an_offer_no_or_no_with_feedback() {
        let no = |feedback: Option<&str>| {
            Some(PermissionAnswer::Deny { feedback: feedback.map(str::to_owned) })
        };
        let always = |tool: &str| {
            Some(PermissionAnswer::AllowSession { grants: vec![Grant::Tool(tool.into())] })
        };
        let offers = [offer("one"), offer("two")];
        let table = [
            ("y\n", Some(PermissionAnswer::AllowOnce)),
            ("YES", Some(PermissionAnswer::AllowOnce)),
            ("a", always("one")),
            ("B\n", always("two")),
            ("c", None),
            ("n", no(None)),
            ("no, use the other file", no(Some("use the other file"))),
            ("", None),
            ("maybe", None),
            ("yesterday", None),
            ("yes, but not in src", None),
            ("a test is missing", None),
        ];
        for (line, expected) in table {
            assert_eq!(parse_permission(line, &offers), expected, "{line:?}");
        }
        assert_eq!(parse_permission("a", &[]), None);
    }

    #[test]
    fn the_message_for_an_unparsable_answer_lists_the_offered_letters() {
        let rest = "n for no, or n and what the model should do instead";
        let table = [
            (vec![], format!("answer y for yes, {rest}")),
            (vec![offer("one")], format!("answer y for yes, a for yes in this session, {rest}")),
            (
                vec![offer("one"), offer("two")],
                format!("answer y for yes, a or b for yes in this session, {rest}"),
            ),
        ];
        for (offers, expected) in table {
            assert_eq!(invalid_permission_message(&offers), expected);
        }
    }

    #[test]
    fn what_can_be_answered_is_said_with_what_it_means() {
        insta::assert_snapshot!(permission_choices(&[offer("edits of src/a.rs"), offer("edits below src/")]), @"
          a = yes, and edits of src/a.rs for the rest of this session
          b = yes, and edits below src/ for the rest of this session
          allow? [y]es, [a], [b], [n]o, or n and why:
        ");
    }

    fn question(labels: &[&str], multiple: bool) -> UserQuestion {
        let choice = |label: &&str| QuestionChoice { label: (*label).into(), description: None };
        UserQuestion {
            text: "Which?".into(),
            header: None,
            choices: labels.iter().map(choice).collect(),
            multiple,
            free_text: true,
        }
    }

    #[test]
    fn numbers_and_labels_choose_and_other_words_are_the_answer() {
        let chosen = |labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            Some(QuestionAnswer::Chosen { labels })
        };
        let words = |text: &str| Some(QuestionAnswer::Text { text: text.into() });
        let (one, several, free) = (
            question(&["SQLite", "PostgreSQL"], false),
            question(&["a", "b", "c"], true),
            question(&[], false),
        );
        let table = [
            (&one, "1\n", chosen(&["SQLite"])),
            (&one, " 2 ", chosen(&["PostgreSQL"])),
            (&one, "sqlite", chosen(&["SQLite"])),
            (&one, "1,2", None),
            (&one, "0", None),
            (&one, "3", None),
            (&one, "", None),
            (&one, "-", Some(QuestionAnswer::Declined)),
            (&one, "3 of them", words("3 of them")),
            (&several, "1, 3", chosen(&["a", "c"])),
            (&several, "3 1", chosen(&["c", "a"])),
            (&several, "1,4", None),
            (&free, "42", words("42")),
            (&free, "the old one", words("the old one")),
            (&free, "   ", None),
        ];
        for (question, line, expected) in table {
            assert_eq!(parse_user_answer(line, question), expected, "{line:?}");
        }
    }

    #[test]
    fn the_prompt_lists_the_possible_answers() {
        assert_eq!(user_prompt(&question(&[], false)), "  words, or - for no answer: ");
        assert_eq!(user_prompt(&question(&["a"], true)), "  1, words, or - for no answer: ");
        assert_eq!(
            user_prompt(&question(&["a", "b"], false)),
            "  1 to 2, words, or - for no answer: "
        );
        assert_eq!(
            invalid_user_answer_message(&question(&["a", "b", "c"], true)),
            "answer with some of 1 to 3 (such as 1,3), words, or - for no answer"
        );
    }
}
