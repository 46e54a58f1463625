//! Offers: what an "always" could mean for a call that is asked about, as grants for the rest of the session.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CallFacts,
    access_class::{AccessClass, is_protected},
    call_part::CallPart,
    evaluate::DecisionContext,
    prefix::narrow_prefix,
};
use crate::{
    network::HostPattern,
    tool_types::{Access, SimpleCommand, Subject},
    workspace::Workspace,
};

/// Maximum number of prefixes, or files, in one offer: users do not read more.
const MOST_GRANTS: usize = 5;

/// Returns the offers that would each allow all of these parts, the narrowest first.
pub(super) fn offers(
    facts: &CallFacts<'_>,
    open: &[&CallPart<'_>],
    setting: &DecisionContext<'_>,
) -> Vec<GrantOffer> {
    let workspace = setting.workspace;
    let (mut commands, mut paths, mut others) = (Vec::new(), Vec::new(), 0);
    if let [CallPart::Host(host)] = open {
        let this_host = GrantOffer {
            label: format!("requests to `{host}`"),
            grants: vec![Grant::Host(HostPattern::from(*host))],
        };
        let all_hosts = GrantOffer {
            label: format!("calls of `{}`, whatever the host", facts.tool),
            grants: vec![Grant::Tool(facts.tool.to_owned())],
        };
        return vec![this_host, all_hosts];
    }
    for part in open {
        match part {
            CallPart::Command(part) => commands.push(part.command),
            CallPart::Path { path: place, access, class: reach, .. } => {
                paths.push((place.path(), *access, *reach));
            }
            CallPart::Line(_) => return Vec::new(),
            CallPart::Call | CallPart::Subject { .. } | CallPart::Host(_) => others += 1,
        }
    }
    // Offers exist for commands, for paths, and for a command with its paths; never for a mix with other parts.
    match (commands.as_slice(), paths.as_slice(), others) {
        (commands, [], 0) if !commands.is_empty() => for_commands(commands).into_iter().collect(),
        ([], paths, 0) if !paths.is_empty() => for_paths(paths, setting),
        (commands, paths, 0) if !commands.is_empty() => {
            for_both(commands, paths, workspace).into_iter().collect()
        }
        ([], [], 1..) if !matches!(facts.plan.subject, Subject::Command(_)) => vec![GrantOffer {
            label: format!("calls of `{}`", facts.tool),
            grants: vec![Grant::Tool(facts.tool.to_owned())],
        }],
        _ => Vec::new(),
    }
}

/// Returns an offer for commands together with the files that they are known to touch.
fn for_both(
    commands: &[&SimpleCommand],
    paths: &[TouchedPath<'_>],
    workspace: &Workspace,
) -> Option<GrantOffer> {
    let commands = for_commands(commands)?;
    let files = distinct(paths.iter().map(file).collect::<Option<Vec<_>>>()?);
    let label = label(&files, ["reads of", "changes of"], workspace);
    let offer = GrantOffer {
        label: format!("{}, and {label}", commands.label),
        grants: commands.grants.into_iter().chain(files).collect(),
    };
    (offer.grants.len() <= MOST_GRANTS).then_some(offer)
}

/// Returns an offer of one prefix per distinct command, if each has a prefix that is safe to allow.
fn for_commands(commands: &[&SimpleCommand]) -> Option<GrantOffer> {
    let mut prefixes: Vec<Vec<String>> = Vec::new();
    for command in commands {
        let prefix = narrow_prefix(command)?;
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
        if prefixes.len() > MOST_GRANTS {
            return None;
        }
    }
    let names: Vec<String> = prefixes.iter().map(|words| quoted(&words.join(" "))).collect();
    Some(GrantOffer {
        label: format!("commands that begin with {}", names.join(" or ")),
        grants: prefixes.into_iter().map(Grant::Command).collect(),
    })
}

type TouchedPath<'a> = (&'a Path, Access, AccessClass);

/// Returns an offer for exactly these paths, and one for their directories if these are narrow enough.
fn for_paths(paths: &[TouchedPath<'_>], setting: &DecisionContext<'_>) -> Vec<GrantOffer> {
    let workspace = setting.workspace;
    let files: Option<Vec<Grant>> = paths.iter().map(file).collect();
    let Some(files) = files else { return Vec::new() };
    let folders: Option<Vec<Grant>> = paths.iter().map(|path| folder(path, setting)).collect();
    let to_offer = |grants: Vec<Grant>, verbs: [&str; 2]| {
        let grants = distinct(grants);
        let label = label(&grants, verbs, workspace);
        (grants.len() <= MOST_GRANTS).then_some(GrantOffer { label, grants })
    };
    let files = to_offer(files, ["reads of", "changes of"]);
    let folders =
        folders.and_then(|folders| to_offer(folders, ["reads of files in", "changes of files in"]));
    files.into_iter().chain(folders).collect()
}

/// Returns the grant for one path, if a path of this class may be granted.
fn file((path, access, reach): &TouchedPath<'_>) -> Option<Grant> {
    match reach {
        AccessClass::ReadInside
        | AccessClass::ReadSecret
        | AccessClass::ReadOutside
        | AccessClass::ReadHidden
        | AccessClass::WriteInside
        | AccessClass::WriteSecret
        | AccessClass::WriteReleased => {
            Some(Grant::Path { access: *access, path: path.to_path_buf() })
        }
        AccessClass::Session
        | AccessClass::WriteInstructions
        | AccessClass::WriteProtected
        | AccessClass::WriteOutside
        | AccessClass::WriteHidden
        | AccessClass::HostAllowed
        | AccessClass::HostElsewhere
        | AccessClass::Anything => None,
    }
}

/// Returns the grant for a path's directory, if that is narrow enough.
fn folder((path, access, reach): &TouchedPath<'_>, setting: &DecisionContext<'_>) -> Option<Grant> {
    let folder = path.parent()?;
    let fits = match reach {
        AccessClass::WriteInside => {
            setting.workspace.contains(folder) && !is_protected(folder, setting)
        }
        AccessClass::ReadOutside => is_deep(folder),
        AccessClass::Session
        | AccessClass::ReadInside
        | AccessClass::ReadSecret
        | AccessClass::ReadHidden
        | AccessClass::WriteSecret
        | AccessClass::WriteInstructions
        | AccessClass::WriteReleased
        | AccessClass::WriteProtected
        | AccessClass::WriteOutside
        | AccessClass::WriteHidden
        | AccessClass::HostAllowed
        | AccessClass::HostElsewhere
        | AccessClass::Anything => false,
    };
    fits.then(|| Grant::Path { access: *access, path: folder.to_path_buf() })
}

/// Returns true if a directory outside the workspace is narrow enough to be granted as a whole: neither a home nor
/// anything above it, and not in a directory with a leading dot, where keys are often stored.
fn is_deep(folder: &Path) -> bool {
    let names: Vec<PathBuf> = folder
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect();
    names.len() > 2 && !names.iter().any(|name| name.to_string_lossy().starts_with('.'))
}

fn distinct(grants: Vec<Grant>) -> Vec<Grant> {
    let mut result: Vec<Grant> = Vec::new();
    for grant in grants {
        if !result.contains(&grant) {
            result.push(grant);
        }
    }
    result
}

/// Describes grants of paths: `reads` is the verb for reads, `changes` that for writes.
fn label(grants: &[Grant], [reads, changes]: [&str; 2], workspace: &Workspace) -> String {
    let words: Vec<String> = grants
        .iter()
        .filter_map(|grant| match grant {
            Grant::Path { access: Access::Read, path } => Some((reads, path)),
            Grant::Path { access: Access::Write, path } => Some((changes, path)),
            Grant::Tool(_) | Grant::Command(_) | Grant::Host(_) => None,
        })
        .map(|(verb, path)| format!("{verb} {}", quoted(&workspace.display(path))))
        .collect();
    words.join(" and ")
}

fn quoted(text: &str) -> String {
    format!("`{text}`")
}

/// A narrow kind of calls that a person can allow for the rest of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Calls of this tool.
    Tool(String),
    /// Commands that begin with these words.
    Command(Vec<String>),
    /// Calls that touch this file, or files below this folder, in this way.
    Path {
        /// How it is touched.
        access: Access,
        /// The file or folder.
        path: PathBuf,
    },
    /// Requests to these hosts.
    Host(HostPattern),
}

/// What an "always" could mean for a call that is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantOffer {
    /// What would be allowed, in a few words: "commands that begin with `cargo test`".
    pub label: String,
    /// The grants that together cover the call.
    pub grants: Vec<Grant>,
}
