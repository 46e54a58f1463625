//! Conversion of a client's prompt to input of the agent, or to a command; and the parsing of `file:` URIs in it.

use std::path::{Path, PathBuf};

use agent_client_protocol::{
    Error,
    v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::message::{Block, Image};

use super::{
    content::{bounded, fenced_text, sanitise, title},
    errors::invalid,
};

/// Largest image, in bytes of base64.
const LARGEST_IMAGE: usize = 10 * 1024 * 1024;
/// Largest text of one prompt, in bytes.
const MOST_TEXT: usize = 4 * 1024 * 1024;
/// Largest embedded text, in bytes; the middle of a longer one is left out.
const MOST_EMBEDDED: usize = 256 * 1024;
/// Largest number of blocks.
const MOST_BLOCKS: usize = 1000;

/// Reason why a prompt is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PromptFault {
    /// It has no text and no image.
    #[error("the prompt is empty")]
    Empty,
    /// It has too many blocks.
    #[error("the prompt has {count} blocks; {MOST_BLOCKS} are taken")]
    TooManyBlocks {
        /// Number of blocks.
        count: usize,
    },
    /// It has too much text.
    #[error("the prompt has {bytes} bytes of text; {MOST_TEXT} are taken")]
    TooLong {
        /// Size of the text in bytes.
        bytes: usize,
    },
    /// It has audio.
    #[error("audio is not supported: send text")]
    Audio,
    /// An image of a type that models do not take.
    #[error("pictures of type {media_type} are not supported: send PNG, JPEG, GIF or WebP")]
    ImageType {
        /// Its media type.
        media_type: String,
    },
    /// An image that is too large.
    #[error("a picture has {bytes} bytes as base64; {LARGEST_IMAGE} are taken")]
    ImageSize {
        /// Size of the image in bytes of base64.
        bytes: usize,
    },
    /// The data of an image is not base64, or is empty.
    #[error("the data of a picture is not base64")]
    ImageData,
    /// The data of an image is in no format that models take.
    #[error("a picture that is labelled {media_type} is neither PNG, JPEG, GIF nor WebP")]
    ImageContent {
        /// The media type that it is labelled with.
        media_type: String,
    },
    /// An embedded file that is neither text nor an image.
    #[error("{uri} is embedded as bytes{}: embed text or a picture, or send a link", .media_type.as_ref().map(|it| format!(" of type {it}")).unwrap_or_default())]
    Bytes {
        /// Its URI.
        uri: String,
        /// Its media type, if it has one.
        media_type: Option<String>,
    },
    /// A block of an unknown kind.
    #[error("a block of the prompt has an unknown kind")]
    Unknown,
}

/// Returns the error response for a refused prompt.
pub(crate) fn prompt_error(fault: &PromptFault) -> Error {
    invalid(fault.to_string())
}

/// Converts a client's prompt to input of the agent. Paths within `cwd` become relative to it.
pub(crate) fn prompt_blocks(
    prompt: Vec<ContentBlock>,
    cwd: &Path,
) -> Result<Vec<Block>, PromptFault> {
    if prompt.len() > MOST_BLOCKS {
        return Err(PromptFault::TooManyBlocks { count: prompt.len() });
    }
    let mut draft = PromptDraft::default();
    for block in prompt {
        draft.take(block, cwd)?;
    }
    let blocks = draft.finish();
    let bytes: usize = blocks
        .iter()
        .map(|block| match block {
            Block::Text { text } => text.len(),
            Block::Image(_) => 0,
        })
        .sum();
    if bytes > MOST_TEXT {
        return Err(PromptFault::TooLong { bytes });
    }
    let says_something = blocks.iter().any(|block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Image(_) => true,
    });
    if says_something { Ok(blocks) } else { Err(PromptFault::Empty) }
}

/// A prompt that is being converted.
#[derive(Debug, Default)]
struct PromptDraft {
    blocks: Vec<Block>,
    /// Current block of text, in the middle of which files are named.
    text: String,
    /// True if the current text ends with the name of a file, which further text may follow.
    ends_with_name: bool,
    /// Attachments, which go to the end.
    attached: Vec<Block>,
}

impl PromptDraft {
    fn take(&mut self, block: ContentBlock, cwd: &Path) -> Result<(), PromptFault> {
        match block {
            ContentBlock::Text(text) => self.say(&text.text),
            ContentBlock::Image(shown) => self.show(image(shown.mime_type, shown.data)?),
            ContentBlock::Audio(_) => return Err(PromptFault::Audio),
            ContentBlock::ResourceLink(link) => self.name(&linked(&link, cwd)),
            ContentBlock::Resource(embedded) => match embedded.resource {
                EmbeddedResourceResource::TextResourceContents(text) => {
                    self.name(&reference(&text.uri, cwd));
                    self.attached.push(Block::text(embedded_text(&text.uri, &text.text, cwd)));
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => match blob.mime_type {
                    Some(media_type) if is_image(&media_type) => {
                        self.name(&reference(&blob.uri, cwd));
                        self.attached.push(image(media_type, blob.blob)?);
                    }
                    media_type => {
                        let media_type = media_type.as_deref().map(title);
                        return Err(PromptFault::Bytes { uri: title(&blob.uri), media_type });
                    }
                },
                _ => return Err(PromptFault::Unknown),
            },
            _ => return Err(PromptFault::Unknown),
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        if !self.ends_with_name {
            self.end_text();
        } else if text.starts_with(char::is_alphanumeric) {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.ends_with_name = false;
    }

    fn name(&mut self, name: &str) {
        if self.text.ends_with(|char: char| !char.is_whitespace() && char != '(') {
            self.text.push(' ');
        }
        self.text.push_str(name);
        self.ends_with_name = true;
    }

    fn show(&mut self, image: Block) {
        self.end_text();
        self.blocks.push(image);
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.blocks.push(Block::Text { text });
        }
        self.ends_with_name = false;
    }

    fn finish(mut self) -> Vec<Block> {
        self.end_text();
        self.blocks.append(&mut self.attached);
        self.blocks
    }
}

fn is_image(media_type: &str) -> bool {
    Image::MEDIA_TYPES.contains(&media_type)
}

fn image(media_type: String, data: String) -> Result<Block, PromptFault> {
    if !is_image(&media_type) {
        return Err(PromptFault::ImageType { media_type: title(&media_type) });
    }
    if data.len() > LARGEST_IMAGE {
        return Err(PromptFault::ImageSize { bytes: data.len() });
    }
    let bytes = STANDARD.decode(&data).map_err(|_| PromptFault::ImageData)?;
    if bytes.is_empty() {
        return Err(PromptFault::ImageData);
    }
    // Providers refuse a request whose label does not fit its image, and the image stays in the history.
    let Some(found) = Image::media_type_of(&bytes) else {
        return Err(PromptFault::ImageContent { media_type });
    };
    Ok(Block::Image(Image { media_type: found.to_owned(), data }))
}

/// Describes a link: the path of a file, in the form that tools take, or the URI; with title and description.
fn linked(link: &ResourceLink, cwd: &Path) -> String {
    let reference = reference(&link.uri, cwd);
    let name = title(link.title.as_deref().unwrap_or(&link.name));
    let about = link.description.as_deref().map(title).filter(|about| !about.is_empty());
    match (name.is_empty() || reference.contains(&name), about) {
        (true, None) => reference,
        (true, Some(about)) => format!("{reference} ({about})"),
        (false, None) => format!("{reference} ({name})"),
        (false, Some(about)) => format!("{reference} ({name}: {about})"),
    }
}

fn embedded_text(uri: &str, text: &str, cwd: &Path) -> String {
    let language = Path::new(uri.split(['#', '?']).next().unwrap_or(uri)).extension();
    let language = language
        .and_then(|it| it.to_str())
        .filter(|it| it.len() < 16 && it.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let text = fenced_text(&bounded(text, MOST_EMBEDDED), language.unwrap_or_default());
    format!("The user attached {}:\n{text}", reference(uri, cwd))
}

/// Names a file by its path and its lines, or another resource by its URI.
fn reference(uri: &str, cwd: &Path) -> String {
    let Some(path) = file_path(uri) else {
        return format!("`{}`", sanitise(uri).replace('\n', " "));
    };
    let shown = path.strip_prefix(cwd).unwrap_or(&path);
    let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
    match fragment_lines(uri) {
        Some(lines) => format!("`{}`, lines {lines}", shown.display()),
        None => format!("`{}`", shown.display()),
    }
}

/// Parses a prompt as a command: its name and its argument. Only a prompt of text and links can be one; links become
/// paths or URIs in the argument. The caller checks whether the command exists.
pub(crate) fn as_command(prompt: &[ContentBlock]) -> Option<(String, String)> {
    let (mut text, mut is_link) = (String::new(), false);
    for (index, block) in prompt.iter().enumerate() {
        let follows_link =
            std::mem::replace(&mut is_link, matches!(block, ContentBlock::ResourceLink(_)));
        match block {
            ContentBlock::Text(more) => {
                if index > 0 && !follows_link && !text.ends_with(char::is_whitespace) {
                    text.push('\n');
                }
                text.push_str(&more.text);
            }
            ContentBlock::ResourceLink(link) => match file_path(&link.uri) {
                Some(path) => text.push_str(&path.to_string_lossy()),
                None => text.push_str(&link.uri),
            },
            ContentBlock::Image(_) | ContentBlock::Audio(_) | ContentBlock::Resource(_) | _ => {
                return None;
            }
        }
    }
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, argument) = (rest.get(..end)?, rest.get(end..)?);
    let is_name = !name.is_empty()
        && name.chars().all(|char| char.is_alphanumeric() || matches!(char, '-' | '_' | ':' | '.'));
    is_name.then(|| (name.to_owned(), argument.trim().to_owned()))
}

/// Returns the path of a `file:` URI; `None` for another scheme or another host.
pub(super) fn file_path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let path = PathBuf::from(decoded(rest)?);
    path.is_absolute().then_some(path)
}

/// Returns the line or the range of lines in the fragment of a URI: `#L3`, `#L3:7`, `#L3-L7`.
fn fragment_lines(uri: &str) -> Option<String> {
    let (_, fragment) = uri.split_once('#')?;
    let text = fragment.strip_prefix('L')?.replace(['L', ':'], "-").replace("--", "-");
    let is_range = !text.is_empty()
        && text.len() < 32
        && text.split('-').count() <= 2
        && text
            .split('-')
            .all(|line| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit()));
    is_range.then_some(text)
}

/// Decodes percent escapes; `None` if one is invalid, or the result is not UTF-8 or has control characters.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_uris_are_paths() {
        let path = |uri| file_path(uri).map(|path| path.display().to_string());
        assert_eq!(path("file:///p/a%20b.rs#L3").as_deref(), Some("/p/a b.rs"));
        assert_eq!(path("file://localhost/p/a").as_deref(), Some("/p/a"));
        for other in ["file://host/p", "https://x/y", "file:///a%0ab", "file:///a%2", "a/b", ""] {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn line_ranges_of_a_uri_are_parsed() {
        let table = [
            ("file:///a#L3", Some("3")),
            ("file:///a#L3:7", Some("3-7")),
            ("file:///a#L3-L7", Some("3-7")),
            ("file:///a#L3-7", Some("3-7")),
            ("file:///a#section", None),
            ("file:///a#L", None),
            ("file:///a#L1-2-3", None),
        ];
        for (uri, expected) in table {
            assert_eq!(fragment_lines(uri).as_deref(), expected, "{uri}");
        }
    }
}
