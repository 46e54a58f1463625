//! Re-indentation of changed lines.

use super::*;

#[track_caller]
fn check_indented(file: &str, old: &str, new: &str, expected: &str) {
    let applied = try_apply(file, old, new).unwrap_or_else(|error| panic!("refused: {error}"));
    assert_eq!(text(&applied), expected);
    assert_ne!(applied.match_type, MatchType::Exact);
}

#[track_caller]
fn check_unclear(file: &str, old: &str, new: &str) {
    let error = refused(file, old, new);
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn spaces_of_the_model_become_tabs_of_the_file() {
    check_indented(
        "func f() {\n\tif a {\n\t\tx()\n\t}\n}\n",
        "    if a {\n        x()\n    }\n",
        "    if a {\n        for {\n            x()\n        }\n    }\n",
        "func f() {\n\tif a {\n\t\tfor {\n\t\t\tx()\n\t\t}\n\t}\n}\n",
    );
}

#[test]
fn tabs_of_the_model_become_spaces_of_the_file() {
    check_indented(
        "def f():\n    if a:\n        x()\n",
        "\tif a:\n\t\tx()\n",
        "\tif a:\n\t\tfor b in c:\n\t\t\tx()\n",
        "def f():\n    if a:\n        for b in c:\n            x()\n",
    );
}

#[test]
fn one_level_of_spaces_is_enough_to_learn_tabs() {
    check_indented(
        "{\n\ta()\n\tb()\n\t\tc()\n}\n",
        "    a()\n    b()\n",
        "    a()\n    if x {\n        b()\n    }\n",
        "{\n\ta()\n\tif x {\n\t\tb()\n\t}\n\t\tc()\n}\n",
    );
}

#[test]
fn two_spaces_of_the_model_become_four_of_the_file() {
    check_indented(
        "def f():\n    if a:\n        x()\n    y()\n",
        "  if a:\n    x()\n",
        "  if a:\n    if b:\n      x()\n",
        "def f():\n    if a:\n        if b:\n            x()\n    y()\n",
    );
}

#[test]
fn a_dedented_block_is_put_back_to_its_depth() {
    check_indented(
        "class A:\n    def f(self):\n        if a:\n            return 1\n        return 2\n",
        "if a:\n    return 1\nreturn 2\n",
        "if a:\n    if b:\n        return 0\n    return 1\nreturn 2\n",
        "class A:\n    def f(self):\n        if a:\n            if b:\n                return 0\n            return 1\n        return 2\n",
    );
}

#[test]
fn alignment_within_steps_is_kept() {
    check_indented(
        "    call(a,\n         b)\n    x()\n",
        "call(a,\n     b)\nx()\n",
        "call(a,\n     c,\n     b)\nx()\n",
        "    call(a,\n         c,\n         b)\n    x()\n",
    );
}

#[test]
fn a_first_line_without_its_indentation_is_understood() {
    check_indented(
        "def f():\n    a = 1\n    b = 2  \n    c = 3\n",
        "a = 1\n    b = 2\n    c = 3\n",
        "a = 1\n    b = 2\n    c = 4\n",
        "def f():\n    a = 1\n    b = 2  \n    c = 4\n",
    );
}

#[test]
fn flattened_python_is_changed_only_where_the_indentation_is_clear() {
    let file = "def f():\n    if a:\n        x()\n    y = 1\n    return y\n";
    let flat = "if a:\nx()\ny = 1\nreturn y\n";
    check_indented(file, flat, "if a:\nx()\ny = 2\nreturn y\n", &file.replace("y = 1", "y = 2"));
    check_indented(file, flat, "if a:\nx()\nreturn y\n", &file.replace("    y = 1\n", ""));
    check_unclear(file, flat, "if a:\nx()\nelse:\ny = 1\nreturn y\n");
    check_unclear(file, flat, "if a:\nx()\nz()\ny = 1\nreturn y\n");
    check_unclear(file, flat, "if a:\nz()\ny = 1\nreturn y\n");
}

#[test]
fn a_wrong_depth_in_the_old_text_is_not_spread_to_new_lines() {
    // The model believes that y() is inside the if.
    let file = "def f():\n    if a:\n        x()\n    y()\n    z()\n";
    let old = "    if a:\n        x()\n        y()\n";
    check_unclear(file, old, "    if a:\n        x()\n        y()\n        w()\n");
    check_indented(
        file,
        old,
        "    if b:\n        x()\n        y()\n",
        &file.replace("if a", "if b"),
    );
}

#[test]
fn one_line_deeper_with_only_one_line_of_evidence_needs_a_clear_step() {
    // Old 4, file 8, steps of 4 in the file, 6 in the new text: shifted 10 or rescaled 12?
    let file = "a:\n    b:\n        c()\n        d()\n";
    check_unclear(file, "    c()\n    d()  \n", "    c()\n      e()\n    d()\n");
    check_indented(
        file,
        "    c()\n    d()  \n",
        "    c()\n        e()\n    d()\n",
        "a:\n    b:\n        c()\n            e()\n        d()\n",
    );
}

#[test]
fn an_edit_that_only_changes_indentation_must_match_exactly() {
    check_unclear("    x()\n", "  x()\n", "    x()\n");
    check_unclear("        x()\n    y()\n", "    x()\n", "        x()\n");
    check_unclear("\tx()\n", "    x()\n", "        x()\n");
}

#[test]
fn wrapping_shifted_lines_in_a_block_keeps_relative_depth() {
    check_indented(
        "impl A {\n    fn f() {\n        x();\n        y();\n    }\n}\n",
        "x();\ny();\n",
        "if a {\n    x();\n    y();\n}\n",
        "impl A {\n    fn f() {\n        if a {\n            x();\n            y();\n        }\n    }\n}\n",
    );
}

#[test]
fn blank_lines_get_no_indentation() {
    check_indented(
        "{\n    a();\n    b();\n}\n",
        "a();\nb();\n",
        "a();\n\nb();\n",
        "{\n    a();\n\n    b();\n}\n",
    );
}

#[test]
fn whitespace_on_blank_lines_of_the_file_is_tolerated_and_kept() {
    check_indented("a\n    \nb\nc\n", "a\n\nb\n", "a\n\nB\n", "a\n    \nB\nc\n");
}

#[test]
fn tabs_and_spaces_mixed_in_the_file_are_not_guessed() {
    check_unclear("\ta()\n    b()\nc\n", "    a()\n    b()\nc\n", "    a()\n    b()\n    d()\nc\n");
}

#[test]
fn a_bare_first_line_tells_nothing_about_other_lines() {
    let file = "f:\n    a()  \n    b()\ng()\n";
    check_indented(
        file,
        "a()\n    b()\n",
        "a()\n    b()\nc()\n",
        "f:\n    a()  \n    b()\nc()\ng()\n",
    );
    check_indented(
        file,
        "a()\n    b()\n",
        "c()\n    a()\n    b()\n",
        "f:\n    c()\n    a()\n    b()\ng()\n",
    );
    check_unclear(file, "a()\n", "a()\nc()\n");
    check_unclear(file, "a()\n", "a()\n    c()\n");
    check_indented(file, "a()\n", "c()\n", "f:\n    c()  \n    b()\ng()\n");
}

#[test]
fn a_block_whose_lines_the_model_did_not_indent_is_refused() {
    let file = "def f():\n    a()\n    b()\n";
    check_unclear(file, "a()  \nb()\n", "if c:\na()  \nb()\n");
    check_unclear(file, "a()  \nb()\n", "a()  \nwith d:\nb()\n");
    check_indented(
        file,
        "a()  \nb()\n",
        "a()  \nc(\n)\nb()\n",
        "def f():\n    a()\n    c(\n    )\n    b()\n",
    );
}
