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
/// `ioctl` requests that change attributes and need only a descriptor open for reading: those for any file,
/// and those of single filesystems that create, flag or remove subvolumes.
pub(super) const ATTRIBUTE_IOCTLS: [libc::c_ulong; 15] = [
    // FS_IOC_SETFLAGS, for words of both sizes.
    0x4008_6602,
    0x4004_6602,
    // FS_IOC_SETVERSION, for words of both sizes.
    0x4008_7602,
    0x4004_7602,
    // FS_IOC_FSSETXATTR
    0x401c_5820,
    // FS_IOC_SET_ENCRYPTION_POLICY
    0x800c_6613,
    // FS_IOC_ENABLE_VERITY
    0x4080_6685,
    // FAT_IOCTL_SET_ATTRIBUTES
    0x4004_7211,
    // BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY
    0x5000_9401,
    0x5000_940e,
    0x5000_940f,
    // BTRFS_IOC_SNAP_CREATE_V2, SUBVOL_CREATE_V2, SNAP_DESTROY_V2
    0x5000_9417,
    0x5000_9418,
    0x5000_943f,
    // BTRFS_IOC_SUBVOL_SETFLAGS
    0x4008_941a,
];

// These numbers are the same on all architectures, and libc defines them only for some.
pub(super) const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_FILE_SETATTR: libc::c_long = 469;
