//! Measures what the syntax check adds to a call that changes a file of 2,000 lines: the time of the call minus that of the
//! same call on a file that is not checked, beside one plain parse of the new content by tree-sitter.
//!
//! `cargo bench -p crow-tools --features syntax --bench syntax` prints the table. Each figure is the median of many calls.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails loudly"
)]

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crow_core::{
    tool::{Tool, ToolContext},
    workspace::Workspace,
};
use crow_testkit::tools::{agent_context, call, tool_context};
use serde_json::{Value, json};
use tree_sitter::{Language, Parser};

const ROUNDS: usize = 40;
const LINES: usize = 2_000;

/// A language with one function of it, in which `NUMBER` differs.
struct BenchLanguage {
    extension: &'static str,
    function: &'static str,
    grammar: Language,
}

fn languages() -> Vec<BenchLanguage> {
    let braces = |head: &str| {
        format!(
            "{head} {{\n  let total = start + NUMBER;\n  for (const item of items) {{\n    if (item.kind === 'used' && !item.done) {{\n      total += item.price * (1 - item.rate / 100);\n    }} else {{\n      report(`${{item.name}}: skipped`, {{ at: total, NUMBER }});\n    }}\n  }}\n  return total;\n}}\n\n"
        )
        .replace(", NUMBER }", " }")
    };
    let script = braces("export function sumNUMBER(items, start)");
    let typed = braces("export function sumNUMBER(items: Item[], start: number): number");
    let language = |extension, function: &str, grammar| BenchLanguage {
        extension,
        function: String::leak(function.to_owned()),
        grammar,
    };
    vec![
        language(
            "py",
            "def sum_NUMBER(items, start=NUMBER):\n    \"\"\"Adds prices.\"\"\"\n    total = start\n    for item in items:\n        if item.kind == 'used' and not item.done:\n            total += item.price * (1 - item.rate / 100)\n        else:\n            report(f'{item.name}: skipped', at=total)\n    return total\n\n\n",
            tree_sitter_python::LANGUAGE.into(),
        ),
        language("js", &script, tree_sitter_typescript::LANGUAGE_TSX.into()),
        language("ts", &typed, tree_sitter_typescript::LANGUAGE_TSX.into()),
        language(
            "go",
            "func sumNUMBER(items []Item, start int) int {\n\ttotal := start + NUMBER\n\tfor _, item := range items {\n\t\tif item.Kind == \"used\" && !item.Done {\n\t\t\ttotal += item.Price * (1 - item.Rate/100)\n\t\t} else {\n\t\t\treport(item.Name, total)\n\t\t}\n\t}\n\treturn total\n}\n\n",
            tree_sitter_go::LANGUAGE.into(),
        ),
        language(
            "sh",
            "sum_NUMBER() {\n  local total=NUMBER\n  for item in \"$@\"; do\n    if [ -f \"$item\" ] && ! grep -q done \"$item\"; then\n      total=$((total + $(wc -l < \"$item\")))\n    else\n      echo \"${item##*/}: skipped\" >&2\n    fi\n  done\n  echo \"$total\"\n}\n\n",
            tree_sitter_bash::LANGUAGE.into(),
        ),
    ]
}

struct CallBench {
    ctx: ToolContext,
    read: std::sync::Arc<dyn Tool>,
    edit: std::sync::Arc<dyn Tool>,
    runtime: tokio::runtime::Runtime,
}

impl CallBench {
    fn new(root: &Path) -> Self {
        let tool = |name| {
            crow_tools::builtin_tools().into_iter().find(|tool| tool.name() == name).unwrap()
        };
        Self {
            ctx: tool_context(agent_context(Workspace::new(root))),
            read: tool("read_file"),
            edit: tool("edit_file"),
            runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap(),
        }
    }

    /// Writes the content, lets the session read it, and edits it once. Returns the duration of the edit and its output.
    fn edit(&self, name: &str, content: &str, old: &str, new: &str) -> (Duration, String) {
        fs::write(self.ctx.workspace.cwd().join(name), content).unwrap();
        let run = |tool: &dyn Tool, input: Value| {
            let result = self.runtime.block_on(call(tool, input, &self.ctx));
            assert!(!result.is_error(), "{}", result.output);
            result.output
        };
        run(&*self.read, json!({"path": name, "limit": 1}));
        let input = json!({"path": name, "old_string": old, "new_string": new});
        let started = Instant::now();
        let output = run(&*self.edit, input);
        (started.elapsed(), output)
    }

    /// Returns the median of the time that the check adds to an edit.
    fn added(
        &self,
        extension: &str,
        content: &str,
        old: &str,
        new: &str,
        is_told: bool,
    ) -> Duration {
        let (mut checked, mut unchecked) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (time, output) = self.edit(&format!("a.{extension}"), content, old, new);
            assert_eq!(output.contains("may not parse"), is_told, "{output}");
            checked.push(time);
            unchecked.push(self.edit("a.txt", content, old, new).0);
        }
        median(&mut checked).saturating_sub(median(&mut unchecked))
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let bench = CallBench::new(&folder.path().canonicalize().unwrap());
    println!(
        "| 2,000 lines | edit of one line | edit that breaks the file | plain parse |\n|---|---|---|---|"
    );
    for BenchLanguage { extension, function, grammar } in languages() {
        let count = LINES / function.lines().count();
        let functions: String =
            (100..100 + count).map(|n| function.replace("NUMBER", &n.to_string())).collect();
        let content = match extension {
            "go" => format!("package a\n\n{functions}"),
            _ => functions,
        };
        let middle = (100 + count / 2).to_string();
        let name = |text: &str| text.lines().next().unwrap().replace("NUMBER", &middle);
        let line = name(function);
        let valid = bench.added(extension, &content, &line, &format!("{line} "), false);
        let broken = bench.added(extension, &content, &line, &line.replace(')', ""), true);
        let mut parser = Parser::new();
        parser.set_language(&grammar).unwrap();
        let mut plain: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                assert!(!parser.parse(&content, None).unwrap().root_node().has_error());
                started.elapsed()
            })
            .collect();
        let [valid, broken, plain] = [valid, broken, median(&mut plain)].map(ms);
        println!("| {extension} | {valid} | {broken} | {plain} |");
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
