//! What the kernel says of a process.

use std::{fs, path::PathBuf, time::Duration};

/// A process under way.
pub(crate) struct Proc(PathBuf);

impl Proc {
    pub(crate) fn new(pid: u32) -> Self {
        Self(PathBuf::from(format!("/proc/{pid}")))
    }

    /// Returns the proportional resident memory in MB.
    pub(crate) fn pss_mb(&self) -> f64 {
        let text = fs::read_to_string(self.0.join("smaps_rollup")).unwrap();
        let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }

    /// Returns the time on a processor of all threads, without that of child processes.
    pub(crate) fn cpu(&self) -> Duration {
        let threads = fs::read_dir(self.0.join("task")).unwrap();
        let nanos = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }
}
