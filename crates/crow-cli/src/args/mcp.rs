//! The commands of `mcp` and their arguments.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand};

use super::{
    cli::{AgentOptions, OutputForm, socket_address},
    completions,
};

/// What to do with servers of the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server to your configuration: `mcp add NAME URL`, or `mcp add NAME COMMAND [ARGUMENTS]`
    Add(McpAddArgs),
    /// Remove a server from your configuration
    Remove {
        /// The server
        #[arg(add = completions::mcp_servers())]
        name: String,
    },
    /// Log in at a server with a URL: a page of the server opens in the browser
    Login {
        /// The server
        #[arg(add = completions::mcp_servers())]
        name: String,
        /// A scope to request, beside those of the configuration
        #[arg(long)]
        scope: Vec<String>,
        /// Open no browser: you open the page, perhaps on another machine, and paste the address at its end
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete the login at a server
    Logout {
        /// The server
        #[arg(add = completions::mcp_servers())]
        name: String,
    },
    /// List the servers, and their tools as last seen; starts nothing
    List {
        /// Output format: text, or one JSON object per line
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
    /// Serve other agents: they start tasks, follow them, answer questions, read the changes and cancel
    Serve(Box<McpServeArgs>),
    /// Connect to a server, list its tools and disconnect
    Test {
        /// The server
        #[arg(add = completions::mcp_servers())]
        name: String,
        /// Output format: text, or one JSON object
        #[arg(long, short, value_enum, default_value_t = OutputForm::Text)]
        output: OutputForm,
    },
}

/// Arguments of `mcp serve`.
#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    #[command(flatten)]
    pub agent: AgentOptions,
    /// Listen at this loopback address instead of serving one client on stdin and stdout; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,
    /// Directory of tasks that name none [default: the current one]
    #[arg(long, short = 'C', value_name = "DIRECTORY")]
    pub cwd: Option<PathBuf>,
}

/// A server to add to the configuration.
#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// Its name, a part of the names of its tools
    pub(crate) name: String,
    /// Its URL, or its command with arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) target: Vec<String>,
    /// A variable for the program; ${NAME} in the value stands for one of yours
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header of each request; ${NAME} in the value stands for a variable of yours
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// The client id, if you registered Crow at the authorization server yourself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// A scope to request at the login; those that the server names if none is given
    #[arg(long)]
    pub(crate) scope: Vec<String>,
    /// Replace a server of this name
    #[arg(long)]
    pub(crate) replace: bool,
}
