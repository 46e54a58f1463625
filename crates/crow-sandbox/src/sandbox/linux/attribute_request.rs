//! Attribute change requested by a command's system call: read from its arguments, and performed by the
//! supervisor.

use std::{ffi::CString, os::fd::OwnedFd};

use rustix::{
    fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags},
    io::Errno,
};

use super::{
    attribute_calls::SYS_FCHMODAT2,
    calling_thread::{CURRENT_DIRECTORY, CallingThread, FileReference, LastLink, own_link},
    child::CallNotification,
};

/// Maximum length of an attribute's name in bytes, with the terminating NUL.
const NAME_MAX: usize = 256;
/// Maximum length of an attribute's value in bytes.
const VALUE_MAX: u64 = 65536;
/// Prefix of attributes without meaning to the system. All others are interpreted by the kernel or
/// privileged programs.
const USER_ATTRIBUTES: &[u8] = b"user.";
/// Set-user-ID and set-group-ID bits of a mode.
const SET_ID: u32 = 0o6000;
const MICROSECONDS: i64 = 1_000_000;

/// Attribute change with its arguments copied from the caller's memory.
#[derive(Debug)]
pub(super) struct AttributeRequest {
    pub file: FileReference,
    change: AttributeChange,
}

#[derive(Debug)]
enum AttributeChange {
    Mode(u32),
    Owner { user: Option<Uid>, group: Option<Gid> },
    Times(Timestamps),
    Set { name: CString, value: Vec<u8>, flags: XattrFlags },
    Remove { name: CString },
}

/// Layout of the time arguments in memory.
#[derive(Debug, Clone, Copy)]
enum TimeUnit {
    Seconds,
    Microseconds,
    Nanoseconds,
}

impl AttributeRequest {
    /// Decodes a call. Reads each argument from memory only once, so that the caller cannot change it after
    /// the check.
    #[expect(clippy::many_single_char_names, reason = "the arguments of a call by their position")]
    pub(super) fn read(
        call: &CallNotification,
        thread: &CallingThread,
    ) -> rustix::io::Result<Self> {
        let [a, b, c, d, e, _] = call.arguments;
        let reader = ArgumentReader { thread };
        let plain = |address, last| reader.file(CURRENT_DIRECTORY, address, last, LinkFlags::NONE);
        let followed = |address| plain(address, LastLink::Followed);
        let (file, change) = match call.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (followed(a)?, AttributeChange::Mode(word(b))),
            libc::SYS_fchmod => (descriptor(a), AttributeChange::Mode(word(b))),
            libc::SYS_fchmodat => (reader.file_at(a, b, 0)?, AttributeChange::Mode(word(c))),
            SYS_FCHMODAT2 => (reader.file_at(a, b, d)?, AttributeChange::Mode(word(c))),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (followed(a)?, owner(b, c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => (plain(a, LastLink::Itself)?, owner(b, c)),
            libc::SYS_fchown => (descriptor(a), owner(b, c)),
            libc::SYS_fchownat => (reader.file_at(a, b, e)?, owner(c, d)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => (followed(a)?, reader.times(b, TimeUnit::Seconds)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => (followed(a)?, reader.times(b, TimeUnit::Microseconds)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => {
                (reader.file_or_descriptor(a, b, 0)?, reader.times(c, TimeUnit::Microseconds)?)
            }
            libc::SYS_utimensat => {
                (reader.file_or_descriptor(a, b, d)?, reader.times(c, TimeUnit::Nanoseconds)?)
            }
            libc::SYS_setxattr => (followed(a)?, reader.attribute(b, c, d, e)?),
            libc::SYS_lsetxattr => (plain(a, LastLink::Itself)?, reader.attribute(b, c, d, e)?),
            libc::SYS_fsetxattr => (descriptor(a), reader.attribute(b, c, d, e)?),
            libc::SYS_removexattr => (followed(a)?, reader.removal(b)?),
            libc::SYS_lremovexattr => (plain(a, LastLink::Itself)?, reader.removal(b)?),
            libc::SYS_fremovexattr => (descriptor(a), reader.removal(b)?),
            _ => return Err(Errno::PERM),
        };
        Ok(Self { file, change })
    }

    /// Applies the change to the file of an open descriptor, independent of what its path refers to by now.
    pub(super) fn perform(&self, file: &OwnedFd) -> rustix::io::Result<()> {
        let path = own_link(file);
        match &self.change {
            AttributeChange::Mode(mode) => {
                let now = rustix::fs::fstat(file)?.st_mode;
                let is_directory = FileType::from_raw_mode(now) == FileType::Directory;
                // On directories the set-group-ID bit only makes new entries inherit the group, so it is
                // allowed there.
                if !is_directory && mode & SET_ID & !now != 0 {
                    return Err(Errno::PERM);
                }
                rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))
            }
            AttributeChange::Owner { user, group } => {
                rustix::fs::chownat(file, "", *user, *group, AtFlags::EMPTY_PATH)
            }
            AttributeChange::Times(times) => {
                rustix::fs::utimensat(CWD, path, times, AtFlags::empty())
            }
            AttributeChange::Set { name, value, flags } => {
                rustix::fs::setxattr(path, user_attribute(name)?, value, *flags)
            }
            AttributeChange::Remove { name } => {
                rustix::fs::removexattr(path, user_attribute(name)?)
            }
        }
    }
}

/// Reads the memory that arguments point to.
struct ArgumentReader<'a> {
    thread: &'a CallingThread,
}

/// Flags of calls that take a directory and a path.
struct LinkFlags;

impl LinkFlags {
    const NONE: u32 = 0;
    const KNOWN: u32 = (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH).cast_unsigned();

    fn has(flags: u32, flag: i32) -> bool {
        flags & flag.cast_unsigned() != 0
    }
}

impl ArgumentReader<'_> {
    fn file_at(&self, directory: u64, path: u64, flags: u64) -> rustix::io::Result<FileReference> {
        let flags = word(flags);
        if flags & !LinkFlags::KNOWN != 0 {
            return Err(Errno::INVAL);
        }
        let is_link_meant = LinkFlags::has(flags, libc::AT_SYMLINK_NOFOLLOW);
        let last = if is_link_meant { LastLink::Itself } else { LastLink::Followed };
        self.file(word(directory).cast_signed(), path, last, flags)
    }

    /// Handles a null path, which the calls that set times accept: the descriptor itself is meant.
    fn file_or_descriptor(
        &self,
        directory: u64,
        path: u64,
        flags: u64,
    ) -> rustix::io::Result<FileReference> {
        if path == 0 {
            return match word(directory).cast_signed() {
                CURRENT_DIRECTORY => Err(Errno::FAULT),
                number => Ok(FileReference::Descriptor(number)),
            };
        }
        self.file_at(directory, path, flags)
    }

    fn file(
        &self,
        directory: i32,
        path: u64,
        last: LastLink,
        flags: u32,
    ) -> rustix::io::Result<FileReference> {
        let path = self.thread.path(path)?;
        if !path.is_empty() {
            return Ok(FileReference::Path { directory, path, last });
        }
        if LinkFlags::has(flags, libc::AT_EMPTY_PATH) {
            Ok(FileReference::Descriptor(directory))
        } else {
            Err(Errno::NOENT)
        }
    }

    fn times(&self, address: u64, unit: TimeUnit) -> rustix::io::Result<AttributeChange> {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        if address == 0 {
            let now = time(0, rustix::fs::UTIME_NOW);
            let times = Timestamps { last_access: now, last_modification: now };
            return Ok(AttributeChange::Times(times));
        }
        let length = if matches!(unit, TimeUnit::Seconds) { 16 } else { 32 };
        let bytes = self.thread.bytes(address, length)?;
        let (numbers, _) = bytes.as_chunks();
        let mut numbers = numbers.iter().map(|bytes| i64::from_ne_bytes(*bytes));
        let mut next = || numbers.next().ok_or(Errno::FAULT);
        let mut next_time = || match unit {
            TimeUnit::Seconds => Ok(time(next()?, 0)),
            TimeUnit::Nanoseconds => Ok(time(next()?, next()?)),
            TimeUnit::Microseconds => match (next()?, next()?) {
                (seconds, part @ 0..MICROSECONDS) => Ok(time(seconds, part * 1000)),
                _ => Err(Errno::INVAL),
            },
        };
        let (last_access, last_modification) = (next_time()?, next_time()?);
        Ok(AttributeChange::Times(Timestamps { last_access, last_modification }))
    }

    fn attribute(
        &self,
        name: u64,
        value: u64,
        length: u64,
        flags: u64,
    ) -> rustix::io::Result<AttributeChange> {
        let name = self.name(name)?;
        if length > VALUE_MAX {
            return Err(Errno::TOOBIG);
        }
        let length = usize::try_from(length).map_err(|_| Errno::TOOBIG)?;
        let value = if length == 0 { Vec::new() } else { self.thread.bytes(value, length)? };
        let flags = XattrFlags::from_bits(word(flags)).ok_or(Errno::INVAL)?;
        Ok(AttributeChange::Set { name, value, flags })
    }

    fn removal(&self, name: u64) -> rustix::io::Result<AttributeChange> {
        Ok(AttributeChange::Remove { name: self.name(name)? })
    }

    fn name(&self, address: u64) -> rustix::io::Result<CString> {
        let name = self.thread.text(address, NAME_MAX)?;
        name.filter(|name| !name.is_empty()).ok_or(Errno::RANGE)
    }
}

/// Refuses all but `user.` attributes. Programs cope with the error code of a filesystem without such
/// attributes.
fn user_attribute(name: &CString) -> rustix::io::Result<&CString> {
    Some(name).filter(|name| name.as_bytes().starts_with(USER_ATTRIBUTES)).ok_or(Errno::OPNOTSUPP)
}

fn owner(user: u64, group: u64) -> AttributeChange {
    let chosen = |id: u64| Some(word(id)).filter(|id| *id != u32::MAX);
    AttributeChange::Owner {
        user: chosen(user).map(Uid::from_raw),
        group: chosen(group).map(Gid::from_raw),
    }
}

fn descriptor(number: u64) -> FileReference {
    FileReference::Descriptor(word(number).cast_signed())
}

/// Returns the low 32 bits of an argument, as the kernel does for 32-bit parameters.
fn word(argument: u64) -> u32 {
    let [low @ .., _, _, _, _] = argument.to_le_bytes();
    u32::from_le_bytes(low)
}
