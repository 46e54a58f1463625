//! Themes: the colours of texts by their meaning, and the sequences that show them.

use std::fmt::Write as _;

use crate::{
    painted_line::PaintedLine,
    styled_text::{Emphasis, StyledLine, StyledSpan, TextLook, TextRole},
};

/// A colour in 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rgb(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Rgb {
    /// Returns the relative luminance of WCAG 2, from 0 to 1.
    pub(crate) fn luminance(self) -> f64 {
        let [red, green, blue] = [self.0, self.1, self.2].map(linear_part);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

/// Returns a part of a colour without the gamma of sRGB.
fn linear_part(value: u8) -> f64 {
    let value = f64::from(value) / 255.0;
    if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

/// How texts are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Without colours: bold, italic and underlined text alone.
    Monochrome,
    /// The 16 colours that the user chose for the terminal.
    Terminal,
    /// Colours for a dark background.
    Dark,
    /// Colours for a light background.
    Light,
    /// Colours for a dark background, with blue and orange instead of green and red.
    DarkDaltonized,
    /// Colours for a light background, with blue and orange instead of green and red.
    LightDaltonized,
}

/// The colour of a role in a theme of its own colours; `None` for that of the terminal.
fn rgb(theme: Theme, role: TextRole) -> Option<Rgb> {
    let (dark, light) = match role {
        TextRole::Plain | TextRole::Quote => return None,
        TextRole::Dim | TextRole::Comment | TextRole::Marker => {
            (Rgb(0x9a, 0xa0, 0xa6), Rgb(0x5f, 0x63, 0x68))
        }
        TextRole::Accent | TextRole::Link | TextRole::Function => {
            (Rgb(0x6c, 0xb6, 0xff), Rgb(0x09, 0x5a, 0xc0))
        }
        TextRole::Heading | TextRole::Keyword => (Rgb(0xd2, 0xa8, 0xff), Rgb(0x7a, 0x35, 0xb8)),
        TextRole::Code | TextRole::Type => (Rgb(0x76, 0xd9, 0xc4), Rgb(0x0b, 0x66, 0x59)),
        TextRole::StringLiteral => (Rgb(0xa5, 0xd6, 0x7b), Rgb(0x3a, 0x69, 0x0c)),
        TextRole::Number => (Rgb(0xff, 0xb4, 0x6b), Rgb(0x99, 0x4a, 0x00)),
        TextRole::Added | TextRole::AddedWord | TextRole::Success => {
            (Rgb(0x57, 0xd3, 0x7a), Rgb(0x1a, 0x6b, 0x34))
        }
        TextRole::Removed | TextRole::RemovedWord | TextRole::Error => {
            (Rgb(0xff, 0x8b, 0x84), Rgb(0xb4, 0x23, 0x18))
        }
        TextRole::Warning => (Rgb(0xe3, 0xb3, 0x41), Rgb(0x85, 0x59, 0x00)),
    };
    match theme {
        Theme::Dark => Some(dark),
        Theme::Light => Some(light),
        Theme::DarkDaltonized => Some(daltonized(role).map_or(dark, |(dark, _)| dark)),
        Theme::LightDaltonized => Some(daltonized(role).map_or(light, |(_, light)| light)),
        Theme::Monochrome | Theme::Terminal => None,
    }
}

/// Returns the colours, for a dark and a light background, of a role that would be red, green or close to them, so that
/// people who cannot tell red from green can tell them apart.
fn daltonized(role: TextRole) -> Option<(Rgb, Rgb)> {
    match role {
        TextRole::Added | TextRole::AddedWord | TextRole::Success => {
            Some((Rgb(0x56, 0xb4, 0xe9), Rgb(0x0b, 0x5c, 0xad)))
        }
        TextRole::Removed | TextRole::RemovedWord | TextRole::Error => {
            Some((Rgb(0xff, 0x9e, 0x4a), Rgb(0xa3, 0x47, 0x00)))
        }
        TextRole::Warning => Some((Rgb(0xf0, 0xe4, 0x42), Rgb(0x6b, 0x5a, 0x00))),
        TextRole::Plain
        | TextRole::Dim
        | TextRole::Accent
        | TextRole::Heading
        | TextRole::Code
        | TextRole::Link
        | TextRole::Quote
        | TextRole::Marker
        | TextRole::Keyword
        | TextRole::StringLiteral
        | TextRole::Number
        | TextRole::Comment
        | TextRole::Function
        | TextRole::Type => None,
    }
}

/// The parameter of the terminal's own colour of a role.
fn terminal_colour(role: TextRole) -> Option<&'static str> {
    match role {
        TextRole::Plain | TextRole::Quote | TextRole::Heading => None,
        TextRole::Dim | TextRole::Comment | TextRole::Marker => Some("2"),
        TextRole::Accent | TextRole::Function | TextRole::Code | TextRole::Type => Some("36"),
        TextRole::Link => Some("34"),
        TextRole::Keyword | TextRole::Number => Some("35"),
        TextRole::StringLiteral | TextRole::Added | TextRole::AddedWord | TextRole::Success => {
            Some("32")
        }
        TextRole::Removed | TextRole::RemovedWord | TextRole::Error => Some("31"),
        TextRole::Warning => Some("33"),
    }
}

/// Returns the emphasis that a role has besides its colour.
fn emphasis_of(theme: Theme, role: TextRole) -> Emphasis {
    match role {
        TextRole::Heading => Emphasis::BOLD,
        TextRole::AddedWord | TextRole::RemovedWord => Emphasis::REVERSE,
        TextRole::Accent | TextRole::Error | TextRole::Warning if theme == Theme::Monochrome => {
            Emphasis::BOLD
        }
        TextRole::Link if theme == Theme::Monochrome => Emphasis::UNDERLINE,
        // Orange and dark yellow differ little on a light background.
        TextRole::Error if theme.is_daltonized() => Emphasis::BOLD,
        TextRole::Plain
        | TextRole::Dim
        | TextRole::Accent
        | TextRole::Code
        | TextRole::Link
        | TextRole::Quote
        | TextRole::Marker
        | TextRole::Keyword
        | TextRole::StringLiteral
        | TextRole::Number
        | TextRole::Comment
        | TextRole::Function
        | TextRole::Type
        | TextRole::Added
        | TextRole::Removed
        | TextRole::Success
        | TextRole::Warning
        | TextRole::Error => Emphasis::NONE,
    }
}

/// The parameters of emphasis.
const EMPHASIS: [(Emphasis, &str); 5] = [
    (Emphasis::BOLD, "1"),
    (Emphasis::ITALIC, "3"),
    (Emphasis::UNDERLINE, "4"),
    (Emphasis::REVERSE, "7"),
    (Emphasis::STRIKETHROUGH, "9"),
];

impl Theme {
    /// Returns a line with the sequences for its look.
    pub(crate) fn paint(self, line: &StyledLine) -> PaintedLine {
        let mut text = String::new();
        for span in line.spans() {
            self.paint_span(span, &mut text);
        }
        PaintedLine { text, width: line.width() }
    }

    fn paint_span(self, span: &StyledSpan, output: &mut String) {
        let parameters = self.parameters(&span.look);
        let link = span.look.link.as_deref().filter(|link| self.shows_links() && is_address(link));
        // Writing to a string cannot fail.
        if let Some(link) = link {
            let _ = write!(output, "\u{1b}]8;;{link}\u{1b}\\");
        }
        if parameters.is_empty() {
            output.push_str(&span.text);
        } else {
            let _ = write!(output, "\u{1b}[{}m{}\u{1b}[0m", parameters.join(";"), span.text);
        }
        if link.is_some() {
            output.push_str("\u{1b}]8;;\u{1b}\\");
        }
    }

    fn parameters(self, look: &TextLook) -> Vec<String> {
        let emphasis = look.emphasis.with(emphasis_of(self, look.role));
        let shown = EMPHASIS.iter().filter(|(one, _)| emphasis.contains(*one));
        let mut parameters: Vec<String> = shown.map(|(_, sgr)| (*sgr).to_owned()).collect();
        match self {
            Self::Monochrome => {}
            Self::Terminal => parameters.extend(terminal_colour(look.role).map(str::to_owned)),
            Self::Dark | Self::Light | Self::DarkDaltonized | Self::LightDaltonized => {
                let colour = rgb(self, look.role);
                parameters.extend(
                    colour.map(|Rgb(red, green, blue)| format!("38;2;{red};{green};{blue}")),
                );
            }
        }
        parameters
    }

    fn is_daltonized(self) -> bool {
        matches!(self, Self::DarkDaltonized | Self::LightDaltonized)
    }

    fn shows_links(self) -> bool {
        self != Self::Monochrome
    }
}

/// Returns true for an address that can be part of a sequence: visible ASCII alone.
fn is_address(link: &str) -> bool {
    !link.is_empty() && link.len() <= 2000 && link.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [TextRole; 20] = [
        TextRole::Dim,
        TextRole::Accent,
        TextRole::Heading,
        TextRole::Code,
        TextRole::Link,
        TextRole::Quote,
        TextRole::Marker,
        TextRole::Keyword,
        TextRole::StringLiteral,
        TextRole::Number,
        TextRole::Comment,
        TextRole::Function,
        TextRole::Type,
        TextRole::Added,
        TextRole::Removed,
        TextRole::AddedWord,
        TextRole::RemovedWord,
        TextRole::Success,
        TextRole::Warning,
        TextRole::Error,
    ];

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (one.luminance(), other.luminance());
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_has_the_contrast_of_wcag_aa_on_usual_backgrounds() {
        let dark = [Rgb(0, 0, 0), Rgb(0x1e, 0x1e, 0x1e), Rgb(0x28, 0x2c, 0x34)];
        let light = [Rgb(0xff, 0xff, 0xff), Rgb(0xfa, 0xfa, 0xf0), Rgb(0xee, 0xee, 0xee)];
        for (theme, backgrounds) in [
            (Theme::Dark, dark),
            (Theme::DarkDaltonized, dark),
            (Theme::Light, light),
            (Theme::LightDaltonized, light),
        ] {
            for role in ROLES {
                for background in backgrounds {
                    let Some(colour) = rgb(theme, role) else { continue };
                    let contrast = contrast(colour, background);
                    assert!(contrast >= 4.5, "{theme:?} {role:?} {background:?}: {contrast:.2}");
                }
            }
        }
    }

    /// Linear RGB of what a person without the cones for red or green sees (Machado, Oliveira and Fernandes 2009).
    const RED_BLINDNESS: [[f64; 3]; 3] = [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ];
    const GREEN_BLINDNESS: [[f64; 3]; 3] = [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ];

    /// Returns a colour as a person sees it, in CIE L*a*b*.
    fn perceived(Rgb(red, green, blue): Rgb, vision: [[f64; 3]; 3]) -> [f64; 3] {
        let linear = [red, green, blue].map(linear_part);
        let product = |row: [f64; 3]| -> f64 {
            row.iter().zip(linear).map(|(factor, value)| factor * value).sum()
        };
        let [red, green, blue] = vision.map(|row| product(row).clamp(0.0, 1.0));
        let root = |value: f64| {
            if value > 0.008_856 { value.cbrt() } else { 7.787 * value + 16.0 / 116.0 }
        };
        let x = root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.950_47);
        let y = root(0.2126 * red + 0.7152 * green + 0.0722 * blue);
        let z = root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    fn distance(one: [f64; 3], other: [f64; 3]) -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn daltonized_themes_tell_added_from_removed_without_red_or_green() {
        let pairs = [(TextRole::Added, TextRole::Removed), (TextRole::Success, TextRole::Error)];
        for theme in [Theme::DarkDaltonized, Theme::LightDaltonized] {
            for (one, other) in pairs {
                for vision in [RED_BLINDNESS, GREEN_BLINDNESS] {
                    let colours = [one, other].map(|role| rgb(theme, role).unwrap());
                    let [one, other] = colours.map(|colour| perceived(colour, vision));
                    let distance = distance(one, other);
                    assert!(distance >= 60.0, "{theme:?} {colours:?}: {distance:.1}");
                }
            }
        }
    }

    #[test]
    fn daltonized_themes_tell_errors_from_warnings_by_weight() {
        for theme in [Theme::DarkDaltonized, Theme::LightDaltonized] {
            assert_eq!(emphasis_of(theme, TextRole::Error), Emphasis::BOLD);
            assert_eq!(emphasis_of(theme, TextRole::Warning), Emphasis::NONE);
        }
    }

    #[test]
    fn a_line_is_painted_by_its_roles() {
        let mut line = StyledLine::default();
        line.push("see ", TextRole::Plain);
        let address = Some("https://example.org".into());
        line.push("here", TextLook { role: TextRole::Link, link: address, ..TextLook::default() });
        assert_eq!(
            Theme::Terminal.paint(&line).text,
            "see \u{1b}]8;;https://example.org\u{1b}\\\u{1b}[34mhere\u{1b}[0m\u{1b}]8;;\u{1b}\\"
        );
        assert_eq!(Theme::Monochrome.paint(&line).text, "see \u{1b}[4mhere\u{1b}[0m");
        assert_eq!(Theme::Dark.paint(&line).width, 8);
    }

    #[test]
    fn an_address_that_could_end_its_sequence_is_left_out() {
        for address in ["https://a\u{1b}\\b", "https://a b", "https://ä", "", "a\u{7}"] {
            let mut line = StyledLine::default();
            line.push("x", TextLook { link: Some(address.into()), ..TextLook::default() });
            assert_eq!(Theme::Dark.paint(&line).text, "x");
        }
    }
}
