//! A layer, which is a tree of small files, and all layers together.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use crow_core::config::{ConfigError, SourceText};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Node, SourceFile, TableEntry, Value, ValueOrigin};

/// Largest file that is read, in bytes. Agents and prompts are written by hand.
const LARGEST: u64 = 256 * 1024;
/// Most files of a folder that are listed.
const MOST_FILES: usize = 2_000;

/// The kind of a layer. Later kinds override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// Files of the program.
    BuiltIn,
    /// Files of the user.
    User,
    /// Files of a project that the user trusts.
    Project,
    /// Settings of the command line.
    CommandLine,
}

/// A layer: a tree of small files.
#[derive(Debug, Clone)]
pub struct ConfigLayer {
    kind: LayerKind,
    root: PathBuf,
    files: LayerFiles,
    /// Texts that replace files, by the paths of these.
    overrides: BTreeMap<String, String>,
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

    /// Makes a layer of a folder, whose files are read on demand.
    pub fn folder(kind: LayerKind, root: impl Into<PathBuf>) -> Self {
        Self::new(kind, root.into(), LayerFiles::Folder)
    }

    /// Makes a layer of files that were read before, by their paths relative to `root`.
    pub fn memory(
        kind: LayerKind,
        root: impl Into<PathBuf>,
        files: BTreeMap<String, Vec<u8>>,
    ) -> Self {
        Self::new(kind, root.into(), LayerFiles::Memory(files))
    }

    fn new(kind: LayerKind, root: PathBuf, files: LayerFiles) -> Self {
        Self { kind, root, files, overrides: BTreeMap::new() }
    }

    /// Replaces the content of a file, as if it had been written.
    #[must_use]
    pub fn with_file(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.overrides.insert(name.into(), text.into());
        self
    }

    /// Returns the kind of the layer.
    pub fn kind(&self) -> LayerKind {
        self.kind
    }

    /// Returns the folder for display.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file for display.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the sorted names of the files in a folder that have this ending, without the ending. Hidden files are
    /// skipped: they are locks and copies of editors.
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
        names.extend(self.overrides.keys().filter_map(|path| stem(path, folder, ending)));
        names.sort();
        names.dedup();
        names
    }

    /// Returns the names of all files of a layer in memory, sorted; none of another layer.
    pub fn names_in_memory(&self) -> impl Iterator<Item = &str> {
        let files = match &self.files {
            LayerFiles::Memory(files) => Some(files),
            LayerFiles::Shipped(_) | LayerFiles::Folder => None,
        };
        files.into_iter().flat_map(|files| files.keys().map(String::as_str))
    }

    /// Reads a file. Returns `None` if it does not exist.
    pub fn read(&self, name: &str) -> Result<Option<String>, ConfigError> {
        if let Some(text) = self.overrides.get(name) {
            return Ok(Some(text.clone()));
        }
        let file_error = |message: String| ConfigError::of_file(self.path(name), message);
        match &self.files {
            LayerFiles::Shipped(files) => {
                let found = files.iter().find(|(path, _)| *path == name);
                Ok(found.map(|(_, text)| (*text).to_owned()))
            }
            LayerFiles::Memory(files) => match files.get(name) {
                Some(bytes) if bytes.len() as u64 > LARGEST => Err(file_error(too_large())),
                Some(bytes) => to_text(bytes.clone()).map(Some).map_err(file_error),
                None => Ok(None),
            },
            LayerFiles::Folder => match read_file(&self.root.join(name)) {
                Ok(None) => Ok(None),
                Ok(Some(bytes)) => to_text(bytes).map(Some).map_err(file_error),
                Err(reason) => Err(file_error(reason)),
            },
        }
    }
}

impl LayerKind {
    /// Returns the name of the kind.
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

/// Returns true if a path cannot lead out of the folder in which it begins, judging by its components alone.
pub(crate) fn stays_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Returns the name of a file that is directly in `folder` and has this ending, without both.
fn stem(path: &str, folder: &str, ending: &str) -> Option<String> {
    let name = match folder {
        "" => path,
        folder => path.strip_prefix(folder)?.strip_prefix('/')?,
    };
    let name = name.strip_suffix(ending)?;
    (!name.contains('/') && !name.starts_with('.') && !name.is_empty()).then(|| name.to_owned())
}

/// Reads a file. Checks its type before it opens it, because opening a pipe would block.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(error.kind()) => {
            // A dangling link is an error, because a file was meant to be there.
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(unreadable(error)),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(unreadable(error)),
    };
    if !metadata.is_file() {
        return Err("is not a file".to_owned());
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
    format!("is larger than {} KiB, the limit for such files", LARGEST >> 10)
}

fn to_text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "is not text in UTF-8".to_owned())
}

/// The layers, the lowest first.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    layers: Vec<ConfigLayer>,
}

impl Layers {
    /// Makes layers, which can be given in any order.
    pub fn new(mut layers: Vec<ConfigLayer>) -> Self {
        layers.sort_by_key(ConfigLayer::kind);
        Self { layers }
    }

    /// Returns them, the lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ConfigLayer> {
        self.layers.iter()
    }

    /// Replaces the content of a file of a layer, as if it had been written.
    #[must_use]
    pub fn with_file(mut self, kind: LayerKind, name: &str, text: &str) -> Self {
        let layers = self
            .layers
            .into_iter()
            .map(|layer| if layer.kind() == kind { layer.with_file(name, text) } else { layer });
        self.layers = layers.collect();
        self
    }

    /// Returns the sorted names of the files in a folder of any layer that have this ending, without the ending.
    pub fn names(&self, folder: &str, ending: &str) -> Vec<String> {
        let mut names: Vec<_> = self.iter().flat_map(|layer| layer.names(folder, ending)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads a file of the highest layer that has it. Returns the layer, too.
    pub fn topmost(&self, name: &str) -> Result<Option<(&ConfigLayer, String)>, ConfigError> {
        for layer in self.iter().rev() {
            if let Some(text) = layer.read(name)? {
                return Ok(Some((layer, text)));
            }
        }
        Ok(None)
    }

    /// Reads a TOML file of every layer that has it and merges them. Returns `None` if no layer has it.
    pub fn merged(&self, name: &str) -> Result<Option<Node>, ConfigError> {
        let mut merged: Option<Node> = None;
        for layer in self.iter() {
            let Some(text) = layer.read(name)? else { continue };
            let node = parse(SourceFile { layer: layer.kind(), path: layer.path(name), text })?;
            merged = Some(match merged {
                Some(lower) => lower.overlaid_by(node),
                None => node,
            });
        }
        Ok(merged)
    }
}

/// Parses TOML into nodes with their origins.
pub fn parse(file: SourceFile) -> Result<Node, ConfigError> {
    let file = Arc::new(file);
    let table = DeTable::parse(&file.text).map_err(|error| {
        let source = SourceText { path: &file.path, text: &file.text };
        source.syntax_error(error.span(), error.message())
    })?;
    Ok(Node { origin: ValueOrigin::new(&file, 0), value: read_table(&file, table.get_ref())? })
}

fn read_table(file: &Arc<SourceFile>, table: &DeTable<'_>) -> Result<Value, ConfigError> {
    let mut entries = BTreeMap::new();
    for (key, value) in table {
        let at = ValueOrigin::new(file, key.span().start);
        let node = read_value(file, value)?;
        entries.insert(key.get_ref().to_string(), TableEntry { key: at, node });
    }
    Ok(Value::Table(entries))
}

fn read_value(file: &Arc<SourceFile>, value: &Spanned<DeValue<'_>>) -> Result<Node, ConfigError> {
    let origin = ValueOrigin::new(file, value.span().start);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            Value::Integer(parsed.map_err(|_| origin.error("this number is too large"))?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse::<f64>();
            Value::Float(parsed.map_err(|_| origin.error("this is not a number"))?)
        }
        DeValue::Datetime(_) => {
            return Err(origin.error("no key takes a date; put it in quotes if it is a text"));
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|item| read_value(file, item));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => read_table(file, table)?,
    };
    Ok(Node { origin, value })
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
    fn a_file_that_is_no_small_text_is_rejected_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let layer = ConfigLayer::folder(LayerKind::User, folder.path());
        fs::create_dir_all(folder.path().join("agents/folder.md")).unwrap();
        fs::write(folder.path().join("agents/binary.md"), [0xff, 0xfe]).unwrap();
        let large = fs::File::create(folder.path().join("agents/large.md")).unwrap();
        large.set_len(100 << 20).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("agents/link.md")).unwrap();
        for (name, reason) in [
            ("folder", "is not a file"),
            ("binary", "is not text in UTF-8"),
            ("large", "is larger than 256 KiB, the limit for such files"),
            ("link", "cannot be read: No such file or directory (os error 2)"),
        ] {
            let error = layer.read(&format!("agents/{name}.md")).unwrap_err();
            assert_eq!((error.message.as_str(), error.position), (reason, None));
        }
        assert_eq!(layer.read("agents/absent.md"), Ok(None));
        assert_eq!(layer.names("agents", ".md"), ["binary", "folder", "large", "link"]);
    }

    fn file(layer: LayerKind, text: impl Into<String>) -> SourceFile {
        SourceFile { layer, path: PathBuf::from("a.toml"), text: text.into() }
    }

    #[test]
    fn excessive_nesting_is_rejected() {
        for text in [
            format!("a = {}1{}", "[".repeat(10_000), "]".repeat(10_000)),
            format!("{}a = 1", "a.".repeat(10_000)),
            format!("[{}a]", "a.".repeat(10_000)),
            format!("a = {}1{}", "{a = ".repeat(10_000), "}".repeat(10_000)),
        ] {
            let error = parse(file(LayerKind::User, text)).unwrap_err();
            assert!(error.message.contains("recurs"), "{error}");
        }
    }

    #[test]
    fn a_higher_layer_replaces_single_values_and_lists_and_leaves_the_rest() {
        let below = "[model]\nprovider = \"a\"\nmodel = \"b\"\n[tools]\nenabled = [\"x\", \"y\"]\n";
        let over = "model.model = \"c\"\ntools.enabled = [\"z\"]\n";
        let below = parse(file(LayerKind::BuiltIn, below)).unwrap();
        let merged = below.overlaid_by(parse(file(LayerKind::User, over)).unwrap());
        let lines: Vec<_> = merged
            .leaves()
            .into_iter()
            .map(|(key, node)| format!("{key} = {node} # {}", node.origin.layer()))
            .collect();
        assert_eq!(
            lines,
            [
                "model.model = \"c\" # user",
                "model.provider = \"a\" # built-in",
                "tools.enabled = [\"z\"] # user"
            ]
        );
    }

    #[test]
    fn a_table_of_another_kind_takes_nothing_from_the_one_below() {
        let below = "[flow]\ntype = \"chat\"\nmax_turns = 10\n";
        for (over, expected) in [
            ("flow.type = \"judge\"", "flow.type = \"judge\""),
            ("flow.level = 3", "flow.level = 3"),
            ("flow.type = \"chat\"", "flow.max_turns = 10; flow.type = \"chat\""),
            ("flow.max_turns = 3", "flow.max_turns = 3; flow.type = \"chat\""),
        ] {
            let below = parse(file(LayerKind::BuiltIn, below)).unwrap();
            let merged = below.overlaid_by(parse(file(LayerKind::User, over)).unwrap());
            let lines = merged.leaves().into_iter().map(|(key, node)| format!("{key} = {node}"));
            assert_eq!(lines.collect::<Vec<_>>().join("; "), expected);
        }
    }
}
