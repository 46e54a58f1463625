use std::num::NonZeroU16;

use crow_core::tool::{FileChange, FileDiff, Patch};
use crow_text::{neutralise, one_line};
use proptest::prelude::*;

use super::screen::{all_keys, size};
use crate::{
    full_screen::{
        DiffView, FullScreenPainter, FullScreenView, ListItem, ListPicker, Pager, PagerSection,
    },
    keys::Key,
    styled_text::{StyledLine, TextRole},
    theme::Theme,
};

#[derive(Debug, Clone)]
enum Input {
    Key(Key),
    Paste(String),
    Size(usize, usize),
}

/// Text with what terminals obey, do not show, or show in another width.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-e ]{1,12}",
        1 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(vec![
            "\u{1b}[2J", "\u{1b}]0;x\u{7}", "\u{202e}", "\u{2066}", "\t", "\r", "漢字", "e\u{301}", "\u{301}", "\u{200d}",
            "👩\u{200d}💻", "⚠\u{fe0f}", "☺\u{fe0f}", "\u{200b}", "\u{9b}", "🇩🇪", "لا", "Ａ", "\u{1100}\u{1161}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let size = prop_oneof![
        (1..200_usize, 1..60_usize),
        (1..6_usize, 1..6_usize),
        (130..160_usize, 1..30_usize),
    ];
    let input = prop_oneof![
        6 => prop::sample::select(all_keys()).prop_map(Input::Key),
        1 => hostile_text().prop_map(Input::Paste),
        2 => size.prop_map(|(columns, rows)| Input::Size(columns, rows)),
    ];
    prop::collection::vec(input, 1..40)
}

/// Gives inputs to a view, and checks every frame and what the painter makes of it.
fn check(view: &mut dyn FullScreenView, inputs: &[Input]) -> Result<(), TestCaseError> {
    let mut size = size(80, 24);
    let mut painter = FullScreenPainter::new(Theme::Dark);
    for input in inputs {
        match input {
            Input::Key(key) => {
                view.on_key(*key);
            }
            Input::Paste(text) => view.on_paste(text),
            Input::Size(columns, rows) => size = super::screen::size(*columns, *rows),
        }
        let frame = view.frame(size);
        prop_assert!(frame.rows.len() <= size.rows);
        for row in &frame.rows {
            prop_assert!(row.width() <= size.columns, "{size:?} {row:?}");
            let text = row.text();
            let is_harmless = |c: char| {
                !c.is_control() && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            prop_assert!(text.chars().all(is_harmless), "{text:?}");
        }
        if let Some((row, column)) = frame.cursor {
            prop_assert!(row < size.rows && column < size.columns);
        }
        painter.paint(&frame, size);
    }
    Ok(())
}

fn lines(texts: &[String], signs: &[u8]) -> String {
    let mut hunks = "@@ -98,9 +1,9 @@ fn a()\n".to_owned();
    for (number, text) in texts.iter().enumerate() {
        let sign =
            signs.get(number).map_or(' ', |sign| char::from(b"-+ \\@"[usize::from(*sign) % 5]));
        hunks.push(sign);
        hunks.push_str(text);
        hunks.push('\n');
    }
    hunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_picker_takes_any_keys_and_sizes(
        texts in prop::collection::vec((hostile_text(), hostile_text()), 0..30),
        inputs in inputs(),
    ) {
        let item = |(label, detail): &(String, String)| ListItem::new(label).with_detail(detail);
        let mut picker = ListPicker::new("title", "items", texts.iter().map(item).collect());
        check(&mut picker, &inputs)?;
    }

    #[test]
    fn a_pager_takes_any_keys_and_sizes(
        texts in prop::collection::vec(hostile_text(), 0..40),
        kinds in prop::collection::vec(0..4_u8, 0..5),
        inputs in inputs(),
    ) {
        let section = |kind: &u8| match kind {
            0 => PagerSection::text(texts.join("\n")),
            1 => PagerSection::markdown(texts.join("\n\n")).with_title("markdown"),
            2 => PagerSection::text(texts.concat()).with_title("one line"),
            _ => {
                let line = |text: &String| {
                    let mut line = StyledLine::default();
                    line.push(neutralise(&one_line(text)), TextRole::Plain);
                    line
                };
                PagerSection::lines(texts.iter().map(line).collect())
            }
        };
        let mut pager = Pager::new("title", kinds.iter().map(section).collect());
        check(&mut pager, &inputs)?;
    }

    #[test]
    fn a_diff_takes_any_keys_and_sizes(
        files in prop::collection::vec(prop::collection::vec(hostile_text(), 0..20), 0..4),
        signs in prop::collection::vec(any::<u8>(), 20),
        truncated in any::<bool>(),
        inputs in inputs(),
    ) {
        let file = |texts: &Vec<String>| FileDiff {
            path: texts.concat().into(),
            change: if texts.len() > 10 { FileChange::Created } else { FileChange::Modified },
            additions: texts.len() as u64,
            hunks: lines(texts, &signs),
            truncated,
            note: texts.first().cloned().unwrap_or_default(),
            ..FileDiff::without_lines("")
        };
        let mut view = DiffView::new("title", Patch { files: files.iter().map(file).collect() });
        check(&mut view, &inputs)?;
    }

    #[test]
    fn differences_between_frames_lead_to_the_same_screen(inputs in inputs()) {
        let line = |number: usize| format!("line {number} {}\n", "word ".repeat(number % 40));
        let text = (0..200).map(line).collect::<Vec<String>>().concat();
        let mut pager = Pager::new("title", vec![PagerSection::text(text)]);
        let count = |count: usize| NonZeroU16::new(u16::try_from(count).unwrap()).unwrap();
        let mut size = size(80, 24);
        let mut painter = FullScreenPainter::new(Theme::Dark);
        let mut updated = vt100::Parser::new(count(size.rows), count(size.columns), 0);
        for input in &inputs {
            match input {
                Input::Key(key) => {
                    pager.on_key(*key);
                }
                // The terminal in memory takes some emoji for wider than they are, and wraps.
                Input::Paste(_) => {}
                Input::Size(columns, rows) => {
                    size = super::screen::size(*columns, *rows);
                    updated.screen_mut().set_size(count(*rows), count(*columns));
                }
            }
            let frame = pager.frame(size);
            updated.process(painter.paint(&frame, size).as_bytes());
            let mut whole = vt100::Parser::new(count(size.rows), count(size.columns), 0);
            whole.process(FullScreenPainter::new(Theme::Dark).paint(&frame, size).as_bytes());
            prop_assert_eq!(updated.screen().contents(), whole.screen().contents());
            prop_assert_eq!(updated.screen().hide_cursor(), whole.screen().hide_cursor());
        }
    }
}
