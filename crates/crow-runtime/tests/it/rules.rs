//! Permission rules in files.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crow_core::permission::{
    CustomMatcher, PermissionRule, RuleDecision, RuleMatcher, RuleScope, RuleSet,
};
use crow_runtime::{RuleStore, RuleStoreError, StoredRules};

/// Returns the rules as they are after loading, with the file of the store as their origin.
fn with_store_file(store: &RuleStore, rules: RuleSet) -> RuleSet {
    let rules = rules.into_rules().into_iter().map(|rule| rule.with_file(store.user_file()));
    RuleSet::new(rules).unwrap()
}

#[test]
fn saved_rules_are_loaded_again_and_readable_by_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = RuleStore::new(folder.path().join("new/permissions.json"));
    assert_eq!(store.load().unwrap(), StoredRules::default());
    let rules = RuleSet::new([
        PermissionRule::allow_bash_prefix(["cargo", "test"]),
        PermissionRule::deny_tool("write_file"),
    ])
    .unwrap();
    store.save(&rules).unwrap();
    assert_eq!(store.load().unwrap().user, with_store_file(&store, rules));
    let mode = fs::metadata(store.user_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1, "nothing stays beside");
}

#[test]
fn the_error_of_a_broken_rule_file_names_file_and_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("permissions.json");
    let store = RuleStore::new(&path);
    for (text, expected) in [
        ("{", ":1:1: "),
        ("{\n \"version\": 1,\n \"rules\": [{\"id\": 5}]}", ":3:"),
        (r#"{"version": 7, "rules": []}"#, "version 7"),
        (
            r#"{"version":1,"rules":[{"id":"x","matcher":{"regex":"(a{1000}){1000}"},"decision":"allow"}]}"#,
            "x",
        ),
        (
            r#"{"version":1,"rules":[{"id":"m","scope":"managed","matcher":"all","decision":"allow"}]}"#,
            "`m` has the scope managed",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let error = store.load().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("permissions.json"), "{text}: {error}");
    }
}

#[test]
fn rules_of_the_managed_file_are_managed_regardless_of_their_scope() {
    let folder = tempfile::tempdir().unwrap();
    let managed = folder.path().join("managed.json");
    fs::write(
        &managed,
        r#"{"version":1,"rules":[{"id":"no-net","scope":"user","matcher":{"tool_category":"network"},"decision":"deny"}]}"#,
    )
    .unwrap();
    let store = RuleStore::new(folder.path().join("none.json")).with_managed(&managed);
    let rules = store.load().unwrap().managed.into_rules();
    assert_eq!(rules.iter().map(|rule| &rule.scope).collect::<Vec<_>>(), [&RuleScope::Managed]);
}

#[test]
fn saving_a_rule_with_a_custom_matcher_fails_and_keeps_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = RuleStore::new(folder.path().join("permissions.json"));
    let saved = RuleSet::new([PermissionRule::deny_tool("bash")]).unwrap();
    store.save(&saved).unwrap();
    let custom = RuleMatcher::Custom(CustomMatcher::new("mine", |_| true));
    let rules = RuleSet::new([PermissionRule::new("own", custom, RuleDecision::Allow)]).unwrap();
    let error = store.save(&rules).unwrap_err();
    assert!(matches!(error, RuleStoreError::Save { .. }), "{error}");
    assert!(error.to_string().contains("own"), "{error}");
    assert_eq!(store.load().unwrap().user, with_store_file(&store, saved));
}

#[test]
fn a_rule_file_that_is_not_regular_or_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.json");
    fs::write(&large, " ".repeat(1024 * 1024 + 1)).unwrap();
    for (path, expected) in [
        (large.as_path(), "the limit is 1048576"),
        (folder.path(), "not a file"),
        (std::path::Path::new("/dev/zero"), "not a file"),
    ] {
        let error = RuleStore::new(path).load().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_error_of_a_broken_rule_has_its_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let error = RuleStore::parse(
        &folder.path().join("permissions.json"),
        "{\n  \"version\": 1,\n  \"rules\": [{\"id\": \"x\"}]\n}",
    )
    .unwrap_err()
    .to_string();
    assert!(error.contains("permissions.json:3:"), "{error}");
    let expected = "cannot be parsed as JSON: missing field `matcher`";
    assert!(error.ends_with(expected), "{error}");
}
