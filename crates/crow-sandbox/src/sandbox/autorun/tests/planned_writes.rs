//! Tests of the paths that file tools ask about because of what is written there.

use std::path::PathBuf;

use super::{
    super::{InventoryScope, StateReader, autorun_paths},
    guard::Project,
};

/// Returns those of the paths in the project that a tool must ask about before it writes all of them.
fn asked_about<'a>(project: &Project, written: &[&'a str]) -> Vec<&'a str> {
    let scope = InventoryScope { roots: vec![project.root.clone()], ..InventoryScope::default() };
    let paths: Vec<PathBuf> = written.iter().map(|path| project.root.join(path)).collect();
    let found = autorun_paths(&scope, &mut StateReader::default(), &paths);
    written.iter().copied().filter(|path| found.contains(&project.root.join(path))).collect()
}

#[test]
fn a_write_that_completes_a_bare_repository_is_asked_about() {
    for (before, written) in [
        ("mkdir -p src/refs src/objects", "src/HEAD"),
        ("mkdir -p src/refs; echo x > src/HEAD", "src/objects/x"),
        ("mkdir -p src/objects; ln -s refs/heads/main src/HEAD", "src/refs/heads/x"),
        ("mkdir -p refs objects", "HEAD"),
        ("rm .git/HEAD; mkdir refs; echo x > HEAD", "objects/x"),
        ("mkdir src; echo x > src/HEAD", "src/commondir"),
        ("mkdir -p c/refs; echo x > HEAD; echo c > commondir", "c/objects/x"),
        ("mkdir -p c/refs c/objects src; echo ../c > src/commondir", "src/HEAD"),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        assert_eq!(asked_about(&project, &[written]), [written], "{before}");
    }
}

#[test]
fn files_of_one_call_that_are_a_bare_repository_together_are_asked_about() {
    let project = Project::with_repository();
    let written = ["src/HEAD", "src/config", "src/objects/x", "src/refs/x", "src/main.rs"];
    assert_eq!(asked_about(&project, &written), &written[..4]);
    assert_eq!(asked_about(&project, &written[..3]), [""; 0]);
}

#[test]
fn settings_of_a_bare_repository_are_asked_about_also_if_they_are_missing() {
    let project = Project::with_repository();
    project.shell("git init -q --bare src/x.git; rm -r src/x.git/config src/x.git/hooks");
    for name in ["HEAD", "config", "config.worktree", "commondir", "hooks/post-update"] {
        let path = format!("src/x.git/{name}");
        assert_eq!(asked_about(&project, &[&path]), [&path]);
    }
    let others = ["src/x.git/description", "src/x.git/refs/heads/x", "src/config", "src/a.rs"];
    assert_eq!(asked_about(&project, &others), [""; 0]);
}

#[test]
fn files_with_names_of_git_in_ordinary_directories_are_not_asked_about() {
    let project = Project::with_repository();
    project.shell("mkdir -p src/refs objects/refs a/objects; echo x > src/HEAD; echo x > a/config");
    let written = [
        "HEAD",
        "config",
        "commondir",
        "hooks/x",
        "refs/x",
        "src/config",
        "src/refs/x",
        "a/HEAD",
        "objects/refs/HEAD",
        "objects/HEAD",
        "a/objects/x",
        "b/commondir",
        "b/gitdir",
    ];
    for path in written {
        assert_eq!(asked_about(&project, &[path]), [""; 0], "{path}");
    }
}

#[test]
fn missing_settings_of_a_repository_elsewhere_in_the_project_are_asked_about() {
    for (before, written) in [
        // By a `.git` file or a link, at the root or below, whether the repository exists or not.
        ("mv .git g; echo 'gitdir: g' > .git; rm g/config", "g/config"),
        ("mv .git g; ln -s g .git; rm g/config", "g/config"),
        ("mv .git g; echo 'gitdir: g' > .git; mv g h", "g/config"),
        ("mkdir vend; echo 'gitdir: ../g' > vend/.git", "g/hooks/post-checkout"),
        ("git init -q vend; mv vend/.git g; echo 'gitdir: ../g' > vend/.git", "g/config.worktree"),
        // By a `commondir`.
        ("cp -r .git g; rm g/config; echo ../g > .git/commondir", "g/config"),
        ("echo ../g > .git/commondir", "g/config"),
        ("git init -q vend; echo ../../g > vend/.git/commondir", "g/hooks/post-checkout"),
        // By settings of a repository that no index names.
        ("git init -q vend; git -C vend config include.path ../../shared", "shared"),
        ("git init -q vend; git -C vend config core.hooksPath ../h", "h/post-checkout"),
        ("git init -q vend; git -C vend config core.fsmonitor ../tool.sh", "tool.sh"),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        assert_eq!(asked_about(&project, &[written, "src/a.rs"]), [written], "{before}");
    }
}

#[test]
fn missing_files_that_an_envrc_loads_without_naming_them_are_asked_about() {
    for (script, written) in [
        ("source_env conf", "conf/.envrc"),
        ("dotenv", ".env"),
        ("use flake", ".direnv/flake-profile-a5d5.rc"),
    ] {
        let project = Project::new();
        project.write(".envrc", &format!("{script}\n"));
        assert_eq!(asked_about(&project, &[written, "src/a.rs"]), [written], "{script}");
    }
}
