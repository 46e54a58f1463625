//! Renders a stored session.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use crow_core::{
    event::{AgentEvent, Envelope},
    model::{ModelRef, Price},
};

use super::{AnswerDestination, ConsoleRenderer, ConsoleStyle, Visibility};
use crate::report::ReportBuilder;

/// Renders a session as it was shown live, plus the prompts of the user, to one sink.
///
/// `log` is the events of the root session's log, or those of root and children merged by `seq`. Each run ends with its
/// usage, and its cost if `prices` has all of its models.
pub fn show_session<'a>(
    style: &ConsoleStyle,
    log: impl IntoIterator<Item = &'a Envelope>,
    prices: &[(ModelRef, Price)],
    sink: impl Write,
) -> io::Result<()> {
    let sink = RefCell::new(sink);
    let style = ConsoleStyle {
        live: false,
        answer: AnswerDestination::Streamed,
        prompts: Visibility::Show,
        ..*style
    };
    let mut renderer = ConsoleRenderer::new(style, SharedSink(&sink), SharedSink(&sink));
    let mut report = ReportBuilder::new().with_hints(style.hints);
    for (model, price) in prices {
        report.set_price(model.clone(), *price);
    }
    for envelope in log {
        report.on_event(envelope);
        renderer.render(envelope)?;
        if matches!(envelope.event, AgentEvent::RunEnd { .. }) && envelope.is_root() {
            renderer.finish(&report.report())?;
        }
    }
    renderer.flush()
}

/// Writer to the common sink of the renderer's two streams.
#[derive(Debug)]
struct SharedSink<'a, W>(&'a RefCell<W>);

impl<W: Write> Write for SharedSink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}
