//! Time on a processor of a process together with what it starts.

use std::{fs, time::Duration};

/// Length of a tick in which `/proc` counts, in milliseconds.
const TICK: u64 = 10;

/// Returns the time of a process, of its descendants, and of the children that they waited for.
pub(crate) fn cpu(pid: u32) -> Duration {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Duration::ZERO };
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // utime, stime, cutime and cstime are fields 14 to 17; the first one after the name is field 3.
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * TICK) + children(pid).into_iter().map(cpu).sum()
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.collect::<String>();
    pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
