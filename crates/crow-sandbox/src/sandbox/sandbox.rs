//! The sandbox of a session.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::capability::{Containment, ProcessEnd, ProcessError, PutAside, RefusedHost};
use rustix::process::Pid;
use tokio::{process::Command, sync::OnceCell};

use super::{
    Network, SandboxConfig, SandboxProfile,
    autorun::{AutorunGuard, GuardedRun, InventoryScope, KernelSeal, SealedMounts, led_to},
    private_folder::{PrivateFolder, recover_leftovers},
    program::Program,
    proxy::{Proxy, RefusalWindow},
    system::{PlatformConfinement, PlatformSandbox},
};

/// The sandbox of a session: what all its commands share. Nothing is set up before it is needed.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    name: String,
    roots: Vec<PathBuf>,
    shown: Mutex<Vec<PathBuf>>,
    laid: OnceCell<Result<SandboxSetup, String>>,
}

#[derive(Debug)]
struct SandboxSetup {
    /// The way to the hosts that are allowed, if any are and commands have a network to reach it in.
    proxy: Option<Proxy>,
    ground: PlatformSandbox,
    _folder: PrivateFolder,
    guard: Arc<AutorunGuard>,
}

/// A command's part of a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxedCommand {
    containment: Containment,
    inner: Option<PlatformConfinement>,
    variables: BTreeMap<&'static str, OsString>,
    refused: Option<RefusalWindow>,
    guarded: Option<GuardedCommand>,
}

/// A command that the guard knows of until it has ended.
#[derive(Debug)]
struct GuardedCommand {
    guard: Arc<AutorunGuard>,
    run: Option<GuardedRun>,
}

/// How long a command runs beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// The agent waits for it.
    Foreground,
    /// A job: the user works beside it.
    Background,
}

/// The hosts that a command is refused while it runs.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Option<RefusalWindow>);

/// What a command is.
#[derive(Debug)]
pub(crate) struct CommandLaunch<'a> {
    pub path: &'a Path,
    pub argv: &'a [String],
    pub env: BTreeMap<&'a OsStr, &'a OsStr>,
    /// Takes what it prints.
    pub output: OwnedFd,
}

/// How a command ended, as what watched it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SandboxedCommandEnd {
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

    /// Finds what sessions left that were killed while a command ran, and moves it aside or puts it back. Blocks while it looks.
    pub fn recover(&self) -> Vec<PutAside> {
        recover_leftovers(&self.config.folder)
    }

    /// Returns what was moved aside or put back since this was last asked.
    pub fn take_untold(&self) -> Vec<PutAside> {
        match self.laid.get() {
            Some(Ok(laid)) => laid.guard.take_untold(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Takes what is at these paths by now as it should be: a tool changed it with permission.
    pub fn adopt(&self, paths: &[PathBuf]) {
        if let Some(Ok(laid)) = self.laid.get() {
            laid.guard.adopt(paths);
        }
    }

    /// Lets the user's word be carried out, and takes what is at the paths that `changed` names then as it should be. Blocks
    /// until it is done.
    pub fn while_user_changes<T>(
        &self,
        change: impl FnOnce() -> T,
        changed: impl FnOnce(&T) -> Vec<PathBuf>,
    ) -> T {
        match self.laid.get() {
            Some(Ok(laid)) => laid.guard.while_user_changes(change, changed),
            Some(Err(_)) | None => change(),
        }
    }

    /// Returns whether what was moved aside can be put back to its place.
    pub fn can_bring_back(&self, aside: &PutAside) -> bool {
        matches!(self.laid.get(), Some(Ok(laid)) if laid.guard.can_bring_back(aside))
    }

    /// Puts what was moved aside back to its place, where that is as it was left. Blocks while it looks.
    pub fn bring_back(&self, aside: &PutAside) -> io::Result<()> {
        match self.laid.get() {
            Some(Ok(laid)) => laid.guard.bring_back(aside),
            Some(Err(_)) | None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns those of the paths that start programs because something in the workspace leads to them, or that lie in one that
    /// does. Blocks while it looks.
    pub fn led_to(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        led_to(&scope(&self.config, self.roots.clone()), paths)
    }

    /// The same where commands have no sandbox.
    pub fn led_to_in(roots: Vec<PathBuf>, paths: &[PathBuf]) -> Vec<PathBuf> {
        led_to(&InventoryScope { roots, ..InventoryScope::default() }, paths)
    }

    /// Makes ready what confines one command; `line` says to the user which it is.
    pub(crate) async fn confine(
        &self,
        line: &str,
        cwd: &Path,
        profile: SandboxProfile,
        kind: CommandKind,
    ) -> Result<SandboxedCommand, ProcessError> {
        let laid =
            self.laid().await.as_ref().map_err(|error| ProcessError::Sandbox(error.clone()))?;
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        laid.confine(line, cwd, profile, kind, &shown)
            .map_err(|error| ProcessError::Sandbox(error.to_string()))
    }

    async fn laid(&self) -> &Result<SandboxSetup, String> {
        self.laid.get_or_init(|| async { self.lay().await }).await
    }

    async fn lay(&self) -> Result<SandboxSetup, String> {
        let (config, name, roots) = (self.config.clone(), self.name.clone(), self.roots.clone());
        let folder = config.folder.join(&name).display().to_string();
        let work = move || SandboxSetup::new(config, &name, roots);
        let laid = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
        let mut laid = laid.map_err(|error| format!("{folder} cannot be made: {error}"))?;
        laid.open_way(&self.config).map_err(|error| error.to_string())?;
        Ok(laid)
    }
}

fn scope(config: &SandboxConfig, roots: Vec<PathBuf>) -> InventoryScope {
    InventoryScope {
        roots,
        writable: config.writable.iter().filter_map(|path| path.canonicalize().ok()).collect(),
        unprotected: config.unprotected.clone(),
        protected: config.protected_files.clone(),
        git: config.git.clone(),
    }
}

/// Makes the program's own folders that lie in a root. Where nobody can make them, no command can.
fn make_own_folders(own: &[PathBuf], roots: &[PathBuf]) -> io::Result<()> {
    for folder in own {
        let around = folder.ancestors().find_map(|above| above.canonicalize().ok());
        if !around.is_some_and(|around| roots.iter().any(|root| around.starts_with(root))) {
            continue;
        }
        match crow_fs::create_directories(folder, 0o700) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

impl SandboxSetup {
    fn new(config: SandboxConfig, name: &str, roots: Vec<PathBuf>) -> io::Result<Self> {
        let folder = PrivateFolder::make(&config.folder, name)?;
        let scope = scope(&config, roots.clone());
        make_own_folders(&config.own, &roots)?;
        let ground = PlatformSandbox::lay(config, roots, folder.path())?;
        let seal = match ground.containment() {
            Containment::Full => KernelSeal::Mounts,
            Containment::Partial { .. } | Containment::None => KernelSeal::Missing,
        };
        let guard = AutorunGuard::new(scope, seal, folder.held());
        let guard = Arc::new(guard.with_journal(folder.path().to_owned()));
        Ok(Self { proxy: None, ground, _folder: folder, guard })
    }

    fn open_way(&mut self, config: &SandboxConfig) -> io::Result<()> {
        let Network::Hosts(allowed) = &config.network else { return Ok(()) };
        let listener = self.ground.take_listener();
        let started = listener.map(|listener| Proxy::start(listener, allowed.clone()));
        self.proxy = started.transpose()?;
        Ok(())
    }

    fn containment(&self) -> Containment {
        self.ground.containment()
    }

    fn reason(&self) -> Option<String> {
        self.ground.reason().map(str::to_owned)
    }

    fn confine(
        &self,
        line: &str,
        cwd: &Path,
        profile: SandboxProfile,
        kind: CommandKind,
        shown: &[PathBuf],
    ) -> io::Result<SandboxedCommand> {
        let containment = self.containment();
        let (guarded, sealed) = match (&containment, profile) {
            (Containment::None, _) => (None, SealedMounts::default()),
            (_, SandboxProfile::ReadOnly) => (None, self.guard.look()),
            (_, SandboxProfile::Workspace) => {
                let (run, sealed) = self.guard.begin(line, kind);
                (Some(GuardedCommand { guard: Arc::clone(&self.guard), run: Some(run) }), sealed)
            }
        };
        let inner = self.ground.confine(cwd, profile, shown, &sealed)?;
        let mut variables = inner.as_ref().map(PlatformConfinement::variables).unwrap_or_default();
        variables.extend(self.proxy.iter().flat_map(Proxy::variables));
        let refused = self.proxy.as_ref().map(Proxy::refused_from_now);
        Ok(SandboxedCommand { containment, inner, variables, refused, guarded })
    }
}

impl GuardedCommand {
    fn end(&mut self) -> Vec<PutAside> {
        self.run.take().map(|run| self.guard.end(run)).unwrap_or_default()
    }
}

impl Drop for GuardedCommand {
    fn drop(&mut self) {
        // It was never started, or nobody waited for it: whoever ends next hears of what it did.
        let found = self.end();
        self.guard.tell_later(found);
    }
}

impl Refusals {
    /// Returns the hosts that were refused since they were last taken.
    pub(crate) fn take(&mut self) -> Vec<RefusedHost> {
        self.0.as_mut().map(RefusalWindow::take).unwrap_or_default()
    }
}

impl SandboxedCommand {
    /// Returns what holds the command.
    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Returns what is started for the command.
    pub(crate) fn program(&self, command: Program) -> Program {
        match &self.inner {
            Some(inner) => inner.program(command),
            None => command,
        }
    }

    /// Starts a command where all that it starts ends with it, and returns the process that sees to that.
    pub(crate) fn start(&mut self, launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        let inner = self.inner.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        inner.start(launch)
    }

    /// Returns whether the command was not started because what starts commands has ended.
    pub(crate) fn lacks_starter(&self) -> bool {
        self.inner.as_ref().is_some_and(PlatformConfinement::lacks_starter)
    }

    /// Makes anew what starts commands, if that has ended. Blocks for a moment.
    pub(crate) fn renew(&self) -> io::Result<()> {
        self.inner.as_ref().map_or(Ok(()), PlatformConfinement::renew)
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
        self.inner.as_ref().is_some_and(PlatformConfinement::has_init)
    }

    /// Says why the command could not be started, if that was the sandbox.
    pub(crate) fn failure(&mut self) -> Option<String> {
        self.inner.as_mut()?.failure()
    }

    /// Says how the command ended, when its process was waited for.
    pub(crate) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        self.inner.as_mut()?.end()
    }

    /// Moves aside and puts back, while the command runs, what it should not have made or changed. Blocks for a moment.
    pub(crate) fn check(&self) {
        if let Some(guarded) = &self.guarded {
            // It is told when the command has ended.
            drop(guarded.guard.check());
        }
    }

    /// The same for the last time, when the command has ended. Returns what was found while it ran.
    pub(crate) fn put_aside(&mut self) -> Vec<PutAside> {
        self.guarded.as_mut().map(GuardedCommand::end).unwrap_or_default()
    }

    /// Notes the hosts that are refused from when the command was made ready.
    pub(crate) fn refusals(&self) -> Refusals {
        Refusals(self.refused.clone())
    }

    /// Returns the hosts that were refused since the command was made ready.
    pub(crate) fn refused_hosts(&self) -> Vec<RefusedHost> {
        self.refused.as_ref().map(RefusalWindow::hosts).unwrap_or_default()
    }
}
