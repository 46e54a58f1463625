//! Checks of the configuration: the files in use, their errors, the trust in the project's, and the MCP servers.

use std::{fs, path::Path};

use crow_agent::InstructionSources;
use crow_app::{
    ProcessEnvironment,
    config::ServerOrigin,
    trust::{Project, TrustStatus, project_root},
};
use crow_core::{permission::SandboxPaths, workspace::Workspace};

use crate::{
    configuration_check::check_configuration, doctor::report::DoctorFinding, error::CliError,
};

/// Maximum number of files that are listed, and maximum depth of the search.
const MOST_FILES: usize = 200;
const DEEPEST: usize = 3;
/// Maximum number of names printed on a line.
const MOST_NAMED: usize = 12;
/// File name endings of configuration.
const ENDINGS: [&str; 3] = [".toml", ".json", ".md"];
/// File in the user's folder that is not configuration.
const KEYS: &str = "credentials.json";

/// Reports whether the project has configuration and whether it is trusted.
pub(super) fn trust(cwd: &Path, status: &TrustStatus) -> DoctorFinding {
    let root = project_root(cwd);
    let root = root.display();
    match status {
        TrustStatus::Nothing => {
            DoctorFinding::fine(format!("project: {root} has no configuration"))
        }
        TrustStatus::Trusted(_) => {
            DoctorFinding::fine(format!("project: the configuration of {root} is trusted"))
        }
        TrustStatus::Untrusted(untrusted) => {
            let state = match untrusted.before {
                None => "is not trusted",
                Some(_) => "changed since it was trusted",
            };
            DoctorFinding::warning(
                format!("project: the configuration of {root} {state}, and is not used"),
                "`crow-agent trust` shows it and asks",
            )
        }
        TrustStatus::Refused { reason, .. } => DoctorFinding::bad(
            format!("project: the configuration of {root} is not used: {reason}"),
            "",
        ),
    }
}

/// Returns the names of the project's configuration files; empty unless they are trusted.
pub(super) fn project_file_names(status: &TrustStatus) -> Vec<String> {
    match status {
        TrustStatus::Trusted(contents) => contents.file_names(),
        TrustStatus::Nothing | TrustStatus::Untrusted(_) | TrustStatus::Refused { .. } => {
            Vec::new()
        }
    }
}

/// Reports the files in use and the errors and warnings of the whole configuration.
pub(super) fn files(
    environment: &ProcessEnvironment,
    project: &Project,
    of_project: &[String],
) -> Result<Vec<DoctorFinding>, CliError> {
    let folder = environment.config_dir()?;
    let mut own = Vec::new();
    names_below(&folder, "", 0, &mut own);
    own.sort();
    let mut findings = vec![DoctorFinding::fine(match named(&own) {
        Some(names) => format!("configuration: {names} in {}", folder.display()),
        None => format!("configuration: no file of your own in {}", folder.display()),
    })];
    if let Some(names) = named(of_project) {
        findings.push(DoctorFinding::fine(format!("configuration of the project: {names}")));
    }
    let checked = check_configuration(environment, project)?;
    let hint = "`crow-agent config validate` checks all files";
    findings.extend(checked.errors.into_iter().map(|error| DoctorFinding::bad(error, hint)));
    findings
        .extend(checked.warnings.into_iter().map(|warning| DoctorFinding::warning(warning, "")));
    Ok(findings)
}

/// Reports the files whose instructions a session in a folder begins with, with what is cut, and those that cannot be
/// used.
pub(super) fn instructions(environment: &ProcessEnvironment, cwd: &Path) -> Vec<DoctorFinding> {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_path_buf());
    let sources = InstructionSources { user_folder: environment.config_dir().ok() };
    let listing = sources.list(&Workspace::new(cwd), &SandboxPaths::default());
    if listing.files.is_empty() && listing.flaws.is_empty() {
        let text = "instructions: no AGENTS.md, neither of the project nor your own";
        return vec![DoctorFinding::fine(text)];
    }
    let files = listing.files.iter().map(|file| {
        let text = format!("instructions: {file}");
        if file.shown_bytes < file.bytes {
            DoctorFinding::warning(text, "shorten it, or move parts into the folders they are for")
        } else {
            DoctorFinding::fine(text)
        }
    });
    let flaws = listing.flaws.iter().map(|flaw| {
        let text = format!("instructions: {flaw}");
        if flaw.is_worth_a_warning() {
            DoctorFinding::warning(text, "")
        } else {
            DoctorFinding::fine(text)
        }
    });
    files.chain(flaws).collect()
}

/// Reports the configured MCP servers. Their errors are reported by [`files`].
pub(super) fn servers(environment: &ProcessEnvironment, project: &Project) -> Vec<DoctorFinding> {
    let Ok(found) = crow_app::config::configured_servers(environment, &project.additions) else {
        return Vec::new();
    };
    let mut names: Vec<String> = found
        .servers
        .iter()
        .map(|(settings, origin)| match origin {
            ServerOrigin::User => settings.server.name.clone(),
            ServerOrigin::Project => format!("{} (of the project)", settings.server.name),
        })
        .collect();
    names.extend(found.disabled.iter().map(|name| format!("{name} (switched off)")));
    vec![DoctorFinding::fine(match named(&names) {
        Some(names) => format!("MCP servers: {names}"),
        None => "MCP servers: none".to_owned(),
    })]
}

/// Joins up to [`MOST_NAMED`] names and the number of further ones. Returns `None` if there are no names.
fn named(names: &[String]) -> Option<String> {
    let more = names.len().saturating_sub(MOST_NAMED);
    let shown = names[..names.len() - more].join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}

/// Appends the configuration files below `folder` to `found`, each with `prefix` before its name.
fn names_below(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Hidden files are locks and editors' backups, hidden folders belong to version control.
        if name.starts_with('.') {
            continue;
        }
        // Links are followed: the configuration may be kept elsewhere and linked.
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        if found.len() == MOST_FILES {
            return;
        }
        let is_read =
            ENDINGS.iter().any(|ending| name.ends_with(ending)) && (depth > 0 || name != KEYS);
        let name = format!("{prefix}{name}");
        if metadata.is_dir() && depth < DEEPEST {
            names_below(&entry.path(), &format!("{name}/"), depth + 1, found);
        } else if metadata.is_file() && is_read {
            found.push(name);
        }
    }
}
