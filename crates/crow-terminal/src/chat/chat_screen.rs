//! The output of the chat: an inline screen, or plain lines.

use std::{
    io::{self, Stderr, Stdout, Write},
    sync::Arc,
};

use crow_console::{ConsoleRenderer, RunActivity, RunReport, ScreenSink, terminal_width};
use crow_core::event::Envelope;
use jiff::Timestamp;

use crate::{
    full_screen::FullScreenFrame,
    inline_screen::{InlineScreen, InputView},
    screen_size::ScreenSize,
    theme::Theme,
};

/// Writer of an inline screen.
pub(super) type ScreenWriter = Box<dyn Write + Send>;

/// The output of the chat.
#[derive(Debug)]
pub(super) enum ChatScreen {
    /// Finished lines above a live region.
    Inline(Box<InlineScreen<ScreenWriter>>),
    /// Lines for terminals without escape sequences.
    Lines(Box<ConsoleRenderer<Stdout, Stderr>>),
}

/// Returns the size of the terminal, if there is one.
pub(super) fn screen_size() -> Option<ScreenSize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some(ScreenSize { columns, rows })
}

impl ScreenSink for ChatScreen {
    fn on_event(&mut self, event: &Envelope) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.on_event(event),
            Self::Lines(renderer) => renderer.render(event),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            // The terminal is asked for its size only for a frame.
            Self::Inline(screen) if screen.is_frame_due() => screen.flush(screen_size()),
            Self::Inline(_) => Ok(()),
            Self::Lines(renderer) => renderer.flush(),
        }
    }

    fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.tick(now, screen_size()),
            Self::Lines(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.tick(now)
            }
        }
    }
}

impl ChatScreen {
    /// Shows a message that belongs to no event.
    pub(super) fn show_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.show_message(text),
            Self::Lines(renderer) => renderer.show_message(text),
        }
    }

    /// Shows a message dimly.
    pub(super) fn show_dim_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.show_dim_message(text),
            Self::Lines(renderer) => renderer.show_dim_message(text),
        }
    }

    /// Shows the prompt and the status line of an inline screen.
    pub(super) fn set_view(&mut self, view: InputView) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.set_input(view, screen_size()),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Shows the text that the user entered. On plain lines the terminal has shown it already.
    pub(super) fn show_entered(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.show_prompt(text),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Shows a prompt on plain lines, behind which the terminal shows the typed text.
    pub(super) fn show_line_prompt(&mut self, prompt: &str) -> io::Result<()> {
        match self {
            Self::Inline(_) => Ok(()),
            Self::Lines(renderer) => renderer.show_prompt(prompt),
        }
    }

    /// Removes the live region of an inline screen.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.leave(),
            Self::Lines(renderer) => renderer.flush(),
        }
    }

    /// Removes the live region of an inline screen, and draws nothing until [`redraw`](Self::redraw).
    pub(super) fn pause(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.pause(),
            Self::Lines(renderer) => renderer.flush(),
        }
    }

    /// Draws the live region of an inline screen anew.
    pub(super) fn redraw(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.redraw(),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Clears an inline screen, and draws the live region at its top.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.clear(),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Forgets what goes on in the session that was shown.
    pub(super) fn forget_activity(&mut self) {
        if let Self::Inline(screen) = self {
            screen.forget_activity();
        }
    }

    /// Draws a view that takes the whole screen.
    pub(super) fn paint_view(
        &mut self,
        frame: &FullScreenFrame,
        size: ScreenSize,
    ) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.paint_view(frame, size),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Forgets how the view that takes the whole screen is shown: the next frame draws it anew.
    pub(super) fn forget_view(&mut self) {
        if let Self::Inline(screen) = self {
            screen.forget_view();
        }
    }

    /// Removes the view that takes the whole screen.
    pub(super) fn leave_view(&mut self) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.leave_view(),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Sets the theme of an inline screen.
    pub(super) fn set_theme(&mut self, theme: Theme) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.set_theme(theme),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Sends sequences to an inline screen that change nothing of what it shows.
    pub(super) fn send_sequences(&mut self, sequences: &str) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.send_sequences(sequences),
            Self::Lines(_) => Ok(()),
        }
    }

    /// Shows a question again.
    pub(super) fn repeat_question(&mut self, question: &Arc<Envelope>) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.repeat_question(question),
            Self::Lines(renderer) => renderer.ask_again(question),
        }
    }

    /// Shows the end of a run.
    pub(super) fn finish_reply(
        &mut self,
        report: &RunReport,
        activity: RunActivity,
    ) -> io::Result<()> {
        match self {
            Self::Inline(screen) => screen.finish_reply(report, activity),
            Self::Lines(renderer) => renderer.finish_reply(report, activity),
        }
    }
}
