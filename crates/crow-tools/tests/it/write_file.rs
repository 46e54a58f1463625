//! `write_file`.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use crow_core::{
    permission::Disclosure,
    tool::{Access, Effects, PathEffect, Subject, ToolContext, ToolStatus},
};
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn a_new_file_is_made_with_its_folders() {
    let bench = Bench::new();
    let result =
        bench.run("write_file", json!({"path": "a/b/c.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(result.output, "Created a/b/c.txt: 2 lines.");
    assert_eq!(bench.content("a/b/c.txt"), "one\ntwo\n");
    assert_eq!(result.metadata.files_modified, [bench.path("a/b/c.txt")]);
    let diff = result.metadata.diff.unwrap();
    assert_eq!((diff.additions(), diff.deletions()), (2, 0));
    assert_eq!(bench.mode("a/b/c.txt") & 0o111, 0);
    assert_eq!(fs::read_dir(bench.path("a/b")).unwrap().count(), 1);
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_if_it_was_read() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n");
    let call = json!({"path": "a.txt", "content": "new\n"});
    let output = bench.fails("write_file", call.clone()).await;
    assert!(output.contains("was not read in this session"), "{output}");
    assert_eq!(bench.content("a.txt"), "old\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(bench.ok("write_file", call).await, "Wrote a.txt: +1 -1 lines.");
    assert_eq!(bench.content("a.txt"), "new\n");
}

/// Returns the context of a call that may read the files that it writes.
fn may_read(bench: &Bench) -> ToolContext {
    ToolContext { disclosure: Disclosure::Immediate, ..bench.ctx.clone() }
}

#[tokio::test]
async fn the_refusal_shows_a_short_file_which_then_counts_as_read() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n\tlines\n");
    let call = json!({"path": "a.txt", "content": "new\n"});
    let ctx = may_read(&bench);
    let result = bench.run_in("write_file", call.clone(), &ctx).await;
    assert_eq!(
        result.output,
        "a.txt exists and was not read in this session, so it was not overwritten. This is all of it; make the call again if that is what you want:\n1\told\n2\t\tlines"
    );
    assert_eq!(bench.content("a.txt"), "old\n\tlines\n");
    let result = bench.run_in("write_file", call, &ctx).await;
    assert_eq!(result.output, "Wrote a.txt: +1 -2 lines.");
    bench.write("a.txt", "of the user\n");
    let call = json!({"path": "a.txt", "content": "newer\n"});
    let result = bench.run_in("write_file", call, &ctx).await;
    assert!(result.output.contains("changed by something else"), "{}", result.output);
    assert!(result.output.ends_with("\n1\tof the user"), "{}", result.output);
}

#[tokio::test]
async fn the_refusal_shows_the_head_of_a_long_file_which_stays_unread() {
    let bench = Bench::new();
    let ctx = may_read(&bench);
    let lines: Vec<String> = (1..=812).map(|number| format!("line {number}")).collect();
    let wide = ["x".repeat(3000), "y".to_owned()].join("\n");
    for (content, shown) in
        [(lines.join("\n"), "Lines 1-40 of 812:\n1\tline 1\n"), (wide, "only parts of it")]
    {
        bench.write("a.txt", content);
        for _ in 0..2 {
            let call = json!({"path": "a.txt", "content": "new\n"});
            let result = bench.run_in("write_file", call, &ctx).await;
            assert_eq!(result.status, ToolStatus::Error);
            assert!(
                result.output.contains("read it with read_file first, or change only parts of it"),
                "{}",
                result.output
            );
            assert!(result.output.contains(shown), "{}", result.output);
        }
    }
}

#[tokio::test]
async fn the_refusal_shows_nothing_that_the_model_may_not_read() {
    let bench = Bench::new();
    bench.write("a.txt", "secret\n");
    bench.write("b.bin", b"secret\0");
    let hidden = json!({"path": "a.txt", "content": "new\n"});
    let binary = json!({"path": "b.bin", "content": "new\n"});
    for (call, ctx) in [(hidden, bench.ctx.clone()), (binary, may_read(&bench))] {
        for _ in 0..2 {
            let result = bench.run_in("write_file", call.clone(), &ctx).await;
            assert_eq!(result.status, ToolStatus::Error);
            assert!(!result.output.contains("secret"), "{}", result.output);
        }
    }
}

#[tokio::test]
async fn a_file_that_something_else_changed_is_not_replaced() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    bench.write("a.txt", "theirs\n");
    let output = bench.fails("write_file", json!({"path": "a.txt", "content": "new"})).await;
    assert!(output.contains("changed by something else"), "{output}");
    assert_eq!(bench.content("a.txt"), "theirs\n");
}

#[tokio::test]
async fn a_new_timestamp_alone_does_not_block_a_write() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    bench.write("a.txt", "old\n");
    bench.ok("write_file", json!({"path": "a.txt", "content": "new"})).await;
}

#[tokio::test]
async fn own_writes_need_no_read_in_between() {
    let bench = Bench::new();
    for content in ["one", "two", "three"] {
        bench.ok("write_file", json!({"path": "a.txt", "content": content})).await;
    }
    assert_eq!(bench.content("a.txt"), "three");
}

#[tokio::test]
async fn an_empty_file_may_be_filled_unread() {
    let bench = Bench::new();
    bench.write("a.txt", "");
    bench.ok("write_file", json!({"path": "a.txt", "content": "x"})).await;
}

#[tokio::test]
async fn the_same_content_is_not_written_again() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "same");
    let before = fs::metadata(&path).unwrap().ino();
    let result = bench.run("write_file", json!({"path": "a.txt", "content": "same"})).await;
    assert!(result.output.contains("nothing was written"), "{}", result.output);
    assert!(result.metadata.files_modified.is_empty() && result.metadata.diff.is_none());
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
}

#[tokio::test]
async fn a_link_stays_a_link_and_its_target_is_written() {
    let bench = Bench::new();
    let target = bench.write("real.txt", "old");
    symlink("real.txt", bench.path("link.txt")).unwrap();
    let input = json!({"path": "link.txt", "content": "new"});
    let plan = bench.plan("write_file", &input).await.unwrap();
    let effect = PathEffect::new(target, Access::Write);
    assert_eq!(plan.effects, Effects::Paths(vec![effect]));
    bench.ok("read_file", json!({"path": "link.txt"})).await;
    bench.ok("write_file", input).await;
    assert_eq!(bench.content("real.txt"), "new");
    assert!(bench.path("link.txt").is_symlink());
}

#[tokio::test]
async fn a_link_to_nowhere_is_planned_and_written_at_its_target() {
    let bench = Bench::new();
    symlink("../out/new.txt", bench.path("link.txt")).unwrap();
    let input = json!({"path": "link.txt", "content": "new"});
    let plan = bench.plan("write_file", &input).await.unwrap();
    assert_eq!(plan.subject, Subject::Path(bench.outside("out/new.txt")));
    bench.ok("write_file", input).await;
    assert_eq!(fs::read_to_string(bench.outside("out/new.txt")).unwrap(), "new");
    assert!(bench.path("link.txt").is_symlink());
}

#[tokio::test]
async fn a_write_keeps_the_mode_of_the_file() {
    let bench = Bench::new();
    let path = bench.write("run.sh", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    bench.ok("read_file", json!({"path": "run.sh"})).await;
    bench.ok("write_file", json!({"path": "run.sh", "content": "new"})).await;
    assert_eq!(bench.mode("run.sh"), 0o750);
}

#[tokio::test]
async fn a_write_protected_file_is_refused() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "old");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let output = bench.fails("write_file", json!({"path": "a.txt", "content": "new"})).await;
    assert!(output.contains("write-protected") && output.contains("chmod"), "{output}");
    assert_eq!(bench.content("a.txt"), "old");
}

#[tokio::test]
async fn other_hard_links_keep_the_old_content_and_are_mentioned() {
    let bench = Bench::new();
    let path = bench.write("a.txt", "old");
    fs::hard_link(&path, bench.path("b.txt")).unwrap();
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let output = bench.ok("write_file", json!({"path": "a.txt", "content": "new"})).await;
    assert!(output.contains("1 other hard link"), "{output}");
    assert_eq!((bench.content("a.txt"), bench.content("b.txt")), ("new".into(), "old".into()));
}

#[tokio::test]
async fn line_ends_and_encoding_of_the_file_are_kept() {
    let bench = Bench::new();
    for (name, old, new) in [
        ("dos.txt", b"a\r\nb\r\n".as_slice(), b"x\r\ny\r\n".as_slice()),
        ("wide.txt", b"\xff\xfea\0", b"\xff\xfex\0\n\0y\0\n\0"),
        ("mark.txt", b"\xef\xbb\xbfa", b"\xef\xbb\xbfx\ny\n"),
        ("latin.txt", b"caf\xe9", b"x\ny\n"),
    ] {
        bench.write(name, old);
        bench.ok("read_file", json!({"path": name})).await;
        bench.ok("write_file", json!({"path": name, "content": "x\ny\n"})).await;
        assert_eq!(fs::read(bench.path(name)).unwrap(), new, "{name}");
    }
}

#[tokio::test]
async fn text_that_the_old_encoding_lacks_makes_the_file_utf8() {
    let bench = Bench::new();
    bench.write("a.txt", b"caf\xe9");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let output = bench.ok("write_file", json!({"path": "a.txt", "content": "漢"})).await;
    assert!(output.contains("It is UTF-8 now"), "{output}");
    assert_eq!(bench.content("a.txt"), "漢");
}

#[tokio::test]
async fn a_file_changed_after_the_preview_of_a_write_is_refused() {
    let mut bench = Bench::new();
    let path = bench.write("a.txt", "old\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let input = json!({"path": "a.txt", "content": "new\n"});
    let preview = bench.preview("write_file", &input).await.unwrap();
    assert_eq!(preview.patch.files[0].hunks, "@@ -1 +1 @@\n-old\n+new\n");
    assert_eq!(preview.basis[0].0, path);
    bench.ctx.preview = Some(preview);

    bench.write("a.txt", "theirs\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    let output = bench.fails("write_file", input.clone()).await;
    assert!(output.contains("changed after this call was allowed"), "{output}");

    bench.write("a.txt", "old\n");
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    bench.ok("write_file", input).await;
}

#[tokio::test]
async fn a_write_that_would_be_refused_fails_at_its_preview() {
    let bench = Bench::new();
    bench.write("a.txt", "old\n");
    let error = bench.preview("write_file", &json!({"path": "a.txt", "content": "x"})).await;
    assert!(error.unwrap_err().to_string().contains("was not read"));
}

#[tokio::test]
async fn a_cancelled_write_does_not_write() {
    let bench = Bench::new();
    let input = json!({"path": "a.txt", "content": "x"});
    let plan = bench.plan("write_file", &input).await.unwrap();
    bench.ctx.cancellation.cancel();
    let result = bench.tool("write_file").execute(input, &plan, &bench.ctx).await;
    assert_eq!(result.status, ToolStatus::Cancelled);
    assert!(!bench.path("a.txt").exists());
}

#[tokio::test]
async fn a_path_below_a_file_is_an_error_that_says_so() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    let output = bench.fails("write_file", json!({"path": "a.txt/b", "content": "x"})).await;
    assert_eq!(output, "a.txt/b is below a file, not a folder");
}
