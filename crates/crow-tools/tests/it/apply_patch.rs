//! `apply_patch`: what is planned, asked about, written and reported. The parser and the matcher have their own tests.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crow_core::{
    file_views::FileViews,
    ids::{CallId, SessionId},
    permission::{
        CallFacts, Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision,
        RuleMatcher, RuleSet, SandboxPaths,
    },
    tool::{Access, CallPlan, FileChange, Subject, ToolCategory, ToolContext, ToolStatus},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bench::Bench;

fn patch(body: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{body}\n*** End Patch\n") })
}

async fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\nthree\n");
    bench.write("sub/b.txt", "alpha\nbeta\n");
    bench.write("c.txt", "old\n");
    for path in ["a.txt", "sub/b.txt", "c.txt"] {
        bench.ok("read_file", json!({ "path": path })).await;
    }
    bench
}

const ALL: &str = "*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: new/d.txt\n+fresh\n*** Update File: sub/b.txt\n*** Move to: sub/e.txt\n-alpha\n+ALPHA\n beta\n*** Delete File: c.txt";

#[tokio::test]
async fn all_kinds_of_sections_are_applied_together() {
    let bench = bench().await;
    let result = bench.run("apply_patch", patch(ALL)).await;
    assert_eq!(
        result.output,
        "Edited a.txt: +1 -1 lines, first change in line 2.\nCreated new/d.txt: 1 lines.\nMoved sub/b.txt to sub/e.txt, first change in line 1.\nDeleted c.txt: -1 lines."
    );
    assert_eq!(bench.content("a.txt"), "one\n2\nthree\n");
    assert_eq!(bench.content("new/d.txt"), "fresh\n");
    assert_eq!(bench.content("sub/e.txt"), "ALPHA\nbeta\n");
    assert!(!bench.path("sub/b.txt").exists() && !bench.path("c.txt").exists());
    let changes: Vec<_> = result.metadata.diff.unwrap().files;
    let changes: Vec<_> = changes
        .iter()
        .map(|diff| {
            (diff.path.strip_prefix(bench.path("")).unwrap().to_str().unwrap(), diff.change)
        })
        .collect();
    assert_eq!(
        changes,
        [
            ("a.txt", FileChange::Modified),
            ("new/d.txt", FileChange::Modified),
            ("sub/e.txt", FileChange::Modified),
            ("sub/b.txt", FileChange::Deleted),
            ("c.txt", FileChange::Deleted),
        ]
    );
    // All files that are left are known: a second patch may overwrite them.
    assert_eq!(FileViews::in_extra(&result.metadata.extra).len(), 3);
    let again =
        patch("*** Add File: a.txt\n+x\n*** Add File: sub/e.txt\n+y\n*** Delete File: new/d.txt");
    bench.ok("apply_patch", again).await;
    assert_eq!(bench.content("a.txt"), "x\n");
}

#[tokio::test]
async fn one_hunk_that_does_not_fit_leaves_every_file_as_it_is() {
    let bench = bench().await;
    let body = ALL.replace("-alpha", "-alpa");
    let output = bench.fails("apply_patch", patch(&body)).await;
    assert_eq!(
        output,
        "nothing of the patch was applied:\nsub/b.txt was not changed: old text not found; the closest place is lines 1-2 (90 % alike): read these lines again and copy them exactly\n(- old text, + file)\n- alpa\n+ alpha"
    );
    let body = "*** Update File: a.txt\n@@\n-one\n+1\n@@\n-tree\n+3";
    let output = bench.fails("apply_patch", patch(body)).await;
    assert!(
        output.starts_with("a.txt was not changed: hunk 2 of 2: old text not found"),
        "{output}"
    );
    assert_eq!(bench.content("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(bench.content("c.txt"), "old\n");
    assert!(!bench.path("new").exists() && !bench.path("sub/e.txt").exists());
}

#[tokio::test]
async fn all_errors_of_a_patch_are_told_at_once() {
    let bench = bench().await;
    let body = "*** Update File: a.txt\n-nowhere\n+x\n*** Update File: b.txt\n-x\n+y\n*** Delete File: sub";
    let output = bench.fails("apply_patch", patch(body)).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "nothing of the patch was applied:");
    assert!(lines[1].starts_with("a.txt was not changed: old text not found"), "{output}");
    assert!(output.contains("b.txt does not exist"), "{output}");
    assert!(output.ends_with("sub is a folder; give the path of a file"), "{output}");
}

#[tokio::test]
async fn the_argument_may_have_other_names_and_forms() {
    let bench = bench().await;
    for (name, number) in [("patch", 1), ("diff", 2), ("command", 3), ("patchText", 4)] {
        let body = format!("*** Add File: f{number}\n+x");
        bench.ok("apply_patch", json!({ name: body })).await;
        assert_eq!(bench.content(&format!("f{number}")), "x\n");
    }
    let words =
        json!({"command": ["apply_patch", "*** Begin Patch\n*** Add File: g\n+x\n*** End Patch"]});
    let tool = bench.tool("apply_patch");
    tool.check(&words).unwrap();
    bench.ok("apply_patch", words).await;
    assert!(tool.check(&json!({"command": ["rm", "a.txt"]})).is_err());
}

#[tokio::test]
async fn an_unread_file_is_edited_only_exactly_and_neither_replaced_nor_deleted() {
    let bench = Bench::new();
    bench.write("a.txt", "one\n  two\n");
    let output = bench.ok("apply_patch", patch("*** Update File: a.txt\n-one\n+1")).await;
    assert!(output.ends_with("The file had not been read in this session."), "{output}");
    let output = bench.fails("apply_patch", patch("*** Update File: a.txt\n-two\n+2")).await;
    assert!(output.contains("a hunk fits only inexactly (indentation_flexible)"), "{output}");
    for body in ["*** Delete File: a.txt", "*** Add File: a.txt\n+x"] {
        let output = bench.fails("apply_patch", patch(body)).await;
        assert!(output.contains("was not read in this session"), "{output}");
    }
    bench.ok("read_file", json!({"path": "a.txt"})).await;
    bench.write("a.txt", "changed by the user\n");
    let output = bench.fails("apply_patch", patch("*** Delete File: a.txt")).await;
    assert!(output.contains("was changed by something else"), "{output}");
    assert_eq!(bench.content("a.txt"), "changed by the user\n");
}

#[tokio::test]
async fn a_moved_file_keeps_its_mode_and_replaces_no_other() {
    let bench = bench().await;
    fs::set_permissions(bench.path("a.txt"), fs::Permissions::from_mode(0o754)).unwrap();
    let onto = patch("*** Update File: a.txt\n*** Move to: c.txt\n-one\n+1");
    let output = bench.fails("apply_patch", onto).await;
    assert!(output.contains("a.txt was not moved: c.txt exists already"), "{output}");
    bench.ok("apply_patch", patch("*** Update File: a.txt\n*** Move to: deep/er/a.sh")).await;
    assert_eq!(bench.mode("deep/er/a.sh"), 0o754);
    assert_eq!(bench.content("deep/er/a.sh"), "one\ntwo\nthree\n");
    assert!(!bench.path("a.txt").exists());
}

#[tokio::test]
async fn a_file_keeps_its_line_ends() {
    let bench = Bench::new();
    bench.write("w.txt", "a\r\nb\r\n");
    bench.ok("apply_patch", patch("*** Update File: w.txt\n a\n-b\n+x\n+y")).await;
    assert_eq!(bench.content("w.txt"), "a\r\nx\r\ny\r\n");
}

#[tokio::test]
async fn a_write_error_in_the_middle_tells_what_was_written() {
    let bench = bench().await;
    fs::set_permissions(bench.path("c.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    let result = bench.run("apply_patch", patch(ALL)).await;
    assert_eq!(result.status, ToolStatus::Error);
    assert_eq!(
        result.output,
        "The patch was applied only in part: c.txt is write-protected (no write permission for anyone), so it was not changed; if it should be changed, make it writable with chmod first\nDone before:\nEdited a.txt: +1 -1 lines, first change in line 2.\nCreated new/d.txt: 1 lines.\nMoved sub/b.txt to sub/e.txt, first change in line 1.\nNot done: c.txt."
    );
    assert_eq!(bench.content("a.txt"), "one\n2\nthree\n");
    assert_eq!(bench.content("c.txt"), "old\n");
    assert_eq!(result.metadata.files_modified.len(), 4);
    // The written files count as read, so the rest of the patch needs no further read.
    assert_eq!(FileViews::in_extra(&result.metadata.extra).len(), 3);
}

#[tokio::test]
async fn every_path_is_planned_and_shown() {
    let bench = bench().await;
    let plan = bench.plan("apply_patch", &patch(ALL)).await.unwrap();
    assert_eq!(plan.title, "edit a.txt, add new/d.txt, move sub/b.txt to sub/e.txt, delete c.txt");
    assert_eq!(plan.subject, Subject::Nothing);
    let preview = bench.preview("apply_patch", &patch(ALL)).await.unwrap();
    let names: Vec<_> = preview
        .patch
        .files
        .iter()
        .map(|diff| {
            (diff.path.strip_prefix(bench.path("")).unwrap().to_str().unwrap(), diff.change)
        })
        .collect();
    assert_eq!(
        names,
        [
            ("a.txt", FileChange::Modified),
            ("new/d.txt", FileChange::Created),
            ("sub/e.txt", FileChange::Created),
            ("sub/b.txt", FileChange::Deleted),
            ("c.txt", FileChange::Deleted),
        ]
    );
    let plan = bench.plan("apply_patch", &patch("*** Update File: a.txt\n-one")).await.unwrap();
    assert_eq!(
        (plan.title.as_str(), plan.subject),
        ("edit a.txt", Subject::Path(bench.path("a.txt")))
    );
}

#[tokio::test]
async fn a_file_that_changed_after_the_preview_is_not_written() {
    let bench = bench().await;
    let preview = bench.preview("apply_patch", &patch(ALL)).await.unwrap();
    bench.write("sub/e.txt", "of the user");
    let ctx = ToolContext { preview: Some(preview), ..bench.ctx.clone() };
    let result = bench.run_in("apply_patch", patch(ALL), &ctx).await;
    assert!(result.output.contains("sub/e.txt exists already"), "{}", result.output);
    fs::remove_file(bench.path("sub/e.txt")).unwrap();
    bench.write("a.txt", "one\ntwo\nthree\nfour\n");
    let result = bench.run_in("apply_patch", patch(ALL), &ctx).await;
    assert_eq!(
        result.output,
        "a.txt was changed after this patch was allowed, so nothing was written; read it again and repeat the call"
    );
    assert_eq!(bench.content("c.txt"), "old\n");
}

#[tokio::test]
async fn two_names_of_one_file_are_refused() {
    let bench = bench().await;
    for body in [
        "*** Update File: a.txt\n-one\n*** Delete File: ./a.txt",
        "*** Update File: a.txt\n*** Move to: sub/../a.txt\n-one",
        "*** Add File: x\n+1\n*** Update File: a.txt\n*** Move to: x\n-one",
    ] {
        let error = bench.plan("apply_patch", &patch(body)).await.unwrap_err();
        assert!(error.to_string().contains("twice"), "{error}");
    }
}

fn decide(policy: &PermissionPolicy, bench: &Bench, plan: &CallPlan, tool: &str) -> RuleDecision {
    let facts = CallFacts {
        call_id: &CallId::new("call"),
        session_id: &SessionId::new("session"),
        agent: "builder",
        input: &Value::Null,
        tool,
        category: ToolCategory::Write,
        requires_permission: true,
        plan,
    };
    match policy.decide(facts, &bench.ctx.workspace) {
        Decision::Allow(_) => RuleDecision::Allow,
        Decision::Ask(_) => RuleDecision::AskUser,
        Decision::Deny(_) => RuleDecision::Deny,
    }
}

#[tokio::test]
async fn each_path_of_a_patch_is_decided_like_an_edit_of_it() {
    let bench = bench().await;
    let hidden = SandboxPaths { hidden: vec![bench.path("hidden")], ..SandboxPaths::default() };
    let denial = |access, path: &str| {
        let matcher = RuleMatcher::Path { access, path: path.into() };
        PermissionRule::new("no", matcher, RuleDecision::Deny)
    };
    let rules = [denial(Access::Read, "unread"), denial(Access::Write, "unwritten")];
    let rules = rules.into_iter().zip(["one", "two"]);
    let rules = rules.map(|(rule, id)| PermissionRule { id: id.to_owned(), ..rule });
    let outside = bench.outside("o.txt").display().to_string();
    for (path, decision) in [
        ("a.txt", RuleDecision::Allow),
        (".git/hooks/pre-commit", RuleDecision::AskUser),
        ("hidden/x", RuleDecision::AskUser),
        (".env", RuleDecision::AskUser),
        (outside.as_str(), RuleDecision::AskUser),
        ("unread/x", RuleDecision::Deny),
        ("unwritten/x", RuleDecision::Deny),
    ] {
        let policy = PermissionPolicy::new(PermissionMode::AcceptEdits)
            .with_places(hidden.clone())
            .with_rules(RuleSet::new(rules.clone()).unwrap());
        let edit = json!({"path": path, "old_string": "a", "new_string": "b"});
        let plan = bench.plan("edit_file", &edit).await.unwrap();
        assert_eq!(decide(&policy, &bench, &plan, "edit_file"), decision, "{path}");
        for body in [
            format!("*** Update File: {path}\n-a\n+b"),
            format!("*** Add File: n1\n+x\n*** Add File: {path}\n+b"),
            format!("*** Add File: n1\n+x\n*** Delete File: {path}"),
            format!("*** Update File: n1\n*** Move to: {path}\n-a"),
            format!("*** Update File: {path}\n*** Move to: n1\n-a"),
        ] {
            let plan = bench.plan("apply_patch", &patch(&body)).await.unwrap();
            assert_eq!(decide(&policy, &bench, &plan, "apply_patch"), decision, "{body}");
        }
    }
}

#[tokio::test]
async fn rules_that_restrict_the_tools_that_it_stands_for_restrict_it() {
    let bench = bench().await;
    let plan = bench.plan("apply_patch", &patch("*** Update File: a.txt\n-one")).await.unwrap();
    for name in ["edit_file", "write_file", "edit_*"] {
        for (decision, expected) in [
            (RuleDecision::Deny, RuleDecision::Deny),
            (RuleDecision::AskUser, RuleDecision::AskUser),
            // An allowed edit is not yet an allowed deletion.
            (RuleDecision::Allow, RuleDecision::AskUser),
        ] {
            let rule = PermissionRule::new("r", RuleMatcher::ToolName(name.into()), decision);
            let policy = PermissionPolicy::new(PermissionMode::Ask)
                .with_rules(RuleSet::new([rule]).unwrap());
            assert_eq!(decide(&policy, &bench, &plan, "apply_patch"), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_path_that_leads_elsewhere_when_the_call_runs_writes_nothing() {
    let bench = bench().await;
    let plan = bench.plan("apply_patch", &patch(ALL)).await.unwrap();
    fs::rename(bench.path("sub"), bench.path("sub2")).unwrap();
    fs::create_dir(bench.outside("away")).unwrap();
    std::os::unix::fs::symlink(bench.outside("away"), bench.path("sub")).unwrap();
    let result = bench.tool("apply_patch").execute(patch(ALL), &plan, &bench.ctx).await;
    assert!(result.output.contains("leads to another place"), "{}", result.output);
    assert_eq!(bench.content("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(fs::read_dir(bench.outside("away")).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_of_several_files_is_applied_entirely_or_not_at_all(
        files in prop::collection::vec(prop::collection::vec("[a-c]{1,2}", 1..6), 1..4),
        changed in prop::collection::vec(any::<prop::sample::Index>(), 4),
        is_wrong in prop::collection::vec(prop::bool::weighted(0.2), 4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new();
            let (mut body, mut expected) = (String::new(), Vec::new());
            for (number, lines) in files.iter().enumerate() {
                let name = format!("f{number}");
                bench.write(&name, lines.join("\n") + "\n");
                let at = changed[number].index(lines.len());
                let (before, after) = (&lines[..at], &lines[at + 1..]);
                let old = if is_wrong[number] { "nowhere" } else { &lines[at] };
                let mut write = |mark: &str, lines: &[String]| {
                    for line in lines {
                        body.extend([mark, line, "\n"]);
                    }
                };
                write("*** Update File: ", std::slice::from_ref(&name));
                write(" ", before);
                write("-", &[old.to_owned()]);
                write("+", &["new".to_owned()]);
                write(" ", after);
                expected.push([before, &["new".to_owned()], after].concat().join("\n") + "\n");
            }
            let result = bench.run("apply_patch", patch(body.trim_end_matches('\n'))).await;
            let fits = !is_wrong.iter().take(files.len()).any(|is_wrong| *is_wrong);
            assert_eq!(result.status == ToolStatus::Success, fits, "{}", result.output);
            for (number, lines) in files.iter().enumerate() {
                let old = lines.join("\n") + "\n";
                let expected = if fits { &expected[number] } else { &old };
                assert_eq!(&bench.content(&format!("f{number}")), expected);
            }
        });
    }
}
