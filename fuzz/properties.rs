//! What holds for any bytes. The fuzzer tries to break it, and an ordinary test replays what it found interesting.

use std::path::Path;

use crow_core::{
    ids::{CallId, SessionId},
    permission::{CallFacts, Decision, PermissionMode, PermissionPolicy, RuleSet},
    tool::{CallPlan, Effects, Subject, ToolCategory},
    workspace::Workspace,
};
use crow_tools::plan_command_line;

/// A shell line is planned without panic, comes back as it was, and passes without a rule only as a read.
pub(crate) fn shell_line(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let root = Path::new("/usr/share/doc");
    let workspace = Workspace::new(root);
    let line = plan_command_line(&text, root, &workspace, None);
    assert_eq!(line.text, text);
    let only_reads = line.only_reads();
    let plan = CallPlan {
        title: String::new(),
        effects: Effects::Unknown,
        subject: Subject::Command(line),
    };
    let facts = CallFacts {
        call_id: &CallId::new("call"),
        session_id: &SessionId::new("session"),
        agent: "builder",
        input: &serde_json::Value::Null,
        tool: "bash",
        category: ToolCategory::Execute,
        requires_permission: true,
        plan: &plan,
    };
    let policy = PermissionPolicy::new(PermissionMode::AcceptEdits);
    let passes = matches!(policy.decide(facts, &workspace), Decision::Allow(_));
    assert!(only_reads || !passes, "passes: {text:?}");
}

/// A rule file is read without panic, and what is read of it is the same after it was written.
pub(crate) fn rule_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(rules) = RuleSet::from_json(&text) else { return };
    let written = rules.to_json().expect("rules of a file can be saved");
    let again = RuleSet::from_json(&written).expect("what was written can be read");
    assert_eq!(again.rules(), rules.rules());
}
