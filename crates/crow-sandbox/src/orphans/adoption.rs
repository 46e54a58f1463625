//! Processes that left the process group of their command: with `setsid`, or as daemons do.
//!
//! When their parent ends, they become children of this process, if it is a subreaper (see
//! [`adopt_orphans`]). Each command carries a mark in an environment variable, which its descendants
//! inherit, so each orphan can be assigned to its command.
//!
//! State is one global [`ChildProcesses`] behind a mutex: the commands under way, the children that are
//! waited for elsewhere, and the orphans. Orphans are reaped only while that lock is held, so their process
//! numbers cannot be reused in between.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, getpid, kill_process, kill_process_group, waitpid,
};
use uuid::Uuid;

use super::{kill_guard::KillGuard, process_table};

/// Environment variable that carries a command's mark.
pub(crate) const MARK: &str = "CROW_CALL";

static ADOPTS: AtomicBool = AtomicBool::new(false);
static REGISTRY: OnceLock<Mutex<ChildProcesses>> = OnceLock::new();

/// Makes this process adopt the processes that commands leave behind, so that they end with their commands,
/// wherever they went. A program decides this by calling it once at its start: from then on every child of
/// this process that no [`ProcessRunner`](crate::ProcessRunner) started is treated as such an orphan, and
/// ended.
///
/// With the first command a small guard process starts that ends all of them if this process is killed.
///
/// Children that exist already are left alone. If there are some, and in the first process of a system,
/// orphans may belong to others: then only those that carry a command's mark are ended.
///
/// Fails where the system has no subreaper. Commands are then ended by their group only, and processes that
/// left it keep running.
pub fn adopt_orphans() -> io::Result<()> {
    let mut registry = registry();
    if are_adopted() {
        return Ok(());
    }
    process_table::adopt_orphans()?;
    registry.started.extend(process_table::all_children());
    registry.has_strangers = !registry.started.is_empty() || getpid().is_init();
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns true if orphans are adopted by this process.
pub(crate) fn are_adopted() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Child processes of this program and the commands that they belong to.
#[derive(Debug)]
struct ChildProcesses {
    /// Unique prefix of this process's marks.
    name: String,
    commands: u64,
    /// Commands under way, by number.
    living: HashMap<u64, MarkedCommand>,
    /// Orphans without a mark, with the number of the last command at the time when they were first seen:
    /// they may belong to that one, or to one before it.
    unmarked: HashMap<Pid, u64>,
    /// Children that are waited for by the code that started them.
    started: HashSet<Pid>,
    /// True if there may be orphans of others.
    has_strangers: bool,
    /// Process that ends the commands if this process is killed. Started with the first of them.
    guard: Option<KillGuard>,
    /// Children whose owner was dropped before reaping them, until they are gone.
    dropped: HashSet<Pid>,
}

/// Command under way.
#[derive(Debug, Default)]
struct MarkedCommand {
    leader: Option<Pid>,
    /// True if the processes it left behind are being ended.
    is_ending: bool,
}

/// Mark of one command and its orphans. Dropped when the command has ended with all that it had started.
#[derive(Debug)]
pub(crate) struct CommandMark {
    number: u64,
    leader: Option<Pid>,
    /// Orphans outside of the group that were signalled.
    signalled: HashSet<Pid>,
    /// Orphans that carry no mark. A process in the middle of `exec` has no environment for a moment, so
    /// the missing mark counts only at the second look.
    seen_unmarked: HashSet<Pid>,
    has_ended: bool,
}

/// Signal that orphans get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanForce {
    /// SIGTERM, once for each.
    Ask,
    /// SIGKILL.
    Kill,
}

impl CommandMark {
    /// Creates the mark of a command that is about to start.
    pub(crate) fn new() -> Self {
        let mut registry = registry();
        registry.commands += 1;
        let number = registry.commands;
        registry.living.insert(number, MarkedCommand::default());
        Self {
            number,
            leader: None,
            signalled: HashSet::new(),
            seen_unmarked: HashSet::new(),
            has_ended: false,
        }
    }

    /// Returns the environment variable that marks the command, or `None` if orphans are not adopted.
    pub(crate) fn variable(&self) -> Option<(&'static str, String)> {
        are_adopted().then(|| (MARK, format!("{}.{}", registry().name, self.number)))
    }

    /// Starts the command. Holds the lock meanwhile, so that the new child is not taken for an orphan.
    /// `needs_guard` is true if nothing else ends the command when this process is killed.
    pub(crate) fn start<C>(
        &mut self,
        start: impl FnOnce() -> io::Result<C>,
        pid: impl FnOnce(&C) -> Option<u32>,
        needs_guard: bool,
    ) -> io::Result<C> {
        let mut registry = registry();
        if needs_guard {
            registry.ensure_guard();
        }
        let child = start()?;
        self.leader = pid(&child).and_then(to_pid);
        if let Some(leader) = self.leader {
            registry.started.insert(leader);
            registry.living.entry(self.number).or_default().leader = Some(leader);
        }
        Ok(child)
    }

    /// Records that the command's first process was reaped: its number may be reused.
    pub(crate) fn on_reaped(&mut self) {
        if let Some(leader) = &self.leader {
            registry().started.remove(leader);
        }
    }

    /// Signals the orphans of this command, and those that belong to none. Returns the number left outside
    /// of its group.
    ///
    /// The first call marks the command as ending: from then on unmarked orphans are no longer spared for
    /// its sake.
    pub(crate) fn end_orphans(&mut self, force: OrphanForce) -> usize {
        if !are_adopted() {
            return 0;
        }
        // Orphans are reaped only under this lock, so their numbers are not reused while it is held.
        let mut registry = registry();
        registry.living.entry(self.number).or_default().is_ending = true;
        let mut remaining = 0;
        for orphan in registry.orphans() {
            match registry.owner(orphan, self.number) {
                OrphanOwner::Living => continue,
                OrphanOwner::Ending => {}
                OrphanOwner::Unassigned => {
                    if self.seen_unmarked.insert(orphan) && force == OrphanForce::Ask {
                        remaining += 1;
                        continue;
                    }
                }
            }
            remaining += 1;
            let is_new = self.signalled.insert(orphan);
            match force {
                OrphanForce::Ask if is_new => signal(orphan, Signal::TERM),
                OrphanForce::Ask => {}
                OrphanForce::Kill => signal(orphan, Signal::KILL),
            }
        }
        remaining
    }

    /// Records that the command has ended with all that it had started. Returns the number of orphans
    /// outside of its group that were signalled.
    pub(crate) fn on_end(&mut self) -> usize {
        self.has_ended = true;
        self.signalled.len()
    }
}

impl Drop for CommandMark {
    fn drop(&mut self) {
        if !self.has_ended {
            // No more can be done without waiting: orphans that appear later belong to no command, and end
            // with the next one.
            self.end_orphans(OrphanForce::Kill);
        }
        let mut registry = registry();
        registry.living.remove(&self.number);
        if let Some(leader) = self.leader
            && registry.started.remove(&leader)
        {
            registry.dropped.insert(leader);
        }
    }
}

/// Helper process of this program, which is no orphan and is waited for by the code that started it.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct OwnProcess<C> {
    process: C,
    pid: Option<Pid>,
}

#[cfg(target_os = "linux")]
impl<C> OwnProcess<C> {
    /// Starts the process and registers it.
    pub(crate) fn start(
        start: impl FnOnce() -> io::Result<C>,
        pid: impl FnOnce(&C) -> u32,
    ) -> io::Result<Self> {
        let mut registry = registry();
        let process = start()?;
        let pid = to_pid(pid(&process));
        registry.started.extend(pid);
        Ok(Self { process, pid })
    }

    pub(crate) fn get_mut(&mut self) -> &mut C {
        &mut self.process
    }
}

#[cfg(target_os = "linux")]
impl<C> Drop for OwnProcess<C> {
    fn drop(&mut self) {
        if let Some(pid) = &self.pid {
            registry().started.remove(pid);
        }
    }
}

/// Owner of an orphan, from the point of view of a command that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrphanOwner {
    /// Possibly another command under way, or a stranger; or the command's own group, which is ended as a
    /// whole.
    Living,
    /// This command, or one that has ended.
    Ending,
    /// No command: it carries no mark, and no command is under way that may have started it.
    Unassigned,
}

impl ChildProcesses {
    fn new() -> Self {
        Self {
            name: Uuid::now_v7().simple().to_string(),
            commands: 0,
            living: HashMap::new(),
            unmarked: HashMap::new(),
            started: HashSet::new(),
            has_strangers: false,
            guard: None,
            dropped: HashSet::new(),
        }
    }

    fn ensure_guard(&mut self) {
        if !are_adopted() || self.guard.is_some() {
            return;
        }
        match KillGuard::start(&self.name) {
            Ok(guard) => {
                self.started.extend(to_pid(guard.child.id()));
                self.guard = Some(guard);
            }
            Err(error) => tracing::warn!(%error, "nobody ends the commands if this is killed"),
        }
    }

    /// Reaps the orphans that have ended, and returns the others.
    fn orphans(&mut self) -> Vec<Pid> {
        let mut children = process_table::children();
        if !self.dropped.is_empty() {
            self.dropped.retain(|pid| children.contains(pid));
        }
        children.retain(|pid| !self.started.contains(pid) && !self.dropped.contains(pid));
        // Waits by process number, so a child that was started here is never reaped in place of its owner.
        children.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
        if !self.unmarked.is_empty() {
            self.unmarked.retain(|pid, _| children.contains(pid));
        }
        children
    }

    fn owner(&mut self, orphan: Pid, ending: u64) -> OrphanOwner {
        let group = getpgid(Some(orphan)).ok();
        if group.is_some() && self.living.values().any(|command| command.leader == group) {
            return OrphanOwner::Living;
        }
        let Some(mark) = process_table::variable(orphan, MARK) else {
            return self.owner_of_unmarked(orphan);
        };
        let number = mark.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('.'));
        let number = number.and_then(|number| number.parse().ok());
        let is_others = |number| number != ending && self.living.contains_key(&number);
        if number.is_some_and(is_others) { OrphanOwner::Living } else { OrphanOwner::Ending }
    }

    /// Programs start others with an environment of their own choice, `sudo` and `env -i` among them: such
    /// an orphan is left alone while a job or command is under way that may have started it. The last of
    /// these ends it.
    fn owner_of_unmarked(&mut self, orphan: Pid) -> OrphanOwner {
        let last = *self.unmarked.entry(orphan).or_insert(self.commands);
        let mut living = self.living.iter();
        let is_anothers = living.any(|(number, command)| *number <= last && !command.is_ending);
        if self.has_strangers || is_anothers {
            OrphanOwner::Living
        } else {
            OrphanOwner::Unassigned
        }
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn registry() -> MutexGuard<'static, ChildProcesses> {
    let registry = REGISTRY.get_or_init(|| Mutex::new(ChildProcesses::new()));
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal to an orphan and, if it leads a group, to the whole group.
fn signal(orphan: Pid, signal: Signal) {
    // An error means that it is gone or belongs to another user by now: nothing is left to do.
    if getpgid(Some(orphan)) == Ok(orphan) {
        let _ = kill_process_group(orphan, signal);
    } else {
        let _ = kill_process(orphan, signal);
    }
}
