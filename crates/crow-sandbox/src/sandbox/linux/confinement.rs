//! What confines one command.

use std::{
    collections::BTreeMap,
    ffi::{CString, OsStr, OsString},
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::capability::ProcessEnd;
use rustix::{
    io::retry_on_intr,
    process::{Pid, WaitOptions},
};
use tokio::process::Command;

use super::{
    attribute_supervisor::{AttributeSupervisor, ChangeablePlaces},
    child::{self, ChildRestrictions},
    init::{CommandPlan, InitDescriptors},
    init_report::InitReport,
    keeper::SandboxKeeper,
    landlock::LandlockAccess,
    mount_plan::{MountPlan, MountRequest, NOTHING, text},
    mount_steps::MountStep,
    platform_sandbox::{EnforcementLevel, LinuxSandbox, Supervision},
    sockets::Session,
    syscall_filter::SyscallFilter,
};
use crate::sandbox::{
    CommandLaunch, ProcessLimits, SandboxProfile, SandboxedCommandEnd, autorun::SealedMounts,
};

/// The kernel keeps some process numbers for itself.
const PID_MAX_MIN: u64 = 512;
/// Where commands find their temporary folder.
const TEMP: &str = "/tmp";
/// What commands put below their home, and need.
const TEMP_VARIABLES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// What confines one command, from before its start to after its end.
#[derive(Debug)]
pub(in crate::sandbox) struct LinuxConfinement {
    way: Option<LaunchMethod>,
    told: Option<OwnedFd>,
    temp: PathBuf,
    /// Judges changes of attributes, where Landlock alone holds files. Ends when this is dropped.
    _supervisor: Option<AttributeSupervisor>,
    /// Whether something watches the command and is ended in its place.
    has_init: bool,
}

/// How a command is started.
#[derive(Debug)]
enum LaunchMethod {
    /// By the keeper.
    Kept(Box<KeeperLaunch>),
    /// By this program.
    Own(ChildRestrictions),
}

/// What the keeper needs for one command, beside what that is.
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
    /// Starts a command, and returns its init. None if the keeper has ended, and nothing was started.
    fn start(&self, launch: &CommandLaunch<'_>) -> io::Result<Option<Pid>> {
        let variable =
            |(name, value): (&&OsStr, &&OsStr)| text(&[*name, *value].join(OsStr::new("=")));
        let start = CommandPlan {
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
        let plan = start.write().to_file()?;
        let (ready, ready_writer) = io::pipe()?;
        let order = InitDescriptors {
            plan,
            ruleset: self.ruleset.try_clone()?,
            report: self.report.try_clone()?,
            ready: ready_writer.into(),
            output: launch.output.try_clone()?,
        };
        self.keeper.launch(order, ready)
    }
}

impl LinuxConfinement {
    pub(crate) fn new(
        ground: &LinuxSandbox,
        cwd: &Path,
        profile: SandboxProfile,
        shown: &[PathBuf],
        sealed: &SealedMounts,
    ) -> io::Result<Option<Self>> {
        let (keeper, (filter, supervision)) = match &ground.level {
            EnforcementLevel::Full { keeper, filter } => {
                (Some(keeper), (filter, Supervision::None))
            }
            EnforcementLevel::Restricted { filters, .. } => (None, filters.choose(profile)),
            EnforcementLevel::Open { .. } => return Ok(None),
        };
        let private = &ground.private;
        let mut writable = vec![private.temp(), private.shared_memory()];
        if profile == SandboxProfile::Workspace {
            writable.extend(ground.roots.iter().cloned());
            writable.extend(ground.config.writable.iter().cloned());
            writable.extend(sealed.outside.iter().cloned());
        }
        // Where nothing can be laid over it, what is hidden gets no rule.
        let unreadable = if keeper.is_some() { &[][..] } else { ground.hidden.paths() };
        let files = LandlockAccess::open(&ground.system, unreadable, &writable);
        let no_landlock = || io::Error::from(io::ErrorKind::Unsupported);
        let ruleset = files.ruleset().ok_or_else(no_landlock)?;
        let (told, report) = io::pipe()?;
        let (report, limits) = (OwnedFd::from(report), ground.config.limits);
        let filter = Arc::clone(filter);
        let mut supervisor = None;
        let way = match keeper {
            None => {
                let fixed = [ground.hidden.paths(), &sealed.read_only].concat();
                let started = match supervision {
                    Supervision::None => None,
                    Supervision::Needed => {
                        let places = ChangeablePlaces::new(&writable, &fixed);
                        Some(AttributeSupervisor::start(places)?)
                    }
                };
                let (started, socket) = started.unzip();
                supervisor = started;
                LaunchMethod::Own(ChildRestrictions {
                    ruleset,
                    filter,
                    supervisor: socket,
                    limits,
                    report,
                })
            }
            Some(keeper) => {
                // A rule for a folder holds for what is laid over something in it, too: what may not be changed is laid
                // there so that it cannot be.
                let readable = [&ground.roots, &sealed.outside, shown].concat();
                let changeable = [&ground.roots[..], &ground.config.writable].concat();
                let wanted = MountRequest {
                    private,
                    writable: &writable,
                    readable: &readable,
                    hidden: &ground.hidden,
                    sockets: &ground.sockets,
                    session: Session { list: keeper.sockets(), places: &changeable },
                    sealed,
                };
                let places = MountPlan::new(&wanted)?;
                let mut rules = vec![(c"/proc".to_owned(), LandlockAccess::reading())];
                rules.extend(places.terminals().map(|path| (path, LandlockAccess::terminals())));
                LaunchMethod::Kept(Box::new(KeeperLaunch {
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
            way: Some(way),
            told: Some(told.into()),
            temp: if has_init { TEMP.into() } else { private.temp() },
            _supervisor: supervisor,
            has_init,
        }))
    }

    /// Sets everything up once, for nothing, to see whether the kernel allows it.
    pub(super) fn try_out(ground: &LinuxSandbox) -> Result<(), String> {
        let confinement = Self::new(
            ground,
            Path::new("/"),
            SandboxProfile::ReadOnly,
            &[],
            &SealedMounts::default(),
        )
        .map_err(|error| error.to_string())?;
        let Some(mut confinement) = confinement else { return Ok(()) };
        let output = fs::File::options().write(true).open(NOTHING);
        let output = output.map_err(|error| error.to_string())?.into();
        let launch = CommandLaunch { path: Path::new(""), argv: &[], env: BTreeMap::new(), output };
        let tried = confinement.start(&launch).and_then(|init| {
            retry_on_intr(|| rustix::process::waitpid(Some(init), WaitOptions::empty()))?;
            Ok(())
        });
        // It holds the other end of what tells, if nothing was started.
        confinement.way = None;
        match (tried, confinement.told.take().and_then(InitReport::receive)) {
            (Ok(()), Some(InitReport::Ended { .. })) => Ok(()),
            (_, Some(InitReport::Failed(stage, error))) => {
                Err(format!("{} failed: {error}", stage.as_str()))
            }
            (Err(error), _) => Err(error.to_string()),
            (Ok(()), None) => Err("it ended before it was set up".to_owned()),
        }
    }

    /// Starts a command where there is an init, and returns that.
    pub(in crate::sandbox) fn start(&mut self, launch: &CommandLaunch<'_>) -> io::Result<Pid> {
        let Some(LaunchMethod::Kept(kept)) = &self.way else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let started = kept.start(launch);
        // Nobody has got it if the keeper is gone: it may be started once more.
        if !matches!(started, Ok(None)) {
            self.way = None;
        }
        started?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::BrokenPipe, "what starts commands has ended")
        })
    }

    /// Returns whether a command was not started because there is no keeper any more.
    pub(in crate::sandbox) fn lacks_starter(&self) -> bool {
        matches!(self.way, Some(LaunchMethod::Kept(_)))
    }

    /// Makes another keeper if there is none any more.
    pub(in crate::sandbox) fn renew(&self) -> io::Result<()> {
        match &self.way {
            Some(LaunchMethod::Kept(kept)) => kept.keeper.renew(),
            Some(LaunchMethod::Own(_)) | None => Ok(()),
        }
    }

    /// Confines a command that is about to start where there is no init.
    pub(in crate::sandbox) fn apply(&mut self, command: &mut Command) {
        if let Some(LaunchMethod::Own(confines)) =
            self.way.take_if(|way| matches!(way, LaunchMethod::Own(_)))
        {
            child::confine(command, confines);
        }
    }

    /// Returns what a command must know of its sandbox.
    pub(in crate::sandbox) fn variables(&self) -> BTreeMap<&'static str, OsString> {
        TEMP_VARIABLES.map(|name| (name, self.temp.clone().into_os_string())).into_iter().collect()
    }

    /// Returns whether what leaves the command's group ends with it all the same.
    pub(in crate::sandbox) fn has_init(&self) -> bool {
        self.has_init
    }

    /// Says why a command could not be started, if that was the sandbox.
    pub(in crate::sandbox) fn failure(&mut self) -> Option<String> {
        // Nobody can tell anything any more when this one holds the other end no longer.
        self.way = None;
        match InitReport::receive(self.told.take()?)? {
            InitReport::Failed(stage, error) => Some(format!("{} failed: {error}", stage.as_str())),
            InitReport::Ended { .. } => None,
        }
    }

    /// Says how the command ended. All that it started must have ended before, where there is an init.
    pub(crate) fn end(&mut self) -> Option<SandboxedCommandEnd> {
        use std::os::unix::process::ExitStatusExt as _;
        if !self.has_init {
            return None;
        }
        let InitReport::Ended { status, was_left } = InitReport::receive(self.told.take()?)? else {
            return None;
        };
        let status = std::process::ExitStatus::from_raw(status);
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEnd::Exited(code),
            (None, signal) => ProcessEnd::Signaled(signal.unwrap_or(0)),
        };
        Some(SandboxedCommandEnd { end, was_left })
    }
}
