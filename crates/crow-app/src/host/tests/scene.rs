//! A host in temporary folders, with a scripted model.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_core::{event::AgentEvent, message::Block, model::Models};
use crow_providers::ProviderModels;
use crow_runtime::{
    AgentHandle, AgentHost as _, FileStore, NewSession, SandboxConfig, SessionSetup, SessionStore,
    SnapshotLimits, SnapshotStores, StoredRules,
};
use crow_testkit::{
    scripted::{ScriptedModel, ScriptedModels},
    telemetry::StoreTelemetryCheck,
};
use tempfile::TempDir;

use crate::{
    config::AgentLimits,
    environment::ProcessEnvironment,
    host::{ChoiceMemory, ConfigurationSource, HostParts, ProductHost},
    trust::{self, TrustStatus},
};

pub(super) fn environment(home: &Path) -> ProcessEnvironment {
    ProcessEnvironment::with([("HOME", home.to_str().unwrap())])
}

pub(super) fn host(model: &ScriptedModel, folder: &Path) -> ProductHost {
    host_with(model, folder, None, None)
}

/// Creates a host with the built-in providers beside its scripted model.
pub(super) fn host_with_providers(model: &ScriptedModel, folder: &Path) -> ProductHost {
    let providers = crate::product::models(&environment(folder), &[]).unwrap();
    host_with(model, folder, None, Some(Arc::new(providers)))
}

fn host_with(
    model: &ScriptedModel,
    folder: &Path,
    sandbox: Option<SandboxConfig>,
    providers: Option<Arc<ProviderModels>>,
) -> ProductHost {
    let snapshots = folder.join("snapshots");
    let models: Arc<dyn Models> = Arc::new(ScriptedModels(model.clone()));
    let store: Arc<dyn SessionStore> = Arc::new(FileStore::new(folder.join("sessions")));
    ProductHost::new(HostParts {
        dialog: Arc::new(crate::dialog::NoDialog),
        session_commands: None,
        audience: crate::dialog::Audience::Unattended,
        environment: environment(folder),
        store,
        models,
        providers,
        fallback: Some(model.resolved().info.reference),
        answerer: Arc::new(crow_core::capability::NoAnswerer),
        agent: None,
        model: None,
        permissions: None,
        sandbox_paths: sandbox.as_ref().map(SandboxConfig::sandbox_paths).unwrap_or_default(),
        network: crow_core::network::Network::default(),
        sandbox,
        links: None,
        rules: StoredRules::default(),
        user_skills: None,
        start: None,
        configuration_source: ConfigurationSource::InFiles,
        snapshots: Arc::new(SnapshotStores::new(snapshots, SnapshotLimits::default(), None)),
        limits: AgentLimits::default(),
        sampling: crow_agent::SamplingChoice::default(),
        reviewer_model: None,
        choice_memory: ChoiceMemory::Persistent,
    })
}

/// A host with the home of its user and a project.
pub(super) struct Scene {
    pub(super) model: ScriptedModel,
    pub(super) host: ProductHost,
    _telemetry: StoreTelemetryCheck,
    pub(super) home: TempDir,
    _projects: TempDir,
    /// Canonical path of the project.
    pub(super) project: PathBuf,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::with_sandbox(|_| None)
    }

    /// Creates a scene whose commands run in the sandbox that `sandbox` makes for the home.
    pub(super) fn with_sandbox(sandbox: impl FnOnce(&Path) -> Option<SandboxConfig>) -> Self {
        let (home, projects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let model = ScriptedModel::new([]);
        let host = host_with(&model, home.path(), sandbox(home.path()), None);
        let project = projects.path().canonicalize().unwrap().join("project");
        fs::create_dir(&project).unwrap();
        let telemetry = StoreTelemetryCheck::new(Arc::clone(&host.runtime().config().store));
        Self { model, host, home, _projects: projects, _telemetry: telemetry, project }
    }

    /// Creates a folder next to the project.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        let path = self.project.parent().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Writes a file below the `.crow-agent` of a project.
    pub(super) fn configure(project: &Path, name: &str, text: &str) {
        let path = project.join(".crow-agent").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Adds a project in its current state to the trust store.
    pub(super) fn trust(&self, project: &Path) {
        let environment = environment(self.home.path());
        let status = trust::trust_status(project, &environment).unwrap();
        let TrustStatus::Untrusted(untrusted) = status else { panic!("{status:?}") };
        let store = trust::trust_store(&environment).unwrap();
        store.add(untrusted.contents.root(), untrusted.fingerprint).unwrap();
    }

    pub(super) async fn create(&self, setup: SessionSetup) -> AgentHandle {
        let new = NewSession { cwd: self.project.clone(), setup, ..NewSession::default() };
        self.host.create(new).await.unwrap()
    }

    pub(super) async fn value(&self, handle: &AgentHandle, name: &str) -> String {
        let options = self.host.options(handle.session_id()).await.unwrap();
        options.into_iter().find(|option| option.name == name).unwrap().value
    }

    pub(super) async fn set(&self, handle: &AgentHandle, name: &str, value: &str) {
        self.host.set_option(handle.session_id(), name, value).await.unwrap();
    }

    /// Returns the changes of all switch events in the log of a session.
    pub(super) fn switches(&self, handle: &AgentHandle) -> Vec<String> {
        let stored = self.host.runtime().config().store.read(handle.session_id()).unwrap();
        let mut switches = Vec::new();
        for line in stored.events {
            if let AgentEvent::Switch { change } = line.event {
                switches.push(change);
            }
        }
        switches
    }
}

/// Sends a prompt and waits for the end of the run.
pub(super) async fn run(handle: &AgentHandle, text: &str) {
    let mut events = handle.subscribe();
    handle.send_input(vec![Block::text(text)]).unwrap();
    while let Some(item) = events.next().await {
        if let crow_runtime::ObserverItem::Event(event) = item
            && event.session_id == *handle.session_id()
            && matches!(event.event, AgentEvent::RunEnd { .. })
        {
            return;
        }
    }
    panic!("the run has no end");
}
