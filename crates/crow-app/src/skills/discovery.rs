//! The skills of a user and of a trusted project.

use std::{
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use crow_agent::layers::{ConfigLayer, LayerKind, Layers};
use crow_fs::{Directory, EntryKind, EntryName};

use super::skill_file::SkillFile;
use crate::{config::Configuration, environment::ProcessEnvironment, error::AppError};

/// Name of the file with the instructions.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// Maximum size of the file, in bytes.
const LARGEST: u64 = 1024 * 1024;
/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 128;
/// Number of skills for which a thread of their own is not worth while.
const FEW_SKILLS: usize = 20;
/// Maximum number of skills of one folder.
const MOST_SKILLS: usize = 1_000;
/// Folders of the user's skills: in the folder of the configuration, and in the home.
pub(crate) const SKILL_FOLDER: &str = "skills";
const HOME_FOLDERS: [&str; 2] = [".agents/skills", ".claude/skills"];
/// Folders of a project's skills, in the order in which a name is looked up. The first is below `.crow-agent`.
const PROJECT_FOLDERS: [(&str, &str); 3] = [
    ("skills/", ".crow-agent/skills"),
    ("../.agents/skills/", ".agents/skills"),
    ("../.claude/skills/", ".claude/skills"),
];

/// Returns the folders of the user's skills, resolved as far as they exist, in the order in which a name is looked up.
pub(crate) fn user_skill_folders(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let own = environment.config_dir().ok().map(|folder| folder.join(SKILL_FOLDER));
    let folders = own.into_iter().chain(home_skill_folders(environment));
    folders.map(|folder| folder.canonicalize().unwrap_or(folder)).collect()
}

/// Returns the folders of skills in the home, which other programs use too.
fn home_skill_folders(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let home = environment.var("HOME").map(PathBuf::from);
    let folders = home.iter().flat_map(|home| HOME_FOLDERS.map(|folder| home.join(folder)));
    folders.collect()
}

/// Whose skill it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillOrigin {
    /// In a folder of the user.
    User,
    /// In a trusted project.
    Project,
}

impl SkillOrigin {
    /// Returns the name for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A skill that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Name of its folder.
    pub name: String,
    /// The description, on one line.
    pub description: String,
    /// Description of the arguments of its command; empty if it takes none.
    pub argument: String,
    pub origin: SkillOrigin,
    /// The folder, absolute.
    pub folder: PathBuf,
    /// True if the model may load it by itself.
    pub for_model: bool,
    /// True if the user can start it as a command.
    pub for_user: bool,
    /// Violations of the format that do not prevent its use.
    pub faults: Vec<String>,
    body: SkillBody,
}

/// Where the instructions are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SkillBody {
    /// In memory: a project's, whose bytes are those that were trusted.
    Trusted(String),
    /// In the file, which is read when they are needed.
    InFile,
}

/// The skills of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSet {
    /// Those that can be used, sorted by name.
    pub skills: Vec<Skill>,
    /// Those that the user switched off, sorted by name.
    pub disabled: Vec<Skill>,
    /// Messages about skills that cannot be used, and about names that occur twice.
    pub faults: Vec<String>,
}

impl SkillSet {
    /// Collects the skills of a trusted project and of the user, which may have been read before. A skill of the project
    /// replaces one of the user. Blocks.
    pub(crate) fn read(
        layers: &Layers,
        environment: &ProcessEnvironment,
        disabled: &[String],
        user: Option<Vec<FoundSkill>>,
    ) -> Self {
        let mut set = Self::default();
        let of_project = layers.iter().filter(|layer| layer.kind() == LayerKind::Project);
        let project = of_project.flat_map(project_skills);
        let user = user.unwrap_or_else(|| all_user_skills(environment));
        for found in project.collect::<Vec<_>>().into_iter().chain(user) {
            set.add(found, disabled);
        }
        set.skills.sort_by(|one, other| one.name.cmp(&other.name));
        set.disabled.sort_by(|one, other| one.name.cmp(&other.name));
        set
    }

    /// Collects the skills of a configuration. Returns the names of those that are switched off, too. Blocks.
    pub fn of_configuration(
        configuration: &Configuration,
        environment: &ProcessEnvironment,
    ) -> (Self, Vec<String>) {
        let disabled = configuration.settings.skills.disabled.clone();
        (Self::read(configuration.agents.layers(), environment, &disabled, None), disabled)
    }

    fn add(&mut self, found: FoundSkill, disabled: &[String]) {
        let skill = match found {
            Ok(skill) => skill,
            Err(fault) => return self.faults.push(fault),
        };
        let known = self.skills.iter().chain(&self.disabled).find(|known| known.name == skill.name);
        match known {
            // The same folder by a link is the same skill.
            Some(known) if known.folder == skill.folder => {}
            Some(known) => self.faults.push(format!(
                "there are two skills named {}: {} is used, {} is not",
                skill.name,
                known.folder.display(),
                skill.folder.display()
            )),
            None if disabled.contains(&skill.name) => self.disabled.push(skill),
            None => self.skills.push(skill),
        }
    }

    /// Returns the folders of the user's skills, which commands and file tools may read: those that hold several, and those
    /// that links lead to.
    pub(crate) fn readable_folders(&self, environment: &ProcessEnvironment) -> Vec<PathBuf> {
        let mut folders = user_skill_folders(environment);
        folders.retain(|folder| folder.is_dir());
        let user = self.skills.iter().filter(|skill| skill.origin == SkillOrigin::User);
        for skill in user {
            if !folders.iter().any(|folder| skill.folder.starts_with(folder)) {
                folders.push(skill.folder.clone());
            }
        }
        folders
    }

    /// Returns the skill of this name, if it can be used.
    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

impl Skill {
    fn new(
        (name, origin, folder): (String, SkillOrigin, PathBuf),
        text: &str,
        body: impl FnOnce(&str) -> SkillBody,
    ) -> Result<Self, String> {
        let file = SkillFile::parse(&name, text);
        let file = file.map_err(|why| unusable(&folder, &why))?;
        Ok(Self {
            name,
            description: file.description,
            argument: file.argument,
            origin,
            folder,
            for_model: !file.only_user,
            for_user: !file.only_model,
            faults: file.faults,
            body: body(&text[file.body_at..]),
        })
    }

    /// Returns the instructions. `${CLAUDE_SKILL_DIR}` in them is replaced by the path of the folder. Blocks.
    ///
    /// # Errors
    /// Fails if the file of a user's skill cannot be read any more.
    pub fn instructions(&self) -> Result<String, AppError> {
        let text = match &self.body {
            SkillBody::Trusted(text) => text.clone(),
            SkillBody::InFile => {
                let text = read(&self.folder.join(SKILL_FILE));
                let text = text.map_err(AppError::usage)?;
                let file = SkillFile::parse(&self.name, &text);
                let file = file.map_err(|why| AppError::usage(unusable(&self.folder, &why)))?;
                text[file.body_at..].to_owned()
            }
        };
        let folder = self.folder.display().to_string();
        Ok(text.trim().replace("${CLAUDE_SKILL_DIR}", &folder))
    }
}

fn unusable(folder: &Path, why: &str) -> String {
    format!("the skill in {} cannot be used: {why}", folder.display())
}

/// Returns the skills among the trusted files of a project, or why one cannot be used.
fn project_skills(layer: &ConfigLayer) -> Vec<FoundSkill> {
    let mut found = Vec::new();
    let root = layer.root().parent().unwrap_or(layer.root());
    for (prefix, folder) in PROJECT_FOLDERS {
        for file in layer.names_in_memory() {
            let Some(name) = project_skill_name(file, prefix) else { continue };
            let folder = root.join(folder).join(name);
            found.push(match layer.read(file) {
                Ok(text) => {
                    let body = |text: &str| SkillBody::Trusted(text.to_owned());
                    let place = (name.to_owned(), SkillOrigin::Project, folder);
                    Skill::new(place, &text.unwrap_or_default(), body)
                }
                Err(error) => Err(unusable(&folder, &error.to_string())),
            });
        }
    }
    found
}

/// Returns the name of the skill whose instructions a file of a project has.
pub(crate) fn skill_of_file(file: &str) -> Option<&str> {
    PROJECT_FOLDERS.iter().find_map(|(prefix, _)| project_skill_name(file, prefix))
}

fn project_skill_name<'a>(file: &'a str, prefix: &str) -> Option<&'a str> {
    let name = file.strip_prefix(prefix)?.strip_suffix(SKILL_FILE)?.strip_suffix('/')?;
    let is_usable = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.contains('/')
        && !name.contains(char::is_control);
    is_usable.then_some(name)
}

/// A skill of the user, or why it cannot be used.
pub(crate) type FoundSkill = Result<Skill, String>;

/// Reads the user's skills in a thread, while the program starts. Clones share the thread.
#[derive(Debug, Clone)]
pub struct UserSkillReader(Arc<Mutex<Option<JoinHandle<Vec<FoundSkill>>>>>);

impl UserSkillReader {
    /// Starts the thread. Returns `None` if the user has no folder of skills.
    pub fn start(environment: &ProcessEnvironment) -> Option<Self> {
        if !user_skill_folders(environment).iter().any(|folder| folder.is_dir()) {
            return None;
        }
        let environment = environment.clone();
        let thread = thread::spawn(move || all_user_skills(&environment));
        Some(Self(Arc::new(Mutex::new(Some(thread)))))
    }

    /// Returns the skills, the first time. Blocks until they are read.
    pub(crate) fn take(&self) -> Option<Vec<FoundSkill>> {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// Returns the user's skills in the order in which a name is looked up. Blocks.
fn all_user_skills(environment: &ProcessEnvironment) -> Vec<FoundSkill> {
    let folders = user_skill_folders(environment).into_iter();
    folders.flat_map(|folder| user_skills(&folder)).collect()
}

/// Returns the skills in a folder of the user, or why one cannot be used. Links are followed: users link skills from
/// elsewhere. Blocks.
fn user_skills(folder: &Path) -> Vec<FoundSkill> {
    let opened = Directory::open(folder).and_then(|opened| {
        let entries = opened.entries(MOST_SKILLS)?;
        Ok((opened, entries))
    });
    let (opened, mut entries) = match opened {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => return Vec::new(),
        Err(error) => return vec![Err(format!("cannot read {}: {error}", folder.display()))],
    };
    entries.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let skill = |(name, kind): (EntryName, EntryKind)| {
        let name = name.as_os_str().to_str().filter(|name| is_visible_name(name))?.to_owned();
        let mut path = folder.join(&name);
        let read_it = match kind {
            EntryKind::Directory => {
                let opened = opened.open_file_beneath(&Path::new(&name).join(SKILL_FILE));
                match opened {
                    // A link is followed by its path.
                    Err(error) if crow_fs::is_link_error(&error) => read(&path.join(SKILL_FILE)),
                    // Other folders may be there too.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                    opened => text_of(opened, &path.join(SKILL_FILE)),
                }
            }
            EntryKind::Symlink => {
                path = path.canonicalize().unwrap_or(path);
                let file = path.join(SKILL_FILE);
                file.symlink_metadata().ok()?;
                read(&file)
            }
            EntryKind::File | EntryKind::Special => return None,
        };
        let text = match read_it {
            Ok(text) => text,
            Err(why) => return Some(Err(why)),
        };
        Some(Skill::new((name, SkillOrigin::User, path), &text, |_| SkillBody::InFile))
    };
    // Two threads halve the time that a start takes longer with many skills.
    let second = entries.split_off(entries.len() / 2);
    let find =
        |entries: Vec<(EntryName, _)>| entries.into_iter().filter_map(skill).collect::<Vec<_>>();
    if second.len() < FEW_SKILLS {
        return find(entries).into_iter().chain(find(second)).collect();
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| find(second));
        let mut found = find(entries);
        found.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        found
    })
}

/// Returns true for a name that stands in requests and on the terminal as it is.
fn is_visible_name(name: &str) -> bool {
    !name.starts_with('.') && name.len() <= LONGEST_NAME && !name.contains(char::is_control)
}

/// Reads a file of at most [`LARGEST`] bytes through links. The error is a sentence.
fn read(path: &Path) -> Result<String, String> {
    text_of(path.canonicalize().and_then(|path| crow_fs::open_file(&path)), path)
}

/// Reads an opened file of at most [`LARGEST`] bytes. The error is a sentence.
fn text_of(opened: io::Result<fs::File>, path: &Path) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
    let bytes = opened.and_then(|file| crow_fs::read_file(file, LARGEST));
    String::from_utf8(bytes.map_err(|error| failed(&error))?)
        .map_err(|_| failed(&"it is not UTF-8"))
}
