//! The background of the terminal: light or dark.
//!
//! Most terminals tell its colour when they are asked (OSC 11), and those that do not stay silent. A second query that
//! every terminal answers, for its attributes, follows the first one: if its answer comes alone, there will be none. A
//! terminal that answers neither is given up at a deadline. Nothing waits for any of this.

use std::time::Instant;

use super::environment::TerminalEnvironment;
use crate::theme::Rgb;

/// The queries for the colour of the background and for the attributes of the terminal.
const BACKGROUND_QUERY: &str = "\u{1b}]11;?\u{1b}\\\u{1b}[c";

/// The luminance (WCAG 2) on which black and white text have the same contrast.
const MIDDLE_LUMINANCE: f64 = 0.179;

/// The kind of background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackgroundTone {
    /// Dark text is more legible on it.
    Light,
    /// Light text is more legible on it.
    Dark,
}

impl From<Rgb> for BackgroundTone {
    fn from(colour: Rgb) -> Self {
        if colour.luminance() > MIDDLE_LUMINANCE { Self::Light } else { Self::Dark }
    }
}

impl BackgroundTone {
    /// Reads the variable `COLORFGBG`: numbers of colours, of which the last one is the background. Returns `None` if it
    /// has none, as `15;default`.
    pub(crate) fn from_colorfgbg(value: &str) -> Option<Self> {
        let (_, background) = value.rsplit_once(';')?;
        match background.parse::<u32>().ok()? {
            0..=6 | 8 => Some(Self::Dark),
            7 | 9..=15 => Some(Self::Light),
            16.. => None,
        }
    }
}

/// The state of the question for the background.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum BackgroundQuery {
    #[default]
    NotAsked,
    /// The terminal was asked, and may answer up to the deadline.
    Asked {
        deadline: Instant,
    },
    Known(BackgroundTone),
    /// The terminal answered the second query alone, or nothing up to the deadline.
    NoAnswer,
}

impl BackgroundQuery {
    /// Returns what asks the terminal. An answer up to the deadline counts.
    pub(crate) fn ask(&mut self, deadline: Instant) -> &'static str {
        *self = Self::Asked { deadline };
        BACKGROUND_QUERY
    }

    /// Takes the bytes of an answer of the terminal to any query. Returns the background if it became known or changed. An
    /// answer that comes late counts as well.
    pub(crate) fn on_reply(&mut self, reply: &[u8]) -> Option<BackgroundTone> {
        if let Some(colour) = parse_background_reply(reply) {
            let tone = BackgroundTone::from(colour);
            let is_new = *self != Self::Known(tone);
            *self = Self::Known(tone);
            return is_new.then_some(tone);
        }
        if is_attributes_reply(reply) && matches!(self, Self::Asked { .. }) {
            *self = Self::NoAnswer;
        }
        None
    }

    /// Takes the time into account: after the deadline there is no answer. Returns true if that is so now.
    pub(crate) fn on_time(&mut self, now: Instant) -> bool {
        match self {
            Self::Asked { deadline } if now >= *deadline => {
                *self = Self::NoAnswer;
                true
            }
            Self::NotAsked | Self::Asked { .. } | Self::Known(_) | Self::NoAnswer => false,
        }
    }

    /// Returns the background as far as it is known: what the terminal answered or, if it does not answer, what the
    /// environment says.
    pub(crate) fn tone(self, environment: &TerminalEnvironment) -> Option<BackgroundTone> {
        match self {
            Self::NotAsked | Self::Asked { .. } => None,
            Self::Known(tone) => Some(tone),
            Self::NoAnswer => environment.background(),
        }
    }
}

/// Returns the colour in an answer to the query for the background: `rgb:` or `rgba:` with one to four hexadecimal digits
/// for each part. `None` for any other bytes.
fn parse_background_reply(reply: &[u8]) -> Option<Rgb> {
    let reply = std::str::from_utf8(reply).ok()?;
    let content = reply.strip_prefix("\u{1b}]11;")?;
    let content = content.strip_suffix('\u{7}').or_else(|| content.strip_suffix("\u{1b}\\"))?;
    let (kind, values) = content.split_once(':')?;
    let parts: Vec<u8> = values.split('/').map(parse_part).collect::<Option<_>>()?;
    match (kind, parts.as_slice()) {
        ("rgb", [red, green, blue]) | ("rgba", [red, green, blue, _]) => {
            Some(Rgb(*red, *green, *blue))
        }
        _ => None,
    }
}

/// Returns a part of a colour, scaled from its number of digits to a byte.
fn parse_part(digits: &str) -> Option<u8> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_number || digits.len() > 4 {
        return None;
    }
    let value = u32::from_str_radix(digits, 16).ok()?;
    let most = (1_u32 << (4 * digits.len())) - 1;
    u8::try_from((value * 255 + most / 2) / most).ok()
}

/// Returns true for an answer to the query for the attributes: `ESC [ ? … c`.
fn is_attributes_reply(reply: &[u8]) -> bool {
    reply.starts_with(b"\x1b[?") && reply.ends_with(b"c")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{super::tests::environment, *};
    use crate::{input_decoder::InputDecoder, keys::InputEvent};

    #[test]
    fn an_answer_has_one_to_four_digits_for_each_part() {
        let table = [
            ("\u{1b}]11;rgb:0000/0000/0000\u{1b}\\", Some(Rgb(0, 0, 0))),
            ("\u{1b}]11;rgb:ffff/FFFF/ffff\u{7}", Some(Rgb(255, 255, 255))),
            ("\u{1b}]11;rgb:2828/2c2c/3434\u{7}", Some(Rgb(0x28, 0x2c, 0x34))),
            ("\u{1b}]11;rgb:28/2c/34\u{7}", Some(Rgb(0x28, 0x2c, 0x34))),
            ("\u{1b}]11;rgb:f/0/8\u{7}", Some(Rgb(255, 0, 0x88))),
            ("\u{1b}]11;rgb:fff/000/800\u{7}", Some(Rgb(255, 0, 128))),
            ("\u{1b}]11;rgba:ffff/0000/8080/cccc\u{7}", Some(Rgb(255, 0, 128))),
            ("\u{1b}]11;rgba:ff/00/80\u{7}", None),
            ("\u{1b}]11;rgb:ff/00/80/00\u{7}", None),
            ("\u{1b}]11;rgb:ff/00\u{7}", None),
            ("\u{1b}]11;rgb:fffff/0/0\u{7}", None),
            ("\u{1b}]11;rgb:+f/0/0\u{7}", None),
            ("\u{1b}]11;rgb:/0/0\u{7}", None),
            ("\u{1b}]11;rgb:g/0/0\u{7}", None),
            ("\u{1b}]11;cmyk:0/0/0\u{7}", None),
            ("\u{1b}]11;?\u{7}", None),
            ("\u{1b}]11;rgb:0/0/0", None),
            ("\u{1b}]10;rgb:0/0/0\u{7}", None),
            ("\u{1b}]111;rgb:0/0/0\u{7}", None),
            ("", None),
        ];
        for (reply, expected) in table {
            assert_eq!(parse_background_reply(reply.as_bytes()), expected, "{reply:?}");
        }
        assert_eq!(parse_background_reply(b"\x1b]11;rgb:\xff/0/0\x07"), None);
    }

    #[test]
    fn a_background_is_light_or_dark_by_the_text_that_is_legible_on_it() {
        let table = [
            (Rgb(0, 0, 0), BackgroundTone::Dark),
            (Rgb(0x28, 0x2c, 0x34), BackgroundTone::Dark),
            (Rgb(0x00, 0x2b, 0x36), BackgroundTone::Dark),
            (Rgb(0x00, 0x00, 0xff), BackgroundTone::Dark),
            (Rgb(0x60, 0x60, 0x60), BackgroundTone::Dark),
            (Rgb(0x90, 0x90, 0x90), BackgroundTone::Light),
            (Rgb(0xfd, 0xf6, 0xe3), BackgroundTone::Light),
            (Rgb(0xff, 0xff, 0xff), BackgroundTone::Light),
        ];
        for (colour, expected) in table {
            assert_eq!(BackgroundTone::from(colour), expected, "{colour:?}");
        }
    }

    #[test]
    fn the_variable_ends_with_the_number_of_the_background() {
        let table = [
            ("15;0", Some(BackgroundTone::Dark)),
            ("0;15", Some(BackgroundTone::Light)),
            ("12;8", Some(BackgroundTone::Dark)),
            ("0;7", Some(BackgroundTone::Light)),
            ("15;default;0", Some(BackgroundTone::Dark)),
            ("15;default", None),
            ("15;16", None),
            ("0", None),
            ("", None),
            ("15;-1", None),
        ];
        for (value, expected) in table {
            assert_eq!(BackgroundTone::from_colorfgbg(value), expected, "{value:?}");
        }
    }

    /// Sends bytes of a terminal through the decoder, and returns the query after them.
    fn after(deadline: Instant, bytes: &[u8]) -> BackgroundQuery {
        let mut query = BackgroundQuery::default();
        assert_eq!(query.ask(deadline), "\u{1b}]11;?\u{1b}\\\u{1b}[c");
        for event in InputDecoder::default().push(bytes) {
            if let InputEvent::Reply(reply) = event {
                query.on_reply(&reply);
            }
        }
        query
    }

    #[test]
    fn the_answer_of_the_attributes_alone_means_that_there_is_no_other() {
        let deadline = Instant::now() + Duration::from_secs(1);
        let dark = BackgroundQuery::Known(BackgroundTone::Dark);
        let table: [(&[u8], BackgroundQuery); 6] = [
            (b"", BackgroundQuery::Asked { deadline }),
            (b"\x1b[?62;c", BackgroundQuery::NoAnswer),
            (b"\x1b]11;rgb:0/0/0\x07\x1b[?62;c", dark),
            (b"abc\x1b]11;rgb:0/0/0\x1b\\d\x1b[?1;2c", dark),
            // An answer that is late, and answers to other queries.
            (b"\x1b[?1;2c\x1b]11;rgb:0/0/0\x07", dark),
            (b"\x1b[?2026;2$y\x1b[3;4R", BackgroundQuery::Asked { deadline }),
        ];
        for (bytes, expected) in table {
            assert_eq!(after(deadline, bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_terminal_that_answers_nothing_is_given_up_at_the_deadline() {
        let start = Instant::now();
        let deadline = start + Duration::from_millis(200);
        let mut query = BackgroundQuery::default();
        assert!(!query.on_time(deadline));
        query.ask(deadline);
        assert!(!query.on_time(start));
        assert_eq!(query, BackgroundQuery::Asked { deadline });
        assert!(query.on_time(deadline));
        assert!(!query.on_time(deadline));
        assert_eq!(query, BackgroundQuery::NoAnswer);
    }

    #[test]
    fn a_background_is_told_once() {
        let mut query = BackgroundQuery::default();
        assert_eq!(query.on_reply(b"\x1b]11;rgb:f/f/f\x07"), Some(BackgroundTone::Light));
        assert_eq!(query.on_reply(b"\x1b]11;rgb:e/e/e\x07"), None);
        assert_eq!(query.on_reply(b"\x1b]11;rgb:0/0/0\x07"), Some(BackgroundTone::Dark));
    }

    #[test]
    fn the_variable_counts_only_without_an_answer() {
        let light = environment("COLORFGBG=0;15");
        let unknown = environment("TERM=xterm");
        let asked = BackgroundQuery::Asked { deadline: Instant::now() };
        assert_eq!(BackgroundQuery::NotAsked.tone(&light), None);
        assert_eq!(asked.tone(&light), None);
        assert_eq!(BackgroundQuery::NoAnswer.tone(&light), Some(BackgroundTone::Light));
        assert_eq!(BackgroundQuery::NoAnswer.tone(&unknown), None);
        let dark = BackgroundQuery::Known(BackgroundTone::Dark);
        assert_eq!(dark.tone(&light), Some(BackgroundTone::Dark));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut reply = b"\x1b]11;rgb:".to_vec();
            reply.extend(bytes);
            reply.push(7);
            BackgroundQuery::default().on_reply(&reply);
        }

        #[test]
        fn an_answer_of_a_terminal_is_its_colour(red: u8, green: u8, blue: u8) {
            let part = |value: u8| format!("{value:02x}{value:02x}");
            let reply = format!("\u{1b}]11;rgb:{}/{}/{}\u{7}", part(red), part(green), part(blue));
            prop_assert_eq!(parse_background_reply(reply.as_bytes()), Some(Rgb(red, green, blue)));
        }
    }
}
