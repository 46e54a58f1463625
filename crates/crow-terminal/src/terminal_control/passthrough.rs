//! Sequences that a multiplexer hands to the terminal around it.
//!
//! A multiplexer obeys the sequences that it knows and drops the others, unless they are the content of a device control
//! string of its own: `ESC P tmux; … ESC \` with every ESC doubled for tmux, which needs `allow-passthrough on`, and
//! `ESC P … ESC \` for GNU screen, which cuts longer strings.

use super::environment::Multiplexer;

/// Maximum number of bytes that are handed to GNU screen at once; its own limit is 768.
const SCREEN_CHUNK: usize = 512;

/// Returns a sequence in the form in which it reaches the terminal. It ends with BEL: the end of a string in it would
/// end that of GNU screen, too.
pub(super) fn passed_through(sequence: &str, multiplexer: Multiplexer) -> String {
    debug_assert!(!sequence.contains("\u{1b}\\"), "ends with BEL");
    match multiplexer {
        Multiplexer::None | Multiplexer::Zellij => sequence.to_owned(),
        Multiplexer::Tmux => {
            format!("\u{1b}Ptmux;{}\u{1b}\\", sequence.replace('\u{1b}', "\u{1b}\u{1b}"))
        }
        Multiplexer::Screen => {
            // In UTF-8, screen keeps only the low byte of other characters, which may be a control character.
            let ascii: String = sequence
                .chars()
                .map(|character| if character.is_ascii() { character } else { '?' })
                .collect();
            let mut output = String::new();
            let mut rest = ascii.as_str();
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(rest.len().min(SCREEN_CHUNK));
                output.push_str("\u{1b}P");
                output.push_str(chunk);
                output.push_str("\u{1b}\\");
                rest = after;
            }
            output
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_wrapped_for_the_multiplexer() {
        let sequence = "\u{1b}]9;é\u{7}";
        let table = [
            (Multiplexer::None, "\u{1b}]9;é\u{7}"),
            (Multiplexer::Zellij, "\u{1b}]9;é\u{7}"),
            (Multiplexer::Tmux, "\u{1b}Ptmux;\u{1b}\u{1b}]9;é\u{7}\u{1b}\\"),
            (Multiplexer::Screen, "\u{1b}P\u{1b}]9;?\u{7}\u{1b}\\"),
        ];
        for (multiplexer, expected) in table {
            assert_eq!(passed_through(sequence, multiplexer), expected, "{multiplexer:?}");
        }
    }

    #[test]
    fn a_long_sequence_is_handed_to_screen_in_parts() {
        let sequence = format!("\u{1b}]52;c;{}\u{7}", "A".repeat(2000));
        let output = passed_through(&sequence, Multiplexer::Screen);
        let parts: Vec<&str> = output
            .split_terminator("\u{1b}\\")
            .map(|part| part.strip_prefix("\u{1b}P").unwrap())
            .collect();
        assert_eq!(parts.concat(), sequence);
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= SCREEN_CHUNK));
    }
}
