//! Reading of a complete reply, and the results of parsing a place where a call may begin.

use crow_core::{message::CallArguments, model::ToolCallFormat};

use super::{
    bare::{read_bare, read_bare_python, read_fenced},
    envelope::OfferedTools,
    marker::Marker,
    python::read_python_token,
    scanner::{CallPlace, CallScanner},
    script::read_script,
    tagged::{read_element, read_wrapper},
    tokens::{read_deepseek, read_harmony, read_json_token, read_kimi, read_mistral},
};

/// Marks of results and of turns of others. A model that writes one after its call invents the rest.
pub(super) const RESULT_MARKS: [&str; 12] = [
    "<tool_result",
    "<tool_response",
    "<tool_output",
    "<function_result",
    "<|tool_response",
    "<｜tool▁output",
    "[TOOL_RESULTS]",
    "```tool_output",
    "<|start_header_id|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
];
/// Note on invented results.
const INVENTED: &str = "what you wrote after the call, as if it were the result, was discarded";

/// What a reply says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TextReading {
    /// The parts in order. The text is unchanged if there is no call.
    pub parts: Vec<ReadingPart>,
    /// Mistakes that were accepted, as phrases for the model.
    pub repairs: Vec<String>,
    /// The first thing that begins like a call and is none.
    pub failure: Option<CallFailure>,
    /// True if parts replace a place of the text: calls, or messages of gpt-oss without their marks.
    is_rewritten: bool,
    /// True if nothing ends the code block of the last call.
    is_open: bool,
    /// True after a code block that is run. Text after it was written without knowing what it prints, and is discarded.
    is_past_script: bool,
}

impl TextReading {
    /// Returns true if it is nothing but the text as it was written.
    pub(crate) fn is_text(&self) -> bool {
        !self.is_rewritten
    }

    /// Returns the text for the user.
    pub(crate) fn visible_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            ReadingPart::Text(text) => Some(text.as_str()),
            ReadingPart::Thinking(_) | ReadingPart::Call(_) => None,
        });
        texts.collect()
    }

    /// Removes a last call that the end of the reply cut off.
    pub(crate) fn without_cut_call(mut self) -> Self {
        if self.is_open {
            let last = self.parts.iter().rposition(|part| matches!(part, ReadingPart::Call(_)));
            self.parts.truncate(last.expect("invariant: an open block is a call"));
            self.failure.get_or_insert(CallFailure::Incomplete);
        }
        self
    }

    fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, ReadingPart::Call(_)))
    }
}

/// Reads the calls in a reply. Of the forms without marks, only a call that is the whole reply counts for a model that
/// can call natively; without native calls, some words may stand before it.
///
/// `is_quotation` tells if a piece of text stands in an earlier message that the model did not write. A call that the
/// model only repeats, from a file for example, is none.
pub(crate) fn read_text_calls(
    text: &str,
    tools: OfferedTools<'_>,
    format: ToolCallFormat,
    is_quotation: &dyn Fn(&str) -> bool,
) -> TextReading {
    let mut reading = TextReading::default();
    let mut scanner = CallScanner::new(format);
    let mut text_start = 0;
    let mut is_marked = false;
    let mut reply_start = 0;
    while let Some(place) = scanner.next_place(text, true) {
        let CallPlace { start, marker } = place;
        // 1) An end of reasoning without a beginning: what came before was no reply.
        if scanner.reply_start() > reply_start {
            reply_start = scanner.reply_start();
            if reading.has_calls() || reading.failure.is_some() {
                (reading, text_start, is_marked) = (TextReading::default(), 0, false);
            }
        }
        // 2) Text after a call may be an invented result.
        if let Some(end) = invented_result(&reading, &text[text_start..start]) {
            push_without_result(&mut reading, &text[text_start..], end);
            return settled(reading, text, is_marked);
        }
        // 3) The place itself.
        let mut parsed = parse(&text[start..], marker, tools, format);
        if parsed.parts.is_empty() && parsed.failure == Some(CallFailure::Incomplete) {
            // Half a call reaches to the end: nothing in it is read in another way.
            parsed.length = text.len() - start;
        }
        if parsed.has_calls() && is_quotation(text[start..start + parsed.length].trim()) {
            parsed.parts.clear();
            parsed.failure = Some(CallFailure::Quotation);
        }
        if parsed.is_text() {
            scanner.resume_inside(text, place);
            continue;
        }
        let end = start + parsed.length;
        if !parsed.parts.is_empty() {
            push_text(&mut reading, text[text_start..start].trim_end());
            reading.parts.extend(parsed.parts);
            reading.is_rewritten = true;
            reading.is_open = parsed.is_open;
            reading.is_past_script |= marker == Marker::Script;
            text_start = end;
            is_marked |= !matches!(marker, Marker::Json | Marker::Python | Marker::Fence);
        }
        for repair in parsed.repairs {
            if !reading.repairs.contains(&repair) {
                reading.repairs.push(repair);
            }
        }
        if reading.failure.is_none() {
            reading.failure = parsed.failure;
        }
        scanner.resume_at(end.max(start + 1));
    }
    if scanner.reply_start() > reply_start && (reading.has_calls() || reading.failure.is_some()) {
        (reading, text_start, is_marked) = (TextReading::default(), 0, false);
    }
    let rest = &text[text_start..];
    match invented_result(&reading, rest) {
        Some(end) => push_without_result(&mut reading, rest, end),
        None => push_text(&mut reading, rest),
    }
    settled(reading, text, is_marked)
}

/// Settles calls without marks beside others amid text: which of them are meant is unknown.
fn settled(mut reading: TextReading, text: &str, is_marked: bool) -> TextReading {
    if reading.failure != Some(CallFailure::AmidText) || !reading.has_calls() {
        return reading;
    }
    if is_marked {
        reading.failure = None;
        return reading;
    }
    TextReading {
        parts: vec![ReadingPart::Text(text.to_owned())],
        failure: reading.failure,
        ..TextReading::default()
    }
}

fn parse(
    text: &str,
    marker: Marker,
    tools: OfferedTools<'_>,
    format: ToolCallFormat,
) -> PlaceContent {
    match marker {
        Marker::Wrapper => read_wrapper(text, tools),
        Marker::Element => read_element(text, tools),
        Marker::JsonToken => read_json_token(text, tools),
        Marker::PythonToken => read_python_token(text, tools),
        Marker::Mistral => read_mistral(text, tools),
        Marker::DeepSeek => read_deepseek(text, tools),
        Marker::Kimi => read_kimi(text, tools),
        Marker::Harmony => read_harmony(text, tools),
        Marker::Json => read_bare(text, tools, format),
        Marker::Python => read_bare_python(text, tools, format),
        Marker::Fence => read_fenced(text, tools, format),
        Marker::Script => read_script(text, tools),
    }
}

/// Returns the offset of an invented result in the text after a call.
fn invented_result(reading: &TextReading, text: &str) -> Option<usize> {
    if !reading.has_calls() {
        return None;
    }
    RESULT_MARKS.iter().filter_map(|mark| text.find(mark)).min()
}

/// Cuts off an invented result.
fn push_without_result(reading: &mut TextReading, text: &str, end: usize) {
    push_text(reading, &text[..end]);
    // A mark alone is only the end of the reply.
    if !RESULT_MARKS.contains(&text[end..].trim()) {
        reading.repairs.push(INVENTED.to_owned());
    }
}

/// Adds text, unless nothing of it is visible beside the other parts.
fn push_text(reading: &mut TextReading, text: &str) {
    let is_blank = text.is_empty() || (text.trim().is_empty() && !reading.parts.is_empty());
    if is_blank || reading.is_past_script {
        return;
    }
    reading.parts.push(ReadingPart::Text(text.to_owned()));
}

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
    /// True if the last call reaches to the end of the text because nothing ends it.
    pub is_open: bool,
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
