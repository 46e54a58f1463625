//! The configuration of the directories that sessions work in: settings, agents, prompt files and project
//! configuration.
//!
//! A directory is read when the first session starts there, and again when its files have changed: a [`Stamp`]
//! records the trust status of the project, and size and modification time of the user's files. Sessions keep the
//! [`DirectoryConfig`] they started with.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use crow_agent::InstructionSources;
use crow_core::model::{ModelRef, Models};
use crow_runtime::HostError;

use crate::{
    config::{AgentLimits, Configuration},
    environment::ProcessEnvironment,
    error::AppError,
    host::{
        agents::Agents,
        parts::{ConfigurationSource, StartPlace},
        prompt_files::PromptFiles,
    },
    trust::{self, Project, TrustStamp, TrustStatus},
};

/// Maximum number of the user's configuration files in a stamp.
const MOST_FILES: usize = 2_000;
/// Maximum depth of folders in the user's configuration.
const DEEPEST: usize = 4;
/// Number of cached directories above which unused ones are dropped. Sessions keep the configuration they have.
const MOST_PLACES: usize = 64;

/// Configuration of the sessions of a directory.
#[derive(Debug)]
pub(super) struct DirectoryConfig {
    pub(super) project: Project,
    pub(super) agents: Agents,
    /// Default model.
    pub(super) model: Option<ModelRef>,
    /// Default model of reviewers.
    pub(super) review_model: Option<ModelRef>,
    pub(super) prompts: PromptFiles,
    /// Warnings about files that look like agents but lie in a folder that is not read.
    pub(super) misplaced: Vec<String>,
}

/// Cache of the configurations of directories; an entry is read again when its files have changed.
#[derive(Debug)]
pub(super) struct DirectoryConfigs {
    environment: ProcessEnvironment,
    configuration_source: ConfigurationSource,
    limits: AgentLimits,
    models: Arc<dyn Models>,
    /// Directory in which the program was started.
    start: Option<PathBuf>,
    cache: Mutex<HashMap<PathBuf, (Stamp, Arc<DirectoryConfig>)>>,
}

/// State of the files from which a configuration was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    project: TrustStamp,
    user: Vec<(PathBuf, Option<SystemTime>, u64)>,
}

impl DirectoryConfigs {
    pub(super) fn new(
        environment: ProcessEnvironment,
        configured: ConfigurationSource,
        limits: AgentLimits,
        models: Arc<dyn Models>,
    ) -> Self {
        Self {
            environment,
            configuration_source: configured,
            limits,
            models,
            start: None,
            cache: Mutex::default(),
        }
    }

    /// Adds the configuration of the directory in which the program was started. Blocks.
    pub(super) fn with_start(mut self, start: StartPlace) -> Self {
        let StartPlace { cwd, project, configuration } = start;
        // If the trust status cannot be determined, the directory is read again at the first session.
        if let Ok(status) = trust::trust_status(&cwd, &self.environment) {
            let stamp = self.stamp(&status);
            let place = Arc::new(self.make(project, configuration));
            self.cache().insert(cwd.clone(), (stamp, place));
        }
        self.start = Some(cwd);
        self
    }

    /// Returns the current configuration of a directory. Blocks.
    pub(super) fn for_directory(&self, cwd: &Path) -> Result<Arc<DirectoryConfig>, HostError> {
        self.read(cwd).map_err(|error| HostError::Refused {
            message: error.message,
            hint: error.hint.unwrap_or_default(),
        })
    }

    fn read(&self, cwd: &Path) -> Result<Arc<DirectoryConfig>, AppError> {
        let status = trust::trust_status(cwd, &self.environment)?;
        let stamp = self.stamp(&status);
        if let Some((_, place)) = self.cache().get(cwd).filter(|(cached, _)| *cached == stamp) {
            return Ok(Arc::clone(place));
        }
        let mut project = Project::of(cwd, status)?;
        if !project.additions.providers.is_empty() && self.start.as_deref() != Some(cwd) {
            project.notice = Some(format!(
                "the providers of the project in {} are known only to a crow-agent that is started there",
                cwd.display()
            ));
        }
        let configuration = match self.configuration_source {
            ConfigurationSource::InFiles => {
                Configuration::load(&self.environment, &project.additions)?
            }
            ConfigurationSource::Shipped => Configuration::shipped(),
        };
        let place = Arc::new(self.make(project, configuration));
        let mut cache = self.cache();
        if cache.len() >= MOST_PLACES {
            cache.retain(|_, (_, place)| Arc::strong_count(place) > 1);
        }
        cache.insert(cwd.to_path_buf(), (stamp, Arc::clone(&place)));
        Ok(place)
    }

    fn make(&self, project: Project, configuration: Configuration) -> DirectoryConfig {
        let (prompts, misplaced) = match self.configuration_source {
            ConfigurationSource::InFiles => {
                let agents = &configuration.agents;
                (PromptFiles::read(agents.layers()), agents.misplaced())
            }
            ConfigurationSource::Shipped => Default::default(),
        };
        let settings = &configuration.settings;
        let (model, review_model) = (settings.model.clone(), settings.review_model.clone());
        let user_folder = match self.configuration_source {
            ConfigurationSource::InFiles => self.environment.config_dir().ok(),
            ConfigurationSource::Shipped => None,
        };
        let (models, instructions) = (Arc::clone(&self.models), InstructionSources { user_folder });
        let agents = Agents::new(configuration.agents(self.limits), models, instructions);
        DirectoryConfig { project, agents, model, review_model, prompts, misplaced }
    }

    fn stamp(&self, status: &TrustStatus) -> Stamp {
        let mut user = Vec::new();
        if self.configuration_source == ConfigurationSource::InFiles
            && let Ok(folder) = self.environment.config_dir()
        {
            files_below(&folder, 0, &mut user);
            user.sort();
        }
        Stamp { project: status.stamp(), user }
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stamp, Arc<DirectoryConfig>)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Collects the files below a folder with modification time and size, within the bounds.
fn files_below(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, Option<SystemTime>, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Follows links: users link their configuration from elsewhere.
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
