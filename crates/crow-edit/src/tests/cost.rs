//! Large inputs stay linear.

use std::time::{Duration, Instant};

use super::*;

/// Debug builds run about ten times slower than release builds.
const BUDGET: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4000 } else { 500 });

#[track_caller]
fn within_budget<Result>(work: impl FnOnce() -> Result) -> Result {
    let start = Instant::now();
    let result = work();
    assert!(start.elapsed() < BUDGET, "took {:?}", start.elapsed());
    result
}

#[test]
fn identical_lines_and_a_long_old_text_are_ambiguous_quickly() {
    let file = "    return value;\n".repeat(50_000);
    let old = "    return value;\n".repeat(200);
    let error = within_budget(|| refused(&file, &old, "x\n"));
    assert!(matches!(error, EditError::Ambiguous { .. }));
    let loose = "return value;\n".repeat(200);
    let error = within_budget(|| refused(&file, &loose, "x\n"));
    assert!(matches!(error, EditError::Ambiguous { .. }));
}

#[test]
fn identical_lines_and_one_line_too_many_are_missed_quickly() {
    let file = "    return value;\n".repeat(50_000);
    let old = format!("{}    return values;\n", "return value;\n".repeat(199));
    let error = within_budget(|| refused(&file, &old, "x\n"));
    assert!(matches!(error, EditError::NotFound(_)));
    let old = format!("return values;\n{}", "return value;\n".repeat(199));
    let error = within_budget(|| refused(&file, &old, "x\n"));
    assert!(matches!(error, EditError::NotFound(_)));
}

#[test]
fn many_blocks_with_equal_ends_are_given_up_quickly() {
    let block = "begin section\n    alpha beta gamma delta = 1\n    x\nend section\n";
    let old = block.replace("= 1", "= 2");
    let error = within_budget(|| refused(&block.repeat(12_500), &old, "x\n"));
    assert!(matches!(error, EditError::NotFound(_)));
}

#[test]
fn a_shifted_block_in_a_large_file_is_found_quickly() {
    let lines: Vec<String> =
        (0..50_000).map(|index| format!("    let value_{index} = compute({index});\n")).collect();
    let file: String = lines.concat();
    let old: String = lines[30_000..30_200].iter().map(|line| line.trim_start()).collect();
    let new = old.replace("value_30100", "renamed");
    let applied = within_budget(|| try_apply(&file, &old, &new)).unwrap();
    assert_eq!(text(&applied), file.replace("value_30100", "renamed"));
    assert_eq!(applied.first_changed_line, 30_101);
}

#[test]
fn a_huge_line_with_many_places_is_replaced_quickly() {
    let file = "ab,".repeat(100_000);
    let applied = within_budget(|| apply_edits(file.as_bytes(), &[edit_all("b,", "c;")])).unwrap();
    assert_eq!(applied.replacements, 100_000);
    assert_eq!(text(&applied), file.replace("b,", "c;"));
}

#[test]
fn typographic_text_in_a_large_file_is_found_quickly() {
    let mut file = "It\u{2019}s \u{201c}quoted\u{201d} text \u{2014} again.\n".repeat(50_000);
    file.push_str("The \u{201c}end\u{201d}\n");
    let applied = within_budget(|| try_apply(&file, "The \"end\"", "The \"finish\"")).unwrap();
    assert!(text(&applied).ends_with("The \u{201c}finish\u{201d}\n"));
}

#[test]
fn a_very_long_exact_old_text_with_mixed_line_ends_is_replaced_quickly() {
    let pairs: Vec<String> = (0..20_000)
        .step_by(2)
        .map(|index| format!("line {index}\r\nline {}\n", index + 1))
        .collect();
    let file = pairs.concat();
    let old = file.replace('\r', "");
    let new = old.replace("line 10000\n", "LINE\n");
    let applied = within_budget(|| try_apply(&file, &old, &new)).unwrap();
    assert_eq!(text(&applied), file.replace("line 10000\r", "LINE\r"));
}

#[test]
fn a_very_long_inexact_old_text_is_refused_quickly() {
    let lines: Vec<String> = (0..5_000).map(|index| format!("    line {index}\n")).collect();
    let file = lines.concat();
    let old = file.replace("    ", "");
    let new = old.replace("line 100\n", "LINE\n");
    let error = within_budget(|| refused(&file, &old, &new));
    assert_eq!(error, EditError::TooLarge { lines: 5_000 });
}
