use super::key_names::{editor_at, marked, press, type_text};
use crate::editor::{
    CompletionContext, CompletionKind, PromptEditor, Submission, SubmissionBlock, chip_ranges,
    file_reference,
};

fn lines(count: usize) -> String {
    "line\n".repeat(count)
}

#[test]
fn a_long_paste_becomes_a_chip_and_a_short_one_text() {
    let table = [
        ("one\rtwo\r\nthree".to_owned(), "one\ntwo\nthree|"),
        (lines(20), &*format!("{}|", lines(20))),
        (lines(21), "[21 lines pasted]|"),
        ("é".repeat(1024), &*format!("{}|", "é".repeat(1024))),
        ("é".repeat(1025), "[1025 characters pasted]|"),
        (format!("{}\nx", "a".repeat(2048)), "[2 long lines pasted]|"),
    ];
    for (pasted, shown) in table {
        let mut editor = PromptEditor::default();
        editor.paste(&pasted);
        assert_eq!(marked(&editor), shown);
        assert_eq!(editor.take_submission().text, pasted.replace("\r\n", "\n").replace('\r', "\n"));
    }
}

#[test]
fn a_chip_is_one_unit_for_the_cursor() {
    let mut editor = editor_at("a|b");
    editor.paste(&lines(30));
    let table = [
        ("<left>", "a|[30 lines pasted]b"),
        ("<right>", "a[30 lines pasted]|b"),
        ("A-b", "a|[30 lines pasted]b"),
        ("A-f", "a[30 lines pasted]|b"),
        ("C-t", "ab[30 lines pasted]|"),
        ("<backspace>", "ab|"),
        ("C-_", "ab[30 lines pasted]|"),
        ("C-w", "ab|"),
        ("C-w", "|"),
        ("C-y", "ab[30 lines pasted]|"),
        ("A-b A-u", "ab[30 lines pasted]|"),
    ];
    for (keys, expected) in table {
        press(&mut editor, keys);
        assert_eq!(marked(&editor), expected, "{keys}");
    }
    assert_eq!(editor.take_submission().text, format!("ab{}", lines(30)));
}

#[test]
fn labels_are_unique_and_copies_of_a_chip_stand_for_the_same() {
    let mut editor = PromptEditor::default();
    editor.paste(&lines(30));
    editor.paste(&"other\n".repeat(30));
    assert_eq!(editor.text(), "[30 lines pasted][30 lines pasted, 2]");
    press(&mut editor, "C-u C-y C-y");
    let both = lines(30) + &"other\n".repeat(30);
    assert_eq!(editor.take_submission().text, both.repeat(2));
    editor.paste(&lines(30));
    assert_eq!(editor.text(), "[30 lines pasted]");
}

#[test]
fn a_label_that_is_typed_is_no_chip() {
    let mut editor = PromptEditor::default();
    type_text(&mut editor, "[30 lines pasted] ");
    editor.paste(&lines(30));
    assert_eq!(editor.text(), "[30 lines pasted] [30 lines pasted, 2]");
    assert_eq!(chip_ranges(&editor), vec![18..38]);
    assert_eq!(editor.take_submission().text, format!("[30 lines pasted] {}", lines(30)));
}

#[test]
fn a_submission_has_text_and_images_in_their_order() {
    let mut editor = PromptEditor::default();
    type_text(&mut editor, "see ");
    let first = editor.insert_image("a.png");
    type_text(&mut editor, " and ");
    editor.paste(&lines(30));
    let second = editor.insert_image("a.png");
    assert_eq!(editor.text(), "see [image a.png] and [30 lines pasted][image a.png, 2]");
    let expected = Submission {
        text: format!("see [image a.png] and {}[image a.png, 2]", lines(30)),
        blocks: vec![
            SubmissionBlock::Text("see ".to_owned()),
            SubmissionBlock::Image(first),
            SubmissionBlock::Text(format!(" and {}", lines(30))),
            SubmissionBlock::Image(second),
        ],
    };
    let submission = editor.take_submission();
    assert_eq!(submission, expected);
    assert_eq!(submission.images().collect::<Vec<_>>(), [first, second]);
}

#[test]
fn the_name_of_an_image_cannot_break_its_label() {
    let mut editor = PromptEditor::default();
    editor.insert_image("a\n\x1b[2J\u{202e}");
    assert_eq!(editor.text(), "[image a␊␛[2J<U+202E>]");
}

#[test]
fn a_snapshot_restores_chips_and_the_cursor() {
    let mut editor = editor_at("a|b");
    editor.paste(&lines(30));
    let snapshot = editor.snapshot();
    press(&mut editor, "C-u C-k");
    editor.restore(snapshot);
    assert_eq!(marked(&editor), "a[30 lines pasted]|b");
    assert_eq!(editor.expanded_text(), format!("a{}b", lines(30)));
    press(&mut editor, "C-_");
    assert_eq!(marked(&editor), "a[30 lines pasted]|b");
}

#[test]
fn images_have_other_identifiers_than_those_of_a_restored_draft() {
    let mut first = PromptEditor::default();
    let image = first.insert_image("a.png");
    let mut second = PromptEditor::default();
    second.restore(first.snapshot());
    let other = second.insert_image("a.png");
    assert_ne!(image, other);
    assert_eq!(second.text(), "[image a.png][image a.png, 2]");
    assert_eq!(second.take_submission().images().collect::<Vec<_>>(), [image, other]);
}

#[test]
fn an_edited_text_keeps_the_images_whose_labels_are_in_it() {
    let mut editor = PromptEditor::default();
    let first = editor.insert_image("a.png");
    let second = editor.insert_image("a.png");
    let third = editor.insert_image("b.png");
    editor.set_edited_text("swap [image b.png]\r\nand [image a.png, 2], no [image c.png]");
    let submission = editor.take_submission();
    assert_eq!(submission.text, "swap [image b.png]\nand [image a.png, 2], no [image c.png]");
    assert_eq!(submission.images().collect::<Vec<_>>(), [third, second]);
    assert_ne!(first, third);
}

#[test]
fn a_text_that_is_put_back_has_its_images_again() {
    let table = [
        ("see [image a.png] and [image b.png]", "see [image a.png] and [image b.png]\ndraft"),
        // Something else looks like a label, or a label is missing.
        (
            "[image x] [image a.png] [image b.png]",
            "[image x] [image a.png] [image b.png] [image 1] [image 2]\ndraft",
        ),
        ("no label", "no label [image 1] [image 2]\ndraft"),
    ];
    for (text, expected) in table {
        let mut editor = editor_at("draft|");
        let images = [editor.chip_names.new_image(), editor.chip_names.new_image()];
        editor.put_before(text, &images);
        let submission = editor.take_submission();
        assert_eq!(submission.text, expected);
        assert_eq!(submission.images().collect::<Vec<_>>(), images, "{text}");
    }
}

#[test]
fn the_label_of_an_image_becomes_text_where_it_stands() {
    let mut editor = editor_at("a |b");
    let image = editor.insert_image("x.png");
    type_text(&mut editor, "typed ");
    assert!(editor.replace_image(image, "/tmp/x.png"));
    assert_eq!(marked(&editor), "a /tmp/x.pngtyped |b");
    assert!(!editor.replace_image(image, "again"));
    let mut editor = editor_at("|");
    let image = editor.insert_image("x.png");
    press(&mut editor, "C-a");
    assert!(editor.replace_image(image, "/tmp/x.png"));
    assert_eq!(editor.expanded_text(), "/tmp/x.png");
}

#[test]
fn commands_and_files_can_be_completed() {
    use CompletionKind::{Command, File};
    let table = [
        ("/|", Some((Command, 0, ""))),
        ("/mo|del x", Some((Command, 0, "mo"))),
        ("/model |", None),
        (" /mo|", None),
        ("x /mo|", None),
        ("@|", Some((File, 0, ""))),
        ("see @src/ma|", Some((File, 4, "src/ma"))),
        ("see (@src/ma|)", Some((File, 5, "src/ma"))),
        ("a\n@x|", Some((File, 2, "x"))),
        ("me@x|", None),
        ("@x y|", None),
        ("@my\\ fi|", Some((File, 0, "my fi"))),
        ("@\"my fi|", Some((File, 0, "my fi"))),
        ("@\"my \\\"fi|", Some((File, 0, "my \"fi"))),
        ("@\"my fi\"|", None),
        ("@\"my fi\" @b|", Some((File, 9, "b"))),
        ("/cmd @b|", Some((File, 5, "b"))),
    ];
    for (text, expected) in table {
        let editor = editor_at(text);
        let cursor = editor.cursor();
        let expected = expected.map(|(kind, start, typed)| CompletionContext {
            kind,
            range: start..cursor,
            typed: typed.to_owned(),
        });
        assert_eq!(editor.completion_context(), expected, "{text}");
    }
}

#[test]
fn a_reference_to_a_file_is_read_back() {
    for path in ["src/main.rs", "my file", "a\"b", "c:\\x y", "a, b", "it's", "x:10", "what?"] {
        let mut editor = PromptEditor::default();
        editor.set_text(file_reference(path).trim_end_matches('"'));
        if path == "a\"b" {
            continue;
        }
        assert_eq!(editor.completion_context().unwrap().typed, path);
    }
}

#[test]
fn a_reference_is_in_quotes_if_its_end_would_not_be_clear() {
    let table = [
        ("src/main.rs", "@src/main.rs"),
        ("src/", "@src/"),
        ("app/(auth)/[id].tsx", "@app/(auth)/[id].tsx"),
        ("app/[id]", "@\"app/[id]\""),
        ("my file", "@\"my file\""),
        ("a,b", "@\"a,b\""),
        ("it's", "@\"it's\""),
        ("a.rs:10", "@\"a.rs:10\""),
        ("what?", "@\"what?\""),
    ];
    for (path, expected) in table {
        assert_eq!(file_reference(path), expected);
    }
}
