//! Hostile input. The time limit of the test run bounds each test.

use super::call::{Call, policy, policy_in};
use crate::{
    permission::{
        CustomMatcher, Decision, PermissionMode, PermissionRule, RuleDecision, RuleMatcher,
        RuleRegex,
    },
    tool_types::{CommandMeaning, CommandWord, SimpleCommand},
};

const MEGABYTE: usize = 1 << 20;

fn rules() -> Vec<PermissionRule> {
    let mut rules = Vec::new();
    for index in 0..4 {
        let regex = RuleRegex::new(&format!("^(x+x+)+y{index}$")).unwrap();
        rules.push(PermissionRule::deny_bash_prefix([format!("x{index}"), "y".to_owned()]));
        rules.push(PermissionRule::new(
            format!("r{index}"),
            RuleMatcher::Regex(regex),
            RuleDecision::Deny,
        ));
    }
    rules
}

#[test]
fn a_megabyte_in_one_word_is_decided() {
    let words =
        vec![CommandWord::Literal("echo".into()), CommandWord::Literal("x".repeat(MEGABYTE))];
    let command = SimpleCommand { words, ..SimpleCommand::default() };
    let call = Call::shell("echo", CommandMeaning::Commands(vec![command]));
    assert_eq!(call.outcome(&policy(rules())), RuleDecision::AskUser);
}

#[test]
fn a_hundred_thousand_commands_are_decided() {
    let word = |text: &str| vec![CommandWord::Literal(text.to_owned())];
    let command = |text| SimpleCommand { words: word(text), ..SimpleCommand::default() };
    let mut commands = vec![command("ls"); 100_000];
    let mut rules = rules();
    rules.push(PermissionRule::allow_bash_prefix(["ls"]));
    let call = Call::shell("", CommandMeaning::Commands(commands.clone()));
    assert_eq!(call.outcome(&policy(rules.clone())), RuleDecision::Allow);
    commands.push(command("rm"));
    let call = Call::shell("", CommandMeaning::Commands(commands));
    assert_eq!(call.outcome(&policy(rules)), RuleDecision::AskUser);
}

#[test]
fn a_megabyte_that_is_not_understood_is_decided() {
    for text in ["x1 -x ".repeat(MEGABYTE / 6), "x".repeat(MEGABYTE), "'\\\"".repeat(MEGABYTE / 3)]
    {
        let policy = policy_in(PermissionMode::FullAuto, rules());
        assert!(matches!(Call::unclear(&text).decide(&policy), Decision::Ask(_)));
    }
    let policy = policy_in(PermissionMode::FullAuto, rules());
    let denied = format!("{}; x1 y", "x1 -x ".repeat(10_000));
    assert!(matches!(Call::unclear(&denied).decide(&policy), Decision::Deny(_)));
}

#[test]
fn a_reason_stays_short_for_any_command() {
    let policy = policy([PermissionRule::deny_bash_prefix(["rm"])]);
    let explanation = Call::bash(&format!("rm {}", "ä".repeat(5_000))).explain(&policy);
    assert!(explanation.reason.chars().count() < 200, "{}", explanation.reason);
}

#[test]
fn a_pattern_is_not_matched_against_a_text_that_is_too_long() {
    let rule = |pattern: &str, decision| {
        let regex = RuleRegex::new(pattern).unwrap();
        PermissionRule::new("pattern", RuleMatcher::Regex(regex), decision)
    };
    let long = format!("echo {}", "x".repeat(20_000));
    let short = format!("echo {}", "x".repeat(10_000));
    for (text, rule, mode, wanted) in [
        (&short, rule("^echo", RuleDecision::Allow), PermissionMode::Ask, RuleDecision::Allow),
        (&long, rule("^echo", RuleDecision::Allow), PermissionMode::Ask, RuleDecision::AskUser),
        (&short, rule("y", RuleDecision::Deny), PermissionMode::FullAuto, RuleDecision::Allow),
        (&long, rule("y", RuleDecision::Deny), PermissionMode::FullAuto, RuleDecision::AskUser),
        (&long, rule("y", RuleDecision::AskUser), PermissionMode::FullAuto, RuleDecision::AskUser),
    ] {
        assert_eq!(Call::bash(text).outcome(&policy_in(mode, [rule.clone()])), wanted, "{rule:?}");
    }
    RuleRegex::new("[01]*1[01]{5000}x").expect_err("too big");
    for pattern in [
        r"^git\s+(push|pull)\b.*--force",
        r"\.(pem|key)$",
        r"(?i)^rm\s+-[rf]+\s",
        r"(?-u:\w)+\s(?-u:\w)+",
    ] {
        RuleRegex::new(pattern).expect(pattern);
    }
}

#[test]
fn a_panic_in_a_custom_matcher_asks_the_user() {
    let broken = || {
        let matcher = CustomMatcher::new("broken", |_| panic!("a bug of the embedder"));
        RuleMatcher::Custom(matcher)
    };
    for (decision, mode, wanted) in [
        (RuleDecision::Allow, PermissionMode::Ask, RuleDecision::AskUser),
        (RuleDecision::Deny, PermissionMode::FullAuto, RuleDecision::AskUser),
        (RuleDecision::AskUser, PermissionMode::FullAuto, RuleDecision::AskUser),
    ] {
        let rule = PermissionRule::new("broken", broken(), decision);
        assert_eq!(Call::bash("ls").outcome(&policy_in(mode, [rule])), wanted, "{decision:?}");
    }
}
