//! Sandbox of a session.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crow_core::{
    capability::{Containment, ProcessEnd, ProcessError, QuarantinedFile, RefusedHost},
    network::Network,
};
use rustix::process::Pid;
use tokio::{
    process::Command,
    sync::{Mutex as AsyncMutex, OnceCell},
    task::JoinHandle,
};

use super::{
    SandboxConfig, SandboxProfile,
    autorun::{
        AutorunGuard, GuardedRun, InventoryScope, KernelSeal, RecoveryReport, SealedMounts,
        StateReader, WrittenFile, autorun_paths,
    },
    exiting_inits::ExitingInits,
    link_search::LinkSearch,
    private_folder::{PrivateFolder, recover_leftovers},
    program::Program,
    proxy::{Proxy, RefusalWindow},
    system::{PlatformConfinement, PlatformSandbox},
};

/// File that is empty and takes whatever is written.
const NULL_DEVICE: &str = "/dev/null";

/// Sandbox that all commands of a session share. It is set up when the first command needs it.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    links: Arc<LinkSearch>,
    name: String,
    roots: Vec<PathBuf>,
    readable: Mutex<Vec<PathBuf>>,
    /// Cache of the files that [`autorun_paths`](Self::autorun_paths) read.
    planned_writes: Mutex<StateReader>,
    setup: OnceCell<Result<SandboxSetup, String>>,
    /// The set-up under way. It survives a caller that stops waiting: a second one would find the folder in use.
    setting_up: AsyncMutex<Option<JoinHandle<io::Result<SandboxSetup>>>>,
}

#[derive(Debug)]
struct SandboxSetup {
    /// Proxy to the allowed hosts, if there are any and commands have a network from which to reach it.
    proxy: Option<Proxy>,
    platform: PlatformSandbox,
    _folder: PrivateFolder,
    guard: Arc<AutorunGuard>,
    exiting: Arc<ExitingInits>,
}

/// Sandbox of one command.
#[derive(Debug)]
pub(crate) struct SandboxedCommand {
    containment: Containment,
    inner: Option<PlatformConfinement>,
    variables: BTreeMap<&'static str, OsString>,
    refused: Option<RefusalWindow>,
    guarded: Option<GuardedCommand>,
    exiting: Arc<ExitingInits>,
}

/// Command that is registered with the guard until it has ended.
#[derive(Debug)]
struct GuardedCommand {
    guard: Arc<AutorunGuard>,
    run: Option<GuardedRun>,
}

/// Kind of a command by its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// The agent waits for it.
    Foreground,
    /// A job: the user works at the same time.
    Background,
}

/// Hosts that the proxy refuses while a command runs.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Option<RefusalWindow>);

/// Standard streams of a command.
#[derive(Debug)]
pub(crate) struct CommandStreams {
    pub input: OwnedFd,
    pub output: OwnedFd,
    pub errors: OwnedFd,
}

impl CommandStreams {
    /// Empty input; output and errors go to the same pipe.
    pub(crate) fn merged(pipe: OwnedFd) -> io::Result<Self> {
        let input = File::open(NULL_DEVICE)?.into();
        Ok(Self { input, output: pipe.try_clone()?, errors: pipe })
    }
}

/// Program, arguments, environment and standard streams of a command.
#[derive(Debug)]
pub(crate) struct CommandLaunch<'a> {
    pub path: &'a Path,
    pub argv: &'a [String],
    pub env: BTreeMap<&'a OsStr, &'a OsStr>,
    pub streams: CommandStreams,
}

/// End of a command as reported by its init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SandboxedCommandEnd {
    pub end: ProcessEnd,
    pub left_running: bool,
}

impl Sandbox {
    /// Creates the sandbox of the session `name`, which must not be in use elsewhere, for a workspace with
    /// these roots.
    pub fn new(mut config: SandboxConfig, name: impl Into<String>, roots: Vec<PathBuf>) -> Self {
        if let Ok(folder) = config.folder.canonicalize() {
            config.folder = folder;
        }
        let (shown, setup) = (Mutex::default(), OnceCell::new());
        let (links, planned_writes) = (Arc::default(), Mutex::default());
        let setting_up = AsyncMutex::default();
        let name = name.into();
        Self { config, links, name, roots, readable: shown, planned_writes, setup, setting_up }
    }

    /// Hides and protects what a search finds as well. The first command waits for its result.
    #[must_use]
    pub fn with_links(self, links: Arc<LinkSearch>) -> Self {
        Self { links, ..self }
    }

    /// Makes a path readable for commands even if it lies in a hidden folder.
    pub fn make_readable(&self, path: impl Into<PathBuf>) {
        self.readable.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
    }

    /// Returns how far commands are confined. The first call takes some milliseconds.
    pub async fn containment(&self) -> Containment {
        match self.setup().await {
            Ok(setup) => setup.containment(),
            Err(_) => Containment::None,
        }
    }

    /// Returns how far commands are confined, or `None` before the sandbox was set up.
    pub fn known_containment(&self) -> Option<Containment> {
        let setup = self.setup.get()?;
        Some(setup.as_ref().map_or(Containment::None, SandboxSetup::containment))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &SandboxConfig {
        &self.config
    }

    /// Returns the reason why layers of the sandbox are missing, if any are.
    pub async fn reason(&self) -> Option<String> {
        match self.setup().await {
            Ok(setup) => setup.reason(),
            Err(error) => Some(error.clone()),
        }
    }

    /// Returns the temporary folder of the commands, which is created with the first of them.
    pub fn temp(&self) -> PathBuf {
        self.config.folder.join(&self.name).join("tmp")
    }

    /// Repairs what sessions that were killed during a command left behind: puts files back or moves them
    /// aside. Blocks meanwhile.
    pub fn recover(&self) -> RecoveryReport {
        Self::recover_in(&self.config.folder, &self.roots)
    }

    /// Does so for a folder of sandboxes, for a session without one in a workspace with these roots. Blocks meanwhile.
    pub fn recover_in(folder: &Path, roots: &[PathBuf]) -> RecoveryReport {
        recover_leftovers(folder, roots)
    }

    /// Returns what was moved aside or put back since the last call.
    pub fn take_unreported(&self) -> Vec<QuarantinedFile> {
        match self.setup.get() {
            Some(Ok(setup)) => setup.guard.take_unreported(),
            Some(Err(_)) | None => Vec::new(),
        }
    }

    /// Puts back what running commands have changed so far among the files that start programs, so that a permitted
    /// change does not build on it. Blocks meanwhile.
    pub fn prepare_change(&self) {
        if let Some(Ok(setup)) = self.setup.get() {
            setup.guard.prepare_change();
        }
    }

    /// Accepts what a tool wrote with permission. What running commands wrote to the same files is not accepted, and
    /// put back by the next check. Blocks meanwhile.
    pub fn adopt(&self, written: &[WrittenFile]) {
        if let Some(Ok(setup)) = self.setup.get() {
            setup.guard.adopt(written);
        }
    }

    /// Runs a change that the user asked for, and accepts the present state of the paths that `changed`
    /// returns. Blocks until it is done.
    pub fn run_user_change<T>(
        &self,
        change: impl FnOnce() -> T,
        changed: impl FnOnce(&T) -> Vec<PathBuf>,
    ) -> T {
        match self.setup.get() {
            Some(Ok(setup)) => setup.guard.run_user_change(change, changed),
            Some(Err(_)) | None => change(),
        }
    }

    /// Returns true if a file that was moved aside can be moved back.
    pub fn can_bring_back(&self, aside: &QuarantinedFile) -> bool {
        matches!(self.setup.get(), Some(Ok(setup)) if setup.guard.can_bring_back(aside))
    }

    /// Moves a file back to its place, if that has not changed since. Blocks meanwhile.
    pub fn restore_quarantined(&self, aside: &QuarantinedFile) -> io::Result<()> {
        match self.setup.get() {
            Some(Ok(setup)) => setup.guard.restore_quarantined(aside),
            Some(Err(_)) | None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns those of the paths that will start programs once a tool has written all of them: because something
    /// in the workspace leads to them or to a directory above, or because they make a directory a git repository.
    /// Blocks meanwhile.
    ///
    /// # Panics
    /// Panics if [`with_links`](Self::with_links) was given a search that has not ended.
    pub fn autorun_paths(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let found = self.links.get().expect("invariant: calls wait for the search");
        let mut scope = scope(&self.config, self.roots.clone());
        scope.protected.extend_from_slice(&found.protected_files);
        scope.links.extend_from_slice(&found.protected_links);
        let mut reader = self.planned_writes.lock().unwrap_or_else(PoisonError::into_inner);
        autorun_paths(&scope, &mut reader, paths)
    }

    /// Like [`autorun_paths`](Self::autorun_paths), for a workspace without a sandbox.
    pub fn autorun_paths_in(roots: Vec<PathBuf>, paths: &[PathBuf]) -> Vec<PathBuf> {
        let scope = InventoryScope { roots, ..InventoryScope::default() };
        autorun_paths(&scope, &mut StateReader::default(), paths)
    }

    /// Prepares the confinement of one command; `line` is its text for the user.
    pub(crate) async fn confine(
        &self,
        line: &str,
        cwd: &Path,
        profile: SandboxProfile,
        kind: CommandKind,
    ) -> Result<SandboxedCommand, ProcessError> {
        let setup =
            self.setup().await.as_ref().map_err(|error| ProcessError::Sandbox(error.clone()))?;
        let shown = self.readable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        setup
            .confine(line, cwd, profile, kind, &shown)
            .map_err(|error| ProcessError::Sandbox(error.to_string()))
    }

    async fn setup(&self) -> &Result<SandboxSetup, String> {
        self.setup.get_or_init(|| async { self.set_up().await }).await
    }

    async fn set_up(&self) -> Result<SandboxSetup, String> {
        let (mut config, name, roots) =
            (self.config.clone(), self.name.clone(), self.roots.clone());
        config.add_linked(self.links.found().await.map_err(|error| error.to_string())?);
        let folder = config.folder.join(&name).display().to_string();
        let work = move || SandboxSetup::new(config, &name, roots);
        let mut setting_up = self.setting_up.lock().await;
        let task = setting_up.get_or_insert_with(|| tokio::task::spawn_blocking(work));
        let setup = task.await;
        *setting_up = None;
        let setup = setup.map_err(|error| error.to_string())?;
        let mut setup = setup.map_err(|error| format!("{folder} cannot be made: {error}"))?;
        setup.start_proxy(&self.config).map_err(|error| error.to_string())?;
        Ok(setup)
    }
}

fn scope(config: &SandboxConfig, roots: Vec<PathBuf>) -> InventoryScope {
    InventoryScope {
        roots,
        writable: config.writable.iter().filter_map(|path| path.canonicalize().ok()).collect(),
        unprotected: config.unprotected.clone(),
        protected: config.protected_files.clone(),
        links: config.protected_links.clone(),
        git: config.git.clone(),
    }
}

/// Creates the program's own folders that lie in a root. If this program lacks the right to do so, commands
/// lack it, too.
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
        let platform = PlatformSandbox::set_up(config, roots, folder.path())?;
        let seal = match platform.containment() {
            Containment::Full => KernelSeal::Mounts,
            Containment::Partial { .. } | Containment::None => KernelSeal::Missing,
        };
        let guard = AutorunGuard::new(scope, seal, folder.quarantine_folder());
        let guard = Arc::new(guard.with_journal(folder.path().to_owned()));
        Ok(Self { proxy: None, platform, _folder: folder, guard, exiting: Arc::default() })
    }

    fn start_proxy(&mut self, config: &SandboxConfig) -> io::Result<()> {
        let Network::Hosts(allowed) = &config.network else { return Ok(()) };
        let listener = self.platform.take_listener();
        let started = listener.map(|listener| Proxy::start(listener, allowed.clone()));
        self.proxy = started.transpose()?;
        Ok(())
    }

    fn containment(&self) -> Containment {
        self.platform.containment()
    }

    fn reason(&self) -> Option<String> {
        self.platform.reason().map(str::to_owned)
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
            (_, SandboxProfile::ReadOnly) => (None, self.guard.read_only_mounts()),
            (_, SandboxProfile::Workspace) => {
                let (run, sealed) = self.guard.begin(line, kind);
                (Some(GuardedCommand { guard: Arc::clone(&self.guard), run: Some(run) }), sealed)
            }
        };
        let inner = self.platform.confine(cwd, profile, shown, &sealed)?;
        let mut variables = inner.as_ref().map(PlatformConfinement::variables).unwrap_or_default();
        variables.extend(self.proxy.iter().flat_map(Proxy::variables));
        let refused = self.proxy.as_ref().map(Proxy::refused_from_now);
        let exiting = Arc::clone(&self.exiting);
        Ok(SandboxedCommand { containment, inner, variables, refused, guarded, exiting })
    }
}

impl GuardedCommand {
    fn end(&mut self) -> Vec<QuarantinedFile> {
        self.run.take().map(|run| self.guard.end(run)).unwrap_or_default()
    }
}

impl Drop for GuardedCommand {
    fn drop(&mut self) {
        // The command was never started, or its end was not awaited: the next command that ends reports the
        // findings.
        let found = self.end();
        self.guard.report_later(found);
    }
}

impl Refusals {
    /// Returns the hosts that were refused since the last call.
    pub(crate) fn take(&mut self) -> Vec<RefusedHost> {
        self.0.as_mut().map(RefusalWindow::take).unwrap_or_default()
    }
}

impl SandboxedCommand {
    /// Returns how far the command is confined.
    pub(crate) fn containment(&self) -> &Containment {
        &self.containment
    }

    /// Returns the program to start for the command.
    pub(crate) fn program(&self, command: Program) -> Program {
        match &self.inner {
            Some(inner) => inner.program(command),
            None => command,
        }
    }

    /// Starts the command by the keeper, and returns its init. Fails with `Unsupported` without namespaces.
    pub(crate) fn start(&mut self, launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        let inner = self.inner.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        inner.start(launch)
    }

    /// Returns true if the command was not started because the keeper has ended.
    pub(crate) fn is_keeper_gone(&self) -> bool {
        self.inner.as_ref().is_some_and(PlatformConfinement::is_keeper_gone)
    }

    /// Starts another keeper, if the present one has ended. Blocks for a moment.
    pub(crate) fn restart_keeper(&self) -> io::Result<()> {
        self.inner.as_ref().map_or(Ok(()), PlatformConfinement::restart_keeper)
    }

    /// Adds the restrictions to a command that this program is about to start.
    pub(crate) fn apply(&mut self, command: &mut Command) {
        self.inner.iter_mut().for_each(|inner| inner.apply(command));
    }

    /// Returns the environment variables that the sandbox sets for the command.
    pub(crate) fn variables(&self) -> &BTreeMap<&'static str, OsString> {
        &self.variables
    }

    /// Returns true if all processes that the command starts end with it.
    pub(crate) fn ends_descendants(&self) -> bool {
        self.inner.as_ref().is_some_and(PlatformConfinement::has_init)
    }

    /// Returns the reason why the command could not be started, if the sandbox was the cause.
    pub(crate) fn failure(&mut self) -> Option<String> {
        self.inner.as_mut()?.failure()
    }

    /// Waits until init reports that the command has ended and that nothing is left of it. Waits forever if there
    /// is no such report: then the exit of the awaited process shows the end.
    pub(crate) async fn wait_for_report(&mut self) {
        match &mut self.inner {
            Some(inner) => inner.wait_for_report().await,
            None => std::future::pending().await,
        }
    }

    /// Returns true if the exit of an init that has reported can be awaited in the background.
    pub(crate) fn can_exit_in_background(&self) -> bool {
        self.exiting.has_room()
    }

    /// Waits in the background for the exit of an init that has reported.
    pub(crate) fn exit_in_background(&self, wait: impl Future<Output = ()> + Send + 'static) {
        self.exiting.add(wait);
    }

    /// Returns how the command ended, once its process was awaited or has reported; `None` without an init.
    pub(crate) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        self.inner.as_mut()?.end()
    }

    /// Puts back or moves aside, while the command runs, what it should not have made or changed. Blocks
    /// for a moment.
    pub(crate) fn check(&self) {
        if let Some(guarded) = &self.guarded {
            // These findings are reported when the command has ended.
            drop(guarded.guard.check());
        }
    }

    /// Checks a last time, when the command has ended. Returns all findings while it ran.
    pub(crate) fn put_aside(&mut self) -> Vec<QuarantinedFile> {
        self.guarded.as_mut().map(GuardedCommand::end).unwrap_or_default()
    }

    /// Returns the source of the hosts that are refused from the command's preparation on.
    pub(crate) fn refusals(&self) -> Refusals {
        Refusals(self.refused.clone())
    }

    /// Returns the hosts that were refused since the command's preparation.
    pub(crate) fn refused_hosts(&self) -> Vec<RefusedHost> {
        self.refused.as_ref().map(RefusalWindow::hosts).unwrap_or_default()
    }
}
