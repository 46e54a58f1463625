//! The commands and their arguments.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf};

use clap::{
    Args, Parser, Subcommand, ValueEnum, ValueHint,
    builder::{OsStringValueParser, TypedValueParser as _},
};
use clap_complete::Shell;
use crow_core::{permission::PermissionMode, turn::BudgetLimits};
use crow_runtime::{HostPattern, HostPatternError, SandboxConfig};
use crow_telemetry::statistics::StatisticsGroup;

use super::{
    CommandsArgs, EvalArgs, HooksCommand, ImportArgs, McpCommand, ReviewArgs, SkillsCommand,
    budget::budget, completions,
};
use crate::{
    error::CliError,
    undo::{HowWords, PathAt, UndoWords},
};

/// A coding agent: it works in your project with a model of your choice.
#[derive(Debug, Parser)]
#[command(name = "crow-agent", version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub chat: ChatArgs,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done · 1 failed · 2 usage or configuration · 3 no credentials · 4 provider unavailable
            5 limit reached · 6 a call was refused by policy · 7 stopped before it was done
            8 a review found something · 130 interrupted

Without a command and at a terminal it opens a chat; the options above are for it.
A task of several words needs no command: crow-agent \"fix the test\" is crow-agent run \"fix the test\".
Try it without a model: crow-agent demo";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give the agent a task and watch it work
    Run(Box<RunArgs>),
    /// Have changes or files reviewed by an agent that only reads; exit code 8 if it finds something
    Review(ReviewArgs),
    /// Watch a recorded conversation drive the real agent; needs no model
    Demo(DemoArgs),
    /// Serve an editor: the Agent Client Protocol over standard input and output
    Acp(AcpArgs),
    /// Show sessions live in a browser of this machine, and let you start, answer, steer and undo there
    Serve(ServeArgs),
    /// List, show, continue and remove sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Write a session as one HTML page: what happened, how long it took, what it cost
    Report(ReportArgs),
    /// Show what in a session took how long
    Trace(TraceArgs),
    /// Show to whom the tokens of each request of a session belong, and what they cost
    Ledger(LedgerArgs),
    /// Show what was used, by day, model, project, agent or tool
    Stats(StatsArgs),
    /// Undo changes of the agent: those of the last turn, or the named ones
    Undo(UndoArgs),
    /// Undo the last undo
    Redo(RedoArgs),
    /// Show what a call, a turn or a session changed
    Diff(DiffArgs),
    /// Restore one file or folder to an earlier state
    Restore(RestoreArgs),
    /// List, show and make agents
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// List, show and switch off skills: instructions for kinds of tasks
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// List the commands that prompt files and skills add to the chat
    Commands(CommandsArgs),
    /// List hooks, commands that are told what the agent does, and try them out
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// Take over servers, rules, agents, commands and skills from another coding agent
    Import(ImportArgs),
    /// Show, change and check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show the permission rules, and how they decide a call
    #[command(subcommand)]
    Permissions(PermissionsCommand),
    /// Show the configuration that a project contains, and trust it
    Trust(TrustArgs),
    /// Set up a model step by step: a key or a server, the model, and the theme
    Setup,
    /// Store the key of a provider, or show which keys are set
    Login(LoginArgs),
    /// Delete the stored key of a provider
    Logout(LogoutArgs),
    /// List providers and their models
    Models(ModelsArgs),
    /// Add, list, try and remove MCP servers, and log in at them
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Measure agents on a set of tasks
    Eval(Box<EvalArgs>),
    /// Show the recorded requests to providers and their replies; `CROW_WIRE_LOG=1` records them
    Wire(WireArgs),
    /// Check the machine, the sandbox, the configuration, keys, models, and the files of Crow
    Doctor {
        /// Carry out the remedies that are safe: take the rights of other users from Crow's own files
        #[arg(long)]
        fix: bool,
        /// Output format: text, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
}

/// Arguments of the chat, which opens where no command is given.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub agent: AgentOptions,
    #[command(flatten)]
    pub session: SessionOptions,
    /// Budget of the work on each prompt in money, time and tokens: '$2, 30m, 200k tokens'
    #[arg(long, value_name = "AMOUNTS", value_parser = budget)]
    pub budget: Option<BudgetLimits>,
    /// The first prompt; the chat goes on after it
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Record what the terminal shows in a new file, as an asciicast, which asciinema plays
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
}

/// The session in which an agent works.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionOptions {
    /// Continue a session: its id or an id prefix [without one you choose; without a terminal the last one here]
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", add = completions::session_ids())]
    pub resume: Option<String>,
    /// Continue the last session of this directory
    #[arg(long = "continue", short, conflicts_with = "resume")]
    pub continue_last: bool,
    /// Continue in a copy: the session itself stays as it is
    #[arg(long)]
    pub fork: bool,
    /// Working directory [default: the current one]; a resumed session keeps its own
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["resume", "continue_last"])]
    pub cwd: Option<PathBuf>,
    /// A further directory that the agent may read and change; may be repeated
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub add_dir: Vec<PathBuf>,
}

/// Which model works, and what it may do.
#[derive(Debug, Args)]
pub(crate) struct AgentOptions {
    /// The agent; `crow-agent agents list` shows them [default: that of config.toml, or BUILD-HITL]
    #[arg(long, short, value_name = "NAME", add = completions::primary_agents())]
    pub agent: Option<String>,
    /// The model of every agent, as provider/model; `crow-agent models` lists them
    #[arg(long, short, value_name = "PROVIDER/MODEL", add = completions::models())]
    pub model: Option<String>,
    /// The model of the reviewers
    #[arg(long, value_name = "PROVIDER/MODEL", add = completions::models())]
    pub reviewer_model: Option<String>,
    /// What happens to calls that change files or run commands [default: ask; a chat starts with the last choice in the
    /// project, but never with full-auto]
    #[arg(long, short, value_enum)]
    pub permissions: Option<Permissions>,
    #[command(flatten)]
    pub sandbox: SandboxOptions,
}

/// The sandbox of commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SandboxOptions {
    /// Let commands reach a host, as example.org, *.example.org or example.org:8080
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// Run commands without a sandbox, with all your rights
    #[arg(long, conflicts_with = "allow_host")]
    pub no_sandbox: bool,
}

impl SandboxOptions {
    /// Returns the hosts that commands may reach.
    pub(crate) fn hosts(&self) -> Result<Vec<HostPattern>, CliError> {
        let parse = |host: &String| {
            host.parse().map_err(|error: HostPatternError| {
                CliError::usage(format!("--allow-host: {error}"))
            })
        };
        self.allow_host.iter().map(parse).collect()
    }

    /// Returns the configuration for a runtime; `None` with `--no-sandbox`.
    pub(crate) fn for_commands(&self, config: SandboxConfig) -> Option<SandboxConfig> {
        (!self.no_sandbox).then_some(config)
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input, and piped input is appended to the task
    pub prompt: Option<String>,
    #[command(flatten)]
    pub options: RunOptions,
    #[command(flatten)]
    pub session: SessionOptions,
    /// A picture for the model, together with the task; may be repeated
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub image: Vec<PathBuf>,
    /// The id of the new session; refused if it exists
    #[arg(long, value_name = "ID", conflicts_with_all = ["resume", "continue_last"])]
    pub session_id: Option<String>,
}

/// How a run goes.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Maximum number of model calls in a turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_steps: Option<u32>,
    /// Maximum number of rounds of the run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_rounds: Option<u32>,
    /// Budget of the run in money, time and tokens: '$2, 30m, 200k tokens'
    #[arg(long, value_name = "AMOUNTS", value_parser = budget)]
    pub budget: Option<BudgetLimits>,
    /// Sampling temperature of all models, from 0 to 2; models that take none get none
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f32>,
    /// Seed of the sampling of all models; providers that take none get none
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Output format: the answer, or one JSON event per line and a final result
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
    /// With `--output json`: omit text deltas; the whole text follows in any case
    #[arg(long)]
    pub no_deltas: bool,
    /// A file with a JSON Schema that the answer must fit; the model is asked again at most twice
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output_schema: Option<PathBuf>,
}

/// Parses a temperature.
pub(super) fn temperature(text: &str) -> Result<f32, String> {
    let value = text.parse::<f32>().ok().filter(|value| (0.0..=2.0).contains(value));
    value.ok_or_else(|| "not between 0 and 2".to_owned())
}

/// Arguments of `acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Serve over HTTP at this address instead, for instance 127.0.0.1:8420; the path is `/acp`
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,
    /// Clients must send the token in this file, or in the variable `CROW_ACP_TOKEN`; required if others can
    /// reach the address
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Maximum number of model calls in a turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_steps: Option<u32>,
    /// Maximum number of rounds of a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub max_rounds: Option<u32>,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Loopback address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address, default_value = "127.0.0.1:8421")]
    pub listen: SocketAddr,
    /// Name under which a proxy of yours makes the page available, without a port; may be repeated
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub host_name: Vec<String>,
    /// Use one token at every start, kept in a file only you can read, so that pages stay open; by default each start has
    /// a new one
    #[arg(long)]
    pub keep_token: bool,
}

/// Parses an IP address with a port.
pub(super) fn socket_address(given: &str) -> Result<SocketAddr, String> {
    given.parse().map_err(|_| "give an IP address and a port, such as 127.0.0.1:8421".to_owned())
}

/// Parses the name of a host, without scheme, port and path.
fn host_name(given: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if given.is_empty() || !given.chars().all(is_part) {
        return Err("give a name such as laptop.example.org, without https:// and port".to_owned());
    }
    Ok(given.to_owned())
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
    /// Play without pauses
    #[arg(long)]
    pub fast: bool,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, the most recent first
    List(ListArgs),
    /// Show what happened in a session
    Show(ShowArgs),
    /// Continue a session with a further prompt
    Resume {
        /// The session's id or an id prefix
        #[arg(add = completions::session_ids())]
        id: String,
        /// The prompt; `-` reads it from standard input
        prompt: Option<String>,
        #[command(flatten)]
        options: Box<RunOptions>,
    },
    /// Print a session as Markdown
    Export {
        /// The session's id or an id prefix
        #[arg(add = completions::session_ids())]
        id: String,
    },
    /// Rebuild a damaged session from its intact part
    Repair {
        /// The session's id or an id prefix
        #[arg(add = completions::session_ids())]
        id: String,
    },
    /// Give a session another title
    Rename {
        /// The session's id or an id prefix
        #[arg(add = completions::session_ids())]
        id: String,
        /// The title
        title: String,
    },
    /// Remove sessions for good
    Rm {
        /// The sessions' ids or id prefixes
        #[arg(required = true, add = completions::session_ids())]
        ids: Vec<String>,
    },
}

/// Arguments of `sessions list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Maximum number of sessions to list; 0 lists all
    #[arg(long, short = 'n', default_value_t = 50)]
    pub limit: usize,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Output format: a table, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `sessions show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session's id or an id prefix
    #[arg(add = completions::session_ids())]
    pub id: String,
    /// Show what each call changed, and what was undone
    #[arg(long)]
    pub changes: bool,
    /// Show what fills the context window, and why requests missed the provider's cache
    #[arg(long, conflicts_with = "changes")]
    pub context: bool,
    /// Show the full output of a command: the last one, the N-th from the end, or that of the call with this id prefix
    #[arg(long, value_name = "N|CALL", num_args = 0..=1, default_missing_value = "1", conflicts_with_all = ["changes", "context", "output"])]
    pub call: Option<String>,
    /// Output format: a transcript or a table, or JSON lines
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The session's id or an id prefix [default: the last session of this directory]
    #[arg(add = completions::session_ids())]
    pub session: Option<String>,
    /// The file to write; `-` is standard output [default: crow-report-ID.html]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The session's id or an id prefix [default: the last session of this directory]
    #[arg(add = completions::session_ids())]
    pub session: Option<String>,
    /// Leave out what took less than this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub min_ms: u64,
    /// Output format: a waterfall, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// The session's id or an id prefix [default: the last session of this directory]
    #[arg(add = completions::session_ids())]
    pub session: Option<String>,
    /// Only this request, counted from 1
    #[arg(long, short, value_name = "N")]
    pub request: Option<usize>,
    /// Output format: tables, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The grouping of the rows
    #[arg(long, value_enum, default_value_t = StatsGroup::Day)]
    pub by: StatsGroup,
    /// Number of days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Output format: a table, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `wire`.
#[derive(Debug, Args)]
pub(crate) struct WireArgs {
    /// Show this request whole, by its number
    pub number: Option<usize>,
    /// Maximum number of requests to list, the last ones
    #[arg(long, short = 'n', default_value_t = 20)]
    pub last: usize,
    /// Output format: text, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Grouping of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsGroup {
    /// A day
    Day,
    /// A model
    Model,
    /// A working directory
    Project,
    /// An agent
    Agent,
    /// A tool
    Tool,
}

impl From<StatsGroup> for StatisticsGroup {
    fn from(group: StatsGroup) -> Self {
        match group {
            StatsGroup::Day => Self::Day,
            StatsGroup::Model => Self::Model,
            StatsGroup::Project => Self::Project,
            StatsGroup::Agent => Self::Agent,
            StatsGroup::Tool => Self::Tool,
        }
    }
}

/// What to do with agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List the agents, and what they are for
    List {
        /// Output format: a table, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Show all settings of an agent, and where each is set
    Show {
        /// The agent
        #[arg(add = completions::agents())]
        name: String,
        /// Output format: text, or one JSON object
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Write the file of a new agent, to be edited
    New {
        /// Its name
        name: String,
        /// The agent to copy: a base agent or a composition
        #[arg(long, value_name = "AGENT", add = completions::agents())]
        from: Option<String>,
    },
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a value: `sandbox.network`, `agents.base.builder.react.max_iterations`
    Get {
        /// The dotted key
        key: String,
    },
    /// Set a value in your own configuration, if it is valid
    Set {
        /// The dotted key
        key: String,
        /// The value: TOML, or a text
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Show the value of a key in each layer, and which one counts
    Explain {
        /// The dotted key, of a value or of a table
        key: String,
    },
    /// Check every file of the configuration
    Validate,
    /// Print the JSON Schema of a kind of file
    Schema {
        /// The kind of file
        of: Option<SchemaOf>,
    },
    /// Print where the configuration is
    Path,
}

/// A kind of file with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// agents/base/*.toml
    Base,
    /// agents/acp/*.toml
    Composition,
    /// config.toml
    Config,
    /// permissions.json
    Permissions,
    /// profiles/*.toml
    Profiles,
    /// providers/*.toml
    Providers,
}

/// What to do with permission rules.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// List the rules in order of precedence
    List {
        /// Output format: a table, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Show how a call is decided, and why
    Explain(ExplainArgs),
}

/// Arguments of `permissions explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A command line, or the name of a tool and a path: `cargo test`, `edit_file src/main.rs`
    pub call: String,
    /// What happens to calls that no rule matches
    #[arg(long, short, value_enum, default_value_t = Permissions::Ask)]
    pub permissions: Permissions,
    /// The agent that makes the call
    #[arg(long, default_value = "builder", add = completions::base_agents())]
    pub agent: String,
    /// Where the agent works [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
    /// Output format: text, or one JSON object
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Arguments of `trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Trust it as it is, without asking
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub yes: bool,
    /// List the projects that are trusted
    #[arg(long, conflicts_with_all = ["revoke", "cwd"])]
    pub list: bool,
    /// Revoke the trust
    #[arg(long)]
    pub revoke: bool,
    /// A directory of the project [default: the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,
}

/// Arguments of `login`.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The provider; its key is read from a hidden prompt or standard input
    #[arg(add = completions::providers_with_key())]
    pub provider: Option<String>,
    /// Store it without asking
    #[arg(long)]
    pub yes: bool,
    /// Store it in the keyring of the system instead of a file
    #[cfg(feature = "keyring")]
    #[arg(long, conflicts_with = "status")]
    pub keyring: bool,
    /// Show where each provider's key is, not the key itself
    #[arg(long, conflicts_with_all = ["provider", "yes"])]
    pub status: bool,
}

/// Arguments of `logout`.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The provider [default: the only one with a stored key]
    #[arg(add = completions::providers_with_stored_key())]
    pub provider: Option<String>,
}

/// Subcommands of `models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Show what is known of a model, and what its profile changes
    Show {
        /// The model, as PROVIDER/MODEL
        #[arg(add = completions::models())]
        model: String,
        /// Output format: text, or one JSON object
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
}

/// Arguments of `models`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub command: Option<ModelsCommand>,
    /// Ask the providers which models they list, and remember them for completions and editors
    #[arg(long)]
    pub refresh: bool,
    /// Only this provider
    #[arg(add = completions::providers())]
    pub provider: Option<String>,
    /// Output format: a table, or one JSON object per line
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Text for people
    Text,
    /// JSON lines for programs
    Json,
}

/// The permission modes as the command line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permissions {
    /// Ask about every change and command; without a terminal they are refused
    Ask,
    /// Allow changes of files in the working directory, ask about the rest
    AcceptEdits,
    /// Only reading
    ReadOnly,
    /// Allow what the sandbox lets commands do, also to file tools; ask about the rest
    FullAuto,
}

impl From<Permissions> for PermissionMode {
    fn from(permissions: Permissions) -> Self {
        match permissions {
            Permissions::Ask => Self::Ask,
            Permissions::AcceptEdits => Self::AcceptEdits,
            Permissions::ReadOnly => Self::ReadOnly,
            Permissions::FullAuto => Self::FullAuto,
        }
    }
}

/// Arguments of `undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    pub words: UndoWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `redo`.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    #[command(flatten)]
    pub how: HowWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A call's id, the number of a turn, or A..B: from before A to after B; else a path [default: the whole session]
    pub what: Option<OsString>,
    /// Show only these files, and what is below these folders
    #[arg(last = true, value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Show files that git ignores as well; else they are only counted
    #[arg(long)]
    pub ignored: bool,
    #[command(flatten)]
    pub of: OfSession,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// PATH@CALL or PATH@TURN: its state after it, with a trailing ^ before it; PATH@start: before the session
    #[arg(value_name = "PATH@WHEN", value_parser = OsStringValueParser::new().try_map(|text| PathAt::parse(&text)))]
    pub what: PathAt,
    #[command(flatten)]
    pub how: HowWords,
    #[command(flatten)]
    pub of: OfSession,
}

/// Which session is meant, and how stdout says what came of it.
#[derive(Debug, Args)]
pub(crate) struct OfSession {
    /// The session: its id or an id prefix [default: the last one of the current directory, or of its nearest parent]
    #[arg(long, short, value_name = "ID", add = completions::session_ids())]
    pub session: Option<String>,
    /// Output format: text, or one JSON object
    #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_permission_mode_has_its_own_name() {
        for permissions in Permissions::value_variants() {
            let name = permissions.to_possible_value().unwrap();
            assert_eq!(name.get_name(), PermissionMode::from(*permissions).as_str());
        }
    }
}
