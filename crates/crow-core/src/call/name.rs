//! Resolution of tool names.

use std::{cmp::Ordering, sync::Arc};

use super::keys::squash;
use crate::tool::{Tool, ToolRegistry};

/// Maximum number of characters of an unknown name to compare and show.
const LONGEST_NAME: usize = 64;
/// Maximum number of similar names to propose.
const NEAREST: usize = 3;

/// Names of the tools in other agents, squashed. Used only if the tool exists.
const ALIASES: &[(&str, &[&str])] = &[
    ("read_file", &["read", "view", "cat", "openfile", "viewfile", "fileread", "readtextfile"]),
    (
        "write_file",
        &["write", "createfile", "createnewfile", "filewrite", "savefile", "writetofile"],
    ),
    (
        "edit_file",
        &[
            "edit",
            "strreplace",
            "replace",
            "searchreplace",
            "replaceinfile",
            "replacestringinfile",
            "fileedit",
            "multiedit",
        ],
    ),
    (
        "bash",
        &[
            "shell",
            "sh",
            "exec",
            "execute",
            "runcommand",
            "execcommand",
            "executecommand",
            "executebash",
            "runbash",
            "runshellcommand",
            "runterminalcmd",
            "runinterminal",
            "shellcommand",
            "terminal",
        ],
    ),
    ("bash_output", &["taskoutput", "shelloutput", "getbashoutput", "readbash", "joboutput"]),
    ("bash_kill", &["killbash", "killshell", "taskstop", "killjob", "stopbash"]),
    (
        "grep",
        &[
            "search",
            "grepsearch",
            "searchfiles",
            "searchfilecontent",
            "searchtext",
            "searchcode",
            "codesearch",
            "ripgrep",
            "rg",
        ],
    ),
    ("glob", &["findfiles", "filesearch", "globfiles", "globsearch"]),
    ("list_directory", &["ls", "list", "listdir", "listfiles", "dir"]),
    ("todo_write", &["todo", "writetodos", "updatetodos", "updatetodolist", "managetodolist"]),
    ("todo_read", &["readtodos", "gettodos"]),
    ("web_fetch", &["fetch", "fetchurl", "fetchwebpage", "urlfetch", "readurl"]),
    ("web_search", &["searchweb", "googlewebsearch", "googlesearch", "internetsearch"]),
    ("ask_user", &["ask", "question", "askuserquestion", "askquestion", "askfollowupquestion"]),
    ("think", &["thinking", "thought"]),
    ("task", &["agent", "subagent", "dispatchagent", "runsubagent", "newtask"]),
    (
        "task_complete",
        &["attemptcompletion", "finish", "completetask", "taskdone", "taskcompleted"],
    ),
];

/// Finds the tool that `given` means. Returns a line about the correction if there was one; fails if there is no such
/// tool.
pub(super) fn find<'a>(
    registry: &'a ToolRegistry,
    given: &str,
) -> Result<(&'a Arc<dyn Tool>, Option<String>), String> {
    if let Some(tool) = registry.get(given) {
        return Ok((tool, None));
    }
    let names: Vec<&str> = registry.names().collect();
    match offered_name(&names, given).and_then(|name| registry.get(name)) {
        Some(tool) => {
            let shown = shorten(given);
            let repair = format!("The tool is named {}, not {shown}.", tool.name());
            Ok((tool, Some(repair)))
        }
        None => Err(unknown(registry, given)),
    }
}

/// Returns the name among `names` that a model means by `given`, which may be misspelt or the name of such a tool in
/// another agent.
pub fn offered_name<'a>(names: &[&'a str], given: &str) -> Option<&'a str> {
    let exact = |wanted: &str| names.iter().find(|name| **name == wanted).copied();
    let bare = strip(given);
    exact(given)
        .or_else(|| unique(names, |name| name.eq_ignore_ascii_case(given)))
        .or_else(|| exact(bare))
        .or_else(|| unique(names, |name| name.eq_ignore_ascii_case(bare)))
        .or_else(|| {
            let squashed = squash(bare);
            unique(names, |name| !squashed.is_empty() && squash(name) == squashed)
        })
        .or_else(|| exact(resolve_alias(bare)?))
}

/// Removes what templates and other agents add to a name.
fn strip(given: &str) -> &str {
    let mut name = given.trim();
    // gpt-oss leaks its channel markers, Kimi its call number.
    name = name.split_once("<|").map_or(name, |(before, _)| before);
    if let Some((before, number)) = name.rsplit_once(':')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        name = before;
    }
    while let Some(shorter) = strip_prefix(name) {
        name = shorter;
    }
    name
}

fn strip_prefix(name: &str) -> Option<&str> {
    for prefix in ["functions.", "tools.", "default_api."] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return Some(rest);
        }
    }
    let (_server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    Some(tool)
}

/// Returns the only name that `matches` accepts.
fn unique<'a>(names: &[&'a str], matches: impl Fn(&str) -> bool) -> Option<&'a str> {
    let mut names = names.iter().copied().filter(|name| matches(name));
    names.next().filter(|_| names.next().is_none())
}

/// Returns the tool that other agents call by this name.
pub fn resolve_alias(bare: &str) -> Option<&'static str> {
    let squashed = squash(bare);
    ALIASES.iter().find(|(_, others)| others.contains(&squashed.as_str())).map(|(name, _)| *name)
}

fn unknown(registry: &ToolRegistry, given: &str) -> String {
    let shown = shorten(given);
    let mut names: Vec<_> =
        registry.names().map(|name| (strsim::jaro_winkler(&shown, name), name)).collect();
    if names.is_empty() {
        return format!("unknown_tool: there is no tool named {shown}; there are no tools at all.");
    }
    let all: Vec<_> = registry.names().collect();
    names.sort_by(|one, other| other.0.partial_cmp(&one.0).unwrap_or(Ordering::Equal));
    let nearest: Vec<_> = names.iter().take(NEAREST).map(|(_, name)| *name).collect();
    format!(
        "unknown_tool: there is no tool named {shown}. The nearest are: {}. All tools: {}.",
        nearest.join(", "),
        all.join(", ")
    )
}

fn shorten(given: &str) -> String {
    given.chars().take(LONGEST_NAME).collect()
}
