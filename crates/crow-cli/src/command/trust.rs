//! `trust`: trusting a project, listing trusted projects and revoking trust.

use std::path::{Path, PathBuf};

use crow_app::{
    ProcessEnvironment,
    host::working_directory,
    trust::{
        Project, ProjectConfig, TrustStatus, UntrustedConfig, project_of, project_root,
        trust_status, trust_store,
    },
};
use crow_console::ExitCode;

use crate::{
    args::TrustArgs,
    error::CliError,
    terminal::{confirm, print_message, write_line, write_out},
};

/// Shows the untrusted configuration of a project and asks whether to trust it; or lists or revokes.
pub(crate) fn trust(
    args: &TrustArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if args.list {
        return list(environment);
    }
    if args.revoke {
        return revoke(args.cwd.as_deref(), environment);
    }
    let cwd = working_directory(args.cwd.as_deref(), environment)?;
    let untrusted = match trust_status(&cwd, environment)? {
        TrustStatus::Untrusted(untrusted) => untrusted,
        TrustStatus::Nothing => {
            let root = project_root(&cwd);
            return write_line(&format!("{} contains no configuration", root.display()));
        }
        TrustStatus::Trusted(contents) => {
            return write_line(&format!("{} is trusted as it is", contents.root().display()));
        }
        TrustStatus::Refused { reason, .. } => return Err(CliError::usage(reason)),
    };
    ask(untrusted, args, environment)
}

fn ask(
    untrusted: UntrustedConfig,
    args: &TrustArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    write_out(untrusted.description().as_bytes())?;
    // A configuration that would fail every run is not trusted.
    ProjectConfig::parse(&untrusted.contents)?;
    if !args.yes {
        if !environment.stdin_is_terminal {
            return Err(CliError::usage("there is no terminal to ask at")
                .hint("read the above, and pass --yes if you trust it"));
        }
        if !confirm("Trust it?")? {
            return write_line("not trusted");
        }
    }
    let root = untrusted.contents.root().to_path_buf();
    trust_store(environment)?.add(&root, untrusted.fingerprint)?;
    write_line(&format!("{} is trusted until it changes", root.display()))
}

fn revoke(given: Option<&Path>, environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    // A deleted project can be revoked by the absolute path that the list shows.
    let named = match working_directory(given, environment) {
        Ok(cwd) => cwd,
        Err(error) => given.filter(|path| path.is_absolute()).map(PathBuf::from).ok_or(error)?,
    };
    let store = trust_store(environment)?;
    // A project that has lost its configuration is no root any more, but is still in the list.
    let mut root = named.clone();
    let mut was_trusted = store.remove(&root)?;
    if !was_trusted {
        root = project_root(&named);
        was_trusted = store.remove(&root)?;
    }
    let what = if was_trusted { "is no longer trusted" } else { "was not trusted" };
    write_line(&format!("{} {what}", root.display()))
}

fn list(environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    let projects = trust_store(environment)?.load()?;
    if projects.is_empty() {
        return write_line("no project is trusted");
    }
    for (root, trusted) in projects {
        let state = match trust_status(Path::new(&root), environment)? {
            TrustStatus::Trusted(_) => "trusted",
            TrustStatus::Untrusted(_) => "changed since",
            TrustStatus::Nothing => "no longer has a configuration",
            TrustStatus::Refused { .. } => "cannot be read",
        };
        write_line(&format!("{}  {state}  {root}", trusted.as_of.strftime("%Y-%m-%d %H:%M")))?;
    }
    Ok(ExitCode::Done)
}

/// Returns what the project around a folder adds if it is trusted. Prints the notice of one that is not used.
pub(super) fn project_around(
    cwd: &Path,
    environment: &ProcessEnvironment,
) -> Result<Project, CliError> {
    let project = project_of(cwd, environment)?;
    project.notice.iter().for_each(|notice| print_message(notice));
    Ok(project)
}
