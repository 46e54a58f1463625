//! Random files, edits and misquotations: the result is the ideal edit or an error, never anything else.

use proptest::{prelude::*, sample::Index};

use super::{super::error::AmbiguityKind, *};

const WORDS: &[&str] = &[
    "alpha",
    "beta",
    "x",
    "return",
    "if a:",
    "}",
    "foo(\"b\")",
    "say('it')",
    "a - b",
    "n = 1",
    "n  = 2",
    "end",
    "\u{e9}t\u{e9}",
    "\u{201c}q\u{201d}",
    "it\u{2019}s",
];

/// A line: indentation, words, trailing blanks. There are few words, so that lines repeat.
fn line() -> impl Strategy<Value = String> {
    let blank = prop::sample::select(vec!["", "", "    ", "\t"]).prop_map(str::to_owned);
    prop_oneof![
        1 => blank,
        9 => (
            prop::sample::select(vec!["", "    ", "        ", "            ", "\t", "\t\t", "  "]),
            prop::collection::vec(prop::sample::select(WORDS), 1..4),
            prop::sample::select(vec!["", "", "", " ", "  "]),
        )
            .prop_map(|(indent, words, tail)| format!("{indent}{}{tail}", words.join(" "))),
    ]
}

/// A file as lines, each with its line end.
fn file() -> impl Strategy<Value = Vec<(String, &'static str)>> {
    let mixed = prop::collection::vec((line(), prop::sample::select(vec!["\n", "\r\n"])), 1..25);
    let plain = prop::collection::vec(line(), 1..25)
        .prop_map(|lines| lines.into_iter().map(|line| (line, "\n")).collect::<Vec<_>>());
    let windows = prop::collection::vec(line(), 1..25)
        .prop_map(|lines| lines.into_iter().map(|line| (line, "\r\n")).collect::<Vec<_>>());
    (prop_oneof![4 => plain, 1 => mixed, 1 => windows], any::<bool>()).prop_map(
        |(mut lines, final_end)| {
            if !final_end
                && let Some(last) = lines.last_mut()
                && !last.0.is_empty()
            {
                last.1 = "";
            }
            lines
        },
    )
}

/// A kind of misquotation by the model, applied to old and new text alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fuzz {
    Nothing,
    TrimEnds,
    AddTrailing,
    Ascii,
    Dedent,
    Indent,
    Flatten,
    TabsToSpaces,
    SpacesToTabs,
    HalveIndent,
    FirstLineBare,
    Collapse,
    Gutter,
    Escape,
    DropFinalNewline,
    Windows,
}

const FUZZES: &[Fuzz] = &[
    Fuzz::Nothing,
    Fuzz::TrimEnds,
    Fuzz::AddTrailing,
    Fuzz::Ascii,
    Fuzz::Dedent,
    Fuzz::Indent,
    Fuzz::Flatten,
    Fuzz::TabsToSpaces,
    Fuzz::SpacesToTabs,
    Fuzz::HalveIndent,
    Fuzz::FirstLineBare,
    Fuzz::Collapse,
    Fuzz::Gutter,
    Fuzz::Escape,
    Fuzz::DropFinalNewline,
    Fuzz::Windows,
];

impl Fuzz {
    /// Returns whether lines other than the first get another indentation.
    fn reindents(self) -> bool {
        use Fuzz::{Dedent, Flatten, HalveIndent, Indent, SpacesToTabs, TabsToSpaces};
        matches!(self, Dedent | Indent | Flatten | TabsToSpaces | SpacesToTabs | HalveIndent)
    }

    /// Misquotes a text of whole lines; `common` is their common indentation, `first` the number of the first line.
    fn apply(self, text: &str, common: &str, first: usize) -> String {
        let each = |change: &dyn Fn(&str) -> String| -> String {
            text.split_inclusive('\n')
                .map(|line| match line.strip_suffix('\n') {
                    Some(line) => change(line) + "\n",
                    None => change(line),
                })
                .collect()
        };
        let indented = |line: &str, change: &dyn Fn(&str) -> String| {
            let body = line.trim_start();
            change(split_indent(line).0) + body
        };
        match self {
            Self::Nothing => text.to_owned(),
            Self::TrimEnds => each(&|line| line.trim_end().to_owned()),
            Self::AddTrailing => each(&|line| format!("{line} ")),
            Self::Ascii => text.replace(['\u{201c}', '\u{201d}'], "\"").replace('\u{2019}', "'"),
            Self::Dedent => each(&|line| line.strip_prefix(common).unwrap_or(line).to_owned()),
            Self::Indent => each(&|line| {
                if line.trim().is_empty() { line.to_owned() } else { format!("    {line}") }
            }),
            Self::Flatten => each(&|line| line.trim_start().to_owned()),
            Self::TabsToSpaces => {
                each(&|line| indented(line, &|indent| indent.replace('\t', "    ")))
            }
            Self::SpacesToTabs => {
                each(&|line| indented(line, &|indent| indent.replace("    ", "\t")))
            }
            Self::HalveIndent => each(&|line| {
                indented(line, &|indent| indent.split_at(indent.len() / 2).0.to_owned())
            }),
            Self::FirstLineBare => text.trim_start_matches([' ', '\t']).to_owned(),
            Self::Collapse => each(&|line| indented(line, &str::to_owned).replace("n  =", "n =")),
            Self::Gutter => {
                let lines = text.split_inclusive('\n').enumerate();
                lines
                    .map(|(index, line)| {
                        [(first + index).to_string().as_str(), "\t", line].concat()
                    })
                    .collect()
            }
            Self::Escape => text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\'', "\\'")
                .replace('\t', "\\t"),
            Self::DropFinalNewline => text.strip_suffix('\n').unwrap_or(text).to_owned(),
            Self::Windows => text.replace('\n', "\r\n"),
        }
    }
}

/// The change that the model intends, within a block of lines.
#[derive(Debug, Clone)]
enum Intent {
    Replace(Index, String),
    Insert(Index, String),
    Delete(Index),
    Swap(Index),
    AppendWord(Index),
}

impl Intent {
    fn body(&self) -> &str {
        match self {
            Self::Replace(_, body) | Self::Insert(_, body) => body,
            Self::Delete(_) | Self::Swap(_) | Self::AppendWord(_) => "",
        }
    }
}

fn intent() -> impl Strategy<Value = Intent> {
    prop_oneof![
        (any::<Index>(), fresh()).prop_map(|(at, line)| Intent::Replace(at, line)),
        (any::<Index>(), fresh()).prop_map(|(at, line)| Intent::Insert(at, line)),
        any::<Index>().prop_map(Intent::Delete),
        any::<Index>().prop_map(Intent::Swap),
        any::<Index>().prop_map(Intent::AppendWord),
    ]
}

/// A body that no misquotation changes: text that the model writes anew is not repaired.
fn fresh() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("fresh(1)".to_owned()),
        Just("fresh \"two\"".to_owned()),
        prop::sample::select(vec!["alpha", "return", "if a:", "}", "say('it')", "a - b"])
            .prop_map(str::to_owned),
    ]
}

/// Applies an intent to lines as they are written in the file.
fn carry_out(intent: &Intent, lines: &[(String, &'static str)]) -> Vec<(String, &'static str)> {
    let mut lines = lines.to_vec();
    let lead = |line: &str| split_indent(line).0.to_owned();
    // A line that replaces a blank one is indented as the nearest line above, or else below.
    let usual = |lines: &[(String, &'static str)], at: usize| {
        let (above, below) = lines.split_at(at);
        let mut filled =
            above.iter().rev().chain(below).filter(|(line, _)| !line.trim().is_empty());
        filled.next().map_or_else(String::new, |(line, _)| lead(line))
    };
    match intent {
        Intent::Replace(at, body) => {
            let at = at.index(lines.len());
            let usual = usual(&lines, at);
            let line = &mut lines[at].0;
            let tail = line.split_at(line.trim_end().len()).1.to_owned();
            *line = if line.trim().is_empty() {
                format!("{usual}{body}")
            } else {
                format!("{}{body}{tail}", lead(line))
            };
        }
        Intent::Insert(at, body) => {
            let at = at.index(lines.len());
            let (above, end) = lines[at].clone();
            let level = if above.trim().is_empty() { usual(&lines, at) } else { lead(&above) };
            let end = if end.is_empty() { "\n" } else { end };
            lines.insert(at, (format!("{level}{body}"), end));
        }
        Intent::Delete(at) => {
            lines.remove(at.index(lines.len()));
        }
        Intent::Swap(at) => {
            let at = at.index(lines.len());
            if at + 1 < lines.len() {
                let (one, two) = (lines[at].0.clone(), lines[at + 1].0.clone());
                (lines[at].0, lines[at + 1].0) = (two, one);
            }
        }
        Intent::AppendWord(at) => {
            let at = at.index(lines.len());
            let line = &mut lines[at].0;
            if !line.trim().is_empty() {
                let kept = line.trim_end().len();
                line.insert_str(kept, " more");
            }
        }
    }
    lines
}

fn joined(lines: &[(String, &'static str)]) -> String {
    lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect()
}

/// Returns the text as the model sees it.
fn seen(lines: &[(String, &'static str)]) -> String {
    joined(lines).replace("\r\n", "\n")
}

fn split_indent(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start().len())
}

fn common_indent(lines: &[(String, &'static str)]) -> String {
    let filled =
        || lines.iter().map(|(line, _)| line.as_str()).filter(|line| !line.trim().is_empty());
    let mut common = filled().next().map_or("", |line| split_indent(line).0);
    while !filled().all(|line| line.starts_with(common)) {
        common = common.split_at(common.len() - 1).0;
    }
    common.to_owned()
}

/// Returns the lines without differences that no edit tool can be responsible for: blanks at line ends, in blank
/// lines and at the end of the file, and the line end of a new line in a mixed file.
fn essence(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Returns whether `result` keeps the bytes before and after the edited block.
fn keeps_surroundings(result: &str, before: &str, after: &str) -> bool {
    result.starts_with(before)
        && result.ends_with(after)
        && result.len() >= before.len() + after.len()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        max_global_rejects: 10_000_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_unique_exact_match_is_replaced_as_bytes(
        // After indentation an exact match may be refused, so the text before does not end with a blank.
        before in "([ab \n]{0,11}[ab\n])?", old in "[a-c][ab\n ]{0,6}[a-c]", after in "[ab \n]{0,12}", new in "[a-d \n\u{e9}]{0,8}",
    ) {
        let file = format!("{before}{old}{after}");
        prop_assume!(old != new && super::super::search::find_overlapping(&file, &old).len() == 1);
        match try_apply(&file, &old, &new) {
            Ok(applied) => {
                prop_assert_eq!(text(&applied), file.replacen(&old, &new, 1));
                prop_assert_eq!(applied.match_type, MatchType::Exact);
            }
            // A match within a line, while whole lines elsewhere fit inexactly.
            Err(EditError::Ambiguous { likeness: AmbiguityKind::Mixed, .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn replacing_all_exact_matches_is_replacing_bytes(
        file in "[ab\n]{1,30}", old in "[ab]{1,2}", new in "[abc\n]{0,3}",
    ) {
        prop_assume!(old != new && file.contains(&old));
        let expected = file.replace(&old, &new);
        match apply_edits(file.as_bytes(), &[edit_all(&old, &new)]) {
            Ok(applied) => prop_assert_eq!(text(&applied), expected),
            Err(error) => prop_assert!(error == EditError::AlreadyApplied && file == expected),
        }
    }

    #[test]
    fn a_misquoted_edit_is_ideal_or_refused(
        lines in file(), start in any::<Index>(), count in 1_usize..8, intent in intent(),
        fuzz in prop::sample::select(FUZZES), second in prop::sample::select(FUZZES),
    ) {
        // Escapes in the new text alone are literal.
        prop_assume!(![fuzz, second].contains(&Fuzz::Escape) || !intent.body().contains(['"', '\'']));
        let start = start.index(lines.len());
        let stop = (start + count).min(lines.len());
        let block = &lines[start..stop];
        let changed = carry_out(&intent, block);
        // Only the first line of the old text may lose its indentation, not another line of the new text.
        let level = |lines: &[(String, &str)]| {
            let filled = lines.first().filter(|(line, _)| !line.trim().is_empty());
            filled.map(|(line, _)| split_indent(line).0.to_owned())
        };
        prop_assume!(![fuzz, second].contains(&Fuzz::FirstLineBare) || !(fuzz.reindents() || second.reindents()));
        prop_assume!(![fuzz, second].contains(&Fuzz::FirstLineBare) || (level(block).is_some() && level(block) == level(&changed)));
        // Deleting a line but not its line end leaves a blank line, as requested.
        prop_assume!(![fuzz, second].contains(&Fuzz::DropFinalNewline) || !changed.is_empty());
        let (common, first) = (common_indent(block), start + 1);
        let quote = |lines: &[(String, &'static str)]| second.apply(&fuzz.apply(&seen(lines), &common, first), &common, first);
        let (old, new) = (quote(block), quote(&changed));
        let file = joined(&lines);
        // A misquotation that equals other lines of the file quotes those.
        let quoted = old.replace("\r\n", "\n");
        // Blank lines among other blank lines are ambiguous.
        prop_assume!(!quoted.trim().is_empty() && !seen(block).trim().is_empty());
        let is_exact = format!("\n{}", seen(&lines)).contains(&format!("\n{quoted}"));
        prop_assume!(!is_exact || (quoted == seen(block) && new.replace("\r\n", "\n") == seen(&changed)));
        let once = fuzz.apply(&seen(block), &common, first).replace("\r\n", "\n");
        prop_assume!(once == seen(block) || !format!("\n{}", seen(&lines)).contains(&format!("\n{once}")));
        if let Ok(applied) = try_apply(&file, &old, &new) {
            let (before, after) = (joined(&lines[..start]), joined(&lines[stop..]));
            let ideal = format!("{before}{}{after}", joined(&changed));
            let result = text(&applied);
            prop_assert!(keeps_surroundings(result, &before, &after), "{fuzz:?} {second:?} {:?}\n{file:?}\n{old:?}\n{new:?}\n{result:?}", applied.match_type);
            prop_assert_eq!(essence(result), essence(&ideal), "{:?} {:?} {:?}\n{:?}\n{:?}\n{:?}", fuzz, second, applied.match_type, file, old, new);
        }
    }

    #[test]
    fn the_order_of_edits_does_not_matter(
        lines in file(), fuzz in prop::sample::select(FUZZES), picks in prop::collection::vec((any::<Index>(), intent()), 2..4),
    ) {
        let edits: Vec<TextEdit> = picks.iter().map(|(at, intent)| {
            let at = at.index(lines.len());
            let block = &lines[at..=at];
            let (common, first) = (common_indent(block), at + 1);
            let quote = |lines: &[(String, &'static str)]| fuzz.apply(&seen(lines), &common, first);
            edit(&quote(block), &quote(&carry_out(intent, block)))
        }).collect();
        let reversed: Vec<TextEdit> = edits.iter().rev().cloned().collect();
        let file = joined(&lines);
        match (apply_edits(file.as_bytes(), &edits), apply_edits(file.as_bytes(), &reversed)) {
            (Ok(one), Ok(other)) => prop_assert_eq!(one, other),
            (one, other) => prop_assert!(one.is_err() && other.is_err()),
        }
    }

    #[test]
    fn any_bytes_and_edits_are_handled_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), old in "\\PC{0,4}", new in "\\PC{0,4}") {
        drop(apply_edits(&bytes, &[edit(&old, &new)]));
        drop(apply_edits(&bytes, &[edit_all(&old, &new)]));
    }

    #[test]
    fn bytes_of_unknown_encoding_keep_their_surroundings(
        before in prop::collection::vec(1_u8.., 0..20), after in prop::collection::vec(1_u8.., 0..20),
    ) {
        prop_assume!(!before.starts_with(b"\xFF\xFE") && !before.starts_with(b"\xFE\xFF"));
        let file = [&before[..], b"\nthe needle line\n", &after[..]].concat();
        if let Ok(applied) = apply_edits(&file, &[edit("the needle line", "the changed line")]) {
            prop_assert_eq!(applied.content, [&before[..], b"\nthe changed line\n", &after[..]].concat());
        }
    }
}
