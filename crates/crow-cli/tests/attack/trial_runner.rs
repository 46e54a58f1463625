//! Trying cases, as many at once as the machine bears.

use std::{fs, sync::OnceLock};

use futures_util::StreamExt as _;
use tokio::sync::Semaphore;

use crate::{attack::Attack, scene::Scene};

/// How many programs run at once, of all tests of this process.
static RUNNING: Semaphore = Semaphore::const_new(3);

/// Tries all cases, and fails with the names of those that went wrong.
pub(crate) async fn try_all(cases: Vec<Attack>) {
    let count = cases.len();
    let only = std::env::var("CROW_ATTACK").unwrap_or_default();
    let cases = cases.into_iter().filter(|case| case.name().contains(&only));
    let judged = futures_util::stream::iter(cases).map(async |case| {
        let _permit = RUNNING.acquire().await.unwrap();
        (case.name().to_owned(), case.judge().await)
    });
    let judged: Vec<_> = judged.buffer_unordered(3).collect().await;
    let wrong: Vec<_> = judged.iter().filter(|(_, wrong)| !wrong.is_empty()).collect();
    let text: Vec<_> =
        wrong.iter().map(|(name, wrong)| format!("{name}\n  {}", wrong.join("\n  "))).collect();
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), text.join("\n"));
}

/// Whether the kernel of this machine has all layers of the sandbox. Where it has not, cases that need them say so; where
/// `CROW_SANDBOX` is `whole`, as in CI, they fail; where it is `tried`, they are tried all the same.
pub(crate) fn has_full_sandbox(subject: &str) -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORTED.get_or_init(|| {
        let scene = Scene::new();
        let doctor = scene.program(&["doctor".to_owned()]).output().unwrap();
        String::from_utf8_lossy(&doctor.stdout).contains("namespaces, Landlock and seccomp hold")
    });
    if !supported {
        let wanted = std::env::var("CROW_SANDBOX").unwrap_or_default();
        assert_ne!(wanted, "whole", "this kernel has no whole sandbox: {subject}");
        if wanted == "tried" {
            return true;
        }
        note(&format!("SKIPPED, this kernel has no whole sandbox: {subject}"));
    }
    supported
}

/// Whether a program is there; if not, it is said.
pub(crate) fn is_installed(program: &str) -> bool {
    let cargo = std::path::Path::new(env!("CARGO")).parent().unwrap().to_path_buf();
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"].map(std::path::PathBuf::from);
    let found =
        folders.into_iter().chain([cargo]).any(|folder| fs::metadata(folder.join(program)).is_ok());
    if !found {
        note(&format!("SKIPPED, there is no {program}"));
    }
    found
}

/// Says something that the reader of a test's output should know.
#[expect(clippy::print_stderr, reason = "what was left out must be seen")]
fn note(text: &str) {
    eprintln!("{text}");
}
