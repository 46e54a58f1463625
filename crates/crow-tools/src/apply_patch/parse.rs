//! Parses a patch: the form with `*** Begin Patch`, and unified diffs.
//!
//! Models leave out the first and last line, wrap the patch in a shell line or a Markdown fence, forget the space before
//! unchanged lines or mix both forms. What has only one meaning is accepted; everything else is an error with its line.
//! Content is never added: a line that is misread at most does not fit the file.

use crow_edit::{HunkLine, HunkMark, PatchHunk};

/// The part of a patch about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatchSection {
    /// The path as it is written.
    pub(super) path: String,
    pub(super) change: SectionChange,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SectionChange {
    Add { content: String },
    Update { move_to: Option<String>, hunks: Vec<PatchHunk> },
    Delete,
}

/// An error in a patch. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchSyntaxError {
    #[error(
        "the patch has no section; begin one with *** Update File: PATH, *** Add File: PATH or *** Delete File: PATH"
    )]
    Empty,
    #[error(
        "line {line} of the patch, `{text}`, is in no section; begin one with *** Update File: PATH, *** Add File: PATH or *** Delete File: PATH"
    )]
    OutsideSection { line: usize, text: String },
    #[error(
        "line {line}, `{text}`, is a command; send only the patch, with paths relative to the working directory"
    )]
    Command { line: usize, text: String },
    #[error("line {line} of the patch names no path")]
    NoPath { line: usize },
    #[error(
        "line {line} of the patch, `{text}`, has no + although it is in the section of a new file; begin each of its lines with +"
    )]
    NotAdded { line: usize, text: String },
    #[error("line {line} of the patch, `{text}`, follows *** Delete File, which has no lines")]
    InDeletion { line: usize, text: String },
    #[error(
        "line {line} of the patch moves a file that is not updated; give *** Update File: PATH before it"
    )]
    MisplacedMove { line: usize },
    #[error(
        "line {line} of the patch renames a file in the form of git; give *** Update File: PATH and *** Move to: PATH instead"
    )]
    GitRename { line: usize },
    #[error("the section of {path} changes nothing; give hunks with lines that begin with + or -")]
    NoHunks { path: String },
    #[error("{path} has several sections in the patch; put all its changes into one")]
    SeveralSections { path: String },
}

/// Most characters of a line that an error shows.
const SHOWN_CHARS: usize = 80;
/// Most wrappers around a patch that are removed.
const MAX_WRAPPERS: usize = 3;

/// Parses a patch into its sections, one for each path.
pub(super) fn parse(text: &str) -> Result<Vec<PatchSection>, PatchSyntaxError> {
    let lines = patch_lines(text)?;
    let mut parser = PatchParser { lines: &lines, at: 0, sections: Vec::new() };
    parser.run()?;
    join(parser.sections)
}

/// A line of the patch, with its number in the text of the call.
#[derive(Debug, Clone, Copy)]
struct NumberedLine<'a> {
    number: usize,
    text: &'a str,
}

/// Returns the lines between the first and the last line of the patch, without what is wrapped around them.
fn patch_lines(text: &str) -> Result<Vec<NumberedLine<'_>>, PatchSyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_crlf = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let strip = |line| if is_crlf { str::strip_suffix(line, "\r").unwrap_or(line) } else { line };
    let mut lines: Vec<NumberedLine<'_>> = (1..)
        .zip(text.split_terminator('\n'))
        .map(|(number, text)| NumberedLine { number, text: strip(text) })
        .collect();
    for _ in 0..MAX_WRAPPERS {
        trim_blank(&mut lines);
        if !unwrap(&mut lines) {
            break;
        }
    }
    // Text around the patch is not part of it. A command would be one, such as a change of the folder.
    if let Some(begin) = lines.iter().position(|line| is_marker(line.text, "begin patch")) {
        if let Some(line) = lines[..begin].iter().find(|line| line.text.contains("<<")) {
            return Err(PatchSyntaxError::Command { line: line.number, text: shown(line.text) });
        }
        lines.drain(..=begin);
    }
    if let Some(end) = lines.iter().position(|line| is_marker(line.text, "end patch"))
        && !lines[end..].iter().any(|line| is_marker(line.text, "begin patch"))
    {
        lines.truncate(end);
    }
    lines.retain(|line| !is_marker(line.text, "begin patch") && !is_marker(line.text, "end patch"));
    trim_blank(&mut lines);
    Ok(lines)
}

fn trim_blank(lines: &mut Vec<NumberedLine<'_>>) {
    // A space at the end may be an unchanged empty line.
    while lines.last().is_some_and(|line| line.text.is_empty()) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.text.trim().is_empty()).count();
    lines.drain(..blank);
}

/// Removes a Markdown fence, or the shell line that would pass the patch to a program. Returns false if there is none.
fn unwrap(lines: &mut Vec<NumberedLine<'_>>) -> bool {
    let Some(first) = lines.first().map(|line| line.text.trim()) else { return false };
    let end = if first.starts_with("```") {
        "```".to_owned()
    } else if let Some(word) = heredoc_word(first) {
        word
    } else {
        return false;
    };
    lines.remove(0);
    if lines.last().is_some_and(|line| line.text.trim() == end) {
        lines.pop();
    }
    true
}

/// Returns the end word of `apply_patch <<'EOF'`, or of the rest of such a line.
fn heredoc_word(line: &str) -> Option<String> {
    let line = line.strip_prefix("apply_patch").unwrap_or(line).trim_start();
    let word = line.strip_prefix("<<")?.trim_start_matches('-').trim();
    let word = word.trim_matches(['\'', '"']);
    let is_word =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word.then(|| word.to_owned())
}

/// Returns the text after the asterisks of a line such as `*** Begin Patch`.
fn marker(line: &str) -> Option<&str> {
    line.strip_prefix("***").map(str::trim)
}

fn is_marker(line: &str, words: &str) -> bool {
    marker(line).is_some_and(|text| text.eq_ignore_ascii_case(words))
}

/// A line that begins a section or belongs to its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadLine<'a> {
    Add(&'a str),
    Update(&'a str),
    Delete(&'a str),
    MoveTo(&'a str),
    EndOfFile,
}

/// Reads a line that begins with asterisks. Other text after them is content.
fn head_line(line: &str) -> Option<HeadLine<'_>> {
    let text = marker(line)?;
    if text.eq_ignore_ascii_case("end of file") {
        return Some(HeadLine::EndOfFile);
    }
    let (words, path) = text.split_once(':')?;
    let path = bare_path(path);
    match words.trim_end().to_ascii_lowercase().as_str() {
        "add file" | "create file" | "new file" => Some(HeadLine::Add(path)),
        "update file" | "modify file" | "edit file" => Some(HeadLine::Update(path)),
        "delete file" | "remove file" => Some(HeadLine::Delete(path)),
        "move to" | "move file to" | "rename to" => Some(HeadLine::MoveTo(path)),
        _ => None,
    }
}

/// Returns a path without the quotes around it.
fn bare_path(path: &str) -> &str {
    let path = path.trim();
    for quote in ['`', '"', '\''] {
        if let Some(inner) = path.strip_prefix(quote).and_then(|path| path.strip_suffix(quote)) {
            return inner;
        }
    }
    path
}

/// Head of a unified diff: `---`, `+++`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnifiedHead<'a> {
    Add(&'a str),
    Update(&'a str),
    Delete(&'a str),
    /// Two different paths.
    Rename,
}

/// Reads two lines as the head of a unified diff.
fn unified_head<'a>(old: &'a str, new: &'a str) -> Option<UnifiedHead<'a>> {
    const NONE: &str = "/dev/null";
    // A time may follow the path after a tab.
    let path = |text: &'a str| bare_path(text.split_once('\t').map_or(text, |(path, _)| path));
    let (old, new) = (path(old.strip_prefix("--- ")?), path(new.strip_prefix("+++ ")?));
    let (short_old, short_new) = (old.strip_prefix("a/"), new.strip_prefix("b/"));
    Some(match (old, new) {
        (NONE, new) => UnifiedHead::Add(short_new.unwrap_or(new)),
        (old, NONE) => UnifiedHead::Delete(short_old.unwrap_or(old)),
        _ => match (short_old, short_new) {
            (Some(old), Some(new)) if old == new => UnifiedHead::Update(new),
            _ if old == new => UnifiedHead::Update(new),
            _ => UnifiedHead::Rename,
        },
    })
}

/// Returns true for a line before the hunks of a file that only git reads.
fn is_git_line(line: &str) -> bool {
    const STARTS: [&str; 8] = [
        "diff --git ",
        "index ",
        "new file mode ",
        "deleted file mode ",
        "old mode ",
        "new mode ",
        "similarity index ",
        "dissimilarity index ",
    ];
    STARTS.iter().any(|start| line.starts_with(start))
}

struct PatchParser<'a> {
    lines: &'a [NumberedLine<'a>],
    at: usize,
    sections: Vec<PatchSection>,
}

/// The form in which a section began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionForm {
    Marked,
    Unified,
}

impl<'a> PatchParser<'a> {
    fn line(&self, offset: usize) -> Option<&'a str> {
        self.lines.get(self.at + offset).map(|line| line.text)
    }

    /// Returns the number of the current line in the text of the call.
    fn number(&self) -> usize {
        self.lines.get(self.at).map_or(0, |line| line.number)
    }

    fn run(&mut self) -> Result<(), PatchSyntaxError> {
        while let Some(line) = self.line(0) {
            if let Some(head) = head_line(line) {
                self.marked_section(head)?;
            } else if let Some(head) = self.unified_head() {
                self.unified_section(head)?;
            } else if line.starts_with("rename ") || line.starts_with("copy ") {
                return Err(PatchSyntaxError::GitRename { line: self.number() });
            } else if line.trim().is_empty() || is_git_line(line) {
                self.at += 1;
            } else {
                return Err(PatchSyntaxError::OutsideSection {
                    line: self.number(),
                    text: shown(line),
                });
            }
        }
        if self.sections.is_empty() { Err(PatchSyntaxError::Empty) } else { Ok(()) }
    }

    fn marked_section(&mut self, head: HeadLine<'a>) -> Result<(), PatchSyntaxError> {
        let (line, form) = (self.number(), SectionForm::Marked);
        let (HeadLine::Add(path) | HeadLine::Update(path) | HeadLine::Delete(path)) = head else {
            return match head {
                HeadLine::EndOfFile => {
                    self.at += 1;
                    Ok(())
                }
                HeadLine::MoveTo(_)
                | HeadLine::Add(_)
                | HeadLine::Update(_)
                | HeadLine::Delete(_) => Err(PatchSyntaxError::MisplacedMove { line }),
            };
        };
        if path.is_empty() {
            return Err(PatchSyntaxError::NoPath { line });
        }
        self.at += 1;
        let change = match head {
            HeadLine::Add(_) => SectionChange::Add { content: self.new_content(form)? },
            HeadLine::Delete(_) => {
                self.skip_deletion(form)?;
                SectionChange::Delete
            }
            HeadLine::Update(_) | HeadLine::MoveTo(_) | HeadLine::EndOfFile => {
                self.update(path, form)?
            }
        };
        self.sections.push(PatchSection { path: path.to_owned(), change });
        Ok(())
    }

    /// Returns the head of a unified diff that begins at the current line.
    fn unified_head(&self) -> Option<UnifiedHead<'a>> {
        unified_head(self.line(0)?, self.line(1)?)
    }

    fn unified_section(&mut self, head: UnifiedHead<'a>) -> Result<(), PatchSyntaxError> {
        let (line, form) = (self.number(), SectionForm::Unified);
        let (UnifiedHead::Add(path) | UnifiedHead::Update(path) | UnifiedHead::Delete(path)) = head
        else {
            return Err(PatchSyntaxError::GitRename { line });
        };
        if path.is_empty() {
            return Err(PatchSyntaxError::NoPath { line });
        }
        self.at += 2;
        let change = match head {
            UnifiedHead::Add(_) => SectionChange::Add { content: self.new_content(form)? },
            UnifiedHead::Delete(_) => {
                self.skip_deletion(form)?;
                SectionChange::Delete
            }
            UnifiedHead::Update(_) | UnifiedHead::Rename => self.update(path, form)?,
        };
        self.sections.push(PatchSection { path: path.to_owned(), change });
        Ok(())
    }

    /// Returns true if the current line begins another section.
    fn is_end(&self, form: SectionForm) -> bool {
        let Some(line) = self.line(0) else { return true };
        match head_line(line) {
            Some(HeadLine::Add(_) | HeadLine::Update(_) | HeadLine::Delete(_)) => true,
            Some(HeadLine::MoveTo(_) | HeadLine::EndOfFile) => false,
            None => {
                // In a hunk, a removed line may look like the head of a unified diff.
                form == SectionForm::Unified
                    && (line.starts_with("diff --git ")
                        || self.unified_head().is_some()
                            && self.line(2).is_some_and(|line| line.starts_with("@@ -")))
            }
        }
    }

    /// Skips `---` and `+++`, which some models put below `*** Update File`.
    fn skip_repeated_head(&mut self) {
        let rest = &self.lines[self.at..];
        let skipped = rest.iter().take_while(|line| is_git_line(line.text)).count();
        if let [old, new, ..] = &rest[skipped..]
            && unified_head(old.text, new.text).is_some()
        {
            self.at += skipped + 2;
        }
    }

    fn new_content(&mut self, form: SectionForm) -> Result<String, PatchSyntaxError> {
        if form == SectionForm::Marked {
            self.skip_repeated_head();
        }
        let mut body: Vec<NumberedLine<'a>> = Vec::new();
        let mut has_end = true;
        while !self.is_end(form) {
            let line = self.lines[self.at];
            self.at += 1;
            match head_line(line.text) {
                Some(HeadLine::MoveTo(_)) => {
                    return Err(PatchSyntaxError::MisplacedMove { line: line.number });
                }
                Some(
                    HeadLine::EndOfFile
                    | HeadLine::Add(_)
                    | HeadLine::Update(_)
                    | HeadLine::Delete(_),
                ) => continue,
                None => {}
            }
            if line.text.starts_with("@@ -0,0 +") && body.is_empty() {
                continue;
            }
            if line.text.starts_with("\\ ") {
                has_end = false;
                continue;
            }
            body.push(line);
        }
        while body.last().is_some_and(|line| line.text.is_empty()) {
            body.pop();
        }
        let is_marked = body.iter().any(|line| line.text.starts_with('+'));
        let mut content = String::new();
        for NumberedLine { number, text } in body {
            let text = match text.strip_prefix('+') {
                Some(text) => text,
                // If no line has a mark, or the line is empty, the meaning is clear.
                None if !is_marked || text.trim().is_empty() => text,
                None => {
                    return Err(PatchSyntaxError::NotAdded { line: number, text: shown(text) });
                }
            };
            content.push_str(text);
            content.push('\n');
        }
        if !has_end {
            content.pop();
        }
        Ok(content)
    }

    fn skip_deletion(&mut self, form: SectionForm) -> Result<(), PatchSyntaxError> {
        while !self.is_end(form) {
            let line = self.lines[self.at];
            let is_removed = line.text.starts_with(['-', '\\']) || line.text.starts_with("@@");
            let is_head = line.text.starts_with("+++ /dev/null")
                || head_line(line.text) == Some(HeadLine::EndOfFile);
            if !(is_removed || is_head || line.text.trim().is_empty()) {
                let (line, text) = (line.number, shown(line.text));
                return Err(PatchSyntaxError::InDeletion { line, text });
            }
            self.at += 1;
        }
        Ok(())
    }

    fn update(&mut self, path: &str, form: SectionForm) -> Result<SectionChange, PatchSyntaxError> {
        let mut move_to = None;
        let mut hunks = HunkList::default();
        if let Some(HeadLine::MoveTo(target)) = self.line(0).and_then(head_line)
            && !target.is_empty()
        {
            move_to = Some(target);
            self.at += 1;
        }
        if form == SectionForm::Marked {
            self.skip_repeated_head();
        }
        while !self.is_end(form) {
            let NumberedLine { number, text } = self.lines[self.at];
            self.at += 1;
            match head_line(text) {
                Some(HeadLine::EndOfFile) => hunks.end_file(),
                Some(HeadLine::MoveTo(target)) => move_to = Some(target),
                Some(HeadLine::Add(_) | HeadLine::Update(_) | HeadLine::Delete(_)) | None => {
                    hunks.push(text);
                }
            }
            if move_to == Some("") {
                return Err(PatchSyntaxError::NoPath { line: number });
            }
        }
        let hunks = hunks.finish();
        if hunks.is_empty() && move_to.is_none() {
            return Err(PatchSyntaxError::NoHunks { path: path.to_owned() });
        }
        Ok(SectionChange::Update { move_to: move_to.map(str::to_owned), hunks })
    }
}

/// The hunks of a file, line by line.
#[derive(Debug, Default)]
struct HunkList {
    done: Vec<PatchHunk>,
    current: PatchHunk,
}

impl HunkList {
    fn push(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("@@") {
            if !self.current.lines.is_empty() {
                self.close();
            }
            // Several such lines before a hunk nest.
            self.current.context.extend(context_line(rest));
            return;
        }
        // The remark that a file has no final newline.
        if line.starts_with("\\ ") {
            return;
        }
        let marked = |mark, text: &str| HunkLine { mark, text: text.to_owned() };
        self.current.lines.push(match line.split_at_checked(1) {
            Some((" ", text)) => marked(HunkMark::Kept, text),
            Some(("+", text)) => marked(HunkMark::Added, text),
            Some(("-", text)) => marked(HunkMark::Removed, text),
            Some(_) | None => marked(HunkMark::Unmarked, line),
        });
    }

    fn end_file(&mut self) {
        self.current.ends_file = true;
        self.close();
    }

    /// Ends the current hunk.
    fn close(&mut self) {
        let mut hunk = std::mem::take(&mut self.current);
        // Empty lines around a hunk separate it; an empty unchanged line would have a space.
        let is_gap = |line: &HunkLine| line.mark == HunkMark::Unmarked && line.text.is_empty();
        while hunk.lines.last().is_some_and(is_gap) {
            hunk.lines.pop();
        }
        let gap = hunk.lines.iter().take_while(|line| is_gap(line)).count();
        hunk.lines.drain(..gap);
        if !hunk.lines.is_empty() {
            self.done.push(hunk);
        }
    }

    fn finish(mut self) -> Vec<PatchHunk> {
        self.close();
        self.done
    }
}

/// Returns the line that `@@` names, given what follows it. The line numbers of unified diffs are left out, because
/// models often miscount.
fn context_line(rest: &str) -> Option<String> {
    let rest = rest.trim();
    let rest = match rest.split_once("@@") {
        Some((ranges, heading)) if is_ranges(ranges) => heading.trim(),
        Some((line, "")) => line.trim(),
        Some(_) | None if is_ranges(rest) => "",
        Some(_) | None => rest,
    };
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// Returns true for `-1,3 +1,4`.
fn is_ranges(text: &str) -> bool {
    let is_range = |word: &str, sign: char| {
        word.strip_prefix(sign).is_some_and(|range| {
            !range.is_empty() && range.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
        })
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    matches!(words.as_slice(), [old, new] if is_range(old, '-') && is_range(new, '+'))
}

/// Joins the updates of a file. Other sections of the same file contradict each other.
fn join(sections: Vec<PatchSection>) -> Result<Vec<PatchSection>, PatchSyntaxError> {
    let mut joined: Vec<PatchSection> = Vec::with_capacity(sections.len());
    for section in sections {
        let Some(known) = joined.iter_mut().find(|known| known.path == section.path) else {
            joined.push(section);
            continue;
        };
        match (&mut known.change, section.change) {
            (
                SectionChange::Update { move_to: None, hunks },
                SectionChange::Update { move_to: None, hunks: further },
            ) => hunks.extend(further),
            _ => return Err(PatchSyntaxError::SeveralSections { path: section.path }),
        }
    }
    Ok(joined)
}

fn shown(line: &str) -> String {
    crate::paths::escape(&line.chars().take(SHOWN_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes sections in a short form, one line each, so that a table can hold them.
    fn short(text: &str) -> String {
        let sections = match parse(text) {
            Ok(sections) => sections,
            Err(error) => return format!("error: {error}"),
        };
        let hunk = |hunk: &PatchHunk| {
            let lines = hunk.lines.iter().map(|line| {
                let mark = match line.mark {
                    HunkMark::Kept => "=",
                    HunkMark::Unmarked => "?",
                    HunkMark::Removed => "-",
                    HunkMark::Added => "+",
                };
                format!("{mark}{}", line.text)
            });
            let end = if hunk.ends_file { "$" } else { "" };
            format!("{:?}[{}]{end}", hunk.context, lines.collect::<Vec<_>>().join("|"))
        };
        let section = |section: &PatchSection| match &section.change {
            SectionChange::Add { content } => format!("add {} {content:?}", section.path),
            SectionChange::Delete => format!("delete {}", section.path),
            SectionChange::Update { move_to, hunks } => {
                let target = move_to.as_ref().map_or_else(String::new, |to| format!(" -> {to}"));
                let hunks: Vec<String> = hunks.iter().map(hunk).collect();
                format!("update {}{target} {}", section.path, hunks.join(" "))
            }
        };
        sections.iter().map(section).collect::<Vec<_>>().join("; ")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(short(text), expected, "{text}");
    }

    #[test]
    fn every_kind_of_section_is_read() {
        check(
            "*** Begin Patch\n*** Add File: a/b.txt\n+one\n+\n+two\n*** Update File: c.rs\n*** Move to: d.rs\n@@ impl A {\n@@ fn f() {\n x\n-y\n+z\n@@\n-p\n*** End of File\n*** Delete File: e.py\n*** End Patch\n",
            "add a/b.txt \"one\\n\\ntwo\\n\"; update c.rs -> d.rs [\"impl A {\", \"fn f() {\"][=x|-y|+z] [][-p]$; delete e.py",
        );
        check("*** Add File: empty\n", "add empty \"\"");
        check("*** Update File: a\n*** Move to: b\n", "update a -> b ");
    }

    #[test]
    fn the_first_and_last_line_and_wrappers_may_be_missing_or_added() {
        let body = "*** Update File: a\n@@\n-x\n+y";
        let expected = "update a [][-x|+y]";
        for text in [
            body.to_owned(),
            format!("*** Begin Patch\n{body}"),
            format!("{body}\n*** End Patch"),
            format!("\n\n*** begin patch\n{body}\n*** end patch\n\n"),
            format!("```diff\n*** Begin Patch\n{body}\n*** End Patch\n```"),
            format!("```\n{body}\n```\n"),
            format!("apply_patch <<'EOF'\n*** Begin Patch\n{body}\n*** End Patch\nEOF\n"),
            format!("apply_patch << \"PATCH\"\n{body}\nPATCH"),
            format!("<<EOF\n*** Begin Patch\n{body}\n*** End Patch\nEOF"),
            format!(
                "```bash\napply_patch <<'EOF'\n*** Begin Patch\n{body}\n*** End Patch\nEOF\n```"
            ),
            format!("Here is the patch:\n\n*** Begin Patch\n{body}\n*** End Patch\nDone."),
            format!("*** Begin Patch\n{body}\n*** End Patch").replace('\n', "\r\n"),
            format!("\u{feff}*** Begin Patch\n{body}\n*** End Patch"),
        ] {
            check(&text, expected);
        }
    }

    #[test]
    fn several_patches_in_one_text_are_joined() {
        check(
            "*** Begin Patch\n*** Update File: a\n-x\n*** End Patch\n*** Begin Patch\n*** Update File: a\n-y\n*** Delete File: b\n*** End Patch",
            "update a [][-x] [][-y]; delete b",
        );
    }

    #[test]
    fn empty_lines_in_a_hunk_are_unchanged_lines_and_around_it_nothing() {
        check("*** Update File: a\n@@\n\n x\n\n-y\n\n\n@@\n-z\n\n", "update a [][=x|?|-y] [][-z]");
        check("*** Update File: a\n \n-y\n ", "update a [][=|-y|=]");
    }

    #[test]
    fn lines_without_a_mark_are_kept_as_they_stand() {
        check("*** Update File: a\n@@\ndef f():\n-x\n\ty", "update a [][?def f():|-x|?\ty]");
    }

    #[test]
    fn the_line_numbers_of_a_unified_diff_are_left_out() {
        for (line, context) in [
            ("@@ -1,3 +1,4 @@", "[]"),
            ("@@ -1 +1 @@ fn main() {", "[\"fn main() {\"]"),
            ("@@ -1,3 +1,4", "[]"),
            ("@@ class A @@", "[\"class A\"]"),
            ("@@", "[]"),
            ("@@ @@", "[]"),
            ("@@ -x @@ y", "[\"-x @@ y\"]"),
        ] {
            check(&format!("*** Update File: a\n{line}\n-x"), &format!("update a {context}[-x]"));
        }
    }

    #[test]
    fn unified_diffs_are_read() {
        check(
            "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\ndiff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,1 @@\n+n\ndiff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n",
            "update x.rs [][=a|-b|+c]; add new \"n\\n\"; delete old",
        );
        check(
            "--- x\t2026-01-01\n+++ x\t2026-01-02\n@@ -1 +1 @@\n--- a\n+++ b\n--- y\n+++ y\n@@ -1 +1 @@\n-p\n+q\n",
            "update x [][--- a|+++ b]; update y [][-p|+q]",
        );
        check(
            "*** Update File: src/x.rs\n--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-p\n+q\n",
            "update src/x.rs [][-p|+q]",
        );
    }

    #[test]
    fn a_new_file_may_lack_all_marks_but_not_some() {
        check("*** Add File: a\none\n\n  two\n", "add a \"one\\n\\n  two\\n\"");
        check("*** Add File: a\n+one\n\n+two\n\n", "add a \"one\\n\\ntwo\\n\"");
        check("*** Add File: a\nindex of things\n--- x", "add a \"index of things\\n--- x\\n\"");
        check(
            "*** Begin Patch\n*** Add File: a\n+one\ntwo\n",
            "error: line 4 of the patch, `two`, has no + although it is in the section of a new file; begin each of its lines with +",
        );
    }

    #[test]
    fn marks_of_the_patch_in_the_content_are_content() {
        check(
            "*** Add File: a\n+*** Begin Patch\n+*** Delete File: b\n+*** End Patch\n",
            "add a \"*** Begin Patch\\n*** Delete File: b\\n*** End Patch\\n\"",
        );
        check(
            "*** Update File: a\n *** End Patch\n-*** Delete File: b\n+***",
            "update a [][=*** End Patch|-*** Delete File: b|+***]",
        );
    }

    #[test]
    fn paths_lose_their_quotes_and_blanks() {
        check("*** Delete File:  `a b.txt` ", "delete a b.txt");
        check("***Delete File: 'a'", "delete a");
    }

    #[test]
    fn what_has_no_single_meaning_is_an_error_with_its_line() {
        for (text, error) in [
            ("", "the patch has no section"),
            ("*** Begin Patch\n*** End Patch", "the patch has no section"),
            ("hello", "line 1 of the patch, `hello`, is in no section"),
            ("\n*** Update File:\n-x", "line 2 of the patch names no path"),
            ("*** Update File: a\n*** Move to: \n-x", "line 2 of the patch names no path"),
            ("*** Update File: a\n@@ x\n", "the section of a changes nothing"),
            ("*** Move to: b", "line 1 of the patch moves a file that is not updated"),
            ("*** Add File: a\n+x\n*** Move to: b", "line 3 of the patch moves a file"),
            ("*** Delete File: a\n+x", "line 2 of the patch, `+x`, follows *** Delete File"),
            ("*** Delete File: a\n*** Delete File: a", "a has several sections in the patch"),
            ("*** Add File: a\n*** Update File: a\n-x", "a has several sections"),
            ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-x", "line 1 of the patch renames a file"),
            (
                "diff --git a/x b/y\nrename from x\nrename to y",
                "line 2 of the patch renames a file",
            ),
            (
                "cd sub && apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF",
                "line 1, `cd sub && apply_patch <<'EOF'`, is a command",
            ),
        ] {
            let message = short(text);
            assert!(message.starts_with(&format!("error: {error}")), "{text:?}: {message}");
        }
    }

    /// A line of a file, also one that looks like a part of a patch.
    fn line() -> impl Strategy<Value = String> {
        let special = prop::sample::select(vec![
            "",
            " ",
            "+",
            "-- a",
            "@@ -1 +1 @@",
            "*** End Patch",
            "*** Update File: a",
            "```",
            "EOF",
        ]);
        prop_oneof![1 => special.prop_map(str::to_owned), 3 => "[ \t]{0,3}[-+a-z{}]{0,6}"]
    }

    proptest! {
        #[test]
        fn a_written_patch_of_a_random_edit_gives_exactly_the_new_file(
            lines in prop::collection::vec(line(), 1..20),
            start in any::<prop::sample::Index>(),
            count in 0_usize..4,
            inserted in prop::collection::vec(line(), 0..4),
            margin in 1_usize..4,
            added in prop::collection::vec(line(), 0..5),
        ) {
            // Each line is unique, so that there is only one place.
            let lines: Vec<String> =
                lines.iter().enumerate().map(|(number, line)| format!("{line} {number}")).collect();
            let start = start.index(lines.len());
            let end = (start + count).min(lines.len());
            prop_assume!(lines[start..end] != inserted);
            let mut patch = "*** Begin Patch\n*** Update File: a\n@@\n".to_owned();
            let mut write = |mark: char, lines: &[String]| {
                for line in lines {
                    patch.push(mark);
                    patch.push_str(line);
                    patch.push('\n');
                }
            };
            write(' ', &lines[start.saturating_sub(margin)..start]);
            write('-', &lines[start..end]);
            write('+', &inserted);
            write(' ', &lines[end..(end + margin).min(lines.len())]);
            patch.push_str("*** Add File: b\n");
            for line in &added {
                patch.extend(["+", line, "\n"]);
            }
            patch.push_str("*** End Patch\n");
            let text = |lines: &[String]| lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
            let new = [&lines[..start], inserted.as_slice(), &lines[end..]].concat();

            let sections = parse(&patch).unwrap();
            let [PatchSection { change: SectionChange::Update { move_to: None, hunks }, .. }, other] =
                sections.as_slice()
            else {
                panic!("{sections:?}");
            };
            prop_assert_eq!(&other.change, &SectionChange::Add { content: text(&added) });
            match crow_edit::apply_hunks(text(&lines).as_bytes(), hunks) {
                Ok(edited) => prop_assert_eq!(String::from_utf8(edited.content).unwrap(), text(&new)),
                // A text that reads like a placeholder or a number of a line is the only reason for a refusal.
                Err(error) => prop_assert!(false, "{}\n{}", error, patch),
            }
        }

        #[test]
        fn any_text_is_read_or_refused(
            lines in prop::collection::vec(
                prop_oneof![
                    Just("*** Begin Patch".to_owned()),
                    Just("*** End Patch".to_owned()),
                    Just("*** Update File: a".to_owned()),
                    Just("*** Add File: b".to_owned()),
                    Just("*** Delete File: c".to_owned()),
                    Just("*** Move to: d".to_owned()),
                    Just("*** End of File".to_owned()),
                    Just("--- a/e".to_owned()),
                    Just("+++ b/e".to_owned()),
                    Just("@@ -1 +1 @@ f".to_owned()),
                    Just("```".to_owned()),
                    "[-+ @*]{0,3}[a-z\u{e4} ]{0,4}",
                ],
                0..20,
            ),
        ) {
            let text = lines.join("\n");
            if let Ok(sections) = parse(&text) {
                prop_assert!(!sections.is_empty());
                // Every line of a hunk comes from the patch.
                for section in sections {
                    if let SectionChange::Update { hunks, .. } = section.change {
                        for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
                            prop_assert!(lines.iter().any(|sent| sent.ends_with(&line.text)));
                        }
                    }
                }
            }
        }
    }
}
