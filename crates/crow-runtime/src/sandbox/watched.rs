//! Protected files where the kernel does not hold them: they are looked at before a command and after it, and put back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::{Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
    },
    path::{Path, PathBuf},
};

use crow_core::capability::{Original, PutAside};

use super::protected::{Protected, aside};

/// How many files are looked at.
const FILES: usize = 4096;
/// How long a file may be whose content is kept, and all of them.
const FILE: u64 = 1 << 20;
const ALL: u64 = 16 << 20;
/// What can be set of a mode.
const MODE: u32 = 0o7777;

/// The protected files of a workspace at one moment.
#[derive(Debug)]
pub(super) struct Watched {
    tops: Vec<PathBuf>,
    before: BTreeMap<PathBuf, State>,
}

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        content: Content,
    },
    Link(PathBuf),
    /// A pipe or a socket.
    Other,
}

/// What is in a file.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Whole(Vec<u8>),
    /// It is too long to be kept. Its length, and when it was changed last.
    Stamp(u64, i64, i64),
}

impl Watched {
    /// Looks at what is protected, and is there.
    pub(super) fn look(protected: &Protected) -> Self {
        let tops = protected.sealed.clone();
        let before = states(&tops);
        Self { tops, before }
    }

    /// Puts back what was changed since. What took its place is moved into `held`.
    pub(super) fn put_back(&self, held: &Path) -> Vec<PutAside> {
        let now = states(&self.tops);
        let paths: BTreeSet<&PathBuf> = self.before.keys().chain(now.keys()).collect();
        // Sorted: what is above comes first, so that nothing is written through what took its place.
        let mut found = Vec::new();
        for path in paths {
            let (before, now) = (self.before.get(path), now.get(path));
            if before != now {
                found.extend(put_back(path, before, now, held));
            }
        }
        found
    }
}

fn put_back(
    path: &Path,
    before: Option<&State>,
    now: Option<&State>,
    held: &Path,
) -> Option<PutAside> {
    let told = |kept, original| Some(PutAside { path: path.to_owned(), kept, original });
    let is_there = fs::symlink_metadata(path).is_ok();
    match (before, now) {
        // It went with the folder that it was made in.
        (None, _) if !is_there => None,
        (None, _) => told(aside(path, held).ok(), Original::Absent),
        (Some(State::Folder { mode }), Some(State::Folder { .. }))
        | (Some(State::File { mode, .. }), Some(State::File { .. }))
            if is_same_but_for_its_mode(before, now) =>
        {
            let set = fs::set_permissions(path, fs::Permissions::from_mode(*mode));
            told(None, if set.is_ok() { Original::PutBack } else { Original::Lost })
        }
        (Some(State::Other | State::File { content: Content::Stamp(..), .. }), _) => {
            told(None, Original::Lost)
        }
        (Some(before), _) => {
            let kept = if is_there { aside(path, held).ok() } else { None };
            let is_back = !(is_there && kept.is_none()) && before.restore(path).is_ok();
            told(kept, if is_back { Original::PutBack } else { Original::Lost })
        }
    }
}

fn is_same_but_for_its_mode(before: Option<&State>, now: Option<&State>) -> bool {
    match (before, now) {
        (Some(State::File { content: before, .. }), Some(State::File { content: now, .. })) => {
            before == now
        }
        _ => true,
    }
}

impl State {
    fn of(path: &Path, room: &mut u64) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        let mode = metadata.mode() & MODE;
        if metadata.is_symlink() {
            return Ok(Self::Link(fs::read_link(path)?));
        }
        if metadata.is_dir() {
            return Ok(Self::Folder { mode });
        }
        if !metadata.is_file() {
            return Ok(Self::Other);
        }
        let stamp = Content::Stamp(metadata.len(), metadata.mtime(), metadata.mtime_nsec());
        let most = FILE.min(*room);
        let mut bytes = Vec::new();
        let read = fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes);
        let is_whole = read.is_ok() && bytes.len() as u64 <= most;
        let content = if is_whole { Content::Whole(bytes) } else { stamp };
        if let Content::Whole(bytes) = &content {
            *room -= bytes.len() as u64;
        }
        Ok(Self::File { mode, content })
    }

    /// Makes it anew where nothing is.
    fn restore(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Folder { mode } => {
                fs::DirBuilder::new().mode(0o700).create(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(*mode))
            }
            Self::File { mode, content: Content::Whole(bytes) } => {
                let mut options = fs::OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
                file.write_all(bytes)?;
                file.set_permissions(fs::Permissions::from_mode(*mode))
            }
            Self::Link(target) => symlink(target, path),
            Self::Other | Self::File { content: Content::Stamp(..), .. } => {
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }
}

fn states(tops: &[PathBuf]) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let (mut room, mut open) = (ALL, tops.to_vec());
    while let Some(path) = open.pop() {
        if found.len() == FILES {
            tracing::warn!("not all protected files are looked at: there are too many");
            break;
        }
        let Ok(state) = State::of(&path, &mut room) else { continue };
        if let State::Folder { .. } = state {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        }
        found.insert(path, state);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::nested::NestedRepositories;

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        held: PathBuf,
        watched: Watched,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().canonicalize().unwrap();
            let (root, held) = (base.join("project"), base.join("held"));
            fs::create_dir_all(root.join(".github/workflows")).unwrap();
            fs::write(root.join(".github/workflows/ci.yml"), "run: test").unwrap();
            fs::write(root.join(".envrc"), "use nix").unwrap();
            fs::write(root.join("ordinary"), "").unwrap();
            fs::write(base.join("other"), "untouched").unwrap();
            let roots = std::slice::from_ref(&root);
            let protected = Protected::find(roots, &[], &NestedRepositories::default());
            Self { _folder: folder, watched: Watched::look(&protected), root, held }
        }

        fn put_back(&self) -> Vec<(String, Original)> {
            let told = self.watched.put_back(&self.held);
            let name = |path: &Path| path.strip_prefix(&self.root).unwrap().display().to_string();
            told.iter().map(|told| (name(&told.path), told.original)).collect()
        }
    }

    #[test]
    fn whatever_was_done_to_it_is_put_back_and_what_took_its_place_is_kept() {
        type Deed = fn(&Path) -> io::Result<()>;
        let deeds: [(Deed, &[(&str, Original)]); 9] = [
            (|_| Ok(()), &[]),
            (|root| fs::write(root.join("ordinary"), "changed"), &[]),
            (|root| fs::write(root.join(".envrc"), "evil"), &[(".envrc", Original::PutBack)]),
            (|root| fs::remove_file(root.join(".envrc")), &[(".envrc", Original::PutBack)]),
            (
                |root| fs::set_permissions(root.join(".envrc"), fs::Permissions::from_mode(0o755)),
                &[(".envrc", Original::PutBack)],
            ),
            (
                |root| fs::write(root.join(".github/new.yml"), "evil"),
                &[(".github/new.yml", Original::Absent)],
            ),
            (
                |root| fs::remove_dir_all(root.join(".github")),
                &[
                    (".github", Original::PutBack),
                    (".github/workflows", Original::PutBack),
                    (".github/workflows/ci.yml", Original::PutBack),
                ],
            ),
            (
                |root| {
                    fs::remove_file(root.join(".envrc"))?;
                    symlink("../other", root.join(".envrc"))
                },
                &[(".envrc", Original::PutBack)],
            ),
            (
                // Nothing is written to where the link leads.
                |root| {
                    fs::rename(root.join(".github"), root.join("moved"))?;
                    symlink("..", root.join(".github"))
                },
                &[
                    (".github", Original::PutBack),
                    (".github/workflows", Original::PutBack),
                    (".github/workflows/ci.yml", Original::PutBack),
                ],
            ),
        ];
        for (number, (deed, expected)) in deeds.into_iter().enumerate() {
            let place = Place::new();
            deed(&place.root).unwrap();
            let expected: Vec<_> =
                expected.iter().map(|(name, original)| ((*name).to_owned(), *original)).collect();
            assert_eq!(place.put_back(), expected, "deed {number}");
            let ci = place.root.join(".github/workflows/ci.yml");
            assert_eq!(fs::read_to_string(ci).unwrap(), "run: test");
            let envrc = place.root.join(".envrc");
            assert_eq!(fs::read_to_string(&envrc).unwrap(), "use nix");
            assert_eq!(fs::symlink_metadata(envrc).unwrap().mode() & 0o111, 0);
            assert!(!place.root.join(".github/new.yml").exists());
            let around = place.root.parent().unwrap();
            assert_eq!(fs::read_to_string(around.join("other")).unwrap(), "untouched");
            assert!(!around.join("workflows").exists());
            assert_eq!(place.put_back(), [], "deed {number}, once more");
        }
    }

    #[test]
    fn what_is_too_long_to_be_kept_is_told() {
        let place = Place::new();
        let long = vec![b'x'; usize::try_from(FILE).unwrap() + 1];
        fs::write(place.root.join(".envrc"), &long).unwrap();
        let roots = std::slice::from_ref(&place.root);
        let protected = Protected::find(roots, &[], &NestedRepositories::default());
        let place = Place { watched: Watched::look(&protected), ..place };
        assert_eq!(place.put_back(), []);
        fs::write(place.root.join(".envrc"), "evil").unwrap();
        assert_eq!(place.put_back(), [(".envrc".to_owned(), Original::Lost)]);
    }
}
