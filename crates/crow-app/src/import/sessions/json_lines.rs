//! Files with one JSON object per line, and the values in them.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
};

use crow_core::message::{Block, Image};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Maximum size of a file, and of a line, in bytes.
pub(super) const MAX_FILE_SIZE: u64 = 256 * 1024 * 1024;
const MAX_LINE_LENGTH: u64 = 32 * 1024 * 1024;

/// Maximum number of separators of a line outside of texts, of which each value has one at least.
///
/// A parsed value takes up to 190 bytes for each of its separators, so this bounds the memory for a line to about 95 MB. The lines of
/// real sessions with the most values have a whole conversation, which is no longer than the window of a model: a million tokens,
/// where a value takes two at least.
const MAX_SEPARATORS: usize = 500_000;

/// Maximum number of kinds of unknown records that are named one by one.
const MOST_NAMED_KINDS: usize = 10;

/// A reason why a record is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordProblem {
    /// It is no JSON object.
    Damaged,
    /// It is too long, or has more than [`MAX_SEPARATORS`].
    TooLarge,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => formatter.write_str("damaged"),
            Self::TooLarge => write!(
                formatter,
                "too large (more than {} MiB or {MAX_SEPARATORS} values)",
                MAX_LINE_LENGTH / 1024 / 1024
            ),
        }
    }
}

/// Parses a JSON object, unless it would take too much memory.
pub(super) fn parse_object(json: &[u8]) -> Result<Map<String, Value>, RecordProblem> {
    if json.len() as u64 > MAX_LINE_LENGTH || has_too_many_values(json) {
        return Err(RecordProblem::TooLarge);
    }
    serde_json::from_slice(json)
        .or_else(|_| serde_json::from_slice(&with_whole_characters(json)))
        .map_err(|_| RecordProblem::Damaged)
}

/// Replaces what is no character: bytes that are no UTF-8, and escapes of half a character, which JavaScript writes for a text that
/// was cut there.
fn with_whole_characters(json: &[u8]) -> Vec<u8> {
    let mut json = String::from_utf8_lossy(json).into_owned().into_bytes();
    let mut at = 0;
    while at < json.len() {
        at += match (json[at], escaped_unit(&json, at), escaped_unit(&json, at + 6)) {
            (b'\\', Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff), _) => {
                json[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // The next character is escaped, and begins no escape itself.
            (b'\\', _, _) => 2,
            _ => 1,
        };
    }
    json
}

/// Returns the number in an escape such as `\u00e9` at this position.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    is_number.then(|| u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok())?
}

fn has_too_many_values(json: &[u8]) -> bool {
    if json.len() <= MAX_SEPARATORS {
        return false;
    }
    let (mut separators, mut is_text) = (0, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => {
                bytes.next();
            }
            b',' | b':' | b'[' | b'{' if !is_text => separators += 1,
            _ => {}
        }
    }
    separators > MAX_SEPARATORS
}

/// Records that were skipped for the same reason.
#[derive(Debug, Default, PartialEq, Eq)]
struct SkippedRecords {
    count: usize,
    /// Number of the line of the first one, if records are lines.
    first_line: Option<usize>,
}

impl SkippedRecords {
    fn note(&self, problem: RecordProblem) -> Option<String> {
        match (self.count, self.first_line) {
            (0, _) => None,
            (1, Some(line)) => Some(format!("line {line} is {problem} and was skipped")),
            (count, Some(line)) => Some(format!(
                "{count} lines are {problem} and were skipped, the first is line {line}"
            )),
            (count, None) => Some(format!("records that are {problem} were skipped: {count}")),
        }
    }
}

/// Counts of the records that could not be read, by reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineProblems {
    damaged: SkippedRecords,
    too_large: SkippedRecords,
    /// Number of records of each kind that is not known.
    unknown: BTreeMap<String, usize>,
}

impl LineProblems {
    /// Counts a record of a kind that is not known.
    pub(super) fn add_unknown(&mut self, kind: &str) {
        *self.unknown.entry(crow_text::one_line(kind).chars().take(40).collect()).or_default() += 1;
    }

    /// Counts a record that is no line.
    pub(super) fn add_record(&mut self, problem: RecordProblem) {
        self.skipped(problem).count += 1;
    }

    /// Counts the record in a line.
    fn add_line(&mut self, problem: RecordProblem, line: usize) {
        let skipped = self.skipped(problem);
        skipped.count += 1;
        skipped.first_line.get_or_insert(line);
    }

    fn skipped(&mut self, problem: RecordProblem) -> &mut SkippedRecords {
        match problem {
            RecordProblem::Damaged => &mut self.damaged,
            RecordProblem::TooLarge => &mut self.too_large,
        }
    }

    /// Returns true if there is a record that could not be parsed.
    fn has_damage(&self) -> bool {
        self.damaged.count + self.too_large.count > 0
    }

    /// Describes the problems.
    pub(super) fn notes(&self) -> Vec<String> {
        let damaged = self.damaged.note(RecordProblem::Damaged);
        let too_large = self.too_large.note(RecordProblem::TooLarge);
        let named = self.unknown.iter().take(MOST_NAMED_KINDS).map(|(kind, count)| {
            format!("records of the unknown type {kind:?} were skipped: {count}")
        });
        let others: usize = self.unknown.values().skip(MOST_NAMED_KINDS).sum();
        let others =
            (others > 0).then(|| format!("records of other unknown types were skipped: {others}"));
        damaged.into_iter().chain(too_large).chain(named).chain(others).collect()
    }
}

/// Opens a regular file of at most [`MAX_FILE_SIZE`] bytes, and returns it with its size. Links are followed.
fn open_regular(path: &Path) -> Result<(File, u64), String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    // Without waiting, if it is a pipe.
    let file = crow_fs::open_file(&real).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.len() > MAX_FILE_SIZE {
        let size = metadata.len() / 1024 / 1024;
        return Err(format!("it has {size} MiB; at most {} are read", MAX_FILE_SIZE / 1024 / 1024));
    }
    Ok((file, metadata.len()))
}

/// Reads a file with one object.
///
/// # Errors
/// Fails if the file is too large, has no object or cannot be read.
pub(super) fn read_object(path: &Path) -> Result<Map<String, Value>, String> {
    let (file, size) = open_regular(path)?;
    let mut json = Vec::new();
    file.take(size.min(MAX_LINE_LENGTH + 1))
        .read_to_end(&mut json)
        .map_err(|error| error.to_string())?;
    parse_object(&json).map_err(|problem| match problem {
        RecordProblem::Damaged => "it is no JSON object".to_owned(),
        RecordProblem::TooLarge => format!("it is {problem}"),
    })
}

/// Passes each object of a file to `read`, which returns false when it has read enough. Lines that are no objects are counted.
/// Lines that are appended to the file meanwhile are not read.
///
/// # Errors
/// Fails if the file is too large or cannot be read.
pub(super) fn for_each_object(
    path: &Path,
    problems: &mut LineProblems,
    mut read: impl FnMut(Map<String, Value>, &mut LineProblems) -> bool,
) -> Result<(), String> {
    let (file, size) = open_regular(path)?;
    let mut reader = BufReader::new(file.take(size));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut reader).take(MAX_LINE_LENGTH + 1).read_until(b'\n', &mut line);
        let count = count.map_err(|error| error.to_string())?;
        if count == 0 {
            break;
        }
        if count as u64 > MAX_LINE_LENGTH && !line.ends_with(b"\n") {
            problems.add_line(RecordProblem::TooLarge, number);
            reader.skip_until(b'\n').map_err(|error| error.to_string())?;
            continue;
        }
        let json = line.trim_ascii();
        if json.is_empty() {
            continue;
        }
        match parse_object(json) {
            Ok(object) => {
                if !read(object, problems) {
                    break;
                }
            }
            Err(problem) => problems.add_line(problem, number),
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
