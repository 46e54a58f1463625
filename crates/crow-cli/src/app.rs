//! The main function: dispatches a command line and reports its errors.

use std::{
    ffi::OsString,
    io::{self, Write as _},
    pin::Pin,
    process,
};

use clap::{CommandFactory as _, error::ErrorKind};
use crow_app::{ProcessEnvironment, known_secrets::redactor};
use crow_console::{ErrorReport, ExitCode, RunReport};
use crow_runtime::{adopt_orphans, reset_ignored_signals};
use crow_text::neutralise;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    args::{
        AgentsCommand, ChatArgs, Cli, Command, ConfigCommand, DiffArgs, HooksCommand, McpCommand,
        OutputForm, PermissionsCommand, RedoArgs, RestoreArgs, SessionsCommand, SkillsCommand,
        UndoArgs, completions, man, print_completions,
    },
    chat, command,
    command_line::parse,
    crash_report::report_crashes,
    diagnostic_log::start_log,
    doctor::doctor,
    error::CliError,
    output::JsonWriter,
    run,
    setup::setup,
};

/// Runs the program with its arguments, the first of which is its name. Returns the exit code.
pub fn main(
    args: impl IntoIterator<Item = OsString>,
    environment: &ProcessEnvironment,
) -> process::ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // A request of the shell for completions is answered first.
    if let Some(offered) = print_completions(&args, environment) {
        return offered.unwrap_or(ExitCode::Failed).into();
    }
    restrict_process_inspection();
    reset_ignored_signals();
    // Not supported everywhere: without it only the process group of a command is ended.
    drop(adopt_orphans());
    let cli = match parse(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &args).into(),
    };
    report_crashes(environment);
    start_log(environment);
    let form = cli.command.as_ref().map_or(OutputForm::Text, output_form);
    let result = match cli.command {
        Some(command) => execute(command, &args, environment),
        None => converse(cli.chat, args.len(), environment),
    };
    match result {
        Ok(code) => code.into(),
        Err(error) => report(&redacted(error, environment), form).into(),
    }
}

/// Opens the chat. Without a terminal it prints the help if there are no arguments, and fails otherwise.
fn converse(
    chat: ChatArgs,
    arguments: usize,
    environment: &ProcessEnvironment,
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
            .hint("without a terminal: crow-agent run \"what to do\""));
    }
    let help = Cli::command().render_help().to_string();
    // A failure to write this output cannot be reported.
    drop(io::stderr().write_all(help.as_bytes()));
    Ok(ExitCode::Usage)
}

fn execute(
    command: Command,
    args: &[OsString],
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(args) => block_on(run::run(*args, environment)),
        Command::Review(args) => block_on(command::review(args, environment)),
        Command::Acp(args) => block_on(command::acp(args, environment)),
        Command::Serve(args) => block_on(command::serve(args, environment)),
        Command::Demo(args) => block_on(command::demo(&args, environment)),
        Command::Models(args) => block_on(command::models(&args, environment)),
        Command::Report(args) => block_on(command::report(&args, environment)),
        Command::Trace(args) => command::trace(&args, environment),
        Command::Ledger(args) => block_on(command::ledger(&args, environment)),
        Command::Stats(args) => block_on(command::stats(&args, environment)),
        Command::Wire(args) => command::wire(&args, environment),
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
            ConfigCommand::Get { key } => command::config::get(&key, environment),
            ConfigCommand::Set { key, value } => command::config::set(&key, &value, environment),
            ConfigCommand::Explain { key } => command::config::explain(&key, environment),
            ConfigCommand::Validate => command::config::validate(environment),
            ConfigCommand::Schema { of } => command::config::print_schema(of),
            ConfigCommand::Path => command::config::paths(environment),
        },
        Command::Agents(args) => match args {
            AgentsCommand::List { output } => command::agents::list(output, environment),
            AgentsCommand::Show { name, output } => {
                command::agents::show(&name, output, environment)
            }
            AgentsCommand::New { name, from } => {
                command::agents::create(&name, from.as_deref(), environment)
            }
        },
        Command::Skills(skills) => match skills {
            SkillsCommand::List { output } => command::skills::list(output, environment),
            SkillsCommand::Show { name, output } => {
                command::skills::show(&name, output, environment)
            }
            SkillsCommand::Disable { name } => command::skills::switch(&name, false, environment),
            SkillsCommand::Enable { name } => command::skills::switch(&name, true, environment),
        },
        Command::Commands(args) => command::commands::list(args.output(), environment),
        Command::Import(args) => command::import::import(&args, environment),
        Command::Hooks(HooksCommand::List { output }) => command::hooks::list(output, environment),
        Command::Hooks(HooksCommand::Test(args)) => {
            block_on(command::hooks::test(args, environment))
        }
        Command::Mcp(McpCommand::List { output }) => command::mcp::list(output, environment),
        Command::Mcp(McpCommand::Serve(args)) => block_on(command::mcp_serve(*args, environment)),
        Command::Mcp(McpCommand::Add(args)) => command::mcp::add(&args, environment),
        Command::Mcp(McpCommand::Remove { name }) => {
            block_on(command::mcp::remove(&name, environment))
        }
        Command::Mcp(McpCommand::Login { name, scope, no_browser }) => {
            block_on(command::mcp::login(&name, scope, no_browser, environment))
        }
        Command::Mcp(McpCommand::Logout { name }) => {
            block_on(command::mcp::logout(&name, environment))
        }
        Command::Mcp(McpCommand::Test { name, output }) => {
            block_on(command::mcp::test(&name, output, environment))
        }
        Command::Eval(args) => block_on(command::eval(*args, environment)),
        Command::Doctor { output, fix } => block_on(doctor(output, fix, environment)),
        Command::Setup => block_on(setup(environment)),
        Command::Login(args) => command::login(&args, environment),
        Command::Logout(args) => command::logout(&args, environment),
        Command::Trust(args) => command::trust(&args, environment),
        Command::Completions { shell } => completions(shell, args, environment),
        Command::Man => man(),
        Command::Sessions(command) => match command {
            SessionsCommand::List(args) => block_on(command::list(&args, environment)),
            SessionsCommand::Show(args) => block_on(command::show(&args, environment)),
            SessionsCommand::Resume { id, prompt, options } => {
                block_on(run::resume(id, prompt, *options, environment))
            }
            SessionsCommand::Export { id } => block_on(command::export(&id, environment)),
            SessionsCommand::Repair { id } => command::repair(&id, environment),
            SessionsCommand::Rename { id, title } => command::rename(&id, &title, environment),
            SessionsCommand::Rm { ids } => command::remove(&ids, environment),
        },
    }
}

/// Runs a command on a single-threaded runtime; blocking work goes to its pool.
fn block_on(work: impl Future<Output = Result<ExitCode, CliError>>) -> Result<ExitCode, CliError> {
    // One type of future, because the runtime has 4 kB of code for each.
    block_on_boxed(Box::pin(work))
}

fn block_on_boxed(
    work: Pin<Box<dyn Future<Output = Result<ExitCode, CliError>> + '_>>,
) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| CliError::failed(format!("the program cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // Does not wait for a thread that may still be reading the terminal.
    runtime.shutdown_background();
    result
}

/// Returns the form in which a command reports its result and errors.
fn output_form(command: &Command) -> OutputForm {
    match command {
        Command::Run(args) => args.options.output,
        Command::Review(args) => args.output,
        Command::Demo(args) => args.output,
        Command::Undo(UndoArgs { of, .. })
        | Command::Redo(RedoArgs { of, .. })
        | Command::Diff(DiffArgs { of, .. })
        | Command::Restore(RestoreArgs { of, .. }) => of.output,
        Command::Sessions(SessionsCommand::Show(args)) if args.changes => args.output,
        Command::Sessions(SessionsCommand::Resume { options, .. }) => options.output,
        // These print no result line, only what they list.
        Command::Acp(_)
        | Command::Serve(_)
        | Command::Models(_)
        | Command::Sessions(_)
        | Command::Report(_)
        | Command::Trace(_)
        | Command::Ledger(_)
        | Command::Stats(_)
        | Command::Wire(_)
        | Command::Permissions(_)
        | Command::Config(_)
        | Command::Agents(_)
        | Command::Skills(_)
        | Command::Commands(_)
        | Command::Hooks(_)
        | Command::Import(_)
        | Command::Mcp(_)
        | Command::Eval(_)
        | Command::Doctor { .. }
        | Command::Trust(_)
        | Command::Setup
        | Command::Login(_)
        | Command::Logout(_)
        | Command::Completions { .. }
        | Command::Man => OutputForm::Text,
    }
}

/// Prints clap's message. Help and version are not errors; anything else is a usage error, also reported as a JSON
/// result if `--output json` was given.
fn refuse(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let is_requested = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // The message quotes arguments, which can be names of files that others chose.
    let is_harmless =
        args.iter().map(|arg| arg.to_string_lossy()).all(|arg| neutralise(&arg) == arg);
    let plain = error.render().to_string();
    // A failure to write to the terminal cannot be reported.
    if is_harmless {
        drop(error.print());
    } else {
        drop(io::stderr().write_all(neutralise(&plain).as_bytes()));
    }
    if is_requested {
        return ExitCode::Done;
    }
    if wants_json(args) {
        let line = plain
            .lines()
            .take_while(|line| !line.trim().is_empty())
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let message = line.strip_prefix("error: ").unwrap_or(&line);
        print_result(&CliError::usage(message).hint("crow-agent --help"));
    }
    ExitCode::Usage
}

/// Returns true if the arguments ask for JSON output; for arguments that clap could not parse.
fn wants_json(args: &[OsString]) -> bool {
    let texts: Vec<_> = args.iter().filter_map(|arg| arg.to_str()).collect();
    let joined = texts.iter().any(|arg| matches!(*arg, "--output=json" | "-o=json" | "-ojson"));
    joined || texts.windows(2).any(|pair| matches!(pair, ["--output" | "-o", "json"]))
}

/// Redacts known secrets in an error, whose message may quote its input.
fn redacted(mut error: CliError, environment: &ProcessEnvironment) -> CliError {
    let redactor = redactor(environment, None);
    redactor.redact_string(&mut error.message);
    if let Some(hint) = &mut error.hint {
        redactor.redact_string(hint);
    }
    error
}

/// Prints an error to stderr, and as a result line to stdout in the JSON form. Returns its exit code.
fn report(error: &CliError, form: OutputForm) -> ExitCode {
    let mut text = format!("crow-agent: {}\n", neutralise(&error.message));
    if let Some(hint) = &error.hint {
        let (separator, indent) = if hint.contains('\n') { ("\n", "") } else { ("", "  ") };
        for part in [separator, indent, &neutralise(hint), "\n"] {
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

/// Prevents other processes of the same user from reading the process's memory and environment, and disables core
/// dumps.
///
/// Processes that it starts are not restricted: they can be traced and dumped like any program. Only the core limit is
/// inherited; they may raise it again.
fn restrict_process_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // There is no alternative if the kernel does not support this.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    let maximum = getrlimit(Resource::Core).maximum;
    // Lowering a limit is always permitted.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
}
