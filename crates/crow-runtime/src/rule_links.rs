//! Resolution of symbolic links in rules with paths.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
};

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
    let resolver = PathResolver::default();
    let places = policy.sandbox_paths().clone().resolved(|path| resolver.resolve(path));
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

/// Resolves many paths as [`resolve_path`] does: hundreds of hidden places, most of which do not exist, lie in few
/// directories, and each of these is looked up once.
#[derive(Debug, Default)]
struct PathResolver {
    /// Resolved paths; `None` if nothing is there.
    known: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
}

impl PathResolver {
    fn resolve(&self, path: &Path) -> PathBuf {
        for existing in path.ancestors() {
            if let Some(real) = self.existing(existing) {
                let rest = path.strip_prefix(existing).unwrap_or(path);
                return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
            }
        }
        path.to_path_buf()
    }

    /// Resolves a path that exists. Nothing exists below what does not.
    fn existing(&self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.known.borrow().get(path) {
            return known.clone();
        }
        let is_above_there = path
            .parent()
            .filter(|above| !above.as_os_str().is_empty())
            .is_none_or(|above| self.existing(above).is_some());
        let real = is_above_there.then(|| crow_fs::canonicalize(path).ok()).flatten();
        self.known.borrow_mut().insert(path.to_owned(), real.clone());
        real
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn many_paths_resolve_as_each_does_by_itself() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/inner")).unwrap();
        fs::write(base.join("real/file"), "").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("gone", base.join("dangling")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let resolver = PathResolver::default();
        for path in [
            "real/inner",
            "link/inner",
            "link/inner/missing/deep",
            "link/inner/missing/other",
            "link/file/below",
            "dangling/below",
            "loop/below",
            "link/../real/./inner",
            "missing/../real",
        ] {
            let path = base.join(path);
            assert_eq!(resolver.resolve(&path), resolve_path(&path), "{}", path.display());
        }
        for path in ["/", "relative/missing", ""] {
            assert_eq!(resolver.resolve(Path::new(path)), resolve_path(Path::new(path)), "{path}");
        }
    }
}
