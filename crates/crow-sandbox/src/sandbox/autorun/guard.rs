//! Guard of a session: prevents commands from leaving behind files that start programs of the user later.
//!
//! # How it holds
//!
//! 1. Before a command starts, the inventory lists every path that could start programs. With namespaces,
//!    all of these that exist are mounted read-only for the command, and directories of repositories cannot
//!    be renamed.
//! 2. A mount protects a file, not its name. If the user, or an allowed tool, replaces the file by a
//!    rename, the name is no longer protected. And paths that do not exist yet cannot be mounted at all. So
//!    the inventory is taken again after the command, and at intervals while it runs; differences are
//!    judged (`inventory_diff.rs`) and put back or moved aside.
//! 3. Changes by the user between two commands become the new baseline. Changes by an allowed tool while a
//!    command runs are adopted. Changes by the user while a command runs stay if the command cannot have
//!    made them: because it only reads, because the kernel sealed the file, or because the change starts
//!    nothing. Otherwise the file is moved aside, and the user is told where.
//!
//! All commands of a session, jobs included, share one guard and one baseline.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use crow_core::{
    capability::{OriginalState, QuarantinedFile},
    file_views::{ContentHash, WrittenContent},
    workspace::PROTECTED,
};
use crow_fs::{Directory, EntryKind, EntryMetadata, FileIdentity, RenameMode};

use super::{
    entry_state::{EntryState, FileContent, StateReader, is_absence},
    inventory::{Inventory, InventoryEntry, InventoryRole, InventoryScope, SealedPaths},
    inventory_diff::{AttributableChanges, Judge, Rebases},
    journal::{GuardJournal, Heartbeat, StoredBaseline, baselines_beside, renew_sign_of_life},
    nested_repositories::Moment,
    quarantine::{Quarantine, restore},
    repair::repair,
};
use crate::sandbox::CommandKind;

/// Names in a git directory that must not be created.
const GIT_FILES: [&str; 5] = ["config", "config.worktree", "hooks", "commondir", "gitdir"];
/// Maximum size in bytes of a file whose content is compared with what a tool wrote.
const MAX_HASHED: u64 = 256 << 20;
/// Maximum number of unreported findings.
const MAX_UNREPORTED: usize = 64;

/// Whether the kernel prevents commands from changing paths of the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sandbox) enum KernelSeal {
    /// By read-only mounts.
    Mounts,
    /// Not at all.
    Missing,
}

/// Guards the commands of a session.
#[derive(Debug)]
pub(in crate::sandbox) struct AutorunGuard {
    scope: InventoryScope,
    seal: KernelSeal,
    quarantine: Quarantine,
    state: Mutex<GuardState>,
    /// Folder of the marker file that shows that the program is alive.
    marker_folder: Option<PathBuf>,
    heartbeat: Mutex<Option<Heartbeat>>,
}

#[derive(Debug, Default)]
struct GuardState {
    reader: StateReader,
    /// Inventory as it should be.
    baseline: Inventory,
    /// Repositories outside of the workspace that commits went to before the first command: a command that
    /// removes the project's repository does not get access to the one around it.
    outside: Option<Vec<PathBuf>>,
    running: BTreeMap<u64, RunningCommand>,
    /// Seals of the last command: most paths are the same for the next one.
    last_seals: BTreeMap<PathBuf, Arc<RunSeal>>,
    started: u64,
    /// Findings while commands ran whose result was not awaited.
    pending: Vec<QuarantinedFile>,
    /// Findings not yet reported to the user.
    unreported: Vec<QuarantinedFile>,
    journal: Option<GuardJournal>,
}

/// A running command.
#[derive(Debug)]
struct RunningCommand {
    /// Command line as shown to the user.
    line: String,
    kind: CommandKind,
    /// Seals that the kernel holds for it.
    seals: BTreeMap<PathBuf, Arc<RunSeal>>,
    /// Findings while it ran.
    found: Vec<QuarantinedFile>,
}

/// A file or directory that a tool wrote with permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    pub path: PathBuf,
    /// The content that the tool wrote, if it says so: then any other content is of somebody else.
    pub content: Option<WrittenContent>,
}

impl WrittenFile {
    /// Returns true if the tool made the present state of a path; none if nothing is there.
    fn covers(&self, path: &Path, state: Option<&EntryState>) -> bool {
        let Some(written) = &self.content else { return path.starts_with(&self.path) };
        let is_written = |bytes: &[u8]| ContentHash::of_content(bytes) == written.hash;
        path == self.path
            && match state {
                Some(EntryState::File { content: FileContent::Whole(bytes), .. }) => {
                    is_written(bytes)
                }
                // Too long to be kept; the state has its time of change, which a later change does not have.
                Some(EntryState::File { content: FileContent::NotKept { .. }, .. }) => {
                    let file = crow_fs::open_file(path);
                    let bytes = file.and_then(|file| crow_fs::read_file(file, MAX_HASHED));
                    bytes.is_ok_and(|bytes| is_written(&bytes))
                }
                Some(
                    EntryState::Absent
                    | EntryState::Directory { .. }
                    | EntryState::Symlink { .. }
                    | EntryState::Special
                    | EntryState::Unreadable,
                )
                | None => false,
            }
    }

    /// Returns false if the tool built on something that a command had written to the file.
    fn is_built_on(&self, baseline: &Inventory) -> bool {
        let written = self.content.as_ref();
        let Some(former) = written.and_then(|written| written.built_on.as_ref()) else {
            return true;
        };
        match baseline.entries.get(&self.path).map(|entry| &entry.state) {
            Some(EntryState::File { content: FileContent::Whole(bytes), .. }) => {
                ContentHash::of_content(bytes) == *former
            }
            Some(EntryState::File { content: FileContent::NotKept { .. }, .. }) => true,
            // Nothing is known of what is in a sealed directory, where no command can have written.
            _ => self
                .path
                .ancestors()
                .skip(1)
                .any(|above| baseline.entries.get(above).is_some_and(|entry| entry.is_shallow)),
        }
    }
}

/// Requirements for the mounts of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::sandbox) struct SealedMounts {
    /// Paths that must not change, including everything below.
    pub read_only: Vec<PathBuf>,
    /// Directories whose contents may change, but that must not be renamed or removed.
    pub pinned: Vec<PathBuf>,
    /// Git directories outside of the workspace that commits go to.
    pub external_git_directories: Vec<PathBuf>,
    /// Paths that must not appear, and links that must not be replaced: mounts cannot protect these.
    pub absent: Vec<PathBuf>,
}

impl GuardState {
    /// Returns the seals of paths. A seal of the last command is used again if the baseline still has the same inode at
    /// its path.
    fn seals_of(&mut self, paths: &[PathBuf]) -> BTreeMap<PathBuf, Arc<RunSeal>> {
        let seals = paths.iter().filter_map(|path| {
            let identity = self.baseline.entries.get(path)?.identity?;
            let known = self.last_seals.get(path).filter(|seal| seal.identity == identity);
            let seal = match known {
                Some(seal) => Arc::clone(seal),
                None => Arc::new(RunSeal::new(path, identity)?),
            };
            Some((path.clone(), seal))
        });
        self.last_seals = seals.collect();
        self.last_seals.clone()
    }
}

impl RunSeal {
    fn new(path: &Path, identity: FileIdentity) -> Option<Self> {
        let file = crow_fs::open_without_reading(path).ok()?;
        let is_same = EntryMetadata::of_file(&file).ok()?.identity == identity;
        is_same.then_some(Self { identity, _held: file })
    }
}

impl SealedMounts {
    /// Makes repositories read-only as a whole.
    fn seal_repositories(&mut self) {
        self.read_only.append(&mut self.pinned);
    }
}

/// Token of a command that runs under the guard.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct GuardedRun(u64);

/// Seal of one path for one command.
#[derive(Debug)]
struct RunSeal {
    identity: FileIdentity,
    /// Open descriptor, so that the inode number is not reused.
    _held: File,
}

struct KernelSealedPaths<'a> {
    seal: KernelSeal,
    roots: &'a [PathBuf],
    running: &'a BTreeMap<u64, RunningCommand>,
}

impl KernelSealedPaths<'_> {
    /// Returns true if each running command has a seal on the file at `path`.
    fn has(&self, path: &Path, identity: FileIdentity) -> bool {
        // In deeper directories a command could rename a parent and create another one in its place.
        let cannot_be_renamed = path.parent().is_some_and(|above| {
            self.roots.iter().any(|root| above == root || above == root.join(".git"))
        });
        self.seal == KernelSeal::Mounts
            && cannot_be_renamed
            && self.running.values().all(|command| {
                command.seals.get(path).is_some_and(|seal| seal.identity == identity)
            })
    }
}

impl SealedPaths for KernelSealedPaths<'_> {
    fn is_sealed(&self, path: &Path, identity: FileIdentity) -> bool {
        self.has(path, identity)
    }

    fn is_unchangeable(&self, path: &Path) -> bool {
        let found = crow_fs::metadata(path);
        if found.is_ok_and(|found| found.kind == EntryKind::File && found.links > 1) {
            return false;
        }
        // A sealed directory also prevents new entries in it.
        path.ancestors().any(|above| {
            crow_fs::metadata(above).is_ok_and(|found| self.has(above, found.identity))
        })
    }
}

impl AutorunGuard {
    /// Creates a guard that moves files aside into `folder`.
    pub(crate) fn new(scope: InventoryScope, seal: KernelSeal, folder: PathBuf) -> Self {
        let quarantine = Quarantine::new(folder);
        Self {
            scope,
            seal,
            quarantine,
            state: Mutex::default(),
            marker_folder: None,
            heartbeat: Mutex::default(),
        }
    }

    /// Also stores the state in files of a folder, for [`recover`](super::recover).
    #[must_use]
    pub(in crate::sandbox) fn with_journal(self, folder: PathBuf) -> Self {
        self.state().journal = Some(GuardJournal::new(folder.clone()));
        Self { marker_folder: Some(folder), ..self }
    }

    /// Returns the mount requirements for a command that cannot change the workspace. Blocks while it takes
    /// the inventory.
    pub(in crate::sandbox) fn read_only_mounts(&self) -> SealedMounts {
        let mut state = self.state();
        if state.running.is_empty() {
            self.adopt_all(&mut state);
        }
        mounts(&self.scope, &state.baseline)
    }

    /// Starts guarding a command that may change the workspace; `line` is its text for the user. For
    /// background jobs, next to which the user works for hours, repositories are read-only as a whole.
    /// Blocks while it takes the inventory.
    pub(in crate::sandbox) fn begin(
        &self,
        line: &str,
        kind: CommandKind,
    ) -> (GuardedRun, SealedMounts) {
        let mut state = self.state();
        if state.running.is_empty() {
            state.reader.look_for_repositories(&self.scope, Moment::Between);
            // Before and after the inventory: in between, another session may start a command, or
            // repair the last changes of one and end it.
            let mut others = self.baselines_of_others();
            self.adopt_all(&mut state);
            others.extend(self.baselines_of_others());
            self.leave_out_changes_of_others(&mut state.baseline, &others);
        } else {
            self.repair(&mut state);
        }
        let mut mounts = mounts(&self.scope, &state.baseline);
        if kind == CommandKind::Background {
            mounts.read_only.extend(state.baseline.job_seals.iter().cloned());
            mounts.seal_repositories();
        }
        let seals = state.seals_of(&mounts.read_only);
        state.started += 1;
        let number = state.started;
        let command = RunningCommand { line: line.to_owned(), kind, seals, found: Vec::new() };
        state.running.insert(number, command);
        let GuardState { journal, baseline, .. } = &mut *state;
        if let Some(journal) = journal {
            journal.on_begin(&self.scope, baseline);
        }
        (GuardedRun(number), mounts)
    }

    /// Checks while a command runs, unless another check is in progress, and returns the findings. Blocks
    /// while it takes the inventory.
    pub(in crate::sandbox) fn check(&self) -> Vec<QuarantinedFile> {
        // A check may take long; without these the next start of the program could take it for dead.
        if let Some(folder) = &self.marker_folder {
            renew_sign_of_life(folder);
            self.start_heartbeat(folder);
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        if state.running.is_empty() {
            return Vec::new();
        }
        self.repair_at(&mut state, Moment::During)
    }

    /// Checks a last time after a command, and returns what was moved aside or put back while it ran.
    /// Blocks while it takes the inventory.
    #[expect(clippy::needless_pass_by_value, reason = "a run ends once")]
    pub(crate) fn end(&self, run: GuardedRun) -> Vec<QuarantinedFile> {
        let mut state = self.state();
        let runs_on = |(number, command): (&u64, &RunningCommand)| {
            *number != run.0 && command.kind == CommandKind::Foreground
        };
        let rebases = Rebases::of(state.running.iter().any(runs_on));
        self.repair_all(&mut state, Moment::After, rebases);
        let mut found = std::mem::take(&mut state.pending);
        found.extend(state.running.remove(&run.0).map(|command| command.found).unwrap_or_default());
        if let Some(journal) = state.journal.as_ref().filter(|_| state.running.is_empty()) {
            journal.on_end();
            drop(self.heartbeat().take());
        }
        found
    }

    /// Starts the heartbeat of a command that runs for a while, unless it has begun.
    fn start_heartbeat(&self, folder: &Path) {
        let mut heartbeat = self.heartbeat();
        if heartbeat.is_none() {
            match Heartbeat::start(folder.to_owned()) {
                Ok(started) => *heartbeat = Some(started),
                Err(error) => tracing::debug!(%error, "signs of life are left by checks alone"),
            }
        }
    }

    fn heartbeat(&self) -> MutexGuard<'_, Option<Heartbeat>> {
        self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts back what running commands have changed so far, so that a permitted change does not build on it. Blocks
    /// while it takes the inventory.
    pub(crate) fn prepare_change(&self) {
        let mut state = self.state();
        if !state.running.is_empty() {
            self.repair(&mut state);
        }
    }

    /// Accepts what a tool wrote with permission. What a command wrote to the same file meanwhile is not accepted,
    /// and put back by the next check. Blocks while it takes the inventory.
    pub(crate) fn adopt(&self, written: &[WrittenFile]) {
        let mut state = self.state();
        let written: Vec<_> =
            written.iter().filter(|written| written.is_built_on(&state.baseline)).collect();
        self.adopt_in(&mut state, |path, entry| {
            written.iter().any(|written| written.covers(path, entry.map(|entry| &entry.state)))
        });
    }

    /// Runs a change that the user asked for while the guard is locked, and accepts the present state of
    /// the paths that `changed` returns. Blocks until it is done.
    pub(crate) fn run_user_change<T>(
        &self,
        change: impl FnOnce() -> T,
        changed: impl FnOnce(&T) -> Vec<PathBuf>,
    ) -> T {
        let mut state = self.state();
        if !state.running.is_empty() {
            // Earlier changes by commands must not be accepted along with it.
            self.repair(&mut state);
        }
        let result = change();
        let mut paths = changed(&result);
        let is_gone =
            |path: &&Path| matches!(crow_fs::metadata(path), Err(error) if is_absence(&error));
        let mut gone: Vec<PathBuf> = paths
            .iter()
            .flat_map(|path| path.ancestors().skip(1).take_while(is_gone).map(Path::to_owned))
            .collect();
        paths.append(&mut gone);
        self.adopt_in(&mut state, |path, _| paths.iter().any(|changed| path.starts_with(changed)));
        result
    }

    /// Takes the present entries of paths over into the baseline. `is_adopted` tells for a path and its present entry,
    /// if it has one, whether to do so.
    fn adopt_in(
        &self,
        state: &mut GuardState,
        is_adopted: impl Fn(&Path, Option<&InventoryEntry>) -> bool,
    ) {
        if state.running.is_empty() {
            return;
        }
        state.reader.look_for_repositories(&self.scope, Moment::After);
        let now = self.collect(state);
        // New files that changed git settings lead to are part of what was permitted.
        let leads_on = now.entries.iter().any(|(path, entry)| {
            is_adopted(path, Some(entry))
                && matches!(
                    entry.role,
                    InventoryRole::GitSettings
                        | InventoryRole::GitRedirect
                        | InventoryRole::GitEntrance
                )
        });
        // New files within directories that are already guarded are not adopted.
        let known = &state.baseline.entries;
        let is_child_of_known =
            |path: &Path| path.ancestors().skip(1).any(|above| known.contains_key(above));
        let adopted: Vec<_> = now
            .entries
            .iter()
            .filter(|(path, entry)| {
                is_adopted(path, Some(*entry))
                    || leads_on && !known.contains_key(*path) && !is_child_of_known(path)
            })
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect();
        let GuardState { baseline, journal, .. } = state;
        baseline.entries.retain(|path, _| !is_adopted(path, now.entries.get(path)));
        baseline.entries.extend(adopted);
        if let Some(journal) = journal {
            journal.store(&self.scope, baseline);
        }
    }

    /// Returns the findings since the last call.
    pub(crate) fn take_unreported(&self) -> Vec<QuarantinedFile> {
        std::mem::take(&mut self.state().unreported)
    }

    /// Stores findings for the next command that ends.
    pub(in crate::sandbox) fn report_later(&self, found: Vec<QuarantinedFile>) {
        self.state().pending.extend(found);
    }

    fn adopt_all(&self, state: &mut GuardState) {
        state.baseline = self.collect(state);
        let found = &state.baseline.external_git_directories;
        let known = state.outside.get_or_insert_with(|| found.clone());
        state.baseline.external_git_directories.retain(|path| known.contains(path));
        if state.baseline.is_cut {
            tracing::warn!(
                "not all files that could start programs are checked: there are too many"
            );
        }
    }

    /// Returns what other sessions have stored, in which commands run.
    fn baselines_of_others(&self) -> Vec<StoredBaseline> {
        self.marker_folder.as_deref().map(baselines_beside).unwrap_or_default()
    }

    /// Takes what commands of other sessions have changed so far out of the baseline: those sessions put it back, and
    /// this one must not bring it back then. That includes files that are missing now: a command may have removed them,
    /// or the other session is putting them back at this moment.
    fn leave_out_changes_of_others(&self, baseline: &mut Inventory, others: &[StoredBaseline]) {
        for other in others {
            let covers = |path: &Path| other.scope.roots.iter().any(|root| path.starts_with(root));
            baseline
                .entries
                .retain(|path, _| !covers(path) || other.before.entries.contains_key(path));
            // The kernel seals existing files, so what differs there is no change by a command.
            if self.seal == KernelSeal::Mounts {
                continue;
            }
            for (path, before) in &other.before.entries {
                let is_own = || self.scope.roots.iter().any(|root| path.starts_with(root));
                let differs = match baseline.entries.get(path) {
                    Some(entry) => entry.state != before.state,
                    None => is_own(),
                };
                if differs {
                    baseline.entries.insert(path.clone(), before.clone());
                }
            }
        }
    }

    fn collect(&self, state: &mut GuardState) -> Inventory {
        let seals = KernelSealedPaths {
            seal: self.seal,
            roots: &self.scope.roots,
            running: &state.running,
        };
        Inventory::collect(&self.scope, &mut state.reader, &seals)
    }

    /// Moves a file that was moved aside back to its place: the user made it. What is at that place is
    /// exchanged with it. Fails with [`io::ErrorKind::AlreadyExists`] if the place has changed since.
    /// Blocks while it takes the inventory.
    pub(crate) fn restore_quarantined(&self, aside: &QuarantinedFile) -> io::Result<()> {
        let kept = aside.moved_to.as_deref().filter(|kept| self.quarantine.contains(kept));
        let kept = kept.ok_or(io::ErrorKind::Unsupported)?;
        let mut state = self.state();
        if !state.running.is_empty() {
            self.repair(&mut state);
        }
        let path = aside.path.as_path();
        let (directory, name) = Directory::open_parent(path)?;
        let found = state.reader.observe(&directory, &name, path).state;
        let as_left = state.baseline.entries.get(path).map(|entry| &entry.state);
        let mode = match aside.original {
            _ if found == EntryState::Absent => RenameMode::Keep,
            OriginalState::Restored | OriginalState::Disarmed if as_left == Some(&found) => {
                RenameMode::Exchange
            }
            OriginalState::Restored
            | OriginalState::Disarmed
            | OriginalState::Absent
            | OriginalState::Lost => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
        };
        restore(kept, path, mode)?;
        self.adopt_in(&mut state, |path, _| path.starts_with(&aside.path));
        Ok(())
    }

    /// Returns true if a file that was moved aside can be moved back.
    pub(crate) fn can_bring_back(&self, aside: &QuarantinedFile) -> bool {
        aside.moved_to.as_deref().is_some_and(|kept| self.quarantine.contains(kept))
    }

    /// Puts back and moves aside until no difference can start a program any more.
    fn repair(&self, state: &mut GuardState) -> Vec<QuarantinedFile> {
        self.repair_at(state, Moment::After)
    }

    fn repair_at(&self, state: &mut GuardState, moment: Moment) -> Vec<QuarantinedFile> {
        let mut running = state.running.values();
        let may_rebase = running.any(|command| command.kind == CommandKind::Foreground);
        self.repair_all(state, moment, Rebases::of(may_rebase))
    }

    fn repair_all(
        &self,
        state: &mut GuardState,
        moment: Moment,
        rebases: Rebases,
    ) -> Vec<QuarantinedFile> {
        state.reader.look_for_repositories(&self.scope, moment);
        let seals = KernelSealedPaths {
            seal: self.seal,
            roots: &self.scope.roots,
            running: &state.running,
        };
        let GuardState { reader, baseline, .. } = state;
        let judge = Judge { blame: AttributableChanges::NotSealed(&seals), rebases };
        let mut found = repair(&self.scope, reader, &seals, baseline, &self.quarantine, &judge);
        let during: Vec<String> =
            state.running.values().map(|command| command.line.clone()).collect();
        for found in &mut found {
            found.running_commands.clone_from(&during);
        }
        for command in state.running.values_mut() {
            let room = MAX_UNREPORTED.saturating_sub(command.found.len());
            command.found.extend(found.iter().take(room).cloned());
        }
        if let Some(journal) = &mut state.journal {
            journal.store(&self.scope, &state.baseline);
        }
        let room = MAX_UNREPORTED.saturating_sub(state.unreported.len());
        state.unreported.extend(found.iter().take(room).cloned());
        found
    }

    fn state(&self) -> MutexGuard<'_, GuardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns those of the paths that will start programs once a tool has written all of them: because something leads to
/// them, or because they are part of a repository. Blocks while it takes the inventory.
pub(crate) fn autorun_paths(
    scope: &InventoryScope,
    reader: &mut StateReader,
    paths: &[PathBuf],
) -> Vec<PathBuf> {
    reader.look_for_repositories(scope, Moment::Between);
    let found = Inventory::collect_with_writes(scope, reader, paths);
    let leads_to = |path: &Path| {
        found.absent_files.contains(path)
            || path.ancestors().any(|above| {
                found.seals.contains(above)
                    || found.job_seals.contains(above)
                    || found.absent.contains(above)
            })
    };
    paths.iter().filter(|path| leads_to(path)).cloned().collect()
}

fn mounts(scope: &InventoryScope, inventory: &Inventory) -> SealedMounts {
    let links = inventory
        .entries
        .iter()
        .filter(|(_, entry)| matches!(entry.state, EntryState::Symlink { .. }));
    let mut absent: Vec<_> = links.map(|(path, _)| path.clone()).collect();
    // Mounts protect only existing paths; path rules (macOS) protect missing ones, too. Creating a new
    // repository is allowed, and it is checked afterwards.
    if cfg!(any(not(target_os = "linux"), test)) {
        let names =
            scope.roots.iter().flat_map(|root| PROTECTED.iter().map(|name| root.join(name)));
        let is_absent =
            |path: &PathBuf| !inventory.entries.contains_key(path) && !scope.is_unprotected(path);
        absent.extend(names.filter(is_absent));
        let of_git = inventory.pins.iter().flat_map(|git| GIT_FILES.map(|name| git.join(name)));
        absent.extend(of_git.filter(is_absent));
    }
    SealedMounts {
        read_only: inventory.seals.iter().cloned().collect(),
        pinned: inventory.pins.iter().cloned().collect(),
        external_git_directories: inventory.external_git_directories.clone(),
        absent,
    }
}
