//! Invalid and hostile paths and numbers as input of the tools.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::bench::Bench;

fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": path})),
        ("list_directory", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"})),
        ("grep", json!({"path": path, "pattern": "x"})),
        ("glob", json!({"path": path, "pattern": "*"})),
        ("bash", json!({"workdir": path, "command": "true"})),
    ]
}

#[tokio::test]
async fn impossible_paths_are_refused_by_every_tool() {
    let bench = Bench::new();
    for (path, message) in [
        ("", "the path is empty"),
        ("a\0b", "NUL"),
        ("~/x", "`~` is not expanded; give an absolute path"),
        (&"x".repeat(10_000), "too long"),
        (&"x/".repeat(5_000), "too long"),
    ] {
        for (tool, input) in calls(path) {
            let output = bench.fails(tool, input).await;
            assert!(output.contains(message), "{tool}: {output}");
            assert!(output.len() < 1000, "{tool}: {output}");
        }
    }
}

#[tokio::test]
async fn pipes_devices_and_loops_never_block() {
    let bench = Bench::new();
    Bench::make_fifo(&bench.path("pipe"));
    symlink("loop", bench.path("loop")).unwrap();
    symlink("/dev/zero", bench.path("zero")).unwrap();
    for path in ["pipe", "loop", "zero", "/dev/zero", "/dev/full"] {
        for (tool, input) in calls(path) {
            let output = bench.fails(tool, input).await;
            assert!(output.len() < 1000, "{tool}: {output}");
        }
    }
}

#[tokio::test]
async fn huge_offsets_and_limits_are_handled() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n");
    for (tool, input) in [
        ("read_file", json!({"path": "a.txt", "offset": u64::MAX, "limit": u64::MAX})),
        ("read_file", json!({"path": "a.txt", "offset": 1, "limit": u64::MAX})),
        ("grep", json!({"pattern": "x", "offset": u64::MAX})),
        ("grep", json!({"pattern": "x", "limit": u64::MAX, "context": u64::MAX})),
        ("list_directory", json!({"depth": u64::MAX})),
    ] {
        assert!(!bench.run(tool, input).await.output.is_empty());
    }
}

#[tokio::test]
async fn a_folder_is_never_written_as_a_file() {
    let bench = Bench::new();
    fs::create_dir(bench.path("d")).unwrap();
    let output = bench.fails("write_file", json!({"path": "d", "content": "x"})).await;
    assert_eq!(output, "d is a folder; give the path of a file");
    let output = bench.fails("write_file", json!({"path": "/", "content": "x"})).await;
    assert!(output.contains("is a folder"), "{output}");
}

#[tokio::test]
async fn a_folder_named_tilde_is_an_ordinary_folder() {
    let bench = Bench::new();
    bench.write("~/a.txt", "x\n");
    assert!(bench.ok("read_file", json!({"path": "~/a.txt"})).await.ends_with("\n1\tx"));
}

#[tokio::test]
async fn a_proc_file_that_reports_no_size_is_read() {
    let bench = Bench::new();
    let output = bench.ok("read_file", json!({"path": "/proc/self/status"})).await;
    assert!(output.contains("\n1\tName:"), "{output}");
}
