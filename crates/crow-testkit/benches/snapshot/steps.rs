//! What the steps of an agent pay for, in a project of a thousand files.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use crow_runtime::SnapshotStore;

use crate::{
    project::{BenchProject, Git, SETTLED, content},
    show,
    table::TableRow,
    timed,
};

const TIMES: usize = 200;
const FILES: usize = 100;

pub(crate) fn rows(project: &BenchProject) -> Vec<TableRow> {
    project.settle();
    vec![begin(project), shell(project), two_roots(project), capture(project), undo(project)]
}

/// Telling others that this one writes, beside making and removing a file.
fn begin(project: &BenchProject) -> TableRow {
    let mark = project.root.join("../mark");
    let mut ours: Vec<_> =
        (0..TIMES).map(|_| timed(|| drop(project.store.activities().begin().unwrap()))).collect();
    let plain = || fs::write(&mark, "").and_then(|()| fs::remove_file(&mark)).unwrap();
    let mut plain: Vec<_> = (0..TIMES).map(|_| timed(plain)).collect();
    TableRow {
        what: "an activity begun and ended; a file made and removed",
        bound: "≤ 0.1 ms",
        ours: show(&mut ours),
        reference: show(&mut plain),
    }
}

/// What a call of the shell costs that changes nothing.
fn shell(project: &BenchProject) -> TableRow {
    let paths = [PathBuf::from(".gitignore")];
    let ours = || {
        let activity = project.store.activities().begin().unwrap();
        project.store.capture(&project.session, &paths).unwrap();
        project.scan();
        project.scan();
        assert!(!activity.overlapped());
    };
    let mut ours: Vec<_> = (0..TIMES).map(|_| timed(ours)).collect();
    let git = Git::new(&project.root.join("../git"), &project.root);
    let mut plain: Vec<_> = git
        .iter()
        .flat_map(|git| (0..TIMES / 10).map(|_| timed(|| (git.track(), git.track()))))
        .collect();
    TableRow {
        what: "1k files: begun, one file captured, scanned twice; git: add, write-tree twice",
        bound: "≤ 1.5 ms",
        ours: show(&mut ours),
        reference: if plain.is_empty() { "not installed".to_owned() } else { show(&mut plain) },
    }
}

/// The same in a session that works in another folder of as many files as well, beside one of the project alone.
fn two_roots(project: &BenchProject) -> TableRow {
    let other = BenchProject::new(1000, 20);
    let data = project.root.with_file_name("data-of-two");
    let place = |root: &Path| data.with_file_name(format!("data-{}", root.components().count()));
    let further = std::slice::from_ref(&other.root);
    let store = SnapshotStore::open(&data, &project.root, project.store.limits(), None);
    let both = store.unwrap().with_roots(further, place).unwrap();
    let call = |store: &SnapshotStore| {
        let activity = store.activities().begin().unwrap();
        store.scan(&project.session).unwrap();
        store.scan(&project.session).unwrap();
        assert!(!activity.overlapped());
    };
    let settled = Instant::now();
    while settled.elapsed() < SETTLED {
        call(&both);
    }
    let mut ours: Vec<_> = (0..TIMES).map(|_| timed(|| call(&both))).collect();
    let mut one: Vec<_> = (0..TIMES).map(|_| timed(|| call(&project.store))).collect();
    TableRow {
        what: "1k files in each of two roots: begun, scanned twice; one root",
        bound: "",
        ours: show(&mut ours),
        reference: show(&mut one),
    }
}

/// One file captured, new content each time, beside writing a copy of it.
fn capture(project: &BenchProject) -> TableRow {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..500 {
        // New files: the file system takes its time when one is written over.
        let (content, path) = (content(1_000_000 + round), PathBuf::from(format!("new-{round}")));
        fs::write(project.root.join(&path), &content).unwrap();
        let copy = project.root.join(format!("../copy-{round}"));
        plain.push(timed(|| fs::write(&copy, &content).unwrap()));
        ours.push(timed(|| project.store.capture(&project.session, &[path]).unwrap()));
    }
    TableRow {
        what: "one file captured; a copy written",
        bound: "≤ 0.1 ms",
        ours: show(&mut ours),
        reference: show(&mut plain),
    }
}

/// A hundred files that a call changed, put back, beside writing them.
fn undo(project: &BenchProject) -> TableRow {
    let files: Vec<PathBuf> =
        (0..FILES).map(|number| project.root.join(format!("undone/{number}.rs"))).collect();
    let write = |seed: usize| {
        for (number, file) in files.iter().enumerate() {
            fs::write(file, content(seed + number)).unwrap();
        }
    };
    fs::create_dir_all(project.root.join("undone")).unwrap();
    let (mut foreseen, mut undone, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    write(3_000_000);
    let before = project.scan();
    for round in 0..20 {
        plain.push(timed(|| write(4_000_000 + round * FILES)));
        let changes = project.store.changes(&before.snapshot, &project.scan().snapshot).unwrap();
        assert_eq!(changes.len(), FILES);
        foreseen.push(timed(|| project.store.preview(&changes).unwrap()));
        undone.push(timed(|| project.store.undo(&changes).unwrap()));
    }
    assert_eq!(project.scan().snapshot, before.snapshot);
    TableRow {
        what: "100 files: what undoing would do, undone; written plainly",
        bound: "",
        ours: format!("{}, {}", show(&mut foreseen), show(&mut undone)),
        reference: show(&mut plain),
    }
}
