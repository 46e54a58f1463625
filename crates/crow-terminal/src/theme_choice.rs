//! The setting for the theme.

use std::str::FromStr;

use crow_core::config::unknown_word_message;

use crate::{
    bounded_text::bounded_line,
    terminal_control::{BackgroundTone, ColourDepth},
    theme::Theme,
};

/// Maximum width of an unknown name in a message, in columns.
const LONGEST_NAME: usize = 60;

/// The setting for the theme.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThemeChoice {
    /// The theme for the background of the terminal.
    #[default]
    Auto,
    Fixed(Theme),
}

/// The error for an unknown name of a theme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownThemeError {
    message: String,
}

impl ThemeChoice {
    /// The choices and their names.
    pub const NAMES: [(Self, &'static str); 7] = [
        (Self::Auto, "auto"),
        (Self::Fixed(Theme::Dark), "dark"),
        (Self::Fixed(Theme::Light), "light"),
        (Self::Fixed(Theme::Terminal), "terminal"),
        (Self::Fixed(Theme::Monochrome), "mono"),
        (Self::Fixed(Theme::DarkDaltonized), "dark-daltonized"),
        (Self::Fixed(Theme::LightDaltonized), "light-daltonized"),
    ];

    /// Returns the theme for a terminal. Without a choice, the terminal's own 16 colours are used as long as the
    /// background is not known, and where others may not be shown.
    pub(crate) fn theme(self, background: Option<BackgroundTone>, colours: ColourDepth) -> Theme {
        match (self, background, colours) {
            (Self::Fixed(theme), _, _) => theme,
            (Self::Auto, Some(BackgroundTone::Dark), ColourDepth::TrueColour) => Theme::Dark,
            (Self::Auto, Some(BackgroundTone::Light), ColourDepth::TrueColour) => Theme::Light,
            (Self::Auto, None, _) | (Self::Auto, Some(_), ColourDepth::Palette) => Theme::Terminal,
        }
    }
}

impl FromStr for ThemeChoice {
    type Err = UnknownThemeError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(choice, _)| *choice).ok_or_else(|| UnknownThemeError {
            message: unknown_word_message(
                "theme",
                &bounded_line(name, LONGEST_NAME),
                &Self::NAMES.map(|(_, name)| name),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_is_chosen_by_name() {
        for (choice, name) in ThemeChoice::NAMES {
            assert_eq!(name.parse(), Ok(choice));
        }
        let error = "dark-daltonised\u{1b}[2J".parse::<ThemeChoice>().unwrap_err().to_string();
        assert!(
            error.starts_with(
                "unknown theme \"dark-daltonised␛[2J\", did you mean \"dark-daltonized\"?"
            ),
            "{error}"
        );
        assert!(error.ends_with(
            "known are auto, dark, light, terminal, mono, dark-daltonized, light-daltonized"
        ));
    }

    #[test]
    fn without_a_choice_the_background_decides_where_all_colours_are_shown() {
        let table = [
            (None, ColourDepth::TrueColour, Theme::Terminal),
            (Some(BackgroundTone::Dark), ColourDepth::TrueColour, Theme::Dark),
            (Some(BackgroundTone::Light), ColourDepth::TrueColour, Theme::Light),
            (Some(BackgroundTone::Dark), ColourDepth::Palette, Theme::Terminal),
        ];
        for (background, colours, expected) in table {
            assert_eq!(ThemeChoice::Auto.theme(background, colours), expected);
            let fixed = ThemeChoice::Fixed(Theme::LightDaltonized);
            assert_eq!(fixed.theme(background, colours), Theme::LightDaltonized);
        }
    }
}
