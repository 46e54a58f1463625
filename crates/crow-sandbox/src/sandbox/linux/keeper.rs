//! The keeper: a small process in the namespaces of a session that starts the session's commands.
//!
//! ```text
//! program ─ fork, once ─► keeper ─ clone, beside itself ─► init, pid 1 of new namespaces ─ clone ─► the command
//! ```
//!
//! Forking costs more the more memory a process has. So the keeper unmaps everything that the program has
//! allocated: its children start cheaply, and none of the program's data is in memory near a command. Init
//! becomes a child of the program, adopts orphans, and ends with the program; the kernel kills the rest of
//! the namespace with init.
//!
//! The keeper may be killed, for example by the kernel when memory runs out. Running commands continue,
//! since nothing in them depends on the keeper. The program holds the namespaces open, so the next command
//! that finds no keeper starts another one in them, once for each command.
//!
//! Protocol: the program sends one message with seven descriptors ([`InitDescriptors`]) over `control`; the
//! keeper answers with init's process number, or a negative error number. When the socket closes, the
//! keeper exits.

use std::{
    fs, io,
    io::{IoSlice, IoSliceMut, Read as _},
    mem::MaybeUninit,
    net::TcpListener,
    ops::Range,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    process::{Child, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use rustix::{
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    },
    process::{DumpableBehavior, Pid, WaitOptions},
};

use super::{
    child,
    init::{self, InitDescriptors},
    init_report::{InitReport, SetupStage},
    memory_ranges::MemoryRanges,
    namespaces::{MAX_DESCRIPTORS, NamespaceBuilder, NamespaceOptions, Namespaces},
    privileges,
    sockets::list_inode,
};
use crate::orphans::OwnProcess;

/// New namespaces of each command.
const NAMESPACES: libc::c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
/// Maximum number of descriptors in one message.
const PASSED: usize = 7;

std::thread_local! {
    /// Its address lies in this thread's thread-local memory.
    static VARIABLE: u8 = const { 0 };
}

/// Handle to the process that starts a session's commands.
#[derive(Debug)]
pub(super) struct SandboxKeeper {
    namespaces: Namespaces,
    /// Inode of the socket list of the session's own network, if it has one.
    sockets: Option<u64>,
    lifeline: OwnedFd,
    worker: Mutex<KeeperProcess>,
    /// Serializes renewals. Unlike `worker`, it is never taken while the lock of the process table
    /// (`orphans`) is held.
    renewal: Mutex<()>,
}

/// The keeper process. Replaced by another one if it is killed.
#[derive(Debug)]
struct KeeperProcess {
    control: OwnedFd,
    process: OwnProcess<Child>,
    /// True if the process accepts no orders any more.
    is_gone: bool,
}

impl SandboxKeeper {
    /// Creates the namespaces of a session and the keeper in them. Blocks for a moment.
    pub(super) fn start(
        wanted: NamespaceOptions,
        lifeline: BorrowedFd<'_>,
    ) -> io::Result<(Self, Option<TcpListener>)> {
        let lifeline = lifeline.try_clone_to_owned()?;
        let maker = NamespaceBuilder::new(wanted)?;
        let parts = maker.parts();
        let (mut worker, made) = KeeperProcess::start(lifeline.as_fd(), move || maker.make())?;
        let mut made = made.into_iter().flatten();
        let [user, network, listener] = parts.map(|is_there| is_there.then(|| made.next()));
        if [&user, &network, &listener].into_iter().any(|part| matches!(part, Some(None))) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let namespaces = Namespaces::new([user.flatten(), network.flatten()]);
        let sockets =
            wanted.network.then(|| list_inode(worker.process.get_mut().id())).transpose()?;
        let (worker, renewal) = (Mutex::new(worker), Mutex::default());
        let keeper = Self { namespaces, sockets, lifeline, worker, renewal };
        Ok((keeper, listener.flatten().map(TcpListener::from)))
    }

    /// Starts another keeper in the same namespaces, if the present one has ended. Blocks for a moment.
    pub(super) fn restart(&self) -> io::Result<()> {
        let _renewal = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        // Another caller may already have replaced it.
        if !self.worker().is_gone {
            return Ok(());
        }
        let namespaces = self.namespaces.clone();
        let join = move || namespaces.join().map(|()| [const { None }; MAX_DESCRIPTORS]);
        let (worker, _) = KeeperProcess::start(self.lifeline.as_fd(), join)?;
        let gone = std::mem::replace(&mut *self.worker(), worker);
        // Waits for the old process to exit; the lock on `worker` is already released.
        drop(gone);
        tracing::warn!("what starts the commands of a sandbox had ended, and was made anew");
        Ok(())
    }

    /// Starts a command. Returns its init, a child of this process; by then the command has executed its
    /// program. Returns `None` if the keeper has ended, and nothing was started.
    pub(super) fn launch(
        &self,
        order: InitDescriptors<OwnedFd>,
        mut ready: io::PipeReader,
    ) -> io::Result<Option<Pid>> {
        let answer = self.worker().send_order(&order)?;
        // Closes this end of `ready`, so that reading it ends at exec or exit.
        drop(order);
        if let Some(answer) = answer.filter(|answer| *answer <= 0) {
            return Err(io::Error::from_raw_os_error(answer.saturating_neg()));
        }
        let mut bytes = Vec::new();
        ready.read_to_end(&mut bytes)?;
        let (reported, failure) = match bytes.split_first_chunk() {
            Some((number, rest)) => (Some(i32::from_le_bytes(*number)), rest.first_chunk()),
            None => (None, None),
        };
        // Init reports its number, too: if the keeper ended before answering, a running init must not be
        // started twice.
        let Some(init) = answer.or(reported).and_then(Pid::from_raw) else { return Ok(None) };
        match failure {
            None => Ok(Some(init)),
            Some(error) => {
                retry_on_intr(|| rustix::process::waitpid(Some(init), WaitOptions::empty()))?;
                Err(io::Error::from_raw_os_error(i32::from_le_bytes(*error)))
            }
        }
    }

    /// Returns the inode of the socket list of the session's own network, if it has one.
    pub(super) fn sockets(&self) -> Option<u64> {
        self.sockets
    }

    fn worker(&self) -> MutexGuard<'_, KeeperProcess> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeeperProcess {
    /// Starts the process, which first calls `enter` (it must not allocate) to get into the namespaces.
    /// Returns the descriptors that `enter` returned, without gaps between them.
    #[expect(clippy::disallowed_methods, reason = "it starts what commands are started by")]
    fn start(
        lifeline: BorrowedFd<'_>,
        enter: impl Fn() -> rustix::io::Result<[Option<OwnedFd>; MAX_DESCRIPTORS]>
        + Send
        + Sync
        + 'static,
    ) -> io::Result<(Self, [Option<OwnedFd>; MAX_DESCRIPTORS])> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let lifeline = lifeline.try_clone_to_owned()?;
        let memory = unneeded_memory()?;
        // Never executed: the child stays in `run_keeper`.
        let mut command = std::process::Command::new("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        child::run_without_exec(&mut command, move || -> io::Result<()> {
            let made = enter()?;
            send(theirs.as_fd(), made.each_ref().map(|fd| fd.as_ref().map(OwnedFd::as_fd)))?;
            privileges::drop_bounds()?;
            rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            // Inherited signal handlers would use the program's memory, which is about to be unmapped.
            child::block_signals();
            let fds = [theirs.as_raw_fd(), lifeline.as_raw_fd()];
            child::unmap_and_run(fds, &MemoryRanges::new(&memory), run_keeper)
        });
        let process = OwnProcess::start(|| command.spawn(), Child::id)?;
        // Closes the keeper's end of the socket in this process.
        drop(command);
        let worker = Self { control: ours, process, is_gone: false };
        let made = receive(worker.control.as_fd())?;
        Ok((worker, made))
    }

    /// Sends an order, and returns the answer: the number of init, or a negative error number. Returns
    /// `None` if the keeper has ended: then no order is answered any more.
    fn send_order(&mut self, order: &InitDescriptors<OwnedFd>) -> io::Result<Option<i32>> {
        if self.is_gone {
            return Ok(None);
        }
        let InitDescriptors { plan, ruleset, report, ready, input, output, errors } = order;
        let fds = [plan, ruleset, report, ready, input, output, errors];
        match send(self.control.as_fd(), fds.map(|fd| Some(fd.as_fd()))) {
            Ok(()) => {}
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                self.is_gone = true;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        let mut answer = [0; size_of::<i32>()];
        // Orders and answers alternate, so one read belongs to this order.
        let count = retry_on_intr(|| rustix::io::read(&self.control, &mut answer));
        self.is_gone = count != Ok(answer.len());
        Ok((!self.is_gone).then(|| i32::from_le_bytes(answer)))
    }
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        // The keeper exits when its socket is closed.
        if rustix::net::shutdown(&self.control, Shutdown::Both).is_ok() {
            drop(self.process.get_mut().wait());
        }
    }
}

/// Main loop of the keeper. Allocates nothing.
fn run_keeper([control, lifeline]: [BorrowedFd<'static>; 2]) -> ! {
    // Detaches from the program's terminal, whose signals are not for this process.
    let _ = rustix::process::setsid();
    // The directory in which the program was started may be removed or unmounted.
    let _ = rustix::process::chdir(c"/");
    let Ok(number) = child::shared_number() else { child::exit(1) };
    loop {
        let order = match receive(control) {
            Ok(
                [
                    Some(plan),
                    Some(ruleset),
                    Some(report),
                    Some(ready),
                    Some(input),
                    Some(output),
                    Some(errors),
                ],
            ) => InitDescriptors { plan, ruleset, report, ready, input, output, errors },
            Err(Errno::INTR) => continue,
            // The program has closed the socket, or the message is malformed.
            Ok(_) | Err(_) => child::exit(0),
        };
        let answer = match child::clone_as_sibling(NAMESPACES, number) {
            // In the new process. A later clone may overwrite `number` before it is read here, but the
            // program uses it only if the keeper has not answered, and then there was no later clone.
            Ok(None) => init::run(&order, lifeline, number.load(Ordering::Relaxed)),
            Ok(Some(init)) => init.as_raw_nonzero().get(),
            Err(error) => {
                InitReport::Failed(SetupStage::Namespaces, error).send(order.report.as_fd());
                error.raw_os_error().saturating_neg()
            }
        };
        if rustix::io::write(control, &answer.to_le_bytes()).is_err() {
            child::exit(0);
        }
    }
}

/// Sends the descriptors that are present. Allocates nothing.
pub(super) fn send<const N: usize>(
    to: BorrowedFd<'_>,
    descriptors: [Option<BorrowedFd<'_>>; N],
) -> rustix::io::Result<()> {
    let mut count = 0;
    let mut fds = [to; N];
    for (slot, fd) in fds.iter_mut().zip(descriptors.into_iter().flatten()) {
        *slot = fd;
        count += 1;
    }
    let fds = fds.get(..count).unwrap_or_default();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::NOBUFS);
    }
    let bytes = [IoSlice::new(b"n")];
    retry_on_intr(|| rustix::net::sendmsg(to, &bytes, &mut control, SendFlags::NOSIGNAL)).map(drop)
}

/// Receives descriptors. Fails if the other end is closed. Allocates nothing.
pub(super) fn receive<const N: usize>(
    from: BorrowedFd<'_>,
) -> rustix::io::Result<[Option<OwnedFd>; N]> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    if rustix::net::recvmsg(from, &mut bytes, &mut control, flags)?.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut fds = [const { None }; N];
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.iter_mut().zip(rights).for_each(|(slot, fd)| *slot = Some(fd));
        }
    }
    Ok(fds)
}

/// Returns the memory ranges of this process that a fork of this thread does not need, as long as it
/// allocates nothing.
fn unneeded_memory() -> io::Result<Vec<Range<usize>>> {
    let on_stack = 0_u8;
    let needed_addresses =
        [(&raw const on_stack).addr(), VARIABLE.with(|variable| (&raw const *variable).addr())];
    Ok(droppable(&fs::read_to_string("/proc/self/maps")?, needed_addresses))
}

/// Returns the private anonymous mappings and the heap, that is, what the program has allocated. Leaves out
/// variables of libraries, which directly follow a file mapping, and mappings with one of the `needed_addresses`
/// addresses (stack and thread-local memory).
fn droppable(maps: &str, needed_addresses: [usize; 2]) -> Vec<Range<usize>> {
    let mut droppable_ranges = Vec::new();
    let mut end_of_file = 0;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, mode) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let address = |text| usize::from_str_radix(text, 16).ok();
        let range =
            range.split_once('-').and_then(|(start, end)| Some(address(start)?..address(end)?));
        let Some(range) = range else { continue };
        let name = words.nth(3).unwrap_or_default();
        if !(name.is_empty() || name == "[heap]") || (name.is_empty() && range.start == end_of_file)
        {
            end_of_file = range.end;
        } else if mode.ends_with('p')
            && !needed_addresses.iter().any(|address| range.contains(address))
        {
            droppable_ranges.push(range);
        }
    }
    droppable_ranges
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;

    /// Creates a keeper whose worker does `work` with the first order, and ends.
    #[expect(clippy::disallowed_methods, reason = "it is the process of nobody's commands")]
    fn with_worker(
        namespaces: Namespaces,
        work: impl FnOnce([Option<OwnedFd>; PASSED]) + Send + 'static,
    ) -> SandboxKeeper {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (control, theirs) =
            rustix::net::socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        std::thread::spawn(move || work(receive(theirs.as_fd()).unwrap()));
        let process = OwnProcess::start(|| std::process::Command::new("true").spawn(), Child::id);
        let worker = KeeperProcess { control, process: process.unwrap(), is_gone: false };
        let lifeline = File::open("/dev/null").unwrap().into();
        let (worker, renewal) = (Mutex::new(worker), Mutex::default());
        SandboxKeeper { namespaces, sockets: None, lifeline, worker, renewal }
    }

    fn launch(keeper: &SandboxKeeper) -> io::Result<Option<Pid>> {
        let any = || File::open("/dev/null").unwrap().into();
        let (ready, writer) = io::pipe().unwrap();
        let (plan, ruleset, report) = (any(), any(), any());
        let (input, output, errors) = (any(), any(), any());
        let ready_writer = writer.into();
        let order =
            InitDescriptors { plan, ruleset, report, ready: ready_writer, input, output, errors };
        keeper.launch(order, ready)
    }

    fn none() -> Namespaces {
        Namespaces::new([None, None])
    }

    #[test]
    fn a_launch_without_init_is_reported_as_not_started() {
        let keeper = with_worker(none(), drop);
        assert_eq!(launch(&keeper).unwrap(), None);
        assert_eq!(launch(&keeper).unwrap(), None);
    }

    #[test]
    fn an_init_reported_only_by_itself_is_returned() {
        let keeper = with_worker(none(), |[_, _, _, ready, _, _, _]| {
            File::from(ready.unwrap()).write_all(&77_i32.to_le_bytes()).unwrap();
        });
        assert_eq!(launch(&keeper).unwrap(), Pid::from_raw(77));
        assert_eq!(launch(&keeper).unwrap(), None);
    }

    #[test]
    fn renewal_fails_if_the_namespaces_cannot_be_joined() {
        let wrong = File::open("/dev/null").unwrap().into();
        let keeper = with_worker(Namespaces::new([None, Some(wrong)]), drop);
        assert_eq!(launch(&keeper).unwrap(), None);
        let error = keeper.restart().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        assert_eq!(launch(&keeper).unwrap(), None);
    }

    #[test]
    fn a_living_keeper_is_not_replaced() {
        let keeper = with_worker(none(), drop);
        let process = keeper.worker().process.get_mut().id();
        keeper.restart().unwrap();
        assert_eq!(keeper.worker().process.get_mut().id(), process);
    }

    #[test]
    fn anonymous_memory_is_unmapped_except_variables_and_stack() {
        let maps = "\
1000-2000 r-xp 00000000 08:01 77 /usr/bin/crow
2000-3000 rw-p 00001000 08:01 77 /usr/bin/crow
3000-4000 rw-p 00000000 00:00 0
4000-6000 rw-p 00000000 00:00 0 [heap]
7000-8000 rw-p 00000000 00:00 0
8000-9000 ---p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0
a000-b000 rw-s 00000000 00:05 9 /dev/zero (deleted)
c000-d000 rw-p 00000000 00:00 0
d000-e000 rw-p 00000000 00:00 0 [stack]
e000-f000 r-xp 00000000 00:00 0 [vdso]";
        assert_eq!(
            droppable(maps, [0x9004, 0x7fff]),
            [0x4000..0x6000, 0x8000..0x9000, 0xc000..0xd000]
        );
    }
}
