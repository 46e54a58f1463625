//! The attention of the user: the title of the terminal, notifications, and the background that the theme depends on.

use std::time::{Duration, Instant};

use super::chat_loop::ChatLoop;
use crate::{
    keys::InputEvent,
    terminal_control::{
        BackgroundQuery, FocusState, Multiplexer, Notification, Notifier, TerminalEnvironment,
        TerminalTitle, TitleState,
    },
    theme::Theme,
    theme_choice::ThemeChoice,
};

/// Time the terminal may take to tell its background.
const BACKGROUND_WAIT: Duration = Duration::from_secs(2);

/// State of what reaches the user outside the text.
#[derive(Debug)]
pub(super) struct UserAttention {
    environment: TerminalEnvironment,
    theme: ThemeChoice,
    background: BackgroundQuery,
    title: TerminalTitle,
    state: TitleState,
    notifier: Notifier,
    focus: FocusState,
    /// Time of the last change from idle to working.
    since: Instant,
}

impl UserAttention {
    pub(super) fn new(
        environment: TerminalEnvironment,
        theme: ThemeChoice,
        notifier: Notifier,
    ) -> Self {
        Self {
            environment,
            theme,
            background: BackgroundQuery::default(),
            title: TerminalTitle::default(),
            state: TitleState::Idle,
            notifier,
            focus: FocusState::default(),
            since: Instant::now(),
        }
    }

    /// Returns the theme as far as the background is known.
    pub(super) fn current_theme(&self) -> Theme {
        let tone = self.background.tone(&self.environment);
        self.theme.theme(tone, self.environment.colours())
    }

    /// Returns the multiplexer that the terminal runs in.
    pub(super) fn multiplexer(&self) -> Multiplexer {
        self.environment.multiplexer()
    }

    /// Changes the choice of the theme; returns the theme.
    pub(super) fn choose_theme(&mut self, choice: ThemeChoice) -> Theme {
        self.theme = choice;
        self.current_theme()
    }
}

impl ChatLoop {
    /// Asks the terminal for its background, if the theme depends on it.
    pub(super) fn ask_background(&mut self) {
        if !self.is_coloured || self.attention.theme != ThemeChoice::Auto {
            return;
        }
        let query = self.attention.background.ask(Instant::now() + BACKGROUND_WAIT);
        self.screen.push_action(move |screen| screen.send_sequences(query));
    }

    /// Takes reports of the terminal: the focus, and its background.
    pub(super) fn on_report(&mut self, event: &InputEvent) {
        self.attention.focus.on_event(event);
        if let InputEvent::Reply(reply) = event
            && self.attention.background.on_reply(reply).is_some()
        {
            self.show_theme();
        }
    }

    /// Takes the time into account: a terminal that does not tell its background.
    pub(super) fn on_attention_tick(&mut self) {
        if self.attention.background.on_time(Instant::now()) {
            self.show_theme();
        }
    }

    fn show_theme(&mut self) {
        if self.is_coloured {
            let theme = self.attention.current_theme();
            self.screen.push_action(move |screen| screen.set_theme(theme));
        }
    }

    /// Shows the state in the title, and notifies the user who is needed.
    pub(super) fn update_attention(&mut self) {
        if !self.modes.is_live() {
            return;
        }
        let state = if self.questions.is_open() {
            TitleState::NeedsUser
        } else if self.work.is_busy() {
            TitleState::Working
        } else {
            TitleState::Idle
        };
        let before = std::mem::replace(&mut self.attention.state, state);
        let sequence = self.attention.title.set(state, &self.title_subject);
        if !sequence.is_empty() {
            self.screen.push_action(move |screen| screen.send_sequences(&sequence));
        }
        if before == state {
            return;
        }
        if before == TitleState::Idle {
            self.attention.since = Instant::now();
        }
        let body = match state {
            TitleState::Working => return,
            TitleState::NeedsUser => "a question waits for your answer",
            TitleState::Idle => "the agent is done",
        };
        let UserAttention { notifier, focus, since, .. } = &self.attention;
        let notification = Notification { title: "crow", body };
        if let Some(sequence) = notifier.notify(notification, *focus, since.elapsed()) {
            self.screen.push_action(move |screen| screen.send_sequences(&sequence));
        }
    }

    /// Returns what restores the title that the terminal had before.
    pub(super) fn restored_title(&mut self) -> &'static str {
        self.attention.title.restore()
    }
}
