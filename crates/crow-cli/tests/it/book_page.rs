//! A page of the book: its console blocks, and the comparison of their output with that of the program.

use std::{
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Variable that lets the tests write the documents instead of comparing them.
const UPDATE: &str = "CROW_BOOK";

/// Line of an expected output that stands for any number of lines; inside a line it stands for any characters.
const ELLIPSIS: &str = "…";

/// A `console` block of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConsoleBlock {
    /// Number of the line with the opening fence.
    pub(crate) line: usize,
    /// Reason for which the block is not run, from the comment `<!-- not run: … -->` above it.
    pub(crate) not_run: Option<String>,
    pub(crate) commands: Vec<ConsoleCommand>,
}

/// A command of a console block with the output shown below it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConsoleCommand {
    pub(crate) line: String,
    pub(crate) output: String,
    /// Byte range of the output in the page.
    pub(crate) range: Range<usize>,
}

/// Returns the path of a file of the workspace.
pub(crate) fn document(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Panics unless the document has this content; with `CROW_BOOK=update` the content is written instead.
pub(crate) fn assert_document(path: &str, fresh: &str) {
    let file = document(path);
    if is_update() {
        fs::write(&file, fresh).unwrap();
        return;
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    if stored != fresh {
        let diff = similar::TextDiff::from_lines(&stored, fresh);
        let diff = diff.unified_diff().context_radius(2).to_string();
        panic!("{path} is not up to date; {}\n{diff}", how_to_update());
    }
}

/// Returns true if the documents are to be written.
pub(crate) fn is_update() -> bool {
    std::env::var_os(UPDATE).is_some_and(|value| value == "update")
}

/// Returns the command that brings the documents up to date.
pub(crate) fn how_to_update() -> String {
    format!("`{UPDATE}=update cargo test -p crow-cli --test it book` writes it; review the changes")
}

/// Returns the console blocks of a page.
pub(crate) fn console_blocks(page: &str) -> Vec<ConsoleBlock> {
    let mut blocks: Vec<ConsoleBlock> = Vec::new();
    let mut fence = None;
    let mut comment = None;
    let mut offset = 0;
    for (number, full_line) in page.split_inclusive('\n').enumerate() {
        let line = full_line.trim_end_matches('\n');
        let end = offset + full_line.len();
        match (fence, line.strip_prefix("```")) {
            (None, Some(info)) => {
                if info == "console" || info == "console,norun" {
                    let not_run = (info != "console").then(|| comment.clone().unwrap_or_default());
                    blocks.push(ConsoleBlock { line: number + 1, not_run, commands: Vec::new() });
                }
                fence = Some(info);
            }
            (Some(_), Some(_)) => fence = None,
            (Some("console" | "console,norun"), None) => {
                let commands = &mut blocks.last_mut().unwrap().commands;
                if let Some(command) = line.strip_prefix("$ ") {
                    let line = command.to_owned();
                    commands.push(ConsoleCommand { line, output: String::new(), range: end..end });
                } else {
                    let command = commands.last_mut().expect("a block begins with a command");
                    let continues = command.output.is_empty() && command.line.ends_with('\\');
                    if let Some(more) = line.strip_prefix("> ").filter(|_| continues) {
                        write!(command.line, "\n{more}").unwrap();
                        command.range = end..end;
                    } else {
                        command.output.push_str(full_line);
                        command.range.end = end;
                    }
                }
            }
            _ => {}
        }
        if !line.is_empty() {
            comment = line
                .strip_prefix("<!-- not run: ")
                .and_then(|rest| rest.strip_suffix(" -->"))
                .map(str::to_owned);
        }
        offset = end;
    }
    blocks
}

/// Replaces what differs between two runs: durations, times, ids, folders of the demonstration.
pub(crate) fn normalized(output: &str) -> String {
    let replacements = [
        (r"\b\d+(\.\d+)? ?(ms|s|min)\b", "TIME"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "DATE"),
        (r"\b0[0-9a-f]{7}(-[0-9a-f]{4}-[0-9a-f-]{22})?\b", "ID"),
        (r"crow-demo-\w{6}", "crow-demo-ID"),
    ];
    let mut text = output.to_owned();
    for (pattern, name) in replacements {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    // The page has no trailing blanks, and `…` may stand for the end of a line.
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Returns true if the output is as the page shows it.
pub(crate) fn matches(expected: &str, actual: &str) -> bool {
    let (expected, actual) = (normalized(expected), normalized(actual));
    let expected: Vec<&str> = expected.lines().collect();
    let actual: Vec<&str> = actual.lines().collect();
    lines_match(&expected, &actual)
}

fn lines_match(expected: &[&str], actual: &[&str]) -> bool {
    match expected {
        [] => actual.is_empty(),
        [ELLIPSIS, rest @ ..] => (0..=actual.len()).any(|skip| lines_match(rest, &actual[skip..])),
        [line, rest @ ..] => actual
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let Some((start, rest)) = expected.split_once(ELLIPSIS) else { return expected == actual };
    let Some(mut actual) = actual.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split(ELLIPSIS).collect();
    let end = parts.pop().unwrap();
    for part in parts {
        let Some(at) = actual.find(part) else { return false };
        actual = &actual[at + part.len()..];
    }
    actual.ends_with(end)
}

#[test]
fn console_blocks_have_commands_outputs_and_reasons() {
    let page = "# a\n\n```console\n$ one\nout\n$ two \\\n> more\n```\n\n<!-- not run: why -->\n```console,norun\n$ three\n```\n\n```sh\n$ four\n```\n";
    let blocks = console_blocks(page);
    assert_eq!(blocks.len(), 2);
    let [one, two] = &blocks[0].commands[..] else { panic!("{blocks:?}") };
    assert_eq!((one.line.as_str(), one.output.as_str()), ("one", "out\n"));
    assert_eq!(&page[one.range.clone()], "out\n");
    assert_eq!((two.line.as_str(), two.output.as_str()), ("two \\\nmore", ""));
    assert_eq!(&page[two.range.end..two.range.end + 3], "```");
    assert_eq!((blocks[0].line, blocks[0].not_run.as_deref()), (3, None));
    assert_eq!((blocks[1].line, blocks[1].not_run.as_deref()), (11, Some("why")));
}

#[test]
fn an_ellipsis_in_a_block_stands_for_lines_and_for_parts_of_a_line() {
    for (expected, actual) in [
        ("a\n", "a\n"),
        ("a  3 ms\n", "a  17 ms\n"),
        ("a\n…\nd\n", "a\nb\nc\nd\n"),
        ("a\n…\nb\n", "a\nb\n"),
        ("a … c … e\n", "a b c d e\n"),
        ("a …\n", "a b\n"),
    ] {
        assert!(matches(expected, actual), "{expected} {actual}");
    }
    for (expected, actual) in [
        ("a\n", "a\nb\n"),
        ("a\n", "b\n"),
        ("a\n…\nd\n", "a\nb\n"),
        ("a … c\n", "a b d\n"),
        ("3 files\n", "4 files\n"),
    ] {
        assert!(!matches(expected, actual), "{expected} {actual}");
    }
}
