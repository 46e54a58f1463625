use super::call::{Call, paths, policy, policy_in};
use crate::{
    permission::{
        CustomMatcher, PermissionMode, PermissionRule, RuleDecision, RuleMatcher, RuleRegex,
        RuleSet,
    },
    tool_types::{Access, Effects, Subject, ToolCategory},
};
use Access::{Read, Write};
use RuleDecision::{Allow, AskUser, Deny};

fn wide_rules() -> Vec<PermissionRule> {
    vec![
        PermissionRule::allow_tool("edit_file"),
        PermissionRule::allow_tool("read_file"),
        PermissionRule::allow_category(ToolCategory::Write),
        PermissionRule::new("all", RuleMatcher::All, Allow),
        PermissionRule::new(
            "pattern",
            RuleMatcher::Regex(RuleRegex::new("").expect("a sound pattern")),
            Allow,
        ),
        PermissionRule::new(
            "function",
            RuleMatcher::Custom(CustomMatcher::new("yes", |_| true)),
            Allow,
        ),
    ]
}

#[test]
fn a_wide_rule_allows_neither_protected_folders_nor_places_outside() {
    for rule in wide_rules() {
        let name = rule.id.clone();
        let policy = policy([rule]);
        for call in [
            Call::write("/p/.git/config"),
            Call::write("/p/a/.GitHub/x"),
            Call::write("/p/.g\u{200c}it/config"),
            Call::write("/p/.v\u{17f}code/tasks.json"),
            Call::write("/q/a"),
            Call::read("/etc/passwd"),
        ] {
            assert_eq!(call.outcome(&policy), AskUser, "{name}: {:?}", call.plan.effects);
        }
    }
    assert_eq!(Call::write("/p/a").outcome(&policy(wide_rules())), Allow);
}

#[test]
fn a_rule_opens_the_place_that_it_names() {
    let policy = policy([
        PermissionRule::allow_path(Read, "/etc"),
        PermissionRule::allow_path(Write, "/p"),
        PermissionRule::allow_path(Write, "/p/.github/workflows"),
        PermissionRule::allow_path(Write, "/q/file"),
    ]);
    for (call, wanted) in [
        (Call::read("/etc/passwd"), Allow),
        (Call::read("/etc"), Allow),
        (Call::read("/etcetera"), AskUser),
        (Call::write("/etc/passwd"), AskUser),
        (Call::write("/p/src/a"), Allow),
        (Call::write("/p/.git/config"), AskUser),
        (Call::write("/p/.github/workflows/ci.yml"), Allow),
        (Call::write("/p/.github/x"), AskUser),
        (Call::write("/q/file"), Allow),
        (Call::write("/q/files"), AskUser),
        (Call::read("/q/file"), AskUser),
    ] {
        assert_eq!(call.outcome(&policy), wanted, "{:?}", call.plan.effects);
    }
}

#[test]
fn a_relative_place_lies_in_every_root() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [PermissionRule::deny_path(Write, ".env"), PermissionRule::deny_path(Read, "a/b")],
    );
    assert_eq!(Call::write("/p/.env").outcome(&policy), Deny);
    assert_eq!(Call::write("/p/sub/.env").outcome(&policy), Allow);
    assert_eq!(Call::write("/q/.env").outcome(&policy), AskUser, "outside, and not denied");
    assert_eq!(Call::read("/p/a/b/c").outcome(&policy), Deny);
}

#[test]
fn every_path_of_a_call_must_be_allowed() {
    let policy = policy([
        PermissionRule::allow_path(Write, "/p/a"),
        PermissionRule::allow_path(Write, "/p/b"),
    ]);
    let touching = |touched: &[(&str, Access)]| {
        Call::new("edit_file", ToolCategory::Write, paths(touched)).outcome(&policy)
    };
    assert_eq!(touching(&[("/p/a/x", Write), ("/p/b", Write)]), Allow);
    assert_eq!(touching(&[("/p/a/x", Write), ("/p/c", Read)]), Allow, "reads inside pass");
    assert_eq!(touching(&[("/p/a/x", Write), ("/p/c", Write)]), AskUser);
    assert_eq!(touching(&[("/p/a/x", Write), ("/q", Read)]), AskUser);
}

#[test]
fn one_denied_path_denies_the_call() {
    let policy = policy_in(
        PermissionMode::FullAuto,
        [
            PermissionRule::deny_path(Read, "/p/secret"),
            PermissionRule::new(
                "keys",
                RuleMatcher::Regex(RuleRegex::new(r"\.pem$").expect("a sound pattern")),
                Deny,
            ),
        ],
    );
    assert_eq!(Call::read("/p/secret/a").outcome(&policy), Deny);
    assert_eq!(Call::read("/p/a.pem").outcome(&policy), Deny);
    assert_eq!(Call::write("/q/a.pem").outcome(&policy), Deny);
    let both = paths(&[("/p/a", Read), ("/p/secret", Read)]);
    assert_eq!(Call::new("grep", ToolCategory::Read, both).outcome(&policy), Deny);
    assert_eq!(Call::read("/p/a").outcome(&policy), Allow);
}

#[test]
fn a_pattern_matches_the_absolute_and_the_displayed_path() {
    let allowing = |pattern: &str| {
        let regex = RuleRegex::new(pattern).expect("a sound pattern");
        policy([PermissionRule::new("r", RuleMatcher::Regex(regex), Allow)])
    };
    assert_eq!(Call::write("/p/src/a.rs").outcome(&allowing("^src/")), Allow);
    assert_eq!(Call::write("/p/src/a.rs").outcome(&allowing("^/p/src/")), Allow);
    assert_eq!(Call::write("/p/tests/a.rs").outcome(&allowing("^src/")), AskUser);
}

#[test]
fn a_path_that_a_call_is_only_about_can_be_denied_but_does_not_allow_it() {
    let mut call = Call::new("import", ToolCategory::Write, Effects::Unknown);
    call.plan.subject = Subject::Path("/p/data".into());
    assert_eq!(call.outcome(&policy([PermissionRule::allow_path(Write, "/p")])), AskUser);
    assert_eq!(call.outcome(&policy([PermissionRule::deny_path(Write, "/p/data")])), Deny);
    assert_eq!(call.outcome(&policy([PermissionRule::allow_tool("import")])), Allow);
}

#[test]
fn a_trailing_double_star_means_the_folder_and_other_patterns_are_refused() {
    for path in ["secrets/**", "/p/secrets/**", "secrets/**/"] {
        let policy = policy([PermissionRule::deny_path(Read, path)]);
        assert_eq!(Call::read("/p/secrets/a/k").outcome(&policy), Deny, "{path}");
        assert_eq!(Call::read("/p/secrets").outcome(&policy), Deny, "{path}");
        assert_eq!(Call::read("/p/secrets2").outcome(&policy), Allow, "{path}");
    }
    for path in ["**/secrets/**", "**/secrets", "**", "src/*.rs", "/p/*/secrets", "secrets/*", "k*"]
    {
        let error = RuleSet::new([PermissionRule::deny_path(Read, path)]).unwrap_err().to_string();
        assert!(error.contains("write `secrets` for the folder"), "{path}: {error}");
    }
    RuleSet::new([PermissionRule::deny_path(Read, "a*b/[id].ts")]).unwrap();
}
