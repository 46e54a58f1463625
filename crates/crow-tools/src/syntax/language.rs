//! The languages that are checked.

use std::path::Path;

use tree_sitter::Language;

/// A language that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceLanguage {
    /// Checked by a grammar of tree-sitter.
    Code(CodeLanguage),
    /// Checked by a parser of the format.
    Data(DataFormat),
}

/// A language with a grammar of tree-sitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeLanguage {
    Go,
    /// With JSX.
    JavaScript,
    Python,
    Shell,
    /// Without JSX.
    TypeScript,
    /// With JSX.
    Tsx,
}

/// A format of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFormat {
    Json,
    Toml,
}

impl SourceLanguage {
    /// Returns the language of a file by its extension. Templates and files of other dialects have other extensions.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let language = match path.extension()?.to_str()? {
            "go" => Self::Code(CodeLanguage::Go),
            "js" | "cjs" | "mjs" | "jsx" => Self::Code(CodeLanguage::JavaScript),
            "py" | "pyi" => Self::Code(CodeLanguage::Python),
            "sh" | "bash" => Self::Code(CodeLanguage::Shell),
            "ts" | "cts" | "mts" => Self::Code(CodeLanguage::TypeScript),
            "tsx" => Self::Code(CodeLanguage::Tsx),
            "json" | "ipynb" => Self::Data(DataFormat::Json),
            "toml" => Self::Data(DataFormat::Toml),
            _ => return None,
        };
        Some(language)
    }

    /// Returns true if errors in new files are told. The grammar of the shell rejects a few valid scripts of a
    /// hundred, so only what was valid before says that the grammar fits.
    pub(super) fn covers_new_files(self) -> bool {
        match self {
            Self::Code(CodeLanguage::Shell) => false,
            Self::Code(
                CodeLanguage::Go
                | CodeLanguage::JavaScript
                | CodeLanguage::Python
                | CodeLanguage::TypeScript
                | CodeLanguage::Tsx,
            )
            | Self::Data(DataFormat::Json | DataFormat::Toml) => true,
        }
    }
}

impl CodeLanguage {
    /// Returns the grammar. That of TSX serves all dialects of JavaScript: each of them would add as much to the program.
    pub(super) fn grammar(self) -> Language {
        match self {
            Self::Go => tree_sitter_go::LANGUAGE.into(),
            Self::JavaScript | Self::TypeScript | Self::Tsx => {
                tree_sitter_typescript::LANGUAGE_TSX.into()
            }
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::Shell => tree_sitter_bash::LANGUAGE.into(),
        }
    }

    /// Returns true if the grammar must not be applied to a text.
    pub(super) fn is_unsafe_for(self, text: &str) -> bool {
        match self {
            Self::Shell => crow_shell::overruns_bash_grammar(text),
            Self::Go | Self::JavaScript | Self::Python | Self::TypeScript | Self::Tsx => false,
        }
    }

    /// Returns true if a text may be valid although the grammar rejects it.
    pub(super) fn is_wider_than_grammar(self, text: &str) -> bool {
        match self {
            Self::TypeScript => has_leading_angle_bracket(text),
            Self::Go | Self::JavaScript | Self::Python | Self::Shell | Self::Tsx => false,
        }
    }
}

/// Returns true if an expression may begin with `<`: a cast (`<T>x`) or a generic arrow function (`<T>(x: T) => x`),
/// which would be JSX in TSX.
fn has_leading_angle_bracket(text: &str) -> bool {
    text.match_indices('<').any(|(at, _)| {
        let before = text[..at].trim_end();
        let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '$');
        let starts_name = text[at + 1..].starts_with(is_name);
        let word = before.rsplit(|char: char| !is_name(char)).next().unwrap_or_default();
        let follows_operand = before
            .ends_with(|char: char| is_name(char) || ")]>.<".contains(char))
            && !["return", "async", "await", "yield", "default", "case"].contains(&word);
        let follows_arrow = before.ends_with("=>");
        starts_name && (!follows_operand || follows_arrow)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_extensions_are_checked() {
        for name in ["a.py.j2", "a.PY", "py", "a.h", "a.json5", "a.jsonl", "a.ts.erb", ".py", "a"] {
            assert_eq!(SourceLanguage::of_path(Path::new(name)), None, "{name}");
        }
        assert_eq!(
            SourceLanguage::of_path(Path::new("/p/a.b.mts")),
            Some(SourceLanguage::Code(CodeLanguage::TypeScript))
        );
    }

    #[test]
    fn casts_and_generic_arrow_functions_are_recognised() {
        for (text, is_leading) in [
            ("const a = <T>(x: T) => x;", true),
            ("return <Foo>bar;", true),
            ("f(<any>x)", true),
            ("x => <T>x", true),
            ("async <T>(x: T) => x", true),
            ("const a: Array<Map<string, T>> = b;", false),
            ("function f<T>(x: T) {}", false),
            ("a < b && c <d", false),
            ("x << y", false),
        ] {
            assert_eq!(has_leading_angle_bracket(text), is_leading, "{text}");
        }
    }
}
