//! Security review 5, lines that pass as reads.

use std::fs;

use crow_core::permission::{Decision, PermissionMode, PermissionPolicy};

use crate::project::Project;

fn passes(project: &Project, text: &str) -> bool {
    let line = project.line(text);
    let policy = PermissionPolicy::new(PermissionMode::Ask).with_read_sandbox(true);
    matches!(project.decide(&policy, &line), Decision::Allow(_))
}

fn passing<'a>(project: &Project, lines: &[&'a str]) -> Vec<&'a str> {
    lines.iter().copied().filter(|text| passes(project, text)).collect()
}

fn asked<'a>(project: &Project, lines: &[&'a str]) -> Vec<&'a str> {
    lines.iter().copied().filter(|text| !passes(project, text)).collect()
}

#[test]
fn creating_a_tag_or_branch_with_list_options_is_asked_about() {
    let project = Project::new();
    let passed = passing(
        &project,
        &[
            "git tag --sort=refname v1",
            "git tag --sort refname v1",
            "git tag --sort=-v:refname v1 HEAD",
            "git tag --column x",
            "git tag --sort --merged x",
            "git tag --column --sort=refname x",
            "git branch --sort=refname x",
            "git branch --format --merged x",
            "git branch --sort --contains x",
            "git branch --column x",
        ],
    );
    assert!(passed.is_empty(), "{passed:#?}");
    let asked = asked(
        &project,
        &[
            "git tag",
            "git tag --sort=-v:refname",
            "git tag --column",
            "git tag -l 'v1.*' --sort=refname",
            "git tag --sort=refname -l v1",
            "git tag --contains HEAD",
            "git branch --merged main",
            "git branch --sort=refname --contains HEAD",
        ],
    );
    assert!(asked.is_empty(), "{asked:#?}");
}

#[test]
fn a_diff_through_a_link_that_leads_outside_is_asked_about() {
    let project = Project::new();
    project.link("out", "../other");
    let lines =
        ["git diff a.txt out/Cargo.toml", "git diff -- a.txt out/*", "git -C . diff a.txt out"];
    assert!(passing(&project, &lines).is_empty());
    let lines = ["git diff a.txt b.txt", "git diff HEAD~1 -- src", "git diff main...topic"];
    assert!(asked(&project, &lines).is_empty());
}

#[test]
fn a_format_that_starts_the_program_for_signatures_is_asked_about() {
    let project = Project::new();
    let lines = [
        "git log --format=%G?",
        "git log --pretty=%GK",
        "git log -1 --pretty=tformat:%GS",
        "git show --pretty='%C(red)%+GG'",
        "git rev-list --format=%GF HEAD",
        "git for-each-ref --format='%(signature)'",
        "git log --show-signature",
    ];
    assert!(passing(&project, &lines).is_empty());
    assert!(passes(&project, "git log --format='%h %an %s' -5"));
}

#[test]
fn git_settings_with_a_token_are_asked_about_in_every_folder() {
    let project = Project::new();
    let lists = [
        "git config -l",
        "git config --list",
        "git config list",
        "git config --get-regexp .",
        "git var -l",
        "git remote -v",
        "git -C src config -l",
        "cd src && git config -l",
        "cd src/parser; git remote -v",
        "git config sendemail.smtpPass",
        "git config core.sshKey",
    ];
    for settings in [
        "[remote \"o\"]\n\turl = https://u:abc@example.org/r\n",
        "[sendemail]\n\tsmtpPass = x\n",
        "[http]\n\textraHeader = Authorization: x\n",
        "[include]\n\tpath = ../secret\n",
        "[includeIf \"gitdir:/\"]\n\tpath = ../secret\n",
        &"#".repeat(100_000),
    ] {
        fs::write(project.root.join(".git/config"), settings).unwrap();
        let passed = passing(&project, &lists);
        assert!(passed.is_empty(), "{settings:.40}: {passed:#?}");
    }
    fs::write(project.root.join(".git/config"), "[user]\n\tname = x\n").unwrap();
    assert!(asked(&project, &lists[..9]).is_empty());
}

#[test]
fn every_search_that_may_read_a_private_key_is_asked_about() {
    let project = Project::new();
    fs::write(project.root.join("src/x.pem"), "KEY").unwrap();
    let lines = ["rg KEY", "rg KEY .", "rg KEY src", "rg -l x", "grep -r KEY src", "git grep KEY"];
    let passed = passing(&project, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
    fs::write(project.root.join("src/x.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    assert!(asked(&project, &["rg KEY", "rg KEY src", "grep -r KEY src"]).is_empty());
}

#[test]
fn files_with_keys_of_services_are_asked_about() {
    let project = Project::new();
    for name in [
        "service-account.json",
        "terraform.tfstate",
        "prod.tfvars",
        ".vault-token",
        "kubeconfig",
        ".my.cnf",
        "auth.json",
        "office.ovpn",
        "wp-config.php",
        ".yarnrc.yml",
    ] {
        fs::write(project.root.join("docs").join(name), "KEY").unwrap();
        let lines = [format!("cat docs/{name}"), "grep -r KEY docs".to_owned()];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(passing(&project, &lines).is_empty(), "{name}");
        fs::remove_file(project.root.join("docs").join(name)).unwrap();
    }
}

#[test]
fn versions_of_programs_that_a_project_may_choose_are_asked_about_without_a_sandbox() {
    let project = Project::new();
    let policy = PermissionPolicy::new(PermissionMode::Ask);
    for text in [
        "yarn --version",
        "yarn -v",
        "pnpm -v",
        "pnpm --version",
        "go version",
        "rustc --version",
        "rustc -V",
        "cargo --version",
        "cargo -V",
        "terraform version",
        "terraform --version",
        "docker version",
    ] {
        let line = project.line(text);
        assert!(matches!(project.decide(&policy, &line), Decision::Ask(_)), "{text}");
    }
}

#[test]
fn a_git_grep_limited_to_harmless_file_names_needs_no_question() {
    let project = Project::new();
    fs::write(project.root.join(".gitignore"), "").unwrap();
    let lines = [
        "git grep -n x -- '*.rs'",
        "git grep -n x -- 'src/*.rs' docs",
        "git grep x -- '*.rs' '*.md'",
        "git -C src grep x -- '*.rs'",
    ];
    let needless = asked(&project, &lines);
    assert!(needless.is_empty(), "{needless:#?}");
    let lines = [
        "git grep x",
        "git grep x -- '*'",
        "git grep x -- '*.env'",
        "git grep x -- '*.rs' .",
        "git grep x -- '*.rs' '.e*'",
        "git grep x -- ':!*.rs'",
        "git grep x -- '[.]env'",
        "git grep x -- 'cert*'",
        "git grep x -- certs",
    ];
    let passed = passing(&project, &lines);
    assert!(passed.is_empty(), "{passed:#?}");
}
