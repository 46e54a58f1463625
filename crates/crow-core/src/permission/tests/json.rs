use std::error::Error as _;

use proptest::prelude::*;

use super::laws::any_rule;
use crate::{
    ids::SessionId,
    permission::{
        CustomMatcher, PermissionRule, RuleDecision, RuleError, RuleMatcher, RuleRegex, RuleScope,
        RuleSet,
    },
    tool_types::{Access, ToolCategory},
};

/// Returns the error with its cause, as a person sees it.
fn error_of(json: &str) -> String {
    let error = RuleSet::from_json(json).expect_err("broken rules");
    error.source().map_or(error.to_string(), |source| format!("{error}: {source}"))
}

/// Returns a document of one rule, with a part replaced.
fn document(from: &str, to: &str) -> String {
    let template = r#"{"version": 1, "rules": [
  {"id": "r", "scope": "user", "matcher": {"tool_name": "bash"}, "decision": "deny"}
]}"#;
    assert!(template.contains(from), "{from}");
    template.replacen(from, to, 1)
}

#[test]
fn the_json_of_every_kind_of_rule_is_as_documented() {
    let regex = RuleRegex::new("^ls$").unwrap();
    let set = RuleSet::new([
        PermissionRule::allow_tool("bash").with_scope(RuleScope::User),
        PermissionRule::ask_for_category(ToolCategory::Network).with_priority(-3),
        PermissionRule::deny_bash_prefix(["git", "push"])
            .with_scope(RuleScope::Managed)
            .with_description("releases are pushed by hand"),
        PermissionRule::new("c", RuleMatcher::CommandRegex(regex.clone()), RuleDecision::Deny),
        PermissionRule::new("r", RuleMatcher::Regex(regex), RuleDecision::Allow)
            .with_scope(RuleScope::Agent("builder".into())),
        PermissionRule::allow_path(Access::Write, "/p/a")
            .with_scope(RuleScope::Session(SessionId::new("s"))),
        PermissionRule::new("all", RuleMatcher::All, RuleDecision::AskUser),
    ])
    .unwrap();
    insta::assert_snapshot!(set.to_json().unwrap());
}

#[test]
fn the_documented_example_is_read() {
    let source = include_str!("../rule_set.rs");
    let (_, rest) = source.split_once("/// ```json\n").expect("an example");
    let (example, _) = rest.split_once("/// ```").expect("its end");
    let set = RuleSet::from_json(&example.replace("///", "")).unwrap();
    let wanted = PermissionRule::deny_bash_prefix(["git", "push"])
        .with_id("no-push")
        .with_priority(10)
        .with_description("releases are pushed by hand");
    assert_eq!(set.rules(), [wanted]);
}

#[test]
fn the_names_of_the_seeds_are_understood() {
    let json = r#"{"version": 1, "rules": [
        {"id": "a", "scope": "Global", "matcher": {"ToolName": "bash"}, "decision": "Allow"},
        {"id": "b", "scope": {"Agent": "x"}, "matcher": {"CommandPrefix": ["ls"]}, "decision": "AskUser"},
        {"id": "c", "scope": {"Session": "x"}, "matcher": {"ToolCategory": "read"}, "decision": "Deny"},
        {"id": "d", "scope": "User", "matcher": "All", "decision": "ask"},
        {"id": "e", "scope": "Managed", "matcher": {"Regex": "x"}, "decision": "deny"}
    ]}"#;
    let set = RuleSet::from_json(json).unwrap();
    assert_eq!(set.rules().len(), 5);
    assert_eq!(RuleSet::from_json(&set.to_json().unwrap()).unwrap(), set);
}

#[test]
fn a_broken_document_says_where_it_is_broken() {
    for (json, wanted) in [
        (document("]}", ""), "line 3 column"),
        (document("\"rules\"", "\"ruls\""), "unknown field `ruls`"),
        (document("\"version\": 1, ", ""), "missing field `version`"),
        (
            document("\"version\": 1", "\"version\": 2"),
            "version 2, but only version 1 is supported",
        ),
        (
            document("\"scope\"", "\"scop\""),
            "rules[0].scop (the rule `r`) cannot be parsed as JSON: unknown field `scop`",
        ),
        (
            document("\"user\"", "\"users\""),
            "rules[0].scope (the rule `r`) cannot be parsed as JSON: unknown variant `users`",
        ),
        (document("\"deny\"", "\"never\""), "unknown variant `never`"),
        (document("\"deny\"", "\"never\""), "line 2 column"),
        (document("\"id\": \"r\", ", ""), "missing field `id`"),
        (
            document("{\"tool_name\": \"bash\"}", "{\"regex\": \"(\"}"),
            "the pattern `(` cannot be used",
        ),
        (document("{\"tool_name\": \"bash\"}", "{\"Custom\": \"x\"}"), "unknown variant `Custom`"),
        (
            document(
                "{\"tool_name\": \"bash\"}",
                "{\"path\": {\"access\": \"read\", \"path\": \"/a\", \"x\": 1}}",
            ),
            "unknown field `x`",
        ),
        (
            document("{\"tool_name\": \"bash\"}", "{\"tool_name\": \"\"}"),
            "the rule `r` cannot be used: the tool has no name",
        ),
        (
            document("{\"tool_name\": \"bash\"}", "{\"command_prefix\": []}"),
            "the command has no first word",
        ),
        (
            document("{\"tool_name\": \"bash\"}", "{\"command_prefix\": [\"git push\"]}"),
            "as two words",
        ),
        (
            document("{\"tool_name\": \"bash\"}", "{\"command_prefix\": [\"git\", \"\"]}"),
            "a word of the command is empty",
        ),
        (
            document(
                "{\"tool_name\": \"bash\"}",
                "{\"path\": {\"access\": \"read\", \"path\": \"~/.ssh\"}}",
            ),
            "`~` is not expanded",
        ),
        (
            document(
                "{\"tool_name\": \"bash\"}",
                "{\"path\": {\"access\": \"read\", \"path\": \"../a\"}}",
            ),
            "`.` or `..`",
        ),
        (document("\"id\": \"r\"", "\"id\": \"\""), "its id is empty"),
        (String::new(), "EOF"),
        ("[]".to_owned(), "line 1 column"),
    ] {
        let error = error_of(&json);
        assert!(error.contains(wanted), "{error}\n  lacks {wanted}");
    }
}

#[test]
fn an_exploding_pattern_is_an_error_when_the_rule_is_made() {
    for pattern in ["(a{1000}){1000}", "((a{100}){100}){100}", "\\w{5000}"] {
        let error = RuleRegex::new(pattern).expect_err("too big");
        assert!(error.source().unwrap().to_string().contains("size limit"), "{error:?}");
        let json = document(
            "{\"tool_name\": \"bash\"}",
            &format!("{{\"regex\": {}}}", serde_json::json!(pattern)),
        );
        assert!(error_of(&json).contains("size limit"), "{pattern}");
    }
    RuleRegex::new(&"(".repeat(10_000)).expect_err("too deep");
}

#[test]
fn two_rules_of_one_id_are_an_error() {
    let rule = PermissionRule::allow_tool("bash");
    let again = PermissionRule::deny_tool("grep").with_id(rule.id.clone());
    let error = RuleSet::new([rule, again]).unwrap_err();
    assert_eq!(error.to_string(), "two rules have the id `allow tool bash`");
}

#[test]
fn a_function_is_never_saved_and_never_left_out() {
    let custom = RuleMatcher::Custom(CustomMatcher::new("night", |_| true));
    let set = RuleSet::new([
        PermissionRule::allow_tool("bash"),
        PermissionRule::new("quiet", custom, RuleDecision::Deny),
    ])
    .unwrap();
    let error = set.to_json().unwrap_err();
    assert!(
        matches!(&error, RuleError::Custom { id, matcher } if id == "quiet" && matcher == "night")
    );
    assert_eq!(
        error.to_string(),
        "the rule `quiet` cannot be saved: its matcher `night` is a function"
    );
}

proptest! {
    #[test]
    fn a_saved_rule_set_is_read_back(rules in prop::collection::vec(any_rule(), 0..8)) {
        let numbered = rules.into_iter().enumerate().map(|(at, rule)| rule.with_id(format!("r{at}")));
        let set = RuleSet::new(numbered).unwrap();
        prop_assert_eq!(RuleSet::from_json(&set.to_json().unwrap()).unwrap(), set);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _unread = RuleSet::from_json(&text);
    }
}
