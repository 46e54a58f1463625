//! `glob`.

use std::{
    fs::File,
    path::Path,
    time::{Duration, SystemTime},
};

use crow_core::tool::Subject;
use serde_json::json;

use crate::bench::Bench;

fn age(path: &Path, minutes: u64) {
    let time = SystemTime::now() - Duration::from_mins(minutes);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn the_newest_files_come_first() {
    let bench = Bench::new();
    for (name, minutes) in
        [("old.rs", 30), ("src/new.rs", 1), ("src/deep/mid.rs", 10), ("a.txt", 2)]
    {
        age(&bench.write(name, ""), minutes);
    }
    for (pattern, expected) in [
        ("**/*.rs", "src/new.rs\nsrc/deep/mid.rs\nold.rs\n"),
        ("*.rs", "src/new.rs\nsrc/deep/mid.rs\nold.rs\n"),
        ("src/*.rs", "src/new.rs\n"),
        ("src/**/*.rs", "src/new.rs\nsrc/deep/mid.rs\n"),
        ("*.{rs,txt}", "src/new.rs\na.txt\nsrc/deep/mid.rs\nold.rs\n"),
    ] {
        assert_eq!(bench.ok("glob", json!({"pattern": pattern})).await, expected, "{pattern}");
    }
    assert_eq!(
        bench.ok("glob", json!({"pattern": "*.rs", "path": "src/deep"})).await,
        "src/deep/mid.rs\n"
    );
}

#[tokio::test]
async fn a_hundred_files_are_listed_and_the_rest_counted() {
    let bench = Bench::new();
    for file in 0..150 {
        age(&bench.write(&format!("f{file:03}"), ""), file);
    }
    let output = bench.ok("glob", json!({"pattern": "f*"})).await;
    assert!(
        output.starts_with(
            "[the newest 100 of 150 files; narrow the pattern to see others]\nf000\nf001\n"
        ) && output.ends_with("f099\n"),
        "{output}"
    );
}

#[tokio::test]
async fn ignored_files_are_found_only_if_their_folder_is_named() {
    let bench = Bench::new();
    bench.write(".gitignore", "node_modules/\n");
    bench.write("node_modules/x/index.js", "");
    bench.write(".git/config.js", "");
    assert_eq!(
        bench.ok("glob", json!({"pattern": "**/*.js"})).await,
        "No files match, except ignored ones such as node_modules/x/index.js; begin the pattern with their folder to find them."
    );
    for input in [
        json!({"pattern": "node_modules/**/*.js"}),
        json!({"pattern": "**/*.js", "path": "node_modules"}),
    ] {
        assert_eq!(bench.ok("glob", input).await, "node_modules/x/index.js\n");
    }
    assert_eq!(bench.ok("glob", json!({"pattern": "*.none"})).await, "No files match.");
}

#[tokio::test]
async fn the_plan_names_the_folder_where_the_search_begins() {
    let bench = Bench::new();
    let root = bench.outside("other");
    std::fs::create_dir(&root).unwrap();
    for pattern in [format!("{}/**/*.rs", root.display()), "../other/*.rs".to_owned()] {
        let plan = bench.plan("glob", &json!({"pattern": pattern})).await.unwrap();
        assert_eq!(plan.subject, Subject::Path(root.clone()), "{pattern}");
        assert_eq!(plan.title, format!("glob {pattern}"));
    }
}

#[tokio::test]
async fn bad_patterns_and_folders_are_errors() {
    let bench = Bench::new();
    bench.write("a.txt", "");
    for (input, message) in [
        (json!({"pattern": ""}), "the pattern is empty"),
        (json!({"pattern": "a["}), "not a glob"),
        (json!({"pattern": "nowhere/*.rs"}), "nowhere does not exist"),
        (json!({"pattern": "*", "path": "a.txt"}), "a.txt is a file"),
    ] {
        let output = bench.fails("glob", input).await;
        assert!(output.contains(message), "{output}");
    }
}
