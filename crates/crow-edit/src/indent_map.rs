//! Maps indentation from the old text to the file, learned from the lines that were matched.
//!
//! The pairs of (old, file) indentation are the evidence. An indentation that occurs among them is looked up; any
//! other is extended by a common shift and by a common rescaling of steps, and is only accepted where the two agree
//! or one is ruled out.
//!
//! Invariant: a mapping is returned only if the matched lines allow exactly one answer; otherwise `None`.

use std::collections::BTreeSet;

use super::file_text::FileText;

/// The mapping from the indentation of the old text to that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndentMap {
    /// The file's indentation of the first line, if the old text has none there. Models often begin to quote at the
    /// first word, so such a line is no evidence for other lines.
    bare: Option<String>,
    /// Every pair of (old, file) indentation among the matched lines.
    pairs: BTreeSet<(String, String)>,
    /// The indentation step of the model's text, in characters of one kind.
    model_unit: Option<IndentUnit>,
    /// The indentation step of the file.
    file_unit: Option<IndentUnit>,
}

/// One step of indentation: a count of one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndentUnit {
    char: char,
    count: usize,
}

impl IndentMap {
    /// Learns from matched lines as (old, file) pairs, of which the first may be bare, and from the indentation of
    /// all lines that the model wrote.
    pub(crate) fn learn<'a>(
        bare: Option<&str>,
        matched: impl Iterator<Item = (&'a str, &'a str)>,
        written: impl Iterator<Item = &'a str> + Clone,
        file_unit: Option<IndentUnit>,
    ) -> Self {
        let pairs: BTreeSet<(String, String)> =
            matched.map(|(old, file)| (old.to_owned(), file.to_owned())).collect();
        let mut map = Self { bare: None, pairs, model_unit: written_unit(written), file_unit };
        // A bare first line that the other pairs explain needs no entry.
        if let Some(bare) = bare
            && (map.pairs.is_empty() || map.to_file("").as_deref() != Some(bare))
        {
            map.bare = Some(bare.to_owned());
        }
        map
    }

    /// Returns true if a line right after a bare first one is indented as if that one were not indented at all.
    pub(crate) fn is_flattened(&self, indent: &str) -> bool {
        self.bare.as_ref().is_some_and(|bare| !indent.starts_with(bare.as_str()))
    }

    /// Returns true if old text and file are indented alike.
    pub(crate) fn is_identity(&self) -> bool {
        self.bare.is_none() && self.pairs.iter().all(|(old, file)| old == file)
    }

    /// Maps like [`Self::to_file`], for the first line of a text.
    pub(crate) fn first_to_file(&self, indent: &str) -> Option<String> {
        match &self.bare {
            Some(bare) if indent.is_empty() => Some(bare.clone()),
            _ => self.to_file(indent),
        }
    }

    /// Returns the indentation in the file for a line that the model indents by `indent`; `None` if it is unclear.
    pub(crate) fn to_file(&self, indent: &str) -> Option<String> {
        let is_identity = self.pairs.iter().all(|(old, file)| old == file);
        if self.bare.is_some() && indent.is_empty() {
            // It may mean no indentation, or that of the bare line: clear only if other lines are proven exact.
            let is_margin_open = self.pairs.iter().all(|(old, _)| !old.is_empty());
            let is_clear = is_identity && is_margin_open && !self.pairs.is_empty();
            return is_clear.then(String::new);
        }
        if is_identity {
            let is_known = self.bare.is_none() || !self.pairs.is_empty();
            return is_known.then(|| indent.to_owned());
        }
        // An indentation among the pairs is looked up; two different answers are none.
        let mut known = self.pairs.iter().filter(|(old, _)| old == indent).map(|(_, file)| file);
        match (known.next(), known.next()) {
            (Some(_), Some(_)) => None,
            (Some(only), None) => Some(only.clone()),
            (None, _) => self.extended(indent),
        }
    }

    /// Extends the pattern of the pairs to an indentation that none of them has.
    fn extended(&self, indent: &str) -> Option<String> {
        let plain = |text: &str| text.bytes().all(|byte| byte == b' ' || byte == b'\t');
        if !plain(indent) || !self.pairs.iter().all(|(old, file)| plain(old) && plain(file)) {
            return None;
        }
        // A shift and a rescaling that disagree leave the answer open.
        match (self.shifted(indent), self.rescaled(indent)) {
            (Some(shifted), Some(rescaled)) => (shifted == rescaled).then_some(shifted),
            (Some(shifted), None) => self.is_sure_shift(indent).then_some(shifted),
            (None, rescaled) => rescaled,
        }
    }

    /// Maps by a shift: the same characters added to, or removed from, the front of every line.
    fn shifted(&self, indent: &str) -> Option<String> {
        let (old, file) = self.pairs.first()?;
        let result = if let Some(added) = file.strip_suffix(old.as_str()) {
            let all =
                self.pairs.iter().all(|(old, file)| file.strip_suffix(old.as_str()) == Some(added));
            (all && self.is_whole_steps(added)).then(|| format!("{added}{indent}"))
        } else {
            let removed = old.strip_suffix(file.as_str())?;
            let all = self
                .pairs
                .iter()
                .all(|(old, file)| old.strip_suffix(file.as_str()) == Some(removed));
            if all && self.is_whole_steps(removed) {
                indent.strip_prefix(removed).map(str::to_owned)
            } else {
                None
            }
        };
        result.filter(|result| self.file_unit.is_none_or(|unit| unit.is_made_of(result)))
    }

    fn is_whole_steps(&self, blanks: &str) -> bool {
        self.file_unit.is_none_or(|unit| unit.levels(blanks).is_some())
    }

    /// Returns whether a shift is certain. By itself it does not show whether the model's steps are as wide as the
    /// file's.
    fn is_sure_shift(&self, indent: &str) -> bool {
        let (Some(model), Some(file)) = (self.model_unit, self.file_unit) else { return true };
        model == file
            || !matches!(model.count, 2..=4 | 8)
            || self.pairs.iter().any(|(old, _)| file.levels(&longer_part(old, indent)).is_some())
    }

    /// Maps by steps: the same number of steps, each as wide as in the file.
    fn rescaled(&self, indent: &str) -> Option<String> {
        let (model, file) = (self.model_unit?, self.file_unit?);
        let mut offsets = BTreeSet::new();
        for (old, in_file) in &self.pairs {
            offsets.insert(file.levels(in_file)?.checked_sub(model.levels(old)?)?);
        }
        // All pairs must agree on one difference of levels.
        let (Some(offset), true) = (offsets.first(), offsets.len() == 1) else { return None };
        // One pair with an offset does not prove the step, unless it begins at the margin with another character.
        let from_margin =
            model.char != file.char && self.pairs.iter().all(|(old, _)| old.is_empty());
        if *offset != 0 && model != file && self.pairs.len() < 2 && !from_margin {
            return None;
        }
        let levels = usize::try_from(model.levels(indent)?.checked_add(*offset)?).ok()?;
        Some(std::iter::repeat_n(file.char, levels * file.count).collect())
    }
}

impl IndentUnit {
    fn is_made_of(self, blanks: &str) -> bool {
        blanks.chars().all(|char| char == self.char)
    }

    /// Returns the number of steps that the blanks are, if they are whole steps.
    fn levels(self, blanks: &str) -> Option<isize> {
        let whole = self.is_made_of(blanks) && blanks.len().is_multiple_of(self.count);
        if whole { isize::try_from(blanks.len() / self.count).ok() } else { None }
    }
}

/// Returns the part of the longer indentation that the shorter one lacks.
fn longer_part(one: &str, other: &str) -> String {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).unwrap_or(long).to_owned()
}

/// Returns the widest step of which every indentation is a multiple.
fn written_unit<'a>(indents: impl Iterator<Item = &'a str> + Clone) -> Option<IndentUnit> {
    let mut filled = indents.filter(|indent| !indent.is_empty());
    let char = filled.clone().next()?.chars().next()?;
    if !filled.clone().all(|indent| indent.chars().all(|other| other == char)) {
        return None;
    }
    if char == '\t' {
        return Some(IndentUnit { char, count: 1 });
    }
    let first = filled.next()?.len();
    Some(IndentUnit { char, count: filled.map(str::len).fold(first, greatest_common_divisor) })
}

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// Returns the most frequent difference between neighbouring lines of the file.
pub(crate) fn file_unit(document: &FileText<'_>) -> Option<IndentUnit> {
    let mut tabs = 0_usize;
    let mut spaces = [0_usize; 9];
    let mut above = "";
    for line in document.line_texts().filter(|line| !line.trim().is_empty()) {
        let indent = &line[..line.len() - line.trim_start().len()];
        // A step is the difference of two neighbouring indentations of which one extends the other.
        let step = if above.len() < indent.len() {
            indent.strip_prefix(above)
        } else {
            above.strip_prefix(indent)
        };
        let step = step.unwrap_or_default();
        if step == "\t" {
            tabs += 1;
        } else if step.len() > 1
            && step.bytes().all(|byte| byte == b' ')
            && let Some(count) = spaces.get_mut(step.len())
        {
            *count += 1;
        }
        above = indent;
    }
    let (width, most) = spaces.iter().enumerate().rev().max_by_key(|(_, count)| **count)?;
    match (tabs, *most) {
        (0, 0) => None,
        (tabs, spaces) if tabs > spaces => Some(IndentUnit { char: '\t', count: 1 }),
        _ => Some(IndentUnit { char: ' ', count: width }),
    }
}
