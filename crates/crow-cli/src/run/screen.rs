//! The output of single runs: lines for people, or JSON lines.

use std::io::{self, Stderr, Stdout, Write as _};

use crow_app::ProcessEnvironment;
use crow_console::{AnswerDestination, ConsoleRenderer, RunReport, ScreenSink, terminal_width};
use crow_core::event::Envelope;
use jiff::Timestamp;

use crate::{
    args::OutputForm,
    output::{Deltas, JsonWriter},
    terminal::console_style,
};

/// Writes the prompt for an answer to stderr.
pub(crate) fn write_prompt(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

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

    /// Shows the answer at the end, from the report.
    pub(crate) fn with_answer_at_end(self) -> Self {
        let sink = match self.sink {
            RunSink::Console(renderer) => {
                RunSink::Console(Box::new(renderer.with_answer(AnswerDestination::AtEnd)))
            }
            other @ RunSink::Json(_) => other,
        };
        Self { sink, ..self }
    }

    /// Sets whether JSON lines include deltas.
    pub(crate) fn with_deltas(self, deltas: Deltas) -> Self {
        let sink = match self.sink {
            RunSink::Json(writer) => RunSink::Json(writer.with_deltas(deltas)),
            other @ RunSink::Console(_) => other,
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

    /// Shows the end of the run.
    pub(crate) fn finish(&mut self, report: &RunReport) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.finish(report),
            Self::Json(writer) => writer.result(report),
        }
    }
}

impl ScreenSink for RunSink {
    fn on_event(&mut self, envelope: &Envelope) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.render(envelope),
            Self::Json(writer) => writer.event(envelope),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.flush(),
            Self::Json(writer) => writer.flush(),
        }
    }

    fn tick(&mut self, now: Timestamp) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.tick(now)
            }
            Self::Json(_) => Ok(()),
        }
    }
}
