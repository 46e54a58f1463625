//! The roles of the parts of code, by the grammars of Sublime Text.

use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::styled_text::TextRole;

/// Length in bytes of the longest line that is read: a line of minified code would take seconds.
const LONGEST_LINE: usize = 256;
/// Grammars that are not used: their regular expressions take seconds for lines that are made for it.
const SLOW_GRAMMARS: [&str; 1] = ["SystemVerilog"];

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
        "" | "text" | "txt" | "plain" | "plaintext" => return None,
        other => other.to_owned(),
    };
    let syntax = syntaxes().find_syntax_by_token(&language)?;
    (!SLOW_GRAMMARS.contains(&syntax.name.as_str())).then_some(syntax)
}

/// Finds the roles of code line by line. What it knows of a line depends on the lines before only.
#[derive(Debug, Clone)]
pub(super) struct Highlighter {
    /// None if the language is not known.
    state: Option<(ParseState, ScopeStack)>,
}

impl Highlighter {
    /// Creates a highlighter for a language by its name or the extension of its files.
    pub(super) fn new(language: &str) -> Self {
        let state = syntax(language).map(|syntax| (ParseState::new(syntax), ScopeStack::new()));
        Self { state }
    }

    /// Returns the parts of the next line and their roles.
    pub(super) fn parts<'a>(&mut self, line: &'a str) -> Vec<(&'a str, TextRole)> {
        let Some((state, stack)) = &mut self.state else { return vec![(line, TextRole::Code)] };
        if line.len() > LONGEST_LINE {
            return vec![(line, TextRole::Plain)];
        }
        let Ok(operations) = state.parse_line(&format!("{line}\n"), syntaxes()) else {
            self.state = None;
            return vec![(line, TextRole::Code)];
        };
        let mut parts = Vec::new();
        let mut start = 0;
        for (position, operation) in operations {
            let end = position.min(line.len());
            if end > start {
                parts.push((&line[start..end], role(stack)));
                start = end;
            }
            if stack.apply(&operation).is_err() {
                self.state = None;
                parts.push((&line[start..], TextRole::Plain));
                return parts;
            }
        }
        parts.push((&line[start..], role(stack)));
        parts
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
            Highlighter::new(language).parts(&line);
            let mut highlighter = Highlighter::new(language);
            let start = Instant::now();
            highlighter.parts(&line);
            assert!(start.elapsed() < Duration::from_secs(1), "{language}: {line}");
        }
    }

    #[test]
    fn names_and_extensions_of_common_languages_are_known() {
        for language in ["rust", "python", "ts", "c++", "bash", "json", "html", "less", "diff"] {
            assert!(Highlighter::new(language).state.is_some(), "{language}");
        }
    }

    #[test]
    fn hostile_lines_of_all_languages_do_not_take_long() {
        for syntax in syntaxes().syntaxes() {
            assert_swift(&syntax.name);
        }
    }
}
