//! Plans and results of calls: plain values that permissions, events and tools share.

mod command_line;
mod plan;
mod replaced;
mod result;

pub use command_line::{
    CommandLine, CommandMeaning, CommandWord, PathTouch, Redirect, SideEffects, SimpleCommand,
    TouchDepth,
};
pub use plan::{
    Access, CallPlan, Effects, PathEffect, PlannedFile, Preview, Progress, Subject, ToolCategory,
};
pub use replaced::CALL_TOOL;
pub(crate) use replaced::{APPLY_PATCH, replaced_by};
pub use result::{
    ChangeCounts, FileChange, FileContents, FileDiff, NotRestorable, Patch, ToolMetadata,
    ToolResult, ToolStatus,
};
