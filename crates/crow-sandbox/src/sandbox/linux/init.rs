//! The first process (init) of a command's namespaces, and the command itself up to exec.
//!
//! Init mounts the command's view of the files as [`CommandPlan`] says, forks the command, reaps all
//! processes of the namespace, and reports how the command ended. It ends when the program does: the
//! program holds the other end of `lifeline`. The `ready` pipe first carries init's process number, then,
//! on failure only, an error number; exec closes it.
//!
//! Nothing here allocates: the memory is a copy of the keeper's, which has no heap.

use std::{
    ffi::CStr,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags},
    process::{DumpableBehavior, Pid, WaitOptions},
};

use super::{
    child,
    init_report::{InitReport, SetupStage},
    mount_steps::{MAX_TREES, MountStep},
    plan_codec::{PlanReader, PlanStrings, PlanWriter},
    privileges,
    syscall_filter::SyscallFilter,
};
use crate::sandbox::ProcessLimits;

/// OOM score adjustment: the kernel kills the command before other processes of its user when memory runs
/// out.
const OOM_SCORE: &[u8] = b"500";
/// Time that processes left behind may continue before SIGTERM.
const DRAIN: Duration = Duration::from_millis(200);
/// Time between SIGTERM and the end of the namespace.
const GRACE: Duration = Duration::from_secs(1);
/// Size of `struct signalfd_siginfo` in bytes, which begins with the signal's number.
const SIGNAL: usize = 128;

/// Descriptors that init gets for one command.
#[derive(Debug)]
pub(super) struct InitDescriptors<F> {
    /// File with the encoded [`CommandPlan`].
    pub plan: F,
    /// Landlock ruleset: files the command may access.
    pub ruleset: F,
    /// Pipe for an [`InitReport`] to the program.
    pub report: F,
    /// Pipe for init's process number, then the error that prevented the start. Closed at exec.
    pub ready: F,
    /// Standard input, output and error of the command.
    pub input: F,
    pub output: F,
    pub errors: F,
}

/// Plan of one command: mounts, rules, limits, filter, program.
#[derive(Debug)]
pub(super) struct CommandPlan<'a, P, T> {
    pub pid_max: P,
    pub steps: &'a [MountStep<P>],
    /// Landlock rules for paths that exist only after mounting.
    pub rules: &'a [(P, u64)],
    /// Working directory of the command.
    pub cwd: P,
    pub limits: ProcessLimits,
    pub filter: &'a SyscallFilter,
    /// Path of the program; if empty, the command exits at once.
    pub path: P,
    pub arguments: T,
    pub variables: T,
}

impl<P: AsRef<CStr>> CommandPlan<'_, P, Vec<std::ffi::CString>> {
    pub(super) fn write(&self) -> PlanWriter {
        let mut plan = PlanWriter::default();
        plan.text(self.pid_max.as_ref());
        plan.all(self.steps, |plan, step| step.write(plan));
        plan.all(self.rules, |plan, (path, access)| {
            plan.text(path.as_ref());
            plan.number(*access);
        });
        plan.text(self.cwd.as_ref());
        plan.number(self.limits.processes);
        plan.number(self.limits.memory);
        self.filter.write(&mut plan);
        plan.text(self.path.as_ref());
        plan.texts(&self.arguments);
        plan.texts(&self.variables);
        plan
    }
}

/// Decoded last part of the plan: limits, filter, program, arguments and variables.
struct InitProgram<'a> {
    limits: ProcessLimits,
    filter: SyscallFilter,
    path: &'a CStr,
    arguments: PlanStrings<'a>,
    variables: PlanStrings<'a>,
}

impl<'a> InitProgram<'a> {
    fn read(reader: &mut PlanReader<'a>) -> Option<Self> {
        Some(Self {
            limits: ProcessLimits { processes: reader.number()?, memory: reader.number()? },
            filter: SyscallFilter::read(reader)?,
            path: reader.text()?,
            arguments: reader.texts()?,
            variables: reader.texts()?,
        })
    }
}

/// Stage and error of a failure; no stage if exec itself failed.
type SetupFailure = (Option<SetupStage>, Errno);

fn failed_at<T>(stage: SetupStage) -> impl Fn(Errno) -> Result<T, SetupFailure> {
    move |error| Err((Some(stage), error))
}

/// Runs as the first process of new namespaces; `number` is its process number in the program's namespace.
///
/// It writes its number before it does anything else: so no command runs that the program does not know of,
/// even if the keeper ends before it can answer.
pub(super) fn run(order: &InitDescriptors<OwnedFd>, lifeline: BorrowedFd<'_>, number: i32) -> ! {
    if rustix::io::write(&order.ready, &number.to_le_bytes()).is_err() {
        child::exit(1);
    }
    match start(order) {
        Ok(main) => supervise(main, order.report.as_fd(), lifeline),
        Err(failed) => fail(order, failed),
    }
}

fn fail(order: &InitDescriptors<OwnedFd>, (stage, error): SetupFailure) -> ! {
    if let Some(stage) = stage {
        InitReport::Failed(stage, error).send(order.report.as_fd());
    }
    // A failure of this write has no one to be reported to.
    let _ = rustix::io::write(&order.ready, &error.raw_os_error().to_le_bytes());
    child::exit(1)
}

fn start(order: &InitDescriptors<OwnedFd>) -> Result<Pid, SetupFailure> {
    rustix::process::setsid().or_else(failed_at(SetupStage::Session))?;
    let bytes = child::map(order.plan.as_fd()).or_else(failed_at(SetupStage::Mounts))?;
    let mut reader = PlanReader::new(bytes);
    mount(&mut reader).or_else(failed_at(SetupStage::Mounts))?;
    add_rules(&mut reader, order.ruleset.as_fd()).or_else(failed_at(SetupStage::Files))?;
    let broken = || (Some(SetupStage::Folder), Errno::INVAL);
    let cwd = reader.text().ok_or_else(broken)?;
    rustix::process::chdir(cwd).or_else(failed_at(SetupStage::Folder))?;
    let program = InitProgram::read(&mut reader).ok_or_else(broken)?;
    match child::fork().or_else(failed_at(SetupStage::Namespaces))? {
        Some(main) => Ok(main),
        None => become_program(order, &program),
    }
}

fn mount(reader: &mut PlanReader<'_>) -> rustix::io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private)?;
    let pid_max = reader.text().ok_or(Errno::INVAL)?;
    let mut trees = [const { None }; MAX_TREES];
    for _ in 0..reader.number().ok_or(Errno::INVAL)? {
        MountStep::read(reader).ok_or(Errno::INVAL)?.apply(&mut trees)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None)?;
    // Fails on kernels without a limit per namespace; RLIMIT_NPROC still applies there.
    let _ = write_to(c"/proc/sys/kernel/pid_max", pid_max.to_bytes());
    // The keeper made itself non-dumpable, which makes its files in `/proc` belong to root.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let _ = write_to(c"/proc/self/oom_score_adj", OOM_SCORE);
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Writes to a file in `/proc`. Allocates nothing.
fn write_to(path: &CStr, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::io::write(file, bytes).map(drop)
}

/// Adds a Landlock rule for what is at a path now. Allocates nothing.
fn add_rule_for_path(
    ruleset: BorrowedFd<'_>,
    path: &CStr,
    allowed_access: u64,
) -> rustix::io::Result<()> {
    let target = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    child::add_rule(ruleset, target.as_fd(), allowed_access)
}

fn add_rules(reader: &mut PlanReader<'_>, ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
    for _ in 0..reader.number().ok_or(Errno::INVAL)? {
        let path = reader.text().ok_or(Errno::INVAL)?;
        add_rule_for_path(ruleset, path, reader.number().ok_or(Errno::INVAL)?)?;
    }
    Ok(())
}

/// Runs as the command: applies the restrictions, and executes the program.
fn become_program(order: &InitDescriptors<OwnedFd>, program: &InitProgram<'_>) -> ! {
    let result = confine(order, program);
    if let Err(failed) = result {
        fail(order, failed);
    }
    if program.path.is_empty() {
        child::exit(0);
    }
    child::unblock_signals();
    fail(order, (None, child::exec(program.path, &program.arguments, &program.variables)))
}

fn confine(
    order: &InitDescriptors<OwnedFd>,
    program: &InitProgram<'_>,
) -> Result<(), SetupFailure> {
    // Detaches from the terminal's session: the command can neither read nor write there.
    rustix::process::setsid().or_else(failed_at(SetupStage::Session))?;
    rustix::stdio::dup2_stdin(&order.input).or_else(failed_at(SetupStage::Session))?;
    rustix::stdio::dup2_stdout(&order.output).or_else(failed_at(SetupStage::Session))?;
    rustix::stdio::dup2_stderr(&order.errors).or_else(failed_at(SetupStage::Session))?;
    privileges::limit(program.limits).or_else(failed_at(SetupStage::Rights))?;
    privileges::drop_capabilities().or_else(failed_at(SetupStage::Rights))?;
    rustix::thread::set_no_new_privs(true).or_else(failed_at(SetupStage::Rights))?;
    child::apply_landlock(order.ruleset.as_fd()).or_else(failed_at(SetupStage::Files))?;
    // Last, since the filter may forbid the calls above.
    program.filter.apply().or_else(failed_at(SetupStage::Calls))
}

/// Reaps all processes of the namespace, forwards signals, and reports how the command ended. When this
/// process exits, the kernel kills the rest of the namespace; it also exits when the program is gone.
fn supervise(main: Pid, report: BorrowedFd<'_>, lifeline: BorrowedFd<'_>) -> ! {
    child::close_all_but(&mut [report.as_raw_fd(), lifeline.as_raw_fd()]);
    let Ok(signals) = child::signal_descriptor() else { child::exit(1) };
    let mut status = None;
    let mut leftovers = LeftoverState::Waiting;
    loop {
        // 1) Reaps children until none is waiting; ends once the command and all others are gone.
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, how))) => {
                if pid == main {
                    status = Some(how.as_raw());
                }
                continue;
            }
            Err(_) if status.is_some() => break,
            Ok(None) | Err(_) => {}
        }
        // 2) Waits for a signal, for the program's end, or, once the command has ended, for the time limit.
        match next_event(signals.as_fd(), lifeline, status.map(|_| leftovers.patience())) {
            InitEvent::Signal(libc::SIGCHLD) => {}
            InitEvent::Signal(signal) => child::signal_all(signal),
            InitEvent::ProgramGone => child::exit(1),
            // The command has ended and the time for processes left behind is up.
            InitEvent::TimeUp => match leftovers {
                LeftoverState::Waiting => {
                    child::signal_all(libc::SIGTERM);
                    leftovers = LeftoverState::Asked;
                }
                LeftoverState::Asked => break,
            },
        }
    }
    // The loop ends only after the command. Without its status there is no report, as if this process was killed.
    let Some(status) = status else { child::exit(1) };
    InitReport::Ended { status, left_running: leftovers == LeftoverState::Asked }.send(report);
    child::exit(0)
}

/// State of processes that a command has left behind.
#[derive(PartialEq, Eq)]
enum LeftoverState {
    /// They may end by themselves.
    Waiting,
    /// They got SIGTERM.
    Asked,
}

impl LeftoverState {
    fn patience(&self) -> Duration {
        match self {
            Self::Waiting => DRAIN,
            Self::Asked => GRACE,
        }
    }
}

enum InitEvent {
    Signal(i32),
    TimeUp,
    ProgramGone,
}

/// Waits for a signal or the program's end, for at most `patience` if given.
fn next_event(
    signals: BorrowedFd<'_>,
    lifeline: BorrowedFd<'_>,
    patience: Option<Duration>,
) -> InitEvent {
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    loop {
        let mut polled = [signals, lifeline].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let count = rustix::event::poll(&mut polled, patience.as_ref());
        let [signal, life] = polled.map(|polled| !polled.revents().is_empty());
        if life {
            return InitEvent::ProgramGone;
        }
        let mut bytes = [0; SIGNAL];
        if signal
            && rustix::io::read(signals, &mut bytes) == Ok(SIGNAL)
            && let Some(number) = bytes.first_chunk()
        {
            return InitEvent::Signal(i32::from_ne_bytes(*number));
        }
        if count == Ok(0) {
            return InitEvent::TimeUp;
        }
    }
}
