//! A whole session for people.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use crow_core::{
    event::{AgentEvent, Envelope},
    model::{ModelRef, Price},
};

use super::{AnswerPlace, ConsoleRenderer, ConsoleStyle, Visibility};
use crate::output::ReportBuilder;

/// Writes a session as it was shown when it happened, with the words of the user, to one sink.
///
/// `log` is the lines of the root session's log, or those of root and children merged by `seq`. At the end of each run stands
/// what it cost, where the prices of its models are given.
pub fn show_session<'a>(
    style: &ConsoleStyle,
    log: impl IntoIterator<Item = &'a Envelope>,
    prices: &[(ModelRef, Price)],
    sink: impl Write,
) -> io::Result<()> {
    let sink = RefCell::new(sink);
    let style = ConsoleStyle {
        live: false,
        answer: AnswerPlace::Streamed,
        prompts: Visibility::Show,
        ..*style
    };
    let mut renderer = ConsoleRenderer::new(style, SharedSink(&sink), SharedSink(&sink));
    let mut report = ReportBuilder::new();
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

/// The one sink behind both of the renderer's.
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
