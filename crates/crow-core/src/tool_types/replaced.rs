//! Tools that do in another form what other tools do, or call them.

/// Returns the tools that a tool replaces for models that are trained on it. An agent that has all of them may call it,
/// although it is not offered, and rules that restrict one of them restrict it, too.
pub(crate) fn replaced_by(tool: &str) -> &'static [&'static str] {
    if tool == APPLY_PATCH { &["edit_file", "write_file"] } else { &[] }
}

/// Name of the tool that calls a tool that is not listed in requests. Its calls are resolved to those of the named tool.
pub const CALL_TOOL: &str = "call_tool";

/// The tool that edits, writes and deletes files by a patch.
pub(crate) const APPLY_PATCH: &str = "apply_patch";
