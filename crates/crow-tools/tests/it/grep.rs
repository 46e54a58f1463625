//! `grep`.

use std::{fs, os::unix::fs::symlink};

use crow_core::tool::{Effects, ToolStatus};
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn matches_are_grouped_by_file_in_order() {
    let bench = Bench::new();
    bench.write("b.rs", "one\nfn b\n");
    bench.write("a/z.rs", "fn z\nfn y\n");
    bench.write("a.rs", "nothing\n");
    assert_eq!(
        bench.ok("grep", json!({"pattern": "fn \\w"})).await,
        "a/z.rs\n1:fn z\n2:fn y\n\nb.rs\n2:fn b\n"
    );
}

#[tokio::test]
async fn context_is_marked_and_groups_are_separated() {
    let bench = Bench::new();
    bench.write("a.txt", "1\n2\nx\n4\n5\n6\nx\n8\n");
    let expected = "a.txt\n2-2\n3:x\n4-4\n--\n6-6\n7:x\n8-8\n";
    for input in [
        json!({"pattern": "x", "context": 1}),
        json!({"pattern": "x", "-C": 1}),
        json!({"pattern": "x", "before": 1, "after": 1, "-n": true}),
    ] {
        assert_eq!(bench.ok("grep", input).await, expected);
    }
}

#[tokio::test]
async fn the_modes_for_files_and_counts_list_files() {
    let bench = Bench::new();
    bench.write("a.txt", "x\nx\n");
    bench.write("b.txt", "x\n");
    let files = json!({"pattern": "x", "output_mode": "files_with_matches"});
    assert_eq!(bench.ok("grep", files).await, "a.txt\nb.txt\n");
    let count = json!({"pattern": "x", "output_mode": "count", "limit": 1});
    assert_eq!(
        bench.ok("grep", count).await,
        "[3 matching lines in 2 files]\n[there are more files: go on with offset 1]\na.txt:2\n"
    );
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_overlap() {
    let bench = Bench::new();
    for file in 0..30 {
        bench.write(&format!("f{file:02}.txt"), "x1\nx2\nx3\n");
    }
    let whole = bench.ok("grep", json!({"pattern": "x", "limit": 1000})).await;
    let mut lines = Vec::new();
    for offset in (0..90).step_by(7) {
        let page = bench.ok("grep", json!({"pattern": "x", "limit": 7, "offset": offset})).await;
        let is_last = offset + 7 >= 90;
        assert_eq!(page.contains(&format!("go on with offset {}", offset + 7)), !is_last, "{page}");
        lines.extend(page.lines().filter(|line| line.contains(":x")).map(str::to_owned));
    }
    let all: Vec<&str> = whole.lines().filter(|line| line.contains(":x")).collect();
    assert_eq!(lines, all);
    assert_eq!(
        bench.ok("grep", json!({"pattern": "x", "offset": 90})).await,
        "No more results after offset 90.\n"
    );
}

#[tokio::test]
async fn a_search_shows_250_lines_at_most() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n".repeat(1000));
    let output = bench.ok("grep", json!({"pattern": "x"})).await;
    assert!(
        output.starts_with("[there are more lines: go on with offset 250]\n")
            && output.ends_with("250:x\n")
    );
    bench.write("a.txt", format!("{}\n", "x".repeat(400)).repeat(1000));
    let output = bench.ok("grep", json!({"pattern": "x", "limit": 2000})).await;
    assert!(output.len() < 52 * 1024 && output.contains("go on with offset"));
}

#[tokio::test]
async fn case_globs_and_types_narrow_a_search() {
    let bench = Bench::new();
    bench.write("src/a.rs", "Word\n");
    bench.write("src/a.py", "word\n");
    bench.write("notes.md", "word\n");
    for (input, expected) in [
        (json!({"pattern": "word"}), "notes.md\n1:word\n\nsrc/a.py\n1:word\n"),
        (json!({"pattern": "WORD", "-i": true, "glob": "*.rs"}), "src/a.rs\n1:Word\n"),
        (json!({"pattern": "word", "type": "py"}), "src/a.py\n1:word\n"),
        (json!({"pattern": "word", "include": "src/**", "ignore_case": true, "glob": null}), ""),
        (json!({"query": "word", "dir": "src"}), "src/a.py\n1:word\n"),
        (json!({"pattern": "word", "path": "notes.md", "glob": "*.rs"}), "notes.md\n1:word\n"),
    ] {
        let result = bench.run("grep", input.clone()).await;
        if expected.is_empty() {
            assert!(result.is_error(), "{input}: {}", result.output);
        } else {
            assert_eq!(result.output, expected, "{input}");
        }
    }
    let output = bench.fails("grep", json!({"pattern": "x", "type": "klingon"})).await;
    assert_eq!(output, "type klingon is unknown; use glob, such as *.klingon");
    let output = bench.fails("grep", json!({"pattern": "x", "glob": "a{"})).await;
    assert!(output.starts_with("glob: the pattern is not a glob"), "{output}");
}

#[tokio::test]
async fn an_invalid_regular_expression_is_searched_as_plain_text() {
    let bench = Bench::new();
    bench.write("a.c", "call(foo[1);\n");
    let output = bench.ok("grep", json!({"pattern": "foo[1"})).await;
    assert!(output.starts_with("[not a regular expression"), "{output}");
    assert!(output.ends_with("searched as plain text]\na.c\n1:call(foo[1);\n"), "{output}");
}

#[tokio::test]
async fn a_match_may_span_lines() {
    let bench = Bench::new();
    bench.write("a.txt", "start\nmiddle\nend\nrest\n");
    let expected = "a.txt\n1:start\n2:middle\n3:end\n";
    let input = json!({"pattern": "start.*end", "multiline": true});
    assert_eq!(bench.ok("grep", input).await, expected);
    let output = bench.ok("grep", json!({"pattern": "start\\nmiddle\\nend"})).await;
    assert!(
        output.ends_with(expected)
            && output.starts_with('[')
            && output.contains("searched with multiline"),
        "{output}"
    );
}

#[tokio::test]
async fn the_end_of_a_line_is_found_with_carriage_returns_too() {
    let bench = Bench::new();
    bench.write("dos.txt", "foo\r\nfoo bar\r\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "^foo$"})).await, "dos.txt\n1:foo\n");
    let input = json!({"pattern": "^foo$", "multiline": true});
    assert_eq!(bench.ok("grep", input).await, "dos.txt\n1:foo\n");
}

#[tokio::test]
async fn ignored_files_are_left_out_without_git_and_mentioned_if_only_they_match() {
    let bench = Bench::new();
    bench.write(".gitignore", "target/\n");
    bench.write(".hidden/a.txt", "visible\n");
    bench.write("target/a.txt", "built\nvisible\n");
    bench.write(".git/a.txt", "visible\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "visible"})).await, ".hidden/a.txt\n1:visible\n");
    assert_eq!(
        bench.ok("grep", json!({"pattern": "built"})).await,
        "No matches. Ignored files do match, such as target/a.txt; give their folder as path to search them.\n"
    );
    assert_eq!(
        bench.ok("grep", json!({"pattern": "built", "path": "target"})).await,
        "target/a.txt\n1:built\n"
    );
    assert_eq!(
        bench.ok("grep", json!({"pattern": "built", "path": "target/a.txt"})).await,
        "target/a.txt\n1:built\n"
    );
    assert_eq!(bench.ok("grep", json!({"pattern": "nowhere"})).await, "No matches.\n");
}

#[tokio::test]
async fn binary_files_are_left_out() {
    let bench = Bench::new();
    bench.write("a.bin", b"needle\n\0\n");
    assert_eq!(
        bench.ok("grep", json!({"pattern": "needle"})).await,
        "No matches. 1 binary files were left out.\n"
    );
}

#[tokio::test]
async fn utf16_is_searched() {
    let bench = Bench::new();
    let wide: Vec<u8> = "\u{feff}needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bench.write("wide.txt", wide);
    assert_eq!(bench.ok("grep", json!({"pattern": "needle"})).await, "wide.txt\n1:needle\n");
}

#[tokio::test]
async fn links_are_not_followed_and_pipes_do_not_block() {
    let bench = Bench::new();
    fs::write(bench.outside("secret.txt"), "needle\n").unwrap();
    symlink(bench.outside("secret.txt"), bench.path("link.txt")).unwrap();
    symlink(bench.outside(""), bench.path("up")).unwrap();
    Bench::make_fifo(&bench.path("pipe"));
    bench.write("a.txt", "needle\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "needle"})).await, "a.txt\n1:needle\n");
}

#[tokio::test]
async fn many_runs_over_many_files_give_the_same_answer() {
    let bench = Bench::new();
    for file in 0..600 {
        bench.write(&format!("d{}/f{file}.txt", file % 7), format!("x {file}\n"));
    }
    for mode in ["content", "files_with_matches", "count"] {
        let input = json!({"pattern": "x", "output_mode": mode});
        let first = bench.ok("grep", input.clone()).await;
        for _ in 0..30 {
            assert_eq!(bench.ok("grep", input.clone()).await, first);
        }
    }
}

#[tokio::test]
async fn a_cancelled_search_is_cancelled() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n");
    let input = json!({"pattern": "x"});
    let plan = bench.plan("grep", &input).await.unwrap();
    assert_eq!(plan.title, "grep x in .");
    assert!(matches!(plan.effects, Effects::Paths(_)));
    bench.ctx.cancellation.cancel();
    let result = bench.tool("grep").execute(input, &plan, &bench.ctx).await;
    assert_eq!(result.status, ToolStatus::Cancelled);
}

#[tokio::test]
async fn a_search_in_a_missing_folder_is_an_error() {
    let bench = Bench::new();
    bench.write("source/a.txt", "x\n");
    let output = bench.fails("grep", json!({"pattern": "x", "path": "sources"})).await;
    assert_eq!(output, "sources does not exist; did you mean source?");
}

#[tokio::test]
async fn a_named_pipe_in_place_of_an_ignore_file_does_not_block_a_search() {
    for (pipe, found) in
        [(".ignore", "a.txt\n1:x\n\nb/c.txt\n1:x\n"), ("b/.gitignore", "a.txt\n1:x\n")]
    {
        let bench = Bench::new();
        bench.write("a.txt", "x\n");
        bench.write("b/c.txt", "x\n");
        Bench::make_fifo(&bench.path(pipe));
        assert_eq!(bench.ok("grep", json!({"pattern": "x"})).await, found, "{pipe}");
        assert!(bench.ok("glob", json!({"pattern": "*.txt"})).await.contains("a.txt"));
    }
}
