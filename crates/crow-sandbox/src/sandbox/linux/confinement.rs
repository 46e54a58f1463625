//! Confinement of one command.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    io::retry_on_intr,
    process::{Pid, WaitOptions},
};
use tokio::process::Command;

use super::{
    attribute_supervisor::{AttributeSupervisor, ChangeablePaths},
    child::{self, ChildRestrictions},
    init::{CommandPlan, InitDescriptors},
    init_report::{InitReport, ReportPipe},
    keeper::SandboxKeeper,
    landlock::LandlockAccess,
    mount_plan::{EMPTY_FILE, MountPlan, MountRequest, text},
    mount_steps::MountStep,
    platform_sandbox::{EnforcementLevel, LinuxSandbox, Supervision},
    sockets::Session,
    syscall_filter::SyscallFilter,
};
use crate::sandbox::{
    CommandLaunch, CommandStreams, ProcessLimits, SandboxProfile, SandboxedCommandEnd,
    autorun::SealedMounts, process_end,
};

/// Smallest value that the kernel accepts for `pid_max`: it reserves some process numbers.
const PID_MAX_MIN: u64 = 512;
/// Path of the temporary folder inside of the sandbox.
const TEMP: &str = "/tmp";
/// Variables that name the temporary folder; many programs need one.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// Confinement of one command, from before its start until after its end.
#[derive(Debug)]
pub(in crate::sandbox) struct LinuxConfinement {
    method: Option<LaunchMethod>,
    reports: Option<ReportPipe>,
    /// Report that nothing of the command is left.
    end: Option<SandboxedCommandEnd>,
    temp: PathBuf,
    /// Performs changes of attributes where only Landlock protects files. Stopped on drop.
    _supervisor: Option<AttributeSupervisor>,
    /// True if the awaited process is an init that watches the command and reports its status.
    has_init: bool,
}

/// Start method of a command.
#[derive(Debug)]
enum LaunchMethod {
    /// Started by the keeper, in namespaces.
    Keeper(Box<KeeperLaunch>),
    /// Started by this program, with Landlock and seccomp only.
    Direct(ChildRestrictions),
}

/// Everything that the keeper needs for one command, except the command itself.
#[derive(Debug)]
struct KeeperLaunch {
    keeper: Arc<SandboxKeeper>,
    steps: Vec<MountStep<CString>>,
    rules: Vec<(CString, u64)>,
    cwd: CString,
    filter: Arc<SyscallFilter>,
    limits: ProcessLimits,
    ruleset: OwnedFd,
    report: OwnedFd,
}

impl KeeperLaunch {
    /// Starts a command, and returns its init. Returns `None` if the keeper has ended, and nothing was
    /// started.
    fn start(&self, launch: &CommandLaunch<'_>) -> io::Result<Option<Pid>> {
        let variable =
            |(name, value): (&&OsStr, &&OsStr)| text(&[*name, *value].join(OsStr::new("=")));
        let plan = CommandPlan {
            pid_max: text(OsStr::new(&self.limits.processes.max(PID_MAX_MIN).to_string()))?,
            steps: &self.steps,
            rules: &self.rules,
            cwd: self.cwd.clone(),
            limits: self.limits,
            filter: &self.filter,
            path: text(launch.path.as_os_str())?,
            arguments: launch
                .argv
                .iter()
                .map(|word| text(word.as_ref()))
                .collect::<Result<_, _>>()?,
            variables: launch.env.iter().map(variable).collect::<Result<_, _>>()?,
        };
        let plan = plan.write().to_file()?;
        let (ready, ready_writer) = io::pipe()?;
        let CommandStreams { input, output, errors } = &launch.streams;
        let order = InitDescriptors {
            plan,
            ruleset: self.ruleset.try_clone()?,
            report: self.report.try_clone()?,
            ready: ready_writer.into(),
            input: input.try_clone()?,
            output: output.try_clone()?,
            errors: errors.try_clone()?,
        };
        self.keeper.launch(order, ready)
    }
}

impl LinuxConfinement {
    pub(crate) fn new(
        sandbox: &LinuxSandbox,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
        sealed: &SealedMounts,
    ) -> io::Result<Option<Self>> {
        let (keeper, (filter, supervision)) = match &sandbox.level {
            EnforcementLevel::Full { keeper, filter } => {
                (Some(keeper), (filter, Supervision::None))
            }
            EnforcementLevel::Restricted { filters, .. } => (None, filters.choose(profile)),
            EnforcementLevel::Unconfined { .. } => return Ok(None),
        };
        let private = &sandbox.private;
        let mut writable = vec![private.temp(), private.shared_memory()];
        if profile == SandboxProfile::Workspace {
            writable.extend(sandbox.roots.iter().cloned());
            writable.extend(sandbox.config.writable.iter().cloned());
            writable.extend(sealed.external_git_directories.iter().cloned());
        }
        // Without mounts nothing can be laid over hidden files, so they get no Landlock rule instead.
        let unreadable = if keeper.is_some() { &[][..] } else { sandbox.hidden.paths() };
        let files = LandlockAccess::open(&sandbox.system, unreadable, &writable);
        let no_landlock = || io::Error::from(io::ErrorKind::Unsupported);
        let ruleset = files.ruleset().ok_or_else(no_landlock)?;
        let (report_reader, report) = io::pipe()?;
        let (report, limits) = (OwnedFd::from(report), sandbox.config.limits);
        let filter = Arc::clone(filter);
        let mut supervisor = None;
        let method = match keeper {
            None => {
                let fixed = [sandbox.hidden.paths(), &sealed.read_only].concat();
                let started = match supervision {
                    Supervision::None => None,
                    Supervision::Needed => {
                        let places = ChangeablePaths::new(&writable, &fixed);
                        Some(AttributeSupervisor::start(places)?)
                    }
                };
                let (started, socket) = started.unzip();
                supervisor = started;
                LaunchMethod::Direct(ChildRestrictions {
                    ruleset,
                    filter,
                    supervisor: socket,
                    limits,
                    report,
                })
            }
            Some(keeper) => {
                // A Landlock rule for a directory also applies to mounts below it. What must not change is
                // protected by read-only mounts.
                let readable = [&sandbox.roots, &sealed.external_git_directories, shown].concat();
                let changeable = [&sandbox.roots[..], &sandbox.config.writable].concat();
                let wanted = MountRequest {
                    private,
                    writable: &writable,
                    readable: &readable,
                    hidden: &sandbox.hidden,
                    sockets: &sandbox.sockets,
                    session: Session { list: keeper.sockets(), changeable_paths: &changeable },
                    sealed,
                };
                let places = MountPlan::new(&wanted)?;
                let mut rules = vec![(c"/proc".to_owned(), LandlockAccess::reading())];
                rules.extend(places.terminals().map(|path| (path, LandlockAccess::terminals())));
                LaunchMethod::Keeper(Box::new(KeeperLaunch {
                    keeper: Arc::clone(keeper),
                    steps: places.steps,
                    rules,
                    cwd: text(cwd.as_os_str())?,
                    filter,
                    limits,
                    ruleset,
                    report,
                }))
            }
        };
        let has_init = keeper.is_some();
        Ok(Some(Self {
            method: Some(method),
            reports: Some(ReportPipe::new(report_reader)),
            end: None,
            temp: if has_init { TEMP.into() } else { private.temp() },
            _supervisor: supervisor,
            has_init,
        }))
    }

    /// Runs the whole set-up once with an empty command, to see whether the kernel allows it.
    pub(super) fn try_out(sandbox: &LinuxSandbox) -> Result<(), String> {
        let confinement = Self::new(
            sandbox,
            Path::new("/"),
            SandboxProfile::ReadOnly,
            &[],
            &SealedMounts::default(),
        )
        .map_err(|error| error.to_string())?;
        let Some(mut confinement) = confinement else { return Ok(()) };
        let output = fs::File::options().write(true).open(EMPTY_FILE);
        let output = output.map_err(|error| error.to_string())?.into();
        let streams = CommandStreams::merged(output).map_err(|error| error.to_string())?;
        let launch =
            CommandLaunch { path: Path::new(""), argv: &[], env: BTreeMap::new(), streams };
        let result = confinement.start(&launch).and_then(|init| {
            retry_on_intr(|| rustix::process::waitpid(Some(init), WaitOptions::empty()))?;
            Ok(())
        });
        // `method` may hold the write end of the report pipe, if nothing was started; reading would then
        // block.
        confinement.method = None;
        match (result, confinement.reports.take().and_then(ReportPipe::into_last)) {
            (Ok(()), Some(InitReport::Ended { .. })) => Ok(()),
            (_, Some(InitReport::Failed(stage, error))) => {
                Err(format!("{} failed: {error}", stage.as_str()))
            }
            (Err(error), _) => Err(error.to_string()),
            (Ok(()), None) => Err("it ended before it was set up".to_owned()),
        }
    }

    /// Starts a command by the keeper, and returns its init. Fails with `Unsupported` without namespaces.
    pub(in crate::sandbox) fn start(&mut self, launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        let Some(LaunchMethod::Keeper(keeper_launch)) = &self.method else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let started = keeper_launch.start(launch);
        // On `Ok(None)` the keeper is gone and the command was not started, so the launch is kept for a
        // retry.
        if !matches!(started, Ok(None)) {
            self.method = None;
        }
        started?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::BrokenPipe, "the process that starts commands has ended")
        })
    }

    /// Returns true if a command was not started because the keeper has ended.
    pub(in crate::sandbox) fn is_keeper_gone(&self) -> bool {
        matches!(self.method, Some(LaunchMethod::Keeper(_)))
    }

    /// Starts another keeper if the present one has ended.
    pub(in crate::sandbox) fn restart_keeper(&self) -> io::Result<()> {
        match &self.method {
            Some(LaunchMethod::Keeper(keeper_launch)) => keeper_launch.keeper.restart(),
            Some(LaunchMethod::Direct(_)) | None => Ok(()),
        }
    }

    /// Adds the restrictions to a command that this program is about to start, without namespaces.
    pub(in crate::sandbox) fn apply(&mut self, command: &mut Command) {
        if let Some(LaunchMethod::Direct(confines)) =
            self.method.take_if(|method| matches!(method, LaunchMethod::Direct(_)))
        {
            child::confine(command, confines);
        }
    }

    /// Returns the environment variables that the sandbox requires: the temporary folder.
    pub(in crate::sandbox) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        TEMP_VARIABLES.map(|name| (name, self.temp.clone().into_os_string())).into_iter().collect()
    }

    /// Returns true if processes that leave the command's group end with it nevertheless.
    pub(in crate::sandbox) fn has_init(&self) -> bool {
        self.has_init
    }

    /// Returns the reason why a command could not be started, if the sandbox was the cause.
    pub(in crate::sandbox) fn failure(&mut self) -> Option<String> {
        // Closes this end of the report pipe, so that reading it ends.
        self.method = None;
        match self.reports.take()?.into_last()? {
            InitReport::Failed(stage, error) => Some(format!("{} failed: {error}", stage.as_str())),
            InitReport::Ended { .. } => None,
        }
    }

    /// Waits until init reports that the command has ended and that nothing is left of it. Waits forever if there
    /// is no such report: then init's exit shows the end.
    pub(in crate::sandbox) async fn wait_for_report(&mut self) {
        if let (true, Some(reports)) = (self.has_init, &mut self.reports) {
            while let Some(report) = reports.next().await {
                let end = command_end(report).filter(|end| !end.left_running);
                if end.is_some() {
                    self.end = end;
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }

    /// Returns how the command ended, or `None` without an init. Call it only after init has exited, or has
    /// reported.
    pub(crate) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        if !self.has_init {
            return None;
        }
        self.end.or_else(|| self.reports.take()?.into_last().and_then(command_end))
    }
}

fn command_end(report: InitReport) -> Option<SandboxedCommandEnd> {
    use std::os::unix::process::ExitStatusExt as _;
    let InitReport::Ended { status, left_running } = report else { return None };
    let end = process_end(std::process::ExitStatus::from_raw(status));
    Some(SandboxedCommandEnd { end, left_running })
}
