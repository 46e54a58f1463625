use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation as _;

use super::key_names::press;
use crate::{
    editor::{EditingStyle, PromptEditor, chip_ranges},
    keys::{Key, KeyCode, KeyModifiers},
};

fn any_code() -> impl Strategy<Value = KeyCode> {
    let named = prop::sample::select(vec![
        KeyCode::Enter,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Insert,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::Escape,
        KeyCode::Function(1),
    ]);
    let unusual = "\u{301}\u{200d}👩🇩🇪漢é\u{202e}\t\u{600}\u{94d}क\u{1100}\u{1161}";
    prop_oneof![
        3 => (b' '..=b'~').prop_map(|byte| KeyCode::Char(char::from(byte))),
        2 => prop::sample::select(unusual.chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        3 => named,
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Key(Key),
    Paste(String),
    Image,
    Replace(usize, usize, String),
}

fn any_step() -> impl Strategy<Value = Step> {
    let modifiers = prop_oneof![
        3 => Just(KeyModifiers::NONE),
        2 => Just(KeyModifiers::CTRL),
        2 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
    ];
    let keys = (any_code(), modifiers).prop_map(|(code, modifiers)| Key { code, modifiers });
    let letters = prop::sample::select("abcdefghjklnoprstuwxyz_".chars().collect::<Vec<_>>());
    prop_oneof![
        8 => keys.prop_map(Step::Key),
        4 => letters.clone().prop_map(|letter| Step::Key(Key::ctrl(letter))),
        3 => letters.prop_map(|letter| Step::Key(Key::alt(letter))),
        1 => "(\\PC|\n){0,20}".prop_map(Step::Paste),
        1 => Just(Step::Paste("line\n".repeat(25))),
        1 => Just(Step::Image),
        1 => (0_usize..60, 0_usize..60, "\\PC{0,5}").prop_map(|(a, b, text)| Step::Replace(a, b, text)),
    ]
}

fn apply(editor: &mut PromptEditor, step: &Step) {
    match step {
        Step::Key(key) => {
            editor.on_key(*key);
        }
        Step::Paste(text) => {
            editor.paste(text);
        }
        Step::Image => {
            editor.insert_image("x.png");
        }
        Step::Replace(start, end, text) => editor.replace(*start.min(end)..*start.max(end), text),
    }
}

fn any_style() -> impl Strategy<Value = EditingStyle> {
    prop_oneof![Just(EditingStyle::Emacs), Just(EditingStyle::Vi)]
}

/// Returns true if the cursor is between clusters, where chips are clusters of their own.
fn is_at_boundary(editor: &PromptEditor) -> bool {
    let (cursor, mut from) = (editor.cursor(), 0);
    let end = editor.text().len();
    for chip in chip_ranges(editor).into_iter().chain(std::iter::once(end..end)) {
        if cursor <= chip.start {
            let part = &editor.text()[from..chip.start];
            let starts = part.grapheme_indices(true).map(|(start, _)| from + start);
            return starts.chain([chip.start]).any(|start| start == cursor);
        }
        if cursor < chip.end {
            return false;
        }
        from = chip.end;
    }
    cursor == from
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_cursor_is_always_between_clusters_and_outside_chips(
        style in any_style(),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut editor = PromptEditor::new(style);
        editor.set_history(vec!["e\u{301} one".to_owned(), "two\nlines".to_owned()]);
        for step in &steps {
            apply(&mut editor, step);
            prop_assert!(is_at_boundary(&editor), "{:?} {}", editor.text(), editor.cursor());
        }
    }

    #[test]
    fn undoing_everything_restores_the_start_and_redoing_it_the_end(
        style in any_style(),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut editor = PromptEditor::new(style);
        let start = editor.snapshot();
        for step in &steps {
            apply(&mut editor, step);
        }
        editor.set_style(EditingStyle::Emacs);
        press(&mut editor, "C-b C-f");
        let end = editor.snapshot();
        // More often than there are changes: some may have been undone already, and are redone below.
        let times = steps.len() * 3 + 3;
        for _ in 0..times {
            press(&mut editor, "C-_");
        }
        prop_assert_eq!(editor.text(), "");
        prop_assert_eq!(editor.snapshot(), start);
        let mut states = Vec::new();
        for _ in 0..times {
            press(&mut editor, "A-_");
            states.push(editor.text().to_owned());
        }
        let end_text = { editor.restore(end); editor.text().to_owned() };
        prop_assert!(end_text.is_empty() || states.contains(&end_text), "{:?}", end_text);
    }

    #[test]
    fn a_view_fits_and_contains_the_cursor(
        style in any_style(),
        steps in prop::collection::vec(any_step(), 0..60),
        width in 2_usize..40,
        rows in 1_usize..8,
        prompt in prop::sample::select(vec!["> ", "", "crow 漢 > "]),
    ) {
        let mut editor = PromptEditor::new(style);
        editor.set_history(vec!["e\u{301} one".to_owned(), "two\nlines".to_owned()]);
        for step in &steps {
            apply(&mut editor, step);
            let view = editor.view(width, rows, prompt);
            prop_assert!(!view.lines.is_empty() && view.lines.len() <= rows);
            for line in &view.lines {
                prop_assert!(line.width() <= width, "{:?}", line.text());
                prop_assert!(!line.text().contains(char::is_control));
            }
            prop_assert!(view.cursor.0 < view.lines.len() && view.cursor.1 < width, "{:?}", view);
        }
    }

    #[test]
    fn hints_say_how_many_rows_are_hidden(
        text in "[a-c \n漢]{0,300}",
        keys in prop::collection::vec(any_step(), 0..10),
        width in 4_usize..30,
        rows in 3_usize..8,
    ) {
        let mut editor = PromptEditor::default();
        editor.set_text(&text);
        for key in keys {
            apply(&mut editor, &key);
        }
        // Ends a search, and a command of two keys.
        press(&mut editor, "C-g");
        let lines = |editor: &mut PromptEditor, rows| -> Vec<String> {
            editor.view(width, rows, "> ").lines.iter().map(|line| line.text()[2..].to_owned()).collect()
        };
        let all = lines(&mut editor, 1000);
        let mut part = lines(&mut editor, rows);
        if all.len() <= rows {
            prop_assert_eq!(part, all);
        } else {
            prop_assert_eq!(part.len(), rows);
            // A hint is cut in a narrow view.
            let hidden = |line: &String| -> Option<usize> {
                line.strip_prefix("… ")?.split_once(' ')?.0.parse().ok()
            };
            let above = part.first().and_then(hidden);
            let below = part.last().and_then(hidden);
            part.drain(..usize::from(above.is_some()));
            part.truncate(part.len() - usize::from(below.is_some()));
            if width > 10 {
                let first = above.unwrap_or(0);
                prop_assert_eq!(&part[..], &all[first..first + part.len()]);
                prop_assert_eq!(first + part.len() + below.unwrap_or(0), all.len());
            }
        }
    }

    #[test]
    fn the_cursor_goes_on_in_the_view_with_every_unit(
        steps in prop::collection::vec(any_step(), 0..60),
        width in 2_usize..40,
    ) {
        let mut editor = PromptEditor::default();
        for step in &steps {
            apply(&mut editor, step);
        }
        // Ends a search, and a command of two keys.
        press(&mut editor, "C-g");
        press(&mut editor, "<C-home>");
        let mut places = vec![editor.view(width, 1000, "> ").cursor];
        while editor.cursor() < editor.text().len() {
            press(&mut editor, "<right>");
            places.push(editor.view(width, 1000, "> ").cursor);
        }
        prop_assert!(places.is_sorted_by(|first, second| first < second), "{:?}", places);
        let first = usize::from(width >= 4) + usize::from(width >= 3);
        prop_assert_eq!(places[0], (0, first));
    }

    #[test]
    fn up_and_down_are_opposite(
        steps in prop::collection::vec(any_step(), 0..60),
        width in 4_usize..40,
        times in 1_usize..5,
    ) {
        let mut editor = PromptEditor::default();
        for step in &steps {
            apply(&mut editor, step);
        }
        // Ends a search, and a command of two keys.
        press(&mut editor, "C-g");
        press(&mut editor, "<C-end>");
        editor.view(width, 1000, "> ");
        let end = editor.view(width, 1000, "> ").cursor;
        let times = times.min(end.0);
        for _ in 0..times {
            press(&mut editor, "<up>");
        }
        prop_assert_eq!(editor.view(width, 1000, "> ").cursor.0, end.0 - times);
        for _ in 0..times {
            press(&mut editor, "<down>");
        }
        prop_assert_eq!(editor.view(width, 1000, "> ").cursor, end);
    }
}
