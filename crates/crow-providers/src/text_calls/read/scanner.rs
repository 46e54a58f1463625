//! Search for the places in a text where a call may begin.
//!
//! The search walks over a text that may still grow. It stops before anything that needs more text to be judged, so
//! that `position` is always the end of what is known to be text. Since a judgement never changes with more text, the
//! places that are found do not depend on how the text was cut.

use crow_core::model::ToolCallFormat;

use super::{
    marker::{Marker, Plausibility, judge, judge_end, judge_json, judge_python},
    python::{TOOL_CODE, context_of_language},
    script::is_script_fence,
};

/// The end of reasoning in the text of models whose server does not separate it.
const THINK_END: &str = "</think>";
/// Its beginning.
const THINK_START: &str = "<think>";

/// A place where a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallPlace {
    pub start: usize,
    pub marker: Marker,
}

/// A code block that is open at the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenFence {
    mark: char,
    length: usize,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub(crate) struct CallScanner {
    format: ToolCallFormat,
    /// Everything before is text.
    position: usize,
    /// The beginning of the reply proper, after its reasoning.
    reply_start: usize,
    /// True inside the reasoning at the beginning of the reply.
    is_reasoning: bool,
    fence: Option<OpenFence>,
}

/// The next action at a position.
enum ScanStep {
    /// The next bytes are text.
    Skip(usize),
    Found(Marker),
    /// More text is needed.
    Wait,
}

impl CallScanner {
    pub(crate) fn new(format: ToolCallFormat) -> Self {
        Self { format, position: 0, reply_start: 0, is_reasoning: false, fence: None }
    }

    /// Returns the end of what is known to be text.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Searches a text that may grow. Returns true once there is a place where a call may begin.
    pub(crate) fn reaches_place(&mut self, text: &str) -> bool {
        self.next_place(text, false).is_some()
    }

    /// Returns the beginning of the reply proper: reasoning before it is not searched.
    pub(super) fn reply_start(&self) -> usize {
        self.reply_start
    }

    /// Returns the next place from the position on, and leaves the position there.
    pub(super) fn next_place(&mut self, text: &str, is_complete: bool) -> Option<CallPlace> {
        while self.position < text.len() {
            match self.scan(text, is_complete) {
                ScanStep::Skip(length) => self.position += length,
                ScanStep::Found(marker) => return Some(CallPlace { start: self.position, marker }),
                ScanStep::Wait => return None,
            }
        }
        None
    }

    /// Continues after a place that was read.
    pub(super) fn resume_at(&mut self, position: usize) {
        self.position = position;
    }

    /// Continues inside a place that is text.
    pub(super) fn resume_inside(&mut self, text: &str, place: CallPlace) {
        let rest = &text[place.start..];
        if matches!(place.marker, Marker::Fence | Marker::Script) {
            let line = line_of(rest);
            self.fence = opening_fence(line);
            self.position += line.len();
        } else {
            self.position += rest.chars().next().map_or(0, char::len_utf8);
        }
    }

    fn scan(&mut self, text: &str, is_complete: bool) -> ScanStep {
        let (before, rest) = text.split_at(self.position);
        if self.is_reasoning {
            return self.scan_reasoning(rest, is_complete);
        }
        let line_start = before[self.reply_start..].trim_end_matches([' ', '\t']);
        let is_line_start = line_start.is_empty() || line_start.ends_with('\n');
        if let Some(fence) = self.fence {
            return self.scan_fenced(fence, is_line_start, rest, is_complete);
        }
        if is_line_start {
            let scan = self.scan_line_start(before, rest, is_complete);
            if !matches!(scan, ScanStep::Skip(0)) {
                return scan;
            }
        }
        self.scan_inline(before, rest, is_complete)
    }

    /// Walks over a code block up to its end.
    fn scan_fenced(
        &mut self,
        fence: OpenFence,
        is_line_start: bool,
        rest: &str,
        is_complete: bool,
    ) -> ScanStep {
        let line = line_of(rest);
        if is_line_start && line.trim_start().starts_with(fence.mark) {
            if !line.ends_with('\n') && !is_complete {
                return ScanStep::Wait;
            }
            let run = run_length(line.trim_start(), fence.mark);
            let after = &line.trim_start()[run * fence.mark.len_utf8()..];
            if run >= fence.length && after.trim().is_empty() {
                self.fence = None;
            }
        } else if is_line_start && line.trim().is_empty() && !line.ends_with('\n') && !is_complete {
            return ScanStep::Wait;
        }
        ScanStep::Skip(line.len())
    }

    /// Looks for forms that begin a line: code blocks and JSON. Returns `Skip(0)` if there is none.
    fn scan_line_start(&mut self, before: &str, rest: &str, is_complete: bool) -> ScanStep {
        let line = line_of(rest);
        let content = line.trim_start();
        if content.is_empty() {
            let is_open = !line.ends_with('\n') && !is_complete;
            return if is_open { ScanStep::Wait } else { ScanStep::Skip(line.len()) };
        }
        // Without native calls a call may follow some words; otherwise it must be the whole reply.
        let is_reply_start = before[self.reply_start..].trim().is_empty();
        let may_be_bare = is_reply_start || self.format != ToolCallFormat::Native;
        let indent = line.len() - content.len();
        if content.starts_with(['`', '~']) {
            if !line.ends_with('\n') && !is_complete {
                return ScanStep::Wait;
            }
            let Some(fence) = opening_fence(line) else { return ScanStep::Skip(0) };
            let language = language_of(line);
            if self.format == ToolCallFormat::CodeBlocks && is_script_fence(line) {
                return ScanStep::Found(Marker::Script);
            }
            // Of several blocks amid text, a model with native calls means none, or it is unknown which.
            let is_first = !before[self.reply_start..].contains(TOOL_CODE);
            if language == TOOL_CODE && (is_first || self.format != ToolCallFormat::Native) {
                return ScanStep::Found(Marker::Fence);
            }
            if may_be_bare {
                let body = rest[line.len()..].trim_start();
                let python = match context_of_language(language) {
                    Some(_) => judge_python(body),
                    None => Plausibility::Text,
                };
                let judged = match body.chars().next() {
                    None => Plausibility::Undecided,
                    Some('{') => judge_json(body),
                    Some('[') => first_of(first_of(judge_json(body), judge(body).0), python),
                    Some('<') => judge(body).0,
                    Some(_) => python,
                };
                match judged {
                    Plausibility::Call => return ScanStep::Found(Marker::Fence),
                    Plausibility::Undecided if !is_complete => return ScanStep::Wait,
                    Plausibility::Undecided | Plausibility::Text => {}
                }
            }
            self.fence = Some(fence);
            return ScanStep::Skip(line.len());
        }
        if may_be_bare && content.starts_with(['{', '[']) {
            if indent > 0 {
                return ScanStep::Skip(indent);
            }
            let (judged, marker) = match judge_json(rest) {
                Plausibility::Text if rest.starts_with('[') => (judge_python(rest), Marker::Python),
                judged => (judged, Marker::Json),
            };
            match judged {
                Plausibility::Call => return ScanStep::Found(marker),
                Plausibility::Undecided if !is_complete => return ScanStep::Wait,
                Plausibility::Undecided | Plausibility::Text => {}
            }
        }
        ScanStep::Skip(0)
    }

    /// Looks for marks anywhere in a line.
    fn scan_inline(&mut self, before: &str, rest: &str, is_complete: bool) -> ScanStep {
        if rest.starts_with('`') {
            return scan_code_span(rest, is_complete);
        }
        if rest.starts_with(['<', '[']) {
            if let Some(scan) = self.scan_think_tag(before, rest, is_complete) {
                return scan;
            }
            let (judged, marker) = judge(rest);
            let judged = match judged {
                Plausibility::Undecided if is_complete => judge_end(rest),
                judged => judged,
            };
            return match judged {
                Plausibility::Call => ScanStep::Found(marker),
                Plausibility::Undecided => ScanStep::Wait,
                Plausibility::Text => ScanStep::Skip(1),
            };
        }
        // To the next character that may begin something, or past the end of the line.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        if rest.starts_with('\n') {
            return ScanStep::Skip(first);
        }
        let next = rest[first..].find(['<', '[', '`', '\n']);
        ScanStep::Skip(next.map_or(rest.len(), |next| first + next))
    }

    /// Looks for the tags of reasoning. An end whose beginning was in the prompt begins the reply anew.
    fn scan_think_tag(&mut self, before: &str, rest: &str, is_complete: bool) -> Option<ScanStep> {
        if rest.starts_with(THINK_END) {
            self.reply_start = self.position + THINK_END.len();
            return Some(ScanStep::Skip(THINK_END.len()));
        }
        if rest.starts_with(THINK_START) && before.trim().is_empty() {
            self.is_reasoning = true;
            return Some(ScanStep::Skip(THINK_START.len()));
        }
        let may_follow = THINK_END.starts_with(rest) || THINK_START.starts_with(rest);
        (may_follow && !is_complete).then_some(ScanStep::Wait)
    }

    /// Skips reasoning up to its end.
    fn scan_reasoning(&mut self, rest: &str, is_complete: bool) -> ScanStep {
        if let Some(end) = rest.find(THINK_END) {
            self.is_reasoning = false;
            self.reply_start = self.position + end + THINK_END.len();
            return ScanStep::Skip(end + THINK_END.len());
        }
        if is_complete {
            return ScanStep::Skip(rest.len());
        }
        // The end of the text may be the beginning of the end tag.
        let held = (1..THINK_END.len()).rev().find(|held| rest.ends_with(&THINK_END[..*held]));
        match rest.len() - held.unwrap_or(0) {
            0 => ScanStep::Wait,
            length => ScanStep::Skip(length),
        }
    }
}

/// Skips a code span within a line: what it quotes is no call.
fn scan_code_span(rest: &str, is_complete: bool) -> ScanStep {
    let line = line_of(rest);
    let run = run_length(line, '`');
    let mut end = run;
    while let Some(next) = line[end..].find('`') {
        let start = end + next;
        end = start + run_length(&line[start..], '`');
        // A run at the end of the text may still grow.
        if end == rest.len() && !is_complete {
            return ScanStep::Wait;
        }
        if end - start == run {
            return ScanStep::Skip(end);
        }
    }
    if line.ends_with('\n') || is_complete { ScanStep::Skip(run) } else { ScanStep::Wait }
}

/// Returns the fence that a complete line opens, if any.
fn opening_fence(line: &str) -> Option<OpenFence> {
    let content = line.trim_start();
    let mark = content.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = run_length(content, mark);
    let info = &content[length * mark.len_utf8()..];
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(OpenFence { mark, length })
}

/// Returns the language that the line of an opening fence names, empty if none.
pub(super) fn language_of(line: &str) -> &str {
    line.trim().trim_start_matches(['`', '~']).split_whitespace().next().unwrap_or("")
}

/// Returns true if a line ends the code block that began with these marks.
pub(super) fn is_fence_end(line: &str, fence: &str) -> bool {
    let content = line.trim();
    content.starts_with(fence) && content.chars().all(|c| fence.starts_with(c))
}

/// Returns the first judgement unless it is text.
fn first_of(one: Plausibility, other: Plausibility) -> Plausibility {
    match (one, other) {
        (Plausibility::Call, _) | (_, Plausibility::Call) => Plausibility::Call,
        (Plausibility::Undecided, _) | (_, Plausibility::Undecided) => Plausibility::Undecided,
        (Plausibility::Text, Plausibility::Text) => Plausibility::Text,
    }
}

/// Returns the first line with its line break.
pub(super) fn line_of(text: &str) -> &str {
    text.split_inclusive('\n').next().unwrap_or("")
}

fn run_length(text: &str, mark: char) -> usize {
    text.chars().take_while(|c| *c == mark).count()
}
