//! The first process of a command's namespaces, and the command itself until it becomes its program.
//!
//! Nothing here allocates: the memory is a copy of the keeper's, which has none.

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
    filter::Filter,
    plan::{Plan, Reader, Texts},
    report::{Stage, Told},
    rights,
    steps::{HELD, Step},
};
use crate::sandbox::ProcessLimits;

/// How readily the kernel ends the command when memory runs out: before anything else of its user.
const OOM_SCORE: &[u8] = b"500";
/// How long what a command leaves behind may go on by itself.
const DRAIN: Duration = Duration::from_millis(200);
/// How long it may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(1);
/// The length of what tells of a signal, which begins with its number.
const SIGNAL: usize = 128;

/// What a command is started with.
#[derive(Debug)]
pub(super) struct Order<F> {
    /// Holds the [`Start`] in bytes.
    pub plan: F,
    /// Which files it may touch.
    pub ruleset: F,
    /// Takes what is to be told to the program.
    pub report: F,
    /// Takes the number of init, then what kept the command from starting. Closed when it starts.
    pub ready: F,
    /// Takes what the command prints.
    pub output: F,
}

/// What a command is started as.
#[derive(Debug)]
pub(super) struct Start<'a, P, T> {
    pub pid_max: P,
    pub steps: &'a [Step<P>],
    /// Rules for what is mounted on the way, for the ruleset.
    pub rules: &'a [(P, u64)],
    /// Where the command runs.
    pub cwd: P,
    pub limits: ProcessLimits,
    pub filter: &'a Filter,
    /// Empty to end at once.
    pub path: P,
    pub arguments: T,
    pub variables: T,
}

impl<P: AsRef<CStr>> Start<'_, P, Vec<std::ffi::CString>> {
    pub(super) fn write(&self) -> Plan {
        let mut plan = Plan::default();
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

/// What the command itself is.
struct Program<'a> {
    limits: ProcessLimits,
    filter: Filter,
    path: &'a CStr,
    arguments: Texts<'a>,
    variables: Texts<'a>,
}

impl<'a> Program<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        Some(Self {
            limits: ProcessLimits { processes: reader.number()?, memory: reader.number()? },
            filter: Filter::read(reader)?,
            path: reader.text()?,
            arguments: reader.texts()?,
            variables: reader.texts()?,
        })
    }
}

/// Where something failed.
type Failed = (Option<Stage>, Errno);

fn at<T>(stage: Stage) -> impl Fn(Errno) -> Result<T, Failed> {
    move |error| Err((Some(stage), error))
}

/// Is the first process of new namespaces, which is `number` for the program.
///
/// It says who it is before it does anything: so no command runs of which the program does not know, even if the keeper
/// ends now and never says it.
pub(super) fn run(order: &Order<OwnedFd>, lifeline: BorrowedFd<'_>, number: i32) -> ! {
    if rustix::io::write(&order.ready, &number.to_le_bytes()).is_err() {
        child::exit(1);
    }
    match start(order) {
        Ok(main) => attend(main, order.report.as_fd(), lifeline),
        Err(failed) => fail(order, failed),
    }
}

fn fail(order: &Order<OwnedFd>, (stage, error): Failed) -> ! {
    if let Some(stage) = stage {
        Told::Failed(stage, error).send(order.report.as_fd());
    }
    // Nobody is left to be told of an error here.
    let _ = rustix::io::write(&order.ready, &error.raw_os_error().to_le_bytes());
    child::exit(1)
}

fn start(order: &Order<OwnedFd>) -> Result<Pid, Failed> {
    rustix::process::setsid().or_else(at(Stage::Session))?;
    let bytes = child::map(order.plan.as_fd()).or_else(at(Stage::Mounts))?;
    let mut reader = Reader::new(bytes);
    mount(&mut reader).or_else(at(Stage::Mounts))?;
    add_rules(&mut reader, order.ruleset.as_fd()).or_else(at(Stage::Files))?;
    let broken = || (Some(Stage::Folder), Errno::INVAL);
    let cwd = reader.text().ok_or_else(broken)?;
    rustix::process::chdir(cwd).or_else(at(Stage::Folder))?;
    let program = Program::read(&mut reader).ok_or_else(broken)?;
    match child::fork().or_else(at(Stage::Namespaces))? {
        Some(main) => Ok(main),
        None => become_program(order, &program),
    }
}

fn mount(reader: &mut Reader<'_>) -> rustix::io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change(c"/", private)?;
    let pid_max = reader.text().ok_or(Errno::INVAL)?;
    let mut held = [const { None }; HELD];
    for _ in 0..reader.number().ok_or(Errno::INVAL)? {
        Step::read(reader).ok_or(Errno::INVAL)?.apply(&mut held)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None)?;
    // Where the kernel has no such bound for a namespace, the user's own holds.
    let _ = write_to(c"/proc/sys/kernel/pid_max", pid_max.to_bytes());
    // The keeper's files there are root's, since others may not look into its memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    let _ = write_to(c"/proc/self/oom_score_adj", OOM_SCORE);
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Writes to a file of the system. Allocates nothing.
fn write_to(path: &CStr, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::io::write(file, bytes).map(drop)
}

/// Adds a rule for what is at a path by now. Allocates nothing.
fn add_rule_for_path(
    ruleset: BorrowedFd<'_>,
    path: &CStr,
    allowed_access: u64,
) -> rustix::io::Result<()> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    child::add_rule(ruleset, place.as_fd(), allowed_access)
}

fn add_rules(reader: &mut Reader<'_>, ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
    for _ in 0..reader.number().ok_or(Errno::INVAL)? {
        let path = reader.text().ok_or(Errno::INVAL)?;
        add_rule_for_path(ruleset, path, reader.number().ok_or(Errno::INVAL)?)?;
    }
    Ok(())
}

/// Is the command.
fn become_program(order: &Order<OwnedFd>, program: &Program<'_>) -> ! {
    let confined = confine(order, program);
    if let Err(failed) = confined {
        fail(order, failed);
    }
    if program.path.is_empty() {
        child::exit(0);
    }
    child::release_signals();
    fail(order, (None, child::exec(program.path, &program.arguments, &program.variables)))
}

fn confine(order: &Order<OwnedFd>, program: &Program<'_>) -> Result<(), Failed> {
    // Out of the terminal's session: nothing can be typed or shown there.
    rustix::process::setsid().or_else(at(Stage::Session))?;
    rustix::stdio::dup2_stdout(&order.output).or_else(at(Stage::Session))?;
    rustix::stdio::dup2_stderr(&order.output).or_else(at(Stage::Session))?;
    rights::limit(program.limits).or_else(at(Stage::Rights))?;
    rights::drop_capabilities().or_else(at(Stage::Rights))?;
    rustix::thread::set_no_new_privs(true).or_else(at(Stage::Rights))?;
    child::restrict(order.ruleset.as_fd()).or_else(at(Stage::Files))?;
    // Last: it may forbid what stands above.
    program.filter.apply().or_else(at(Stage::Calls))
}

/// Waits for all processes of the namespace, passes signals on, and says how the command ended. When this one exits, the
/// kernel ends whatever is left; and it does so when the program is gone.
fn attend(main: Pid, report: BorrowedFd<'_>, lifeline: BorrowedFd<'_>) -> ! {
    child::close_all_but(&mut [report.as_raw_fd(), lifeline.as_raw_fd()]);
    let Ok(signals) = child::held_signals() else { child::exit(1) };
    let mut status = None;
    let mut left = Left::Waiting;
    loop {
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
        match news(signals.as_fd(), lifeline, status.map(|_| left.patience())) {
            News::Signal(libc::SIGCHLD) => {}
            News::Signal(signal) => child::signal_all(signal),
            News::ProgramGone => child::exit(1),
            // The command has ended and its time is up.
            News::TimeUp => match left {
                Left::Waiting => {
                    child::signal_all(libc::SIGTERM);
                    left = Left::Asked;
                }
                Left::Asked => break,
            },
        }
    }
    let was_left = left == Left::Asked;
    Told::Ended { status: status.unwrap_or_default(), was_left }.send(report);
    child::exit(0)
}

/// What is done about processes that a command has left behind.
#[derive(PartialEq, Eq)]
enum Left {
    /// They may end by themselves.
    Waiting,
    /// They were asked to.
    Asked,
}

impl Left {
    fn patience(&self) -> Duration {
        match self {
            Self::Waiting => DRAIN,
            Self::Asked => GRACE,
        }
    }
}

enum News {
    Signal(i32),
    TimeUp,
    ProgramGone,
}

/// Waits for a signal, as long as it takes or for some time.
fn news(signals: BorrowedFd<'_>, lifeline: BorrowedFd<'_>, patience: Option<Duration>) -> News {
    let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
    loop {
        let mut polled = [signals, lifeline].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let count = rustix::event::poll(&mut polled, patience.as_ref());
        let [signal, life] = polled.map(|polled| !polled.revents().is_empty());
        if life {
            return News::ProgramGone;
        }
        let mut bytes = [0; SIGNAL];
        if signal
            && rustix::io::read(signals, &mut bytes) == Ok(SIGNAL)
            && let Some(number) = bytes.first_chunk()
        {
            return News::Signal(i32::from_ne_bytes(*number));
        }
        if count == Ok(0) {
            return News::TimeUp;
        }
    }
}
