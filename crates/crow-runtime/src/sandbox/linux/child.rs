//! What happens between fork and exec: the one place with unsafe code.
//!
//! The child has one thread, and other threads of the program may have held locks when it was forked. So nothing here
//! allocates, locks or panics: only system calls are made, on what was made ready before the fork.
//!
//! ```text
//! program ─ fork ─► watcher ─ fork ─► init, pid 1 of a new namespace ─ fork ─► the command
//! ```
//!
//! The watcher ends with the namespace, and ends it when the program is gone. Init takes in orphans, passes signals on,
//! and says how the command ended; when it exits, the kernel ends whatever is left.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags},
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags},
};
use tokio::process::Command;

use super::{
    super::config::ProcessLimits,
    files::AddedRule,
    filter::Filter,
    namespaces::Namespaces,
    report::{Stage, Told},
};

/// What a command is confined with.
#[derive(Debug)]
pub(super) struct Confines {
    /// Its namespaces, where the system has them.
    pub namespaces: Option<Entry>,
    /// Which files it may touch.
    pub ruleset: OwnedFd,
    /// Which system calls it may make.
    pub filter: Arc<Filter>,
    pub limits: ProcessLimits,
    /// Takes what is to be told to the program.
    pub report: OwnedFd,
}

/// How a command enters its namespaces.
#[derive(Debug)]
pub(super) struct Entry {
    pub namespaces: Arc<Namespaces>,
    /// Closed by the kernel when the program is gone.
    pub lifeline: OwnedFd,
    pub steps: Vec<Step>,
    /// Mounts that are held while others are laid over them.
    pub held: Vec<Option<OwnedFd>>,
    /// Where the command runs.
    pub cwd: CString,
    /// Rules for what is mounted on the way, for the ruleset.
    pub rules: Vec<AddedRule>,
}

/// A change of what is mounted where.
#[derive(Debug)]
pub(super) enum Step {
    /// Holds a tree as it is now, perhaps so that nothing in it can be changed through what is held.
    Hold { path: CString, slot: usize, is_read_only: bool },
    /// Lets nothing be changed but in what is put somewhere afterwards: Landlock knows neither modes nor times.
    Freeze,
    /// Lays a file over another one.
    Cover { from: CString, path: CString },
    /// Lays a held tree over something.
    Put { slot: usize, path: CString },
    /// Lays something over itself, so that it cannot be renamed or removed.
    Pin { path: CString },
    /// The same, and nothing in it can be changed.
    Seal { path: CString },
    /// Mounts terminals of the command's own.
    Terminals { path: CString },
}

/// What the command may do as far as it is root.
const CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);
/// How many capabilities may exist.
const CAPABILITY_COUNT: u32 = 64;
/// How readily the kernel ends the command when memory runs out: before anything else of its user.
const OOM_SCORE: &[u8] = b"500";
/// How long what a command leaves behind may go on by itself, in milliseconds.
const DRAIN_MS: i64 = 200;
/// How long it may take to end once it was asked to.
const GRACE_MS: i64 = 1000;

/// Confines a command, from just before it becomes another program.
#[expect(unsafe_code, reason = "a step between fork and exec")]
pub(super) fn confine(command: &mut Command, mut confines: Confines) {
    // SAFETY: the closure and all that it calls only make system calls on what it owns; nothing allocates, locks or
    // panics. The processes that it forks never return from it but for the one that goes on to exec.
    unsafe { command.pre_exec(move || confines.enter()) };
}

/// Makes a process that only sets something up and exits, without becoming another program.
#[expect(unsafe_code, reason = "a step between fork and exec")]
pub(super) fn set_up(
    command: &mut std::process::Command,
    mut work: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    use std::os::unix::process::CommandExt as _;
    let step = move || {
        work()?;
        exit(0)
    };
    // SAFETY: the callers in this module's siblings keep the rules at the head of this file.
    unsafe { command.pre_exec(step) };
}

impl Confines {
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let report = self.report.as_fd();
        let told = |stage: Stage, result: rustix::io::Result<()>| {
            result.inspect_err(|error| Told::Failed(stage, *error).send(report))
        };
        // Out of the terminal's session: nothing can be typed or shown there.
        told(Stage::Session, rustix::process::setsid().map(drop))?;
        if let Some(entry) = &mut self.namespaces {
            entry.enter(report, self.ruleset.as_fd())?;
        }
        told(Stage::Rights, self.limits.apply())?;
        told(Stage::Rights, drop_capabilities())?;
        told(Stage::Rights, rustix::thread::set_no_new_privs(true))?;
        told(Stage::Files, restrict(self.ruleset.as_fd()))?;
        // Last: it may forbid what stands above.
        told(Stage::Calls, self.filter.apply())?;
        Ok(())
    }
}

impl Entry {
    fn enter(&mut self, report: BorrowedFd<'_>, ruleset: BorrowedFd<'_>) -> io::Result<()> {
        let told = |stage: Stage, result: rustix::io::Result<()>| {
            result.inspect_err(|error| Told::Failed(stage, *error).send(report))
        };
        told(Stage::Namespaces, self.namespaces.join())?;
        if let Some(init) = told_pid(report, fork())? {
            watch(init, self.lifeline.as_fd());
        }
        told(Stage::Mounts, self.mount())?;
        for rule in &self.rules {
            told(Stage::Files, rule.add(ruleset))?;
        }
        told(Stage::Folder, rustix::process::chdir(self.cwd.as_c_str()))?;
        if let Some(main) = told_pid(report, fork())? {
            init(main, report);
        }
        told(Stage::Session, rustix::process::setsid().map(drop))?;
        Ok(())
    }

    fn mount(&mut self) -> rustix::io::Result<()> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", private)?;
        for step in &self.steps {
            step.apply(&mut self.held)?;
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None)?;
        // Where the kernel has no such bound for a namespace, the user's own holds.
        let _ = write_to(c"/proc/sys/kernel/pid_max", self.namespaces.pid_max());
        let _ = write_to(c"/proc/self/oom_score_adj", OOM_SCORE);
        Ok(())
    }
}

impl Step {
    fn apply(&self, held: &mut [Option<OwnedFd>]) -> rustix::io::Result<()> {
        match self {
            Self::Hold { path, slot, is_read_only } => {
                let tree = hold(path, *is_read_only)?;
                held.get_mut(*slot).ok_or(Errno::INVAL)?.replace(tree);
                Ok(())
            }
            Self::Freeze => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                make_read_only(rustix::fs::open(c"/", flags, Mode::empty())?.as_fd())
            }
            Self::Cover { from, path } => {
                match rustix::mount::mount_bind(from.as_c_str(), path.as_c_str()) {
                    // The socket of a program that has ended meanwhile: nothing is there to be covered.
                    Err(Errno::NOENT) if rustix::fs::lstat(path.as_c_str()).is_err() => Ok(()),
                    covered => covered,
                }
            }
            Self::Put { slot, path } => {
                let tree = held.get(*slot).and_then(Option::as_ref);
                let tree = tree.ok_or(Errno::INVAL)?;
                put(tree, path)
            }
            Self::Pin { path } => {
                rustix::mount::mount_bind_recursive(path.as_c_str(), path.as_c_str())
            }
            Self::Seal { path } => put(&hold(path, true)?, path),
            Self::Terminals { path } => {
                let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
                let options = Some(c"newinstance,ptmxmode=0666,mode=0620");
                rustix::mount::mount(c"devpts", path.as_c_str(), c"devpts", flags, options)
            }
        }
    }
}

fn hold(path: &CStr, is_read_only: bool) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags)?;
    if is_read_only {
        make_read_only(tree.as_fd())?;
    }
    Ok(tree)
}

fn put(tree: &OwnedFd, path: &CStr) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, c"", CWD, path, flags)
}

/// Lets nothing be changed through a tree that is held, mounts in it included.
#[expect(unsafe_code, reason = "a system call that no library offers")]
fn make_read_only(tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let read_only = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads the path and the structure, which live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const read_only,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(done).map(drop)
}

impl ProcessLimits {
    fn apply(&self) -> rustix::io::Result<()> {
        let exactly = |value| Rlimit { current: Some(value), maximum: Some(value) };
        rustix::process::setrlimit(Resource::Core, exactly(0))?;
        for (resource, wanted) in [(Resource::Nproc, self.processes), (Resource::Data, self.memory)]
        {
            // What the user has set lower stays.
            let now = rustix::process::getrlimit(resource);
            let bound = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
            rustix::process::setrlimit(resource, exactly(bound))?;
        }
        Ok(())
    }
}

impl AddedRule {
    #[expect(unsafe_code, reason = "a system call that no library offers without allocating")]
    fn add(&self, ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
        #[repr(C, packed)]
        struct PathBeneath {
            allowed_access: u64,
            parent_fd: i32,
        }
        const PATH_BENEATH: libc::c_int = 1;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let parent = rustix::fs::open(self.path.as_c_str(), flags, Mode::empty())?;
        let rule = PathBeneath { allowed_access: self.access, parent_fd: parent.as_raw_fd() };
        // SAFETY: the kernel reads the rule, which has the layout of `landlock_path_beneath_attr`, and keeps nothing of it.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                ruleset.as_raw_fd(),
                PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        checked(added).map(drop)
    }
}

/// Gives up what root could do beyond files of its own.
fn drop_capabilities() -> rustix::io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    if now.permitted.contains(CapabilitySet::SETPCAP) {
        for number in 0..CAPABILITY_COUNT {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if !CAPABILITIES.contains(capability)
                && rustix::thread::remove_capability_from_bounding_set(capability).is_err()
            {
                // The kernel knows no more of them.
                break;
            }
        }
    }
    let kept = now.permitted & CAPABILITIES;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

#[expect(
    unsafe_code,
    reason = "a system call that no library offers for a ruleset that is made already"
)]
fn restrict(ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: no memory is passed.
    let restricted =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    checked(restricted).map(drop)
}

/// Returns which Landlock interface the kernel has; less than 1 for none.
#[expect(unsafe_code, reason = "the library keeps this to itself")]
pub(super) fn landlock_interface() -> libc::c_long {
    const VERSION: libc::c_int = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) }
}

/// Forks. Returns the number of the child in the parent.
#[expect(unsafe_code, reason = "no library forks")]
fn fork() -> rustix::io::Result<Option<libc::pid_t>> {
    // SAFETY: this process has one thread, and what follows in the child keeps the rules at the head of this file.
    let pid = unsafe { libc::fork() };
    checked(pid.into()).map(|_| (pid > 0).then_some(pid))
}

fn told_pid(
    report: BorrowedFd<'_>,
    forked: rustix::io::Result<Option<libc::pid_t>>,
) -> rustix::io::Result<Option<libc::pid_t>> {
    forked.inspect_err(|error| Told::Failed(Stage::Namespaces, *error).send(report))
}

/// Joins namespaces that are open, and makes those that belong to one command.
#[expect(unsafe_code, reason = "unshare is unsafe where threads share descriptors")]
impl Namespaces {
    fn join(&self) -> rustix::io::Result<()> {
        if let Some(user) = &self.user {
            let kind = Some(LinkNameSpaceType::User);
            rustix::thread::move_into_link_name_space(user.as_fd(), kind)?;
        }
        if let Some(network) = &self.network {
            let kind = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(network.as_fd(), kind)?;
        }
        let flags = UnshareFlags::NEWPID | UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
        // SAFETY: no thread shares the descriptors, and they stay as they are.
        unsafe { rustix::thread::unshare_unsafe(flags) }
    }
}

/// Moves this process into a network of its own, and into a user namespace first if it may not do so by itself.
#[expect(unsafe_code, reason = "unshare is unsafe where threads share descriptors")]
pub(super) fn leave(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: called between fork and exec, where no thread shares the descriptors.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Switches the loopback device on.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: all zeroes is a value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads the structure, which lives until the call returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    checked(done.into()).map(drop)
}

/// Waits until the namespace ends, or ends it when the program is gone.
#[expect(unsafe_code, reason = "waiting without a library that allocates")]
fn watch(init: libc::pid_t, lifeline: BorrowedFd<'_>) -> ! {
    block_signals();
    let lifeline = lifeline.as_raw_fd();
    // SAFETY: only numbers are passed, and memory that lives until the calls return.
    unsafe {
        let pid_fd = libc::syscall(libc::SYS_pidfd_open, init, 0);
        let pid_fd = libc::c_int::try_from(pid_fd).unwrap_or(-1);
        close_all_but(lifeline, pid_fd);
        let mut polled =
            [lifeline, pid_fd].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        while polled.iter().all(|polled| polled.revents == 0) {
            libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1);
        }
        if polled.first().is_some_and(|lifeline| lifeline.revents != 0) {
            libc::kill(init, libc::SIGKILL);
        }
        libc::waitpid(init, std::ptr::null_mut(), 0);
    }
    exit(0)
}

/// The first process of the namespace: waits for all others, passes signals on, and says how the command ended.
#[expect(unsafe_code, reason = "waiting without a library that allocates")]
fn init(main: libc::pid_t, report: BorrowedFd<'_>) -> ! {
    block_signals();
    // Its memory is a copy of the program's.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // SAFETY: only numbers are passed, and memory that lives until the calls return.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        close_all_but(report.as_raw_fd(), -1);
        let mut status = None;
        let mut left = Left::Waiting;
        loop {
            let mut some = 0;
            let pid = libc::waitpid(-1, &raw mut some, libc::WNOHANG);
            if pid == main {
                status = Some(some);
            } else if pid < 0 && status.is_some() {
                break;
            }
            if pid > 0 {
                continue;
            }
            match next_signal(status.and(left.patience_ms())) {
                Some(libc::SIGCHLD) => {}
                Some(signal) => {
                    libc::kill(-1, signal);
                }
                // The command has ended and its time is up.
                None => match left {
                    Left::Waiting => {
                        libc::kill(-1, libc::SIGTERM);
                        left = Left::Asked;
                    }
                    Left::Asked => break,
                },
            }
        }
        let was_left = left == Left::Asked;
        Told::Ended { status: status.unwrap_or_default(), was_left }.send(report);
    }
    exit(0)
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
    fn patience_ms(&self) -> Option<i64> {
        match self {
            Self::Waiting => Some(DRAIN_MS),
            Self::Asked => Some(GRACE_MS),
        }
    }
}

/// Waits for a signal, as long as it takes or for some milliseconds.
#[expect(unsafe_code, reason = "no library waits for signals without a handler")]
fn next_signal(patience_ms: Option<i64>) -> Option<libc::c_int> {
    // SAFETY: the set is made by the call before it is read, and all memory lives until the calls return.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        loop {
            let signal = match patience_ms {
                None => libc::sigwaitinfo(set.as_ptr(), std::ptr::null_mut()),
                Some(ms) => {
                    let time = libc::timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
                    libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &raw const time)
                }
            };
            if signal > 0 {
                return Some(signal);
            }
            if *libc::__errno_location() == libc::EAGAIN {
                return None;
            }
        }
    }
}

#[expect(unsafe_code, reason = "no library changes the mask of a forked process")]
fn block_signals() {
    // SAFETY: the set is made by the first call before it is read.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Closes all descriptors but two, so that pipes end when the command does.
#[expect(unsafe_code, reason = "the descriptors belong to others, who do not live in this process")]
fn close_all_but(one: libc::c_int, other: libc::c_int) {
    let (low, high) = (one.min(other), one.max(other));
    let close = |first: libc::c_int, last: libc::c_int| {
        if let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last))
            && first <= last
        {
            // SAFETY: only numbers are passed, and nobody uses these descriptors after this.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    close(0, low - 1);
    close(low.max(-1) + 1, high - 1);
    close(high + 1, libc::c_int::MAX);
}

fn write_to(path: &CStr, bytes: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::io::write(file, bytes).map(drop)
}

fn checked(result: libc::c_long) -> rustix::io::Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

#[expect(unsafe_code, reason = "nothing of the program may run at this end")]
fn exit(code: libc::c_int) -> ! {
    // SAFETY: ends the process without running anything.
    unsafe { libc::_exit(code) }
}
