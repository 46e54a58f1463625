//! Processes with piped input and output.

use std::{collections::BTreeMap, time::Duration};

use crow_core::capability::{
    OutputTail, PipedProcess, PipedProcesses as _, PipedSpec, ProcessEnd, ProcessError,
};
use crow_sandbox::ProcessRunner;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_util::{
    compat::{FuturesAsyncReadCompatExt as _, FuturesAsyncWriteCompatExt as _},
    sync::CancellationToken,
};

use crow_testkit::processes::has_ended_within_5s;

fn spec(script: &str) -> PipedSpec {
    PipedSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        cwd: "/".into(),
        env: BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]),
        stderr_tail: OutputTail::new(64),
    }
}

async fn start(spec: PipedSpec, cancel: &CancellationToken) -> PipedProcess {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let runner = ProcessRunner::new(BTreeMap::from([path]));
    runner.start(spec, cancel.clone()).await.unwrap()
}

async fn line(output: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> String {
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

#[tokio::test]
async fn output_and_errors_of_a_piped_process_are_separate() {
    let spec = spec("while read l; do echo \"got $l$EXTRA\"; echo \"err $l\" >&2; done; exit 4");
    let errors = spec.stderr_tail.clone();
    let process = start(spec, &CancellationToken::new()).await;
    let (mut input, mut output) =
        (process.input.compat_write(), BufReader::new(process.output.compat()));
    let talk = async {
        for word in ["a", "b"] {
            input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
            assert_eq!(line(&mut output).await, format!("got {word}1"));
        }
        drop(input);
    };
    let (end, ()) = tokio::join!(process.end, talk);
    assert_eq!(
        (end.unwrap(), errors.to_text().as_str()),
        (ProcessEnd::Exited(4), "err a\nerr b\n")
    );
}

#[tokio::test]
async fn a_cancelled_piped_process_is_ended_with_its_children() {
    let cancel = CancellationToken::new();
    let process = start(spec("sleep 100 & echo $!; trap '' TERM; wait; wait"), &cancel).await;
    let mut output = BufReader::new(process.output.compat());
    let pid = line(&mut output).await;
    cancel.cancel();
    let end = tokio::time::timeout(Duration::from_secs(2), process.end).await;
    assert_eq!(end.unwrap().unwrap(), ProcessEnd::Cancelled);
    assert!(has_ended_within_5s(&pid).await);
}

#[tokio::test]
async fn a_dropped_piped_process_is_killed_with_its_group() {
    let process = start(spec("sleep 100 & echo $!; wait"), &CancellationToken::new()).await;
    let mut output = BufReader::new(process.output.compat());
    let pid = line(&mut output).await;
    drop(process.end);
    assert!(has_ended_within_5s(&pid).await);
}

#[tokio::test]
async fn a_start_error_of_a_piped_process_names_the_missing_program() {
    let runner = ProcessRunner::new(BTreeMap::new());
    let spec = PipedSpec { argv: vec!["no-such-program".to_owned()], ..spec("") };
    let error = runner.start(spec, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, ProcessError::Start { program, .. } if program == "no-such-program"));
}
