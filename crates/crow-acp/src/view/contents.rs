//! Contents of files before and after calls, for diffs.

use std::{fmt, io, path::Path, sync::Arc};

use crow_core::{ids::SnapshotId, redact::Redactor, workspace::Workspace};
use crow_fs::Directory;
use crow_runtime::{AgentHandle, ContentRef, SnapshotEntry, SnapshotStore};

/// Largest file of which a diff is shown, in bytes.
pub(crate) const LARGEST: usize = 256 * 1024;

/// Content of a file at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiffContent {
    /// There was no file.
    Absent,
    /// A text of at most 256 KiB.
    Known(String),
    /// More than 256 KiB.
    TooLarge,
    /// Not a text: binary data, a folder or a link.
    Binary,
    /// Not available.
    Unknown,
}

/// Source of file contents. Both methods may block for as long as it takes to read a file of 256 KiB.
pub(crate) trait FileReader: Send + Sync + fmt::Debug {
    /// Returns the content at an absolute path in a snapshot.
    fn in_snapshot(&self, snapshot: &SnapshotId, path: &Path) -> DiffContent;

    /// Returns the current content at an absolute path of the workspace.
    fn now(&self, path: &Path) -> DiffContent;
}

/// Source without contents: diffs consist of their hunks.
#[cfg(test)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoContents;

#[cfg(test)]
impl FileReader for NoContents {
    fn in_snapshot(&self, _snapshot: &SnapshotId, _path: &Path) -> DiffContent {
        DiffContent::Unknown
    }

    fn now(&self, _path: &Path) -> DiffContent {
        DiffContent::Unknown
    }
}

/// Source that reads the snapshots of a project, and its folders on the disk.
#[derive(Debug, Clone)]
pub(crate) struct StoredContents {
    store: Option<Arc<SnapshotStore>>,
    workspace: Workspace,
    redactor: Redactor,
}

impl StoredContents {
    /// Creates a source that reads from a store, or without one only from the folders of the workspace. The redactor
    /// removes secrets from texts.
    pub(crate) fn new(
        store: Option<Arc<SnapshotStore>>,
        workspace: Workspace,
        redactor: Redactor,
    ) -> Self {
        Self { store, workspace, redactor }
    }

    /// Creates the source for the project of an agent. Blocks.
    pub(crate) fn of(handle: &AgentHandle) -> Self {
        let store = handle.snapshot_store().unwrap_or_else(|error| {
            tracing::warn!(%error, "differences are shown without the snapshots");
            None
        });
        Self::new(store, handle.metadata().crow().workspace(), handle.redactor().clone())
    }
}

impl StoredContents {
    fn text(&self, bytes: Vec<u8>) -> DiffContent {
        if bytes.len() > LARGEST {
            return DiffContent::TooLarge;
        }
        if bytes.contains(&0) {
            return DiffContent::Binary;
        }
        let Ok(mut text) = String::from_utf8(bytes) else { return DiffContent::Binary };
        self.redactor.redact_string(&mut text);
        DiffContent::Known(text)
    }
}

impl FileReader for StoredContents {
    fn in_snapshot(&self, snapshot: &SnapshotId, path: &Path) -> DiffContent {
        let Some(store) = &self.store else { return DiffContent::Unknown };
        let Ok(Some(entry)) = store.entry(snapshot, path) else { return DiffContent::Unknown };
        match &entry {
            SnapshotEntry::Absent => DiffContent::Absent,
            SnapshotEntry::Folder { .. } | SnapshotEntry::Link { .. } => DiffContent::Binary,
            SnapshotEntry::Unscanned { .. }
            | SnapshotEntry::File { content: ContentRef::NotStored { .. }, .. } => {
                DiffContent::Unknown
            }
            SnapshotEntry::File { size, .. } if *size > LARGEST as u64 => DiffContent::TooLarge,
            SnapshotEntry::File { content: ContentRef::Stored(_), .. } => {
                store.read(&entry).map_or(DiffContent::Unknown, |bytes| self.text(bytes))
            }
        }
    }

    fn now(&self, path: &Path) -> DiffContent {
        let mut roots = self.workspace.roots().iter();
        let beneath = roots.find_map(|root| Some((root, path.strip_prefix(root).ok()?)));
        // Files elsewhere are not read for display: their diffs consist of the hunks.
        let Some((root, beneath)) = beneath else { return DiffContent::Unknown };
        if beneath.as_os_str().is_empty() {
            return DiffContent::Binary;
        }
        match self.beneath(root, beneath) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => DiffContent::Absent,
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => DiffContent::TooLarge,
            Err(_) => DiffContent::Unknown,
        }
    }
}

impl StoredContents {
    /// Reads the file at a path beneath a root. Follows no links, and opens nothing but regular files.
    fn beneath(&self, root: &Path, path: &Path) -> io::Result<DiffContent> {
        let (directory, name) = Directory::open(root)?.open_parent_beneath(path)?;
        if !directory.metadata(&name)?.is_file() {
            return Ok(DiffContent::Binary);
        }
        let bytes = crow_fs::read_file(directory.open_file(&name)?, LARGEST as u64)?;
        Ok(self.text(bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crow_core::ids::SessionId;
    use crow_runtime::SnapshotLimits;
    use tempfile::TempDir;

    use super::*;

    const SECRET: &str = "sk-0123456789abcdef0123456789";

    /// A project with its store.
    struct Project {
        _folder: TempDir,
        root: PathBuf,
        store: Arc<SnapshotStore>,
    }

    impl Project {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap().join("project");
            std::fs::create_dir(&root).unwrap();
            let data = folder.path().join("data");
            let store = SnapshotStore::open(&data, &root, SnapshotLimits::default(), None).unwrap();
            Self { _folder: folder, root, store: Arc::new(store) }
        }

        fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
            let path = self.root.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        }

        fn contents(&self) -> StoredContents {
            let store = Some(Arc::clone(&self.store));
            let workspace = Workspace::new(&self.root);
            StoredContents::new(store, workspace, Redactor::new([SECRET.to_owned()]))
        }
    }

    #[test]
    fn snapshots_of_the_project_and_of_paths_give_the_content_at_their_time() {
        let project = Project::new();
        let session = SessionId::new("s");
        let path = project.write("a.rs", "old\n");
        let gone = project.root.join("b.rs");
        let scanned = project.store.scan(&session).unwrap().snapshot;
        let paths = [path.clone(), gone.clone()];
        let captured = project.store.capture(&session, &paths).unwrap().snapshot;
        project.write("a.rs", "new\n");
        let contents = project.contents();
        for snapshot in [scanned, captured] {
            assert_eq!(contents.in_snapshot(&snapshot, &path), DiffContent::Known("old\n".into()));
            assert_eq!(contents.in_snapshot(&snapshot, &gone), DiffContent::Absent);
        }
        assert_eq!(contents.now(&path), DiffContent::Known("new\n".into()));
        assert_eq!(contents.now(&gone), DiffContent::Absent);
    }

    #[test]
    fn known_secrets_are_redacted() {
        let project = Project::new();
        let path = project.write(".env", format!("KEY={SECRET}\n"));
        let snapshot = project.store.scan(&SessionId::new("s")).unwrap().snapshot;
        let contents = project.contents();
        for text in [contents.in_snapshot(&snapshot, &path), contents.now(&path)] {
            assert_eq!(text, DiffContent::Known("KEY=[redacted by crow]\n".into()));
        }
    }

    #[test]
    fn binary_and_too_large_files_have_no_text() {
        let project = Project::new();
        let table = [
            ("bytes", vec![0, 1, 2], DiffContent::Binary),
            ("latin", vec![b'a', 0xe9], DiffContent::Binary),
            ("large", vec![b'x'; LARGEST + 1], DiffContent::TooLarge),
            ("most", vec![b'x'; LARGEST], DiffContent::Known("x".repeat(LARGEST))),
        ];
        let paths: Vec<_> =
            table.iter().map(|(name, bytes, _)| project.write(name, bytes)).collect();
        let snapshot = project.store.scan(&SessionId::new("s")).unwrap().snapshot;
        let contents = project.contents();
        for (path, (name, _, expected)) in paths.iter().zip(&table) {
            assert_eq!(contents.in_snapshot(&snapshot, path), *expected, "{name}");
            assert_eq!(contents.now(path), *expected, "{name}");
        }
        assert_eq!(contents.now(&project.root), DiffContent::Binary);
    }

    #[test]
    fn content_that_no_snapshot_has_is_unknown() {
        let project = Project::new();
        let path = project.write("a", "a");
        let nothing = SnapshotId::new("nothing");
        assert_eq!(project.contents().in_snapshot(&nothing, &path), DiffContent::Unknown);
        let without = StoredContents { store: None, ..project.contents() };
        assert_eq!(without.in_snapshot(&nothing, &path), DiffContent::Unknown);
        let outside = Path::new("/nowhere/at/all");
        let snapshot = project.store.scan(&SessionId::new("s")).unwrap().snapshot;
        assert_eq!(project.contents().in_snapshot(&snapshot, outside), DiffContent::Unknown);
    }

    #[test]
    fn links_out_of_the_project_are_not_followed() {
        let project = Project::new();
        let outside = project.root.with_file_name("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("key"), "private").unwrap();
        std::os::unix::fs::symlink(&outside, project.root.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.join("key"), project.root.join("link")).unwrap();
        let contents = project.contents();
        for (path, expected) in [
            (project.root.join("folder/key"), DiffContent::Unknown),
            (project.root.join("link"), DiffContent::Binary),
            (project.root.join("../outside/key"), DiffContent::Unknown),
            (outside.join("key"), DiffContent::Unknown),
            (outside.join("nothing"), DiffContent::Unknown),
        ] {
            assert_eq!(contents.now(&path), expected, "{}", path.display());
        }
    }

    #[test]
    fn files_in_an_additional_root_are_read() {
        let project = Project::new();
        let further = project.root.with_file_name("further");
        std::fs::create_dir(&further).unwrap();
        std::fs::write(further.join("a"), "text").unwrap();
        let workspace = Workspace::new(&project.root).with_root(&further);
        let contents = StoredContents { workspace, ..project.contents() };
        assert_eq!(contents.now(&further.join("a")), DiffContent::Known("text".into()));
    }

    #[test]
    fn a_pipe_without_a_writer_does_not_block() {
        let project = Project::new();
        let pipe = project.root.join("pipe");
        crow_testkit::NamedPipe::make(&pipe);
        assert_eq!(project.contents().now(&pipe), DiffContent::Binary);
    }
}
