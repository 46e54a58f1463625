//! The interactive terminal of Crow.
//!
//! [`InlineScreen`] shows the events of a run as finished lines, and keeps what changes in a [`LiveRegion`] below them;
//! [`MarkdownStream`] renders the texts of the agent, and [`PromptInput`] is what the user types. A [`Theme`] gives texts their
//! colours. A [`StatusTemplate`] makes the status line; [`TerminalTitle`], [`Notifier`], [`BackgroundQuery`] and
//! [`copy_sequence`] make sequences for other features of the terminal, and an [`AsciicastRecorder`] records it. This crate
//! reads and writes bytes that its caller passes on, and knows no terminal of its own.
//! [`MarkdownStream`] renders the texts of the agent, and [`PromptInput`] is what the user types, with a list of commands
//! and files that complete it; a [`FileSearchWorker`] searches for the files. A [`Theme`] gives texts their colours. Apart
//! from that search, this crate reads and writes bytes that its caller passes on, and knows no terminal of its own.

pub mod activity;
mod bounded_text;
mod chat;
pub mod editor;
mod file_index;
mod full_screen;
mod fuzzy_matcher;
mod inline_screen;
mod input_decoder;
mod key_sequences;
pub mod keys;
mod live_region;
mod markdown;
mod painted_line;
mod popup;
mod prompt_input;
mod recording;
mod row_text;
mod safe_text;
mod screen_size;
mod shortcut_help;
mod status_line;
mod styled_text;
mod terminal_control;
#[cfg(test)]
mod tests;
mod theme;
mod theme_choice;
mod visible_characters;

pub use chat::{
    ChatEnd, ChatError, ChatOptions, ChatRecording, ChatSetup, ErrorDescription, ImageReader, chat,
    chat_command_names,
};
pub use file_index::{
    FileIndex, FileIndexError, FileMatch, FileSearchNotifier, FileSearchOptions, FileSearchResults,
    FileSearchWorker,
};
pub use full_screen::{
    ActionKeyError, DiffView, FullScreenFrame, FullScreenPainter, FullScreenView, ListItem,
    ListPicker, Pager, PagerSection, ViewEffect,
};
pub use inline_screen::{InlineScreen, InputView};
pub use input_decoder::InputDecoder;
pub use live_region::{LiveRegion, RegionContent, RegionCursor, ResizeBehavior};
pub use markdown::{MarkdownGlyphs, MarkdownStream, render_markdown};
pub use painted_line::PaintedLine;
pub use popup::ListedCommand;
pub use prompt_input::{EnteredLine, InputAction, PromptInput};
pub use recording::{
    AsciicastError, AsciicastHeader, AsciicastRecorder, InputRecording, RecordedOutput,
};
pub use screen_size::ScreenSize;
pub use shortcut_help::{KeyMode, ShortcutContext, key_help, shortcut_hints};
pub use status_line::{
    DEFAULT_STATUS_TEMPLATE, StatusFacts, StatusTemplate, StatusTemplateError, status_field_names,
};
pub use styled_text::{Emphasis, StyledLine, StyledSpan, TextLook, TextRole};
pub use terminal_control::{
    BACKGROUND_QUERY, BackgroundQuery, BackgroundTone, ClipboardError, ColourDepth, FocusState,
    LONGEST_COPY, Multiplexer, Notification, NotificationChoice, Notifier, TerminalEnvironment,
    TerminalProgram, TerminalTitle, TitleState, UnknownNotificationError, copy_sequence,
    parse_background_reply,
};
pub use theme::{Rgb, Theme};
pub use theme_choice::{ThemeChoice, UnknownThemeError};
