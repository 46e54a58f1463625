//! What the calls of a run did, as far as it decides whether a claim of finished work holds.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    todo::{TodoItem, TodoStatus},
    tool_types::ToolStatus,
};

/// Maximum number of calls that evidence is looked for in.
const KEPT_CALLS: usize = 256;
/// Maximum number of changed files that are kept.
const KEPT_FILES: usize = 256;
/// Maximum number of todo items and files that a finding names.
const NAMED: usize = 3;
/// File extensions of code, which can be run, built or checked.
const CODE: [&str; 52] = [
    "bash", "c", "cc", "clj", "cmake", "cpp", "cs", "css", "cxx", "dart", "erl", "ex", "exs",
    "f90", "fs", "go", "gradle", "h", "hpp", "hs", "html", "java", "jl", "js", "jsx", "kt", "kts",
    "lua", "m", "mjs", "ml", "mm", "nim", "php", "pl", "ps1", "py", "r", "rb", "rs", "scala", "sh",
    "sql", "svelte", "swift", "tf", "ts", "tsx", "vb", "vue", "zig", "zsh",
];
/// Programs that only look, without options that write: their failure says that nothing was found.
const LOOKING_PROGRAMS: [&str; 46] = [
    "[", "awk", "basename", "cat", "cd", "cmp", "command", "cut", "date", "df", "diff", "dirname",
    "du", "echo", "egrep", "false", "fgrep", "file", "find", "free", "grep", "head", "id", "jq",
    "less", "ls", "nl", "printf", "ps", "pwd", "readlink", "rg", "sort", "stat", "tail", "test",
    "tr", "tree", "true", "type", "uname", "uniq", "wc", "which", "whoami", "xxd",
];
/// First or second words after a program with which it only looks (`aws s3 ls`, `gh run view`, `git log`).
const LOOKING_WORDS: [&str; 22] = [
    "--list",
    "--merged",
    "blame",
    "checks",
    "describe",
    "diff",
    "freeze",
    "grep",
    "images",
    "inspect",
    "list",
    "log",
    "logs",
    "ls",
    "ls-files",
    "metadata",
    "outdated",
    "ps",
    "rev-parse",
    "show",
    "status",
    "view",
];
/// Programs whose exit code says whether something was found.
const SEARCHES: [&str; 6] = ["ag", "egrep", "fgrep", "grep", "rg", "zgrep"];
/// Words that are all that a program is asked for.
const LOOKING_ALONE: [&str; 6] = ["--help", "--version", "-V", "-l", "-v", "version"];
/// Clients of databases, which look unless a statement writes.
const DATABASES: [&str; 4] = ["mariadb", "mysql", "psql", "sqlite3"];
/// Words of statements that write, or of input that is not seen here.
const WRITING_STATEMENTS: [&str; 16] = [
    "alter", "create", "delete", "drop", "grant", "import", "insert", "merge", "read", "replace",
    "truncate", "update", "vacuum", "<", " -f", "source",
];
/// Programs whose words are those of a script of the project or of a language.
const RUNNERS: [&str; 12] = [
    "bash", "bun", "just", "make", "node", "npx", "perl", "python", "python3", "ruby", "sh", "task",
];

/// The kind of a call, by what a failure of it means for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// It reads or searches.
    Look,
    /// It writes files.
    Write,
    /// It runs a command.
    Command,
    /// Any other call.
    Other,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkStatus {
    /// It succeeded.
    Succeeded,
    /// It ran and failed, or was invalid.
    Failed,
    /// The policy refused it.
    Refused,
    /// The user refused it, or it was cancelled.
    Declined,
}

impl WorkStatus {
    /// Returns the status of a call with this result.
    pub fn of(status: ToolStatus) -> Self {
        match status {
            ToolStatus::Success => Self::Succeeded,
            ToolStatus::Error => Self::Failed,
            ToolStatus::Cancelled => Self::Declined,
        }
    }
}

/// A call that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkCall {
    /// The command line, or the tool and the path that it is about.
    pub title: String,
    /// Its kind.
    pub kind: WorkKind,
    /// How it ended.
    pub status: WorkStatus,
    /// The files that it changed, within bounds.
    pub changed_files: Vec<PathBuf>,
    /// True if it changed files, also such that `changed_files` does not name.
    pub has_changed_files: bool,
}

/// A call of the session, as evidence.
#[derive(Debug, Clone)]
struct PastCall {
    title: String,
    has_succeeded: bool,
    is_command: bool,
    at: u64,
}

/// Records the calls of a session and of the agents that work for it, and what of them counts for the current run.
#[derive(Debug, Clone, Default)]
pub struct WorkRecord {
    /// Number of calls so far.
    now: u64,
    past_calls: VecDeque<PastCall>,
    last_change: Option<PastCall>,
    /// The command of the last accepted completion.
    evidence: Option<String>,
    run: CurrentRunWork,
}

/// What counts for the current run.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct CurrentRunWork {
    /// Number of calls that ran.
    calls: usize,
    changed_files: BTreeSet<PathBuf>,
    has_changed_files: bool,
    /// True if a command ran.
    has_run_commands: bool,
    /// True if a command ran that does more than to look.
    has_acted: bool,
    /// True if a call tried to write.
    has_written: bool,
    /// True if a command succeeded since the last change.
    has_run_since_change: bool,
    /// True if the last change came from a command, or a command or a tool of a server ran since.
    has_acted_since_change: bool,
    /// The last call that writes files, if it did not succeed.
    failed_write: Option<(String, WorkStatus)>,
    /// The last command, if the policy refused it and nothing was done since.
    refused_command: Option<String>,
    /// The last call that is more than a look, if it did not succeed.
    failed_call: Option<(String, WorkStatus)>,
    /// True if the policy refused a call.
    was_refused: bool,
    /// The checks that failed when they last ran.
    failed_checks: Vec<String>,
    are_findings_told: bool,
}

impl Default for CurrentRunWork {
    fn default() -> Self {
        Self {
            calls: 0,
            changed_files: BTreeSet::new(),
            has_changed_files: false,
            has_run_commands: false,
            has_acted: false,
            has_written: false,
            has_run_since_change: true,
            has_acted_since_change: true,
            failed_write: None,
            refused_command: None,
            failed_call: None,
            was_refused: false,
            failed_checks: Vec::new(),
            are_findings_told: false,
        }
    }
}

/// A fact of the record that contradicts the claim that the work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contradiction {
    /// The command that is named as evidence never ran.
    EvidenceNeverRan {
        /// The command.
        command: String,
    },
    /// The evidence failed.
    EvidenceFailed {
        /// The command as it ran.
        command: String,
    },
    /// The evidence ran before the last change.
    EvidenceStale {
        /// The command as it ran.
        command: String,
        /// The call that changed files after it.
        change: String,
    },
    /// Checks failed when they last ran.
    ChecksFailed {
        /// Their names.
        names: Vec<String>,
    },
    /// The last write was refused by the policy, and none succeeded since.
    WriteRefused {
        /// The call.
        call: String,
    },
    /// The last write failed, and none succeeded since.
    WriteFailed {
        /// The call.
        call: String,
    },
    /// A command was refused, and nothing else was done.
    CommandRefused {
        /// The command.
        command: String,
    },
    /// A check is said to have succeeded, but the last command failed.
    CheckFailed {
        /// The command.
        command: String,
    },
    /// A check is said to have succeeded, but no command ran after the last change.
    CheckNeverRan {
        /// The call that changed files last.
        change: String,
    },
    /// The work is said to be done, but the last command failed.
    CommandFailed {
        /// The command.
        command: String,
    },
    /// No call ran, and so nothing was done.
    NothingDone,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EvidenceNeverRan { command } => {
                write!(f, "`{command}` is named as evidence, but it never ran")
            }
            Self::EvidenceFailed { command } => {
                write!(f, "`{command}` is named as evidence, but it failed when it last ran")
            }
            Self::EvidenceStale { command, change } => write!(
                f,
                "`{command}` is named as evidence, but it ran before the last change ({change})"
            ),
            Self::ChecksFailed { names } => {
                write!(f, "checks failed when they last ran: {}", names.join(", "))
            }
            Self::WriteRefused { call } => {
                write!(f, "the last write ({call}) was not permitted, and none succeeded after it")
            }
            Self::WriteFailed { call } => {
                write!(f, "the last write ({call}) failed, and none succeeded after it")
            }
            Self::CommandRefused { command } => {
                write!(f, "`{command}` was not permitted, and nothing was done after it")
            }
            Self::CheckFailed { command } => {
                write!(
                    f,
                    "it says that a check succeeded, but the last command (`{command}`) failed"
                )
            }
            Self::CheckNeverRan { change } => write!(
                f,
                "it says that a check succeeded, but no command ran after the last change ({change})"
            ),
            Self::CommandFailed { command } => {
                write!(
                    f,
                    "it says that the work is done, but the last command (`{command}`) failed"
                )
            }
            Self::NothingDone => f.write_str("no tool was called, so nothing was done"),
        }
    }
}

impl WorkRecord {
    /// Begins a run: what counts for the last one is forgotten, but not its commands.
    pub fn begin_run(&mut self) {
        self.run = CurrentRunWork::default();
        self.evidence = None;
    }

    /// Records a call of the session.
    pub fn on_call(&mut self, call: &WorkCall) {
        self.on_past_call(call);
        let run = &mut self.run;
        run.has_written |= call.kind == WorkKind::Write;
        if matches!(call.status, WorkStatus::Succeeded | WorkStatus::Failed) {
            run.calls += 1;
        }
        run.was_refused |= call.status == WorkStatus::Refused;
        // What the user refused the user knows.
        let has_failed = matches!(call.status, WorkStatus::Failed | WorkStatus::Refused);
        let failure = has_failed.then(|| (call.title.clone(), call.status));
        match call.kind {
            WorkKind::Write => run.failed_write.clone_from(&failure),
            WorkKind::Command if call.has_changed_files => run.failed_write = None,
            WorkKind::Look | WorkKind::Command | WorkKind::Other => {}
        }
        match (call.kind, call.status) {
            (WorkKind::Command, WorkStatus::Refused) if !run.has_changed_files => {
                run.refused_command = Some(call.title.clone());
            }
            (WorkKind::Write | WorkKind::Command, WorkStatus::Succeeded) => {
                run.refused_command = None;
            }
            _ => {}
        }
        let only_looks = call.kind == WorkKind::Look
            || (call.kind == WorkKind::Command && is_looking(&call.title));
        match failure {
            Some(_) if only_looks => {}
            failure => run.failed_call = failure,
        }
    }

    /// Records a call of an agent that works for the session: its changes and commands count, its failures do not.
    pub fn on_subagent_call(&mut self, call: &WorkCall) {
        self.on_past_call(call);
        self.run.calls += 1;
    }

    fn on_past_call(&mut self, call: &WorkCall) {
        self.now += 1;
        if matches!(call.status, WorkStatus::Refused | WorkStatus::Declined) {
            return;
        }
        let has_succeeded = call.status == WorkStatus::Succeeded;
        self.run.has_run_commands |= call.kind == WorkKind::Command;
        self.run.has_acted |= match call.kind {
            WorkKind::Command => !is_looking(&call.title),
            WorkKind::Other => true,
            WorkKind::Look | WorkKind::Write => false,
        };
        let past = PastCall {
            title: call.title.clone(),
            has_succeeded,
            is_command: call.kind == WorkKind::Command,
            at: self.now,
        };
        if call.has_changed_files {
            self.last_change = Some(past.clone());
            let run = &mut self.run;
            run.has_changed_files = true;
            // Only what the agent wrote itself has to be run.
            run.has_run_since_change = match call.kind {
                WorkKind::Write => false,
                WorkKind::Command => has_succeeded,
                WorkKind::Look | WorkKind::Other => run.has_run_since_change,
            };
            let room = KEPT_FILES.saturating_sub(run.changed_files.len());
            run.changed_files.extend(call.changed_files.iter().take(room).cloned());
        } else if call.kind == WorkKind::Command && has_succeeded {
            self.run.has_run_since_change = true;
        }
        let has_acted = matches!(call.kind, WorkKind::Command | WorkKind::Other);
        if has_acted || call.has_changed_files {
            self.run.has_acted_since_change = has_acted;
        }
        if self.past_calls.len() == KEPT_CALLS {
            self.past_calls.pop_front();
        }
        self.past_calls.push_back(past);
    }

    /// Records which checks failed, and whether they verified the work: then a write that failed before was not needed.
    pub fn on_checks(&mut self, failed: Vec<String>, verified: bool) {
        self.run.failed_checks = failed;
        if verified {
            self.run.failed_write.take_if(|(_, status)| *status == WorkStatus::Failed);
            self.run.has_run_since_change = true;
        }
    }

    /// Returns the number of calls of the run that ran.
    pub fn calls(&self) -> usize {
        self.run.calls
    }

    /// Returns true if a command ran in the run.
    pub fn has_run_commands(&self) -> bool {
        self.run.has_run_commands
    }

    /// Returns true if a command or a tool of a server ran that may have changed something that is no file of the
    /// project.
    pub fn has_acted(&self) -> bool {
        self.run.has_acted
    }

    /// Returns true if calls ran in the run, and none of them did more than to look.
    pub fn has_only_looked(&self) -> bool {
        let run = &self.run;
        run.calls > 0 && !run.has_acted && !run.has_written && !run.has_changed_files
    }

    /// Returns the last call that changed files in the run, if no command and no tool of a server ran after it.
    pub fn unchecked_change(&self) -> Option<&str> {
        let change = self.last_change.as_ref()?;
        let is_unchecked = self.run.has_changed_files && !self.run.has_acted_since_change;
        is_unchecked.then_some(change.title.as_str())
    }

    /// Returns true if files were changed in the run.
    pub fn has_changed_files(&self) -> bool {
        self.run.has_changed_files
    }

    /// Returns true if the policy refused a call of the run.
    pub fn was_refused(&self) -> bool {
        self.run.was_refused
    }

    /// Returns the first fact that contradicts the claim that the work of the run is done, with `evidence` as the
    /// command that shows it.
    pub fn contradiction(&self, evidence: Option<&str>) -> Option<Contradiction> {
        let run = &self.run;
        if !run.failed_checks.is_empty() {
            return Some(Contradiction::ChecksFailed { names: run.failed_checks.clone() });
        }
        match &run.failed_write {
            Some((call, WorkStatus::Refused)) => {
                return Some(Contradiction::WriteRefused { call: call.clone() });
            }
            Some((call, WorkStatus::Failed)) => {
                return Some(Contradiction::WriteFailed { call: call.clone() });
            }
            Some((_, WorkStatus::Succeeded | WorkStatus::Declined)) | None => {}
        }
        if let Some(command) = &run.refused_command {
            return Some(Contradiction::CommandRefused { command: command.clone() });
        }
        evidence.and_then(|evidence| self.contradicted_evidence(evidence))
    }

    /// Returns what contradicts a command as evidence. Its last run counts.
    fn contradicted_evidence(&self, evidence: &str) -> Option<Contradiction> {
        let wanted = words(evidence);
        if wanted.is_empty() {
            return None;
        }
        let ran =
            self.past_calls.iter().rev().find(|call| is_same_command(&words(&call.title), &wanted));
        let Some(ran) = ran else {
            let command = evidence.trim().trim_matches('`').to_owned();
            return Some(Contradiction::EvidenceNeverRan { command });
        };
        let command = ran.title.clone();
        if !ran.has_succeeded {
            return Some(Contradiction::EvidenceFailed { command });
        }
        let later = self.last_change.as_ref().filter(|change| change.at > ran.at)?;
        Some(Contradiction::EvidenceStale { command, change: later.title.clone() })
    }

    /// Returns the last call that is more than a look, if it is a command that failed.
    pub fn failed_command(&self) -> Option<&str> {
        let (command, status) = self.run.failed_call.as_ref()?;
        let is_command =
            self.past_calls.back().is_some_and(|call| call.is_command && !call.has_succeeded);
        (*status == WorkStatus::Failed && is_command && !ends_in_search(command))
            .then_some(command.as_str())
    }

    /// Returns true if a text names the last command, without its options.
    pub(super) fn names_failed_command(&self, text: &str) -> bool {
        let Some(line) = self.failed_command() else { return false };
        let last = line.split(['|', ';', '&']).map(str::trim).rfind(|part| !part.is_empty());
        let mut words =
            last.unwrap_or(line).split_whitespace().filter(|word| !word.starts_with('-'));
        let program = words.next().filter(|program| !RUNNERS.contains(program));
        let named: Vec<&str> = program.into_iter().chain(words).take(2).collect();
        named.len() == 2 && text.contains(&named.join(" "))
    }

    /// Returns what speaks against an end of the work without contradicting it: open todo items, a last call that
    /// failed, changes that no command was run after.
    pub fn findings(&self, todo: &[TodoItem]) -> Vec<String> {
        let run = &self.run;
        let mut findings = Vec::new();
        let open: Vec<_> = todo
            .iter()
            .filter(|item| item.status != TodoStatus::Completed)
            .map(|item| item.content.as_str())
            .collect();
        if !open.is_empty() {
            findings.push(format!("todo items are open: {}", name_some(&open)));
        }
        if let Some((call, status)) = &run.failed_call {
            let how = match status {
                WorkStatus::Refused => "was not permitted",
                WorkStatus::Failed => "failed",
                WorkStatus::Succeeded | WorkStatus::Declined => "was not run",
            };
            findings.push(format!("the last call ({call}) {how}"));
        }
        let code: Vec<_> = run
            .changed_files
            .iter()
            .filter(|file| is_code(file))
            .map(|file| file.to_string_lossy())
            .collect();
        let code: Vec<_> = code.iter().map(AsRef::as_ref).collect();
        if !code.is_empty() && !run.has_run_since_change {
            findings.push(format!("nothing was run after the last change of {}", name_some(&code)));
        }
        findings
    }

    /// Returns true if the run changed or deleted a file with this name, in whatever folder.
    pub fn has_changed_file_named(&self, name: &std::ffi::OsStr) -> bool {
        self.run.changed_files.iter().any(|file| file.file_name() == Some(name))
    }

    /// Returns true the first time it is called in a run: findings are told once.
    pub fn begin_telling(&mut self) -> bool {
        !std::mem::replace(&mut self.run.are_findings_told, true)
    }

    /// Records the command that an accepted completion named as evidence.
    pub fn accept(&mut self, evidence: Option<String>) {
        self.evidence = evidence;
    }

    /// Returns the command that the accepted completion named as evidence.
    pub fn evidence(&self) -> Option<&str> {
        self.evidence.as_deref()
    }
}

/// The work record of a session, shared by the agents that work in it.
#[derive(Debug, Clone, Default)]
pub struct SharedWorkRecord {
    record: Arc<Mutex<WorkRecord>>,
    /// The record of the session that this one works for.
    parent: Option<Arc<Mutex<WorkRecord>>>,
}

impl SharedWorkRecord {
    /// Makes the record of a subagent, whose calls count for this session as well.
    #[must_use]
    pub fn for_subagent(&self) -> Self {
        Self { record: Arc::default(), parent: Some(Arc::clone(&self.record)) }
    }

    /// Returns the record.
    pub fn lock(&self) -> MutexGuard<'_, WorkRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call.
    pub fn on_call(&self, call: &WorkCall) {
        self.lock().on_call(call);
        if let Some(parent) = &self.parent {
            parent.lock().unwrap_or_else(PoisonError::into_inner).on_subagent_call(call);
        }
    }
}

/// Names the first few, and says how many more there are.
fn name_some(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn is_code(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| CODE.iter().any(|code| extension.eq_ignore_ascii_case(code)))
}

/// Returns true if a command line only looks, as far as its programs tell: each of its commands is a known one, and
/// none writes its output to a file.
/// Returns true if the exit code of a line is that of a search, which fails if it finds nothing.
fn ends_in_search(line: &str) -> bool {
    SEARCHES.iter().any(|program| {
        let begin = line.rfind(&format!("| {program} "));
        begin.is_some_and(|at| !line[at..].contains("&&") && !line[at..].contains(';'))
    })
}

fn is_looking(line: &str) -> bool {
    let line = line.replace("2>&1", " ").replace("2>/dev/null", " ").replace(">/dev/null", " ");
    let mut commands =
        line.split(['|', ';', '&', '\n']).map(str::trim).filter(|part| !part.is_empty());
    !line.contains(['>', '`']) && !line.contains("$(") && commands.all(is_looking_command)
}

fn is_looking_command(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let Some((program, arguments)) = words.split_first() else { return true };
    // Options with which a program that looks writes or runs something.
    let writes = |options: &[&str]| {
        arguments.iter().any(|word| options.iter().any(|option| word.starts_with(option)))
    };
    match *program {
        "find" => return !writes(&["-delete", "-exec", "-ok", "-fprint"]),
        "sort" => return !writes(&["-o", "--output"]),
        "xxd" => return !writes(&["-r"]),
        "date" => return !writes(&["-s", "--set"]),
        "command" => return arguments.first().is_some_and(|word| matches!(*word, "-v" | "-V")),
        "kubectl" if arguments.first() == Some(&"get") => return true,
        _ => {}
    }
    if LOOKING_PROGRAMS.contains(program) {
        return true;
    }
    if let [only] = arguments
        && LOOKING_ALONE.contains(only)
    {
        return true;
    }
    if DATABASES.contains(program) {
        let statement = command.to_lowercase();
        return !WRITING_STATEMENTS.iter().any(|word| statement.contains(word));
    }
    let mut first = arguments.iter().take(2);
    !RUNNERS.contains(program)
        && first.any(|word| LOOKING_WORDS.contains(word) || word.starts_with("list-"))
}

/// Returns the words of a command line without the signs of a shell prompt and of Markdown around it.
fn words(command: &str) -> Vec<&str> {
    // A sentence around the command: what stands in backticks is meant.
    let quoted = command.split('`').nth(1).filter(|quoted| !quoted.trim().is_empty());
    let command = quoted.unwrap_or(command).trim();
    let command = command.strip_prefix("$ ").unwrap_or(command);
    command.split_whitespace().collect()
}

/// Returns true if one command is the other, or a part of its line: a command often runs inside of a longer line
/// (`cd web && npm test 2>&1 | tail`), and is often named without its options.
fn is_same_command(ran: &[&str], wanted: &[&str]) -> bool {
    let contains = |line: &[&str], part: &[&str]| {
        !part.is_empty() && line.windows(part.len()).any(|window| window == part)
    };
    contains(ran, wanted) || (ran.len() >= 2 && contains(wanted, ran))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(title: &str, kind: WorkKind, status: WorkStatus, changed: &[&str]) -> WorkCall {
        WorkCall {
            title: title.to_owned(),
            kind,
            status,
            changed_files: changed.iter().map(PathBuf::from).collect(),
            has_changed_files: !changed.is_empty(),
        }
    }

    fn edit(path: &str) -> WorkCall {
        call(&format!("edit_file {path}"), WorkKind::Write, WorkStatus::Succeeded, &[path])
    }

    fn ran(command: &str) -> WorkCall {
        call(command, WorkKind::Command, WorkStatus::Succeeded, &[])
    }

    fn failed(command: &str) -> WorkCall {
        call(command, WorkKind::Command, WorkStatus::Failed, &[])
    }

    fn record(calls: &[WorkCall]) -> WorkRecord {
        let mut record = WorkRecord::default();
        record.begin_run();
        for call in calls {
            record.on_call(call);
        }
        record
    }

    fn contradicts(calls: &[WorkCall], evidence: Option<&str>) -> Option<String> {
        record(calls).contradiction(evidence).map(|contradiction| contradiction.to_string())
    }

    #[test]
    fn evidence_must_have_succeeded_after_the_last_change() {
        let test = Some("cargo test");
        let never = "`cargo test` is named as evidence, but it never ran";
        let table = [
            (vec![edit("a.rs"), ran("cargo test")], None),
            (vec![edit("a.rs"), ran("cd x && cargo test -q 2>&1 | tail -5")], None),
            (vec![edit("a.rs"), ran("cargo  test")], None),
            (vec![edit("a.rs")], Some(never)),
            (vec![edit("a.rs"), ran("cargo testing")], Some(never)),
            (
                vec![edit("a.rs"), failed("cargo test")],
                Some("`cargo test` is named as evidence, but it failed when it last ran"),
            ),
            (vec![edit("a.rs"), failed("cargo test"), ran("cargo test")], None),
            (
                vec![ran("cargo test"), edit("a.rs")],
                Some(
                    "`cargo test` is named as evidence, but it ran before the last change (edit_file a.rs)",
                ),
            ),
        ];
        for (calls, expected) in table {
            assert_eq!(contradicts(&calls, test).as_deref(), expected, "{calls:?}");
        }
    }

    #[test]
    fn a_command_that_changes_files_itself_is_no_stale_evidence() {
        let test = call("cargo test", WorkKind::Command, WorkStatus::Succeeded, &["Cargo.lock"]);
        assert_eq!(contradicts(&[edit("a.rs"), test], Some("cargo test")), None);
    }

    #[test]
    fn evidence_may_be_named_in_a_sentence() {
        let calls = [edit("a.rs"), ran("pytest -q tests")];
        assert_eq!(contradicts(&calls, Some("I ran `pytest -q tests`: 3 passed")), None);
        assert_eq!(contradicts(&calls, Some("$ pytest -q tests")), None);
        assert_eq!(contradicts(&calls, Some("pytest -q tests 2>&1")), None);
        assert_eq!(contradicts(&calls, Some("  ")), None);
    }

    #[test]
    fn a_last_write_that_did_not_succeed_contradicts() {
        let write = |status| call("write_file a.rs", WorkKind::Write, status, &[]);
        let table = [
            (
                vec![edit("b.rs"), write(WorkStatus::Failed)],
                Some("the last write (write_file a.rs) failed, and none succeeded after it"),
            ),
            (
                vec![write(WorkStatus::Refused), ran("ls")],
                Some(
                    "the last write (write_file a.rs) was not permitted, and none succeeded after it",
                ),
            ),
            (vec![write(WorkStatus::Failed), edit("b.rs")], None),
            (vec![write(WorkStatus::Declined)], None),
            (
                vec![
                    write(WorkStatus::Failed),
                    call("cat > a.rs", WorkKind::Command, WorkStatus::Succeeded, &["a.rs"]),
                ],
                None,
            ),
        ];
        for (calls, expected) in table {
            assert_eq!(contradicts(&calls, None).as_deref(), expected, "{calls:?}");
        }
    }

    #[test]
    fn a_refused_command_contradicts_only_if_nothing_else_was_done() {
        let refused = call("rm -rf x", WorkKind::Command, WorkStatus::Refused, &[]);
        let look = call("read_file a", WorkKind::Look, WorkStatus::Succeeded, &[]);
        assert!(contradicts(&[refused.clone(), look], None).is_some());
        assert_eq!(contradicts(&[refused.clone(), ran("ls")], None), None);
        assert_eq!(contradicts(&[edit("a.rs"), refused], None), None);
    }

    #[test]
    fn failed_checks_contradict_until_they_pass() {
        let mut record = record(&[edit("a.rs")]);
        record.on_checks(vec!["tests".to_owned()], false);
        let text = record.contradiction(None).map(|contradiction| contradiction.to_string());
        assert_eq!(text.as_deref(), Some("checks failed when they last ran: tests"));
        record.on_checks(Vec::new(), false);
        assert_eq!(record.contradiction(None), None);
    }

    #[test]
    fn only_commands_that_do_more_than_look_may_have_changed_something_else() {
        for (command, acts) in [("ls src", false), ("cat a.rs", false), ("git push", true)] {
            assert_eq!(record(&[ran(command)]).has_acted(), acts, "{command}");
        }
        assert!(!record(&[edit("a.rs")]).has_acted());
    }

    #[test]
    fn findings_name_what_is_open_failed_and_never_run() {
        let todo = |content: &str, status| TodoItem {
            content: content.to_owned(),
            status,
            active_form: None,
        };
        let items = [todo("Write", TodoStatus::Completed), todo("Test", TodoStatus::Pending)];
        let found = record(&[edit("a.rs"), failed("make test")]).findings(&items);
        assert_eq!(
            found,
            [
                "todo items are open: Test",
                "the last call (make test) failed",
                "nothing was run after the last change of a.rs"
            ]
        );
        assert_eq!(record(&[edit("a.rs"), ran("make test")]).findings(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_search_at_the_end_of_a_pipeline_that_finds_nothing_is_no_failed_command() {
        for (line, expected) in [
            ("kubectl logs deploy/x | grep -ci error", None),
            ("git diff | grep -E 'a|b'", None),
            ("make | grep warning; make check", Some("make | grep warning; make check")),
            ("make", Some("make")),
        ] {
            assert_eq!(record(&[failed(line)]).failed_command(), expected, "{line}");
        }
    }

    #[test]
    fn searches_without_a_hit_and_changes_of_texts_are_no_findings() {
        let look = call("grep x", WorkKind::Look, WorkStatus::Failed, &[]);
        for calls in [
            vec![edit("README.md")],
            vec![edit("a.rs"), ran("make"), failed("grep -r x src")],
            vec![edit("a.rs"), ran("make"), look],
        ] {
            assert_eq!(record(&calls).findings(&[]), Vec::<String>::new(), "{calls:?}");
        }
    }

    #[test]
    fn a_run_forgets_what_counted_for_the_last_one_but_not_its_commands() {
        let mut record = record(&[edit("a.rs"), ran("cargo test"), failed("make")]);
        assert!(record.begin_telling() && !record.begin_telling());
        record.begin_run();
        assert!(!record.has_changed_files() && record.calls() == 0 && record.begin_telling());
        assert_eq!(record.findings(&[]), Vec::<String>::new());
        assert_eq!(record.contradiction(Some("cargo test")), None);
    }

    #[test]
    fn calls_of_a_subagent_are_evidence_and_changes_but_not_failures() {
        let shared = SharedWorkRecord::default();
        let child = shared.for_subagent();
        child.on_call(&edit("a.rs"));
        child.on_call(&ran("cargo test"));
        child.on_call(&call("write_file b", WorkKind::Write, WorkStatus::Failed, &[]));
        let parent = shared.lock();
        assert_eq!(parent.contradiction(Some("cargo test")), None);
        assert!(parent.has_changed_files());
        assert!(child.lock().contradiction(None).is_some());
    }
}
