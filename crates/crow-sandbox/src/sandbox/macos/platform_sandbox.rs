//! Sandbox of a session on macOS: finds out once whether the system enforces profiles.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crow_core::{capability::Containment, network::Network};

use super::{
    confinement::{MacosConfinement, resolve_links, sandbox_exec_arguments},
    seatbelt_profile::{NetworkAccess, SeatbeltProfile},
};
use crate::sandbox::{SandboxConfig, SandboxProfile, autorun::SealedMounts};

/// Program that starts another one under a profile. Only the system's own is used.
const SEATBELT: &str = "/usr/bin/sandbox-exec";
pub(super) const SHELL: &str = "/bin/sh";
/// Script of the trial run: does one permitted and two forbidden things.
const TRIAL: &str = r#"echo done > "$0" || exit 1; echo done > "$1"; cat "$2" > "$3"; exit 0"#;

/// Sandbox of a session: configuration, folders and trial result.
#[derive(Debug)]
pub(in crate::sandbox) struct MacosSandbox {
    pub(super) config: SandboxConfig,
    pub(super) roots: Vec<PathBuf>,
    pub(super) seatbelt: PathBuf,
    private: PathBuf,
    /// Reason why there is no confinement, if there is none.
    reason: Option<String>,
    /// Listener for the proxy.
    listener: Option<TcpListener>,
}

impl MacosSandbox {
    /// Creates the sandbox. Blocks until the trial run has ended.
    #[expect(clippy::needless_pass_by_value, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn set_up(
        config: SandboxConfig,
        roots: Vec<PathBuf>,
        private: &Path,
    ) -> io::Result<Self> {
        Self::with(SEATBELT.into(), config, &roots, private)
    }

    pub(super) fn with(
        seatbelt: PathBuf,
        config: SandboxConfig,
        roots: &[PathBuf],
        private: &Path,
    ) -> io::Result<Self> {
        let listener = match config.network {
            Network::Hosts(_) => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
            Network::Loopback | Network::All => None,
        };
        let mut sandbox = Self {
            config,
            roots: roots.iter().map(|root| resolve_links(root)).collect(),
            seatbelt,
            private: private.canonicalize()?,
            reason: None,
            listener,
        };
        for folder in [sandbox.temp(), sandbox.quarantine_folder()] {
            fs::create_dir_all(folder)?;
        }
        sandbox.reason = sandbox.try_out().err();
        Ok(sandbox)
    }

    /// Returns the folder for temporary files of commands.
    pub(super) fn temp(&self) -> PathBuf {
        self.private.join("tmp")
    }

    /// Returns the folder for files that the autorun guard moved aside.
    pub(super) fn quarantine_folder(&self) -> PathBuf {
        self.private.join("held")
    }

    pub(super) fn network_access(&self) -> NetworkAccess {
        match self.config.network {
            Network::Loopback | Network::Hosts(_) => NetworkAccess::Loopback,
            Network::All => NetworkAccess::Everything,
        }
    }

    /// Checks that the system allows what a profile allows, and denies everything else.
    #[expect(clippy::disallowed_methods, reason = "it tries out what commands run in")]
    fn try_out(&self) -> Result<(), String> {
        if !self.seatbelt.exists() {
            return Err(format!("there is no {}", self.seatbelt.display()));
        }
        let failed = |error: io::Error| format!("it cannot be tried out: {error}");
        let folder = self.private.join("trial");
        fs::create_dir_all(&folder).map_err(failed)?;
        let (allowed, denied, secret) =
            (self.temp().join("trial"), folder.join("made"), folder.join("secret"));
        let copy = self.temp().join("copy");
        fs::write(&secret, "secret").map_err(failed)?;
        let profile = SeatbeltProfile {
            hidden: vec![secret.clone()],
            temp: self.temp(),
            ..SeatbeltProfile::default()
        };
        let text = profile.text().map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.seatbelt);
        command
            .args(sandbox_exec_arguments(&text))
            .args(["-c", TRIAL])
            .args([&allowed, &denied, &secret, &copy]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).env_clear();
        let output = command.output().map_err(failed)?;
        let is_held = !denied.exists() && fs::metadata(&copy).map_or(true, |copy| copy.len() == 0);
        let is_free = output.status.success() && allowed.exists();
        for path in [&allowed, &copy, &denied, &secret] {
            // A missing file is no error here.
            drop(fs::remove_file(path));
        }
        match (is_held, is_free) {
            (true, true) => Ok(()),
            (true, false) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                Err(format!("{} starts nothing: {}", self.seatbelt.display(), stderr.trim()))
            }
            (false, _) => Err(format!("{} does not confine commands", self.seatbelt.display())),
        }
    }

    /// Returns how far commands are confined, with the known gaps.
    pub(in crate::sandbox) fn containment(&self) -> Containment {
        if self.reason.is_some() {
            return Containment::None;
        }
        let mut gaps = vec![
            "processes that leave the process group of their command are not killed with it"
                .to_owned(),
            "processes and memory are bounded for each process alone".to_owned(),
            "the temporary folder of the system can be read".to_owned(),
        ];
        if self.config.network != Network::All {
            gaps.push("servers of others on this machine can be reached".to_owned());
        }
        Containment::Partial { gaps }
    }

    /// Returns the reason why there is no confinement.
    pub(in crate::sandbox) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns, once, the listener for connections that commands want to make to other hosts.
    pub(in crate::sandbox) fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Prepares the confinement of one command. Returns `None` if there is none. Paths in `shown` are
    /// readable even below a hidden folder. The working directory has no effect here.
    pub(in crate::sandbox) fn confine(
        &self,
        _cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
        sealed: &SealedMounts,
    ) -> io::Result<Option<MacosConfinement>> {
        if self.reason.is_some() {
            return Ok(None);
        }
        MacosConfinement::new(self, profile, shown, sealed).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crow_core::network::AllowedHosts;

    /// Creates a sandbox with `script` in place of `sandbox-exec`, which only macOS has.
    fn sandbox(script: &str, network: Network) -> (tempfile::TempDir, MacosSandbox) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sandbox-exec");
        fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let config = SandboxConfig { network, ..SandboxConfig::new(folder.path()) };
        let roots = vec![folder.path().to_owned()];
        let sandbox = MacosSandbox::with(program, config, &roots, folder.path()).unwrap();
        (folder, sandbox)
    }

    /// Behaves as if the profile were enforced: performs only the permitted action of the trial.
    const OBEYS: &str = r#"[ "$1" = -p ] && [ "$3" = -- ] && echo done > "$7""#;

    #[test]
    fn an_enforced_profile_gives_containment_with_named_gaps() {
        let (_folder, sandbox) = sandbox(OBEYS, Network::Loopback);
        assert_eq!(sandbox.reason(), None);
        let Containment::Partial { gaps } = sandbox.containment() else { panic!("{sandbox:?}") };
        assert!(gaps.iter().any(|gap| gap.contains("servers of others")), "{gaps:?}");
        let confined = sandbox.confine(
            Path::new("/"),
            SandboxProfile::Workspace,
            &[],
            &SealedMounts::default(),
        );
        assert!(confined.unwrap().is_some());
        assert!(!sandbox.temp().join("trial").exists());
    }

    #[test]
    fn a_profile_that_is_not_enforced_gives_no_containment() {
        for (script, expected) in [
            (r#"shift 3; exec "$@""#, "does not confine commands"),
            ("echo no such operation >&2; exit 65", "starts nothing: no such operation"),
            (
                r#"[ "$1" = -p ] && echo done > "$7"; cat "$9" > "${10}""#,
                "does not confine commands",
            ),
            (r#"echo done > "$7"; echo done > "$8""#, "does not confine commands"),
        ] {
            let (_folder, sandbox) = sandbox(script, Network::Loopback);
            assert_eq!(sandbox.containment(), Containment::None, "{script}");
            assert!(sandbox.reason().unwrap().contains(expected), "{:?}", sandbox.reason());
            let confined = sandbox.confine(
                Path::new("/"),
                SandboxProfile::Workspace,
                &[],
                &SealedMounts::default(),
            );
            assert!(confined.unwrap().is_none());
        }
    }

    #[test]
    fn without_sandbox_exec_there_is_no_containment() {
        let folder = tempfile::tempdir().unwrap();
        let config = SandboxConfig::new(folder.path());
        let sandbox = MacosSandbox::set_up(config, Vec::new(), folder.path()).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(sandbox.reason(), Some("there is no /usr/bin/sandbox-exec"));
        }
    }

    #[test]
    fn the_proxy_for_allowed_hosts_listens_on_loopback() {
        let hosts = || Network::Hosts(AllowedHosts::new(["example.org".parse().unwrap()]));
        for (network, listens, reach) in [
            (Network::Loopback, false, NetworkAccess::Loopback),
            (hosts(), true, NetworkAccess::Loopback),
            (Network::All, false, NetworkAccess::Everything),
        ] {
            let (_folder, mut sandbox) = sandbox(OBEYS, network);
            assert_eq!(sandbox.network_access(), reach);
            let listener = sandbox.take_listener();
            assert_eq!(listener.is_some(), listens);
            assert!(
                listener.is_none_or(|listener| listener.local_addr().unwrap().ip().is_loopback())
            );
        }
    }
}
