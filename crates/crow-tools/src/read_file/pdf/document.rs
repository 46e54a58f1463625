//! From the bytes of a PDF file to the text of some of its pages.
//!
//! Files may be hostile. The loader of `lopdf` limits neither all memory nor time and cannot be cancelled. Its filter
//! is called with each object, so the filter charges a budget, and unwinds out of the loader when that is used up.
//! Panics of the library are caught in the same place.

use std::{
    cell::RefCell,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

use lopdf::{DecompressError, Document, Error, LoadOptions, Object, ObjectId};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        page::{DEFAULT_LINES, MAX_BYTES},
        tool::PdfPageRange,
    },
    text,
};

/// Time limit of the work on a file.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Most bytes to which a stream may inflate.
pub(super) const MAX_INFLATED: usize = 8 << 20;
/// Most memory that the objects of a file may take, roughly.
const MAX_MEMORY: usize = 256 << 20;

/// A reason for which there is no text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PdfError {
    #[error(
        "it is encrypted; make a copy without a password with a command in bash (qpdf --decrypt) and read that"
    )]
    Encrypted,
    #[error("it is broken: {0}")]
    Broken(String),
    #[error("it is broken, or made to confuse its readers")]
    Panicked,
    #[error("it needs too much memory or time; try a command in bash (pdftotext)")]
    TooCostly,
    #[error("it has no pages")]
    NoPages,
    #[error("it has only {count} pages")]
    NoSuchPage { count: usize },
    #[error("the call was cancelled")]
    Cancelled,
}

impl From<Error> for PdfError {
    fn from(error: Error) -> Self {
        if matches!(error, Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) {
            return Self::TooCostly;
        }
        Self::Broken(error.to_string())
    }
}

/// The remaining budget for the work on a file.
#[derive(Debug, Clone)]
pub(super) struct PdfBudget {
    until: Instant,
    cancellation: CancellationToken,
    memory: usize,
}

impl PdfBudget {
    pub(super) fn check(&self) -> Result<(), PdfError> {
        if self.cancellation.is_cancelled() {
            Err(PdfError::Cancelled)
        } else if Instant::now() > self.until || self.memory == 0 {
            Err(PdfError::TooCostly)
        } else {
            Ok(())
        }
    }
}

/// Returns the text of pages of a PDF file, with headings and a last line that says how to continue.
pub(crate) fn read(
    bytes: &[u8],
    pages: PdfPageRange,
    cancellation: &CancellationToken,
) -> Result<String, PdfError> {
    if names_encryption(bytes) {
        return Err(PdfError::Encrypted);
    }
    let until = Instant::now() + MAX_TIME;
    let budget = PdfBudget { until, cancellation: cancellation.clone(), memory: MAX_MEMORY };
    match catch_unwind(AssertUnwindSafe(|| show(&load(bytes, &budget)?, pages, &budget))) {
        Ok(result) => result,
        Err(payload) => Err(payload.downcast().map_or(PdfError::Panicked, |error| *error)),
    }
}

thread_local! {
    /// Budget of the current load. The filter of the loader is a plain function, which cannot capture it.
    static LOADING: RefCell<Option<PdfBudget>> = const { RefCell::new(None) };
}

fn load(bytes: &[u8], budget: &PdfBudget) -> Result<Document, PdfError> {
    LOADING.replace(Some(budget.clone()));
    let options = LoadOptions {
        filter: Some(|id, object| Some((id, charge(object)))),
        max_decompressed_size: Some(MAX_INFLATED),
        ..LoadOptions::default()
    };
    let document = Document::load_mem_with_options(bytes, options.clone())?;
    if document.page_iter().next().is_some() {
        return Ok(document);
    }
    // The object table of a damaged file may lead nowhere, although its objects are there.
    let rebuilt = LoadOptions { force_reconstruct: true, ..options };
    Ok(Document::load_mem_with_options(bytes, rebuilt)?)
}

/// Charges the budget for a loaded object. Returns what the loader stores of a member of an object stream. Unwinding
/// is the only way out of the loader.
fn charge(object: &Object) -> Object {
    let weight = weight(object);
    let result = LOADING.with_borrow_mut(|budget| {
        budget.as_mut().map_or(Ok(()), |budget| {
            budget.memory = budget.memory.saturating_sub(weight);
            budget.check()
        })
    });
    if let Err(error) = result {
        resume_unwind(Box::new(error));
    }
    // A stream is never a member, and copies of streams would be large.
    if matches!(object, Object::Stream(_)) { Object::Null } else { object.clone() }
}

/// Returns roughly how much memory an object takes. The loader nests no deeper than 100.
fn weight(object: &Object) -> usize {
    let within = match object {
        Object::Null
        | Object::Boolean(_)
        | Object::Integer(_)
        | Object::Real(_)
        | Object::Reference(_) => 0,
        Object::Name(bytes) | Object::String(bytes, _) => bytes.len(),
        Object::Array(items) => items.iter().map(weight).sum(),
        Object::Dictionary(entries) => {
            entries.iter().map(|(key, value)| 64 + key.len() + weight(value)).sum()
        }
        Object::Stream(stream) => {
            stream.content.len()
                + stream
                    .dict
                    .iter()
                    .map(|(key, value)| 64 + key.len() + weight(value))
                    .sum::<usize>()
        }
    };
    size_of::<Object>() + within
}

/// Returns true if the name `Encrypt` is anywhere in the file, with or without escapes. Encrypted objects would be
/// loaded in a way that bypasses the filter.
fn names_encryption(bytes: &[u8]) -> bool {
    let names = bytes.split(|byte| *byte == b'/').skip(1);
    names.into_iter().any(|name| {
        let mut rest = name;
        let spelled = b"Encrypt".iter().all(|letter| match rest {
            [b'#', high, low, after @ ..] => {
                rest = after;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low)
                    == Some(u32::from(*letter))
            }
            [byte, after @ ..] => {
                rest = after;
                byte == letter
            }
            [] => false,
        });
        spelled && !rest.first().is_some_and(u8::is_ascii_alphanumeric)
    })
}

fn show(document: &Document, pages: PdfPageRange, budget: &PdfBudget) -> Result<String, PdfError> {
    let ids: Vec<ObjectId> = document.page_iter().collect();
    let count = ids.len();
    if count == 0 {
        return Err(PdfError::NoPages);
    }
    if pages.first > count {
        return Err(PdfError::NoSuchPage { count });
    }
    let last = pages.last.unwrap_or(count).min(count);
    let (mut output, mut shown, mut has_text) = (String::new(), pages.first, false);
    for (number, id) in (1..).zip(&ids).take(last).skip(pages.first - 1) {
        let text = match text::page_text(document, *id, budget) {
            Ok(text) => text,
            Err(PdfError::Cancelled) => return Err(PdfError::Cancelled),
            Err(PdfError::TooCostly) if Instant::now() > budget.until => break,
            Err(error) => format!("[this page was not read: {error}]\n"),
        };
        let lines = (output.lines().count() + text.lines().count()) as u64;
        let is_over = output.len() + text.len() > MAX_BYTES || lines > DEFAULT_LINES;
        if is_over && !output.is_empty() {
            break;
        }
        has_text |= !text.trim().is_empty();
        // Writing to a string cannot fail.
        let _ = writeln!(output, "Page {number} of {count}");
        push_page(&text, &mut output);
        shown = number;
        if is_over {
            break;
        }
    }
    if output.is_empty() {
        return Err(PdfError::TooCostly);
    }
    if !has_text {
        output.push_str("[these pages hold no text: they may be scans; turn them into pictures with a command in bash (pdftoppm) and read those]\n");
    }
    let _ = write!(output, "[pages {}-{shown} of {count} shown", pages.first);
    if shown < count {
        let _ = write!(output, "; pages=\"{}-\" goes on", shown + 1);
    }
    output.push(']');
    Ok(output)
}

/// Adds the text of a page. Cuts a page that exceeds the limits by itself.
fn push_page(text: &str, output: &mut String) {
    let before = output.len();
    for (number, line) in (0..DEFAULT_LINES).zip(text.lines()) {
        if output.len() - before + line.len() > MAX_BYTES || number + 1 == DEFAULT_LINES {
            output.push_str("[the rest of this page is cut; pdftotext in bash shows it]\n");
            return;
        }
        output.push_str(line);
        output.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining_memory(memory: usize, object: &Object) -> Result<usize, PdfError> {
        let until = Instant::now() + MAX_TIME;
        LOADING.replace(Some(PdfBudget { until, cancellation: CancellationToken::new(), memory }));
        match catch_unwind(AssertUnwindSafe(|| charge(object))) {
            Ok(_) => Ok(LOADING.take().map_or(0, |budget| budget.memory)),
            Err(payload) => Err(*payload.downcast().unwrap()),
        }
    }

    #[test]
    fn loading_ends_when_the_objects_take_too_much_memory() {
        let array = Object::Array(vec![Object::Null; 1000]);
        assert!(
            remaining_memory(1 << 20, &array).unwrap() < (1 << 20) - 1000 * size_of::<Object>()
        );
        assert!(matches!(remaining_memory(1000, &array), Err(PdfError::TooCostly)));
        let stream = lopdf::Stream::new(lopdf::Dictionary::new(), vec![0; 5000]);
        assert!(matches!(
            remaining_memory(5000, &Object::Stream(stream)),
            Err(PdfError::TooCostly)
        ));
    }

    #[test]
    fn the_name_of_encryption_is_found_in_every_spelling() {
        for text in ["<< /Encrypt 1 0 R", "/#45ncrypt/", "//Encrypt", "/Encryp#74"] {
            assert!(names_encryption(text.as_bytes()), "{text}");
        }
        for text in ["", "/", "Encrypt", "/EncryptMetadata", "/Encryp", "/#4", "/Encryp#7"] {
            assert!(!names_encryption(text.as_bytes()), "{text}");
        }
    }
}
