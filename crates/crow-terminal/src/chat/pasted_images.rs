//! Images in the prompt: a path of one that is pasted, as terminals do for a file that is dropped on them, becomes a label.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::message::{Block, Image};
use tokio::task::spawn_blocking;

use super::chat_loop::ChatLoop;
use crate::{editor::ChipId, prompt_input::EnteredLine};

/// Endings of the names of images.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Reads an image, scaled to what models take; the error is for the user.
pub type ImageReader = fn(&Path) -> Result<Image, String>;

/// The images of the prompt.
#[derive(Debug, Default)]
pub(super) struct PastedImages(BTreeMap<ChipId, Image>);

/// Inserts a pasted text: the label of an image if it is the path of one, else the text itself. Keys wait for it, so that
/// what is typed next stands behind it.
pub(super) async fn on_paste(chat: &mut ChatLoop, text: String) {
    let path = image_path(&text, chat.setup.home.as_deref());
    let Some(path) = path else { return insert_paste(chat, &text) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = chat.setup.read_image;
    let image = match spawn_blocking(move || path.is_file().then(|| read(&path))).await {
        Ok(None) => return insert_paste(chat, &text),
        Ok(Some(image)) => image,
        Err(error) => Err(error.to_string()),
    };
    let model = chat.handle.metadata().model_ref();
    let resolved = chat.models.resolve(&model).await;
    let problem = match image {
        Ok(_) if resolved.is_ok_and(|resolved| !resolved.info.abilities.vision) => {
            format!("{model} cannot see images")
        }
        Ok(image) => return insert_image(chat, &name, image),
        Err(error) => error,
    };
    insert_paste(chat, &text);
    chat.say(format!("note: the path is inserted, not the image: {problem}"));
}

fn insert_paste(chat: &mut ChatLoop, text: &str) {
    if let Some(editor) = chat.typing.editor() {
        editor.paste(text);
    }
}

fn insert_image(chat: &mut ChatLoop, name: &str, image: Image) {
    if let Some(editor) = chat.typing.editor() {
        let chip = editor.insert_image(name);
        chat.images.0.insert(chip, image);
    }
}

/// Returns the blocks of an entered line with its images.
pub(super) fn blocks_of(chat: &mut ChatLoop, line: &EnteredLine) -> Vec<Block> {
    let images = line.images.iter().filter_map(|chip| chat.images.0.remove(chip));
    let images = images.map(Block::Image);
    [Block::text(line.text.trim())].into_iter().chain(images).collect()
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
