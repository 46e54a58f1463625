//! Sequences as a terminal takes them.

use std::{num::NonZero, time::Duration};

use proptest::prelude::*;

use super::{
    FocusState, Multiplexer, Notification, NotificationChoice, Notifier, TerminalEnvironment,
    TerminalTitle, TitleState, copy_sequence,
};

/// Returns the environment of variables that are written as `NAME=value`, with a blank between them.
pub(super) fn environment(variables: &str) -> TerminalEnvironment {
    TerminalEnvironment::from_variables(|name| {
        variables.split(' ').find_map(|variable| {
            variable
                .split_once('=')
                .filter(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
        })
    })
}

/// The effects of sequences on a terminal other than its text.
#[derive(Debug, Default)]
struct TerminalEffects {
    titles: Vec<Vec<u8>>,
    copies: Vec<(Vec<u8>, Vec<u8>)>,
    bells: usize,
}

impl vt100::Callbacks for TerminalEffects {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.titles.push(title.to_owned());
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, kind: &[u8], data: &[u8]) {
        self.copies.push((kind.to_owned(), data.to_owned()));
    }

    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.bells += 1;
    }
}

/// Sends a sequence to a terminal, whose screen must stay empty, and returns the other effects.
fn effects(sequence: &str) -> TerminalEffects {
    let size = |number| NonZero::new(number).unwrap();
    let mut parser =
        vt100::Parser::new_with_callbacks(size(24), size(80), 0, TerminalEffects::default());
    parser.process(sequence.as_bytes());
    assert_eq!(parser.screen().contents(), "", "{sequence:?}");
    assert_eq!(parser.screen().cursor_position(), (0, 0), "{sequence:?}");
    std::mem::take(parser.callbacks_mut())
}

fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "(\\PC|[\u{0}-\u{a0}\u{202a}-\u{202e}]){0,5}",
        prop::sample::select(vec![
            "\u{1b}\\",
            "\u{7}",
            "\u{9c}",
            "\u{1b}]2;x\u{7}",
            "\u{1b}]52;c;eA==\u{7}",
            "\u{18}",
            "\u{1a}",
            "\u{1b}P",
            "\u{1b}[2J",
            "\r\n",
            ";",
            "\u{41b}",
            "\u{107}",
        ])
        .prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_title_of_any_text_sets_the_title_alone(text in hostile_text()) {
        let effects = effects(&TerminalTitle::default().set(TitleState::Working, &text));
        let titles: Vec<&str> =
            effects.titles.iter().map(|title| std::str::from_utf8(title).unwrap()).collect();
        // vt100 ignores titles with `;`.
        prop_assert_eq!(titles.len(), usize::from(!text.contains(';')));
        prop_assert!(titles.iter().all(|title| title.starts_with("* crow")));
        prop_assert!(effects.copies.is_empty() && effects.bells == 0);
    }

    #[test]
    fn a_notification_of_any_text_has_no_other_effect(title in hostile_text(), body in hostile_text()) {
        let notification = Notification { title: &title, body: &body };
        for choice in [NotificationChoice::Osc9, NotificationChoice::Osc777, NotificationChoice::Osc99] {
            for variables in ["TERM=xterm", "TERM=tmux TMUX=x", "TERM=screen STY=x"] {
                let sequence = Notifier::new(choice, &environment(variables))
                    .notify(notification, FocusState::Unfocused, Duration::ZERO);
                let effects = effects(&sequence.unwrap());
                prop_assert!(effects.titles.is_empty() && effects.copies.is_empty());
                prop_assert_eq!(effects.bells, 0);
            }
        }
    }

    #[test]
    fn a_copy_of_any_text_fills_the_clipboard_alone(text in hostile_text()) {
        prop_assume!(!text.is_empty());
        let effects = effects(&copy_sequence(&text, Multiplexer::None).unwrap());
        prop_assert_eq!(effects.copies.len(), 1);
        prop_assert!(effects.titles.is_empty() && effects.bells == 0);
    }
}
