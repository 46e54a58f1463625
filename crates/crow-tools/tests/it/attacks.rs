//! Shell lines that do more than they seem to. None passes under ordinary rules of a user.

use std::{
    fs,
    time::{Duration, Instant},
};

use crow_core::{
    permission::{
        Decision, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision, RuleMatcher,
        RuleRegex, RuleSet,
    },
    tool::{Access, CommandMeaning},
};

use crate::project::Project;

/// Prefixes that users commonly allow.
const ALLOWED: [&str; 26] = [
    "cargo build",
    "cargo test",
    "cat",
    "cd",
    "cp",
    "echo",
    "find",
    "git add",
    "git commit",
    "git diff",
    "git fetch",
    "git log",
    "git status",
    "go test",
    "grep",
    "ls",
    "make all",
    "mkdir",
    "mv",
    "npm run build",
    "npm test",
    "pytest",
    "python3 scripts/release.py",
    "rg",
    "tee",
    "touch",
];

fn rules() -> RuleSet {
    let prefix = |words: &&str| PermissionRule::allow_bash_prefix(words.split(' '));
    let pattern = RuleRegex::new("^(cargo|npm) (test|run build)( |$)").unwrap();
    let regex = PermissionRule::new("regex", RuleMatcher::Regex(pattern), RuleDecision::Allow);
    RuleSet::new(ALLOWED.iter().map(prefix).chain([regex])).unwrap()
}

/// Decodes `⏎` (line feed), `⇐` (carriage return) and `‹hex›` (a code point).
fn decoded(text: &str) -> String {
    let mut decoded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('‹') {
        let (code, after) = after.split_once('›').unwrap();
        decoded.push_str(before);
        decoded.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        rest = after;
    }
    decoded.push_str(rest);
    decoded.replace('⏎', "\n").replace('⇐', "\r")
}

fn hostile_project() -> Project {
    let project = Project::new();
    project.link("out", "../other");
    project.link("etc", "/etc");
    project.link("passwd", "/etc/passwd");
    project.link("hooks", ".git/hooks");
    project.link("gitlink", ".git");
    project.link("inner", "src/parser");
    for folder in ["links", "trap", ".git/hooks"] {
        fs::create_dir(project.root.join(folder)).unwrap();
    }
    project.link("links/x", "../../other");
    project.link("links/y", "/etc/passwd");
    fs::write(project.root.join("trap/--pre=.evil"), "").unwrap();
    fs::write(project.root.join("trap/-oout"), "").unwrap();
    project
}

fn attacks() -> impl Iterator<Item = String> {
    include_str!("../attacks.txt").lines().filter(|line| !line.starts_with("# ")).map(decoded)
}

#[test]
fn no_attack_passes_under_ordinary_rules() {
    let project = hostile_project();
    let modes = [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::ReadOnly];
    let mut policies: Vec<PermissionPolicy> = Vec::new();
    for mode in modes {
        let policy = PermissionPolicy::new(mode).with_rules(rules());
        policies.extend([policy.clone(), policy.with_read_sandbox(true)]);
    }
    policies.push(PermissionPolicy::new(PermissionMode::FullAuto).with_uncontained(true));
    let mut passed = Vec::new();
    let mut count = 0;
    for text in attacks() {
        count += 1;
        let line = project.line(&text);
        for policy in &policies {
            if matches!(project.decide(policy, &line), Decision::Allow(_)) {
                passed.push(format!("{} {text:?} {:?}", policy.mode(), line.meaning));
            }
        }
    }
    assert!(count >= 150, "{count} attacks");
    assert!(passed.is_empty(), "{} passed:\n{}", passed.len(), passed.join("\n"));
}

#[test]
fn a_denied_command_or_path_is_found_anywhere_in_a_line() {
    let project = hostile_project();
    let denials = [
        PermissionRule::deny_bash_prefix(["rm"]),
        PermissionRule::deny_path(Access::Read, "/etc/passwd"),
        PermissionRule::deny_path(Access::Write, ".git"),
    ];
    let rules = RuleSet::new(denials).unwrap();
    let policy = PermissionPolicy::new(PermissionMode::FullAuto).with_rules(rules);
    let many = format!("{}rm a.txt", "ls; ".repeat(60));
    let more = format!("{}rm a.txt", "ls && ".repeat(998));
    let too_many = format!("{}rm a.txt", "ls; ".repeat(2_000));
    let deep = format!("{}rm a.txt{}", "echo $(".repeat(10), ")".repeat(10));
    let too_deep = format!("{}rm a.txt{}", "echo $(".repeat(60), ")".repeat(60));
    let shells = "bash -c \"sh -c 'rm a.txt'\"".to_owned();
    let lines = [many, more, too_many, deep, too_deep, shells];
    let texts = [
        "sudo rm a.txt",
        "env rm a.txt",
        "env -i X=1 rm a.txt",
        "xargs rm < a.txt",
        "find . -exec rm {} +",
        "find . -execdir rm {} \\;",
        "nohup rm a.txt",
        "timeout 5 nice -n 3 rm a.txt",
        "command rm a.txt",
        "exec rm a.txt",
        "eval 'rm a.txt'",
        "trap 'rm a.txt' EXIT",
        "ssh host rm a.txt",
        "/bin/rm a.txt",
        "r''m a.txt",
        "\\rm a.txt",
        "$'rm' a.txt",
        "x=rm; $x a.txt",
        "${x:-rm} a.txt",
        "$(echo rm) a.txt",
        "f() { rm a.txt; }; f",
        "alias x=rm; x a.txt",
        "coproc rm a.txt",
        "if true; then rm a.txt; fi",
        "case x in *) rm a.txt;; esac",
        "ls | while read x; do rm $x; done",
        "cat <<E\n$(rm a.txt)\nE",
        "cat <(rm a.txt)",
        "[[ $(rm a.txt) ]]",
        "ls # x\nrm a.txt",
        "! rm a.txt",
        "time rm a.txt",
        "cat passwd",
        "cat < passwd",
        "cat links/y",
        "cat links/*",
        "cat etc/passwd",
        "grep -r x etc",
        "cp passwd x",
        "touch hooks/x",
        "echo x > gitlink/config",
        "cp a.txt gitlink/hooks/x",
        "echo x | tee hooks/x",
        "rmdir hooks/x",
        "sed -i s/a/b/ gitlink/config",
        "mv gitlink/config x",
        "sort -o hooks/x a.txt",
        "find hooks/ -delete",
    ];
    let passed: Vec<String> = lines
        .into_iter()
        .chain(texts.map(str::to_owned))
        .filter(|text| matches!(project.decide(&policy, &project.line(text)), Decision::Allow(_)))
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_line_of_any_size_is_decided_within_seconds() {
    const MEGABYTE: usize = 1 << 20;
    const KILOBYTES: usize = 60 * 1024;

    let project = hostile_project();
    let filled = |piece: &str, size: usize| piece.repeat(size / piece.len());
    let lines = [
        filled("cat a.txt; ", MEGABYTE),
        filled("a", MEGABYTE),
        filled("$(", MEGABYTE),
        filled("\u{1}\u{2}\u{fffd}", MEGABYTE),
        filled("<<A ", MEGABYTE),
        format!("cat {}", filled("* ", KILOBYTES)),
        format!("cat {}", filled("*/*/* ", KILOBYTES)),
        format!("cat {}", filled("{1..99}", KILOBYTES)),
        format!("cat {}", filled("../", KILOBYTES)),
        format!("cat {}", filled("a/", KILOBYTES)),
        format!("cat {}", filled("a.txt ", KILOBYTES)),
        format!("cat '{}'", filled("*a", KILOBYTES)),
        format!("cat {}", filled("*a", KILOBYTES)),
        format!("for f in {{1..200}}; do {} :; done", filled("cat \"$f\"; ", 30 * 1024)),
        format!("{} ls", filled("cd src; ", 30 * 1024)),
        format!("{} ls", filled("cd /; ", 5 * 1024)),
        format!("grep -R x {}", filled(". ", KILOBYTES)),
        format!("sed -n '{}'", filled("1p;", KILOBYTES)),
    ];
    let policy = PermissionPolicy::new(PermissionMode::Ask);
    for text in lines {
        let begun = Instant::now();
        let line = project.line(&text);
        let decision = project.decide(&policy, &line);
        let start: String = text.chars().take(30).collect();
        assert!(begun.elapsed() < Duration::from_secs(8), "{start}: {:?}", begun.elapsed());
        let is_read = matches!(line.meaning, CommandMeaning::Commands(_)) && line.only_reads();
        assert!(is_read || !matches!(decision, Decision::Allow(_)), "{start}");
    }
}
