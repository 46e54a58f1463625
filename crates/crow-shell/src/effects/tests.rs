//! The files that lines touch, on a real file system.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use crow_core::{
    tool::{Access, CommandMeaning, SideEffects, Subject, TouchDepth},
    workspace::Workspace,
};
use proptest::prelude::*;

use super::{exceeds_allowed, plan_command_line};

struct TestTree {
    _folder: tempfile::TempDir,
    root: PathBuf,
    workspace: Workspace,
}

fn test_tree() -> TestTree {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let root = top.join("p");
    for name in ["p/a.txt", "p/sub/b.txt", "p/sub/deep/c.txt", "out/secret", "p/-rf", "p/glob/x.c"]
    {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    symlink("../out", root.join("link")).unwrap();
    symlink("sub/deep", root.join("inner")).unwrap();
    symlink("../out/new", root.join("nowhere")).unwrap();
    symlink("../../out/secret", root.join("glob/y.c")).unwrap();
    TestTree { _folder: folder, workspace: Workspace::new(root.clone()), root }
}

/// Returns the touches and redirections of all commands: `r` and `w`, with `+` for recursive, and paths relative to
/// the root; then the extent of the effects.
fn effects(place: &TestTree, text: &str) -> String {
    let line = plan_command_line(text, &place.root, &place.workspace, None);
    let CommandMeaning::Commands(commands) = line.meaning else { return "unclear".to_owned() };
    let mut effects = Vec::new();
    let top = place.root.parent().unwrap();
    let shown = |path: &std::path::Path| match path.strip_prefix(&place.root) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => match path.strip_prefix(top) {
            Ok(rest) => format!("../{}", rest.display()),
            Err(_) => path.display().to_string(),
        },
    };
    let letter = |access| match access {
        Access::Read => 'r',
        Access::Write => 'w',
    };
    for command in commands {
        for touch in &command.touches {
            let depth = if touch.depth == TouchDepth::Below { "+" } else { "" };
            effects.push(format!("{}{depth} {}", letter(touch.access), shown(&touch.path)));
        }
        for redirect in command.redirects.iter().filter(|it| !it.is_device()) {
            let path = redirect.path.as_deref().map_or("?".to_owned(), shown);
            effects.push(format!("{} {path}", letter(redirect.access)));
        }
        match command.side_effects {
            SideEffects::Anything => effects.push("anything".to_owned()),
            SideEffects::Hidden => effects.push("hidden".to_owned()),
            SideEffects::Reads => {}
            SideEffects::SandboxedReads => effects.push("held".to_owned()),
        }
    }
    effects.join(", ")
}

/// Programs whose words are examined, with options that lack their value, and names of every kind.
const WORDS: [&str; 53] = [
    "cat",
    "grep",
    "rg",
    "sed",
    "awk",
    "jq",
    "tar",
    "cp",
    "mv",
    "rm",
    "tee",
    "sort",
    "uniq",
    "find",
    "xargs",
    "git",
    "log",
    "config",
    "add",
    "show",
    "diff",
    "curl",
    "cd",
    "unzip",
    "head",
    "-n",
    "-d",
    "-e",
    "-f",
    "-C",
    "-I",
    "-0",
    "-cf",
    "-xfC",
    "-i",
    "--",
    "--=",
    "--format=%G?",
    "--output",
    "-é",
    "'s/é/x/w a.txt'",
    "'{print > \"a\"}'",
    "a.txt",
    "sub/",
    "*.c",
    "[é]?*",
    "é",
    "''",
    "$x",
    "|",
    "&&",
    "-exec",
    "\\;",
];

#[test]
fn any_words_of_known_programs_are_examined_without_panic() {
    let place = test_tree();
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..9);
    proptest!(|(line in words)| {
        let line = line.join(" ");
        prop_assert_eq!(plan_command_line(&line, &place.root, &place.workspace, None).text, line);
    });
}

#[test]
fn touched_paths_are_resolved() {
    let place = test_tree();
    for (line, wanted) in [
        ("cat a.txt", "r a.txt"),
        ("cat sub/../a.txt", "r a.txt"),
        ("cat link/secret", "r ../out/secret"),
        ("cat link/../p/a.txt", "r a.txt"),
        ("cat inner/../b.txt", "r sub/b.txt"),
        ("cat inner/../../a.txt", "r a.txt"),
        ("cat inner/../../../out/secret", "r ../out/secret"),
        ("cat nowhere", "r ../out/new"),
        ("cat 'no such'", "r no such"),
        ("cat glob/*.c", "r glob/x.c, r ../out/secret"),
        ("cat sub/{b,d}.txt", "r sub/b.txt, r sub/d.txt"),
        ("cat *", "hidden"),
        ("cat -- *", "hidden"),
        ("cat ./*.txt", "r a.txt"),
        ("cat $X", "hidden"),
        ("ls", "r ."),
        ("grep -r x sub", "r+ sub"),
        ("grep -r x", "r+ ."),
        ("find . -name x", "r+ ."),
        ("find sub -delete", "w+ sub, anything"),
        ("echo x > out.txt", "w out.txt"),
        ("echo x > link/new", "w ../out/new"),
        ("echo x > nowhere", "w ../out/new"),
        ("echo x > $F", "w ?"),
        ("cat < sub/b.txt", "r sub/b.txt"),
        ("echo x | tee -a out.txt", "w out.txt"),
        ("tee $X", "hidden"),
        ("mkdir -p x/y", "w x/y, anything"),
        ("mkdir $X", "hidden"),
        ("rm -r sub", "w+ sub, anything"),
        ("rm link", "w link, anything"),
        ("rm -r link/", "w+ ../out, anything"),
        ("mv a.txt link", "w+ a.txt, r+ a.txt, w+ link, w+ ../out, w+ ../out/a.txt, anything"),
        ("cp a.txt sub", "r a.txt, w sub, w sub/a.txt, anything"),
        ("uniq -c a.txt new", "r a.txt, w new, w new/a.txt, anything"),
        ("uniq a.txt", "r a.txt"),
        ("xxd -r a.txt new", "hidden"),
        ("cp a.txt nowhere", "r a.txt, w nowhere, w ../out/new, w ../out/new/a.txt, anything"),
        ("ln -s ../out x", "w ../out, r+ ../out, w out, r+ out, w x, w x/out, anything"),
        ("chmod +x link/secret", "w ../out/secret, anything"),
        ("sed -i s/a/b/ a.txt", "w a.txt, anything"),
        ("sed -i 's/a/b/w x' a.txt", "hidden"),
        ("sort -o s.txt a.txt", "w s.txt, r a.txt, anything"),
        ("dd if=a.txt of=link/x", "r a.txt, w ../out/x, anything"),
        ("make -C link", "r ../out, hidden"),
        ("make all -j4", "anything"),
        ("cargo test --manifest-path=../out/Cargo.toml", "r ../out/Cargo.toml, hidden"),
        ("cargo test --target-dir=../out/t", "r ../out/t, w+ ../out/t, anything"),
        ("cargo test --config x", "hidden"),
        ("git status", "r ., held"),
        ("git diff", "r+ ., held"),
        ("git -C link log", "r ../out, held"),
        ("git -C sub -C deep log", "r sub, r sub/deep, anything"),
        ("cat .env", "r .env, anything"),
        ("cargo --version", "held"),
        ("git --version", ""),
        ("env cat a.txt", "r a.txt, anything"),
        ("./ls", "r ls, anything"),
    ] {
        assert_eq!(effects(&place, line), wanted, "{line}");
    }
}

/// Makes a complete repository without commits.
fn repository(git: &std::path::Path) {
    fs::create_dir_all(git.join("objects/info")).unwrap();
    fs::create_dir_all(git.join("objects/pack")).unwrap();
    fs::create_dir_all(git.join("refs/heads")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
}

/// Name, files with their text, and the touches beside the folder.
type RepositoryCase = (&'static str, &'static [(&'static str, &'static str)], &'static str);

#[test]
fn a_reading_git_command_reads_the_repository_that_git_uses() {
    let write = |tree: &TestTree, path: &str, text: &str| {
        let path = tree.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("TOP", tree.root.parent().unwrap().to_str().unwrap()))
            .unwrap();
    };
    let cases: [RepositoryCase; 9] = [
        ("nothing", &[], ""),
        ("a file", &[("w/.git", "gitdir: TOP/out/.git\n")], ", r+ ../out/.git"),
        ("a relative file", &[("w/.git", "gitdir: ../../out/.git\n")], ", r+ ../out/.git"),
        (
            "a common folder",
            &[("w/.git/HEAD", "ref: refs/heads/main\n"), ("w/.git/commondir", "TOP/out/.git\n")],
            ", r+ ../out/.git",
        ),
        (
            "alternates",
            &[(".git/objects/info/alternates", "# x\nTOP/out/.git/objects\n")],
            ", r+ ../out/.git/objects",
        ),
        (
            "alternates of alternates",
            &[
                (".git/objects/info/alternates", "../../w/o\n"),
                ("w/o/info/alternates", "../../../out/.git/objects\n"),
            ],
            ", r+ ../out/.git/objects",
        ),
        ("alternates in the workspace", &[(".git/objects/info/alternates", "../../w/o\n")], ""),
        (
            "an incomplete repository before one that borrows",
            &[("w/.git/x", ""), (".git/objects/info/alternates", "TOP/out/.git/objects\n")],
            ", r+ ../out/.git/objects",
        ),
        (
            "ignored revisions",
            &[(".git/config", "[blame]\n\tignoreRevsFile = ../out/secret\n")],
            ", r+ ../out/secret",
        ),
    ];
    for (name, files, wanted) in cases {
        let tree = test_tree();
        repository(&tree.root.join(".git"));
        repository(&tree.root.join("../out/.git"));
        fs::create_dir_all(tree.root.join("w")).unwrap();
        for (path, text) in files {
            write(&tree, path, text);
        }
        assert_eq!(effects(&tree, "git -C w show x"), format!("r+ w{wanted}, held"), "{name}");
    }
}

#[test]
fn a_file_of_the_home_is_touched_and_its_reader_may_read_others() {
    let home = std::env::home_dir().unwrap();
    let wanted = format!("r {}, hidden", home.join("x").display());
    assert_eq!(effects(&test_tree(), "cat ~/x"), wanted);
}

#[test]
fn files_that_the_words_of_an_unclear_read_name_are_touched() {
    let tree = test_tree();
    fs::write(tree.root.join(".env"), "").unwrap();
    repository(&tree.root.join(".git"));
    fs::write(tree.root.join(".git/config"), "[remote \"o\"]\n\turl = https://a:b@c/d\n").unwrap();
    for line in [
        "cat $PWD/.env",
        "cat ~+/.env",
        "cat \"$(pwd)/.env\"",
        "cat /proc/self/cwd/.env",
        "cat .env $X",
        "jq --rawfile a .env -n '$a'",
        "sed 'r .env' a.txt",
        "grep -R x .",
        "grep -R x",
    ] {
        let found = effects(&tree, line);
        assert!(found.split(", ").any(|touch| touch == "r .env"), "{line}: {found}");
        assert!(!found.ends_with("held") && found.contains("hidden"), "{line}: {found}");
    }
    for line in ["git ls-remote --get-url o", "git remote show -n o"] {
        let found = effects(&tree, line);
        assert!(found.contains("r .git/config"), "{line}: {found}");
    }
}

#[test]
fn links_in_a_repository_count_as_what_they_lead_to() {
    for (link, target, wanted) in [
        (".git/objects", "../../out/.git/objects", ", r+ ../out/.git/objects, held"),
        (".git/objects/pack", "../../../out/.git", ", r+ ../out/.git, held"),
        (".git/packed-refs", "../../out/secret", ", r+ ../out/secret, held"),
        (".git/packed-refs", "../.env", ", r+ .env, anything"),
        (".git/packed-refs", "../a.txt", ", held"),
        (".git/hooks", "../../out", ", held"),
        (".git/info", "../../out", ", r+ ../out, held"),
        (".git-blame-ignore-revs", ".env", ", r+ .env, anything"),
    ] {
        let tree = test_tree();
        repository(&tree.root.join(".git"));
        repository(&tree.root.join("../out/.git"));
        fs::write(tree.root.join(".env"), "").unwrap();
        let path = tree.root.join(link);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        symlink(target, path).unwrap();
        assert_eq!(effects(&tree, "git blame a.txt"), format!("r+ .{wanted}"), "{link} {target}");
    }
}

#[test]
fn the_repository_of_a_root_that_is_a_linked_working_tree_counts_as_inside() {
    let tree = test_tree();
    let main = tree.root.join("../out/.git");
    repository(&main);
    let own = main.join("worktrees/p");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("HEAD"), "ref: refs/heads/p\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(tree.root.join(".git"), "gitdir: ../out/.git/worktrees/p\n").unwrap();
    for line in ["git show", "git -C sub log -p"] {
        assert!(!effects(&tree, line).contains("../out"), "{line}");
    }
    fs::create_dir(tree.root.join("../more")).unwrap();
    fs::write(main.join("objects/info/alternates"), "../../../more\n").unwrap();
    assert_eq!(effects(&tree, "git show"), "r+ ., r+ ../more, held");
    assert_eq!(effects(&tree, "git status"), "r ., held");
}

#[test]
fn a_command_is_seen_from_every_folder_that_it_may_run_in() {
    let place = test_tree();
    for (line, wanted) in [
        ("cd sub && cat ../a.txt", "r sub, r a.txt"),
        ("cd sub; cat b.txt", "r sub, r sub/b.txt"),
        ("(cd sub && cat ../a.txt)", "r sub, r a.txt"),
        ("(cd sub); cat ../a.txt", "r sub, r a.txt, r ../a.txt"),
        ("cd sub & cat ../a.txt", "r sub, r a.txt, r ../a.txt"),
        ("cd sub | cat ../a.txt", "r sub, r a.txt, r ../a.txt"),
        ("true && cd sub; cat ../a.txt", "r sub, r a.txt, r ../a.txt"),
        ("cd none && cat ../a.txt", "r none, r a.txt, r ../a.txt"),
        ("cd link && cat secret", "r ../out, r ../out/secret"),
        ("cd inner && cd .. && ls", "r sub/deep, r ., r sub, r ., r sub, r sub/deep"),
        ("cd inner && cd ../.. && ls", "r sub/deep, r ../, r ., r ../, r ., r sub/deep"),
        ("cd -P inner && ls", "r sub/deep, r sub/deep"),
        ("cd ..; cat x", "r ../, r ../x"),
        ("cd $X; cat a.txt", "hidden, hidden"),
        ("cd; cat a.txt", "hidden, hidden"),
        ("cd -; cat a.txt", "hidden, hidden"),
        ("for x in 1 2; do cat a.txt; cd ..; done", "hidden, hidden"),
        ("sh -c 'cd sub'; cat ../a.txt", "anything, r sub, r a.txt, r ../a.txt"),
        ("pushd sub && cat b.txt", "r sub, anything, r sub/b.txt"),
        ("for f in a.txt sub/b.txt; do cat \"$f\"; done", "r a.txt, r sub/b.txt"),
        ("for f in ./*.txt; do cat \"$f\"; done", "r a.txt"),
        ("for f in a.txt; do read f; cat \"$f\"; done", "hidden"),
        ("x=a.txt; cat $x", "r a.txt"),
        ("x=a.txt; x=/etc/passwd; cat $x", "hidden"),
        ("x='a.txt /etc/passwd'; cat $x", "hidden"),
        ("x=a.txt; x=/etc/passwd eval 'cat $x'", "anything, hidden"),
    ] {
        assert_eq!(
            effects(&place, line).trim_start_matches(", "),
            wanted.trim_start_matches(", "),
            "{line}"
        );
    }
}

#[test]
fn a_line_whose_paths_lead_elsewhere_later_is_widened() {
    let place = test_tree();
    let plan = |text| plan_command_line(text, &place.root, &place.workspace, None);
    let lines = ["cat a.txt", "echo x > new.txt", "cp a.txt new", "ls sub", "mkdir made"];
    let before: Vec<_> = lines.iter().map(|line| plan(line)).collect();
    let widened = || -> Vec<bool> {
        let pairs = before.iter().zip(lines);
        pairs.map(|(before, line)| exceeds_allowed(before, &plan(line), &place.workspace)).collect()
    };
    assert_eq!(widened(), [false; 5]);
    // An earlier call made the target a folder.
    fs::create_dir(place.root.join("new")).unwrap();
    assert_eq!(widened(), [false; 5]);
    fs::remove_file(place.root.join("a.txt")).unwrap();
    symlink("../out/secret", place.root.join("a.txt")).unwrap();
    symlink("../out/new", place.root.join("new.txt")).unwrap();
    assert_eq!(widened(), [true, true, true, false, false]);
}

#[test]
fn a_pattern_over_a_living_folder_may_match_other_files_of_it() {
    let place = test_tree();
    let outside = place.root.parent().unwrap().join("living");
    for name in ["1", "2", "3"] {
        fs::create_dir_all(outside.join(name)).unwrap();
        fs::write(outside.join(name).join("state"), "").unwrap();
    }
    let plan = |text: &str| plan_command_line(text, &place.root, &place.workspace, None);
    let (read, written) = (
        format!("cat {}/*/state", outside.display()),
        format!("touch {}/*/state", outside.display()),
    );
    let before = [plan(&read), plan(&written)];
    let widened = || {
        let now = [plan(&read), plan(&written)];
        [0, 1].map(|at| exceeds_allowed(&before[at], &now[at], &place.workspace))
    };
    // One process ends, another begins.
    fs::remove_dir_all(outside.join("2")).unwrap();
    fs::create_dir(outside.join("4")).unwrap();
    fs::write(outside.join("4/state"), "").unwrap();
    assert_eq!(widened(), [false, true]);
    // A link that leads out of the folder is another file.
    fs::create_dir(outside.join("5")).unwrap();
    symlink("../../out/secret", outside.join("5/state")).unwrap();
    assert_eq!(widened(), [true, true]);
}

#[test]
fn executing_a_linked_program_of_the_project_is_not_reading_its_target() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = test_tree();
    let out = place.root.parent().unwrap().join("out");
    fs::write(out.join("python3.11"), "").unwrap();
    fs::set_permissions(out.join("python3.11"), fs::Permissions::from_mode(0o755)).unwrap();
    for folder in [".venv/bin", "node_modules/.bin", "evil", "linked"] {
        fs::create_dir_all(place.root.join(folder)).unwrap();
    }
    symlink("../../../out/python3.11", place.root.join(".venv/bin/python3")).unwrap();
    symlink("python3", place.root.join(".venv/bin/python")).unwrap();
    symlink("../../../out/python3.11", place.root.join("node_modules/.bin/tsc")).unwrap();
    symlink("../../../out/secret", place.root.join(".venv/bin/secret")).unwrap();
    symlink("../../out/python3.11", place.root.join("evil/python")).unwrap();
    symlink("../../out", place.root.join("linked/node_modules")).unwrap();
    fs::create_dir_all(out.join(".bin")).unwrap();
    symlink("../python3.11", out.join(".bin/tsc")).unwrap();
    for (line, wanted) in [
        (".venv/bin/python -m pytest", "anything"),
        ("./node_modules/.bin/tsc", "anything"),
        // A text file that is no program would be read by the shell.
        (".venv/bin/secret", "r ../out/secret, anything"),
        ("evil/python -m pytest", "r ../out/python3.11, anything"),
        (".venv/bin/../../evil/python -m pytest", "r ../out/python3.11, anything"),
        ("linked/node_modules/.bin/tsc", "r ../out/python3.11, anything"),
        (".venv/bin/python ../out/secret", "r ../out/secret, anything"),
    ] {
        assert_eq!(effects(&place, line), wanted, "{line}");
    }
}

#[test]
fn a_reader_of_listed_files_reads_what_git_or_grep_may_list() {
    let tree = test_tree();
    let root = &tree.root;
    for folder in ["in/src", "in/deep", "opt"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for name in ["in/src/a.rs", "in/src/b.md", "in/.env", "opt/-rf.rs", "opt/é.md"] {
        fs::write(root.join(name), "KEY=1").unwrap();
    }
    fs::write(root.join("in/.gitignore"), ".env\n").unwrap();
    symlink("/etc", root.join("in/deep/etc")).unwrap();
    symlink("/etc/hosts", root.join("in/src/hosts")).unwrap();
    for (line, wanted) in [
        // A link of a folder may have replaced one that the index names; others only count where they match.
        ("cd in && git ls-files | xargs wc -l", false),
        ("cd in/src && git ls-files | xargs wc -l", false),
        ("cd in/src && git ls-files '*.rs' | xargs wc -l", true),
        ("cd in/src && git ls-files a.rs | head -3 | xargs wc -l", true),
        ("cd in/src && git ls-files | grep '\\.rs$' | xargs grep -n fn", false),
        ("cd in/src && git grep -l main -- '*.rs' | xargs wc -l", true),
        ("cd in/src && git ls-files -z '*.rs' | xargs -0 wc -l", true),
        ("cd in/src && git ls-files -s '*.rs' | xargs wc -l", false),
        ("cd in/src && git ls-files ../ | xargs wc -l", false),
        ("cd in/src && git ls-files :/ | xargs wc -l", false),
        ("cd in/src && GIT_DIR=x git ls-files '*.rs' | xargs wc -l", false),
        ("cd in/src && git ls-files '*.rs' | xargs rm", false),
        ("cd in/src && git ls-files '*.rs' | xargs grep -r x", false),
        ("cd in/src && git grep -l main HEAD | xargs wc -l", false),
        ("cd in/src && git log --format=%h | xargs wc -l", false),
        // Names that are options, or that git quotes.
        ("cd opt && git ls-files '*.rs' | xargs wc -l", false),
        ("cd opt && git ls-files '*.md' | xargs wc -l", false),
        ("grep -rl KEY in/src | xargs wc -l", true),
        ("grep -rl KEY in/src | xargs head -5", true),
        ("grep -rlZ KEY in/src | xargs -0 wc -l", true),
        ("grep -rl --include='*.rs' KEY in | xargs grep -n fn", true),
        ("grep -rl KEY in | xargs wc -l", false),
        ("grep -Rl KEY in/src | xargs wc -l", false),
        ("grep -r KEY in/src | xargs wc -l", false),
        ("grep -rlZ KEY in/src | xargs wc -l", false),
        ("grep -rlc KEY in/src | xargs wc -l", false),
        ("cd opt && grep -rl KEY | xargs wc -l", false),
        ("find in -regex '.*\\.\\(rs\\|js\\)' | xargs wc -l", true),
        ("find in -regextype posix-extended -regex '.*\\.(rs|js)' -exec wc -l {} +", true),
        ("find in -regex '.*\\.(rs|js)' | xargs wc -l", false),
        ("find in -regex '.*rs' | xargs wc -l", false),
        ("find in -not -regex '.*\\.rs' | xargs wc -l", false),
    ] {
        let line_effects = plan_command_line(line, root, &Workspace::new(root.clone()), None);
        let CommandMeaning::Commands(commands) = line_effects.meaning else { panic!("{line}") };
        let last = commands.last().unwrap();
        assert_eq!(last.side_effects == SideEffects::Reads, wanted, "{line}: {last:?}");
    }
}

#[test]
fn a_reader_of_found_files_reads_below_the_folders_of_the_search() {
    let tree = test_tree();
    fs::create_dir_all(tree.root.join("src/s/x/y")).unwrap();
    for name in ["src/a.rs", "src/b.rs", "src/s/x/y/e", "glob/.env", "sub/a b.md"] {
        fs::write(tree.root.join(name), "KEY=1").unwrap();
    }
    symlink("a.rs", tree.root.join("src/c.rs")).unwrap();
    for (line, wanted) in [
        ("find src -name '*.rs' | xargs wc -l", "r+ src, r+ src"),
        ("find src -name '*.rs' -exec grep -n fn {} +", "r+ src, r+ src"),
        ("find src -type f -exec head -n 3 {} \\;", "r+ src, r+ src"),
        ("find src -print0 | xargs -0 -n1 cat", "r+ src, r+ src"),
        (
            "find src sub/deep -type f | xargs -I% wc -l %",
            "r+ src, r+ sub/deep, r+ src, r+ sub/deep",
        ),
        ("find sub -type f | xargs basename", "r+ sub"),
        ("find src | xargs -n1 basename", "r+ src"),
        ("cd src && find . -name '*.rs' | xargs wc -l", "r src, r+ src, r+ src"),
        // Files that lead out, hold secrets, or whose names xargs takes apart.
        ("find . -name '*.c' | xargs wc -l", "r+ ., hidden"),
        ("find glob -type f -exec cat {} +", "r+ glob, r+ glob, r glob/.env, anything"),
        ("find glob -name x.c -exec cat {} +", "r+ glob, r+ glob"),
        (
            "find glob -name x.c -exec grep -r K {} +",
            "r+ glob, r+ glob, r+ glob/.env, r glob/.env, anything",
        ),
        ("find sub | xargs cat", "r+ sub, hidden"),
        ("find sub -exec cat {} +", "r+ sub, r+ sub"),
        // Other sources and other ways to pass files on.
        ("find -L src | xargs cat", "hidden, hidden"),
        ("find src -print0 | xargs cat", "r+ src, hidden"),
        ("find src | xargs -0 cat", "r+ src, hidden"),
        ("find src | xargs -a list cat", "r+ src, anything, hidden"),
        ("find src 2>/dev/null | xargs cat 2>/dev/null", "r+ src, r+ src"),
        ("find src | xargs cat > all.txt", "r+ src, w all.txt, r+ src"),
        ("find src 2>&1 | xargs cat", "r+ src, hidden"),
        ("find src | xargs cat <<< a.txt", "r+ src, hidden"),
        ("find src | xargs cat < sub/b.txt", "r+ src, r sub/b.txt, hidden"),
        ("find src |& xargs cat", "r+ src, hidden"),
        ("find src; ls | xargs cat", "r+ src, r ., hidden"),
        ("find src | sort -u | grep -v x | head -n 5 | xargs cat", "r+ src, r+ src"),
        ("find src | head -5 | xargs -d '\\n' cat", "r+ src, r+ src"),
        ("find src | grep -n x | xargs cat", "r+ src, hidden"),
        ("find src | sort <<< .env | xargs cat", "r+ src, hidden"),
        ("find src | <<< .env head | sort | xargs cat", "r+ src, hidden"),
        ("find src | grep x < a.txt | xargs cat", "r+ src, r a.txt, hidden"),
        ("find src | grep x a.txt | xargs cat", "r+ src, r a.txt, hidden"),
        ("find src | sed s/a/b/ | xargs cat", "r+ src, hidden"),
        ("find src | head -c 5 | xargs cat", "r+ src, hidden"),
        ("find src -print0 | sort | xargs -0 cat", "r+ src, hidden"),
        ("find src -print -print0 | xargs -0 cat", "r+ src, hidden"),
        ("find src -print0 -o -print | xargs -0 cat", "r+ src, hidden"),
        ("find src | xargs xargs cat", "r+ src, hidden"),
        ("find src -printf '/etc/%f' | xargs cat", "r+ src, hidden"),
        ("find src -execdir cat {} +", "r+ src, anything, hidden"),
        // What follows an action leaves nothing out for it.
        ("find glob -exec cat {} + -type f -name x.c", "r+ glob, r+ glob, r glob/.env, anything"),
        (
            "find glob -type f -print -name x.c | xargs cat",
            "r+ glob, r+ glob, r glob/.env, anything",
        ),
        (
            "find glob -name x.c -o -type f -exec cat {} +",
            "r+ glob, r+ glob, r glob/.env, anything",
        ),
        ("find glob -name x.c -print -o -type l | xargs cat", "r+ glob, r+ glob"),
        (
            "find glob -name .env -prune -o -type f -print | xargs cat",
            "r+ glob, r+ glob, r glob/.env, anything",
        ),
        ("find glob -type f ! -name .env | xargs cat", "r+ glob, r+ glob"),
        (
            "find glob -type f ! -name '.[e]nv' | xargs cat",
            "r+ glob, r+ glob, r glob/.env, anything",
        ),
        ("find glob \\( -name '*.c' -o -name '*.h' \\) -type f -exec cat {} +", "r+ glob, r+ glob"),
        (
            "find glob ! \\( -name '*.c' \\) -type f -exec cat {} +",
            "r+ glob, r+ glob, r glob/.env, anything",
        ),
        ("find glob \\( -name x.c -o -exec cat {} + \\)", "r+ glob, hidden"),
        ("find glob -type f -exec ls -l {} +", "r+ glob, r+ glob"),
        // A program that writes its second file, and xargs that finds nothing.
        ("find src -exec uniq {} +", "r+ src, hidden"),
        ("find src | xargs xxd", "r+ src, hidden"),
        ("find src -name none | xargs grep -r K", "r+ src, r+ src, r+ ., r glob/.env, anything"),
        ("diff src sub/deep", "r+ src, r+ sub/deep"),
        ("diff glob src", "r glob, r src, hidden"),
        // A name of a file that decides what the command does.
        ("cd src && find s -type f -exec sed {} a.rs \\;", "r src, r+ src/s, r src/a.rs, hidden"),
        ("find src -exec grep {} a.txt \\;", "r+ src, r a.txt, hidden"),
        ("find src -type f -exec sed -i s/a/b/ {} +", "r+ src, hidden"),
        ("find src | xargs rm", "r+ src, hidden"),
    ] {
        assert_eq!(effects(&tree, line), wanted, "{line}");
    }
}

#[test]
fn a_program_that_the_project_puts_before_the_systems_does_not_only_read() {
    let place = test_tree();
    for name in ["bin/ls", "sub/tools/cat", "bin/env"] {
        let path = place.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let only_reads = |search_path: &str, line: &str| {
        let path = search_path.replace("{root}", place.root.to_str().unwrap());
        let plan = plan_command_line(line, &place.root, &place.workspace, Some(&path));
        Subject::Command(plan).only_reads()
    };
    for (path, line, is_read) in [
        ("/usr/bin:/bin", "ls", true),
        ("{root}/bin:/usr/bin:/bin", "ls", false),
        ("./bin:/usr/bin:/bin", "ls", false),
        ("bin:/usr/bin:/bin", "cat a.txt; ls", false),
        ("{root}/bin:/usr/bin:/bin", "env cat a.txt", false),
        ("{root}/bin:/usr/bin:/bin", "cat a.txt", true),
        ("{root}/bin:/usr/bin:/bin", "/bin/ls", false),
        ("/usr/bin:/bin:{root}/bin", "ls", true),
        ("{root}/none:/usr/bin:/bin", "ls", true),
        ("tools:/usr/bin:/bin", "cat a.txt", true),
        ("tools:/usr/bin:/bin", "cd sub && cat b.txt", false),
        (":/usr/bin:/bin", "cd sub/tools && cat cat", false),
        ("./none:/usr/bin:/bin", "ls", true),
    ] {
        assert_eq!(only_reads(path, line), is_read, "{path}: {line}");
    }
}

/// Returns the positions of the words of the first command that a permission must name, with this `PATH`.
fn unlisted(place: &TestTree, text: &str, search_path: &str) -> Vec<usize> {
    let line = plan_command_line(text, &place.root, &place.workspace, Some(search_path));
    let CommandMeaning::Commands(commands) = line.meaning else { panic!("{text} is unclear") };
    let mut positions = commands.first().unwrap().unlisted.clone();
    positions.sort_unstable();
    positions.dedup();
    positions
}

#[test]
fn a_permission_must_name_operands_that_name_an_installed_program() {
    let place = test_tree();
    let programs = place.root.parent().unwrap().join("programs");
    let of_project = place.root.join("node_modules/.bin");
    for path in [programs.join("starter"), of_project.join("bundler"), place.root.join("run.sh")] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = programs.display().to_string();
    for (text, wanted) in [
        ("unknown starter x", &[1][..]),
        ("unknown a starter x", &[2]),
        ("unknown a -- starter", &[3]),
        ("unknown run starter", &[1, 2]),
        ("unknown bundler", &[1]),
        ("unknown ./run.sh", &[1]),
        ("unknown 'A=1 starter x'", &[1]),
        ("unknown 'x; starter'", &[1]),
        ("npx unknown starter", &[2]),
        ("unknown sub/starter starters a.txt", &[]),
        ("unknown test", &[]),
        ("man starter", &[]),
        ("./run.sh starter", &[]),
        ("docker exec c starter", &[1]),
        ("uv run starter", &[1]),
    ] {
        assert_eq!(unlisted(&place, text, &path), wanted, "{text}");
    }
    assert_eq!(unlisted(&place, "unknown starter", "/none"), [0; 0]);
}
