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

/// Asks the terminal for its background, if the theme depends on it.
pub(super) fn ask_background(chat: &mut ChatLoop) {
    if !chat.is_coloured || chat.attention.theme != ThemeChoice::Auto {
        return;
    }
    let query = chat.attention.background.ask(Instant::now() + BACKGROUND_WAIT);
    chat.screen.push_action(move |screen| screen.send_sequences(query));
}

/// Takes reports of the terminal: the focus, and its background.
pub(super) fn on_report(chat: &mut ChatLoop, event: &InputEvent) {
    chat.attention.focus.on_event(event);
    if let InputEvent::Reply(reply) = event {
        let before = chat.attention.background;
        chat.attention.background.on_reply(reply);
        if chat.attention.background != before {
            show_theme(chat);
        }
    }
}

/// Takes the time into account: a terminal that does not tell its background.
pub(super) fn on_attention_tick(chat: &mut ChatLoop) {
    if chat.attention.background.on_time(Instant::now()) {
        show_theme(chat);
    }
}

fn show_theme(chat: &mut ChatLoop) {
    if chat.is_coloured {
        let theme = chat.attention.current_theme();
        chat.screen.push_action(move |screen| screen.set_theme(theme));
    }
}

/// Shows the state in the title, and notifies the user who is needed.
pub(super) fn update_attention(chat: &mut ChatLoop) {
    if !chat.modes.is_live() {
        return;
    }
    // A question under a view waits for its end.
    let state = if chat.questions.is_open() || chat.questions.waiting().len() > 0 {
        TitleState::NeedsUser
    } else if chat.work.is_busy() {
        TitleState::Working
    } else {
        TitleState::Idle
    };
    let before = std::mem::replace(&mut chat.attention.state, state);
    let sequence = chat.attention.title.set(state, &chat.title_subject);
    if !sequence.is_empty() {
        chat.screen.push_action(move |screen| screen.send_sequences(&sequence));
    }
    if before == state {
        return;
    }
    if before == TitleState::Idle {
        chat.attention.since = Instant::now();
    }
    let body = match state {
        TitleState::Working => return,
        TitleState::NeedsUser => "a question waits for your answer",
        TitleState::Idle => "the agent is done",
    };
    let UserAttention { notifier, focus, since, .. } = &chat.attention;
    let notification = Notification { title: "crow", body };
    if let Some(sequence) = notifier.notify(notification, *focus, since.elapsed()) {
        chat.screen.push_action(move |screen| screen.send_sequences(&sequence));
    }
}

/// Returns what restores the title that the terminal had before.
pub(super) fn restored_title(chat: &mut ChatLoop) -> &'static str {
    chat.attention.title.restore()
}
