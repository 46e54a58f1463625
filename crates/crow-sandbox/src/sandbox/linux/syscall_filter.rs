//! Seccomp filter: the system calls that a command may make.

use std::{collections::BTreeMap, iter};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::{
    attribute_calls::{
        ATTRIBUTE_CALLS, ATTRIBUTE_IOCTLS, IOCTL_GROUPS, MODE_CALLS, NEW_ATTRIBUTE_CALLS,
    },
    bpf_instructions::{SyscallDecision, search},
    plan_codec::{PlanReader, PlanWriter},
};

/// Commands of `fcntl` that set the hint how long written data of a file, or of one opening of it, will live.
const F_SET_RW_HINT: libc::c_int = 1036;
const F_SET_FILE_RW_HINT: libc::c_int = 1038;

/// Calls that affect the kernel or other processes. Ordinary programs do not need them.
const FORBIDDEN: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];
/// Calls whose effect a filter cannot inspect. Programs fall back to others if the kernel seems to lack
/// them.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
/// Flags of `clone` that create namespaces.
const NEW_NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// Set-user-ID bit of a mode. The set-group-ID bit has another meaning on directories, and a filter cannot
/// tell them apart.
const SET_USER: libc::c_int = 0o4000;
/// Calls that can create a file, with the argument indices of flags and mode. `openat2` takes both in
/// memory, which no filter can read: a file it creates is empty, and the kernel clears the bit when a
/// command writes to it.
const OPENING_CALLS: &[(libc::c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];
/// Calls that always create a file, with the argument index of the mode.
const CREATING_CALLS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
/// Flags with which an opening call uses its mode. `O_TMPFILE` includes the bit of `O_DIRECTORY`.
const CREATING_FLAGS: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE];
/// Mask of a socket's type, without flags.
const SOCKET_TYPE: u64 = 0xf;
/// Sockets that a command may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedSockets {
    /// Sockets of its own network namespace (or the shared one), and socket files.
    Network,
    /// Only socket pairs, and only of types that cannot send elsewhere: there is no network namespace.
    Pairs,
}

/// Treatment of calls that change modes, owners, times and extended attributes of files. Landlock controls
/// none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeChanges {
    /// Allowed: read-only mounts protect what must not change. But no file gets the set-user-ID bit: it
    /// would give its owner's rights to every user of the machine, outside of the mounts, too.
    Allowed,
    /// Refused for every file.
    Refused,
    /// Handed to the command's supervisor, which performs the permitted ones.
    Supervised,
}

/// Maximum number of instructions.
const LENGTH: usize = 512;

/// Seccomp filter for a process and its descendants. Stored without a heap, so that it can be decoded where
/// nothing may allocate.
///
/// The program begins with a binary search by call number ([`search`]); calls that depend on their
/// arguments continue with the rules of `seccompiler` behind it.
#[derive(Debug)]
pub(super) struct SyscallFilter {
    program: [sock_filter; LENGTH],
    length: usize,
}

impl SyscallFilter {
    /// Builds a filter. Returns `None` on an unknown architecture.
    pub(super) fn new(sockets: AllowedSockets, attributes: AttributeChanges) -> Option<Self> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).ok()?;
        // 1) Rules for calls that depend on their arguments.
        let new_namespaces = (0..i32::BITS)
            .map(|bit| 1 << bit)
            .filter(|flag| NEW_NAMESPACES & flag != 0)
            .map(|flag| SeccompRule::new(vec![masked(0, flag)?]).ok());
        let (attribute_ioctls, groups) = match attributes {
            AttributeChanges::Allowed => (&[][..], &[][..]),
            AttributeChanges::Refused | AttributeChanges::Supervised => {
                (&ATTRIBUTE_IOCTLS[..], &IOCTL_GROUPS[..])
            }
        };
        let ioctls = [libc::TIOCSTI, libc::TIOCLINUX].iter().chain(attribute_ioctls);
        let fcntls = [libc::F_SETLEASE, F_SET_RW_HINT, F_SET_FILE_RW_HINT].into_iter();
        let fcntls = fcntls.map(|command| SeccompRule::new(vec![equal_int(1, command)?]).ok());
        let ioctls = ioctls.map(|request| SeccompRule::new(vec![equal(1, *request)?]).ok());
        let groups = groups.iter().map(|(group, allowed)| {
            let others = allowed.iter().map(|request| condition(1, SeccompCmpOp::Ne, *request));
            let conditions = iter::once(group_of(1, *group)).chain(others);
            SeccompRule::new(conditions.collect::<Option<_>>()?).ok()
        });
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::from([
            (libc::SYS_socket, socket_rules(sockets)?),
            (libc::SYS_clone, new_namespaces.collect::<Option<_>>()?),
            (libc::SYS_ioctl, ioctls.chain(groups).collect::<Option<_>>()?),
            // `F_SETLEASE`: it could block other programs that open such a file for up to a minute,
            // wherever it is.
            // The hint about writes to a file is kept for all who open it, and can be set by readers.
            (libc::SYS_fcntl, fcntls.collect::<Option<_>>()?),
        ]);
        if sockets == AllowedSockets::Pairs {
            rules.insert(libc::SYS_socketpair, pair_rules()?);
        }
        let changing = match attributes {
            AttributeChanges::Allowed => MODE_CALLS,
            AttributeChanges::Refused | AttributeChanges::Supervised => &[],
        };
        for (call, mode) in changing.iter().chain(CREATING_CALLS) {
            let set_user = SeccompRule::new(vec![masked(*mode, SET_USER)?]).ok()?;
            rules.insert(*call, vec![set_user]);
        }
        for (call, flags, mode) in OPENING_CALLS {
            let creating = CREATING_FLAGS.iter().map(|flag| {
                SeccompRule::new(vec![masked(*mode, SET_USER)?, masked(*flags, *flag)?]).ok()
            });
            rules.insert(*call, creating.collect::<Option<_>>()?);
        }
        // Without namespaces a command can name every process of the user, the agent among them.
        if attributes != AttributeChanges::Allowed {
            rules.extend(rules_about_other_processes()?);
        }
        // 2) Decisions by call number, as a binary search.
        let forbidden = FORBIDDEN.iter().map(|call| (*call, SyscallDecision::Refused));
        let absent = ABSENT.iter().map(|call| (*call, SyscallDecision::NotImplemented));
        let judged = rules.keys().map(|call| (*call, SyscallDecision::Conditional));
        let attributes = attribute_fates(attributes);
        let fates = forbidden.chain(absent).chain(attributes).chain(judged);
        let fates = fates.map(|(call, fate)| Some((u32::try_from(call).ok()?, fate)));
        let search = search(&fates.collect::<Option<_>>()?, arch)?;
        // 3) The rules behind the search.
        let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).ok()?;
        let rules: BpfProgram = filter.try_into().ok()?;
        Self::of(search.into_iter().chain(rules))
    }

    fn of(instructions: impl IntoIterator<Item = sock_filter>) -> Option<Self> {
        let mut filter = Self { program: [const { NOTHING }; LENGTH], length: 0 };
        for instruction in instructions {
            *filter.program.get_mut(filter.length)? = instruction;
            filter.length += 1;
        }
        Some(filter)
    }

    pub(super) fn program(&self) -> &[sock_filter] {
        // No indexing: a panic after fork would allocate. The kernel refuses an empty program.
        self.program.get(..self.length).unwrap_or_default()
    }

    /// Installs the filter in this process. Allocates nothing.
    pub(super) fn apply(&self) -> rustix::io::Result<()> {
        seccompiler::apply_filter(self.program()).map_err(|_| rustix::io::Errno::ACCESS)
    }

    pub(super) fn write(&self, plan: &mut PlanWriter) {
        plan.all(self.program(), |plan, instruction| {
            let sock_filter { code, jt, jf, k } = *instruction;
            let jumps = u64::from(jt) << 40 | u64::from(jf) << 32;
            plan.number(u64::from(code) << 48 | jumps | u64::from(k));
        });
    }

    /// Decodes a filter. Allocates nothing.
    pub(super) fn read(reader: &mut PlanReader<'_>) -> Option<Self> {
        let mut filter = Self { program: [const { NOTHING }; LENGTH], length: 0 };
        filter.length = usize::try_from(reader.number()?).ok()?;
        for instruction in filter.program.get_mut(..filter.length)? {
            let [a, b, jt, jf, k @ ..] = reader.number()?.to_be_bytes();
            let code = u16::from_be_bytes([a, b]);
            *instruction = sock_filter { code, jt, jf, k: u32::from_be_bytes(k) };
        }
        Some(filter)
    }
}

/// Returns the decisions about calls that change attributes.
fn attribute_fates(
    changes: AttributeChanges,
) -> impl Iterator<Item = (libc::c_long, SyscallDecision)> {
    let (known, new) = match changes {
        AttributeChanges::Allowed => (SyscallDecision::Allowed, SyscallDecision::Allowed),
        AttributeChanges::Refused => (SyscallDecision::Refused, SyscallDecision::Refused),
        // Programs fall back to the older calls, which the supervisor supports.
        AttributeChanges::Supervised => {
            (SyscallDecision::Supervised, SyscallDecision::NotImplemented)
        }
    };
    let known = ATTRIBUTE_CALLS.iter().map(move |call| (*call, known));
    known.chain(NEW_ATTRIBUTE_CALLS.iter().map(move |call| (*call, new)))
}

const NOTHING: sock_filter = sock_filter { code: 0, jt: 0, jf: 0, k: 0 };

/// Returns the rules that refuse sockets: unknown families, and netlink protocols other than routing.
fn socket_rules(sockets: AllowedSockets) -> Option<Vec<SeccompRule>> {
    if sockets == AllowedSockets::Pairs {
        return Some(Vec::new());
    }
    let known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let unknown = known.map(|family| not_equal(0, family)).into_iter().collect::<Option<_>>()?;
    let routing = vec![equal_int(0, libc::AF_NETLINK)?, not_equal(2, libc::NETLINK_ROUTE)?];
    [unknown, routing].map(|rule| SeccompRule::new(rule).ok()).into_iter().collect()
}

/// Returns the rules that refuse socket pairs: a datagram socket can send messages to any socket file.
fn pair_rules() -> Option<Vec<SeccompRule>> {
    let kind = |kind: libc::c_int| {
        let kind = u64::from(kind.cast_unsigned());
        condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), kind)
    };
    // The kernel treats `SOCK_RAW` as `SOCK_DGRAM`.
    let refused = [kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?, not_equal(0, libc::AF_UNIX)?];
    refused.map(|condition| SeccompRule::new(vec![condition]).ok()).into_iter().collect()
}

/// Returns the rules that refuse to change limits and priorities of other processes: with a low limit of descriptors the
/// agent could check nothing any more.
fn rules_about_other_processes() -> Option<Vec<(i64, Vec<SeccompRule>)>> {
    // The first argument says whether the second one is a process, a group or a user; 0 is the caller's own.
    const IO_USER: libc::c_int = 3;
    let of_user = libc::PRIO_USER.cast_signed();
    let new_limits = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0).ok()?;
    let rules = [
        (libc::SYS_prlimit64, vec![vec![not_equal(0, 0)?, new_limits]]),
        (libc::SYS_setpriority, vec![vec![not_equal(1, 0)?], vec![equal_int(0, of_user)?]]),
        (libc::SYS_ioprio_set, vec![vec![not_equal(1, 0)?], vec![equal_int(0, IO_USER)?]]),
    ];
    let rules = rules.into_iter().map(|(call, rules)| {
        let rules = rules.into_iter().map(|conditions| SeccompRule::new(conditions).ok());
        Some((call, rules.collect::<Option<_>>()?))
    });
    rules.collect()
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Option<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()
}

fn equal(argument: u8, value: libc::c_ulong) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn equal_int(argument: u8, value: libc::c_int) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value.cast_unsigned().into())
}

fn not_equal(argument: u8, value: libc::c_int) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, value.cast_unsigned().into())
}

fn masked(argument: u8, flag: libc::c_int) -> Option<SeccompCondition> {
    let flag = u64::from(flag.cast_unsigned());
    condition(argument, SeccompCmpOp::MaskedEq(flag), flag)
}

/// Requires that an `ioctl` request belongs to a group.
fn group_of(argument: u8, group: u8) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(0xff00), u64::from(group) << 8)
}

#[cfg(test)]
mod tests {
    use super::{super::bpf_instructions::run, *};

    const MACHINE: u32 = 0xc000_003e;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_refused_absent_or_allowed_by_their_numbers() {
        let filter =
            SyscallFilter::new(AllowedSockets::Network, AttributeChanges::Allowed).unwrap();
        for number in 0..1024 {
            let call = libc::c_long::from(number);
            let expected = if FORBIDDEN.contains(&call) {
                0x5_0001
            } else if ABSENT.contains(&call) {
                0x5_0026
            } else {
                0x7fff_0000
            };
            let arguments = [1, 0, 0, 0, 0, 0];
            assert_eq!(run(filter.program(), MACHINE, number, arguments), expected, "{number}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_refused_by_their_arguments() {
        let filter =
            SyscallFilter::new(AllowedSockets::Network, AttributeChanges::Allowed).unwrap();
        let (refused, absent, allowed) = (0x5_0001, 0x5_0026, 0x7fff_0000);
        let first = |value| [value, 0, 0, 0, 0, 0];
        for (number, arguments, expected) in [
            (libc::SYS_clone, first(17), allowed),
            (libc::SYS_clone, first(0x1000_0011), refused),
            (libc::SYS_socket, first(2), allowed),
            (libc::SYS_socket, first(17), refused),
            (libc::SYS_socket, [16, 3, 0, 0, 0, 0], allowed),
            (libc::SYS_socket, [16, 3, 15, 0, 0, 0], refused),
            (libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0], refused),
            (libc::SYS_ioctl, [0, 0x5413, 0, 0, 0, 0], allowed),
            (libc::SYS_fcntl, [3, 1024, 0, 0, 0, 0], refused),
            (libc::SYS_fcntl, [3, 1025, 0, 0, 0, 0], allowed),
            (libc::SYS_fcntl, [3, 1036, 0, 0, 0, 0], refused),
            (libc::SYS_fcntl, [3, 1038, 0, 0, 0, 0], refused),
            (libc::SYS_chmod, [0, 0o4755, 0, 0, 0, 0], refused),
            (libc::SYS_chmod, [0, 0o2775, 0, 0, 0, 0], allowed),
            (libc::SYS_fchmod, [0, 0o6000, 0, 0, 0, 0], refused),
            (libc::SYS_fchmodat, [0, 0o4000, 0o4000, 0, 0, 0], refused),
            (libc::SYS_fchmodat, [0, 0o4000, 0o1777, 0, 0, 0], allowed),
            (452, [0, 0, 0o4511, 0, 0, 0], refused),
            (libc::SYS_creat, [0, 0o4755, 0, 0, 0, 0], refused),
            (libc::SYS_mknodat, [0, 0, 0o10_4755, 0, 0, 0], refused),
            (libc::SYS_mknodat, [0, 0, 0o10_0755, 0, 0, 0], allowed),
            (libc::SYS_open, [0, 0o101, 0o4755, 0, 0, 0], refused),
            (libc::SYS_open, [0, 0o1, 0o4755, 0, 0, 0], allowed),
            (libc::SYS_openat, [0, 0, 0o101, 0o4755, 0, 0], refused),
            (libc::SYS_openat, [0, 0, 0o101, 0o755, 0, 0], allowed),
            (libc::SYS_openat, [0, 0, 0o2020_0001, 0o4755, 0, 0], refused),
            (libc::SYS_socketpair, [1, 2, 0, 0, 0, 0], allowed),
            (0x4000_0000 | libc::SYS_read, first(0), absent),
        ] {
            let number = u32::try_from(number).unwrap();
            assert_eq!(run(filter.program(), MACHINE, number, arguments), expected, "{number}");
        }
        let pairs = SyscallFilter::new(AllowedSockets::Pairs, AttributeChanges::Allowed).unwrap();
        for family in [1, 2, 16] {
            let socket = u32::try_from(libc::SYS_socket).unwrap();
            assert_eq!(run(pairs.program(), MACHINE, socket, first(family)), refused);
        }
        for (family, kind, expected) in
            [(1, 1, allowed), (1, 5 | 0x8_0800, allowed), (1, 2 | 0x8_0000, refused)]
                .into_iter()
                .chain([(1, 3, refused), (2, 1, refused)])
        {
            let pair = u32::try_from(libc::SYS_socketpair).unwrap();
            assert_eq!(run(pairs.program(), MACHINE, pair, [family, kind, 0, 0, 0, 0]), expected);
        }
        let foreign = run(filter.program(), 0x4000_0003, 0, first(0));
        assert_eq!(foreign, libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_that_change_attributes_are_refused_or_handed_to_the_supervisor() {
        let (refused, absent, supervised) = (0x5_0001, 0x5_0026, 0x7fc0_0000);
        for (changes, known, new) in [
            (AttributeChanges::Refused, refused, refused),
            (AttributeChanges::Supervised, supervised, absent),
        ] {
            let filter = SyscallFilter::new(AllowedSockets::Network, changes).unwrap();
            let fate = |call: i64, arguments| {
                run(filter.program(), MACHINE, u32::try_from(call).unwrap(), arguments)
            };
            let known_calls = ATTRIBUTE_CALLS.iter().map(|call| (call, known));
            for (call, expected) in
                known_calls.chain(NEW_ATTRIBUTE_CALLS.iter().map(|call| (call, new)))
            {
                assert_eq!(fate(*call, [0; 6]), expected, "{call}");
            }
            // Flags, version, policy of encryption, verity, those of ext4 and f2fs, and subvolumes of btrfs.
            let of_groups = [
                0x4008_6602,
                0x4004_6602,
                0x4008_6604,
                0x660c,
                0x6609,
                0x800c_6613,
                0x4080_6685,
                0xf501,
                0x5000_9401,
                0x5000_940e,
                0x5000_940f,
                0x5000_9417,
                0x5000_943f,
                0x4008_941a,
            ];
            for request in ATTRIBUTE_IOCTLS.into_iter().chain(of_groups) {
                assert_eq!(
                    fate(libc::SYS_ioctl, [0, request, 0, 0, 0, 0]),
                    refused,
                    "{request:#x}"
                );
            }
            let of_terminals = [libc::TCGETS, libc::TIOCGWINSZ, libc::FIOCLEX, libc::FIONREAD];
            let reading = IOCTL_GROUPS.iter().flat_map(|(_, allowed)| *allowed).copied();
            for request in of_terminals.into_iter().chain(reading) {
                assert_eq!(
                    fate(libc::SYS_ioctl, [0, request, 0, 0, 0, 0]),
                    0x7fff_0000,
                    "{request:#x}"
                );
            }
            assert_eq!(fate(libc::SYS_openat, [0; 6]), 0x7fff_0000);
            assert_eq!(fate(libc::SYS_clone3, [0; 6]), absent);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn without_namespaces_limits_and_priorities_of_other_processes_cannot_be_changed() {
        let (refused, allowed) = (0x5_0001, 0x7fff_0000);
        let high_pointer = 0x1_0000_0000;
        for (number, arguments, expected) in [
            (libc::SYS_prlimit64, [0, 7, 1, 0, 0, 0], allowed),
            (libc::SYS_prlimit64, [99, 7, 0, 1, 0, 0], allowed),
            (libc::SYS_prlimit64, [99, 7, 1, 0, 0, 0], refused),
            (libc::SYS_prlimit64, [99, 7, high_pointer, 0, 0, 0], refused),
            (libc::SYS_setpriority, [0, 0, 19, 0, 0, 0], allowed),
            (libc::SYS_setpriority, [0, 99, 19, 0, 0, 0], refused),
            (libc::SYS_setpriority, [1, 99, 19, 0, 0, 0], refused),
            (libc::SYS_setpriority, [2, 0, 19, 0, 0, 0], refused),
            (libc::SYS_ioprio_set, [1, 0, 0, 0, 0, 0], allowed),
            (libc::SYS_ioprio_set, [1, 99, 0, 0, 0, 0], refused),
            (libc::SYS_ioprio_set, [3, 0, 0, 0, 0, 0], refused),
        ] {
            for changes in [AttributeChanges::Refused, AttributeChanges::Supervised] {
                let filter = SyscallFilter::new(AllowedSockets::Network, changes).unwrap();
                let number = u32::try_from(number).unwrap();
                assert_eq!(run(filter.program(), MACHINE, number, arguments), expected, "{number}");
            }
        }
    }

    #[test]
    fn filters_are_small_and_survive_encoding() {
        let changes =
            [AttributeChanges::Allowed, AttributeChanges::Refused, AttributeChanges::Supervised];
        for (sockets, changes) in [AllowedSockets::Network, AllowedSockets::Pairs]
            .into_iter()
            .flat_map(|s| changes.map(|c| (s, c)))
        {
            let filter = SyscallFilter::new(sockets, changes).unwrap();
            assert!((4..LENGTH * 3 / 4).contains(&filter.length), "{}", filter.length);
            let mut plan = PlanWriter::default();
            filter.write(&mut plan);
            let read = SyscallFilter::read(&mut plan.reader()).unwrap();
            assert_eq!(read.program(), filter.program());
        }
    }
}
