//! Code that runs between fork and exec, and system calls that no library offers: the only module with
//! unsafe code.
//!
//! A child has one thread, and other threads of the program may have held locks when it was forked; the
//! keeper and its children have even unmapped the program's memory. So nothing here allocates, locks or
//! panics: only system calls are made, on data that was prepared before.

use std::{
    ffi::{CStr, c_char},
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    sync::{Arc, atomic::AtomicI32},
};

use rustix::{io::Errno, process::Pid, thread::UnshareFlags};
use seccompiler::sock_filter;
use tokio::process::Command;

use super::{
    super::config::ProcessLimits,
    attribute_supervisor::install_and_send_listener,
    init_report::{InitReport, SetupStage},
    memory_ranges::MemoryRanges,
    plan_codec::PlanStrings,
    privileges,
    syscall_filter::SyscallFilter,
};

/// Restrictions of a command where there are no namespaces.
#[derive(Debug)]
pub(super) struct ChildRestrictions {
    /// Landlock ruleset: files it may access.
    pub ruleset: OwnedFd,
    /// Seccomp filter: system calls it may make.
    pub filter: Arc<SyscallFilter>,
    /// Socket for the filter's listener, if the filter hands calls to a supervisor.
    pub supervisor: Option<OwnedFd>,
    pub limits: ProcessLimits,
    /// Pipe for an [`InitReport`] to the program.
    pub report: OwnedFd,
}

/// System call that waits for its supervisor's answer.
#[derive(Debug)]
pub(super) struct CallNotification {
    /// Unique number of the notification.
    pub id: u64,
    /// Number of the calling thread, in the process namespace of this program.
    pub thread: u32,
    pub number: libc::c_long,
    pub arguments: [u64; 6],
}

/// Applies the restrictions to a command, just before its exec.
#[expect(unsafe_code, reason = "a step between fork and exec")]
pub(super) fn confine(command: &mut Command, mut confines: ChildRestrictions) {
    // SAFETY: the closure and all that it calls only make system calls on what it owns; nothing allocates,
    // locks or panics. The processes that it forks never return from it, except for the one that continues
    // to exec.
    unsafe { command.pre_exec(move || confines.apply()) };
}

/// Makes `command` a child that never calls exec: it runs `work`, and exits when that is done.
#[expect(unsafe_code, reason = "a step between fork and exec")]
pub(super) fn run_without_exec(
    command: &mut std::process::Command,
    mut work: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    use std::os::unix::process::CommandExt as _;
    let step = move || {
        work()?;
        exit(0)
    };
    // SAFETY: `work` runs in the forked child; the callers, modules next to this one, keep the rules at the
    // head of this file: no allocation, no locks, no panics.
    unsafe { command.pre_exec(step) };
}

impl ChildRestrictions {
    fn apply(&mut self) -> io::Result<()> {
        let report = self.report.as_fd();
        let or_report = |stage: SetupStage, result: rustix::io::Result<()>| {
            result
                .inspect_err(|error| InitReport::Failed(stage, *error).send(report))
                .map_err(io::Error::from)
        };
        reset_ignored_signals();
        // Detaches from the terminal's session: the command can neither read nor write there.
        or_report(SetupStage::Session, rustix::process::setsid().map(drop))?;
        or_report(SetupStage::Rights, privileges::limit(self.limits))?;
        or_report(SetupStage::Rights, privileges::drop_bounds())?;
        or_report(SetupStage::Rights, privileges::drop_capabilities())?;
        or_report(SetupStage::Rights, rustix::thread::set_no_new_privs(true))?;
        or_report(SetupStage::Files, apply_landlock(self.ruleset.as_fd()))?;
        // Last, since the filter may forbid the calls above.
        let applied = match &self.supervisor {
            Some(supervisor) => install_and_send_listener(&self.filter, supervisor.as_fd()),
            None => self.filter.apply(),
        };
        or_report(SetupStage::Calls, applied)
    }
}

/// Makes a mount tree read-only, including the mounts below it.
pub(super) fn make_read_only(tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
    set_read_only(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

/// Makes the mount at a path read-only, including the mounts below it. Fails with `INVAL` if nothing is mounted there;
/// a link at the path is not followed.
pub(super) fn make_path_read_only(path: &CStr) -> rustix::io::Result<()> {
    set_read_only(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
}

#[expect(unsafe_code, reason = "a system call that no library offers")]
fn set_read_only(directory: RawFd, path: &CStr, flags: libc::c_int) -> rustix::io::Result<()> {
    let read_only = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads the path and the structure, which live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory,
            path.as_ptr(),
            flags | libc::AT_RECURSIVE,
            &raw const read_only,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(result).map(drop)
}

/// Adds a Landlock rule for an open file or directory. Allocates nothing.
#[expect(unsafe_code, reason = "a library looks at each place once more, and allocates")]
pub(super) fn add_rule(
    ruleset: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    allowed_access: u64,
) -> rustix::io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath { allowed_access, parent_fd: target.as_raw_fd() };
    // SAFETY: the kernel reads `rule`, which has the layout of `landlock_path_beneath_attr` and lives until
    // the call returns; it keeps no pointer to it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    };
    checked(result).map(drop)
}

#[expect(
    unsafe_code,
    reason = "a system call that no library offers for a ruleset that is made already"
)]
pub(super) fn apply_landlock(ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    checked(result).map(drop)
}

/// Installs a filter that hands calls to a supervisor. Returns the listener for the supervisor. Allocates
/// nothing.
#[expect(unsafe_code, reason = "no library installs a filter with a listener")]
pub(super) fn filter_with_listener(program: &[sock_filter]) -> rustix::io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let filter = program.as_ptr().cast::<libc::sock_filter>().cast_mut();
    let program = libc::sock_fprog { len: length, filter };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Older kernels do not know the second flag: there a signal with a handler restarts the suspended call.
    for flags in [listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, listener] {
        // SAFETY: the kernel copies `len` instructions from `filter` before the call returns and writes to neither. Both
        // types of instruction have the kernel's layout, `struct sock_filter`, which is `repr(C)` in both libraries.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        match checked(fd) {
            Err(Errno::INVAL) => {}
            fd => {
                let fd = RawFd::try_from(fd?).map_err(|_| Errno::BADF)?;
                // SAFETY: the kernel has just created this descriptor for this call, so nothing else owns
                // it.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Err(Errno::INVAL)
}

/// Returns true if the kernel hands calls to supervisors, in structures of the size that libc defines.
#[expect(unsafe_code, reason = "a system call that no library offers")]
pub(super) fn knows_notifications() -> bool {
    let mut sizes =
        libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes three numbers into `sizes`, which has the layout of `struct seccomp_notif_sizes` and lives
    // until the call returns.
    let status = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
    };
    status == 0
        && usize::from(sizes.seccomp_notif) == size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) == size_of::<libc::seccomp_notif_resp>()
}

/// Reads a waiting call from a listener. Fails with `NOENT` if the caller was killed meanwhile.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn receive_call(listener: BorrowedFd<'_>) -> rustix::io::Result<CallNotification> {
    // SAFETY: all zeroes is a valid value of this structure of plain integers, and the kernel requires it
    // to be zeroed.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `call`, which lives until the call returns; it writes as many bytes as
    // `knows_notifications` has compared with the size of this structure. The request's number says that it
    // takes such a pointer.
    let status =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    checked(status.into())?;
    let libc::seccomp_data { nr, args, .. } = call.data;
    Ok(CallNotification { id: call.id, thread: call.pid, number: nr.into(), arguments: args })
}

/// Fails if the call no longer waits: its thread has ended, and the thread's number may have been reused.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn check_call(listener: BorrowedFd<'_>, id: u64) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads one 64-bit integer from `id`, which lives until the call returns.
    let status = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
    };
    checked(status.into()).map(drop)
}

/// Makes a waiting call return `result`. The call itself is never executed.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn answer_call(
    listener: BorrowedFd<'_>,
    id: u64,
    result: rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let error = result.map_or_else(|error| error.raw_os_error().saturating_neg(), |()| 0);
    let answer = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads `answer`, which has its layout and lives until the call returns.
    let status = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
    };
    checked(status.into()).map(drop)
}

/// Returns the kernel's Landlock ABI version; less than 1 if there is none.
#[expect(unsafe_code, reason = "the library keeps this to itself")]
pub(super) fn landlock_interface() -> libc::c_long {
    const VERSION: libc::c_int = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) }
}

/// Forks this process. Returns the child's number in the parent, and `None` in the child.
pub(super) fn fork() -> rustix::io::Result<Option<Pid>> {
    clone(0, std::ptr::null_mut())
}

/// Clones this process into new `namespaces` as a sibling: the new process becomes a child of this one's
/// parent. Returns its number, as seen here, in this process, and `None` in the new one, which finds it in
/// the shared `number`.
pub(super) fn clone_as_sibling(
    namespaces: libc::c_int,
    number: &AtomicI32,
) -> rustix::io::Result<Option<Pid>> {
    // The kernel writes `number` before the new process runs.
    clone(namespaces | libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID, number.as_ptr())
}

#[expect(unsafe_code, reason = "no library forks without locks of its own")]
fn clone(flags: libc::c_int, number: *mut i32) -> rustix::io::Result<Option<Pid>> {
    // SAFETY: without `CLONE_VM` the new process has a copy of this memory and stack, and one thread, as
    // this one: it continues as this one does. What follows in both keeps the rules at the head of this
    // file. The kernel writes to `number` only if `CLONE_PARENT_SETTID` is set, and only during this call;
    // it then points to an atomic that outlives the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, number, 0, 0) };
    Ok(Pid::from_raw(i32::try_from(checked(pid)?).map_err(|_| rustix::io::Errno::INVAL)?))
}

/// Moves this process into new namespaces (a user namespace or a network).
#[expect(unsafe_code, reason = "unshare is unsafe where threads share descriptors")]
pub(super) fn enter_new_namespaces(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: called between fork and exec, where no thread shares the descriptors.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Switches the loopback device on.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (target, source) in request.ifr_name.iter_mut().zip(*b"lo") {
        *target = source.cast_signed();
    }
    let flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING);
    request.ifr_ifru.ifru_flags = flags.map_err(|_| rustix::io::Errno::INVAL)?;
    // SAFETY: the kernel reads `request`, which lives until the call returns.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    checked(status.into()).map(drop)
}

/// Runs `work` with descriptors 0 to 2 and `fds`, after closing all others and unmapping the memory in
/// `ranges`. Neither the stack nor anything that `work` needs may lie in these ranges.
#[expect(unsafe_code, reason = "no library gives back memory that it does not own")]
#[inline(never)]
pub(super) fn unmap_and_run(
    fds: [RawFd; 2],
    ranges: &MemoryRanges,
    work: fn([BorrowedFd<'static>; 2]) -> !,
) -> ! {
    close_all_but(&mut [0, 1, 2, fds[0], fds[1]]);
    for range in ranges.iter() {
        if !range.is_empty() {
            // SAFETY: nothing in this process uses this memory any more: this function never returns, the
            // process has one thread, and the caller has left out the stack, thread-local variables and
            // variables of libraries.
            unsafe { libc::syscall(libc::SYS_munmap, range.start, range.len()) };
        }
    }
    // SAFETY: the descriptors stay open as long as this process lives, since no other code runs in it that
    // could close them.
    work(fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) }))
}

/// Allocates an integer in memory that is shared with processes forked later.
#[expect(unsafe_code, reason = "memory that processes share is nobody's in the language")]
pub(super) fn shared_number() -> rustix::io::Result<&'static AtomicI32> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the new mapping is zeroed, at least a page long and page-aligned, so it holds a valid
    // `AtomicI32`; nothing unmaps it, hence `'static`. Only the kernel writes to it, in `clone`, and processes
    // only load it atomically.
    unsafe {
        let start =
            libc::mmap(std::ptr::null_mut(), size_of::<AtomicI32>(), protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(&*start.cast())
    }
}

/// Maps a file read-only, for the rest of this process's life.
#[expect(unsafe_code, reason = "mapped memory could change under a reference")]
pub(super) fn map(file: BorrowedFd<'_>) -> rustix::io::Result<&'static [u8]> {
    let length = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    if length == 0 {
        return Err(rustix::io::Errno::INVAL);
    }
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
    // SAFETY: the kernel chooses an unused address. The file has no name and was written completely before
    // its descriptor was passed here, so its content does not change under the slice; nothing unmaps it.
    unsafe {
        let start =
            libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(std::slice::from_raw_parts(start.cast(), length))
    }
}

/// Executes another program. Returns only if that fails.
#[expect(unsafe_code, reason = "no library does it without allocating")]
pub(super) fn exec(
    path: &CStr,
    arguments: &PlanStrings<'_>,
    variables: &PlanStrings<'_>,
) -> rustix::io::Errno {
    let count = arguments.clone().chain(variables.clone()).count().saturating_add(2);
    let length = count.saturating_mul(size_of::<usize>());
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let end = [std::ptr::null()];
    let arguments = arguments.clone().map(CStr::as_ptr).chain(end);
    let variables = variables.clone().map(CStr::as_ptr).chain(end);
    // SAFETY: the mapping is new, zeroed and private, and has room for every pointer and both terminating
    // nulls; `zip` stops at its end. All strings live in memory that is never unmapped, and only this
    // thread writes to the mapping.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return last_error();
        }
        let slots = std::slice::from_raw_parts_mut(
            start.cast::<*const c_char>(),
            length / size_of::<usize>(),
        );
        let mut slots = slots.iter_mut();
        let first = slots.as_slice().as_ptr();
        arguments.zip(slots.by_ref()).for_each(|(string, slot)| *slot = string);
        let second = slots.as_slice().as_ptr();
        variables.zip(slots).for_each(|(string, slot)| *slot = string);
        libc::execve(path.as_ptr(), first, second);
    }
    last_error()
}

/// Signals that ask a process to end. Launchers without job control start programs with some of them
/// ignored, without any intent of the user. SIGHUP is not included: who ignores it (`nohup`) wants the
/// process to outlive its terminal.
const ASKING_TO_END: [libc::c_int; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Resets these signals to their default action where they are ignored, for this process and its children.
/// Handlers stay.
#[expect(unsafe_code, reason = "no library sets a signal to its default")]
pub(in super::super) fn reset_ignored_signals() {
    for signal in ASKING_TO_END {
        // SAFETY: `now` is zeroed, which is a valid action, and lives until the calls return; the kernel
        // writes only to it. The default action runs no code of this program.
        unsafe {
            let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0;
            if known && now.assume_init().sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Blocks all signals and resets them to their default action, except ignored ones outside of the list
/// above.
#[expect(unsafe_code, reason = "no library changes the mask of a forked process")]
pub(super) fn block_signals() {
    // SAFETY: the kernel and libc write `set` and `now` before they are read, and both live until the calls
    // return. The process has one thread, so no other code changes actions or the mask meanwhile.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        for signal in 1..=libc::SIGRTMAX() {
            let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0;
            let is_ignored = now.assume_init().sa_sigaction == libc::SIG_IGN;
            // Programs that start others often ignore these two for themselves only.
            let is_for_itself = signal == libc::SIGPIPE || signal == libc::SIGCHLD;
            if known && (!is_ignored || is_for_itself || ASKING_TO_END.contains(&signal)) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Unblocks all signals.
#[expect(unsafe_code, reason = "no library changes the mask of a forked process")]
pub(super) fn unblock_signals() {
    // SAFETY: the first call initializes `set` before the second reads it.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Opens a descriptor from which blocked signals can be read.
#[expect(unsafe_code, reason = "no library reads signals without a handler")]
pub(super) fn signal_descriptor() -> rustix::io::Result<OwnedFd> {
    // SAFETY: the first call initializes `set` before the second reads it. The descriptor is new, so
    // nothing else owns it.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC);
        checked(fd.into())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a signal to all other processes of the namespace; called by its first process.
#[expect(unsafe_code, reason = "no library sends a signal to all")]
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: only integers are passed. It is no error if no other process is left.
    unsafe { libc::kill(-1, signal) };
}

/// Closes all descriptors except `kept`, so that pipes end when their real users do.
#[expect(unsafe_code, reason = "the descriptors belong to others, who do not live in this process")]
pub(super) fn close_all_but(kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = 0;
    for next in kept.iter().copied().chain([libc::c_int::MAX]) {
        if first < next {
            // SAFETY: only integers are passed. The closed descriptors are owned by code that does not run
            // in this process, so nothing uses them after this.
            unsafe { libc::syscall(libc::SYS_close_range, first, next - 1, 0) };
        }
        first = next.saturating_add(1);
    }
}

fn checked(result: libc::c_long) -> rustix::io::Result<libc::c_long> {
    if result >= 0 { Ok(result) } else { Err(last_error()) }
}

fn last_error() -> rustix::io::Errno {
    let error = io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::INVAL)
}

#[expect(unsafe_code, reason = "nothing of the program may run at this end")]
pub(super) fn exit(code: libc::c_int) -> ! {
    // SAFETY: ends the process at once; no destructor or exit handler runs.
    unsafe { libc::_exit(code) }
}
