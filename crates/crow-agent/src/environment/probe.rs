//! Facts that take a process to find out: the files that git reports as changed, and the versions of the tools that the
//! project uses.
//!
//! They are found out beside a model call, never before one. The processes run in the sandbox with its read-only profile,
//! and only if it confines them fully: git reads settings of the repository that can name programs. Programs that lie in
//! the working directory are not started.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use crow_context::environment::SystemState;
use crow_core::{
    capability::{Containment, OutputLimits, ProcessEnd, ProcessSpec},
    tool::{AgentContext, Progress},
};
use tokio_util::sync::CancellationToken;

/// Time limit of each process.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes that are read of the output of a process.
const OUTPUT: usize = 256 * 1024;
/// Most files with changes that are not committed.
const MOST_DIRTY: usize = 1_000;
/// Number of model calls of a run beside which the facts are tried to be found out.
const TRIES: u8 = 3;
/// Name of the fact about versions.
const TOOLCHAINS: &str = "toolchains";
/// Files at the top of a project, and the tools that it then uses.
const TOOLS: [(&str, &[&str]); 17] = [
    ("Cargo.toml", &["cargo", "rustc"]),
    ("package.json", &["node", "npm"]),
    ("pnpm-lock.yaml", &["pnpm"]),
    ("yarn.lock", &["yarn"]),
    ("bun.lock", &["bun"]),
    ("deno.json", &["deno"]),
    ("pyproject.toml", &["python3"]),
    ("requirements.txt", &["python3", "pip"]),
    ("uv.lock", &["uv"]),
    ("go.mod", &["go"]),
    ("pom.xml", &["java", "mvn"]),
    ("build.gradle", &["java", "gradle"]),
    ("build.gradle.kts", &["java", "gradle"]),
    ("CMakeLists.txt", &["cmake"]),
    ("Makefile", &["make"]),
    ("Gemfile", &["ruby", "bundle"]),
    ("composer.json", &["php", "composer"]),
];
/// Prints a line for each tool: its name and the beginning of what it says about its version, `!` if it fails, or the name
/// alone if it is not found. Takes the working directory and the names.
const VERSIONS: &str = r#"root=$1; shift; cd / || exit 1
for tool in "$@"; do
  path=$(command -v "$tool") || { echo "$tool"; continue; }
  case $path in "$root"/*) continue ;; /*) ;; *) continue ;; esac
  case $tool in go) flag=version ;; java) flag=-version ;; *) flag=--version ;; esac
  text=$("$path" "$flag" 2>&1 </dev/null) || text=!
  echo "$tool $(printf '%s\n' "$text" | head -n 1)"
done"#;

/// The results of a probe; `None` where it had none.
#[derive(Debug, Default)]
pub(super) struct ProbeFacts {
    /// Files with changes that are not committed, relative to the working directory if they are in it.
    dirty: Option<BTreeSet<String>>,
    /// The versions of the tools, in a line.
    toolchains: Option<String>,
}

/// A probe under way. Dropping it ends its processes.
pub(super) type Probe = Pin<Box<dyn Future<Output = ProbeFacts> + Send>>;

/// When to probe, and what was found out last.
#[derive(Debug, Default)]
pub(super) struct ProbeState {
    /// Root of the repository, if there is one.
    repository: Option<PathBuf>,
    /// Number of probes that may still be begun in this run.
    tries: u8,
    dirty: BTreeSet<String>,
    /// Files that calls of the agent changed: they are not told as changes of others.
    own_changes: BTreeSet<String>,
    has_toolchains: bool,
}

impl ProbeState {
    /// Makes the state for a working directory that may be in a repository.
    pub(super) fn new(repository: Option<PathBuf>) -> Self {
        Self { repository, ..Self::default() }
    }

    /// Begins a run: what others changed since the last one is found out anew.
    pub(super) fn on_input(&mut self) {
        self.tries = TRIES;
    }

    /// Records a file that a call of the agent changed.
    pub(super) fn on_own_change(&mut self, name: &str) {
        self.own_changes.insert(name.to_owned());
    }

    /// Returns the files with changes that are neither committed nor the agent's.
    pub(super) fn dirty_files(&self) -> &BTreeSet<String> {
        &self.dirty
    }

    /// Returns the next probe, if there is something left to find out.
    pub(super) fn next(&mut self, context: &Arc<AgentContext>) -> Option<Probe> {
        let is_in_sandbox =
            context.access.as_ref().is_some_and(|access| access.report().sandbox.is_some());
        if self.tries == 0 || !is_in_sandbox {
            return None;
        }
        let cwd = context.workspace.cwd();
        let tools = if self.has_toolchains { Vec::new() } else { tools_of(cwd) };
        if self.repository.is_none() && tools.is_empty() {
            self.tries = 0;
            return None;
        }
        self.tries -= 1;
        Some(Box::pin(probe(Arc::clone(context), self.repository.clone(), tools)))
    }

    /// Takes over what a probe found out. No other one is begun in this run.
    pub(super) fn on_facts(&mut self, facts: ProbeFacts, system: &mut SystemState) {
        self.tries = 0;
        if facts.dirty.is_none() {
            // Git is missing, or takes too long here: it would do so again.
            self.repository = None;
        }
        if let Some(found) = facts.dirty {
            let is_own = |name: &String| {
                // A new directory is reported by its name alone.
                self.own_changes.contains(name)
                    || name.ends_with('/')
                        && self.own_changes.iter().any(|own| own.starts_with(name))
            };
            self.dirty = found
                .into_iter()
                .filter(|name| self.dirty.contains(name) || !is_own(name))
                .collect();
        }
        if let Some(versions) = facts.toolchains {
            self.has_toolchains = true;
            system.resources.insert(TOOLCHAINS.to_owned(), versions);
        }
    }
}

async fn probe(
    context: Arc<AgentContext>,
    repository: Option<PathBuf>,
    tools: Vec<&'static str>,
) -> ProbeFacts {
    let access = context.access.as_ref().expect("invariant: a probe needs the sandbox's report");
    if access.containment().await != Containment::Full {
        return ProbeFacts::default();
    }
    let mut facts = ProbeFacts::default();
    if let Some(root) = repository {
        let output = run(&context, &git_status()).await;
        let cwd = context.workspace.cwd();
        facts.dirty = output.map(|output| dirty_files(&output, &root, cwd));
    }
    if !tools.is_empty() {
        let root = context.workspace.cwd().display().to_string();
        let mut argv: Vec<String> = ["sh", "-c", VERSIONS, "sh", &root].map(str::to_owned).to_vec();
        argv.extend(tools.iter().map(|tool| (*tool).to_owned()));
        facts.toolchains = run(&context, &argv).await.map(|output| versions(&output));
    }
    facts
}

/// Runs a program to its end and returns its output, if it succeeds.
async fn run(context: &AgentContext, argv: &[String]) -> Option<String> {
    let spec = ProcessSpec {
        argv: argv.to_vec(),
        cwd: context.workspace.cwd().to_path_buf(),
        // Asking for a version must not install the tool.
        env: BTreeMap::from([("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned())]),
        timeout: TIMEOUT,
        output: OutputLimits { head: OUTPUT, tail: 0, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: true,
    };
    let outcome = context.processes.run(spec, CancellationToken::new()).await;
    match outcome {
        Ok(outcome) if outcome.end == ProcessEnd::Exited(0) => {
            Some(String::from_utf8_lossy(&outcome.output.head).into_owned())
        }
        Ok(outcome) => {
            tracing::debug!(program = argv[0], end = ?outcome.end, "a probe found nothing out");
            None
        }
        Err(error) => {
            tracing::debug!(program = argv[0], %error, "a probe could not be run");
            None
        }
    }
}

fn git_status() -> Vec<String> {
    let arguments = [
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
    ];
    arguments.map(str::to_owned).to_vec()
}

/// Returns the files of a status in porcelain format, in which paths are relative to the root and end with NUL.
fn dirty_files(status: &str, root: &Path, cwd: &Path) -> BTreeSet<String> {
    // The last element is empty, or was cut with the output.
    let complete = status.rsplit_once('\0').map_or("", |(complete, _)| complete);
    let paths = complete.split('\0').filter_map(|entry| entry.get(3..));
    let shown = paths.filter(|path| !path.is_empty()).map(|path| {
        let is_directory = path.ends_with('/');
        let path = root.join(path);
        let name = path.strip_prefix(cwd).unwrap_or(&path).display().to_string();
        let name = name.trim_end_matches('/');
        format!("{name}{}", if is_directory { "/" } else { "" })
    });
    shown.take(MOST_DIRTY).collect()
}

/// Returns the tools that a project uses, by the files at its top.
fn tools_of(cwd: &Path) -> Vec<&'static str> {
    let mut tools = Vec::new();
    for (file, names) in TOOLS {
        if crow_fs::metadata(&cwd.join(file)).is_ok_and(|entry| entry.is_file()) {
            for name in names {
                if !tools.contains(name) {
                    tools.push(*name);
                }
            }
        }
    }
    tools
}

/// Writes the versions in a line: `cargo 1.95.0, node 22.1.0; not found: pnpm`.
fn versions(output: &str) -> String {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for line in output.lines() {
        match line.trim().split_once(' ') {
            Some((tool, "!")) => found.push(format!("{tool} (does not run)")),
            Some((tool, text)) => match version_in(text) {
                Some(version) => found.push(format!("{tool} {version}")),
                None => found.push(tool.to_owned()),
            },
            None if line.is_empty() => {}
            None => missing.push(line.trim()),
        }
    }
    let missing = match missing.as_slice() {
        [] => String::new(),
        missing => format!("not found: {}", missing.join(", ")),
    };
    let found = found.join(", ");
    let parts = [found, missing];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Returns the first number with a dot in what a tool says about its version.
fn version_in(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut parts = text.split(|c| !is_part(c));
    parts
        .find(|part| part.len() <= 20 && part.contains('.') && part.starts_with(|c: char| c != '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_git_gives_paths_as_they_are_shown() {
        let status = " M src/a.rs\0?? new dir/\0A  ../odd\0 D other/b.rs\0 M cut";
        let files = dirty_files(status, Path::new("/p"), Path::new("/p/src"));
        assert_eq!(
            files.iter().map(String::as_str).collect::<Vec<_>>(),
            ["/p/../odd", "/p/new dir/", "/p/other/b.rs", "a.rs"]
        );
        assert_eq!(dirty_files("", Path::new("/p"), Path::new("/p")), BTreeSet::new());
    }

    #[test]
    fn versions_are_found_in_what_tools_say() {
        let output = "cargo cargo 1.95.0 (abc 2026-04-01)\ngo go version go1.26.1 linux/amd64\nnode v22.1.0\nodd says nothing\nnpm !\npnpm\njava openjdk version \"21.0.2\" 2024\n";
        assert_eq!(
            versions(output),
            "cargo 1.95.0, go 1.26.1, node 22.1.0, odd, npm (does not run), java 21.0.2; not found: pnpm"
        );
        assert_eq!(versions(""), "");
    }

    #[test]
    fn the_agents_own_changes_are_not_told_as_uncommitted() {
        let mut state = ProbeState::default();
        let mut system = SystemState::default();
        let found = |names: &[&str]| ProbeFacts {
            dirty: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            toolchains: None,
        };
        state.on_facts(found(&["users.rs"]), &mut system);
        for own in ["users.rs", "own.rs", "new/a.rs"] {
            state.on_own_change(own);
        }
        state.on_facts(found(&["users.rs", "own.rs", "new/", "other.rs"]), &mut system);
        let dirty: Vec<_> = state.dirty_files().iter().map(String::as_str).collect();
        assert_eq!(dirty, ["other.rs", "users.rs"]);
    }

    #[test]
    fn the_tools_of_a_project_are_known_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(tools_of(&root), [""; 0]);
        for name in ["requirements.txt", "pyproject.toml", "Makefile"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        assert_eq!(tools_of(&root), ["python3", "pip", "make"]);
    }
}
