//! From the arguments to the exit code.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process,
};

use clap::{CommandFactory as _, error::ErrorKind};
use crow_core::redact::Redactor;
use crow_runtime::{adopt_orphans, reset_ignored_signals};

use crate::{
    agents,
    args::{
        AgentsCommand, ChatArgs, Cli, Command, ConfigCommand, DiffArgs, McpCommand, OutputForm,
        PermissionsCommand, RedoArgs, RestoreArgs, RunOptions, SessionsCommand, UndoArgs,
    },
    chat, command,
    command_line::parse,
    config, credentials,
    doctor::doctor,
    environment::Environment,
    error::CliError,
    hardening::keep_keys_from_children,
    known_secrets::redactor,
    mcp,
    output::{ErrorReport, ExitCode, JsonWriter, RunReport},
    render::neutralise,
};

/// Runs the program.
pub fn main(
    args: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> process::ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(offered) = command::offer(&args, environment) {
        return offered.unwrap_or(ExitCode::Failed).into();
    }
    keep_keys_from_children();
    reset_ignored_signals();
    // Where the system has nothing of the kind, commands are ended with their group alone.
    drop(adopt_orphans());
    let cli = match parse(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &args).into(),
    };
    log_to_stderr(environment);
    let form = cli.command.as_ref().map_or(OutputForm::Text, output_form);
    let done = match cli.command {
        Some(command) => execute(command, &args, environment),
        None => converse(cli.chat, args.len(), environment),
    };
    match done {
        Ok(code) => code.into(),
        Err(error) => report(&redacted(error, environment), form).into(),
    }
}

/// Opens the chat. Where nobody could see it and nothing was asked for, the help says what there is.
fn converse(
    chat: ChatArgs,
    arguments: usize,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let terminals = [
        environment.stdin_is_terminal,
        environment.stdout_is_terminal,
        environment.stderr_is_terminal,
    ];
    if terminals.into_iter().all(|is_terminal| is_terminal) {
        return block_on(chat::chat(chat, environment));
    }
    if arguments > 1 {
        return Err(CliError::usage("the chat needs a terminal for input and output")
            .hint("crow-agent run \"what to do\" needs none"));
    }
    let help = Cli::command().render_help().to_string();
    // Nothing can be done about an output that cannot be written.
    drop(io::stderr().write_all(help.as_bytes()));
    Ok(ExitCode::Usage)
}

fn execute(
    command: Command,
    args: &[OsString],
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => block_on(command::run(args, environment)),
        Command::Acp(args) => block_on(command::acp(args, environment)),
        Command::Demo(args) => block_on(command::demo(&args, environment)),
        Command::Models(args) => block_on(command::models(&args, environment)),
        Command::Undo(args) => command::undo(&args, environment),
        Command::Redo(args) => command::redo(&args, environment),
        Command::Diff(args) => command::diff(&args, environment),
        Command::Restore(args) => command::restore(&args, environment),
        Command::Permissions(PermissionsCommand::List { output }) => {
            command::list_rules(output, environment)
        }
        Command::Permissions(PermissionsCommand::Explain(args)) => {
            block_on(command::explain(&args, environment))
        }
        Command::Config(args) => match args {
            ConfigCommand::Get { key } => config::get(&key, environment),
            ConfigCommand::Set { key, value } => config::set(&key, &value, environment),
            ConfigCommand::Explain { key } => config::explain(&key, environment),
            ConfigCommand::Validate => config::validate(environment),
            ConfigCommand::Schema { of } => config::print_schema(of),
            ConfigCommand::Path => config::paths(environment),
        },
        Command::Agents(args) => match args {
            AgentsCommand::List { output } => agents::list(output, environment),
            AgentsCommand::Show { name, output } => agents::show(&name, output, environment),
            AgentsCommand::New { name, from } => {
                agents::create(&name, from.as_deref(), environment)
            }
        },
        Command::Mcp(McpCommand::List { output }) => mcp::list(output, environment),
        Command::Mcp(McpCommand::Test { name, output }) => {
            block_on(mcp::test(&name, output, environment))
        }
        Command::Doctor { output } => block_on(doctor(output, environment)),
        Command::Login(args) => credentials::login(&args, environment),
        Command::Logout(args) => credentials::logout(&args, environment),
        Command::Trust(args) => command::trust(&args, environment),
        Command::Completions { shell } => command::completions(shell, args, environment),
        Command::Man => command::man(),
        Command::Sessions(command) => match command {
            SessionsCommand::List(args) => block_on(command::list(&args, environment)),
            SessionsCommand::Show(args) => block_on(command::show(&args, environment)),
            SessionsCommand::Resume { id, prompt, options } => {
                block_on(command::resume(id, prompt, options, environment))
            }
            SessionsCommand::Export { id } => block_on(command::export(&id, environment)),
            SessionsCommand::Repair { id } => command::repair(&id, environment),
            SessionsCommand::Rm { ids } => command::remove(&ids, environment),
        },
    }
}

/// One thread runs all agents; what blocks goes to others.
fn block_on(work: impl Future<Output = Result<ExitCode, CliError>>) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CliError::failed(format!("the program cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // A thread may still wait for a line at the terminal: it is not waited for.
    runtime.shutdown_background();
    result
}

fn output_form(command: &Command) -> OutputForm {
    match command {
        Command::Run(args) => args.options.output,
        Command::Demo(args) => args.output,
        Command::Undo(UndoArgs { of, .. })
        | Command::Redo(RedoArgs { of, .. })
        | Command::Diff(DiffArgs { of, .. })
        | Command::Restore(RestoreArgs { of, .. }) => of.output,
        Command::Sessions(SessionsCommand::Show(args)) if args.changes => args.output,
        Command::Sessions(SessionsCommand::Resume {
            options: RunOptions { output, .. }, ..
        }) => *output,
        // These print no result line: what they list is their output.
        Command::Acp(_)
        | Command::Models(_)
        | Command::Sessions(_)
        | Command::Permissions(_)
        | Command::Config(_)
        | Command::Agents(_)
        | Command::Mcp(_)
        | Command::Doctor { .. }
        | Command::Trust(_)
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Completions { .. }
        | Command::Man => OutputForm::Text,
    }
}

/// Help and version go to stdout; anything else that clap says is an error of usage.
fn refuse(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // Nothing can be done about a terminal that cannot be written.
    drop(error.print());
    if asked_for {
        return ExitCode::Done;
    }
    if wants_json(args) {
        let text = error.render().to_string();
        let said = text
            .lines()
            .take_while(|line| !line.trim().is_empty())
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let message = said.strip_prefix("error: ").unwrap_or(&said);
        print_result(&CliError::usage(message).hint("crow-agent --help"));
    }
    ExitCode::Usage
}

fn wants_json(args: &[OsString]) -> bool {
    let texts: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let joined = texts.iter().any(|arg| matches!(*arg, "--output=json" | "-o=json" | "-ojson"));
    joined || texts.windows(2).any(|pair| matches!(pair, ["--output" | "-o", "json"]))
}

/// What goes wrong may name what it goes wrong with.
fn redacted(mut error: CliError, environment: &Environment) -> CliError {
    let redactor = redactor(environment, None);
    redactor.redact_string(&mut error.message);
    if let Some(hint) = &mut error.hint {
        redactor.redact_string(hint);
    }
    error
}

/// Tells the user of an error, and programs too if they listen.
fn report(error: &CliError, form: OutputForm) -> ExitCode {
    let mut text = format!("crow-agent: {}\n", neutralise(&error.message));
    if let Some(hint) = &error.hint {
        let (before, indent) = if hint.contains('\n') { ("\n", "") } else { ("", "  ") };
        for part in [before, indent, &neutralise(hint), "\n"] {
            text.push_str(part);
        }
    }
    drop(io::stderr().write_all(text.as_bytes()));
    if form == OutputForm::Json {
        print_result(error);
    }
    error.exit
}

fn print_result(error: &CliError) {
    let report = ErrorReport {
        code: error.code.to_owned(),
        message: error.message.clone(),
        hint: error.hint.clone(),
    };
    drop(JsonWriter::new(io::stdout()).result(&RunReport::not_started(error.exit, report)));
}

/// `CROW_LOG` turns the program's own log on, such as `CROW_LOG=debug`.
fn log_to_stderr(environment: &Environment) {
    let Some(filter) = environment.var("CROW_LOG") else { return };
    let filter = tracing_subscriber::EnvFilter::builder().parse_lossy(filter);
    let redactor = redactor(environment, None);
    let later = environment.given_later.clone();
    let writer = move || RedactedLog([redactor.clone(), later.clone()]);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).init();
}

/// Standard error for lines of the log, which come whole.
struct RedactedLog([Redactor; 2]);

impl io::Write for RedactedLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut text = String::from_utf8_lossy(line).into_owned();
        for redactor in &self.0 {
            redactor.redact_string(&mut text);
        }
        io::stderr().write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
