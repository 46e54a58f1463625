//! Secret files that a recursive search would read.
//!
//! `grep -r TOKEN .` names no file, and still prints the content of `.env`. So the folders are walked as the search
//! would walk them, to find the first file that [`is_secret_file`] recognises and that the search would not exclude.
//! The walk is bounded: for a larger tree the result is unknown, and the user is asked about the search. Where the
//! name is a weak sign and the file is small, its content decides.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use crow_core::{
    permission::is_secret_file,
    tool::{Access, PathTouch, TouchDepth},
    workspace::Workspace,
};
use ignore::{WalkBuilder, overrides::OverrideBuilder, types::TypesBuilder};

use super::{
    command_context::{CommandContext, FollowLinks},
    git_worktree::tracked_files,
    globs,
    options::{ParsedOptions, option_name},
};

/// The most folder entries that are visited for one search.
const MOST_ENTRIES: usize = 200_000;
/// The largest file in bytes whose content is examined.
const MOST_BYTES: u64 = 64 * 1024;
/// Folders of a project in which not every file is a secret, although in a home directory it would be.
const MIXED_FOLDERS: [&str; 2] = [".crow-agent", ".docker"];
/// Long options whose value may be the next word, so that it is unclear which word is a folder.
const VALUED: [&str; 24] = [
    "--after-context",
    "--before-context",
    "--binary-files",
    "--color",
    "--colors",
    "--context",
    "--encoding",
    "--exclude",
    "--exclude-dir",
    "--glob",
    "--iglob",
    "--include",
    "--label",
    "--max-columns",
    "--max-count",
    "--max-depth",
    "--max-filesize",
    "--regexp",
    "--replace",
    "--sort",
    "--sortr",
    "--type",
    "--type-not",
    "--width",
];

/// Adds the first secret file that a search would read to the touches. Returns `None` if the folders are too large to
/// tell.
pub(super) fn add_secret(
    name: &str,
    given: &ParsedOptions<'_>,
    touches: &mut Vec<PathTouch>,
    context: &CommandContext<'_>,
) -> Option<()> {
    let is_recursive = match name {
        "grep" | "egrep" | "fgrep" => given.is_recursive(),
        "diff" => touches.iter().any(|touch| touch.depth == TouchDepth::Below),
        "rg" => !["--files", "--type-list"].iter().any(|it| given.long.contains(it)),
        _ => false,
    };
    if !is_recursive {
        return Some(());
    }
    let mut roots: Vec<PathBuf> = touches.iter().map(|touch| touch.path.clone()).collect();
    // A value in the next word counts as an operand, so the search may have no folder and run in the current one.
    let values = given.long.iter().filter(|option| VALUED.contains(option)).count();
    let patterns = usize::from(name != "diff" && !given.has('e', "--regexp"));
    if values > 0 && given.operands.len() <= values + patterns {
        roots.extend(
            context
                .touch(".", Access::Read, TouchDepth::Below, FollowLinks::Yes)?
                .into_iter()
                .map(|it| it.path),
        );
    }
    let mut entries = 0;
    for root in roots {
        let walk = if name == "rg" { ripgrep_walk(&root, given) } else { whole_walk(&root) };
        for entry in walk.build() {
            entries += 1;
            if entries > MOST_ENTRIES {
                return None;
            }
            // The search cannot read it either.
            let Ok(entry) = entry else { continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && !is_left_out(entry.path(), &root, given) && holds_secret(entry.path()) {
                let path = entry.into_path();
                touches.push(PathTouch { access: Access::Read, path, depth: TouchDepth::Itself });
                return Some(());
            }
        }
    }
    Some(())
}

/// Adds the first secret file below each folder to the touches, for a search of which nothing else is known. Up to the
/// limit of a search.
pub(super) fn add_secret_below(touches: &mut Vec<PathTouch>) {
    let below = touches.iter().filter(|touch| touch.depth == TouchDepth::Below);
    let entries = below.flat_map(|touch| whole_walk(&touch.path).build()).take(MOST_ENTRIES);
    let found = entries.flatten().find(|entry| {
        entry.file_type().is_some_and(|kind| kind.is_file()) && holds_secret(entry.path())
    });
    touches.extend(found.map(|entry| PathTouch {
        access: Access::Read,
        path: entry.into_path(),
        depth: TouchDepth::Itself,
    }));
}

/// Adds the first secret file that `git grep` would read to the touches. Returns `None` if the folders are too large
/// to tell. It reads tracked files, and others only with options. Where the index does not tell which files are tracked,
/// a file that is not ignored counts.
pub(super) fn add_secret_of_git(rest: &[&str], touches: &mut Vec<PathTouch>) -> Option<()> {
    let takes_ignored = rest.contains(&"--no-exclude-standard");
    // Long options may be abbreviated.
    let takes_others = rest.iter().any(|word| {
        let name = option_name(word);
        let others = ["--untracked", "--no-exclude-standard", "--no-index", "--recurse-submodules"];
        name.len() > 2 && others.iter().any(|option| option.starts_with(name))
    });
    let named = rest.iter().position(|word| *word == "--").and_then(|at| rest.get(at + 1..));
    let is_plain = |word: &&str| !word.starts_with(':') && !word.contains(['*', '?', '[', '\\']);
    let folders: Vec<PathBuf> = touches.iter().map(|touch| touch.path.clone()).collect();
    // With pathspecs, only matching files count.
    let is_wanted = |path: &Path| {
        let below = || folders.iter().filter_map(|folder| path.strip_prefix(folder).ok());
        named.is_none_or(|named| {
            named.is_empty()
                || named
                    .iter()
                    .any(|it| it.starts_with(':') || below().any(|path| is_path_of(it, path)))
        })
    };
    // 1) Tracked files. Those above the folder are named by a pathspec from the root.
    let takes_root = rest.iter().any(|word| word.starts_with(':'));
    let is_searched = |path: &PathBuf| {
        (takes_root || folders.iter().any(|folder| path.starts_with(folder))) && is_wanted(path)
    };
    let tracked: Option<Vec<Vec<PathBuf>>> =
        folders.iter().map(|folder| tracked_files(folder)).collect();
    if let Some(tracked) = tracked.filter(|_| !takes_others) {
        let mut searched = tracked.into_iter().flatten().filter(is_searched);
        let secret = searched.find(|path| holds_secret(path));
        touches.extend(secret.map(|path| PathTouch {
            access: Access::Read,
            path,
            depth: TouchDepth::Itself,
        }));
        return Some(());
    }
    // 2) All files.
    let roots = match named {
        Some(named) if !named.is_empty() && named.iter().all(is_plain) => {
            let paths = named.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
            paths.collect()
        }
        Some(_) | None => folders.clone(),
    };
    let mut entries = 0;
    for root in roots {
        let mut walk = whole_walk(&root);
        walk.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        if !takes_ignored {
            walk.git_ignore(true).git_exclude(true).parents(true).require_git(false);
        }
        for entry in walk.build() {
            entries += 1;
            if entries > MOST_ENTRIES {
                return None;
            }
            let Ok(entry) = entry else { continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && is_wanted(entry.path()) && holds_secret(entry.path()) {
                let path = entry.into_path();
                touches.push(PathTouch { access: Access::Read, path, depth: TouchDepth::Itself });
                return Some(());
            }
        }
    }
    Some(())
}

/// Returns whether a path relative to git's folder may match a pathspec: the path or one of its parents matches.
/// Stars also match slashes. A pathspec with other special characters matches anything.
pub(super) fn is_path_of(named: &str, path: &Path) -> bool {
    let named = named.trim_end_matches('/');
    if named.starts_with(':') || !is_simple(named) {
        return true;
    }
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    let pattern = letters(named);
    path.ancestors().filter_map(Path::to_str).any(|path| globs::is_match(&pattern, &letters(path)))
}

/// Returns whether a pathspec has no special characters except `*` and `?`, and no empty, `.` or `..` component.
fn is_simple(named: &str) -> bool {
    !named.contains(['[', '\\']) && named.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Adds git's settings files to the touches, where a command shows settings that may hold a secret: a token in the
/// address of a remote, a header.
pub(super) fn add_settings_of_git(
    command: &str,
    rest: &[&str],
    touches: &mut Vec<PathTouch>,
    workspace: &Workspace,
) {
    const SECRETS: [&str; 10] =
        ["auth", "credential", "header", "key", "pass", "proxy", "secret", "smtp", "token", "url"];
    let mut operands = rest.iter().filter(|word| !word.starts_with('-'));
    let is_harmless_key = |word: &&str| {
        let word = word.to_ascii_lowercase();
        word.contains('.') && !SECRETS.iter().any(|secret| word.contains(secret))
    };
    let lists = ["-l", "--list", "list", "--get-regexp", "--regexp"];
    let is_harmless = match command {
        "remote" => rest.is_empty(),
        _ => !rest.iter().any(|word| lists.contains(word)) && operands.any(is_harmless_key),
    };
    if is_harmless {
        return;
    }
    // The user's settings are shown too, unless only local ones are listed. Without a home there are none.
    let home = std::env::home_dir().unwrap_or_default();
    let of_user = [home.join(".gitconfig"), home.join(".config/git/config")];
    let is_local = command == "remote" || rest.contains(&"--local");
    let of_user = of_user.into_iter().filter(|_| !is_local);
    let own: Vec<PathBuf> =
        touches.iter().flat_map(|touch| settings_of(&touch.path, workspace)).collect();
    for path in own.into_iter().chain(of_user).filter(|path| path.is_absolute()) {
        // A file that is too large to examine, or that includes others, may hold a secret.
        let may_show = match content(&path) {
            Some(settings) => holds_token(&settings) || includes_others(&settings),
            None => path.exists(),
        };
        if may_show {
            touches.push(PathTouch { access: Access::Read, path, depth: TouchDepth::Itself });
        }
    }
}

/// Returns the settings files of the repository that a folder is in. Where `.git` is a file, as in a worktree or a
/// submodule, they are in the folder that it names and in the common folder of all worktrees.
fn settings_of(folder: &Path, workspace: &Workspace) -> Vec<PathBuf> {
    let inside = folder.ancestors().take_while(|folder| workspace.contains(folder));
    let around = inside.chain([folder]).map(|folder| folder.join(".git"));
    let Some(git) = around.into_iter().find(|git| git.exists()) else { return Vec::new() };
    let mut folders = vec![git.clone()];
    let linked = git.is_file().then(|| content(&git)).flatten();
    let target = linked.as_deref().and_then(|text| text.trim().strip_prefix("gitdir: "));
    // Their names decide whether they are asked about, so they must have no `..`.
    let own = target
        .and_then(|target| crow_fs::canonicalize(&git.parent().unwrap_or(&git).join(target)).ok());
    if let Some(own) = own {
        folders.extend(content(&own.join("commondir")).map(|common| own.join(common.trim())));
        folders.push(own);
    }
    let folders = folders.iter().filter_map(|folder| crow_fs::canonicalize(folder).ok());
    folders.flat_map(|folder| ["config", "config.worktree"].map(|name| folder.join(name))).collect()
}

/// Returns whether git settings include other files, which are not examined.
fn includes_others(settings: &str) -> bool {
    settings.to_ascii_lowercase().contains("[include")
}

/// Returns a walk over all files, as grep and diff read them.
pub(super) fn whole_walk(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).follow_links(false);
    walk
}

/// Returns a walk over the files that ripgrep reads, without hidden and ignored ones unless options include them. The
/// user's global ignore file is not read, so the walk may cover more than ripgrep does.
fn ripgrep_walk(root: &Path, given: &ParsedOptions<'_>) -> WalkBuilder {
    let has = |name: &str| given.long.iter().any(|option| option_name(option) == name);
    let unrestricted = given.letters.matches('u').count()
        + given.long.iter().filter(|option| **option == "--unrestricted").count();
    let takes_ignored = unrestricted > 0 || has("--no-ignore") || has("--no-ignore-vcs");
    let mut walk = whole_walk(root);
    walk.hidden(!(unrestricted > 1 || has("--hidden") || given.letters.contains('.')));
    // ripgrep itself would wait at a named pipe in place of its rules.
    if !takes_ignored && root.ancestors().all(crow_fs::has_readable_ignore_files) {
        walk.filter_entry(|entry| {
            !entry.file_type().is_some_and(|kind| kind.is_dir())
                || crow_fs::has_readable_ignore_files(entry.path())
        });
        walk.ignore(true).git_ignore(true).git_exclude(true).parents(true);
        walk.add_custom_ignore_filename(".rgignore");
    }
    let values = |names: [&str; 2]| -> Vec<Option<&str>> {
        let options = given.in_order.iter().filter(|(name, _)| names.contains(name));
        options.map(|(_, value)| *value).collect()
    };
    // The last matching filter decides, and may also include a hidden or ignored file. A filter that is unknown or
    // does not build excludes nothing; nor do filters of both kinds together, since their order is lost.
    let (globs, caseless) = (values(["g", "--glob"]), values(["--iglob", "--iglob"]));
    let is_ordered = globs.is_empty() || caseless.is_empty();
    let mut built = OverrideBuilder::new(root);
    let is_built = built.case_insensitive(!caseless.is_empty()).is_ok()
        && globs
            .into_iter()
            .chain(caseless)
            .all(|glob| glob.is_some_and(|glob| built.add(glob).is_ok()));
    match built.build() {
        Ok(globs) if is_built && is_ordered => drop(walk.overrides(globs)),
        Ok(_) | Err(_) => return whole_walk(root),
    }
    let types: Vec<&str> = values(["t", "--type"]).into_iter().flatten().collect();
    if !types.is_empty() {
        let mut builder = TypesBuilder::new();
        builder.add_defaults();
        for name in types {
            builder.select(name);
        }
        if let Ok(types) = builder.build() {
            walk.types(types);
        }
    }
    walk
}

/// Returns whether grep excludes a file, by `--include`, `--exclude` and `--exclude-dir`. Of the first two, the last
/// match decides; without a match, a file is excluded if the first filter is `--include`. Only `*` and `?` are
/// supported in patterns.
fn is_left_out(path: &Path, root: &Path, given: &ParsedOptions<'_>) -> bool {
    let values = |name: &str| -> Vec<&str> {
        let options = given.long.iter().filter_map(|option| option.split_once('='));
        options.filter(|(it, _)| *it == name).map(|(_, value)| value).collect()
    };
    let is_understood = |pattern: &&str| !pattern.contains(['[', '\\', '/']);
    let is_match = |pattern: &str, name: &str| {
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        globs::is_match(&letters(pattern), &letters(name))
    };
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let filters = given.in_order.iter().filter(|(it, _)| matches!(*it, "--include" | "--exclude"));
    let mut is_left_out = None;
    for (filter, pattern) in filters {
        let includes = *filter == "--include";
        is_left_out.get_or_insert(includes);
        let is_in_next_word = given.long.contains(filter);
        match pattern.filter(is_understood).filter(|_| !is_in_next_word) {
            Some(pattern) if is_match(pattern, name) => is_left_out = Some(!includes),
            // An unknown pattern may match.
            None if includes => is_left_out = Some(false),
            Some(_) | None => {}
        }
    }
    let below = path.parent().and_then(|folder| folder.strip_prefix(root).ok());
    let mut folders = below.into_iter().flatten().filter_map(|name| name.to_str());
    let excluded = values("--exclude-dir");
    let lies_in_excluded = folders.any(|folder| {
        excluded.iter().filter(|it| is_understood(it)).any(|it| is_match(it, folder))
    });
    is_left_out.unwrap_or(false) || lies_in_excluded
}

/// Returns whether a file that a search reads may hold secrets.
pub(super) fn holds_secret(path: &Path) -> bool {
    let in_mixed = path
        .components()
        .any(|part| part.as_os_str().to_str().is_some_and(|name| MIXED_FOLDERS.contains(&name)));
    let judged = if in_mixed { path.file_name().map(Path::new) } else { Some(path) };
    if !judged.is_some_and(is_secret_file) {
        return false;
    }
    match content(path) {
        // Certificates have the same suffix as keys, and most git settings hold no token.
        Some(content) if path.extension().is_some_and(|it| it.eq_ignore_ascii_case("pem")) => {
            let is_public = ["BEGIN CERTIFICATE", "BEGIN TRUSTED CERTIFICATE", "BEGIN PUBLIC KEY"]
                .iter()
                .any(|mark| content.contains(mark));
            !is_public || content.contains("PRIVATE KEY")
        }
        Some(content) if path.file_name().is_some_and(|name| name == "config") => {
            holds_token(&content)
        }
        Some(_) | None => true,
    }
}

/// Returns whether git settings contain something like a secret.
fn holds_token(settings: &str) -> bool {
    let lower = settings.to_ascii_lowercase();
    settings.lines().any(|line| line.contains("://") && line.contains('@'))
        || ["authorization", "bearer", "extraheader", "oauth", "pass", "secret", "token"]
            .iter()
            .any(|mark| lower.contains(mark))
}

/// Returns the text of a small file; `None` if it is too large or unreadable.
fn content(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let read = crow_fs::open_file(path).ok()?.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (u64::try_from(read).ok()? <= MOST_BYTES).then(|| String::from_utf8_lossy(&bytes).into_owned())
}
