//! What git does next: a rebase or a cherry-pick that has stopped keeps it in files, and some of them name programs.
//!
//! Git writes these files all the time and removes them in the end, so nothing may hold them. Their words are compared
//! instead. A list of a rebase (`git-rebase-todo`) starts a program only by its lines with `exec`; without those lines it
//! is still a list, and the rebase can go on. A strategy that is none of git's own is a program, `git-merge-<strategy>`.
//! The other files beside them hold names of commits, messages and patches.

use std::{collections::BTreeSet, path::Path};

use super::git_config;

/// The files, as seen from the directory of a worktree.
pub(super) const FILES: [&str; 3] = [LIST, "rebase-merge/strategy", "sequencer/opts"];
/// Directories of such files.
pub(super) const FOLDERS: [&str; 2] = ["rebase-merge", "sequencer"];
const LIST: &str = "rebase-merge/git-rebase-todo";
/// The strategies that are no programs of others.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Returns whether a file is the list of a rebase.
pub(super) fn is_list(path: &Path) -> bool {
    path.ends_with(LIST)
}

/// Returns what a file would start.
pub(super) fn programs(path: &Path, bytes: &[u8]) -> BTreeSet<String> {
    if is_list(path) {
        return lines(bytes).filter_map(command).collect();
    }
    let text = String::from_utf8_lossy(bytes);
    let named = if path.ends_with("sequencer/opts") {
        match git_config::parse(&text) {
            Ok(settings) => settings
                .into_iter()
                .filter(|setting| setting.is("options", "strategy"))
                .map(|setting| setting.value)
                .collect(),
            Err(git_config::NotSettings) => vec![text.into_owned()],
        }
    } else {
        vec![text.trim_end_matches('\n').to_owned()]
    };
    let is_own = |name: &String| STRATEGIES.contains(&name.as_str()) || name.is_empty();
    named.into_iter().filter(|name| !is_own(name)).collect()
}

/// Returns a list of a rebase with no other commands than those that are `known`.
pub(super) fn without_new_programs(list: &[u8], known: &BTreeSet<String>) -> Vec<u8> {
    lines(list)
        .filter(|line| command(line).is_none_or(|command| known.contains(&command)))
        .collect::<Vec<_>>()
        .concat()
}

/// The lines, each with its end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// Returns the command of a shell that a line of a list is.
fn command(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let line = text.trim();
    let word = line.split_whitespace().next().unwrap_or_default();
    matches!(word, "exec" | "x").then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        programs(Path::new(path), text.as_bytes()).into_iter().collect()
    }

    #[test]
    fn only_lines_with_exec_are_programs_of_a_list() {
        let list = "pick 1 exec\n# exec no\n  x  make\t test\nexec\tfalse\r\nbreak\nmerge -C 2 x\nexecute y\n";
        assert_eq!(
            names(".git/rebase-merge/git-rebase-todo", list),
            ["exec\tfalse", "x  make\t test"]
        );
        let known = BTreeSet::from(["exec\tfalse".to_owned()]);
        let rest = without_new_programs(list.as_bytes(), &known);
        assert_eq!(String::from_utf8(rest).unwrap(), list.replace("  x  make\t test\n", ""));
    }

    #[test]
    fn strategies_that_are_not_of_git_are_programs() {
        assert_eq!(names("rebase-merge/strategy", "ort\n"), [""; 0]);
        assert_eq!(names("rebase-merge/strategy", "/x"), ["/x"]);
        assert_eq!(
            names("sequencer/opts", "[options]\n\tedit = true\n\tstrategy = resolve\n"),
            [""; 0]
        );
        assert_eq!(names("sequencer/opts", "[Options]\n\tstrategy = x\n"), ["x"]);
        assert_eq!(names("sequencer/opts", "[options"), ["[options"]);
    }
}
