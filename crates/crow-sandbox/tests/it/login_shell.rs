//! Variables that a login shell exports, for an agent that was not started from a shell.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crow_core::{
    capability::{OutputLimits, ProcessError, ProcessOutcome, ProcessSpec, Processes as _},
    tool::Progress,
};
use crow_sandbox::{ChildEnvironment, ProcessRunner};
use tokio_util::sync::CancellationToken;

use crow_testkit::processes::has_ended_within_5s;

/// Writes a shell script that logs each start in the file `asked`, runs `profile` and then the command it was given.
fn shell(folder: &Path, profile: &str) -> PathBuf {
    let path = folder.join("shell");
    let shell_starts = folder.join("asked");
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" $$ >> {}\n{profile}\nexec sh -c \"$3\"\n",
        shell_starts.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn shell_starts(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn base() -> ChildEnvironment {
    let base = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("BASE", "1"), ("BOTH", "base")];
    let base = base.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BTreeMap::from(base).into()
}

fn spec() -> ProcessSpec {
    ProcessSpec {
        argv: ["sh", "-c", "echo $BASE $BOTH $LOGIN $SECRET"].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        timeout: Duration::from_secs(20),
        output: OutputLimits { head: 1024, tail: 1024, spill: None, spill_cap: 0 },
        progress: Progress::default(),
        only_reads: false,
    }
}

async fn run(environment: &ChildEnvironment) -> Result<ProcessOutcome, ProcessError> {
    ProcessRunner::new(environment.clone()).run(spec(), CancellationToken::new()).await
}

async fn printed(environment: &ChildEnvironment) -> String {
    String::from_utf8(run(environment).await.unwrap().output.head).unwrap()
}

#[tokio::test]
async fn exported_variables_are_read_once_filtered_and_given_to_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let profile = "echo welcome; echo oops >&2; export BOTH=login LOGIN=2 SECRET=3";
    let shell = shell(folder.path(), profile);
    let environment = base().with_login_shell(shell, |name, _| name != "SECRET");
    assert_eq!(shell_starts(folder.path()).len(), 0);
    let (first, second) = tokio::join!(printed(&environment), printed(&environment));
    assert_eq!((first.as_str(), second.as_str()), ("1 login 2\n", "1 login 2\n"));
    assert_eq!(printed(&environment).await, "1 login 2\n");
    let shell_starts = shell_starts(folder.path());
    assert!(shell_starts.len() == 1 && shell_starts[0].starts_with("-l -c "), "{shell_starts:?}");
}

#[tokio::test]
async fn a_login_shell_that_fails_adds_no_variables() {
    let folder = tempfile::tempdir().unwrap();
    let missing = base().with_login_shell(folder.path().join("none"), |_, _| true);
    assert_eq!(printed(&missing).await, "1 base\n");
    let failing = shell(folder.path(), "export LOGIN=2; exit 1");
    let failing = base().with_login_shell(failing, |_, _| true);
    assert_eq!(
        (printed(&failing).await, printed(&failing).await),
        ("1 base\n".into(), "1 base\n".into())
    );
    assert_eq!(shell_starts(folder.path()).len(), 1);
}

#[tokio::test]
async fn a_cancelled_login_shell_is_ended_and_started_again_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let profile = format!("[ -e {} ] || sleep 1000; export LOGIN=2", gate.display());
    let environment = base().with_login_shell(shell(folder.path(), &profile), |_, _| true);
    let token = CancellationToken::new();
    let runner = ProcessRunner::new(environment.clone());
    let cancel = async {
        while shell_starts(folder.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        token.cancel();
    };
    let (outcome, ()) = tokio::join!(runner.run(spec(), token.clone()), cancel);
    assert!(matches!(outcome, Err(ProcessError::Cancelled)), "{outcome:?}");
    let pid = shell_starts(folder.path())[0].rsplit(' ').next().unwrap().to_owned();
    assert!(has_ended_within_5s(&pid).await);
    fs::write(gate, "").unwrap();
    assert_eq!(printed(&environment).await, "1 base 2\n");
}
