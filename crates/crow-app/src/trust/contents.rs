//! The files of a project's configuration: everything below `.crow-agent`, and what other programs use as well: `.mcp.json`, the
//! instructions of skills, and the hooks and commands of Claude Code. They are read once into memory.
//!
//! The same bytes are shown, hashed and used; nothing is read from disk a second time. Names are relative to
//! `.crow-agent`; those of files beside it start with [`OUTSIDE_PREFIX`]. Links are stored as links, and accepted only if
//! they lead to a file that was read as well.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crow_fs::{Directory, EntryKind, EntryMetadata, EntryName};
use rustix::io::Errno;

use crate::{
    config::PROJECT_FILE,
    hook_files::{ProjectHookFile, hooks_of_settings},
    skills::SKILL_FILE,
    trust::{
        programs::{ProjectPrograms, StartedServer},
        project::{hook_programs, servers},
    },
};

/// Folder of a project's configuration.
pub(crate) const FOLDER: &str = ".crow-agent";
/// Prefix of the names of files outside the folder. No name below the folder starts with it.
pub(super) const OUTSIDE_PREFIX: &str = "../";
/// Folders of skills beside the folder.
const SKILL_FOLDERS: [&str; 2] = [".agents/skills", ".claude/skills"];
/// Claude Code's settings with hooks, in its folder.
const CLAUDE_FOLDER: &str = ".claude";
const HOOK_FILES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];
/// Folder of Claude Code's commands, and depth of folders in it.
const COMMAND_FOLDER: &str = ".claude/commands";
const COMMAND_ENDING: &str = ".md";
const DEEPEST_COMMANDS: usize = 3;
/// Maximum size of a file of settings, in bytes.
const LARGEST_SETTINGS: u64 = 1024 * 1024;
/// Maximum number of skills outside of the folder, and maximum size of their instructions, in bytes.
const MOST_SKILL_ITEMS: usize = 300;
const LARGEST_SKILL: u64 = 64 * 1024;
/// Maximum number of files, links and folders in the folder.
const MOST_ITEMS: usize = 200;
/// Maximum size of all of these files together, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;
/// Maximum depth of nested folders.
const DEEPEST: usize = 16;
/// Execute bits of a file mode.
const EXECUTE_BITS: u32 = 0o111;
/// Maximum length of a chain of links.
const MOST_LINKS: usize = 8;

/// The files of a project's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFiles {
    /// Canonical path of the project's root.
    pub(super) root: PathBuf,
    /// Entries by path below the folder, with `/` as separator.
    pub(super) items: BTreeMap<String, ProjectItem>,
    /// Project files that its servers, and those of the user, are started from.
    pub(super) programs: ProjectPrograms,
    /// The user's own servers that are started from project files.
    pub(super) user_servers: Vec<StartedServer>,
    /// Messages about skills and hooks that are not used.
    pub(super) skill_faults: Vec<String>,
    /// Folders of the user's own skills, and files of their hooks, which were passed over.
    pub(super) user_paths: Vec<PathBuf>,
}

/// An entry of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectItem {
    Folder,
    File {
        bytes: Vec<u8>,
        executable: bool,
    },
    /// A link to a file below the folder.
    Link {
        target: String,
    },
}

/// Reason for which a configuration is refused without being shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentsError {
    #[error("{} cannot be read: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is {what}", .path.display())]
    UnexpectedType { path: PathBuf, what: &'static str },
    #[error("{} holds more than {MOST_ITEMS} files and folders", .path.display())]
    TooMany { path: PathBuf },
    #[error("{} holds more than {} KiB", .path.display(), MOST_BYTES >> 10)]
    TooLarge { path: PathBuf },
    #[error("the link {} points to {target}, which is not a file in {FOLDER}", .path.display())]
    Link { path: PathBuf, target: String },
}

/// Returns the folder whose `.crow-agent` applies to a working directory: the nearest one up to the root of the
/// repository, else that root, or the directory itself outside a repository.
pub fn project_root(cwd: &Path) -> PathBuf {
    let top = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd);
    let is_there = |folder: &&Path| match folder.join(FOLDER).symlink_metadata() {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let mut folders = cwd.ancestors().take_while(|folder| folder.starts_with(top));
    folders.find(is_there).unwrap_or(top).to_path_buf()
}

impl ProjectFiles {
    /// Reads the configuration of a project, and finds the files that its servers and `user_servers` are started
    /// from. `user_paths` are the folders of the user's own skills and the files of their hooks. Returns `None` if there is no file, no link and no such
    /// server. Blocks.
    pub(crate) fn read(
        root: &Path,
        user_servers: &[StartedServer],
        user_paths: &[PathBuf],
    ) -> Result<Option<Self>, ContentsError> {
        let folder = root.join(FOLDER);
        // 1) What other programs use as well, then everything below `.crow-agent`.
        let mut reader = ProjectReader {
            folder: &folder,
            items: BTreeMap::new(),
            room: MOST_BYTES,
            skill_count: 0,
            skill_faults: Vec::new(),
        };
        reader.read_skills(root, user_paths);
        reader.read_hooks(root, user_paths);
        reader.read_commands(root, user_paths);
        reader.skill_count = reader.items.len();
        reader.read_servers(root)?;
        match Directory::open(&folder) {
            Ok(directory) => reader.read_folder(&directory, "", 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error)
                if crow_fs::is_link_error(&error)
                    || error.kind() == io::ErrorKind::NotADirectory =>
            {
                let what = "a link or a file, but must be a folder";
                return Err(ContentsError::UnexpectedType { path: folder, what });
            }
            Err(error) => return Err(unreadable(folder, error)),
        }
        let ProjectReader { items, skill_faults, .. } = reader;
        let user_servers = started_from(root, user_servers);
        if items.values().all(|item| *item == ProjectItem::Folder) && user_servers.is_empty() {
            return Ok(None);
        }
        let programs = ProjectPrograms::default();
        let root_path = root.to_path_buf();
        let mut contents = Self {
            root: root_path,
            items,
            programs,
            user_servers,
            skill_faults,
            user_paths: user_paths.to_vec(),
        };
        // 2) Every link must lead to a file that was read.
        for (name, item) in &contents.items {
            if let ProjectItem::Link { target } = item
                && contents.resolve_links(name).is_none()
            {
                let (path, target) = (folder.join(name), target.clone());
                return Err(ContentsError::Link { path, target });
            }
        }
        // 3) The files that servers and hooks are started from.
        let project_servers = servers(&contents);
        let project_servers: Vec<_> = project_servers
            .values()
            .filter_map(|server| StartedServer::of_project(root, server))
            .chain(hook_programs(&contents))
            .collect();
        contents.programs = ProjectPrograms::find(root, &project_servers);
        let of_user = ProjectPrograms::find(root, &contents.user_servers);
        contents.programs.add_of_user(root, of_user);
        Ok(Some(contents))
    }

    /// Returns the project's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of its files and links, relative to the root.
    pub fn file_names(&self) -> Vec<String> {
        let files = self.items.iter().filter(|(_, item)| !matches!(item, ProjectItem::Folder));
        files.map(|(name, _)| Self::display_name(name)).collect()
    }

    /// Returns the path of an entry.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix(OUTSIDE_PREFIX) {
            Some(name) => self.root.join(name),
            None => self.root.join(FOLDER).join(name),
        }
    }

    /// Returns the path that messages name: the folder if it exists, else `.mcp.json` if there is nothing else, else the
    /// root.
    pub(super) fn message_path(&self) -> PathBuf {
        let servers = format!("{OUTSIDE_PREFIX}{PROJECT_FILE}");
        if self.items.keys().any(|name| !name.starts_with(OUTSIDE_PREFIX)) {
            self.root.join(FOLDER)
        } else if self.items.len() == 1 && self.items.contains_key(&servers) {
            self.path(&servers)
        } else {
            self.root.clone()
        }
    }

    /// Returns path and bytes of `.mcp.json`.
    pub(crate) fn servers(&self) -> Option<(PathBuf, &[u8])> {
        let name = format!("{OUTSIDE_PREFIX}{PROJECT_FILE}");
        Some((self.path(&name), self.file(&name)?))
    }

    /// Returns the name of an entry relative to the project's root, for display.
    pub(crate) fn display_name(name: &str) -> String {
        name.strip_prefix(OUTSIDE_PREFIX).map_or_else(|| format!("{FOLDER}/{name}"), str::to_owned)
    }

    /// Returns the bytes of a file; follows links.
    pub(crate) fn file(&self, name: &str) -> Option<&[u8]> {
        match self.items.get(self.resolve_links(name)?.as_str())? {
            ProjectItem::File { bytes, .. } => Some(bytes),
            ProjectItem::Folder | ProjectItem::Link { .. } => None,
        }
    }

    /// Follows links to the name of a file. Intermediate path components must be real folders, so that the system
    /// would find the same file.
    fn resolve_links(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for _ in 0..=MOST_LINKS {
            match self.items.get(&name)? {
                ProjectItem::File { .. } => return Some(name),
                ProjectItem::Folder => return None,
                ProjectItem::Link { target } => name = self.link_target(&name, target)?,
            }
        }
        None
    }

    /// Returns the name that a link leads to; `None` if it leaves the folder or passes through something that is no
    /// folder.
    fn link_target(&self, link: &str, target: &str) -> Option<String> {
        if target.starts_with('/') {
            return None;
        }
        let mut parts: Vec<&str> = link.split('/').collect();
        parts.pop();
        let mut steps =
            target.split('/').filter(|step| !step.is_empty() && *step != ".").peekable();
        while let Some(step) = steps.next() {
            if step == ".." {
                parts.pop()?;
                continue;
            }
            parts.push(step);
            let has_more = steps.peek().is_some();
            if has_more && self.items.get(&parts.join("/")) != Some(&ProjectItem::Folder) {
                return None;
            }
        }
        Some(parts.join("/"))
    }
}

/// Returns the servers that are started from files below a root. Blocks.
pub(super) fn started_from(root: &Path, servers: &[StartedServer]) -> Vec<StartedServer> {
    let is_from_here =
        |server: &&StartedServer| !ProjectPrograms::find(root, [*server]).protected.is_empty();
    servers.iter().filter(is_from_here).cloned().collect()
}

struct ProjectReader<'a> {
    folder: &'a Path,
    items: BTreeMap<String, ProjectItem>,
    room: u64,
    /// Number of skills among the items.
    skill_count: usize,
    /// Messages about skills that are not used.
    skill_faults: Vec<String>,
}

impl ProjectReader<'_> {
    /// Reads `.mcp.json`, which other programs use as well.
    fn read_servers(&mut self, root: &Path) -> Result<(), ContentsError> {
        let path = root.join(PROJECT_FILE);
        match crow_fs::open_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if crow_fs::is_link_error(&error) => {
                Err(ContentsError::UnexpectedType { path, what: "a link, but must be a file" })
            }
            Err(error) => Err(unreadable(path, error)),
            Ok(file) => {
                let metadata = EntryMetadata::of_file(&file);
                let metadata = metadata.map_err(|error| unreadable(path.clone(), error))?;
                if metadata.kind != EntryKind::File {
                    return Err(ContentsError::UnexpectedType {
                        path,
                        what: "not a regular file, but must be one",
                    });
                }
                let bytes = self.read_bytes(file, &path)?;
                let item = ProjectItem::File { bytes, executable: false };
                self.items.insert(format!("{OUTSIDE_PREFIX}{PROJECT_FILE}"), item);
                Ok(())
            }
        }
    }

    /// Reads the hooks in Claude Code's settings. The rest of the settings is left out: nothing depends on it, and it changes
    /// often. A file that cannot be used has none.
    fn read_hooks(&mut self, root: &Path, user_paths: &[PathBuf]) {
        for file in HOOK_FILES {
            let path = root.join(file);
            if user_paths.contains(&path) {
                continue;
            }
            let opened = Directory::open(root).and_then(|root| {
                let folder = root.open_beneath(Path::new(CLAUDE_FOLDER))?;
                let name = EntryName::new(file.rsplit('/').next().unwrap_or(file))?;
                crow_fs::read_file(folder.open_file(&name)?, LARGEST_SETTINGS)
            });
            let text = match opened {
                Ok(bytes) => hooks_of_settings(&bytes)
                    .map_err(|why| format!("{}:{why}: its hooks are not used", path.display())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(unreadable(path, error).to_string()),
            };
            match text {
                Ok(ProjectHookFile::None) => {}
                Ok(ProjectHookFile::Hooks(bytes)) => {
                    let item = ProjectItem::File { bytes, executable: false };
                    self.items.insert(format!("{OUTSIDE_PREFIX}{file}"), item);
                }
                Err(fault) => self.skill_faults.push(fault),
            }
        }
    }

    /// Reads Claude Code's commands. What cannot be read is a fault of that file alone.
    fn read_commands(&mut self, root: &Path, user_paths: &[PathBuf]) {
        let path = root.join(COMMAND_FOLDER);
        if user_paths.contains(&path) {
            return;
        }
        let opened =
            Directory::open(root).and_then(|root| root.open_beneath(Path::new(COMMAND_FOLDER)));
        match opened {
            Ok(folder) => self.read_command_folder(&folder, COMMAND_FOLDER, &path, 0),
            Err(error) if is_absent(&error) => {}
            Err(error) => self.skill_faults.push(unreadable(path, error).to_string()),
        }
    }

    fn read_command_folder(&mut self, folder: &Directory, name: &str, path: &Path, depth: usize) {
        let entries = folder.entries(MOST_ITEMS);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                return self.skill_faults.push(unreadable(path.to_path_buf(), error).to_string());
            }
        };
        for (entry, kind) in entries {
            let Some(file) = entry.as_os_str().to_str().filter(|file| !file.starts_with('.'))
            else {
                continue;
            };
            let (item, path) = (format!("{name}/{file}"), path.join(file));
            match kind {
                EntryKind::Directory if depth < DEEPEST_COMMANDS => {
                    match folder.open_beneath(Path::new(file)) {
                        Ok(inner) => self.read_command_folder(&inner, &item, &path, depth + 1),
                        Err(error) => self.skill_faults.push(unreadable(path, error).to_string()),
                    }
                }
                EntryKind::File if file.ends_with(COMMAND_ENDING) => {
                    let has_room = self.items.len() < MOST_SKILL_ITEMS;
                    let read = folder.open_file(&entry);
                    let read = read.and_then(|file| crow_fs::read_file(file, LARGEST_SKILL));
                    match read {
                        Ok(bytes) if has_room => {
                            let file = ProjectItem::File { bytes, executable: false };
                            self.items.insert(format!("{OUTSIDE_PREFIX}{item}"), file);
                        }
                        Ok(_) => self.skill_faults.push(format!(
                            "the command {} is not used: there are more than {MOST_SKILL_ITEMS} skills and commands",
                            path.display()
                        )),
                        Err(error) => self.skill_faults.push(unreadable(path, error).to_string()),
                    }
                }
                EntryKind::Symlink if file.ends_with(COMMAND_ENDING) => self
                    .skill_faults
                    .push(format!("the command {} is a link and is not used", path.display())),
                EntryKind::Directory
                | EntryKind::File
                | EntryKind::Symlink
                | EntryKind::Special => {}
            }
        }
    }

    /// Reads the instructions of skills. What cannot be read is a fault of that skill alone. Folders of the user's own skills
    /// are passed over: they are no project's.
    fn read_skills(&mut self, root: &Path, user_paths: &[PathBuf]) {
        for folder in SKILL_FOLDERS {
            let path = root.join(folder);
            if user_paths.contains(&path) {
                continue;
            }
            let opened =
                Directory::open(root).and_then(|root| root.open_beneath(Path::new(folder)));
            let entries = opened.and_then(|skills| {
                let mut entries = skills.entries(MOST_ITEMS)?;
                entries.sort_by(|one, other| one.0.as_os_str().cmp(other.0.as_os_str()));
                Ok((skills, entries))
            });
            let (skills, entries) = match entries {
                Ok(found) => found,
                Err(error) if is_absent(&error) => continue,
                Err(error) => {
                    self.skill_faults.push(unreadable(path, error).to_string());
                    continue;
                }
            };
            for (entry, kind) in entries {
                let Some(name) = entry.as_os_str().to_str().filter(|name| !name.starts_with('.'))
                else {
                    continue;
                };
                let item_name = format!("{OUTSIDE_PREFIX}{folder}/{name}/{SKILL_FILE}");
                match kind {
                    EntryKind::Directory => self.read_skill(&skills, name, item_name, &path),
                    // Often it leads to the other folder, from which it is read.
                    EntryKind::Symlink if self.has_skill(name) => {}
                    EntryKind::Symlink => self.skill_faults.push(format!(
                        "the skill {} is a link and is not used",
                        path.join(name).display()
                    )),
                    EntryKind::File | EntryKind::Special => {}
                }
            }
        }
    }

    /// Returns true if a skill of this name was read.
    fn has_skill(&self, name: &str) -> bool {
        SKILL_FOLDERS.iter().any(|folder| {
            self.items.contains_key(&format!("{OUTSIDE_PREFIX}{folder}/{name}/{SKILL_FILE}"))
        })
    }

    fn read_skill(&mut self, skills: &Directory, name: &str, item_name: String, folder: &Path) {
        let path = folder.join(name).join(SKILL_FILE);
        let read = || -> io::Result<Vec<u8>> {
            let skill = skills.open_beneath(Path::new(name))?;
            crow_fs::read_file(skill.open_file(&EntryName::new(SKILL_FILE)?)?, LARGEST_SKILL)
        };
        let has_room = self.items.len() < MOST_SKILL_ITEMS;
        match read() {
            Ok(bytes) if has_room => {
                let item = ProjectItem::File { bytes, executable: false };
                self.items.insert(item_name, item);
            }
            Ok(_) => self.skill_faults.push(format!(
                "the skill {} is not used: the project has more than {MOST_SKILL_ITEMS}",
                path.display()
            )),
            // Other folders may be there too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.skill_faults.push(unreadable(path, error).to_string()),
        }
    }

    fn read_folder(
        &mut self,
        folder: &Directory,
        below: &str,
        depth: usize,
    ) -> Result<(), ContentsError> {
        let folder_path = self.path(below);
        let odd = |path: PathBuf, what| Err(ContentsError::UnexpectedType { path, what });
        if depth > DEEPEST {
            return odd(folder_path, "nested too deeply");
        }
        // Lists one entry more than allowed, so that an excess is noticed.
        let entries = folder.entries(MOST_ITEMS + 1);
        for (entry, _) in entries.map_err(|error| unreadable(folder_path.clone(), error))? {
            let Some(name) = entry.as_os_str().to_str() else {
                return odd(folder_path, "a folder with a file name that is not UTF-8");
            };
            if self.items.len() == MOST_ITEMS + self.skill_count {
                return Err(ContentsError::TooMany { path: self.folder.to_path_buf() });
            }
            let item_name =
                if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            self.read_item(folder, &entry, item_name, depth)?;
        }
        Ok(())
    }

    /// Reads an entry by its type when it is opened, regardless of its type when the folder was listed.
    fn read_item(
        &mut self,
        folder: &Directory,
        name: &EntryName,
        item_name: String,
        depth: usize,
    ) -> Result<(), ContentsError> {
        let path = self.path(&item_name);
        let unreadable = |error| unreadable(path.clone(), error);
        // The entry is opened without following links; the error tells links and sockets apart.
        let file = match folder.open_file(name) {
            Ok(file) => file,
            Err(error) if crow_fs::is_link_error(&error) => {
                let target = folder.read_link(name).map_err(unreadable)?;
                let Ok(target) = target.into_os_string().into_string() else {
                    return Err(ContentsError::UnexpectedType {
                        path,
                        what: "a link whose target is not UTF-8",
                    });
                };
                self.items.insert(item_name, ProjectItem::Link { target });
                return Ok(());
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
                return Err(ContentsError::UnexpectedType { path, what: "a socket or a device" });
            }
            Err(error) => return Err(unreadable(error)),
        };
        // The type comes from the open file, so it cannot change before the file is read.
        let metadata = EntryMetadata::of_file(&file).map_err(unreadable)?;
        let item = match metadata.kind {
            EntryKind::Directory => {
                let inner = folder.open_beneath(Path::new(name.as_os_str())).map_err(unreadable)?;
                self.items.insert(item_name.clone(), ProjectItem::Folder);
                return self.read_folder(&inner, &item_name, depth + 1);
            }
            EntryKind::File => {
                let executable = metadata.mode & EXECUTE_BITS != 0;
                ProjectItem::File { bytes: self.read_bytes(file, &path)?, executable }
            }
            EntryKind::Symlink | EntryKind::Special => {
                return Err(ContentsError::UnexpectedType {
                    path,
                    what: "neither a file nor a folder",
                });
            }
        };
        self.items.insert(item_name, item);
        Ok(())
    }

    fn read_bytes(&mut self, file: File, path: &Path) -> Result<Vec<u8>, ContentsError> {
        let mut bytes = Vec::new();
        file.take(self.room + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| ContentsError::Read { path: path.to_path_buf(), source })?;
        let room = self.room.checked_sub(bytes.len() as u64);
        self.room =
            room.ok_or_else(|| ContentsError::TooLarge { path: self.folder.to_path_buf() })?;
        Ok(bytes)
    }

    fn path(&self, below: &str) -> PathBuf {
        if below.is_empty() { self.folder.to_path_buf() } else { self.folder.join(below) }
    }
}

/// Returns true if there is no folder of that name.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || crow_fs::is_link_error(error)
}

fn unreadable(path: PathBuf, source: io::Error) -> ContentsError {
    ContentsError::Read { path, source }
}
