//! The tool `read_file`.

use std::{
    fmt::Write as _,
    fs::File,
    io::{BufReader, Read as _},
    path::Path,
};

use async_trait::async_trait;
use crow_core::{
    file_views::{ContentHash, FileView, FileViews},
    message::Image,
    tool::{Access, CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    notebook,
    page::{self, DEFAULT_LINES, LinePage, LineRange, StreamError},
};
use crate::{
    blocking::blocking_until_cancelled,
    file::{DecodedText, LoadError, MAX_WHOLE, OpenFile, load_opened, open_any},
    list_directory,
    paths::{self, AllowedPath, display_path, explain, missing_file_message},
};

/// The first bytes of a PDF file.
const PDF: &[u8] = b"%PDF-";

/// Shows a file.
#[derive(Debug)]
pub(crate) struct ReadFile;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFileInput {
    /// Absolute, or relative to the working directory.
    #[serde(alias = "file_path", alias = "filePath", alias = "filename", alias = "file")]
    path: String,
    /// First line, from 1.
    #[serde(default, alias = "start_line", alias = "startLine")]
    offset: Option<u64>,
    /// Number of lines, default 2000.
    #[serde(default)]
    limit: Option<u64>,
    /// Of a PDF: `3`, `2-5` or `4-`.
    #[serde(default)]
    pages: Option<String>,
}

#[async_trait]
impl TypedTool for ReadFile {
    type Input = ReadFileInput;
    const NAME: &'static str = "read_file";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Shows a text file as numbered lines (number, tab, text), up to 2000 lines or 50 KiB; the first line says what is \
         shown and where to go on. Also shows images, the text of PDF pages, and notebooks."
    }

    async fn plan(&self, input: &ReadFileInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if input.limit == Some(0) {
            return Err(ToolError::Model("limit must be at least 1".to_owned()));
        }
        selection(input).map_err(ToolError::Model)?;
        paths::plan("read", &input.path, Access::Read, ctx).await
    }

    async fn execute(
        &self,
        input: ReadFileInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        show(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn show(
    input: &ReadFileInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let path = paths::resolve_planned(&input.path, plan, ctx).await?;
    let selection = selection(input).map_err(ToolError::Model)?;
    let session = ctx.clone();
    blocking_until_cancelled(ctx, move || read(&path, selection, &session)).await
}

/// The part of a file that a call requests.
#[derive(Debug, Clone, Copy)]
enum ReadSelection {
    /// The start, whatever kind of file it is.
    Start,
    Lines(LineRange),
    Pages(PdfPageRange),
}

fn selection(input: &ReadFileInput) -> Result<ReadSelection, String> {
    match (&input.pages, input.offset, input.limit) {
        (None, None, None) => Ok(ReadSelection::Start),
        (None, offset, limit) => Ok(ReadSelection::Lines(LineRange {
            first: offset.unwrap_or(1).max(1),
            count: limit.unwrap_or(DEFAULT_LINES),
        })),
        (Some(pages), None, None) => PdfPageRange::parse(pages).map(ReadSelection::Pages),
        (Some(_), _, _) => Err("give pages of a PDF, or offset and limit of a text".to_owned()),
    }
}

fn read(path: &AllowedPath, selection: ReadSelection, ctx: &ToolContext) -> ToolResult {
    match open_any(path) {
        Ok(OpenFile { file, metadata }) if metadata.size > MAX_WHOLE => {
            match path.check(metadata.identity) {
                Ok(()) => read_large(path, file, metadata.size, selection, ctx),
                Err(error) => unreadable(path, &error.into(), ctx),
            }
        }
        Ok(open) => match load_opened(path, open, &ctx.file_views) {
            Ok(bytes) => read_whole(path, &bytes, selection, ctx),
            Err(error) => unreadable(path, &error, ctx),
        },
        Err(LoadError::Folder) => list_directory::list(path, 1, ctx),
        Err(error) => unreadable(path, &error, ctx),
    }
}

fn unreadable(path: &Path, error: &LoadError, ctx: &ToolContext) -> ToolResult {
    let name = display_path(path, ctx);
    ToolResult::failure(match error {
        LoadError::Missing => missing_file_message(path, ctx),
        LoadError::Folder => format!("{name} is a folder; use list_directory"),
        LoadError::Special(_) => format!("{name} {error} and is not read"),
        LoadError::TooLarge => format!("{name} grew while it was read; read it again"),
        LoadError::Io(error) => explain(&name, error),
    })
}

fn read_whole(
    path: &Path,
    bytes: &[u8],
    selection: ReadSelection,
    ctx: &ToolContext,
) -> ToolResult {
    // The content decides: PDF, picture, notebook, or else text.
    if bytes.starts_with(PDF) {
        return read_pdf(path, bytes, pages_of(selection), ctx);
    }
    let Some(range) = lines_of(selection) else { return no_pages(path, ctx) };
    if let Some(media_type) = Image::media_type_of(bytes) {
        return show_image(path, media_type, bytes, ctx);
    }
    if path.extension().is_some_and(|extension| extension == "ipynb")
        && let Some(cells) = notebook::flatten(bytes)
    {
        return show_notebook(path, &cells, range, ctx);
    }
    let Some(text) = DecodedText::decode(bytes) else {
        return binary(path, bytes.len() as u64, ctx);
    };
    let (page, total) = match page_of(path, &text, range, ctx) {
        Ok(page) => page,
        Err(refusal) => return ToolResult::failure(refusal),
    };
    let lines = page.lines();
    let view = FileView {
        path: path.to_owned(),
        hash: ContentHash::of_content(bytes),
        lines,
        call_id: ctx.call_id.clone(),
    };
    if let Some(earlier) = unchanged_since(&view, ctx) {
        return earlier;
    }
    let output =
        if total == 0 { "(the file is empty)".to_owned() } else { numbered(page, &text, total) };
    with_view(ToolResult::success(output), view, ctx)
}

fn lines_of(selection: ReadSelection) -> Option<LineRange> {
    match selection {
        ReadSelection::Start => Some(LineRange { first: 1, count: DEFAULT_LINES }),
        ReadSelection::Lines(range) => Some(range),
        ReadSelection::Pages(_) => None,
    }
}

fn no_pages(path: &Path, ctx: &ToolContext) -> ToolResult {
    let name = display_path(path, ctx);
    ToolResult::failure(format!("{name} is not a PDF and has no pages; use offset and limit"))
}

fn pages_of(selection: ReadSelection) -> Option<PdfPageRange> {
    match selection {
        ReadSelection::Start => Some(PdfPageRange::ALL),
        ReadSelection::Pages(pages) => Some(pages),
        ReadSelection::Lines(_) => None,
    }
}

#[cfg(feature = "pdf")]
fn read_pdf(
    path: &Path,
    bytes: &[u8],
    pages: Option<PdfPageRange>,
    ctx: &ToolContext,
) -> ToolResult {
    use super::pdf::{PdfError, read};
    let name = display_path(path, ctx);
    let Some(pages) = pages else {
        return ToolResult::failure(format!(
            "{name} is a PDF, which is read by pages: give pages instead of offset and limit"
        ));
    };
    match read(bytes, pages, &ctx.cancellation) {
        Ok(text) => ToolResult::success(text),
        Err(PdfError::Cancelled) => ToolResult::cancelled(),
        Err(error) => ToolResult::failure(format!("{name} is a PDF and was not read: {error}")),
    }
}

#[cfg(not(feature = "pdf"))]
fn read_pdf(
    path: &Path,
    _bytes: &[u8],
    _pages: Option<PdfPageRange>,
    ctx: &ToolContext,
) -> ToolResult {
    ToolResult::failure(format!(
        "{} is a PDF, which this build cannot read; use a command in bash (pdftotext)",
        display_path(path, ctx)
    ))
}

/// Collects the requested lines, and counts all lines.
fn page_of(
    path: &Path,
    text: &DecodedText<'_>,
    range: LineRange,
    ctx: &ToolContext,
) -> Result<(LinePage, u64), String> {
    let mut page = LinePage::new(range).with_limit(ctx.model.output_limit());
    let total = text.lines().count() as u64;
    if range.first > total.max(1) {
        let name = display_path(path, ctx);
        let first = range.first;
        return Err(format!("{name} has only {total} lines, so there is no line {first}"));
    }
    let skipped = usize::try_from(range.first - 1).unwrap_or(usize::MAX);
    for line in text.lines().skip(skipped) {
        page.push(line, 0);
        if page.is_full() {
            break;
        }
    }
    Ok((page, total))
}

/// Shows a notebook by its cells. This is not the content of the file, so the file does not count as seen.
fn show_notebook(path: &Path, cells: &str, range: LineRange, ctx: &ToolContext) -> ToolResult {
    let Some(text) = DecodedText::decode(cells.as_bytes()) else {
        return binary(path, cells.len() as u64, ctx);
    };
    match page_of(path, &text, range, ctx) {
        Ok((page, total)) => {
            let lines = numbered(page, &text, total);
            ToolResult::success(format!(
                "[a notebook by its cells; the file itself is JSON: edit it as such]\n{lines}"
            ))
        }
        Err(refusal) => ToolResult::failure(refusal),
    }
}

/// Returns the numbered lines, after a first line that has their range and the total.
fn numbered(page: LinePage, text: &DecodedText<'_>, total: u64) -> String {
    let (first, last) = page.lines().unwrap_or_default();
    let next = page.next_line();
    let mut head = format!("[lines {first}-{last} of {total}");
    if next <= total {
        let _ = write!(head, ", next offset {next}");
    }
    if text.is_crlf() {
        head.push_str(", CRLF line ends");
    }
    if let Some(label) = text.encoding.label() {
        let _ = write!(head, ", {label}");
    }
    below(&head, page)
}

/// Writes the lines of a page below a remark about them.
fn below(head: &str, page: LinePage) -> String {
    let lines = page.into_text();
    format!("{head}]\n{}", lines.strip_suffix('\n').unwrap_or(&lines))
}

/// Answers a read that would show the same lines again. Then removes the lines from the view, so that another read
/// shows them: the earlier result may no longer be in the model's context.
fn unchanged_since(view: &FileView, ctx: &ToolContext) -> Option<ToolResult> {
    let earlier = ctx.file_views.get(&view.path)?;
    let (first, last) = view.lines?;
    if (&earlier.hash, earlier.lines) != (&view.hash, view.lines) {
        return None;
    }
    // The text is the same each time, so that a model that reads on and on is stopped by the detection of repeated
    // calls.
    let output = format!(
        "Unchanged: lines {first}-{last} of {} are as an earlier call showed them. If that is out of sight, read again.",
        display_path(&view.path, ctx),
    );
    Some(with_view(ToolResult::success(output), FileView { lines: None, ..earlier }, ctx))
}

fn with_view(mut result: ToolResult, view: FileView, ctx: &ToolContext) -> ToolResult {
    result.metadata.extra = json!({ FileViews::EXTRA_KEY: view });
    ctx.file_views.insert(view);
    result
}

fn binary(path: &Path, size: u64, ctx: &ToolContext) -> ToolResult {
    ToolResult::failure(format!(
        "{} is binary ({size} bytes) and cannot be shown as text; look into it with a command in bash (file, xxd, strings)",
        display_path(path, ctx)
    ))
}

fn show_image(path: &Path, media_type: &str, bytes: &[u8], ctx: &ToolContext) -> ToolResult {
    let (name, size) = (display_path(path, ctx), bytes.len());
    if !ctx.model.abilities().vision {
        return ToolResult::failure(format!(
            "{name} is a picture ({media_type}, {size} bytes), and this model cannot see pictures"
        ));
    }
    match fitted_picture(media_type, bytes, &ctx.cancellation) {
        Ok(fitted) => {
            let mut result =
                ToolResult::success(format!("{name}: {media_type}, {size} bytes{}", fitted.note));
            result.images.push(fitted.image);
            result
        }
        Err(ImageRejection::Cancelled) => ToolResult::cancelled(),
        Err(ImageRejection::Because(reason)) => ToolResult::failure(format!(
            "{name} is a picture of {size} bytes and cannot be shown: {reason}; make a smaller copy and read that"
        )),
    }
}

/// A picture in the form in which it is sent.
pub(super) struct FittedImage {
    pub(super) image: Image,
    /// Description of the changes to it.
    note: String,
}

/// A reason for which no picture is sent.
pub(super) enum ImageRejection {
    #[cfg_attr(not(feature = "pictures"), expect(dead_code, reason = "only scaling takes long"))]
    Cancelled,
    Because(String),
}

#[cfg(feature = "pictures")]
pub(super) fn fitted_picture(
    media_type: &str,
    bytes: &[u8],
    cancellation: &CancellationToken,
) -> Result<FittedImage, ImageRejection> {
    use super::scale_image::{ScaleError, scale_down};
    match scale_down(media_type, bytes, cancellation) {
        Ok(None) => Ok(FittedImage { image: image(media_type, bytes), note: String::new() }),
        Ok(Some(small)) => {
            let ((width, height), (w, h)) = (small.original, small.size);
            let frame = if small.is_first_frame { ", the first frame of an animation" } else { "" };
            let (to, size) = (small.media_type, small.bytes.len());
            let note = format!(", {width}×{height}; sent as {to}, {size} bytes, {w}×{h}{frame}");
            Ok(FittedImage { image: image(to, &small.bytes), note })
        }
        Err(ScaleError::Cancelled) => Err(ImageRejection::Cancelled),
        Err(error) => Err(ImageRejection::Because(error.to_string())),
    }
}

#[cfg(not(feature = "pictures"))]
pub(super) fn fitted_picture(
    media_type: &str,
    bytes: &[u8],
    _cancellation: &CancellationToken,
) -> Result<FittedImage, ImageRejection> {
    if bytes.len() > MAX_IMAGE_BYTES {
        return Err(ImageRejection::Because(format!("at most {MAX_IMAGE_BYTES} can be shown")));
    }
    Ok(FittedImage { image: image(media_type, bytes), note: String::new() })
}

/// Shows lines of a file that is too large to be loaded. Its hash is not known, so no view is recorded.
fn read_large(
    path: &Path,
    file: File,
    size: u64,
    selection: ReadSelection,
    ctx: &ToolContext,
) -> ToolResult {
    let name = display_path(path, ctx);
    let mut probe = Vec::new();
    let probed = (&file).take(8 * 1024).read_to_end(&mut probe);
    if let Err(error) = probed.and_then(|_| std::io::Seek::rewind(&mut &file)) {
        return ToolResult::failure(explain(&name, &error));
    }
    if probe.starts_with(PDF) {
        return ToolResult::failure(format!(
            "{name} is a PDF of {size} bytes, and at most {MAX_WHOLE} are read; use a command in bash (pdftotext)"
        ));
    }
    let Some(range) = lines_of(selection) else { return no_pages(path, ctx) };
    let is_utf16 = matches!(probe.as_slice(), [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]);
    if is_utf16 || probe.contains(&0) {
        return binary(path, size, ctx);
    }
    let mut page = LinePage::new(range).with_limit(ctx.model.output_limit());
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    match page::fill(&mut reader, range.first, &mut page, &ctx.cancellation) {
        Ok(is_at_end) => {
            let (first, last) = page.lines().unwrap_or_default();
            let next = page.next_line();
            let mut head = format!("[lines {first}-{last} of a file of {size} bytes");
            if is_at_end {
                head.push_str(", which ends here");
            } else {
                let _ = write!(head, ", next offset {next}");
            }
            ToolResult::success(below(&head, page))
        }
        Err(StreamError::Cancelled) => ToolResult::cancelled(),
        Err(StreamError::Io(error)) => ToolResult::failure(explain(&name, &error)),
        Err(error @ StreamError::Short { .. }) => {
            ToolResult::failure(format!("there is no line {} in {name}: {error}", range.first))
        }
        Err(error @ StreamError::Far { .. }) => ToolResult::failure(format!(
            "line {} of {name} is too far in: {error}; use a command in bash (sed -n, tail)",
            range.first
        )),
    }
}

/// Largest picture that providers accept, in bytes.
pub(super) const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// Makes a picture from the bytes of a file.
fn image(media_type: &str, bytes: &[u8]) -> Image {
    Image { media_type: media_type.to_owned(), data: base64(bytes) }
}

/// Encodes bytes in standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let index = (bits >> (18 - 6 * position)) & 63;
            let letter = ALPHABET.get(index as usize).filter(|_| position <= chunk.len());
            text.push(char::from(*letter.unwrap_or(&b'=')));
        }
    }
    text
}

/// Pages, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PdfPageRange {
    /// First page.
    pub(crate) first: usize,
    /// Last page; `None` for as many as the limits allow.
    pub(crate) last: Option<usize>,
}

impl PdfPageRange {
    /// All pages, as far as the limits allow.
    const ALL: Self = Self { first: 1, last: None };

    /// Parses `3`, `2-5` or `4-`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
        let pages = match text.split_once('-') {
            None => number(text).map(|page| Self { first: page, last: Some(page) }),
            Some((first, last)) if last.trim().is_empty() => {
                number(first).map(|first| Self { first, last: None })
            }
            Some((first, last)) => number(first)
                .zip(number(last))
                .filter(|(first, last)| first <= last)
                .map(|(first, last)| Self { first, last: Some(last) }),
        };
        pages.ok_or_else(|| format!("pages is \"3\", \"2-5\" or \"4-\", not \"{text}\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_vectors_of_its_standard() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xFB, 0xFF]), "+/8=");
    }

    #[test]
    fn one_page_a_range_and_an_open_range_are_understood() {
        for (text, first, last) in
            [("3", 3, Some(3)), ("2-5", 2, Some(5)), ("4-", 4, None), (" 1 - 2 ", 1, Some(2))]
        {
            assert_eq!(PdfPageRange::parse(text), Ok(PdfPageRange { first, last }));
        }
        for text in ["", "0", "-", "-3", "5-2", "a", "1-2-3", "99999999999999999999"] {
            assert!(PdfPageRange::parse(text).is_err(), "{text}");
        }
    }
}
