//! Patterns for the names of the files that a search includes.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// A glob pattern, and the folder in which its search begins.
///
/// The fixed folders at the beginning of a pattern are taken out of it: `src/**/*.rs` walks only `src`, and a pattern
/// that begins with the name of an ignored folder searches that.
#[derive(Debug)]
pub(crate) struct GlobPattern {
    /// The fixed beginning, which may be absolute or empty.
    pub(super) base: PathBuf,
    matcher: GlobMatcher,
    /// True if only the file name is matched, at any depth.
    is_name: bool,
}

impl GlobPattern {
    /// Parses a pattern. A pattern without a slash matches file names at any depth.
    pub(super) fn parse(pattern: &str) -> Result<Self, String> {
        if pattern.trim().is_empty() {
            return Err("the pattern is empty; give one such as **/*.rs".to_owned());
        }
        let (base, rest) = split_base(pattern);
        // A folder means everything in it.
        let rest = if rest.is_empty() { "**" } else { rest };
        let matcher = GlobBuilder::new(rest)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| format!("the pattern is not a glob: {}", error.kind()))?
            .compile_matcher();
        Ok(Self { is_name: !pattern.contains('/'), base, matcher })
    }

    /// Returns true if a path relative to the base matches.
    pub(super) fn matches(&self, relative: &Path) -> bool {
        if self.is_name {
            relative.file_name().is_some_and(|name| self.matcher.is_match(name))
        } else {
            self.matcher.is_match(relative)
        }
    }
}

/// Splits a pattern at the last slash before anything that is not a plain name.
fn split_base(pattern: &str) -> (PathBuf, &str) {
    let special = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let plain = &pattern[..special];
    let Some(slash) = plain.rfind('/') else { return (PathBuf::new(), pattern) };
    let (base, rest) = pattern.split_at(slash + 1);
    (PathBuf::from(base), rest)
}

/// A filter of file names, in the form in which tools of other vendors take it: `!` precedes patterns to leave out.
#[derive(Debug, Default)]
pub(super) struct NameFilter {
    included: Vec<GlobPattern>,
    excluded: Vec<GlobPattern>,
}

impl NameFilter {
    /// Parses one pattern, or several separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for part in split_commas(text) {
            let (part, list) = match part.strip_prefix('!') {
                Some(part) => (part, &mut filter.excluded),
                None => (part, &mut filter.included),
            };
            list.push(GlobPattern::parse(part.trim_start_matches("./"))?);
        }
        Ok(filter)
    }

    /// Returns true if a path relative to the root of the search passes.
    pub(super) fn passes(&self, relative: &Path) -> bool {
        let any =
            |patterns: &[GlobPattern]| patterns.iter().any(|pattern| below(pattern, relative));
        (self.included.is_empty() || any(&self.included)) && !any(&self.excluded)
    }
}

/// Returns true if a path is below the base of the pattern and the rest of it matches.
fn below(pattern: &GlobPattern, relative: &Path) -> bool {
    let base = pattern.base.components().filter(|part| matches!(part, Component::Normal(_)));
    relative.strip_prefix(base.collect::<PathBuf>()).is_ok_and(|rest| pattern.matches(rest))
}

/// Splits at commas that are not inside braces.
fn split_commas(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|char| {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        char == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_beginning_of_a_pattern_is_where_the_search_begins() {
        for (pattern, base, rest) in [
            ("**/*.rs", "", "**/*.rs"),
            ("src/**/*.rs", "src/", "**/*.rs"),
            ("/a/b/c*.rs", "/a/b/", "c*.rs"),
            ("../x/y.rs", "../x/", "y.rs"),
            ("{a,b}/c", "", "{a,b}/c"),
            ("a.rs", "", "a.rs"),
        ] {
            assert_eq!(split_base(pattern), (PathBuf::from(base), rest));
        }
    }

    #[test]
    fn a_pattern_without_a_slash_matches_names_at_any_depth() {
        for (pattern, path, matches) in [
            ("*.rs", "a/b/c.rs", true),
            ("**/*.rs", "c.rs", true),
            ("src/*.rs", "c.rs", true),
            ("src/*.rs", "deep/c.rs", false),
            ("src/", "deep/c.rs", true),
            ("*.{ts,tsx}", "a/b.tsx", true),
            (".env*", "a/.env.local", true),
        ] {
            assert_eq!(
                GlobPattern::parse(pattern).unwrap().matches(Path::new(path)),
                matches,
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_filter_takes_several_patterns_and_exceptions() {
        for (filter, path, passes) in [
            ("*.rs, *.toml", "a/Cargo.toml", true),
            ("*.{rs,md}", "a.md", true),
            ("*.rs,!*_test.rs", "a_test.rs", false),
            ("!vendor/**", "vendor/a/b.rs", false),
            ("!vendor/**", "src/b.rs", true),
            ("src/**/*.rs", "src/a/b.rs", true),
            ("./src/*.rs", "src/b.rs", true),
            ("src/**", "lib/b.rs", false),
        ] {
            assert_eq!(
                NameFilter::parse(filter).unwrap().passes(Path::new(path)),
                passes,
                "{filter}"
            );
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        assert!(GlobPattern::parse("a{b").unwrap_err().contains("not a glob"));
        assert!(NameFilter::parse("*.rs,[").is_err());
    }
}
