//! A process group that does not outlive its owner.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The group of a process that was started as its leader. Killed when dropped.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// Takes over the group that `leader` leads.
    pub(super) fn new(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    /// Asks all processes of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all processes of the group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether any process of the group is left.
    pub(super) fn is_alive(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    /// The group has no members any more, so its number may be given to others.
    pub(super) fn forget(&mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        // An error means that no process of the group is left, which is what is wanted.
        if let Some(leader) = self.leader {
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
