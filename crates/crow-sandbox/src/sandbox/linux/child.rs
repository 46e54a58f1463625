//! What happens between fork and exec, and calls into the kernel that no library offers: the one place with unsafe code.
//!
//! A child has one thread, and other threads of the program may have held locks when it was forked; the keeper and what
//! it forks have lost the program's memory as well. So nothing here allocates, locks or panics: only system calls are
//! made, on what was made ready before.

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
    attribute_supervisor::hand_over,
    init_report::{InitReport, SetupStage},
    memory_ranges::MemoryRanges,
    plan_codec::PlanStrings,
    privileges,
    syscall_filter::SyscallFilter,
};

/// What a command is confined with where there are no namespaces.
#[derive(Debug)]
pub(super) struct ChildRestrictions {
    /// Which files it may touch.
    pub ruleset: OwnedFd,
    /// Which system calls it may make.
    pub filter: Arc<SyscallFilter>,
    /// Takes the listener of the filter, if that hands calls to a supervisor.
    pub supervisor: Option<OwnedFd>,
    pub limits: ProcessLimits,
    /// Takes what is to be told to the program.
    pub report: OwnedFd,
}

/// A system call that waits for an answer of its supervisor.
#[derive(Debug)]
pub(super) struct CallNotification {
    /// Is used once only.
    pub id: u64,
    /// The thread that made the call, as this program sees it.
    pub thread: u32,
    pub number: libc::c_long,
    pub arguments: [u64; 6],
}

/// Confines a command, from just before it becomes another program.
#[expect(unsafe_code, reason = "a step between fork and exec")]
pub(super) fn confine(command: &mut Command, mut confines: ChildRestrictions) {
    // SAFETY: the closure and all that it calls only make system calls on what it owns; nothing allocates, locks or
    // panics. The processes that it forks never return from it but for the one that goes on to exec.
    unsafe { command.pre_exec(move || confines.enter()) };
}

/// Makes a process that never becomes another program: it does its work, and exits when that is done.
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

impl ChildRestrictions {
    fn enter(&mut self) -> io::Result<()> {
        let report = self.report.as_fd();
        let told = |stage: SetupStage, result: rustix::io::Result<()>| {
            result
                .inspect_err(|error| InitReport::Failed(stage, *error).send(report))
                .map_err(io::Error::from)
        };
        reset_ignored_signals();
        // Out of the terminal's session: nothing can be typed or shown there.
        told(SetupStage::Session, rustix::process::setsid().map(drop))?;
        told(SetupStage::Rights, privileges::limit(self.limits))?;
        told(SetupStage::Rights, privileges::drop_bounds())?;
        told(SetupStage::Rights, privileges::drop_capabilities())?;
        told(SetupStage::Rights, rustix::thread::set_no_new_privs(true))?;
        told(SetupStage::Files, restrict(self.ruleset.as_fd()))?;
        // Last: it may forbid what stands above.
        let applied = match &self.supervisor {
            Some(supervisor) => hand_over(&self.filter, supervisor.as_fd()),
            None => self.filter.apply(),
        };
        told(SetupStage::Calls, applied)
    }
}

/// Lets nothing be changed through a tree that is held, mounts in it included.
#[expect(unsafe_code, reason = "a system call that no library offers")]
pub(super) fn make_read_only(tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
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

/// Adds a rule for a place that is open. Allocates nothing.
#[expect(unsafe_code, reason = "a library looks at each place once more, and allocates")]
pub(super) fn add_rule(
    ruleset: BorrowedFd<'_>,
    place: BorrowedFd<'_>,
    allowed_access: u64,
) -> rustix::io::Result<()> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const PATH_BENEATH: libc::c_int = 1;
    let rule = PathBeneath { allowed_access, parent_fd: place.as_raw_fd() };
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

#[expect(
    unsafe_code,
    reason = "a system call that no library offers for a ruleset that is made already"
)]
pub(super) fn restrict(ruleset: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: no memory is passed.
    let restricted =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    checked(restricted).map(drop)
}

/// Puts this process under a filter that hands calls to a supervisor. Returns what the supervisor listens at. Allocates
/// nothing.
#[expect(unsafe_code, reason = "no library installs a filter with a listener")]
pub(super) fn filter_with_listener(program: &[sock_filter]) -> rustix::io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let filter = program.as_ptr().cast::<libc::sock_filter>().cast_mut();
    let program = libc::sock_fprog { len: length, filter };
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Older kernels do not know the second flag: a signal that has a handler then makes a call start anew.
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
                // SAFETY: the kernel has just made this descriptor, so nothing else owns it.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Err(Errno::INVAL)
}

/// Returns whether the kernel hands calls to supervisors, in structures of the size that is known here.
#[expect(unsafe_code, reason = "a system call that no library offers")]
pub(super) fn knows_notifications() -> bool {
    let mut sizes =
        libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    // SAFETY: the kernel writes three numbers into `sizes`, which has the layout of `struct seccomp_notif_sizes` and lives
    // until the call returns.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
    };
    done == 0
        && usize::from(sizes.seccomp_notif) == size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) == size_of::<libc::seccomp_notif_resp>()
}

/// Reads a call that waits at a listener. Fails with `NOENT` if who made it was killed meanwhile.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn receive_call(listener: BorrowedFd<'_>) -> rustix::io::Result<CallNotification> {
    // SAFETY: all zeroes is a value of this structure of plain numbers, and the kernel wants it so.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes as much as `knows_notifications` has compared with the size of this structure, which lives
    // until the call returns. The request's number says that it takes such a pointer.
    let done =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    checked(done.into())?;
    let libc::seccomp_data { nr, args, .. } = call.data;
    Ok(CallNotification { id: call.id, thread: call.pid, number: nr.into(), arguments: args })
}

/// Fails if a call waits no longer: its thread has ended, and its number may be another one's by now.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn check_call(listener: BorrowedFd<'_>, id: u64) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads one number of 64 bits, which lives until the call returns.
    let done = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
    };
    checked(done.into()).map(drop)
}

/// Lets a call return. It is never let go on.
#[expect(unsafe_code, reason = "no library offers this ioctl")]
pub(super) fn answer_call(
    listener: BorrowedFd<'_>,
    id: u64,
    result: rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let error = result.map_or_else(|error| error.raw_os_error().saturating_neg(), |()| 0);
    let answer = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads this structure, which has its layout and lives until the call returns.
    let done = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
    };
    checked(done.into()).map(drop)
}

/// Returns which Landlock interface the kernel has; less than 1 for none.
#[expect(unsafe_code, reason = "the library keeps this to itself")]
pub(super) fn landlock_interface() -> libc::c_long {
    const VERSION: libc::c_int = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) }
}

/// Makes a process as this one is. Returns its number.
pub(super) fn fork() -> rustix::io::Result<Option<Pid>> {
    clone(0, std::ptr::null_mut())
}

/// Makes a process as this one is in namespaces of its own, beside this one instead of below it. Returns its number in
/// those of this one. The new one finds that in `number`, which both share.
pub(super) fn clone_beside(
    namespaces: libc::c_int,
    number: &AtomicI32,
) -> rustix::io::Result<Option<Pid>> {
    // The kernel writes it before the new process runs.
    clone(namespaces | libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID, number.as_ptr())
}

#[expect(unsafe_code, reason = "no library forks without locks of its own")]
fn clone(flags: libc::c_int, number: *mut i32) -> rustix::io::Result<Option<Pid>> {
    // SAFETY: the new process has a copy of this memory and stack, and one thread, as this one: it goes on as this one
    // does. What follows in both keeps the rules at the head of this file. The kernel writes to `number` only if a flag
    // says so, and only while this call lasts.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, number, 0, 0) };
    Ok(Pid::from_raw(i32::try_from(checked(pid)?).map_err(|_| rustix::io::Errno::INVAL)?))
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
    let flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING);
    request.ifr_ifru.ifru_flags = flags.map_err(|_| rustix::io::Errno::INVAL)?;
    // SAFETY: the kernel reads the structure, which lives until the call returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    checked(done.into()).map(drop)
}

/// Goes on in `work` with some descriptors, the first three among them, without all others and without the memory in
/// `ranges`, in which neither the stack nor anything that `work` needs may lie.
#[expect(unsafe_code, reason = "no library gives back memory that it does not own")]
#[inline(never)]
pub(super) fn go_on_alone(
    fds: [RawFd; 2],
    ranges: &MemoryRanges,
    work: fn([BorrowedFd<'static>; 2]) -> !,
) -> ! {
    close_all_but(&mut [0, 1, 2, fds[0], fds[1]]);
    for range in ranges.iter() {
        if !range.is_empty() {
            // SAFETY: nothing of this process uses this memory any more: it never returns from here, and the caller
            // has left out the stack, the variables of threads and those of libraries.
            unsafe { libc::syscall(libc::SYS_munmap, range.start, range.len()) };
        }
    }
    // SAFETY: they stay open as long as this process lives, since nobody else is left in it.
    work(fds.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) }))
}

/// Makes a number that this process will share with those that it makes.
#[expect(unsafe_code, reason = "memory that processes share is nobody's in the language")]
pub(super) fn shared_number() -> rustix::io::Result<&'static AtomicI32> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: the memory is new, all zeroes, as large and as aligned as a page, and nothing unmaps it.
    unsafe {
        let start =
            libc::mmap(std::ptr::null_mut(), size_of::<AtomicI32>(), protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(&*start.cast())
    }
}

/// Shows what is in a file, for as long as this process lives.
#[expect(unsafe_code, reason = "mapped memory could change under a reference")]
pub(super) fn map(file: BorrowedFd<'_>) -> rustix::io::Result<&'static [u8]> {
    let length = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    if length == 0 {
        return Err(rustix::io::Errno::INVAL);
    }
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
    // SAFETY: the kernel chooses an unused place. The file has no name and was written before it was passed here, so it
    // stays as it is; nothing unmaps it.
    unsafe {
        let start =
            libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0);
        if start == libc::MAP_FAILED {
            return Err(last_error());
        }
        Ok(std::slice::from_raw_parts(start.cast(), length))
    }
}

/// Becomes another program. Returns only if that fails.
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
    // SAFETY: the memory is new and has a place for each pointer: no more than there is room for are taken. All texts
    // live in memory that is never given back.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return last_error();
        }
        let places = std::slice::from_raw_parts_mut(
            start.cast::<*const c_char>(),
            length / size_of::<usize>(),
        );
        let mut places = places.iter_mut();
        let first = places.as_slice().as_ptr();
        arguments.zip(places.by_ref()).for_each(|(text, place)| *place = text);
        let second = places.as_slice().as_ptr();
        variables.zip(places).for_each(|(text, place)| *place = text);
        libc::execve(path.as_ptr(), first, second);
    }
    last_error()
}

/// The signals that ask a process to end. Launchers without job control ignore some of them in what they start, without
/// anybody having asked for it. SIGHUP is none of them: who ignores it wants the process to outlive its terminal.
const ASKING_TO_END: [libc::c_int; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Has what asks to end do so again in this process and its children, where it is ignored. Handlers stay.
#[expect(unsafe_code, reason = "no library sets a signal to its default")]
pub(in super::super) fn reset_ignored_signals() {
    for signal in ASKING_TO_END {
        // SAFETY: the action is zeroed, which is a valid one, and lives until the calls return; the default action runs no
        // code of this program.
        unsafe {
            let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0;
            if known && now.assume_init().sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Holds signals back, and has them do what they do by default, but for others than those above that were ignored.
#[expect(unsafe_code, reason = "no library changes the mask of a forked process")]
pub(super) fn hold_signals() {
    // SAFETY: sets and actions are made by the calls before they are read, and live until the calls return.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        for signal in 1..=libc::SIGRTMAX() {
            let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0;
            let is_ignored = now.assume_init().sa_sigaction == libc::SIG_IGN;
            // What starts others ignores these two for itself.
            let is_for_itself = signal == libc::SIGPIPE || signal == libc::SIGCHLD;
            if known && (!is_ignored || is_for_itself || ASKING_TO_END.contains(&signal)) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Lets signals come again.
#[expect(unsafe_code, reason = "no library changes the mask of a forked process")]
pub(super) fn release_signals() {
    // SAFETY: the set is made by the first call before it is read.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Opens what signals can be read from, while they are held back.
#[expect(unsafe_code, reason = "no library reads signals without a handler")]
pub(super) fn held_signals() -> rustix::io::Result<OwnedFd> {
    // SAFETY: the set is made by the first call before it is read, and the descriptor is new and belongs to nobody.
    unsafe {
        let mut set = std::mem::MaybeUninit::uninit();
        libc::sigfillset(set.as_mut_ptr());
        let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC);
        checked(fd.into())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sends a signal to all other processes of the namespace, from its first one.
#[expect(unsafe_code, reason = "no library sends a signal to all")]
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: only numbers are passed. There may be nobody left, which is no error here.
    unsafe { libc::kill(-1, signal) };
}

/// Closes all descriptors but some, so that pipes end when those do who use them.
#[expect(unsafe_code, reason = "the descriptors belong to others, who do not live in this process")]
pub(super) fn close_all_but(kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = 0;
    for next in kept.iter().copied().chain([libc::c_int::MAX]) {
        if first < next {
            // SAFETY: only numbers are passed, and nobody uses these descriptors after this.
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
    // SAFETY: ends the process without running anything.
    unsafe { libc::_exit(code) }
}
