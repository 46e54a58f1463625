//! Calls of Crow's tools in the names of Claude Code's, which hooks are written for.
//!
//! What a call touches comes from its plan, not from its arguments: a tool takes several spellings of an argument, and a hook
//! that guards a file must see it in each.

use std::path::{Path, PathBuf};

use crow_core::tool::{
    Access, CallPlan, CommandLine, CommandMeaning, CommandWord, Effects, Subject, ToolResult,
    ToolStatus,
};
use serde_json::{Map, Value, json};

/// How hooks see a tool.
struct HookToolName {
    crow: &'static str,
    /// The name that hooks read, and further ones that matchers may use.
    names: &'static [&'static str],
    /// The argument with the file that the call is about.
    path: Option<&'static str>,
    /// Further arguments with other names: Crow's, then Claude Code's.
    renamed: &'static [(&'static str, &'static str)],
}

const fn tool(crow: &'static str, names: &'static [&'static str]) -> HookToolName {
    HookToolName { crow, names, path: None, renamed: &[] }
}

/// The tools that have another name for hooks. Those of MCP servers have the same.
const TOOLS: &[HookToolName] = &[
    tool("bash", &["Bash"]),
    HookToolName { renamed: &[("job_id", "bash_id")], ..tool("bash_output", &["BashOutput"]) },
    HookToolName { renamed: &[("job_id", "shell_id")], ..tool("bash_kill", &["KillShell"]) },
    HookToolName { path: Some("file_path"), ..tool("read_file", &["Read"]) },
    HookToolName { path: Some("file_path"), ..tool("write_file", &["Write"]) },
    HookToolName {
        path: Some("file_path"),
        renamed: &[
            ("old_str", "old_string"),
            ("oldStr", "old_string"),
            ("old_text", "old_string"),
            ("oldText", "old_string"),
            ("oldString", "old_string"),
            ("new_str", "new_string"),
            ("newStr", "new_string"),
            ("new_text", "new_string"),
            ("newText", "new_string"),
            ("newString", "new_string"),
        ],
        ..tool("edit_file", &["Edit", "MultiEdit"])
    },
    HookToolName { path: Some("file_path"), ..tool(APPLY_PATCH, &["Edit", "MultiEdit", "Write"]) },
    HookToolName { path: Some("path"), ..tool("list_directory", &["LS"]) },
    HookToolName { path: Some("path"), ..tool("glob", &["Glob"]) },
    HookToolName {
        path: Some("path"),
        renamed: &[("ignore_case", "-i"), ("context", "-C"), ("limit", "head_limit")],
        ..tool("grep", &["Grep"])
    },
    tool("web_fetch", &["WebFetch"]),
    tool("web_search", &["WebSearch"]),
    HookToolName {
        renamed: &[("agent", "subagent_type"), ("background", "run_in_background")],
        ..tool("task", &["Task", "Agent"])
    },
    tool("todo_write", &["TodoWrite"]),
    tool("ask_user", &["AskUserQuestion"]),
    HookToolName { renamed: &[("name", "skill")], ..tool("skill", &["Skill"]) },
];

/// The tool whose one call changes several files.
pub(super) const APPLY_PATCH: &str = "apply_patch";
/// Names under which tools take the path of a file.
const PATH_ARGUMENTS: [&str; 5] = ["path", "file_path", "filePath", "filename", "file"];

/// A call as hooks see it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HookCall {
    /// The names that matchers may use. Hooks read the first.
    pub(super) names: Vec<String>,
    pub(super) input: Value,
    /// What conditions are compared with: the commands, the ways to write the path, the address; `None` if it is not known.
    pub(super) subjects: Option<Vec<String>>,
}

/// The places that paths of conditions may be relative to.
#[derive(Debug, Clone, Default)]
pub(super) struct ConditionPlaces {
    /// The working directory and the root of the project.
    pub(super) folders: Vec<PathBuf>,
    pub(super) home: Option<PathBuf>,
}

impl ConditionPlaces {
    /// Returns the ways to write a path in a condition.
    fn spellings(&self, path: &Path) -> Vec<String> {
        let shown = path.to_string_lossy().into_owned();
        let mut spellings = vec![format!("/{shown}"), shown];
        for folder in &self.folders {
            if let Ok(below) = path.strip_prefix(folder) {
                let below = below.to_string_lossy();
                spellings.extend([format!("./{below}"), format!("/{below}"), below.into_owned()]);
            }
        }
        if let Some(below) = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            spellings.push(format!("~/{}", below.to_string_lossy()));
        }
        spellings
    }
}

/// Returns the commands of a line without what only starts them, and the line itself; `None` if it may run anything.
fn commands_of(line: &CommandLine) -> Option<Vec<String>> {
    let CommandMeaning::Commands(commands) = &line.meaning else { return None };
    let mut found = vec![line.text.trim().to_owned()];
    for command in commands {
        let words: Option<Vec<_>> = command.words.iter().map(CommandWord::as_literal).collect();
        // A word that is known only when it runs may be anything.
        found.push(words?.join(" "));
    }
    Some(found)
}

impl HookCall {
    /// Returns the call of a tool as hooks see it; several if it changes several files.
    pub(super) fn of_call(
        tool: &str,
        input: &Value,
        plan: &CallPlan,
        places: &ConditionPlaces,
    ) -> Vec<Self> {
        let known = TOOLS.iter().find(|known| known.crow == tool);
        let mut names: Vec<String> = known.map_or_else(Vec::new, |known| {
            known.names.iter().map(|name| (*name).to_owned()).collect()
        });
        names.push(tool.to_owned());
        let mut arguments = input.as_object().cloned().unwrap_or_default();
        for (own, theirs) in known.iter().flat_map(|known| known.renamed) {
            if !arguments.contains_key(*theirs)
                && let Some(value) = arguments.remove(*own)
            {
                arguments.insert((*theirs).to_owned(), value);
            }
        }
        if let Subject::Command(line) = &plan.subject {
            arguments.retain(|name, _| name != "cmd" && name != "script");
            arguments.insert("command".to_owned(), line.text.clone().into());
        }
        let Some(argument) = known.and_then(|known| known.path) else {
            let subjects = match &plan.subject {
                Subject::Command(line) => commands_of(line),
                Subject::Host(host) => {
                    let url = arguments.get("url").and_then(Value::as_str).map(str::to_owned);
                    Some(url.into_iter().chain([format!("domain:{host}")]).collect())
                }
                Subject::Nothing | Subject::Path(_) => {
                    let by_name = |name: &&str| arguments.get(*name).and_then(Value::as_str);
                    let known = ["url", "query", "subagent_type", "skill"];
                    known.iter().find_map(by_name).map(|subject| vec![subject.to_owned()])
                }
            };
            return vec![Self { names, input: Value::Object(arguments), subjects }];
        };
        let calls = touched_paths(plan).into_iter().map(|touched| {
            let mut arguments = arguments.clone();
            arguments.retain(|name, _| !PATH_ARGUMENTS.contains(&name.as_str()));
            let file = touched.to_string_lossy().into_owned();
            if tool == APPLY_PATCH {
                let patch = arguments.values().find_map(Value::as_str).unwrap_or_default();
                let (old, new) = texts_of_patch(patch, Path::new(&file));
                // The whole patch would be with each of its files.
                arguments.retain(|_, value| !value.is_string());
                arguments.insert("old_string".to_owned(), old.into());
                arguments.insert("new_string".to_owned(), new.into());
            }
            arguments.insert(argument.to_owned(), file.into());
            let subjects = Some(places.spellings(&touched));
            Self { names: names.clone(), input: Value::Object(arguments), subjects }
        });
        let calls: Vec<_> = calls.collect();
        if calls.is_empty() {
            return vec![Self { names, input: Value::Object(arguments), subjects: None }];
        }
        calls
    }

    /// Returns the name that hooks read.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// Returns the paths that a call writes, or else reads, each once.
fn touched_paths(plan: &CallPlan) -> Vec<PathBuf> {
    let effects = match &plan.effects {
        Effects::Paths(effects) => effects.as_slice(),
        Effects::None | Effects::Unknown | Effects::UserCommands => &[],
    };
    let of = |access: Access| {
        let mut paths: Vec<PathBuf> = Vec::new();
        for effect in effects.iter().filter(|effect| effect.access == access) {
            if !paths.contains(&effect.path) {
                paths.push(effect.path.clone());
            }
        }
        paths
    };
    let written = of(Access::Write);
    if written.is_empty() { of(Access::Read) } else { written }
}

/// Beginnings of the lines of a patch that name a file.
const FILE_MARKS: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];

/// Returns the names of the files in a patch.
pub(super) fn files_of_patch(patch: &str) -> Vec<&str> {
    let named = |line| FILE_MARKS.iter().find_map(|mark| str::strip_prefix(line, *mark));
    patch.lines().filter_map(named).map(str::trim).collect()
}

/// Returns the removed and the added lines of one file in a patch, with those around them. A file that is not found, since
/// its path is written in another way, gets those of all files.
fn texts_of_patch(patch: &str, file: &Path) -> (String, String) {
    let mut sections: Vec<(Option<&str>, String, String)> =
        vec![(None, String::new(), String::new())];
    for line in patch.lines() {
        if let Some(name) = FILE_MARKS.iter().find_map(|mark| line.strip_prefix(mark)) {
            sections.push((Some(name.trim()), String::new(), String::new()));
            continue;
        }
        let Some((_, old, new)) = sections.last_mut() else { continue };
        let add = |text: &mut String, rest: &str| {
            text.push_str(rest);
            text.push('\n');
        };
        match line.split_at_checked(1) {
            Some(("-", rest)) => add(old, rest),
            Some(("+", rest)) => add(new, rest),
            Some((" ", rest)) => {
                add(old, rest);
                add(new, rest);
            }
            Some(_) | None => {}
        }
    }
    let is_of = |name: Option<&str>| name.is_some_and(|name| file.ends_with(Path::new(name)));
    let found = sections.iter().any(|(name, ..)| is_of(*name));
    let own = sections.iter().filter(|(name, ..)| !found || is_of(*name));
    let (mut old, mut new) = (String::new(), String::new());
    for (_, removed, added) in own {
        old.push_str(removed);
        new.push_str(added);
    }
    (old, new)
}

/// Returns a call's input with the changes that a hook made to what it was shown: members that differ replace the arguments
/// of the same meaning. The error is a sentence.
pub(super) fn input_with_changes(
    tool: &str,
    input: &Value,
    shown: &Value,
    changed: &Map<String, Value>,
) -> Result<Value, String> {
    if tool == APPLY_PATCH {
        return Err("the input of apply_patch cannot be changed by hooks".to_owned());
    }
    let known = TOOLS.iter().find(|known| known.crow == tool);
    let mut arguments = input.as_object().cloned().unwrap_or_default();
    for (name, value) in changed {
        if shown.get(name) == Some(value) {
            continue;
        }
        let spellings = spellings(known, name);
        let used = spellings.iter().find(|own| arguments.contains_key(**own)).copied();
        // The first spelling is the tool's own.
        let own = used.or_else(|| spellings.first().copied()).unwrap_or(name);
        arguments.insert(own.to_owned(), value.clone());
    }
    // What the hook left out is left out, if the call had it.
    for name in shown.as_object().into_iter().flat_map(Map::keys) {
        if !changed.contains_key(name) {
            for own in spellings(known, name) {
                arguments.remove(own);
            }
            arguments.remove(name);
        }
    }
    Ok(Value::Object(arguments))
}

/// Returns the names under which a tool may have an argument that hooks know as `name`.
fn spellings<'a>(known: Option<&HookToolName>, name: &'a str) -> Vec<&'a str> {
    let mut spellings: Vec<&'a str> = Vec::new();
    let Some(known) = known else { return vec![name] };
    if known.path == Some(name) {
        spellings.extend(PATH_ARGUMENTS);
    }
    let renamed = known.renamed.iter().filter(|(_, theirs)| *theirs == name);
    spellings.extend(renamed.map(|(own, _)| *own));
    if known.crow == "bash" && name == "command" {
        spellings.extend(["command", "cmd", "script"]);
    }
    if known.crow == "edit_file" || spellings.is_empty() {
        spellings.insert(0, name);
    }
    spellings
}

/// Returns the result of a call as hooks see it.
pub(super) fn tool_response(call: &HookCall, result: &ToolResult) -> Value {
    let output = result.output.as_str();
    let path = call.input.get("file_path").cloned().unwrap_or(Value::Null);
    match call.name() {
        "Bash" => json!({
            "stdout": output,
            "stderr": "",
            "interrupted": result.status == ToolStatus::Cancelled,
            "isImage": false,
        }),
        "Read" => json!({ "type": "text", "file": { "filePath": path, "content": output } }),
        "Write" | "Edit" | "MultiEdit" => {
            json!({ "filePath": path, "success": result.status == ToolStatus::Success, "content": output })
        }
        _ => json!({ "content": output }),
    }
}

#[cfg(test)]
mod tests {
    use crow_core::tool::PathEffect;

    use super::*;

    fn plan(paths: &[(&str, Access)]) -> CallPlan {
        let effects = paths.iter().map(|(path, access)| PathEffect::new(*path, *access)).collect();
        CallPlan { effects: Effects::Paths(effects), ..CallPlan::without_effects("x") }
    }

    #[test]
    fn a_path_is_shown_whatever_the_argument_is_called() {
        for argument in PATH_ARGUMENTS {
            let input = json!({ argument: "src/a.rs", "content": "x" });
            let calls = HookCall::of_call(
                "write_file",
                &input,
                &plan(&[("/p/src/a.rs", Access::Write)]),
                &ConditionPlaces::default(),
            );
            assert_eq!(calls.len(), 1);
            assert_eq!(calls[0].name(), "Write");
            assert_eq!(calls[0].input, json!({ "file_path": "/p/src/a.rs", "content": "x" }));
        }
    }

    #[test]
    fn a_patch_is_shown_once_for_each_file() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n one\n-two\n+2\n*** Add File: b.rs\n+new\n*** End Patch";
        let plan = plan(&[
            ("/p/a.rs", Access::Write),
            ("/p/b.rs", Access::Write),
            ("/p/a.rs", Access::Read),
        ]);
        let calls = HookCall::of_call(
            "apply_patch",
            &json!({ "input": patch }),
            &plan,
            &ConditionPlaces::default(),
        );
        let shown: Vec<_> = calls
            .iter()
            .map(|call| {
                let get = |name: &str| call.input[name].as_str().unwrap().to_owned();
                (get("file_path"), get("old_string"), get("new_string"))
            })
            .collect();
        let own = |path: &str, old: &str, new: &str| (path.into(), old.into(), new.into());
        assert_eq!(shown, [own("/p/a.rs", "one\ntwo\n", "one\n2\n"), own("/p/b.rs", "", "new\n")]);
    }

    #[test]
    fn changes_of_a_hook_go_into_the_arguments_that_the_model_used() {
        let cases = [
            (
                "bash",
                json!({"cmd": "ls"}),
                json!({"command": "ls"}),
                json!({"command": "ls -l"}),
                json!({"cmd": "ls -l"}),
            ),
            (
                "read_file",
                json!({"path": "a"}),
                json!({"file_path": "/p/a"}),
                json!({"file_path": "/p/b"}),
                json!({"path": "/p/b"}),
            ),
            (
                "read_file",
                json!({"path": "a"}),
                json!({"file_path": "/p/a"}),
                json!({"file_path": "/p/a", "limit": 5}),
                json!({"path": "a", "limit": 5}),
            ),
            (
                "edit_file",
                json!({"path": "a", "old_str": "x", "new_str": "y"}),
                json!({"file_path": "/p/a", "old_string": "x", "new_string": "y"}),
                json!({"file_path": "/p/a", "old_string": "x", "new_string": "z"}),
                json!({"path": "a", "old_str": "x", "new_str": "z"}),
            ),
            (
                "task",
                json!({"agent": "scout", "prompt": "p"}),
                json!({"subagent_type": "scout", "prompt": "p"}),
                json!({"subagent_type": "scout", "prompt": "q"}),
                json!({"agent": "scout", "prompt": "q"}),
            ),
            (
                "mcp__a__b",
                json!({"x": 1, "y": 2}),
                json!({"x": 1, "y": 2}),
                json!({"x": 3}),
                json!({"x": 3}),
            ),
        ];
        for (tool, input, shown, changed, expected) in cases {
            let changed = changed.as_object().unwrap();
            assert_eq!(
                input_with_changes(tool, &input, &shown, changed).unwrap(),
                expected,
                "{tool}"
            );
        }
    }
}
