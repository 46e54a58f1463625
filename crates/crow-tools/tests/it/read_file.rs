//! `read_file`.

use std::{fs, os::unix::fs::symlink};

use crow_core::{
    file_views::{ContentHash, FileViews},
    model::Abilities,
    tool::{Access, Effects, PathEffect, Subject},
};
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn lines_are_numbered_and_the_last_line_gives_the_next_offset() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n\nfour");
    assert_eq!(
        bench.ok("read_file", json!({"path": "a.txt"})).await,
        "[lines 1-4 of 4]\n1\tone\n2\ttwo\n3\t\n4\tfour"
    );
    assert_eq!(
        bench.ok("read_file", json!({"path": "a.txt", "offset": 2, "limit": 2})).await,
        "[lines 2-3 of 4, next offset 4]\n2\ttwo\n3\t"
    );
}

#[tokio::test]
async fn a_read_without_limit_ends_after_2000_lines() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n".repeat(5000));
    let output = bench.ok("read_file", json!({"path": "a.txt"})).await;
    assert!(output.starts_with("[lines 1-2000 of 5000, next offset 2001]\n1\tx\n"));
}

#[tokio::test]
async fn a_read_ends_before_50_kib() {
    let bench = Bench::new();
    bench.write("a.txt", format!("{}\n", "x".repeat(999)).repeat(200));
    let output = bench.ok("read_file", json!({"path": "a.txt"})).await;
    assert!(output.starts_with("[lines 1-51 of 200, next offset 52]\n"));
}

#[tokio::test]
async fn an_offset_behind_the_end_says_how_long_the_file_is() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n");
    let output = bench.fails("read_file", json!({"path": "a.txt", "offset": 9})).await;
    assert_eq!(output, "a.txt has only 1 lines, so there is no line 9");
}

#[tokio::test]
async fn an_empty_file_is_reported_as_empty() {
    let bench = Bench::new();
    bench.write("a.txt", "");
    assert_eq!(bench.ok("read_file", json!({"path": "a.txt"})).await, "(the file is empty)");
}

#[tokio::test]
async fn the_view_of_a_read_is_recorded_and_put_into_the_result() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "one\ntwo\n");
    let result = bench.run("read_file", json!({"path": "a.txt", "limit": 1})).await;
    let view = bench.ctx.file_views.get(&path).unwrap();
    assert_eq!((view.lines, &view.hash), (Some((1, 1)), &ContentHash::of_content(b"one\ntwo\n")));
    assert_eq!(result.metadata.extra[FileViews::EXTRA_KEY], json!(view));
}

#[tokio::test]
async fn the_same_lines_are_not_shown_twice_in_a_row_unless_asked_again() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    let read = || bench.ok("read_file", json!({"path": "a.txt"}));
    let full = read().await;
    let second = read().await;
    assert!(
        second.starts_with("Unchanged: lines 1-2 of a.txt") && !second.contains("c1"),
        "{second}"
    );
    assert_eq!(read().await, full);
    assert!(read().await.starts_with("Unchanged"));
}

#[tokio::test]
async fn other_lines_or_other_content_are_shown() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let part = bench.ok("read_file", json!({"path": "a.txt", "offset": 2})).await;
    assert!(part.ends_with("\n2\ttwo"), "{part}");
    bench.write("a.txt", "one\nTWO\n");
    let changed = bench.ok("read_file", json!({"path": "a.txt", "offset": 2})).await;
    assert!(changed.ends_with("\n2\tTWO"), "{changed}");
}

#[tokio::test]
async fn reading_a_missing_file_suggests_similar_names() {
    let bench = Bench::new();
    bench.write("src/main.rs", "");
    let output = bench.fails("read_file", json!({"path": "src/mian.rs"})).await;
    assert_eq!(output, "src/mian.rs does not exist; did you mean src/main.rs?");
    let output = bench.fails("read_file", json!({"path": "nowhere/at/all.rs"})).await;
    assert!(output.contains("nor does its folder"), "{output}");
}

#[tokio::test]
async fn a_folder_is_listed() {
    let bench = Bench::new();
    bench.write("src/main.rs", "");
    let output = bench.ok("read_file", json!({"path": "src"})).await;
    assert_eq!(output, "src/ (1 entry)\n  main.rs\n");
}

#[tokio::test]
async fn a_binary_file_is_refused() {
    let bench = Bench::new();
    bench.write("a.bin", b"abc\0def");
    let output = bench.fails("read_file", json!({"path": "a.bin"})).await;
    assert!(output.starts_with("a.bin is binary (7 bytes)"), "{output}");
}

#[tokio::test]
async fn other_encodings_are_decoded_and_named() {
    let bench = Bench::new();
    bench.write("wide.txt", b"\xff\xfeh\0i\0\n\0");
    bench.write("latin.txt", b"caf\xe9\n");
    bench.write("dos.txt", "a\r\nb\r\n");
    for (name, expected) in [
        ("wide.txt", "[lines 1-1 of 1, UTF-16LE]\n1\thi"),
        ("latin.txt", "[lines 1-1 of 1, not UTF-8, read as Windows-1252/Latin-1]\n1\tcafé"),
        ("dos.txt", "[lines 1-2 of 2, CRLF line ends]\n1\ta\n2\tb"),
    ] {
        assert_eq!(bench.ok("read_file", json!({"path": name})).await, expected);
    }
}

#[tokio::test]
async fn a_picture_is_shown_only_to_a_model_that_can_see() {
    let png = b"\x89PNG\r\n\x1a\nrest";
    let blind = Bench::new();
    blind.write("a.png", png);
    let output = blind.fails("read_file", json!({"path": "a.png"})).await;
    assert!(output.contains("cannot see pictures"), "{output}");

    let seeing = Bench::with_abilities(Abilities { vision: true, ..Abilities::default() });
    seeing.write("a.png", png);
    let result = seeing.run("read_file", json!({"path": "a.png"})).await;
    assert_eq!(result.images[0].media_type, "image/png");
    assert_eq!(result.images[0].data, "iVBORw0KGgpyZXN0");

    seeing.write("big.png", [png.as_slice(), &vec![0; 6 << 20]].concat());
    let output = seeing.fails("read_file", json!({"path": "big.png"})).await;
    assert!(output.contains("smaller copy"), "{output}");
}

#[tokio::test]
async fn a_large_file_is_read_by_pages_without_counting_its_lines() {
    let bench = Bench::new();
    bench.write("big.log", format!("{}\n", "y".repeat(99)).repeat(200_000));
    let output =
        bench.ok("read_file", json!({"path": "big.log", "offset": 150_000, "limit": 1})).await;
    let line = format!("150000\t{}", "y".repeat(99));
    assert_eq!(
        output,
        format!("[lines 150000-150000 of a file of 20000000 bytes, next offset 150001]\n{line}")
    );
    assert_eq!(bench.ctx.file_views.get(&bench.path("big.log")), None);
    let output = bench.fails("read_file", json!({"path": "big.log", "offset": 200_001})).await;
    assert!(output.contains("only 200000 lines"), "{output}");
}

#[tokio::test]
async fn the_plan_names_the_real_path() {
    let bench = Bench::new();
    let path = bench.write("real/a.txt", "x");
    symlink(bench.path("real"), bench.path("link")).unwrap();
    let plan = bench.plan("read_file", &json!({"path": "link/../link/a.txt"})).await.unwrap();
    assert_eq!(plan.title, "read link/../link/a.txt -> real/a.txt");
    assert_eq!(plan.subject, Subject::Path(path.clone()));
    assert_eq!(plan.effects, Effects::Paths(vec![PathEffect::new(path, Access::Read)]));
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_after_the_plan_is_refused() {
    let bench = Bench::new();
    bench.write("a.txt", "harmless");
    fs::write(bench.outside("secret"), "secret").unwrap();
    let input = json!({"path": "link"});
    symlink(bench.path("a.txt"), bench.path("link")).unwrap();
    let plan = bench.plan("read_file", &input).await.unwrap();
    fs::remove_file(bench.path("link")).unwrap();
    symlink(bench.outside("secret"), bench.path("link")).unwrap();
    let result = bench.tool("read_file").execute(input, &plan, &bench.ctx).await;
    assert!(result.is_error() && result.output.contains("another place"), "{}", result.output);
}

#[tokio::test]
async fn a_file_that_vanished_after_the_plan_is_missing() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    let input = json!({"path": "a.txt"});
    let plan = bench.plan("read_file", &input).await.unwrap();
    fs::remove_file(bench.path("a.txt")).unwrap();
    let result = bench.tool("read_file").execute(input, &plan, &bench.ctx).await;
    assert!(result.is_error() && result.output.contains("does not exist"), "{}", result.output);
}

#[tokio::test]
async fn a_cancelled_read_is_cancelled() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    let plan = bench.plan("read_file", &json!({"path": "a.txt"})).await.unwrap();
    bench.ctx.cancellation.cancel();
    let result = bench.tool("read_file").execute(json!({"path": "a.txt"}), &plan, &bench.ctx).await;
    assert_eq!(result.status, crow_core::tool::ToolStatus::Cancelled);
}

#[tokio::test]
async fn read_file_accepts_the_parameter_names_of_other_agents() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n");
    for name in ["file_path", "filePath"] {
        bench.ok("read_file", json!({(name): "a.txt", "limit": 2})).await;
    }
    let output = bench.fails("read_file", json!({"path": "a.txt", "encoding": "x"})).await;
    assert!(output.contains("unknown field `encoding`"), "{output}");
}

#[tokio::test]
async fn a_notebook_is_shown_by_its_cells_and_not_recorded_as_read() {
    let bench = Bench::new();
    let notebook =
        json!({"nbformat": 4, "cells": [{"cell_type": "code", "source": "1 + 1", "outputs": []}]});
    bench.write("a.ipynb", notebook.to_string());
    let output = bench.ok("read_file", json!({"path": "a.ipynb"})).await;
    assert!(
        output.starts_with(
            "[a notebook by its cells; the file itself is JSON: edit it as such]\n[lines 1-2 of 2]\n1\t=== cell 1 code\n2\t1 + 1"
        ),
        "{output}"
    );
    assert!(bench.ctx.file_views.get(&bench.ctx.workspace.resolve("a.ipynb")).is_none());
    bench.write("b.ipynb", "{\"not\": \"a notebook\"}");
    assert!(bench.ok("read_file", json!({"path": "b.ipynb"})).await.contains("\n1\t{\"not\""));
}

#[tokio::test]
async fn the_parameter_pages_is_refused_for_other_files_than_pdf() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n");
    let output = bench.fails("read_file", json!({"path": "a.txt", "pages": "2"})).await;
    assert_eq!(output, "a.txt is not a PDF and has no pages; use offset and limit");
    let output = bench.fails("read_file", json!({"path": "a.txt", "pages": "5-2"})).await;
    assert_eq!(output, "pages is \"3\", \"2-5\" or \"4-\", not \"5-2\"");
}

#[cfg(not(feature = "pdf"))]
#[tokio::test]
async fn a_build_without_pdf_says_that_it_cannot_read_one() {
    let bench = Bench::new();
    bench.write("a.pdf", "%PDF-1.7\n");
    let output = bench.fails("read_file", json!({"path": "a.pdf"})).await;
    assert!(output.contains("this build cannot read"), "{output}");
}
