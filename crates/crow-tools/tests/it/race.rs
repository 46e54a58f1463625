//! File tools while a background thread swaps files and folders at their paths, as a sandboxed job could.
//!
//! The thread exchanges a path of the workspace with a link to a folder or file outside as fast as it can, while the tools
//! run again and again. No result may show the text of an outside file, and no outside file may change. The permission
//! engine decides on the path of the plan, so a call whose plan leads outside the workspace is skipped here: the user
//! would have been asked.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crow_core::tool::{Effects, ToolStatus};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Content of every file outside the workspace, and part of some of their names.
const SECRET: &str = "outside";

/// Number of calls per race. `CROW_RACE_ROUNDS` overrides it.
#[expect(clippy::disallowed_methods, reason = "a test reads its own setting")]
fn rounds() -> usize {
    std::env::var("CROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// A workspace with a folder `d` and files `f` and `g`. They are swapped with a link to an outside folder (`link-d`), a
/// link to an outside file (`link-f`) and a hard link of an outside file (`hard-g`).
struct Scene {
    bench: Bench,
    out: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let bench = Bench::new();
        let out = bench.outside("out");
        for (folder, text) in [(bench.path("d/sub"), "inside"), (out.join("sub"), SECRET)] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), text).unwrap();
            fs::write(folder.join(format!("{text}-name")), text).unwrap();
        }
        fs::write(out.join("hard"), SECRET).unwrap();
        bench.write("f", "inside");
        bench.write("g", "inside");
        symlink("../out", bench.path("link-d")).unwrap();
        symlink("../out/sub/file", bench.path("link-f")).unwrap();
        fs::hard_link(out.join("hard"), bench.path("hard-g")).unwrap();
        Self { bench, out }
    }

    /// Runs calls while a thread swaps the paths `one` and `other` as fast as it can.
    async fn race(
        &self,
        one: &str,
        other: &str,
        calls: impl Fn(usize) -> (&'static str, Value),
    ) -> Outcomes {
        let (one, other) = (self.bench.path(one), self.bench.path(other));
        let is_done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_done);
        let exchange = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                // May fail: a file that a tool is replacing can be missing for a moment.
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        let mut outcomes = Outcomes::default();
        // Continues until one call succeeded: on a busy machine the link may be in place for very many rounds.
        for round in 0..100_000 {
            let (tool, input) = calls(round);
            self.call(tool, input, &mut outcomes).await;
            if round >= rounds() && outcomes.succeeded > 0 {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        exchange.join().unwrap();
        outcomes
    }

    /// Plans, previews and executes a call, if its plan stays in the workspace.
    async fn call(&self, tool: &str, input: Value, outcomes: &mut Outcomes) {
        let ctx = &self.bench.ctx;
        let tool = self.bench.tool(tool);
        let Ok(plan) = tool.plan(&input, ctx).await else { return };
        let Effects::Paths(paths) = &plan.effects else { return };
        if !paths.iter().all(|effect| ctx.workspace.contains(&effect.path)) {
            return;
        }
        if let Ok(Some(preview)) = tool.preview(&input, &plan, ctx).await {
            outcomes.shown.push(format!("{:?}", preview.patch));
        }
        let result = tool.execute(input, &plan, ctx).await;
        outcomes.succeeded += usize::from(result.status == ToolStatus::Success);
        outcomes.shown.push(result.output);
    }

    fn assert_outside_is_untouched(&self) {
        let mut files: Vec<(PathBuf, String)> = Vec::new();
        for folder in [&self.out, &self.out.join("sub")] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    files.push((path.clone(), fs::read_to_string(&path).unwrap()));
                } else {
                    assert_eq!(path, self.out.join("sub"));
                }
            }
        }
        files.sort();
        let expected = ["hard", "sub/file", "sub/outside-name"];
        let expected: Vec<_> =
            expected.iter().map(|name| (self.out.join(name), SECRET.to_owned())).collect();
        assert_eq!(files, expected);
    }
}

/// Results of the calls of one race.
#[derive(Debug, Default)]
struct Outcomes {
    succeeded: usize,
    /// Outputs and previews that the model or the user would have seen.
    shown: Vec<String>,
}

impl Outcomes {
    fn assert_some_succeeded_and_none_showed_outside(&self, call: &str) {
        // The targets of links in the workspace may be shown.
        let leaked = self.shown.iter().filter(|text| text.replace("../out", "").contains(SECRET));
        let leaked: Vec<_> = leaked.collect();
        assert!(
            leaked.is_empty(),
            "{call} showed {} times: {}",
            leaked.len(),
            leaked.first().unwrap()
        );
        assert!(self.succeeded > 0, "{call} never succeeded: the race shows nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_reads_or_lists_outside_while_its_folder_is_swapped_for_a_link() {
    let calls: [(&'static str, Value); 6] = [
        ("read_file", json!({ "path": "d/sub/file", "limit": 5 })),
        ("read_file", json!({ "path": "d/sub" })),
        ("grep", json!({ "pattern": "side", "path": "d" })),
        ("grep", json!({ "pattern": "side", "path": "d/sub/file" })),
        ("glob", json!({ "pattern": "**/*", "path": "d/sub" })),
        ("list_directory", json!({ "path": "d", "depth": 3 })),
    ];
    for (tool, input) in calls {
        let scene = Scene::new();
        let outcomes = scene.race("d", "link-d", |_| (tool, input.clone())).await;
        outcomes.assert_some_succeeded_and_none_showed_outside(&format!("{tool} {input}"));
        scene.assert_outside_is_untouched();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_suggests_no_outside_names_while_its_folder_is_swapped() {
    let scene = Scene::new();
    let outcomes = scene
        .race("d", "link-d", |round| match round % 2 {
            0 => ("read_file", json!({ "path": "d/sub/-name" })),
            _ => ("list_directory", json!({ "path": "d/sub" })),
        })
        .await;
    outcomes.assert_some_succeeded_and_none_showed_outside("a missing file");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_reads_outside_while_its_file_is_swapped_for_a_link() {
    for (tool, input) in [
        ("read_file", json!({ "path": "f", "limit": 5 })),
        ("grep", json!({ "pattern": "side", "path": "f" })),
        ("grep", json!({ "pattern": "side", "glob": "{f,link-f}" })),
    ] {
        let scene = Scene::new();
        let outcomes = scene.race("f", "link-f", |_| (tool, input.clone())).await;
        outcomes.assert_some_succeeded_and_none_showed_outside(&format!("{tool} {input}"));
        scene.assert_outside_is_untouched();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_writes_outside_while_folders_and_files_are_swapped() {
    for (one, other, path) in [
        ("d", "link-d", "d/sub/file"),
        ("d", "link-d", "d/sub/new"),
        ("d", "link-d", "d/sub/deep/new"),
        ("f", "link-f", "f"),
        ("g", "hard-g", "g"),
    ] {
        let scene = Scene::new();
        let write = |round: usize| {
            if path.ends_with("new") {
                let path = format!("{path}-{round}");
                return ("write_file", json!({ "path": path, "content": "ours" }));
            }
            match round % 4 {
                0 => ("edit_file", json!({ "path": path, "old_string": "in", "new_string": "IN" })),
                1 => ("edit_file", json!({ "path": path, "old_string": "IN", "new_string": "in" })),
                2 => ("read_file", json!({ "path": path })),
                _ => ("write_file", json!({ "path": path, "content": "inside" })),
            }
        };
        let outcomes = scene.race(one, other, write).await;
        scene.assert_outside_is_untouched();
        assert!(outcomes.succeeded > 0, "nothing was written to {path}: the race shows nothing");
        // A hard link in the workspace is a file of the workspace.
        if other != "hard-g" {
            outcomes.assert_some_succeeded_and_none_showed_outside(path);
        }
    }
}
