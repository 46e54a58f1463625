//! The text of a body: its encoding, and its form by media type.

use std::borrow::Cow;

use content_inspector::ContentType;
use encoding_rs::{Encoding, UTF_8};

use super::{html_markdown, page_cache::PageText, page_request::PageBody};

/// Bytes at the beginning that are searched for a declaration of the encoding.
const DECLARATION_BYTES: usize = 1024;

/// Converts a body to text. The error text is for the model.
pub(super) fn page_text(body: &PageBody) -> Result<PageText, String> {
    let media_type = body.content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    let form = TextForm::of(&media_type, &body.bytes).ok_or_else(|| {
        let kind = if media_type.is_empty() { "unknown data" } else { &media_type };
        format!("it is {kind} of {} bytes, and only text can be read", body.bytes.len())
    })?;
    let text = decode(&body.bytes, &body.content_type);
    let (title, text) = match form {
        TextForm::Html => html_markdown::to_markdown(&text, &body.url),
        TextForm::Plain => (None, text.into_owned()),
    };
    Ok(PageText { address: body.url.to_string(), title, text, is_cut: body.is_cut })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextForm {
    Html,
    Plain,
}

impl TextForm {
    /// Returns the form of a body; none if it is no text.
    fn of(media_type: &str, bytes: &[u8]) -> Option<Self> {
        match media_type {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            _ if content_inspector::inspect(bytes) == ContentType::BINARY => None,
            "" => Some(if looks_like_html(bytes) { Self::Html } else { Self::Plain }),
            _ => Some(Self::Plain),
        }
    }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let start = start.trim_start().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// Decodes a body by its byte order mark, by what its head says, or by what it says itself; without any of them as UTF-8.
fn decode<'a>(bytes: &'a [u8], content_type: &str) -> Cow<'a, str> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let label = charset(content_type).or_else(|| charset(&start));
    let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    encoding.decode(bytes).0
}

/// Returns the word after `charset=`, without quotes.
fn charset(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (_, after) = text.split_once("charset=")?;
    let after = after.trim_start_matches(['"', '\'', ' ']);
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':'));
    Some(after[..end.unwrap_or(after.len())].to_owned()).filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn text(content_type: &str, bytes: &[u8]) -> Result<String, String> {
        let url = Url::parse("https://a.test/").unwrap();
        let content_type = content_type.to_owned();
        let body =
            PageBody { url, status: 200, content_type, bytes: bytes.to_vec(), is_cut: false };
        page_text(&body).map(|page| page.text)
    }

    #[test]
    fn a_body_is_decoded_by_what_is_said_of_it() {
        for (content_type, bytes, expected) in [
            ("text/plain; charset=ISO-8859-1", &b"caf\xe9"[..], "café"),
            ("text/plain; charset=\"windows-1252\"", b"\x80", "€"),
            ("text/html", b"<meta charset=latin1><p>caf\xe9", "café"),
            ("text/plain", "café".as_bytes(), "café"),
            ("text/plain; charset=utf-8", b"\xff\xfea\0b\0", "ab"),
            ("application/json", b"{\"a\": 1}", "{\"a\": 1}"),
            ("", b"<!DOCTYPE html><p>x", "x"),
            ("", b"a < b", "a < b"),
            ("text/plain; charset=nonsense", b"a\xff", "a\u{fffd}"),
        ] {
            assert_eq!(text(content_type, bytes).as_deref(), Ok(expected), "{content_type}");
        }
    }

    #[test]
    fn a_body_that_is_no_text_is_named() {
        let error = text("image/png", b"\x89PNG\0\0").unwrap_err();
        assert_eq!(error, "it is image/png of 6 bytes, and only text can be read");
        assert!(text("text/plain", b"a\0b").is_err());
        assert!(text("", b"\0\x01").unwrap_err().contains("unknown data of 2 bytes"));
    }
}
