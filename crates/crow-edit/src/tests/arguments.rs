//! Checks before the search, several edits, and replacing all.

use super::*;

#[test]
fn equal_texts_are_no_change_even_with_other_line_ends() {
    assert_eq!(refused("a\n", "a", "a"), EditError::NoChange);
    assert_eq!(refused("a\nb\n", "a\nb", "a\r\nb"), EditError::NoChange);
}

#[test]
fn an_empty_old_text_creates_only_an_empty_file() {
    let applied = try_apply("", "", "a\r\nb\n").unwrap();
    assert_eq!(text(&applied), "a\r\nb\n");
    assert_eq!((applied.match_type, applied.first_changed_line), (MatchType::Create, 1));
    assert_eq!(refused("a\n", "", "b\n"), EditError::EmptyOld);
    assert_eq!(refused("\n", "", "b\n"), EditError::EmptyOld);
    assert_eq!(refused("", "", ""), EditError::NoChange);
    assert_eq!(
        apply_edits(b"a", &[edit("a", "b"), edit("", "c")]).unwrap_err().to_string(),
        format!("no edit was applied; edit 2 of 2: {}", EditError::EmptyOld)
    );
}

#[test]
fn a_file_that_holds_only_a_byte_order_mark_keeps_it() {
    let applied = apply_edits(b"\xEF\xBB\xBF", &[edit("", "a")]).unwrap();
    assert_eq!(applied.content, b"\xEF\xBB\xBFa");
    let applied = apply_edits(b"\xFF\xFE", &[edit("", "a")]).unwrap();
    assert_eq!(applied.content, b"\xFF\xFEa\0");
}

#[test]
fn no_edits_are_refused() {
    assert_eq!(apply_edits(b"a", &[]), Err(EditError::NoEdits));
}

#[test]
fn placeholders_for_left_out_code_are_refused() {
    for placeholder in [
        "// ... existing code ...",
        "# ... rest of the function ...",
        "/* ... unchanged ... */",
        "<!-- ... existing markup ... -->",
        "// rest of the code remains the same",
        "# rest of code unchanged",
        "// ... (existing code) ...",
        "// \u{2026} existing code \u{2026}",
        "... existing code ...",
        "[... rest of the file unchanged ...]",
        "(rest of methods ...)",
        "// Rest of the implementation...",
        "-- existing code here",
        "    // ... other methods",
        "{/* ... existing code ... */}",
    ] {
        let new = format!("fn a() {{\n    {placeholder}\n}}\n");
        let error = refused("fn a() {\n    x();\n}\n", "fn a() {\n    x();\n}\n", &new);
        assert!(matches!(error, EditError::OmissionPlaceholder { .. }), "{placeholder}: {error}");
    }
}

#[test]
fn a_bare_ellipsis_comment_is_refused_where_lines_vanish() {
    let error = refused("a {\n  b\n  c\n}\n", "a {\n  b\n  c\n}\n", "a {\n  // ...\n}\n");
    assert!(matches!(error, EditError::OmissionPlaceholder { .. }), "{error}");
    check(MatchType::Exact, "a\nb\n", "a\n", "a\n// ...\n", "a\n// ...\nb\n");
}

#[test]
fn lines_that_only_look_like_placeholders_are_written() {
    for line in [
        "...",
        "    ...",
        "print(\"loading existing code...\")",
        "f(...rest)",
        "[...existing, item]",
        "{ ...previous }",
        "...other,",
        "...keep,",
        "...props.existing,",
        "# existing code paths use the old interface",
        "// Loading the rest of the users, which may take a while on slow disks ...",
        "// TODO: remove the remaining calls",
        "# unchanged lines are kept as they are in the file itself",
    ] {
        let new = format!("{line}\n");
        check(MatchType::Exact, "a\nb\n", "a\n", &new, &format!("{line}\nb\n"));
    }
}

#[test]
fn a_placeholder_that_the_file_or_the_old_text_has_is_text() {
    let file = "# ... existing code ...\nx = 1\n";
    check(
        MatchType::Exact,
        file,
        "x = 1",
        "# ... existing code ...\nx = 2",
        "# ... existing code ...\n# ... existing code ...\nx = 2\n",
    );
}

#[test]
fn edits_are_all_matched_against_the_original() {
    let edits = [edit("a", "b"), edit("b", "c")];
    assert_eq!(text(&apply_edits(b"a\nb\n", &edits).unwrap()), "b\nc\n");
}

#[test]
fn one_failing_edit_refuses_all_and_is_named() {
    let error = apply_edits(b"a\nb\n", &[edit("a", "x"), edit("nope", "y")]).unwrap_err();
    assert!(matches!(&error, EditError::InEdit { number: 2, count: 2, .. }), "{error}");
}

#[test]
fn a_failing_edit_of_several_adds_nothing_to_the_lines_that_it_quotes() {
    let file = b"def f(x):\n    return x + 3\n";
    let edits = [edit("def f(x):", "def g(x):"), edit("    return x + 4", "    return x + 5")];
    insta::assert_snapshot!(apply_edits(file, &edits).unwrap_err(), @"
    no edit was applied; edit 2 of 2: old text not found; the closest place is line 2 (92 % alike): read this line again and copy it exactly
    (- old text, + file)
    -     return x + 4
    +     return x + 3
    ");
}

#[test]
fn edits_of_the_same_text_are_refused() {
    let error = apply_edits(b"abcd\n", &[edit("bc", "x"), edit("cd", "y")]).unwrap_err();
    assert_eq!(error, EditError::Overlap { first: 1, second: 2, line: 1 });
    let error = apply_edits(b"abcd\n", &[edit("bc", "x"), edit("bc", "x")]).unwrap_err();
    assert_eq!(error, EditError::Overlap { first: 1, second: 2, line: 1 });
    let error =
        apply_edits(b"ab \ncd\n", &[edit("ab\ncd\n", "x\ncd\n"), edit("ab", "y")]).unwrap_err();
    assert_eq!(error, EditError::Overlap { first: 1, second: 2, line: 1 });
}

#[test]
fn adjacent_edits_are_both_applied() {
    let edits = [edit("b\n", "B1\nB2\n"), edit("a\n", "A\n"), edit("c\n", "")];
    assert_eq!(text(&apply_edits(b"a\nb\nc\n", &edits).unwrap()), "A\nB1\nB2\n");
    let edits = [edit("cd", "CD"), edit("ab", "AB")];
    assert_eq!(text(&apply_edits(b"abcd", &edits).unwrap()), "ABCD");
}

#[test]
fn replace_all_changes_every_exact_place() {
    let applied = apply_edits(b"aaa b aa\n", &[edit_all("aa", "x")]).unwrap();
    assert_eq!(text(&applied), "xa b x\n");
    assert_eq!(applied.replacements, 2);
}

#[test]
fn replace_all_changes_every_loose_place() {
    let file = "if a:\n    x = 1\n    y = 2\n\tz()\n        x = 1\n        y = 2\n";
    let applied =
        apply_edits(file.as_bytes(), &[edit_all("x = 1\ny = 2\n", "x = 1\ny = 3\n")]).unwrap();
    assert_eq!(text(&applied), file.replace("y = 2", "y = 3"));
    assert_eq!((applied.replacements, applied.match_type), (2, MatchType::IndentationFlexible));
}

#[test]
fn replace_all_is_refused_where_a_looser_reading_knows_more_places() {
    let error =
        apply_edits(b"x = 1 \nz\n  x = 1 \n", &[edit_all("x = 1\n", "x = 2\n")]).unwrap_err();
    assert!(
        matches!(&error, EditError::Ambiguous { places, .. } if places.lines == [1, 3]),
        "{error}"
    );
}

#[test]
fn replace_all_is_refused_where_loose_places_overlap() {
    let error = apply_edits(b" a \n a \n a \n", &[edit_all("a\na\n", "b\n")]).unwrap_err();
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}

#[test]
fn line_numbers_only_in_the_new_text_are_refused() {
    let error = refused("a\nb\nc\n", "b\nc", "2\tB\n3\tc");
    assert!(matches!(error, EditError::LineNumbersInNew { .. }), "{error}");
    let error = refused("a\nb\nc\n", "2\tb\n3\tc", "2\tB\nnew\n3\tc");
    assert!(matches!(error, EditError::LineNumbersInNew { .. }), "{error}");
}
