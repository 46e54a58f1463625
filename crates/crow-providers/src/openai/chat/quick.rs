//! Fast path for the most frequent chunk, a piece of text: it is parsed without building a JSON tree.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};

/// A chunk with a piece of text and nothing else.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QuickText<'a> {
    Text(Cow<'a, str>),
    /// From the field `reasoning_content`.
    Reasoning(Cow<'a, str>),
}

#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow)]
    choices: [ChunkChoice<'a>; 1],
    usage: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ChunkChoice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: ChatDelta<'a>,
    finish_reason: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    reasoning: Option<IgnoredAny>,
    reasoning_details: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
}

/// Parses a chunk if it has a piece of text and nothing else that matters.
pub(super) fn read(data: &str) -> Option<QuickText<'_>> {
    let chunk: ChatChunk<'_> = serde_json::from_str(data).ok()?;
    let [ChunkChoice { index, delta, finish_reason, error }] = chunk.choices;
    let more = [chunk.usage, chunk.error, finish_reason, error];
    let further = [delta.reasoning, delta.reasoning_details, delta.refusal, delta.tool_calls];
    if index.unwrap_or(0) != 0 || more.iter().chain(&further).any(Option::is_some) {
        return None;
    }
    let is_nonempty = |text: &Cow<'_, str>| !text.is_empty();
    match (delta.content.filter(is_nonempty), delta.reasoning_content.filter(is_nonempty)) {
        (Some(text), None) => Some(QuickText::Text(text)),
        (None, Some(text)) => Some(QuickText::Reasoning(text)),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lone_piece_of_text_is_read() {
        let text = |text: &'static str| Some(QuickText::Text(text.into()));
        for (delta, around, expected) in [
            (r#"{"content":"Hi"}"#, "", text("Hi")),
            (r#"{"content":"\u00e4\n"}"#, r#","id":"x","usage":null,"timings":{}"#, text("ä\n")),
            (r#"{"role":"assistant","content":"Hi","refusal":null,"novel":[1]}"#, "", text("Hi")),
            (
                r#"{"content":null,"reasoning_content":"Hm"}"#,
                "",
                Some(QuickText::Reasoning("Hm".into())),
            ),
            (r#"{"content":"a","reasoning_content":"b"}"#, "", None),
            (r#"{"content":""}"#, "", None),
            (r#"{"content":["x"]}"#, "", None),
            (r#"{"content":"Hi","tool_calls":[]}"#, "", None),
            (r#"{"content":"Hi","reasoning":"x"}"#, "", None),
            (r#"{"content":"Hi"}"#, r#","usage":{}"#, None),
            (r#"{"content":"Hi"}"#, r#","error":{}"#, None),
        ] {
            let data = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]{around}}}"#);
            assert_eq!(read(&data), expected, "{data}");
        }
        for data in [
            "[DONE]",
            r#"{"choices":[]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"Hi"}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hi"}},{"delta":{"content":"Hi"}}]}"#,
            r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"delta":{"content":"Hi"},"error":{}}]}"#,
        ] {
            assert_eq!(read(data), None, "{data}");
        }
    }
}
