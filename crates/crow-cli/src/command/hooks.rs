//! The commands `hooks list` and `hooks test`.

use std::fmt::Write as _;

use crow_app::{
    ProcessEnvironment,
    hooks::{HookEvent, HookReplay, HookReport, RecordedEvent},
    product,
    sandbox::sandbox_settings,
};
use crow_console::ExitCode;
use crow_core::config::unknown_word_message;
use crow_runtime::ProcessRunner;
use crow_text::{neutralise, one_line};
use serde_json::json;

use crate::{
    args::{HooksTestArgs, OutputForm},
    error::CliError,
    listings::hooks::{NO_HOOKS, hooks, listing},
    output::visible_json,
    terminal::{print_message, write_out},
};

/// Prints the hooks of the current directory, and why any does not run.
pub(crate) fn list(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    listing(output, environment)?.print()
}

/// Runs the hooks of the current directory on events, and prints what they answer. Fails if one of them fails.
pub(crate) async fn test(
    args: HooksTestArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let cwd = environment.current_dir()?.canonicalize();
    let cwd = cwd.map_err(|error| CliError::usage(format!("the directory is gone: {error}")))?;
    let (set, project) = hooks(environment, &cwd)?;
    project.notice.iter().for_each(|notice| print_message(notice));
    set.faults.iter().for_each(|fault| print_message(&one_line(fault)));
    let store = product::session_store(environment)?;
    let events = match &args.session {
        Some(id) => RecordedEvent::of_session(&store.read(&store.find(id)?)?),
        None => sample_events(&args)?,
    };
    let keys = product::models(environment, &project.additions.providers)?.key_variables();
    let runner = ProcessRunner::new(environment.child_environment(&keys));
    let settings = sandbox_settings(environment, &[])?;
    let has_hooks = !set.hooks.is_empty();
    let replay = HookReplay::new(set, (&project, &cwd), environment, store, runner, settings);
    let (mut count, mut failed) = (0, 0);
    for event in &events {
        let is_subagent = args.event.as_deref() == Some(HookEvent::SubagentStop.name());
        for report in replay.run(event, is_subagent).await {
            count += 1;
            failed += usize::from(report.answer.is_err());
            let text = match args.output {
                OutputForm::Text => report_text(&report),
                OutputForm::Json => format!("{}\n", visible_json(&report_json(&report))),
            };
            write_out(text.as_bytes())?;
        }
    }
    if count == 0 && args.output == OutputForm::Text {
        let text = if has_hooks { "No hook runs at these events.\n" } else { NO_HOOKS };
        write_out(text.as_bytes())?;
    }
    Ok(if failed == 0 { ExitCode::Done } else { ExitCode::Failed })
}

/// Returns the sample events that the arguments name.
fn sample_events(args: &HooksTestArgs) -> Result<Vec<RecordedEvent>, CliError> {
    let input = args.input.as_deref().map(serde_json::from_str).transpose();
    let input = input.map_err(|error| CliError::usage(format!("--input is not JSON: {error}")))?;
    if input.as_ref().is_some_and(|input: &serde_json::Value| !input.is_object()) {
        return Err(CliError::usage("--input is no JSON object".to_owned()));
    }
    let Some(name) = &args.event else {
        let all = HookEvent::ALL.into_iter().filter(|event| *event != HookEvent::SubagentStop);
        return Ok(all.map(|event| RecordedEvent::sample(event, None, None)).collect());
    };
    let event = HookEvent::of_name(name).ok_or_else(|| {
        let names = HookEvent::ALL.map(HookEvent::name);
        CliError::usage(unknown_word_message("event", name, &names))
    })?;
    Ok(vec![RecordedEvent::sample(event, args.tool.as_deref(), input.as_ref())])
}

fn report_text(report: &HookReport) -> String {
    let tool = report.tool.as_deref().map(|tool| format!(" {}", one_line(tool)));
    let tool = tool.unwrap_or_default();
    let mut text = format!("{}{tool}  {}\n", report.event, one_line(&report.command));
    match &report.answer {
        Ok(effects) if effects.is_empty() => text.push_str("  no objection\n"),
        Ok(effects) => {
            for effect in effects {
                let _ = writeln!(text, "  {}", neutralise(effect).replace('\n', "\n  "));
            }
        }
        Err(why) => drop(writeln!(text, "  ! {}", one_line(why))),
    }
    text
}

fn report_json(report: &HookReport) -> serde_json::Value {
    let (effects, error) = match &report.answer {
        Ok(effects) => (effects.as_slice(), None),
        Err(error) => (&[][..], Some(error)),
    };
    json!({
        "event": report.event.name(),
        "tool": report.tool,
        "command": report.command,
        "file": report.file.to_string_lossy(),
        "effects": effects,
        "error": error,
    })
}
