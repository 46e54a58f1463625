//! The roles of the parts of code, by the grammars of Sublime Text.

use std::{ops::Range, sync::OnceLock};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::styled_text::TextRole;

/// The parts of a line and their roles.
pub(super) type LineRoles = Vec<(Range<usize>, TextRole)>;

/// Length in bytes of the longest line that is read: a line of minified code would take seconds.
const LONGEST_LINE: usize = 256;

/// Kinds of scopes and their roles. The innermost scope of a part that is listed decides; of several, the first.
const ROLES: [(&str, TextRole); 24] = [
    ("comment", TextRole::Comment),
    ("string", TextRole::StringLiteral),
    ("constant.character", TextRole::StringLiteral),
    ("constant.numeric", TextRole::Number),
    ("constant.language", TextRole::Number),
    ("punctuation.definition.string", TextRole::StringLiteral),
    ("punctuation.definition.comment", TextRole::Comment),
    ("keyword.operator", TextRole::Plain),
    ("keyword", TextRole::Keyword),
    ("storage.type.function", TextRole::Keyword),
    ("storage", TextRole::Keyword),
    ("variable.language", TextRole::Keyword),
    ("entity.name.function", TextRole::Function),
    ("support.function", TextRole::Function),
    ("variable.function", TextRole::Function),
    ("entity.name.tag", TextRole::Keyword),
    ("entity.other.attribute-name", TextRole::Type),
    ("entity.name", TextRole::Type),
    ("entity.other.inherited-class", TextRole::Type),
    ("support.type", TextRole::Type),
    ("support.class", TextRole::Type),
    ("markup.inserted", TextRole::Added),
    ("markup.deleted", TextRole::Removed),
    ("meta.interpolation", TextRole::Plain),
];

fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(two_face::syntax::extra_newlines)
}

fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let language = match language.to_ascii_lowercase().as_str() {
        "shell" | "console" | "shell-session" => "sh".to_owned(),
        "jsonc" | "json5" => "json".to_owned(),
        other => other.to_owned(),
    };
    syntaxes().find_syntax_by_token(&language)
}

/// Finds the roles of code line by line. What it knows of a line depends on the lines before only.
#[derive(Debug)]
pub(super) struct Highlighter {
    /// None after an error of the grammar.
    state: Option<(ParseState, ScopeStack)>,
}

impl Highlighter {
    /// Creates a highlighter for a language by its name or the extension of its files. Returns `None` if the language is not
    /// known. The first call reads the grammars, for 5 ms.
    pub(super) fn new(language: &str) -> Option<Self> {
        let state = (ParseState::new(syntax(language)?), ScopeStack::new());
        Some(Self { state: Some(state) })
    }

    /// Returns the parts of the next line and their roles.
    pub(super) fn roles(&mut self, line: &str) -> LineRoles {
        let all = 0..line.len();
        let Some((state, stack)) = &mut self.state else { return vec![(all, TextRole::Code)] };
        if line.len() > LONGEST_LINE {
            return vec![(all, TextRole::Plain)];
        }
        let Ok(operations) = state.parse_line(&format!("{line}\n"), syntaxes()) else {
            self.state = None;
            return vec![(all, TextRole::Code)];
        };
        let mut roles = Vec::new();
        let mut start = 0;
        for (position, operation) in operations {
            let end = position.min(line.len());
            if end > start {
                roles.push((start..end, role(stack)));
                start = end;
            }
            if stack.apply(&operation).is_err() {
                self.state = None;
                roles.push((start..line.len(), TextRole::Plain));
                return roles;
            }
        }
        roles.push((start..line.len(), role(stack)));
        roles
    }
}

fn roles() -> &'static [(Scope, TextRole)] {
    static SCOPES: OnceLock<Vec<(Scope, TextRole)>> = OnceLock::new();
    let scope = |(kind, role): &(&str, TextRole)| Some((Scope::new(kind).ok()?, *role));
    SCOPES.get_or_init(|| ROLES.iter().filter_map(scope).collect())
}

fn role(stack: &ScopeStack) -> TextRole {
    let scope_role = |scope: &Scope| {
        roles().iter().find(|(kind, _)| kind.is_prefix_of(*scope)).map(|(_, role)| *role)
    };
    stack.scopes.iter().rev().find_map(scope_role).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn all_scopes_of_roles_are_valid() {
        assert_eq!(roles().len(), ROLES.len());
    }

    /// Panics if a grammar takes long for a line that is made for it; the first time compiles regular expressions.
    fn assert_swift(language: &str) {
        #[rustfmt::skip]
        let lines = ["(", "((a,", "<a ", "a b=\"", "{[", "\\", "a.b::c ", "/*", "'", "%$#@", " ", "aA1_", "$(("];
        for line in lines {
            let line = line.repeat(LONGEST_LINE / line.len());
            let Some(mut first) = Highlighter::new(language) else { return };
            first.roles(&line);
            let mut highlighter = Highlighter::new(language).unwrap();
            let start = Instant::now();
            highlighter.roles(&line);
            assert!(start.elapsed() < Duration::from_secs(1), "{language}: {line}");
        }
    }

    #[test]
    fn names_and_extensions_of_common_languages_are_known() {
        for language in [
            "rust",
            "python",
            "ts",
            "tsx",
            "js",
            "go",
            "c",
            "c++",
            "java",
            "bash",
            "json",
            "yaml",
            "toml",
            "sql",
            "html",
            "css",
            "less",
            "diff",
            "dockerfile",
            "xml",
            "makefile",
        ] {
            assert!(Highlighter::new(language).is_some(), "{language}");
        }
    }

    /// Tests each third language, from `first` on: all of them take longer than a test may.
    fn assert_third_swift(first: usize) {
        for syntax in syntaxes().syntaxes().iter().skip(first).step_by(3) {
            assert_swift(&syntax.name);
        }
    }

    #[test]
    fn hostile_lines_of_the_first_third_of_languages_do_not_take_long() {
        assert_third_swift(0);
    }

    #[test]
    fn hostile_lines_of_the_second_third_of_languages_do_not_take_long() {
        assert_third_swift(1);
    }

    #[test]
    fn hostile_lines_of_the_last_third_of_languages_do_not_take_long() {
        assert_third_swift(2);
    }
}
