//! The agents that come with the program.

/// Makes pairs of path and content from paths of files, relative to the folder of the configuration.
macro_rules! shipped {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../", $path)))),*]
    };
}

/// The files of the shipped agents: paths relative to the folder of the configuration, and contents.
pub const SHIPPED: &[(&str, &str)] = shipped![
    "agents/acp/BUILD-CHAT.toml",
    "agents/acp/BUILD-HITL.toml",
    "agents/acp/BUILD-JUDGE.toml",
    "agents/acp/BUILD-LOOP.toml",
    "agents/acp/BUILD-SMART.toml",
    "agents/acp/PLAN.toml",
    "agents/acp/TASK-SMART.toml",
    "agents/base/builder.toml",
    "agents/base/explorer.toml",
    "agents/base/planner.toml",
    "agents/base/reviewer.toml",
    "agents/base/task_executor.toml",
    "agents/base/task_reviewer.toml",
    "prompts/system/builder.md",
    "prompts/system/explorer.md",
    "prompts/system/planner.md",
    "prompts/system/reviewer.md",
    "prompts/system/task_executor.md",
    "prompts/system/task_reviewer.md",
    "prompts/system/trust.md",
];
