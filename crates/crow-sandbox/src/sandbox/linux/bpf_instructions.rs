//! BPF code that decides about system calls by their number alone, as a binary search.
//!
//! The numbers are split into ranges with the same decision. Each comparison jumps either to the next
//! comparison or to the end of the search; the latter is first encoded as a decision's value (251 and up)
//! and replaced by the real distance once the length is known. Jump distances are one byte, so larger
//! programs are refused.

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{BpfProgram, SeccompAction, TargetArch, sock_filter};

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Offsets of the call's number and of the architecture in `struct seccomp_data`.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
/// Flag of x32 system calls, which have numbers of their own.
const X32: u32 = 0x4000_0000;

/// Decision about a system call. The values are placeholders for jump distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SyscallDecision {
    /// Allowed, as far as this filter is concerned.
    Allowed = 251,
    Refused,
    /// Fails with `ENOSYS`, as if the kernel did not have the call.
    NotImplemented,
    /// Handed to the command's supervisor.
    Supervised,
    /// Depends on the arguments: continues with the rules behind the search.
    Conditional,
}

impl SyscallDecision {
    /// Returns the placeholder for a jump to the end of this decision.
    fn jump(self) -> u8 {
        self as u8
    }
}

/// Builds a binary search that maps a call's number to its decision. Calls of another architecture go on to
/// the rules.
///
/// The kernel simulates a new filter for every call number, and compiles it for each command anew: a linear
/// list takes three times as long. Returns `None` if the program has too many instructions for one-byte
/// jumps.
pub(super) fn search(
    fates: &BTreeMap<u32, SyscallDecision>,
    arch: TargetArch,
) -> Option<BpfProgram> {
    let machine = match arch {
        TargetArch::x86_64 => 0xc000_003e,
        TargetArch::aarch64 => 0xc000_00b7,
        TargetArch::riscv64 => 0xc000_00f3,
    };
    let fate = |number: u32| {
        let is_foreign = arch == TargetArch::x86_64 && number >= X32;
        let known = fates.get(&number).copied().unwrap_or(SyscallDecision::Allowed);
        if is_foreign { SyscallDecision::NotImplemented } else { known }
    };
    // 1) Split the numbers into ranges with the same decision: (first number, decision).
    let edges = fates.keys().flat_map(|number| [*number, number.saturating_add(1)]).chain([X32]);
    let edges = edges.collect::<BTreeSet<u32>>().into_iter();
    let edges =
        edges.filter(|edge| edge.checked_sub(1).is_some_and(|below| fate(below) != fate(*edge)));
    let ranges: Vec<_> = [0].into_iter().chain(edges).map(|start| (start, fate(start))).collect();
    // 2) Emit the search, with placeholders as jump distances.
    let mut program = vec![
        instruction(LOAD, 0, 0, MACHINE),
        instruction(JUMP_IF_EQUAL, 0, SyscallDecision::Conditional.jump(), machine),
        instruction(LOAD, 0, 0, NUMBER),
    ];
    halve(&ranges, &mut program)?;
    // In the order of the decision values.
    let ends = [
        SeccompAction::Allow.into(),
        SeccompAction::Errno(libc::EPERM.cast_unsigned()).into(),
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()).into(),
        libc::SECCOMP_RET_USER_NOTIF,
    ];
    // 3) Replace the placeholders by distances to the return instructions.
    let length = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        for jump in [&mut instruction.jt, &mut instruction.jf] {
            if *jump >= SyscallDecision::Allowed.jump() {
                let end = length + usize::from(*jump - SyscallDecision::Allowed.jump());
                *jump = short(end - at - 1)?;
            }
        }
    }
    program.extend(ends.map(|action| instruction(RETURN, 0, 0, action)));
    Some(program)
}

/// Adds the comparisons that find the range of a number, recursively.
fn halve(ranges: &[(u32, SyscallDecision)], program: &mut BpfProgram) -> Option<()> {
    if let [(start, fate)] = ranges {
        program.push(instruction(JUMP_IF_AT_LEAST, fate.jump(), fate.jump(), *start));
        return Some(());
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let at = program.len();
    let (start, _) = above.first()?;
    program.push(instruction(JUMP_IF_AT_LEAST, 0, 0, *start));
    for (half, is_above) in [(below, false), (above, true)] {
        let jump = if let [(_, fate)] = half {
            fate.jump()
        } else {
            let next = short(program.len() - at - 1)?;
            halve(half, program)?;
            next
        };
        let branch = program.get_mut(at)?;
        *(if is_above { &mut branch.jt } else { &mut branch.jf }) = jump;
    }
    Some(())
}

fn short(distance: usize) -> Option<u8> {
    u8::try_from(distance).ok().filter(|distance| *distance < SyscallDecision::Allowed.jump())
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Interprets a filter as the kernel does, for tests. Returns the filter's return value.
#[cfg(test)]
pub(super) fn run(program: &[sock_filter], machine: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut words = vec![number, machine, 0, 0];
    for argument in arguments {
        let halves = [argument & 0xffff_ffff, argument >> 32];
        words.extend(halves.map(|half| u32::try_from(half).unwrap()));
    }
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let is_true = match code {
            LOAD => {
                value = words[k as usize / 4];
                continue;
            }
            0x54 => {
                value &= k;
                continue;
            }
            0x05 => {
                at += k as usize;
                continue;
            }
            RETURN => return k,
            JUMP_IF_EQUAL => value == k,
            0x25 => value > k,
            JUMP_IF_AT_LEAST => value >= k,
            0x45 => value & k != 0,
            code => panic!("{code:#x}"),
        };
        at += usize::from(if is_true { jt } else { jf });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_has_the_fate_that_it_was_given(
            calls in prop::collection::btree_map(0_u32..300, 0_usize..5, 0..90),
            other in 0_u32..X32,
        ) {
            const FATES: [SyscallDecision; 5] =
                [SyscallDecision::Allowed, SyscallDecision::Refused, SyscallDecision::NotImplemented, SyscallDecision::Supervised, SyscallDecision::Conditional];
            let fates: BTreeMap<_, _> = calls.into_iter().map(|(call, fate)| (call, FATES[fate])).collect();
            let mut program = search(&fates, TargetArch::x86_64).unwrap();
            program.push(instruction(RETURN, 0, 0, 77));
            for number in (0..310).chain([other, X32 - 1]) {
                let expected = match fates.get(&number).unwrap_or(&SyscallDecision::Allowed) {
                    SyscallDecision::Allowed => 0x7fff_0000,
                    SyscallDecision::Refused => 0x5_0001,
                    SyscallDecision::NotImplemented => 0x5_0026,
                    SyscallDecision::Supervised => 0x7fc0_0000,
                    SyscallDecision::Conditional => 77,
                };
                prop_assert_eq!(run(&program, 0xc000_003e, number, [0; 6]), expected, "{}", number);
                prop_assert_eq!(run(&program, 0x4000_0003, number, [0; 6]), 77);
            }
            prop_assert_eq!(run(&program, 0xc000_003e, X32 | other, [0; 6]), 0x5_0026);
        }
    }

    #[test]
    fn too_many_calls_give_no_search() {
        let every_other =
            |count| (0..count).map(|call| (call * 2, SyscallDecision::Refused)).collect();
        assert!(search(&every_other(2000), TargetArch::x86_64).is_none());
        assert!(search(&every_other(100), TargetArch::x86_64).is_some());
    }
}
