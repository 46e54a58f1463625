//! The thread whose system call is being judged: its memory, directory and descriptors.

use std::{
    ffi::CString,
    fs::File,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::FileExt as _,
    },
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Descriptor number that stands for the current directory.
pub(super) const CURRENT_DIRECTORY: i32 = libc::AT_FDCWD;
/// Bytes of a path, with the zero at its end.
const PATH_MAX: usize = 4096;
/// Descriptors are looked up here by programs that change a file they have open. `self` would be this program when the
/// supervisor resolves it, so these are recognised by their text.
const OWN_DESCRIPTORS: [&str; 3] = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];

/// Decides what is meant if the last component of a path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    /// The file it leads to.
    Followed,
    /// The link.
    Itself,
}

/// Names the file of a call, as its arguments do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileReference {
    /// An open descriptor.
    Descriptor(i32),
    /// A path, looked up from the directory that a descriptor stands for.
    Path { directory: i32, path: CString, last: LastLink },
}

/// A thread that waits in a system call, held by its directory in `/proc`: if it ends and another gets its number, every
/// look-up fails.
#[derive(Debug)]
pub(super) struct CallingThread {
    directory: OwnedFd,
}

impl CallingThread {
    /// Opens the thread with a number. Fails if it has ended.
    pub(super) fn open(number: u32) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{number}"), flags, Mode::empty())?;
        Ok(Self { directory })
    }

    /// Returns the user whose files it may change. Another user's rights may be less than this program's.
    pub(super) fn user(&self) -> rustix::io::Result<u32> {
        let mut status = String::new();
        File::from(self.open_entry("status")?)
            .read_to_string(&mut status)
            .map_err(|_| Errno::SRCH)?;
        // Real, effective, saved, filesystem.
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = users.and_then(|users| users.split_ascii_whitespace().nth(3));
        user.and_then(|user| user.parse().ok()).ok_or(Errno::SRCH)
    }

    /// Reads bytes of its memory.
    pub(super) fn bytes(&self, address: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let memory = File::from(self.open_entry("mem")?);
        memory.read_exact_at(&mut bytes, address).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Reads a path from its memory.
    pub(super) fn path(&self, address: u64) -> rustix::io::Result<CString> {
        self.text(address, PATH_MAX)?.ok_or(Errno::NAMETOOLONG)
    }

    /// Reads a text that ends with a zero from its memory. None if that is not among the first `longest` bytes.
    pub(super) fn text(&self, address: u64, longest: usize) -> rustix::io::Result<Option<CString>> {
        let memory = File::from(self.open_entry("mem")?);
        let mut text = Vec::new();
        let mut chunk = vec![0; longest];
        // A read ends early before memory that is not there: what follows the zero may be missing.
        while text.len() < longest {
            let room = chunk.get_mut(text.len()..).ok_or(Errno::FAULT)?;
            let at = address.checked_add(text.len() as u64).ok_or(Errno::FAULT)?;
            let count = memory.read_at(room, at).map_err(|_| Errno::FAULT)?;
            let read = room.get(..count).filter(|read| !read.is_empty()).ok_or(Errno::FAULT)?;
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.extend(read.iter().take(end));
                return CString::new(text).map(Some).map_err(|_| Errno::FAULT);
            }
            text.extend(read);
        }
        Ok(None)
    }

    /// Opens the file that is meant, as a place only: nothing is read, and no device is started.
    pub(super) fn resolve(&self, file: &FileReference) -> rustix::io::Result<OwnedFd> {
        let (directory, path, last) = match file {
            FileReference::Descriptor(number) => return self.descriptor(*number),
            FileReference::Path { directory, path, last } => (*directory, path, *last),
        };
        if let (Some(number), LastLink::Followed) = (own_descriptor(path), last) {
            return self.descriptor(number);
        }
        let base = if path.as_bytes().first() == Some(&b'/') {
            rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?
        } else if directory == CURRENT_DIRECTORY {
            self.open_link("cwd")?
        } else {
            self.descriptor(directory)?
        };
        let link = match last {
            LastLink::Followed => OFlags::empty(),
            LastLink::Itself => OFlags::NOFOLLOW,
        };
        // Links of `/proc` that lead to descriptors and directories of a process would lead to those of this program.
        let flags = OFlags::PATH | OFlags::CLOEXEC | link;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(base, path.as_c_str(), flags, Mode::empty(), resolve)
    }

    fn descriptor(&self, number: i32) -> rustix::io::Result<OwnedFd> {
        if number == CURRENT_DIRECTORY {
            return self.open_link("cwd");
        }
        self.open_link(&format!("fd/{number}")).map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            error => error,
        })
    }

    /// Opens the place that a link of the thread's leads to.
    fn open_link(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }

    fn open_entry(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }
}

/// Returns where a descriptor of this program leads, as the kernel has it.
pub(super) fn location(file: &OwnedFd) -> rustix::io::Result<CString> {
    rustix::fs::readlinkat(CWD, own_link(file), Vec::new())
}

/// Returns a path to what a descriptor of this program stands for. Calls that take no such descriptor follow it.
pub(super) fn own_link(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn own_descriptor(path: &CString) -> Option<i32> {
    let path = path.to_str().ok()?;
    let number = OWN_DESCRIPTORS.iter().find_map(|folder| path.strip_prefix(folder))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}
