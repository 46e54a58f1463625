//! The list of hooks.

use std::{fmt::Write as _, path::Path};

use crow_app::{
    ProcessEnvironment,
    config::Configuration,
    hooks::{HookSet, SessionHook, UnusedHook},
    trust::{Project, project_of},
};
use crow_text::one_line;
use serde_json::json;

use super::CommandListing;
use crate::{args::OutputForm, error::CliError, output::visible_json};

/// Hint about where hooks are.
pub(crate) const NO_HOOKS: &str = "There are no hooks. They are configured in ~/.config/crow-agent/hooks.json or ~/.claude/settings.json, or in .crow-agent/hooks.json, .claude/settings.json or .claude/settings.local.json of a trusted project.\n";

/// Lists the hooks of the current directory, and why any does not run.
pub(crate) fn listing(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<CommandListing, CliError> {
    let (set, project) = hooks(environment, environment.current_dir()?)?;
    let mut text = String::new();
    for hook in &set.hooks {
        match output {
            OutputForm::Text => describe(hook, &mut text),
            OutputForm::Json => drop(writeln!(text, "{}", visible_json(&to_json(hook)))),
        }
    }
    for (file, unused) in &set.unused {
        match output {
            OutputForm::Text => describe_unused(file, unused, &mut text),
            OutputForm::Json => {
                let UnusedHook { place, reason } = unused;
                let file = file.to_string_lossy();
                let unused =
                    json!({ "file": file, "place": place, "runs": false, "reason": reason });
                let _ = writeln!(text, "{}", visible_json(&unused));
            }
        }
    }
    if output == OutputForm::Text && text.is_empty() {
        text.push_str(if set.faults.is_empty() { NO_HOOKS } else { "No hook can run.\n" });
    }
    let faults = set.faults.iter().map(|fault| one_line(fault));
    Ok(CommandListing { text, messages: project.notice.into_iter().chain(faults).collect() })
}

fn describe(hook: &SessionHook, text: &mut String) {
    let matcher = hook.hook.matcher();
    let matcher =
        if matcher.is_empty() { String::new() } else { format!(" {}", one_line(matcher)) };
    let sandbox = if hook.may_run_outside {
        "outside the sandbox if it names nothing of the project"
    } else {
        "in the sandbox"
    };
    let seconds = hook.hook.timeout().as_secs_f64();
    let marks = format!("{}, {sandbox}, at most {seconds} s", hook.origin.as_str());
    let _ = writeln!(text, "{}{matcher}  [{marks}]", hook.hook.event);
    let _ = writeln!(text, "  {}", one_line(&hook.hook.command()));
    let _ = writeln!(text, "  {}", one_line(&hook.file.display().to_string()));
}

fn describe_unused(file: &Path, unused: &UnusedHook, text: &mut String) {
    let _ = writeln!(text, "{}  [does not run]", one_line(&unused.place));
    let _ = writeln!(text, "  ! {}", one_line(&unused.reason));
    let _ = writeln!(text, "  {}", one_line(&file.display().to_string()));
}

fn to_json(hook: &SessionHook) -> serde_json::Value {
    json!({
        "event": hook.hook.event.name(),
        "matcher": hook.hook.matcher(),
        "command": hook.hook.command(),
        "from": hook.origin.as_str(),
        "file": hook.file.to_string_lossy(),
        "timeout_s": hook.hook.timeout().as_secs_f64(),
        "sandboxed": !hook.may_run_outside,
        "runs": true,
    })
}

/// Returns the hooks of a directory, and its project.
pub(crate) fn hooks(
    environment: &ProcessEnvironment,
    cwd: &Path,
) -> Result<(HookSet, Project), CliError> {
    let project = project_of(cwd, environment)?;
    let configuration = Configuration::load(environment, &project.additions)?;
    let set = HookSet::of_configuration(&configuration, environment);
    Ok((set, project))
}
