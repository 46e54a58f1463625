//! The signals that a run or a chat listens to.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Stop what you are doing: ctrl-c.
    Interrupt,
    /// End: the terminal is gone, or somebody wants the process to end.
    End,
    /// The process goes on after it was stopped.
    Continue,
}

/// The signals that end a run, but a hang-up that whoever started the program wants to be ignored (`nohup`).
pub(crate) struct Signals(Vec<(Wish, Signal)>);

impl Signals {
    pub(crate) fn new() -> Result<Self, CliError> {
        let kinds =
            [(Wish::Interrupt, SignalKind::interrupt()), (Wish::End, SignalKind::terminate())];
        let hangup = (!is_ignored(SignalKind::hangup())).then_some(SignalKind::hangup());
        let wanted = kinds.into_iter().chain(hangup.map(|kind| (Wish::End, kind)));
        wanted.map(|(wish, kind)| listen(wish, kind)).collect::<Result<_, _>>().map(Self)
    }

    /// Listens as well to what comes after a stop: others may have changed the terminal meanwhile.
    pub(crate) fn with_continue(mut self) -> Result<Self, CliError> {
        let kind = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        self.0.push(listen(Wish::Continue, kind)?);
        Ok(self)
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Wish {
        let received = self.0.iter_mut().map(|(wish, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *wish
            })
        });
        if received.len() == 0 {
            return std::future::pending().await;
        }
        futures_util::future::select_all(received).await.0
    }
}

fn listen(wish: Wish, kind: SignalKind) -> Result<(Wish, Signal), CliError> {
    let signal = signal(kind)
        .map_err(|error| CliError::failed(format!("signals cannot be received: {error}")))?;
    Ok((wish, signal))
}

/// Returns whether a signal that nobody listens to is ignored: not where the system does not say.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}
