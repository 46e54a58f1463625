//! Every level of the ladder, and that a stricter level is preferred.

use super::*;

#[test]
fn an_exact_text_is_replaced_within_a_line() {
    check(
        MatchType::Exact,
        "let a = 1;\nlet b = 2;\n",
        "b = 2",
        "b = 3",
        "let a = 1;\nlet b = 3;\n",
    );
}

#[test]
fn an_exact_text_may_span_lines_and_end_within_one() {
    check(MatchType::Exact, "one\ntwo\nthree\n", "ne\ntw", "X", "oXo\nthree\n");
}

#[test]
fn an_exact_deletion_takes_the_line_with_its_end() {
    check(MatchType::Exact, "a\nb\nc\n", "b\n", "", "a\nc\n");
}

#[test]
fn a_final_newline_that_the_file_lacks_is_forgiven() {
    check(MatchType::TrimmedBoundary, "a\nb", "b\n", "c\n", "a\nc");
    check(MatchType::TrimmedBoundary, "a\nb", "a\nb\n", "a\nc\nd\n", "a\nc\nd");
    check(MatchType::TrimmedBoundary, "a\nb", "b\n", "", "a\n");
}

#[test]
fn trailing_blanks_are_ignored_and_kept_where_nothing_changes() {
    check(
        MatchType::LineTrimmed,
        "def f():  \n    a = 1\t\n    return a\n",
        "def f():\n    a = 1\n    return a\n",
        "def f():\n    a = 1\n    b = 2\n    return b\n",
        "def f():  \n    a = 1\t\n    b = 2\n    return b\n",
    );
}

#[test]
fn trailing_blanks_of_a_replaced_line_stay() {
    check(MatchType::LineTrimmed, "x  \ny\n", "x\ny", "z\ny", "z  \ny\n");
}

#[test]
fn trailing_blanks_that_only_the_model_wrote_are_not_written() {
    check(MatchType::LineTrimmed, "a\nb\nc\n", "a  \nb\n", "a  \nB\n", "a\nB\nc\n");
}

#[test]
fn a_last_line_of_blanks_matches_an_empty_line_of_the_file() {
    check(MatchType::LineTrimmed, "a\n\nb\n", "a\n  ", "c\n  ", "c\n\nb\n");
    check(MatchType::LineTrimmed, "a\n\nb\n", "a\n  ", "c", "c\nb\n");
}

#[test]
fn typographic_quotes_and_dashes_match_ascii_and_stay() {
    check(
        MatchType::UnicodeNormalized,
        "say(\u{201c}hi\u{201d}) \u{2014} ok\nnext\n",
        "say(\"hi\") - ok\nnext\n",
        "say(\"hi\") - ok\nlast\n",
        "say(\u{201c}hi\u{201d}) \u{2014} ok\nlast\n",
    );
}

#[test]
fn typographic_quotes_stay_in_a_changed_line() {
    check(
        MatchType::UnicodeNormalized,
        "He said \u{201c}hello\u{201d} twice.\n",
        "He said \"hello\" twice.",
        "He said \"hello\" once.",
        "He said \u{201c}hello\u{201d} once.\n",
    );
}

#[test]
fn typographic_quotes_are_found_within_a_line() {
    check(
        MatchType::UnicodeNormalized,
        "It\u{2019}s here; it\u{2019}s not there.\n",
        "it's not there",
        "it's everywhere",
        "It\u{2019}s here; it\u{2019}s everywhere.\n",
    );
}

#[test]
fn a_no_break_space_matches_a_space_and_stays() {
    check(
        MatchType::UnicodeNormalized,
        "10\u{a0}km far\n",
        "10 km far",
        "10 km near",
        "10\u{a0}km near\n",
    );
}

#[test]
fn a_uniform_indent_shift_is_carried_over() {
    check(
        MatchType::IndentationFlexible,
        "class A:\n    def f(self):\n        return 1\n",
        "def f(self):\n    return 1\n",
        "def f(self):\n    x = 1\n    return x\n",
        "class A:\n    def f(self):\n        x = 1\n        return x\n",
    );
}

#[test]
fn an_indent_shift_to_the_left_is_carried_over() {
    check(
        MatchType::IndentationFlexible,
        "def f():\n    return 1\n",
        "    def f():\n        return 1\n",
        "    def f():\n        x = 1\n        return x\n",
        "def f():\n    x = 1\n    return x\n",
    );
}

#[test]
fn lines_with_uneven_indentation_keep_it_where_nothing_changes() {
    check(
        MatchType::LineTrimmed,
        "if a:\n    x()\n        # odd\n    y()\nz()\n",
        "if a:\n    x()\n    # odd\n    y()\nz()\n",
        "if a:\n    x()\n    # odd\n    y()\nw()\n",
        "if a:\n    x()\n        # odd\n    y()\nw()\n",
    );
}

#[test]
fn inner_blank_runs_match_and_stay() {
    check(
        MatchType::WhitespaceNormalized,
        "a   = 1  # one\nbcd = 2  # two\n",
        "a = 1 # one\nbcd = 2 # two\n",
        "a = 1 # one\nbcd = 3 # two\n",
        "a   = 1  # one\nbcd = 3  # two\n",
    );
}

#[test]
fn some_blanks_never_match_no_blanks() {
    assert!(matches!(refused("f(a,b)\n", "f(a, b)", "g(a, b)"), EditError::NotFound(_)));
}

#[test]
fn blanks_never_match_across_lines() {
    assert!(matches!(refused("foo(a,\n    b)\n", "foo(a, b)", "foo(c)"), EditError::NotFound(_)));
}

#[test]
fn line_numbers_of_read_file_are_stripped_from_both_texts() {
    check(MatchType::LineNumbersStripped, "a\nb\nc\n", "2\tb\n3\tc\n", "2\tB\n3\tc\n", "a\nB\nc\n");
    check(MatchType::LineNumbersStripped, "a\n  b\nc\n", "   2\t  b", "  bb", "a\n  bb\nc\n");
}

#[test]
fn line_numbers_that_do_not_count_up_are_text() {
    assert!(matches!(refused("a\nb\n", "7\ta\n3\tb\n", "7\ta\n"), EditError::NotFound(_)));
}

#[test]
fn numbers_that_are_in_the_file_are_kept() {
    check(MatchType::Exact, "1\tfoo\n2\tbar\n", "2\tbar", "2\tbaz", "1\tfoo\n2\tbaz\n");
}

#[test]
fn escapes_are_resolved_in_old_and_new() {
    check(
        MatchType::EscapeNormalized,
        "print(\"hello\")\n",
        "print(\\\"hello\\\")",
        "print(\\\"bye\\\")",
        "print(\"bye\")\n",
    );
    check(MatchType::EscapeNormalized, "a\n\tb\nc\n", "a\\n\\tb", "a\\n\\tB", "a\n\tB\nc\n");
}

#[test]
fn blank_lines_around_both_texts_are_ignored() {
    check(MatchType::TrimmedBoundary, "a\nb\nc\n", "\n\nb\n\n", "\n\nB\n\n", "a\nB\nc\n");
}

const BLOCK: &str = "fn total(items: &[Item]) -> u64 {\n    let mut sum = 0;\n    for item in items {\n        sum += item.price;\n    }\n    sum\n} // total\n";

#[test]
fn a_block_with_similar_lines_is_found_by_its_ends() {
    check(
        MatchType::BlockAnchor,
        BLOCK,
        "fn total(items: &[Item]) -> u64 {\n    let mut sum = 0;\n    for item in items.iter() {\n        sum += item.price;\n    }\n    sum\n} // total\n",
        "fn total(items: &[Item]) -> u64 {\n    let mut sum = 0;\n    for item in items.iter() {\n        sum += item.price * 2;\n    }\n    sum\n} // total\n",
        &BLOCK.replace("item.price;", "item.price * 2;"),
    );
}

#[test]
fn a_block_with_half_its_lines_equal_is_found_by_its_ends() {
    check(
        MatchType::ContextAware,
        BLOCK,
        "fn total(items: &[Item]) -> u64 {\n    // the amount\n    while let Some(i) = next() {\n        sum += item.price;\n    }\n    sum\n} // total\n",
        "fn total(items: &[Item]) -> u64 {\n    // the amount\n    while let Some(i) = next() {\n        sum += item.price;\n    }\n    sum * 2\n} // total\n",
        &BLOCK.replace("    sum\n", "    sum * 2\n"),
    );
}

#[test]
fn a_stricter_level_wins() {
    check(MatchType::Exact, "x = 1\n    x = 1 \n", "    x = 1 ", "y", "x = 1\ny\n");
    check(MatchType::Exact, "\tx = 1\nx = 1\n", "\tx = 1\n", "\ty = 1\n", "\ty = 1\nx = 1\n");
}

#[test]
fn the_loosest_level_of_all_edits_is_reported() {
    let edits = [edit("a\n", "A\n"), edit("c\nd\n", "c\nD\n")];
    let applied = apply_edits(b"a\nb\nc  \nd\n", &edits).unwrap();
    assert_eq!(applied.match_type, MatchType::LineTrimmed);
    assert_eq!(applied.replacements, 2);
    assert_eq!(text(&applied), "A\nb\nc  \nD\n");
}

#[test]
fn the_first_changed_line_is_counted_in_the_new_text() {
    assert_eq!(try_apply("a\nb\nc\n", "a\nb\nc", "a\nb\nx").unwrap().first_changed_line, 3);
    assert_eq!(try_apply("a\nb\nc\n", "c\n", "").unwrap().first_changed_line, 2);
    assert_eq!(try_apply("a\n", "a\n", "").unwrap().first_changed_line, 1);
    let two = apply_edits(b"a\nb\nc\n", &[edit("c", "C"), edit("b", "B")]).unwrap();
    assert_eq!(two.first_changed_line, 2);
}

#[test]
fn an_inexact_match_shows_the_lines_around_the_change() {
    let applied =
        try_apply("1\n2\n3\n4\n  five\n  6\n7\n8\n9\n", "five\n6\n", "FIVE\n6\n").unwrap();
    assert_eq!(applied.notes.len(), 1);
    assert_eq!(applied.notes[0].excerpt, "2\t2\n3\t3\n4\t4\n5\t  FIVE\n6\t  6\n7\t7\n8\t8\n9\t9\n");
}

#[test]
fn names_are_those_of_the_result() {
    let names: Vec<&str> = [
        MatchType::Exact,
        MatchType::LineTrimmed,
        MatchType::UnicodeNormalized,
        MatchType::IndentationFlexible,
        MatchType::WhitespaceNormalized,
        MatchType::EscapeNormalized,
        MatchType::TrimmedBoundary,
        MatchType::LineNumbersStripped,
        MatchType::BlockAnchor,
        MatchType::ContextAware,
        MatchType::Create,
    ]
    .into_iter()
    .map(MatchType::as_str)
    .collect();
    assert_eq!(
        names.join(" "),
        "exact line_trimmed unicode_normalized indentation_flexible whitespace_normalized escape_normalized trimmed_boundary line_numbers_stripped block_anchor context_aware create"
    );
}
