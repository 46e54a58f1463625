//! Tools that come and go while a session is open.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Tool;
use crate::event::NoticeLevel;

/// What the names of tools from a source begin with. In a list of tools `mcp__*` and `mcp__server__*` stand for all whose
/// names begin so.
pub const SOURCED_NAME: &str = "mcp__";

/// Returns whether what stands in a list of tools means tools from a source: a name, or the beginning of names with a `*`
/// after it.
pub fn is_sourced_pattern(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    is_name
        && name.starts_with(SOURCED_NAME)
        && (text.ends_with('*') || name.len() > SOURCED_NAME.len())
}

/// Returns whether a pattern means a tool.
pub fn matches_sourced(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// Tools that come and go while a session is open. All agents of the session take those that they may have, before each
/// model call.
#[async_trait]
pub trait ToolSource: Send + Sync + fmt::Debug {
    /// Waits until the tools are there for which one should wait. Returns at once where there is nothing to wait for, and
    /// always in bounded time. Cancelling only ends the waiting.
    async fn ready(&self, cancel: &CancellationToken);

    /// Returns the names of whatever [`ready`](Self::ready) waits for at the moment, for people.
    fn waits_for(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the tools as they are now.
    fn tools(&self) -> SourcedTools;

    /// Takes what the user should be told, once.
    fn take_news(&self) -> Vec<SourceNews>;

    /// Ends what serves the tools. Calls fail from then on. Returns when it is over, in bounded time.
    async fn close(&self);
}

/// Tools as they are at a moment.
#[derive(Clone, Default)]
pub struct SourcedTools {
    /// Another number means other tools.
    pub revision: u64,
    /// The tools, each name once.
    pub tools: Arc<[Arc<dyn Tool>]>,
}

impl fmt::Debug for SourcedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
        f.debug_struct("SourcedTools")
            .field("revision", &self.revision)
            .field("tools", &names)
            .finish()
    }
}

/// Something that the user should be told of a source of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNews {
    /// How bad it is.
    pub level: NoticeLevel,
    /// What happened, for people.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_a_tool_or_all_of_a_server_or_all() {
        for (text, is_pattern) in [
            ("mcp__*", true),
            ("mcp__time__*", true),
            ("mcp__time__get_now", true),
            ("mcp__", false),
            ("mcp__a*b", false),
            ("mcp__a b", false),
            ("mcp*", false),
            ("bash", false),
        ] {
            assert_eq!(is_sourced_pattern(text), is_pattern, "{text}");
        }
        for (pattern, name, fits) in [
            ("mcp__*", "mcp__a__b", true),
            ("mcp__a__*", "mcp__a__b", true),
            ("mcp__a__*", "mcp__ab__b", false),
            ("mcp__a__b", "mcp__a__b", true),
            ("mcp__a__b", "mcp__a__bc", false),
        ] {
            assert_eq!(matches_sourced(pattern, name), fits, "{pattern} {name}");
        }
    }
}
