//! Untrusted text, prepared for display: without control characters, and of bounded length; and the content of calls
//! that is made of it.
//!
//! Editors show text as it is. So invisible characters become visible signs, by the functions that the terminal uses.

use agent_client_protocol::v1::schema::{ContentBlock, ImageContent, ToolCallContent};
use crow_core::message::Image;
use crow_text::{approval_text, neutralise};
use serde_json::{Map, Value};

/// Largest title, in characters.
const TITLE_CHARS: usize = 300;

/// Removes control characters except line feeds and tabs, and whole escape sequences. Other invisible characters become
/// visible signs.
pub(super) fn sanitise(text: &str) -> String {
    let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    if !text.contains(is_control) {
        return neutralise(text);
    }
    let mut shown = EscapeFilter::default().push(text);
    shown.retain(|char| !is_control(char));
    neutralise(&shown)
}

/// Removes escape sequences and control characters from a text that arrives in pieces. Line feeds, tabs, carriage
/// returns and backspaces stay.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EscapeFilter(EscapeState);

/// State of the parser: what the next character belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// A control sequence, up to its final character.
    Control,
    /// A control string (OSC, DCS and others), up to its end.
    String,
    /// After an escape character in a control string.
    StringEscape,
}

impl EscapeFilter {
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for char in text.chars() {
            let is_shown = self.0 == EscapeState::Text;
            self.0 = self.next(char);
            let is_line = matches!(char, '\n' | '\t' | '\r' | '\u{8}');
            // A line feed ends an unfinished sequence, and is shown as well.
            if (is_shown && self.0 == EscapeState::Text && !char.is_control())
                || (is_line && self.0 == EscapeState::Text)
            {
                shown.push(char);
            }
        }
        shown
    }

    fn next(self, char: char) -> EscapeState {
        match self.0 {
            _ if char == '\n' => EscapeState::Text,
            EscapeState::Text => match char {
                '\u{1b}' => EscapeState::Escape,
                '\u{9b}' => EscapeState::Control,
                '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => EscapeState::String,
                _ => EscapeState::Text,
            },
            EscapeState::Escape => match char {
                '[' => EscapeState::Control,
                ']' | 'P' | 'X' | '^' | '_' => EscapeState::String,
                ' '..='/' | '\u{1b}' => EscapeState::Escape,
                _ => EscapeState::Text,
            },
            EscapeState::Control => match char {
                '@'..='~' | '\r' | '\u{8}' => EscapeState::Text,
                '\u{1b}' => EscapeState::Escape,
                _ => EscapeState::Control,
            },
            EscapeState::String => match char {
                '\u{7}' | '\u{9c}' => EscapeState::Text,
                '\u{1b}' => EscapeState::StringEscape,
                _ => EscapeState::String,
            },
            EscapeState::StringEscape => EscapeState::Text,
        }
    }
}

/// Returns the first line that is not blank, with `…` if it was cut or more lines follow. Invisible characters become
/// visible signs instead of being removed, because the line may be a command that the user is asked about.
pub(super) fn title(text: &str) -> String {
    let text = approval_text(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().replace('\t', " ");
    let mut shown: String = first.chars().take(TITLE_CHARS).collect();
    if shown.len() < first.len() || lines.next().is_some() {
        shown.push_str(" …");
    }
    shown
}

/// Returns the beginning of a text, at most `most` bytes long.
pub(super) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// Returns the end of a text, at most `most` bytes long.
pub(super) fn tail(text: &str, most: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(most))..).unwrap_or(text)
}

/// Returns the text; beyond `most` bytes, its beginning and its end with a line between them that says how much is
/// left out.
pub(super) fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (first, last) = (head(text, most / 2), tail(text, most / 2));
    let left_out = text.len() - first.len() - last.len();
    format!("{first}\n[{left_out} bytes left out]\n{last}")
}

/// Cuts a growing text to its last `most / 2` bytes if it is longer than `most`.
pub(super) fn keep_tail(text: &mut String, most: usize) {
    if text.len() > most {
        let end = tail(text, most / 2).to_owned();
        *text = end;
    }
}

/// Limit of the shown output, in bytes.
const MOST_OUTPUT: usize = 64 * 1024;
/// Limit of a string in raw input, in bytes.
const MOST_RAW_STRING: usize = 16 * 1024;
/// Limit of the nesting of raw input.
const MOST_RAW_DEPTH: usize = 32;

/// Returns text that clients render as Markdown.
pub(super) fn prose(text: &str) -> ToolCallContent {
    ToolCallContent::from(bounded(&sanitise(text), MOST_OUTPUT))
}

/// Returns output in a code fence that nothing in it can close.
pub(super) fn fenced(output: &str, language: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&sanitise(output), MOST_OUTPUT), language))
}

/// Returns a command in such a fence. Invisible characters become visible signs: nothing that the user decides on is
/// hidden.
pub(super) fn fenced_command(command: &str) -> ToolCallContent {
    ToolCallContent::from(fenced_text(&bounded(&approval_text(command), MOST_OUTPUT), "sh"))
}

/// Puts text into a fence that is longer than any run of backticks in it.
pub(super) fn fenced_text(text: &str, language: &str) -> String {
    let (mut longest, mut run) = (2, 0);
    for char in text.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    let line_feed = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{line_feed}{fence}")
}

pub(super) fn image(image: &Image) -> ContentBlock {
    ContentBlock::Image(ImageContent::new(image.data.clone(), image.media_type.clone()))
}

/// Returns the arguments of a call with long strings cut. The content shows them in full.
pub(super) fn bounded_arguments(value: &Value) -> Value {
    raw_at(value, MOST_RAW_DEPTH)
}

fn raw_at(value: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::from("…");
    }
    match value {
        // An editor may show it with a question, so invisible characters become visible signs.
        Value::String(text) => Value::from(neutralise(&bounded(text, MOST_RAW_STRING))),
        Value::Array(values) => values.iter().map(|value| raw_at(value, depth - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), raw_at(value, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\u{1b}[31mred\u{1b}[0m \u{1b}]52;c;aGk=\u{7}é\r\u{1b}(Bx\u{1b}]0;t\u{1b}\\\ty\u{1b}]open\nend\u{9b}2J\0\u{7f}!";

    #[test]
    fn escape_sequences_and_control_characters_are_removed() {
        assert_eq!(sanitise(OUTPUT), "red éx\ty\nend!");
        assert_eq!(EscapeFilter::default().push(OUTPUT), "red é\rx\ty\nend!");
        assert_eq!(sanitise("a\u{1b}[31"), "a");
    }

    #[test]
    fn invisible_characters_become_visible_signs() {
        assert_eq!(
            title("rm\u{202e}x \u{2066}\u{200b}y\u{1b}[8m\u{7}"),
            "rm\\u{202e}x \\u{2066}\\u{200b}y␛[8m␇"
        );
        assert_eq!(sanitise("\u{1b}[1ma\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn the_result_does_not_depend_on_where_output_is_split() {
        let whole = EscapeFilter::default().push(OUTPUT);
        for (at, _) in OUTPUT.char_indices() {
            let (first, last) = OUTPUT.split_at(at);
            let mut harmless = EscapeFilter::default();
            assert_eq!(harmless.push(first) + &harmless.push(last), whole, "{at}");
        }
    }

    #[test]
    fn a_title_is_one_line_of_bounded_length() {
        assert_eq!(title("\n  a\tb \n"), "a b");
        assert_eq!(title("a\nb"), "a …");
        assert_eq!(title(&"é".repeat(1000)).chars().count(), TITLE_CHARS + 2);
        assert_eq!(title(" \n"), "");
    }

    #[test]
    fn a_bounded_text_has_its_beginning_and_its_end() {
        let text = bounded(&format!("a{}b", "é".repeat(1000)), 100);
        assert!(text.starts_with("aé") && text.ends_with("éb") && text.len() < 150, "{text}");
        assert_eq!(bounded("short", 100), "short");
    }
}
