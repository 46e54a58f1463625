//! System calls that change a file's mode, owner, times, extended attributes or flags. Landlock controls
//! none of them.

/// Calls that the supervisor can perform on behalf of a command.
pub(super) const ATTRIBUTE_CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
/// Newer variants of these calls, which only recent kernels have; programs work without them.
pub(super) const NEW_ATTRIBUTE_CALLS: &[libc::c_long] =
    &[SYS_SETXATTRAT, SYS_REMOVEXATTRAT, SYS_FILE_SETATTR];
/// Calls that change a file's mode, with the index of their mode argument.
pub(super) const MODE_CALLS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
];
/// `ioctl` requests that change attributes and need only a descriptor open for reading.
pub(super) const ATTRIBUTE_IOCTLS: [libc::c_ulong; 4] = [
    // FS_IOC_SETVERSION, for words of both sizes.
    0x4008_7602,
    0x4004_7602,
    // FS_IOC_FSSETXATTR
    0x401c_5820,
    // FAT_IOCTL_SET_ATTRIBUTES
    0x4004_7211,
];
/// Groups of `ioctl` requests, each of which has requests that change a file, its attributes or subvolumes by a
/// descriptor open for reading: the second byte of their numbers, and the requests of the group that are allowed.
/// New requests of these groups are refused.
pub(super) const IOCTL_GROUPS: [(u8, &[libc::c_ulong]); 3] = [
    // All file systems, and ext4: FS_IOC_GETFLAGS for words of both sizes, FS_IOC_FIEMAP, FS_IOC_MEASURE_VERITY.
    (b'f', &[0x8008_6601, 0x8004_6601, 0xc020_660b, 0xc004_6686]),
    // btrfs, and of all file systems FICLONE, FICLONERANGE, FIDEDUPERANGE, which change files open for writing.
    (0x94, &[0x4004_9409, 0x4020_940d, 0xc018_9436]),
    // f2fs
    (0xf5, &[]),
];

// These numbers are the same on all architectures, and libc defines them only for some.
pub(super) const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_FILE_SETATTR: libc::c_long = 469;
