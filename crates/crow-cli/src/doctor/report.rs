//! The findings of `doctor` and their output.

use std::{fmt::Write as _, fs, io, os::unix::fs::PermissionsExt as _, path::PathBuf};

use crow_app::{
    AppError, ProcessEnvironment,
    known_secrets::redactor,
    trust::{self, Project},
};
use crow_console::{ExitCode, words::count};
use crow_text::neutralise;
use serde_json::json;

use crate::{
    args::OutputForm,
    doctor::{configuration, machine, models, sandbox},
    error::CliError,
    output::visible_json,
    terminal::write_out,
};

/// Result of one check.
pub(super) struct DoctorFinding {
    state: State,
    summary: String,
    /// Remedy or reason; may be empty.
    hint: String,
    fix: Option<DoctorFix>,
}

/// A remedy that is safe to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DoctorFix {
    /// Takes the rights of other users from a file or folder of the user.
    MakePrivate(PathBuf),
}

impl DoctorFix {
    /// Carries it out, and returns what was done.
    fn apply(&self) -> io::Result<String> {
        match self {
            Self::MakePrivate(path) => {
                let mode = fs::metadata(path)?.permissions().mode() & 0o700;
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
                Ok(format!("only you can read {} now", path.display()))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    Warning,
    Bad,
}

impl DoctorFinding {
    pub(super) fn fine(summary: impl Into<String>) -> Self {
        Self { state: State::Fine, summary: summary.into(), hint: String::new(), fix: None }
    }

    pub(super) fn warning(summary: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Warning, summary: summary.into(), hint: hint.into(), fix: None }
    }

    pub(super) fn bad(summary: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Bad, summary: summary.into(), hint: hint.into(), fix: None }
    }

    /// Adds a remedy that `--fix` carries out.
    pub(super) fn with_fix(mut self, fix: DoctorFix) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Carries out its remedy, if it has one.
    fn apply_fix(&mut self) {
        match self.fix.take().map(|fix| fix.apply()) {
            Some(Ok(done)) => *self = Self::fine(done),
            Some(Err(error)) => {
                self.hint = format!("{} (it could not be done: {error})", self.hint);
            }
            None => {}
        }
    }
}

impl From<AppError> for DoctorFinding {
    fn from(error: AppError) -> Self {
        Self::bad(error.message, error.hint.unwrap_or_default())
    }
}

/// Runs all checks and prints their findings with remedies. The exit code is [`ExitCode::Failed`] if one is bad.
/// `applies_fixes` carries out the remedies that are safe.
pub(crate) async fn doctor(
    output: OutputForm,
    applies_fixes: bool,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let mut sections = checks(environment).await?;
    if applies_fixes {
        let findings = sections.iter_mut().flat_map(|(_, findings)| findings);
        findings.for_each(DoctorFinding::apply_fix);
    }
    let all = || sections.iter().flat_map(|(_, findings)| findings);
    let has_bad = all().any(|finding| finding.state == State::Bad);
    let text = findings_text(sections, output, environment);
    write_out(text.as_bytes())?;
    Ok(if has_bad { ExitCode::Failed } else { ExitCode::Done })
}

/// Runs all checks for the current directory, and returns their findings with remedies as text.
pub(crate) async fn doctor_text(environment: &ProcessEnvironment) -> Result<String, CliError> {
    Ok(findings_text(checks(environment).await?, OutputForm::Text, environment))
}

/// The findings about a subject, and its name.
type DoctorSection = (&'static str, Vec<DoctorFinding>);

/// Runs all checks for the current directory.
async fn checks(environment: &ProcessEnvironment) -> Result<Vec<DoctorSection>, CliError> {
    let cwd = environment.current_dir()?;
    let mut sections = vec![("program", machine::program(environment))];
    sections.push(("machine", machine::machine(environment)?));
    sections.push(("terminal", machine::terminal(environment)));
    sections.push(("programs", machine::programs(environment)));
    sections.push(("sandbox", sandbox::sandbox(environment).await?));
    sections.push(("folders", sandbox::folders(environment)?));
    let stores = machine::stores(environment);
    let failed = |error: CliError| {
        vec![DoctorFinding::bad(error.message, "look at the rights of the folder")]
    };
    sections.push(("stores", stores.unwrap_or_else(failed)));
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
    sections.push(("permissions", machine::permissions(environment)));
    sections.push(("network", machine::network(environment, &project)));
    sections.extend(models::models(environment, &project).await);
    Ok(sections)
}

/// Formats findings, without known secrets.
fn findings_text(
    sections: Vec<DoctorSection>,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> String {
    let redactor = redactor(environment, None);
    let (mut text, mut counts) = (String::new(), [0_u64; 3]);
    for (section, findings) in sections {
        if output == OutputForm::Text && !findings.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{section}");
        }
        for DoctorFinding { state, mut summary, mut hint, .. } in findings {
            counts[state as usize] += 1;
            redactor.redact_string(&mut summary);
            redactor.redact_string(&mut hint);
            let (mark, word) = match state {
                State::Fine => ("✓", "fine"),
                State::Warning => ("!", "warning"),
                State::Bad => ("✗", "bad"),
            };
            // Writing to a string cannot fail.
            let _ = match output {
                OutputForm::Json => {
                    let line =
                        json!({"about": section, "state": word, "text": summary, "hint": hint});
                    writeln!(text, "{}", visible_json(&line))
                }
                OutputForm::Text if hint.is_empty() => {
                    writeln!(text, "  {mark} {}", neutralise(&summary))
                }
                OutputForm::Text => {
                    writeln!(text, "  {mark} {}\n    {}", neutralise(&summary), neutralise(&hint))
                }
            };
        }
    }
    if output == OutputForm::Text {
        let [fine, warnings, bad] = counts;
        let _ = writeln!(
            text,
            "{}: {fine} fine, {}, {bad} bad",
            count(fine + warnings + bad, "check"),
            count(warnings, "warning")
        );
    }
    text
}
