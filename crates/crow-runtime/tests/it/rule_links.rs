//! Permission rules whose paths are symlinks.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crow_core::{
    ids::{CallId, SessionId},
    permission::{
        CallFacts, Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleSet,
        SandboxPlaces,
    },
    tool::{Access, CallPlan, Effects, PathEffect, Subject, ToolCategory},
    workspace::Workspace,
};
use crow_runtime::{
    AgentRuntime, AgentSession, RuntimeConfig, SandboxConfig, SessionSpec, resolve_rules,
};
use serde_json::Value;

use crate::support::idle;

fn decide(policy: &PermissionPolicy, workspace: &Workspace, path: &Path) -> &'static str {
    let path = path.to_path_buf();
    let effects = Effects::Paths(vec![PathEffect::new(path.clone(), Access::Write)]);
    let facts = CallFacts {
        call_id: &CallId::new("call"),
        session_id: &SessionId::new("session"),
        agent: "own",
        input: &Value::Null,
        tool: "write_file",
        category: ToolCategory::Write,
        requires_permission: true,
        plan: &CallPlan { title: String::new(), effects, subject: Subject::Path(path) },
    };
    match policy.decide(facts, workspace) {
        Decision::Allow(_) => "allow",
        Decision::Ask(_) => "ask",
        Decision::Deny(_) => "deny",
    }
}

fn policy(rule: PermissionRule) -> PermissionPolicy {
    PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new([rule]).unwrap())
}

/// Creates `private/tmp` with the symlink `tmp` to it, and the workspace `work` with two symlinks: `link` leads out of it,
/// `inside` does not.
fn folders() -> (tempfile::TempDir, std::path::PathBuf, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("private/tmp")).unwrap();
    fs::create_dir_all(top.join("work/real")).unwrap();
    symlink(top.join("private/tmp"), top.join("tmp")).unwrap();
    symlink(top.join("private/tmp"), top.join("work/link")).unwrap();
    symlink(top.join("work/real"), top.join("work/inside")).unwrap();
    let workspace = Workspace::new(top.join("work"));
    (folder, top, workspace)
}

#[test]
fn a_rule_on_a_symlink_applies_to_its_target() {
    let (_folder, top, workspace) = folders();
    for (rule, path, wanted) in [
        (PermissionRule::deny_path(Access::Write, top.join("tmp")), "private/tmp/a", "deny"),
        (
            PermissionRule::deny_path(Access::Write, top.join("tmp/new/a")),
            "private/tmp/new/a",
            "deny",
        ),
        (PermissionRule::allow_path(Access::Write, top.join("tmp")), "private/tmp/a", "allow"),
        (PermissionRule::deny_path(Access::Write, "inside"), "work/real/a", "deny"),
        (PermissionRule::deny_path(Access::Write, "link"), "private/tmp/a", "deny"),
        (PermissionRule::allow_path(Access::Write, "inside"), "work/real/a", "allow"),
        (PermissionRule::allow_path(Access::Write, top.join("private")), "private/tmp/a", "allow"),
    ] {
        let policy = resolve_rules(policy(rule.clone()), &workspace);
        assert_eq!(decide(&policy, &workspace, &top.join(path)), wanted, "{}", rule.id);
    }
}

#[test]
fn hidden_and_writable_paths_are_resolved_through_symlinks() {
    let (_folder, top, workspace) = folders();
    let places = SandboxPlaces {
        hidden: vec![top.join("tmp/new/keys")],
        writable: vec![top.join("tmp")],
        ..SandboxPlaces::default()
    };
    let policy = PermissionPolicy::new(PermissionMode::FullAuto).with_places(places);
    let policy = resolve_rules(policy, &workspace);
    for (path, wanted) in [
        ("private/tmp/a", "allow"),
        ("private/tmp/new/keys", "ask"),
        ("private/tmp/new/keys/a", "ask"),
        ("private/a", "ask"),
        ("work/a", "allow"),
    ] {
        assert_eq!(decide(&policy, &workspace, &top.join(path)), wanted, "{path}");
    }
}

#[tokio::test]
async fn the_policy_uses_the_hidden_and_writable_paths_of_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let mut sandbox = SandboxConfig::new(top.join("sandbox"));
    sandbox.hidden = vec![top.join("keys")];
    sandbox.writable = vec![top.join("cache")];
    let config = RuntimeConfig {
        policy: PermissionPolicy::new(PermissionMode::FullAuto),
        sandbox: Some(sandbox),
        ..RuntimeConfig::default()
    };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), top.join("work"));
    let session = AgentSession::create(&config, spec).unwrap();
    let policy = AgentRuntime::new(config).spawn(session, idle).policy();
    let is_temp = |path: &&PathBuf| path.starts_with(top.join("sandbox")) && path.ends_with("tmp");
    let temp = policy.places().writable.iter().find(is_temp).unwrap();
    let workspace = Workspace::new(top.join("work"));
    for (path, wanted) in [
        (top.join("cache/a"), "allow"),
        (temp.join("a"), "allow"),
        (top.join("work/a"), "allow"),
        (top.join("keys/a"), "ask"),
        (top.join("a"), "ask"),
    ] {
        assert_eq!(decide(&policy, &workspace, &path), wanted, "{}", path.display());
    }
}

#[test]
fn an_allow_rule_on_a_workspace_symlink_does_not_allow_its_outside_target() {
    let (_folder, top, workspace) = folders();
    symlink(top.join("work"), top.join("way")).unwrap();
    for path in ["link".into(), top.join("work/link"), top.join("way/link")] {
        let policy =
            resolve_rules(policy(PermissionRule::allow_path(Access::Write, path)), &workspace);
        assert_eq!(decide(&policy, &workspace, &top.join("private/tmp/a")), "ask");
    }
}

#[tokio::test]
async fn a_session_resolves_symlink_rules_for_its_policy() {
    let (_folder, top, workspace) = folders();
    let config = RuntimeConfig {
        policy: policy(PermissionRule::deny_path(Access::Write, "inside")),
        ..RuntimeConfig::default()
    };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), top.join("work"));
    let session = AgentSession::create(&config, spec).unwrap();
    let runtime = AgentRuntime::new(config);
    let handle = runtime.spawn(session, idle);
    assert_eq!(decide(&handle.policy(), &workspace, &top.join("work/real/a")), "deny");
}
