//! Whether a project's configuration counts.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crow_agent::layers::ConfigLayer;
use crow_core::{
    permission::{PermissionRule, RuleSet},
    tool::Access,
};
use crow_providers::ProviderConfig;

use super::{
    contents::{ProjectFiles, project_root, started_from},
    fingerprint::{Difference, Fingerprint},
    programs::StartedServer,
    project::{ProjectConfig, folder_of, layer, powers},
    state::TrustedState,
    store::{TrustError, TrustStore, name},
};
use crate::{
    confirm::confirm,
    environment::Environment,
    error::CliError,
    mcp::{self, ServerTable},
    render::exact_line,
    run::{Audience, say},
};

/// What a project adds to the user's own configuration: nothing, unless it is trusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Project {
    /// Rules that only deny or ask.
    pub(crate) rules: RuleSet,
    pub(crate) providers: Vec<ProviderConfig>,
    /// Its agents, prompts and settings.
    pub(crate) layer: Option<ConfigLayer>,
    /// Servers of its `.mcp.json`.
    pub(crate) mcp_servers: BTreeMap<String, ServerTable>,
    /// What the user is to know of it.
    pub(crate) notice: Option<String>,
    /// By what it is known again before one of its servers is started, if it is trusted.
    pub(crate) trusted: Option<TrustedState>,
    /// Command lines of servers of the user's own that are not started: from files of a project that is not trusted.
    pub(crate) withheld: Vec<Vec<String>>,
}

/// How a project's configuration stands.
#[derive(Debug)]
pub(crate) enum TrustStatus {
    /// It has none.
    Nothing,
    /// The user trusts it as it is.
    Trusted(ProjectFiles),
    /// The user does not trust it, or not as it is now.
    Untrusted(UntrustedConfig),
    /// It is not even looked at, or it is not known whether it is trusted.
    Refused {
        reason: String,
        /// The user's own servers that are started from its files.
        user_servers: Vec<StartedServer>,
    },
}

/// Configuration that the user does not trust.
#[derive(Debug)]
pub(crate) struct UntrustedConfig {
    pub(crate) contents: ProjectFiles,
    pub(crate) fingerprint: Fingerprint,
    /// As what it was trusted before, if it was.
    pub(crate) before: Option<Fingerprint>,
}

/// By what it is known again whether a project's configuration stands as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustStamp {
    Nothing,
    Trusted(Fingerprint),
    Untrusted(Fingerprint),
    Refused(String),
}

impl TrustStatus {
    /// Returns by what it is known again.
    pub(crate) fn mark(&self) -> TrustStamp {
        match self {
            Self::Nothing => TrustStamp::Nothing,
            Self::Trusted(contents) => TrustStamp::Trusted(Fingerprint::of(contents)),
            Self::Untrusted(untrusted) => TrustStamp::Untrusted(untrusted.fingerprint.clone()),
            Self::Refused { reason, .. } => TrustStamp::Refused(reason.clone()),
        }
    }
}

/// Finds out how the configuration counts that holds for a working directory. Blocks.
pub(crate) fn standing(cwd: &Path, environment: &Environment) -> Result<TrustStatus, CliError> {
    let root = project_root(cwd);
    // What is wrong with the user's configuration is said where it is used; then none of its servers is started.
    let user_servers = mcp::user_servers(cwd, environment).unwrap_or_default();
    let refused = |reason: String| {
        let user_servers = started_from(&root, &user_servers);
        TrustStatus::Refused { reason, user_servers }
    };
    let contents = match ProjectFiles::read(&root, &user_servers) {
        Ok(Some(contents)) => contents,
        Ok(None) => return Ok(TrustStatus::Nothing),
        Err(error) => return Ok(refused(error.to_string())),
    };
    let fingerprint = Fingerprint::of(&contents);
    let store = trust_store(environment)?;
    let known = match store.load().and_then(|projects| Ok((projects, name(&root)?))) {
        Ok((mut projects, name)) => projects.remove(&name),
        Err(error) => return Ok(refused(error.to_string())),
    };
    Ok(match known.map(|trusted| trusted.what) {
        Some(before) if before.covers(&fingerprint) => TrustStatus::Trusted(contents),
        before => TrustStatus::Untrusted(UntrustedConfig { contents, fingerprint, before }),
    })
}

/// Returns what the configuration adds that holds for a working directory. Asks nobody. Blocks.
pub(crate) fn project_of(cwd: &Path, environment: &Environment) -> Result<Project, CliError> {
    Project::of(cwd, standing(cwd, environment)?)
}

/// Returns what the configuration adds that holds for a working directory. If the user does not trust it and is there,
/// this is asked. Blocks.
pub(crate) fn admit(
    cwd: &Path,
    environment: &Environment,
    audience: Audience,
) -> Result<Project, CliError> {
    let mut project = admitted(cwd, environment, audience)?;
    if audience == Audience::Person
        && let Some(notice) = project.notice.take()
    {
        // Before the conversation begins: it shows what happens in it, and this happened before.
        say(&exact_line(&notice));
    }
    Ok(project)
}

fn admitted(
    cwd: &Path,
    environment: &Environment,
    audience: Audience,
) -> Result<Project, CliError> {
    let untrusted = match (standing(cwd, environment)?, audience) {
        (TrustStatus::Untrusted(untrusted), Audience::Person) => untrusted,
        (TrustStatus::Untrusted(untrusted), Audience::Nobody) => {
            return Ok(Project::untrusted(&untrusted, untrusted.notice()));
        }
        (TrustStatus::Nothing, _) => return Ok(Project::default()),
        (TrustStatus::Trusted(contents), _) => return Project::trusted(&contents),
        (standing @ TrustStatus::Refused { .. }, _) => return Project::of(cwd, standing),
    };
    // What cannot be used is not asked about.
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
    if confirm(&question)? {
        trust_store(environment)?.add(untrusted.contents.root(), untrusted.fingerprint)?;
        return Ok(project);
    }
    Ok(Project { notice: None, ..Project::untrusted(&untrusted, String::new()) })
}

impl Project {
    /// Returns what the configuration adds that holds for a working directory and stands like this.
    pub(crate) fn of(cwd: &Path, standing: TrustStatus) -> Result<Self, CliError> {
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

    fn trusted(contents: &ProjectFiles) -> Result<Self, CliError> {
        let ProjectConfig { rules, providers, mcp_servers, faults } =
            ProjectConfig::parse(contents)?;
        let notice = (!faults.is_empty()).then(|| faults.join("\n"));
        let trusted = TrustedState::of(contents);
        // Files that servers are started from are asked about like others that start programs.
        let asked = contents.programs.named.iter().map(|path| {
            let id = format!("project:starts {}", path.display());
            PermissionRule::ask_for_path(Access::Write, path).with_id(id)
        });
        let rules = RuleSet::new(rules.into_rules().into_iter().chain(asked))
            .map_err(|error| CliError::usage(error.to_string()))?;
        let (layer, trusted) = (Some(layer(contents)), Some(trusted));
        Ok(Self { rules, providers, layer, mcp_servers, notice, trusted, withheld: Vec::new() })
    }

    fn untrusted(untrusted: &UntrustedConfig, notice: String) -> Self {
        Self::without(notice, &untrusted.contents.user_servers)
    }

    fn without(notice: String, user_servers: &[StartedServer]) -> Self {
        let withheld = user_servers.iter().map(|server| server.argv.clone()).collect();
        Self { notice: Some(notice), withheld, ..Self::default() }
    }
}

impl UntrustedConfig {
    pub(super) fn notice(&self) -> String {
        let why = match self.before {
            None => "is not trusted",
            Some(_) => "changed since you trusted it",
        };
        let place = self.contents.place();
        if self.contents.items.is_empty() {
            let named = self.contents.programs.named.iter();
            let below =
                |path: &PathBuf| path.strip_prefix(&place).unwrap_or(path).display().to_string();
            let named: Vec<String> = named.map(below).collect();
            return format!(
                "MCP servers of your own configuration are started from {} of {}, which {why}; they are not started; `crow-agent trust` shows it and asks",
                named.join(", "),
                place.display()
            );
        }
        format!("{} {why}, and is not used; `crow-agent trust` shows it and asks", place.display())
    }

    /// Says what there is, what it could do, and what is not as it was when it was trusted.
    pub(crate) fn description(&self) -> String {
        let place = exact_line(&self.contents.place().display().to_string());
        let differences = self.before.as_ref().map(|before| before.differences(&self.fingerprint));
        let mut text = match differences {
            Some(_) => format!("{place} changed since you trusted it:\n"),
            None if self.contents.items.is_empty() => {
                format!("Your own configuration starts what you did not trust yet, from {place}:\n")
            }
            None => format!("{place} has configuration that you did not trust yet:\n"),
        };
        let differences = differences.unwrap_or_default();
        let line = |name: &str, what: &str| {
            let mark = differences.get(name).map(|difference| format!("  [{difference}]"));
            let name = exact_line(&ProjectFiles::shown(name));
            format!("  {name}{what}{}\n", mark.unwrap_or_default())
        };
        for (name, what, powers) in powers(&self.contents) {
            text.push_str(&line(&name, &format!("  {}", exact_line(&what))));
            for power in powers {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "    {}", exact_line(&power));
            }
        }
        for server in &self.contents.user_servers {
            let argv = exact_line(&server.argv.join(" "));
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

/// Lists the files of the project that its servers are started from: those that are named, and others that changed.
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
        "  The servers run outside of the sandbox, from these files of the project:\n".to_owned();
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
        text.push_str("    There is more code beside them than is watched: a change of that is not noticed.\n");
    }
    text.push_str("    A change of one of these files ends the trust. What they load from elsewhere, as from packages, is not watched.\n");
    text
}

fn refused(cwd: &Path, reason: &str) -> String {
    let folder = folder_of(&project_root(cwd));
    format!("{} is not used: {reason}", folder.display())
}

/// Returns where it is kept what the user trusts.
pub(crate) fn trust_store(environment: &Environment) -> Result<TrustStore, CliError> {
    Ok(TrustStore::new(&environment.data_dir()?))
}

impl From<TrustError> for CliError {
    fn from(error: TrustError) -> Self {
        Self { code: "trust", ..Self::usage(error.to_string()) }
            .hint("mend the file or move it away; until then nothing is trusted")
    }
}
