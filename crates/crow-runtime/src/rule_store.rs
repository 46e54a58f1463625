//! Files of permission rules.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_core::permission::{PermissionRule, RuleError, RuleScope, RuleSet};

/// Error of reading or writing rules. Unreadable rules permit nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleStoreError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file does not contain valid rules.
    #[error("{}{}: {}", .path.display(), position(.source), reason(.source))]
    Rules {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        source: RuleError,
    },
    /// A rule has a scope that its file must not use.
    #[error("{}: the rule `{id}` has the scope managed, reserved for the administrator", .path.display())]
    Managed {
        /// The file.
        path: PathBuf,
        /// The rule.
        id: String,
    },
    /// The rules cannot be serialized.
    #[error("cannot save the rules: {source}")]
    Save {
        /// The error.
        source: RuleError,
    },
    /// The file cannot be written. Its previous content is kept.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The user's rule file, and the administrator's, whose rules no other rule can widen.
#[derive(Debug, Clone)]
pub struct RuleStore {
    user: PathBuf,
    managed: Option<PathBuf>,
}

/// The rules of both files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredRules {
    /// Rules of the administrator.
    pub managed: RuleSet,
    /// Rules of the user.
    pub user: RuleSet,
}

impl RuleStore {
    /// Uses `user` as the user's rule file. It need not exist.
    pub fn new(user: impl Into<PathBuf>) -> Self {
        Self { user: user.into(), managed: None }
    }

    /// Reads the administrator's rules from `path`, if it exists. All of them get the managed scope, whatever they
    /// specify.
    #[must_use]
    pub fn with_managed(mut self, path: impl Into<PathBuf>) -> Self {
        self.managed = Some(path.into());
        self
    }

    /// Returns the path of the user's rule file.
    pub fn user_file(&self) -> &Path {
        &self.user
    }

    /// Reads the rules. One invalid rule makes the whole load fail, since a denying rule must not be skipped. Blocks.
    pub fn load(&self) -> Result<StoredRules, RuleStoreError> {
        let managed = match &self.managed {
            Some(path) => {
                let rules = read(path)?.into_rules().into_iter();
                let managed = rules.map(|rule| rule.with_scope(RuleScope::Managed));
                RuleSet::new(managed)
                    .map_err(|source| RuleStoreError::Rules { path: path.clone(), source })?
            }
            None => RuleSet::default(),
        };
        let user = read(&self.user)?;
        let is_managed = |rule: &&PermissionRule| rule.scope == RuleScope::Managed;
        if let Some(rule) = user.rules().iter().find(is_managed) {
            return Err(RuleStoreError::Managed { path: self.user.clone(), id: rule.id.clone() });
        }
        Ok(StoredRules { managed, user })
    }

    /// Parses rules that were read elsewhere. The path is only recorded as their origin and in errors.
    pub fn parse(path: &Path, text: &str) -> Result<RuleSet, RuleStoreError> {
        let to_error = |source| RuleStoreError::Rules { path: path.to_path_buf(), source };
        let rules = RuleSet::from_json(text).map_err(to_error)?.into_rules().into_iter();
        RuleSet::new(rules.map(|rule| rule.with_file(path))).map_err(to_error)
    }

    /// Replaces the user's rules atomically. A rule that contains a function cannot be saved. Blocks.
    pub fn save(&self, rules: &RuleSet) -> Result<(), RuleStoreError> {
        let text = rules.to_json().map_err(|source| RuleStoreError::Save { source })?;
        let replaced = replace(&self.user, &text);
        replaced.map_err(|source| RuleStoreError::Write { path: self.user.clone(), source })
    }
}

fn read(path: &Path) -> Result<RuleSet, RuleStoreError> {
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RuleSet::default()),
        Err(source) => return Err(RuleStoreError::Read { path: path.to_path_buf(), source }),
    };
    RuleStore::parse(path, &text)
}

/// Reads a regular file of at most [`LARGEST`] bytes.
fn read_bounded(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    if metadata.len() > LARGEST {
        let message = format!("it has {} bytes; the limit is {LARGEST}", metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut text = String::new();
    fs::File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes to a temporary file and renames it, so that no reader sees a partial file.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(name);
    let written = (|| {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        // If this fails too, an unused temporary file remains.
        drop(fs::remove_file(&beside));
    }
    written
}

/// Formats line and column the way editors accept them; empty if unknown.
fn position(error: &RuleError) -> String {
    let RuleError::Json { source, .. } = error else { return String::new() };
    if source.line() == 0 {
        return String::new();
    }
    format!(":{}:{}", source.line(), source.column())
}

/// Returns the error text without the line and column, which precede it already.
fn reason(error: &RuleError) -> String {
    let text = error.to_string();
    let RuleError::Json { source, .. } = error else { return text };
    let position = format!(" at line {} column {}", source.line(), source.column());
    text.strip_suffix(&position).map_or(text.clone(), ToOwned::to_owned)
}
