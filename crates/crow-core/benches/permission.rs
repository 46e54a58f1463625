//! Measures a decision of the policy with many rules, beside a scan of as many texts that decides nothing.
//!
//! `cargo bench -p crow-core --bench permission` prints the median of many decisions.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails loudly"
)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crow_core::{
    ids::{CallId, SessionId},
    permission::{
        CallFacts, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision, RuleMatcher,
        RuleRegex, RuleSet,
    },
    tool::{
        Access, CallPlan, CommandLine, CommandMeaning, CommandWord, Effects, PathEffect,
        SimpleCommand, Subject, ToolCategory,
    },
    workspace::Workspace,
};

const RULES: usize = 500;

fn main() {
    let names: Vec<String> = (0..RULES).map(|at| format!("program{at}")).collect();
    println!("{RULES} rules, median of 2,000 decisions");
    let scan = median(2_000, || names.iter().filter(|name| *name == black_box("git log")).count());
    row("reference: 500 comparisons of texts", scan);

    let prefix = rules(|at| PermissionRule::allow_bash_prefix([names[at].as_str(), "run"]));
    let tool = rules(|at| PermissionRule::ask_for_tool(names[at].as_str()));
    let path = rules(|at| PermissionRule::allow_path(Access::Write, format!("/p/folder{at}/deep")));
    let pattern = rules(|at| pattern(at, RuleDecision::Deny));
    let mixed = rules(|at| match at % 5 {
        0 => PermissionRule::allow_bash_prefix([names[at].as_str(), "run"]),
        1 => PermissionRule::ask_for_tool(names[at].as_str()),
        2 => PermissionRule::deny_path(Access::Write, format!("/p/folder{at}/deep")),
        3 => pattern_of_kind(at),
        _ => PermissionRule::deny_bash_prefix([names[at].as_str(), "push"]),
    });
    let (one, five) = (command_line(&["git log --oneline -n 20"]), command_line(&FIVE));
    let edit = CallPlan {
        title: "edit".to_owned(),
        effects: Effects::Paths(vec![PathEffect::new("/p/crates/core/src/lib.rs", Access::Write)]),
        subject: Subject::Path("/p/crates/core/src/lib.rs".into()),
    };
    row("prefixes, one command", decision(&prefix, &one, 2_000));
    row("tools, one command", decision(&tool, &one, 2_000));
    row("patterns, one command", decision(&pattern, &one, 2_000));
    row("paths, one edit", decision(&path, &edit, 2_000));
    row("mixed, one command", decision(&mixed, &one, 2_000));
    row("mixed, five commands", decision(&mixed, &five, 2_000));
    row("mixed, one edit", decision(&mixed, &edit, 2_000));
    let many = vec!["make all"; 100_000];
    row("mixed, a line of 100,000 commands", decision(&mixed, &command_line(&many), 3));
    let unclear = CallPlan {
        subject: Subject::Command(CommandLine {
            text: "make -x ".repeat(1 << 17),
            folder: None,
            meaning: CommandMeaning::Unclear("it is odd".to_owned()),
        }),
        ..one
    };
    row("mixed, 1 MB that is not understood", decision(&mixed, &unclear, 3));
}

const FIVE: [&str; 5] =
    ["cd crates", "cargo test --workspace", "git status", "rg -n needle src", "head -n 20"];

fn pattern(at: usize, decision: RuleDecision) -> PermissionRule {
    let regex = RuleRegex::new(&format!("^program{at} (run|test)( --[a-z]+)*$")).unwrap();
    PermissionRule::new(format!("pattern {at}"), RuleMatcher::Regex(regex), decision)
}

fn pattern_of_kind(at: usize) -> PermissionRule {
    let kinds = [RuleDecision::Allow, RuleDecision::Deny, RuleDecision::AskUser];
    pattern(at, kinds[at % 3])
}

fn rules(rule: impl Fn(usize) -> PermissionRule) -> PermissionPolicy {
    let rules = (0..RULES).map(|at| rule(at).with_id(format!("rule {at}")));
    PermissionPolicy::new(PermissionMode::Ask).with_rules(RuleSet::new(rules).unwrap())
}

fn command_line(commands: &[&str]) -> CallPlan {
    let command = |text: &&str| SimpleCommand {
        words: text.split(' ').map(|word| CommandWord::Literal(word.to_owned())).collect(),
        ..SimpleCommand::default()
    };
    CallPlan {
        title: "command".to_owned(),
        effects: Effects::Unknown,
        subject: Subject::Command(CommandLine {
            text: commands.join("; "),
            folder: None,
            meaning: CommandMeaning::Commands(commands.iter().map(command).collect()),
        }),
    }
}

fn decision(policy: &PermissionPolicy, plan: &CallPlan, times: usize) -> Duration {
    let workspace = Workspace::new("/p");
    let (call_id, session_id) = (CallId::new("call"), SessionId::new("session"));
    let input = serde_json::json!({ "command": "git log" });
    let facts = CallFacts {
        call_id: &call_id,
        session_id: &session_id,
        agent: "builder",
        input: &input,
        tool: "bash",
        category: ToolCategory::Execute,
        requires_permission: true,
        plan,
    };
    median(times, || policy.decide(black_box(facts), &workspace))
}

fn median<T>(times: usize, work: impl Fn() -> T) -> Duration {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let before = Instant::now();
            black_box(work());
            before.elapsed()
        })
        .collect();
    taken.sort_unstable();
    taken[times / 2]
}

fn row(name: &str, taken: Duration) {
    println!("{name:<40} {taken:>12.1?}");
}
