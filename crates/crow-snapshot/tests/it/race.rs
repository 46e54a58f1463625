//! Snapshots and undo while something, such as a sandboxed job, keeps exchanging a folder of the project with a link to one
//! outside.

use std::{
    cell::Cell,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crow_snapshot::{PathChange, RestoreResult, SnapshotEntry};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::project::{Project, session, tree};

/// Number of rounds of each step during the exchange. `CROW_RACE_ROUNDS` sets another number.
#[expect(clippy::disallowed_methods, reason = "a test reads its own setting")]
fn rounds() -> usize {
    std::env::var("CROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Exchanges the folder `d` of a project and the link `link` until it is dropped.
struct Exchange {
    is_done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    fn start(root: &Path) -> Self {
        let (one, other) = (root.join("d"), root.join("link"));
        let is_done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_done);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        Self { is_done, thread: Some(thread) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Creates `link` and returns the folder outside of the project that it leads to.
fn outside(project: &Project) -> PathBuf {
    let out = project.root.with_file_name("out");
    symlink("../out", project.root.join("link")).unwrap();
    out
}

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn no_snapshot_reads_through_a_link_exchanged_for_a_folder() {
    let project = Project::new();
    project.write("d/sub/file", "inside");
    symlink("inside", project.root.join("d/sub/own")).unwrap();
    fs::hard_link(project.root.join("d/sub/file"), project.root.join("same")).unwrap();
    let out = outside(&project);
    write(&out, "sub/file", "outside");
    symlink("outside", out.join("sub/own")).unwrap();
    let (file, own) = (project.root.join("d/sub/file"), project.root.join("d/sub/own"));
    let readable = Cell::new(0);
    let check = |snapshot| {
        for path in [&file, &own] {
            let Some(entry) = project.store.entry(&snapshot, path).unwrap() else { continue };
            if let Ok(bytes) = project.store.read(&entry) {
                assert_eq!(String::from_utf8_lossy(&bytes), "inside", "{}", path.display());
                readable.set(readable.get() + 1);
            }
        }
    };
    let exchange = Exchange::start(&project.root);
    // On a busy machine the link may stay in place for very many rounds.
    for _ in (0..100_000).take_while(|round| *round < rounds() || readable.get() == 0) {
        // The next scan sees this file as changed.
        fs::write(project.root.join("same"), "inside").unwrap();
        if let Ok(scan) = project.store.scan(&session("s")) {
            check(scan.snapshot);
        }
        if let Ok(capture) = project.store.capture(&session("s"), &[file.clone(), own.clone()]) {
            check(capture.snapshot);
        }
        if let Ok(capture) =
            project.store.capture_exactly(&session("s"), std::slice::from_ref(&file))
        {
            check(capture);
        }
    }
    drop(exchange);
    assert!(readable.get() > 0, "no snapshot held the files: the race shows nothing");
}

#[test]
fn no_undo_writes_through_a_link_exchanged_for_a_folder() {
    let project = Project::new();
    let mode = |name: &str, mode| {
        fs::set_permissions(project.root.join(name), Permissions::from_mode(mode)).unwrap();
    };
    project.write("d/sub/replaced", "before");
    project.write("d/sub/mode", "same");
    project.write("d/sub/folder/removed", "before");
    project.write("d/folder/file", "same");
    mode("d/sub/mode", 0o600);
    mode("d/folder", 0o700);
    let before = project.scan();
    project.write("d/sub/replaced", "after");
    project.write("d/sub/created", "after");
    symlink("nowhere", project.root.join("d/sub/created-link")).unwrap();
    fs::create_dir(project.root.join("d/sub/created-folder")).unwrap();
    fs::remove_dir_all(project.root.join("d/sub/folder")).unwrap();
    mode("d/sub/mode", 0o644);
    mode("d/folder", 0o755);
    let after = project.scan();
    let changes = project.changes(&before, &after);
    assert_eq!(changes.len(), 8, "{changes:?}");
    let reversed: Vec<_> = changes.iter().cloned().map(PathChange::reversed).collect();
    // The tree outside equals the one in the project, so a check by name would always permit the undo.
    let out = outside(&project);
    write(&out, "sub/replaced", "after");
    write(&out, "sub/created", "after");
    symlink("nowhere", out.join("sub/created-link")).unwrap();
    fs::create_dir(out.join("sub/created-folder")).unwrap();
    write(&out, "sub/mode", "same");
    write(&out, "folder/file", "same");
    for (name, mode) in [("sub/mode", 0o644), ("folder", 0o755), ("sub/created-folder", 0o755)] {
        fs::set_permissions(out.join(name), Permissions::from_mode(mode)).unwrap();
    }
    let expected = tree(&out);
    let mut done = 0;
    let exchange = Exchange::start(&project.root);
    for round in 0..100_000 {
        for changes in [&changes, &reversed] {
            for undone in project.store.undo(changes).unwrap() {
                done += usize::from(matches!(undone.result, Ok(RestoreResult::Done)));
            }
        }
        if round >= rounds() && done > 0 {
            break;
        }
    }
    drop(exchange);
    assert_eq!(tree(&out), expected);
    assert!(done > 0, "nothing was undone: the race shows nothing");
}

#[test]
fn keep_copy_does_not_follow_a_link_exchanged_for_a_folder() {
    let project = Project::new();
    project.write("d/file", "inside");
    let out = outside(&project);
    write(&out, "file", "outside");
    let expected = tree(&out);
    let mut done = 0;
    let exchange = Exchange::start(&project.root);
    for round in 0..100_000 {
        done += usize::from(project.store.keep_copy(&project.root.join("d/file")).is_ok());
        // On a busy machine the link may stay in place for very many rounds.
        if round >= rounds() && done > 0 {
            break;
        }
    }
    drop(exchange);
    assert_eq!(tree(&out), expected);
    for (path, (_, bytes)) in tree(&project.root) {
        assert_ne!(bytes, b"outside", "{}", path.display());
    }
    assert!(done > 0, "no copy was kept: the race shows nothing");
}

#[test]
fn cleanup_after_a_killed_undo_does_not_follow_an_exchanged_link() {
    let project = Project::new();
    let name = ".crow-undo-018f0000-0000-7000-8000-000000000001";
    let leftover = project.root.join("d").join(name);
    project.write("d/file", "inside");
    let out = outside(&project);
    write(&out, name, "outside");
    let records = project.data.join("undoing");
    fs::create_dir_all(&records).unwrap();
    let exchange = Exchange::start(&project.root);
    for round in 0..rounds() {
        let record = [leftover.as_os_str().as_encoded_bytes(), b"\0"].concat();
        fs::write(records.join(format!("killed-{round}")), record).unwrap();
        project.store.undo(&[]).unwrap();
    }
    drop(exchange);
    assert!(out.join(name).exists());
    // Without the exchange it is removed.
    let folder = if project.root.join("d").is_symlink() { "link" } else { "d" };
    fs::rename(project.root.join(folder), project.root.join("real")).unwrap();
    drop(fs::remove_file(project.root.join("d")));
    fs::rename(project.root.join("real"), project.root.join("d")).unwrap();
    fs::write(&leftover, "half").unwrap();
    let record = [leftover.as_os_str().as_encoded_bytes(), b"\0"].concat();
    fs::write(records.join("killed"), record).unwrap();
    project.store.undo(&[]).unwrap();
    assert!(!leftover.exists());
    assert_eq!(
        project.store.current_entry(&leftover, &SnapshotEntry::Absent).unwrap(),
        SnapshotEntry::Absent
    );
}
