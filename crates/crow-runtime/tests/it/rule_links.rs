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
        SandboxPaths,
    },
    tool::{Access, CallPlan, Effects, PathEffect, Subject, ToolCategory},
    workspace::Workspace,
};
use crow_runtime::{AgentSession, RuntimeConfig, SandboxConfig, SessionSpec, resolve_rules};
use crow_testkit::telemetry::CheckedRuntime;
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
    let base = folder.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("private/tmp")).unwrap();
    fs::create_dir_all(base.join("work/real")).unwrap();
    symlink(base.join("private/tmp"), base.join("tmp")).unwrap();
    symlink(base.join("private/tmp"), base.join("work/link")).unwrap();
    symlink(base.join("work/real"), base.join("work/inside")).unwrap();
    let workspace = Workspace::new(base.join("work"));
    (folder, base, workspace)
}

#[test]
fn a_rule_on_a_symlink_applies_to_its_target() {
    let (_folder, base, workspace) = folders();
    for (rule, path, expected) in [
        (PermissionRule::deny_path(Access::Write, base.join("tmp")), "private/tmp/a", "deny"),
        (
            PermissionRule::deny_path(Access::Write, base.join("tmp/new/a")),
            "private/tmp/new/a",
            "deny",
        ),
        (PermissionRule::allow_path(Access::Write, base.join("tmp")), "private/tmp/a", "allow"),
        (PermissionRule::deny_path(Access::Write, "inside"), "work/real/a", "deny"),
        (PermissionRule::deny_path(Access::Write, "link"), "private/tmp/a", "deny"),
        (PermissionRule::allow_path(Access::Write, "inside"), "work/real/a", "allow"),
        (PermissionRule::allow_path(Access::Write, base.join("private")), "private/tmp/a", "allow"),
    ] {
        let policy = resolve_rules(policy(rule.clone()), &workspace);
        assert_eq!(decide(&policy, &workspace, &base.join(path)), expected, "{}", rule.id);
    }
}

#[test]
fn hidden_and_writable_paths_are_resolved_through_symlinks() {
    let (_folder, base, workspace) = folders();
    let places = SandboxPaths {
        hidden: vec![base.join("tmp/new/keys")],
        writable: vec![base.join("tmp")],
        ..SandboxPaths::default()
    };
    let policy = PermissionPolicy::new(PermissionMode::FullAuto).with_places(places);
    let policy = resolve_rules(policy, &workspace);
    for (path, expected) in [
        ("private/tmp/a", "allow"),
        ("private/tmp/new/keys", "ask"),
        ("private/tmp/new/keys/a", "ask"),
        ("private/a", "ask"),
        ("work/a", "allow"),
    ] {
        assert_eq!(decide(&policy, &workspace, &base.join(path)), expected, "{path}");
    }
}

#[tokio::test]
async fn the_policy_uses_the_hidden_and_writable_paths_of_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let mut sandbox = SandboxConfig::new(base.join("sandbox"));
    sandbox.hidden = vec![base.join("keys")];
    sandbox.writable = vec![base.join("cache")];
    let config = RuntimeConfig {
        policy: PermissionPolicy::new(PermissionMode::FullAuto),
        sandbox: Some(sandbox),
        ..RuntimeConfig::default()
    };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), base.join("work"));
    let session = AgentSession::create(&config, spec).unwrap();
    let policy = CheckedRuntime::new(config).spawn(session, idle).permissions().policy();
    let is_temp = |path: &&PathBuf| path.starts_with(base.join("sandbox")) && path.ends_with("tmp");
    let temp = policy.sandbox_paths().writable.iter().find(is_temp).unwrap();
    let workspace = Workspace::new(base.join("work"));
    for (path, expected) in [
        (base.join("cache/a"), "allow"),
        (temp.join("a"), "allow"),
        (base.join("work/a"), "allow"),
        (base.join("keys/a"), "ask"),
        (base.join("a"), "ask"),
    ] {
        assert_eq!(decide(&policy, &workspace, &path), expected, "{}", path.display());
    }
}

#[test]
fn an_allow_rule_on_a_workspace_symlink_does_not_allow_its_outside_target() {
    let (_folder, base, workspace) = folders();
    symlink(base.join("work"), base.join("way")).unwrap();
    for path in ["link".into(), base.join("work/link"), base.join("way/link")] {
        let policy =
            resolve_rules(policy(PermissionRule::allow_path(Access::Write, path)), &workspace);
        assert_eq!(decide(&policy, &workspace, &base.join("private/tmp/a")), "ask");
    }
}

#[tokio::test]
async fn a_session_resolves_symlink_rules_for_its_policy() {
    let (_folder, base, workspace) = folders();
    let config = RuntimeConfig {
        policy: policy(PermissionRule::deny_path(Access::Write, "inside")),
        ..RuntimeConfig::default()
    };
    let spec = SessionSpec::new("own", "none/none".parse().unwrap(), base.join("work"));
    let session = AgentSession::create(&config, spec).unwrap();
    let runtime = CheckedRuntime::new(config);
    let handle = runtime.spawn(session, idle);
    assert_eq!(
        decide(&handle.permissions().policy(), &workspace, &base.join("work/real/a")),
        "deny"
    );
}
