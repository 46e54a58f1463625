//! Properties of all rules and calls.

use proptest::{prelude::*, sample::select};

use super::call::{Call, policy_in};
use crate::{
    ids::SessionId,
    permission::{
        DecisionCause, Grant, PermissionMode, PermissionPolicy, PermissionRule, RuleDecision,
        RuleMatcher, RuleRegex, RuleScope,
    },
    tool_types::{Access, ToolCategory},
};

const PLACES: [&str; 6] = ["/p", "/p/a", "/p/a/b", "/p/.git", "/q/x", "a"];
const WORDS: [&str; 6] = ["git", "log", "push", "rm", "-C", "cd"];

fn any_access() -> impl Strategy<Value = Access> {
    select(vec![Access::Read, Access::Write])
}

fn any_scope() -> impl Strategy<Value = RuleScope> {
    select(vec![
        RuleScope::Managed,
        RuleScope::Global,
        RuleScope::Agent("builder".into()),
        RuleScope::Agent("other".into()),
        RuleScope::Session(SessionId::new("s")),
        RuleScope::Session(SessionId::new("t")),
        RuleScope::User,
    ])
}

fn any_words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(select(&WORDS[..]).prop_map(str::to_owned), 1..3)
}

fn any_matcher() -> impl Strategy<Value = RuleMatcher> {
    let categories = [ToolCategory::Read, ToolCategory::Write, ToolCategory::Execute];
    let patterns = ["", "^git", "rm", "^/p/a", "log$"];
    prop_oneof![
        select(vec!["bash", "edit_file", "read_file", "fetch"])
            .prop_map(|name| RuleMatcher::ToolName(name.to_owned())),
        select(categories.to_vec()).prop_map(RuleMatcher::ToolCategory),
        any_words().prop_map(RuleMatcher::CommandPrefix),
        select(patterns.to_vec())
            .prop_map(|pattern| RuleMatcher::Regex(RuleRegex::new(pattern).unwrap())),
        (any_access(), select(&PLACES[..]))
            .prop_map(|(access, path)| RuleMatcher::Path { access, path: path.into() }),
        Just(RuleMatcher::All),
    ]
}

pub(super) fn any_rule() -> impl Strategy<Value = PermissionRule> {
    let decisions = vec![RuleDecision::Allow, RuleDecision::AskUser, RuleDecision::Deny];
    (any_scope(), -1..2i32, any_matcher(), select(decisions), prop::option::of("[a-z]{1,4}"))
        .prop_map(|(scope, priority, matcher, decision, description)| PermissionRule {
            id: "r".into(),
            scope,
            priority,
            matcher,
            decision,
            description,
            file: None,
        })
}

fn any_rules() -> impl Strategy<Value = Vec<PermissionRule>> {
    prop::collection::vec(any_rule(), 0..8).prop_map(numbered)
}

fn numbered(rules: Vec<PermissionRule>) -> Vec<PermissionRule> {
    rules.into_iter().enumerate().map(|(at, rule)| rule.with_id(format!("r{at}"))).collect()
}

fn any_grant() -> impl Strategy<Value = Grant> {
    prop_oneof![
        Just(Grant::Tool("bash".into())),
        any_words().prop_map(Grant::Command),
        (any_access(), select(&PLACES[..]))
            .prop_map(|(access, path)| Grant::Path { access, path: path.into() }),
    ]
}

fn any_mode() -> impl Strategy<Value = PermissionMode> {
    select(&PermissionMode::ALL[..])
}

fn any_call() -> impl Strategy<Value = Call> {
    let words = select(vec!["git", "log", "push", "rm", "-C", "cd", "/bin/rm", "$X", ">f", "A=1"]);
    let line =
        prop::collection::vec(prop::collection::vec(words, 1..4), 1..4).prop_map(|commands| {
            commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" ; ")
        });
    let paths = ["/p/a", "/p/a/b", "/p/.git/config", "/q/x/y", "/etc/hosts"];
    prop_oneof![
        line.clone().prop_map(|line| Call::bash(&line)),
        line.prop_map(|line| Call::unclear(&line)),
        select(paths.to_vec()).prop_map(Call::read),
        select(paths.to_vec()).prop_map(Call::write),
        Just(Call::new("fetch", ToolCategory::Network, crate::tool::Effects::Unknown)),
    ]
}

fn with(
    mode: PermissionMode,
    mut rules: Vec<PermissionRule>,
    rule: PermissionRule,
) -> PermissionPolicy {
    rules.push(rule.with_id("last"));
    policy_in(mode, rules)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_rule_grant_or_mode_widens_a_managed_denial(
        call in any_call(),
        matcher in any_matcher(),
        rules in any_rules(),
        grants in prop::collection::vec(any_grant(), 0..4),
        modes in (any_mode(), any_mode()),
    ) {
        let denial = PermissionRule::new("managed", matcher, RuleDecision::Deny).with_scope(RuleScope::Managed);
        let alone = policy_in(modes.0, [denial.clone()]);
        let (matches_call, outcome_alone) = (matches!(call.explain(&alone).cause, DecisionCause::Rules(_)), call.outcome(&alone));
        let mut policy = with(modes.1, rules, denial);
        policy.grant(&SessionId::new("s"), &grants);
        if matches_call {
            // If it is unsure whether the denial matches the call, the policy asks.
            prop_assert!(call.outcome(&policy) <= outcome_alone);
            prop_assert!(outcome_alone < RuleDecision::Allow);
        }
    }

    #[test]
    fn the_order_of_rules_has_no_meaning(
        (rules, shuffled) in any_rules().prop_flat_map(|rules| (Just(rules.clone()), Just(rules).prop_shuffle())),
        call in any_call(),
        mode in any_mode(),
    ) {
        let (given, other) = (policy_in(mode, rules), policy_in(mode, shuffled));
        prop_assert_eq!(call.outcome(&given), call.outcome(&other));
        prop_assert_eq!(call.explain(&given), call.explain(&other));
    }

    #[test]
    fn a_rule_that_allows_never_narrows_and_one_that_denies_never_widens(
        call in any_call(),
        rules in any_rules(),
        rule in any_rule(),
        mode in any_mode(),
    ) {
        let before = call.outcome(&policy_in(mode, rules.clone()));
        let after = call.outcome(&with(mode, rules, rule.clone()));
        match rule.decision {
            RuleDecision::Allow => prop_assert!(after >= before, "{:?} -> {:?}", before, after),
            RuleDecision::Deny => prop_assert!(after <= before, "{:?} -> {:?}", before, after),
            RuleDecision::AskUser => prop_assert!(
                after == before || after == RuleDecision::AskUser, "{:?} -> {:?}", before, after
            ),
        }
    }

    #[test]
    fn granting_an_offer_allows_the_call(call in any_call(), rules in any_rules()) {
        let policy = policy_in(PermissionMode::Ask, rules);
        if call.outcome(&policy) == RuleDecision::AskUser {
            for offer in call.offers(&policy) {
                let mut granted = policy.clone();
                granted.grant(&call.session, &offer.grants);
                prop_assert_eq!(call.outcome(&granted), RuleDecision::Allow, "{:?}", offer);
            }
        }
    }
}
