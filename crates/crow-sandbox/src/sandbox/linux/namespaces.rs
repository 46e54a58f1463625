//! User and network namespaces that the commands of a session share.

use std::{
    ffi::CStr,
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketFlags, SocketType},
    process::DumpableBehavior,
    thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags},
};

use super::child;

/// Backlog of the proxy's listening socket.
const BACKLOG: i32 = 64;
/// Maximum number of created descriptors: user namespace, network namespace, listener.
pub(super) const MAX_DESCRIPTORS: usize = 3;

/// Namespaces to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamespaceOptions {
    /// True for a network namespace.
    pub network: bool,
    /// True for a listening socket in the network namespace, for the proxy.
    pub listener: bool,
}

/// UID and GID mappings for a user namespace in which the user keeps its IDs.
#[derive(Debug)]
struct IdMappings {
    users: Vec<u8>,
    groups: Vec<u8>,
}

impl IdMappings {
    fn of_this_process() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            users: format!("{user} {user} 1").into_bytes(),
            groups: format!("{group} {group} 1").into_bytes(),
        }
    }

    /// Writes the mappings for this process. Allocates nothing.
    fn assume(&self) -> rustix::io::Result<()> {
        // If the program is non-dumpable, its files in `/proc` belong to root and cannot be written.
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

/// Creates the namespaces that the commands of a session share.
#[derive(Debug)]
pub(super) struct NamespaceBuilder {
    /// `None` if the program has the rights to create the other namespaces without a user namespace.
    identity: Option<IdMappings>,
    wanted: NamespaceOptions,
}

impl NamespaceBuilder {
    pub(super) fn new(wanted: NamespaceOptions) -> io::Result<Self> {
        let is_privileged = rustix::thread::capabilities(None)?
            .effective
            .contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN);
        let identity = (!is_privileged).then(IdMappings::of_this_process);
        Ok(Self { identity, wanted })
    }

    /// Moves this process into new namespaces. Returns their descriptors and the listener. Allocates
    /// nothing.
    pub(super) fn make(&self) -> rustix::io::Result<[Option<OwnedFd>; MAX_DESCRIPTORS]> {
        let mut user = None;
        if let Some(identity) = &self.identity {
            child::enter_new_namespaces(UnshareFlags::NEWUSER)?;
            identity.assume()?;
            user = Some(open_namespace(c"/proc/self/ns/user")?);
        }
        if !self.wanted.network {
            return Ok([user, None, None]);
        }
        child::enter_new_namespaces(UnshareFlags::NEWNET)?;
        Ok([user, Some(open_namespace(c"/proc/self/ns/net")?), self.listen()?])
    }

    /// Switches loopback on, and returns a listener there if wanted.
    fn listen(&self) -> rustix::io::Result<Option<OwnedFd>> {
        let kind = (AddressFamily::INET, SocketType::STREAM);
        let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
        child::loopback_up(socket.as_fd())?;
        if !self.wanted.listener {
            return Ok(None);
        }
        let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Some(socket))
    }

    /// Returns which of the three descriptors `make` returns.
    pub(super) fn parts(&self) -> [bool; MAX_DESCRIPTORS] {
        let network = self.wanted.network;
        [self.identity.is_some(), network, network && self.wanted.listener]
    }
}

/// Opens a namespace of this process.
fn open_namespace(path: &CStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Descriptors of a session's namespaces. They keep these alive even when no process is in them.
#[derive(Debug, Clone)]
pub(super) struct Namespaces {
    /// `None` if the program needs no user namespace.
    user: Option<Arc<OwnedFd>>,
    network: Option<Arc<OwnedFd>>,
}

impl Namespaces {
    /// Wraps the descriptors of new namespaces.
    pub(super) fn new([user, network]: [Option<OwnedFd>; 2]) -> Self {
        Self { user: user.map(Arc::new), network: network.map(Arc::new) }
    }

    /// Moves this process into the namespaces. Allocates nothing.
    pub(super) fn join(&self) -> rustix::io::Result<()> {
        // The user namespace gives the right to join the network namespace.
        let namespaces =
            [(&self.user, LinkNameSpaceType::User), (&self.network, LinkNameSpaceType::Network)];
        for (namespace, kind) in namespaces {
            if let Some(namespace) = namespace {
                rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind))?;
            }
        }
        Ok(())
    }
}

/// Returns the system setting that probably forbids namespaces, as a hint for the user.
pub(super) fn forbidding_setting() -> Option<&'static str> {
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
