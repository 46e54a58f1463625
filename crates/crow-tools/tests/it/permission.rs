//! Decisions of permission rules about real shell lines, from the line to the decision.

use std::path::{Path, PathBuf};

use crow_core::{
    ids::{CallId, SessionId},
    permission::{
        CallFacts, Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision,
        RuleMatcher, RuleRegex, RuleSet,
    },
    tool::{CallPlan, Effects, Subject, ToolCategory},
    workspace::Workspace,
};
use crow_tools::plan_command_line;
use serde_json::{Value, json};

use crate::bench::Bench;

fn decide(policy: &PermissionPolicy, workspace: &Workspace, plan: &CallPlan) -> Decision {
    let facts = CallFacts {
        call_id: &CallId::new("call"),
        session_id: &SessionId::new("session"),
        agent: "builder",
        input: &Value::Null,
        tool: "bash",
        category: ToolCategory::Execute,
        requires_permission: true,
        plan,
    };
    policy.decide(facts, workspace)
}

fn outcome(decision: &Decision) -> RuleDecision {
    match decision {
        Decision::Allow(_) => RuleDecision::Allow,
        Decision::Ask(_) => RuleDecision::AskUser,
        Decision::Deny(_) => RuleDecision::Deny,
    }
}

fn policy(mode: PermissionMode, rule: PermissionRule) -> PermissionPolicy {
    PermissionPolicy::new(mode).with_rules(RuleSet::new([rule]).unwrap())
}

fn decide_line(mode: PermissionMode, rule: PermissionRule, line: &str) -> RuleDecision {
    let plan = CallPlan {
        title: String::new(),
        effects: Effects::Unknown,
        subject: Subject::Command(plan_command_line(
            line,
            Path::new("/p"),
            &Workspace::new("/p"),
            None,
        )),
    };
    outcome(&decide(&policy(mode, rule), &Workspace::new("/p"), &plan))
}

fn decide_with_cargo_test_allowed(line: &str) -> RuleDecision {
    let rule = PermissionRule::allow_bash_prefix(["cargo", "test"]);
    decide_line(PermissionMode::Ask, rule, line)
}

#[test]
fn a_wrapper_argument_that_may_split_into_words_is_asked_about() {
    for line in [
        "x='5 touch pwned'; timeout -- $x cargo test",
        "x='5 5 touch pwned'; timeout -k $x 10 cargo test",
        "x=' touch pwned'; timeout inf$x cargo test",
        "x=' touch pwned'; time timeout -- 5$x cargo test",
        "x='5 touch pwned'; nice -n $x cargo test",
        "x='L touch pwned'; stdbuf -o $x cargo test",
        "x='n touch pwned'; exec -a $x cargo test",
        "x='FOO touch pwned'; env -u $x cargo test",
        "x='1 touch pwned'; env CI=$x cargo test",
        "x='2 touch pwned'; ionice -c $x cargo test",
        "env {CI=1,touch} cargo test",
    ] {
        assert_eq!(decide_with_cargo_test_allowed(line), RuleDecision::AskUser, "{line}");
    }
    let line = "x='1 touch pwned'; echo a | xargs -n $x echo";
    let rule = PermissionRule::allow_bash_prefix(["xargs"]);
    assert_eq!(decide_line(PermissionMode::Ask, rule, line), RuleDecision::AskUser);
    let line = "x='. -c alias.status=!touch'; git -C $x status";
    let rule = PermissionRule::allow_bash_prefix(["git"]);
    assert_eq!(decide_line(PermissionMode::Ask, rule, line), RuleDecision::AskUser);
}

#[test]
fn the_command_inside_a_wrapper_with_literal_arguments_is_judged() {
    for line in [
        "timeout -k 5 10 cargo test",
        "nice -n 5 env CI=1 cargo test \"$x\"",
        "exec -a name cargo test",
        "time -p cargo test; ! cargo test",
    ] {
        assert_eq!(decide_with_cargo_test_allowed(line), RuleDecision::Allow, "{line}");
    }
}

#[test]
fn builtins_that_may_set_a_variable_or_run_an_index_are_asked_about() {
    for line in [
        "printf -vPATH %s evil; cargo test",
        "printf '-vPATH' evil; cargo test",
        "x='-vPATH %s evil'; printf $x; cargo test",
        "read x <<< '-vPATH evil'; printf $x; cargo test",
        "for x in '-vPATH evil'; do printf $x; done; cargo test",
        "set -- -vPATH evil; printf \"$@\"; cargo test",
        "printf {-v,PATH} evil; cargo test",
        "printf -[v] evil; cargo test",
        "printf %n PATH; cargo test",
        "printf '%-3.2n' PATH; cargo test",
        "y='a[$(touch${IFS}pwned)]'; printf %n \"$y\"; cargo test",
        "y='a[$(touch${IFS}pwned)]'; x=-v; printf \"$x\" \"$y\" hi; cargo test",
        "x='-v a[$(touch${IFS}pwned)]'; test $x; cargo test",
        "x='-v a[$(touch${IFS}pwned)]'; [ $x ]; cargo test",
        "x='-v a[$(touch${IFS}pwned)] -o z'; [ $x = y ]; cargo test",
        "x='z -o -v a[$(touch${IFS}pwned)]'; [ -n $x ]; cargo test",
        "x='a[$(touch${IFS}pwned)]'; [ -v $x ]; cargo test",
        "x=-v; test $x 'a[$(touch${IFS}pwned)]'; cargo test",
        "y='a[$(touch${IFS}pwned)]'; x=-v; test \"$x\" \"$y\"; cargo test",
        "y='a[$(touch${IFS}pwned)]'; x=-v; [ \"$x\" \"$y\" ]; cargo test",
        "set -- -v 'a[$(touch${IFS}pwned)]'; [ \"$@\" ]; cargo test",
        "[ '-v' 'a[$(touch pwned)]' ]; cargo test",
        "wait -pPATH; cargo test",
        "wait -np PATH; cargo test",
        "x=-pPATH; wait -n $x; cargo test",
    ] {
        assert_eq!(decide_with_cargo_test_allowed(line), RuleDecision::AskUser, "{line}");
    }
}

#[test]
fn harmless_tests_and_prints_pass_beside_an_allowed_command() {
    for line in [
        "printf '%s\\n' done; cargo test",
        "printf -- %s; cargo test",
        "test -f Cargo.toml && cargo test",
        "[ -f Cargo.toml ] && cargo test",
        "[ -f \"$x\" ] && cargo test",
        "[ ! -d \"$x\" ] || cargo test",
        "[ \"$x\" = \"$y\" ] && cargo test",
        "cargo test & wait; wait -n",
    ] {
        assert_eq!(decide_with_cargo_test_allowed(line), RuleDecision::Allow, "{line}");
    }
}

#[test]
fn a_program_with_a_relative_path_is_not_allowed_after_a_possible_change_of_folder() {
    let build = |line| {
        decide_line(PermissionMode::Ask, PermissionRule::allow_bash_prefix(["./build.sh"]), line)
    };
    assert_eq!(build("./build.sh --fast && echo done"), RuleDecision::Allow);
    for line in [
        "cd evil && ./build.sh",
        "pushd evil; ./build.sh",
        "for x in 1 2; do ./build.sh; cd evil; done",
        "sh -c 'cd evil; ./build.sh'",
        "command cd evil; ./build.sh",
        "find . -execdir ./build.sh \\;",
    ] {
        assert_eq!(build(line), RuleDecision::AskUser, "{line}");
    }
    let pattern = RuleMatcher::Regex(RuleRegex::new("^scripts/").unwrap());
    let rule = PermissionRule::new("scripts", pattern, RuleDecision::Allow);
    let scripts = |line| decide_line(PermissionMode::Ask, rule.clone(), line);
    assert_eq!(scripts("scripts/x"), RuleDecision::Allow);
    assert_eq!(scripts("cd evil && scripts/x"), RuleDecision::AskUser);
    let rule = PermissionRule::allow_bash_prefix(["bash", "scripts/x"]);
    let script = |line| decide_line(PermissionMode::Ask, rule.clone(), line);
    assert_eq!(script("bash scripts/x"), RuleDecision::Allow);
    assert_eq!(script("cd evil && bash scripts/x"), RuleDecision::AskUser);
    assert_eq!(decide_with_cargo_test_allowed("cd sub && cargo test"), RuleDecision::Allow);
}

#[tokio::test]
async fn a_program_with_a_relative_path_is_allowed_only_in_the_working_directory() {
    let bench = Bench::new();
    bench.write("sub/build.sh", "");
    let outside = tempfile::tempdir().unwrap();
    let (sub, outside) = (bench.path("sub"), outside.path().canonicalize().unwrap());
    let build = PermissionRule::allow_bash_prefix(["./build.sh"]);
    let cargo = PermissionRule::allow_bash_prefix(["cargo", "test"]);
    let ask = async |rule: &PermissionRule, command: &str, workdir: &Option<PathBuf>| {
        let mut input = json!({"command": command});
        if let Some(workdir) = workdir {
            input["workdir"] = json!(workdir);
        }
        let plan = bench.plan("bash", &input).await.unwrap();
        decide(&policy(PermissionMode::AcceptEdits, rule.clone()), &bench.ctx.workspace, &plan)
    };
    let (here, sub, outside) = (None, Some(sub), Some(outside));
    assert_eq!(outcome(&ask(&build, "./build.sh", &here).await), RuleDecision::Allow);
    assert_eq!(outcome(&ask(&build, "./build.sh", &sub).await), RuleDecision::AskUser);
    assert_eq!(outcome(&ask(&build, "./build.sh", &outside).await), RuleDecision::AskUser);
    assert_eq!(outcome(&ask(&cargo, "cargo test", &sub).await), RuleDecision::Allow);
    assert_eq!(outcome(&ask(&cargo, "cargo test", &outside).await), RuleDecision::AskUser);
    // A grant that would not allow the same call again is not offered.
    let other = PermissionRule::allow_bash_prefix(["other"]);
    for (command, workdir, offered) in [
        ("./build.sh", &here, 1),
        ("./build.sh", &sub, 0),
        ("cargo test", &sub, 1),
        ("cargo test", &outside, 0),
    ] {
        let Decision::Ask(ask) = ask(&other, command, workdir).await else { panic!("no question") };
        assert_eq!(ask.offers.len(), offered, "{command} in {workdir:?}");
    }
}

fn decide_with_rm_denied(line: &str) -> RuleDecision {
    decide_line(PermissionMode::FullAuto, PermissionRule::deny_bash_prefix(["rm"]), line)
}

#[test]
fn a_denied_command_is_found_behind_shells_and_wrappers_at_any_path() {
    for line in [
        "/usr/local/bin/bash -c 'rm -rf x'",
        "/bin/../bin/bash -c 'rm -rf x'",
        "//bin/bash -c 'rm x'",
        "./sh -c 'r\"\"m x'",
        "/usr/bin/../bin/env rm x",
        "/opt/bin/nohup rm x",
        "/opt/bin/sudo rm x",
        "zsh -c 'rm x'",
        "/usr/local/bin/zsh -c 'rm x'",
        "tcsh -c 'rm x'",
        "mksh -c 'rm x'",
        "yash -c 'rm x'",
        "fish -c 'rm x'",
        "dash -c 'rm x'",
        "ksh -c 'rm x'",
        "/bin/../bin/rm x",
        "$'rm' x",
        "echo rm x | sh -s",
    ] {
        assert_eq!(decide_with_rm_denied(line), RuleDecision::Deny, "{line}");
    }
}

#[test]
fn a_program_known_only_at_run_time_is_asked_about_if_another_is_denied() {
    for line in ["x=rm; $x y", "$'\\x72m' x", "${x:-rm} x"] {
        let decision = decide_with_rm_denied(line);
        assert_ne!(decision, RuleDecision::Allow, "{line}");
    }
    assert_eq!(decide_with_rm_denied("x=rm; $x y"), RuleDecision::AskUser);
    let pattern = RuleMatcher::Regex(RuleRegex::new("^rm ").unwrap());
    let rule = PermissionRule::new("no rm", pattern, RuleDecision::Deny);
    let decision = decide_line(PermissionMode::FullAuto, rule, "x=rm; $x y");
    assert_eq!(decision, RuleDecision::AskUser);
    assert_eq!(decide_with_rm_denied("echo \"$x\""), RuleDecision::Allow);
}

#[test]
fn the_same_program_at_another_path_is_not_allowed_by_its_name() {
    let shell = PermissionRule::allow_bash_prefix(["bash"]);
    for line in ["/usr/local/bin/bash x", "./bash x", "//bin/bash x"] {
        let decision = decide_line(PermissionMode::Ask, shell.clone(), line);
        assert_eq!(decision, RuleDecision::AskUser, "{line}");
    }
    for line in ["/opt/bin/nohup cargo test", "./env cargo test", "./timeout 5 cargo test"] {
        assert_eq!(decide_with_cargo_test_allowed(line), RuleDecision::AskUser, "{line}");
    }
}

#[test]
fn a_wrapper_can_be_denied_by_its_name() {
    for wrapper in
        ["nohup", "timeout", "nice", "env", "exec", "command", "time", "setsid", "sudo", "eval"]
    {
        let rule = PermissionRule::deny_bash_prefix([wrapper]);
        let line =
            if wrapper == "timeout" { "timeout 5 ls".to_owned() } else { format!("{wrapper} ls") };
        let decision = decide_line(PermissionMode::FullAuto, rule.clone(), &line);
        assert_eq!(decision, RuleDecision::Deny, "{line}");
        let nested = format!("nice -n 3 {line}");
        let decision = decide_line(PermissionMode::FullAuto, rule, &nested);
        assert_eq!(decision, RuleDecision::Deny, "{nested}");
    }
    let rule = PermissionRule::deny_bash_prefix(["nohup", "ls"]);
    let decision = decide_line(PermissionMode::FullAuto, rule, "nohup ls -l");
    assert_eq!(decision, RuleDecision::Deny);
}
