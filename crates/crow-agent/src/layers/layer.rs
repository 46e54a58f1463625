//! One layer: a tree of small files.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use crow_core::config::ConfigError;

/// The largest file that is read. Agents and prompts are written by hand.
const LARGEST: u64 = 256 * 1024;
/// How many files of a folder are looked at.
const MOST_FILES: usize = 2_000;

/// Whose word a layer is. The later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// The program's own.
    BuiltIn,
    /// The user's.
    User,
    /// A project's that the user trusts.
    Project,
    /// What was said on the command line.
    CommandLine,
}

/// A tree of small files.
#[derive(Debug, Clone)]
pub struct ConfigLayer {
    kind: LayerKind,
    root: PathBuf,
    files: LayerFiles,
    /// Files that stand in the place of those that are there.
    instead: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum LayerFiles {
    Shipped(&'static [(&'static str, &'static str)]),
    Folder,
    Memory(BTreeMap<String, Vec<u8>>),
}

impl ConfigLayer {
    /// Makes a layer of files that are part of the program.
    pub fn shipped(files: &'static [(&'static str, &'static str)]) -> Self {
        Self::new(LayerKind::BuiltIn, PathBuf::from("built-in"), LayerFiles::Shipped(files))
    }

    /// Makes a layer of a folder, whose files are read when they are asked for.
    pub fn folder(kind: LayerKind, root: impl Into<PathBuf>) -> Self {
        Self::new(kind, root.into(), LayerFiles::Folder)
    }

    /// Makes a layer of files that were read before, by their paths below `root`.
    pub fn memory(
        kind: LayerKind,
        root: impl Into<PathBuf>,
        files: BTreeMap<String, Vec<u8>>,
    ) -> Self {
        Self::new(kind, root.into(), LayerFiles::Memory(files))
    }

    fn new(kind: LayerKind, root: PathBuf, files: LayerFiles) -> Self {
        Self { kind, root, files, instead: BTreeMap::new() }
    }

    /// Puts a text in the place of a file, as if it had been written.
    #[must_use]
    pub fn with_file(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.instead.insert(name.into(), text.into());
        self
    }

    /// Returns whose word it is.
    pub fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Returns the folder, as it is shown.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file, as it is shown.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the names of the files in a folder that end so, without the ending and in order. Hidden files are locks
    /// and copies of editors.
    pub fn names(&self, folder: &str, ending: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.files {
            LayerFiles::Shipped(files) => {
                files.iter().filter_map(|(path, _)| stem(path, folder, ending)).collect()
            }
            LayerFiles::Memory(files) => {
                files.keys().filter_map(|path| stem(path, folder, ending)).collect()
            }
            LayerFiles::Folder => fs::read_dir(self.root.join(folder))
                .into_iter()
                .flatten()
                .flatten()
                .take(MOST_FILES)
                .filter_map(|entry| stem(entry.file_name().to_str()?, "", ending))
                .collect(),
        };
        names.extend(self.instead.keys().filter_map(|path| stem(path, folder, ending)));
        names.sort();
        names.dedup();
        names
    }

    /// Reads a file. None if there is none.
    pub fn read(&self, name: &str) -> Result<Option<String>, ConfigError> {
        if let Some(text) = self.instead.get(name) {
            return Ok(Some(text.clone()));
        }
        let wrong = |message: String| ConfigError::of_file(self.path(name), message);
        match &self.files {
            LayerFiles::Shipped(files) => {
                let found = files.iter().find(|(path, _)| *path == name);
                Ok(found.map(|(_, text)| (*text).to_owned()))
            }
            LayerFiles::Memory(files) => match files.get(name) {
                Some(bytes) if bytes.len() as u64 > LARGEST => Err(wrong(too_large())),
                Some(bytes) => to_text(bytes.clone()).map(Some).map_err(wrong),
                None => Ok(None),
            },
            LayerFiles::Folder => match read_file(&self.root.join(name)) {
                Ok(None) => Ok(None),
                Ok(Some(bytes)) => to_text(bytes).map(Some).map_err(wrong),
                Err(reason) => Err(wrong(reason)),
            },
        }
    }
}

impl LayerKind {
    /// Returns a word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::User => "user",
            Self::Project => "project",
            Self::CommandLine => "command line",
        }
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns whether a path leads to something below the folder that it begins in, whatever there is.
pub(crate) fn stays_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn stem(path: &str, folder: &str, ending: &str) -> Option<String> {
    let name = match folder {
        "" => path,
        folder => path.strip_prefix(folder)?.strip_prefix('/')?,
    };
    let name = name.strip_suffix(ending)?;
    (!name.contains('/') && !name.starts_with('.') && !name.is_empty()).then(|| name.to_owned())
}

/// Looks before it opens: a pipe would be waited for.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(error.kind()) => {
            // A link that leads nowhere was meant to be there.
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(unreadable(error)),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !metadata.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(too_large());
    }
    Ok(Some(bytes))
}

fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn too_large() -> String {
    format!("is larger than {} KiB, which no such file is", LARGEST >> 10)
}

fn to_text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_of_its_folder_does_not_stay_inside() {
        for (path, expected) in [
            ("prompts/a.md", true),
            ("./a.md", true),
            ("../a.md", false),
            ("prompts/../../a.md", false),
            ("/etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(stays_inside(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_small_file_of_text_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let layer = ConfigLayer::folder(LayerKind::User, folder.path());
        fs::create_dir_all(folder.path().join("agents/folder.md")).unwrap();
        fs::write(folder.path().join("agents/binary.md"), [0xff, 0xfe]).unwrap();
        let large = fs::File::create(folder.path().join("agents/large.md")).unwrap();
        large.set_len(100 << 20).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("agents/link.md")).unwrap();
        for (name, reason) in [
            ("folder", "is no file"),
            ("binary", "is not text in UTF-8"),
            ("large", "is larger than 256 KiB, which no such file is"),
            ("link", "cannot be read: No such file or directory (os error 2)"),
        ] {
            let error = layer.read(&format!("agents/{name}.md")).unwrap_err();
            assert_eq!((error.message.as_str(), error.place), (reason, None));
        }
        assert_eq!(layer.read("agents/absent.md"), Ok(None));
        assert_eq!(layer.names("agents", ".md"), ["binary", "folder", "large", "link"]);
    }
}
