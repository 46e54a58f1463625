//! Resolution of a call: the tool, by the name that the model gave, and its arguments.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::{Map, Value};

use super::{
    coerce::{CoercionScope, coerce, only, squash},
    describe, lenient_json,
};
use crate::{
    message::{CallArguments, ToolCall},
    tool::{Tool, ToolRegistry},
    tool_types::{APPLY_PATCH, CALL_TOOL},
};

/// A call that is ready to run.
#[derive(Clone)]
pub struct ResolvedCall {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Arguments that fit the tool.
    pub input: Value,
    /// The repairs and hints, a line each, for the model.
    pub repairs: Vec<String>,
}

impl fmt::Debug for ResolvedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolvedCall")
            .field("tool", &self.tool.name())
            .field("input", &self.input)
            .field("repairs", &self.repairs)
            .finish()
    }
}

/// Error for a call that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidCall {
    /// The problem and the expected form, for the model.
    pub message: String,
}

/// Finds the tool and coerces the arguments, or describes what is wrong.
///
/// A call that was cut at the output limit must not be passed: its missing brackets would be added where it was cut.
pub fn resolve(registry: &ToolRegistry, call: &ToolCall) -> Result<ResolvedCall, InvalidCall> {
    let (tool, name_repair) =
        find_tool(registry, &call.name).map_err(|message| InvalidCall { message })?;
    let mut repairs: Vec<String> = name_repair.into_iter().collect();
    if tool.name() == CALL_TOOL {
        return resolve(registry, &inner_call(registry, call)?);
    }
    let schema = tool.parameters_schema();
    let object = object_of(&call.arguments, &mut repairs).map_err(|reason| InvalidCall {
        message: describe::not_an_object_message(tool.name(), &reason, &schema),
    })?;
    let (input, input_repairs) = fit(tool.as_ref(), &schema, Value::Object(object))?;
    repairs.extend(input_repairs);
    repairs.extend(patch_hint(registry, tool.name(), &input));
    Ok(ResolvedCall { tool: Arc::clone(tool), input, repairs })
}

/// Returns the call that a call of [`CALL_TOOL`] names; `None` for other calls, and if the named one is invalid.
pub fn named_call(registry: &ToolRegistry, call: &ToolCall) -> Option<ToolCall> {
    let is_listed = registry.get(CALL_TOOL).is_some();
    (is_listed && call.name == CALL_TOOL).then(|| inner_call(registry, call).ok())?
}

/// Returns the call that a call of [`CALL_TOOL`] names. The name must be exact: another spelling could be that of a tool
/// with other effects, and arguments that are left out could mean everything.
fn inner_call(registry: &ToolRegistry, call: &ToolCall) -> Result<ToolCall, InvalidCall> {
    let invalid = |why: &str| InvalidCall {
        message: format!("{CALL_TOOL} takes the `name` of a tool and its `arguments`: {why}"),
    };
    let object = object_of(&call.arguments, &mut Vec::new());
    let mut object = object.map_err(|reason| invalid(&reason))?;
    let (Some(Value::String(name)), Some(arguments)) =
        (object.remove("name"), object.remove("arguments"))
    else {
        return Err(invalid("one of them is missing"));
    };
    if let Some(other) = object.keys().next() {
        return Err(invalid(&format!("{} is neither", shorten(other))));
    }
    if name == CALL_TOOL {
        return Err(invalid("it cannot call itself"));
    }
    if registry.get(&name).is_none() {
        let name = shorten(&name);
        return Err(invalid(&format!("there is no tool {name}; find_tools finds them")));
    }
    Ok(ToolCall { name, arguments: CallArguments::Json(arguments), ..call.clone() })
}

/// The tool that runs shell lines.
const SHELL: &str = "bash";

/// Returns a hint for a shell line that calls the tool `apply_patch` as if it were a program.
fn patch_hint(registry: &ToolRegistry, tool: &str, input: &Value) -> Option<String> {
    let command = input.get("command")?.as_str().filter(|_| tool == SHELL)?;
    registry.get(APPLY_PATCH)?;
    let is_call = |part: &str| {
        let rest = part.trim_start().strip_prefix(APPLY_PATCH);
        rest.is_some_and(|rest| rest.starts_with([' ', '<']))
    };
    let calls_it = command.lines().any(|line| line.split(['&', ';', '|']).any(is_call));
    calls_it.then(|| {
        format!("{APPLY_PATCH} is a tool, not a program: call it with the patch as `input`.")
    })
}

/// Parses the arguments as one object.
fn object_of(
    arguments: &CallArguments,
    repairs: &mut Vec<String>,
) -> Result<Map<String, Value>, String> {
    let value = match arguments {
        CallArguments::Json(Value::Object(map)) => return Ok(map.clone()),
        CallArguments::Json(value) => value.clone(),
        CallArguments::Malformed(text) => read_text(text, repairs)?,
    };
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => {
            repairs.push("The arguments were null and were read as {}.".to_owned());
            Ok(Map::new())
        }
        Value::String(text) => match read_text(&text, repairs)? {
            Value::Object(map) => {
                repairs.push(
                    "The arguments were a JSON text inside a string. Send the object itself."
                        .to_owned(),
                );
                Ok(map)
            }
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)) => {
                Err(format!("they are text that holds {}, not an object", describe::kind(&other)))
            }
        },
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Err(format!("they are {}, not an object", describe::kind(&other)))
        }
    }
}

fn read_text(text: &str, repairs: &mut Vec<String>) -> Result<Value, String> {
    let document =
        lenient_json::read(text).map_err(|error| format!("they are not JSON: {error}"))?;
    if !document.repairs.is_empty() {
        let mends: Vec<_> = document.repairs.iter().map(ToString::to_string).collect();
        repairs.push(format!("The arguments were not strict JSON; mended: {}.", mends.join(", ")));
    }
    Ok(document.value)
}

/// Coerces the arguments to what the tool accepts.
fn fit(tool: &dyn Tool, schema: &Value, input: Value) -> Result<(Value, Vec<String>), InvalidCall> {
    let Err(reason) = tool.check(&input) else {
        // Valid, but a misspelt optional key would be ignored silently.
        let (renamed, repairs) = coerce(schema, &input, CoercionScope::KeysOnly);
        let is_valid = !repairs.is_empty() && tool.check(&renamed).is_ok();
        return Ok(if is_valid { (renamed, repairs) } else { (input, Vec::new()) });
    };
    let (coerced, repairs) = coerce(schema, &input, CoercionScope::Everything);
    if tool.check(&coerced).is_ok() {
        return Ok((coerced, repairs));
    }
    Err(InvalidCall { message: describe::misfit_message(tool.name(), schema, &coerced, &reason) })
}

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
    ("apply_patch", &["applypatch", "patch", "patchfile", "applydiff"]),
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
fn find_tool<'a>(
    registry: &'a ToolRegistry,
    given: &str,
) -> Result<(&'a Arc<dyn Tool>, Option<String>), String> {
    if let Some(tool) = registry.get(given) {
        return Ok((tool, None));
    }
    let names: Vec<&str> = registry.names().collect();
    // A tool that is not offered has no other spellings than these.
    let unlisted = || registry.get(resolve_alias(strip(given))?);
    match offered_name(&names, given).and_then(|name| registry.get(name)).or_else(unlisted) {
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
    let unique =
        |matches: &dyn Fn(&str) -> bool| only(names.iter().copied().filter(|name| matches(name)));
    let bare = strip(given);
    exact(given)
        .or_else(|| unique(&|name| name.eq_ignore_ascii_case(given)))
        .or_else(|| exact(bare))
        .or_else(|| unique(&|name| name.eq_ignore_ascii_case(bare)))
        .or_else(|| {
            let squashed = squash(bare);
            unique(&|name| !squashed.is_empty() && squash(name) == squashed)
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
