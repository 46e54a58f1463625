//! Processes that left the group of their command: with `setsid`, or as daemons do.
//!
//! When their parent ends, they come to this process, if it has [adopted orphans](adopt_orphans). Each command carries a
//! mark in its environment, and what it starts inherits it: so it is known whose orphan it is.

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

/// The variable that holds a command's mark.
pub(crate) const MARK: &str = "CROW_CALL";

static ADOPTS: AtomicBool = AtomicBool::new(false);
static FAMILY: OnceLock<Mutex<ChildProcesses>> = OnceLock::new();

/// Lets the processes that commands leave behind come to this process, so that they end with their commands, wherever
/// they went. It is for a program to decide, which calls this once at its start: from then on every child of this process
/// that no [`ProcessRunner`](crate::ProcessRunner) started is taken for such an orphan, and ended.
///
/// With the first command a small process starts that ends them all if this one is killed.
///
/// Children that are there already are left alone. Where there are some, and in the first process of a system, orphans
/// may be those of others: then only those are ended that bear a command's mark.
///
/// Fails where the system has nothing of the kind. Commands are ended with their group then, and what left it goes on.
pub fn adopt_orphans() -> io::Result<()> {
    let mut family = family();
    if are_adopted() {
        return Ok(());
    }
    process_table::adopt_orphans()?;
    family.started.extend(process_table::all_children());
    family.has_strangers = !family.started.is_empty() || getpid().is_init();
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns whether orphans come to this process.
pub(crate) fn are_adopted() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// The children of this process.
#[derive(Debug)]
struct ChildProcesses {
    /// Tells marks of this process from those of others.
    name: String,
    commands: u64,
    /// The commands under way.
    living: HashMap<u64, MarkedCommand>,
    /// Orphans without a mark, with the number of the last command that was there when they were first seen: they may be
    /// of that one, or of one before it.
    unmarked: HashMap<Pid, u64>,
    /// Children that are waited for where they were started.
    started: HashSet<Pid>,
    /// Whether there may be orphans of others.
    has_strangers: bool,
    /// Ends the commands if this process is killed. Started with the first of them.
    guard: Option<KillGuard>,
    /// Children that nobody waits for any more, until they are gone.
    dropped: HashSet<Pid>,
}

/// A command under way.
#[derive(Debug, Default)]
struct MarkedCommand {
    leader: Option<Pid>,
    /// Whether what it leaves behind is being ended.
    is_ending: bool,
}

/// What belongs to one command. Dropped when the command has ended with all that it had started.
#[derive(Debug)]
pub(crate) struct CommandMark {
    number: u64,
    leader: Option<Pid>,
    /// Orphans outside of the group that were asked to end.
    asked: HashSet<Pid>,
    /// Orphans that bear no mark. One may be about to become another program and have no environment for a moment: it is
    /// believed the second time.
    bare: HashSet<Pid>,
    is_over: bool,
}

/// How hard orphans are told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanForce {
    /// Each is asked once.
    Ask,
    /// They are ended.
    Kill,
}

impl CommandMark {
    /// Makes a mark for a command that is about to start.
    pub(crate) fn new() -> Self {
        let mut family = family();
        family.commands += 1;
        let number = family.commands;
        family.living.insert(number, MarkedCommand::default());
        Self { number, leader: None, asked: HashSet::new(), bare: HashSet::new(), is_over: false }
    }

    /// Returns the variable that marks the command.
    pub(crate) fn variable(&self) -> Option<(&'static str, String)> {
        are_adopted().then(|| (MARK, format!("{}.{}", family().name, self.number)))
    }

    /// Starts the command. No orphan is looked for meanwhile: a child that is not known yet would be taken for one. It needs
    /// a guard if nothing else ends it when this process is killed.
    pub(crate) fn start<C>(
        &mut self,
        start: impl FnOnce() -> io::Result<C>,
        pid: impl FnOnce(&C) -> Option<u32>,
        needs_guard: bool,
    ) -> io::Result<C> {
        let mut family = family();
        if needs_guard {
            family.be_guarded();
        }
        let child = start()?;
        self.leader = pid(&child).and_then(to_pid);
        if let Some(leader) = self.leader {
            family.started.insert(leader);
            family.living.entry(self.number).or_default().leader = Some(leader);
        }
        Ok(child)
    }

    /// The command's own process was waited for: its number may be given to others.
    pub(crate) fn on_reaped(&mut self) {
        if let Some(leader) = &self.leader {
            family().started.remove(leader);
        }
    }

    /// Tells the orphans of this command, and those of nobody, to end. Returns how many are left outside of its group.
    ///
    /// From the first time on the command is one that ends: what may be its own is no longer kept for it.
    pub(crate) fn end_orphans(&mut self, force: OrphanForce) -> usize {
        if !are_adopted() {
            return 0;
        }
        // Nobody else waits for orphans as long as this is held, so their numbers are not given to others.
        let mut family = family();
        family.living.entry(self.number).or_default().is_ending = true;
        let mut left = 0;
        for orphan in family.orphans() {
            match family.owner(orphan, self.number) {
                OrphanOwner::Living => continue,
                OrphanOwner::Ending => {}
                OrphanOwner::Nobody => {
                    if self.bare.insert(orphan) && force == OrphanForce::Ask {
                        left += 1;
                        continue;
                    }
                }
            }
            left += 1;
            let is_new = self.asked.insert(orphan);
            match force {
                OrphanForce::Ask if is_new => signal(orphan, Signal::TERM),
                OrphanForce::Ask => {}
                OrphanForce::Kill => signal(orphan, Signal::KILL),
            }
        }
        left
    }

    /// The command has ended with all that it had started. Returns how many orphans outside of its group were told to end.
    pub(crate) fn on_end(&mut self) -> usize {
        self.is_over = true;
        self.asked.len()
    }
}

impl Drop for CommandMark {
    fn drop(&mut self) {
        if !self.is_over {
            // This is all that can be done without waiting: what comes later is nobody's, and ends with the next command.
            self.end_orphans(OrphanForce::Kill);
        }
        let mut family = family();
        family.living.remove(&self.number);
        if let Some(leader) = self.leader
            && family.started.remove(&leader)
        {
            family.dropped.insert(leader);
        }
    }
}

/// A process of this program's own, which is no orphan and is waited for where it was started.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct OwnProcess<C> {
    process: C,
    pid: Option<Pid>,
}

#[cfg(target_os = "linux")]
impl<C> OwnProcess<C> {
    /// Starts it.
    pub(crate) fn start(
        start: impl FnOnce() -> io::Result<C>,
        pid: impl FnOnce(&C) -> u32,
    ) -> io::Result<Self> {
        let mut family = family();
        let process = start()?;
        let pid = to_pid(pid(&process));
        family.started.extend(pid);
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
            family().started.remove(pid);
        }
    }
}

/// To whom an orphan belongs, for a command that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrphanOwner {
    /// To another command that is under way, perhaps, or to somebody else; or to the command's own group, which is ended
    /// as a whole.
    Living,
    /// To this command, or to one that is over.
    Ending,
    /// It bears no mark, and no command is under way that may have started it.
    Nobody,
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

    fn be_guarded(&mut self) {
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

    /// Returns the orphans that live, and lets go of those that have ended.
    fn orphans(&mut self) -> Vec<Pid> {
        let mut children = process_table::children();
        if !self.dropped.is_empty() {
            self.dropped.retain(|pid| children.contains(pid));
        }
        children.retain(|pid| !self.started.contains(pid) && !self.dropped.contains(pid));
        // Waited for by its number: a child that was started here is never taken from who waits for it.
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

    /// Programs start others with an environment of their own choice, `sudo` and `env -i` among them: such an orphan is
    /// left alone as long as a job or a command goes on that may have started it. The last of these ends it.
    fn owner_of_unmarked(&mut self, orphan: Pid) -> OrphanOwner {
        let last = *self.unmarked.entry(orphan).or_insert(self.commands);
        let mut living = self.living.iter();
        let is_anothers = living.any(|(number, command)| *number <= last && !command.is_ending);
        if self.has_strangers || is_anothers { OrphanOwner::Living } else { OrphanOwner::Nobody }
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn family() -> MutexGuard<'static, ChildProcesses> {
    let family = FAMILY.get_or_init(|| Mutex::new(ChildProcesses::new()));
    family.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal to an orphan and, if it leads a group, to all of that.
fn signal(orphan: Pid, signal: Signal) {
    // An error means that it is gone, or that it is somebody else's by now: then there is nothing to be done.
    if getpgid(Some(orphan)) == Ok(orphan) {
        let _ = kill_process_group(orphan, signal);
    } else {
        let _ = kill_process(orphan, signal);
    }
}
