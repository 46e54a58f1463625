//! The composition root: creates the stores, providers and tools from the environment.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_agent::TaskComplete;
use crow_core::tool::{ToolRegistry, TypedToolAdapter};
use crow_providers::{HttpClient, ProviderConfig, ProviderModels, Proxies};
use crow_runtime::{FileStore, RuleStore, SessionStore, SnapshotLimits, SnapshotStores};

use crate::{
    credentials::{CredentialFile, StoredKeys},
    environment::ProcessEnvironment,
    error::AppError,
};

/// Returns the store of the user's sessions, in `sessions` below the data folder.
pub fn session_store(environment: &ProcessEnvironment) -> Result<Arc<dyn SessionStore>, AppError> {
    Ok(Arc::new(FileStore::new(environment.data_dir()?.join("sessions"))))
}

/// Returns the snapshot stores, in `snapshots` below the data folder.
pub fn snapshot_stores(environment: &ProcessEnvironment) -> Result<Arc<SnapshotStores>, AppError> {
    Ok(snapshot_stores_in(environment.data_dir()?.join("snapshots"), environment))
}

/// Returns the snapshot stores in another folder.
pub fn snapshot_stores_in(
    folder: impl Into<PathBuf>,
    environment: &ProcessEnvironment,
) -> Arc<SnapshotStores> {
    let home = environment.var("HOME").map(PathBuf::from);
    Arc::new(SnapshotStores::new(folder, SnapshotLimits::default(), home))
}

/// File of the administrator's rules, which no other rule can widen.
const MANAGED_RULES: &str = "/etc/crow-agent/permissions.json";

/// Returns the store of the user's permission rules, with the administrator's above them.
pub fn rule_store(environment: &ProcessEnvironment) -> Result<RuleStore, AppError> {
    let user = environment.config_dir()?.join("permissions.json");
    Ok(RuleStore::new(user).with_managed(MANAGED_RULES))
}

/// Returns the providers: the built-in ones, the user's in `providers/*.toml`, and those of a trusted project whose
/// names are not among the user's.
pub fn models(
    environment: &ProcessEnvironment,
    of_project: &[ProviderConfig],
) -> Result<ProviderModels, AppError> {
    let folder = environment.config_dir()?.join("providers");
    let mut configs = provider_configs(&folder)?;
    for provider in of_project {
        if configs.iter().all(|own| own.name() != provider.name()) {
            configs.push(provider.clone());
        }
    }
    let client = HttpClient::new(Proxies::from_lookup(|name| environment.var(name)));
    let lookup = environment.clone();
    let stored = StoredKeys::new(credential_file(environment)?);
    let models = ProviderModels::new(configs, move |name| lookup.var(name), client)?;
    Ok(models.with_folder(folder).with_stored_keys(Arc::new(stored)))
}

/// Returns the file of the user's stored keys.
pub fn credential_file(environment: &ProcessEnvironment) -> Result<CredentialFile, AppError> {
    Ok(CredentialFile::new(&environment.config_dir()?))
}

/// Returns a registry of all tools.
pub fn all_tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    crow_tools::register_builtin(&mut tools);
    tools.register(TypedToolAdapter::new(TaskComplete::default()));
    tools
}

/// Reads the `*.toml` files of a folder, in the order of their names. An absent folder has none.
fn provider_configs(folder: &Path) -> Result<Vec<ProviderConfig>, AppError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(AppError::usage(format!("cannot read {}: {error}", folder.display())));
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // Hidden files are locks and editors' backups.
    let is_hidden = |path: &Path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "toml") && !is_hidden(path)
    });
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path)
            .map_err(|error| AppError::usage(format!("cannot read {}: {error}", path.display())))?;
        ProviderConfig::parse(path, &text)
            .map_err(|error| AppError { code: "config", ..AppError::usage(error.to_string()) })
    };
    paths.iter().map(read).collect()
}
