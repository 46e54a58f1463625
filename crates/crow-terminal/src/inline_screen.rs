//! The screen of a chat: events as finished lines, and below them what is going on and the prompt.
//!
//! Texts of the agent are Markdown: lines that can no longer change are finished, the others are part of the live region. What
//! other events say comes from [`ConsoleRenderer`], which writes into a buffer here; it closes the text before it. Finished lines
//! are gathered, and printed with the next frame.

use std::{
    fmt,
    io::{self, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crow_console::{
    AnswerDestination, ConsoleRenderer, ConsoleStyle, Glyphs, RunActivity, RunReport,
    StreamedReplyProgress, Visibility, text_of, thinking_of, wrap,
};
use crow_core::{
    event::{AgentEvent, Envelope},
    ids::ReplyId,
};
use crow_text::neutralise;
use jiff::Timestamp;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{
    activity::{ActivityPanel, ActivitySpace},
    full_screen::{FullScreenFrame, FullScreenPainter},
    line_layout::clipped_line,
    live_region::{LiveRegion, RegionContent, RegionCursor, ResizeBehavior},
    markdown::MarkdownStream,
    painted_line::PaintedLine,
    row_text::wrapped,
    screen_size::ScreenSize,
    styled_text::{Emphasis, StyledLine, TextLook, TextRole},
    theme::Theme,
};

/// Minimum time between two frames, unless a key was typed.
const FRAME: Duration = Duration::from_millis(16);
/// Time after a change of the size in which the terminal may have yet another one: tmux tells of it after up to 250 ms.
const RESIZE_REST: Duration = Duration::from_millis(300);
/// Maximum number of rows of the live region, and its share of the screen in percent.
const MOST_ROWS: usize = 12;
const MOST_PERCENT: usize = 40;
/// Fewest rows of the live region: a wait, the prompt and the status line.
const LEAST_ROWS: usize = 3;
/// Rows of the text that may still change. When the terminal becomes so much smaller that the region does not fit it, rows at
/// its top are beyond reach in the history, and stay there twice; with few rows that happens only on tiny terminals.
const TEXT_ROWS: usize = 3;
/// Rows of the reasoning that are shown while it streams.
const THINKING_ROWS: usize = 2;
/// Maximum length of the reasoning that is kept to show its end, in bytes.
const THINKING_LENGTH: usize = 4 * 1024;

/// The prompt and the status line, as the chat wants them to be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InputView {
    /// Rows above the prompt that have to be seen, such as the answers to a question.
    pub(crate) above: Vec<StyledLine>,
    /// The rows of the prompt.
    pub(crate) rows: Vec<StyledLine>,
    /// Row and column of the cursor in them.
    pub(crate) cursor: (usize, usize),
    /// Rows below the prompt, such as a list to choose from and the status line.
    pub(crate) below: Vec<StyledLine>,
}

/// The screen of a chat.
pub(crate) struct InlineScreen<W> {
    output: W,
    size: ScreenSize,
    theme: Theme,
    region: LiveRegion,
    /// A view that takes the whole screen. While it is active, the region is not drawn.
    view: FullScreenPainter,
    /// True while another program has the terminal: nothing is drawn.
    is_paused: bool,
    renderer: ConsoleRenderer<RendererOutput, RendererOutput>,
    captured: RendererOutput,
    activity: ActivityPanel,
    glyphs: Glyphs,
    reply: StreamedReplyProgress,
    text: Option<MarkdownStream>,
    /// The end of the reasoning that streams, and when it began.
    thinking: Option<(String, Timestamp)>,
    finished: Vec<PaintedLine>,
    input: InputView,
    now: Option<Timestamp>,
    drawn: Option<Instant>,
    /// Time of the last change of the size.
    resized: Option<Instant>,
}

impl<W: Write> InlineScreen<W> {
    /// Makes a screen at the row of the cursor.
    pub(crate) fn new(
        output: W,
        size: ScreenSize,
        theme: Theme,
        resize: ResizeBehavior,
        style: ConsoleStyle,
    ) -> Self {
        let captured = RendererOutput::default();
        let style = ConsoleStyle {
            live: false,
            width: size.columns.saturating_sub(1),
            answer: AnswerDestination::Separate,
            thinking: Visibility::Hide,
            ..style
        };
        Self {
            output,
            size,
            theme,
            region: LiveRegion::new(size.columns, resize),
            view: FullScreenPainter::new(theme),
            is_paused: false,
            renderer: ConsoleRenderer::new(style, captured.clone(), captured.clone()),
            captured,
            activity: ActivityPanel::new(style.glyphs),
            glyphs: style.glyphs,
            reply: StreamedReplyProgress::default(),
            text: None,
            thinking: None,
            finished: Vec::new(),
            input: InputView::default(),
            now: None,
            drawn: None,
            resized: None,
        }
    }

    /// Takes an event. It is on the screen after the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn on_event(&mut self, envelope: &Envelope) -> io::Result<()> {
        self.activity.on_event(envelope);
        if envelope.is_root() {
            match &envelope.event {
                AgentEvent::TextDelta { reply_id, offset, delta } => {
                    self.on_text(reply_id, *offset, delta);
                    return Ok(());
                }
                AgentEvent::TextComplete { reply_id, text } => {
                    self.on_text(reply_id, 0, text);
                    return Ok(());
                }
                AgentEvent::ThinkingDelta { reply_id, offset, delta } => {
                    self.on_thinking(envelope.time, reply_id, *offset, delta);
                    return Ok(());
                }
                AgentEvent::ThinkingComplete { reply_id, text } => {
                    self.on_thinking(envelope.time, reply_id, 0, text);
                    return Ok(());
                }
                AgentEvent::Reply { reply_id, blocks, .. } => {
                    self.on_thinking(envelope.time, reply_id, 0, &thinking_of(blocks));
                    self.end_thinking(Some(envelope.time));
                    self.on_text(reply_id, 0, &text_of(blocks));
                    self.end_text();
                }
                AgentEvent::ReplyReset { .. } => {
                    self.end_thinking(None);
                    let had_text = !self.reply.is_empty();
                    self.end_text();
                    self.reply.reset();
                    if had_text {
                        self.push_text("the reply above is discarded", TextRole::Dim);
                    }
                }
                // Everything else is the renderer's.
                _ => {}
            }
        }
        self.renderer.render(envelope)?;
        self.renderer.flush()?;
        self.take_captured();
        Ok(())
    }

    /// Draws a frame, unless the last one was a moment ago.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn flush(&mut self, size: Option<ScreenSize>) -> io::Result<()> {
        if !self.is_frame_due() {
            return Ok(());
        }
        self.set_size(size);
        self.draw()
    }

    /// Returns true unless the last frame was drawn a moment ago.
    pub(crate) fn is_frame_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME)
    }

    /// Draws a frame with the waits as they are at this time.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn tick(&mut self, now: Timestamp, size: Option<ScreenSize>) -> io::Result<()> {
        self.now = Some(now);
        self.set_size(size);
        self.draw()
    }

    /// Shows the prompt and the status line.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn set_input(
        &mut self,
        input: InputView,
        size: Option<ScreenSize>,
    ) -> io::Result<()> {
        self.input = input;
        self.set_size(size);
        self.draw()
    }

    /// Shows a message that belongs to no event.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn show_message(&mut self, text: &str) -> io::Result<()> {
        self.end_text();
        self.renderer.show_message(text)?;
        self.take_captured();
        self.draw()
    }

    /// Shows a message dimly.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn show_dim_message(&mut self, text: &str) -> io::Result<()> {
        self.end_text();
        self.renderer.show_dim_message(text)?;
        self.take_captured();
        self.draw()
    }

    /// Shows what the user entered.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn show_prompt(&mut self, text: &str) -> io::Result<()> {
        self.end_text();
        self.finished.push(PaintedLine::default());
        for (number, row) in neutralise(text).lines().enumerate() {
            let mark = if number == 0 { "> " } else { "  " };
            for part in wrapped(row, self.columns().saturating_sub(2)) {
                let mut line = StyledLine::default();
                line.push(mark, TextRole::Accent);
                line.push(part, TextRole::Accent);
                self.finished.push(self.theme.paint(&line));
            }
        }
        self.finished.push(PaintedLine::default());
        self.draw()
    }

    /// Shows a question again.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn repeat_question(&mut self, question: &Envelope) -> io::Result<()> {
        self.renderer.ask_again(question)?;
        self.take_captured();
        self.draw()
    }

    /// Shows the end of a run.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn finish_reply(
        &mut self,
        report: &RunReport,
        calls: RunActivity,
    ) -> io::Result<()> {
        self.end_thinking(None);
        self.end_text();
        self.renderer.finish_reply(report, calls)?;
        self.take_captured();
        self.draw()
    }

    /// Removes the live region. What is written then stands below the finished lines.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        self.end_thinking(None);
        self.end_text();
        let lines = mem::take(&mut self.finished);
        let mut output = self.region.draw(&lines, RegionContent::default());
        output.push_str(&self.region.clear());
        self.output.write_all(output.as_bytes())?;
        self.output.flush()
    }

    /// Removes the live region, and draws nothing until [`redraw`](Self::redraw): another program gets the terminal.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        let lines = mem::take(&mut self.finished);
        let mut output = self.region.draw(&lines, RegionContent::default());
        output.push_str(&self.region.clear());
        self.is_paused = true;
        self.send_sequences(&output)
    }

    /// Draws everything anew: the screen was cleared, or another program wrote to it.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        self.is_paused = false;
        self.region.forget();
        self.draw()
    }

    /// Forgets what goes on: another session is shown from here on.
    pub(crate) fn forget_activity(&mut self) {
        self.activity = ActivityPanel::new(self.glyphs);
    }

    /// Draws a view that takes the whole screen. Finished lines are gathered until it is left.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn paint_view(
        &mut self,
        frame: &FullScreenFrame,
        size: ScreenSize,
    ) -> io::Result<()> {
        if self.is_paused {
            return Ok(());
        }
        if !self.view.is_active() {
            self.view = FullScreenPainter::new(self.theme);
        }
        let output = self.view.paint(frame, size);
        self.send_sequences(&output)
    }

    /// Forgets how the view that takes the whole screen is shown: the next frame draws it anew.
    pub(crate) fn forget_view(&mut self) {
        self.view.forget();
    }

    /// Removes the view that takes the whole screen.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn leave_view(&mut self) -> io::Result<()> {
        let output = self.view.leave() + self.region.restore_cursor();
        self.send_sequences(&output)?;
        self.draw()
    }

    /// Sets the theme of what is shown from here on.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn set_theme(&mut self, theme: Theme) -> io::Result<()> {
        self.theme = theme;
        self.draw()
    }

    /// Clears the screen, and draws the region at its top.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // Without the region: tmux takes what it clears to its history.
        let output = self.region.clear() + "\x1b[H\x1b[2J";
        self.output.write_all(output.as_bytes())?;
        self.redraw()
    }

    /// Writes sequences that change nothing of what the screen shows.
    ///
    /// # Errors
    /// Fails if the output cannot be written.
    pub(crate) fn send_sequences(&mut self, sequences: &str) -> io::Result<()> {
        self.output.write_all(sequences.as_bytes())?;
        self.output.flush()
    }

    fn columns(&self) -> usize {
        self.size.columns.saturating_sub(1).max(1)
    }

    fn set_size(&mut self, size: Option<ScreenSize>) {
        let Some(size) = size.filter(|size| *size != self.size) else { return };
        self.size = size;
        self.resized = Some(Instant::now());
        self.region.set_columns(size.columns);
        self.renderer.set_width(Some(size.columns.saturating_sub(1)));
        let columns = self.columns();
        if let Some(text) = &mut self.text {
            text.set_width(columns);
        }
    }

    fn on_text(&mut self, reply_id: &ReplyId, offset: u64, delta: &str) {
        self.switch_to(reply_id);
        let columns = self.columns();
        let fresh = self.reply.take_text(offset, delta);
        if fresh.is_empty() {
            return;
        }
        let glyphs = self.glyphs;
        let text = self.text.get_or_insert_with(|| MarkdownStream::new(columns, glyphs));
        let lines = text.push(fresh);
        self.end_thinking(None);
        self.finished.extend(lines.iter().map(|line| self.theme.paint(line)));
    }

    fn on_thinking(&mut self, time: Timestamp, reply_id: &ReplyId, offset: u64, delta: &str) {
        self.switch_to(reply_id);
        let fresh = self.reply.take_thinking(offset, delta);
        if fresh.is_empty() {
            return;
        }
        let (text, _) = self.thinking.get_or_insert_with(|| (String::new(), time));
        text.push_str(fresh);
        if text.len() > THINKING_LENGTH {
            let cut = text.ceil_char_boundary(text.len() - THINKING_LENGTH / 2);
            text.drain(..cut);
        }
    }

    fn switch_to(&mut self, reply_id: &ReplyId) {
        if self.reply.switch_to(reply_id) {
            self.end_thinking(None);
            self.end_text();
        }
    }

    /// Ends the reasoning: one line says how long it took, if that is known.
    fn end_thinking(&mut self, now: Option<Timestamp>) {
        let Some((_, since)) = self.thinking.take() else { return };
        let Some(now) = now.or(self.now) else { return };
        let seconds = now.duration_since(since).as_secs().max(0);
        if seconds > 0 {
            self.push_text(&format!("thought for {seconds} s"), TextRole::Dim);
        }
    }

    fn end_text(&mut self) {
        let Some(text) = self.text.take() else { return };
        let lines = text.finish();
        self.finished.extend(lines.iter().map(|line| self.theme.paint(line)));
    }

    fn push_text(&mut self, text: &str, role: TextRole) {
        let mut line = StyledLine::default();
        line.push(text, role);
        self.finished.push(self.theme.paint(&line));
    }

    /// Takes what the renderer wrote, as finished lines below the text before it.
    fn take_captured(&mut self) {
        let written = self.captured.take();
        if written.is_empty() {
            return;
        }
        self.end_text();
        let lines = written.split_terminator('\n').map(|line| {
            let line = line.trim_end_matches('\r');
            PaintedLine { text: line.to_owned(), width: wrap::width(&without_sequences(line)) }
        });
        self.finished.extend(lines);
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.is_paused || self.view.is_active() {
            return Ok(());
        }
        let is_resizing = self.resized.is_some_and(|resized| resized.elapsed() < RESIZE_REST);
        if is_resizing && self.region.shows_cursor() {
            return Ok(());
        }
        let content = self.content();
        let lines = mem::take(&mut self.finished);
        let output = self.region.draw(&lines, content);
        self.drawn = Some(Instant::now());
        if output.is_empty() {
            return Ok(());
        }
        self.output.write_all(output.as_bytes())?;
        self.output.flush()
    }

    /// Returns the rows of the live region: the text that may change, the wait, the prompt, and what is below it.
    fn content(&mut self) -> RegionContent {
        let columns = self.columns();
        let most = (self.size.rows * MOST_PERCENT / 100).clamp(LEAST_ROWS, MOST_ROWS);
        let most = most.min(self.size.rows.saturating_sub(1).max(1));
        let below = self.input.below.len().min(most.saturating_sub(1));
        let needed = self.input.above.len() + self.input.rows.len().max(1) + below;
        let mut left = most.saturating_sub(needed);
        // What goes on has at least one row, and leaves two for a text that streams.
        let has_text = self.text.is_some() || self.thinking.is_some();
        let now = self.now.unwrap_or_else(Timestamp::now);
        let activity_rows = left.saturating_sub(if has_text { 2 } else { 1 }).max(1).min(left);
        let space = ActivitySpace { columns, rows: activity_rows };
        let activity = self.activity.rows(now, space);
        left -= activity.len();
        let mut rows: Vec<PaintedLine> = Vec::new();
        // 1) The text.
        if left > 0 {
            let most_text = left.saturating_sub(1).min(TEXT_ROWS);
            let theme = self.theme;
            if let Some(text) = &mut self.text {
                rows.extend(text.tail(most_text).iter().map(|line| theme.paint(line)));
            } else if let Some((thinking, _)) = &self.thinking {
                let wrapped = wrapped(&neutralise(thinking.trim_end()).replace('\n', " "), columns);
                let skipped = wrapped.len().saturating_sub(THINKING_ROWS.min(most_text));
                rows.extend(wrapped.iter().skip(skipped).map(|part| {
                    let mut line = StyledLine::default();
                    line.push(part, TextRole::Dim);
                    theme.paint(&line)
                }));
            }
            // 2) A row between what is finished and the prompt.
            rows.push(PaintedLine::default());
        }
        // 3) What goes on.
        rows.extend(activity.iter().map(|line| self.theme.paint(line)));
        // 4) The prompt with what is above and below it.
        rows.extend(
            self.input.above.iter().map(|line| self.theme.paint(&clipped_line(line, columns))),
        );
        let (row, column) = (self.input.cursor.0, self.input.cursor.1.min(columns));
        // Rows above the prompt wrap on a narrower terminal: then only the beginning of the region is certain.
        let is_hidden = rows.iter().any(|line| line.width > 0);
        let cursor = if is_hidden {
            RegionCursor::Hidden
        } else {
            RegionCursor::Shown { row: rows.len() + row, column }
        };
        let input = self.input.rows.iter().chain(self.input.below.iter().take(below));
        for (number, line) in input.enumerate() {
            // Rows that were made for a wider terminal are cut.
            let line = clipped_line(line, columns);
            let is_marked = is_hidden && number == row;
            let line = if is_marked { with_cursor(&line, column, columns) } else { line };
            rows.push(self.theme.paint(&line));
        }
        if rows.is_empty() {
            rows.push(PaintedLine::default());
        }
        RegionContent { rows, cursor }
    }
}

impl<W> fmt::Debug for InlineScreen<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineScreen").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Returns a line in which a column looks like the cursor, or the last one of `columns`.
fn with_cursor(line: &StyledLine, column: usize, columns: usize) -> StyledLine {
    let column = column.min(columns.saturating_sub(1));
    let mut marked = StyledLine::default();
    let (mut at, mut is_done) = (0, false);
    for span in line.spans() {
        for cluster in span.text.graphemes(true) {
            let end = at + cluster.width();
            let mut look = span.look.clone();
            if end > column && !is_done {
                look.emphasis = look.emphasis.with(Emphasis::REVERSE);
                is_done = true;
            }
            marked.push(cluster, look);
            at = end;
        }
    }
    if !is_done {
        marked.push(" ".repeat(column.saturating_sub(at)), TextRole::Plain);
        let look = TextLook { emphasis: Emphasis::REVERSE, ..TextLook::default() };
        marked.push(" ", look);
    }
    marked
}

/// Returns a text without the sequences for colours.
fn without_sequences(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    output.extend(parts.next());
    for part in parts {
        // The parameters end with a letter.
        let end = part.find(|char: char| char.is_ascii_alphabetic());
        output.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    output
}

/// Buffer that the renderer writes to. Clones share it.
#[derive(Debug, Clone, Default)]
struct RendererOutput(Arc<Mutex<Vec<u8>>>);

impl RendererOutput {
    fn take(&self) -> String {
        let bytes = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for RendererOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
