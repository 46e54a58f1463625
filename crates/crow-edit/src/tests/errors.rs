//! Errors for the model. Each is true, names the place and says what to do.

use super::*;

#[test]
fn an_ambiguous_text_lists_its_lines() {
    let error = refused("a\nb\na\n", "a", "c");
    insta::assert_snapshot!(error, @"the old text fits 2 places (lines 1, 3); add neighbouring lines that are in only one of them, or set replace_all to change every one");
}

#[test]
fn an_inexact_ambiguity_does_not_claim_exactness() {
    let error = refused("  x = 1\n\tx = 1\n", "    x = 1\n", "    x = 2\n");
    insta::assert_snapshot!(error, @"the old text fits 2 places (lines 1, 2), none of them exactly; add neighbouring lines that are in only one of them, copied exactly from the file");
}

#[test]
fn many_places_are_not_all_listed() {
    let error = refused(&"a\n".repeat(500), "a", "c");
    insta::assert_snapshot!(error, @"the old text fits at least 50 places (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...); add neighbouring lines that are in only one of them, or set replace_all to change every one");
}

#[test]
fn ambiguity_never_falls_through_to_a_looser_level() {
    let file = "def a():\n    x = 1 \n    return x\n\ndef b():\n    x = 1  \n    return x\n";
    assert!(matches!(
        refused(file, "    x = 1\n    return x\n", "    x = 2\n    return x\n"),
        EditError::Ambiguous { .. }
    ));
    assert!(matches!(refused("aaa\n", "aa", "b"), EditError::Ambiguous { .. }));
}

#[test]
fn a_uniform_shift_is_ambiguous_when_another_place_fits_trimmed() {
    let file = "    a()\n    b()\n--\n  a()\n      b()\n";
    assert!(matches!(refused(file, "a()\nb()\n", "a()\nc()\n"), EditError::Ambiguous { .. }));
}

#[test]
fn a_missing_text_shows_the_closest_place() {
    let file =
        "fn one() {\n    alpha();\n    beta();\n}\n\nfn two() {\n    gamma();\n    delta(3);\n}\n";
    let error =
        refused(file, "fn two() {\n    gamma();\n    delta(4);\n    end();\n}\n", "fn two() {}\n");
    insta::assert_snapshot!(error, @"
    old text not found; the closest place is lines 6-9 (79 % alike): read these lines again and copy them exactly
    (- old text, + file)
    -     delta(4);
    -     end();
    +     delta(3);
    ");
}

#[test]
fn a_missing_line_is_found_by_its_words() {
    let error =
        refused("a\nlet connection_timeout = 30;\nb\n", "let connection_timeout = Some(30);", "x");
    insta::assert_snapshot!(error, @"
    old text not found; the closest place is line 2 (82 % alike): read this line again and copy it exactly
    (- old text, + file)
    - let connection_timeout = Some(30);
    + let connection_timeout = 30;
    ");
}

#[test]
fn invisible_differences_are_made_visible() {
    let error = refused("let na\u{200b}me = 1;\n", "let name = 1;", "let name = 2;");
    insta::assert_snapshot!(error, @r"
    old text not found; the closest place is line 1 (93 % alike): read this line again and copy it exactly
    (- old text, + file)
    - let name = 1;
    + let na\u{200b}me = 1;
    ");
}

#[test]
fn a_text_unlike_anything_says_so() {
    let error = refused("alpha\nbeta\n", "something else entirely", "x");
    insta::assert_snapshot!(error, @"old text not found; nothing in the file is close to it: read the file again and copy the text exactly");
}

#[test]
fn new_text_that_is_already_there_is_reported() {
    let error = refused("a\nlet total = 2;\nb\n", "let total = 1 + 0;", "let total = 2;");
    insta::assert_snapshot!(error, @"
    old text not found; the new text is already present at line 2, so this edit may be done already; the closest place is line 2 (73 % alike): read this line again and copy it exactly
    (- old text, + file)
    - let total = 1 + 0;
    + let total = 2;
    ");
}

#[test]
fn a_placeholder_in_the_old_text_is_named() {
    let error = refused(
        "fn a() {\n    x();\n    y();\n    z();\n}\n",
        "fn a() {\n    // ... existing code ...\n}\n",
        "fn a() {}\n",
    );
    assert!(
        error
            .to_string()
            .contains("placeholder `    // ... existing code ...`, but old text must be complete"),
        "{error}"
    );
}

#[test]
fn a_conflict_shows_both_lines() {
    let file = "begin block one\n    alpha = 1\n    beta = 2\n    gamma = 3\n    delta = 4\nend block one\n";
    let error = refused(
        file,
        &file.replace("beta = 2", "beta = 9"),
        &file.replace("beta = 2", "beta = 10"),
    );
    insta::assert_snapshot!(error, @"
    line 3 of the file is not what the edit wants to change:
      file:         beta = 2
      old text:     beta = 9
    read the file again and copy the line exactly
    ");
}

#[test]
fn unclear_indentation_says_what_to_copy() {
    let error = refused("if a:\n    x()\nb()\n", "if a:\nx()\nb()\n", "if a:\nx()\ny()\nb()\n");
    insta::assert_snapshot!(error, @"the old text fits only inexactly near line 3, and the indentation for the new lines cannot be told, because the old text is not indented as the file; the file reads `b()`: copy the old text exactly from the file");
}

#[test]
fn a_final_newline_on_one_side_only_is_refused_when_inexact() {
    assert_eq!(refused("\ta\n\tb\n", "  a\n", "  c"), EditError::FinalNewline);
}

#[test]
fn errors_of_a_single_edit_carry_no_number() {
    assert!(!refused("a", "b", "c").to_string().starts_with("edit"));
}

#[test]
fn a_change_that_is_already_there_is_no_success() {
    let error = refused("a = 1\nb  = 2\n", "a  = 1\nb = 2\n", "a = 1\nb = 2\n");
    assert!(matches!(error, EditError::NeedsExact { .. } | EditError::AlreadyApplied), "{error}");
}

#[test]
fn an_inexact_match_is_ambiguous_when_a_looser_reading_knows_another_place() {
    let error = refused("\tx = 1\n x = 1  \n", " x = 1\n", " y = 1\n");
    assert!(
        matches!(&error, EditError::Ambiguous { places, .. } if places.lines == [1, 2]),
        "{error}"
    );
}

#[test]
fn a_line_at_the_end_of_the_file_is_no_better_than_one_that_fits_inexactly() {
    let error = refused("x = 1\ny\nx = 1 ", "x = 1 \n", "x = 2 \n");
    assert!(
        matches!(&error, EditError::Ambiguous { places, .. } if places.lines == [1, 3]),
        "{error}"
    );
}
