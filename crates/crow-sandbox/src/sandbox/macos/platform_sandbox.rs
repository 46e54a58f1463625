//! What the commands of a session stand on: what the system offers, tried out once.

use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crow_core::capability::Containment;

use super::{
    confinement::{MacosConfinement, resolved, under},
    seatbelt_profile::{NetworkAccess, SeatbeltProfile},
};
use crate::sandbox::{Network, SandboxConfig, SandboxProfile, autorun::SealedMounts};

/// Starts a program under a profile. Only the system's own is believed.
const SEATBELT: &str = "/usr/bin/sandbox-exec";
pub(super) const SHELL: &str = "/bin/sh";
/// Does what it may, and what it may not.
const TRIAL: &str = r#"echo done > "$0" || exit 1; echo done > "$1"; cat "$2" > "$3"; exit 0"#;

/// What the commands of a session stand on.
#[derive(Debug)]
pub(in crate::sandbox) struct MacosSandbox {
    pub(super) config: SandboxConfig,
    pub(super) roots: Vec<PathBuf>,
    pub(super) seatbelt: PathBuf,
    private: PathBuf,
    /// Why nothing holds commands, if nothing does.
    reason: Option<String>,
    /// Listens for what commands want from other machines.
    listener: Option<TcpListener>,
}

impl MacosSandbox {
    /// Lays it. Blocks until a process has ended.
    #[expect(clippy::needless_pass_by_value, reason = "so it is on Linux")]
    pub(in crate::sandbox) fn lay(
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
        let mut ground = Self {
            config,
            roots: roots.iter().map(|root| resolved(root)).collect(),
            seatbelt,
            private: private.canonicalize()?,
            reason: None,
            listener,
        };
        for folder in [ground.temp(), ground.held()] {
            fs::create_dir_all(folder)?;
        }
        ground.reason = ground.try_out().err();
        Ok(ground)
    }

    /// Where commands put temporary files.
    pub(super) fn temp(&self) -> PathBuf {
        self.private.join("tmp")
    }

    /// Where what was moved aside is kept.
    pub(super) fn held(&self) -> PathBuf {
        self.private.join("held")
    }

    pub(super) fn reach(&self) -> NetworkAccess {
        match self.config.network {
            Network::Loopback | Network::Hosts(_) => NetworkAccess::Loopback,
            Network::All => NetworkAccess::Everything,
        }
    }

    /// Sees whether a profile lets pass what it allows, and nothing else.
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
        command.args(under(&text)).args(["-c", TRIAL]).args([&allowed, &denied, &secret, &copy]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).env_clear();
        let output = command.output().map_err(failed)?;
        let is_held = !denied.exists() && fs::metadata(&copy).map_or(true, |copy| copy.len() == 0);
        let is_free = output.status.success() && allowed.exists();
        for path in [&allowed, &copy, &denied, &secret] {
            // What is not there need not go.
            drop(fs::remove_file(path));
        }
        match (is_held, is_free) {
            (true, true) => Ok(()),
            (true, false) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{} starts nothing: {}", self.seatbelt.display(), said.trim()))
            }
            (false, _) => Err(format!("{} does not hold commands", self.seatbelt.display())),
        }
    }

    /// Returns what holds commands.
    pub(in crate::sandbox) fn containment(&self) -> Containment {
        if self.reason.is_some() {
            return Containment::None;
        }
        let mut gaps = vec![
            "programs that leave the group of their command are not ended with it".to_owned(),
            "processes and memory are bounded for each process alone".to_owned(),
            "the temporary folder of the system can be read".to_owned(),
        ];
        if self.config.network != Network::All {
            gaps.push("servers of others on this machine can be reached".to_owned());
        }
        Containment::Partial { gaps }
    }

    /// Returns why nothing holds commands.
    pub(in crate::sandbox) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Takes what listens for connections that commands want to make to other hosts.
    pub(in crate::sandbox) fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Makes ready what confines one command. None if nothing holds commands. What is in `shown` may be read even where
    /// something around it is hidden. The folder that the command runs in changes nothing here.
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
    use crate::sandbox::AllowedHosts;

    /// Takes the place of the system's program, which is nowhere but on macOS.
    fn ground(script: &str, network: Network) -> (tempfile::TempDir, MacosSandbox) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sandbox-exec");
        fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let config = SandboxConfig { network, ..SandboxConfig::new(folder.path()) };
        let roots = vec![folder.path().to_owned()];
        let ground = MacosSandbox::with(program, config, &roots, folder.path()).unwrap();
        (folder, ground)
    }

    /// Obeys as the system's program would: it has the trial's first word of its arguments alone.
    const OBEYS: &str = r#"[ "$1" = -p ] && [ "$3" = -- ] && echo done > "$7""#;

    #[test]
    fn what_obeys_the_profile_holds_commands_and_the_gaps_are_named() {
        let (_folder, ground) = ground(OBEYS, Network::Loopback);
        assert_eq!(ground.reason(), None);
        let Containment::Partial { gaps } = ground.containment() else { panic!("{ground:?}") };
        assert!(gaps.iter().any(|gap| gap.contains("servers of others")), "{gaps:?}");
        let confined = ground.confine(
            Path::new("/"),
            SandboxProfile::Workspace,
            &[],
            &SealedMounts::default(),
        );
        assert!(confined.unwrap().is_some());
        assert!(!ground.temp().join("trial").exists());
    }

    #[test]
    fn what_does_not_obey_the_profile_counts_as_nothing() {
        for (script, said) in [
            (r#"shift 3; exec "$@""#, "does not hold commands"),
            ("echo no such operation >&2; exit 65", "starts nothing: no such operation"),
            (r#"[ "$1" = -p ] && echo done > "$7"; cat "$9" > "${10}""#, "does not hold commands"),
            (r#"echo done > "$7"; echo done > "$8""#, "does not hold commands"),
        ] {
            let (_folder, ground) = ground(script, Network::Loopback);
            assert_eq!(ground.containment(), Containment::None, "{script}");
            assert!(ground.reason().unwrap().contains(said), "{:?}", ground.reason());
            let confined = ground.confine(
                Path::new("/"),
                SandboxProfile::Workspace,
                &[],
                &SealedMounts::default(),
            );
            assert!(confined.unwrap().is_none());
        }
    }

    #[test]
    fn without_the_systems_program_nothing_holds() {
        let folder = tempfile::tempdir().unwrap();
        let config = SandboxConfig::new(folder.path());
        let ground = MacosSandbox::lay(config, Vec::new(), folder.path()).unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(ground.reason(), Some("there is no /usr/bin/sandbox-exec"));
        }
    }

    #[test]
    fn the_way_to_allowed_hosts_begins_on_this_machine() {
        let hosts = || Network::Hosts(AllowedHosts::new(["example.org".parse().unwrap()]));
        for (network, listens, reach) in [
            (Network::Loopback, false, NetworkAccess::Loopback),
            (hosts(), true, NetworkAccess::Loopback),
            (Network::All, false, NetworkAccess::Everything),
        ] {
            let (_folder, mut ground) = ground(OBEYS, network);
            assert_eq!(ground.reach(), reach);
            let listener = ground.take_listener();
            assert_eq!(listener.is_some(), listens);
            assert!(
                listener.is_none_or(|listener| listener.local_addr().unwrap().ip().is_loopback())
            );
        }
    }
}
