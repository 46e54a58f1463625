//! Inputs that made other editors write wrong text.

use super::*;

#[test]
fn a_loose_match_never_eats_the_next_lines_indentation() {
    check(
        MatchType::LineTrimmed,
        "def f():\n    a()  \n    b()\n",
        "    a()\n",
        "    c()\n",
        "def f():\n    c()  \n    b()\n",
    );
    assert_eq!(
        refused("def f():\n    a()  \n    b()\n", "    a()\n", "    c()"),
        EditError::FinalNewline
    );
}

#[test]
fn untouched_lines_are_not_rewritten_in_normalised_form() {
    let file = "\u{201c}one\u{201d}\u{a0}\n\u{2018}two\u{2019}\t\nthree  \nfour\n";
    check(
        MatchType::UnicodeNormalized,
        file,
        "\"one\"\n'two'\nthree\nfour\n",
        "\"one\"\n'two'\nthree\nFOUR\n",
        &file.replace("four", "FOUR"),
    );
}

#[test]
fn a_block_with_another_number_of_lines_is_never_matched() {
    let file = "fn process_all() {\n    one();\n    two();\n    three();\n}\n\nfn other_thing() {\n    four();\n}\n";
    let error =
        refused(file, "fn process_all() {\n    one();\n    three();\n}\n", "fn process_all() {}\n");
    assert!(matches!(error, EditError::NotFound(_)), "{error}");
}

#[test]
fn a_block_between_weak_ends_is_never_matched() {
    let error = refused(
        "{\n    alpha = 1;\n    beta = 2;\n}\n",
        "{\n    alpha = 1;\n    beta = 3;\n}\n",
        "{\n}\n",
    );
    assert!(matches!(error, EditError::NotFound(_)), "{error}");
}

#[test]
fn the_copy_of_a_moved_block_is_not_edited_in_its_place() {
    // The block of a() got another line, so only its near copy in b() has the right number of lines.
    let file = "try start:\n    open(file_a)\n    log()\n    work(x)\n    close(file_a)\nfinish block\n\ntry start:\n    open(file_b)\n    work(x)\n    close(file_b)\nfinish block\n";
    let old = "try start:\n    open(file_a)\n    work(x)\n    close(file_a)\nfinish block\n";
    let error = refused(file, old, &old.replace("work(x)", "work(y)"));
    assert!(matches!(error, EditError::NotFound(_)), "{error}");
}

#[test]
fn two_similar_blocks_are_ambiguous() {
    let block = "begin section\n    alpha = 1\n    beta = 2\n    gamma = 3\nend section\n";
    let file = format!("{block}\n{}", block.replace("beta = 2", "beta = 3"));
    let error =
        refused(&file, &block.replace("beta = 2", "beta = 4"), "begin section\nend section\n");
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}

#[test]
fn a_line_that_the_model_made_up_is_not_deleted() {
    let file = "begin section\n    alpha = 1\n    beta = 2\n    gamma = 3\nend section\n";
    let old = file.replace("beta = 2", "beta = 5");
    let error = refused(file, &old, &old.replace("    beta = 5\n", ""));
    assert!(matches!(error, EditError::Conflict { line: 3, .. }), "{error}");
}

#[test]
fn a_line_that_the_model_made_up_is_not_copied() {
    let file = "begin section\n    alpha = 1\n    beta = 2\n    gamma = 3\nend section\n";
    let old = file.replace("beta = 2", "beta = 5");
    let error = refused(file, &old, &old.replace("end section\n", "    beta = 5\nend section\n"));
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn lines_are_not_put_between_lines_the_model_made_up() {
    let file = "begin section\n    alpha = 1\n    beta = 2\n    gamma = 3\n    delta = 4\n    eps = 5\nend section\n";
    let old = file.replace("beta = 2", "beta = 5").replace("gamma = 3", "gamma = 7");
    let error = refused(file, &old, &old.replace("    gamma", "    new = 1\n    gamma"));
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn newlines_in_strings_are_not_unescaped_into_line_breaks() {
    let file = "print(\"a\")\n";
    for new in ["print(\\\"a\\n\\\")", "print(\\\"a\\\\n\\\")", "print(\"a\\n\")"] {
        assert_eq!(refused(file, "print(\\\"a\\\")", new), EditError::MixedEscapes, "{new}");
    }
    let file = "print('x')\nfoo()\n";
    assert_eq!(
        refused(file, "print('x')\\nfoo()", "print('x\\n')\\nfoo()"),
        EditError::MixedEscapes
    );
}

#[test]
fn quotes_that_need_their_escape_are_not_unescaped() {
    let file = "x = \"a\"\n";
    assert_eq!(refused(file, "x = \\\"a\\\"", "x = \"a \\\"b\\\"\""), EditError::MixedEscapes);
}

#[test]
fn real_escapes_match_exactly() {
    check(MatchType::Exact, "print(\"a\\n\")\n", "\"a\\n\"", "\"b\\n\"", "print(\"b\\n\")\n");
}

#[test]
fn a_moved_line_keeps_its_typographic_quotes() {
    check(
        MatchType::UnicodeNormalized,
        "\u{201c}a\u{201d}\nb\nc\n",
        "\"a\"\nb\nc\n",
        "b\nc\n\"a\"\n",
        "b\nc\n\u{201c}a\u{201d}\n",
    );
}

#[test]
fn deleting_one_of_two_lines_that_the_file_writes_differently_is_refused() {
    let error = refused("  x()\n    x()\ny()\n", "x()\nx()\ny()\n", "x()\ny()\n");
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
    let error = refused("\u{201c}a\u{201d}\n\"a\"\nb\n", "\"a\"\n\"a\"\nb\n", "\"a\"\nb\n");
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn an_edit_about_quotes_must_match_exactly() {
    let error = refused("say(\u{201c}a\u{201d})\n", "say('a')\n", "say(\"a\")\n");
    assert!(matches!(error, EditError::NotFound(_)), "{error}");
    let error = refused("say(\"a\")\n", "say(\u{201c}a\u{201d})\n", "say(\"a\")\n");
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn blank_lines_on_one_side_only_are_refused() {
    assert_eq!(refused("a\nb\nc\n", "\n\nb\n", "B\n"), EditError::BlankLines);
    assert_eq!(refused("a\nb\nc\n", "\n\nb\n", "\n\n\nB\n"), EditError::BlankLines);
}

#[test]
fn an_old_text_of_blanks_only_matches_exactly_or_not_at_all() {
    check(MatchType::Exact, "a\n\n\nb\n", "\n\n\n", "\n", "a\nb\n");
    assert!(matches!(refused("a\nb\n", "  \n", "c\n"), EditError::NotFound(_)));
    assert!(matches!(refused("a\n \nb\n \t\n", "  \n\n", "c\n"), EditError::NotFound(_)));
}

#[test]
fn signs_alone_are_not_matched_loosely() {
    assert!(matches!(refused("a {\n\t}\n", "  }\n", "  };\n"), EditError::NotFound(_)));
}

#[test]
fn a_line_of_the_old_text_is_not_matched_within_a_longer_line() {
    assert!(matches!(
        refused("    let maximum = 10;\n", "  let maximum = 1\n", "  let maximum = 2\n"),
        EditError::NotFound(_)
    ));
    assert!(matches!(refused("foobar\nx\n", "foo\n", "bar\n"), EditError::NotFound(_)));
    assert!(matches!(refused("xfoo\ny\n", "3\tfoo\n", "3\tbar\n"), EditError::NotFound(_)));
}

#[test]
fn new_text_is_never_read_as_a_pattern() {
    check(MatchType::Exact, "a b c\n", "b", "$0 $1 \\1 & %s", "a $0 $1 \\1 & %s c\n");
    check(MatchType::Exact, "a.*b\naxxb\n", "a.*b", "c", "c\naxxb\n");
}

#[test]
fn a_text_at_the_very_start_or_end_is_replaced() {
    check(MatchType::Exact, "abc", "abc", "x", "x");
    check(MatchType::Exact, "abc", "a", "", "bc");
    check(MatchType::Exact, "abc\n", "\n", "", "abc");
}

#[test]
fn deleting_everything_leaves_an_empty_file() {
    check(MatchType::Exact, "a\nb\n", "a\nb\n", "", "");
    assert_eq!(try_apply("a\n", "a\n", "").unwrap().first_changed_line, 1);
}

#[test]
fn exact_text_without_its_line_break_joins_lines_as_asked_and_says_so() {
    let applied = try_apply("a\nb\nc\n", "a\n", "a ").unwrap();
    assert_eq!((text(&applied), applied.match_type), ("a b\nc\n", MatchType::Exact));
    assert_eq!(applied.notes[0].cause, NoteCause::JoinedLines);
    assert_eq!(applied.notes[0].excerpt, "1\ta b\n2\tc\n");
}

#[test]
fn makefile_tabs_survive() {
    check(
        MatchType::LineTrimmed,
        "all: a b\n\tcc -o a\n\tcc -o b\n",
        "all: a b\n    cc -o a\n    cc -o b\n",
        "all: a b\n    cc -O2 -o a\n    cc -o b\n",
        "all: a b\n\tcc -O2 -o a\n\tcc -o b\n",
    );
}

#[test]
fn two_paragraphs_with_the_same_words_are_ambiguous_when_folded() {
    let error = refused("it\u{2019}s\nx\nit\u{2018}s\n", "it's", "it is");
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}

#[test]
fn an_old_text_with_too_little_indentation_is_no_exact_match() {
    // Found exactly within the indentation, but the second new line would be shifted.
    check(
        MatchType::IndentationFlexible,
        "f:\n    x()\nz()\n",
        "  x()\n",
        "  x()\n  y()\n",
        "f:\n    x()\n    y()\nz()\n",
    );
    let error = refused("f:\n    x()\nz()\n", "  x()\n", "    x()\n");
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
    let error = refused("f:\n    x(1)\nz()\n", "  x(", "  y()\n  x(");
    assert!(matches!(error, EditError::HalfIndented { .. }), "{error}");
    check(MatchType::Exact, "f:\n    x(1)\nz()\n", "  x(", "  y(", "f:\n    y(1)\nz()\n");
    check(
        MatchType::Exact,
        "f:\n    x()\n    z()\n",
        "  x()\n    z()\n",
        "  w()\n    z()\n",
        "f:\n    w()\n    z()\n",
    );
    check(
        MatchType::LineTrimmed,
        "    x()\nz()\n\n",
        "  x()\nz()\n\n",
        "  x()\nz()\n  y()\n",
        "    x()\nz()\n    y()\n",
    );
}

#[test]
fn deleting_a_line_quoted_without_its_indentation_leaves_none_behind() {
    check(MatchType::IndentationFlexible, "f:\n    x()\n    y()\n", "x()\n", "", "f:\n    y()\n");
    check(MatchType::Exact, "f:\n    x()\n    y()\n", "x()\n    ", "", "f:\n    y()\n");
}

#[test]
fn new_lines_without_the_indentation_that_the_old_text_left_away_are_refused() {
    let file = "f:\n    x()\nz()\n";
    check(MatchType::IndentationFlexible, file, "x()", "y()\nx()", "f:\n    y()\n    x()\nz()\n");
    for new in ["x()\ny()", "y()\nx(1)", "if a:\n    x()", "if a {\n    x()\n}", "    y()"] {
        let error = refused(file, "x()", new);
        assert!(matches!(error, EditError::HalfIndented { line: 2, .. }), "{new}: {error}");
    }
    check(MatchType::Exact, file, "x()", "x()\n    y()", "f:\n    x()\n    y()\nz()\n");
    check(MatchType::Exact, file, "x()", "if a:\n        x()", "f:\n    if a:\n        x()\nz()\n");
    check(MatchType::Exact, file, "x()", "    x()", "f:\n        x()\nz()\n");
    let error = refused(file, "x()\nz()", "y()\nw()");
    assert!(matches!(error, EditError::HalfIndented { .. }), "{error}");
    check(MatchType::Exact, file, "x()\nz()", "y()\nz()\nw()", "f:\n    y()\nz()\nw()\n");
    check(MatchType::Exact, file, "f:\n", "f:\ny()\n", "f:\ny()\n    x()\nz()\n");
}

#[test]
fn a_line_rewritten_from_scratch_does_not_inherit_typographic_quotes() {
    let error = refused(
        "// it\u{2019}s (\u{201c}fine\u{201d})\nx\n",
        "// it's (\"fine\")\nx\n",
        "print(\"y\")\nx\n",
    );
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
}

#[test]
fn a_line_that_moves_up_to_the_first_one_keeps_its_own_indentation() {
    check(MatchType::LineTrimmed, "    a()\nb()\n", "a()\nb()", "b()", "b()\n");
    check(MatchType::LineTrimmed, "    a()\n    b()\n", "a()\n    b()", "    b()", "    b()\n");
    let error = refused("    a()\na()\n", "a()\na()", "a()");
    assert!(matches!(error, EditError::NeedsExact { .. }), "{error}");
    let error = refused("    a()\n    b() + 1\n", "a()\n    b()", "    b()");
    assert!(matches!(error, EditError::HalfIndented { .. }), "{error}");
}

#[test]
fn new_text_is_not_put_behind_a_line_that_the_model_took_for_a_blank_one() {
    let error = refused("a  \nb\n", "  \n", "x\n");
    assert!(matches!(error, EditError::WithinLine { line: 1, .. }), "{error}");
    let error = refused("a\nb\n", "\nb\n", "x\nb\n");
    assert!(matches!(error, EditError::WithinLine { line: 1, .. }), "{error}");
    check(MatchType::Exact, "a\nb\nc\n", "\nb", "", "a\nc\n");
    check(MatchType::Exact, "a\nb\nc\n", "\nb", " b", "a b\nc\n");
    check(MatchType::Exact, "a\nb\nc\n", "\nb\n", "\nB\n", "a\nB\nc\n");
}

#[test]
fn an_exact_match_within_a_line_is_ambiguous_when_a_whole_line_fits_inexactly() {
    let error = refused("n = 1\nalpha n = 1 \n", "n = 1 \n", "n = 2 \n");
    assert!(
        matches!(&error, EditError::Ambiguous { places, .. } if places.lines == [1, 2]),
        "{error}"
    );
    let error = refused("\t\tend()\n    end()\n", "\tend()", "\tfin()");
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}

#[test]
fn escapes_that_only_the_old_text_has_are_not_written_into_a_similar_block() {
    let file = "begin section\n    a: Vec<u8> = one();\n    b: Vec<u8> = two();\nend section\n";
    let old = file.replace('<', "&lt;").replace('>', "&gt;");
    let error = refused(
        file,
        &old,
        &old.replace("end section", "    c: Vec&lt;u8&gt; = three();\nend section"),
    );
    assert!(matches!(error, EditError::NotFound(_)), "{error}");
}

#[test]
fn the_end_of_the_file_does_not_win_over_lines_that_overlap_it() {
    let error = refused("\nn = 2 \nn = 2", "\nn = 2\n", "\nfresh\nn = 2\n");
    assert!(matches!(error, EditError::Ambiguous { .. }), "{error}");
}
