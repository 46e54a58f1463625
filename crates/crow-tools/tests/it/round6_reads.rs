//! Review 6, reads with `find`, `xargs` and `-exec` that were asked about needlessly: everything that they read is known
//! before they run.

use std::fs;

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy};

use crate::project::Project;

fn asked<'a>(project: &Project, lines: &[&'a str]) -> Vec<&'a str> {
    let policy = PermissionPolicy::new(PermissionMode::Ask).with_read_sandbox(true);
    let is_asked =
        |text: &&str| !matches!(project.decide(&policy, &project.line(text)), Decision::Allow(_));
    lines.iter().copied().filter(is_asked).collect()
}

#[test]
fn commands_that_read_files_found_by_find_need_no_question() {
    let project = Project::new();
    let lines = [
        "find src -name '*.rs' | xargs wc -l",
        "find src -name '*.rs' | xargs wc -l | tail -1",
        "find . -name '*.rs' -not -path './target/*' | xargs grep -n 'fn main'",
        "find . -name '*.rs' -exec wc -l {} +",
        "find src -type f -name '*.rs' -exec grep -ln parse {} \\;",
        "find src -type f -print0 | xargs -0 -n1 basename",
        "find . -name Cargo.toml 2>/dev/null | xargs head -n 5",
        "ls | xargs -n1 basename",
        "find . \\( -name '*.rs' -o -name '*.js' \\) -exec wc -l {} +",
        "find . -path ./node_modules -prune -o -name '*.js' -print | xargs wc -l",
        "find src -type f -not -path './.git/*' -not -name '.*' | xargs wc -l",
        "find . -maxdepth 2 -type d | xargs du -sh",
        "find . -type f -size +10k -exec ls -lh {} +",
        "find src -name '*.rs' | sort | xargs wc -l",
        "find src -name '*.rs' | grep -v parser | head -5 | xargs cat",
        "diff src docs",
        "seq 3 | xargs echo",
    ];
    let needless = asked(&project, &lines);
    assert!(needless.is_empty(), "{needless:#?}");
}

#[test]
fn commands_that_may_read_keys_found_by_find_are_asked_about() {
    let project = Project::new();
    let lines = [
        "find . -type f | xargs cat",
        "find . -name '*' -exec cat {} +",
        "find . -name '.e*' | xargs cat",
        "find / -name '*.rs' | xargs cat",
        "find src -name '*.rs' | xargs -I{} sh -c 'cat {}'",
        "find src -name '*.rs' | xargs rm",
        "find . -type f -print -name zzz | xargs cat",
        "find . -exec cat {} \\; -name zzz",
        "find src -type f -exec uniq {} +",
        "find src | xargs xxd",
        "find src -name none | xargs grep -r KEY",
        "diff . src",
        "diff -N . src",
        "diff certs docs",
        "find src -name '*.rs' -exec sed -i s/a/b/ {} +",
    ];
    assert_eq!(asked(&project, &lines), lines);
}

#[test]
fn git_settings_with_a_token_are_shown_from_no_worktree_or_submodule_unasked() {
    let project = Project::new();
    let token = "[remote \"o\"]\n\turl = https://u:abc@example.org/r\n";
    for (folder, text) in
        [("modules/sub", token), ("worktrees/tree", "../.."), ("worktrees/plain", "")]
    {
        let folder = project.root.join(".git").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let name = if text == "../.." { "commondir" } else { "config" };
        fs::write(folder.join(name), text).unwrap();
    }
    for (name, target) in
        [("sub", "modules/sub"), ("tree", "worktrees/tree"), ("plain", "worktrees/plain")]
    {
        fs::create_dir_all(project.root.join(name)).unwrap();
        let link = format!("gitdir: ../.git/{target}\n");
        fs::write(project.root.join(name).join(".git"), link).unwrap();
    }
    fs::write(project.root.join(".git/config"), token).unwrap();
    let lines = ["git -C sub remote -v", "cd sub && git config -l", "git -C tree remote -v"];
    assert_eq!(asked(&project, &lines), lines);
    assert!(asked(&project, &["git -C plain remote -v"]).is_empty());
}
