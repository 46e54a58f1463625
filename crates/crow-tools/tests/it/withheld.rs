//! Files that the file tools leave out, and facts that they do not reveal before a call is allowed.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use crow_core::{
    ids::{CallId, SessionId},
    permission::{
        CallFacts, PermissionMode, PermissionPolicy, PermissionRule, RuleSet, SandboxPaths,
    },
    tool::{Access, CallPlan, Effects, ToolCategory, ToolError},
};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Creates a bench with paths that the sandbox hides from commands.
fn with_hidden(names: &[&str]) -> Bench {
    let bench = Bench::new();
    let hidden = names.iter().map(|name| bench.path(name)).collect();
    let places = SandboxPaths { hidden, ..SandboxPaths::default() };
    bench.ctx.sandbox_paths.set(places);
    bench
}

/// Creates a bench with files that contain `needle`, some of them named like files with keys.
fn with_keys() -> Bench {
    let bench = Bench::new();
    for name in ["src/a.rs", ".env", "sub/prod.env", "sub/.env.example", ".ssh/config"] {
        bench.write(name, format!("needle in {name}\n"));
    }
    bench
}

#[tokio::test]
async fn a_search_leaves_out_files_with_keys_and_says_which() {
    let bench = with_keys();
    let output = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert_eq!(
        output,
        "[not searched, because their names suggest keys, or a rule of the user says so: .env, \
         .ssh/config, sub/prod.env; give one as `path` to search it, which may be asked about or denied]\n\
         src/a.rs\n1:needle in src/a.rs\n\nsub/.env.example\n1:needle in sub/.env.example\n"
    );
    for mode in ["files_with_matches", "count"] {
        let output = bench.ok("grep", json!({"pattern": "needle", "output_mode": mode})).await;
        assert!(!output.contains("prod.env:") && output.contains("[not searched"), "{output}");
    }
}

#[tokio::test]
async fn a_search_that_finds_nothing_says_which_files_it_left_out() {
    let bench = with_keys();
    let output = bench.ok("grep", json!({"pattern": "in .env$"})).await;
    assert!(output.starts_with("No matches.") && output.contains(": .env, "), "{output}");
    let output = bench.ok("grep", json!({"pattern": "needle", "glob": "*.rs"})).await;
    assert!(!output.contains("not searched"), "they were not meant: {output}");
    bench.write(".gitignore", ".env\n");
    let output = bench.ok("grep", json!({"pattern": "in .env$"})).await;
    assert!(!output.contains("Ignored files do match"), "{output}");
}

#[tokio::test]
async fn a_file_or_folder_with_keys_is_searched_when_it_is_named() {
    let bench = with_keys();
    for (path, wanted) in
        [(".env", ".env\n1:needle in .env\n"), (".ssh", ".ssh/config\n1:needle in .ssh/config\n")]
    {
        let input = json!({"pattern": "needle", "path": path});
        assert_eq!(bench.ok("grep", input).await, wanted);
    }
}

#[tokio::test]
async fn files_with_keys_beyond_the_named_ones_are_counted() {
    let bench = Bench::new();
    for number in 0..9 {
        bench.write(&format!("{number}.pem"), "needle\n");
    }
    let output = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(output.contains("0.pem, 1.pem, 2.pem, 3.pem, 4.pem, 4 more;"), "{output}");
}

#[tokio::test]
async fn no_search_enters_a_hidden_folder_below_its_starting_folder() {
    let bench = with_hidden(&["home/.keys", "file"]);
    for name in ["home/a", "home/.keys/deep/id", "file"] {
        bench.write(name, "needle\n");
    }
    assert_eq!(bench.ok("grep", json!({"pattern": "needle"})).await, "home/a\n1:needle\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "**/*"})).await, "home/a\n");
    assert!(bench.ok("glob", json!({"pattern": "id"})).await.starts_with("No files match"));
    let listed = bench.ok("list_directory", json!({"path": ".", "depth": 9})).await;
    assert!(listed.contains(".keys/") && !listed.contains("deep"), "{listed}");
    let named = json!({"pattern": "needle", "path": "home/.keys"});
    assert_eq!(bench.ok("grep", named).await, "home/.keys/deep/id\n1:needle\n");
}

/// Returns a call of each file tool with this path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"})),
        ("list_directory", json!({"path": path})),
        ("glob", json!({"pattern": "*", "path": path})),
        ("grep", json!({"pattern": "x", "path": path})),
    ]
}

#[tokio::test]
async fn a_plan_reveals_nothing_about_files_outside() {
    let bench = Bench::new();
    let outside = bench.outside("out");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "x").unwrap();
    symlink("loop", outside.join("loop")).unwrap();
    symlink(&outside, bench.path("way")).unwrap();
    symlink(&outside, bench.path("~")).unwrap();
    let long = "n".repeat(300);
    let names = ["file", "none", "file/below", "none/below", "loop", "loop/below", &long];
    for name in names {
        let absolute = outside.join(name).display().to_string();
        for path in [absolute, format!("way/{name}"), format!("~/{name}")] {
            for (tool, input) in calls(&path) {
                let plan = bench.plan(tool, &input).await;
                let Ok(plan) = plan else { panic!("{tool} {path}: {plan:?}") };
                let Effects::Paths(touched) = plan.effects else { panic!("{tool}: no path") };
                let mut planned: Vec<PathBuf> = touched.into_iter().map(|it| it.path).collect();
                // An edit both reads and writes.
                planned.dedup();
                assert_eq!(planned, [outside.join(name)], "{tool} {path}");
            }
        }
    }
}

#[tokio::test]
async fn a_file_in_the_way_is_reported_by_the_plan_inside_and_by_the_call_outside() {
    let bench = Bench::new();
    bench.write("file", "x");
    let inside = bench.plan("write_file", &json!({"path": "file/a", "content": "x"})).await;
    assert!(matches!(inside, Err(ToolError::Model(text)) if text.contains("is below a file")));
    fs::write(bench.outside("file"), "x").unwrap();
    let path = bench.outside("file/a").display().to_string();
    let output = bench.fails("write_file", json!({"path": path, "content": "x"})).await;
    assert!(output.contains("is below a file"), "{output}");
}

#[tokio::test]
async fn similar_names_are_suggested_only_inside_the_project() {
    let bench = Bench::new();
    bench.write("main.rs", "");
    fs::write(bench.outside("main.rs"), "").unwrap();
    let output = bench.fails("read_file", json!({"path": "main.ts"})).await;
    assert!(output.contains("did you mean main.rs"), "{output}");
    let path = bench.outside("main.ts").display().to_string();
    let output = bench.fails("read_file", json!({"path": path})).await;
    assert!(!output.contains("main.rs"), "{output}");
}

/// Creates a bench whose tool context withholds the files that these rules deny or ask about.
fn with_rules(rules: Vec<PermissionRule>) -> Bench {
    let mut bench = Bench::new();
    for name in ["src/a.rs", "data/secret.txt", "data/deep/b.txt", "notes/draft.txt"] {
        bench.write(name, format!("needle in {name}\n"));
    }
    let policy =
        PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new(rules).unwrap());
    bench.ctx.withheld_reads = policy.withheld_reads(CallFacts {
        call_id: &CallId::new("c"),
        session_id: &SessionId::new("s"),
        agent: "worker",
        input: &Value::Null,
        tool: "grep",
        category: ToolCategory::Read,
        requires_permission: false,
        plan: &CallPlan::of_category("grep", ToolCategory::Read),
    });
    bench
}

#[tokio::test]
async fn a_search_skips_files_that_a_rule_denies_or_asks_about() {
    let deny = PermissionRule::deny_path(Access::Read, "data");
    let ask = PermissionRule::ask_for_path(Access::Read, "notes/draft.txt");
    let bench = with_rules(vec![deny, ask]);
    for mode in ["content", "files_with_matches", "count"] {
        let output = bench.ok("grep", json!({"pattern": "needle", "output_mode": mode})).await;
        let (note, hits) = output.split_once("or denied]\n").unwrap();
        assert!(hits.contains("src/a.rs"), "{output}");
        assert!(!hits.contains("data") && !hits.contains("notes"), "{output}");
        assert!(note.contains("data/secret.txt") && note.contains("notes/draft.txt"), "{output}");
    }
    let output = bench.ok("glob", json!({"pattern": "**/*.txt"})).await;
    assert!(output.contains("notes/draft.txt") && !output.contains("data/"), "{output}");
    let listed = bench.ok("list_directory", json!({"depth": 3})).await;
    assert!(listed.contains("draft.txt") && !listed.contains("secret.txt"), "{listed}");
}

#[tokio::test]
async fn a_search_of_a_folder_with_an_ask_rule_reads_its_files() {
    let bench = with_rules(vec![PermissionRule::ask_for_path(Access::Read, "data")]);
    let output = bench.ok("grep", json!({"pattern": "needle", "path": "data"})).await;
    assert!(output.contains("secret.txt") && !output.contains("not searched"), "{output}");
}
