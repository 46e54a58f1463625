//! Results of parsing a place where a call may begin.

use crow_core::message::CallArguments;

/// A part of a reply, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReadingPart {
    /// Text for the user.
    Text(String),
    /// Reasoning, which only the channels of gpt-oss mark as such.
    Thinking(String),
    /// A tool call.
    Call(TextCall),
}

/// A call that was read from text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextCall {
    /// The name as the model wrote it; it means an offered tool.
    pub name: String,
    pub arguments: CallArguments,
}

/// The reason why something that begins like a call is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallFailure {
    /// It ends in the middle.
    Incomplete,
    /// It names no offered tool.
    UnknownTool(String),
    /// It repeats the description of a tool instead of calling it.
    SchemaEcho(String),
    /// It is neither JSON nor any other known form.
    Unreadable,
    /// It stands among other text without the marks of a call.
    AmidText,
    /// It repeats what a file, a result or a message of the user says.
    Quotation,
}

impl CallFailure {
    /// Returns the reason as a sentence for the model.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Incomplete => {
                "The tool call in your reply is incomplete, so it was not run.".to_owned()
            }
            Self::UnknownTool(name) => {
                let name: String = name.chars().take(64).collect();
                format!("There is no tool named \"{name}\", so nothing was run.")
            }
            Self::SchemaEcho(name) => format!(
                "Your reply repeats the description of {name}. That is not a call: give values for its arguments."
            ),
            Self::Unreadable => {
                "The tool call in your reply cannot be read, so it was not run.".to_owned()
            }
            Self::Quotation => "Your reply repeats a tool call that stands in a result or a message. Such a call is not run.".to_owned(),
            Self::AmidText => {
                "Your reply shows a tool call in the middle of other text. Such a call is not run."
                    .to_owned()
            }
        }
    }
}

/// What was found at a place. Without parts and failure it is no call but text.
#[derive(Debug, Default)]
pub(super) struct PlaceContent {
    /// The parts that replace the first `length` bytes. If there are none, these bytes stay text.
    pub parts: Vec<ReadingPart>,
    pub length: usize,
    /// Mistakes that were accepted, as phrases for the model.
    pub repairs: Vec<String>,
    /// The first thing that could not be read.
    pub failure: Option<CallFailure>,
}

impl PlaceContent {
    /// Returns true if the place is text.
    pub(super) fn is_text(&self) -> bool {
        self.parts.is_empty() && self.failure.is_none()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, ReadingPart::Call(_)))
    }

    pub(super) fn fail(&mut self, failure: CallFailure) {
        self.failure.get_or_insert(failure);
    }

    pub(super) fn push_call(&mut self, name: &str, arguments: CallArguments) {
        self.parts.push(ReadingPart::Call(TextCall { name: name.to_owned(), arguments }));
    }

    pub(super) fn note(&mut self, repairs: Vec<String>) {
        for repair in repairs {
            if !self.repairs.contains(&repair) {
                self.repairs.push(repair);
            }
        }
    }
}
