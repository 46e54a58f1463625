//! Checks of the sandbox, by setting one up, and of the permissions of Crow's own folders.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use crow_app::{
    ProcessEnvironment,
    sandbox::{SandboxSettings, probe_containment, sandbox_settings},
};
use crow_core::capability::Containment;
use crow_runtime::{LinkGap, LinkSearch, Network, SandboxConfig};

use super::report::{DoctorFinding, DoctorFix};
use crate::error::CliError;

/// Sets up a sandbox and reports its containment.
pub(super) async fn sandbox(
    environment: &ProcessEnvironment,
) -> Result<Vec<DoctorFinding>, CliError> {
    let SandboxSettings { config, links } = match sandbox_settings(environment, &[]) {
        Ok(settings) => settings,
        Err(error) => return Ok(vec![error.into()]),
    };
    let mut findings = trial(config, environment).await?;
    let links = LinkSearch::new(links, vec![environment.current_dir()?.to_path_buf()]);
    let found = links.found().await.map_err(|error| CliError::failed(error.to_string()))?;
    findings.extend(found.gaps.iter().map(|gap| match gap {
        LinkGap::HiddenFolder(_) => DoctorFinding::fine(gap.to_string()),
        LinkGap::OwnFolder(_) | LinkGap::Links | LinkGap::Names => {
            DoctorFinding::warning(gap.to_string(), "")
        }
    }));
    Ok(findings)
}

/// Checks the folders of settings, sessions and snapshots.
pub(super) fn folders(environment: &ProcessEnvironment) -> Result<Vec<DoctorFinding>, CliError> {
    let data = environment.data_dir()?;
    let folders = [
        ("settings", environment.config_dir()?, 0o077),
        ("sessions", data.join("sessions"), 0o077),
        ("snapshots", data.join("snapshots"), 0o077),
        ("telemetry", data.join("telemetry"), 0o077),
        ("keys", environment.config_dir()?.join("credentials.json"), 0o077),
    ];
    let findings =
        folders.iter().filter_map(|(name, folder, mode)| look_at_folder(name, folder, *mode));
    Ok(findings.collect())
}

async fn trial(
    config: SandboxConfig,
    environment: &ProcessEnvironment,
) -> Result<Vec<DoctorFinding>, CliError> {
    let network = match &config.network {
        Network::Loopback => "no network but loopback".to_owned(),
        Network::Hosts(hosts) => format!("only loopback and {hosts}"),
        Network::All => "the whole network".to_owned(),
    };
    let hidden = hidden_places(config.hidden.iter().filter(|path| path.exists()).count());
    let (containment, reason) = probe_containment(config, environment.current_dir()?).await;
    Ok(match containment {
        Containment::Full => vec![
            DoctorFinding::fine("sandbox: namespaces, Landlock and seccomp confine every command"),
            DoctorFinding::fine(format!("commands reach {network}; {hidden} hidden from them")),
        ],
        Containment::Partial { gaps } => {
            let (summary, hint) = if cfg!(target_os = "linux") {
                ("sandbox: Landlock and seccomp confine commands, namespaces do not", reason)
            } else {
                (
                    "sandbox: Seatbelt confines every command",
                    "a trial run just confirmed it; its rules were tested on Linux only, as text"
                        .to_owned(),
                )
            };
            let mut findings = vec![DoctorFinding::warning(summary, hint)];
            let gap = |gap: String| DoctorFinding::warning(format!("not confined: {gap}"), "");
            findings.extend(gaps.into_iter().map(gap));
            findings
        }
        Containment::None => vec![DoctorFinding::bad(
            format!("sandbox: none: {reason}"),
            "every mode asks about commands; --no-sandbox runs them without a sandbox",
        )],
    })
}

/// Checks that a folder belongs to the user and has none of `forbidden_bits` in its mode. Returns `None` if it does
/// not exist.
fn look_at_folder(name: &str, folder: &Path, forbidden_bits: u32) -> Option<DoctorFinding> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            return Some(DoctorFinding::bad(format!("{name}: {}: {error}", folder.display()), ""));
        }
    };
    let shown = PathBuf::from(folder).display().to_string();
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Some(DoctorFinding::bad(
            format!("{name}: {shown} belongs to another user"),
            "make it yours, or set XDG_CONFIG_HOME and XDG_DATA_HOME",
        ));
    }
    if metadata.permissions().mode() & forbidden_bits != 0 {
        return Some(
            DoctorFinding::warning(
                format!("{name}: other users can read {shown}"),
                format!("chmod go= {shown}, or `crow-agent doctor --fix`"),
            )
            .with_fix(DoctorFix::MakePrivate(folder.to_owned())),
        );
    }
    Some(DoctorFinding::fine(format!("{name}: {shown}")))
}

fn hidden_places(count: usize) -> String {
    match count {
        1 => "1 place with keys is".to_owned(),
        _ => format!("{count} places with keys are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hidden_place_is_named_in_the_singular() {
        let texts = [0, 1, 2].map(hidden_places);
        assert_eq!(
            texts,
            ["0 places with keys are", "1 place with keys is", "2 places with keys are"]
        );
    }
}
