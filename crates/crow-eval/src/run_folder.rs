//! The folder of a run: `run.json` says what was asked, `results.jsonl` has a line for each finished trial.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_fs::FileLock;
use crow_text::{one_line, shorten};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    plan::EvalPlan,
    task::TaskHash,
    trial::{AgentVariant, TestedProgram, TrialKey, TrialRecord},
};

const MANIFEST: &str = "run.json";
const RESULTS: &str = "results.jsonl";
const LOCK: &str = "lock";
/// File that names the temporary folder of the process that holds the lock.
const SCRATCH: &str = "scratch";
/// Maximum length of the line of a program where it stands for what is measured.
const LONGEST_LABEL: usize = 40;
/// Version of the two files.
const VERSION: u32 = 1;

/// What was asked of a run: the content of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Version of the format.
    pub version: u32,
    /// When the first command of the run began.
    pub created: Timestamp,
    /// Version of Crow that measured.
    pub measured_by: String,
    /// The program under test, in a line.
    pub program: String,
    /// Hash of the program's file, if it was read.
    pub program_hash: Option<String>,
    /// Hash of the configuration that each trial got.
    pub config_hash: String,
    /// Sampling temperature of all models, if it was asked for.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Hash of each task by its name.
    pub tasks: BTreeMap<String, TaskHash>,
    /// Agents and models.
    pub variants: Vec<AgentVariant>,
    /// Numbers of the repetitions.
    pub seeds: Vec<u64>,
}

/// The version of a manifest, which is read before the rest.
#[derive(Deserialize)]
struct ManifestVersion {
    version: u32,
}

/// A run as it is stored.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// What was asked.
    pub manifest: RunManifest,
    /// The last record of each trial, without those of tasks that have changed since, in the order in which they ended.
    pub records: Vec<TrialRecord>,
}

/// The folder of a run, locked against other processes.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    run: StoredRun,
    results: File,
    _lock: FileLock,
}

/// Error of the folder of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFolderError {
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}{}: {message}", .path.display(), .line.map(|line| format!(":{line}")).unwrap_or_default())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<usize>,
        /// What is wrong.
        message: String,
    },
    /// The folder has other files.
    #[error("{} is not empty and holds no run", .path.display())]
    OtherFiles {
        /// The folder.
        path: PathBuf,
    },
    /// Another process works in the folder.
    #[error("another evaluation works in {}: {holder}", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Process that holds the lock, and since when.
        holder: String,
    },
    /// The run in the folder measures something else.
    #[error("the run in {} has {what}: {stored}, not {asked}", .path.display())]
    OtherRun {
        /// The folder.
        path: PathBuf,
        /// What is different.
        what: &'static str,
        /// Its stored value.
        stored: String,
        /// Its value now.
        asked: String,
    },
}

impl RunManifest {
    /// Describes a run. Reads the executable for its hash. Blocks.
    ///
    /// # Errors
    /// Fails if the executable cannot be read.
    pub fn new(plan: &EvalPlan, config_hash: String) -> io::Result<Self> {
        let (program, program_hash) = match &plan.program {
            TestedProgram::Crow { executable, .. } => {
                let mut hasher = blake3::Hasher::new();
                io::copy(&mut File::open(executable)?, &mut hasher)?;
                let version = concat!("crow-agent ", env!("CARGO_PKG_VERSION"));
                (version.to_owned(), Some(hasher.finalize().to_hex()[..16].to_owned()))
            }
            TestedProgram::ShellLine(line) => (line.clone(), None),
        };
        let tasks = plan.tasks.iter().map(|task| (task.name.clone(), task.hash().clone()));
        Ok(Self {
            version: VERSION,
            created: Timestamp::now(),
            measured_by: env!("CARGO_PKG_VERSION").to_owned(),
            program,
            program_hash,
            config_hash,
            temperature: match plan.program {
                TestedProgram::Crow { temperature, .. } => temperature,
                TestedProgram::ShellLine(_) => None,
            },
            tasks: tasks.collect(),
            variants: plan.variants.clone(),
            seeds: plan.seeds.clone(),
        })
    }

    /// Returns the line of another program than Crow itself.
    pub fn other_program(&self) -> Option<&str> {
        self.program_hash.is_none().then_some(self.program.as_str())
    }

    /// Returns what is measured, in a few words: agent and model, or the other program.
    pub fn label(&self, variant: &AgentVariant) -> String {
        match self.other_program() {
            Some(line) => shorten(&one_line(line), LONGEST_LABEL),
            None => variant.to_string(),
        }
    }

    /// Adds what is asked now to what was asked before, which must measure the same program.
    fn extended(self, asked: Self, path: &Path) -> Result<Self, RunFolderError> {
        let number = |number: Option<f32>| {
            number
                .map_or_else(|| "that of the configuration".to_owned(), |number| number.to_string())
        };
        let shown = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".to_owned());
        for (what, stored, asked) in [
            ("another program", self.program.clone(), asked.program.clone()),
            ("another build of the program", shown(&self.program_hash), shown(&asked.program_hash)),
            ("another configuration", self.config_hash.clone(), asked.config_hash.clone()),
            ("another temperature", number(self.temperature), number(asked.temperature)),
        ] {
            if stored != asked {
                return Err(RunFolderError::OtherRun {
                    path: path.to_owned(),
                    what,
                    stored,
                    asked,
                });
            }
        }
        let mut extended = self;
        extended.tasks.extend(asked.tasks);
        for variant in asked.variants {
            if !extended.variants.contains(&variant) {
                extended.variants.push(variant);
            }
        }
        let seeds: BTreeSet<u64> = extended.seeds.iter().copied().chain(asked.seeds).collect();
        extended.seeds = seeds.into_iter().collect();
        Ok(extended)
    }
}

impl StoredRun {
    /// Reads a run, which may be going on. Blocks.
    ///
    /// # Errors
    /// Fails if there is no run, or a file has a mistake other than a last line that is being written.
    pub fn read(path: &Path) -> Result<Self, RunFolderError> {
        let manifest_path = path.join(MANIFEST);
        let text = fs::read(&manifest_path).map_err(file_error(&manifest_path))?;
        let content_error = |message: String| RunFolderError::Content {
            path: manifest_path.clone(),
            line: None,
            message,
        };
        let ManifestVersion { version } =
            serde_json::from_slice(&text).map_err(|error| content_error(error.to_string()))?;
        if version != VERSION {
            let message = format!("its version is {version}, and this program reads {VERSION}");
            return Err(content_error(message));
        }
        let manifest: RunManifest =
            serde_json::from_slice(&text).map_err(|error| content_error(error.to_string()))?;
        let results = path.join(RESULTS);
        let text = match fs::read_to_string(&results) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(file_error(&results)(error)),
        };
        let records = records_of(&text, &results)?;
        Ok(Self { records: current(records, &manifest), manifest })
    }

    /// Returns what the trials have cost, and true if the cost of all of them is known.
    pub fn cost(&self) -> (f64, bool) {
        let counted = self.records.iter().filter(|record| record.outcome.is_counted());
        let costs: Vec<_> = counted.map(|record| record.usage.cost_usd).collect();
        (costs.iter().flatten().sum(), costs.iter().all(Option::is_some))
    }

    /// Adds a record in place of an earlier one of the trial.
    fn add(&mut self, record: TrialRecord) {
        self.records.retain(|earlier| earlier.key != record.key);
        self.records.push(record);
    }
}

/// Parses the lines of the results. A last line without an end is one that was cut off.
fn records_of(text: &str, path: &Path) -> Result<Vec<TrialRecord>, RunFolderError> {
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let parsed = whole.lines().enumerate().map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| RunFolderError::Content {
            path: path.to_owned(),
            line: Some(index + 1),
            message: error.to_string(),
        })
    });
    parsed.collect()
}

/// Returns the last record of each trial of the tasks as they are now.
fn current(records: Vec<TrialRecord>, manifest: &RunManifest) -> Vec<TrialRecord> {
    let mut seen: BTreeSet<TrialKey> = BTreeSet::new();
    let is_current =
        |record: &TrialRecord| manifest.tasks.get(&record.key.task) == Some(&record.key.task_hash);
    let mut kept: Vec<_> = records
        .into_iter()
        .rev()
        .filter(|record| is_current(record) && seen.insert(record.key.clone()))
        .collect();
    kept.reverse();
    kept
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> RunFolderError + use<> {
    let path = path.to_owned();
    move |source| RunFolderError::File { path: path.clone(), source }
}

impl RunFolder {
    /// Opens the folder of a new run, or of one that measures the same program, and locks it. Blocks.
    ///
    /// # Errors
    /// Fails if another process works in the folder, or the folder holds something else.
    pub fn open(path: &Path, asked: RunManifest) -> Result<Self, RunFolderError> {
        let error = file_error(path);
        fs::create_dir_all(path).map_err(&error)?;
        let path = path.canonicalize().map_err(&error)?;
        let is_new = !path.join(MANIFEST).exists();
        if is_new {
            // A run that was killed at its very beginning has left only these.
            let own = [LOCK, SCRATCH];
            for entry in fs::read_dir(&path).map_err(&error)? {
                let name = entry.map_err(&error)?.file_name();
                let is_own = own.iter().any(|own| name == *own)
                    || name.to_string_lossy().starts_with(".crow-");
                if !is_own {
                    return Err(RunFolderError::OtherFiles { path });
                }
            }
        }
        let lock = lock(&path)?;
        remove_scratch(&path);
        let manifest = if path.join(MANIFEST).exists() {
            StoredRun::read(&path)?.manifest.extended(asked, &path)?
        } else {
            asked
        };
        write_manifest(&path, &manifest)?;
        let results = open_results(&path.join(RESULTS))?;
        let run = StoredRun::read(&path)?;
        Ok(Self { path, run, results, _lock: lock })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the run as it is stored.
    pub fn run(&self) -> &StoredRun {
        &self.run
    }

    /// Returns true if a trial need not be repeated.
    pub(crate) fn is_finished(&self, key: &TrialKey) -> bool {
        self.run.records.iter().any(|record| record.key == *key && record.outcome.is_final())
    }

    /// Appends a record, which is on the disk when this returns. Blocks.
    pub(crate) fn append(&mut self, record: TrialRecord) -> Result<(), RunFolderError> {
        let error = file_error(&self.path.join(RESULTS));
        let mut line = serde_json::to_vec(&record).map_err(|source| error(source.into()))?;
        line.push(b'\n');
        self.results.write_all(&line).map_err(&error)?;
        self.results.sync_data().map_err(&error)?;
        self.run.add(record);
        Ok(())
    }

    /// Stores the path of the temporary folder, so that the next run removes it if this process is killed. Blocks.
    pub(crate) fn note_scratch(&self, scratch: &Path) -> Result<(), RunFolderError> {
        let path = self.path.join(SCRATCH);
        fs::write(&path, scratch.as_os_str().as_encoded_bytes()).map_err(file_error(&path))
    }

    /// Forgets the temporary folder, which was removed. Blocks.
    pub(crate) fn forget_scratch(&self) {
        // If this fails, the next run finds that the folder does not exist.
        drop(fs::remove_file(self.path.join(SCRATCH)));
    }
}

/// Beginning of the names of temporary folders.
pub(crate) const SCRATCH_NAME: &str = "crow-eval-";

/// Removes the temporary folder of a run that was killed.
fn remove_scratch(path: &Path) {
    let Ok(scratch) = fs::read_to_string(path.join(SCRATCH)) else { return };
    let scratch = Path::new(&scratch);
    // The file could have been edited: only a folder that a run makes is removed.
    let is_own =
        scratch.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SCRATCH_NAME));
    if is_own && let Err(error) = fs::remove_dir_all(scratch) {
        tracing::debug!(%error, "the temporary folder of a killed run stays");
    }
    drop(fs::remove_file(path.join(SCRATCH)));
}

fn lock(folder: &Path) -> Result<FileLock, RunFolderError> {
    let path = folder.join(LOCK);
    let error = file_error(&path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(&path)
        .map_err(&error)?;
    match FileLock::try_exclusive(file).map_err(&error)? {
        Ok(lock) => {
            let holder = format!(
                "process {}, since {}",
                std::process::id(),
                Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC")
            );
            let mut file = lock.file();
            file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(&error)?;
            Ok(lock)
        }
        Err(mut file) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(&error)?;
            Err(RunFolderError::InUse { path: folder.to_owned(), holder })
        }
    }
}

fn write_manifest(folder: &Path, manifest: &RunManifest) -> Result<(), RunFolderError> {
    let path = folder.join(MANIFEST);
    let error = file_error(&path);
    let mut bytes = serde_json::to_vec_pretty(manifest).map_err(|source| error(source.into()))?;
    bytes.push(b'\n');
    let mut temporary =
        tempfile::Builder::new().prefix(".crow-").tempfile_in(folder).map_err(&error)?;
    temporary.write_all(&bytes).map_err(&error)?;
    temporary.as_file().sync_all().map_err(&error)?;
    temporary.persist(&path).map_err(|failed| error(failed.error))?;
    Ok(())
}

/// Opens the results for appending. A last line that was cut off is removed: its trial is repeated.
fn open_results(path: &Path) -> Result<File, RunFolderError> {
    let error = file_error(path);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(&error)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(&error)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64).map_err(&error)?;
    }
    file.seek(io::SeekFrom::End(0)).map_err(&error)?;
    Ok(file)
}

/// Makes a run in memory: models, and trials as task, model and outcome.
#[cfg(test)]
pub(crate) fn sample_run(
    models: &[&str],
    trials: &[(&str, &str, crate::trial::TrialOutcome)],
) -> StoredRun {
    let variant = |model: &str| AgentVariant { agent: None, model: Some(model.to_owned()) };
    let hash = |task: &str| -> TaskHash { serde_json::from_value(task.into()).unwrap() };
    let records = trials.iter().map(|(task, model, outcome)| TrialRecord {
        key: TrialKey {
            task: (*task).to_owned(),
            task_hash: hash(task),
            variant: variant(model),
            seed: 1,
        },
        outcome: *outcome,
        exit_code: Some(0),
        timed_out: false,
        used_model: None,
        usage: crate::trial::TrialUsage {
            steps: Some(3),
            input_tokens: Some(1500),
            output_tokens: Some(1_000_000),
            cache_read_tokens: Some(0),
            cost_usd: Some(0.25),
        },
        seconds: 2.0,
        message: "why".to_owned(),
        log: "trials/x".to_owned(),
        started: Timestamp::UNIX_EPOCH,
    });
    StoredRun {
        manifest: RunManifest {
            version: VERSION,
            created: Timestamp::UNIX_EPOCH,
            measured_by: "1".to_owned(),
            program: "crow-agent 1".to_owned(),
            program_hash: Some("0".to_owned()),
            config_hash: "0".to_owned(),
            temperature: None,
            tasks: trials.iter().map(|(task, ..)| ((*task).to_owned(), hash(task))).collect(),
            variants: models.iter().map(|model| variant(model)).collect(),
            seeds: vec![1],
        },
        records: records.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{TrialOutcome, TrialUsage};

    fn manifest(tasks: &[(&str, &str)]) -> RunManifest {
        let hash = |text: &str| serde_json::from_value(text.into()).unwrap();
        RunManifest {
            version: VERSION,
            created: Timestamp::UNIX_EPOCH,
            measured_by: "1".to_owned(),
            program: "p".to_owned(),
            program_hash: None,
            config_hash: "c".to_owned(),
            temperature: None,
            tasks: tasks.iter().map(|(name, text)| ((*name).to_owned(), hash(text))).collect(),
            variants: vec![AgentVariant::default()],
            seeds: vec![1],
        }
    }

    fn record(task: &str, hash: &str, outcome: TrialOutcome) -> TrialRecord {
        TrialRecord {
            key: TrialKey {
                task: task.to_owned(),
                task_hash: serde_json::from_value(hash.into()).unwrap(),
                variant: AgentVariant::default(),
                seed: 1,
            },
            outcome,
            exit_code: Some(0),
            timed_out: false,
            used_model: None,
            usage: TrialUsage { cost_usd: Some(0.5), ..TrialUsage::default() },
            seconds: 1.0,
            message: String::new(),
            log: String::new(),
            started: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_run_is_resumed_with_its_finished_trials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let asked = manifest(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
        let mut run = RunFolder::open(&path, asked.clone()).unwrap();
        run.append(record("a", "1", TrialOutcome::Solved)).unwrap();
        run.append(record("b", "1", TrialOutcome::SetupFailed)).unwrap();
        run.append(record("c", "1", TrialOutcome::AlwaysPasses)).unwrap();
        drop(run);
        // A line that was cut off by a kill.
        let mut results = OpenOptions::new().append(true).open(path.join(RESULTS)).unwrap();
        results.write_all(b"{\"task\":\"d\"").unwrap();
        let mut run = RunFolder::open(&path, asked).unwrap();
        let finished = ["a", "b", "c", "d"]
            .map(|task| run.is_finished(&record(task, "1", TrialOutcome::Solved).key));
        assert_eq!(finished, [true, false, true, false]);
        run.append(record("b", "1", TrialOutcome::FalseDone)).unwrap();
        drop(run);
        let stored = StoredRun::read(&path).unwrap();
        let outcomes: Vec<_> = stored.records.iter().map(|record| record.outcome).collect();
        let expected = [TrialOutcome::Solved, TrialOutcome::AlwaysPasses, TrialOutcome::FalseDone];
        assert_eq!(outcomes, expected);
        assert_eq!(stored.cost(), (1.0, true));
    }

    #[test]
    fn trials_of_a_changed_task_are_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = RunFolder::open(folder.path(), manifest(&[("a", "1"), ("b", "1")])).unwrap();
        run.append(record("a", "1", TrialOutcome::Solved)).unwrap();
        run.append(record("b", "1", TrialOutcome::Solved)).unwrap();
        drop(run);
        let run = RunFolder::open(folder.path(), manifest(&[("a", "2")])).unwrap();
        assert!(!run.is_finished(&record("a", "2", TrialOutcome::Solved).key));
        assert_eq!(run.run().records, [record("b", "1", TrialOutcome::Solved)]);
    }

    #[test]
    fn a_second_run_is_refused_and_told_who_holds_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::open(folder.path(), manifest(&[])).unwrap();
        let error = RunFolder::open(folder.path(), manifest(&[])).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}, since 2", std::process::id())), "{error}");
        drop(first);
        RunFolder::open(folder.path(), manifest(&[])).unwrap();
    }

    #[test]
    fn another_program_or_configuration_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        drop(RunFolder::open(&path, manifest(&[])).unwrap());
        let message = |asked| RunFolder::open(&path, asked).unwrap_err().to_string();
        let other = RunManifest { program: "q".to_owned(), ..manifest(&[]) };
        assert!(message(other).contains("another program: p, not q"));
        let other = RunManifest { program_hash: Some("h".to_owned()), ..manifest(&[]) };
        assert!(message(other).contains("another build of the program: none, not h"));
        let other = RunManifest { config_hash: "d".to_owned(), ..manifest(&[]) };
        assert!(message(other).contains("another configuration"));
        let other = RunManifest { temperature: Some(0.5), ..manifest(&[]) };
        let expected = "another temperature: that of the configuration, not 0.5";
        assert!(message(other).contains(expected));
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let error = RunFolder::open(folder.path(), manifest(&[])).unwrap_err();
        assert!(matches!(error, RunFolderError::OtherFiles { .. }), "{error}");
    }

    #[test]
    fn a_damaged_run_is_named_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let error = |path: &Path| StoredRun::read(path).unwrap_err().to_string();
        assert!(error(path).contains("run.json"), "{}", error(path));
        let mut run = RunFolder::open(path, manifest(&[("a", "1")])).unwrap();
        run.append(record("a", "1", TrialOutcome::Solved)).unwrap();
        drop(run);
        let mut results = OpenOptions::new().append(true).open(path.join(RESULTS)).unwrap();
        results.write_all(b"{}\n").unwrap();
        assert!(error(path).contains("results.jsonl:2: missing field"), "{}", error(path));
        fs::write(path.join(MANIFEST), "{\"version\": 9}").unwrap();
        assert!(error(path).contains("its version is 9"), "{}", error(path));
    }

    #[test]
    fn only_a_folder_that_a_run_made_is_removed_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        for (name, is_removed) in [("crow-eval-x", true), ("mine", false)] {
            let scratch = folder.path().join(name);
            fs::create_dir(&scratch).unwrap();
            let open = RunFolder::open(&run, manifest(&[])).unwrap();
            open.note_scratch(&scratch).unwrap();
            drop(open);
            drop(RunFolder::open(&run, manifest(&[])).unwrap());
            assert_eq!(!scratch.exists(), is_removed, "{name}");
            assert!(!run.join(SCRATCH).exists());
        }
    }
}
