//! The kernel's two lists of UNIX sockets that are bound to files.
//!
//! `/proc/PID/net/unix` can be read for every network namespace, and contains the name that a program
//! passed to `bind`: perhaps relative to an unknown directory, and outdated once the file was moved. The
//! netlink interface `sock_diag` answers for the namespace of this program only, and identifies the file by
//! device and inode.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _},
        },
    },
    path::{Path, PathBuf},
};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Types of netlink messages, and flags of a request.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// States of sockets that other processes can still reach, as a bit set: listening ones (10), and
/// unconnected ones (7) that wait for messages or may listen soon. Connected sockets talk to their peer
/// only.
const STATES: u32 = 1 << 10 | 1 << 7;
const SHOW_NAME_AND_FILE: u32 = 0b11;
const ATTRIBUTE_NAME: u16 = 0;
const ATTRIBUTE_FILE: u16 = 1;
/// Sizes in bytes of the headers of a message, of an entry and of an attribute.
const MESSAGE_HEAD: usize = 16;
const ENTRY_HEAD: usize = 16;
const ATTRIBUTE_HEAD: usize = 4;
/// Buffer size: the kernel's maximum for one answer.
const ANSWER_BYTES: usize = 32 << 10;
/// Number of columns before the name.
const COLUMNS: usize = 7;
/// Width of a device's minor number in the kernel's internal encoding.
const MINOR_BITS: u32 = 20;

/// Socket that is bound to a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BoundSocket {
    /// Name as passed to `bind`.
    pub name: PathBuf,
    /// File of the socket; `None` if the list has no such information.
    pub file: Option<SocketFile>,
    /// Inode of the socket itself, by which `/proc` lists its descriptors. `None` if the list has no such
    /// information.
    pub number: Option<u32>,
}

/// File as the kernel reports it: device of the filesystem, and low half of the inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SocketFile {
    pub device: u32,
    pub inode: u32,
}

/// Socket file found at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenFile {
    pub file: SocketFile,
    /// Number of hard links.
    pub names: u64,
}

impl SeenFile {
    /// Looks at a path without following links. Returns `None` if there is no socket.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let data = std::fs::symlink_metadata(path).ok()?;
        data.file_type().is_socket().then(|| Self {
            file: SocketFile { device: device(data.dev()), inode: low_half(data.ino()) },
            names: data.nlink(),
        })
    }
}

/// Converts a device number from `stat` to the kernel's internal encoding.
pub(super) fn device(number: u64) -> u32 {
    rustix::fs::major(number) << MINOR_BITS | rustix::fs::minor(number)
}

fn low_half(number: u64) -> u32 {
    let [low @ .., _, _, _, _] = number.to_le_bytes();
    u32::from_le_bytes(low)
}

/// Returns the sockets in the network namespace of this program, by netlink.
pub(super) fn ask() -> io::Result<Vec<BoundSocket>> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket =
        rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut sockets = Vec::new();
    while read_answer(socket.as_fd(), &mut sockets)? {}
    Ok(sockets)
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::new();
    let length: u32 = 40;
    bytes.extend(length.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence number and sender, then the address family, protocol and padding.
    bytes.extend([0; 8]);
    bytes.extend([AddressFamily::UNIX.as_raw().to_le_bytes()[0], 0, 0, 0]);
    bytes.extend(STATES.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(SHOW_NAME_AND_FILE.to_ne_bytes());
    // No particular socket: the cookie is empty.
    bytes.extend([0xff; 8]);
    bytes
}

/// Reads one part of the list. Returns true if there is more.
fn read_answer(socket: BorrowedFd<'_>, sockets: &mut Vec<BoundSocket>) -> io::Result<bool> {
    let mut buffer = vec![0; ANSWER_BYTES];
    let (count, _) = rustix::io::retry_on_intr(|| {
        rustix::net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty())
    })?;
    let mut rest = buffer.get(..count).unwrap_or_default();
    if rest.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    while let Some((kind, body, next)) = parse_message(rest) {
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let number = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                return Err(io::Error::from_raw_os_error(number.saturating_neg()));
            }
            _ => sockets.extend(parse_entry(body)),
        }
        rest = next;
    }
    Ok(true)
}

/// Splits off the first message: its type, its body, and the rest.
fn parse_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(MESSAGE_HEAD..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Parses an entry. Returns `None` if the socket has no file.
fn parse_entry(body: &[u8]) -> Option<BoundSocket> {
    let number = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let (mut name, mut file) = (None, None);
    let mut rest = body.get(ENTRY_HEAD..)?;
    while let Some(length) = rest.first_chunk().map(|bytes| usize::from(u16::from_ne_bytes(*bytes)))
    {
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(ATTRIBUTE_HEAD..length)?;
        match kind {
            ATTRIBUTE_NAME => name = Some(value),
            ATTRIBUTE_FILE => {
                let inode = u32::from_ne_bytes(*value.first_chunk()?);
                let device = u32::from_ne_bytes(*value.get(4..)?.first_chunk()?);
                file = Some(SocketFile { device, inode });
            }
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let name = name?.split(|byte| *byte == 0).next()?;
    let name = PathBuf::from(OsStr::from_bytes(name));
    Some(BoundSocket { name, file: Some(file?), number: Some(number) })
}

/// Parses a list from `/proc`.
pub(super) fn read(listed: &[u8]) -> impl Iterator<Item = BoundSocket> {
    let lines = listed.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let name = after_columns(line)?;
        // Abstract names begin with `@`.
        let is_file = !name.is_empty() && name.first() != Some(&b'@');
        let name = PathBuf::from(OsStr::from_bytes(name));
        is_file.then_some(BoundSocket { name, file: None, number: None })
    })
}

/// Returns the last column of a line, which may contain spaces.
fn after_columns(mut line: &[u8]) -> Option<&[u8]> {
    for _ in 0..COLUMNS {
        line = line.trim_ascii_start();
        let end = line.iter().position(|byte| *byte == b' ')?;
        line = line.get(end..)?;
    }
    line.get(1..)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn the_netlink_list_has_the_file_of_a_moved_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let _listener = UnixListener::bind(&first).unwrap();
        std::fs::rename(&first, &second).unwrap();
        let _waits = UnixDatagram::bind(folder.path().join("third")).unwrap();
        let sockets = ask().unwrap();
        for (name, path) in [("first", "second"), ("third", "third")] {
            let name = folder.path().join(name);
            let found = sockets.iter().find(|socket| socket.name == name).unwrap();
            let seen = SeenFile::at(&folder.path().join(path)).unwrap();
            assert_eq!((found.file, seen.names), (Some(seen.file), 1));
        }
    }

    #[test]
    fn names_in_a_list_may_be_relative_and_contain_spaces() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b
0000000000000000: 00000002 00000000 00010000 0001 01     7 ./c  d
0000000000000000: 00000002 00000000 00010000 0001 01 12346 @abstract
0000000000000000: 00000003 00000000 00000000 0001 03 12347
";
        let names: Vec<_> = read(list).map(|socket| socket.name).collect();
        assert_eq!(names, [Path::new("/run/a b"), Path::new("./c  d")]);
    }

    #[test]
    fn a_broken_answer_is_not_read_beyond_its_end() {
        assert_eq!(parse_message(&[40, 0, 0, 0, 20, 0, 0, 0]), None);
        assert_eq!(parse_entry(&[0; 12]), None);
        let mut body = vec![0; ENTRY_HEAD];
        body.extend([200, 0, 1, 0, 1, 2]);
        assert_eq!(parse_entry(&body), None);
        // An attribute of length 0.
        body.truncate(ENTRY_HEAD);
        body.extend([0; 8]);
        assert_eq!(parse_entry(&body), None);
    }
}
