//! What the commands of a session stand on: what the kernel offers, made ready once.

use std::{
    io,
    io::PipeReader,
    io::PipeWriter,
    net::TcpListener,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::capability::Containment;

use super::{
    child,
    confinement::Confinement,
    filter::{Filter, Sockets},
    keeper::Keeper,
    namespaces::{self, Wanted},
    places::PrivateFolders,
};
use crate::sandbox::{Network, SandboxConfig, SandboxProfile, nested::NestedRepositories};

/// What the commands of a session stand on.
#[derive(Debug)]
pub(in crate::sandbox) struct Ground {
    pub(super) config: SandboxConfig,
    pub(super) roots: Vec<PathBuf>,
    pub(super) private: PrivateFolders,
    pub(super) nested: Arc<NestedRepositories>,
    pub(super) level: Level,
    /// Listens in the commands' network for what they want from outside.
    listener: Option<TcpListener>,
    /// Its other end is held by this program alone.
    lifeline: PipeReader,
    _life: PipeWriter,
}

/// What holds commands.
#[derive(Debug)]
pub(super) enum Level {
    /// All layers.
    Full { keeper: Arc<Keeper>, filter: Arc<Filter> },
    /// Landlock and seccomp.
    Restricted { filter: Arc<Filter>, reason: String },
    /// Nothing.
    Open { reason: String },
}

impl Ground {
    /// Lays it. Blocks for some milliseconds.
    pub(in crate::sandbox) fn lay(
        config: SandboxConfig,
        roots: Vec<PathBuf>,
        private: &Path,
    ) -> io::Result<Self> {
        let private = PrivateFolders::make(private)?;
        let (lifeline, life) = io::pipe()?;
        let mut ground = Self {
            level: Level::Open { reason: String::new() },
            listener: None,
            config,
            roots,
            private,
            nested: Arc::default(),
            lifeline,
            _life: life,
        };
        (ground.level, ground.listener) = ground.find_level();
        Ok(ground)
    }

    fn find_level(&mut self) -> (Level, Option<TcpListener>) {
        if child::landlock_interface() < 1 {
            let reason = "the kernel has no Landlock, or it is switched off".to_owned();
            return (Level::Open { reason }, None);
        }
        let Some(filter) = Filter::new(Sockets::Network).map(Arc::new) else {
            let reason = format!("system calls of {} are not known", std::env::consts::ARCH);
            return (Level::Open { reason }, None);
        };
        let wanted = Wanted {
            network: self.config.network != Network::All,
            listener: matches!(self.config.network, Network::Hosts(_)),
        };
        let reason = match Keeper::start(wanted, self.lifeline.as_fd()) {
            Ok((keeper, listener)) => {
                let keeper = Arc::new(keeper);
                self.level = Level::Full { keeper, filter: Arc::clone(&filter) };
                match Confinement::try_out(self) {
                    Ok(()) => {
                        let level = std::mem::replace(
                            &mut self.level,
                            Level::Open { reason: String::new() },
                        );
                        return (level, listener);
                    }
                    Err(reason) => reason,
                }
            }
            Err(error) => format!("namespaces cannot be made: {error}"),
        };
        let reason = match namespaces::why_not() {
            Some(setting) => format!("{reason}; {setting}"),
            None => reason,
        };
        let sockets = match self.config.network {
            Network::All => Sockets::Network,
            Network::Loopback | Network::Hosts(_) => Sockets::Pairs,
        };
        match Filter::new(sockets).map(Arc::new) {
            Some(filter) => (Level::Restricted { filter, reason }, None),
            None => (Level::Open { reason }, None),
        }
    }

    /// Returns what holds commands.
    pub(in crate::sandbox) fn containment(&self) -> Containment {
        match &self.level {
            Level::Full { .. } => Containment::Full,
            Level::Restricted { reason, .. } => {
                let mut gaps = vec![
                    format!("no namespaces ({reason})"),
                    "protected files are watched, and not held".to_owned(),
                    "processes of others can be seen".to_owned(),
                ];
                if self.config.network == Network::All {
                    gaps.push("sockets of other programs can be reached".to_owned());
                } else {
                    gaps.push("there is no loopback network".to_owned());
                }
                Containment::Partial { gaps }
            }
            Level::Open { .. } => Containment::None,
        }
    }

    /// Returns why not all layers are there.
    pub(in crate::sandbox) fn reason(&self) -> Option<&str> {
        match &self.level {
            Level::Full { .. } => None,
            Level::Restricted { reason, .. } | Level::Open { reason } => Some(reason),
        }
    }

    /// Takes what listens for connections that commands want to make to other hosts.
    pub(in crate::sandbox) fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Makes ready what confines one command. None if nothing holds commands. What is in `shown` may be read even where
    /// something around it is hidden.
    pub(in crate::sandbox) fn confine(
        &self,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
    ) -> io::Result<Option<Confinement>> {
        Confinement::new(self, cwd, profile, shown)
    }
}
