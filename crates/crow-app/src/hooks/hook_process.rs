//! Running of one hook: its input, its output within bounds, and its end.

use std::{collections::BTreeMap, io, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use crow_core::capability::{
    OutputTail, PipedProcess, PipedProcesses, PipedSpec, ProcessEnd, ProcessError,
};
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _, future::join, io::AsyncRead};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::answer::HookPrint;

/// Maximum number of bytes that a hook may print to standard output.
const MOST_OUTPUT: usize = 1 << 20;
/// Number of bytes from the end of its standard error that are kept.
const ERROR_TAIL: usize = 16 * 1024;
/// Time for the rest of the output after the end of a hook.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// A hook that is about to run.
#[derive(Debug)]
pub(super) struct HookRun {
    pub(super) argv: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<String, String>,
    pub(super) input: Arc<[u8]>,
    pub(super) timeout: Duration,
}

/// Why a hook gave no answer.
#[derive(Debug)]
pub(super) struct HookRunError {
    /// A part of a sentence.
    pub(super) message: String,
    /// True if there is no such program.
    pub(super) is_missing: bool,
}

impl From<String> for HookRunError {
    fn from(message: String) -> Self {
        Self { message, is_missing: false }
    }
}

impl From<ProcessError> for HookRunError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Start { source, .. } => Self {
                message: format!("it cannot be started: {source}"),
                is_missing: source.kind() == io::ErrorKind::NotFound,
            },
            error => error.to_string().into(),
        }
    }
}

impl HookRun {
    /// Runs the hook to its end. It and all that it started are ended when its time is over, when it prints too much, and when
    /// `cancellation` is cancelled. The error says how it failed.
    pub(super) async fn execute(
        self,
        processes: &dyn PipedProcesses,
        cancellation: &CancellationToken,
    ) -> Result<HookPrint, HookRunError> {
        let Self { argv, cwd, env, input, timeout } = self;
        let token = cancellation.child_token();
        // Whatever happens to this future, the hook ends with it.
        let _ends = token.clone().drop_guard();
        let stderr_tail = OutputTail::new(ERROR_TAIL);
        let spec = PipedSpec { argv, cwd, env, stderr_tail: stderr_tail.clone() };
        let started = processes.start(spec, token.clone()).await?;
        let PipedProcess { input: mut stdin, output, mut end } = started;
        // 1) Input and output at the same time: a hook may print before it has read everything, or read nothing.
        let write = async move {
            // A hook that does not read its input closes the pipe.
            let _is_read = stdin.write_all(&input).await.is_ok() && stdin.close().await.is_ok();
            drop(stdin);
        };
        let mut streams = pin!(join(write, read_output(output)));
        let mut deadline = pin!(sleep(timeout));
        let (mut read, mut is_overdue) = (None, false);
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut end => break ended,
                ((), output) = &mut streams, if read.is_none() => {
                    if output.is_none() {
                        token.cancel();
                    }
                    read = Some(output);
                }
                () = &mut deadline, if !is_overdue => {
                    is_overdue = true;
                    token.cancel();
                }
            }
        };
        // 2) The rest of the output.
        let output = if let Some(output) = read {
            output
        } else {
            let rest = tokio::time::timeout(LAST_OUTPUT, streams).await;
            rest.map_or_else(|_| Some(Vec::new()), |((), output)| output)
        };
        let Some(stdout) = output else {
            let message = format!("it printed more than {} KiB and was ended", MOST_OUTPUT >> 10);
            return Err(message.into());
        };
        let end = ended?;
        if is_overdue && end == ProcessEnd::Cancelled {
            return Err(format!("it took more than {timeout:?} and was ended").into());
        }
        Ok(HookPrint { end, stdout, stderr: stderr_tail.to_text() })
    }
}

/// Returns all output, or nothing if it is too long.
async fn read_output(mut output: Box<dyn AsyncRead + Send + Unpin>) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match output.read(&mut chunk).await {
            Ok(0) | Err(_) => return Some(all),
            Ok(count) => all.extend_from_slice(&chunk[..count]),
        }
        if all.len() > MOST_OUTPUT {
            return None;
        }
    }
}
