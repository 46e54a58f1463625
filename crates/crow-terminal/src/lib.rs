//! The interactive terminal of Crow.
//!
//! [`InlineScreen`] shows the events of a run as finished lines, and keeps what changes in a [`LiveRegion`] below them;
//! [`MarkdownStream`] renders the texts of the agent, and [`PromptInput`] is what the user types, with a list of commands
//! and files that complete it; a [`FileSearchWorker`] searches for the files. A [`Theme`] gives texts their colours. Apart
//! from that search, this crate reads and writes bytes that its caller passes on, and knows no terminal of its own.

pub mod editor;
mod file_index;
mod fuzzy_matcher;
mod inline_screen;
mod input_decoder;
mod key_sequences;
pub mod keys;
mod live_region;
mod markdown;
mod popup;
mod prompt_input;
mod safe_text;
mod styled_text;
#[cfg(test)]
mod tests;
mod theme;
mod visible_characters;

pub use file_index::{
    FileIndex, FileIndexError, FileMatch, FileSearchNotifier, FileSearchOptions, FileSearchResults,
    FileSearchWorker,
};
pub use inline_screen::{InlineScreen, InputView, ScreenSize};
pub use input_decoder::InputDecoder;
pub use live_region::{LiveRegion, PaintedLine, RegionContent, ResizeBehavior};
pub use markdown::{MarkdownGlyphs, MarkdownStream, render_markdown};
pub use popup::ListedCommand;
pub use prompt_input::{InputAction, PromptInput};
pub use styled_text::{Emphasis, StyledLine, StyledSpan, TextLook, TextRole};
pub use theme::{Rgb, Theme};
