use super::call::{Call, policy, policy_in};
use crate::{
    ids::SessionId,
    permission::{
        DecisionCause, Grant, MatchedRule, PermissionMode, PermissionPolicy, PermissionRule,
        RuleDecision, RuleError, RuleMatcher, RuleScope,
    },
    tool_types::ToolCategory,
};
use RuleDecision::{Allow, AskUser, Deny};

fn agent(name: &str) -> RuleScope {
    RuleScope::Agent(name.into())
}

fn session(id: &str) -> RuleScope {
    RuleScope::Session(SessionId::new(id))
}

#[test]
fn the_scope_decides_between_allowing_and_asking() {
    let scopes =
        [RuleScope::Managed, RuleScope::Global, agent("builder"), session("s"), RuleScope::User];
    for (low, weaker) in scopes.iter().enumerate() {
        for stronger in scopes.iter().skip(low + 1) {
            let allow = PermissionRule::allow_tool("bash");
            let ask = PermissionRule::ask_for_bash_prefix(["ls"]);
            let asks = policy([
                allow.clone().with_scope(weaker.clone()).with_priority(9),
                ask.clone().with_scope(stronger.clone()),
            ]);
            assert_eq!(Call::bash("ls").outcome(&asks), AskUser, "{weaker:?} < {stronger:?}");
            let allows = policy([
                ask.with_scope(weaker.clone()).with_priority(9),
                allow.with_scope(stronger.clone()),
            ]);
            assert_eq!(Call::bash("ls").outcome(&allows), Allow, "{weaker:?} < {stronger:?}");
        }
    }
}

#[test]
fn a_denial_that_may_match_overrules_a_permission() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [
            PermissionRule::deny_bash_prefix(["cargo", "test", "x"]).with_id("no-x"),
            PermissionRule::allow_tool("bash").with_id("all").with_scope(RuleScope::User),
        ],
    );
    let call = Call::bash("cargo test $X");
    assert_eq!(call.outcome(&policy), AskUser);
    let explained = call.explain(&policy);
    let DecisionCause::Rules(deciders) = &explained.cause else { panic!("{explained:?}") };
    let ids = |rules: &[MatchedRule]| rules.iter().map(|rule| rule.id.clone()).collect::<Vec<_>>();
    assert_eq!(
        (ids(deciders), ids(&explained.overruled)),
        (vec!["no-x".into()], vec!["all".into()])
    );
    assert!(explained.reason.starts_with("it is unclear whether the rule `no-x` forbids"));
}

#[test]
fn a_rule_about_several_commands_is_explained_with_the_first() {
    let table = [
        (PermissionRule::deny_bash_prefix(["rm"]), "rm a ; rm b", "forbids `rm a`"),
        (PermissionRule::ask_for_bash_prefix(["rm"]), "rm a ; rm b", "asks about `rm a`"),
        (PermissionRule::deny_bash_prefix(["rm", "x"]), "rm $A ; rm $B", "forbids `rm $A`"),
    ];
    for (rule, line, says) in table {
        let reason = Call::bash(line).explain(&policy([rule])).reason;
        assert!(reason.contains(says), "{line}: {reason}");
    }
}

#[test]
fn the_strongest_of_several_denials_that_may_match_is_named() {
    let denial = |id: &str| PermissionRule::deny_bash_prefix(["rm", id]).with_id(id);
    let (weak, strong) = (denial("weak"), denial("strong").with_priority(1));
    for rules in [[weak.clone(), strong.clone()], [strong, weak]] {
        let reason = Call::bash("rm $A").explain(&policy(rules)).reason;
        assert!(reason.contains("the rule `strong`"), "{reason}");
    }
}

#[test]
fn the_strongest_rule_over_all_commands_of_a_line_is_named() {
    let pairs = [
        (PermissionRule::ask_for_bash_prefix(["rm"]), PermissionRule::ask_for_bash_prefix(["mv"])),
        (
            PermissionRule::deny_bash_prefix(["rm", "x"]),
            PermissionRule::deny_bash_prefix(["mv", "x"]),
        ),
    ];
    for (weak, strong) in pairs {
        let rules = [weak.with_id("weak"), strong.with_id("strong").with_priority(1)];
        for line in ["rm $A ; mv $B", "mv $B ; rm $A"] {
            let reason = Call::bash(line).explain(&policy(rules.clone())).reason;
            assert!(reason.contains("the rule `strong`"), "{line}: {reason}");
        }
    }
}

#[test]
fn a_denial_of_any_scope_beats_every_permission() {
    for scope in
        [RuleScope::Managed, RuleScope::Global, agent("builder"), session("s"), RuleScope::User]
    {
        let mut policy = policy_in(
            PermissionMode::FullAuto,
            [
                PermissionRule::deny_bash_prefix(["rm"])
                    .with_scope(scope.clone())
                    .with_priority(-9),
                PermissionRule::allow_tool("bash").with_scope(RuleScope::User).with_priority(9),
            ],
        );
        policy.grant(&SessionId::new("s"), &[Grant::Command(vec!["rm".into()])]);
        assert_eq!(Call::bash("rm x").outcome(&policy), Deny, "{scope:?}");
    }
}

#[test]
fn rules_hold_only_for_their_agent_and_session() {
    let policy = policy([
        PermissionRule::allow_bash_prefix(["a"]).with_scope(agent("builder")),
        PermissionRule::allow_bash_prefix(["b"]).with_scope(session("s")),
        PermissionRule::deny_bash_prefix(["c"]).with_scope(agent("reviewer")),
    ]);
    assert_eq!(Call::bash("a").outcome(&policy), Allow);
    assert_eq!(Call::bash("a").of_agent("reviewer").outcome(&policy), AskUser);
    assert_eq!(Call::bash("b").outcome(&policy), Allow);
    assert_eq!(Call::bash("b").in_session("t").outcome(&policy), AskUser);
    assert_eq!(Call::bash("c").outcome(&policy), AskUser);
    assert_eq!(Call::bash("c").of_agent("reviewer").outcome(&policy), Deny);
}

#[test]
fn inside_a_scope_priority_comes_before_narrowness_and_asking_before_allowing() {
    let tool = || PermissionRule::allow_tool("bash");
    let ask_all = || PermissionRule::new("ask all", RuleMatcher::All, AskUser);
    for (name, rules, wanted) in [
        ("the higher priority", vec![tool(), ask_all().with_priority(1)], AskUser),
        ("a negative priority", vec![tool().with_priority(-1), ask_all()], AskUser),
        ("the tool is narrower than all", vec![tool(), ask_all()], Allow),
        (
            "the tool is narrower than its category",
            vec![PermissionRule::ask_for_category(ToolCategory::Execute), tool()],
            Allow,
        ),
        (
            "the longer prefix",
            vec![
                PermissionRule::ask_for_bash_prefix(["git"]),
                PermissionRule::allow_bash_prefix(["git", "log"]),
            ],
            Allow,
        ),
        ("equal ones ask", vec![tool(), PermissionRule::ask_for_tool("bash")], AskUser),
    ] {
        let reversed = rules.iter().rev().cloned().collect::<Vec<_>>();
        assert_eq!(Call::bash("git log").outcome(&policy(rules)), wanted, "{name}");
        assert_eq!(Call::bash("git log").outcome(&policy(reversed)), wanted, "{name}, reversed");
    }
}

#[test]
fn a_grant_applies_in_its_session_until_it_is_cleared() {
    let (s, t) = (SessionId::new("s"), SessionId::new("t"));
    let mut policy = policy([PermissionRule::ask_for_tool("bash").with_scope(session("s"))]);
    policy.grant(&s, &[Grant::Command(vec!["ls".into()]), Grant::Tool("fetch".into())]);
    policy.grant(&s, &[Grant::Command(vec!["ls".into()])]);
    assert_eq!(policy.rules().count(), 3, "the same grant twice is one rule");
    assert_eq!(Call::bash("ls -l").outcome(&policy), Allow);
    assert_eq!(Call::bash("ls -l").in_session("t").outcome(&policy), AskUser);
    policy.clear_session_rules(&t);
    assert_eq!(Call::bash("ls -l").outcome(&policy), Allow);
    policy.clear_session_rules(&s);
    assert_eq!(Call::bash("ls -l").outcome(&policy), AskUser);
    assert_eq!(policy.rules().count(), 0);
}

#[test]
fn a_session_rule_applies_only_in_its_session() {
    let mut policy = PermissionPolicy::default();
    let rule = PermissionRule::allow_tool("bash").with_scope(RuleScope::User);
    policy.add_session_rule(&SessionId::new("t"), rule).unwrap();
    assert_eq!(Call::bash("ls").outcome(&policy), AskUser);
    assert_eq!(Call::bash("ls").in_session("t").outcome(&policy), Allow);
}

#[test]
fn rules_are_added_all_or_not_at_all() {
    let mut policy = PermissionPolicy::default();
    policy.add_rule(PermissionRule::allow_tool("a")).unwrap();
    let rules = [PermissionRule::allow_tool("b"), PermissionRule::allow_tool("a")];
    let error = policy.add_rules(rules.clone()).unwrap_err();
    assert!(matches!(error, RuleError::DuplicateId { id } if id == "allow tool a"));
    assert_eq!(policy.rules().count(), 1);
    let [fresh, _] = rules;
    let again = PermissionRule::allow_tool("a").with_scope(RuleScope::User);
    policy.add_rules([fresh, again]).expect("the same id in another scope");
    assert_eq!(policy.rules().count(), 3);
}

#[test]
fn an_explanation_names_the_rule_and_those_that_it_overruled() {
    let policy = policy([
        PermissionRule::allow_tool("bash").with_scope(RuleScope::User),
        PermissionRule::allow_bash_prefix(["rm"]),
        PermissionRule::ask_for_bash_prefix(["rm"]).with_scope(agent("builder")),
        PermissionRule::deny_bash_prefix(["rm"]).with_id("no-rm").with_description("use trash"),
        PermissionRule::allow_bash_prefix(["ls"]),
    ]);
    let matched = |id: &str, scope, decision| MatchedRule { id: id.into(), scope, decision };
    let explanation = Call::bash("rm x").explain(&policy);
    assert_eq!(
        explanation.cause,
        DecisionCause::Rules(vec![matched("no-rm", RuleScope::Global, Deny)])
    );
    assert_eq!(explanation.reason, "the rule `no-rm` forbids `rm x`: use trash");
    assert_eq!(
        explanation.overruled,
        [
            matched("allow tool bash", RuleScope::User, Allow),
            matched("ask for command rm", agent("builder"), AskUser),
            matched("allow command rm", RuleScope::Global, Allow),
        ]
    );
}

#[test]
fn an_explanation_names_all_rules_that_allow_a_part_or_else_the_mode() {
    let policy = policy([
        PermissionRule::allow_bash_prefix(["ls"]).with_id("a"),
        PermissionRule::allow_bash_prefix(["cat"]).with_id("b"),
    ]);
    let both = Call::bash("ls ; cat x ; ls -l").explain(&policy);
    assert_eq!(both.reason, "the rules `a`, `b` together allow it");
    assert!(both.overruled.is_empty());
    let half = Call::bash("ls ; make").explain(&policy);
    assert_eq!((half.decision, half.cause), (AskUser, DecisionCause::Mode(PermissionMode::Ask)));
    assert_eq!(half.reason, "it runs a command");
    assert_eq!(half.overruled.len(), 1);
}

#[test]
fn a_managed_denial_is_the_one_that_is_named() {
    let policy = policy([
        PermissionRule::deny_tool("bash").with_scope(RuleScope::User).with_priority(9),
        PermissionRule::deny_tool("bash").with_id("managed").with_scope(RuleScope::Managed),
    ]);
    let explanation = Call::bash("ls").explain(&policy);
    assert_eq!(explanation.reason, "the rule `managed` forbids `ls`");
    assert_eq!(explanation.overruled.len(), 1);
}
