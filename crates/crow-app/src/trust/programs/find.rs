//! Finding the project files that MCP servers are started from.
//!
//! The search starts at the words of a command line. Each word may name a file, a folder, a module or a script of a
//! package manager; it is tried in several spellings, from every folder that the line may run in (`line`). A file
//! that exists is recorded with a mark (a hash, or size and change time). If it is code, the code beside and below it is
//! recorded as well (`code_below`), and the files that its text names are followed in turn (`named_in`), up to
//! [`MOST_STEPS`] steps.
//!
//! [`FileOrigin`] says how a file was reached, and so how strictly it is treated: every recorded file is watched
//! (`marks`: a change ends the trust); those named by the configuration or by a followed file are also protected from
//! commands (`held`). Files outside the root are never recorded. All bounds cut the search;
//! [`ProjectPrograms::is_cut`] tells that code was left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    path::{Path, PathBuf},
};

use crow_core::workspace::path_from_above;
use crow_text::shell_spellings;
use serde_json::Value;

use super::{
    files::{follow, read_mark},
    script_words::{package_words, script_words},
    server::{
        ENTRIES, HOME_VARIABLES, NameKind, SCRIPT_ENTRIES, STARTUP_FILES, StartedServer,
        TASK_FOLDERS, includes_folders, is_search_path, manifests, name_kind, pieces, program,
        runs_first_operand, runs_folders, searches_working_folder, spellings,
    },
};
use crate::trust::contents::OUTSIDE_PREFIX;

/// Maximum number of files of code beside the named ones.
const MOST_FILES: usize = 400;
/// Maximum number of bytes read of these.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum depth of nested folders.
const DEEPEST: usize = 6;
/// Maximum number of steps from the configuration through files that name files.
const MOST_STEPS: usize = 3;
/// Maximum number of folders from which relative paths are tried.
const MOST_BASES: usize = 8;
/// Maximum number of names that are looked for in the search path of programs.
const MOST_NAMES: usize = 16;
/// Prefix of the marks of files that only the user's own servers are started from.
pub(in crate::trust) const USER_MARK_PREFIX: &str = "user ";
/// Folders of packages and build output: they change constantly and are not watched.
const PASSED_OVER: &[&str] = &["node_modules", "target", "venv", ".venv", "__pycache__", ".git"];

/// The project files that servers are started from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProjectPrograms {
    /// Mark of each file, by its name as in [`ProjectFiles`](super::super::contents::ProjectFiles).
    pub(crate) marks: BTreeMap<String, String>,
    /// Files that the configuration names, and links on the way to them.
    pub(crate) named: BTreeSet<PathBuf>,
    /// Files that commands must not change: the named ones, code beside and below them, and code that is named in
    /// them. Files reached only through manifests are not included, nor is code that merely shares the project's root
    /// with a named file: that is the work itself.
    pub(crate) protected: BTreeSet<PathBuf>,
    /// True if there is more code than is watched.
    pub(crate) is_cut: bool,
}

/// Way in which a file was reached. The number counts the steps from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOrigin {
    /// Named by the configuration.
    Configuration,
    /// Named in a file that the configuration names, or in one reached that way.
    Script(usize),
    /// Reached through a manifest, or through a folder that a server is started in.
    Program(usize),
}

struct ProgramFinder<'a> {
    root: &'a Path,
    found: ProjectPrograms,
    files: usize,
    bytes: u64,
    /// Folders that were searched.
    seen: BTreeSet<PathBuf>,
    /// All recorded files and links.
    paths: BTreeSet<PathBuf>,
    /// Folders whose code is protected.
    protected_folders: BTreeSet<PathBuf>,
}

impl ProjectPrograms {
    /// Finds the files that these servers are started from. Blocks.
    ///
    /// A command line does not tell which files an interpreter loads. Watched are the files that the command line
    /// names in any form, the files of code beside and below them, and the files that small ones name in turn, all
    /// within bounds.
    pub(crate) fn find<'a>(
        root: &Path,
        servers: impl IntoIterator<Item = &'a StartedServer>,
    ) -> Self {
        let mut finder = ProgramFinder {
            root,
            found: Self::default(),
            files: 0,
            bytes: 0,
            seen: BTreeSet::new(),
            paths: BTreeSet::new(),
            protected_folders: BTreeSet::new(),
        };
        for server in servers {
            finder.server(server);
            for spelling in server.in_other_spellings() {
                finder.server(&spelling);
            }
        }
        finder.finish()
    }
}

impl ProjectPrograms {
    /// Adds the files of the user's own servers that are protected from commands. Files reached only through
    /// manifests are left out: an `npx` server of the user reads the `package.json` of every project.
    pub(crate) fn add_of_user(&mut self, root: &Path, user: Self) {
        let Self { marks, named, protected: held, is_cut } = user;
        let key = |path: &PathBuf| {
            format!("{OUTSIDE_PREFIX}{}", path.strip_prefix(root).unwrap_or(path).display())
        };
        let keys: BTreeSet<String> = held.iter().map(key).collect();
        for (name, mark) in marks.into_iter().filter(|(name, _)| keys.contains(name)) {
            self.marks.entry(name).or_insert_with(|| format!("{USER_MARK_PREFIX}{mark}"));
        }
        self.named.extend(named);
        self.protected.extend(held);
        self.is_cut |= is_cut;
    }
}

impl ProgramFinder<'_> {
    fn finish(self) -> ProjectPrograms {
        let Self { mut found, paths, protected_folders, .. } = self;
        let is_protected = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name_kind(&name) == NameKind::Code
                && protected_folders.iter().any(|folder| path.starts_with(folder))
        };
        found.protected.extend(paths.into_iter().filter(is_protected));
        found.protected.extend(found.named.iter().cloned());
        found
    }

    /// Protects all code in a folder that the configuration names, and below it; not at the root, which contains the
    /// whole project.
    fn protect_folder(&mut self, folder: &Path, origin: FileOrigin) {
        if origin == FileOrigin::Configuration && folder != self.root {
            self.protected_folders.insert(folder.to_path_buf());
        }
    }

    /// Records the files that the command line and environment of a server name.
    fn server(&mut self, server: &StartedServer) {
        let mut bases = Vec::new();
        for folder in &server.folders {
            let inside = self.path(self.root, folder, FileOrigin::Configuration);
            // A folder outside the project stays a base for relative paths; absolute paths still lead into the
            // project.
            bases.push(inside.unwrap_or_else(|| folder.clone()));
        }
        bases.dedup();
        let words: Vec<&str> = server.argv.iter().flat_map(|word| pieces(word)).collect();
        self.line(&words, bases.clone(), FileOrigin::Configuration);
        self.root_as_script(&server.argv, &bases);
        self.scripts_and_packages(server, &words, &bases);
        self.programs_of_search_path(&words, &server.program_folders());
        // Variables such as PYTHONPATH name folders of modules: all code in them may be loaded.
        for (variable, value) in &server.env {
            for name in pieces(value).into_iter().flat_map(spellings) {
                for base in &bases {
                    let folder = self.path(base, Path::new(&name), FileOrigin::Configuration);
                    if let Some(folder) = folder {
                        self.protect_folder(&folder, FileOrigin::Configuration);
                        self.code_below(&folder, None, 0);
                        if is_search_path(variable) {
                            self.searched_folder(&folder, variable, &words);
                        }
                        if HOME_VARIABLES.contains(&variable.as_str()) {
                            self.startup_files(&folder);
                        }
                    }
                }
            }
            if searches_working_folder(variable, value) {
                for base in &bases {
                    let folder = self.folder(self.root, base, FileOrigin::Configuration);
                    if let Some(folder) = folder {
                        self.searched_folder(&folder, variable, &words);
                    }
                }
            }
        }
    }

    /// Records scripts whose names are not those of code, and folders of the project that are installed as packages.
    fn scripts_and_packages(&mut self, server: &StartedServer, words: &[&str], bases: &[PathBuf]) {
        let origin = FileOrigin::Configuration;
        // The text of a shell may change to other folders.
        let folders: Vec<PathBuf> = bases
            .iter()
            .flat_map(|base| words.iter().map(move |word| (base, word)))
            .filter_map(|(base, word)| self.folder(base, Path::new(word), origin))
            .take(MOST_BASES)
            .collect();
        for base in bases.iter().chain(&folders) {
            let root = self.root;
            let scripts = script_words(&server.argv).into_iter();
            for word in scripts.flat_map(|word| iter::once(word).chain(path_from_above(root, word)))
            {
                let followed = follow(self.root, base, Path::new(word));
                let Some((target, metadata)) = followed.end else { continue };
                let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if metadata.is_file() {
                    self.links(followed.links, origin);
                    self.code_file(&target, &name, origin);
                }
            }
        }
        for word in package_words(&server.argv) {
            for base in bases {
                if let Some(folder) = self.folder(base, Path::new(word), origin) {
                    self.entries(&folder, ENTRIES, origin);
                    self.protect_folder(&folder, origin);
                    self.code_below(&folder, None, 0);
                }
            }
        }
    }

    /// Records the programs of the project that words without a slash lead to in a search path, as by links from
    /// `~/bin`.
    fn programs_of_search_path(&mut self, words: &[&str], folders: &[PathBuf]) {
        let names = words.iter().filter(|word| !word.contains('/') && !word.starts_with('-'));
        for name in names.take(MOST_NAMES) {
            let mut found =
                folders.iter().filter_map(|folder| folder.join(name).canonicalize().ok());
            if let Some(program) = found.next() {
                self.path(self.root, &program, FileOrigin::Configuration);
            }
        }
    }

    /// Records the files that shells, git and Python run at their start from a home folder.
    fn startup_files(&mut self, home: &Path) {
        for name in STARTUP_FILES {
            self.path(home, Path::new(name), FileOrigin::Configuration);
        }
        let libraries = home.join(".local/lib");
        for version in crow_fs::read_directory(&libraries).unwrap_or_default() {
            let packages = libraries.join(version.as_os_str()).join("site-packages");
            for name in crow_fs::read_directory(&packages).unwrap_or_default() {
                self.path(&packages, Path::new(name.as_os_str()), FileOrigin::Configuration);
            }
        }
    }

    /// Records the entry files of the root if it is the script of an interpreter: `python3 .`. Other arguments may name
    /// the root only to tell a server where to work.
    fn root_as_script(&mut self, argv: &[String], bases: &[PathBuf]) {
        let at = argv.iter().position(|word| runs_first_operand(word));
        let Some(arguments) = at.map(|at| &argv[at + 1..]) else { return };
        for (at, argument) in arguments.iter().enumerate() {
            let follows_option = at > 0 && arguments[at - 1].starts_with('-');
            let names_root = bases.iter().any(|base| {
                let folder = self.folder(base, Path::new(argument), FileOrigin::Configuration);
                folder.is_some_and(|folder| folder == self.root)
            });
            // `node -e 'require("./")'`
            let loads_root =
                pieces(argument).iter().any(|piece| ["require", "import"].contains(piece))
                    && pieces(argument).iter().any(|piece| [".", "./"].contains(piece));
            if names_root || loads_root {
                for name in SCRIPT_ENTRIES {
                    self.path(self.root, Path::new(name), FileOrigin::Configuration);
                }
            }
            // The first operand; what follows an option may be its value.
            if names_root || !argument.starts_with('-') && !follows_option {
                return;
            }
        }
    }

    /// Records what a server may load from a folder of a search path: programs that its command line names, and in the
    /// root, whose code is not protected as a whole, the modules.
    fn searched_folder(&mut self, folder: &Path, variable: &str, words: &[&str]) {
        if variable == "PATH" {
            for word in words.iter().filter(|word| !word.contains('/')) {
                self.path(folder, Path::new(word), FileOrigin::Configuration);
            }
        } else if folder == self.root {
            self.modules_of_root();
        } else {
            self.protect_folder(folder, FileOrigin::Configuration);
            self.code_below(folder, None, 0);
        }
    }

    /// Records the code directly in the root, which is a folder of modules for a server.
    fn modules_of_root(&mut self) {
        for name in crow_fs::read_directory(self.root).unwrap_or_default() {
            let name = Path::new(name.as_os_str());
            if name_kind(&name.to_string_lossy()) == NameKind::Code {
                self.path(self.root, name, FileOrigin::Configuration);
            }
        }
    }

    /// Records the files that the words of a command line name.
    fn line(&mut self, words: &[&str], mut bases: Vec<PathBuf>, origin: FileOrigin) {
        let root = self.root;
        let from_above = words.iter().filter_map(|word| path_from_above(root, word));
        let words: Vec<&str> = words.iter().copied().chain(from_above).collect();
        let words = words.as_slice();
        let runs_folders = runs_folders(words);
        // 1) Folders: the line may change to them, or run their entry files.
        for word in words {
            let folders: Vec<PathBuf> = bases
                .iter()
                .filter_map(|base| self.folder(base, Path::new(word), origin))
                .collect();
            for folder in folders {
                if runs_folders {
                    self.entries(&folder, ENTRIES, origin);
                    self.protect_folder(&folder, origin);
                    // `perl -Itools -Mx` loads any module there.
                    if includes_folders(words) {
                        if folder == self.root {
                            self.modules_of_root();
                        } else {
                            self.code_below(&folder, None, 0);
                        }
                    }
                }
                if !bases.contains(&folder) && bases.len() < MOST_BASES {
                    bases.push(folder);
                }
            }
        }
        // 2) Files, relative to each of these folders.
        for word in words {
            for spelling in spellings(word) {
                for base in &bases {
                    self.path(base, Path::new(&spelling), origin);
                }
            }
        }
        // 3) Manifests that the programs look for, from each folder up to the root.
        let manifests = manifests(words);
        if manifests.is_empty() {
            return;
        }
        let mut around: Vec<PathBuf> = Vec::new();
        for base in &bases {
            let folders = base.ancestors().take_while(|folder| folder.starts_with(self.root));
            around.extend(folders.map(Path::to_path_buf));
        }
        around.dedup();
        for folder in around {
            self.entries(&folder, &manifests, origin);
            self.scripts(&folder, words, origin);
            if words.iter().any(|word| program(word) == "mise") {
                for tasks in TASK_FOLDERS {
                    self.entries(&folder.join(tasks), words, origin);
                }
            }
        }
    }

    /// Records the files of a folder with these names. The configuration does not name them itself, so they are one
    /// step further.
    fn entries(&mut self, folder: &Path, names: &[&str], origin: FileOrigin) {
        let Some(origin) = origin.next() else { return };
        for name in names {
            self.path(folder, Path::new(name), origin);
        }
    }

    /// Records the files of `package.json` scripts whose names are in the command line, with their `pre` and `post`
    /// scripts.
    fn scripts(&mut self, folder: &Path, words: &[&str], origin: FileOrigin) {
        let Some(origin) = origin.next() else { return };
        let read = read_mark(&folder.join("package.json")).ok().and_then(|file| file.text);
        let Some(Ok(package)) = read.map(|text| serde_json::from_str::<Value>(&text)) else {
            return;
        };
        let Some(scripts) = package.get("scripts").and_then(Value::as_object) else { return };
        for (name, script) in scripts {
            let base_name = name.strip_prefix("pre").or_else(|| name.strip_prefix("post"));
            let runs = |name: &str| words.contains(&name);
            if runs(name) || base_name.is_some_and(runs) {
                let script = script.as_str().unwrap_or_default();
                let spellings = shell_spellings(script);
                for script in iter::once(script).chain(spellings.iter().map(String::as_str)) {
                    self.line(&pieces(script), vec![folder.to_path_buf()], origin);
                }
            }
        }
    }

    /// Resolves a folder of the project, and records the links on the way.
    fn folder(&mut self, base: &Path, path: &Path, origin: FileOrigin) -> Option<PathBuf> {
        let followed = follow(self.root, base, path);
        let (target, metadata) = followed.end?;
        if !metadata.is_directory() {
            return None;
        }
        self.links(followed.links, origin);
        Some(target)
    }

    /// Records a file, with the links on the way to it. If the path is a folder, returns that instead.
    fn path(&mut self, base: &Path, path: &Path, origin: FileOrigin) -> Option<PathBuf> {
        let followed = follow(self.root, base, path);
        let Some((target, metadata)) = followed.end else {
            // A link that leads out of the project is itself watched.
            self.links(followed.links, origin);
            return None;
        };
        if metadata.is_directory() {
            self.links(followed.links, origin);
            return Some(target);
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if metadata.is_file() && name_kind(&name) != NameKind::Data {
            self.links(followed.links, origin);
            self.file(&target, &name, origin);
        }
        None
    }

    fn links(&mut self, links: Vec<(PathBuf, PathBuf)>, origin: FileOrigin) {
        for (link, target) in links {
            self.insert(&link, format!("link {}", target.display()));
            self.take(link, origin);
        }
    }

    /// Adds a file or link to `named` or `held`, depending on its origin.
    fn take(&mut self, path: PathBuf, origin: FileOrigin) {
        match origin {
            FileOrigin::Configuration => drop(self.found.named.insert(path)),
            FileOrigin::Script(_) => drop(self.found.protected.insert(path)),
            FileOrigin::Program(_) => {}
        }
    }

    /// Records a file; if it is code, also the code beside it and the files that it names.
    fn file(&mut self, path: &Path, name: &str, origin: FileOrigin) {
        self.file_of_kind(path, name, name_kind(name), origin);
    }

    /// Records a file that is code whatever its name ends in.
    fn code_file(&mut self, path: &Path, name: &str, origin: FileOrigin) {
        self.file_of_kind(path, name, NameKind::Code, origin);
    }

    fn file_of_kind(&mut self, path: &Path, name: &str, kind: NameKind, origin: FileOrigin) {
        self.take(path.to_path_buf(), origin);
        if let Some(folder) = path.parent()
            && kind == NameKind::Code
            && !self.is_of_packages(folder)
        {
            self.protect_folder(folder, origin);
        }
        if self.found.marks.contains_key(&self.key(path)) {
            return;
        }
        let Ok(file) = read_mark(path) else {
            // It may become readable later: then its mark differs.
            self.insert(path, "unreadable".to_owned());
            return;
        };
        self.insert(path, file.mark);
        let Some(folder) = path.parent() else { return };
        if kind != NameKind::Code && !file.is_executable || self.is_of_packages(folder) {
            return;
        }
        self.protect_folder(folder, origin);
        // The root contains the whole project: there, only files with the same extension are recorded.
        let extension =
            Path::new(name).extension().map(|extension| extension.to_string_lossy().into_owned());
        match (folder == self.root, extension) {
            (true, Some(extension)) => self.code_below(folder, Some(&extension), DEEPEST),
            (true, None) => {}
            (false, _) => self.code_below(folder, None, 0),
        }
        if let (Some(text), Some(origin)) = (file.text, origin.next_in_text()) {
            self.named_in(&text, folder, origin);
        }
    }

    /// Records the files of code that a text names.
    fn named_in(&mut self, text: &str, folder: &Path, origin: FileOrigin) {
        let others = shell_spellings(text);
        let texts = iter::once(text).chain(others.iter().map(String::as_str));
        for piece in texts.flat_map(pieces) {
            let is_relative = piece.starts_with("./") || piece.starts_with("../");
            if !piece.contains('/') && name_kind(piece) != NameKind::Code {
                continue;
            }
            let names = if is_relative { spellings(piece) } else { vec![piece.to_owned()] };
            for name in names.iter().filter(|name| name_kind(name) == NameKind::Code) {
                self.path(folder, Path::new(name), origin);
                if !is_relative {
                    self.path(self.root, Path::new(name), origin);
                }
            }
        }
    }

    /// Records the files of code in a folder and below it, within bounds; with `extension`, only those with that
    /// extension.
    fn code_below(&mut self, folder: &Path, extension: Option<&str>, depth: usize) {
        // A search of only one extension starts at `DEEPEST`, so it is never skipped and does not descend.
        if !self.seen.insert(folder.to_path_buf()) && depth == 0 {
            return;
        }
        let names = crow_fs::read_directory(folder).unwrap_or_default();
        let mut paths: Vec<PathBuf> =
            names.iter().map(|name| folder.join(name.as_os_str())).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(metadata) = crow_fs::metadata(&path) else { continue };
            if metadata.is_directory() {
                if depth < DEEPEST && !is_passed_over(&path) {
                    self.code_below(&path, extension, depth + 1);
                }
                continue;
            }
            let fits = match extension {
                Some(extension) => Path::new(&name).extension().is_some_and(|own| own == extension),
                None => name_kind(&name) == NameKind::Code,
            };
            if !fits || self.found.marks.contains_key(&self.key(&path)) {
                continue;
            }
            if self.files >= MOST_FILES || self.bytes >= MOST_BYTES {
                self.found.is_cut = true;
                return;
            }
            self.files += 1;
            if metadata.is_symlink() {
                let target = crow_fs::read_link(&path).unwrap_or_default();
                self.insert(&path, format!("link {}", target.display()));
                self.path(folder, &path, FileOrigin::Program(MOST_STEPS));
            } else if let Ok(file) = read_mark(&path) {
                self.bytes += file.read;
                self.insert(&path, file.mark);
            }
        }
    }

    /// Returns true if a folder lies in a folder of packages or build output.
    fn is_of_packages(&self, folder: &Path) -> bool {
        let below = folder.strip_prefix(self.root).unwrap_or(folder);
        below.iter().any(|part| PASSED_OVER.iter().any(|name| part == *name))
    }

    fn insert(&mut self, path: &Path, mark: String) {
        self.paths.insert(path.to_path_buf());
        self.found.marks.insert(self.key(path), mark);
    }

    /// Returns the name of a file in `marks`.
    fn key(&self, path: &Path) -> String {
        format!("{OUTSIDE_PREFIX}{}", path.strip_prefix(self.root).unwrap_or(path).display())
    }
}

impl FileOrigin {
    /// Returns the origin of files found in a folder of this one. Returns `None` if they are too far from the
    /// configuration.
    fn next(self) -> Option<Self> {
        match self {
            Self::Configuration => Some(Self::Program(1)),
            Self::Script(steps) | Self::Program(steps) => {
                (steps < MOST_STEPS).then_some(Self::Program(steps + 1))
            }
        }
    }

    /// Returns the origin of files named in the text of this one.
    fn next_in_text(self) -> Option<Self> {
        let next = self.next()?;
        Some(match (self, next) {
            (Self::Configuration | Self::Script(_), Self::Program(steps)) => Self::Script(steps),
            (_, next) => next,
        })
    }
}

/// Returns true if a folder holds packages or generated files, or is hidden.
fn is_passed_over(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    PASSED_OVER.contains(&name.as_ref()) || name.starts_with('.')
}

/// Returns the files below a root that these servers are started from and that commands must not change. Blocks.
pub(crate) fn started_files(root: &Path, servers: &[StartedServer]) -> Vec<PathBuf> {
    ProjectPrograms::find(root, servers).protected.into_iter().collect()
}
