//! Decisions by the known effects of a command.

use std::path::PathBuf;

use super::call::{Call, policy, policy_in};
use crate::{
    permission::{PermissionMode, PermissionRule, RuleDecision},
    tool_types::{
        Access, CommandMeaning, CommandWord, PathTouch, SideEffects, SimpleCommand, Subject,
        TouchDepth,
    },
};
use RuleDecision::{Allow, AskUser, Deny};

fn touch(access: Access, path: &str, depth: TouchDepth) -> PathTouch {
    PathTouch { access, path: PathBuf::from(path), depth }
}

/// A call of one command with these known effects.
fn call_with(words: &str, extent: SideEffects, touches: &[PathTouch]) -> Call {
    let words = words.split(' ').map(|word| CommandWord::Literal(word.to_owned())).collect();
    let command = SimpleCommand {
        words,
        side_effects: extent,
        touches: touches.to_vec(),
        ..SimpleCommand::default()
    };
    Call::shell("line", CommandMeaning::Commands(vec![command]))
}

fn reads(path: &str) -> PathTouch {
    touch(Access::Read, path, TouchDepth::Itself)
}

fn writes(path: &str) -> PathTouch {
    touch(Access::Write, path, TouchDepth::Itself)
}

#[test]
fn a_command_that_only_reads_in_the_workspace_is_a_read_in_every_mode() {
    for mode in PermissionMode::ALL {
        for uncontained in [false, true] {
            let policy = policy_in(mode, []).with_uncontained(uncontained);
            let call =
                call_with("cat a", SideEffects::Reads, &[reads("/p/a"), reads("/scratch/x")]);
            assert_eq!(call.outcome(&policy), Allow, "{mode}");
        }
    }
    let denied = policy([PermissionRule::deny_path(Access::Read, "/p/a")]);
    assert_eq!(call_with("cat a", SideEffects::Reads, &[reads("/p/a")]).outcome(&denied), Deny);
    let asked = policy([PermissionRule::ask_for_bash_prefix(["cat"])]);
    assert_eq!(call_with("cat a", SideEffects::Reads, &[reads("/p/a")]).outcome(&asked), AskUser);
}

#[test]
fn a_command_that_reaches_further_than_a_read_is_asked_about() {
    for (call, reason) in [
        (
            call_with("cat /etc/hosts", SideEffects::Reads, &[reads("/etc/hosts")]),
            "it reads `/etc/hosts`, outside the workspace",
        ),
        (
            call_with("touch x", SideEffects::Anything, &[writes("/q/x")]),
            "it changes `/q/x`, outside the workspace",
        ),
        (
            call_with("touch x", SideEffects::Anything, &[writes("/p/.git/hooks/x")]),
            "it changes `.git/hooks/x`, which starts programs or instructs agents",
        ),
        (
            call_with("touch x", SideEffects::Hidden, &[]),
            "what `touch x` does is unknown until it runs",
        ),
        (call_with("touch x", SideEffects::Anything, &[writes("/p/x")]), "it runs a command"),
        (call_with("git status", SideEffects::SandboxedReads, &[]), "it runs a command"),
    ] {
        for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits] {
            assert_eq!(call.outcome(&policy_in(mode, [])), AskUser, "{reason}");
            assert_eq!(call.explain(&policy_in(mode, [])).reason, reason);
        }
        assert_eq!(call.outcome(&policy_in(PermissionMode::FullAuto, [])), Allow, "{reason}");
        let loose = policy_in(PermissionMode::FullAuto, []).with_uncontained(true);
        assert_eq!(call.outcome(&loose), AskUser, "{reason}");
        assert_eq!(call.outcome(&policy_in(PermissionMode::ReadOnly, [])), Deny, "{reason}");
    }
}

#[test]
fn a_command_that_obeys_project_settings_is_a_read_only_in_a_sandbox() {
    let call = call_with("git status", SideEffects::SandboxedReads, &[reads("/p")]);
    assert_eq!(call.outcome(&policy([])), AskUser);
    let contained = policy([]).with_read_sandbox(true);
    assert_eq!(call.outcome(&contained), Allow);
    let outside = call_with("git status", SideEffects::SandboxedReads, &[reads("/q")]);
    assert_eq!(outside.outcome(&contained), AskUser);
    let Subject::Command(line) = &call.plan.subject else { panic!("a command") };
    assert!(line.only_reads());
}

#[test]
fn a_command_known_to_read_outside_is_asked_about_also_where_it_can_change_nothing() {
    let mut policy = policy_in(PermissionMode::ReadOnly, []);
    policy.set_read_only_sandbox(true);
    for (words, extent, touch, wanted) in [
        ("cargo test", SideEffects::Anything, reads("/p"), Allow),
        ("cat /q/a", SideEffects::Reads, reads("/q/a"), AskUser),
        ("git show", SideEffects::SandboxedReads, reads("/q/.git"), AskUser),
        ("grep -R x .", SideEffects::Hidden, reads("/q/a"), AskUser),
        ("cat $X", SideEffects::Hidden, reads("/p/.env"), AskUser),
        ("tool x", SideEffects::Anything, writes("/q/x"), Allow),
        // The file of a program is executed.
        ("/q/bin/tool a", SideEffects::Anything, reads("/q/bin/tool"), Allow),
        ("tool a", SideEffects::Anything, reads("/q/bin/tool"), AskUser),
    ] {
        let call = call_with(words, extent, &[touch]);
        assert_eq!(call.outcome(&policy), wanted, "{words}");
        let reason = call.explain(&policy).reason;
        let names_place = reason.starts_with("it reads `/q/") || words == "cat $X";
        assert_eq!(names_place, wanted == AskUser, "{words}: {reason}");
    }
}

#[test]
fn a_rule_for_a_command_allows_no_guarded_place() {
    let rules = || {
        [PermissionRule::allow_bash_prefix(["touch"]), PermissionRule::allow_bash_prefix(["rm"])]
    };
    for (call, wanted) in [
        (call_with("touch a", SideEffects::Anything, &[writes("/p/a")]), Allow),
        (call_with("touch a", SideEffects::Anything, &[writes("/q/a")]), AskUser),
        (call_with("touch a", SideEffects::Anything, &[writes("/p/.GIT/config")]), AskUser),
        (call_with("touch a", SideEffects::Anything, &[reads("/etc/hosts")]), AskUser),
        (call_with("touch a", SideEffects::Hidden, &[]), AskUser),
        (
            call_with(
                "rm -r .",
                SideEffects::Anything,
                &[touch(Access::Write, "/p", TouchDepth::Below)],
            ),
            AskUser,
        ),
        (
            call_with(
                "rm -r s",
                SideEffects::Anything,
                &[touch(Access::Write, "/p/s", TouchDepth::Below)],
            ),
            Allow,
        ),
    ] {
        assert_eq!(call.outcome(&policy(rules())), wanted, "{:?}", call.plan.subject);
        let all_commands = policy([PermissionRule::allow_tool("bash")]);
        let is_open = wanted == Allow || call.explain(&policy([])).reason.contains("until it runs");
        assert_eq!(call.outcome(&all_commands) == Allow, is_open, "{:?}", call.plan.subject);
    }
    let opened = [PermissionRule::allow_path(Access::Write, "/q")];
    let policy = policy(rules().into_iter().chain(opened));
    assert_eq!(
        call_with("touch a", SideEffects::Anything, &[writes("/q/a")]).outcome(&policy),
        Allow
    );
}

#[test]
fn redirected_output_needs_its_own_rule_or_a_mode_that_allows_edits() {
    let rules = || [PermissionRule::allow_bash_prefix(["ls"])];
    assert_eq!(Call::bash("ls >out").outcome(&policy(rules())), AskUser);
    let edits = policy_in(PermissionMode::AcceptEdits, rules());
    assert_eq!(Call::bash("ls >out").outcome(&edits), Allow);
    assert_eq!(Call::bash("ls >.git/x").outcome(&edits), AskUser);
    assert_eq!(Call::bash("ls >/q/x").outcome(&edits), AskUser);
    assert_eq!(Call::bash("ls </etc/passwd").outcome(&edits), AskUser);
    assert_eq!(Call::bash("ls >/dev/null").outcome(&policy(rules())), Allow);
    let file = PermissionRule::allow_path(Access::Write, "out");
    let policy = policy(rules().into_iter().chain([file]));
    assert_eq!(Call::bash("ls >out").outcome(&policy), Allow);
}

#[test]
fn access_to_a_whole_folder_asks_if_a_denied_path_is_below() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [
            PermissionRule::deny_path(Access::Read, "/p/keys/secret"),
            PermissionRule::deny_path(Access::Write, "vault"),
        ],
    );
    let below = |access, path| touch(access, path, TouchDepth::Below);
    for (touched, wanted) in [
        (below(Access::Read, "/p"), AskUser),
        (below(Access::Read, "/p/keys"), AskUser),
        (below(Access::Read, "/p/keys/secret"), Deny),
        (below(Access::Read, "/p/other"), Allow),
        (below(Access::Write, "/p"), AskUser),
        (below(Access::Write, "/p/keys"), Allow),
        (reads("/p/keys"), Allow),
    ] {
        let call = call_with("grep x", SideEffects::Reads, std::slice::from_ref(&touched));
        assert_eq!(call.outcome(&policy), wanted, "{touched:?}");
    }
}
