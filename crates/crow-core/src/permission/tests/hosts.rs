//! Requests to hosts: which pass, and what can be granted.

use super::call::{Call, policy_in};
use crate::{
    network::{AllowedHosts, HostAddress, HostPattern, Network},
    permission::{Decision, Grant, PermissionMode, PermissionRule, RuleDecision, RuleSet},
    tool_types::{Effects, Subject, ToolCategory},
};

/// A call of a web tool.
fn fetch(host: &str) -> Call {
    let mut call = Call::new("web_fetch", ToolCategory::Network, Effects::None);
    call.plan.subject = Subject::Host(HostAddress::try_from(host.to_owned()).unwrap());
    call
}

fn host(pattern: &str) -> HostPattern {
    pattern.parse().unwrap()
}

fn allowed(hosts: &[&str]) -> Network {
    Network::Hosts(AllowedHosts::new(hosts.iter().map(|pattern| host(pattern))))
}

/// The decisions in the order of [`PermissionMode::ALL`]: ask, accept-edits, read-only, full-auto.
fn row(call: &Call, network: &Network, rules: &[PermissionRule]) -> String {
    let decisions = PermissionMode::ALL.map(|mode| {
        let policy = policy_in(mode, rules.to_vec()).with_network(network.clone());
        match call.outcome(&policy) {
            RuleDecision::Allow => "allow",
            RuleDecision::AskUser => "ask",
            RuleDecision::Deny => "deny",
        }
    });
    decisions.join(" ")
}

#[test]
fn every_mode_asks_about_hosts_that_are_not_allowed() {
    let network = allowed(&["docs.rs", "*.python.org", "127.0.0.1:8080"]);
    for (host, expected) in [
        ("docs.rs", "allow"),
        ("docs.python.org", "allow"),
        ("127.0.0.1:8080", "allow"),
        ("docs.rs:8443", "ask"),
        ("a.docs.rs", "ask"),
        ("python.org", "ask"),
        ("evil-docs.rs", "ask"),
        ("127.0.0.1", "ask"),
    ] {
        let expected = [expected; 4].join(" ");
        assert_eq!(row(&fetch(host), &network, &[]), expected, "{host}");
    }
    assert_eq!(row(&fetch("docs.rs"), &Network::Loopback, &[]), "ask ask ask ask");
    assert_eq!(row(&fetch("docs.rs"), &Network::All, &[]), "allow allow allow allow");
}

#[test]
fn rules_decide_about_hosts() {
    let (none, docs) = (Network::Loopback, fetch("docs.rs"));
    for (rule, expected) in [
        (PermissionRule::allow_host(host("docs.rs")), "allow"),
        (PermissionRule::allow_tool("web_fetch"), "allow"),
        (PermissionRule::allow_category(ToolCategory::Network), "allow"),
        (PermissionRule::deny_host(host("docs.rs")), "deny"),
        (PermissionRule::ask_for_tool("web_fetch"), "ask"),
    ] {
        assert_eq!(
            row(&docs, &none, std::slice::from_ref(&rule)),
            [expected; 4].join(" "),
            "{rule:?}"
        );
    }
    // A denial overrules the network and broader permissions.
    let rules = [
        PermissionRule::deny_host(host("*.example.org")),
        PermissionRule::allow_host(host("a.example.org")),
    ];
    assert_eq!(row(&fetch("a.example.org"), &Network::All, &rules), "deny deny deny deny");
    assert_eq!(row(&fetch("example.org"), &Network::All, &rules), "allow allow allow allow");
    // A pattern for commands and paths says nothing of hosts.
    let json = r#"{"version": 1, "rules": [
        {"id": "r", "matcher": {"regex": "docs"}, "decision": "allow"},
        {"id": "h", "matcher": {"host": "*.example.org:8443"}, "decision": "deny"}]}"#;
    let rules = RuleSet::from_json(json).unwrap();
    assert_eq!(rules, RuleSet::from_json(&rules.to_json().unwrap()).unwrap());
    assert_eq!(row(&docs, &none, rules.rules()), "ask ask ask ask");
    assert_eq!(row(&fetch("a.example.org:8443"), &none, rules.rules()), "deny deny deny deny");
    let wrong = json.replace("*.example.org:8443", "http://x");
    let error = RuleSet::from_json(&wrong).unwrap_err().to_string();
    assert!(error.contains("`http://x` is not a host"), "{error}");
}

#[test]
fn what_can_be_granted_is_exactly_the_host() {
    let mut policy = policy_in(PermissionMode::FullAuto, vec![]);
    for (name, grant) in [("docs.rs", "docs.rs"), ("docs.rs:8443", "docs.rs:8443")] {
        let Decision::Ask(ask) = fetch(name).decide(&policy) else { panic!("{name} passes") };
        assert_eq!(ask.least_mode, None);
        assert_eq!(ask.offers.len(), 2);
        assert_eq!(ask.offers[1].grants, [Grant::Tool("web_fetch".to_owned())]);
        assert_eq!(ask.offers[0].label, format!("requests to `{grant}`"));
        assert_eq!(ask.offers[0].grants, [Grant::Host(host(grant))]);
        policy.grant(&fetch(name).session, &ask.offers[0].grants);
        assert_eq!(fetch(name).outcome(&policy), RuleDecision::Allow);
    }
    assert_eq!(fetch("a.docs.rs").outcome(&policy), RuleDecision::AskUser);
}
