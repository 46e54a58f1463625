//! Finding the files that servers are started from.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    super::contents::BESIDE,
    mark,
    resolve::follow,
    server::StartedServer,
    words::{ENTRIES, NameKind, manifests, name_kind, pieces, runs_folders, spellings},
};

/// The most files beside those that are named.
const MOST_FILES: usize = 400;
/// The most bytes that are read of them.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// How deep folders may lie in each other.
const DEEPEST: usize = 6;
/// How far files are followed that are named in files.
const MOST_STEPS: usize = 3;
/// The most folders from which paths are tried.
const MOST_BASES: usize = 8;
/// What the marks of files begin with that only the user's own servers are started from.
pub(in crate::trust) const OF_USER: &str = "user ";
/// Folders of packages and of what builds make: they change all the time, and are not watched.
const PASSED_OVER: &[&str] = &["node_modules", "target", "venv", ".venv", "__pycache__", ".git"];

/// The files of a project that its servers are started from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProjectPrograms {
    /// By what each is known again, by its name as [`ProjectFiles`](super::super::contents::ProjectFiles) has it.
    pub(crate) marks: BTreeMap<String, String>,
    /// Those that the configuration names, and links on the way to them.
    pub(crate) named: BTreeSet<PathBuf>,
    /// Those that commands are kept from changing: the named ones, code beside and below them, and code that is named in
    /// them. Not what is known by manifests alone, nor code that shares only the root of the project with them: that is
    /// the work itself.
    pub(crate) held: BTreeSet<PathBuf>,
    /// Whether there are more files than are watched.
    pub(crate) is_cut: bool,
}

/// Who named a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileOrigin {
    /// The configuration.
    Configuration,
    /// A file that the configuration names, or one that is named in such a file.
    Script(usize),
    /// A manifest, or a folder that a server is started in.
    Program(usize),
}

struct ProgramFinder<'a> {
    root: &'a Path,
    found: ProjectPrograms,
    files: usize,
    bytes: u64,
    /// Folders that were looked through.
    seen: BTreeSet<PathBuf>,
    /// All files and links that were found.
    paths: BTreeSet<PathBuf>,
    /// Folders of which all code is held.
    held_folders: BTreeSet<PathBuf>,
}

impl ProjectPrograms {
    /// Finds the files that these servers are started from. Blocks.
    ///
    /// Interpreters load what no reading of words can foretell. Watched are the files that the command line names in any
    /// form, the files of code beside and below them, and small files that those name in turn, all within bounds.
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
            held_folders: BTreeSet::new(),
        };
        for server in servers {
            finder.server(server);
        }
        finder.finish()
    }
}

impl ProjectPrograms {
    /// Adds files that the user's own servers are started from, as far as commands are kept from them. What is known by
    /// a manifest alone is left out: `npx` of the user's reads the `package.json` of every project.
    pub(crate) fn add_of_user(&mut self, root: &Path, user: Self) {
        let Self { marks, named, held, is_cut } = user;
        let key = |path: &PathBuf| {
            format!("{BESIDE}{}", path.strip_prefix(root).unwrap_or(path).display())
        };
        let keys: BTreeSet<String> = held.iter().map(key).collect();
        for (name, mark) in marks.into_iter().filter(|(name, _)| keys.contains(name)) {
            self.marks.entry(name).or_insert_with(|| format!("{OF_USER}{mark}"));
        }
        self.named.extend(named);
        self.held.extend(held);
        self.is_cut |= is_cut;
    }
}

impl ProgramFinder<'_> {
    fn finish(self) -> ProjectPrograms {
        let Self { mut found, paths, held_folders, .. } = self;
        let is_held = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name_kind(&name) == NameKind::Code
                && held_folders.iter().any(|folder| path.starts_with(folder))
        };
        found.held.extend(paths.into_iter().filter(is_held));
        found.held.extend(found.named.iter().cloned());
        found
    }

    /// Holds all code in a folder and below it. At the root lies the whole project.
    fn hold(&mut self, folder: &Path, origin: FileOrigin) {
        if origin == FileOrigin::Configuration && folder != self.root {
            self.held_folders.insert(folder.to_path_buf());
        }
    }

    fn server(&mut self, server: &StartedServer) {
        let mut bases = Vec::new();
        for folder in &server.folders {
            let inside = self.path(self.root, folder, FileOrigin::Configuration);
            // From one that lies outside, absolute paths lead here.
            bases.push(inside.unwrap_or_else(|| folder.clone()));
        }
        bases.dedup();
        let words: Vec<&str> = server.argv.iter().flat_map(|word| pieces(word)).collect();
        self.line(&words, bases.clone(), FileOrigin::Configuration);
        // Variables name folders of modules: all code in them may be loaded.
        for name in server.env.values().flat_map(|value| pieces(value)).flat_map(spellings) {
            for base in &bases {
                if let Some(folder) = self.path(base, Path::new(&name), FileOrigin::Configuration) {
                    self.hold(&folder, FileOrigin::Configuration);
                    self.code_below(&folder, None, 0);
                }
            }
        }
    }

    /// Takes what the words of a command line name.
    fn line(&mut self, words: &[&str], mut bases: Vec<PathBuf>, origin: FileOrigin) {
        let runs_folders = runs_folders(words);
        // 1) Folders: a line may go there, or run what is in them.
        for word in words {
            let folders: Vec<PathBuf> = bases
                .iter()
                .filter_map(|base| self.folder(base, Path::new(word), origin))
                .collect();
            for folder in folders {
                if runs_folders {
                    self.entries(&folder, ENTRIES, origin);
                    self.hold(&folder, origin);
                }
                if !bases.contains(&folder) && bases.len() < MOST_BASES {
                    bases.push(folder);
                }
            }
        }
        // 2) Files, from each of those folders.
        for word in words {
            for spelling in spellings(word) {
                for base in &bases {
                    self.path(base, Path::new(&spelling), origin);
                }
            }
        }
        // 3) What the programs look for by themselves, up to the root.
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
        }
    }

    /// Takes the files of a folder that have these names. They are not named by the configuration itself.
    fn entries(&mut self, folder: &Path, names: &[&str], origin: FileOrigin) {
        let Some(origin) = origin.next() else { return };
        for name in names {
            self.path(folder, Path::new(name), origin);
        }
    }

    /// Takes what the scripts of a `package.json` run whose names stand in the command line.
    fn scripts(&mut self, folder: &Path, words: &[&str], origin: FileOrigin) {
        let Some(origin) = origin.next() else { return };
        let read = mark::read(&folder.join("package.json")).ok().and_then(|file| file.text);
        let Some(Ok(package)) = read.map(|text| serde_json::from_str::<Value>(&text)) else {
            return;
        };
        let Some(scripts) = package.get("scripts").and_then(Value::as_object) else { return };
        for (name, script) in scripts {
            let bare = name.strip_prefix("pre").or_else(|| name.strip_prefix("post"));
            let runs = |name: &str| words.contains(&name);
            if runs(name) || bare.is_some_and(runs) {
                let script = script.as_str().unwrap_or_default();
                self.line(&pieces(script), vec![folder.to_path_buf()], origin);
            }
        }
    }

    /// Returns a folder of the project, and takes the links on the way.
    fn folder(&mut self, base: &Path, path: &Path, origin: FileOrigin) -> Option<PathBuf> {
        let followed = follow(self.root, base, path);
        let (end, metadata) = followed.end?;
        if !metadata.is_directory() {
            return None;
        }
        self.links(followed.links, origin);
        Some(end)
    }

    /// Takes a file, with the links on the way to it. Returns a folder that is there instead.
    fn path(&mut self, base: &Path, path: &Path, origin: FileOrigin) -> Option<PathBuf> {
        let followed = follow(self.root, base, path);
        let Some((end, metadata)) = followed.end else {
            // A link that leads out of the project is watched itself.
            self.links(followed.links, origin);
            return None;
        };
        if metadata.is_directory() {
            self.links(followed.links, origin);
            return Some(end);
        }
        let name = end.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if metadata.is_file() && name_kind(&name) != NameKind::Data {
            self.links(followed.links, origin);
            self.file(&end, &name, origin);
        }
        None
    }

    fn links(&mut self, links: Vec<(PathBuf, PathBuf)>, origin: FileOrigin) {
        for (link, target) in links {
            self.insert(&link, format!("link {}", target.display()));
            self.take(link, origin);
        }
    }

    /// Keeps a file or a link as one that is named, or held.
    fn take(&mut self, path: PathBuf, origin: FileOrigin) {
        match origin {
            FileOrigin::Configuration => drop(self.found.named.insert(path)),
            FileOrigin::Script(_) => drop(self.found.held.insert(path)),
            FileOrigin::Program(_) => {}
        }
    }

    fn file(&mut self, path: &Path, name: &str, origin: FileOrigin) {
        self.take(path.to_path_buf(), origin);
        let kind = name_kind(name);
        if let Some(folder) = path.parent()
            && kind == NameKind::Code
            && !self.is_of_packages(folder)
        {
            self.hold(folder, origin);
        }
        if self.found.marks.contains_key(&self.key(path)) {
            return;
        }
        let Ok(file) = mark::read(path) else {
            // It may be made readable later: then it is another one.
            self.insert(path, "unreadable".to_owned());
            return;
        };
        self.insert(path, file.mark);
        let Some(folder) = path.parent() else { return };
        if kind != NameKind::Code && !file.is_executable || self.is_of_packages(folder) {
            return;
        }
        self.hold(folder, origin);
        // At the root lies the whole project: only files of the same kind are taken there.
        let end = Path::new(name).extension().map(|end| end.to_string_lossy().into_owned());
        match (folder == self.root, end) {
            (true, Some(end)) => self.code_below(folder, Some(&end), DEEPEST),
            (true, None) => {}
            (false, _) => self.code_below(folder, None, 0),
        }
        if let (Some(text), Some(origin)) = (file.text, origin.next_named()) {
            self.named_in(&text, folder, origin);
        }
    }

    /// Takes the files of code that a text names.
    fn named_in(&mut self, text: &str, folder: &Path, origin: FileOrigin) {
        for piece in pieces(text) {
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

    /// Takes the files of code in a folder and below it, within bounds. With `end` only those that end with it.
    fn code_below(&mut self, folder: &Path, end: Option<&str>, depth: usize) {
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
                    self.code_below(&path, end, depth + 1);
                }
                continue;
            }
            let fits = match end {
                Some(end) => Path::new(&name).extension().is_some_and(|own| own == end),
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
            } else if let Ok(file) = mark::read(&path) {
                self.bytes += file.read;
                self.insert(&path, file.mark);
            }
        }
    }

    /// Whether a folder lies in one of packages, or of what builds make.
    fn is_of_packages(&self, folder: &Path) -> bool {
        let below = folder.strip_prefix(self.root).unwrap_or(folder);
        below.iter().any(|part| PASSED_OVER.iter().any(|name| part == *name))
    }

    fn insert(&mut self, path: &Path, mark: String) {
        self.paths.insert(path.to_path_buf());
        self.found.marks.insert(self.key(path), mark);
    }

    /// The name under which a file is kept.
    fn key(&self, path: &Path) -> String {
        format!("{BESIDE}{}", path.strip_prefix(self.root).unwrap_or(path).display())
    }
}

impl FileOrigin {
    /// Returns who names what is found in a folder of this. None if that is too far from the configuration.
    fn next(self) -> Option<Self> {
        match self {
            Self::Configuration => Some(Self::Program(1)),
            Self::Script(steps) | Self::Program(steps) => {
                (steps < MOST_STEPS).then_some(Self::Program(steps + 1))
            }
        }
    }

    /// The same of what is named in a file of this.
    fn next_named(self) -> Option<Self> {
        let next = self.next()?;
        Some(match (self, next) {
            (Self::Configuration | Self::Script(_), Self::Program(steps)) => Self::Script(steps),
            (_, next) => next,
        })
    }
}

/// Whether a folder holds packages, or what nobody wrote.
fn is_passed_over(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    PASSED_OVER.contains(&name.as_ref()) || name.starts_with('.')
}

/// Returns the files below a root that these servers are started from, and that commands are to be kept from. Blocks.
pub(crate) fn started_files(root: &Path, servers: &[StartedServer]) -> Vec<PathBuf> {
    ProjectPrograms::find(root, servers).held.into_iter().collect()
}
