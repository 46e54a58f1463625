//! Records which content of which file the session has seen.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::CallId;

/// A hash of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ContentHash(String);

impl ContentHash {
    /// Hashes `content`: the first 128 bits of its BLAKE3 hash.
    pub fn of_content(content: &[u8]) -> Self {
        let hex = blake3::hash(content).to_hex();
        Self(hex.chars().take(32).collect())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The latest view that the session has of one file. Tools put it into the metadata of their result as
/// `extra.file_view`, or a list of several, so that a resumed session has it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileView {
    /// Path of the file, with symbolic links resolved.
    pub path: PathBuf,
    /// Hash of the content that was seen or written.
    pub hash: ContentHash,
    /// First and last line shown, or none if the agent wrote the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u64, u64)>,
    /// The call that showed or wrote the file.
    pub call_id: CallId,
}

/// What a call wrote to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenContent {
    /// Path of the file, with symbolic links resolved.
    pub path: PathBuf,
    /// Hash of the content that was written.
    pub hash: ContentHash,
    /// Hash of the former content, if what was written contains parts of it.
    pub built_on: Option<ContentHash>,
}

/// The latest view of each file, by path.
#[derive(Debug, Default)]
pub struct FileViews {
    views: Mutex<HashMap<PathBuf, FileView>>,
    written: Mutex<HashMap<CallId, Vec<WrittenContent>>>,
}

impl FileViews {
    /// Key of a view, or of a list of views, in a result's `extra`.
    pub const EXTRA_KEY: &str = "file_view";

    /// Stores a view and replaces the earlier one of the same file.
    pub fn insert(&self, view: FileView) {
        self.lock().insert(view.path.clone(), view);
    }

    /// Records what a call wrote to a file, so that it can be told from what others write there at the same time.
    pub fn record_written(&self, call_id: &CallId, written: WrittenContent) {
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(call_id.clone()).or_default().push(written);
    }

    /// Removes and returns what a call wrote, in order.
    pub fn take_written(&self, call_id: &CallId) -> Vec<WrittenContent> {
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(call_id).unwrap_or_default()
    }

    /// Returns the latest view of a file.
    pub fn get(&self, path: &Path) -> Option<FileView> {
        self.lock().get(path).cloned()
    }

    /// Returns all views, in no particular order.
    pub fn to_vec(&self) -> Vec<FileView> {
        self.lock().values().cloned().collect()
    }

    /// Removes the view of a file.
    pub fn remove(&self, path: &Path) {
        self.lock().remove(path);
    }

    /// Replaces all views by those of another session, or of an earlier state of this one.
    pub fn replace_with(&self, other: &Self) {
        let views = other.lock().clone();
        *self.lock() = views;
    }

    /// Returns the views in a result's `extra`, in order.
    pub fn in_extra(extra: &Value) -> Vec<FileView> {
        let read = |view: &Value| serde_json::from_value(view.clone()).ok();
        match extra.get(Self::EXTRA_KEY) {
            Some(Value::Array(views)) => views.iter().filter_map(read).collect(),
            Some(view) => read(view).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Replaces the view of the same file in a result's `extra`.
    ///
    /// # Panics
    /// Never: a view is plain data.
    pub fn replace_in_extra(extra: &mut Value, view: &FileView) {
        let is_same = |other: &Value| {
            let path = other.get("path").map(PathBuf::deserialize);
            matches!(path, Some(Ok(path)) if path == view.path)
        };
        let views = match extra.get_mut(Self::EXTRA_KEY) {
            Some(Value::Array(views)) => views.iter_mut().collect(),
            Some(one) => vec![one],
            None => Vec::new(),
        };
        for other in views.into_iter().filter(|other| is_same(other)) {
            *other = serde_json::to_value(view).expect("invariant: a view is plain data");
        }
    }

    /// Stores the views from a result's `extra`.
    pub fn restore(&self, extra: &Value) {
        for view in Self::in_extra(extra) {
            self.insert(view);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, FileView>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_view_or_several_are_restored_from_a_result() {
        let view = |path: &str| FileView {
            path: path.into(),
            hash: ContentHash::of_content(b"x"),
            lines: Some((1, 3)),
            call_id: CallId::new("c1"),
        };
        let (one, other) = (view("/p/a.rs"), view("/p/b.rs"));
        let views = FileViews::default();
        views.restore(&serde_json::json!({ FileViews::EXTRA_KEY: one }));
        assert_eq!(views.get(Path::new("/p/a.rs")), Some(one.clone()));
        let views = FileViews::default();
        views.restore(&serde_json::json!({ FileViews::EXTRA_KEY: [one, other] }));
        assert_eq!(views.get(Path::new("/p/a.rs")), Some(one));
        assert_eq!(views.get(Path::new("/p/b.rs")), Some(other));
    }
}
