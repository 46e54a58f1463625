//! Thread whose system call is being checked: its memory, working directory and descriptors.

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

/// Descriptor number that means the working directory.
pub(super) const CURRENT_DIRECTORY: i32 = libc::AT_FDCWD;
/// Maximum length of a path in bytes, with the terminating NUL.
const PATH_MAX: usize = 4096;
/// Prefixes under which programs address their own open files. `self` would be this program when the
/// supervisor resolves the path, so these are recognized by their text.
const OWN_DESCRIPTORS: [&str; 3] = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];

/// Treatment of a symbolic link in the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastLink {
    /// The link's target is meant.
    Followed,
    /// The link itself is meant.
    Itself,
}

/// File argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileReference {
    /// An open descriptor.
    Descriptor(i32),
    /// A path relative to the directory of a descriptor.
    Path { directory: i32, path: CString, last: LastLink },
}

/// Thread that waits in a system call, identified by an open `/proc` directory: if it ends and its number
/// is reused, every look-up fails.
#[derive(Debug)]
pub(super) struct CallingThread {
    directory: OwnedFd,
}

impl CallingThread {
    /// Opens the thread by its number. Fails if it has ended.
    pub(super) fn open(number: u32) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{number}"), flags, Mode::empty())?;
        Ok(Self { directory })
    }

    /// Returns the filesystem user ID of the thread. Another user's rights may be less than this program's.
    pub(super) fn user(&self) -> rustix::io::Result<u32> {
        let mut status = String::new();
        File::from(self.open_entry("status")?)
            .read_to_string(&mut status)
            .map_err(|_| Errno::SRCH)?;
        // The fields are the real, effective, saved and filesystem IDs.
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = users.and_then(|users| users.split_ascii_whitespace().nth(3));
        user.and_then(|user| user.parse().ok()).ok_or(Errno::SRCH)
    }

    /// Reads bytes of the thread's memory.
    pub(super) fn bytes(&self, address: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let memory = File::from(self.open_entry("mem")?);
        memory.read_exact_at(&mut bytes, address).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Reads a path from the thread's memory.
    pub(super) fn path(&self, address: u64) -> rustix::io::Result<CString> {
        self.text(address, PATH_MAX)?.ok_or(Errno::NAMETOOLONG)
    }

    /// Reads a NUL-terminated string from the thread's memory. Returns `None` if there is no NUL in the
    /// first `longest` bytes.
    pub(super) fn text(&self, address: u64, longest: usize) -> rustix::io::Result<Option<CString>> {
        let memory = File::from(self.open_entry("mem")?);
        let mut text = Vec::new();
        let mut chunk = vec![0; longest];
        // A read stops early at unmapped memory, so text up to the NUL is accepted even if `longest` bytes
        // cannot be read.
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

    /// Opens the referenced file with `O_PATH`: nothing is read, and no device is opened.
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
        // Magic links in `/proc` would lead to descriptors and directories of this program, so they are
        // refused.
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

    /// Opens the target of a magic link in the thread's `/proc` directory.
    fn open_link(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }

    fn open_entry(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::empty())
    }
}

/// Returns the path of an open descriptor as the kernel reports it.
pub(super) fn location(file: &OwnedFd) -> rustix::io::Result<CString> {
    rustix::fs::readlinkat(CWD, own_link(file), Vec::new())
}

/// Returns a `/proc` path to the file of a descriptor, for calls that accept no `O_PATH` descriptor.
pub(super) fn own_link(file: &OwnedFd) -> String {
    use std::os::fd::AsRawFd as _;
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn own_descriptor(path: &CString) -> Option<i32> {
    let path = path.to_str().ok()?;
    let number = OWN_DESCRIPTORS.iter().find_map(|folder| path.strip_prefix(folder))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}
