//! Runs cases, a few at a time, and checks what the machine supports.

use std::{fs, sync::OnceLock};

use futures_util::StreamExt as _;
use tokio::sync::Semaphore;

use crate::{
    attack::Attack,
    scene::{Kernel, Scene},
};

/// Limits the programs that run at once, over all tests of this process.
static RUNNING: Semaphore = Semaphore::const_new(3);

/// Runs all cases, or those whose name contains `CROW_ATTACK`, and panics with the violations.
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

/// Returns true if the kernel has all layers of the sandbox. If not, the skip of `subject` is printed; with
/// `CROW_SANDBOX=whole`, as in CI, the test fails; with `CROW_SANDBOX=tried` the cases run anyway.
pub(crate) fn has_full_sandbox(subject: &str) -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORTED.get_or_init(|| {
        let scene = Scene::new();
        let doctor = scene.program(&["doctor".to_owned()]).output().unwrap();
        String::from_utf8_lossy(&doctor.stdout).contains("namespaces, Landlock and seccomp confine")
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

/// Returns true if the program can be run where only a part of the sandbox is available. If not, the skip of `subject` is
/// printed; with `CROW_SANDBOX=whole`, as in CI, the test fails.
pub(crate) fn has_partial_sandbox(subject: &str) -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORTED.get_or_init(|| {
        let scene = Scene::new();
        let doctor = scene.program_on(Kernel::WithoutNamespaces, &["doctor".to_owned()]).output();
        let partial = "Landlock and seccomp confine commands, namespaces do not";
        doctor.is_ok_and(|doctor| String::from_utf8_lossy(&doctor.stdout).contains(partial))
    });
    if !supported {
        let wanted = std::env::var("CROW_SANDBOX").unwrap_or_default();
        assert_ne!(wanted, "whole", "no partial sandbox can be arranged: {subject}");
        note(&format!("SKIPPED, no partial sandbox can be arranged: {subject}"));
    }
    supported
}

/// Returns true if a program is installed. If not, the skip is printed.
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

/// Prints a note for readers of the test output.
#[expect(clippy::print_stderr, reason = "what was left out must be seen")]
fn note(text: &str) {
    eprintln!("{text}");
}
