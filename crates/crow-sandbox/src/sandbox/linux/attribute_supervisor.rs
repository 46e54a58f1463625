//! Seccomp supervisor that checks and performs changes of modes, owners, times and extended attributes for
//! a command.
//!
//! Landlock does not control these, and programs need them in the workspace. So the command's seccomp
//! filter suspends such a call and notifies a thread of this program, which reads the arguments once, opens
//! the file, checks where it is, and makes the change through the opened descriptor. The suspended call
//! itself is never executed: whatever the command replaces meanwhile, in memory or on the disk, has no
//! effect.

use std::{
    io::{self, PipeReader, PipeWriter},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    thread::JoinHandle,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use super::{
    attribute_request::AttributeRequest,
    calling_thread::{CallingThread, location},
    child::{self, CallNotification},
    keeper::{receive, send},
    syscall_filter::SyscallFilter,
};

/// Value of Yama's `ptrace_scope` from which on only root may inspect processes that it does not trace.
const TRACING_IS_RESTRICTED: u32 = 2;

/// Directories in which a command may change attributes, and exceptions within them.
#[derive(Debug)]
pub(super) struct ChangeablePaths {
    changeable: Vec<PathBuf>,
    fixed: Vec<PathBuf>,
}

/// Supervisor thread of one command and its descendants. Dropping it stops and joins the thread.
#[derive(Debug)]
pub(super) struct AttributeSupervisor {
    /// Wakes the thread when closed.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl ChangeablePaths {
    /// Resolves the paths now. Ignores those that do not exist.
    pub(super) fn new(changeable: &[PathBuf], fixed: &[PathBuf]) -> Self {
        let resolve = |paths: &[PathBuf]| {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect::<Vec<_>>()
        };
        Self { changeable: resolve(changeable), fixed: resolve(fixed) }
    }

    /// Returns true if the deepest ancestor of `path` is a changeable one. A path in both lists is fixed.
    fn permit(&self, path: &Path) -> bool {
        let depth = |places: &[PathBuf]| {
            let above = places.iter().filter(|place| path.starts_with(place));
            above.map(|place| place.components().count()).max().unwrap_or(0)
        };
        depth(&self.changeable) > depth(&self.fixed)
    }
}

impl AttributeSupervisor {
    /// Starts a supervisor. Returns the socket over which the command is to send its seccomp listener.
    pub(super) fn start(places: ChangeablePaths) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = sockets()?;
        let (stopped, stop) = io::pipe()?;
        let thread = std::thread::Builder::new().name("attributes".to_owned());
        let thread = thread.spawn(move || serve(&ours, &stopped, &places))?;
        Ok((Self { stop: Some(stop), thread: Some(thread) }, theirs))
    }
}

impl Drop for AttributeSupervisor {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("what judges changes of file attributes has panicked");
        }
    }
}

/// Checks whether calls can be handed to a supervisor here. Returns the reason if not.
#[expect(clippy::disallowed_methods, reason = "it never becomes another program")]
pub(super) fn try_out(filter: &Arc<SyscallFilter>) -> Result<(), String> {
    if !child::knows_notifications() {
        return Err("the kernel hands no system calls to a supervisor".to_owned());
    }
    let tracing = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_restricted =
        tracing.trim().parse().is_ok_and(|scope: u32| scope >= TRACING_IS_RESTRICTED);
    if is_restricted && !rustix::process::geteuid().is_root() {
        return Err(format!("kernel.yama.ptrace_scope is {}", tracing.trim()));
    }
    let (ours, theirs) = sockets().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
    let filter = Arc::clone(filter);
    child::run_without_exec(&mut command, move || {
        rustix::thread::set_no_new_privs(true)?;
        Ok(install_and_send_listener(&filter, theirs.as_fd())?)
    });
    let result = command.spawn().and_then(|mut process| process.wait());
    drop(command);
    result.map_err(|error| format!("a filter with a listener is refused: {error}"))?;
    match receive::<1>(ours.as_fd()) {
        Ok([Some(_)]) => Ok(()),
        Ok([None]) | Err(_) => Err("no listener was received".to_owned()),
    }
}

/// Installs the filter in this process, and sends its listener to the supervisor. Allocates nothing.
pub(super) fn install_and_send_listener(
    filter: &SyscallFilter,
    to: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    let listener = child::filter_with_listener(filter.program())?;
    send(to, [Some(listener.as_fd())])
}

fn sockets() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn serve(socket: &OwnedFd, stopped: &PipeReader, places: &ChangeablePaths) {
    // 1) The command sends its listener just before exec; if it never starts, the socket closes.
    if !wait(socket.as_fd(), stopped) {
        return;
    }
    let Ok([Some(listener)]) = receive(socket.as_fd()) else { return };
    // 2) Answers one call after the other until no process with the filter is left.
    while wait(listener.as_fd(), stopped) {
        match child::receive_call(listener.as_fd()) {
            Ok(call) => {
                let result = handle(&call, listener.as_fd(), places);
                if let Err(error) = result {
                    tracing::debug!(call = call.number, %error, "a change of attributes is refused");
                }
                // The caller may have been killed meanwhile, so a failure to answer is ignored.
                let _ = child::answer_call(listener.as_fd(), call.id, result);
            }
            // The caller was killed before its call was read.
            Err(Errno::NOENT | Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "changes of file attributes are refused from now on");
                return;
            }
        }
    }
}

/// Waits until `from` is readable. Returns false if it failed or was closed, or if the supervisor is to
/// stop.
fn wait(from: BorrowedFd<'_>, stopped: &PipeReader) -> bool {
    let stop = stopped.as_fd();
    let mut fds = [
        PollFd::from_borrowed_fd(from, PollFlags::IN),
        PollFd::from_borrowed_fd(stop, PollFlags::IN),
    ];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    let [from, stop] = fds.map(|fd| fd.revents());
    stop.is_empty() && from.contains(PollFlags::IN)
}

/// Checks a call, and performs it if it is permitted.
fn handle(
    call: &CallNotification,
    listener: BorrowedFd<'_>,
    places: &ChangeablePaths,
) -> rustix::io::Result<()> {
    let thread = CallingThread::open(call.thread)?;
    let request = AttributeRequest::read(call, &thread)?;
    let file = thread.resolve(&request.file)?;
    let user = rustix::process::geteuid();
    // Only what root started can have become another user. Without root's rights, the kernel would not have
    // let this program inspect the process of another user.
    if user.is_root() && thread.user()? != user.as_raw() {
        return Err(Errno::PERM);
    }
    // The thread may have ended before `/proc` was opened, and its number may have been reused.
    child::check_call(listener, call.id)?;
    // The check applies to the opened file's real location, not to the path that led to it.
    let location = location(&file)?;
    if !places.permit(Path::new(std::ffi::OsStr::from_bytes(location.as_bytes()))) {
        return Err(Errno::PERM);
    }
    request.perform(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_decides_where_attributes_may_be_changed() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let places = ChangeablePaths {
            changeable: paths(&["/a/project", "/a/keys/temp"]),
            fixed: paths(&["/a/keys", "/a/project/.git/hooks", "/a/both"]),
        };
        for (path, expected) in [
            ("/a/project", true),
            ("/a/project/x/y", true),
            ("/a/projects", false),
            ("/a/project (deleted)", false),
            ("/a", false),
            ("/", false),
            ("pipe:[1]", false),
            ("/a/project/.git/hooks/x", false),
            ("/a/project/.git/hooks2", true),
            ("/a/keys/id", false),
            ("/a/keys/temp/x", true),
        ] {
            assert_eq!(places.permit(Path::new(path)), expected, "{path}");
        }
    }
}
