//! The sandbox of a session.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crow_core::capability::{Containment, ProcessEnd, ProcessError, PutAside, RefusedHost};
use rustix::process::Pid;
use tokio::{process::Command, sync::OnceCell};

use super::{SandboxConfig, SandboxProfile, private::PrivateFolder};

#[cfg(target_os = "linux")]
use super::{
    config::Network,
    linux::{Confinement, Ground},
    proxy::{Proxy, Since},
};

/// The sandbox of a session: what all its commands share. Nothing is set up before it is needed.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    name: String,
    roots: Vec<PathBuf>,
    shown: Mutex<Vec<PathBuf>>,
    laid: OnceCell<Result<Laid, String>>,
}

#[derive(Debug)]
struct Laid {
    /// The way to the hosts that are allowed, if any are and commands have a network to reach it in.
    #[cfg(target_os = "linux")]
    proxy: Option<Proxy>,
    #[cfg(target_os = "linux")]
    ground: Ground,
    _folder: PrivateFolder,
}

/// A command's part of a sandbox.
#[derive(Debug)]
pub(crate) struct Confined {
    containment: Containment,
    #[cfg(target_os = "linux")]
    inner: Option<Confinement>,
    #[cfg(target_os = "linux")]
    variables: BTreeMap<&'static str, OsString>,
    #[cfg(target_os = "linux")]
    refused: Option<Since>,
}

/// What a command is.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub path: &'a Path,
    pub argv: &'a [String],
    pub env: BTreeMap<&'a OsStr, &'a OsStr>,
    /// Takes what it prints.
    pub output: OwnedFd,
}

/// How a command ended, as what watched it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfinedEnd {
    pub end: ProcessEnd,
    pub was_left: bool,
}

impl Sandbox {
    /// Makes the sandbox of the session `name`, which no other may use at the same time. Its workspace has these roots.
    pub fn new(mut config: SandboxConfig, name: impl Into<String>, roots: Vec<PathBuf>) -> Self {
        if let Ok(folder) = config.folder.canonicalize() {
            config.folder = folder;
        }
        let (shown, laid) = (Mutex::default(), OnceCell::new());
        Self { config, name: name.into(), roots, shown, laid }
    }

    /// Lets commands read something even where something around it is hidden.
    pub fn show(&self, path: impl Into<PathBuf>) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
    }

    /// Returns what holds commands here. The first time this takes some milliseconds.
    pub async fn containment(&self) -> Containment {
        match self.laid().await {
            Ok(laid) => laid.containment(),
            Err(_) => Containment::None,
        }
    }

    /// Returns why not all layers are there, if some are missing.
    pub async fn reason(&self) -> Option<String> {
        match self.laid().await {
            Ok(laid) => laid.reason(),
            Err(error) => Some(error.clone()),
        }
    }

    /// Returns the temporary folder of the commands, which is made with the first of them.
    pub fn temp(&self) -> PathBuf {
        self.config.folder.join(&self.name).join("tmp")
    }

    /// Makes ready what confines one command.
    pub(crate) async fn confine(
        &self,
        cwd: &Path,
        profile: SandboxProfile,
    ) -> Result<Confined, ProcessError> {
        let laid =
            self.laid().await.as_ref().map_err(|error| ProcessError::Sandbox(error.clone()))?;
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        laid.confine(cwd, profile, &shown).map_err(|error| ProcessError::Sandbox(error.to_string()))
    }

    async fn laid(&self) -> &Result<Laid, String> {
        self.laid.get_or_init(|| async { self.lay().await }).await
    }

    async fn lay(&self) -> Result<Laid, String> {
        let (config, name, roots) = (self.config.clone(), self.name.clone(), self.roots.clone());
        let folder = config.folder.join(&name).display().to_string();
        let work = move || Laid::new(config, &name, roots);
        let laid = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
        let mut laid = laid.map_err(|error| format!("{folder} cannot be made: {error}"))?;
        laid.open_way(&self.config).map_err(|error| error.to_string())?;
        Ok(laid)
    }
}

impl Laid {
    #[cfg(target_os = "linux")]
    fn new(config: SandboxConfig, name: &str, roots: Vec<PathBuf>) -> io::Result<Self> {
        let folder = PrivateFolder::make(&config.folder, name)?;
        let ground = Ground::lay(config, roots, folder.path())?;
        Ok(Self { proxy: None, ground, _folder: folder })
    }

    #[cfg(target_os = "linux")]
    fn open_way(&mut self, config: &SandboxConfig) -> io::Result<()> {
        let Network::Hosts(allowed) = &config.network else { return Ok(()) };
        let listener = self.ground.take_listener();
        let started = listener.map(|listener| Proxy::start(listener, allowed.clone()));
        self.proxy = started.transpose()?;
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn containment(&self) -> Containment {
        self.ground.containment()
    }

    #[cfg(target_os = "linux")]
    fn reason(&self) -> Option<String> {
        self.ground.reason().map(str::to_owned)
    }

    #[cfg(target_os = "linux")]
    fn confine(
        &self,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
    ) -> io::Result<Confined> {
        let inner = self.ground.confine(cwd, profile, shown)?;
        let mut variables = inner.as_ref().map(Confinement::variables).unwrap_or_default();
        variables.extend(self.proxy.iter().flat_map(Proxy::variables));
        let refused = self.proxy.as_ref().map(Proxy::refused_from_now);
        Ok(Confined { containment: self.containment(), inner, variables, refused })
    }

    #[cfg(not(target_os = "linux"))]
    fn new(config: SandboxConfig, name: &str, _roots: Vec<PathBuf>) -> io::Result<Self> {
        Ok(Self { _folder: PrivateFolder::make(&config.folder, name)? })
    }

    #[cfg(not(target_os = "linux"))]
    fn open_way(&mut self, _config: &SandboxConfig) -> io::Result<()> {
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn containment(&self) -> Containment {
        Containment::None
    }

    #[cfg(not(target_os = "linux"))]
    fn reason(&self) -> Option<String> {
        Some("there is no sandbox for this system".to_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn confine(
        &self,
        _cwd: &Path,
        _profile: SandboxProfile,
        _shown: &[PathBuf],
    ) -> io::Result<Confined> {
        Ok(Confined { containment: Containment::None })
    }
}

impl Confined {
    /// Returns what holds the command.
    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }
}

#[cfg(target_os = "linux")]
impl Confined {
    /// Starts a command where all that it starts ends with it, and returns the process that sees to that.
    pub(crate) fn start(&mut self, launch: Launch<'_>) -> io::Result<Pid> {
        let inner = self.inner.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        inner.start(launch)
    }

    /// Confines a command that is about to start, where it is not started here.
    pub(crate) fn apply(&mut self, command: &mut Command) {
        self.inner.iter_mut().for_each(|inner| inner.apply(command));
    }

    /// Returns what the command must know.
    pub(crate) fn variables(&self) -> &BTreeMap<&'static str, OsString> {
        &self.variables
    }

    /// Returns whether all that the command starts ends with it.
    pub(crate) fn ends_all(&self) -> bool {
        self.inner.as_ref().is_some_and(Confinement::has_init)
    }

    /// Says why the command could not be started, if that was the sandbox.
    pub(crate) fn failure(&mut self) -> Option<String> {
        self.inner.as_mut()?.failure()
    }

    /// Says how the command ended, when its process was waited for.
    pub(crate) fn end(&mut self) -> Option<ConfinedEnd> {
        self.inner.as_mut()?.end()
    }

    /// Moves aside what the command should not have made.
    pub(crate) fn put_aside(&self) -> Vec<PutAside> {
        self.inner.as_ref().map(Confinement::put_aside).unwrap_or_default()
    }

    /// Returns the hosts that were refused since the command was made ready.
    pub(crate) fn refused_hosts(&self) -> Vec<RefusedHost> {
        self.refused.as_ref().map(Since::hosts).unwrap_or_default()
    }
}

#[cfg(not(target_os = "linux"))]
impl Confined {
    pub(crate) fn start(&mut self, _launch: Launch<'_>) -> io::Result<Pid> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn apply(&mut self, _command: &mut Command) {}

    pub(crate) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        BTreeMap::new()
    }

    pub(crate) fn ends_all(&self) -> bool {
        false
    }

    pub(crate) fn failure(&mut self) -> Option<String> {
        None
    }

    pub(crate) fn end(&mut self) -> Option<ConfinedEnd> {
        None
    }

    pub(crate) fn put_aside(&self) -> Vec<PutAside> {
        Vec::new()
    }

    pub(crate) fn refused_hosts(&self) -> Vec<RefusedHost> {
        Vec::new()
    }
}
