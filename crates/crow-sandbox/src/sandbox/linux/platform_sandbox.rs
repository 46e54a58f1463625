//! Sandbox of a session on Linux: finds out once what the kernel offers, and prepares it.

use std::{
    io,
    io::PipeReader,
    io::PipeWriter,
    net::TcpListener,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::{capability::Containment, network::Network};

use super::{
    attribute_supervisor, child,
    confinement::LinuxConfinement,
    hidden_paths::HiddenPaths,
    keeper::SandboxKeeper,
    landlock::SystemFiles,
    mount_plan::PrivateFolders,
    namespaces::{self, NamespaceOptions},
    sockets::SocketFinder,
    syscall_filter::{AllowedSockets, AttributeChanges, SyscallFilter},
};
use crate::sandbox::{SandboxConfig, SandboxProfile, autorun::SealedMounts};

/// Sandbox of a session: configuration, private folders, and the means to enforce it.
#[derive(Debug)]
pub(in crate::sandbox) struct LinuxSandbox {
    pub(super) config: SandboxConfig,
    pub(super) roots: Vec<PathBuf>,
    pub(super) private: PrivateFolders,
    pub(super) hidden: HiddenPaths,
    pub(super) sockets: SocketFinder,
    pub(super) system: SystemFiles,
    pub(super) level: EnforcementLevel,
    /// Listens for the proxy in the network namespace of the commands.
    listener: Option<TcpListener>,
    /// Closes when this program ends, since it alone has the write end.
    lifeline: PipeReader,
    _life: PipeWriter,
}

/// Available means of confinement.
#[derive(Debug)]
pub(super) enum EnforcementLevel {
    /// Namespaces, Landlock and seccomp.
    Full { keeper: Arc<SandboxKeeper>, filter: Arc<SyscallFilter> },
    /// Landlock and seccomp only.
    Restricted { filters: RestrictedFilters, reason: String },
    /// None.
    Unconfined { reason: String },
}

/// Seccomp filters for commands without namespaces, where only Landlock protects files.
#[derive(Debug)]
pub(super) struct RestrictedFilters {
    /// Refuses every change of file attributes.
    refusing: Arc<SyscallFilter>,
    /// Hands changes of attributes to a supervisor; or the reason why that is not possible.
    supervised: Result<Arc<SyscallFilter>, String>,
}

impl RestrictedFilters {
    /// Builds the filters. Returns `None` on an unknown architecture.
    fn new(sockets: AllowedSockets) -> Option<Self> {
        let refusing = Arc::new(SyscallFilter::new(sockets, AttributeChanges::Refused)?);
        let supervised = Arc::new(SyscallFilter::new(sockets, AttributeChanges::Supervised)?);
        let supervised = attribute_supervisor::try_out(&supervised).map(|()| supervised);
        Some(Self { refusing, supervised })
    }

    /// Returns the filter for a command, and whether it needs a supervisor.
    pub(super) fn choose(&self, profile: SandboxProfile) -> (&Arc<SyscallFilter>, Supervision) {
        match (profile, &self.supervised) {
            (SandboxProfile::Workspace, Ok(filter)) => (filter, Supervision::Needed),
            (SandboxProfile::Workspace, Err(_)) | (SandboxProfile::ReadOnly, _) => {
                (&self.refusing, Supervision::None)
            }
        }
    }
}

/// Whether the filter of a command hands calls to a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Supervision {
    Needed,
    None,
}

impl LinuxSandbox {
    /// Creates the sandbox. Blocks for some milliseconds.
    pub(in crate::sandbox) fn set_up(
        mut config: SandboxConfig,
        roots: Vec<PathBuf>,
        private: &Path,
    ) -> io::Result<Self> {
        let private = PrivateFolders::make(private)?;
        let (lifeline, life) = io::pipe()?;
        let mut sandbox = Self {
            level: EnforcementLevel::Unconfined { reason: String::new() },
            listener: None,
            hidden: HiddenPaths::new(std::mem::take(&mut config.hidden)),
            sockets: SocketFinder::default(),
            system: SystemFiles::default(),
            config,
            roots,
            private,
            lifeline,
            _life: life,
        };
        (sandbox.level, sandbox.listener) = sandbox.find_level();
        Ok(sandbox)
    }

    fn find_level(&mut self) -> (EnforcementLevel, Option<TcpListener>) {
        if child::landlock_interface() < 1 {
            let reason = "the kernel has no Landlock, or it is switched off".to_owned();
            return (EnforcementLevel::Unconfined { reason }, None);
        }
        let filter = SyscallFilter::new(AllowedSockets::Network, AttributeChanges::Allowed);
        let Some(filter) = filter.map(Arc::new) else {
            let reason = format!("the system calls of {} are unknown", std::env::consts::ARCH);
            return (EnforcementLevel::Unconfined { reason }, None);
        };
        // 1) All layers, if a trial run succeeds.
        let wanted = NamespaceOptions {
            network: self.config.network != Network::All,
            listener: matches!(self.config.network, Network::Hosts(_)),
        };
        let reason = match SandboxKeeper::start(wanted, self.lifeline.as_fd()) {
            Ok((keeper, listener)) => {
                let keeper = Arc::new(keeper);
                self.level = EnforcementLevel::Full { keeper, filter: Arc::clone(&filter) };
                match LinuxConfinement::try_out(self) {
                    Ok(()) => {
                        let level = std::mem::replace(
                            &mut self.level,
                            EnforcementLevel::Unconfined { reason: String::new() },
                        );
                        return (level, listener);
                    }
                    Err(reason) => reason,
                }
            }
            Err(error) => format!("namespaces cannot be made: {error}"),
        };
        // 2) Otherwise Landlock and seccomp, with the reason.
        let reason = match namespaces::forbidding_setting() {
            Some(setting) => format!("{reason}; {setting}"),
            None => reason,
        };
        let sockets = match self.config.network {
            Network::All => AllowedSockets::Network,
            Network::Loopback | Network::Hosts(_) => AllowedSockets::Pairs,
        };
        match RestrictedFilters::new(sockets) {
            Some(filters) => (EnforcementLevel::Restricted { filters, reason }, None),
            None => (EnforcementLevel::Unconfined { reason }, None),
        }
    }

    /// Returns how far commands are confined, with the known gaps.
    pub(in crate::sandbox) fn containment(&self) -> Containment {
        match &self.level {
            EnforcementLevel::Full { .. } => Containment::Full,
            EnforcementLevel::Restricted { filters, reason } => {
                let mut gaps = vec![
                    format!("no namespaces ({reason})"),
                    "protected files are watched, not write-protected".to_owned(),
                    "processes of others can be seen, and their scheduling changed".to_owned(),
                    "System V shared memory, semaphores and queues of others can be reached"
                        .to_owned(),
                    "names of hidden files can be listed".to_owned(),
                    "hidden files in the working directories can be read and changed".to_owned(),
                ];
                if rustix::process::geteuid().is_root() {
                    let gap = "as root, processes that fork on and on can outlive their command";
                    gaps.push(gap.to_owned());
                }
                if let Err(reason) = &filters.supervised {
                    gaps.push(format!(
                        "modes, owners, times and attributes of files cannot be changed ({reason})"
                    ));
                }
                let interface = child::landlock_interface();
                gaps.extend(interface_gaps(interface).map(str::to_owned));
                if self.config.network == Network::All {
                    gaps.push("sockets of other programs can be reached".to_owned());
                } else {
                    gaps.push("there is no loopback network".to_owned());
                }
                Containment::Partial { gaps }
            }
            EnforcementLevel::Unconfined { .. } => Containment::None,
        }
    }

    /// Returns the reason why not all layers are available.
    pub(in crate::sandbox) fn reason(&self) -> Option<&str> {
        match &self.level {
            EnforcementLevel::Full { .. } => None,
            EnforcementLevel::Restricted { reason, .. }
            | EnforcementLevel::Unconfined { reason } => Some(reason),
        }
    }

    /// Returns, once, the listener for connections that commands want to make to other hosts.
    pub(in crate::sandbox) fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Prepares the confinement of one command. Returns `None` if there are no means of confinement. Paths
    /// in `shown` are readable even below a hidden folder.
    pub(in crate::sandbox) fn confine(
        &self,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
        sealed: &SealedMounts,
    ) -> io::Result<Option<LinuxConfinement>> {
        LinuxConfinement::new(self, cwd, profile, shown, sealed)
    }
}

/// Returns the gaps of an older Landlock that nothing else closes without namespaces.
fn interface_gaps(interface: libc::c_long) -> impl Iterator<Item = &'static str> {
    [
        (3, "files of others can be truncated (Landlock of Linux 6.2 prevents that)"),
        (6, "processes of others can be sent signals (Landlock of Linux 6.12 prevents that)"),
    ]
    .into_iter()
    .filter_map(move |(since, gap)| (interface < since).then_some(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_an_older_landlock_are_listed() {
        for (interface, expected) in [(1, 2), (2, 2), (3, 1), (5, 1), (6, 0), (7, 0)] {
            assert_eq!(interface_gaps(interface).count(), expected, "{interface}");
        }
    }
}
