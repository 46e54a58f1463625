//! A trial of the sandbox.

use std::path::Path;

use crow_core::capability::Containment;
use crow_runtime::{Sandbox, SandboxConfig};

/// Sets up a sandbox as a session in `cwd` would. Returns its containment, and the reason if it is not full (else
/// empty).
pub async fn probe_containment(mut config: SandboxConfig, cwd: &Path) -> (Containment, String) {
    config.folder = config.folder.join("trial");
    let name = std::process::id().to_string();
    let sandbox = Sandbox::new(config, name, vec![cwd.to_path_buf()]);
    let containment = sandbox.containment().await;
    (containment, sandbox.reason().await.unwrap_or_default())
}
