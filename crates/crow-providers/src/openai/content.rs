//! Texts and images in the forms that both formats share.

use crow_core::message::{Block, Image, ResultMessage};

/// Text of a user message without content, which keeps the turns in order.
const EMPTY_MESSAGE: &str = "(empty message)";

/// A block in the form in which these formats send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentPart<'a> {
    Text(&'a str),
    /// Data URL of an image.
    Image(String),
}

/// Returns the parts of `blocks` to send: no blank texts, and a note in place of an image for models without vision.
pub(super) fn parts(blocks: &[Block], sees_pictures: bool) -> Vec<ContentPart<'_>> {
    blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } if text.trim().is_empty() => None,
            Block::Text { text } => Some(ContentPart::Text(text)),
            Block::Image(image) if sees_pictures => Some(ContentPart::Image(data_url(image))),
            Block::Image(_) => Some(ContentPart::Text("[a picture, which this model cannot see]")),
        })
        .collect()
}

/// Returns the parts of a user message to send; never empty.
pub(super) fn user_parts(blocks: &[Block], sees_pictures: bool) -> Vec<ContentPart<'_>> {
    let parts = parts(blocks, sees_pictures);
    if parts.is_empty() { vec![ContentPart::Text(EMPTY_MESSAGE)] } else { parts }
}

/// Joins the texts of `parts` with blank lines.
pub(super) fn joined_text(parts: &[ContentPart<'_>]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Text(text) => Some(*text),
            ContentPart::Image(_) => None,
        })
        .collect();
    texts.join("\n\n")
}

/// Returns the URLs of the images among `parts`.
pub(super) fn pictures<'a>(parts: &'a [ContentPart<'_>]) -> impl Iterator<Item = &'a str> {
    parts.iter().filter_map(|part| match part {
        ContentPart::Text(_) => None,
        ContentPart::Image(url) => Some(url.as_str()),
    })
}

/// Returns the text of a result. Neither format has a field for failure, so the text of a failed call says it.
pub(super) fn result_text(result: &ResultMessage, parts: &[ContentPart<'_>]) -> String {
    let text = joined_text(parts);
    let is_marked =
        text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (result.is_error, text.is_empty()) {
        (true, true) => "Error: the call failed without a message".to_owned(),
        (true, false) if !is_marked => format!("Error: {text}"),
        (false, true) if pictures(parts).next().is_none() => "(no output)".to_owned(),
        (true | false, _) => text,
    }
}

/// Returns a tool's name in a form that may be sent. A model can call a name that its provider then refuses to take
/// back.
pub(super) fn wire_name(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().take(LONGEST).map(|c| if is_allowed(c) { c } else { '_' }).collect()
}

fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

#[cfg(test)]
mod tests {
    use crow_core::ids::CallId;

    use super::*;

    #[test]
    fn a_failed_call_says_so_in_its_text() {
        for (text, is_error, expected) in [
            ("done", false, "done"),
            ("", false, "(no output)"),
            ("no such file", true, "Error: no such file"),
            ("error: no such file", true, "error: no such file"),
            ("ERROR 5", true, "ERROR 5"),
            ("größe", true, "Error: größe"),
            ("", true, "Error: the call failed without a message"),
        ] {
            let result = ResultMessage {
                call_id: CallId::new("call_1"),
                tool: "bash".to_owned(),
                content: vec![Block::text(text)],
                is_error,
            };
            assert_eq!(result_text(&result, &parts(&result.content, false)), expected);
        }
    }

    #[test]
    fn a_name_is_sent_with_allowed_characters_only() {
        for (name, expected) in [
            ("read_file", "read_file"),
            ("mcp-git_log", "mcp-git_log"),
            ("functions.bash", "functions_bash"),
            ("größe", "gr__e"),
            ("", "unnamed"),
        ] {
            assert_eq!(wire_name(name), expected);
        }
        assert_eq!(wire_name(&"x".repeat(200)).len(), 64);
    }

    #[test]
    fn a_note_replaces_an_image_for_a_model_without_vision() {
        let image = Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
        let blocks = [Block::text("look"), Block::Image(image), Block::text("  ")];
        assert_eq!(
            parts(&blocks, false),
            [
                ContentPart::Text("look"),
                ContentPart::Text("[a picture, which this model cannot see]")
            ]
        );
        assert_eq!(
            parts(&blocks, true),
            [
                ContentPart::Text("look"),
                ContentPart::Image("data:image/png;base64,AAAA".to_owned())
            ]
        );
    }
}
