//! The trust status of a project, and what a project adds to the configuration.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crow_core::{
    permission::{PermissionRule, RuleSet},
    tool::Access,
};
use crow_text::approval_line;

use super::{
    contents::{ProjectFiles, project_root, started_from},
    programs::{StartedServer, user_servers},
    project::{ProjectConfig, capabilities, folder_of, layer},
    state::{Difference, Fingerprint, TrustedState},
    store::{TrustError, TrustStore, project_key},
};
use crate::{
    config::ProjectAdditions,
    dialog::{Audience, UserDialog},
    environment::ProcessEnvironment,
    error::AppError,
    hook_files::{resolved, user_hook_files},
    prompt_files::claude_commands_folder,
    skills::user_skill_folders,
};

/// A project as the user trusts it.
#[derive(Debug, Clone, Default)]
pub struct Project {
    /// Its additions to the user's configuration; empty unless it is trusted.
    pub additions: ProjectAdditions,
    /// Notice for the user, for example that the project is not trusted.
    pub notice: Option<String>,
    /// State to compare with before one of its servers is started; `None` if the project is not trusted.
    pub trusted: Option<TrustedState>,
}

/// Trust status of a project's configuration.
#[derive(Debug)]
pub enum TrustStatus {
    /// There is no configuration.
    Nothing,
    /// The user trusts the current state.
    Trusted(ProjectFiles),
    /// The user does not trust it, or it has changed since.
    Untrusted(UntrustedConfig),
    /// It cannot be read, or the trust store cannot be read.
    Refused {
        reason: String,
        /// The user's own servers that are started from its files.
        user_servers: Vec<StartedServer>,
    },
}

/// Configuration that is not trusted in its current state.
#[derive(Debug)]
pub struct UntrustedConfig {
    pub contents: ProjectFiles,
    pub fingerprint: Fingerprint,
    /// Fingerprint of the state that was trusted before, if any.
    pub before: Option<Fingerprint>,
}

/// Comparable summary of a [`TrustStatus`], for noticing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustStamp {
    Nothing,
    Trusted(Fingerprint),
    Untrusted(Fingerprint),
    Refused(String),
}

impl TrustStatus {
    /// Returns the stamp of this status.
    pub(crate) fn stamp(&self) -> TrustStamp {
        match self {
            Self::Nothing => TrustStamp::Nothing,
            Self::Trusted(contents) => TrustStamp::Trusted(Fingerprint::compute(contents)),
            Self::Untrusted(untrusted) => TrustStamp::Untrusted(untrusted.fingerprint.clone()),
            Self::Refused { reason, .. } => TrustStamp::Refused(reason.clone()),
        }
    }
}

/// Returns the trust status of the configuration that applies to a working directory. Blocks.
pub fn trust_status(cwd: &Path, environment: &ProcessEnvironment) -> Result<TrustStatus, AppError> {
    let root = project_root(cwd);
    // Errors of the user's configuration are reported where it is used; with errors, none of its servers is started.
    let user_servers = user_servers(cwd, environment).unwrap_or_default();
    let refused = |reason: String| {
        let user_servers = started_from(&root, &user_servers);
        TrustStatus::Refused { reason, user_servers }
    };
    let contents = match ProjectFiles::read(&root, &user_servers, &user_paths(environment)) {
        Ok(Some(contents)) => contents,
        Ok(None) => return Ok(TrustStatus::Nothing),
        Err(error) => return Ok(refused(error.to_string())),
    };
    let fingerprint = Fingerprint::compute(&contents);
    let store = trust_store(environment)?;
    let stored = match store.load().and_then(|projects| Ok((projects, project_key(&root)?))) {
        Ok((mut projects, name)) => projects.remove(&name),
        Err(error) => return Ok(refused(error.to_string())),
    };
    Ok(match stored.map(|trusted| trusted.what) {
        Some(before) if before.covers(&fingerprint) => TrustStatus::Trusted(contents),
        before => TrustStatus::Untrusted(UntrustedConfig { contents, fingerprint, before }),
    })
}

/// Returns the folders and files of the user that are no project's, even if they lie in one.
fn user_paths(environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let hooks = user_hook_files(environment).into_iter().map(|file| resolved(&file));
    let commands = claude_commands_folder(environment);
    user_skill_folders(environment).into_iter().chain(hooks).chain(commands).collect()
}

/// Returns what the project of a working directory adds. Does not ask. Blocks.
pub fn project_of(cwd: &Path, environment: &ProcessEnvironment) -> Result<Project, AppError> {
    Project::of(cwd, trust_status(cwd, environment)?)
}

/// Returns what the project of a working directory adds. If it is not trusted and the user can answer, asks whether
/// to trust it. Blocks.
pub fn admit(
    cwd: &Path,
    environment: &ProcessEnvironment,
    audience: Audience,
    dialog: &dyn UserDialog,
) -> Result<Project, AppError> {
    let mut project = admitted(cwd, environment, audience, dialog)?;
    if audience == Audience::Person
        && let Some(notice) = project.notice.take()
    {
        // Printed before the conversation starts: the conversation shows only what happens in it.
        dialog.show_message(&approval_line(&notice));
    }
    Ok(project)
}

fn admitted(
    cwd: &Path,
    environment: &ProcessEnvironment,
    audience: Audience,
    dialog: &dyn UserDialog,
) -> Result<Project, AppError> {
    let untrusted = match (trust_status(cwd, environment)?, audience) {
        (TrustStatus::Untrusted(untrusted), Audience::Person) => untrusted,
        (TrustStatus::Untrusted(untrusted), Audience::Unattended) => {
            return Ok(Project::untrusted(&untrusted, untrusted.notice()));
        }
        (TrustStatus::Nothing, _) => return Ok(Project::default()),
        (TrustStatus::Trusted(contents), _) => return Project::trusted(&contents),
        (standing @ TrustStatus::Refused { .. }, _) => return Project::of(cwd, standing),
    };
    // A configuration with errors is not offered for trust.
    let project = match Project::trusted(&untrusted.contents) {
        Ok(project) => project,
        Err(error) => {
            let notice = format!("{}. It cannot be used: {}", untrusted.notice(), error.message);
            return Ok(Project::untrusted(&untrusted, notice));
        }
    };
    let question = format!(
        "{}Trust it? Without it, the agent works with your own configuration alone.",
        untrusted.description()
    );
    if dialog.confirm(&question)? {
        trust_store(environment)?.add(untrusted.contents.root(), untrusted.fingerprint)?;
        return Ok(project);
    }
    Ok(Project { notice: None, ..Project::untrusted(&untrusted, String::new()) })
}

impl Project {
    /// Returns what a project with this status adds.
    pub fn of(cwd: &Path, standing: TrustStatus) -> Result<Self, AppError> {
        match standing {
            TrustStatus::Nothing => Ok(Self::default()),
            TrustStatus::Trusted(contents) => Self::trusted(&contents),
            TrustStatus::Untrusted(untrusted) => {
                Ok(Self::untrusted(&untrusted, untrusted.notice()))
            }
            TrustStatus::Refused { reason, user_servers } => {
                Ok(Self::without(refused(cwd, &reason), &user_servers))
            }
        }
    }

    fn trusted(contents: &ProjectFiles) -> Result<Self, AppError> {
        let ProjectConfig { rules, providers, mcp_servers, faults } =
            ProjectConfig::parse(contents)?;
        let notice = (!faults.is_empty()).then(|| faults.join("\n"));
        let trusted = TrustedState::from_files(contents);
        // Like other files that start programs, changes of files that servers are started from are asked about.
        let ask_rules = contents.programs.named.iter().map(|path| {
            let id = format!("project:starts {}", path.display());
            PermissionRule::ask_for_path(Access::Write, path).with_id(id)
        });
        let rules = RuleSet::new(rules.into_rules().into_iter().chain(ask_rules))
            .map_err(|error| AppError::usage(error.to_string()))?;
        let additions = ProjectAdditions {
            root: Some(trusted.root.clone()),
            rules,
            providers,
            layer: Some(layer(contents)),
            mcp_servers,
            blocked_commands: Vec::new(),
        };
        Ok(Self { additions, notice, trusted: Some(trusted) })
    }

    fn untrusted(untrusted: &UntrustedConfig, notice: String) -> Self {
        Self::without(notice, &untrusted.contents.user_servers)
    }

    fn without(notice: String, user_servers: &[StartedServer]) -> Self {
        let blocked_commands = user_servers.iter().map(|server| server.argv.clone()).collect();
        let additions = ProjectAdditions { blocked_commands, ..ProjectAdditions::default() };
        Self { additions, notice: Some(notice), trusted: None }
    }
}

impl UntrustedConfig {
    pub(super) fn notice(&self) -> String {
        let why = match self.before {
            None => "is not trusted",
            Some(_) => "changed since you trusted it",
        };
        let location = self.contents.message_path();
        if self.contents.items.is_empty() {
            let named = self.contents.programs.named.iter();
            let below =
                |path: &PathBuf| path.strip_prefix(&location).unwrap_or(path).display().to_string();
            let named: Vec<String> = named.map(below).collect();
            return format!(
                "MCP servers of your own configuration are started from {} of {}, which {why}; they are not started; `crow-agent trust` shows it and asks",
                named.join(", "),
                location.display()
            );
        }
        format!(
            "{} {why}, and is not used; `crow-agent trust` shows it and asks",
            location.display()
        )
    }

    /// Describes the configuration for the question: its files, what each could do, and what has changed since it was
    /// trusted.
    pub fn description(&self) -> String {
        let location = approval_line(&self.contents.message_path().display().to_string());
        let differences = self.before.as_ref().map(|before| before.differences(&self.fingerprint));
        let mut text = match differences {
            Some(_) => format!("{location} changed since you trusted it:\n"),
            None if self.contents.items.is_empty() => {
                format!(
                    "Your own configuration starts programs that you have not trusted yet, from {location}:\n"
                )
            }
            None => format!("{location} has configuration that you did not trust yet:\n"),
        };
        let differences = differences.unwrap_or_default();
        let line = |name: &str, what: &str| {
            let mark = differences.get(name).map(|difference| format!("  [{difference}]"));
            let name = approval_line(&ProjectFiles::display_name(name));
            format!("  {name}{what}{}\n", mark.unwrap_or_default())
        };
        for (name, what, powers) in capabilities(&self.contents) {
            text.push_str(&line(&name, &format!("  {}", approval_line(&what))));
            for power in powers {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "    {}", approval_line(&power));
            }
        }
        for server in &self.contents.user_servers {
            let argv = approval_line(&server.argv.join(" "));
            let _ = writeln!(text, "    your own configuration starts `{argv}`");
        }
        text.push_str(&programs(&self.contents, &differences, &line));
        let removed = differences.iter().filter(|(_, what)| **what == Difference::Removed);
        for (name, _) in removed {
            text.push_str(&line(name, ""));
        }
        text
    }
}

/// Lists the files that servers are started from: those named in the configuration and those that changed by name,
/// the others by number.
fn programs(
    contents: &ProjectFiles,
    differences: &BTreeMap<String, Difference>,
    line: &dyn Fn(&str, &str) -> String,
) -> String {
    let programs = &contents.programs;
    if programs.marks.is_empty() {
        return String::new();
    }
    let mut text =
        "  Servers, which run outside of the sandbox, and hooks are started from these files of the project:\n"
            .to_owned();
    let mut others = 0_usize;
    for name in programs.marks.keys().filter(|name| !contents.items.contains_key(*name)) {
        if programs.named.contains(&contents.path(name)) || differences.contains_key(name) {
            text.push_str(&line(name, ""));
        } else {
            others += 1;
        }
    }
    let others = match others {
        0 => String::new(),
        1 => "  1 other file of code beside or below them, or named in them\n".to_owned(),
        others => {
            format!("  {others} other files of code beside or below them, or named in them\n")
        }
    };
    text.push_str(&others);
    if programs.is_cut {
        text.push_str("    More code lies beside them than is watched: changes of the rest are not noticed.\n");
    }
    text.push_str("    Changing one of these files revokes the trust. What they load from elsewhere, such as packages, is not watched.\n");
    text
}

fn refused(cwd: &Path, reason: &str) -> String {
    let folder = folder_of(&project_root(cwd));
    format!("{} is not used: {reason}", folder.display())
}

/// Returns the store of trusted projects.
pub fn trust_store(environment: &ProcessEnvironment) -> Result<TrustStore, AppError> {
    Ok(TrustStore::new(&environment.data_dir()?))
}

impl From<TrustError> for AppError {
    fn from(error: TrustError) -> Self {
        Self { code: "trust", ..Self::usage(error.to_string()) }
            .hint("fix the file or move it away; until then nothing is trusted")
    }
}
