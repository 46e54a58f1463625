use serde_json::json;

use super::call::{Call, paths, policy_in};
use crate::{
    ids::CallId,
    permission::{PermissionMode, PermissionRule, Permit, RuleDecision},
    tool_types::{Access, Effects, ToolCategory},
};

#[test]
fn each_mode_decides_as_documented() {
    let calls = [
        Call::new("todo", ToolCategory::Session, Effects::None),
        Call::read("/p/a"),
        Call::read("/scratch/a"),
        Call::read("/etc/passwd"),
        Call::write("/p/a"),
        Call::write("/p/.git/config"),
        Call::write("/scratch/a"),
        Call::bash("ls"),
    ];
    let expected = [
        (PermissionMode::Ask, "allow allow allow ask ask ask ask ask"),
        (PermissionMode::AcceptEdits, "allow allow allow ask allow ask ask ask"),
        (PermissionMode::ReadOnly, "allow allow allow ask deny deny deny deny"),
        (PermissionMode::FullAuto, "allow allow allow allow allow ask ask allow"),
    ];
    for (mode, row) in expected {
        let outcomes = calls.iter().map(|call| match call.outcome(&policy_in(mode, [])) {
            RuleDecision::Allow => "allow",
            RuleDecision::AskUser => "ask",
            RuleDecision::Deny => "deny",
        });
        assert_eq!(outcomes.collect::<Vec<_>>().join(" "), row, "{mode}");
    }
}

#[test]
fn commands_of_the_user_need_no_permission_and_can_be_denied() {
    let call = Call::new("task_complete", ToolCategory::Session, Effects::UserCommands);
    for mode in PermissionMode::ALL {
        assert_eq!(call.outcome(&policy_in(mode, [])), RuleDecision::Allow, "{mode}");
        let denies = policy_in(mode, [PermissionRule::deny_category(ToolCategory::Session)]);
        assert_eq!(call.outcome(&denies), RuleDecision::Deny, "{mode}");
    }
}

#[test]
fn no_rule_lifts_the_mode_that_permits_no_changes() {
    let policy = policy_in(
        PermissionMode::ReadOnly,
        [
            PermissionRule::allow_tool("bash"),
            PermissionRule::allow_tool("edit_file"),
            PermissionRule::allow_path(Access::Read, "/etc"),
        ],
    );
    assert_eq!(Call::bash("ls").outcome(&policy), RuleDecision::Deny);
    assert_eq!(Call::write("/p/a").outcome(&policy), RuleDecision::Deny);
    assert_eq!(Call::read("/etc/hosts").outcome(&policy), RuleDecision::Allow);
}

#[test]
fn a_rule_that_asks_or_denies_holds_in_every_mode() {
    for mode in PermissionMode::ALL {
        let asks = policy_in(mode, [PermissionRule::ask_for_tool("read_file")]);
        assert_eq!(Call::read("/p/a").outcome(&asks), RuleDecision::AskUser, "{mode}");
        let denies = policy_in(mode, [PermissionRule::deny_category(ToolCategory::Read)]);
        assert_eq!(Call::read("/p/a").outcome(&denies), RuleDecision::Deny, "{mode}");
    }
}

#[test]
fn a_changed_mode_decides_the_next_call() {
    let mut policy = policy_in(PermissionMode::Ask, []);
    policy.set_mode(PermissionMode::FullAuto);
    assert_eq!(policy.mode(), PermissionMode::FullAuto);
    assert_eq!(Call::bash("ls").outcome(&policy), RuleDecision::Allow);
}

#[test]
fn a_call_without_paths_is_decided_by_its_tool() {
    let policy = policy_in(PermissionMode::Ask, [PermissionRule::allow_tool("fetch")]);
    let fetch = Call::new("fetch", ToolCategory::Network, Effects::Unknown);
    assert_eq!(fetch.outcome(&policy), RuleDecision::Allow);
    let other = Call::new("post", ToolCategory::Network, Effects::Unknown);
    assert_eq!(other.outcome(&policy), RuleDecision::AskUser);
    let nothing = Call::new("edit_file", ToolCategory::Write, paths(&[]));
    assert_eq!(nothing.outcome(&policy), RuleDecision::Allow, "it touches nothing");
}

#[test]
fn no_mode_allows_an_unsandboxed_command_without_a_rule() {
    for mode in PermissionMode::ALL {
        let policy = policy_in(mode, []).with_uncontained(true);
        let wanted = match mode {
            PermissionMode::ReadOnly => RuleDecision::Deny,
            PermissionMode::Ask | PermissionMode::AcceptEdits | PermissionMode::FullAuto => {
                RuleDecision::AskUser
            }
        };
        for call in [Call::bash("cargo test"), Call::unclear("f() { ls; }")] {
            assert_eq!(call.outcome(&policy), wanted, "{mode}");
            let reason = call.explain(&policy).reason;
            let names_sandbox = reason.ends_with("no sandbox confines the command");
            assert_eq!(names_sandbox, wanted == RuleDecision::AskUser, "{mode}: {reason}");
        }
    }
    let policy = policy_in(PermissionMode::FullAuto, []).with_uncontained(true);
    assert_eq!(Call::write("/p/a").outcome(&policy), RuleDecision::Allow, "tools change files");
    let ruled =
        policy_in(PermissionMode::FullAuto, [PermissionRule::allow_bash_prefix(["cargo", "test"])]);
    let mut ruled = ruled.with_uncontained(true);
    assert_eq!(Call::bash("cargo test").outcome(&ruled), RuleDecision::Allow, "the user said so");
    ruled.set_uncontained(false);
    assert_eq!(Call::bash("ls").outcome(&ruled), RuleDecision::Allow);
}

#[test]
fn a_permit_covers_no_other_call_and_no_other_input() {
    let permit = Permit::new(&CallId::new("a"), &json!({"x": 1}));
    assert!(!permit.covers(&CallId::new("b"), &json!({"x": 1})));
    assert!(!permit.covers(&CallId::new("a"), &json!({"x": 2})));
}

#[test]
fn calls_that_run_programs_or_use_the_network_are_never_reads() {
    for category in [ToolCategory::Execute, ToolCategory::Network] {
        for effects in [paths(&[]), paths(&[("/p/secret", Access::Read)])] {
            let call = Call::new("upload", category, effects);
            for (mode, wanted) in [
                (PermissionMode::Ask, RuleDecision::AskUser),
                (PermissionMode::AcceptEdits, RuleDecision::AskUser),
                (PermissionMode::ReadOnly, RuleDecision::Deny),
            ] {
                assert_eq!(call.outcome(&policy_in(mode, [])), wanted, "{category} {mode}");
            }
        }
    }
}

#[test]
fn files_that_start_programs_or_instruct_agents_are_asked_about_at_any_depth() {
    let policy = policy_in(PermissionMode::AcceptEdits, []);
    for path in [
        "AGENTS.md",
        "sub/CLAUDE.md",
        ".cursorrules",
        ".husky/pre-commit",
        "x.code-workspace",
        "sub/.envrc",
        "sub/.npmrc",
        "crates/a/.cargo/config.toml",
        "sub/.vscode/tasks.json",
    ] {
        let path = format!("/p/{path}");
        assert_eq!(Call::write(&path).outcome(&policy), RuleDecision::AskUser, "{path}");
    }
    for path in ["/p/src/a.rs", "/p/Makefile", "/p/.gitignore", "/p/.config/nextest.toml"] {
        assert_eq!(Call::write(path).outcome(&policy), RuleDecision::Allow, "{path}");
    }
}

#[test]
fn a_relative_path_or_one_with_dots_counts_as_outside() {
    for path in ["/p/../etc/shadow", "/p/src/../../etc/ssh/id", "/p/./a", "a", "/scratch/../etc/a"]
    {
        let policy = policy_in(PermissionMode::AcceptEdits, []);
        assert_eq!(Call::read(path).outcome(&policy), RuleDecision::AskUser, "{path}");
        assert_eq!(Call::write(path).outcome(&policy), RuleDecision::AskUser, "{path}");
    }
}

#[test]
fn the_case_of_a_tools_name_has_no_meaning_in_a_rule() {
    let policy = policy_in(PermissionMode::FullAuto, [PermissionRule::deny_tool("Bash")]);
    assert_eq!(Call::bash("ls").outcome(&policy), RuleDecision::Deny);
}
