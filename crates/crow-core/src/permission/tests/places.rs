//! Modes and places: where file tools may read and write.

use super::call::{Call, paths, policy_in};
use crate::{
    permission::{
        Decision, Disclosure, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision,
        SandboxPaths,
    },
    tool_types::{Access, Effects, Subject, ToolCategory},
};
use Access::{Read, Write};

/// A policy like that of the program, for the workspace `/p` of the user whose home is `/users/u`.
fn in_mode(mode: PermissionMode, rules: Vec<PermissionRule>) -> PermissionPolicy {
    policy_in(mode, rules).with_places(SandboxPaths {
        writable: vec!["/users/u/.cache/build".into(), "/data/crow/sandbox/s/tmp".into()],
        readable: vec!["/data/crow/sessions/s".into()],
        visible: vec!["/proc/cpuinfo".into()],
        hidden: vec![
            "/users/u/.ssh".into(),
            "/users/u/.config/crow-agent".into(),
            "/data/crow".into(),
            "/proc".into(),
            "/tmp".into(),
            "/p/notes".into(),
        ],
        protected: vec!["/p/tools/server.py".into()],
        unprotected: vec![".github".into()],
    })
}

/// The decisions in the order of [`PermissionMode::ALL`]: ask, accept-edits, read-only, full-auto.
fn row(call: &Call, rules: &[PermissionRule]) -> String {
    let decisions =
        PermissionMode::ALL.map(|mode| match call.outcome(&in_mode(mode, rules.to_vec())) {
            RuleDecision::Allow => "allow",
            RuleDecision::AskUser => "ask",
            RuleDecision::Deny => "deny",
        });
    decisions.join(" ")
}

#[test]
fn file_tools_read_the_places_of_the_sandbox_in_full_auto_and_fewer_in_other_modes() {
    for (name, path, expected) in [
        ("reads inside", "/p/src/a.rs", "allow allow allow allow"),
        ("the root", "/p", "allow allow allow allow"),
        ("reads protected", "/p/.vscode/tasks.json", "allow allow allow allow"),
        ("reads keys by name", "/p/.env", "ask ask ask allow"),
        ("reads keys below", "/p/sub/server.key", "ask ask ask allow"),
        ("reads a sample", "/p/.env.example", "allow allow allow allow"),
        ("reads what git keeps", "/p/.git/config", "ask ask ask allow"),
        ("reads the session's output", "/data/crow/sessions/s/c.txt", "allow allow allow allow"),
        ("reads outside", "/usr/include/a.h", "ask ask ask allow"),
        ("reads keys by name outside", "/other/.env", "ask ask ask allow"),
        ("reads a writable place", "/users/u/.cache/build/a", "ask ask ask allow"),
        ("reads a key", "/users/u/.ssh/id_rsa", "ask ask ask ask"),
        ("reads the folder of keys", "/users/u/.ssh", "ask ask ask ask"),
        (
            "reads the agent's settings",
            "/users/u/.config/crow-agent/config.toml",
            "ask ask ask ask",
        ),
        (
            "reads the agent's keys",
            "/users/u/.config/crow-agent/credentials.json",
            "ask ask ask ask",
        ),
        ("reads another session", "/data/crow/sessions/t/log", "ask ask ask ask"),
        ("reads what is visible", "/proc/cpuinfo", "ask ask ask allow"),
        ("reads a process", "/proc/17/environ", "ask ask ask ask"),
        ("reads temporary files of others", "/tmp/a", "ask ask ask ask"),
        ("reads a hidden place inside", "/p/notes/a", "ask ask ask ask"),
        ("reads what is not clear", "/p/../etc/passwd", "ask ask ask ask"),
    ] {
        assert_eq!(row(&Call::read(path), &[]), expected, "{name}: {path}");
    }
}

#[test]
fn file_tools_change_the_places_of_the_sandbox_in_full_auto_and_fewer_in_other_modes() {
    for (name, path, expected) in [
        ("writes inside", "/p/src/a.rs", "ask allow deny allow"),
        ("writes keys by name", "/p/.env", "ask ask deny allow"),
        ("writes instructions", "/p/AGENTS.md", "ask ask deny allow"),
        ("writes a hook", "/p/.git/hooks/pre-commit", "ask ask deny ask"),
        ("writes git's settings", "/p/.git/config", "ask ask deny ask"),
        ("writes git of a submodule", "/p/.git/modules/a/hooks/x", "ask ask deny ask"),
        ("writes git of a nested repository", "/p/a/b/c/.git/hooks/x", "ask ask deny ask"),
        ("writes the git file of a worktree", "/p/tree/.git", "ask ask deny ask"),
        ("writes git in upper case", "/p/.GIT/config", "ask ask deny ask"),
        ("writes git with a dot behind", "/p/.git./config", "ask ask deny ask"),
        ("writes git with a blank behind", "/p/.git /config", "ask ask deny ask"),
        ("writes git with a slash behind", "/p/sub/.git/", "ask ask deny ask"),
        ("writes git by its short name", "/p/GIT~1/config", "ask ask deny ask"),
        ("writes git by a stream", "/p/.git::$INDEX_ALLOCATION/config", "ask ask deny ask"),
        ("writes servers of agents", "/p/.mcp.json", "ask ask deny ask"),
        ("writes the project's settings", "/p/.crow-agent/config.toml", "ask ask deny ask"),
        ("writes what is trusted to run", "/p/tools/server.py", "ask ask deny ask"),
        ("writes what is unprotected", "/p/.github/workflows/ci.yml", "ask ask deny allow"),
        ("writes a writable place", "/users/u/.cache/build/a", "ask ask deny allow"),
        ("writes a hook in it", "/users/u/.cache/build/a/.git/hooks/x", "ask ask deny ask"),
        (
            "writes the session's temporary files",
            "/data/crow/sandbox/s/tmp/a",
            "ask ask deny allow",
        ),
        ("writes the session's output", "/data/crow/sessions/s/c.txt", "ask ask deny ask"),
        ("writes outside", "/other/a", "ask ask deny ask"),
        ("writes autostart", "/users/u/.config/autostart/x.desktop", "ask ask deny ask"),
        ("writes a key", "/users/u/.ssh/authorized_keys", "ask ask deny ask"),
        (
            "writes the agent's settings",
            "/users/u/.config/crow-agent/config.toml",
            "ask ask deny ask",
        ),
        ("writes a hidden place inside", "/p/notes/a", "ask ask deny ask"),
        ("writes what is not clear", "/p/../a", "ask ask deny ask"),
    ] {
        assert_eq!(row(&Call::write(path), &[]), expected, "{name}: {path}");
    }
}

#[test]
fn searches_and_custom_tools_have_the_same_places() {
    for (tool, category, effects, expected) in [
        ("grep", ToolCategory::Read, paths(&[("/p", Read)]), "allow allow allow allow"),
        ("grep", ToolCategory::Read, paths(&[("/users/u/.ssh", Read)]), "ask ask ask ask"),
        ("list_directory", ToolCategory::Read, paths(&[("/usr", Read)]), "ask ask ask allow"),
        (
            "own",
            ToolCategory::Write,
            paths(&[("/p/a", Write), ("/usr/a", Read)]),
            "ask ask deny allow",
        ),
        (
            "own",
            ToolCategory::Write,
            paths(&[("/p/a", Write), ("/other", Write)]),
            "ask ask deny ask",
        ),
        (
            "own",
            ToolCategory::Write,
            paths(&[("/p/a", Write), ("/p/.mcp.json", Write)]),
            "ask ask deny ask",
        ),
        ("own", ToolCategory::Agent, paths(&[("/users/u/.ssh/id", Read)]), "ask ask ask ask"),
        ("mcp__a__b", ToolCategory::External, paths(&[("/p/a", Write)]), "ask ask deny allow"),
        ("mcp__a__b", ToolCategory::External, paths(&[("/other", Write)]), "ask ask deny ask"),
        (
            "mcp__a__b",
            ToolCategory::External,
            paths(&[("/users/u/.ssh/id", Read)]),
            "ask ask deny ask",
        ),
        ("upload", ToolCategory::Network, paths(&[("/data/crow/key", Read)]), "ask ask deny ask"),
    ] {
        let shown = format!("{tool} {effects:?}");
        assert_eq!(row(&Call::new(tool, category, effects), &[]), expected, "{shown}");
    }
    let mut import = Call::new("import", ToolCategory::Write, Effects::Unknown);
    import.plan.subject = Subject::Path("/users/u/.ssh/config".into());
    assert_eq!(row(&import, &[]), "ask ask deny ask");
}

#[test]
fn decisions_about_file_tools_do_not_depend_on_the_sandbox() {
    for (call, wanted) in [
        (Call::write("/p/a"), RuleDecision::Allow),
        (Call::read("/usr/include/a.h"), RuleDecision::Allow),
        (Call::write("/other/a"), RuleDecision::AskUser),
        (Call::read("/users/u/.ssh/id_rsa"), RuleDecision::AskUser),
    ] {
        let policy = in_mode(PermissionMode::FullAuto, vec![]).with_uncontained(true);
        assert_eq!(call.outcome(&policy), wanted, "{:?}", call.plan.effects);
    }
}

#[test]
fn a_rule_opens_a_hidden_place_or_a_file_with_keys_only_if_it_names_it() {
    let wide = [
        PermissionRule::allow_tool("read_file"),
        PermissionRule::allow_category(ToolCategory::Read),
        PermissionRule::allow_path(Read, "/users/u"),
        PermissionRule::allow_path(Read, "/p"),
    ];
    let key = Call::read("/users/u/.ssh/id_rsa");
    let secret = Call::read("/p/.env");
    assert_eq!(row(&key, &wide), "ask ask ask ask");
    assert_eq!(row(&secret, &wide), "ask ask ask allow");
    assert_eq!(row(&Call::read("/p/notes/a"), &wide), "ask ask ask ask");
    for (call, path) in [
        (&key, "/users/u/.ssh/id_rsa"),
        (&key, "/users/u/.ssh"),
        (&secret, "/p/.env"),
        (&secret, ".env"),
        (&Call::read("/p/notes/a"), "notes"),
    ] {
        let rule = PermissionRule::allow_path(Read, path);
        assert_eq!(row(call, &[rule]), "allow allow allow allow", "{path}");
    }
}

#[test]
fn only_the_exact_path_of_a_hidden_place_is_offered() {
    for path in ["/users/u/.ssh/deep/down/id_rsa", "/p/sub/.env", "/p/notes/a/b"] {
        let offers = Call::read(path).offers(&in_mode(PermissionMode::Ask, vec![]));
        let labels: Vec<_> = offers.iter().map(|offer| offer.label.as_str()).collect();
        let shown = path.strip_prefix("/p/").unwrap_or(path);
        assert_eq!(labels, [format!("reads of `{shown}`")]);
    }
    let writes = Call::write("/users/u/.ssh/authorized_keys");
    assert!(writes.offers(&in_mode(PermissionMode::FullAuto, vec![])).is_empty());
}

#[test]
fn a_command_that_names_a_file_with_keys_gets_the_answer_of_the_file_tool() {
    let call = Call::bash("cat <.env");
    for mode in PermissionMode::ALL {
        let mut policy = in_mode(mode, vec![]);
        policy.set_read_only_sandbox(true);
        let tool = Call::read("/p/.env").outcome(&policy);
        assert_eq!(call.outcome(&policy), tool, "{mode}");
    }
}

#[test]
fn a_question_says_in_which_mode_its_call_would_pass() {
    for (call, mode) in [
        (Call::write("/p/a"), Some(PermissionMode::AcceptEdits)),
        (Call::read("/p/.env"), Some(PermissionMode::FullAuto)),
        (Call::read("/usr/a"), Some(PermissionMode::FullAuto)),
        (Call::bash("cargo test"), Some(PermissionMode::FullAuto)),
        (Call::write("/p/.git/config"), None),
        (Call::read("/users/u/.ssh/id"), None),
    ] {
        let Decision::Ask(ask) = call.decide(&in_mode(PermissionMode::Ask, vec![])) else {
            panic!("not asked: {:?}", call.plan.effects)
        };
        assert_eq!(ask.least_mode, mode, "{:?}", call.plan.effects);
    }
    let policy = in_mode(PermissionMode::Ask, vec![]).with_uncontained(true);
    let Decision::Ask(ask) = Call::bash("ls").decide(&policy) else { panic!("not asked") };
    assert_eq!(ask.least_mode, None, "no mode lets a command pass without a sandbox");
}

#[test]
fn disclosure_before_the_answer_needs_permission_to_read() {
    for (path, mode, disclosure) in [
        ("/p/a", PermissionMode::Ask, Disclosure::Immediate),
        ("/p/.vscode/tasks.json", PermissionMode::AcceptEdits, Disclosure::Immediate),
        ("/p/.env", PermissionMode::Ask, Disclosure::AfterApproval),
        ("/other/a", PermissionMode::Ask, Disclosure::AfterApproval),
        ("/other/a", PermissionMode::FullAuto, Disclosure::Immediate),
        ("/users/u/.ssh/authorized_keys", PermissionMode::FullAuto, Disclosure::AfterApproval),
    ] {
        let Decision::Ask(ask) = Call::write(path).decide(&in_mode(mode, vec![])) else {
            panic!("not asked: {path}")
        };
        assert_eq!(ask.disclosure, disclosure, "{path}");
    }
    let denied = vec![PermissionRule::deny_path(Read, "/p/a")];
    let policy = in_mode(PermissionMode::Ask, denied);
    let Decision::Ask(ask) = Call::write("/p/a").decide(&policy) else { panic!("not asked") };
    assert_eq!(ask.disclosure, Disclosure::AfterApproval, "a denial of reading holds");
}

#[test]
fn rules_about_reading_apply_to_a_write_that_reads() {
    let decide = |path: &str, mode, rules| {
        let mut call = Call::write(path);
        call.plan = call.plan.with_read_of_written();
        call.decide(&in_mode(mode, rules))
    };
    let accept = PermissionMode::AcceptEdits;
    let denied = vec![PermissionRule::deny_path(Read, "/p/a")];
    assert!(matches!(decide("/p/a", accept, denied), Decision::Deny(_)));
    let asked = PermissionRule::ask_for_path(Read, "/p/a");
    assert!(matches!(decide("/p/a", accept, vec![asked]), Decision::Ask(_)));
    assert!(matches!(decide("/p/a", accept, vec![]), Decision::Allow(_)));
    // Whoever allows the write allows the read.
    let allowed = vec![PermissionRule::allow_path(Write, "/other/a")];
    assert!(matches!(decide("/other/a", PermissionMode::Ask, allowed), Decision::Allow(_)));
}
