//! Which events of its name a hook runs at: its `matcher`, and the condition `if`.

use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled pattern in bytes.
const LARGEST_PATTERN: usize = 1 << 20;

/// The `matcher` of hooks: it is compared with the name of the tool, or with what tells events of one name apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookMatcher {
    text: String,
    /// `None` for all.
    pattern: Option<MatcherPattern>,
}

#[derive(Debug, Clone)]
enum MatcherPattern {
    /// One of these names.
    Names(Vec<String>),
    /// A part of the name.
    Regex(Regex),
}

impl HookMatcher {
    /// Parses a matcher: nothing or `*` for all, names between `|`, or a regular expression. The error is a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let is_plain = |char: char| char.is_alphanumeric() || "_-|, ".contains(char);
        let pattern = if trimmed.is_empty() || trimmed == "*" {
            None
        } else if trimmed.chars().all(is_plain) {
            let names = trimmed.split(['|', ',']).map(|name| name.trim().to_owned());
            Some(MatcherPattern::Names(names.filter(|name| !name.is_empty()).collect()))
        } else {
            let regex = RegexBuilder::new(trimmed).size_limit(LARGEST_PATTERN).build();
            let regex = regex.map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ");
                format!("the matcher `{trimmed}` is no regular expression: {reason}")
            })?;
            Some(MatcherPattern::Regex(regex))
        };
        Ok(Self { text: trimmed.to_owned(), pattern })
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if one of the names matches.
    pub(crate) fn matches(&self, names: &[&str]) -> bool {
        match &self.pattern {
            None => true,
            Some(MatcherPattern::Names(wanted)) => {
                wanted.iter().any(|wanted| names.contains(&wanted.as_str()))
            }
            Some(MatcherPattern::Regex(regex)) => names.iter().any(|name| regex.is_match(name)),
        }
    }
}

/// The condition `if` of a hook: `Tool(pattern)`, where `*` stands for any text.
#[derive(Debug, Clone)]
pub(crate) struct CallCondition {
    tool: String,
    /// `None` for each call of the tool.
    pattern: Option<Regex>,
}

impl CallCondition {
    /// Parses a condition. The error is a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (tool, pattern) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let inner = rest.strip_suffix(')');
                let inner = inner.ok_or_else(|| format!("the condition `{text}` has no `)`"))?;
                (tool, Some(inner))
            }
        };
        if tool.is_empty() {
            return Err(format!("the condition `{text}` names no tool"));
        }
        let pattern = pattern.filter(|pattern| !pattern.is_empty()).map(|pattern| {
            // `Bash(git:*)` is an older form of `Bash(git *)`, which `git` alone fulfils, too.
            let (pattern, ending) = match pattern.strip_suffix(":*") {
                Some(prefix) => (prefix, "(?: .*)?"),
                None => (pattern, ""),
            };
            let parts: Vec<_> = pattern.split('*').map(regex::escape).collect();
            let regex = format!("(?s)^{}{ending}$", parts.join(".*"));
            RegexBuilder::new(&regex).size_limit(LARGEST_PATTERN).build()
        });
        let pattern = pattern.transpose();
        let pattern = pattern.map_err(|_| format!("the condition `{text}` is too long"))?;
        Ok(Self { tool: tool.to_owned(), pattern })
    }

    /// Returns true if a call of a tool with one of these names fulfils it. `subjects` are the ways to write what it is about;
    /// if they are not known, it does: a hook runs rather once too often.
    pub(crate) fn matches(&self, names: &[&str], subjects: Option<&[String]>) -> bool {
        names.contains(&self.tool.as_str())
            && match (&self.pattern, subjects) {
                (Some(pattern), Some(subjects)) => {
                    subjects.iter().any(|subject| pattern.is_match(subject))
                }
                (None, _) | (_, None) => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_everything_a_list_of_names_or_a_regular_expression() {
        for (text, matching, other) in [
            ("", &["Bash", "x"][..], &[][..]),
            ("*", &["Bash"], &[]),
            ("Bash", &["Bash"], &["BashOutput", "bash"]),
            ("Edit|Write", &["Edit", "Write"], &["MultiEdit", "NotebookEdit"]),
            ("Edit, Write", &["Edit", "Write"], &["MultiEdit"]),
            ("Notebook.*", &["NotebookEdit"], &["Edit"]),
            ("mcp__.*__write.*", &["mcp__memory__write_all"], &["mcp__memory__read"]),
            ("^(Edit|Write)$", &["Edit"], &["MultiEdit"]),
        ] {
            let matcher = HookMatcher::parse(text).unwrap();
            for name in matching {
                assert!(matcher.matches(&[name]), "{text} {name}");
            }
            for name in other {
                assert!(!matcher.matches(&[name]), "{text} {name}");
            }
        }
    }

    #[test]
    fn a_matcher_that_is_no_expression_is_refused_with_its_reason() {
        let refused = HookMatcher::parse("Edit(").unwrap_err();
        assert!(refused.contains("`Edit(` is no regular expression"), "{refused}");
        assert!(HookMatcher::parse("(a{1000}){1000}").is_err());
    }

    #[test]
    fn a_condition_compares_tool_and_subject() {
        for (text, tool, subject, expected) in [
            ("Bash", "Bash", Some("ls"), true),
            ("Bash(git *)", "Bash", Some("git push"), true),
            ("Bash(git *)", "Bash", Some("github"), false),
            ("Bash(git:*)", "Bash", Some("git"), true),
            ("Bash(git:*)", "Bash", Some("git push\n--force"), true),
            ("Bash(git:*)", "Bash", Some("gitk"), false),
            ("Bash(rm -rf *)", "Edit", Some("rm -rf /"), false),
            ("Edit(*.rs)", "Edit", Some("/a/b.rs"), true),
            ("Edit(*.rs)", "Edit", Some("/a/b.rsx"), false),
            ("Edit(*.rs)", "Edit", None, true),
        ] {
            let condition = CallCondition::parse(text).unwrap();
            let subjects = subject.map(|subject| vec![subject.to_owned()]);
            assert_eq!(
                condition.matches(&[tool], subjects.as_deref()),
                expected,
                "{text} {subject:?}"
            );
        }
        assert!(CallCondition::parse("Bash(git").is_err());
        assert!(CallCondition::parse("(git)").is_err());
    }
}
