//! Which files count, whether they can be used, and whether those of the project are trusted.

use std::{fs, path::Path};

use super::report::DoctorFinding;
use crate::{
    config,
    environment::Environment,
    error::CliError,
    mcp::{self, ServerOrigin},
    trust::{Project, TrustStatus, project_root},
};

/// How many files are looked for, and how deep.
const MOST_FILES: usize = 200;
const DEEPEST: usize = 3;
/// How many files are named.
const MOST_NAMED: usize = 12;
/// How the names of files end that are read.
const ENDINGS: [&str; 3] = [".toml", ".json", ".md"];
/// A file of the user's folder that is no configuration.
const KEYS: &str = "credentials.json";

/// Says whether the configuration counts that the project brings along.
pub(super) fn trust(cwd: &Path, standing: &TrustStatus) -> DoctorFinding {
    let root = project_root(cwd);
    let root = root.display();
    match standing {
        TrustStatus::Nothing => {
            DoctorFinding::fine(format!("project: {root} has no configuration"))
        }
        TrustStatus::Trusted(_) => {
            DoctorFinding::fine(format!("project: the configuration of {root} is trusted"))
        }
        TrustStatus::Untrusted(untrusted) => {
            let why = match untrusted.before {
                None => "is not trusted",
                Some(_) => "changed since it was trusted",
            };
            DoctorFinding::warning(
                format!("project: the configuration of {root} {why}, and is not used"),
                "`crow-agent trust` shows it and asks",
            )
        }
        TrustStatus::Refused { reason, .. } => DoctorFinding::bad(
            format!("project: the configuration of {root} is not used: {reason}"),
            "",
        ),
    }
}

/// Returns the files of the project that count.
pub(super) fn of_project(standing: &TrustStatus) -> Vec<String> {
    match standing {
        TrustStatus::Trusted(contents) => contents.file_names(),
        TrustStatus::Nothing | TrustStatus::Untrusted(_) | TrustStatus::Refused { .. } => {
            Vec::new()
        }
    }
}

/// Says which files count, and what of them cannot be used.
pub(super) fn files(
    environment: &Environment,
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
    let checked = config::check(environment, project)?;
    let hint = "`crow-agent config validate` checks all files";
    findings.extend(checked.errors.into_iter().map(|error| DoctorFinding::bad(error, hint)));
    findings
        .extend(checked.warnings.into_iter().map(|warning| DoctorFinding::warning(warning, "")));
    Ok(findings)
}

/// Says which MCP servers there are. Their faults stand among those of the files.
pub(super) fn servers(environment: &Environment, project: &Project) -> Vec<DoctorFinding> {
    let Ok(found) = mcp::configured(environment, project) else { return Vec::new() };
    let mut names: Vec<String> = found
        .servers
        .iter()
        .map(|(settings, origin)| match origin {
            ServerOrigin::User => settings.server.name.clone(),
            ServerOrigin::Project => format!("{} (of the project)", settings.server.name),
        })
        .collect();
    names.extend(found.off.iter().map(|name| format!("{name} (switched off)")));
    vec![DoctorFinding::fine(match named(&names) {
        Some(names) => format!("MCP servers: {names}"),
        None => "MCP servers: none".to_owned(),
    })]
}

/// Joins names, as many as a line has room for. None for none.
fn named(names: &[String]) -> Option<String> {
    let more = names.len().saturating_sub(MOST_NAMED);
    let shown = names[..names.len() - more].join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}

fn names_below(folder: &Path, before: &str, depth: usize, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // Links are followed: people keep their configuration elsewhere.
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        if found.len() == MOST_FILES {
            return;
        }
        let is_read = ENDINGS.iter().any(|ending| name.ends_with(ending))
            // Hidden files are locks and copies of editors.
            && !name.starts_with('.')
            && (depth > 0 || name != KEYS);
        let name = format!("{before}{name}");
        if metadata.is_dir() && depth < DEEPEST {
            names_below(&entry.path(), &format!("{name}/"), depth + 1, found);
        } else if metadata.is_file() && is_read {
            found.push(name);
        }
    }
}
