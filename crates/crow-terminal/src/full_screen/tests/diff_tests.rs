use std::path::Path;

use crow_core::tool::{FileChange, FileDiff, Patch};

use super::screen::{SIZES, press, roles, rows, screen, size, type_text};
use crate::full_screen::{DiffView, FullScreenView as _, ViewEffect};

const OLD: &str = "use std::fmt;\n\nfn main() {\n\tlet name = \"crow\";\n\tprintln!(\"{name}\");\n}\n\n// 1\n// 2\n// 3\n// 4\n// 5\n// 6\nfn end() {\n    finish(\"a text that is so long that it does not fit into half of a wide terminal, 漢字 and all\");\n}\n";
const NEW: &str = "use std::fmt;\n\nfn main() {\n\tlet title = \"crow\";\n\tprintln!(\"{title}\");\n\tprintln!(\"done\");\n}\n\n// 1\n// 2\n// 3\n// 4\n// 5\n// 6\nfn end() {\n    finish(\"a text that is so long that it does not fit into half of a wide terminal, 漢語 and all\");\n}";

fn patch() -> Patch {
    let created = FileDiff {
        change: FileChange::Created,
        ..FileDiff::of_text(Path::new("docs/new.md"), "", "# New\n\ntext\n")
    };
    let binary =
        FileDiff { note: "binary, 3 -> 5 bytes".to_owned(), ..FileDiff::without_lines("logo.png") };
    let deleted = FileDiff {
        change: FileChange::Deleted,
        truncated: true,
        deletions: 310,
        ..FileDiff::of_text(
            Path::new("a/very/long/path/of/a/file/that/was/deleted.txt"),
            "x\ny\n",
            "",
        )
    };
    let mode = FileDiff {
        truncated: false,
        note: "mode 644 -> 755".to_owned(),
        ..FileDiff::without_lines("run.sh")
    };
    let files = vec![
        FileDiff::of_text(Path::new("src/main.rs"), OLD, NEW),
        created,
        binary,
        deleted,
        mode,
        FileDiff::without_lines("blob"),
    ];
    Patch { files }
}

fn view() -> DiffView {
    DiffView::new("Turn 3", patch())
}

fn one_file(hunks: &str) -> DiffView {
    let file =
        FileDiff { hunks: hunks.to_owned(), truncated: false, ..FileDiff::without_lines("f") };
    DiffView::new("", Patch { files: vec![file] })
}

#[test]
fn a_diff_fits_screens_of_usual_sizes() {
    for (columns, rows) in SIZES {
        let name = format!("diff_{columns}x{rows}");
        insta::assert_snapshot!(name, screen(&mut view(), columns, rows));
    }
}

#[test]
fn a_wide_screen_shows_both_sides_on_demand() {
    let mut view = view();
    view.frame(size(150, 40));
    assert_eq!(press(&mut view, "s"), ViewEffect::Redraw);
    insta::assert_snapshot!("diff_side_by_side_150x40", screen(&mut view, 150, 40));
}

#[test]
fn changed_words_are_marked() {
    let frame = view().frame(size(60, 12));
    let shown: Vec<String> = frame.rows[3..7].iter().map(roles).collect();
    insta::assert_snapshot!("diff_roles", shown.join("\n"));
}

#[test]
fn the_arrangement_needs_columns_and_comes_back_with_them() {
    let mut view = view();
    view.frame(size(139, 10));
    press(&mut view, "s");
    assert!(rows(&mut view, 139, 10)[9].starts_with("side by side needs 140 columns"));
    let is_side_by_side = |rows: &[String]| rows.iter().any(|row| row.contains(" │ "));
    assert!(!is_side_by_side(&rows(&mut view, 140, 10)));
    press(&mut view, "s");
    assert!(is_side_by_side(&rows(&mut view, 140, 10)));
    assert!(!is_side_by_side(&rows(&mut view, 120, 10)));
    assert!(is_side_by_side(&rows(&mut view, 140, 10)));
    press(&mut view, "s");
    assert!(!is_side_by_side(&rows(&mut view, 140, 10)));
}

#[test]
fn the_arrangements_have_the_same_line_at_the_top() {
    let mut view = view();
    view.frame(size(140, 6));
    press(&mut view, "j j j j j j");
    assert!(rows(&mut view, 140, 6)[0].contains("let title"));
    press(&mut view, "s");
    let top = rows(&mut view, 140, 6)[0].clone();
    assert!(top.contains("let name") && top.contains("let title"), "{top}");
    press(&mut view, "s");
    assert!(rows(&mut view, 140, 6)[0].contains("let name"));
}

#[test]
fn brackets_jump_between_files() {
    let paths = ["src/main.rs", "docs/new.md", "logo.png"];
    for (columns, keys) in [(60, ""), (140, "s")] {
        let mut view = view();
        view.frame(size(columns, 6));
        press(&mut view, keys);
        for (number, path) in paths.into_iter().enumerate() {
            let shown = rows(&mut view, columns, 6);
            assert!(shown[0].starts_with(path), "{shown:?}");
            let title = format!("Turn 3 · {}/6 {path}", number + 1);
            assert!(shown[5].starts_with(&title), "{}", shown[5]);
            press(&mut view, "]");
        }
        press(&mut view, "[ [");
        assert!(rows(&mut view, columns, 6)[0].starts_with(paths[1]));
    }
}

#[test]
fn a_search_finds_texts_and_no_line_numbers() {
    for (columns, keys) in [(60, ""), (140, "s")] {
        let mut view = view();
        view.frame(size(columns, 6));
        press(&mut view, keys);
        press(&mut view, "/");
        type_text(&mut view, "15");
        press(&mut view, "enter");
        assert!(rows(&mut view, columns, 6)[5].starts_with("not found: 15"));
        press(&mut view, "/");
        type_text(&mut view, "title");
        press(&mut view, "enter n");
        let frame = view.frame(size(columns, 6));
        let marked = frame
            .rows
            .iter()
            .any(|row| roles(row).contains("Added* ") || roles(row).contains("AddedWord* title"));
        assert!(marked, "{:?}", frame.rows.iter().map(roles).collect::<Vec<_>>());
    }
}

#[test]
fn a_patch_without_files_says_so() {
    let mut view = DiffView::new("Turn 3", Patch::default());
    assert_eq!(rows(&mut view, 40, 3)[0], "No changes");
    press(&mut view, "] [ G s n");
}

#[test]
fn the_end_of_a_line_is_shown_where_it_changed() {
    let mut view =
        one_file("@@ -1,3 +1,3 @@\n a\r\n-b\r\n+b\n-c\r\n+d\r\n\\ No newline at end of file\n");
    let shown = rows(&mut view, 60, 8);
    assert_eq!(
        shown[1..6],
        ["1 1   a", "2   - b␍", "  2 + b", "3   - c", "  3 + d  no newline at end of file"]
    );
}

#[test]
fn a_line_that_is_too_long_says_how_much_is_missing() {
    let mut view = one_file(&format!("@@ -0,0 +1 @@\n+{}\n", "x".repeat(8 * 1024 + 7)));
    view.frame(size(200, 60));
    press(&mut view, "G");
    let shown = rows(&mut view, 200, 60).concat();
    assert!(shown.contains("x … 7 more characters"));
}

#[test]
fn texts_of_others_are_harmless() {
    let hostile = "\u{1b}[2J\u{202e}b\tc\u{200b}漢e\u{301}";
    let file = FileDiff {
        path: hostile.into(),
        note: hostile.to_owned(),
        hunks: format!("@@ -1 +1 @@ {hostile}\n-{hostile}\n+{hostile}x\n"),
        truncated: false,
        ..FileDiff::without_lines("")
    };
    for (columns, keys) in [(80, ""), (140, "s")] {
        let mut view = DiffView::new(hostile, Patch { files: vec![file.clone()] });
        view.frame(size(columns, 10));
        press(&mut view, keys);
        let shown = rows(&mut view, columns, 10).concat();
        assert!(!shown.chars().any(|c| c.is_control() || crow_text::is_unseen(c)), "{shown:?}");
        assert!(shown.contains("␛[2J\\u{202e}b"), "{shown}");
    }
}
