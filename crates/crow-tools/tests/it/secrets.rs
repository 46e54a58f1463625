//! Shell lines that may read a file whose name suggests secrets are asked about, in every spelling.

use std::fs;

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy};

use crate::project::Project;

fn passes(project: &Project, text: &str) -> bool {
    let policy = PermissionPolicy::new(PermissionMode::Ask).with_read_sandbox(true);
    matches!(project.decide(&policy, &project.line(text)), Decision::Allow(_))
}

#[test]
fn a_secret_file_is_asked_about_in_every_spelling() {
    let project = Project::new();
    project.link("harmless.txt", ".env");
    for text in [
        "cat .env",
        "cat ./.env",
        "cat src/../.env",
        "cat '.e'nv",
        "cat .env.local",
        "cat .env*",
        "cat .e??",
        "cat {.env,a.txt}",
        "cat harmless.txt",
        "cat < .env",
        "cat < harmless.txt",
        "head -c 100 -- .env",
        "sort -u .env",
        "grep . .env",
        "x=.env; cat $x",
        "for f in .env a.txt; do cat \"$f\"; done",
        "cd src && cat ../.env",
        "diff .env a.txt",
        "awk '{print}' .env",
        "sed -n p .env",
        "base64 .env",
        "od -c .env",
        "cat certs/*",
        "wc -l certs/server.key",
        "git show HEAD:.env",
        "git diff -- .env",
        "git log -p .env.local",
        "git grep TOKEN .env",
        "git blame certs/server.pem",
        "git cat-file -p HEAD:.env",
    ] {
        assert!(!passes(&project, text), "{text}");
    }
    for text in ["cat .env.example", "cat a.txt", "ls -la", "wc -l src/*.rs", "git diff -- src"] {
        assert!(passes(&project, text), "{text}");
    }
}

#[test]
fn a_search_that_would_read_a_secret_file_is_asked_about() {
    let project = Project::new();
    for text in [
        "grep -r TOKEN .",
        "grep -rn TOKEN",
        "grep --recursive TOKEN ..//project",
        "grep -r TOKEN src .",
        "grep -rh --include '*.rs' TOKEN",
        "grep -r --include=.env* TOKEN .",
        "grep -r --exclude=*.rs TOKEN .",
        "grep -r --exclude=[.]env* TOKEN .",
        "grep -r TOKEN certs",
        "rg --hidden --no-ignore TOKEN",
        "rg -uu TOKEN",
        "rg -uuu TOKEN",
        "rg -. --no-ignore-vcs TOKEN",
        "rg -u -g '*.key' .",
        "rg TOKEN .env",
        "rg --no-ignore --glob '*.key' x",
        "diff -r . src",
        "cd src && grep -r TOKEN ..",
        "true; grep -r TOKEN . | head",
    ] {
        assert!(!passes(&project, text), "{text}");
    }
    for text in [
        "grep -rn TOKEN src",
        "grep -rn TOKEN src tests docs",
        "grep -r --include=*.rs TOKEN .",
        "grep -r --include=*.rs --include=*.toml TOKEN .",
        "grep -r --exclude=.env* --exclude-dir=certs TOKEN .",
        "rg TOKEN",
        "rg -n TOKEN . | head",
        "rg -g '*.rs' TOKEN",
        "rg -t rust -uu TOKEN",
        "rg --hidden TOKEN",
        "rg --files --hidden",
        "rg --no-ignore -g '!certs' TOKEN",
        "diff -r src tests",
        "find . -name '.env*'",
        "ls -R",
        "git grep -n TOKEN",
    ] {
        assert!(passes(&project, text), "{text}");
    }
}

#[test]
fn a_search_is_not_asked_about_because_of_certificates_and_settings_without_keys() {
    let project = Project::new();
    for name in [".env", ".env.local", "certs/server.key"] {
        fs::remove_file(project.root.join(name)).unwrap();
    }
    // `certs/server.pem` has no certificate header, so it may be a key.
    assert!(!passes(&project, "grep -r TOKEN ."));
    fs::write(project.root.join("certs/server.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert!(passes(&project, "grep -r TOKEN ."));
    fs::write(project.root.join("certs/server.pem"), "-----BEGIN RSA PRIVATE KEY-----\n").unwrap();
    assert!(!passes(&project, "grep -r TOKEN ."));
    fs::remove_file(project.root.join("certs/server.pem")).unwrap();
    fs::write(project.root.join(".git/config"), "[remote \"o\"]\n\turl = https://host/x\n")
        .unwrap();
    assert!(passes(&project, "grep -r TOKEN ."));
    let url = "[remote \"o\"]\n\turl = https://user:secret@host/x\n";
    fs::write(project.root.join(".git/config"), url).unwrap();
    assert!(!passes(&project, "grep -r TOKEN ."));
}

#[test]
fn a_search_by_git_that_would_read_a_secret_file_is_asked_about() {
    let project = Project::new();
    for text in [
        "git grep --no-exclude-standard --untracked TOKEN",
        "git grep --untracked --no-exclude-standard TOKEN -- certs",
    ] {
        assert!(!passes(&project, text), "{text}");
    }
    for text in ["git grep TOKEN", "git grep -n TOKEN -- src", "git -C src grep TOKEN"] {
        assert!(passes(&project, text), "{text}: what git ignores is not searched");
    }
    fs::write(project.root.join(".gitignore"), "").unwrap();
    for text in ["git grep TOKEN", "git grep -n TOKEN -- .", "git grep TOKEN -- ':/'"] {
        assert!(!passes(&project, text), "{text}: what is not ignored may be tracked");
    }
    assert!(passes(&project, "git grep -n TOKEN -- src tests"));
}

#[test]
fn settings_of_git_that_hold_a_token_are_asked_about() {
    let project = Project::new();
    let lines =
        ["git config --local -l", "git config --local --get remote.origin.url", "git remote -v"];
    let settings = |text: &str| fs::write(project.root.join(".git/config"), text).unwrap();
    settings("[remote \"origin\"]\n\turl = https://example.org/x.git\n");
    for text in lines {
        assert!(passes(&project, text), "{text}");
    }
    for token in [
        "[remote \"origin\"]\n\turl = https://user:token@example.org/x.git\n",
        "[http]\n\textraheader = AUTHORIZATION: basic x\n",
    ] {
        settings(token);
        for text in lines.into_iter().chain(["git config --get http.extraheader", "git config -l"])
        {
            assert!(!passes(&project, text), "{text}");
        }
        for text in ["git config --get core.bare", "git config user.name", "git remote"] {
            assert!(passes(&project, text), "{text}");
        }
    }
}
