//! The command line.

mod candidates;
mod cli;
mod undo;

pub(crate) use cli::{
    AcpArgs, AgentOptions, AgentsCommand, ChatArgs, Cli, Command, ConfigCommand, DemoArgs,
    ExplainArgs, ListArgs, LoginArgs, LogoutArgs, McpCommand, ModelsArgs, OutputForm, Permissions,
    PermissionsCommand, RunArgs, RunOptions, SandboxOptions, SchemaOf, SessionsCommand, ShowArgs,
    TrustArgs,
};
pub(crate) use undo::{DiffArgs, OfSession, RedoArgs, RestoreArgs, UndoArgs};
