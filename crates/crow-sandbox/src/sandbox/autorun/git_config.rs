//! Parser for git's configuration files, with git's own rules.

use std::ops::Range;

/// One setting of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GitSetting {
    /// Section in lower case: `core`.
    pub section: String,
    /// Subsection: `origin` of `[remote "origin"]`.
    pub subsection: String,
    /// Key in lower case: `url`.
    pub key: String,
    /// Value; empty for a key without one.
    pub value: String,
}

/// Error for an invalid file. Git rejects such a file as well, but it may be repaired later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotSettings;

/// Keys that start no program and name no other file or repository.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "worktree",
            "autocrlf",
            "eol",
            "safecrlf",
            "quotepath",
            "abbrev",
        ],
    ),
    ("extensions", &["objectformat", "refstorage", "worktreeconfig", "partialclone"]),
    (
        "remote",
        &["url", "pushurl", "fetch", "push", "prune", "tagopt", "promisor", "partialclonefilter"],
    ),
    ("branch", &["remote", "merge", "rebase", "pushremote", "description", "autosetuprebase"]),
    ("submodule", &["active", "url", "branch", "ignore"]),
    ("user", &[]),
    ("author", &[]),
    ("committer", &[]),
    ("pull", &["rebase", "ff"]),
    ("push", &["default", "autosetupremote"]),
    ("fetch", &["prune"]),
    ("init", &["defaultbranch"]),
    ("advice", &[]),
    ("color", &[]),
];
/// Sections in which every key is harmless.
const HARMLESS_SECTIONS: [&str; 5] = ["user", "author", "committer", "advice", "color"];

impl GitSetting {
    /// Returns true if the setting can neither start a program nor direct git to other files.
    pub(super) fn is_harmless(&self) -> bool {
        let Some((section, keys)) = HARMLESS.iter().find(|(name, _)| *name == self.section) else {
            return false;
        };
        // Exceptions by value: `[submodule "x"] update = !command` starts a command; a transport helper
        // (`ext::`) is a program; a URL that begins with a dash is taken as an option by the program that
        // gets it.
        let value = self.value.trim_start();
        let is_plain = !value.contains("::") && !value.starts_with(['-', '!']);
        is_plain && (HARMLESS_SECTIONS.contains(section) || keys.contains(&self.key.as_str()))
    }

    /// Returns true if the setting includes another configuration file.
    pub(super) fn is_include(&self) -> bool {
        self.key == "path" && self.section.starts_with("include")
    }

    /// Returns true if the setting names the worktree of the repository.
    pub(super) fn is_worktree(&self) -> bool {
        self.is("core", "worktree")
    }

    /// Returns true if the setting names a file that git reads and does not run.
    pub(super) fn names_data(&self) -> bool {
        matches!(
            (self.section.as_str(), self.key.as_str()),
            ("core", "excludesfile" | "attributesfile")
                | ("commit", "template")
                | ("blame", "ignorerevsfile")
        )
    }

    /// Returns true if the setting is an alias for a git command: it starts nothing that git does not start
    /// itself.
    pub(super) fn is_git_alias(&self) -> bool {
        self.section == "alias" && !self.value.trim_start().starts_with('!')
    }

    /// Returns true if the setting is `section.key`, in any subsection.
    pub(super) fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.key == key
    }
}

/// Parses all settings, in their order.
///
/// # Errors
///
/// [`NotSettings`] if git would reject the file.
pub(super) fn parse(text: &str) -> Result<Vec<GitSetting>, NotSettings> {
    let text = plain(text);
    let placed = parse_placed(&text)?;
    Ok(placed.into_iter().map(|(setting, _)| setting).collect())
}

/// Returns the text without the settings for which `is_left_out` returns true.
///
/// # Errors
///
/// As [`parse`].
pub(super) fn remove_settings(
    text: &str,
    is_left_out: impl Fn(&GitSetting) -> bool,
) -> Result<String, NotSettings> {
    let text = plain(text);
    let mut rest = String::new();
    let mut from = 0;
    for (setting, place) in parse_placed(&text)? {
        if !is_left_out(&setting) {
            continue;
        }
        let before = &text[from..place.start];
        let indented = before.trim_end_matches([' ', '\t']);
        let has_own_line = indented.is_empty() || indented.ends_with('\n');
        rest.push_str(if has_own_line { indented } else { before });
        if !has_own_line {
            rest.push('\n');
        }
        from = place.end;
    }
    rest.push_str(&text[from..]);
    Ok(rest)
}

fn plain(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// Parses settings with their byte ranges in the text: from the key to behind the end of the line.
fn parse_placed(text: &str) -> Result<Vec<(GitSetting, Range<usize>)>, NotSettings> {
    let mut parser = GitConfigParser { rest: text };
    let mut settings = Vec::new();
    let mut section: Option<(String, String)> = None;
    loop {
        let start = text.len() - parser.rest.len();
        match parser.next() {
            None => return Ok(settings),
            Some('#' | ';') => parser.skip_line(),
            Some('[') => section = Some(parser.section()?),
            Some(next) if next.is_ascii_whitespace() => {}
            Some(next) if next.is_ascii_alphabetic() => {
                let (section, subsection) = section.clone().ok_or(NotSettings)?;
                let (key, value) = parser.setting(next)?;
                let end = text.len() - parser.rest.len();
                settings.push((GitSetting { section, subsection, key, value }, start..end));
            }
            Some(_) => return Err(NotSettings),
        }
    }
}

struct GitConfigParser<'a> {
    rest: &'a str,
}

impl GitConfigParser<'_> {
    fn next(&mut self) -> Option<char> {
        self.next_if(|_| true)
    }

    fn next_if(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next().filter(|next| is_wanted(*next))?;
        self.rest = rest.as_str();
        Some(next)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|next| next != '\n') {}
    }

    /// Parses from behind `[` to behind `]`. `[a.b]` and `[a "b"]` are the same section, except that case
    /// counts in quotes only.
    fn section(&mut self) -> Result<(String, String), NotSettings> {
        let mut name = String::new();
        loop {
            match self.next().ok_or(NotSettings)? {
                ']' => {
                    let (section, subsection) = name.split_once('.').unwrap_or((&name, ""));
                    return Ok((section.to_owned(), subsection.to_owned()));
                }
                next if next.is_ascii_whitespace() && next != '\n' => {
                    return Ok((name, self.quoted_subsection()?));
                }
                next if next.is_ascii_alphanumeric() || next == '-' || next == '.' => {
                    name.push(next.to_ascii_lowercase());
                }
                _ => return Err(NotSettings),
            }
        }
    }

    fn quoted_subsection(&mut self) -> Result<String, NotSettings> {
        loop {
            match self.next().ok_or(NotSettings)? {
                '"' => break,
                next if next.is_ascii_whitespace() && next != '\n' => {}
                _ => return Err(NotSettings),
            }
        }
        let mut name = String::new();
        loop {
            match self.next().ok_or(NotSettings)? {
                '"' => break,
                '\n' => return Err(NotSettings),
                '\\' => {
                    let escaped = self.next().filter(|next| *next != '\n');
                    name.push(escaped.ok_or(NotSettings)?);
                }
                next => name.push(next),
            }
        }
        if self.next() == Some(']') { Ok(name) } else { Err(NotSettings) }
    }

    fn setting(&mut self, first: char) -> Result<(String, String), NotSettings> {
        let mut key = String::from(first.to_ascii_lowercase());
        while let Some(next) = self.next_if(|next| next.is_ascii_alphanumeric() || next == '-') {
            key.push(next.to_ascii_lowercase());
        }
        while self.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
        match self.next() {
            None | Some('\n') => Ok((key, String::new())),
            Some('=') => Ok((key, self.value()?)),
            Some(_) => Err(NotSettings),
        }
    }

    fn value(&mut self) -> Result<String, NotSettings> {
        let mut value = String::new();
        // Length without unquoted whitespace at the end, which is cut off.
        let mut trimmed_length = 0;
        let mut is_quoted = false;
        loop {
            match self.next() {
                None | Some('\n') if is_quoted => return Err(NotSettings),
                None | Some('\n') => break,
                Some('#' | ';') if !is_quoted => {
                    self.skip_line();
                    break;
                }
                Some('"') => {
                    is_quoted = !is_quoted;
                    trimmed_length = value.len();
                }
                Some('\\') => {
                    match self.next() {
                        // A backslash at the end of a line continues the value.
                        Some('\n') => continue,
                        Some('t') => value.push('\t'),
                        Some('b') => value.push('\u{8}'),
                        Some('n') => value.push('\n'),
                        Some(escaped @ ('\\' | '"')) => value.push(escaped),
                        _ => return Err(NotSettings),
                    }
                    trimmed_length = value.len();
                }
                Some(next) if next.is_ascii_whitespace() && !is_quoted => {
                    if !value.is_empty() {
                        value.push(next);
                    }
                }
                Some(next) => {
                    value.push(next);
                    trimmed_length = value.len();
                }
            }
        }
        value.truncate(trimmed_length);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flat(text: &str) -> Option<Vec<String>> {
        let settings = parse(text).ok()?;
        let name = |setting: GitSetting| {
            let GitSetting { section, subsection, key, value } = setting;
            format!("{section}/{subsection}/{key}={value}")
        };
        Some(settings.into_iter().map(name).collect())
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        for (text, expected) in [
            ("[core]\n\tbare = false\n", &["core//bare=false"][..]),
            ("[CORE]Bare=x", &["core//bare=x"]),
            ("[core] fsmonitor = evil", &["core//fsmonitor=evil"]),
            ("[a \"B c\\\"d\"]\nk", &["a/B c\"d/k="]),
            ("[a.B]\nk = v", &["a/b/k=v"]),
            ("[a]\nk = one\\\n two ; no\n", &["a//k=one two"]),
            ("[a]\nk = \" x \" y  # no\nj", &["a//k= x  y", "a//j="]),
            ("# c\n; c\n[a] # c\nk=1\r\n", &["a//k=1"]),
            ("\u{feff}[a]\nk=\"#;\"", &["a//k=#;"]),
            ("[a]\nk = a\\tb\\\\", &["a//k=a\tb\\"]),
        ] {
            assert_eq!(flat(text).unwrap(), expected, "{text:?}");
        }
        for bad in [
            "k = v",
            "[core",
            "[a]\nk = \"x\n",
            "[a]\n=x",
            "[a]\nk v",
            "[a]\nk = \\x",
            "[a \"b\" c]\nk",
            "[a\n]k",
        ] {
            assert_eq!(flat(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn settings_are_removed_with_their_lines() {
        let evil = |setting: &GitSetting| setting.value.starts_with("evil");
        for (text, expected) in [
            ("[a]\n\tb = c\n\td = evil\n\te = f\n", "[a]\n\tb = c\n\te = f\n"),
            ("[a] d = evil\n\te = f\n", "[a] \n\te = f\n"),
            ("[a]\nd = evil \\\n more ; no\n[b]\nc = \"evil\"", "[a]\n[b]\n"),
            ("[a]\r\n\td = evil\r\n\te = f\r\n", "[a]\n\te = f\n"),
        ] {
            assert_eq!(remove_settings(text, evil).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn only_known_keys_with_plain_values_are_harmless() {
        let is_harmless =
            |text: &str| parse(text).is_ok_and(|all| all.iter().all(GitSetting::is_harmless));
        assert!(is_harmless(
            "[core]\nbare = false\n[remote \"origin\"]\nurl = https://example.org/x\nfetch = +refs/heads/*:refs/remotes/origin/*\n[user]\nname = a\n[advice]\ndetachedHead = false"
        ));
        for line in [
            "[core]\nfsmonitor = evil",
            "[alias]\nst = !evil",
            "[core]\nhooksPath = x",
            "[include]\npath = x",
            "[includeIf \"gitdir:x\"]\npath = x",
            "[remote \"o\"]\nurl = ext::sh -c evil",
            "[remote \"o\"]\nurl = --upload-pack=evil",
            "[remote \"o\"]\nuploadpack = evil",
            "[remote \"o\"]\nvcs = evil",
            "[submodule \"o\"]\nupdate = !evil",
            "[filter \"x\"]\nclean = evil",
            "[core]\nsshCommand = evil",
            "[core]\nfsmonitor",
        ] {
            assert!(!is_harmless(line), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\]a-z\"\\\\#; =\n\t.]{0,60}") {
            let _settings = parse(&text);
            let rest = remove_settings(&text, |setting| setting.key.len() % 2 == 0);
            let _again = rest.map(|rest| parse(&rest));
        }
    }
}
