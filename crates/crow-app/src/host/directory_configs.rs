//! The directories that sessions work in, and their configuration: settings, agents, prompt files and project
//! configuration.
//!
//! A directory is read when the first session starts there, and again when its files have changed: a [`Stamp`]
//! records the trust status of the project, and size and modification time of the user's files. Sessions keep the
//! [`DirectoryConfig`] they started with.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use crow_agent::{InstructionSources, SamplingChoice};
use crow_core::model::{ModelRef, Models};
use crow_runtime::HostError;

use super::{
    agents::Agents,
    product_host::{ConfigurationSource, StartPlace},
};
use crate::{
    config::{AgentLimits, Configuration},
    environment::ProcessEnvironment,
    error::AppError,
    hook_files::user_hook_files,
    hooks::HookSet,
    project_checks::accepted_check,
    prompt_files::{PromptFiles, claude_commands_folder},
    skills::{SKILL_FILE, SKILL_FOLDER, SkillSet, UserSkillReader, user_skill_folders},
    trust::{self, Project, TrustStamp, TrustStatus},
    web::WebTools,
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
    pub(super) skills: Arc<SkillSet>,
    pub(super) hooks: Arc<HookSet>,
    /// Warnings about files that look like agents but lie in a folder that is not read.
    pub(super) misplaced: Vec<String>,
}

/// Cache of the configurations of directories; an entry is read again when its files have changed.
#[derive(Debug)]
pub(super) struct DirectoryConfigs {
    environment: ProcessEnvironment,
    configuration_source: ConfigurationSource,
    limits: AgentLimits,
    sampling: SamplingChoice,
    models: Arc<dyn Models>,
    web: WebTools,
    /// True if a person is connected who can answer questions.
    is_attended: bool,
    /// Directory in which the program was started.
    start: Option<PathBuf>,
    /// True until the configuration of that directory, which was read a moment ago, is used for the first time.
    start_is_fresh: AtomicBool,
    /// The user's skills, which are read from the start of the program on.
    user_skills: Option<UserSkillReader>,
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
        (limits, sampling): (AgentLimits, SamplingChoice),
        models: Arc<dyn Models>,
        web: WebTools,
        is_attended: bool,
        user_skills: Option<UserSkillReader>,
    ) -> Self {
        Self {
            environment,
            configuration_source: configured,
            limits,
            sampling,
            models,
            web,
            is_attended,
            start: None,
            start_is_fresh: AtomicBool::new(false),
            user_skills,
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
            self.start_is_fresh = AtomicBool::new(true);
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

    /// Has a directory read again when it is needed next.
    pub(super) fn forget(&self, cwd: &Path) {
        self.cache().remove(cwd);
    }

    fn read(&self, cwd: &Path) -> Result<Arc<DirectoryConfig>, AppError> {
        if self.start.as_deref() == Some(cwd)
            && self.start_is_fresh.swap(false, Ordering::Relaxed)
            && let Some((_, place)) = self.cache().get(cwd)
        {
            return Ok(Arc::clone(place));
        }
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
                    .with_project_check(accepted_check(&self.environment, cwd)?)
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
        let (prompts, skills, hooks, misplaced) = match self.configuration_source {
            ConfigurationSource::InFiles => {
                let agents = &configuration.agents;
                let user_skills = self.user_skills.as_ref().and_then(UserSkillReader::take);
                let disabled = &configuration.settings.skills.disabled;
                let skills =
                    SkillSet::read(agents.layers(), &self.environment, disabled, user_skills);
                let hooks = HookSet::of_configuration(&configuration, &self.environment);
                let prompts = PromptFiles::read(agents.layers(), &self.environment);
                (prompts, Arc::new(skills), Arc::new(hooks), agents.misplaced())
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
        let agents = Agents::new(
            configuration.agents(self.limits, self.sampling),
            models,
            &self.web,
            Arc::clone(&skills),
            instructions,
            self.is_attended,
        );
        DirectoryConfig { project, agents, model, review_model, prompts, skills, hooks, misplaced }
    }

    fn stamp(&self, status: &TrustStatus) -> Stamp {
        let mut user = Vec::new();
        if self.configuration_source == ConfigurationSource::InFiles
            && let Ok(folder) = self.environment.config_dir()
        {
            // Of skills only the files that are read at the start count: there may be many others.
            files_below(&folder, 0, Some(&folder.join(SKILL_FOLDER)), &mut user);
            for folder in user_skill_folders(&self.environment) {
                add_skill_files(&folder, &mut user);
            }
            if let Some(folder) = claude_commands_folder(&self.environment) {
                files_below(&folder, 1, None, &mut user);
            }
            for file in user_hook_files(&self.environment) {
                if let Ok(metadata) = fs::metadata(&file) {
                    user.push((file, metadata.modified().ok(), metadata.len()));
                }
            }
            user.sort_unstable_by(|one, other| one.0.as_os_str().cmp(other.0.as_os_str()));
        }
        Stamp { project: status.stamp(), user }
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stamp, Arc<DirectoryConfig>)>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file with its modification time and size.
type ConfigFileStamp = (PathBuf, Option<SystemTime>, u64);

/// Collects the files below a folder, except in the folder `except`, within the bounds.
fn files_below(
    folder: &Path,
    depth: usize,
    except: Option<&Path>,
    found: &mut Vec<ConfigFileStamp>,
) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Follows links: users link their configuration from elsewhere.
        let Ok(metadata) = fs::metadata(entry.path()) else { continue };
        if found.len() == MOST_FILES {
            return;
        }
        if metadata.is_dir() && depth < DEEPEST {
            if except != Some(entry.path().as_path()) {
                files_below(&entry.path(), depth + 1, except, found);
            }
        } else if metadata.is_file() {
            found.push((entry.path(), metadata.modified().ok(), metadata.len()));
        }
    }
}

/// Collects the `SKILL.md` of each skill in a folder, within the bounds.
fn add_skill_files(folder: &Path, found: &mut Vec<ConfigFileStamp>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if found.len() == MOST_FILES {
            return;
        }
        let file = entry.path().join(SKILL_FILE);
        if let Ok(metadata) = fs::metadata(&file) {
            found.push((file, metadata.modified().ok(), metadata.len()));
        }
    }
}

/// Resolves the directory of a new session from the command line. It must exist.
pub fn working_directory(
    given: Option<&Path>,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, AppError> {
    let path = match given {
        Some(path) if path.is_absolute() => path.to_path_buf(),
        Some(path) => environment.current_dir()?.join(path),
        None => environment.current_dir()?.to_path_buf(),
    };
    let resolved = path.canonicalize().map_err(|error| {
        AppError::usage(format!("the directory {} cannot be used: {error}", path.display()))
            .hint("give an existing one with --cwd")
    })?;
    if !resolved.is_dir() {
        return Err(AppError::usage(format!("{} is not a directory", path.display()))
            .hint("give an existing one with --cwd"));
    }
    Ok(resolved)
}

/// Resolves a directory that an adapter names. It must be absolute and exist. Blocks.
pub(super) fn resolved(path: &Path) -> Result<PathBuf, HostError> {
    let refused = |message: String| HostError::Refused { message, hint: String::new() };
    let shown = path.display();
    if !path.is_absolute() {
        return Err(refused(format!("the directory {shown} is not absolute")));
    }
    let resolved = path
        .canonicalize()
        .map_err(|error| refused(format!("the directory {shown} cannot be used: {error}")))?;
    if !resolved.is_dir() {
        return Err(refused(format!("{shown} is not a directory")));
    }
    Ok(resolved)
}

/// Resolves the additional directories of a session. Leaves out duplicates, and those inside `cwd` or inside another
/// one. Refuses the root directory. Blocks.
pub(super) fn additional(cwd: &Path, given: &[PathBuf]) -> Result<Vec<PathBuf>, HostError> {
    let paths = given.iter().map(|path| resolved(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = paths.iter().find(|path| path.parent().is_none()) {
        return Err(HostError::Refused {
            message: format!(
                "{} is the whole file system, not a working directory",
                path.display()
            ),
            hint: "name specific directories".to_owned(),
        });
    }
    let is_in = |path: &Path, other: &Path| path != other && path.starts_with(other);
    let mut distinct: Vec<PathBuf> = Vec::new();
    for path in &paths {
        let is_known = path.starts_with(cwd) || distinct.contains(path);
        if !is_known && !paths.iter().any(|other| is_in(path, other)) {
            distinct.push(path.clone());
        }
    }
    Ok(distinct)
}

/// Fails if the directory of a stored session is gone: its paths and history refer to it.
pub(super) fn check_directory_exists(cwd: &Path) -> Result<(), HostError> {
    if cwd.is_dir() {
        return Ok(());
    }
    Err(HostError::Refused {
        message: format!("the directory of the session, {}, no longer exists", cwd.display()),
        hint: "restore it, or start a new session".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_directories_are_absolute_exist_and_are_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project/in", "beside/deep"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("beside"), root.join("link")).unwrap();
        let cwd = root.join("project");
        let count = |names: &[&str]| {
            let given: Vec<_> = names.iter().map(|name| root.join(name)).collect();
            additional(&cwd, &given).map(|paths| paths.len())
        };
        assert_eq!(count(&["beside", "link", "beside/deep", "project/in", "project"]).unwrap(), 1);
        assert!(count(&["absent"]).is_err());
        assert!(additional(&cwd, &["beside".into()]).is_err());
        assert!(additional(&cwd, &["/".into()]).is_err());
    }
}
