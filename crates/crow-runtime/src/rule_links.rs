//! Resolution of symbolic links in rules with paths.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::{PermissionPolicy, PermissionRule, RuleDecision, RuleMatcher, RuleSet},
    workspace::Workspace,
};

/// Adds, for each rule with a path that resolves to a different one, a rule of the same name with the resolved path.
/// Blocks.
///
/// Calls are decided by resolved paths, so a rule about `/tmp/x` would never match a file in `/private/tmp/x`. A
/// permission for a path in the workspace is not extended through a link that leads out of it: an agent could have
/// created the link itself. The sandbox paths are resolved as well.
#[must_use]
pub fn resolve_rules(policy: PermissionPolicy, workspace: &Workspace) -> PermissionPolicy {
    let places = policy.sandbox_paths().clone().resolved(resolve_path);
    let policy = policy.with_places(places);
    let further: Vec<RuleSet> =
        policy.rules().flat_map(|rule| resolved_forms(rule, workspace)).collect();
    further.into_iter().fold(policy, PermissionPolicy::with_rules)
}

/// Adds rules together with their resolved forms, as [`resolve_rules`] does.
pub(crate) fn add_resolved(
    policy: PermissionPolicy,
    rules: RuleSet,
    workspace: &Workspace,
) -> PermissionPolicy {
    let further: Vec<RuleSet> =
        rules.rules().iter().flat_map(|rule| resolved_forms(rule, workspace)).collect();
    further.into_iter().fold(policy.with_rules(rules), PermissionPolicy::with_rules)
}

fn resolved_forms(rule: &PermissionRule, workspace: &Workspace) -> Vec<RuleSet> {
    let RuleMatcher::Path { access, path } = &rule.matcher else { return Vec::new() };
    let written: Vec<PathBuf> = if path.is_absolute() {
        vec![path.clone()]
    } else {
        workspace.roots().iter().map(|root| root.join(path)).collect()
    };
    let may_extend = |written: &Path, real: &Path| {
        rule.decision != RuleDecision::Allow
            || workspace.contains(real)
            || !written
                .ancestors()
                .any(|part| part.canonicalize().is_ok_and(|part| workspace.contains(&part)))
    };
    let resolved = written.into_iter().filter_map(|written| {
        let real = resolve_path(&written);
        (real != written && may_extend(&written, &real)).then(|| {
            let matcher = RuleMatcher::Path { access: *access, path: real };
            RuleSet::new([PermissionRule { matcher, ..rule.clone() }])
        })
    });
    // A resolved path is always valid, so no rule is dropped here.
    resolved.filter_map(Result::ok).collect()
}

/// Resolves the links in the existing part of a path. Blocks.
pub fn resolve_path(path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let Ok(real) = existing.canonicalize() {
            let rest = path.strip_prefix(existing).unwrap_or(path);
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_path_buf()
}
