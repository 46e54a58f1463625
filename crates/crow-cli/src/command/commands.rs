//! The command `commands list`: the commands that prompt files, skills and prompts of MCP servers add to the chat.

use std::fmt::Write as _;

use crow_app::{
    ProcessEnvironment,
    config::Configuration,
    host::{FileCommand, file_commands, host_command_names},
    prompt_files::PromptFiles,
    skills::SkillSet,
    trust::project_of,
};
use crow_console::ExitCode;
use crow_mcp::ListedServerPrompt;
use crow_terminal::chat_command_names;
use crow_text::one_line;
use serde_json::json;

use crate::{
    args::OutputForm,
    error::CliError,
    listings::{CommandListing, servers::server_configuration},
    output::visible_json,
    session_commands::ConsoleCommands,
};

/// Kind of a command that is a prompt of an MCP server.
const SERVER_PROMPT: &str = "prompt of an MCP server";
/// Hint about where commands are.
const NO_COMMANDS: &str = "There are no commands of your own. A command is a file NAME.md in ~/.config/crow-agent/prompts/commands or ~/.claude/commands, or in .crow-agent/commands or .claude/commands of a trusted project. Skills and prompts of MCP servers are commands, too.\n";

/// Prints the commands that prompt files, skills and prompts of MCP servers add to the chat in the current directory, and which
/// of them are not started by their names. Prompts are those that a server listed last; no server is started.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let project = project_of(environment.current_dir()?, environment)?;
    let configuration = Configuration::load(environment, &project.additions)?;
    let prompts = PromptFiles::read(configuration.agents.layers(), environment);
    let (skills, _) = SkillSet::of_configuration(&configuration, environment);
    let own = host_command_names(ConsoleCommands::list());
    let is_taken = |name: &str| {
        own.iter().any(|own| own == name) || chat_command_names().any(|own| own == name)
    };
    let mut text = String::new();
    for command in file_commands(&prompts, &skills, is_taken) {
        match output {
            OutputForm::Text => describe(&command, &mut text),
            OutputForm::Json => drop(writeln!(text, "{}", visible_json(&to_json(&command)))),
        }
    }
    let servers = server_configuration(environment)?;
    if let Some(cache) = servers.launch.cache() {
        for (settings, _) in &servers.found.servers {
            let server = &settings.server;
            for prompt in cache.cached_prompts(server) {
                match output {
                    OutputForm::Text => describe_prompt(&prompt, &server.name, &mut text),
                    OutputForm::Json => {
                        // Writing to a string cannot fail.
                        let line = prompt_to_json(&prompt, &server.name);
                        let _ = writeln!(text, "{}", visible_json(&line));
                    }
                }
            }
        }
    }
    if text.is_empty() && output == OutputForm::Text {
        text.push_str(NO_COMMANDS);
    }
    let faults = prompts.warnings.iter().map(|warning| one_line(warning));
    CommandListing { text, messages: project.notice.into_iter().chain(faults).collect() }.print()
}

fn describe(command: &FileCommand, text: &mut String) {
    let usage = format!("/{} {}", command.name, command.argument);
    let mut marks = vec![command.kind.as_str(), command.origin.as_str()];
    if command.conflict.is_some() {
        marks.push("not used");
    }
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}  [{}]", one_line(usage.trim_end()), marks.join(", "));
    let _ = writeln!(text, "  {}", one_line(&command.description));
    let _ = writeln!(text, "  {}", one_line(&command.path.display().to_string()));
    if let Some(conflict) = &command.conflict {
        let _ = writeln!(text, "  ! {}", one_line(conflict));
    }
}

fn describe_prompt(prompt: &ListedServerPrompt, server: &str, text: &mut String) {
    let usage = format!("/{} {}", prompt.name, prompt.usage);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}  [{SERVER_PROMPT}]", one_line(usage.trim_end()));
    if !prompt.description.is_empty() {
        let _ = writeln!(text, "  {}", one_line(&prompt.description));
    }
    let _ = writeln!(text, "  {}", one_line(server));
}

fn prompt_to_json(prompt: &ListedServerPrompt, server: &str) -> serde_json::Value {
    json!({
        "name": prompt.name,
        "argument": prompt.usage,
        "description": prompt.description,
        "kind": SERVER_PROMPT,
        "from": server,
        "path": null,
        "used": true,
        "conflict": null,
    })
}

fn to_json(command: &FileCommand) -> serde_json::Value {
    json!({
        "name": command.name,
        "argument": command.argument,
        "description": command.description,
        "kind": command.kind.as_str(),
        "from": command.origin.as_str(),
        "path": command.path.to_string_lossy(),
        "used": command.conflict.is_none(),
        "conflict": command.conflict,
    })
}
