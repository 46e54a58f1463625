//! Copies text to the clipboard of the terminal (OSC 52), which works over SSH as well.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{environment::Multiplexer, passthrough::passed_through};

/// Maximum length of a text that is copied, in bytes. Terminals drop sequences that are much longer.
const LONGEST_COPY: usize = 100_000;

/// Reason why a text cannot be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClipboardError {
    /// The text has more than [`LONGEST_COPY`] bytes.
    #[error(
        "the text has {bytes} bytes, and at most {LONGEST_COPY} can be copied; save it to a file instead"
    )]
    TooLong {
        /// Length of the text.
        bytes: usize,
    },
    /// The text is empty: the sequence would empty the clipboard.
    #[error("there is no text to copy")]
    Empty,
}

/// Returns the sequence that copies a text to the clipboard.
///
/// A terminal does not say whether it did so: many ask the user, or have to be allowed it in their settings. Inside tmux the
/// sequence is sent twice: to tmux, which takes it with `set-clipboard on`, and through it, for `allow-passthrough on`.
///
/// # Errors
/// Fails for an empty text, and for one that is longer than [`LONGEST_COPY`].
pub(crate) fn copy_sequence(
    text: &str,
    multiplexer: Multiplexer,
) -> Result<String, ClipboardError> {
    if text.is_empty() {
        return Err(ClipboardError::Empty);
    }
    if text.len() > LONGEST_COPY {
        return Err(ClipboardError::TooLong { bytes: text.len() });
    }
    let sequence = format!("\u{1b}]52;c;{}\u{7}", STANDARD.encode(text));
    let passed = passed_through(&sequence, multiplexer);
    Ok(match multiplexer {
        Multiplexer::Tmux => sequence + &passed,
        Multiplexer::None | Multiplexer::Screen | Multiplexer::Zellij => passed,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_copied_in_the_form_for_the_multiplexer() {
        let table = [
            (Multiplexer::None, "\u{1b}]52;c;aGk=\u{7}"),
            (Multiplexer::Zellij, "\u{1b}]52;c;aGk=\u{7}"),
            (
                Multiplexer::Tmux,
                "\u{1b}]52;c;aGk=\u{7}\u{1b}Ptmux;\u{1b}\u{1b}]52;c;aGk=\u{7}\u{1b}\\",
            ),
            (Multiplexer::Screen, "\u{1b}P\u{1b}]52;c;aGk=\u{7}\u{1b}\\"),
        ];
        for (multiplexer, expected) in table {
            assert_eq!(copy_sequence("hi", multiplexer).unwrap(), expected, "{multiplexer:?}");
        }
    }

    #[test]
    fn a_text_that_is_empty_or_too_long_is_refused() {
        let long = "x".repeat(LONGEST_COPY + 1);
        assert_eq!(
            copy_sequence(&long, Multiplexer::None),
            Err(ClipboardError::TooLong { bytes: LONGEST_COPY + 1 })
        );
        assert!(copy_sequence(&long[1..], Multiplexer::None).is_ok());
        assert_eq!(copy_sequence("", Multiplexer::None), Err(ClipboardError::Empty));
    }

    proptest! {
        #[test]
        fn any_text_is_copied_as_it_is_and_ends_no_sequence(text in "(\\PC|[\u{0}-\u{a0}\u{202e}]|\u{1b}\\\\){1,60}") {
            let sequence = copy_sequence(&text, Multiplexer::None).unwrap();
            let encoded = sequence.strip_prefix("\u{1b}]52;c;").and_then(|rest| rest.strip_suffix('\u{7}'));
            let decoded = STANDARD.decode(encoded.unwrap()).unwrap();
            prop_assert_eq!(decoded, text.into_bytes());
        }
    }
}
