//! The tool `list_directory`.

use async_trait::async_trait;
use crow_core::tool::{
    Access, CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::list;
use crate::{
    blocking::blocking_until_cancelled,
    paths::{self, here},
};

/// Levels that are shown if the call does not say.
const DEFAULT_DEPTH: usize = 2;
/// Most levels that can be shown.
const MAX_DEPTH: usize = 10;

/// Shows the tree below a folder.
#[derive(Debug)]
pub(crate) struct ListDirectory;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDirectoryInput {
    /// Default: the working directory.
    #[serde(
        default = "here",
        alias = "dir",
        alias = "directory",
        alias = "dir_path",
        alias = "file_path",
        alias = "relative_workspace_path"
    )]
    path: String,
    /// Levels to show, default 2.
    #[serde(default)]
    depth: Option<usize>,
}

#[async_trait]
impl TypedTool for ListDirectory {
    type Input = ListDirectoryInput;
    const NAME: &'static str = "list_directory";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Shows a folder as a tree, up to 200 entries, upper levels first. Ignored folders are named but not opened."
    }

    async fn plan(
        &self,
        input: &ListDirectoryInput,
        ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        paths::plan("list", &input.path, Access::Read, ctx).await
    }

    async fn execute(
        &self,
        input: ListDirectoryInput,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        show(&input, plan, ctx).await.unwrap_or_else(|error| error.to_result())
    }
}

async fn show(
    input: &ListDirectoryInput,
    plan: &CallPlan,
    ctx: &ToolContext,
) -> Result<ToolResult, ToolError> {
    let path = paths::resolve_planned(&input.path, plan, ctx).await?;
    let depth = input.depth.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH);
    let session = ctx.clone();
    blocking_until_cancelled(ctx, move || list(&path, depth, &session)).await
}
