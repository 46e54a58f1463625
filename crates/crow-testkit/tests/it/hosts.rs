//! Test of the scripted host.

use crow_core::tool::ToolRegistry;
use crow_runtime::RuntimeConfig;
use crow_testkit::{
    host::{ScriptedHost, check_host},
    scripted::{ScriptedModel, reply, text},
};

#[tokio::test]
async fn the_scripted_host_passes_the_host_checks() {
    let model = ScriptedModel::new([reply([text("Something.")])]);
    let host = ScriptedHost::new(model, ToolRegistry::new(), RuntimeConfig::default());
    let folder = tempfile::tempdir().unwrap();
    check_host(&host, folder.path()).await;
    assert_eq!(host.requests()[0], "create");
}
