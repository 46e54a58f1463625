//! Conversion of a client's prompt to input of the agent.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResourceResource, Error, ResourceLink,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::message::{Block, Image};

use super::{
    content::fenced_text,
    text::{bounded, sanitise, title},
    uri::{file_path, lines},
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
    Error::new(Error::invalid_params().code.into(), fault.to_string())
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
    match lines(uri) {
        Some(lines) => format!("`{}`, lines {lines}", shown.display()),
        None => format!("`{}`", shown.display()),
    }
}
