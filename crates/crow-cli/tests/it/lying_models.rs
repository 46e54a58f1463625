//! Models that claim what their log contradicts: no such run exits with 0, and none counts as verified.

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use crate::program::Fixture;

/// Number of times that a model repeats its last claim.
const REPEATS: usize = 8;
/// Number of programs that run at the same time.
const AT_ONCE: usize = 4;

/// A run of a lying model.
struct Lie {
    name: String,
    permissions: &'static str,
    /// Replies before the claim.
    before: Vec<ScriptedReply>,
    claim: ScriptedReply,
    /// True if the project's check is configured.
    has_check: bool,
}

fn say(text: &str) -> ScriptedReply {
    ScriptedReply::new().text(text)
}

fn bash(command: &str) -> ScriptedReply {
    ScriptedReply::new().call("b", "bash", &json!({ "command": command }))
}

fn read() -> ScriptedReply {
    ScriptedReply::new().call("r", "read_file", &json!({"path": "largest.sh"}))
}

fn edit(old: &str, new: &str) -> ScriptedReply {
    let input = json!({"path": "largest.sh", "old_string": old, "new_string": new});
    ScriptedReply::new().call("e", "edit_file", &input)
}

/// An edit that changes the file and repairs nothing.
fn useless_edit() -> ScriptedReply {
    edit("sort -r |", "sort -r  |")
}

fn complete(evidence: Option<&str>) -> ScriptedReply {
    let mut input = json!({"summary": "The bug is fixed and all checks pass."});
    if let Some(command) = evidence {
        input["check_command"] = command.into();
        input["check_output"] = "ok".into();
    }
    ScriptedReply::new().call("c", "task_complete", &input)
}

/// Claims of finished work in which only the log shows that they are wrong.
const CLAIMS: [&str; 12] = [
    "Done! I fixed the bug in largest.sh and verified it: all checks pass.",
    "I've fixed the sort order in `largest.sh`. The check passes now.",
    "The bug has been fixed and the tests pass.",
    "Fixed. All tests are green.",
    "All done ✅ The check succeeds now, everything works.",
    "I have updated largest.sh; `sh check.sh` passes.",
    "Changes made:\n- `largest.sh`: numeric sort\n\nAll checks pass.",
    "The issue is resolved. I changed `sort -r` to `sort -rn`, and the check passed.",
    "Erledigt: Ich habe largest.sh korrigiert, die Tests sind grün.",
    "Listo, he corregido largest.sh. Todas las pruebas pasan.",
    "已完成！我已修复 largest.sh，测试全部通过。",
    "J'ai corrigé largest.sh, tous les tests passent.",
];

fn lies() -> Vec<Lie> {
    let mut lies = Vec::new();
    let mut add = |name: &str, permissions, before: Vec<ScriptedReply>, claim, has_check| {
        let name = name.to_owned();
        lies.push(Lie { name, permissions, before, claim, has_check });
    };
    // 1) Claims in words, in each situation that contradicts them.
    for (number, claim) in CLAIMS.iter().enumerate() {
        let name = |what: &str| format!("{what}, claim {number}");
        let full = "full-auto";
        add(&name("nothing was done"), full, vec![], say(claim), false);
        add(&name("only read"), full, vec![read()], say(claim), false);
        add(
            &name("the only edit was refused"),
            "ask",
            vec![edit("sort -r |", "sort -rn |"), read()],
            say(claim),
            false,
        );
        add(
            &name("the last edit failed"),
            full,
            vec![useless_edit(), edit("not there", "x"), bash("true")],
            say(claim),
            false,
        );
        add(
            &name("the check failed after the edit"),
            full,
            vec![useless_edit(), bash("sh check.sh")],
            say(claim),
            false,
        );
    }
    // 2) Completions with evidence that the log contradicts.
    let full = "full-auto";
    let check = Some("sh check.sh");
    add("evidence that never ran", full, vec![useless_edit()], complete(check), false);
    add(
        "evidence that failed",
        full,
        vec![useless_edit(), bash("sh check.sh")],
        complete(check),
        false,
    );
    add(
        "evidence before the last change",
        full,
        vec![bash("sh check.sh || true"), useless_edit()],
        complete(Some("sh check.sh || true")),
        false,
    );
    add(
        "a completion after a failed write",
        full,
        vec![edit("not there", "x")],
        complete(None),
        false,
    );
    add(
        "a completion after a refused write",
        "ask",
        vec![edit("sort -r |", "sort -rn |"), read()],
        complete(None),
        false,
    );
    add("a completion without any call", full, vec![], complete(None), false);
    add("a completion with evidence and no call", full, vec![], complete(check), false);
    // 3) Completions and words against a configured check.
    add("a completion while the check fails", full, vec![useless_edit()], complete(None), true);
    add("a completion of nothing while the check fails", full, vec![], complete(None), true);
    // 4) Promises, plans and questions in place of work.
    for (name, text) in [
        ("a promise", "I'll fix the sort order in largest.sh now."),
        ("a promise after a read", "The sort is lexical. Let me fix it:"),
        ("a plan", "To fix this:\n1. Open largest.sh\n2. Use a numeric sort\n3. Run check.sh"),
        ("a question", "Which file should I fix?"),
    ] {
        add(name, full, vec![read()], say(text), false);
    }
    lies
}

async fn run(lie: Lie) -> Option<String> {
    let mut replies: Vec<ScriptStep> = lie.before.into_iter().map(Into::into).collect();
    replies.extend(std::iter::repeat_with(|| lie.claim.clone().into()).take(REPEATS));
    let server = ModelServer::start(replies).await;
    let fixture = Fixture::with_bug().with_server(&server, WireDialect::AnthropicMessages);
    if lie.has_check {
        let folder = fixture.home(".config/crow-agent");
        std::fs::create_dir_all(&folder).unwrap();
        let config = "[checks]\ncommands = [\"sh check.sh\"]\n";
        std::fs::write(folder.join("config.toml"), config).unwrap();
    }
    let prompt = "the check fails, fix the bug in largest.sh";
    let args = ["run", prompt, "-p", lie.permissions, "-o", "json"];
    let ran = fixture.run(&args).await;
    let result = ran.result();
    let is_caught = ran.code != Some(0)
        && result["verified"] == false
        && (result["exit_code"] != 7 || result["error"]["message"].is_string());
    (!is_caught).then(|| format!("{}: exit code {:?}, {result}", lie.name, ran.code))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_that_the_log_contradicts_is_verified_or_exits_with_0() {
    let lies = lies();
    assert!(lies.len() >= 60, "{}", lies.len());
    let missed: Vec<_> = stream::iter(lies)
        .map(run)
        .buffer_unordered(AT_ONCE)
        .filter_map(async |missed| missed)
        .collect()
        .await;
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

#[tokio::test]
async fn an_honest_run_that_was_told_its_findings_ends_as_done() {
    let replies = [
        edit("sort -r |", "sort -rn |"),
        say("I fixed the sort order."),
        bash("sh check.sh"),
        say("I fixed the sort order; `sh check.sh` passes."),
    ];
    let server = ModelServer::start(replies.map(ScriptStep::from).to_vec()).await;
    let fixture = Fixture::with_bug().with_server(&server, WireDialect::AnthropicMessages);
    let ran =
        fixture.run(&["run", "fix the bug in largest.sh", "-p", "full-auto", "-o", "json"]).await;
    ran.exited(0);
    assert_eq!(ran.result()["assessment"]["kind"], "done");
    let told: Vec<_> = ran
        .lines()
        .into_iter()
        .filter(|line| line["type"] == "notice" && line["audience"] == "model")
        .collect();
    let [told] = &told[..] else { panic!("{told:?}") };
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("nothing was run after the last change of"), "{text}");
}

#[tokio::test]
async fn evidence_that_holds_is_named_in_the_result() {
    let replies =
        [edit("sort -r |", "sort -rn |"), bash("sh check.sh"), complete(Some("sh check.sh"))];
    let server = ModelServer::start(replies.map(ScriptStep::from).to_vec()).await;
    let fixture = Fixture::with_bug().with_server(&server, WireDialect::AnthropicMessages);
    let ran =
        fixture.run(&["run", "fix the bug in largest.sh", "-p", "full-auto", "-o", "json"]).await;
    ran.exited(0);
    assert_eq!(ran.result()["assessment"]["evidence"], "sh check.sh");
}
