//! `list_directory`.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn the_tree_lists_folders_first_with_their_number_of_entries() {
    let bench = Bench::new();
    bench.write("zoo.txt", "");
    bench.write("src/deep/er/a.rs", "");
    bench.write("src/main.rs", "");
    fs::create_dir(bench.path("empty")).unwrap();
    assert_eq!(
        bench.ok("list_directory", json!({})).await,
        "./ (3 entries)\n  empty/ (empty)\n  src/ (2 entries)\n    deep/ (1 entry)\n    main.rs\n  zoo.txt\n"
    );
    let deep = bench.ok("list_directory", json!({"path": "src", "depth": 9})).await;
    assert_eq!(
        deep,
        "src/ (2 entries)\n  deep/ (1 entry)\n    er/ (1 entry)\n      a.rs\n  main.rs\n"
    );
}

#[tokio::test]
async fn ignored_folders_are_named_but_not_opened() {
    let bench = Bench::new();
    bench.write(".gitignore", "target/\n*.log\n");
    bench.write("target/debug/x", "");
    bench.write(".git/HEAD", "");
    bench.write("a.log", "");
    assert_eq!(
        bench.ok("list_directory", json!({"depth": 3})).await,
        "./ (4 entries)\n  .git/ (ignored)\n  target/ (ignored)\n  .gitignore\n  a.log (ignored)\n"
    );
    assert_eq!(
        bench.ok("list_directory", json!({"path": "target"})).await,
        "target/ (1 entry)\n  debug/ (1 entry)\n    x\n"
    );
}

#[tokio::test]
async fn links_are_shown_and_not_followed() {
    let bench = Bench::new();
    fs::create_dir(bench.path("d")).unwrap();
    symlink("..", bench.path("d/up")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    Bench::make_fifo(&bench.path("pipe"));
    assert_eq!(
        bench.ok("list_directory", json!({})).await,
        "./ (3 entries)\n  d/ (1 entry)\n    up -> ..\n  dangling -> nowhere\n  pipe (special file)\n"
    );
}

#[tokio::test]
async fn a_large_tree_is_cut_level_by_level() {
    let bench = Bench::new();
    for folder in 0..10 {
        for file in 0..50 {
            bench.write(&format!("d{folder}/f{file:02}"), "");
        }
    }
    let output = bench.ok("list_directory", json!({})).await;
    // 10 folders, and 190 files of the first four.
    assert_eq!(output.matches("/f").count() + output.matches("    f").count(), 190);
    assert_eq!(output.matches("(50 entries)").count(), 9);
    assert!(output.contains("  d3/ (50 entries, the first 40 below)\n"), "{output}");
    let remark = "[cut at 200 entries; give a folder as path to see more of it]\n./ (10 entries)\n";
    assert!(output.starts_with(remark), "{output}");
}

#[tokio::test]
async fn listing_a_file_or_a_missing_folder_fails_with_a_hint() {
    let bench = Bench::new();
    bench.write("a.txt", "");
    let output = bench.fails("list_directory", json!({"path": "a.txt"})).await;
    assert_eq!(output, "a.txt is a file; use read_file");
    let output = bench.fails("list_directory", json!({"dir": "b.txt"})).await;
    assert_eq!(output, "b.txt does not exist; did you mean a.txt?");
}

#[tokio::test]
async fn a_name_with_a_line_break_stays_on_its_line() {
    let bench = Bench::new();
    bench.write("evil\nsrc", "");
    let output = bench.ok("list_directory", json!({})).await;
    assert!(output.lines().count() == 2 && output.contains("evil\\nsrc"), "{output}");
}
