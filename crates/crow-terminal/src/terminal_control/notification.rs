//! Notifications of the desktop that a terminal shows when the user is needed.
//!
//! Terminals have three sequences for them, and none of them answers. The bell follows where it is not certain that the
//! sequence is understood, so that the user is not left without any sign.

use std::{str::FromStr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::config::unknown_word_message;

use super::{
    environment::{Multiplexer, TerminalEnvironment, TerminalProgram},
    passthrough::passed_through,
};
use crate::{bounded_text::bounded_line, keys::InputEvent};

const BELL: &str = "\u{7}";
/// Maximum width of the title and of the body, in columns.
const LONGEST_TITLE: usize = 60;
const LONGEST_BODY: usize = 200;
/// Duration of a run after which the user is notified although the terminal may have the focus.
const LONG_RUN: Duration = Duration::from_secs(20);

/// Whether the terminal has the keyboard focus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum FocusState {
    /// The terminal has not reported it.
    #[default]
    Unknown,
    Focused,
    Unfocused,
}

impl FocusState {
    /// Takes a report of the terminal; other events change nothing.
    pub(crate) fn on_event(&mut self, event: &InputEvent) {
        match event {
            InputEvent::FocusGained => *self = Self::Focused,
            InputEvent::FocusLost => *self = Self::Unfocused,
            InputEvent::Key(_)
            | InputEvent::Paste(_)
            | InputEvent::Reply(_)
            | InputEvent::Unknown => {}
        }
    }

    /// Returns true if the user is to be notified at the end of a run of this duration, or of a question in it.
    fn needs_notification(self, run: Duration) -> bool {
        match self {
            Self::Unknown => run > LONG_RUN,
            Self::Focused => false,
            Self::Unfocused => true,
        }
    }
}

/// The setting for notifications.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotificationChoice {
    /// The sequence that the terminal understands, or the bell.
    #[default]
    Auto,
    /// OSC 9, which iTerm2 introduced.
    Osc9,
    /// OSC 777, which rxvt-unicode introduced.
    Osc777,
    /// OSC 99, which kitty introduced.
    Osc99,
    Bell,
    Off,
}

/// The error for an unknown name of a [`NotificationChoice`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownNotificationError {
    message: String,
}

impl NotificationChoice {
    /// The choices and their names.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::Auto, "auto"),
        (Self::Osc9, "osc9"),
        (Self::Osc777, "osc777"),
        (Self::Osc99, "osc99"),
        (Self::Bell, "bell"),
        (Self::Off, "off"),
    ];
}

impl FromStr for NotificationChoice {
    type Err = UnknownNotificationError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(choice, _)| *choice).ok_or_else(|| UnknownNotificationError {
            message: unknown_word_message(
                "notification",
                &bounded_line(name, LONGEST_TITLE),
                &Self::NAMES.map(|(_, name)| name),
            ),
        })
    }
}

/// A message for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification<'a> {
    pub(crate) title: &'a str,
    /// May be empty.
    pub(crate) body: &'a str,
}

/// The sequence of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotificationSequence {
    Osc9,
    Osc777,
    Osc99,
}

/// Makes notifications in the form that the terminal understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notifier {
    sequence: Option<NotificationSequence>,
    /// The bell, or nothing.
    bell: &'static str,
    multiplexer: Multiplexer,
}

impl Notifier {
    /// Chooses the form for a setting and a terminal.
    pub(crate) fn new(choice: NotificationChoice, environment: &TerminalEnvironment) -> Self {
        let multiplexer = environment.multiplexer();
        let chosen = |sequence| Self { sequence: Some(sequence), bell: "", multiplexer };
        match choice {
            NotificationChoice::Auto => Self::automatic(environment),
            NotificationChoice::Osc9 => chosen(NotificationSequence::Osc9),
            NotificationChoice::Osc777 => chosen(NotificationSequence::Osc777),
            NotificationChoice::Osc99 => chosen(NotificationSequence::Osc99),
            NotificationChoice::Bell => Self { sequence: None, bell: BELL, multiplexer },
            NotificationChoice::Off => Self { sequence: None, bell: "", multiplexer },
        }
    }

    fn automatic(environment: &TerminalEnvironment) -> Self {
        let multiplexer = environment.multiplexer();
        let program = environment.program();
        let sequence = match program {
            // It hands no sequence on.
            _ if multiplexer == Multiplexer::Zellij => None,
            TerminalProgram::Kitty => Some(NotificationSequence::Osc99),
            TerminalProgram::ITerm | TerminalProgram::Warp => Some(NotificationSequence::Osc9),
            TerminalProgram::WezTerm
            | TerminalProgram::Ghostty
            | TerminalProgram::Foot
            | TerminalProgram::Vte
            | TerminalProgram::Rxvt => Some(NotificationSequence::Osc777),
            TerminalProgram::Other => None,
        };
        // VTE has it in some distributions only, and rxvt-unicode with an extension.
        let is_optional = matches!(program, TerminalProgram::Vte | TerminalProgram::Rxvt);
        let is_certain = sequence.is_some() && !is_optional && environment.is_program_certain();
        Self { sequence, bell: if is_certain { "" } else { BELL }, multiplexer }
    }

    /// Returns what notifies the user, who is needed after a run of this duration; nothing if the terminal has the focus,
    /// or may have it and the run was short, or notifications are off.
    pub(crate) fn notify(
        &self,
        notification: Notification<'_>,
        focus: FocusState,
        run: Duration,
    ) -> Option<String> {
        if !focus.needs_notification(run) {
            return None;
        }
        let sequence = self
            .sequence
            .map(|sequence| passed_through(&encoded(sequence, notification), self.multiplexer));
        let output = sequence.unwrap_or_default() + self.bell;
        (!output.is_empty()).then_some(output)
    }
}

/// Returns the sequence of a notification.
fn encoded(sequence: NotificationSequence, notification: Notification<'_>) -> String {
    // `;` separates the parts of a sequence.
    let title = bounded_line(notification.title, LONGEST_TITLE).replace(';', ",");
    let body = bounded_line(notification.body, LONGEST_BODY).replace(';', ",");
    match sequence {
        NotificationSequence::Osc9 if body.is_empty() => format!("\u{1b}]9;{title}\u{7}"),
        NotificationSequence::Osc9 => format!("\u{1b}]9;{title}: {body}\u{7}"),
        NotificationSequence::Osc777 => format!("\u{1b}]777;notify;{title};{body}\u{7}"),
        NotificationSequence::Osc99 => {
            // A notification with the same identifier replaces the one before; `e=1` is base64, and `d=0` says that
            // more follows.
            let title = STANDARD.encode(title);
            if body.is_empty() {
                format!("\u{1b}]99;i=crow:e=1;{title}\u{7}")
            } else {
                let body = STANDARD.encode(body);
                format!(
                    "\u{1b}]99;i=crow:e=1:d=0;{title}\u{7}\u{1b}]99;i=crow:e=1:p=body;{body}\u{7}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::environment, *};
    use crate::keys::Key;

    const QUESTION: Notification<'_> = Notification { title: "crow", body: "run cargo test?" };

    /// Returns what notifies of [`QUESTION`] while the terminal has no focus.
    fn notify(choice: NotificationChoice, variables: &str) -> Option<String> {
        Notifier::new(choice, &environment(variables)).notify(
            QUESTION,
            FocusState::Unfocused,
            Duration::ZERO,
        )
    }

    const OSC9: &str = "\u{1b}]9;crow: run cargo test?\u{7}";
    const OSC777: &str = "\u{1b}]777;notify;crow;run cargo test?\u{7}";
    const OSC99: &str = "\u{1b}]99;i=crow:e=1:d=0;Y3Jvdw==\u{7}\u{1b}]99;i=crow:e=1:p=body;cnVuIGNhcmdvIHRlc3Q/\u{7}";

    #[test]
    fn the_form_is_chosen_by_the_terminal() {
        let bell = |sequence: &str| format!("{sequence}\u{7}");
        let table = [
            ("TERM=xterm-256color", bell("")),
            ("TERM=linux", bell("")),
            ("TERM=dumb", bell("")),
            ("TERM=xterm-256color TERM_PROGRAM=Apple_Terminal", bell("")),
            ("TERM=xterm-256color TERM_PROGRAM=vscode", bell("")),
            ("TERM=xterm-kitty KITTY_WINDOW_ID=1", OSC99.to_owned()),
            ("TERM=xterm-kitty SSH_CONNECTION=x", OSC99.to_owned()),
            ("TERM=xterm-256color TERM_PROGRAM=WezTerm WEZTERM_PANE=0", OSC777.to_owned()),
            ("TERM=xterm-ghostty", OSC777.to_owned()),
            ("TERM=foot", OSC777.to_owned()),
            ("TERM=xterm-256color TERM_PROGRAM=iTerm.app", OSC9.to_owned()),
            ("TERM=xterm-256color TERM_PROGRAM=WarpTerminal", OSC9.to_owned()),
            // Not certain.
            ("TERM=xterm-256color VTE_VERSION=7600", bell(OSC777)),
            ("TERM=rxvt-unicode-256color", bell(OSC777)),
            ("TERM=xterm-256color LC_TERMINAL=iTerm2 SSH_TTY=/dev/pts/1", bell(OSC9)),
            ("TERM=xterm-256color SSH_TTY=/dev/pts/1", bell("")),
            ("TERM=xterm-kitty ZELLIJ=0", bell("")),
            ("TERM=tmux-256color TMUX=/t,1,0 TERM_PROGRAM=tmux", bell("")),
            (
                "TERM=tmux-256color TMUX=/t,1,0 TERM_PROGRAM=tmux VTE_VERSION=7600",
                bell(&format!("\u{1b}Ptmux;\u{1b}{OSC777}\u{1b}\\")),
            ),
            (
                "TERM=screen STY=1.pts TERM_PROGRAM=iTerm.app",
                bell(&format!("\u{1b}P{OSC9}\u{1b}\\")),
            ),
        ];
        for (variables, expected) in table {
            assert_eq!(notify(NotificationChoice::Auto, variables), Some(expected), "{variables}");
        }
    }

    #[test]
    fn a_setting_is_obeyed_on_every_terminal() {
        let table = [
            ("osc9", Some(OSC9)),
            ("osc777", Some(OSC777)),
            ("osc99", Some(OSC99)),
            ("bell", Some("\u{7}")),
            ("off", None),
        ];
        for (name, expected) in table {
            for variables in ["TERM=xterm", "TERM=xterm-kitty", "TERM=xterm VTE_VERSION=1"] {
                let choice = name.parse().unwrap();
                assert_eq!(notify(choice, variables).as_deref(), expected, "{name} {variables}");
            }
        }
        let in_tmux = notify(NotificationChoice::Osc9, "TERM=tmux TMUX=x").unwrap();
        assert_eq!(in_tmux, format!("\u{1b}Ptmux;\u{1b}{OSC9}\u{1b}\\"));
        assert_eq!(notify(NotificationChoice::Bell, "TERM=tmux TMUX=x").unwrap(), "\u{7}");
    }

    #[test]
    fn an_unknown_setting_names_the_known_ones() {
        let error = "osc8\u{1b}[2J".parse::<NotificationChoice>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown notification \"osc8␛[2J\"; known are auto, osc9, osc777, osc99, bell, off"
        );
        let error = "atuo".parse::<NotificationChoice>().unwrap_err();
        assert!(error.to_string().contains("did you mean \"auto\"?"), "{error}");
    }

    #[test]
    fn the_user_is_notified_without_the_focus_or_after_a_long_run() {
        let table = [
            (FocusState::Unfocused, 0, true),
            (FocusState::Focused, 3600, false),
            (FocusState::Unknown, 20, false),
            (FocusState::Unknown, 21, true),
        ];
        let notifier = Notifier::new(NotificationChoice::Bell, &environment(""));
        for (focus, seconds, expected) in table {
            let output = notifier.notify(QUESTION, focus, Duration::from_secs(seconds));
            assert_eq!(output.is_some(), expected, "{focus:?} {seconds}");
        }
    }

    #[test]
    fn the_focus_follows_the_reports_of_the_terminal() {
        let mut focus = FocusState::default();
        let steps = [
            (InputEvent::Key(Key::char('a')), FocusState::Unknown),
            (InputEvent::FocusLost, FocusState::Unfocused),
            (InputEvent::Unknown, FocusState::Unfocused),
            (InputEvent::FocusGained, FocusState::Focused),
        ];
        for (event, expected) in steps {
            focus.on_event(&event);
            assert_eq!(focus, expected, "{event:?}");
        }
    }

    #[test]
    fn a_text_cannot_end_its_sequence_or_add_a_part() {
        let hostile = "a;b\u{1b}\\c\u{7}d\u{9c}e\nf\u{202e}g\u{0}h";
        let harmless = "a,b␛\\c␇d\\u{9c}e f\\u{202e}g␀h";
        let notification = Notification { title: hostile, body: hostile };
        let text = |sequence| encoded(sequence, notification);
        assert_eq!(
            text(NotificationSequence::Osc9),
            format!("\u{1b}]9;{harmless}: {harmless}\u{7}")
        );
        assert_eq!(
            text(NotificationSequence::Osc777),
            format!("\u{1b}]777;notify;{harmless};{harmless}\u{7}")
        );
        let encoded = STANDARD.encode(harmless);
        assert_eq!(
            text(NotificationSequence::Osc99),
            format!(
                "\u{1b}]99;i=crow:e=1:d=0;{encoded}\u{7}\u{1b}]99;i=crow:e=1:p=body;{encoded}\u{7}"
            )
        );
    }

    #[test]
    fn no_byte_of_a_text_is_a_control_character_behind_screen() {
        // The low byte of U+041B is that of ESC.
        let notification = Notification { title: "\u{41b}", body: "\u{107}" };
        let output = Notifier::new(NotificationChoice::Osc9, &environment("TERM=screen STY=1"))
            .notify(notification, FocusState::Unfocused, Duration::ZERO);
        assert_eq!(output.as_deref(), Some("\u{1b}P\u{1b}]9;?: ?\u{7}\u{1b}\\"));
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "漢\u{301}".repeat(5000);
        let notification = Notification { title: &long, body: &long };
        for sequence in
            [NotificationSequence::Osc9, NotificationSequence::Osc777, NotificationSequence::Osc99]
        {
            let length = encoded(sequence, notification).len();
            assert!(length < 1500, "{sequence:?} {length}");
        }
    }
}
