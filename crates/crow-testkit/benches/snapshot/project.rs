//! A made-up project, and what is measured on it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crow_core::ids::SessionId;
use crow_runtime::{Scan, SnapshotLimits, SnapshotStore};
use ignore::WalkBuilder;

use crate::{Words, show, table::TableRow, timed};

const TIMES: usize = 15;
/// By then no file is so new that the next scan reads it once more.
pub(crate) const SETTLED: Duration = Duration::from_millis(300);

pub(crate) struct BenchProject {
    folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) store: SnapshotStore,
    pub(crate) session: SessionId,
}

impl BenchProject {
    /// Makes `files` files, so many to a folder.
    pub(crate) fn new(files: usize, to_a_folder: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        for number in 0..files {
            let inner = number / to_a_folder;
            let place = root.join(format!("part-{}/module-{inner}", inner % 50));
            if number % to_a_folder == 0 {
                fs::create_dir_all(&place).unwrap();
            }
            fs::write(place.join(format!("file-{number}.rs")), content(number)).unwrap();
        }
        fs::write(root.join(".gitignore"), "*.o\n").unwrap();
        let limits = SnapshotLimits { free_bytes: 0, ..SnapshotLimits::default() };
        let store = SnapshotStore::open(&folder.path().join("data"), &root, limits, None).unwrap();
        Self { folder, root, store, session: SessionId::new("bench") }
    }

    pub(crate) fn rows(&self, words: &Words) -> Vec<TableRow> {
        let cold = timed(|| self.scan());
        let git = Git::new(&self.folder.path().join("git"), &self.root);
        let git_cold = git.as_ref().map(|git| timed(|| git.track()));
        self.settle();
        let mut ours: Vec<_> = (0..TIMES).map(|_| timed(|| self.scan())).collect();
        let mut walk: Vec<_> = (0..TIMES).map(|_| timed(|| self.walk())).collect();
        let mut git_warm: Vec<_> =
            git.iter().flat_map(|git| (0..TIMES).map(|_| timed(|| git.track()))).collect();
        let edited = self.root.join("part-0/module-0/file-0.rs");
        let (mut one, mut git_one) = (Vec::new(), Vec::new());
        for round in 0..TIMES {
            fs::write(&edited, content(2_000_000 + round)).unwrap();
            one.push(timed(|| self.scan()));
            git_one.extend(git.as_ref().map(|git| timed(|| git.track())));
        }
        let git_text = |times: &mut Vec<_>| {
            if times.is_empty() { "not installed".to_owned() } else { show(times) }
        };
        vec![
            TableRow {
                what: words.cold,
                bound: "",
                ours: show(&mut [cold]),
                reference: git_text(&mut git_cold.into_iter().collect()),
            },
            TableRow {
                what: words.unchanged,
                bound: words.bound,
                ours: show(&mut ours),
                reference: format!("{}, {}", show(&mut walk), git_text(&mut git_warm)),
            },
            TableRow {
                what: words.changed,
                bound: "",
                ours: show(&mut one),
                reference: git_text(&mut git_one),
            },
        ]
    }

    /// Scans until no file is as new as the last scan, which would be read once more.
    pub(crate) fn settle(&self) {
        let started = Instant::now();
        while started.elapsed() < SETTLED {
            self.scan();
        }
    }

    pub(crate) fn scan(&self) -> Scan {
        let scan = self.store.scan(&self.session).unwrap();
        assert!(scan.not_covered.is_empty());
        scan
    }

    /// What any scan has to do at least, the way that search tools do it.
    fn walk(&self) {
        let walk = WalkBuilder::new(&self.root).hidden(false).build();
        assert!(walk.flatten().all(|entry| fs::symlink_metadata(entry.path()).is_ok()));
    }
}

/// A repository beside the project.
pub(crate) struct Git {
    folder: PathBuf,
    root: PathBuf,
}

impl Git {
    pub(crate) fn new(folder: &Path, root: &Path) -> Option<Self> {
        let own = Self { folder: folder.to_path_buf(), root: root.to_path_buf() };
        own.run(&["init", "--quiet"]).then_some(own)
    }

    pub(crate) fn track(&self) {
        assert!(self.run(&["add", "--all"]) && self.run(&["write-tree"]));
    }

    fn run(&self, words: &[&str]) -> bool {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(&self.folder).arg("--work-tree").arg(&self.root).args(words);
        git.current_dir(&self.root).stdout(Stdio::null()).stderr(Stdio::null());
        git.status().is_ok_and(|status| status.success())
    }
}

/// About three thousand bytes of a made-up source.
pub(crate) fn content(number: usize) -> String {
    (0..60).map(|line| format!("let value_{line} = compute({number}, {});\n", line * number)).fold(
        String::new(),
        |mut text, line| {
            text.push_str(&line);
            text
        },
    )
}
