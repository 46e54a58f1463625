//! Faults of hooks: none hangs, and none is silent.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crow_core::{
    hooks::{HookMoment, HookOutcome, HookPermission, HookScene, SessionHooks as _},
    ids::{CallId, SessionId},
    permission::PermissionMode,
    redact::Redactor,
    tool::{CallPlan, ToolResult},
};
use crow_runtime::{MemoryStore, ProcessRunner};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    CommandHooks, HookLaunch, HookSet,
    hook_set::{names_path_below, script_of},
};
use crate::{
    config::{Configuration, ProjectAdditions},
    environment::ProcessEnvironment,
};

/// Longest time that a hook of these tests may take, with the time to end what it started.
const PATIENCE: Duration = Duration::from_secs(20);

/// A home with hooks, and a folder to work in.
struct HookScenario {
    home: TempDir,
    cwd: PathBuf,
}

impl HookScenario {
    fn new(settings: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".claude")).unwrap();
        fs::write(home.path().join(".claude/settings.json"), settings).unwrap();
        let cwd = home.path().canonicalize().unwrap().join("project");
        fs::create_dir(&cwd).unwrap();
        Self { home, cwd }
    }

    /// Makes one hook at an event.
    fn with_hook(event: &str, hook: &Value) -> Self {
        Self::new(&json!({ "hooks": { event: [{ "hooks": [hook] }] } }).to_string())
    }

    fn set(&self) -> HookSet {
        let environment = ProcessEnvironment::with([("HOME", self.home.path().to_str().unwrap())]);
        let configuration =
            Configuration::load(&environment, &ProjectAdditions::default()).unwrap();
        HookSet::of_configuration(&configuration, &environment)
    }

    fn hooks(&self) -> CommandHooks {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let launch = HookLaunch {
            runner: ProcessRunner::new(std::collections::BTreeMap::from([path])),
            store: Arc::new(MemoryStore::default()),
            project: self.cwd.clone(),
            trusted: None,
            home: Some(self.home.path().canonicalize().unwrap()),
            redactor: Redactor::default(),
        };
        CommandHooks::new(Arc::new(self.set()), launch)
    }

    async fn run(&self, moment: HookMoment<'_>) -> HookOutcome {
        run(&self.hooks(), &self.cwd, moment).await
    }
}

async fn run(hooks: &CommandHooks, cwd: &Path, moment: HookMoment<'_>) -> HookOutcome {
    let id = SessionId::new("s1");
    let scene = HookScene {
        session_id: &id,
        root_id: &id,
        agent: "builder",
        cwd,
        roots: &[cwd.to_path_buf()],
        mode: PermissionMode::Ask,
        sandboxed: None,
        enforces_read_only: false,
        trace: None,
    };
    let started = Instant::now();
    let token = CancellationToken::new();
    let work = hooks.run(scene, moment, &token);
    let outcome = tokio::time::timeout(PATIENCE, work).await.expect("the hook hangs");
    assert!(started.elapsed() < PATIENCE);
    outcome
}

/// Runs one hook before a call of `bash`.
async fn before_call(hook: Value) -> HookOutcome {
    let scenario = HookScenario::with_hook("PreToolUse", &hook);
    let (call_id, input) = (CallId::new("c1"), json!({ "command": "ls" }));
    let plan = CallPlan::without_effects("ls");
    let moment =
        HookMoment::BeforeCall { call_id: &call_id, tool: "bash", input: &input, plan: &plan };
    scenario.run(moment).await
}

fn line(command: &str) -> Value {
    json!({ "type": "command", "command": command, "timeout": 10 })
}

fn notices(outcome: &HookOutcome) -> String {
    let texts: Vec<_> = outcome.notices.iter().map(|notice| notice.text.as_str()).collect();
    texts.join("\n")
}

#[tokio::test]
async fn each_fault_of_a_hook_is_told_and_none_hangs() {
    let with_timeout =
        |command: &str| json!({ "type": "command", "command": command, "timeout": 0.3 });
    let program = |words: &[&str]| json!({ "type": "command", "command": words[0], "args": &words[1..], "timeout": 10 });
    let answer = |json: &str| line(&format!("printf '%s' '{json}'"));
    let faults = [
        // How it ends.
        ("exits with 1", line("echo oops >&2; exit 1"), "status 1: oops"),
        ("exits with 255", line("exit 255"), "status 255"),
        ("is not found", line("no-such-program-at-all"), "status 127"),
        ("is not executable", line("/etc/passwd"), "status 126"),
        ("is killed", line("kill -9 $$"), "signal 9"),
        ("is terminated", line("kill -15 $$"), "signal 15"),
        ("crashes", line("kill -SEGV $$"), "signal 11"),
        ("kills its group", line("kill -9 0"), "signal 9"),
        ("aborts", line("kill -ABRT $$"), "signal 6"),
        ("ends after half a JSON", line("printf '{'; exit 3"), "status 3"),
        ("writes to the terminal", line("echo mine >/dev/tty"), "status"),
        ("asks at the terminal", line("read answer </dev/tty || exit 9"), "status"),
        // Time.
        ("never ends", with_timeout("sleep 1000"), "took more than 300ms"),
        ("never ends in its own process", with_timeout("exec sleep 1000"), "took more than"),
        (
            "ignores the signal",
            with_timeout("trap '' TERM; while :; do sleep 1; done"),
            "took more",
        ),
        ("closes its output and goes on", with_timeout("exec >&- 2>&-; sleep 1000"), "took more"),
        ("waits for more input", with_timeout("cat; sleep 1000"), "took more than"),
        ("stops itself", with_timeout("kill -STOP $$"), "took more than"),
        ("answers and never ends", with_timeout("echo '{}'; sleep 1000"), "took more than"),
        ("spins", with_timeout("while :; do :; done"), "took more than"),
        (
            "starts many",
            with_timeout("for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait"),
            "took more",
        ),
        // Output.
        ("prints 100 MB", line("head -c 100000000 /dev/zero"), "printed more than 1024 KiB"),
        ("prints without end", line("yes"), "printed more than 1024 KiB"),
        (
            "prints 100 MB of errors",
            with_timeout("head -c 100000000 /dev/zero >&2; exit 1"),
            "took more",
        ),
        // Answers.
        ("prints half a JSON", answer(r#"{"decision": "bl"#), "JSON that cannot be used"),
        ("prints two JSON values", answer("{}{}"), "JSON that cannot be used"),
        ("prints other types", answer(r#"{"continue": "no"}"#), "JSON that cannot be used"),
        (
            "prints text and JSON",
            answer(r#"{"decision": "block"} done"#),
            "JSON that cannot be used",
        ),
        ("prints JSON that is no UTF-8", line(r"printf '{\377'"), "JSON that cannot be used"),
        ("prints JSON with a zero byte", line(r"printf '{\0}'"), "JSON that cannot be used"),
        (
            "nests its answer deeply",
            line(r#"printf '{"a":'; head -c 100000 /dev/zero | tr '\0' '['"#),
            "JSON that cannot be used",
        ),
        (
            "decides twice",
            answer(r#"{"decision": "approve", "decision": "block"}"#),
            "JSON that cannot be used",
        ),
        ("decides something else", answer(r#"{"decision": "perhaps"}"#), "neither `approve`"),
        (
            "permits something else",
            answer(r#"{"hookSpecificOutput": {"permissionDecision": "yes"}}"#),
            "none of `allow`",
        ),
        (
            "answers another event",
            answer(r#"{"hookSpecificOutput": {"hookEventName": "Stop"}}"#),
            "at the event PreToolUse",
        ),
        (
            "changes the input to no object",
            answer(r#"{"hookSpecificOutput": {"updatedInput": 5}}"#),
            "JSON that cannot be used",
        ),
        (
            "changes an output",
            answer(r#"{"hookSpecificOutput": {"updatedToolOutput": "x"}}"#),
            "has no effect",
        ),
        // Programs.
        (
            "is a script without its interpreter",
            line(r"f=$(mktemp); printf '#!/no/such\n' >$f; chmod +x $f; exec $f"),
            "status 12",
        ),
        (
            "is a script with line ends of Windows",
            line(r"f=$(mktemp); printf '#!/bin/sh\r\nexit 0\r\n' >$f; chmod +x $f; exec $f"),
            "status 12",
        ),
        ("is a missing program", program(&["no-such-program", "x"]), "cannot be started"),
        ("is a folder", program(&["/tmp", "x"]), "cannot be started"),
        ("is an unexecutable program", program(&["/etc/passwd", "x"]), "cannot be started"),
    ];
    let checks = faults.map(|(name, hook, expected)| async move {
        let outcome = before_call(hook).await;
        let told = notices(&outcome);
        assert!(told.contains(expected), "a hook that {name}: {outcome:?}");
        assert_eq!(outcome.permission, None, "{name}");
    });
    futures_util::future::join_all(checks).await;
}

#[tokio::test]
async fn what_is_no_fault_of_a_hook_is_not_told() {
    for (name, command) in [
        ("does not read its input", "exit 0"),
        ("closes its input", "exec <&-; exit 0"),
        ("leaves a process behind", "sleep 1000 & exit 0"),
        ("leaves a process in another session behind", "setsid sleep 1000 & exit 0"),
        ("prints a list", "echo '[1]'"),
        ("prints bytes", "head -c 1000 /dev/urandom | tr -d '{'"),
    ] {
        let outcome = before_call(line(command)).await;
        assert_eq!(notices(&outcome), "", "a hook that {name}");
        assert_eq!((outcome.permission, outcome.context), (None, Vec::new()), "{name}");
    }
}

#[tokio::test]
async fn a_hook_that_is_to_block_on_failure_does() {
    let hook = json!({ "type": "command", "command": "exit 1", "onFailure": "block" });
    let outcome = before_call(hook).await;
    let Some(HookPermission::Deny(reason)) = &outcome.permission else { panic!("{outcome:?}") };
    assert!(reason.contains("status 1"), "{reason}");
    assert!(notices(&outcome).contains("status 1"));
}

#[tokio::test]
async fn a_hook_gets_all_of_a_long_prompt() {
    let hook = line("wc -c");
    let scenario = HookScenario::with_hook("UserPromptSubmit", &hook);
    let prompt = "x".repeat(5 << 20);
    let outcome = scenario.run(HookMoment::Prompt { text: &prompt }).await;
    let [context] = outcome.context.as_slice() else { panic!("{outcome:?}") };
    let bytes: usize =
        context.split_whitespace().filter_map(|word| word.parse::<usize>().ok()).sum();
    assert!(bytes > 5 << 20, "{context}");
}

#[tokio::test]
async fn a_hook_in_a_folder_that_is_gone_is_told() {
    let scenario = HookScenario::with_hook("Stop", &line("true"));
    let hooks = scenario.hooks();
    fs::remove_dir(&scenario.cwd).unwrap();
    let moment = HookMoment::TurnEnd { text: None, has_objected: false };
    let outcome = run(&hooks, &scenario.cwd, moment).await;
    assert!(notices(&outcome).contains("there is no folder"), "{outcome:?}");
}

#[tokio::test]
async fn hooks_run_at_the_same_time_and_the_strictest_answer_counts() {
    let printing = |decision: &str| {
        let json = format!(
            r#"{{"hookSpecificOutput": {{"permissionDecision": "{decision}", "permissionDecisionReason": "{decision}"}}}}"#
        );
        line(&format!("sleep 0.3; printf '%s' '{json}'"))
    };
    let hooks = ["allow", "deny", "ask", "allow"].map(printing).to_vec();
    let settings = json!({ "hooks": { "PreToolUse": [{ "hooks": hooks }] } });
    let scenario = HookScenario::new(&settings.to_string());
    let (call_id, input) = (CallId::new("c1"), json!({ "command": "ls" }));
    let plan = CallPlan::without_effects("ls");
    let moment =
        HookMoment::BeforeCall { call_id: &call_id, tool: "bash", input: &input, plan: &plan };
    let outcome = scenario.run(moment).await;
    assert_eq!(outcome.permission, Some(HookPermission::Deny("deny".to_owned())));
}

#[tokio::test]
async fn a_hook_that_runs_once_runs_once_and_the_same_command_is_not_run_twice() {
    let once = json!({ "type": "command", "command": "echo once", "once": true });
    let twice = [line("echo twice"), line("echo twice")];
    let settings = json!({ "hooks": { "UserPromptSubmit": [
        { "hooks": [once] }, { "hooks": twice },
    ] } });
    let scenario = HookScenario::new(&settings.to_string());
    let hooks = scenario.hooks();
    let mut said = Vec::new();
    for _ in 0..2 {
        let outcome = run(&hooks, &scenario.cwd, HookMoment::Prompt { text: "p" }).await;
        said.push(outcome.context.iter().map(|text| text.contains("once")).collect::<Vec<_>>());
    }
    assert_eq!(said, [vec![true, false], vec![false]]);
}

#[tokio::test]
async fn the_agent_does_not_wait_for_an_asynchronous_hook_but_its_failure_is_told_later() {
    let hook = json!({ "type": "command", "command": "exit 3", "async": true });
    let scenario = HookScenario::with_hook("UserPromptSubmit", &hook);
    let hooks = scenario.hooks();
    let mut told = notices(&run(&hooks, &scenario.cwd, HookMoment::Prompt { text: "p" }).await);
    let deadline = Instant::now() + PATIENCE;
    while !told.contains("status 3") {
        assert!(Instant::now() < deadline, "{told}");
        tokio::task::yield_now().await;
        told.push_str(&notices(&run(&hooks, &scenario.cwd, HookMoment::SessionEnd).await));
    }
}

#[tokio::test]
async fn a_failed_call_is_an_event_of_its_own() {
    let settings = json!({ "hooks": {
        "PostToolUse": [{ "hooks": [line("echo '{\"decision\":\"block\",\"reason\":\"after\"}'")] }],
        "PostToolUseFailure": [{ "hooks": [line("echo '{\"decision\":\"block\",\"reason\":\"failed\"}'")] }],
    } });
    let scenario = HookScenario::new(&settings.to_string());
    let (call_id, input) = (CallId::new("c1"), json!({}));
    let plan = CallPlan::without_effects("x");
    for (result, expected) in
        [(ToolResult::success("fine"), "after"), (ToolResult::failure("bad"), "failed")]
    {
        let moment = HookMoment::AfterCall {
            call_id: &call_id,
            tool: "glob",
            input: &input,
            plan: &plan,
            result: &result,
            duration: Duration::ZERO,
        };
        assert_eq!(scenario.run(moment).await.objection.as_deref(), Some(expected));
    }
}

#[test]
fn mistakes_in_a_file_cost_only_the_hooks_that_have_them() {
    let settings = json!({ "hooks": {
        "PreToolUse": [
            { "matcher": "Bash(", "hooks": [line("true")] },
            { "matcher": 5, "hooks": [line("true")] },
            { "hooks": "none" },
            { "hooks": [
                { "type": "http", "url": "https://example.com" },
                { "command": "true" },
                { "type": "command" },
                { "type": "command", "command": " " },
                { "type": "command", "command": "true", "timeout": -1 },
                { "type": "command", "command": "true", "timeout": "soon" },
                { "type": "command", "command": "true", "args": [1] },
                { "type": "command", "command": "true", "onFailure": "explode" },
                { "type": "command", "command": "true", "if": "Bash(git" },
                { "type": "command", "command": "true", "shell": "powershell" },
                { "type": "command", "command": "true", "once": "yes" },
                "true",
                line("echo used"),
            ] },
        ],
        "PreToolUs": [],
        "SubagentStart": [],
        "Stop": {},
    } });
    let scenario = HookScenario::new(&settings.to_string());
    let set = scenario.set();
    assert_eq!(set.hooks.len(), 1);
    assert_eq!(set.hooks[0].hook.command(), "echo used");
    let unused: Vec<_> = set
        .unused
        .iter()
        .map(|(_, unused)| format!("{}: {}", unused.place, unused.reason))
        .collect();
    insta::assert_snapshot!(unused.join("\n"));
    assert!(CommandHooks::is_needed(&set));
}

#[test]
fn a_file_that_cannot_be_used_is_told_with_its_place() {
    for (text, expected) in [
        ("{\n  \"hooks\": {,\n}", "settings.json:2:13:"),
        ("[]", "it is not an object"),
        ("", "settings.json:1:0:"),
    ] {
        let set = HookScenario::new(text).set();
        assert!(set.hooks.is_empty());
        let [fault] = set.faults.as_slice() else { panic!("{:?}", set.faults) };
        assert!(fault.contains(expected), "{fault}");
    }
    let scenario = HookScenario::new("{}");
    let path = scenario.home.path().join(".claude/settings.json");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(scenario.set().faults.len(), 1);
}

#[test]
fn all_hooks_can_be_switched_off() {
    let settings =
        json!({ "disableAllHooks": true, "hooks": { "Stop": [{ "hooks": [line("true")] }] } });
    let set = HookScenario::new(&settings.to_string()).set();
    assert!(set.hooks.is_empty() && !CommandHooks::is_needed(&set));
    assert!(set.unused[0].1.reason.contains("disableAllHooks"));
    let scenario = HookScenario::with_hook("Stop", &line("true"));
    let config = scenario.home.path().join(".config/crow-agent");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[hooks]\nclaude_settings = false\n").unwrap();
    assert!(scenario.set().hooks.is_empty());
    fs::write(config.join("config.toml"), "[hooks]\nenabled = false\n").unwrap();
    assert!(scenario.set().hooks.is_empty());
    fs::write(config.join("config.toml"), "[hooks]\noutside_sandbox = true\n").unwrap();
    assert!(scenario.set().hooks[0].may_run_outside);
}

#[test]
fn only_hooks_that_name_nothing_of_the_project_may_run_outside_of_the_sandbox() {
    let home = Path::new("/users/me");
    let roots = [PathBuf::from("/users/me/project"), PathBuf::from("/srv/other")];
    for (command, expected) in [
        ("notify-send hi", false),
        ("sh ~/bin/notify.sh", false),
        ("sh ./notify.sh", false),
        ("make check", false),
        ("/users/me/project/tools/notify.sh", true),
        ("sh ~/project/tools/notify.sh", true),
        ("sh project/tools/notify.sh", true),
        ("sh /srv/other/x.sh", true),
        ("\"$CLAUDE_PROJECT_DIR\"/tools/notify.sh", true),
        ("cd $PWD && make", true),
        ("cd /srv/other; make", true),
        ("cd /users && me/project/tools/x.sh", true),
        ("cd ..; sh me/project/tools/x.sh", true),
        ("(cd /; exec users/me/project/x.sh)", true),
        ("/users/me/p?oject/tools/x.sh", true),
        ("sh /opt/projects/x.sh", false),
    ] {
        let settings = json!({ "hooks": { "Notification": [{ "hooks": [line(command)] }] } });
        let set = HookScenario::new(&settings.to_string()).set();
        let hook = &set.hooks[0];
        assert!(hook.may_run_outside, "{command}");
        let names = names_path_below(&hook.hook, Some(home), roots.iter());
        assert_eq!(names, expected, "{command}");
    }
    // In a session in the home, everything may be the agent's.
    let settings = json!({ "hooks": { "Notification": [{ "hooks": [line("notify-send hi")] }] } });
    let set = HookScenario::new(&settings.to_string()).set();
    assert!(names_path_below(&set.hooks[0].hook, Some(home), [home.to_path_buf()].iter()));
}

#[test]
fn a_script_is_found_only_where_a_command_starts_it() {
    let places = (Path::new("/h"), Path::new("/p"), Path::new("/w"));
    for (command, expected) in [
        ("python3 ~/.claude/hooks/x.py --key ~/.ssh/id", Some("/h/.claude/hooks/x.py")),
        ("$CLAUDE_PROJECT_DIR/tools/x.sh", Some("/p/tools/x.sh")),
        ("\"${CLAUDE_PROJECT_DIR}\"/tools/x.sh a", Some("/p/tools/x.sh")),
        ("./x.sh", Some("/w/./x.sh")),
        ("/opt/x", Some("/opt/x")),
        ("jq -r .tool_input ~/.ssh/id", None),
        ("node -e 'x' ~/y.js", None),
        ("$SHELL x.sh", None),
        ("echo hi", None),
    ] {
        let settings = json!({ "hooks": { "Stop": [{ "hooks": [line(command)] }] } });
        let set = HookScenario::new(&settings.to_string()).set();
        let script = script_of(&set.hooks[0].hook, Some(places.0), places.1, places.2);
        assert_eq!(script.as_deref(), expected.map(Path::new), "{command}");
    }
}

#[tokio::test]
async fn a_script_that_is_missing_is_no_objection() {
    for command in ["sh ./missing.sh", "python3 /no/such/script.py", "./missing"] {
        let outcome = before_call(line(command)).await;
        assert!(notices(&outcome).contains("there is no file"), "{command}: {outcome:?}");
        assert_eq!(outcome.permission, None, "{command}");
    }
}

#[tokio::test]
async fn hooks_that_differ_only_in_their_condition_all_run() {
    let deny = |condition: &str| json!({ "type": "command", "command": "exit 2", "if": condition });
    let hooks = json!([deny("Bash(git *)"), deny("Bash(rm *)")]);
    let settings = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": hooks }] } });
    let scenario = HookScenario::new(&settings.to_string());
    assert_eq!(scenario.set().hooks.len(), 2);
}

#[tokio::test]
async fn a_matcher_of_prompts_and_ends_of_turns_has_no_effect() {
    let settings = json!({ "hooks": {
        "Stop": [{ "matcher": "Bash", "hooks": [line("exit 2")] }],
        "SessionEnd": [{ "matcher": "prompt_input_exit", "hooks": [line("exit 1")] }],
    } });
    let scenario = HookScenario::new(&settings.to_string());
    let moment = HookMoment::TurnEnd { text: None, has_objected: false };
    assert!(scenario.run(moment).await.objection.is_some());
    assert!(notices(&scenario.run(HookMoment::SessionEnd).await).contains("status 1"));
}
