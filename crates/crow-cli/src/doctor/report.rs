//! The findings of `doctor` and their output.

use std::fmt::Write as _;

use crow_app::{
    AppError, ProcessEnvironment,
    known_secrets::redactor,
    trust::{self, Project},
};
use crow_console::ExitCode;
use crow_text::neutralise;
use serde_json::json;

use crate::{
    args::OutputForm,
    doctor::{configuration, models, sandbox},
    error::CliError,
    terminal::write_out,
};

/// Result of one check.
pub(super) struct DoctorFinding {
    state: State,
    summary: String,
    /// Remedy or reason; may be empty.
    hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    Warning,
    Bad,
}

impl DoctorFinding {
    pub(super) fn fine(summary: impl Into<String>) -> Self {
        Self { state: State::Fine, summary: summary.into(), hint: String::new() }
    }

    pub(super) fn warning(summary: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Warning, summary: summary.into(), hint: hint.into() }
    }

    pub(super) fn bad(summary: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Bad, summary: summary.into(), hint: hint.into() }
    }
}

impl From<AppError> for DoctorFinding {
    fn from(error: AppError) -> Self {
        Self::bad(error.message, error.hint.unwrap_or_default())
    }
}

/// Runs all checks and prints their findings with remedies. The exit code is [`ExitCode::Failed`] if one is bad.
pub(crate) async fn doctor(
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let cwd = environment.current_dir()?;
    let mut sections = vec![("sandbox", sandbox::sandbox(environment).await?)];
    sections.push(("folders", sandbox::folders(environment)?));
    let status = trust::trust_status(cwd, environment)?;
    sections.push(("trust", vec![configuration::trust(cwd, &status)]));
    let names = configuration::project_file_names(&status);
    let (project, fault) = match Project::of(cwd, status) {
        Ok(project) => (project, None),
        Err(error) => (Project::default(), Some(error.into())),
    };
    let mut files = configuration::files(environment, &project, &names)?;
    files.extend(fault);
    sections.push(("configuration", files));
    sections.push(("instructions", configuration::instructions(environment, cwd)));
    sections.push(("mcp", configuration::servers(environment, &project)));
    sections.extend(models::models(environment, &project).await);
    let redactor = redactor(environment, None);
    let (mut text, mut exit) = (String::new(), ExitCode::Done);
    for (section, findings) in sections {
        for DoctorFinding { state, mut summary, mut hint } in findings {
            redactor.redact_string(&mut summary);
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
                    let line =
                        json!({"about": section, "state": word, "text": summary, "hint": hint});
                    writeln!(text, "{line}")
                }
                OutputForm::Text if hint.is_empty() => {
                    writeln!(text, "{mark} {}", neutralise(&summary))
                }
                OutputForm::Text => {
                    writeln!(text, "{mark} {}\n  {}", neutralise(&summary), neutralise(&hint))
                }
            };
        }
    }
    write_out(text.as_bytes())?;
    Ok(exit)
}
