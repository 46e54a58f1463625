//! The namespaces that the commands of a session share.

use std::{
    fs, io,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
    process::Stdio,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    },
    process::DumpableBehavior,
    thread::{CapabilitySet, UnshareFlags},
};

use super::child;

/// How many connections may wait for the proxy.
const BACKLOG: i32 = 64;
/// The most descriptors that are passed at once.
const PASSED: usize = 3;

/// The namespaces that the commands of a session share.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// Absent where the program may make namespaces by itself.
    pub user: Option<OwnedFd>,
    /// Absent where commands may reach everything.
    pub network: Option<OwnedFd>,
    pid_max: Vec<u8>,
}

/// What was made.
#[derive(Debug)]
pub(super) struct Made {
    pub namespaces: Namespaces,
    /// Listens on the loopback device of the network.
    pub listener: Option<std::net::TcpListener>,
}

/// What is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Whether there is a network of its own.
    pub network: bool,
    /// Whether somebody listens in it.
    pub listener: bool,
    /// How many processes there may be.
    pub processes: u64,
}

/// What a child needs to make a user namespace in which its user stays who it is.
#[derive(Debug)]
struct Identity {
    users: Vec<u8>,
    groups: Vec<u8>,
}

impl Identity {
    fn of_this_process() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            users: format!("{user} {user} 1").into_bytes(),
            groups: format!("{group} {group} 1").into_bytes(),
        }
    }

    /// Allocates nothing.
    fn assume(&self) -> rustix::io::Result<()> {
        // Where the program keeps others from looking into its memory, its own files there are root's.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        for (path, bytes) in [
            (c"/proc/self/setgroups", &b"deny"[..]),
            (c"/proc/self/uid_map", &self.users),
            (c"/proc/self/gid_map", &self.groups),
        ] {
            let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(file, bytes)?;
        }
        Ok(())
    }
}

impl Namespaces {
    /// Makes them in a process that exits at once: they live as long as they are open here. Blocks for a moment.
    #[expect(clippy::disallowed_methods, reason = "it sets up what commands run in")]
    pub(super) fn make(wanted: Wanted) -> io::Result<Made> {
        let is_privileged = rustix::thread::capabilities(None)?
            .effective
            .contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN);
        let identity = (!is_privileged).then(Identity::of_this_process);
        if !wanted.network && identity.is_none() {
            return Ok(Made { namespaces: Self::new(wanted, None, None), listener: None });
        }
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let has_user = identity.is_some();
        // It never becomes this program: it exits before.
        let mut command = std::process::Command::new("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
        child::set_up(&mut command, move || {
            Ok(make_in_child(identity.as_ref(), wanted, theirs.as_fd())?)
        });
        let mut maker = command.spawn()?;
        // The other end goes with it.
        drop(command);
        let received = receive(ours.as_fd());
        maker.wait()?;
        let mut received = received?.into_iter();
        let user = if has_user { received.next() } else { None };
        let network = if wanted.network { received.next() } else { None };
        let listener = received.next().map(std::net::TcpListener::from);
        let is_whole = user.is_some() == has_user
            && network.is_some() == wanted.network
            && listener.is_some() == (wanted.network && wanted.listener);
        if !is_whole {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Made { namespaces: Self::new(wanted, user, network), listener })
    }

    fn new(wanted: Wanted, user: Option<OwnedFd>, network: Option<OwnedFd>) -> Self {
        Self { user, network, pid_max: wanted.processes.max(PID_MAX_MIN).to_string().into_bytes() }
    }

    /// Returns how high process numbers go, which bounds how many there are.
    pub(super) fn pid_max(&self) -> &[u8] {
        &self.pid_max
    }
}

/// The kernel keeps some numbers for itself.
const PID_MAX_MIN: u64 = 512;

/// Runs between fork and exec: allocates nothing.
fn make_in_child(
    identity: Option<&Identity>,
    wanted: Wanted,
    to: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    let open = |path| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut made: [Option<OwnedFd>; PASSED] = [const { None }; PASSED];
    if let Some(identity) = identity {
        child::leave(UnshareFlags::NEWUSER)?;
        identity.assume()?;
        made[0] = Some(open(c"/proc/self/ns/user")?);
    }
    if wanted.network {
        child::leave(UnshareFlags::NEWNET)?;
        let kind = (AddressFamily::INET, SocketType::STREAM);
        let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
        child::loopback_up(socket.as_fd())?;
        made[1] = Some(open(c"/proc/self/ns/net")?);
        if wanted.listener {
            rustix::net::bind(
                &socket,
                &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0),
            )?;
            rustix::net::listen(&socket, BACKLOG)?;
            made[2] = Some(socket);
        }
    }
    // Those that are there, without a gap.
    let mut count = 0;
    let mut fds = [to; PASSED];
    for (slot, fd) in fds.iter_mut().zip(made.iter().flatten()) {
        *slot = fd.as_fd();
        count += 1;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fds.get(..count).unwrap_or_default();
    if !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::NOBUFS);
    }
    let bytes = [io::IoSlice::new(b"n")];
    rustix::net::sendmsg(to, &bytes, &mut control, SendFlags::NOSIGNAL).map(drop)
}

fn receive(from: BorrowedFd<'_>) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(from, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(fds)
}

/// Returns whether the user may make namespaces, as far as settings say so; a hint for people.
pub(super) fn why_not() -> Option<&'static str> {
    let is = |path: &str, value: &str| {
        fs::read_to_string(Path::new(path)).is_ok_and(|text| text.trim() == value)
    };
    if is("/proc/sys/user/max_user_namespaces", "0") {
        Some("user.max_user_namespaces is 0")
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        Some("kernel.unprivileged_userns_clone is 0")
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        Some("AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns)")
    } else {
        None
    }
}
