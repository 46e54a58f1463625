//! The output of a run: the console, or JSON lines.

use std::io::{self, Stderr, Stdout};

use crow_app::ProcessEnvironment;
use crow_console::{ConsoleRenderer, LiveInput, RunActivity, RunReport, terminal_width};
use crow_core::event::Envelope;
use jiff::Timestamp;

use crate::{
    args::OutputForm,
    output::{Deltas, JsonWriter},
    terminal::console_style,
};

/// Output of a run, and whether its waits need messages.
pub(crate) struct RunDisplay {
    pub(crate) sink: RunSink,
    /// True if no waiting line is visible, so that a wait for the model must be reported as a message.
    pub(crate) reports_waits: bool,
}

impl RunDisplay {
    pub(crate) fn new(form: OutputForm, environment: &ProcessEnvironment) -> Self {
        let waits_silently = !environment.stderr_is_terminal || form == OutputForm::Json;
        Self { sink: RunSink::new(form, environment), reports_waits: waits_silently }
    }

    /// Sets whether JSON lines include deltas.
    pub(crate) fn with_deltas(self, deltas: Deltas) -> Self {
        let sink = match self.sink {
            RunSink::Json(writer) => RunSink::Json(writer.with_deltas(deltas)),
            console @ RunSink::Console(_) => console,
        };
        Self { sink, ..self }
    }
}

/// Renderer of a run.
pub(crate) enum RunSink {
    Console(Box<ConsoleRenderer<Stdout, Stderr>>),
    Json(JsonWriter<Stdout>),
}

impl RunSink {
    pub(crate) fn new(form: OutputForm, environment: &ProcessEnvironment) -> Self {
        match form {
            OutputForm::Text => Self::Console(Box::new(ConsoleRenderer::new(
                console_style(environment),
                io::stdout(),
                io::stderr(),
            ))),
            OutputForm::Json => Self::Json(JsonWriter::new(io::stdout())),
        }
    }

    pub(crate) fn event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.render(envelope),
            Self::Json(writer) => writer.event(envelope),
        }
    }

    /// Writes the buffered output. Called when no event is queued.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.flush(),
            Self::Json(writer) => writer.flush(),
        }
    }

    pub(crate) fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.tick(now)
            }
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows a message that belongs to no event. JSON output omits it.
    pub(crate) fn show_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.show_message(text),
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows a message dimly. JSON output omits it.
    pub(crate) fn show_dim_message(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.show_dim_message(text),
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows the current input line. JSON output omits it.
    pub(crate) fn set_input(&mut self, input: LiveInput) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.set_input(input)
            }
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows a question again. JSON output, which has it already, omits it.
    pub(crate) fn repeat_question(&mut self, question: &Envelope) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.ask_again(question),
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows the end of a run in a chat.
    pub(crate) fn finish_reply(
        &mut self,
        report: &RunReport,
        calls: RunActivity,
    ) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.finish_reply(report, calls),
            Self::Json(writer) => writer.result(report),
        }
    }

    pub(crate) fn finish(&mut self, report: &RunReport) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.finish(report),
            Self::Json(writer) => writer.result(report),
        }
    }
}
