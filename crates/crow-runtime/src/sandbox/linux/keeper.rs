//! The keeper: a small process in the namespaces of a session that starts the session's commands.
//!
//! ```text
//! program ─ fork, once ─► keeper ─ clone, beside itself ─► init, pid 1 of new namespaces ─ clone ─► the command
//! ```
//!
//! A copy of the program costs more the more memory that holds. So the keeper gives back all that the program has
//! allocated: what it starts costs little, and has none of that near a command. Init becomes a child of the program, takes in
//! orphans, and ends with the program; the kernel ends what is left with init.

use std::{
    fs, io,
    io::{IoSlice, IoSliceMut, Read as _},
    mem::MaybeUninit,
    net::TcpListener,
    ops::Range,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    process::{Child, Stdio},
    sync::{Mutex, PoisonError},
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
    child::{self, Ranges},
    init::{self, Order},
    namespaces::{Maker, Wanted},
    report::{Stage, Told},
    rights,
};
use crate::process::OwnProcess;

/// The namespaces that are of each command.
const NAMESPACES: libc::c_int = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
/// The most descriptors that are passed at once.
const PASSED: usize = 5;

std::thread_local! {
    /// Lies where the variables of this thread are.
    static VARIABLE: u8 = const { 0 };
}

/// Starts the commands of a session.
#[derive(Debug)]
pub(super) struct Keeper {
    control: Mutex<OwnedFd>,
    process: OwnProcess<Child>,
}

impl Keeper {
    /// Makes the namespaces of a session, and the keeper in them. Blocks for a moment.
    #[expect(clippy::disallowed_methods, reason = "it starts what commands are started by")]
    pub(super) fn start(
        wanted: Wanted,
        lifeline: BorrowedFd<'_>,
    ) -> io::Result<(Self, Option<TcpListener>)> {
        let maker = Maker::new(wanted)?;
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let lifeline = lifeline.try_clone_to_owned()?;
        let memory = memory_of_others()?;
        // It never becomes this program.
        let mut command = std::process::Command::new("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        child::set_up(&mut command, move || -> io::Result<()> {
            let listener = maker.make()?;
            send(theirs.as_fd(), [listener.as_ref().map(OwnedFd::as_fd)])?;
            rights::drop_bounds()?;
            rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            // Those of the program use its memory.
            child::hold_signals();
            let fds = [theirs.as_raw_fd(), lifeline.as_raw_fd()];
            child::go_on_alone(fds, &Ranges::new(&memory), keep)
        });
        let process = OwnProcess::start(|| command.spawn(), Child::id)?;
        // The other end goes with it.
        drop(command);
        let [listener] = receive(ours.as_fd())?;
        if listener.is_some() != (wanted.network && wanted.listener) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((Self { control: Mutex::new(ours), process }, listener.map(TcpListener::from)))
    }

    /// Starts a command. Returns its init, which is a child of this process; the command has become its program by then.
    pub(super) fn launch(&self, order: Order<OwnedFd>, ready: io::PipeReader) -> io::Result<Pid> {
        let fds = [&order.plan, &order.ruleset, &order.report, &order.ready, &order.output];
        let mut answer = [0; size_of::<i32>()];
        let count = {
            // Orders and answers are in turns.
            let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
            send(control.as_fd(), fds.map(|fd| Some(fd.as_fd())))?;
            retry_on_intr(|| rustix::io::read(&*control, &mut answer))?
        };
        drop(order);
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "what starts commands has ended");
        if count != answer.len() {
            return Err(gone());
        }
        let answer = i32::from_le_bytes(answer);
        let Some(init) = Pid::from_raw(answer.max(0)) else {
            return Err(io::Error::from_raw_os_error(answer.saturating_neg()));
        };
        let mut failure = Vec::new();
        { ready }.read_to_end(&mut failure)?;
        match failure.first_chunk() {
            None => Ok(init),
            Some(error) => {
                retry_on_intr(|| rustix::process::waitpid(Some(init), WaitOptions::empty()))?;
                Err(io::Error::from_raw_os_error(i32::from_le_bytes(*error)))
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It ends when nobody is left to give orders.
        if rustix::net::shutdown(&*control, Shutdown::Both).is_ok() {
            drop(self.process.get_mut().wait());
        }
    }
}

/// Is the keeper. Allocates nothing.
fn keep([control, lifeline]: [BorrowedFd<'static>; 2]) -> ! {
    // Nothing that is typed at the program's terminal is for this one.
    let _ = rustix::process::setsid();
    // The folder in which the program was started may go.
    let _ = rustix::process::chdir(c"/");
    loop {
        let order = match receive(control) {
            Ok([Some(plan), Some(ruleset), Some(report), Some(ready), Some(output)]) => {
                Order { plan, ruleset, report, ready, output }
            }
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => child::exit(0),
        };
        let answer = match child::clone(NAMESPACES | libc::CLONE_PARENT) {
            Ok(None) => init::run(&order, lifeline),
            Ok(Some(init)) => init.as_raw_nonzero().get(),
            Err(error) => {
                Told::Failed(Stage::Namespaces, error).send(order.report.as_fd());
                error.raw_os_error().saturating_neg()
            }
        };
        if rustix::io::write(control, &answer.to_le_bytes()).is_err() {
            child::exit(0);
        }
    }
}

/// Sends descriptors, those that there are. Allocates nothing.
fn send<const N: usize>(
    to: BorrowedFd<'_>,
    given: [Option<BorrowedFd<'_>>; N],
) -> rustix::io::Result<()> {
    let mut count = 0;
    let mut fds = [to; N];
    for (slot, fd) in fds.iter_mut().zip(given.into_iter().flatten()) {
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
fn receive<const N: usize>(from: BorrowedFd<'_>) -> rustix::io::Result<[Option<OwnedFd>; N]> {
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

/// Returns memory of this process that a copy of this thread does not need, if it allocates nothing.
fn memory_of_others() -> io::Result<Vec<Range<usize>>> {
    let on_stack = 0_u8;
    let kept =
        [(&raw const on_stack).addr(), VARIABLE.with(|variable| (&raw const *variable).addr())];
    Ok(droppable(&fs::read_to_string("/proc/self/maps")?, kept))
}

/// Finds what the program has allocated: memory without a file, but for variables of libraries, which lie behind their
/// file, and for what holds one of the `kept` addresses.
fn droppable(maps: &str, kept: [usize; 2]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
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
        } else if mode.ends_with('p') && !kept.iter().any(|address| range.contains(address)) {
            found.push(range);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_a_file_is_given_back_but_for_variables_and_the_stack() {
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
