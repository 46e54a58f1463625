//! Security review 5: lines in which `cd` may fail, so that later commands run in another folder than expected.

use std::fs;

use crow_core::{
    permission::{Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet},
    tool::Access,
};

use crate::project::Project;

/// Lines in which `cd src/parser` may fail; `{}` is replaced by the rest of the line.
const FAILING: [&str; 31] = [
    "cd src/parser < nosuch; {}",
    "cd src/parser 2>&9; {}",
    "cd src/parser 3<nosuch; {}",
    "cd src/parser 3<&9; {}",
    "cd src/parser >&9-; {}",
    "cd src/parser > nosuch/x; {}",
    "cd src/parser 2> nosuch/x; {}",
    "cd src/parser &> nosuch/x; {}",
    "cd src/parser > src; {}",
    "cd src/parser <<< $((1/0)); {}",
    "cd src/parser <<< \"${x?}\"; {}",
    "cd < nosuch src/parser; {}",
    "< nosuch cd src/parser; {}",
    "time cd src/parser < nosuch; {}",
    "time -p cd src/parser < nosuch; {}",
    "command cd src/parser < nosuch; {}",
    "builtin cd src/parser < nosuch; {}",
    "command builtin cd src/parser 2>&9; {}",
    "(cd src/parser < nosuch; {})",
    "{ cd src/parser < nosuch; {}; }",
    "cd src/parser < nosuch || {}",
    "cd src/parser < nosuch\n{}",
    "pushd src/parser < nosuch; {}",
    "x=$((1/0)) cd src/parser; {}",
    "UID=1 cd src/parser; {}",
    "env cd src/parser; {}",
    "nice cd src/parser; {}",
    "nohup cd src/parser; {}",
    "timeout 5 cd src/parser; {}",
    "setsid cd src/parser; {}",
    "cd src/parser <<E\n$((1/0))\nE\n{}",
];

fn filled(rest: &str) -> Vec<String> {
    FAILING.iter().map(|line| line.replace("{}", rest)).collect()
}

fn passing(project: &Project, policy: &PermissionPolicy, lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .filter(|text| matches!(project.decide(policy, &project.line(text)), Decision::Allow(_)))
        .cloned()
        .collect()
}

fn read_policies() -> [PermissionPolicy; 3] {
    [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::ReadOnly]
        .map(|mode| PermissionPolicy::new(mode).with_read_sandbox(true))
}

#[test]
fn a_cd_that_may_fail_hides_no_read_outside() {
    let project = Project::new();
    for policy in read_policies() {
        let lines = filled("cat ../../other/Cargo.toml");
        // `../other` is inside the project if the shell is in `src/parser`, and outside if `cd` failed.
        let lines: Vec<String> =
            lines.iter().map(|line| line.replace("../../other", "../other")).collect();
        let passed = passing(&project, &policy, &lines);
        assert!(passed.is_empty(), "{passed:#?}");
    }
}

#[test]
fn a_cd_that_may_fail_hides_no_denied_path() {
    let project = Project::new();
    let folder = project.root.join("certs");
    let rule = PermissionRule::deny_path(Access::Read, folder.to_str().unwrap());
    let policy =
        PermissionPolicy::new(PermissionMode::FullAuto).with_rules(RuleSet::new([rule]).unwrap());
    let passed = passing(&project, &policy, &filled("cat certs/server.key"));
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn commands_that_run_before_a_cd_are_judged_in_the_starting_folder() {
    let project = Project::new();
    let lines = [
        "x=$(cat ../other/Cargo.toml) cd src/parser",
        "cd src/parser <<< $(cat ../other/Cargo.toml)",
        "cd src/parser <<< \"$(cat ../other/Cargo.toml)\"",
        "cd src/parser < <(cat ../other/Cargo.toml)",
        "cd src/parser \"$(cat ../other/Cargo.toml)\"",
        "cd src/parser <<E\n$(cat ../other/Cargo.toml)\nE",
    ]
    .map(str::to_owned);
    for policy in read_policies() {
        let passed = passing(&project, &policy, &lines);
        assert!(passed.is_empty(), "{passed:#?}");
    }
}

#[test]
fn a_cd_that_is_not_understood_leaves_the_folder_unknown() {
    let project = Project::new();
    fs::create_dir_all(project.root.join("a/b")).unwrap();
    fs::write(project.root.join("file"), "x").unwrap();
    let lines = [
        "cd src/parser src; cat ../other/Cargo.toml",
        "cd -x src/parser; cat ../other/Cargo.toml",
        "cd -e src/parser; cat ../other/Cargo.toml",
        "cd -P -e src/parser; cat ../other/Cargo.toml",
        "cd -@ src/parser; cat ../other/Cargo.toml",
        "cd ''; cat ../other/Cargo.toml",
        "cd file; cat ../other/Cargo.toml",
        "cd a.txt/..; cat ../other/Cargo.toml",
        "cd missing; cat ../other/Cargo.toml",
        "cd missing/..; cat ../other/Cargo.toml",
        "cd src/parser | cat; cat ../other/Cargo.toml",
        "cd src/parser & cat ../other/Cargo.toml",
        "cd src/parser && cd ../.. ; cat ../other/Cargo.toml",
        "pushd -n src/parser; cat ../other/Cargo.toml",
        "pushd +1; cat ../other/Cargo.toml",
        "popd; cat ../other/Cargo.toml",
        "pushd src/parser; popd; cat ../other/Cargo.toml",
        "dirs -c; cd ~1; cat ../other/Cargo.toml",
        "cd() { :; }; cd src/parser; cat ../other/Cargo.toml",
        "function cd { :; }; cd src/parser; cat ../other/Cargo.toml",
        "alias cd=:; cd src/parser; cat ../other/Cargo.toml",
        "enable -n cd; cd src/parser; cat ../other/Cargo.toml",
        "OLDPWD=/ cd -; cat etc/passwd",
        "CDPATH=/ cd etc; cat passwd",
        "cd src/${x?}; cat ../other/Cargo.toml",
        "cd nosuch*; cat ../other/Cargo.toml",
        "! cd src/parser; cat ../other/Cargo.toml",
        "cd $((1/0)) src; cat ../other/Cargo.toml",
    ]
    .map(str::to_owned);
    for policy in read_policies() {
        let passed = passing(&project, &policy, &lines);
        assert!(passed.is_empty(), "{passed:#?}");
    }
}

#[test]
fn a_cd_with_a_redirection_that_cannot_fail_is_certain() {
    let project = Project::new();
    let lines = [
        "cd src/parser && cat ../main.rs",
        "cd src/parser > /dev/null && cat ../../a.txt",
        "cd src/parser 2>/dev/null; cat ../../a.txt",
        "cd src/parser >/dev/null 2>&1; cat ../../a.txt",
        "cd src/parser &>/dev/null; cat ../../a.txt",
        "command cd src/parser; cat ../../a.txt",
        "time cd src/parser; cat ../../a.txt",
    ]
    .map(str::to_owned);
    let policy = PermissionPolicy::new(PermissionMode::Ask);
    assert_eq!(passing(&project, &policy, &lines), lines);
}
