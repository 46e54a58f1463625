//! Comparing an import with what Crow has, and carrying it out.

use std::{collections::BTreeSet, fs, io, path::Path};

use crow_core::permission::{PermissionRule, RuleMatcher, RuleSet};

use super::{
    files::{read_text, skill_files},
    plan::{ImportChange, ImportItem, ImportPlan, ImportResult, ImportState, LeftOut},
    sessions::{session_state, write_session},
};
use crate::{
    config::{ProjectAdditions, add_server, configured_servers},
    error::AppError,
    known_secrets, private_file, product,
};

impl ImportPlan {
    /// Compares with what Crow has.
    pub(super) fn compare(&mut self) -> Result<(), AppError> {
        let servers = configured_servers(&self.environment, &ProjectAdditions::default())?;
        let mut known: BTreeSet<String> = servers.disabled.iter().cloned().collect();
        known.extend(servers.servers.iter().map(|(known, _)| known.server.name.clone()));
        let rules = product::rule_store(&self.environment)?.load()?.user;
        let store = product::session_store(&self.environment)?;
        let mut unreadable = Vec::new();
        for item in &mut self.items {
            item.state = match &item.change {
                ImportChange::File { to, text } => match read_text(to) {
                    Ok(None) => ImportState::New,
                    Ok(Some(present)) if present == *text => ImportState::Present,
                    Ok(Some(_)) | Err(_) => ImportState::Other,
                },
                ImportChange::Folder { to } if !to.exists() => ImportState::New,
                ImportChange::Folder { to } => {
                    let file = |folder: &Path| read_text(&folder.join("SKILL.md"));
                    let is_same = matches!((file(to), file(&item.from)), (Ok(one), Ok(other)) if one == other);
                    if is_same { ImportState::Present } else { ImportState::Other }
                }
                ImportChange::Server(server) if known.contains(&server.name) => ImportState::Other,
                ImportChange::Rules(new) if new.iter().all(|rule| is_present(&rules, rule)) => {
                    ImportState::Present
                }
                ImportChange::Server(_) | ImportChange::Rules(_) => ImportState::New,
                ImportChange::Session(session) => {
                    match session_state(store.as_ref(), session, &mut item.notes) {
                        Ok(state) => state,
                        Err(error) => {
                            let what = format!("session {}", session.id);
                            let why = format!("Crow's copy cannot be read: {error}");
                            unreadable.push(LeftOut { what, why });
                            ImportState::Present
                        }
                    }
                }
            };
        }
        self.left_out.extend(unreadable);
        self.items.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(())
    }

    /// Writes what is new, or also replaces what is there. One item that cannot be written does not keep the others from it.
    /// Blocks.
    ///
    /// # Errors
    /// Fails if the rules cannot be read or written; nothing else is written then.
    pub fn carry_out(&self, replaces: bool) -> Result<ImportResult, AppError> {
        let is_wanted = |item: &&ImportItem| match item.state {
            ImportState::New => true,
            ImportState::Other => replaces,
            ImportState::Present => false,
        };
        let wanted: Vec<&ImportItem> = self.items.iter().filter(is_wanted).collect();
        let store = product::session_store(&self.environment)?;
        let redactor = known_secrets::redactor(&self.environment, None);
        let mut result = ImportResult { written: 0, failed: Vec::new() };
        // 1) The rules, all at once.
        let new = wanted.iter().filter_map(|item| match &item.change {
            ImportChange::Rules(rules) => Some(rules.clone()),
            _ => None,
        });
        let new: Vec<Vec<PermissionRule>> = new.collect();
        if !new.is_empty() {
            let store = product::rule_store(&self.environment)?;
            let mut rules = store.load()?.user.into_rules();
            result.written += new.len();
            let new: Vec<PermissionRule> = new.into_iter().flatten().collect();
            for rule in new {
                let id = free_id(&rules, &rule.id);
                rules.push(PermissionRule { id, ..rule });
            }
            let rules = RuleSet::new(rules).map_err(|error| AppError::failed(error.to_string()))?;
            store.save(&rules)?;
        }
        // 2) Everything else.
        for item in wanted {
            let written = match &item.change {
                ImportChange::Rules(_) => continue,
                ImportChange::File { to, text } => {
                    private_file::replace(to, text).map_err(|error| error.to_string())
                }
                ImportChange::Folder { to } => {
                    copy_skill(&item.from, to, replaces).map_err(|error| error.to_string())
                }
                ImportChange::Server(server) => {
                    let added = add_server(&self.environment, server, replaces);
                    added.map(drop).map_err(|error| error.message)
                }
                ImportChange::Session(session) => write_session(store.as_ref(), session, &redactor),
            };
            match written {
                Ok(()) => result.written += 1,
                Err(why) => {
                    let what = format!("{} {}", item.kind.as_str(), item.name);
                    result.failed.push(LeftOut { what, why });
                }
            }
        }
        Ok(result)
    }
}

/// Returns true if there is a rule that matches and decides the same.
fn is_present(rules: &RuleSet, rule: &PermissionRule) -> bool {
    let text = |matcher: &RuleMatcher| serde_json::to_string(matcher).ok();
    let wanted = text(&rule.matcher);
    let is_same = |known: &PermissionRule| {
        known.decision == rule.decision
            && known.scope == rule.scope
            && text(&known.matcher) == wanted
    };
    rules.rules().iter().any(is_same)
}

/// Returns an id that no rule has.
fn free_id(rules: &[PermissionRule], wanted: &str) -> String {
    let is_free = |id: &str| rules.iter().all(|rule| rule.id != id);
    if is_free(wanted) {
        return wanted.to_owned();
    }
    let mut numbered = (2..).map(|number: u64| format!("{wanted}-{number}"));
    numbered.find(|id| is_free(id)).expect("invariant: there are more numbers than rules")
}

/// Copies a skill. What was there stays until all files are copied.
fn copy_skill(from: &Path, to: &Path, replaces: bool) -> io::Result<()> {
    let parent = to.parent().expect("invariant: it is in Crow's folder");
    fs::create_dir_all(parent)?;
    let fresh = tempfile::Builder::new().prefix(".new-").tempdir_in(parent)?;
    let copy = fresh.path().join("skill");
    fs::create_dir(&copy)?;
    for file in skill_files(from)?.files {
        let Ok(below) = file.strip_prefix(from) else { continue };
        let target = copy.join(below);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&file, &target)?;
    }
    if to.exists() {
        if !replaces {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(to, fresh.path().join("old"))?;
    }
    fs::rename(&copy, to)
}
