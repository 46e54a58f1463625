//! Permissions of Claude Code and of Gemini CLI as rules.

use std::path::Path;

use crow_core::{
    permission::{PermissionRule, RuleDecision, RuleMatcher, RuleRegex, RuleSet},
    tool::Access,
};

/// Names of tools of other programs, and Crow's.
const TOOLS: [(&str, &str); 28] = [
    ("Bash", "bash"),
    ("run_shell_command", "bash"),
    ("ShellTool", "bash"),
    ("BashOutput", "bash_output"),
    ("KillShell", "bash_kill"),
    ("Read", "read_file"),
    ("read_file", "read_file"),
    ("read_many_files", "read_file"),
    ("Write", "write_file"),
    ("write_file", "write_file"),
    ("Edit", "edit_file"),
    ("MultiEdit", "edit_file"),
    ("replace", "edit_file"),
    ("LS", "list_directory"),
    ("list_directory", "list_directory"),
    ("Glob", "glob"),
    ("glob", "glob"),
    ("Grep", "grep"),
    ("search_file_content", "grep"),
    ("WebFetch", "web_fetch"),
    ("web_fetch", "web_fetch"),
    ("WebSearch", "web_search"),
    ("google_web_search", "web_search"),
    ("Task", "task"),
    ("Agent", "task"),
    ("TodoWrite", "todo_write"),
    ("write_todos", "todo_write"),
    ("Skill", "skill"),
];
/// Characters that make more of a command than one program with its arguments.
const SHELL_SYNTAX: [char; 9] = ['&', '|', ';', '<', '>', '$', '`', '\n', '('];

/// Tools that do what one tool of another program does: a denial of `Edit` is about all that changes files.
const GROUPS: [(&str, &[&str]); 2] = [
    ("edit_file", &["edit_file", "write_file"]),
    ("read_file", &["read_file", "grep", "glob", "list_directory"]),
];
/// Maximum length of a server's name in the names of its tools.
const LONGEST_SERVER: usize = 24;

/// How a program reads the paths of its permissions.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulePaths<'a> {
    pub(super) home: &'a Path,
    /// The folder that `/path` begins at.
    pub(super) settings: &'a Path,
    /// True if a star also stands for names of folders.
    pub(super) star_crosses_folders: bool,
}

/// The rules for a permission.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ImportedRules {
    pub(super) rules: Vec<PermissionRule>,
    pub(super) notes: Vec<String>,
}

/// Returns the rules for a permission such as `Bash(npm run test:*)`. Rules that allow match no more than the permission did; others
/// may match more.
///
/// # Errors
/// Fails with the reason why there are no such rules.
pub(super) fn rules(
    written: &str,
    decision: RuleDecision,
    priority: i32,
    paths: RulePaths<'_>,
) -> Result<ImportedRules, String> {
    let written = written.trim();
    let matchers = matchers(written, decision, paths)?;
    let mut notes = Vec::new();
    if matchers.iter().any(|matcher| matches!(matcher, RuleMatcher::Regex(_)))
        && decision != RuleDecision::Allow
    {
        notes.push("it is about all commands and paths that look so".to_owned());
    }
    let rule = |matcher| {
        let id = format!("imported: {written}");
        PermissionRule::new(id, matcher, decision).with_priority(priority)
    };
    let rules: Vec<PermissionRule> = matchers.into_iter().map(rule).collect();
    for rule in &rules {
        RuleSet::new([rule.clone()]).map_err(|error| error.to_string())?;
    }
    Ok(ImportedRules { rules, notes })
}

fn matchers(
    written: &str,
    decision: RuleDecision,
    paths: RulePaths<'_>,
) -> Result<Vec<RuleMatcher>, String> {
    let (tool, subject) = match written.split_once('(') {
        Some((tool, rest)) => {
            let subject = rest.strip_suffix(')').ok_or("it has no closing bracket")?;
            (tool.trim(), Some(subject.trim()).filter(|subject| !["", "*", ":*"].contains(subject)))
        }
        None => (written, None),
    };
    if let Some(name) = tool.strip_prefix("mcp__") {
        return match subject {
            Some(_) => Err("rules for tools of MCP servers name no arguments here".to_owned()),
            None => Ok(vec![server_tools(name)?]),
        };
    }
    let known = TOOLS.iter().find(|(other, _)| *other == tool).map(|(_, crow)| *crow);
    let crow = known.ok_or_else(|| format!("there is no tool like {tool}"))?;
    let Some(subject) = subject else { return Ok(whole_tools(crow, decision)) };
    match crow {
        "bash" => Ok(vec![command(subject)?]),
        "read_file" | "list_directory" | "glob" | "grep" => {
            path(subject, Access::Read, decision, paths)
        }
        "write_file" | "edit_file" => path(subject, Access::Write, decision, paths),
        "web_fetch" => {
            let host = subject.strip_prefix("domain:").ok_or("it names no domain")?;
            let host = host.trim().parse().map_err(|error| format!("{error}"))?;
            Ok(vec![RuleMatcher::Host(host)])
        }
        _ => Err(format!("rules for {crow} name no arguments here")),
    }
}

/// Every call of a tool; if it is denied or asked about, also of those that do the same.
fn whole_tools(crow: &str, decision: RuleDecision) -> Vec<RuleMatcher> {
    let group = GROUPS.iter().find(|(first, _)| *first == crow && decision != RuleDecision::Allow);
    let names = group.map_or_else(|| vec![crow], |(_, names)| names.to_vec());
    names.into_iter().map(|name| RuleMatcher::ToolName(name.to_owned())).collect()
}

/// `mcp__SERVER`, `mcp__SERVER__TOOL`, `mcp__SERVER__*` and `mcp__*`, without `mcp__`.
fn server_tools(name: &str) -> Result<RuleMatcher, String> {
    let beginning = name.strip_suffix('*').unwrap_or(name);
    if beginning.contains('*') {
        return Err("a star stands only at the end of a tool's name here".to_owned());
    }
    if beginning.is_empty() {
        return Ok(RuleMatcher::ToolName("mcp__*".to_owned()));
    }
    let server = beginning.split("__").next().unwrap_or_default();
    if server.len() > LONGEST_SERVER || beginning.matches("__").count() > 1 {
        return Err("the tools of that server have other names here".to_owned());
    }
    let names_tool = name.contains("__") || name.ends_with('*');
    Ok(RuleMatcher::ToolName(format!("mcp__{name}{}", if names_tool { "" } else { "__*" })))
}

/// `npm run test:*` and `npm run *` begin with words, `npm test` is the whole command, other stars stand for any text.
fn command(subject: &str) -> Result<RuleMatcher, String> {
    if subject.contains(SHELL_SYNTAX) {
        return Err(
            "a rule is about one program with its arguments, not about a line of the shell"
                .to_owned(),
        );
    }
    let beginning = subject.strip_suffix(":*").or_else(|| subject.strip_suffix(" *"));
    if let Some(beginning) =
        beginning.filter(|beginning| !beginning.contains(['*', '"', '\'', '\\']))
    {
        let words = beginning.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if words.is_empty() {
            return Err("it names no program".to_owned());
        }
        return Ok(RuleMatcher::CommandPrefix(words));
    }
    // Crow compares the words, joined by blanks, without their quotes.
    if subject.contains(['"', '\'', '\\']) {
        return Err("it has quotes, which rules here do not see".to_owned());
    }
    let words = subject.replace(":*", " *").split_whitespace().collect::<Vec<_>>().join(" ");
    let program = words.split(' ').next().unwrap_or_default();
    if program.starts_with('*') {
        return Err("it names no program".to_owned());
    }
    let pattern = words.split('*').map(regex_text).collect::<Vec<_>>().join(".*");
    let pattern = RuleRegex::new(&format!("(?s)^{pattern}$")).map_err(|error| error.to_string())?;
    Ok(RuleMatcher::CommandRegex(pattern))
}

/// A path as in `.gitignore`: `//` begins at the root, `~/` at the home, `/` at the folder of the settings, and all others in
/// the working directory.
fn path(
    subject: &str,
    access: Access,
    decision: RuleDecision,
    paths: RulePaths<'_>,
) -> Result<Vec<RuleMatcher>, String> {
    let (base, rest) = if let Some(rest) = subject.strip_prefix("//") {
        (Some(Path::new("/")), rest)
    } else if let Some(rest) = subject.strip_prefix("~/") {
        (Some(paths.home), rest)
    } else if let Some(rest) = subject.strip_prefix('/') {
        (Some(paths.settings), rest)
    } else {
        (None, subject.strip_prefix("./").unwrap_or(subject))
    };
    let folder = rest.strip_suffix("/**").or_else(|| (rest == "**").then_some(""));
    let literal = folder.unwrap_or(rest).trim_end_matches('/');
    let names_one = folder.is_some() || subject.starts_with("./") || literal.contains('/');
    let is_anywhere = base.is_none() && !names_one;
    let is_allowed = decision == RuleDecision::Allow;
    if base.is_none() && matches!(literal, "" | ".") {
        // All of the project: for a rule that allows there is no such path.
        let tool = if access == Access::Read { "read_file" } else { "edit_file" };
        return if is_allowed {
            Err("it is about the whole project: choose a mode with --permissions".to_owned())
        } else {
            Ok(whole_tools(tool, decision))
        };
    }
    let is_pattern = literal.contains(['*', '?', '[', '!']);
    if !is_pattern && (is_allowed || !is_anywhere) {
        let path = base.map(Path::to_path_buf).unwrap_or_default().join(literal);
        return Ok(vec![RuleMatcher::Path { access, path }]);
    }
    if is_allowed {
        return Err("a rule that allows names a file or a folder here, no pattern".to_owned());
    }
    if literal.contains(['[', '!']) {
        return Err("patterns with [ or ! have no equal here".to_owned());
    }
    let start = match base {
        Some(base) => regex_text(&format!("{}/", base.to_string_lossy().trim_end_matches('/'))),
        None => "(.*/)?".to_owned(),
    };
    // A pattern that matches a folder also covers everything below it.
    let pattern = glob_pattern(literal, paths.star_crosses_folders);
    Ok(vec![regex(&format!("(?s)^{start}{pattern}(/.*)?$"))?])
}

/// Returns the regular expression for stars and question marks of a path.
fn glob_pattern(glob: &str, star_crosses_folders: bool) -> String {
    let mut pattern = String::new();
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        let (text, length) = if rest.starts_with("**/") {
            ("(.*/)?".to_owned(), 3)
        } else if rest.starts_with("**") {
            (".*".to_owned(), 2)
        } else if first == '*' {
            (if star_crosses_folders { ".*" } else { "[^/]*" }.to_owned(), 1)
        } else if first == '?' {
            ("[^/]".to_owned(), 1)
        } else {
            (regex_text(first.encode_utf8(&mut [0; 4])), first.len_utf8())
        };
        pattern.push_str(&text);
        rest = &rest[length..];
    }
    pattern
}

/// Returns a regular expression for exactly this text.
fn regex_text(text: &str) -> String {
    regex::escape(text)
}

fn regex(pattern: &str) -> Result<RuleMatcher, String> {
    RuleRegex::new(pattern).map(RuleMatcher::Regex).map_err(|error| error.to_string())
}
