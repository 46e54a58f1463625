//! Permissions of Claude Code and of Gemini CLI as rules.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::{PermissionRule, RuleDecision, RuleMatcher, RuleRegex},
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

/// Where the paths of a file with permissions begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulePaths<'a> {
    pub(super) home: &'a Path,
    /// The folder that `/path` begins at.
    pub(super) settings: &'a Path,
}

/// Returns the rule for a permission such as `Bash(npm run test:*)`.
///
/// # Errors
/// Fails with the reason why there is no such rule.
pub(super) fn rule(
    written: &str,
    decision: RuleDecision,
    paths: RulePaths<'_>,
) -> Result<PermissionRule, String> {
    let matcher = matcher(written.trim(), decision, paths)?;
    let id = format!("imported: {}", written.trim());
    Ok(PermissionRule::new(id, matcher, decision))
}

fn matcher(
    written: &str,
    decision: RuleDecision,
    paths: RulePaths<'_>,
) -> Result<RuleMatcher, String> {
    let (tool, subject) = match written.split_once('(') {
        Some((tool, rest)) => {
            let subject = rest.strip_suffix(')').ok_or("it has no closing bracket")?;
            (tool.trim(), Some(subject.trim()).filter(|subject| !["", "*", ":*"].contains(subject)))
        }
        None => (written, None),
    };
    if let Some(rest) = tool.strip_prefix("mcp__") {
        if subject.is_some() {
            return Err("rules for tools of MCP servers name no arguments here".to_owned());
        }
        let names_tool = rest.contains("__");
        let name = if names_tool { tool.to_owned() } else { format!("{tool}__*") };
        return Ok(RuleMatcher::ToolName(name));
    }
    let known = TOOLS.iter().find(|(other, _)| *other == tool).map(|(_, crow)| *crow);
    let crow = known.ok_or_else(|| format!("there is no tool like {tool}"))?;
    let Some(subject) = subject else { return Ok(RuleMatcher::ToolName(crow.to_owned())) };
    match crow {
        "bash" => command(subject),
        "read_file" | "list_directory" | "glob" | "grep" => {
            path(subject, Access::Read, decision, paths)
        }
        "write_file" | "edit_file" => path(subject, Access::Write, decision, paths),
        "web_fetch" => {
            let host = subject.strip_prefix("domain:").ok_or("it names no domain")?;
            let host = host.trim().parse().map_err(|error| format!("{error}"))?;
            Ok(RuleMatcher::Host(host))
        }
        _ => Err(format!("rules for {crow} name no arguments here")),
    }
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
    if words.starts_with('*') {
        return Err("it names no program".to_owned());
    }
    let pattern = words.split('*').map(regex_text).collect::<Vec<_>>().join(".*");
    regex(&format!("^{pattern}$"))
}

/// A path as in `.gitignore`: `//` begins at the root, `~/` at the home, `/` at the folder of the settings, and all others in
/// the working directory.
fn path(
    subject: &str,
    access: Access,
    decision: RuleDecision,
    paths: RulePaths<'_>,
) -> Result<RuleMatcher, String> {
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
    let is_anywhere = base.is_none() && !subject.starts_with("./") && !rest.contains('/');
    let is_pattern = literal.contains(['*', '?', '[', '!']);
    if !is_pattern && (decision == RuleDecision::Allow || !is_anywhere) {
        let base = base.map(Path::to_path_buf).unwrap_or_default();
        let path = if literal.is_empty() { base } else { base.join(literal) };
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        return Ok(RuleMatcher::Path { access, path });
    }
    if decision == RuleDecision::Allow {
        return Err("a rule that allows names a file or a folder here, no pattern".to_owned());
    }
    if literal.contains(['[', '!']) {
        return Err("patterns with [ or ! have no equal here".to_owned());
    }
    let start = match base {
        Some(base) => format!("^{}/", regex_text(base.to_string_lossy().trim_end_matches('/'))),
        None => "^(.*/)?".to_owned(),
    };
    let end = if folder.is_some() { "(/.*)?$" } else { "$" };
    regex(&format!("{start}{}{end}", glob_pattern(literal)))
}

/// Returns the regular expression for stars and question marks of a path.
fn glob_pattern(glob: &str) -> String {
    let mut pattern = String::new();
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        let (text, length) = if rest.starts_with("**/") {
            ("(.*/)?".to_owned(), 3)
        } else if rest.starts_with("**") {
            (".*".to_owned(), 2)
        } else if first == '*' {
            ("[^/]*".to_owned(), 1)
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
