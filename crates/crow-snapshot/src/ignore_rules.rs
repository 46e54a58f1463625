//! The ignored files: the rules of `.gitignore` in each folder and above, whether or not there is a git repository.

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{
    ObjectHash,
    read_file::{FileReadOutcome, read_file},
};

/// Largest size of a rule file in bytes; no real one is longer.
const LONGEST: u64 = 1024 * 1024;
pub(super) const FILE: &str = ".gitignore";
pub(super) const GIT: &str = ".git";

/// The rules from above the root: those of the repository that the root is a part of, and its `info/exclude`.
#[derive(Debug)]
pub(super) struct OuterRules {
    /// Nearest to the root first.
    matchers: Vec<Gitignore>,
    pub(super) hash: ObjectHash,
}

impl OuterRules {
    pub(super) fn read(root: &Path) -> Self {
        let mut found: Vec<(&Path, String)> = Vec::new();
        if let Some(repository) = root.ancestors().find(|folder| folder.join(GIT).exists()) {
            for folder in root.ancestors().skip(1).take_while(|f| f.starts_with(repository)) {
                found.extend(text(&folder.join(FILE)).map(|rules| (folder, rules)));
            }
            // The repository's unshared rules come last: any other rule decides before them.
            let own = text(&repository.join(GIT).join("info/exclude"));
            found.extend(own.map(|rules| (repository, rules)));
        }
        // The hash of all texts shows a later scan whether the rules changed.
        let all: Vec<&str> = found.iter().flat_map(|(_, rules)| [rules.as_str(), "\0"]).collect();
        let matchers = found.iter().map(|(folder, rules)| matcher(folder, rules)).collect();
        Self { matchers, hash: ObjectHash::of(all.concat().as_bytes()) }
    }
}

/// The rules that apply in a folder. They are read only when a new entry must be judged.
#[derive(Debug)]
pub(super) struct IgnoreRules<'a> {
    above: ParentIgnoreRules<'a>,
    folder: PathBuf,
    own: OnceCell<Option<Gitignore>>,
}

#[derive(Debug, Clone, Copy)]
enum ParentIgnoreRules<'a> {
    Outside(&'a OuterRules),
    Folder(&'a IgnoreRules<'a>),
}

impl<'a> IgnoreRules<'a> {
    pub(super) fn of_root(outer: &'a OuterRules, root: &Path) -> Self {
        Self {
            above: ParentIgnoreRules::Outside(outer),
            folder: root.to_path_buf(),
            own: OnceCell::new(),
        }
    }

    pub(super) fn of_folder(above: &'a Self, folder: &Path) -> Self {
        Self {
            above: ParentIgnoreRules::Folder(above),
            folder: folder.to_path_buf(),
            own: OnceCell::new(),
        }
    }

    /// Returns whether a path in the folder is ignored; the nearest rule decides.
    pub(super) fn ignore(&self, path: &Path, kind: IgnoredPathKind) -> bool {
        let is_folder = kind == IgnoredPathKind::Folder;
        let mut rules = self;
        loop {
            // Read once per folder, for the first entry that must be judged.
            let own = rules.own.get_or_init(|| {
                text(&rules.folder.join(FILE)).map(|text| matcher(&rules.folder, &text))
            });
            if let Some(verdict) = own.as_ref().and_then(|own| verdict(own, path, is_folder)) {
                return verdict;
            }
            match rules.above {
                ParentIgnoreRules::Folder(above) => rules = above,
                ParentIgnoreRules::Outside(outer) => {
                    let mut outer = outer.matchers.iter();
                    return outer.find_map(|own| verdict(own, path, is_folder)).unwrap_or(false);
                }
            }
        }
    }
}

/// The kind of a path; some rules apply to folders only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoredPathKind {
    File,
    Folder,
}

fn verdict(matcher: &Gitignore, path: &Path, is_folder: bool) -> Option<bool> {
    let found = matcher.matched(path, is_folder);
    if found.is_none() { None } else { Some(found.is_ignore()) }
}

/// Reads a rule file; `None` if it is missing, unreadable or too large. Like git, it follows no link.
fn text(path: &Path) -> Option<String> {
    match read_file(path, LONGEST) {
        Ok(FileReadOutcome::Whole { bytes, .. }) => {
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        Ok(FileReadOutcome::TooLarge | FileReadOutcome::Special) | Err(_) => None,
    }
}

fn matcher(folder: &Path, rules: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for line in rules.lines() {
        if let Err(error) = builder.add_line(None, line) {
            tracing::debug!(folder = %folder.display(), line, %error, "a rule is not understood");
        }
    }
    builder.build().unwrap_or_else(|error| {
        tracing::debug!(folder = %folder.display(), %error, "the rules cannot be used");
        Gitignore::empty()
    })
}

/// Returns which of these paths in a root are ignored by the current rules. A path counts as a folder if another one
/// is inside it.
pub(super) fn ignored_of(root: &Path, paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let outer = OuterRules::read(root);
    let paths: Vec<&Path> = paths
        .iter()
        .map(PathBuf::as_path)
        .filter(|path| *path != root && path.starts_with(root))
        .collect();
    let mut found = BTreeSet::new();
    find_ignored(&IgnoreRules::of_root(&outer, root), &paths, &mut found);
    found
}

/// Judges sorted paths inside the folder of `rules`, one child of it at a time.
fn find_ignored(rules: &IgnoreRules<'_>, paths: &[&Path], found: &mut BTreeSet<PathBuf>) {
    let depth = rules.folder.components().count() + 1;
    let child = |path: &Path| path.components().take(depth).collect::<PathBuf>();
    for paths in paths.chunk_by(|one, next| child(one) == child(next)) {
        let Some(child) = paths.first().map(|path| child(path)) else { continue };
        // The child itself may be one of the paths; the others lie inside it.
        let within = match paths {
            [own, within @ ..] if **own == child => within,
            within => within,
        };
        let kind = if within.is_empty() { IgnoredPathKind::File } else { IgnoredPathKind::Folder };
        if rules.ignore(&child, kind) {
            found.extend(paths.iter().map(|path| path.to_path_buf()));
        } else if !within.is_empty() {
            find_ignored(&IgnoreRules::of_folder(rules, &child), within, found);
        }
    }
}

/// Returns whether a folder holds more than `limit` files, or as many folders.
pub(super) fn exceeds_entry_limit(folder: &Path, limit: usize) -> bool {
    let (mut files, mut folders) = (0, 0);
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        folders += 1;
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            } else {
                files += 1;
            }
            if files > limit || folders > limit || pending.len() > limit {
                return true;
            }
        }
    }
    false
}
