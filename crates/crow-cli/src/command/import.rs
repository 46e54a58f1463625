//! The command `import`: shows what would be taken over from another program, and takes it over.

use std::fmt::Write as _;

use crow_app::{
    ProcessEnvironment,
    import::{ImportItem, ImportPlan, ImportSource, ImportState, LeftOut, plan_import},
};
use crow_console::ExitCode;
use crow_text::one_line;
use serde_json::json;

use crate::{
    args::{ImportArgs, OutputForm},
    error::CliError,
    output::visible_json,
    terminal::{print_message, write_out},
};

/// Imports from another program, or shows what would be imported.
pub(crate) fn import(
    args: &ImportArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let source = ImportSource::from(args.from);
    let plan = plan_import(source, environment, args.sessions.into())?;
    let text = match args.output {
        OutputForm::Text => describe(&plan, source, args.replace),
        OutputForm::Json => to_json(&plan),
    };
    write_out(text.as_bytes())?;
    let is_wanted = |item: &&ImportItem| match item.state {
        ImportState::New => true,
        ImportState::Other => args.replace,
        ImportState::Present => false,
    };
    let count = plan.items.iter().filter(is_wanted).count();
    if !args.apply {
        if count > 0 {
            print_message(&format!("{}; nothing was written: --apply writes them", things(count)));
        }
        return Ok(ExitCode::Done);
    }
    let result = plan.carry_out(args.replace)?;
    for LeftOut { what, why } in &result.failed {
        print_message(&format!("not written: {}: {}", one_line(what), one_line(why)));
    }
    print_message(&format!("{} written", things(result.written)));
    Ok(if result.failed.is_empty() { ExitCode::Done } else { ExitCode::Failed })
}

fn things(count: usize) -> String {
    format!("{count} {}", if count == 1 { "thing" } else { "things" })
}

fn describe(plan: &ImportPlan, source: ImportSource, replaces: bool) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for item in &plan.items {
        let state = match (item.state, replaces) {
            (ImportState::New, _) => "+",
            (ImportState::Present, _) => "=",
            (ImportState::Other, true) => "~",
            (ImportState::Other, false) => "!",
        };
        let (kind, name) = (item.kind.as_str(), one_line(&item.name));
        let _ = writeln!(text, "{state} {kind} {name}");
        let _ = writeln!(text, "    from {}", one_line(&item.from.display().to_string()));
        match item.state {
            ImportState::Other if replaces => text.push_str("    replaces the one of this name\n"),
            ImportState::Other => {
                text.push_str("    kept: Crow has one of this name; --replace replaces it\n");
            }
            ImportState::Present => text.push_str("    Crow has it already\n"),
            ImportState::New => {}
        }
        for note in &item.notes {
            let _ = writeln!(text, "    {}", one_line(note));
        }
    }
    for used in &plan.used {
        let _ = writeln!(text, "= {}\n    Crow reads them there", one_line(used));
    }
    for LeftOut { what, why } in &plan.left_out {
        let _ = writeln!(text, "- {}\n    {}", one_line(what), one_line(why));
    }
    if text.is_empty() {
        let title = source.title();
        let _ = writeln!(text, "Nothing to import from {title} was found in your home directory.");
    }
    text
}

/// One line of JSON for each thing.
fn to_json(plan: &ImportPlan) -> String {
    let items = plan.items.iter().map(|item| {
        let state = match item.state {
            ImportState::New => "new",
            ImportState::Present => "present",
            ImportState::Other => "other",
        };
        json!({
            "kind": item.kind.as_str(),
            "name": item.name,
            "from": item.from.to_string_lossy(),
            "state": state,
            "notes": item.notes,
        })
    });
    let used = plan.used.iter().map(|used| json!({ "used": used }));
    let left_out =
        plan.left_out.iter().map(|left| json!({ "left_out": left.what, "why": left.why }));
    items.chain(used).chain(left_out).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{}", visible_json(&line));
        text
    })
}
