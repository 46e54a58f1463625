//! Plans and results of calls: plain values that permissions, events and tools share.

mod category;
mod command_line;
mod patch;
mod plan;
mod progress;
mod result;

pub use category::ToolCategory;
pub use command_line::{
    CommandLine, CommandMeaning, CommandWord, PathTouch, Redirect, SideEffects, SimpleCommand,
    TouchDepth,
};
pub use patch::{FileChange, FileContents, FileDiff, Patch};
pub use plan::{Access, CallPlan, Effects, PathEffect, PlannedFile, Preview, Subject};
pub use progress::Progress;
pub use result::{ChangeCounts, NotRestorable, ToolMetadata, ToolResult, ToolStatus};
