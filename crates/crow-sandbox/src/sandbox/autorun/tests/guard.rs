//! Tests of what commands leave behind and how the guard repairs it.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use crow_core::{
    capability::{OriginalState, QuarantinedFile},
    file_views::{ContentHash, WrittenContent},
};

use super::super::{
    AutorunGuard, InventoryScope, KernelSeal, RecoveryReport, WrittenFile, is_recoverable, recover,
};
use crate::sandbox::CommandKind;

pub(super) struct Project {
    _folder: tempfile::TempDir,
    pub(super) base: PathBuf,
    pub(super) root: PathBuf,
    pub(super) guard: AutorunGuard,
}

impl Project {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(scope: impl FnOnce(&mut InventoryScope)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("project");
        for directory in ["project", "home/.ssh", "home/other/.git/hooks"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        for (file, text) in [
            ("home/.ssh/config", "Host x\n"),
            ("home/other/.git/config", "[core]\n\tbare = false\n"),
            ("home/other/.git/HEAD", "ref: refs/heads/main\n"),
            ("home/other/.git/hooks/pre-commit", "#!/bin/sh\n"),
        ] {
            fs::write(base.join(file), text).unwrap();
        }
        let mut roots = InventoryScope { roots: vec![root.clone()], ..InventoryScope::default() };
        scope(&mut roots);
        let guard = AutorunGuard::new(roots, KernelSeal::Missing, base.join("held"));
        Self { _folder: folder, base, root, guard }
    }

    /// Stores the state of the guard in a folder, and returns it.
    pub(super) fn keep_journal(&mut self) -> PathBuf {
        let private = self.base.join("private");
        fs::create_dir(&private).unwrap();
        let scope = InventoryScope { roots: vec![self.root.clone()], ..InventoryScope::default() };
        self.guard = AutorunGuard::new(scope, KernelSeal::Missing, private.join("held"))
            .with_journal(private.clone());
        private
    }

    /// Project with a repository that has a commit and a submodule in `sub`.
    pub(super) fn with_repository() -> Self {
        let project = Self::new();
        project.shell(
            "git init -q -b main . && git init -q -b main sub && git -C sub commit -q --allow-empty -m x \
             && git add sub 2>/dev/null && git commit -q -m x",
        );
        project
    }

    #[expect(clippy::disallowed_methods, reason = "git itself is what is tested against")]
    pub(super) fn shell(&self, script: &str) -> String {
        let script = script.replace("{home}", self.base.join("home").to_str().unwrap());
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.base.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@b")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@b")
            .output()
            .unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// Runs `deed` as a command would, and returns what was moved aside and put back.
    pub(super) fn run(&self, deed: impl FnOnce(&Self)) -> Vec<(String, OriginalState)> {
        let (run, _mounts) = self.guard.begin("cmd", CommandKind::Foreground);
        deed(self);
        self.told(&self.guard.end(run))
    }

    pub(super) fn told(&self, found: &[QuarantinedFile]) -> Vec<(String, OriginalState)> {
        let name =
            |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        found.iter().map(|found| (name(&found.path), found.original)).collect()
    }

    /// Returns the files outside of the project, which must never change.
    fn outside(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut found = Vec::new();
        let mut open = vec![self.base.join("home")];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            found.push((path.clone(), fs::read_to_string(&path).ok()));
        }
        found.sort();
        found
    }
}

#[test]
fn planted_programs_are_not_started_by_git_later() {
    let evil = "mkdir -p evil/hooks evil/objects evil/refs && echo 'ref: refs/heads/main' > evil/HEAD && git config -f evil/config core.bare false && git config -f evil/config core.fsmonitor 'touch {home}/canary; false'";
    let doors = [
        ("settings", "git config core.fsmonitor 'touch {home}/canary; false'"),
        (
            "a hook",
            "printf '#!/bin/sh\\ntouch {home}/canary\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
        ),
        (
            "a common directory",
            "EVIL; cp -r .git/refs .git/objects evil/; echo ../evil > .git/commondir",
        ),
        ("a redirected submodule", "EVIL; mv sub/.git sub/old; echo 'gitdir: ../evil' > sub/.git"),
        (
            "settings of a submodule",
            "git -C sub config core.fsmonitor 'touch {home}/canary; false'",
        ),
        (
            "a new submodule",
            "EVIL; mkdir new; echo 'gitdir: ../evil' > new/.git; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new",
        ),
        (
            "a new submodule in a split index",
            "EVIL; mkdir new; echo 'gitdir: ../evil' > new/.git; git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,new; git update-index --split-index",
        ),
        (
            "a submodule whose directory was renamed",
            "mv sub old; mkdir sub; cp -r old/.git sub/.git; git -C sub config core.fsmonitor 'touch {home}/canary; false'",
        ),
        (
            "a submodule that became a link",
            "EVIL; mv sub old; mkdir real; echo 'gitdir: ../evil' > real/.git; ln -s real sub",
        ),
        (
            "a link to a repository",
            "EVIL; cp -r .git/refs .git/objects evil/; mv .git old; ln -s evil .git",
        ),
        (
            "a file that leads to a repository",
            "EVIL; cp -r .git/refs .git/objects evil/; mv .git old; echo 'gitdir: evil' > .git",
        ),
        (
            "an included file",
            "git config include.path ../evil.config; git config -f evil.config core.fsmonitor 'touch {home}/canary; false'",
        ),
        (
            "a directory of hooks elsewhere",
            "git config core.hooksPath evil; mkdir evil; printf '#!/bin/sh\\ntouch {home}/canary\\n' > evil/post-commit; chmod +x evil/post-commit",
        ),
        (
            "settings of a worktree",
            "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch {home}/canary; false'",
        ),
        (
            "a bare repository at the root",
            "EVIL; git config -f evil/config core.worktree ..; mv .git old; cp -r evil/* .; cp -r old/refs old/objects .",
        ),
        (
            "a bare repository by a common directory",
            "EVIL; cp -r .git/refs .git/objects evil/; mv .git old; echo 'ref: refs/heads/main' > HEAD; echo evil > commondir; git config -f evil/config core.worktree ..",
        ),
        (
            "an alias",
            "git config alias.status2 '!touch {home}/canary'; git config alias.st '!touch {home}/canary'",
        ),
        (
            "a filter",
            "git config filter.x.clean 'touch {home}/canary'; echo '* filter=x' > .gitattributes; echo y > file; git add file 2>/dev/null; rm -f {home}/canary",
        ),
    ];
    for (name, script) in doors {
        let project = Project::with_repository();
        let script = script.replace("EVIL", evil);
        let found = project.run(|project| {
            project.shell(&script);
            // The command itself may have run what it planted.
            drop(fs::remove_file(project.base.join("home/canary")));
        });
        assert_ne!(found, [], "{name}: nothing was found");
        let output = project.shell(
            "git status; git diff; git status2; git st; git fetch; git add -A; git commit -qm y --allow-empty; git submodule status; (cd sub && git status)",
        );
        assert!(!project.base.join("home/canary").exists(), "{name}: {found:?}\n{output}");
        // The repaired state is stable.
        assert_eq!(project.run(|_| {}), [], "{name}, once more");
    }
}

#[test]
fn links_through_which_git_would_write_are_moved_aside() {
    for (link, target) in [
        (".git/COMMIT_EDITMSG", "hooks/post-commit"),
        (".git/COMMIT_EDITMSG", "../../home/.ssh/config"),
        (".git/MERGE_MSG", "../.envrc"),
        (".git/FETCH_HEAD", "../../home/new"),
        (".git/packed-refs", "../../home/new"),
        (".git/gc.log", "../../home/new"),
        (".git/logs/refs/heads/main", "../../../../.envrc"),
        (".git/logs/refs/heads/deep/er", "../../../../../.envrc"),
        (".git/refs/heads/other", "../../../../home/new"),
        (".git/objects/ab", "../hooks"),
        (".git/objects/pack", "../hooks"),
        (".git/info/exclude", "../hooks/pre-commit"),
        (".git/worktrees/w/COMMIT_EDITMSG", "../../../.envrc"),
        ("sub/.git/COMMIT_EDITMSG", "../../.envrc"),
    ] {
        let project = Project::with_repository();
        project.shell("git worktree add -q ../home/w");
        let found = project.run(|project| {
            project.shell(&format!(
                "mkdir -p $(dirname {link}); rm -rf {link}; ln -s {target} {link}"
            ));
        });
        assert_eq!(found, [(link.to_owned(), OriginalState::Absent)], "{target}");
        assert!(fs::symlink_metadata(project.root.join(link)).is_err(), "{link}");
        assert_eq!(project.run(|_| {}), [], "{link}, once more");
    }
}

#[test]
fn a_link_in_a_git_directory_that_the_user_made_stays() {
    let project = Project::with_repository();
    project.shell("rm -rf .git/logs; mkdir ../home/logs; ln -s ../../home/logs .git/logs");
    let commits = |project: &Project| drop(project.shell("git commit -q --allow-empty -m x"));
    assert_eq!(project.run(commits), []);
    assert!(project.root.join(".git/logs").is_symlink());
    let found = project.run(|project| drop(project.shell("ln -sfn ../hooks .git/logs")));
    assert_eq!(found, [(".git/logs".to_owned(), OriginalState::Restored)]);
    assert_eq!(
        fs::read_link(project.root.join(".git/logs")).unwrap(),
        Path::new("../../home/logs")
    );
}

#[test]
fn ordinary_work_with_git_leaves_no_links() {
    let project = Project::with_repository();
    let found = project.run(|project| {
        project.shell(
            "git checkout -q -b a/b/c && echo x > x && git add x && git commit -qm x && git checkout -q main && git merge -q a/b/c \
             && git stash -q -u; git tag t; git gc -q; git worktree add -q w; git rebase -q a/b/c; git fetch -q . a/b/c",
        );
    });
    assert_eq!(found, []);
}

#[test]
fn a_worktree_outside_that_settings_newly_name_is_taken_back() {
    let project = Project::with_repository();
    let outside = project.outside();
    for script in [
        "git config core.worktree {home}",
        "git -C sub config core.worktree ../../../home",
        "git init -q new; git -C new config core.worktree {home}",
        "git config extensions.worktreeConfig true; git config --worktree core.worktree {home}",
    ] {
        let found = project.run(|project| drop(project.shell(script)));
        assert!(!found.is_empty(), "{script}");
        project
            .shell("git reset -q --hard; git -C sub reset -q --hard; git -C new reset -q --hard");
        assert_eq!(project.outside(), outside, "{script}");
    }
    assert_eq!(
        project.run(|project| drop(project.shell("git -C sub config core.worktree ..  "))),
        []
    );
}

#[test]
fn planted_settings_start_programs_without_the_guard() {
    let project = Project::with_repository();
    project.shell("git config core.fsmonitor 'touch {home}/canary; false'; git status");
    assert!(project.base.join("home/canary").exists());
}

#[test]
fn a_file_that_trusted_settings_lead_to_is_put_back() {
    let project = Project::with_repository();
    project.shell(
        "git config core.hooksPath .husky; git config include.path ../.gitconfig; git config alias.x '!scripts/x.sh'",
    );
    project.write(".husky/pre-commit", "npm test\n");
    project.write(".gitconfig", "[user]\n\tname = a\n");
    project.write("scripts/x.sh", "echo\n");
    for (path, text) in [
        (".husky/pre-commit", "npm test\n"),
        (".gitconfig", "[user]\n\tname = a\n"),
        ("scripts/x.sh", "echo\n"),
    ] {
        let found = project.run(|project| project.write(path, "[core]\n\tfsmonitor = evil\n"));
        assert_eq!(found, [(path.to_owned(), OriginalState::Restored)]);
        assert_eq!(project.read(path), text);
    }
    let found = project.run(|project| project.write(".husky/post-commit", "evil\n"));
    assert_eq!(found, [(".husky/post-commit".to_owned(), OriginalState::Absent)]);
}

#[test]
fn programs_named_in_git_settings_in_any_spelling_are_put_back() {
    for (setting, program) in [
        ("filter.f.clean \"sh -c 'cd tools && ./x.sh'\"", "tools/x.sh"),
        ("filter.f.clean \"sh -c 'cd tools; cd deep; sh x.sh'\"", "tools/deep/x.sh"),
        ("filter.f.clean 'env -C tools ./x.sh'", "tools/x.sh"),
        ("filter.f.clean 'python3 -m tools.y'", "tools/y.py"),
        ("filter.f.clean 'python3 -m tools.y'", "tools/__init__.py"),
        ("filter.f.clean \"python3 -c 'import tools.y'\"", "tools/y.py"),
        ("remote.o.url 'ext::tools/x.sh %S'", "tools/x.sh"),
        ("url.'ext::tools/x.sh %S '.insteadOf x:", "tools/x.sh"),
        ("core.fsmonitor '\"$(git rev-parse --show-toplevel)/tools/x.sh\"'", "tools/x.sh"),
        ("alias.x '!\"$(git rev-parse --show-toplevel)\"/tools/x.sh'", "tools/x.sh"),
        ("alias.x '-c core.pager=tools/x.sh log'", "tools/x.sh"),
        ("alias.x '!cd ./tools/ && sh x.sh'", "tools/x.sh"),
        ("diff.d.textconv \"sh -c \\\"'tools/x.sh' \\\\\\\"\\$1\\\\\\\"\\\"\"", "tools/x.sh"),
    ] {
        let project = Project::with_repository();
        let output = project.shell(&format!(
            "git config {setting}; git config remote.p.url x:y; git config -l > listed || echo bad"
        ));
        assert_eq!(output, "", "{setting}");
        project.write(program, "good\n");
        let found = project.run(|project| project.write(program, "evil\n"));
        assert_eq!(found, [(program.to_owned(), OriginalState::Restored)], "{setting}");
        assert_eq!(project.read(program), "good\n");
        fs::remove_file(project.root.join(program)).unwrap();
        let found = project.run(|project| project.write(program, "evil\n"));
        assert_eq!(
            found,
            [(program.to_owned(), OriginalState::Absent)],
            "{setting}, not there before"
        );
    }
}

#[test]
fn changed_files_that_protected_scripts_start_are_put_back() {
    let project = Project::with_repository();
    project.write(".git/hooks/pre-commit", "#!/bin/sh\nexec ./tools/check.sh\n");
    project.write(".husky/pre-push", "node scripts/push.js\n");
    project.write(".envrc", "source tools/env.sh\n. .venv/bin/activate\n");
    project.write(
        ".pre-commit-config.yaml",
        "repos:\n- repo: local\n  hooks:\n  - id: x\n    entry: lint.sh\n    files: src/main.rs\n",
    );
    for path in ["tools/check.sh", "scripts/push.js", "tools/env.sh", "lint.sh"] {
        project.write(path, "good\n");
        let found = project.run(|project| project.write(path, "evil\n"));
        assert_eq!(found, [(path.to_owned(), OriginalState::Restored)]);
    }
    let found = project.run(|project| {
        fs::rename(project.root.join("tools"), project.root.join("old")).unwrap();
        project.write("tools/check.sh", "evil\n");
    });
    assert!(!found.is_empty());
    assert_eq!(project.read("tools/check.sh"), "good\n");
    for path in [".venv/bin/activate", "src/main.rs", "scripts/other.js"] {
        let found = project.run(|project| project.write(path, "new\n"));
        assert_eq!(found, [], "{path}");
    }
}

#[test]
fn files_that_an_envrc_loads_without_naming_them_are_put_back_or_moved_aside() {
    for (script, path) in [
        ("source_env conf", "conf/.envrc"),
        ("source_env_if_exists ./conf/", "conf/.envrc"),
        ("dotenv", ".env"),
        ("dotenv_if_exists", ".env"),
        ("dotenv conf", "conf/.env"),
        ("dotenv conf/dev.env", "conf/dev.env"),
        ("dotenv_if_exists .env.local", ".env.local"),
        ("use flake", ".direnv/flake-profile-a5d5.rc"),
        ("watch_file x\n  use nix", ".direnv/nix-profile-x.rc"),
        ("use_flake . --impure", ".direnv/bin/nix-direnv-reload"),
    ] {
        let project = Project::new();
        project.write(".envrc", &format!("{script}\n"));
        fs::create_dir_all(project.root.join(path).parent().unwrap()).unwrap();
        let found = project.run(|project| project.write(path, "evil\n"));
        assert_eq!(found, [(path.to_owned(), OriginalState::Absent)], "{script}");
        project.write(path, "good\n");
        let found = project.run(|project| project.write(path, "evil\n"));
        assert_eq!(found, [(path.to_owned(), OriginalState::Restored)], "{script}");
        assert_eq!(project.read(path), "good\n", "{script}");
    }
}

#[test]
fn files_beside_an_envrc_that_does_not_load_them_may_change() {
    for (script, path) in [
        ("use node", ".direnv/x.rc"),
        ("layout python", ".direnv/python-3.11/bin/python"),
        ("source_env conf", "conf/.env"),
        ("npx dotenv -e .env -- node", ".env"),
        ("use flake", ".direnv/CACHEDIR.TAG"),
    ] {
        let project = Project::new();
        project.write(".envrc", &format!("{script}\n"));
        project.write(path, "old\n");
        assert_eq!(project.run(|project| project.write(path, "new\n")), [], "{script}");
    }
}

#[test]
fn programs_that_a_script_names_from_a_folder_above_the_project_are_put_back() {
    for script in [
        "cd {above} && {name}/scripts/run",
        "cd {above}; sh ./{name}/scripts/run",
        "(cd /; .{root}/scripts/run)",
    ] {
        let project = Project::with_repository();
        let above = project.root.parent().unwrap().display().to_string();
        let name = project.root.file_name().unwrap().to_str().unwrap();
        let script = script.replace("{above}", &above).replace("{name}", name);
        let script = script.replace("{root}", project.root.to_str().unwrap());
        project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\n{script}\n"));
        project.write("scripts/run", "good\n");
        let found = project.run(|project| project.write("scripts/run", "evil\n"));
        assert_eq!(found, [("scripts/run".to_owned(), OriginalState::Restored)], "{script}");
    }
}

#[test]
fn existing_programs_that_a_script_names_in_any_spelling_are_put_back() {
    for (script, program) in [
        ("bash -euo pipefail scripts/run", "scripts/run"),
        ("nice -n 5 scripts/run", "scripts/run"),
        ("timeout -k 1 9 scripts/run", "scripts/run"),
        ("scripts/\"run\"", "scripts/run"),
        ("scripts/\\\nrun", "scripts/run"),
        ("scripts/run>/dev/null", "scripts/run"),
        ("sh < scripts/run", "scripts/run"),
        ("eval \"$(cat scripts/run)\"", "scripts/run"),
        ("trap 'scripts/run' EXIT", "scripts/run"),
        ("cd ./scripts/ && sh run.sh", "scripts/run.sh"),
        ("\"$(git rev-parse --show-toplevel)/scripts/run\"", "scripts/run"),
        ("\"$(dirname \"$0\")/../../scripts/run\"", "scripts/run"),
        ("\"${PWD}\"/scripts/run", "scripts/run"),
        ("HOOK=scripts/run; \"$HOOK\"", "scripts/run"),
        ("python3 -W ignore -- scripts/x.py", "scripts/x.py"),
        ("python3 -c \"import scripts.x\"", "scripts/x.py"),
        ("PYTHONPATH=scripts python3 -m x", "scripts/x.py"),
        ("python3 <<E\nimport sys\nsys.path.insert(0, \"scripts\")\nimport x\nE", "scripts/x.py"),
        ("node --require=./scripts/x.js -e 1", "scripts/x.js"),
        ("node -e \"require('./scripts/x')\"", "scripts/x.js"),
        ("perl -Iscripts -Mx -e1", "scripts/x.pm"),
        ("make -fscripts/x.mk", "scripts/x.mk"),
        ("make -C scripts -f x.mk", "scripts/x.mk"),
        ("awk -fscripts/x.awk", "scripts/x.awk"),
        ("vim -es -c \"source scripts/x.vim\"", "scripts/x.vim"),
        ("env -C scripts ./run", "scripts/run"),
        ("env --chdir=scripts ./run", "scripts/run"),
        ("env -Cscripts ./run", "scripts/run"),
        ("cd \"$(git rev-parse --show-toplevel)/scripts\" && ./run", "scripts/run"),
        ("PATH=\"$PWD/scripts:$PATH\"\nrun", "scripts/run"),
        ("bash -c 'cd \"$1\" && ./run' _ scripts", "scripts/run"),
        ("~+/scripts/run", "scripts/run"),
        ("node -e \"require('./scripts')\"", "scripts/index.js"),
        ("cd scripts; node -e \"require('./x')\"", "scripts/x.js"),
        ("node <<E\nrequire('../../scripts/x')\nE", "scripts/x.js"),
        ("node <<E\nrequire(__dirname + '/../../scripts')\nE", "scripts/index.js"),
        ("python3 -Bmscripts.x", "scripts/x.py"),
        ("cd scripts; python3 -Bmx", "scripts/x.py"),
        ("perl -wIscripts -Mx -e1", "scripts/x.pm"),
        ("make -sfscripts/x.mk", "scripts/x.mk"),
        ("eslint -c scripts/x.js src", "scripts/x.js"),
        ("npx eslint --rulesdir scripts/x.js src", "scripts/x.js"),
        ("jest --config=scripts/x.js", "scripts/x.js"),
        ("rubocop -r ./scripts/x.rb", "scripts/x.rb"),
        ("exec \"${CHECK:-scripts/run}\"", "scripts/run"),
        ("[ -x ${CHECK-scripts/run} ] && . ${CHECK-scripts/run}", "scripts/run"),
        ("RUN=${RUN:=scripts/run}\n$RUN", "scripts/run"),
        ("sh scripts/${NAME:-run}", "scripts/run"),
        ("exec $'\\x73cripts\\x2frun'", "scripts/run"),
        ("lint-staged --config scripts/x.mjs", "scripts/x.mjs"),
    ] {
        let project = Project::with_repository();
        project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\n# don't\n{script}\n"));
        project.write(program, "good\n");
        if Path::new(program).extension().is_none() {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(project.root.join(program), mode).unwrap();
        }
        let found = project.run(|project| project.write(program, "evil\n"));
        assert_eq!(found, [(program.to_owned(), OriginalState::Restored)], "{script}");
        let others = ["scripts/data.json", "scripts/notes.md", "README.md", "src/main.rs"];
        let names = others.join(" ");
        project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\ncat {names}; {script}\n"));
        for other in others {
            let found = project.run(|project| project.write(other, "new\n"));
            assert_eq!(found, [], "{script}: {other}");
        }
    }
}

#[test]
fn every_program_is_put_back_if_a_hook_is_too_long_to_be_read() {
    let many_words: Vec<_> = (0..30_000).map(|number| format!("word{number}")).collect();
    let many_words = many_words.join("\n");
    for filler in ["# filler\n".repeat(150_000), many_words] {
        let project = Project::with_repository();
        let hook = format!("#!/bin/sh\n{filler}scripts/run\n");
        project.write(".git/hooks/pre-commit", &hook);
        project.write("scripts/run.sh", "good\n");
        let found = project.run(|project| project.write("scripts/run.sh", "evil\n"));
        assert_eq!(found, [("scripts/run.sh".to_owned(), OriginalState::Restored)]);
        project.write("src/main.rs", "old\n");
        assert_eq!(project.run(|project| project.write("src/main.rs", "new\n")), []);
    }
}

#[test]
fn sources_that_a_hook_only_mentions_may_be_changed() {
    for (hook, path) in [
        ("npx eslint src/app.js", "src/app.js"),
        ("grep -q TODO src/app.js", "src/app.js"),
        ("prettier --check src/app.js package.json", "package.json"),
        ("python3 -m py_compile src/app.py", "src/app.py"),
        ("python3 -m pytest tests/test_a.py", "tests/test_a.py"),
        ("node -e \"require('./package.json')\"", "package.json"),
        ("tsc src/index.ts", "src/index.ts"),
        ("git diff --name-only | grep setup.py", "setup.py"),
        ("echo \"see lib/util.py for why\"", "lib/util.py"),
        ("# lib/util.py has the rules", "lib/util.py"),
    ] {
        let project = Project::with_repository();
        project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\n{hook}\n"));
        project.write(path, "old\n");
        assert_eq!(project.run(|project| project.write(path, "new\n")), [], "{hook}");
    }
}

#[test]
fn a_user_setting_that_is_a_link_into_the_workspace_is_protected() {
    for (link, target, path) in [
        (".gitconfig", "../project/gitconfig", "gitconfig"),
        (".config/git", "../../project/git", "git/config"),
    ] {
        let project = Project::with(|scope| {
            let home = scope.roots[0].with_file_name("home");
            scope.git.settings = vec![home.join(".config/git/config"), home.join(".gitconfig")];
        });
        let link = project.base.join("home").join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        let text = "[core]\n\tfsmonitor = evil\n";
        let found = project.run(|project| project.write(path, text));
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        assert_eq!(project.read(path), "", "{path}");
        project.write(path, "[user]\n\tname = x\n");
        let found = project.run(|project| project.write(path, text));
        assert_eq!(found, [(path.to_owned(), OriginalState::Restored)]);
    }
}

#[test]
fn links_on_the_way_to_files_of_the_user_are_put_back() {
    let project = Project::with(|scope| {
        let root = scope.roots[0].clone();
        scope.links = vec![root.join("file"), root.join("folder")];
        scope.protected = vec![root.join("missing/settings")];
    });
    project.write("real/settings", "old\n");
    symlink("real/settings", project.root.join("file")).unwrap();
    symlink("real", project.root.join("folder")).unwrap();
    for deed in [
        "rm file; echo evil > file",
        "rm file; mkdir file; echo evil > file/settings",
        "ln -sfn evil file",
        "rm folder; mkdir folder; echo evil > folder/settings",
        "ln -sfn evil folder",
        "rm file folder",
    ] {
        let found = project.run(|project| drop(project.shell(deed)));
        assert!(!found.is_empty(), "{deed}");
        assert_eq!(project.read("file"), "old\n", "{deed}");
        assert_eq!(project.read("folder/settings"), "old\n", "{deed}");
    }
    let found = project.run(|project| project.write("real/settings", "new\n"));
    assert_eq!(found, [], "what a link leads to is protected elsewhere");
    let found = project.run(|project| project.write("missing/settings", "evil\n"));
    assert_eq!(found, [("missing/settings".to_owned(), OriginalState::Absent)]);
}

#[test]
fn hooks_of_the_user_that_are_links_into_the_workspace_are_protected() {
    for (settings, link, target) in [
        ("[core]\nhooksPath = ~/hooks\n", "hooks/pre-commit", "../../project/h/pc"),
        ("[init]\ntemplateDir = ~/t\n", "t/hooks/pre-commit", "../../../project/h/pc"),
        ("[init]\ntemplateDir = ~/t\n", "t/config", "../../project/h/pc"),
        ("[init]\ntemplateDir = ~/t\n", "t", "../project/h"),
    ] {
        let project = Project::with(|scope| {
            let home = scope.roots[0].with_file_name("home");
            scope.git.settings = vec![home.join(".gitconfig")];
            scope.git.home = Some(home);
        });
        let home = project.base.join("home");
        fs::write(home.join(".gitconfig"), settings).unwrap();
        fs::create_dir_all(home.join(link).parent().unwrap()).unwrap();
        symlink(target, home.join(link)).unwrap();
        let found = project.run(|project| project.write("h/pc", "evil\n"));
        assert_eq!(found.len(), 1, "{settings}{link}: {found:?}");
        assert_eq!(project.read("h/pc"), "", "{settings}{link}");
        project.write("h/pc", "good\n");
        let found = project.run(|project| project.write("h/pc", "evil\n"));
        assert_eq!(found, [("h/pc".to_owned(), OriginalState::Restored)], "{settings}{link}");
    }
}

#[test]
fn files_that_no_setting_starts_may_be_changed() {
    let project = Project::with_repository();
    project.shell(
        "git config alias.l 'log -- README.md'; git config filter.f.clean 'sh tools/x.sh'; git config commit.template t",
    );
    for path in ["README.md", "tools/y.sh", "x.sh", "t", "log"] {
        project.write(path, "old\n");
        assert_eq!(project.run(|project| project.write(path, "new\n")), [], "{path}");
    }
}

#[test]
fn the_target_of_a_protected_link_is_protected() {
    let project = Project::new();
    project.write("cfg/claude/settings.json", "{}");
    symlink("cfg/claude", project.root.join(".claude")).unwrap();
    let found = project.run(|project| {
        fs::rename(project.root.join("cfg"), project.root.join("cfg2")).unwrap();
        project.write("cfg/claude/settings.json", "evil");
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(project.read(".claude/settings.json"), "{}");
}

#[test]
fn ordinary_work_with_git_is_left_alone() {
    for script in [
        "git commit -q --allow-empty -m y; git checkout -q -b other; echo x > file; git add file; git stash -q",
        "git init -q inner; git -C inner commit -q --allow-empty -m x",
        "rm -rf sub; git rm -q --cached sub",
        "git worktree add -q wt; git -C wt commit -q --allow-empty -m z",
        "git worktree add -q ../home/wt",
        "git update-index --split-index; git gc -q",
        "git config user.nick x; git config branch.main.remote origin; git remote add origin https://example.org/x",
        "mkdir .github; touch .envrc",
        "rm -rf .git",
        "git init -q nested && git -C nested commit -q --allow-empty -m x && git add nested 2>/dev/null && git commit -qm nested",
    ] {
        let project = Project::with_repository();
        let found = project.run(|project| drop(project.shell(script)));
        assert_eq!(found, [], "{script}");
    }
}

#[test]
fn a_new_repository_is_moved_aside_only_with_planted_files() {
    let project = Project::new();
    assert_eq!(project.run(|project| drop(project.shell("git init -q ."))), []);
    for (planted, moved) in [
        (".git/hooks/pre-commit", ".git"),
        (".git/config.worktree", ".git"),
        (".git/modules/x/hooks/post-checkout", ".git/modules/x"),
    ] {
        let project = Project::new();
        let found = project.run(|project| {
            project.shell("git init -q .");
            project.write(planted, "[core]\n\tfsmonitor = evil\n");
            project.write(".git/modules/x/HEAD", "");
        });
        assert_eq!(found, [(moved.to_owned(), OriginalState::Absent)], "{planted}");
        assert!(!project.root.join(planted).exists());
    }
}

#[test]
fn nothing_outside_is_touched_wherever_links_and_names_lead() {
    let deeds = [
        "ln -s {home} .git/modules",
        "rm -rf .git/modules; mkdir -p .git/modules; ln -s {home}/other .git/modules/x; ln -s {home} .git/modules/y",
        "rm sub -rf; ln -s {home}/other sub",
        "git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,link; ln -s {home}/other link",
        "mv .git g2; ln -s {home}/.ssh .git",
        "mv .git g2; ln -s {home}/other/.git .git",
        "mv .git g2; echo 'gitdir: {home}/other/.git' > .git",
        "echo {home}/other/.git > .git/commondir",
        "rm -rf .git/hooks; ln -s {home}/.ssh .git/hooks",
        "ln -s {home}/.ssh .vscode; ln -s {home} .github",
        "rm -f .git/config; ln -s {home}/.ssh/config .git/config",
        "rm -rf .claude; ln -s {home}/.ssh .claude",
        "rm -f .envrc; ln -s {home}/.ssh/config .envrc",
    ];
    for deed in deeds {
        let project = Project::with_repository();
        project.write(".claude/config", "mine");
        project.write(".envrc", "mine");
        let before = project.outside();
        let found = project.run(|project| drop(project.shell(deed)));
        assert_eq!(project.outside(), before, "{deed}");
        assert_eq!(project.read(".claude/config"), "mine", "{deed}");
        assert_eq!(project.read(".envrc"), "mine", "{deed}");
        assert_ne!(found, [], "{deed}");
    }
}

#[test]
fn every_change_of_a_protected_file_is_put_back() {
    type Deed = fn(&Path) -> io::Result<()>;
    let deeds: [(Deed, &[(&str, OriginalState)]); 9] = [
        (|_| Ok(()), &[]),
        (|root| fs::write(root.join("ordinary"), "changed"), &[]),
        (|root| fs::write(root.join(".envrc"), "evil"), &[(".envrc", OriginalState::Restored)]),
        (|root| fs::remove_file(root.join(".envrc")), &[(".envrc", OriginalState::Restored)]),
        (
            |root| fs::set_permissions(root.join(".envrc"), fs::Permissions::from_mode(0o755)),
            &[(".envrc", OriginalState::Restored)],
        ),
        (
            |root| fs::write(root.join(".github/new.yml"), "evil"),
            &[(".github/new.yml", OriginalState::Absent)],
        ),
        (
            |root| fs::remove_dir_all(root.join(".github")),
            &[
                (".github", OriginalState::Restored),
                (".github/workflows", OriginalState::Restored),
                (".github/workflows/ci.yml", OriginalState::Restored),
            ],
        ),
        (
            |root| {
                fs::remove_file(root.join(".envrc"))?;
                symlink("../home/.ssh/config", root.join(".envrc"))
            },
            &[(".envrc", OriginalState::Restored)],
        ),
        (
            |root| {
                fs::rename(root.join(".github"), root.join("moved"))?;
                symlink("..", root.join(".github"))
            },
            &[
                (".github", OriginalState::Restored),
                (".github/workflows", OriginalState::Restored),
                (".github/workflows/ci.yml", OriginalState::Restored),
            ],
        ),
    ];
    for (number, (deed, expected)) in deeds.into_iter().enumerate() {
        let project = Project::new();
        project.write(".github/workflows/ci.yml", "run: test");
        project.write(".envrc", "use nix");
        project.write("ordinary", "");
        let found = project.run(|project| deed(&project.root).unwrap());
        let expected: Vec<_> =
            expected.iter().map(|(name, original)| ((*name).to_owned(), *original)).collect();
        assert_eq!(found, expected, "deed {number}");
        assert_eq!(project.read(".github/workflows/ci.yml"), "run: test");
        assert_eq!(project.read(".envrc"), "use nix");
        let mode = fs::symlink_metadata(project.root.join(".envrc")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0);
        assert!(!project.root.join(".github/new.yml").exists());
        assert_eq!(project.run(|_| {}), [], "deed {number}, once more");
    }
}

#[test]
fn a_file_too_long_to_be_kept_is_reported_as_lost() {
    let project = Project::new();
    project.write(".envrc", &"x".repeat((1 << 20) + 1));
    let found = project.run(|project| project.write(".envrc", "evil"));
    assert_eq!(found, [(".envrc".to_owned(), OriginalState::Lost)]);
}

#[test]
fn changes_by_permitted_tools_stay_and_later_ones_by_commands_do_not() {
    let project = Project::new();
    let (job, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.write(".envrc", "use nix\n");
    project.write(".github/workflows/ci.yml", "run: test\n");
    let written = |path: &str| WrittenFile { path: project.root.join(path), content: None };
    project.guard.adopt(&[written(".envrc"), written(".github/workflows/ci.yml")]);
    assert_eq!(project.told(&project.guard.check()), []);
    project.write(".envrc", "use nix\nevil\n");
    project.write(".github/workflows/evil.yml", "run: evil\n");
    let found = project.told(&project.guard.end(job));
    assert_eq!(
        found,
        [
            (".github/workflows/evil.yml".to_owned(), OriginalState::Absent),
            (".envrc".to_owned(), OriginalState::Restored)
        ]
    );
    assert_eq!(project.read(".envrc"), "use nix\n");
    assert_eq!(project.read(".github/workflows/ci.yml"), "run: test\n");
}

#[test]
fn what_a_command_writes_beside_a_permitted_tool_is_not_adopted() {
    let project = Project::new();
    project.write(".envrc", "use nix\n");
    let (job, _mounts) = project.guard.begin("cmd", CommandKind::Background);
    let hash = |text: &str| ContentHash::of_content(text.as_bytes());
    let adopt = |path: &str, text: &str, former: Option<&str>| {
        let path = project.root.join(path);
        let content =
            WrittenContent { path: path.clone(), hash: hash(text), built_on: former.map(hash) };
        project.guard.adopt(&[WrittenFile { path, content: Some(content) }]);
    };
    // 1) Before the change: the tool must not read and keep it.
    project.write(".envrc", "use nix\nevil\n");
    project.guard.prepare_change();
    assert_eq!(project.read(".envrc"), "use nix\n");
    // 2) Right after it: an existing file gets its former content, a new one is moved aside.
    project.write(".envrc", "use flake\nevil\n");
    adopt(".envrc", "use flake\n", Some("use nix\n"));
    project.write(".vscode/tasks.json", "evil\n");
    adopt(".vscode/tasks.json", "{}\n", None);
    project.guard.check();
    assert_eq!(project.read(".envrc"), "use nix\n");
    assert_eq!(project.read(".vscode/tasks.json"), "");
    // 3) While the tool works: what it wrote contains what the command wrote.
    project.write(".envrc", "use flake\nevil\n");
    adopt(".envrc", "use flake\nevil\n", Some("use nix\nevil\n"));
    project.guard.check();
    assert_eq!(project.read(".envrc"), "use nix\n");
    // 4) What the tool itself wrote stays.
    project.write(".envrc", "use flake\n");
    adopt(".envrc", "use flake\n", Some("use nix\n"));
    let long = "x".repeat((1 << 20) + 1);
    project.write(".vscode/tasks.json", &long);
    adopt(".vscode/tasks.json", &long, None);
    project.guard.end(job);
    assert_eq!(project.read(".envrc"), "use flake\n");
    assert_eq!(project.read(".vscode/tasks.json"), long);
}

#[test]
fn settings_changed_by_the_user_during_a_command_stay() {
    let project = Project::with_repository();
    let (job, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.shell("git config user.nick x");
    assert_eq!(project.told(&project.guard.check()), []);
    project.shell("git config core.fsmonitor 'touch {home}/canary; false'");
    let found = project.told(&project.guard.check());
    assert_eq!(found, [(".git/config".to_owned(), OriginalState::Disarmed)]);
    assert!(project.read(".git/config").contains("nick = x"));
    assert!(!project.read(".git/config").contains("fsmonitor"));
    assert_eq!(project.told(&project.guard.end(job)), found);
}

#[test]
fn findings_are_reported_to_each_command_that_ran() {
    let project = Project::new();
    let (first, _mounts) = project.guard.begin("first", CommandKind::Foreground);
    let (second, _mounts) = project.guard.begin("second", CommandKind::Foreground);
    project.write(".envrc", "evil\n");
    drop(project.guard.check());
    let (third, _mounts) = project.guard.begin("third", CommandKind::Foreground);
    let found = project.guard.end(third);
    assert_eq!(found, []);
    let found = project.guard.end(second);
    assert_eq!(project.told(&found), [(".envrc".to_owned(), OriginalState::Absent)]);
    assert_eq!(found[0].running_commands, ["first", "second"]);
    project.write(".github/x", "evil\n");
    let found = project.guard.end(first);
    let during: Vec<_> = found.iter().map(|found| found.running_commands.join(" ")).collect();
    assert_eq!(during, ["first second", "first"]);
}

#[test]
fn a_users_file_can_be_brought_back_and_stays() {
    let project = Project::new();
    project.write(".envrc", "old\n");
    let (job, _mounts) = project.guard.begin("job", CommandKind::Foreground);
    project.write(".github/workflows/ci.yml", "run: test\n");
    project.write(".envrc", "mine\n");
    let found = project.guard.check();
    assert_eq!(project.read(".envrc"), "old\n");
    for found in &found {
        assert!(project.guard.can_bring_back(found));
        project.guard.restore_quarantined(found).unwrap();
    }
    assert_eq!(project.told(&project.guard.check()), []);
    assert_eq!(project.read(".envrc"), "mine\n");
    assert_eq!(project.read(".github/workflows/ci.yml"), "run: test\n");
    // What took its place is kept in exchange: nothing is lost.
    let envrc = found.iter().find(|found| found.path.ends_with(".envrc")).unwrap();
    assert_eq!(fs::read_to_string(envrc.moved_to.as_ref().unwrap()).unwrap(), "old\n");
    project.write(".envrc", "evil\n");
    drop(project.guard.end(job));
    assert_eq!(project.read(".envrc"), "mine\n");
}

#[test]
fn nothing_is_brought_back_to_a_changed_place() {
    let project = Project::new();
    project.write(".envrc", "old\n");
    let found = {
        let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
        project.write(".envrc", "one\n");
        project.write(".github/x", "one\n");
        project.guard.end(run)
    };
    project.write(".envrc", "two\n");
    project.write(".github/x", "two\n");
    for found in &found {
        let error = project.guard.restore_quarantined(found).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(found.moved_to.as_ref().unwrap().exists());
    }
    assert_eq!(
        (project.read(".envrc"), project.read(".github/x")),
        ("two\n".into(), "two\n".into())
    );
}

#[test]
fn nothing_is_brought_back_over_a_link_or_from_outside_the_quarantine() {
    let project = Project::new();
    let found = {
        let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
        project.write(".vscode/tasks.json", "one\n");
        project.guard.end(run)
    };
    symlink(project.base.join("home"), project.root.join(".vscode")).unwrap();
    assert!(project.guard.restore_quarantined(&found[0]).is_err());
    let beside = project.root.join(".envrc.crow-held-0");
    fs::write(&beside, "evil\n").unwrap();
    let forged = QuarantinedFile {
        moved_to: Some(beside),
        path: project.root.join(".envrc"),
        ..found[0].clone()
    };
    assert!(!project.guard.can_bring_back(&forged));
    assert!(project.guard.restore_quarantined(&forged).is_err());
    assert!(!project.root.join(".envrc").exists());
}

#[test]
fn changes_by_the_user_between_commands_are_adopted() {
    let project = Project::with_repository();
    assert_eq!(project.run(|_| {}), []);
    project.shell("git config core.fsmonitor true; git config alias.x '!y'");
    project.write(".envrc", "mine\n");
    assert_eq!(project.run(|_| {}), []);
    let found = project.run(|project| project.write(".envrc", "evil\n"));
    assert_eq!(found, [(".envrc".to_owned(), OriginalState::Restored)]);
    assert_eq!(project.read(".envrc"), "mine\n");
}

#[test]
fn a_command_that_removes_its_repository_does_not_open_the_one_around_it() {
    let project = Project::with_repository();
    drop(project.shell("git init -q .."));
    assert!(project.guard.read_only_mounts().external_git_directories.is_empty());
    assert_eq!(project.run(|project| drop(project.shell("rm -rf .git"))), []);
    assert!(project.guard.read_only_mounts().external_git_directories.is_empty());
    let fresh = Project::new();
    drop(fresh.shell("git init -q .."));
    assert_eq!(fresh.guard.read_only_mounts().external_git_directories, [fresh.base.join(".git")]);
}

#[test]
fn names_with_two_components_or_a_protected_ending_are_protected() {
    let project = Project::new();
    project.write(".cargo/config.toml", "[alias]\n");
    project.write("x.code-workspace", "{}");
    let found = project.run(|project| {
        fs::rename(project.root.join(".cargo"), project.root.join("old")).unwrap();
        project.write(".cargo/config.toml", "[build]\nrustc-wrapper = 'evil'\n");
        project.write("x.code-workspace", "{\"tasks\": 1}");
        project.write("y.code-workspace", "{\"tasks\": 1}");
    });
    let mut paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, [".cargo/config.toml", "x.code-workspace", "y.code-workspace"]);
    assert_eq!(project.read(".cargo/config.toml"), "[alias]\n");
    assert_eq!(project.read("x.code-workspace"), "{}");
}

#[test]
fn links_among_the_lists_of_objects_are_moved_aside() {
    let project = Project::with_repository();
    let found = project.run(|project| {
        let links = "mkdir -p .git/objects/info; ln -s {home}/.ssh/config .git/objects/info/commit-graph; ln -s {home}/.ssh/config .git/objects/pack/multi-pack-index";
        project.shell(links);
    });
    let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, [".git/objects/info/commit-graph", ".git/objects/pack/multi-pack-index"]);
}

#[test]
fn a_worktree_that_names_a_file_outside_is_moved_aside_unless_that_file_names_it() {
    let project = Project::with_repository();
    let found = project.run(|project| {
        let worktree = "mkdir -p .git/worktrees/x; cd .git/worktrees/x; echo {home}/.git > gitdir; echo ../.. > commondir; git rev-parse HEAD > HEAD";
        project.shell(worktree);
    });
    assert_eq!(found, [(".git/worktrees/x".to_owned(), OriginalState::Absent)]);
    // The user may add one in a second terminal, and it must stay where it is.
    let before = project.shell("git worktree add -q {home}/wt; cat .git/worktrees/wt/gitdir");
    let found = project.run(|project| {
        project.shell("echo {home}/.git > .git/worktrees/wt/gitdir");
    });
    assert_eq!(found, [(".git/worktrees/wt/gitdir".to_owned(), OriginalState::Restored)]);
    assert!(before.ends_with(&project.read(".git/worktrees/wt/gitdir")), "{before}");
}

#[test]
fn unprotected_paths_are_left_alone() {
    let project = Project::with(|scope| scope.unprotected = vec![".github".into(), ".git".into()]);
    let found = project.run(|project| {
        project.write(".github/x", "x");
        project.write(".git/hooks/pre-commit", "x");
    });
    assert_eq!(found, []);
}

#[test]
fn a_worktree_may_commit_to_its_repository_only_if_that_knows_it() {
    let project = Project::new();
    let main = project.base.join("main");
    fs::create_dir_all(&main).unwrap();
    project.shell(
        "git init -q -b main ../main && git -C ../main commit -q --allow-empty -m x && git -C ../main worktree add -q ../tree",
    );
    let own = main.join(".git/worktrees/tree");
    let outside = |root: &Path| {
        let scope = InventoryScope { roots: vec![root.to_owned()], ..InventoryScope::default() };
        AutorunGuard::new(scope, KernelSeal::Missing, project.base.join("held"))
            .read_only_mounts()
            .external_git_directories
    };
    assert_eq!(outside(&project.base.join("tree")), [main.join(".git"), own.clone()]);
    project.write(".git", &format!("gitdir: {}\n", own.display()));
    assert!(outside(&project.root).is_empty());
    fs::remove_file(project.root.join(".git")).unwrap();
    project.shell("git init -q .");
    assert!(outside(&project.root).is_empty());
    project.write(".git/commondir", main.join(".git").to_str().unwrap());
    assert!(outside(&project.root).is_empty());
}

#[test]
fn the_next_session_recovers_files_changed_by_a_command_of_a_killed_session() {
    let mut project = Project::with_repository();
    project.write(".envrc", "use nix\n");
    let private = project.keep_journal();
    let (_run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.write(".vscode/tasks.json", "evil\n");
    project.write(".envrc", "evil\n");
    project.shell("git -C sub config core.fsmonitor evil");
    // Simulates the kill: nothing more happens in this session.
    let found = project.told(&recover(&private, &[]).repaired);
    assert_eq!(
        found,
        [
            (".vscode".to_owned(), OriginalState::Absent),
            (".envrc".to_owned(), OriginalState::Restored),
            ("sub/.git/config".to_owned(), OriginalState::Disarmed),
        ]
    );
    assert_eq!(project.read(".envrc"), "use nix\n");
    assert!(private.join("held").read_dir().unwrap().count() == 3);
    assert_eq!(recover(&private, &[]), RecoveryReport::default());
}

#[test]
fn files_made_after_a_session_was_killed_stay() {
    let mut project = Project::new();
    let private = project.keep_journal();
    let (_run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    // The last sign of life is an hour old; more than a second suffices.
    let marker = fs::File::options().write(true).open(private.join("autorun.running")).unwrap();
    let hour = std::time::Duration::from_hours(1);
    marker.set_modified(std::time::SystemTime::now() - hour).unwrap();
    project.write(".envrc", "mine\n");
    let found = recover(&private, &[]);
    assert_eq!(found.repaired, []);
    // A program that was stopped before it was killed gave no sign of life either: the user is told.
    assert_eq!(found.changed_later, [project.root.join(".envrc")]);
    assert_eq!(project.read(".envrc"), "mine\n");
}

#[test]
fn signs_of_life_go_on_while_a_check_takes_long() {
    let mut project = Project::new();
    let private = project.keep_journal();
    let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.guard.check();
    let marker = private.join("autorun.running");
    let modified = || fs::metadata(&marker).unwrap().modified().unwrap();
    let (before, start) = (modified(), std::time::Instant::now());
    // No other check comes.
    while modified() == before {
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
        std::thread::yield_now();
    }
    assert_eq!(project.guard.end(run), []);
    assert!(!marker.exists());
}

#[test]
fn nothing_is_recovered_if_no_command_was_running() {
    let mut project = Project::new();
    let private = project.keep_journal();
    assert_eq!(project.run(|_| {}), []);
    assert!(!is_recoverable(&private));
    project.write(".envrc", "mine\n");
    assert_eq!(recover(&private, &[]), RecoveryReport::default());
    assert_eq!(project.read(".envrc"), "mine\n");
}

#[test]
fn an_unreadable_journal_changes_nothing() {
    let project = Project::new();
    let private = project.base.join("private");
    fs::create_dir(&private).unwrap();
    for text in ["", "{", "{\"version\": 99}", "[1]"] {
        fs::write(private.join("autorun.json"), text).unwrap();
        fs::write(private.join("autorun.running"), "").unwrap();
        assert_eq!(recover(&private, &[]), RecoveryReport::default(), "{text:?}");
        assert!(!is_recoverable(&private));
    }
}

/// Number of the guard's checks during a race. `CROW_RACE_ROUNDS` sets another one.
#[expect(clippy::disallowed_methods, reason = "a test reads its own setting")]
fn rounds() -> usize {
    std::env::var("CROW_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

#[test]
fn nothing_outside_is_touched_while_directories_are_exchanged_for_links() {
    use std::{
        io::Write as _,
        sync::atomic::{AtomicBool, Ordering},
    };

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let project = Project::with_repository();
    project.write(".vscode/config", "mine");
    project.write(".claude/hooks/pre-commit", "mine");
    project.write(".git/modules/x/config", "[core]\n\tbare = false\n");
    let pairs = [
        (".vscode", "one", "{home}/.ssh"),
        (".claude", "two", "{home}/other/.git"),
        (".git/modules", "three", "{home}"),
        ("sub", "four", "{home}/other"),
        (".git/hooks", "five", "{home}/other/.git/hooks"),
    ];
    for (_, link, target) in pairs {
        project.shell(&format!("ln -s {target} {link}"));
    }
    let before = project.outside();
    let is_done = AtomicBool::new(false);
    let mut repaired = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                for (path, link, _) in pairs {
                    let (path, link) = (project.root.join(path), project.root.join(link));
                    // It may have been moved aside: then a new link takes its place.
                    if renameat_with(CWD, &path, CWD, &link, RenameFlags::EXCHANGE).is_err() {
                        drop(symlink("../home/other", &link));
                        drop(fs::create_dir(&path));
                    }
                }
            }
        });
        // On a busy machine the link may stay in place for very many rounds.
        for round in 0..100_000 {
            let (run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
            // Like a command, this cannot write outside of the project.
            let opened = crow_fs::open_for_writing(&project.root.join(".vscode/config"));
            drop(opened.and_then(|mut file| write!(file, "evil {round}")));
            let hook = crow_fs::create_file(&project.root.join(".git/hooks/pre-push"), 0o755);
            drop(hook.and_then(|mut file| write!(file, "evil")));
            repaired += project.guard.end(run).len();
            if round >= rounds() && repaired > 0 {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(project.outside(), before);
    assert!(repaired > 0, "nothing was repaired: the race shows nothing");
}

#[test]
fn files_made_a_second_after_the_last_sign_of_life_stay() {
    let mut project = Project::new();
    let private = project.keep_journal();
    let (_run, _mounts) = project.guard.begin("cmd", CommandKind::Foreground);
    project.write(".envrc", "the command's\n");
    project.write(".vscode/tasks.json", "mine\n");
    let changed = |path: &str| {
        let found = crow_fs::metadata(&project.root.join(path)).unwrap().changed;
        std::time::UNIX_EPOCH
            + std::time::Duration::new(found.0.cast_unsigned(), u32::try_from(found.1).unwrap())
    };
    // Both were made in the same instant: the marker is set so that only one of them is too new.
    let between = changed(".envrc") - std::time::Duration::from_secs(1);
    assert!(changed(".envrc") <= changed(".vscode/tasks.json"));
    while changed(".envrc") == changed(".vscode/tasks.json") {
        project.write(".vscode/tasks.json", "mine\n");
    }
    let marker = fs::File::options().write(true).open(private.join("autorun.running")).unwrap();
    marker.set_modified(between).unwrap();
    assert_eq!(
        project.told(&recover(&private, &[]).repaired),
        [(".envrc".to_owned(), OriginalState::Absent)]
    );
    assert_eq!(project.read(".vscode/tasks.json"), "mine\n");
}

#[test]
fn disarmed_settings_keep_their_harmless_additions() {
    for (before, line, kept, original) in [
        (
            "",
            "git config core.pager evil; git remote add o https://a.invalid",
            "url = https://a.invalid",
            OriginalState::Disarmed,
        ),
        (
            "git config core.editor vi",
            "git config core.pager evil; git config branch.x.merge y",
            "editor = vi",
            OriginalState::Disarmed,
        ),
        (
            "git config core.pager less",
            "git config core.pager evil; git remote add o https://a.invalid",
            "pager = less",
            OriginalState::Restored,
        ),
    ] {
        let project = Project::with_repository();
        project.shell(before);
        let found = project.run(|project| drop(project.shell(line)));
        assert_eq!(found, [(".git/config".to_owned(), original)], "{line}");
        let settings = project.read(".git/config");
        assert!(settings.contains(kept) && !settings.contains("evil"), "{settings}");
        assert_eq!(project.run(|_| {}), []);
    }
}
