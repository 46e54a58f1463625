//! State files of an interrupted rebase or cherry-pick, which may name programs that git starts when it
//! continues.
//!
//! Git writes these files all the time and finally removes them, so they cannot be sealed. Instead their
//! entries are compared. The list of a rebase (`git-rebase-todo`) starts programs only by lines with
//! `exec`; without those lines it is still a valid list, and the rebase can continue. A strategy that is
//! not built into git is a program, `git-merge-<strategy>`. The other files next to them contain commit
//! names, messages and patches.

use std::{collections::BTreeSet, path::Path};

use super::git_config;

/// State files, relative to the git directory of a worktree.
pub(super) const FILES: [&str; 3] = [LIST, "rebase-merge/strategy", "sequencer/opts"];
const LIST: &str = "rebase-merge/git-rebase-todo";
/// Strategies that are built into git.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// Returns true if a path is the list of a rebase.
pub(super) fn is_list(path: &Path) -> bool {
    path.ends_with(LIST)
}

/// Returns the programs that a state file would start: `exec` lines of a list, or names of strategies.
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

/// Returns the list of a rebase without commands other than those in `known`.
pub(super) fn without_new_programs(list: &[u8], known: &BTreeSet<String>) -> Vec<u8> {
    lines(list)
        .filter(|line| command(line).is_none_or(|command| known.contains(&command)))
        .collect::<Vec<_>>()
        .concat()
}

/// Returns the lines, each with its line end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

/// Returns the trimmed line if it is an `exec` line of a list.
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
    fn only_exec_lines_of_a_list_are_programs() {
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
    fn strategies_not_built_into_git_are_programs() {
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
