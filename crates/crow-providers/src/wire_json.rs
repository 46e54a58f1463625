//! The JSON of a message as it is kept between requests.

use std::{io, sync::Arc};

use bytes::Bytes;
use crow_core::message::{Block, Message, ReplyContent};
use memchr::memmem;

/// Minimum length of a text that is not kept a second time, in bytes. To escape a shorter one again for each request takes
/// longer than its copy is worth.
const LONG_TEXT: usize = 2048;

/// The JSON of a message: one or more values separated by commas.
///
/// A conversation consists mostly of long results, which would be in memory twice: in the message, and escaped in its JSON. So
/// [`share_texts`](Self::share_texts) replaces the long texts and pictures in the JSON by references to the message. Each request
/// escapes them again, which gives the same bytes each time and takes about a millisecond per megabyte.
#[derive(Debug, Clone, Default)]
pub(crate) struct WireJson {
    parts: Vec<WirePart>,
    len: usize,
}

#[derive(Debug, Clone)]
enum WirePart {
    Json(Bytes),
    /// The text with this number in a message, escaped, without quotes.
    Text {
        message: Arc<Message>,
        number: usize,
        /// Length of the escaped text.
        len: usize,
    },
}

impl WireJson {
    pub(crate) fn new(json: Bytes) -> Self {
        Self { len: json.len(), parts: vec![WirePart::Json(json)] }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Replaces the long texts of the message that this is the JSON of by references to it.
    pub(crate) fn share_texts(&mut self, message: &Arc<Message>) {
        let [WirePart::Json(whole)] = self.parts.as_slice() else { return };
        let mut rest: &[u8] = whole;
        let mut parts = Vec::new();
        for (number, text) in texts(message).enumerate() {
            if text.len() < LONG_TEXT {
                continue;
            }
            let escaped = escaped(text);
            // A text that the format changes, or moves before one that was found, stays in the JSON.
            let Some(at) = memmem::find(rest, &escaped) else { continue };
            parts.push(WirePart::Json(Bytes::copy_from_slice(&rest[..at])));
            let message = Arc::clone(message);
            parts.push(WirePart::Text { message, number, len: escaped.len() });
            rest = &rest[at + escaped.len()..];
        }
        if !parts.is_empty() {
            parts.push(WirePart::Json(Bytes::copy_from_slice(rest)));
            self.parts = parts;
        }
    }

    /// Appends the JSON to a body.
    pub(crate) fn append_to(&self, body: &mut Vec<u8>) {
        for part in &self.parts {
            part.append_to(body);
        }
    }

    /// Appends the JSON with an insertion at an offset, which lies in no text.
    pub(crate) fn append_with(&self, insertion: &[u8], offset: usize, body: &mut Vec<u8>) {
        let mut begin = 0;
        for part in &self.parts {
            let at = offset.checked_sub(begin).filter(|at| *at < part.len());
            match (part, at) {
                (WirePart::Json(json), Some(at)) => {
                    body.extend_from_slice(&json[..at]);
                    body.extend_from_slice(insertion);
                    body.extend_from_slice(&json[at..]);
                }
                _ => part.append_to(body),
            }
            begin += part.len();
        }
    }

    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut json = Vec::new();
        self.append_to(&mut json);
        json
    }
}

impl WirePart {
    fn len(&self) -> usize {
        match self {
            Self::Json(json) => json.len(),
            Self::Text { len, .. } => *len,
        }
    }

    fn append_to(&self, body: &mut Vec<u8>) {
        match self {
            Self::Json(json) => body.extend_from_slice(json),
            Self::Text { message, number, .. } => {
                let text = texts(message).nth(*number);
                append_escaped(text.expect("invariant: a message does not change"), body);
            }
        }
    }
}

/// Returns the texts and pictures of a message, always in the same order.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    let (blocks, reply, results) = match message {
        Message::User(user) => (user.content.as_slice(), [].as_slice(), [].as_slice()),
        Message::Assistant(reply) => ([].as_slice(), reply.blocks.as_slice(), [].as_slice()),
        Message::Results(results) => ([].as_slice(), [].as_slice(), results.results.as_slice()),
    };
    let of_results = results.iter().flat_map(|result| &result.content);
    let of_blocks = blocks.iter().chain(of_results).map(|block| match block {
        Block::Text { text } => text.as_str(),
        Block::Image(image) => image.data.as_str(),
    });
    let of_reply = reply.iter().filter_map(|block| match &block.content {
        ReplyContent::Text { text } | ReplyContent::Thinking { text } => Some(text.as_str()),
        ReplyContent::Call(_) | ReplyContent::Opaque => None,
    });
    of_blocks.chain(of_reply)
}

fn escaped(text: &str) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 16);
    append_escaped(text, &mut escaped);
    escaped
}

/// Appends a text as in a JSON string, without the quotes.
fn append_escaped(text: &str, out: &mut Vec<u8>) {
    let writer = WithoutFirstByte { out, is_begun: false };
    serde_json::to_writer(writer, text).expect("invariant: a text can be written to memory");
    out.pop();
}

/// Passes everything on but the first byte.
struct WithoutFirstByte<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl io::Write for WithoutFirstByte<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let skipped = usize::from(!self.is_begun && !bytes.is_empty());
        self.is_begun |= skipped > 0;
        self.out.extend_from_slice(&bytes[skipped..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crow_core::{
        ids::{CallId, MessageId},
        message::{Image, ResultMessage, ResultsMessage},
    };
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn results(texts: Vec<String>, picture: &str) -> Arc<Message> {
        let content = |text: String| {
            let image = Image { media_type: "image/png".to_owned(), data: picture.to_owned() };
            vec![Block::text(text), Block::Image(image)]
        };
        let results = texts.into_iter().map(|text| ResultMessage {
            call_id: CallId::new("c"),
            tool: "t".to_owned(),
            content: content(text),
            is_error: false,
        });
        let message = ResultsMessage { id: MessageId::new("m"), results: results.collect() };
        Arc::new(Message::Results(message))
    }

    /// The JSON of a message in a format that leaves some texts out and moves others.
    fn json_of(message: &Message, left_out: usize, backwards: bool) -> Bytes {
        let mut texts: Vec<&str> = texts(message).collect();
        if !texts.is_empty() {
            texts.remove(left_out % texts.len());
        }
        if backwards {
            texts.reverse();
        }
        let values = texts.iter().map(|text| json!({"url": format!("data:{text}"), "text": text}));
        Bytes::from(serde_json::to_vec(&values.collect::<Vec<_>>()).unwrap())
    }

    proptest! {
        #[test]
        fn json_with_shared_texts_is_the_same_also_with_an_insertion(
            texts in prop::collection::vec(("\\PC{0,8}|[\\x00-\\x7f]{0,8}|n+", 1_usize..900), 0..4),
            picture in "[A-Za-z0-9+/]{2000,2100}",
            left_out: usize,
            backwards: bool,
        ) {
            let texts = texts.into_iter().map(|(text, times)| text.repeat(times)).collect();
            let message = results(texts, &picture);
            let whole = json_of(&message, left_out, backwards);
            let mut json = WireJson::new(whole.clone());
            json.share_texts(&message);
            prop_assert_eq!(json.len(), whole.len());
            prop_assert_eq!(json.to_vec(), whole.to_vec());
            let mut body = Vec::new();
            let offset = whole.len() - 1;
            json.append_with(b",\"mark\"", offset, &mut body);
            let expected = [&whole[..offset], b",\"mark\"", &whole[offset..]].concat();
            prop_assert_eq!(body, expected);
        }
    }

    #[test]
    fn a_long_text_is_not_kept_a_second_time() {
        let message = results(vec!["a line\n".repeat(1000)], "");
        let mut json = WireJson::new(json_of(&message, 1, false));
        json.share_texts(&message);
        let kept = json.parts.iter().map(|part| match part {
            WirePart::Json(json) => json.len(),
            WirePart::Text { .. } => 0,
        });
        // The text is there twice, and only once in the message.
        assert_eq!(kept.sum::<usize>(), "[{\"text\":\"\",\"url\":\"data:\"}]".len() + 8000);
    }
}
