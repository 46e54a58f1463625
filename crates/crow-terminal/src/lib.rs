//! The interactive terminal of Crow.
//!
//! [`LiveRegion`] keeps finished lines and the part of the screen that changes apart; a [`Theme`] gives texts their colours.

mod live_region;
mod styled_text;
mod theme;

pub use live_region::{LiveRegion, RegionContent, ResizeBehavior, TerminalLine};
pub use styled_text::{Emphasis, StyledLine, StyledSpan, TextLook, TextRole};
pub use theme::{Rgb, Theme};
