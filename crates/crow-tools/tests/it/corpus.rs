//! Ordinary development commands, each with a label for the expected decision.
//!
//! - `read`: only reads in the project; passes without a question.
//! - `held`: the same, if the read sandbox keeps the started programs from changing anything.
//! - `work`: is understood and asked about; the first offered grant lets it pass the next time.
//! - `each`: ordinary work that is asked about every time, because it destroys, runs text as a program or cannot be undone.
//! - `reach`: reaches beyond the project; is asked about under every other permission.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use crow_core::{
    ids::SessionId,
    permission::{Decision, PermissionMode, PermissionPolicy},
    tool::CommandMeaning,
};

use crate::project::Project;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The decision is as labelled.
    Right,
    /// The user is asked, although the label says that it is not needed.
    Needless,
    /// The command passes or gets an offer, although the label forbids it.
    Wrong,
}

fn asks(decision: &Decision) -> bool {
    match decision {
        Decision::Ask(_) => true,
        Decision::Allow(_) | Decision::Deny(_) => false,
    }
}

fn allows(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow(_))
}

fn judge(project: &Project, label: &str, text: &str) -> (Verdict, String) {
    let line = project.line(text);
    let policy = PermissionPolicy::new;
    let by_mode = |mode| project.decide(&policy(mode), &line);
    let in_sandbox = |mode| project.decide(&policy(mode).with_read_sandbox(true), &line);
    let (asking, edits) = (by_mode(PermissionMode::Ask), by_mode(PermissionMode::AcceptEdits));
    let sandboxed = in_sandbox(PermissionMode::AcceptEdits);
    let unclear = match &line.meaning {
        CommandMeaning::Unclear(reason) => Some(reason.clone()),
        CommandMeaning::Commands(_) => None,
    };
    let verdict = |is_right, otherwise| if is_right { Verdict::Right } else { otherwise };
    match label {
        "read" => {
            let passes = allows(&asking) && allows(&by_mode(PermissionMode::ReadOnly));
            (verdict(passes, Verdict::Needless), unclear.unwrap_or_default())
        }
        "held" if !asks(&asking) => (Verdict::Wrong, "passes without a sandbox".to_owned()),
        "held" => {
            let passes = allows(&in_sandbox(PermissionMode::ReadOnly)) && allows(&sandboxed);
            (verdict(passes, Verdict::Needless), unclear.unwrap_or_default())
        }
        _ if !asks(&asking) || !asks(&edits) || !asks(&sandboxed) => {
            (Verdict::Wrong, "passes".to_owned())
        }
        "work" => match (unclear, asking) {
            (Some(reason), _) => (Verdict::Needless, reason),
            (None, Decision::Ask(ask)) => {
                let Some(offer) = ask.offers.first() else {
                    return (Verdict::Needless, format!("no offer: {}", ask.reason));
                };
                let mut granted = policy(PermissionMode::Ask);
                granted.grant(&SessionId::new("session"), &offer.grants);
                let passes = allows(&project.decide(&granted, &line));
                (verdict(passes, Verdict::Needless), offer.label.clone())
            }
            (None, Decision::Allow(_) | Decision::Deny(_)) => unreachable!(),
        },
        "each" => match (unclear, asking) {
            (Some(reason), _) => (Verdict::Needless, reason),
            (None, Decision::Ask(ask)) if ask.offers.is_empty() => (Verdict::Right, String::new()),
            (None, Decision::Ask(ask)) => {
                let labels: Vec<&str> =
                    ask.offers.iter().map(|offer| offer.label.as_str()).collect();
                (Verdict::Wrong, format!("offers {}", labels.join(", ")))
            }
            (None, Decision::Allow(_) | Decision::Deny(_)) => unreachable!(),
        },
        "reach" => (Verdict::Right, String::new()),
        label => unreachable!("the label {label}"),
    }
}

#[test]
fn ordinary_commands_get_the_expected_decisions() {
    let project = Project::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let mut counts: BTreeMap<(String, Verdict), usize> = BTreeMap::new();
    let mut mistakes: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for file in files {
        for entry in fs::read_to_string(&file).unwrap().lines() {
            let (label, text) = entry.split_once(' ').unwrap();
            assert!(seen.insert(text.to_owned()), "twice: {text}");
            let (verdict, reason) = judge(&project, label, &text.replace('⏎', "\n"));
            *counts.entry((label.to_owned(), verdict)).or_default() += 1;
            if verdict != Verdict::Right {
                mistakes.push(format!("{verdict:?} {label} {text} ({reason})"));
            }
        }
    }
    let sum = |wanted| -> usize {
        counts.iter().filter(|((_, verdict), _)| *verdict == wanted).map(|(_, count)| count).sum()
    };
    let (needless, wrong) = (sum(Verdict::Needless), sum(Verdict::Wrong));
    let mut report = format!(
        "{} commands, {needless} needless questions, {wrong} wrong permissions\n",
        seen.len()
    );
    for ((label, verdict), count) in &counts {
        let _ = writeln!(report, "{label} {verdict:?} {count}");
    }
    report.push_str(&mistakes.join("\n"));
    // The snapshot lists the needless questions with their reasons, for people to read.
    insta::assert_snapshot!(report);
    assert!(seen.len() >= 2_000);
    assert_eq!(wrong, 0);
    assert!(needless * 50 <= seen.len(), "{needless} of {}", seen.len());
}
