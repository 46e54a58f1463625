//! Files with one JSON object per line, and the values in them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use crow_core::message::{Block, Image};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Maximum size of a file, and of a line, in bytes.
const MAX_FILE_SIZE: u64 = 256 * 1024 * 1024;
const MAX_LINE_LENGTH: u64 = 32 * 1024 * 1024;

/// Counts of the lines that could not be read, by reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineProblems {
    /// Number of the first line that is no JSON object, and how many there are.
    damaged: Option<(usize, usize)>,
    /// Number of records of each kind that is not known.
    unknown: BTreeMap<String, usize>,
}

impl LineProblems {
    /// Counts a record of a kind that is not known.
    pub(super) fn add_unknown(&mut self, kind: &str) {
        *self.unknown.entry(crow_text::one_line(kind).chars().take(40).collect()).or_default() += 1;
    }

    fn add_damaged(&mut self, line: usize) {
        let (_, count) = self.damaged.get_or_insert((line, 0));
        *count += 1;
    }

    /// Returns true if there is a damaged line.
    fn has_damage(&self) -> bool {
        self.damaged.is_some()
    }

    /// Describes the problems.
    pub(super) fn notes(&self) -> Vec<String> {
        let damaged = self.damaged.map(|(line, count)| match count {
            1 => format!("line {line} is damaged and was skipped"),
            _ => format!("{count} lines are damaged and were skipped, the first is line {line}"),
        });
        let unknown = self.unknown.iter().map(|(kind, count)| {
            format!("records of the unknown type {kind:?} were skipped: {count}")
        });
        damaged.into_iter().chain(unknown).collect()
    }
}

/// Passes each object of a file to `read`, which returns false when it has read enough. Lines that are no objects are counted.
///
/// # Errors
/// Fails if the file is too large or cannot be read.
pub(super) fn for_each_object(
    path: &Path,
    problems: &mut LineProblems,
    mut read: impl FnMut(Map<String, Value>, &mut LineProblems) -> bool,
) -> Result<(), String> {
    // Opening a pipe would wait for its writer.
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.len() > MAX_FILE_SIZE {
        let size = metadata.len() / 1024 / 1024;
        return Err(format!("it has {size} MiB; at most {} are read", MAX_FILE_SIZE / 1024 / 1024));
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut reader).take(MAX_LINE_LENGTH).read_until(b'\n', &mut line);
        let count = count.map_err(|error| error.to_string())?;
        if count == 0 {
            break;
        }
        if count as u64 == MAX_LINE_LENGTH && !line.ends_with(b"\n") {
            problems.add_damaged(number);
            reader.skip_until(b'\n').map_err(|error| error.to_string())?;
            continue;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Map<String, Value>>(&line) {
            Ok(object) => {
                if !read(object, problems) {
                    break;
                }
            }
            Err(_) => problems.add_damaged(number),
        }
    }
    Ok(())
}

/// Returns the first value that `find` returns for an object of a file; `None` if there is none.
///
/// # Errors
/// Fails if the file is too large or cannot be read, or if it has only lines that are no objects.
pub(super) fn find_in_objects<T>(
    path: &Path,
    mut find: impl FnMut(Map<String, Value>) -> Option<T>,
) -> Result<Option<T>, String> {
    let (mut found, mut has_objects, mut problems) = (None, false, LineProblems::default());
    for_each_object(path, &mut problems, |object, _| {
        has_objects = true;
        found = find(object);
        found.is_none()
    })?;
    if !has_objects && problems.has_damage() {
        return Err("it contains no JSON records".to_owned());
    }
    Ok(found)
}

/// Returns the text at `key`.
pub(super) fn text_at<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

/// Returns the text at `key`, and removes it.
pub(super) fn take_text(object: &mut Map<String, Value>, key: &str) -> Option<String> {
    match object.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns a time: RFC 3339, or milliseconds since 1970.
pub(super) fn time_of(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => Timestamp::from_millisecond(number.as_i64()?).ok(),
        _ => None,
    }
}

/// Returns a picture of base64, if models can be sent its format.
pub(super) fn image(media_type: &str, data: &str) -> Option<Block> {
    let is_known = Image::MEDIA_TYPES.contains(&media_type);
    is_known
        .then(|| Block::Image(Image { media_type: media_type.to_owned(), data: data.to_owned() }))
}

/// Returns a picture of a `data:` URL, if models can be sent its format.
pub(super) fn image_of_url(url: &str) -> Option<Block> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    image(media_type, data)
}

/// Returns a block for a picture that cannot be taken over.
pub(super) fn missing_image() -> Block {
    Block::text("[a picture that was not imported]")
}

/// Splits blocks into their text and their pictures.
pub(super) fn text_and_images(blocks: Vec<Block>) -> (String, Vec<Image>) {
    let text = Block::text_of(&blocks);
    let images = blocks.into_iter().filter_map(|block| match block {
        Block::Image(image) => Some(image),
        Block::Text { .. } => None,
    });
    (text, images.collect())
}
