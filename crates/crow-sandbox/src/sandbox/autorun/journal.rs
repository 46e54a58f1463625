//! Stores the guard's state in files. If a session is killed while a command runs, the next session finds
//! from them what the command left behind.
//!
//! Next to the state there is a marker file while a command runs. Its modification time is renewed at
//! intervals, so it shows when the program was alive last. Files that changed later were most likely not
//! changed by a command, since commands end with the program: they stay. But a program may have been
//! stopped for a while before it was killed, so they are named to the user.
//!
//! Roots may have been moved before the next session starts. They are looked for around its own roots; what was
//! stored for those that are not found is kept for a month, in a folder of its own beside the session's.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use crow_core::capability::QuarantinedFile;
use crow_fs::{
    FileLock,
    change_time::{nanoseconds, since_1970},
};
use serde::{Deserialize, Serialize};

use super::{
    entry_state::{EntryState, FileContent, StateReader},
    inventory::{Inventory, InventoryEntry, InventoryRole, InventoryScope, NothingSealed},
    inventory_diff::{AttributableChanges, Judge, Rebases},
    moved_roots::{RootIdentity, RootPlaces},
    nested_repositories::Moment,
    quarantine::Quarantine,
    repair::repair,
};
use crate::sandbox::config::UserGit;

const STATE: &str = "autorun.json";
const RUNNING: &str = "autorun.running";
const HELD: &str = "held";
/// File that a process locks while it uses the folder.
pub(in crate::sandbox) const LOCK: &str = "lock";
const VERSION: u32 = 1;
/// Maximum size of the state file in bytes: up to 16 MiB of contents are kept, in two hexadecimal digits
/// per byte.
const STATE_BYTES: u64 = 64 << 20;
/// Time in nanoseconds for which commands may continue after the program's last sign of life: the interval
/// between two signs, and the time to end the commands.
const AFTERLIFE: i64 = SECOND;
const SECOND: i64 = 1_000_000_000;
/// Time in nanoseconds for which the state of roots that were not found is kept.
const FORGOTTEN_AFTER: i64 = 30 * 24 * 3600 * SECOND;
/// Number of states that are kept for one session.
const KEPT_STATES: u32 = 16;
/// Time between two signs of life.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// Stores the guard's state in the private folder of its session.
#[derive(Debug)]
pub(super) struct GuardJournal {
    folder: PathBuf,
    stored: Option<Inventory>,
}

#[derive(Serialize, Deserialize)]
struct StoredGuard {
    version: u32,
    roots: Vec<String>,
    writable: Vec<String>,
    unprotected: Vec<String>,
    protected: Vec<String>,
    #[serde(default)]
    links: Vec<String>,
    #[serde(default)]
    home: Option<String>,
    #[serde(default)]
    git_settings: Vec<String>,
    entries: Vec<StoredEntry>,
    /// Identities of the roots, in their order.
    #[serde(default)]
    identities: Vec<Option<RootIdentity>>,
    /// Set once a recovery looked for the roots and did not find them: the time until which commands may have
    /// changed files.
    #[serde(default)]
    alive_until: Option<i64>,
}

/// State that a session has stored: what was there before the commands that run, or ran when it was killed.
pub(super) struct StoredBaseline {
    pub scope: InventoryScope,
    pub before: Inventory,
    identities: Vec<Option<RootIdentity>>,
    alive_until: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    path: String,
    role: InventoryRole,
    state: StoredState,
    entrance: Option<String>,
    leads_outside: bool,
    is_shallow: bool,
}

/// State of an entry. Bytes and paths are written as hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Absent,
    File { mode: u32, content: String },
    LongFile { mode: u32, size: u64, changed: (i64, i64) },
    Directory { mode: u32 },
    Symlink { target: String },
    Special,
    Unreadable,
}

impl GuardJournal {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, stored: None }
    }

    /// Stores the baseline and the marker of a running command.
    pub(super) fn on_begin(&mut self, scope: &InventoryScope, baseline: &Inventory) {
        self.store(scope, baseline);
        self.on_sign_of_life();
    }

    /// Stores the baseline, if it has changed.
    pub(super) fn store(&mut self, scope: &InventoryScope, baseline: &Inventory) {
        if self.stored.as_ref().is_some_and(|stored| stored.entries == baseline.entries) {
            return;
        }
        let identities = scope.roots.iter().map(|root| RootIdentity::of(root)).collect();
        match write(&self.folder, scope, baseline, identities, None) {
            Ok(()) => self.stored = Some(baseline.clone()),
            Err(error) => tracing::warn!(%error, "what a killed command leaves will not be found"),
        }
    }

    /// Creates or renews the marker.
    pub(super) fn on_sign_of_life(&self) {
        let marker = self.folder.join(RUNNING);
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(marker);
        let noted = opened.and_then(|file| file.set_modified(SystemTime::now()));
        if let Err(error) = noted {
            tracing::debug!(%error, "a sign of life cannot be left");
        }
    }

    /// Removes the marker: no command runs any more.
    pub(super) fn on_end(&self) {
        if let Err(error) = fs::remove_file(self.folder.join(RUNNING)) {
            tracing::debug!(%error, "the marker of running commands stays");
        }
    }
}

/// Renews the marker on a thread of its own, since a check of very many files takes longer than commands may continue
/// after the last sign of life. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// Dropped to end the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub(super) fn start(folder: PathBuf) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let beat = move || {
            while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                renew_sign_of_life(&folder);
            }
        };
        let thread = thread::Builder::new().name("crow-heartbeat".to_owned()).spawn(beat)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did, the marker would merely not be renewed.
            drop(thread.join());
        }
    }
}

/// Result of a recovery.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// What was put back or moved aside.
    pub repaired: Vec<QuarantinedFile>,
    /// Paths that start programs and that changed after the last sign of life of a killed session: by the user, as a
    /// rule. They were left as they are.
    pub changed_later: Vec<PathBuf>,
    /// Roots of killed sessions that were moved, removed or replaced. A session that starts in one of them at its new
    /// place repairs it.
    pub not_found: Vec<PathBuf>,
}

/// Renews the marker, if there is one. Does not block.
pub(super) fn renew_sign_of_life(folder: &Path) {
    if let Ok(marker) = OpenOptions::new().write(true).open(folder.join(RUNNING)) {
        let renewed = marker.set_modified(SystemTime::now());
        renewed.unwrap_or_else(|error| tracing::debug!(%error, "a sign of life cannot be left"));
    }
}

/// Returns true if the session of this private folder was killed while a command ran, or is still running
/// one.
pub(in crate::sandbox) fn is_recoverable(folder: &Path) -> bool {
    folder.join(RUNNING).exists()
}

/// Puts back and moves aside what a session that was killed during a command left behind. `folder` is its
/// private folder, which no other process may use now. Roots that were moved are looked for around `near`, the
/// roots of the session that starts. Blocks while it takes the inventory.
pub(crate) fn recover(folder: &Path, near: &[PathBuf]) -> RecoveryReport {
    let Ok(marker) = fs::symlink_metadata(folder.join(RUNNING)) else {
        return RecoveryReport::default();
    };
    let killed = match read(&folder.join(STATE)) {
        Ok(killed) => killed,
        Err(error) => {
            tracing::warn!(%error, "what a killed command left is not known");
            remove_state(folder);
            return RecoveryReport::default();
        }
    };
    // 1) Where the roots are now.
    let is_first = killed.alive_until.is_none();
    let alive_until = killed
        .alive_until
        .unwrap_or_else(|| alive_until(nanoseconds((marker.mtime(), marker.mtime_nsec()))));
    let identities = killed.identities.iter().copied().chain(std::iter::repeat(None));
    let roots = killed.scope.roots.iter().map(PathBuf::as_path).zip(identities);
    let places = RootPlaces::find(roots, near);
    // 2) The repair. At the former place of a root that was not found there may be another project.
    let mut report = RecoveryReport::default();
    if is_first || places.is_found() {
        let (scope, before) =
            places.apply(&killed.scope, &killed.before, |path| !places.is_unknown(path));
        report = repair_since(&Quarantine::new(folder.join(HELD)), &scope, &before, alive_until);
    }
    // 3) What a later session may find.
    let is_recent = since_1970(SystemTime::now()).saturating_sub(alive_until) < FORGOTTEN_AFTER;
    let unknown = places.unknown();
    if unknown.is_empty() || !is_recent {
        remove_state(folder);
    } else {
        if is_first {
            report.not_found = unknown;
        }
        if (is_first || places.is_found())
            && let Err(error) = keep(folder, &killed, &places, alive_until)
        {
            tracing::warn!(%error, "what a killed command left in a moved project will not be found");
        }
    }
    report
}

/// Repairs what changed until a time.
fn repair_since(
    quarantine: &Quarantine,
    scope: &InventoryScope,
    before: &Inventory,
    alive_until: i64,
) -> RecoveryReport {
    let mut baseline = before.clone();
    let judge = |until| Judge {
        blame: AttributableChanges::ChangedUntil(until),
        rebases: Rebases::HaveEnded,
    };
    let mut reader = StateReader::default();
    reader.look_for_repositories(scope, Moment::Recovery);
    let repaired =
        repair(scope, &mut reader, &NothingSealed, &mut baseline, quarantine, &judge(alive_until));
    // What differs still changed later.
    let left = judge(i64::MAX).judge(before, &baseline).repairs;
    let changed_later = left.iter().map(|repair| repair.path().to_owned()).collect();
    RecoveryReport { repaired, changed_later, not_found: Vec::new() }
}

/// Keeps the state of the roots that were not found for a later session. The session's own folder is used again when
/// it is resumed, so the state moves to a folder of its own.
fn keep(
    folder: &Path,
    killed: &StoredBaseline,
    places: &RootPlaces,
    alive_until: i64,
) -> io::Result<()> {
    let unknown = places.unknown();
    let (_, before) = places.apply(&killed.scope, &killed.before, |path| places.is_unknown(path));
    let scope = InventoryScope { roots: unknown, ..killed.scope.clone() };
    let identity = |root: &PathBuf| {
        let at = killed.scope.roots.iter().position(|known| known == root)?;
        killed.identities.get(at).copied().flatten()
    };
    let identities = scope.roots.iter().map(identity).collect();
    let is_kept = killed.alive_until.is_some();
    if is_kept {
        return write(folder, &scope, &before, identities, Some(alive_until));
    }
    let (new, _lock) = new_folder_beside(folder)?;
    write(&new, &scope, &before, identities, Some(alive_until))?;
    File::create_new(new.join(RUNNING))?;
    remove_state(folder);
    Ok(())
}

/// Creates a folder for a state that is kept, and locks it.
fn new_folder_beside(folder: &Path) -> io::Result<(PathBuf, FileLock)> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 1..=KEPT_STATES {
        let mut name = folder.file_name().unwrap_or_default().to_owned();
        name.push(format!(".moved-{number}"));
        let new = folder.with_file_name(name);
        match DirBuilder::new().mode(0o700).create(&new) {
            Ok(()) => {
                let lock = FileLock::exclusive(File::create_new(new.join(LOCK))?)?;
                return Ok((new, lock));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn remove_state(folder: &Path) {
    for name in [RUNNING, STATE] {
        drop(fs::remove_file(folder.join(name)));
    }
}

/// Returns the baselines of the other sessions of which a command runs now, or ran when they were killed. `folder` is the
/// private folder of the own session.
pub(super) fn baselines_beside(folder: &Path) -> Vec<StoredBaseline> {
    let entries = folder.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let others = entries.map(|entry| entry.path()).filter(|other| other != folder);
    let running = others.filter(|other| is_recoverable(other));
    let baselines = running.filter_map(|other| read(&other.join(STATE)).ok());
    // What is kept for a moved project is about no project that is in its place now.
    baselines.filter(|baseline| baseline.alive_until.is_none()).collect()
}

/// Returns the time until which commands may have changed files. Both times are in nanoseconds since 1970.
fn alive_until(marker: i64) -> i64 {
    let boot = booted_at().unwrap_or(0).saturating_mul(SECOND);
    // The marker's time may not have reached the disk before a power cut; then the boot time is used.
    if boot > marker { boot.saturating_add(SECOND) } else { marker.saturating_add(AFTERLIFE) }
}

fn booted_at() -> Option<i64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

fn write(
    folder: &Path,
    scope: &InventoryScope,
    baseline: &Inventory,
    identities: Vec<Option<RootIdentity>>,
    alive_until: Option<i64>,
) -> io::Result<()> {
    let stored = StoredGuard {
        version: VERSION,
        roots: scope.roots.iter().map(|path| hex_of_path(path)).collect(),
        writable: scope.writable.iter().map(|path| hex_of_path(path)).collect(),
        unprotected: scope.unprotected.iter().map(|path| hex_of_path(path)).collect(),
        protected: scope.protected.iter().map(|path| hex_of_path(path)).collect(),
        links: scope.links.iter().map(|path| hex_of_path(path)).collect(),
        home: scope.git.home.as_deref().map(hex_of_path),
        git_settings: scope.git.settings.iter().map(|path| hex_of_path(path)).collect(),
        entries: baseline
            .entries
            .iter()
            .map(|(path, entry)| StoredEntry::new(path, entry))
            .collect(),
        identities,
        alive_until,
    };
    let new = folder.join(format!("{STATE}.new"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(&stored)?)?;
    // A power cut must not leave an empty file under this name.
    file.sync_data()?;
    fs::rename(new, folder.join(STATE))
}

fn read(path: &Path) -> io::Result<StoredBaseline> {
    let bytes = crow_fs::read_file(File::open(path)?, STATE_BYTES)?;
    let stored: StoredGuard = serde_json::from_slice(&bytes)?;
    if stored.version != VERSION {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "written by another version"));
    }
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let paths = |all: &[String]| all.iter().map(|hex| path_of_hex(hex)).collect::<Option<Vec<_>>>();
    let scope = InventoryScope {
        roots: paths(&stored.roots).ok_or_else(broken)?,
        writable: paths(&stored.writable).ok_or_else(broken)?,
        unprotected: paths(&stored.unprotected).ok_or_else(broken)?,
        protected: paths(&stored.protected).ok_or_else(broken)?,
        links: paths(&stored.links).ok_or_else(broken)?,
        git: UserGit {
            home: stored.home.as_deref().and_then(path_of_hex),
            settings: paths(&stored.git_settings).ok_or_else(broken)?,
        },
    };
    let entries = stored.entries.into_iter().map(StoredEntry::into_entry);
    let entries = entries.collect::<Option<_>>().ok_or_else(broken)?;
    let before = Inventory { entries, ..Inventory::default() };
    let (identities, alive_until) = (stored.identities, stored.alive_until);
    Ok(StoredBaseline { scope, before, identities, alive_until })
}

impl StoredEntry {
    fn new(path: &Path, entry: &InventoryEntry) -> Self {
        let state = match &entry.state {
            EntryState::Absent => StoredState::Absent,
            EntryState::File { mode, content: FileContent::Whole(bytes) } => {
                StoredState::File { mode: *mode, content: hex(bytes) }
            }
            EntryState::File { mode, content: FileContent::NotKept { size, changed } } => {
                StoredState::LongFile { mode: *mode, size: *size, changed: *changed }
            }
            EntryState::Directory { mode } => StoredState::Directory { mode: *mode },
            EntryState::Symlink { target } => StoredState::Symlink { target: hex_of_path(target) },
            EntryState::Special => StoredState::Special,
            EntryState::Unreadable => StoredState::Unreadable,
        };
        Self {
            path: hex_of_path(path),
            role: entry.role,
            state,
            entrance: entry.entrance.as_deref().map(hex_of_path),
            leads_outside: entry.leads_outside,
            is_shallow: entry.is_shallow,
        }
    }

    fn into_entry(self) -> Option<(PathBuf, InventoryEntry)> {
        let state = match self.state {
            StoredState::Absent => EntryState::Absent,
            StoredState::File { mode, content } => EntryState::File {
                mode,
                content: FileContent::Whole(bytes_of_hex(&content)?.into()),
            },
            StoredState::LongFile { mode, size, changed } => {
                EntryState::File { mode, content: FileContent::NotKept { size, changed } }
            }
            StoredState::Directory { mode } => EntryState::Directory { mode },
            StoredState::Symlink { target } => {
                EntryState::Symlink { target: path_of_hex(&target)? }
            }
            StoredState::Special => EntryState::Special,
            StoredState::Unreadable => EntryState::Unreadable,
        };
        let entrance = match self.entrance {
            Some(hex) => Some(path_of_hex(&hex)?),
            None => None,
        };
        let entry = InventoryEntry {
            role: self.role,
            state,
            identity: None,
            entrance,
            leads_outside: self.leads_outside,
            is_shallow: self.is_shallow,
            is_cut: false,
        };
        Some((path_of_hex(&self.path)?, entry))
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('0', |digit| char::from(*digit));
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn hex_of_path(path: &Path) -> String {
    hex(path.as_os_str().as_bytes())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let (pairs, rest) = text.as_bytes().as_chunks();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn path_of_hex(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(bytes_of_hex(text)?)))
}
