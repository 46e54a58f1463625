use std::{
    collections::BTreeSet,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{
    FileMatch, FileSearchOptions, FileSearchWorker,
    index::{FileIndex, FileIndexError},
    search_worker::FileSearchResults,
};
use crate::fuzzy_matcher::{FuzzyMatcher, FuzzyQuery};

const MOST: usize = 1_000_000;
static NEVER: AtomicBool = AtomicBool::new(false);

/// Makes files with their directories. A path that ends with a slash is an empty directory.
fn project(files: &[&str]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if file.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::write(path, "").unwrap();
        }
    }
    folder
}

/// Returns files with their directories, in the order of a walk.
fn with_directories<'a>(files: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut entries = BTreeSet::new();
    for file in files {
        let parts: Vec<&str> = file.split('/').collect();
        for end in 1..=parts.len() {
            entries.insert((parts[..end].to_vec(), end < parts.len()));
        }
    }
    // A directory hides a file of the same name.
    let names: BTreeSet<Vec<&str>> = entries
        .iter()
        .filter(|(_, is_directory)| *is_directory)
        .map(|(parts, _)| parts.clone())
        .collect();
    let kept =
        entries.iter().filter(|(parts, is_directory)| *is_directory || !names.contains(parts));
    kept.map(|(parts, is_directory)| {
        format!("{}{}", parts.join("/"), if *is_directory { "/" } else { "" })
    })
    .collect()
}

fn index(files: &[&str]) -> FileIndex {
    let entries = with_directories(files.iter().copied());
    FileIndex::of_paths(entries.iter().map(String::as_str))
}

fn build(root: &Path) -> FileIndex {
    FileIndex::build(root, MOST, &NEVER).unwrap()
}

fn paths(matches: &[FileMatch]) -> Vec<&str> {
    matches.iter().map(|found| found.path.as_str()).collect()
}

fn found(index: &mut FileIndex, query: &str) -> Vec<String> {
    let matches = index.search(query, 1000, &NEVER).unwrap();
    matches.into_iter().map(|found| found.path).collect()
}

#[test]
fn a_named_pipe_in_place_of_an_ignore_file_does_not_block_the_list() {
    let folder = project(&["a.rs", "below/b.rs", "other/c.rs"]);
    let make_pipe = |path: &str| {
        mknodat(CWD, folder.path().join(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
    };
    let paths = || {
        let (sender, receiver) = channel();
        let root = folder.path().to_owned();
        thread::spawn(move || {
            let mut index = FileIndex::build(&root, MOST, &NEVER).unwrap();
            let found = index.search("rs", 10, &NEVER).unwrap();
            sender.send(found.into_iter().map(|found| found.path).collect::<Vec<_>>()).ok();
        });
        receiver.recv_timeout(Duration::from_secs(20)).expect("the list is blocked")
    };
    make_pipe("below/.gitignore");
    assert_eq!(paths(), ["a.rs", "other/c.rs"]);
    make_pipe(".gitignore");
    assert_eq!(paths(), ["a.rs", "other/c.rs"]);
}

#[test]
fn a_walk_lists_files_and_directories_that_are_not_ignored() {
    let folder = project(&[
        ".git/config",
        ".github/ci.yml",
        ".gitignore",
        "src/main.rs",
        "src/gen/out.rs",
        "target/debug/crow",
        "notes.log",
        "empty/",
    ]);
    fs::write(folder.path().join(".gitignore"), "target/\n*.log\n").unwrap();
    fs::write(folder.path().join("src/.ignore"), "gen\n").unwrap();
    let mut index = build(folder.path());
    let expected = [
        ".github/",
        ".gitignore",
        "empty/",
        "src/",
        ".github/ci.yml",
        "src/.ignore",
        "src/main.rs",
    ];
    assert_eq!(found(&mut index, ""), expected);
    assert_eq!(index.len(), 7);
}

#[test]
fn ignore_files_above_the_root_count() {
    let folder = project(&[".git/config", "inner/a.rs", "inner/b.tmp"]);
    fs::write(folder.path().join(".gitignore"), "*.tmp\n").unwrap();
    assert_eq!(found(&mut build(&folder.path().join("inner")), ""), ["a.rs"]);
}

#[test]
fn symbolic_links_are_listed_and_not_followed() {
    let folder = project(&["real/a.rs"]);
    symlink("real", folder.path().join("link")).unwrap();
    symlink(folder.path(), folder.path().join("real/loop")).unwrap();
    assert_eq!(found(&mut build(folder.path()), ""), ["link", "real/", "real/a.rs", "real/loop"]);
}

#[test]
fn names_that_cannot_be_written_in_a_prompt_are_left_out() {
    let folder = project(&["ok", "new\nline"]);
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    fs::create_dir(folder.path().join(name)).unwrap();
    fs::write(folder.path().join(name).join("inside"), "").unwrap();
    let mut index = build(folder.path());
    assert_eq!(found(&mut index, ""), ["ok"]);
}

#[test]
fn an_index_is_cut_at_its_bound() {
    let folder = project(&["a", "b/c", "d"]);
    for (most, expected) in [(5, 4), (4, 4), (3, 3), (1, 1), (0, 0)] {
        let index = FileIndex::build(folder.path(), most, &NEVER).unwrap();
        assert_eq!(index.len(), expected, "{most}");
    }
}

#[test]
fn a_walk_can_be_cancelled_and_its_root_must_be_a_folder() {
    let folder = project(&["a"]);
    let cancelled = FileIndex::build(folder.path(), MOST, &AtomicBool::new(true));
    assert!(matches!(cancelled, Err(FileIndexError::Cancelled)));
    for missing in ["a", "missing"] {
        let built = FileIndex::build(&folder.path().join(missing), MOST, &NEVER);
        assert!(matches!(built, Err(FileIndexError::Root { .. })), "{missing}");
    }
}

#[test]
fn a_path_takes_at_most_120_bytes_and_usually_about_33() {
    // 200 packages of 5 folders of 50 files, of which the names have 20 bytes.
    let mut paths = Vec::new();
    for package in 0..200 {
        paths.push(format!("package-{package:03}/"));
        for folder in 0..5 {
            paths.push(format!("package-{package:03}/folder_{folder}/"));
            for file in 0..50 {
                paths.push(format!(
                    "package-{package:03}/folder_{folder}/component_{file:02}_test.rs"
                ));
            }
        }
    }
    let mut index = FileIndex::of_paths(paths.iter().map(String::as_str));
    let usual = index.memory() / index.len();
    assert!((30..=36).contains(&usual), "{usual} bytes a path");
    index.search("t", 50, &NEVER).unwrap();
    index.search("te", 50, &NEVER).unwrap();
    let searched = index.memory() / index.len();
    assert!(searched <= 45, "{searched} bytes a path after a search");
    let long: Vec<String> = (0..10_000).map(|number| format!("{number:096}")).collect();
    let index = FileIndex::of_paths(long.iter().map(String::as_str));
    assert!(index.memory() / index.len() <= 120);
}

#[test]
fn matches_are_ranked_by_score_then_by_length_then_by_name() {
    let mut index = index(&[
        "README.md",
        "docs/README.md",
        "docs/main-ideas.md",
        "src/domain/x.rs",
        "src/main.rs",
        "src/main_loop.rs",
        "tests/main/a.rs",
        "tests/remain.rs",
    ]);
    let table: [(&str, &[&str]); 6] = [
        (
            "main",
            &[
                "src/main.rs",
                "tests/main/",
                "src/main_loop.rs",
                "docs/main-ideas.md",
                "tests/main/a.rs",
                "src/domain/",
                "tests/remain.rs",
                "src/domain/x.rs",
            ],
        ),
        ("readme", &["README.md", "docs/README.md"]),
        ("srmrs", &["src/main.rs", "src/main_loop.rs", "src/domain/x.rs", "tests/remain.rs"]),
        ("src/ma", &["src/main.rs", "src/main_loop.rs", "src/domain/", "src/domain/x.rs"]),
        (
            "mainrs",
            &[
                "src/main.rs",
                "src/main_loop.rs",
                "tests/main/a.rs",
                "tests/remain.rs",
                "src/domain/x.rs",
            ],
        ),
        ("nothing", &[]),
    ];
    for (query, expected) in table {
        assert_eq!(found(&mut index, query), expected, "{query}");
    }
}

#[test]
fn case_counts_if_the_query_has_capitals() {
    let mut index = index(&["Makefile", "makefile", "ÄRGER", "ärger"]);
    assert_eq!(found(&mut index, "make"), ["Makefile", "makefile"]);
    assert_eq!(found(&mut index, "Make"), ["Makefile"]);
    assert_eq!(found(&mut index, "MAKE"), [""; 0]);
    assert_eq!(found(&mut index, "arg"), ["ÄRGER", "ärger"]);
    assert_eq!(found(&mut index, "ärg"), ["ÄRGER", "ärger"]);
    assert_eq!(found(&mut index, "ÄR"), ["ÄRGER"]);
}

#[test]
fn a_query_without_a_name_lists_a_directory() {
    let mut index = index(&["a/deep/er/x", "a/z", "b", "lib/a/q", "longer-name", "a-b"]);
    let all = found(&mut index, "");
    assert_eq!(&all[..6], ["a/", "a-b", "b", "lib/", "longer-name", "a/deep/"]);
    let listed = found(&mut index, "a/");
    assert_eq!(&listed[..4], ["a/deep/", "a/z", "lib/a/q", "a/"]);
    assert_eq!(paths(&index.search("", 2, &NEVER).unwrap()), ["a/", "a-b"]);
}

#[test]
fn positions_are_those_of_characters() {
    let mut index = index(&["döner/käse.rs", "src/main.rs"]);
    let positions = |index: &mut FileIndex, query: &str| {
        index.search(query, 1, &NEVER).unwrap().remove(0).positions
    };
    assert_eq!(positions(&mut index, "kars"), [6, 7, 11, 12]);
    assert_eq!(positions(&mut index, "main"), [4, 5, 6, 7]);
    assert_eq!(positions(&mut index, ""), [0; 0]);
}

#[test]
fn a_search_can_be_cancelled_and_repeated() {
    let mut index = index(&["src/main.rs", "src/lib.rs"]);
    assert_eq!(found(&mut index, "src").len(), 3);
    assert_eq!(index.search("srcm", 9, &AtomicBool::new(true)), None);
    assert_eq!(found(&mut index, "srcm"), ["src/main.rs"]);
}

#[test]
fn a_query_that_is_too_long_matches_nothing() {
    let name = "a".repeat(1500);
    let mut index = index(&[&name]);
    assert_eq!(found(&mut index, &name[..1024]), [name.as_str()]);
    assert_eq!(found(&mut index, &name[..1025]), [""; 0]);
}

#[test]
fn many_matches_are_reduced_to_the_best_names() {
    let mut files: Vec<String> = (0..20_000).map(|number| format!("t/e/s/t/{number}")).collect();
    files.push("zz/test.rs".to_owned());
    let mut index = index(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(found(&mut index, "test")[0], "zz/test.rs");
}

fn any_path() -> impl Strategy<Value = String> {
    let name = "[abAB.é_-]{1,4}";
    prop::collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

/// Returns what the matcher finds path by path.
fn expected(entries: &[String], query: &str) -> BTreeSet<String> {
    let mut matcher = FuzzyMatcher::of_paths(FuzzyQuery::new(query).unwrap());
    entries.iter().filter(|path| matcher.score(path).is_some()).cloned().collect()
}

proptest! {
    #[test]
    fn a_search_finds_what_the_matcher_finds(
        files in prop::collection::vec(any_path(), 0..40),
        query in "[abAB.é/_]{0,4}",
    ) {
        let entries = with_directories(files.iter().map(String::as_str));
        let mut index = FileIndex::of_paths(entries.iter().map(String::as_str));
        let found = found(&mut index, &query);
        prop_assert_eq!(found.len(), index.search(&query, 1000, &NEVER).unwrap().len());
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected(&entries, &query));
    }

    #[test]
    fn a_query_that_is_typed_finds_the_same_as_one_at_once(
        files in prop::collection::vec(any_path(), 0..40),
        query in "[abAB.é/_]{0,5}",
    ) {
        let entries = with_directories(files.iter().map(String::as_str));
        let mut typed = FileIndex::of_paths(entries.iter().map(String::as_str));
        for (end, character) in query.char_indices() {
            let query = &query[..end + character.len_utf8()];
            let mut fresh = FileIndex::of_paths(entries.iter().map(String::as_str));
            prop_assert_eq!(
                typed.search(query, 10, &NEVER).unwrap(),
                fresh.search(query, 10, &NEVER).unwrap()
            );
        }
    }

    #[test]
    fn any_query_and_any_names_are_fine(
        files in prop::collection::vec("[^/\0]{1,12}", 0..20),
        query in "\\PC{0,12}",
    ) {
        let entries = with_directories(files.iter().map(String::as_str));
        let mut index = FileIndex::of_paths(entries.iter().map(String::as_str));
        for found in index.search(&query, 10, &NEVER).unwrap() {
            let characters = u32::try_from(found.path.chars().count()).unwrap();
            prop_assert!(found.positions.is_sorted_by(|one, other| one < other));
            prop_assert!(found.positions.iter().all(|position| *position < characters));
            prop_assert_eq!(found.positions.len(), query.chars().count());
        }
    }
}

/// A worker, and what it reports.
fn worker(root: &Path, most_age: Duration) -> (FileSearchWorker, Receiver<()>) {
    let (sender, receiver) = channel();
    let options =
        FileSearchOptions { root: root.to_owned(), most_paths: MOST, most_matches: 10, most_age };
    let notify = move || sender.send(()).unwrap_or_default();
    (FileSearchWorker::start(options, Arc::new(notify)).unwrap(), receiver)
}

/// Waits for results that fit.
fn wait_for(
    (worker, receiver): &(FileSearchWorker, Receiver<()>),
    fits: impl Fn(&FileSearchResults) -> bool,
) -> FileSearchResults {
    loop {
        receiver.recv().unwrap();
        if let Some(results) = worker.try_results().filter(&fits) {
            return results;
        }
    }
}

#[test]
fn a_worker_searches_for_the_newest_query() {
    let folder = project(&["src/main.rs", "src/lib.rs"]);
    let worker = worker(folder.path(), Duration::MAX);
    for query in ["x", "s", "src", "lib"] {
        worker.0.request(query);
    }
    let results = wait_for(&worker, |results| results.query == "lib");
    assert_eq!(paths(&results.matches.unwrap()), ["src/lib.rs"]);
    assert!(worker.0.try_results().is_none());
    worker.0.request("main");
    let results = wait_for(&worker, |results| results.query == "main");
    assert_eq!(paths(&results.matches.unwrap()), ["src/main.rs"]);
}

#[test]
fn a_worker_lists_the_files_again_when_they_are_old() {
    let folder = project(&["old"]);
    let worker = worker(folder.path(), Duration::ZERO);
    worker.0.request("");
    wait_for(&worker, |_| true);
    fs::write(folder.path().join("new"), "").unwrap();
    worker.0.request("n");
    let has_new = |results: &FileSearchResults| {
        results.matches.as_ref().is_ok_and(|matches| paths(matches) == ["new"])
    };
    assert_eq!(wait_for(&worker, has_new).query, "n");
}

#[test]
fn a_worker_reports_a_root_that_cannot_be_listed_and_tries_again() {
    let folder = project(&["a/b"]);
    let root = folder.path().join("later");
    let worker = worker(&root, Duration::MAX);
    worker.0.request("x");
    let results = wait_for(&worker, |_| true);
    assert!(matches!(results.matches, Err(FileIndexError::Root { .. })));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("x.rs"), "").unwrap();
    worker.0.request("x");
    let results = wait_for(&worker, |results| results.matches.is_ok());
    assert_eq!(paths(&results.matches.unwrap()), ["x.rs"]);
}

#[test]
fn a_worker_ends_when_it_is_dropped() {
    let folder = project(&["a"]);
    let calls = Arc::new(AtomicBool::new(false));
    for query in [None, Some("a")] {
        let noted = Arc::clone(&calls);
        let options = FileSearchOptions {
            root: folder.path().to_owned(),
            most_paths: MOST,
            most_matches: 10,
            most_age: Duration::ZERO,
        };
        let notify = move || noted.store(true, Ordering::Relaxed);
        let worker = FileSearchWorker::start(options, Arc::new(notify)).unwrap();
        if let Some(query) = query {
            worker.request(query);
        }
        drop(worker);
        // The thread dropped its copy.
        assert_eq!(Arc::strong_count(&calls), 1);
    }
}
