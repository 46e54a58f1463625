//! Rules with paths, where links lie in their way.

use std::path::{Path, PathBuf};

use crow_core::{
    permission::{PermissionPolicy, PermissionRule, RuleDecision, RuleMatcher, RuleSet},
    workspace::Workspace,
};

/// Adds to each rule with a path one of the same name with the path that it leads to, where that is another one. Blocks.
///
/// Calls are decided upon by the paths that they lead to, so a rule about `/tmp/x` would never speak of what lies in
/// `/private/tmp/x`. What a rule allows in the workspace is not widened by a link that leads out of it: an agent could
/// have made that link itself. The places of the sandbox are resolved, too.
#[must_use]
pub fn resolve_rules(policy: PermissionPolicy, workspace: &Workspace) -> PermissionPolicy {
    let places = policy.places().clone().resolved(resolve_path);
    let policy = policy.with_places(places);
    let further: Vec<RuleSet> =
        policy.rules().flat_map(|rule| resolved_forms(rule, workspace)).collect();
    further.into_iter().fold(policy, PermissionPolicy::with_rules)
}

/// Adds rules as [`resolve_rules`] does.
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
    let is_open = |written: &Path, real: &Path| {
        rule.decision != RuleDecision::Allow
            || workspace.contains(real)
            || !written
                .ancestors()
                .any(|part| part.canonicalize().is_ok_and(|part| workspace.contains(&part)))
    };
    let resolved = written.into_iter().filter_map(|written| {
        let real = resolve_path(&written);
        (real != written && is_open(&written, &real)).then(|| {
            let matcher = RuleMatcher::Path { access: *access, path: real };
            RuleSet::new([PermissionRule { matcher, ..rule.clone() }])
        })
    });
    // A resolved path is sound, so none of them is left out.
    resolved.filter_map(Result::ok).collect()
}

/// Resolves links as far as a path exists. Blocks.
pub fn resolve_path(path: &Path) -> PathBuf {
    for known in path.ancestors() {
        if let Ok(real) = known.canonicalize() {
            let rest = path.strip_prefix(known).unwrap_or(path);
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_path_buf()
}
