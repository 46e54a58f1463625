//! Processes of sandboxed commands, for the case that they share the network of this program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Entry of `/proc`.
struct Process {
    parent: u32,
    /// True if it is process 1 of its own process namespace.
    is_first: bool,
}

/// Returns the inodes of all sockets that the commands of this program have open, as far as they can be
/// inspected.
pub(super) fn sockets() -> BTreeSet<u32> {
    let processes = processes();
    let descriptors = processes
        .keys()
        .filter(|process| is_of_command(**process, &processes))
        .filter_map(|process| fs::read_dir(format!("/proc/{process}/fd")).ok());
    let links =
        descriptors.flatten().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|number| {
            let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
            Some((number, Process::read(&status)?))
        })
        .collect()
}

/// Returns true if the process, or an ancestor, is a child of this program and process 1 of a process
/// namespace.
fn is_of_command(mut process: u32, processes: &BTreeMap<u32, Process>) -> bool {
    // Bounded, since the table is no consistent snapshot and may contain cycles.
    for _ in 0..processes.len() {
        let Some(Process { parent, is_first }) = processes.get(&process) else { return false };
        if *parent == std::process::id() {
            return *is_first;
        }
        process = *parent;
    }
    false
}

impl Process {
    fn read(status: &str) -> Option<Self> {
        let value = |name| status.lines().find_map(|line| line.strip_prefix(name));
        // `NSpid` has one number per nested process namespace, outermost first; the first one here is
        // skipped.
        let numbers = value("NSpid:")?.split_ascii_whitespace();
        let innermost = numbers.skip(1).last();
        Some(Self {
            parent: value("PPid:")?.trim().parse().ok()?,
            is_first: innermost == Some("1"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_an_init_that_is_a_child_of_this_program_belong_to_commands() {
        let own = std::process::id();
        let text =
            |parent: u32, numbers: &str| format!("Name:\tx\nPPid:\t{parent}\nNSpid:\t{numbers}\n");
        let table = [
            (u32::MAX - 1, text(own, "5\t1")),
            (u32::MAX - 2, text(u32::MAX - 1, "6\t2")),
            (u32::MAX - 3, text(u32::MAX - 2, "7\t3\t1")),
            (u32::MAX - 4, text(own, "8")),
            (u32::MAX - 5, text(u32::MAX - 4, "9\t1")),
            (u32::MAX - 6, text(1, "10\t1")),
            (u32::MAX - 7, text(u32::MAX - 7, "11")),
        ];
        let processes =
            table.iter().map(|(number, text)| (*number, Process::read(text).unwrap())).collect();
        let is_own: Vec<_> =
            table.iter().map(|(number, _)| is_of_command(*number, &processes)).collect();
        assert_eq!(is_own, [true, true, true, false, false, false, false]);
        assert!(Process::read("Name:\tx\n").is_none());
    }
}
