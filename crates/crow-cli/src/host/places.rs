//! What holds for the sessions of a directory: its configuration and agents, and what its project adds.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crow_core::model::{ModelRef, Models};
use crow_runtime::HostError;

use super::{
    agents::{AgentLimits, Agents},
    parts::{ConfigurationSource, StartPlace},
    prompt_files::PromptFiles,
};
use crate::{
    config::Configuration,
    environment::Environment,
    error::CliError,
    trust::{self, Project, TrustStamp, TrustStatus},
};

/// How many files of the user's configuration are looked at to see whether something changed.
const MOST_FILES: usize = 2_000;
/// How deep its folders lie in each other.
const DEEPEST: usize = 4;
/// How many directories are known at a time. Whoever still works in one that is forgotten goes on with it.
const MOST_PLACES: usize = 64;

/// What holds for the sessions of a directory.
#[derive(Debug)]
pub(super) struct DirectoryConfig {
    pub(super) project: Project,
    pub(super) agents: Agents,
    /// The model to ask where nobody names one.
    pub(super) model: Option<ModelRef>,
    /// The same for those that look at the work of others.
    pub(super) review_model: Option<ModelRef>,
    pub(super) prompts: PromptFiles,
    /// What the user should be told of files that look like agents and are not read.
    pub(super) misplaced: Vec<String>,
}

/// The places in which sessions work, each read when the first session begins there, and again when its files changed.
#[derive(Debug)]
pub(super) struct DirectoryConfigs {
    environment: Environment,
    configured: ConfigurationSource,
    limits: AgentLimits,
    models: Arc<dyn Models>,
    /// The place in which the program was started.
    start: Option<PathBuf>,
    known: Mutex<HashMap<PathBuf, (Stamp, Arc<DirectoryConfig>)>>,
}

/// How the files were of which a place was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    project: TrustStamp,
    user: Vec<(PathBuf, Option<SystemTime>, u64)>,
}

impl DirectoryConfigs {
    pub(super) fn new(
        environment: Environment,
        configured: ConfigurationSource,
        limits: AgentLimits,
        models: Arc<dyn Models>,
    ) -> Self {
        Self { environment, configured, limits, models, start: None, known: Mutex::default() }
    }

    /// Adds the place in which the program was started, as it was found then. Blocks.
    pub(super) fn with_start(mut self, start: StartPlace) -> Self {
        let StartPlace { cwd, project, configuration } = start;
        // Where it cannot be told how the files are, they are read again.
        if let Ok(standing) = trust::standing(&cwd, &self.environment) {
            let stamp = self.stamp(&standing);
            let place = Arc::new(self.make(project, configuration));
            self.known().insert(cwd.clone(), (stamp, place));
        }
        self.start = Some(cwd);
        self
    }

    /// Returns what holds for the sessions that begin in a directory now. Blocks.
    pub(super) fn of(&self, cwd: &Path) -> Result<Arc<DirectoryConfig>, HostError> {
        self.read(cwd).map_err(|error| HostError::Refused {
            message: error.message,
            hint: error.hint.unwrap_or_default(),
        })
    }

    fn read(&self, cwd: &Path) -> Result<Arc<DirectoryConfig>, CliError> {
        let standing = trust::standing(cwd, &self.environment)?;
        let stamp = self.stamp(&standing);
        if let Some((_, place)) = self.known().get(cwd).filter(|(known, _)| *known == stamp) {
            return Ok(Arc::clone(place));
        }
        let mut project = Project::of(cwd, standing)?;
        if !project.providers.is_empty() && self.start.as_deref() != Some(cwd) {
            project.notice = Some(format!(
                "the providers of the project in {} are known only to a crow-agent that is started there",
                cwd.display()
            ));
        }
        let configuration = match self.configured {
            ConfigurationSource::InFiles => Configuration::load(&self.environment, &project)?,
            ConfigurationSource::Shipped => Configuration::shipped(),
        };
        let place = Arc::new(self.make(project, configuration));
        let mut known = self.known();
        if known.len() >= MOST_PLACES {
            known.retain(|_, (_, place)| Arc::strong_count(place) > 1);
        }
        known.insert(cwd.to_path_buf(), (stamp, Arc::clone(&place)));
        Ok(place)
    }

    fn make(&self, project: Project, configuration: Configuration) -> DirectoryConfig {
        let (prompts, misplaced) = match self.configured {
            ConfigurationSource::InFiles => {
                let agents = &configuration.agents;
                (PromptFiles::read(agents.layers()), agents.misplaced())
            }
            ConfigurationSource::Shipped => Default::default(),
        };
        let settings = &configuration.settings;
        let (model, review_model) = (settings.model.clone(), settings.review_model.clone());
        let agents = Agents::new(configuration.agents(self.limits), Arc::clone(&self.models));
        DirectoryConfig { project, agents, model, review_model, prompts, misplaced }
    }

    fn stamp(&self, standing: &TrustStatus) -> Stamp {
        let mut user = Vec::new();
        if self.configured == ConfigurationSource::InFiles
            && let Ok(folder) = self.environment.config_dir()
        {
            files_below(&folder, 0, &mut user);
            user.sort();
        }
        Stamp { project: standing.mark(), user }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stamp, Arc<DirectoryConfig>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds files with their sizes and the times of their last changes.
fn files_below(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, Option<SystemTime>, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Links are followed: people keep their configuration elsewhere.
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        if found.len() == MOST_FILES {
            return;
        }
        if metadata.is_dir() && depth < DEEPEST {
            files_below(&entry.path(), depth + 1, found);
        } else if metadata.is_file() {
            found.push((entry.path(), metadata.modified().ok(), metadata.len()));
        }
    }
}
