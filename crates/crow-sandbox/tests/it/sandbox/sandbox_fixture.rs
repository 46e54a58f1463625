//! A fixture with a project, a home folder and a sandbox.
//!
//! All folders lie in one temporary folder: `project` (the workspace), `home`, `private` (of the session) and `outside`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::{OutputLimits, ProcessOutcome, ProcessSpec, Processes as _},
    tool::Progress,
};
use crow_sandbox::{LinkSearch, LinkSearchConfig, ProcessRunner, Sandbox, SandboxConfig};
use tokio_util::sync::CancellationToken;

pub(super) struct SandboxFixture {
    folder: tempfile::TempDir,
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) runner: ProcessRunner,
}

impl SandboxFixture {
    pub(super) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// Creates a fixture; `change` may edit the configuration and gets the path of the temporary folder.
    pub(super) fn with(change: impl FnOnce(&mut SandboxConfig, &Path)) -> Self {
        Self::with_links(|config, base| {
            change(config, base);
            LinkSearchConfig::default()
        })
    }

    /// Creates a fixture like [`with`](Self::with), whose sandbox searches for links as `change` returns.
    pub(super) fn with_links(
        change: impl FnOnce(&mut SandboxConfig, &Path) -> LinkSearchConfig,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["project", "home", "private", "outside"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let mut config = SandboxConfig::new(base.join("private"));
        let links = change(&mut config, &base);
        let roots = vec![base.join("project")];
        let links = Arc::new(LinkSearch::new(links, roots.clone()));
        let sandbox = Arc::new(Sandbox::new(config, "session", roots).with_links(links));
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let home = ("HOME".to_owned(), base.join("home").to_str().unwrap().to_owned());
        let env = BTreeMap::from([path, home]);
        let runner = ProcessRunner::new(env).in_sandbox(Arc::clone(&sandbox));
        Self { folder, sandbox, runner }
    }

    pub(super) fn base(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(super) fn project(&self) -> PathBuf {
        self.base().join("project")
    }

    pub(super) fn spec(&self, script: &str) -> ProcessSpec {
        ProcessSpec {
            argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
            cwd: self.project(),
            env: BTreeMap::new(),
            timeout: Duration::from_mins(1),
            output: OutputLimits { head: 64 * 1024, tail: 1024, spill: None, spill_cap: 0 },
            progress: Progress::default(),
            only_reads: false,
        }
    }

    pub(super) async fn run(&self, script: &str) -> ProcessOutcome {
        self.runner.run(self.spec(script), CancellationToken::new()).await.unwrap()
    }

    /// Runs a script and returns its output.
    pub(super) async fn print(&self, script: &str) -> String {
        printed(&self.run(script).await)
    }
}

pub(super) fn printed(outcome: &ProcessOutcome) -> String {
    String::from_utf8_lossy(&outcome.output.head).into_owned()
}
