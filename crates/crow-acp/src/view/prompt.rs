//! What a client says for the user.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    ContentBlock, EmbeddedResourceResource, Error, ResourceLink,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::message::{Block, Image};

use super::{
    content::fenced_text,
    text::{bounded, plain, title},
    uri::{file_path, lines},
};

/// The most bytes of a picture, as base64.
const LARGEST_IMAGE: usize = 10 * 1024 * 1024;
/// The most bytes of text in one prompt.
const MOST_TEXT: usize = 4 * 1024 * 1024;
/// The most bytes that are read of an embedded text; the middle of a longer one is left out.
const MOST_EMBEDDED: usize = 256 * 1024;
/// The most blocks.
const MOST_BLOCKS: usize = 1000;

/// Why a prompt is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PromptFault {
    /// There is nothing in it.
    #[error("the prompt is empty")]
    Empty,
    /// It has too many blocks.
    #[error("the prompt has {count} blocks; {MOST_BLOCKS} are taken")]
    TooManyBlocks {
        /// How many.
        count: usize,
    },
    /// It has too much text.
    #[error("the prompt has {bytes} bytes of text; {MOST_TEXT} are taken")]
    TooLong {
        /// How much.
        bytes: usize,
    },
    /// Sound.
    #[error("audio is not supported: send text")]
    Audio,
    /// A picture of a kind that models do not take.
    #[error("pictures of type {media_type} are not supported: send PNG, JPEG, GIF or WebP")]
    ImageType {
        /// Its media type.
        media_type: String,
    },
    /// A picture that is too large.
    #[error("a picture has {bytes} bytes as base64; {LARGEST_IMAGE} are taken")]
    ImageSize {
        /// How many it has.
        bytes: usize,
    },
    /// The data of a picture is not base64, or there is none.
    #[error("the data of a picture is not base64")]
    ImageData,
    /// The data of a picture is in no format that models take.
    #[error("a picture that is labelled {media_type} is neither PNG, JPEG, GIF nor WebP")]
    ImageContent {
        /// The media type that it is labelled with.
        media_type: String,
    },
    /// An embedded file that is neither text nor a picture.
    #[error("{uri} is embedded as bytes{}: embed text or a picture, or send a link", .media_type.as_ref().map(|it| format!(" of type {it}")).unwrap_or_default())]
    Bytes {
        /// Its address.
        uri: String,
        /// Its media type, if it has one.
        media_type: Option<String>,
    },
    /// A block of a kind that is not known.
    #[error("a block of the prompt is of a kind that is not known")]
    Unknown,
}

/// Returns what a client is told of a prompt that cannot be read.
pub(crate) fn prompt_error(fault: &PromptFault) -> Error {
    Error::new(Error::invalid_params().code.into(), fault.to_string())
}

/// Turns what a client sent into what the agent reads. `cwd` is where paths are told from.
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

/// A prompt as far as it was read.
#[derive(Debug, Default)]
struct PromptDraft {
    blocks: Vec<Block>,
    /// The text that goes on: files are named in the middle of it.
    text: String,
    /// Whether it ends with the name of a file, which text may follow.
    ends_with_name: bool,
    /// What was attached stands at the end.
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
                    self.name(&place(&text.uri, cwd));
                    self.attached.push(Block::text(embedded_text(&text.uri, &text.text, cwd)));
                }
                EmbeddedResourceResource::BlobResourceContents(blob) => match blob.mime_type {
                    Some(media_type) if is_image(&media_type) => {
                        self.name(&place(&blob.uri, cwd));
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
    // Providers refuse a request whose label does not fit its picture, and the picture stays in the history.
    let Some(found) = Image::media_type_of(&bytes) else {
        return Err(PromptFault::ImageContent { media_type });
    };
    Ok(Block::Image(Image { media_type: found.to_owned(), data }))
}

/// Names a link: the path of a file, as the tools take it, or the address.
fn linked(link: &ResourceLink, cwd: &Path) -> String {
    let place = place(&link.uri, cwd);
    let name = title(link.title.as_deref().unwrap_or(&link.name));
    let about = link.description.as_deref().map(title).filter(|about| !about.is_empty());
    match (name.is_empty() || place.contains(&name), about) {
        (true, None) => place,
        (true, Some(about)) => format!("{place} ({about})"),
        (false, None) => format!("{place} ({name})"),
        (false, Some(about)) => format!("{place} ({name}: {about})"),
    }
}

fn embedded_text(uri: &str, text: &str, cwd: &Path) -> String {
    let language = Path::new(uri.split(['#', '?']).next().unwrap_or(uri)).extension();
    let language = language
        .and_then(|it| it.to_str())
        .filter(|it| it.len() < 16 && it.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let text = fenced_text(&bounded(text, MOST_EMBEDDED), language.unwrap_or_default());
    format!("The user attached {}:\n{text}", place(uri, cwd))
}

fn place(uri: &str, cwd: &Path) -> String {
    let Some(path) = file_path(uri) else {
        return format!("`{}`", plain(uri).replace('\n', " "));
    };
    let shown = path.strip_prefix(cwd).unwrap_or(&path);
    let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
    match lines(uri) {
        Some(lines) => format!("`{}`, lines {lines}", shown.display()),
        None => format!("`{}`", shown.display()),
    }
}
