//! Where a run is shown: the console, or JSON lines.

use std::io::{self, Stderr, Stdout};

use crow_core::event::Envelope;
use jiff::Timestamp;

use crate::{
    args::OutputForm,
    environment::Environment,
    output::{Deltas, JsonWriter, RunReport},
    render::{
        ConsoleRenderer, ConsoleStyle, LiveInput, OutputSurroundings, RunActivity, terminal_width,
    },
};

/// How a run is shown.
pub(crate) struct Show {
    pub(crate) sink: RunSink,
    /// Whether nothing shows that the model is waited for, so that it must be said.
    pub(crate) waits_silently: bool,
}

impl Show {
    pub(crate) fn new(form: OutputForm, environment: &Environment) -> Self {
        let waits_silently = !environment.stderr_is_terminal || form == OutputForm::Json;
        Self { sink: RunSink::new(form, environment), waits_silently }
    }

    /// Says whether the JSON lines hold deltas.
    pub(crate) fn with_deltas(self, deltas: Deltas) -> Self {
        let sink = match self.sink {
            RunSink::Json(writer) => RunSink::Json(writer.with_deltas(deltas)),
            console @ RunSink::Console(_) => console,
        };
        Self { sink, ..self }
    }
}

/// Where a run is shown.
pub(crate) enum RunSink {
    Console(Box<ConsoleRenderer<Stdout, Stderr>>),
    Json(JsonWriter<Stdout>),
}

impl RunSink {
    pub(crate) fn new(form: OutputForm, environment: &Environment) -> Self {
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

    /// Writes what is pending. Called when no event waits.
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

    /// Says something that belongs to no event. Programs do not hear it.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.say(text),
            Self::Json(_) => Ok(()),
        }
    }

    /// Says something that is less important than the rest. Programs do not hear it.
    pub(crate) fn say_aside(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.say_aside(text),
            Self::Json(_) => Ok(()),
        }
    }

    /// Takes what the person at the terminal is typing.
    pub(crate) fn set_input(&mut self, input: LiveInput) -> io::Result<()> {
        match self {
            Self::Console(renderer) => {
                renderer.set_width(terminal_width(io::stderr()));
                renderer.set_input(input)
            }
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows a question once more. Programs heard it.
    pub(crate) fn ask_again(&mut self, question: &Envelope) -> io::Result<()> {
        match self {
            Self::Console(renderer) => renderer.ask_again(question),
            Self::Json(_) => Ok(()),
        }
    }

    /// Shows how a run of a chat ended.
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

/// Decides how the screen looks, by what the process was given.
pub fn console_style(environment: &Environment) -> ConsoleStyle {
    let term = environment.var("TERM");
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| environment.var(name))
        .unwrap_or_default()
        .to_ascii_lowercase();
    ConsoleStyle::new(&OutputSurroundings {
        stdout_terminal: environment.stdout_is_terminal,
        stderr_terminal: environment.stderr_is_terminal,
        capable: term.is_some_and(|term| term != "dumb"),
        no_colour: environment.var("NO_COLOR").is_some(),
        utf8: locale.contains("utf-8") || locale.contains("utf8"),
        width: terminal_width(io::stderr()),
    })
}
