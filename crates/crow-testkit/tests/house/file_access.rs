//! Check of file accesses by path instead of through `crow-fs`.
//!
//! The target of a path can change between a check and the action after it, because sandboxed commands may create
//! links in a workspace at any time. So runtime, tools, trust and the ACP adapter open, write, move and remove files
//! through `crow-fs`, which follows no links. Every other access is an exception with a reason, and none of them
//! modifies files of a workspace.

use std::collections::BTreeSet;

use crate::{source::words, tree};

/// Sources that work in a workspace.
const COVERED: &[&str] = &[
    "crates/crow-runtime/src/",
    "crates/crow-snapshot/src/",
    "crates/crow-sandbox/src/",
    "crates/crow-shell/src/",
    "crates/crow-edit/src/",
    "crates/crow-tools/src/",
    "crates/crow-agent/src/instructions/",
    "crates/crow-agent/src/prompt/",
    "crates/crow-app/src/trust/",
    "crates/crow-acp/src/",
];

/// Words that always count as an access by path.
const TYPES: &[&str] = &["OpenOptions", "DirBuilder", "CWD", "tempfile"];

/// Functions of a module `fs` that take no path.
const BY_DESCRIPTOR: &[&str] = &["fchown", "fchmod", "fstat", "flock", "fallocate"];

/// Functions of `File` that take a path.
const OF_FILE: &[&str] = &["open", "create", "create_new", "options"];

/// Methods of paths that query the file system.
const METHODS: &[&str] = &[
    "canonicalize",
    "exists",
    "try_exists",
    "is_dir",
    "is_file",
    "is_symlink",
    "symlink_metadata",
    "read_dir",
];

/// Methods of paths that query the file system; with an argument it is another method of the same name.
const METHODS_WITHOUT_ARGUMENT: &[&str] = &["metadata", "read_link"];

/// A file, or a folder with a slash at its end; the permitted accesses, empty for all; and the reason.
type Exception = (&'static str, &'static [&'static str], &'static str);

const EXCEPTIONS: &[Exception] = &[
    // Outside workspaces: the user's data directory, to which no sandboxed command can write.
    (
        "crates/crow-runtime/src/session/",
        &[
            "DirBuilder",
            "File::open",
            "OpenOptions",
            "canonicalize",
            "exists",
            "fs::metadata",
            "fs::read",
            "fs::read_dir",
            "fs::remove_dir",
            "fs::remove_dir_all",
            "fs::rename",
            "is_file",
        ],
        "files of sessions, in the user's data directory",
    ),
    (
        "crates/crow-runtime/src/rule_store.rs",
        &[
            "File::open",
            "OpenOptions",
            "fs::create_dir_all",
            "fs::metadata",
            "fs::remove_file",
            "fs::rename",
            "is_file",
        ],
        "the user's rules, in the user's data directory",
    ),
    (
        "crates/crow-runtime/src/agent/pipeline/output_bound.rs",
        &["OpenOptions", "fs::create_dir_all"],
        "long outputs, in the session's folder of the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/activity.rs",
        &[],
        "locks of the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/job_marks.rs",
        &["File::open", "OpenOptions", "fs::read_to_string", "fs::remove_file", "is_dir"],
        "marks of jobs in the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/counter.rs",
        &["File::open", "OpenOptions"],
        "counters of the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/index.rs",
        &["fs::read", "fs::read_dir", "fs::remove_file"],
        "indexes of the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/objects.rs",
        &[],
        "contents in the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/packs.rs",
        &["File::open", "fs::read", "fs::remove_file", "fs::symlink_metadata", "metadata"],
        "contents in the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/refs.rs",
        &["OpenOptions", "fs::read_to_string", "fs::remove_file"],
        "references of the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/version.rs",
        &["OpenOptions", "fs::read_to_string"],
        "the version of the snapshot store, in the user's data directory",
    ),
    (
        "crates/crow-snapshot/src/undo_in_progress.rs",
        &["File::open", "OpenOptions", "exists", "fs::read_dir", "fs::remove_file"],
        "records of undos, in the snapshot store; what they name is removed through crow-fs",
    ),
    (
        "crates/crow-snapshot/src/write_in_progress.rs",
        &["File::open", "OpenOptions", "exists", "fs::read_dir", "fs::remove_file"],
        "records of calls that write, in the snapshot store; what they left is removed through crow-fs",
    ),
    (
        "crates/crow-runtime/src/changes/stores.rs",
        &["is_dir"],
        "asks whether a snapshot store is there, in the user's data directory",
    ),
    // Resolution of a path before a decision; the access then goes through crow-fs with the resolved path.
    (
        "crates/crow-snapshot/src/capture.rs",
        &["canonicalize"],
        "resolves a path before it is captured",
    ),
    (
        "crates/crow-snapshot/src/store.rs",
        &["canonicalize"],
        "resolves the folder of the user when it is opened",
    ),
    (
        "crates/crow-snapshot/src/store_data.rs",
        &["canonicalize"],
        "resolves its own folder when it is opened",
    ),
    (
        "crates/crow-runtime/src/rule_links.rs",
        &["canonicalize"],
        "resolves paths of rules before they decide",
    ),
    (
        "crates/crow-tools/src/paths.rs",
        &["fs::canonicalize", "fs::read_link", "fs::symlink_metadata"],
        "resolves a path before the call is decided on",
    ),
    (
        "crates/crow-tools/src/shell/working_folder.rs",
        &["canonicalize", "fs::canonicalize", "fs::create_dir_all", "fs::metadata", "is_dir"],
        "resolves the folder that a command starts in; the folder made is the session's own temporary one",
    ),
    (
        "crates/crow-shell/src/effects/",
        &[
            "exists",
            "fs::canonicalize",
            "fs::read_dir",
            "fs::read_link",
            "fs::symlink_metadata",
            "is_dir",
            "is_file",
            "is_symlink",
        ],
        "looks at what a command names before the command is decided on; the command itself opens it",
    ),
    (
        "crates/crow-agent/src/prompt/surroundings.rs",
        &["canonicalize", "exists"],
        "finds the root of a repository, and resolves a file of instructions before it is read",
    ),
    // Lists or queries by name. Reading, writing, moving and removing then goes through crow-fs.
    (
        "crates/crow-snapshot/src/scan.rs",
        &["fs::read_dir", "is_dir"],
        "the scan lists names; contents and links are read through crow-fs",
    ),
    (
        "crates/crow-snapshot/src/path_stat.rs",
        &["fs::symlink_metadata", "is_dir", "is_file", "is_symlink"],
        "the scan looks at what it listed; contents are read through crow-fs",
    ),
    (
        "crates/crow-snapshot/src/ignore_rules.rs",
        &["exists", "fs::read_dir", "is_dir"],
        "counts names, and looks for a repository; rules are read through crow-fs",
    ),
    (
        "crates/crow-snapshot/src/policy.rs",
        &["fs::statvfs", "fs::symlink_metadata"],
        "asks on which file system a root is, and how much room the store has",
    ),
    (
        "crates/crow-snapshot/src/file_overlay.rs",
        &["fs::access"],
        "foresees whether an undo will be permitted; the undo itself finds out for itself",
    ),
    (
        "crates/crow-runtime/src/undo/",
        &["exists"],
        "asks whether the folder of a project is still there",
    ),
    (
        "crates/crow-tools/src/search/",
        &["is_dir", "is_file"],
        "asks what kind of entry the walk listed; files are opened through crow-fs",
    ),
    (
        "crates/crow-app/src/trust/contents.rs",
        &["exists", "symlink_metadata"],
        "finds the root of a project; its files are read through crow-fs",
    ),
    // Not a file access, or not in shipped code.
    (
        "crates/crow-runtime/src/agent/",
        &["metadata"],
        "the metadata of a session, which is in memory",
    ),
    ("crates/crow-acp/src/server/", &["metadata"], "the metadata of a session, which is in memory"),
    (
        "crates/crow-acp/src/view/contents.rs",
        &["is_file", "metadata"],
        "the kind of what was looked at through crow-fs; the metadata of a session, which is in memory",
    ),
    ("crates/crow-shell/src/effects/differential.rs", &[], "a test that compares with bash itself"),
    (
        "crates/crow-app/src/trust/programs/files.rs",
        &["canonicalize", "is_file", "is_symlink"],
        "finds a project that is named by another way to it; what is there is looked at and opened through crow-fs",
    ),
    (
        "crates/crow-app/src/trust/programs/find.rs",
        &["canonicalize", "is_file", "is_symlink"],
        "the program that a name leads to in the user's search path; the kind of what was looked at through crow-fs",
    ),
    (
        "crates/crow-sandbox/src/sandbox/autorun/quarantine.rs",
        &["is_file"],
        "the kind of what was looked at through crow-fs",
    ),
    (
        "crates/crow-sandbox/src/sandbox/link_search.rs",
        &["canonicalize"],
        "resolves the program's own folders, in the user's home",
    ),
    (
        "crates/crow-sandbox/src/sandbox/linked_files.rs",
        &["fs::canonicalize", "fs::read_dir", "is_dir", "is_file", "is_symlink", "metadata"],
        "lists folders of the user with keys and settings; nothing in them is opened",
    ),
    (
        "crates/crow-sandbox/src/sandbox/second_names.rs",
        &["canonicalize", "fs::read_dir", "is_dir", "is_file"],
        "finds files of the workspace by their device and inode; they are looked at through crow-fs",
    ),
    // The sandbox: its set-up for commands, and the system's information on processes.
    (
        "crates/crow-sandbox/src/sandbox/autorun/pass_view.rs",
        &["canonicalize"],
        "follows links as git does, to find what it would read; what is there is looked at through crow-fs",
    ),
    (
        "crates/crow-sandbox/src/sandbox/autorun/pass_record.rs",
        &["canonicalize"],
        "finds whether links still lead where they did; what is there is looked at through crow-fs",
    ),
    (
        "crates/crow-sandbox/src/sandbox/autorun/moved_roots.rs",
        &["metadata"],
        "the time of creation, of a descriptor that crow-fs opened",
    ),
    (
        "crates/crow-sandbox/src/sandbox/autorun/journal.rs",
        &[],
        "files of the guard, in the session's private folder of the user's data directory",
    ),
    (
        "crates/crow-sandbox/src/sandbox/private_folder.rs",
        &[],
        "private folders of sessions, in the user's data directory",
    ),
    (
        "crates/crow-sandbox/src/sandbox/sandbox.rs",
        &["canonicalize", "File::open"],
        "resolves the places of the configuration when the sandbox is made, and opens the null device",
    ),
    (
        "crates/crow-sandbox/src/sandbox/linux/mount_plan.rs",
        &[],
        "resolves hidden places of the configuration, and makes mount points in the session's private folder",
    ),
    (
        "crates/crow-sandbox/src/sandbox/linux/",
        &[],
        "mounts, descriptors and settings of the kernel: a mount is made by path, in the namespace of the command alone",
    ),
    (
        "crates/crow-sandbox/src/sandbox/macos/",
        &[],
        "resolves the names of a profile, and tries it out in the session's private folder",
    ),
    (
        "crates/crow-sandbox/src/process/spill.rs",
        &["OpenOptions", "fs::create_dir_all", "fs::remove_file"],
        "whole outputs, in the session's folder of the user's data directory",
    ),
    (
        "crates/crow-sandbox/src/orphans/process_table.rs",
        &["File::open", "fs::read_dir", "fs::read_to_string"],
        "what the system says of processes, in /proc",
    ),
    (
        "crates/crow-sandbox/src/process/",
        &["fs::access", "is_dir", "is_file"],
        "looks for a program in PATH, and asks whether a folder is there before a command starts",
    ),
];

#[test]
fn files_of_a_workspace_are_touched_through_crow_fs_alone() {
    let mut unused: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (path, accesses, reason) in EXCEPTIONS {
        assert!(!reason.is_empty(), "{path}: an exception without a reason");
        match accesses {
            [] => drop(unused.insert((path, ""))),
            accesses => unused.extend(accesses.iter().map(|access| (*path, *access))),
        }
    }
    // Accesses without an exception are wrong; exceptions that are never used are listed, too.
    let mut wrong = BTreeSet::new();
    for source in tree::shipped_sources() {
        if !COVERED.iter().any(|folder| source.path.starts_with(folder)) {
            continue;
        }
        for (at, access) in accesses(&source.code) {
            let exception = EXCEPTIONS.iter().find(|(path, accesses, _)| {
                let is_there =
                    *path == source.path || (path.ends_with('/') && source.path.starts_with(path));
                is_there && (accesses.is_empty() || accesses.contains(&access.as_str()))
            });
            match exception {
                Some((path, [], _)) => drop(unused.remove(&(*path, ""))),
                Some((path, _, _)) => unused.retain(|(own, word)| own != path || *word != access),
                None => drop(wrong.insert(format!("{}: {access}", source.location(at)))),
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new(), "open it through crow-fs");
    assert_eq!(unused, BTreeSet::new(), "exceptions that nothing needs any more");
}

#[test]
fn an_access_by_path_is_seen_however_it_is_written() {
    for (code, expected) in [
        ("fs::read(path)", &["fs::read"][..]),
        ("std::fs::read(path)", &["fs::read"]),
        ("tokio::fs::write(path, x)", &["fs::write"]),
        ("use std::{fs, io};", &[]),
        ("use std::fs::{self, File, read as r};", &["fs::read"]),
        ("use rustix::{fs::{AtFlags, openat}, io::Errno};", &["fs::openat"]),
        ("use std::os::unix::fs::{MetadataExt as _, fchown, symlink};", &["fs::symlink"]),
        ("File::open(path)", &["File::open"]),
        ("File::from(fd)", &[]),
        ("use std::fs::OpenOptions;", &["OpenOptions"]),
        ("path.is_dir()", &["is_dir"]),
        (".find(Path::exists)", &["exists"]),
        ("path\n    .canonicalize()", &["canonicalize"]),
        ("path.metadata()", &["metadata"]),
        ("directory.metadata(&name)", &[]),
        ("crow_fs::metadata(path)", &[]),
        ("fn exists(&self) -> bool", &[]),
        ("tempfile::tempdir()", &["tempfile"]),
        ("fn a() {}\n\n#[cfg(test)]\nmod tests { fn b() { fs::read(p); } }", &[]),
    ] {
        let found: Vec<String> = accesses(code).into_iter().map(|(_, access)| access).collect();
        assert_eq!(found, expected, "{code}");
    }
}

/// Returns the accesses by path in code, without its inline tests, each with its offset.
fn accesses(code: &str) -> Vec<(usize, String)> {
    let code = code.split_once("#[cfg(test)]\nmod tests {").map_or(code, |(code, _)| code);
    let mut found = Vec::new();
    for (at, word) in words(code) {
        let before = code.get(..at).unwrap().trim_end();
        let after = code.get(at + word.len()..).unwrap();
        let is_method = before.ends_with('.') || before.ends_with("Path::");
        let access = match word {
            "fs" => {
                found.extend(
                    functions_of(after).into_iter().map(|name| (at, format!("fs::{name}"))),
                );
                continue;
            }
            "File" => {
                member(after).filter(|name| OF_FILE.contains(name)).map(|n| format!("File::{n}"))
            }
            _ if TYPES.contains(&word) => Some(word.to_owned()),
            _ if is_method && METHODS.contains(&word) => Some(word.to_owned()),
            _ if is_method
                && METHODS_WITHOUT_ARGUMENT.contains(&word)
                && (after.starts_with("()") || before.ends_with(':')) =>
            {
                Some(word.to_owned())
            }
            _ => None,
        };
        found.extend(access.map(|access| (at, access)));
    }
    found
}

/// Returns the functions named by a path through a module `fs`, from the code after `fs`.
fn functions_of(after: &str) -> Vec<&str> {
    let named: Vec<&str> = match after.strip_prefix("::").and_then(|rest| rest.strip_prefix('{')) {
        Some(group) => {
            let group = group.split_once('}').map_or(group, |(group, _)| group);
            group.split(',').filter_map(|item| words(item).next().map(|(_, word)| word)).collect()
        }
        None => member(after).into_iter().collect(),
    };
    let is_function = |name: &&str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && *name != "self"
            && !BY_DESCRIPTOR.contains(name)
    };
    named.into_iter().filter(is_function).collect()
}

/// Returns the word after a leading `::`.
fn member(after: &str) -> Option<&str> {
    words(after.strip_prefix("::")?).next().map(|(_, word)| word)
}
