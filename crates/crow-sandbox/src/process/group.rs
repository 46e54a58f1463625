//! A process group that does not outlive its owner.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// Process group led by a process of its own. Killed when dropped.
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

    /// Returns true if any process of the group exists.
    pub(super) fn is_alive(&self) -> bool {
        self.leader.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    /// Forgets the group: it has no members any more, so the kernel may reuse its number.
    pub(super) fn forget(&mut self) {
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        // An error means that the group has no processes left, which is the aim.
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
