//! The facts about permissions and sandbox.
//!
//! Without them a model learns by failing what its commands may reach and write.

use std::{collections::BTreeMap, path::PathBuf};

use crow_core::{
    capability::{AccessReport, Containment, NetworkReach, SandboxReport},
    permission::PermissionMode,
};

/// Names of the facts.
const NETWORK: &str = "network of commands";
const WRITABLE: &str = "commands may write";
const GAPS: &str = "sandbox";
/// Most places that are named.
const PLACES: usize = 6;

/// Describes what happens to calls.
pub(super) fn permission_phrase(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Ask => {
            "mode ask: reads in the working directories pass, everything else is asked about"
        }
        PermissionMode::AcceptEdits => {
            "mode accept-edits: reads and file changes in the working directories pass, everything else is asked about"
        }
        PermissionMode::ReadOnly => "mode read-only: reads pass, all changes are refused",
        PermissionMode::FullAuto => {
            "mode full-auto: everything passes that the sandbox lets commands do, the rest is asked about"
        }
    }
}

/// Writes the facts about commands into the resources, and removes those that no longer hold.
pub(super) fn set_command_facts(access: &AccessReport, resources: &mut BTreeMap<String, String>) {
    let mut set = |name: &str, value: Option<String>| match value {
        Some(value) => drop(resources.insert(name.to_owned(), value)),
        None => drop(resources.remove(name)),
    };
    // A sandbox that cannot be set up confines nothing.
    let sandbox =
        access.sandbox.as_ref().filter(|sandbox| sandbox.containment != Some(Containment::None));
    let Some(sandbox) = sandbox else {
        set(NETWORK, Some("not restricted".to_owned()));
        set(WRITABLE, Some("whatever the user may write: there is no sandbox".to_owned()));
        set(GAPS, None);
        return;
    };
    let network = match &sandbox.network {
        NetworkReach::Loopback => "only localhost; downloads fail".to_owned(),
        NetworkReach::Hosts(hosts) => format!("localhost, and by the configured proxy {hosts}"),
        NetworkReach::Unrestricted => "not restricted".to_owned(),
    };
    set(NETWORK, Some(network));
    set(WRITABLE, Some(writable_places(access.mode, sandbox)));
    set(
        GAPS,
        match &sandbox.containment {
            Some(Containment::Partial { gaps }) => {
                Some(format!("some layers are missing: {}", gaps.join(", ")))
            }
            Some(Containment::Full | Containment::None) | None => None,
        },
    );
}

fn writable_places(mode: PermissionMode, sandbox: &SandboxReport) -> String {
    if mode == PermissionMode::ReadOnly {
        return "only their temporary directory".to_owned();
    }
    let shown = |path: &PathBuf| path.display().to_string();
    let mut places =
        vec!["the working directories".to_owned(), "their temporary directory".to_owned()];
    places.extend(sandbox.writable.iter().take(PLACES).map(shown));
    let rest = sandbox.writable.len().saturating_sub(PLACES);
    if rest > 0 {
        places.push(format!("{rest} more"));
    }
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(access: &AccessReport) -> Vec<String> {
        let mut resources = BTreeMap::from([(GAPS.to_owned(), "old".to_owned())]);
        set_command_facts(access, &mut resources);
        resources.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    fn in_sandbox(mode: PermissionMode, containment: Option<Containment>) -> AccessReport {
        let sandbox = SandboxReport {
            network: NetworkReach::Hosts("crates.io".to_owned()),
            writable: (0..8).map(|number| format!("/cache/{number}").into()).collect(),
            containment,
        };
        AccessReport { mode, sandbox: Some(sandbox) }
    }

    #[test]
    fn the_facts_follow_sandbox_and_mode() {
        let unconfined = [
            "commands may write: whatever the user may write: there is no sandbox",
            "network of commands: not restricted",
        ];
        assert_eq!(facts(&AccessReport { mode: PermissionMode::Ask, sandbox: None }), unconfined);
        let missing = in_sandbox(PermissionMode::Ask, Some(Containment::None));
        assert_eq!(facts(&missing), unconfined);
        let network = "network of commands: localhost, and by the configured proxy crates.io";
        let places = "commands may write: the working directories, their temporary directory, /cache/0, /cache/1, /cache/2, /cache/3, /cache/4, /cache/5, 2 more";
        for containment in [None, Some(Containment::Full)] {
            let confined = in_sandbox(PermissionMode::Ask, containment);
            assert_eq!(facts(&confined), [places, network]);
        }
        let gaps = Containment::Partial { gaps: vec!["no seccomp".to_owned()] };
        let partial = in_sandbox(PermissionMode::ReadOnly, Some(gaps));
        let only_temp = "commands may write: only their temporary directory";
        let layers = "sandbox: some layers are missing: no seccomp";
        assert_eq!(facts(&partial), [only_temp, network, layers]);
    }
}
