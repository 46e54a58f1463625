//! `doctor`: what is in force, and what is not.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crow_core::capability::Containment;
use crow_runtime::{Network, Sandbox, SandboxConfig};

use super::{SandboxOptions, sandbox_config};
use crate::{CliError, Environment, command::write_out, output::ExitCode, render::neutralise};

/// What a check came to.
enum Finding {
    Fine(String),
    Warning(String, String),
    Bad(String, String),
}

/// Looks at what Crow needs, and says what is wrong and what to do about it.
pub(crate) async fn doctor(environment: &Environment) -> Result<ExitCode, CliError> {
    let mut findings = Vec::new();
    match sandbox_config(&SandboxOptions::default(), environment) {
        Ok(config) => findings.extend(look_at_sandbox(config, environment).await?),
        Err(error) => findings.push(Finding::Bad(error.message, error.hint.unwrap_or_default())),
    }
    for (name, folder, mode) in [
        ("settings", environment.config_dir()?, 0o077),
        ("sessions", environment.data_dir()?.join("sessions"), 0o077),
        ("snapshots", environment.data_dir()?.join("snapshots"), 0o077),
    ] {
        findings.extend(look_at_folder(name, &folder, mode));
    }
    let mut text = String::new();
    let mut exit = ExitCode::Done;
    for finding in findings {
        let (mark, what, hint) = match finding {
            Finding::Fine(what) => ("✓", what, String::new()),
            Finding::Warning(what, hint) => ("!", what, hint),
            Finding::Bad(what, hint) => {
                exit = ExitCode::Failed;
                ("✗", what, hint)
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark} {}", neutralise(&what));
        if !hint.is_empty() {
            let _ = writeln!(text, "  {}", neutralise(&hint));
        }
    }
    write_out(text.as_bytes())?;
    Ok(exit)
}

/// Sets up a sandbox as a session in this folder would have it, and says what holds, and why not all does.
pub(crate) async fn try_out(mut config: SandboxConfig, cwd: &Path) -> (Containment, String) {
    config.folder = config.folder.join("trial");
    let name = std::process::id().to_string();
    let sandbox = Sandbox::new(config, name, vec![cwd.to_path_buf()]);
    let containment = sandbox.containment().await;
    (containment, sandbox.reason().await.unwrap_or_default())
}

async fn look_at_sandbox(
    config: SandboxConfig,
    environment: &Environment,
) -> Result<Vec<Finding>, CliError> {
    let network = match &config.network {
        Network::Loopback => "no network but loopback".to_owned(),
        Network::Hosts(hosts) => format!("of the network loopback and {hosts}"),
        Network::All => "the whole network".to_owned(),
    };
    let hidden = config.hidden.iter().filter(|path| path.exists()).count();
    let (containment, reason) = try_out(config, environment.current_dir()?).await;
    Ok(match containment {
        Containment::Full => vec![
            Finding::Fine(
                "sandbox: namespaces, Landlock and seccomp hold every command".to_owned(),
            ),
            Finding::Fine(format!(
                "commands reach {network}; {hidden} places with keys are hidden from them"
            )),
        ],
        Containment::Partial { gaps } => {
            let (what, hint) = if cfg!(target_os = "linux") {
                ("sandbox: Landlock and seccomp hold commands, namespaces do not", reason)
            } else {
                (
                    "sandbox: Seatbelt holds every command",
                    "a trial has just shown it; its rules were tested on Linux only, as text"
                        .to_owned(),
                )
            };
            let mut findings = vec![Finding::Warning(what.to_owned(), hint)];
            let gap =
                |gap: String| Finding::Warning(format!("not held back: {gap}"), String::new());
            findings.extend(gaps.into_iter().map(gap));
            findings
        }
        Containment::None => vec![Finding::Bad(
            format!("sandbox: none: {reason}"),
            "commands are asked about in every mode; --no-sandbox runs them without".to_owned(),
        )],
    })
}

/// Whether a folder belongs to the user, can be written and is closed to others.
fn look_at_folder(name: &str, folder: &Path, open: u32) -> Option<Finding> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            return Some(Finding::Bad(
                format!("{name}: {}: {error}", folder.display()),
                String::new(),
            ));
        }
    };
    let shown = PathBuf::from(folder).display().to_string();
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some(Finding::Bad(
            format!("{name}: {shown} belongs to another user"),
            "make it yours, or set XDG_CONFIG_HOME and XDG_DATA_HOME".to_owned(),
        ));
    }
    if metadata.permissions().mode() & open != 0 {
        return Some(Finding::Warning(
            format!("{name}: others can look into {shown}"),
            format!("chmod 700 {shown}"),
        ));
    }
    Some(Finding::Fine(format!("{name}: {shown}")))
}
