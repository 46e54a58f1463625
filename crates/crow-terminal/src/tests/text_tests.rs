use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::editor::{Fragment, LONGEST_SEGMENT, PromptText};

/// Pieces of text that form long lines, clusters and line ends.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        Just("\n".to_owned()),
        Just("\u{301}".to_owned()),
        Just("\u{200d}👩".to_owned()),
        Just("🇩".to_owned()),
        Just("漢".repeat(3000)),
        Just("word ".repeat(2000)),
        Just("x".repeat(9000)),
        Just("🇩".repeat(3001)),
        Just("\u{301}".repeat(5000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_index_of_segments_stays_right(
        edits in prop::collection::vec((any::<u16>(), any::<u16>(), piece()), 1..12),
    ) {
        let mut text = PromptText::default();
        for (start, length, inserted) in edits {
            let mut start = usize::from(start).min(text.len());
            let mut end = (start + usize::from(length % 12000)).min(text.len());
            while !text.as_str().is_char_boundary(start) { start -= 1; }
            while !text.as_str().is_char_boundary(end) { end += 1; }
            text.replace(start..end, &Fragment::plain(inserted));
            let lines: Vec<&str> = text.as_str().split('\n').collect();
            let (mut line, mut within, mut position) = (0, String::new(), 0);
            for index in 0..text.segments() {
                let range = text.segment(index);
                prop_assert_eq!(range.start, position);
                prop_assert!(range.len() <= LONGEST_SEGMENT);
                within.push_str(&text.as_str()[range.clone()]);
                position = range.end;
                if text.ends_line(index) {
                    prop_assert_eq!(&within, lines[line]);
                    within.clear();
                    line += 1;
                    position += 1;
                }
            }
            prop_assert_eq!(line, lines.len());
            prop_assert_eq!(position, text.len() + 1);
        }
    }

    #[test]
    fn units_are_the_same_in_both_directions(
        pieces in prop::collection::vec(piece(), 1..4),
        from in any::<prop::sample::Index>(),
    ) {
        let string = pieces.concat();
        let mut text = PromptText::default();
        text.replace(0..0, &Fragment::plain(string));
        let units: Vec<_> = text.units(0..text.len()).map(|unit| unit.start).collect();
        // A part is enough: long clusters make this test slow.
        let from = from.index(units.len());
        for pair in units[from..].windows(2).take(200) {
            prop_assert_eq!(text.next(pair[0]), pair[1]);
            prop_assert_eq!(text.previous(pair[1]), pair[0]);
            prop_assert_eq!(text.boundary_from(pair[0]), pair[0]);
            prop_assert_eq!(text.boundary_from(pair[0] + 1), pair[1]);
        }
    }

    #[test]
    fn units_are_grapheme_clusters(
        string in prop_oneof![
            "\\PC{0,30}",
            "[a-z\u{300}-\u{303}é漢あア한\u{1100}-\u{1105}\u{1160}-\u{1165}\u{11a8}-\u{11aa}क\u{94d}\u{93f}\u{600}👩\u{200d}❤\u{fe0f}🇩-🇫\u{202e}\n\t]{0,30}",
            any::<String>(),
        ],
    ) {
        let string = string.replace('\r', "");
        let mut text = PromptText::default();
        text.replace(0..0, &Fragment::plain(string.clone()));
        let units: Vec<&str> =
            text.units(0..text.len()).map(|unit| &string[unit.start..unit.end]).collect();
        let clusters: Vec<&str> = string.graphemes(true).collect();
        prop_assert_eq!(units, clusters);
    }
}
