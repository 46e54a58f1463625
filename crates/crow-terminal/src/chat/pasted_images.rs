//! Images in the prompt: a path of one that is pasted, as terminals do for a file that is dropped on them, becomes a label.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use crow_core::message::{Block, Image};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::task::spawn_blocking;

use super::chat_loop::ChatLoop;
use crate::{editor::ChipId, prompt_input::EnteredLine};

/// Endings of the names of images.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Reads an image, scaled to what models take; the error is for the user.
pub type ImageReader = fn(&Path) -> Result<Image, String>;

/// The images of the prompt.
#[derive(Default)]
pub(super) struct PastedImages {
    read: BTreeMap<ChipId, Image>,
    /// Images that are being read.
    reads: FuturesUnordered<Pin<Box<dyn Future<Output = ImageRead> + Send>>>,
}

/// The end of reading an image.
pub(super) struct ImageRead {
    image: ChipId,
    /// The pasted text.
    pasted: String,
    result: Result<Image, ImageProblem>,
}

/// Reason why a pasted path stays text.
enum ImageProblem {
    /// There is no file: it may not have been meant as one.
    NoFile,
    /// A problem to tell the user.
    Unusable(String),
}

impl PastedImages {
    /// Returns true if images are being read: what is entered has to wait for them.
    pub(super) fn are_being_read(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Returns the end of the next read; forever waits if nothing is read. Safe to drop at any time.
    pub(super) async fn next_read(&mut self) -> ImageRead {
        match self.reads.next().await {
            Some(read) => read,
            None => std::future::pending().await,
        }
    }
}

/// Inserts a pasted text: the label of an image if it is the path of one, else the text itself. The image is read beside
/// the loop; what is entered meanwhile waits for it.
pub(super) fn on_paste(chat: &mut ChatLoop, text: String) {
    let path = image_path(&text, chat.setup.home.as_deref());
    let Some(editor) = chat.typing.editor() else { return };
    let Some(path) = path else { return editor.paste(&text) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let image = editor.insert_image(&name);
    let (read, models) = (chat.setup.read_image, Arc::clone(&chat.models));
    let model = chat.handle.metadata().model_ref();
    chat.images.reads.push(Box::pin(async move {
        let file = spawn_blocking(move || path.is_file().then(|| read(&path))).await;
        let result = match file {
            Ok(None) => Err(ImageProblem::NoFile),
            Ok(Some(Err(problem))) => Err(ImageProblem::Unusable(problem)),
            Err(error) => Err(ImageProblem::Unusable(error.to_string())),
            Ok(Some(Ok(image))) => match models.resolve(&model).await {
                Ok(resolved) if !resolved.info.abilities.vision => {
                    Err(ImageProblem::Unusable(format!("{model} cannot see images")))
                }
                Ok(_) | Err(_) => Ok(image),
            },
        };
        ImageRead { image, pasted: text, result }
    }));
}

/// Keeps an image that was read; one that cannot be used becomes the pasted path again.
pub(super) fn end_image_read(chat: &mut ChatLoop, read: ImageRead) {
    let problem = match read.result {
        Ok(image) => {
            chat.images.read.insert(read.image, image);
            return;
        }
        Err(problem) => problem,
    };
    chat.replace_image(read.image, &read.pasted);
    if let ImageProblem::Unusable(problem) = problem {
        chat.say(format!("note: the path is inserted, not the image: {problem}"));
    }
    chat.show_input();
}

/// Returns the blocks of an entered line with its images.
pub(super) fn blocks_of(chat: &mut ChatLoop, line: &EnteredLine) -> Vec<Block> {
    let images = line.images.iter().filter_map(|chip| chat.images.read.remove(chip));
    let images = images.map(Block::Image);
    [Block::text(line.text.trim())].into_iter().chain(images).collect()
}

/// Puts an input back before the text of the prompt, with its images.
pub(super) fn put_back_blocks(chat: &mut ChatLoop, blocks: Vec<Block>) {
    let (mut texts, mut chips) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text { text } => texts.push(text),
            Block::Image(image) => {
                let Some(editor) = chat.typing.editor() else { continue };
                let chip = editor.new_image();
                chat.images.read.insert(chip, image);
                chips.push(chip);
            }
        }
    }
    chat.typing.put_before(texts.join("\n").trim(), &chips);
}

/// Returns the path if a text is nothing but the absolute path of a file that is an image by its name: in quotes, with
/// blanks behind backslashes, or as an address, as terminals write it.
fn image_path(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    let text = text.trim();
    if text.len() > 4096 || text.lines().count() != 1 {
        return None;
    }
    let quoted = ['\'', '"'].iter().find_map(|quote| {
        text.strip_prefix(*quote).and_then(|text| text.strip_suffix(*quote)).map(str::to_owned)
    });
    let plain = match (quoted, text.strip_prefix("file://")) {
        (Some(quoted), _) => quoted,
        (None, Some(address)) => percent_decoded(address)?,
        (None, None) => unescaped(text),
    };
    let path = match (plain.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(&plain),
    };
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    (path.is_absolute() && ENDINGS.contains(&ending.as_str())).then_some(path)
}

/// Returns a text without the backslashes before its characters.
fn unescaped(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        output.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    output
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_an_image_is_recognised_in_the_forms_of_terminals() {
        let home = Path::new("/h/me");
        let table = [
            ("/tmp/a.png", Some("/tmp/a.png")),
            (" /tmp/a.PNG \n", Some("/tmp/a.PNG")),
            ("'/tmp/a b.jpeg'", Some("/tmp/a b.jpeg")),
            ("\"/tmp/a b.gif\"", Some("/tmp/a b.gif")),
            ("/tmp/a\\ b\\(1\\).webp", Some("/tmp/a b(1).webp")),
            ("file:///tmp/a%20b.png", Some("/tmp/a b.png")),
            ("~/shot.png", Some("/h/me/shot.png")),
            ("a.png", None),
            ("/tmp/a.txt", None),
            ("/tmp/a.png and more", None),
            ("/tmp/a.png\n/tmp/b.png", None),
            ("file:///tmp/%zz.png", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(image_path(text, Some(home)), expected.map(PathBuf::from), "{text:?}");
        }
    }
}
