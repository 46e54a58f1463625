//! Commands of git through which a file that may not be read can be read under another name.
//!
//! Git stores each file under its hash, and lists the hashes without showing contents. So a command that prints an
//! object, writes it to a file, or gives it another name may show any file that was ever committed: it counts as a read
//! of everything in the repository. The tables here only add accesses to a command, never remove them.

use super::{git::shows_contents, options::option_name};

/// Subcommands that print objects, write them to files or packs, or give them other names, with any arguments.
const ALWAYS: [&str; 27] = [
    "am",
    "archive",
    "bundle",
    "checkout-index",
    "clone",
    "commit-tree",
    "diagnose",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch-pack",
    "filter-branch",
    "format-patch",
    "http-backend",
    "merge-index",
    "merge-one-file",
    "mktree",
    "pack-objects",
    "read-tree",
    "request-pull",
    "send-email",
    "send-pack",
    "subtree",
    "unpack-file",
    "upload-archive",
    "upload-pack",
    "worktree",
];

/// Returns whether a subcommand may show the content of any committed file, or give it another name. `is_folder`
/// returns whether a word names a folder.
pub(super) fn exposes_any(command: &str, rest: &[&str], is_folder: impl Fn(&str) -> bool) -> bool {
    let has = |names: &[&str]| rest.iter().any(|word| names.contains(&option_name(word)));
    let operands: Vec<&str> = rest.iter().copied().filter(|word| !word.starts_with('-')).collect();
    let names_object = || operands.iter().any(|word| may_name_object(word));
    match command {
        "worktree" | "replace" if has(&["-d", "--delete", "-l", "--list", "list"]) => false,
        // A patch can rename files.
        "apply" => has(&["--apply"]) || !has(&["--check", "--numstat", "--stat", "--summary"]),
        // With a tree instead of a commit, files are written to other paths than those they have in the project.
        "checkout" | "reset" => {
            operands.len() > 1 && operands.first().is_some_and(|word| may_name_object(word))
        }
        "restore" => {
            let sources = rest.iter().zip(rest.iter().skip(1));
            let next = sources.filter(|(word, _)| matches!(**word, "-s" | "--source"));
            let same = rest.iter().filter_map(|word| {
                word.strip_prefix("--source=").or_else(|| word.strip_prefix("-s"))
            });
            next.map(|(_, source)| *source).chain(same).any(may_name_object)
        }
        "merge-file" => has(&["--object-id"]),
        "merge-tree" => has(&["--trivial-merge"]) || operands.len() > 2,
        // Any repository, and the other one's files would be checked out below another folder.
        "fetch" | "pull" | "push" | "submodule" => {
            operands.iter().any(|word| is_local(word, &is_folder))
        }
        "remote" => {
            has(&["add", "set-url"]) && operands.iter().any(|word| is_local(word, &is_folder))
        }
        "replace" | "update-ref" => names_object() || operands.len() > 1,
        "tag" => names_object() || shows_contents(command, rest),
        "update-index" => has(&["--cacheinfo", "--index-info"]),
        command => ALWAYS.contains(&command) || shows_contents(command, rest),
    }
}

/// Returns whether variables make git work with another repository, index or folder of files: then it may write the files
/// of the project to other paths.
pub(super) fn is_moved_by(variables: &[String]) -> bool {
    const NAMES: [&str; 6] = [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
    ];
    variables.iter().any(|name| NAMES.contains(&name.as_str()))
}

/// Returns whether a revision may name something else than a commit: a hash, a path in a commit, or a type.
fn may_name_object(revision: &str) -> bool {
    let is_hash = revision.len() >= 4 && revision.chars().all(|char| char.is_ascii_hexdigit());
    is_hash || revision.contains(':') || revision.contains("^{")
}

/// Returns whether the address of a repository leads to a folder of this machine.
fn is_local(address: &str, is_folder: &impl Fn(&str) -> bool) -> bool {
    let is_path = address.starts_with(['.', '/', '~']);
    is_path || address.to_ascii_lowercase().starts_with("file:") || is_folder(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_holds_nothing_twice() {
        assert!(ALWAYS.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn commands_that_show_or_rename_any_object_are_told_from_others() {
        for (line, expected) in [
            ("unpack-file 5ed7b806", true),
            ("read-tree --prefix=z/ -u HEAD", true),
            ("update-index --add --cacheinfo 100644,5ed7,z", true),
            ("update-index --refresh", false),
            ("checkout HEAD:conf -- db.yml", true),
            ("checkout 5ed7b806 -- a.txt", true),
            ("checkout 5ed7b806", false),
            ("checkout HEAD~2 -- a.txt", false),
            ("checkout -- a.txt", false),
            ("restore -s HEAD:conf db.yml", true),
            ("restore --source=HEAD^{tree} a", true),
            ("restore --source HEAD~1 a.txt", false),
            ("reset HEAD:conf -- db.yml", true),
            ("reset --hard HEAD~1", false),
            ("tag t 5ed7b806", true),
            ("tag v1.0", false),
            ("tag -a v1.0 -m x", false),
            ("update-ref refs/tags/t 5ed7b806", true),
            ("replace -l", false),
            ("worktree list", false),
            ("worktree add ../x", true),
            ("apply a.patch", true),
            ("apply --stat a.patch", false),
            ("fetch .. HEAD", true),
            ("fetch origin main", false),
            ("push ./n HEAD", true),
            ("push origin main", false),
            ("remote add o folder", true),
            ("remote add o https://example.org/a", false),
            ("for-each-ref --format=%(raw) refs/tags/t", true),
            ("for-each-ref --format=%(refname)", false),
            ("tag -l --format %(raw)", true),
            ("status", false),
            ("commit -m x", false),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let (command, rest) = words.split_first().unwrap();
            assert_eq!(exposes_any(command, rest, |word| word == "folder"), expected, "{line}");
        }
    }
}
