//! The command line.

mod budget;
mod cli;
mod commands;
mod completions;
mod eval;
mod hooks;
mod import;
mod mcp;
mod review;
mod skills;

pub(crate) use cli::{
    AcpArgs, AgentOptions, AgentsCommand, ChatArgs, Cli, Command, ConfigCommand, DemoArgs,
    DiffArgs, ExplainArgs, LedgerArgs, ListArgs, LoginArgs, LogoutArgs, ModelsArgs, ModelsCommand,
    OfSession, OutputForm, Permissions, PermissionsCommand, RedoArgs, ReportArgs, RestoreArgs,
    RunArgs, RunOptions, SandboxOptions, SchemaOf, ServeArgs, SessionOptions, SessionsCommand,
    ShowArgs, StatsArgs, StatsGroup, TraceArgs, TrustArgs, UndoArgs, WireArgs,
};
pub(crate) use commands::CommandsArgs;
pub(crate) use completions::{completions, man, print_completions, quoted};
pub(crate) use eval::{EvalArgs, EvalCommand, EvalListArgs, EvalRunArgs, TaskArgs};
pub(crate) use hooks::{HooksCommand, HooksTestArgs};
pub(crate) use import::ImportArgs;
pub(crate) use mcp::{McpAddArgs, McpCommand, McpServeArgs};
pub(crate) use review::ReviewArgs;
pub(crate) use skills::SkillsCommand;
