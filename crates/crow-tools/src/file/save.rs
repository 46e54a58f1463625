//! The last step of every tool that changes a file: save it, record its content as known, and report the change. Each file
//! has one writer at a time.
//!
//! A replacement is atomic: readers see the old content or the new one. The new content is written to a file beside the old
//! one and renamed over it. If that is not possible, the file is overwritten in place, and restored if that fails. Before
//! either, the file must still have the content that was loaded.

use std::{
    collections::HashMap,
    fs::{File, Permissions},
    io,
    os::unix::fs::{FileExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use crow_core::{
    file_views::{ContentHash, FileView, FileViews, WrittenContent},
    tool::{FileChange, FileDiff, Patch, ToolContext, ToolError, ToolResult},
};
use crow_fs::{EntryKind, EntryMetadata, FileIdentity, NewFile, RenameMode};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{
    CurrentFile, LoadError, ViewFreshness, file_diff,
    load::{open_entry, read_whole},
};
use crate::paths::{AllowedPath, display_path, explain};

/// A saved change.
#[derive(Debug)]
pub(crate) struct SavedChange {
    /// Diff of the change.
    pub(crate) diff: FileDiff,
    /// Remarks for the model, one sentence each.
    pub(crate) remarks: Vec<String>,
    /// A line for the model about syntax errors in the new content.
    syntax_note: Option<String>,
    view: Option<FileView>,
}

/// Saves `content`. Afterwards the session knows the file if it knew it before or if the agent wrote all of it. `built_on`
/// is the hash of the former content if `content` has parts of it.
pub(crate) fn save(
    current: &CurrentFile,
    content: &[u8],
    seen: ViewFreshness,
    built_on: Option<ContentHash>,
    ctx: &ToolContext,
) -> Result<SavedChange, ToolError> {
    let path = current.path();
    let other_links = store(current, content).map_err(|error| refusal(path, &error, ctx))?;
    let mut remarks = Vec::new();
    if other_links > 0 {
        remarks
            .push(format!("It had {other_links} other hard link(s), which keep the old content."));
    }
    Ok(saved(current, content, seen, built_on, remarks, ctx))
}

/// Saves `content` under the path of another file, which does not exist, with the mode of the file that it replaces.
pub(crate) fn save_moved(
    source: &CurrentFile,
    target: &CurrentFile,
    content: &[u8],
    seen: ViewFreshness,
    ctx: &ToolContext,
) -> Result<SavedChange, ToolError> {
    let mode = source.nearest.metadata(&source.name).map_err(StoreError::Io);
    mode.and_then(|before| create(target, content, Some(before.mode & !SET_ID_BITS)))
        .map_err(|error| refusal(target.path(), &error, ctx))?;
    let built_on = source.hash().cloned();
    Ok(saved(target, content, seen, built_on, Vec::new(), ctx))
}

/// Deletes a file, if it still has the content that was loaded.
pub(crate) fn delete(current: &CurrentFile, ctx: &ToolContext) -> Result<SavedChange, ToolError> {
    let path = current.path();
    remove(current).map_err(|error| refusal(path, &error, ctx))?;
    ctx.file_views.remove(path);
    let diff = FileDiff { change: FileChange::Deleted, ..file_diff(path, current.bytes(), &[]) };
    Ok(SavedChange { diff, remarks: Vec::new(), syntax_note: None, view: None })
}

/// Records what was stored.
fn saved(
    current: &CurrentFile,
    content: &[u8],
    seen: ViewFreshness,
    built_on: Option<ContentHash>,
    remarks: Vec<String>,
    ctx: &ToolContext,
) -> SavedChange {
    let path = current.path();
    let hash = ContentHash::of_content(content);
    let written = WrittenContent { path: path.to_owned(), hash, built_on };
    ctx.file_views.record_written(&ctx.call_id, written);
    let view = (seen == ViewFreshness::Current).then(|| record_written(path, content, ctx));
    let syntax_note = syntax_note(current, content, ctx);
    SavedChange { diff: file_diff(path, current.bytes(), content), remarks, syntax_note, view }
}

#[cfg(feature = "syntax")]
fn syntax_note(current: &CurrentFile, content: &[u8], ctx: &ToolContext) -> Option<String> {
    use super::text::{DecodedText, TextEncoding};
    use crate::syntax::SourceLanguage;
    let language = SourceLanguage::of_path(current.path())?;
    let is_whole = |text: &DecodedText<'_>| text.encoding != TextEncoding::BrokenUtf8;
    let old = DecodedText::decode(current.bytes()).filter(is_whole)?;
    let new = DecodedText::decode(content).filter(is_whole)?;
    let name = display_path(current.path(), ctx);
    crate::syntax::syntax_note(language, &name, &old.content, &new.content)
}

#[cfg(not(feature = "syntax"))]
fn syntax_note(_current: &CurrentFile, _content: &[u8], _ctx: &ToolContext) -> Option<String> {
    None
}

/// Records that the agent itself wrote this content.
pub(crate) fn record_written(path: &Path, content: &[u8], ctx: &ToolContext) -> FileView {
    let view = FileView {
        path: path.to_owned(),
        hash: ContentHash::of_content(content),
        lines: None,
        call_id: ctx.call_id.clone(),
    };
    ctx.file_views.insert(view.clone());
    view
}

impl SavedChange {
    /// Makes the result of the call. `extra` is metadata that only this tool has.
    pub(crate) fn into_result(
        self,
        mut output: String,
        mut extra: Map<String, Value>,
    ) -> ToolResult {
        if let Some(note) = &self.syntax_note {
            output.push('\n');
            output.push_str(note);
        }
        let mut result = ToolResult::success(output);
        if let Some(view) = self.view {
            extra.insert(FileViews::EXTRA_KEY.to_owned(), json!(view));
        }
        if !extra.is_empty() {
            result.metadata.extra = Value::Object(extra);
        }
        result.metadata.files_modified = vec![self.diff.path.clone()];
        result.metadata.diff = Some(Patch { files: vec![self.diff] });
        result
    }
}

/// Adds changes of several files to the result of the call.
pub(crate) fn with_changes(mut result: ToolResult, changes: Vec<SavedChange>) -> ToolResult {
    let views: Vec<&FileView> = changes.iter().filter_map(|change| change.view.as_ref()).collect();
    if !views.is_empty() {
        result.metadata.extra = json!({ FileViews::EXTRA_KEY: views });
    }
    for note in changes.iter().filter_map(|change| change.syntax_note.as_ref()) {
        result.output.push('\n');
        result.output.push_str(note);
    }
    let files: Vec<FileDiff> = changes.into_iter().map(|change| change.diff).collect();
    if !files.is_empty() {
        result.metadata.files_modified = files.iter().map(|diff| diff.path.clone()).collect();
        result.metadata.diff = Some(Patch { files });
    }
    result
}

/// Explains why a file was not loaded for a change.
pub(crate) fn load_error(path: &Path, error: &LoadError, ctx: &ToolContext) -> ToolError {
    let name = display_path(path, ctx);
    ToolError::Model(match error {
        LoadError::Missing => format!("{name} does not exist"),
        LoadError::Folder => format!("{name} is a folder; give the path of a file"),
        LoadError::Special(_) => format!("{name} {error} and is not written"),
        LoadError::TooLarge => format!("{name} {error}; change it with a command in bash"),
        LoadError::Io(error) => explain(&name, error),
    })
}

/// Explains why a file was not saved.
fn refusal(path: &Path, error: &StoreError, ctx: &ToolContext) -> ToolError {
    let name = display_path(path, ctx);
    ToolError::Model(match error {
        StoreError::Changed => {
            format!("{name} {error}, so it was not changed; read it again and repeat the call")
        }
        StoreError::Protected => format!(
            "{name} {error} (no write permission for anyone), so it was not changed; if it should be changed, make it writable with chmod first"
        ),
        StoreError::Linked(_) => format!(
            "{name} {error}, so it was not changed; write the new content to another file, or change it with a command in bash"
        ),
        StoreError::Damaged(_) => format!("{name} {error}; look at it with read_file"),
        StoreError::Io(error) => explain(&name, error),
    })
}

/// Modes of new files and folders, before the umask is applied.
const NEW_FILE_MODE: u32 = 0o666;
const NEW_FOLDER_MODE: u32 = 0o777;
const WRITE_BITS: u32 = 0o222;

/// A reason for which a file was not stored. The file has its old content then, except for `Damaged`.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("was changed by something else at the same moment")]
    Changed,
    #[error("is write-protected")]
    Protected,
    #[error(
        "can only be written in place, and has {0} other hard link(s), which would change with it"
    )]
    Linked(u64),
    #[error("could be written only in part and not be restored: {0}")]
    Damaged(#[source] io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Replaces the content of the file by `content`, if it still has the content that was loaded. Returns the number of other
/// hard links to the old file, which keep the old content.
fn store(current: &CurrentFile, content: &[u8]) -> Result<u64, StoreError> {
    if current.is_present() { replace(current, content) } else { create(current, content, None) }
}

/// Creates the file; with exactly this mode, if one is given.
fn create(current: &CurrentFile, content: &[u8], mode: Option<u32>) -> Result<u64, StoreError> {
    let directory = current.nearest.create_directories(&current.missing, NEW_FOLDER_MODE)?;
    let mut file = NewFile::create(&directory, NEW_FILE_MODE)?;
    file.write(content)?;
    if let Some(mode) = mode {
        file.file().set_permissions(Permissions::from_mode(mode & 0o7777))?;
    }
    match file.persist(&current.name, RenameMode::Keep) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Changed),
        Err(error) => Err(error.into()),
    }
}

fn replace(current: &CurrentFile, content: &[u8]) -> Result<u64, StoreError> {
    let (directory, name) = (&current.nearest, &current.name);
    let before = directory.metadata(name)?;
    if before.kind == EntryKind::Symlink {
        return Err(AllowedPath::moved_error().into());
    }
    if before.mode & WRITE_BITS == 0 {
        return Err(StoreError::Protected);
    }
    // A rename does not check if the file itself may be written.
    directory.open_for_writing(name)?;
    match prepare(current, &before, content) {
        Ok(file) => {
            check_unchanged(current)?;
            match file.persist(name, RenameMode::Replace) {
                Ok(()) => Ok(before.links.saturating_sub(1)),
                Err(error) if is_pinned(&error) => overwrite(current, content),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) if is_pinned(&error) => overwrite(current, content),
        Err(error) => Err(error.into()),
    }
}

fn remove(current: &CurrentFile) -> Result<(), StoreError> {
    let before = current.nearest.metadata(&current.name)?;
    if before.mode & WRITE_BITS == 0 {
        return Err(StoreError::Protected);
    }
    check_unchanged(current)?;
    Ok(current.nearest.remove_file(&current.name)?)
}

/// Returns true if the file can be written but not replaced: we may not write to its folder, we cannot set its owner,
/// or it is a mount point.
fn is_pinned(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy)
}

/// The set-user-id and set-group-id bits. The kernel clears them when anyone other than root writes to a file; here
/// they are cleared for root as well, because they were not given to the new content.
const SET_ID_BITS: u32 = 0o6000;

/// Writes the new content beside the old file, with its owner and mode but without set-user-id and set-group-id.
fn prepare<'a>(
    current: &'a CurrentFile,
    before: &EntryMetadata,
    content: &[u8],
) -> io::Result<NewFile<'a>> {
    let mut file = NewFile::create(&current.nearest, NEW_FILE_MODE)?;
    file.write(content)?;
    let after = EntryMetadata::of_file(file.file())?;
    if (after.user, after.group) != (before.user, before.group) {
        fchown(file.file(), Some(before.user), Some(before.group))?;
    }
    file.file().set_permissions(Permissions::from_mode(before.mode & !SET_ID_BITS))?;
    Ok(file)
}

/// Writes into the file itself. Fails if it has other hard links: their content would change, too, which nobody
/// allowed, and they may be anywhere.
fn overwrite(current: &CurrentFile, content: &[u8]) -> Result<u64, StoreError> {
    let identity = check_unchanged(current)?;
    let file = current.nearest.open_for_writing(&current.name)?;
    let opened = EntryMetadata::of_file(&file)?;
    if opened.identity != identity {
        return Err(StoreError::Changed);
    }
    if opened.links > 1 {
        return Err(StoreError::Linked(opened.links.saturating_sub(1)));
    }
    if opened.mode & SET_ID_BITS != 0 {
        file.set_permissions(Permissions::from_mode(opened.mode & !SET_ID_BITS))?;
    }
    rewrite(&file, content).map_err(|error| {
        // The old content is shorter or had this space before: it nearly always fits again.
        match rewrite(&file, current.bytes()) {
            Ok(()) => StoreError::Io(error),
            Err(_) => StoreError::Damaged(error),
        }
    })?;
    Ok(0)
}

fn rewrite(file: &File, content: &[u8]) -> io::Result<()> {
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)
}

/// Fails if the content of the file is not the one that was loaded. Returns the identity of the file.
fn check_unchanged(current: &CurrentFile) -> Result<FileIdentity, StoreError> {
    let open = match open_entry(&current.nearest, &current.name) {
        Ok(open) => open,
        Err(error) => return Err(changed_or(error)),
    };
    let identity = open.metadata.identity;
    let bytes = read_whole(open).map_err(changed_or)?;
    if bytes == current.bytes() { Ok(identity) } else { Err(StoreError::Changed) }
}

fn changed_or(error: LoadError) -> StoreError {
    match error {
        LoadError::Io(error) => error.into(),
        LoadError::Missing | LoadError::Folder | LoadError::Special(_) | LoadError::TooLarge => {
            StoreError::Changed
        }
    }
}

/// Number of entries above which the unused ones are dropped.
const KEPT: usize = 64;

/// Locks by resolved path, for the whole process: all agents in it share the files, whatever tools they have.
static LOCKS: LazyLock<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until no other call changes the file at this resolved path.
pub(crate) async fn lock(path: &Path) -> OwnedMutexGuard<()> {
    entry(path).lock_owned().await
}

fn entry(path: &Path) -> Arc<AsyncMutex<()>> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if locks.len() > KEPT {
        locks.retain(|_, lock| lock.strong_count() > 0);
    }
    if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
        return lock;
    }
    let lock = Arc::new(AsyncMutex::new(()));
    locks.insert(path.to_owned(), Arc::downgrade(&lock));
    lock
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt as _};

    use super::*;

    fn loaded(path: &Path) -> CurrentFile {
        CurrentFile::load(&AllowedPath::any(path), &FileViews::default()).unwrap()
    }

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_that_appeared_or_changed_meanwhile_is_not_replaced() {
        let (_folder, root) = folder();
        let path = root.join("a");
        let absent = loaded(&path);
        fs::write(&path, "theirs").unwrap();
        assert!(matches!(store(&absent, b"ours"), Err(StoreError::Changed)));
        let present = loaded(&path);
        fs::write(&path, "theirs again").unwrap();
        assert!(matches!(store(&present, b"ours"), Err(StoreError::Changed)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs again");
        assert_eq!(fs::read_dir(root).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_vanished_meanwhile_is_not_made_again() {
        let (_folder, root) = folder();
        let path = root.join("a");
        fs::write(&path, "x").unwrap();
        let present = loaded(&path);
        fs::remove_file(&path).unwrap();
        assert!(matches!(store(&present, b"y"), Err(StoreError::Io(_))));
        assert!(!path.exists());
    }

    #[test]
    fn a_pinned_file_with_another_name_is_not_written_in_place() {
        let (_folder, root) = folder();
        let (hook, path) = (root.join("hook"), root.join("notes"));
        fs::write(&hook, "theirs").unwrap();
        fs::hard_link(&hook, &path).unwrap();
        let current = loaded(&path);
        assert!(matches!(overwrite(&current, b"ours"), Err(StoreError::Linked(1))));
        assert_eq!(fs::read_to_string(&hook).unwrap(), "theirs");
        store(&current, b"ours").unwrap();
        assert_eq!(fs::read_to_string(&hook).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
    }

    #[test]
    fn a_pinned_file_is_written_in_place() {
        let (_folder, root) = folder();
        let path = root.join("a");
        fs::write(&path, "a longer text").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let current = loaded(&path);
        overwrite(&current, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }

    #[test]
    fn a_file_with_other_names_is_not_written_in_place() {
        let (_folder, root) = folder();
        let path = root.join("a");
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, root.join("b")).unwrap();
        assert!(matches!(overwrite(&loaded(&path), b"new"), Err(StoreError::Linked(1))));
        assert_eq!(fs::read(root.join("b")).unwrap(), b"old");
    }

    #[test]
    fn a_file_that_is_written_no_longer_gives_the_rights_of_its_owner() {
        let (_folder, root) = folder();
        let path = root.join("a");
        for write in [replace, overwrite] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
            write(&loaded(&path), b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o755);
        }
    }

    #[test]
    fn a_change_is_stored_in_the_loaded_folder_after_that_was_moved() {
        let (_folder, root) = folder();
        fs::create_dir_all(root.join("d")).unwrap();
        fs::create_dir_all(root.join("out")).unwrap();
        fs::write(root.join("d/a"), "old").unwrap();
        fs::write(root.join("out/a"), "old").unwrap();
        let (present, absent) = (loaded(&root.join("d/a")), loaded(&root.join("d/x/new")));
        fs::rename(root.join("d"), root.join("moved")).unwrap();
        std::os::unix::fs::symlink("out", root.join("d")).unwrap();
        store(&present, b"new").unwrap();
        store(&absent, b"new").unwrap();
        assert_eq!(fs::read(root.join("moved/a")).unwrap(), b"new");
        assert_eq!(fs::read(root.join("moved/x/new")).unwrap(), b"new");
        assert_eq!(fs::read(root.join("out/a")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.join("out")).unwrap().count(), 1);
    }
}
