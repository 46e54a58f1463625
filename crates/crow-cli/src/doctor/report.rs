//! What was found, and how it is told.

use std::fmt::Write as _;

use serde_json::json;

use super::{configuration, models, sandbox};
use crate::{
    args::OutputForm,
    command::write_out,
    environment::Environment,
    error::CliError,
    known_secrets::redactor,
    output::ExitCode,
    render::neutralise,
    trust::{self, Project},
};

/// What a check came to.
pub(super) struct DoctorFinding {
    state: State,
    what: String,
    /// What to do about it, or why it is so.
    hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    Warning,
    Bad,
}

impl DoctorFinding {
    pub(super) fn fine(what: impl Into<String>) -> Self {
        Self { state: State::Fine, what: what.into(), hint: String::new() }
    }

    pub(super) fn warning(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Warning, what: what.into(), hint: hint.into() }
    }

    pub(super) fn bad(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Bad, what: what.into(), hint: hint.into() }
    }
}

impl From<CliError> for DoctorFinding {
    fn from(error: CliError) -> Self {
        Self::bad(error.message, error.hint.unwrap_or_default())
    }
}

/// Looks at what Crow needs, and says what is wrong and what to do about it.
pub(crate) async fn doctor(
    output: OutputForm,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let cwd = environment.current_dir()?;
    let mut sections = vec![("sandbox", sandbox::sandbox(environment).await?)];
    sections.push(("folders", sandbox::folders(environment)?));
    let standing = trust::standing(cwd, environment)?;
    sections.push(("trust", vec![configuration::trust(cwd, &standing)]));
    let names = configuration::of_project(&standing);
    let (project, fault) = match Project::of(cwd, standing) {
        Ok(project) => (project, None),
        Err(error) => (Project::default(), Some(error.into())),
    };
    let mut files = configuration::files(environment, &project, &names)?;
    files.extend(fault);
    sections.push(("configuration", files));
    sections.push(("mcp", configuration::servers(environment, &project)));
    sections.extend(models::models(environment, &project).await);
    let redactor = redactor(environment, None);
    let (mut text, mut exit) = (String::new(), ExitCode::Done);
    for (about, findings) in sections {
        for DoctorFinding { state, mut what, mut hint } in findings {
            redactor.redact_string(&mut what);
            redactor.redact_string(&mut hint);
            let (mark, word) = match state {
                State::Fine => ("✓", "fine"),
                State::Warning => ("!", "warning"),
                State::Bad => ("✗", "bad"),
            };
            if state == State::Bad {
                exit = ExitCode::Failed;
            }
            // Writing to a string cannot fail.
            let _ = match output {
                OutputForm::Json => {
                    let line = json!({"about": about, "state": word, "text": what, "hint": hint});
                    writeln!(text, "{line}")
                }
                OutputForm::Text if hint.is_empty() => {
                    writeln!(text, "{mark} {}", neutralise(&what))
                }
                OutputForm::Text => {
                    writeln!(text, "{mark} {}\n  {}", neutralise(&what), neutralise(&hint))
                }
            };
        }
    }
    write_out(text.as_bytes())?;
    Ok(exit)
}
