//! Hunks of a patch: the place that each of them means, and what is written there.

use std::fmt::Write as _;

use proptest::{prelude::*, sample::Index};

use super::super::{
    EditedFile, HunkLine, HunkMark, MatchType, PatchHunk, apply_hunks, error::EditError,
};

/// Reads a hunk in short form: lines with `@` are context, `$` alone is the end of the file, the others have the marks
/// of a patch. A line with `?` has lost its mark.
fn hunk(text: &str) -> PatchHunk {
    let mut hunk = PatchHunk::default();
    for line in text.lines() {
        let (sign, rest) = line.split_at(line.len().min(1));
        let mark = match sign {
            "@" => {
                hunk.context.push(rest.to_owned());
                continue;
            }
            "$" => {
                hunk.ends_file = true;
                continue;
            }
            "-" => HunkMark::Removed,
            "+" => HunkMark::Added,
            "?" => HunkMark::Unmarked,
            _ => HunkMark::Kept,
        };
        hunk.lines.push(HunkLine { mark, text: rest.to_owned() });
    }
    hunk
}

fn apply(file: &str, hunks: &[&str]) -> Result<EditedFile, EditError> {
    let hunks: Vec<PatchHunk> = hunks.iter().map(|text| hunk(text)).collect();
    apply_hunks(file.as_bytes(), &hunks)
}

#[track_caller]
fn check(match_type: MatchType, file: &str, hunks: &[&str], expected: &str) {
    let edited = apply(file, hunks).unwrap_or_else(|error| panic!("refused: {error}"));
    assert_eq!(String::from_utf8(edited.content).unwrap(), expected);
    assert_eq!(edited.match_type, match_type);
}

#[track_caller]
fn refused(file: &str, hunks: &[&str]) -> String {
    match apply(file, hunks) {
        Ok(edited) => panic!("applied:\n{}", String::from_utf8_lossy(&edited.content)),
        Err(error) => error.to_string(),
    }
}

const CLASSES: &str = "\
class A:
    def run(self):
        return 1

    def stop(self):
        return 1


class B:
    def run(self):
        return 1
";

#[test]
fn lines_are_removed_added_and_kept() {
    check(MatchType::Exact, "a\nb\nc\n", &[" a\n-b\n+x\n+y\n c"], "a\nx\ny\nc\n");
    check(MatchType::Exact, "a\nb\nc\n", &["-a\n b"], "b\nc\n");
    check(MatchType::Exact, "a\nb\nc\n", &[" b\n+x"], "a\nb\nx\nc\n");
    check(MatchType::Exact, "a\nb\nc\n", &["+x\n b"], "a\nx\nb\nc\n");
    check(MatchType::Exact, "a\n", &["-a"], "");
}

#[test]
fn several_hunks_may_share_unchanged_lines() {
    check(MatchType::Exact, "a\nb\nc\nd\n", &["-a\n+x\n b\n c", " b\n c\n-d\n+y"], "x\nb\nc\ny\n");
    check(MatchType::Exact, "a\nb\nc\n", &[" a\n+x", " b\n+y", " c\n+z"], "a\nx\nb\ny\nc\nz\n");
}

#[test]
fn hunks_out_of_order_apply_if_each_fits_one_place() {
    check(MatchType::Exact, "a\nb\nc\n", &["-c\n+z", "-a\n+x"], "x\nb\nz\n");
}

#[test]
fn hunks_that_change_the_same_line_are_refused() {
    let error = refused("a\nb\n", &["-a\n+x", "-a\n+y"]);
    assert!(error.contains("change the same text"), "{error}");
}

#[test]
fn equal_places_are_told_apart_by_the_lines_after_the_at_signs() {
    let changed = "-        return 1\n+        return 2";
    let expected = CLASSES.replace(
        "class B:\n    def run(self):\n        return 1",
        "class B:\n    def run(self):\n        return 2",
    );
    check(MatchType::Exact, CLASSES, &[&format!("@class B:\n{changed}")], &expected);
    check(MatchType::Exact, CLASSES, &[&format!("@class B\n@def run\n{changed}")], &expected);
    let expected =
        CLASSES.replace("def stop(self):\n        return 1", "def stop(self):\n        return 2");
    check(MatchType::Exact, CLASSES, &[&format!("@    def stop(self):\n{changed}")], &expected);
    // The head is repeated as the first unchanged line.
    let repeated = format!("@def stop(self):\n     def stop(self):\n{changed}");
    check(MatchType::Exact, CLASSES, &[&repeated], &expected);
}

#[test]
fn equal_places_that_nothing_tells_apart_are_refused() {
    let changed = "-        return 1\n+        return 2";
    for context in ["", "@class A:\n", "@def run(self):\n", "@class B:\n@def stop(self):\n"] {
        let error = refused(CLASSES, &[&format!("{context}{changed}")]);
        assert!(error.contains("fit 3 places (lines 3, 6, 11)"), "{context}: {error}");
    }
}

#[test]
fn a_place_outside_of_the_named_block_is_refused() {
    let file = "def a():\n    x = 1\n\ndef b():\n    y = 1\n";
    let error = refused(file, &["@def a():\n-    y = 1\n+    y = 2"]);
    assert!(error.contains("fits only at line 5"), "{error}");
    let error = refused(file, &["@def b():\n-    x = 1\n+    x = 2"]);
    assert!(error.contains("fits only at line 2"), "{error}");
    let error = refused(file, &["@def c():\n-    x = 1\n+    x = 2"]);
    assert!(error.contains("`def c():` after @@ is not in the file"), "{error}");
}

#[test]
fn an_exact_place_in_another_block_is_not_taken_for_the_inexact_one() {
    let file = "class A:\n    x = 1\n\nclass B:\n    x = 1  \n";
    let edited = apply(file, &["@class B:\n-    x = 1\n+    x = 2"]).unwrap();
    let text = String::from_utf8(edited.content).unwrap();
    assert!(text.starts_with("class A:\n    x = 1\n"), "{text}");
    assert!(text.contains("class B:\n    x = 2"), "{text}");
}

#[test]
fn heads_over_several_lines_and_braces_have_a_block() {
    let file =
        "fn a(\n    n: u8,\n) -> u8\nwhere\n    u8: Copy,\n{\n    n\n}\n\nfn b() {\n    n\n}\n";
    let expected = file.replacen("    n\n}", "    m\n}", 1);
    check(MatchType::Exact, file, &["@fn a(\n-    n\n+    m"], &expected);
    let expected = file.replace("fn b() {\n    n\n}\n", "fn b() {\n    n\n}\n\nfn c() {}\n");
    check(MatchType::Exact, file, &["@fn b() {\n }\n+\n+fn c() {}"], &expected);
}

#[test]
fn a_context_without_a_block_only_has_to_be_above() {
    check(MatchType::Exact, "use a;\nuse b;\nuse c;\n", &["@use a;\n-use c;"], "use a;\nuse b;\n");
    let error = refused("use a;\nuse b;\nuse c;\n", &["@use c;\n-use a;"]);
    assert!(error.contains("fits only at line 1"), "{error}");
}

#[test]
fn the_end_of_the_file_and_the_order_tell_equal_places_apart() {
    check(MatchType::Exact, "x\na\nx\n", &["-x\n+y\n$"], "x\na\ny\n");
    check(MatchType::Exact, "x\na\nx\n", &["-a\n+b", "-x\n+y"], "x\nb\ny\n");
    let error = refused("x\na\nx\nb\nx\n", &["-a\n+c", "-x\n+y"]);
    assert!(error.starts_with("hunk 2 of 2: the lines of the hunk fit 3 places"), "{error}");
}

#[test]
fn new_lines_alone_are_appended_only_where_the_hunk_ends_the_file() {
    check(MatchType::Exact, "a\nb\n", &["+c\n$"], "a\nb\nc\n");
    check(MatchType::Exact, "a\nb", &["+c\n$"], "a\nb\nc");
    check(MatchType::Exact, "a\nb\n", &["-b\n+x", "+c\n$"], "a\nx\nc\n");
    check(MatchType::Create, "", &["+c"], "c\n");
    assert!(refused("a\n", &["+c"]).contains("its place is unknown"));
    assert!(refused("a\n", &["@a\n+c"]).contains("its place is unknown"));
}

#[test]
fn a_file_keeps_its_line_ends_and_its_missing_last_one() {
    check(MatchType::Exact, "a\r\nb\r\n", &[" a\n-b\n+x\n+y"], "a\r\nx\r\ny\r\n");
    check(MatchType::Exact, "a\nb", &[" a\n-b\n+x"], "a\nx");
    check(MatchType::Exact, "a\nb", &[" b\n+c"], "a\nb\nc");
    check(MatchType::Exact, "a\nb", &["+c\n b"], "a\nc\nb");
}

#[test]
fn a_part_of_a_line_is_no_place() {
    let error = refused("let value = compute(1);\n", &["-value = compute(1);\n+value = 2;"]);
    assert!(error.contains("old text not found"), "{error}");
}

#[test]
fn tolerated_differences_keep_the_bytes_of_unchanged_lines() {
    let file = "if a:\n\tcall(\u{201c}x\u{201d})  \n\tdone()\n";
    let edited = apply(file, &["     call(\"x\")\n-    done()\n+    finish()"]).unwrap();
    assert_eq!(
        String::from_utf8(edited.content).unwrap(),
        "if a:\n\tcall(\u{201c}x\u{201d})  \n\tfinish()\n"
    );
    assert_ne!(edited.match_type, MatchType::Exact);
    assert_eq!(edited.notes.len(), 1);
}

#[test]
fn unchanged_lines_without_their_mark_are_read_as_they_stand() {
    let file = "def f():\n    x = 1\n    return x\n";
    let expected = "def f():\n    x = 1\n    y = 2\n    return x\n";
    // The mark is missing everywhere, and the indentation of the second line must not be taken for one.
    check(MatchType::Exact, file, &["?def f():\n    x = 1\n+    y = 2\n    return x"], expected);
    check(MatchType::Exact, file, &["    x = 1\n+    y = 2"], expected);
}

#[test]
fn a_place_that_fits_with_marks_is_a_rival_of_one_that_fits_without() {
    let error = refused("x = 1  \n\nif a:\n x = 1\n", &[" x = 1\n+y = 2"]);
    assert!(error.contains("fit 2 places (lines 1, 4)"), "{error}");
}

#[test]
fn a_hunk_that_does_not_fit_shows_the_closest_place() {
    let error = refused("one two three\nfour\n", &["-four\n+5", "-one two tree\n+1"]);
    assert_eq!(
        error,
        "hunk 2 of 2: old text not found; the closest place is line 1 (92 % alike): read this line again and copy it exactly\n(- old text, + file)\n- one two tree\n+ one two three"
    );
}

#[test]
fn hunks_without_changes_are_skipped_unless_all_are() {
    check(MatchType::Exact, "a\nb\n", &[" a", "-b\n+c"], "a\nc\n");
    assert!(refused("a\nb\n", &[" a"]).contains("nothing would change"));
    assert!(refused("a\nb\n", &["-a\n+a"]).contains("nothing would change"));
}

#[test]
fn a_placeholder_for_omitted_lines_is_refused() {
    let error = refused("a\nb\nc\n", &["-a\n-b\n+# ... rest of the code ..."]);
    assert!(error.contains("placeholder"), "{error}");
}

#[test]
fn a_file_of_equal_lines_is_handled_quickly() {
    let file = "x\n".repeat(50_000);
    let error = refused(&file, &["@x\n-x\n+y"]);
    assert!(error.contains("fit 50000 places"), "{error}");
}

/// One step of an edit script.
#[derive(Debug, Clone)]
enum Step {
    Keep,
    Remove,
    Insert(String),
    Replace(String),
}

fn line() -> impl Strategy<Value = String> {
    let words =
        prop::sample::select(vec!["a", "b", "if x {", "}", "", "return", "# c", "- d", "+ e"]);
    let indent = prop::sample::select(vec!["", "  ", "    ", "\t"]);
    (indent, words).prop_map(|(indent, word)| format!("{indent}{word}"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Keep),
        1 => Just(Step::Remove),
        1 => line().prop_map(Step::Insert),
        1 => line().prop_map(Step::Replace),
    ]
}

/// Writes the hunks of an edit script with `margin` unchanged lines around each change, and the new lines.
fn script(old: &[String], steps: &[Step], margin: usize) -> (Vec<PatchHunk>, Vec<String>) {
    let kept = |text: &String| HunkLine { mark: HunkMark::Kept, text: text.clone() };
    let removed = |text: &String| HunkLine { mark: HunkMark::Removed, text: text.clone() };
    let added = |text: &String| HunkLine { mark: HunkMark::Added, text: text.clone() };
    let (mut lines, mut new) = (Vec::new(), Vec::new());
    for (text, step) in old.iter().zip(steps) {
        match step {
            Step::Keep => lines.push(kept(text)),
            Step::Remove => lines.push(removed(text)),
            Step::Insert(line) => lines.extend([added(line), kept(text)]),
            Step::Replace(line) => lines.extend([removed(text), added(line)]),
        }
    }
    new.extend(
        lines.iter().filter(|line| line.mark != HunkMark::Removed).map(|line| line.text.clone()),
    );
    // Changes closer than two margins are one hunk.
    let changes: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].mark != HunkMark::Kept).collect();
    let mut hunks: Vec<PatchHunk> = Vec::new();
    let mut index = 0;
    while let Some(first) = changes.get(index) {
        let mut last = *first;
        while let Some(next) = changes.get(index + 1).filter(|next| **next <= last + 2 * margin + 1)
        {
            last = *next;
            index += 1;
        }
        index += 1;
        let (start, end) = (first.saturating_sub(margin), (last + margin + 1).min(lines.len()));
        hunks.push(PatchHunk {
            lines: lines[start..end].to_vec(),
            ends_file: end == lines.len(),
            ..PatchHunk::default()
        });
    }
    (hunks, new)
}

fn text_of(lines: &[String], end: &str) -> String {
    lines.iter().flat_map(|line| [line, end]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_of_different_lines_gives_exactly_the_new_file(
        count in 1_usize..30,
        steps in prop::collection::vec(step(), 30),
        margin in 0_usize..4,
        crlf in any::<bool>(),
    ) {
        let old: Vec<String> = (0..count).map(|number| format!("{}line {number}", " ".repeat(number % 5))).collect();
        let steps = &steps[..count];
        let (mut hunks, new) = script(&old, steps, margin);
        // Without unchanged lines, an insertion has no place.
        hunks.retain(|hunk| hunk.lines.iter().any(|line| line.mark != HunkMark::Added));
        prop_assume!(margin > 0 || !steps.iter().any(|step| matches!(step, Step::Insert(_))));
        let end = if crlf { "\r\n" } else { "\n" };
        let file = text_of(&old, end);
        match apply_hunks(file.as_bytes(), &hunks) {
            Ok(edited) => prop_assert_eq!(String::from_utf8(edited.content).unwrap(), text_of(&new, end)),
            Err(EditError::NoEdits | EditError::NoChange) => prop_assert_eq!(old, new),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn a_patch_of_repeated_lines_gives_the_new_file_or_is_refused(
        old in prop::collection::vec(line(), 1..25),
        steps in prop::collection::vec(step(), 25),
        margin in 1_usize..4,
    ) {
        let (hunks, new) = script(&old, &steps[..old.len()], margin);
        if let Ok(edited) = apply_hunks(text_of(&old, "\n").as_bytes(), &hunks) {
            prop_assert_eq!(String::from_utf8(edited.content).unwrap(), text_of(&new, "\n"));
        }
    }

    #[test]
    fn the_named_method_of_the_named_class_is_changed(
        classes in 2_usize..6,
        methods in 1_usize..4,
        class in any::<Index>(),
        method in any::<Index>(),
    ) {
        let (class, method) = (class.index(classes), method.index(methods));
        let source = |changed: bool| {
            let mut text = String::new();
            for index in 0..classes {
                let _ = writeln!(text, "class C{index}:");
                for inner in 0..methods {
                    let value = if changed && (index, inner) == (class, method) { 2 } else { 1 };
                    let _ = writeln!(text, "    def m{inner}(self):\n        return {value}\n");
                }
            }
            text
        };
        let hunk = format!("@class C{class}\n@    def m{method}(self):\n-        return 1\n+        return 2");
        let edited = apply(&source(false), &[&hunk]).unwrap();
        prop_assert_eq!(String::from_utf8(edited.content).unwrap(), source(true));
    }
}
