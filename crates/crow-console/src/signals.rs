//! The signals that a run or a chat handles.

use std::io;

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Meaning of a signal for a run or a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalAction {
    /// Stop the current work: ctrl-c.
    Interrupt,
    /// End the process: SIGTERM, or SIGHUP because the terminal is gone.
    End,
    /// The process was continued after a stop.
    Continue,
}

/// Listeners for the signals that end a run. SIGHUP is excluded if the parent process set it to be ignored (`nohup`).
#[derive(Debug)]
pub struct Signals(Vec<(SignalAction, Signal)>);

impl Signals {
    /// Creates the listeners. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Fails if the system refuses a listener.
    pub fn new() -> io::Result<Self> {
        let kinds = [
            (SignalAction::Interrupt, SignalKind::interrupt()),
            (SignalAction::End, SignalKind::terminate()),
        ];
        let hangup = (!is_ignored(SignalKind::hangup())).then_some(SignalKind::hangup());
        let selected = kinds.into_iter().chain(hangup.map(|kind| (SignalAction::End, kind)));
        selected.map(|(action, kind)| listen(action, kind)).collect::<Result<_, _>>().map(Self)
    }

    /// Adds SIGCONT: other programs may have changed the terminal while the process was stopped.
    ///
    /// # Errors
    /// Fails if the system refuses the listener.
    pub fn with_continue(mut self) -> io::Result<Self> {
        let kind = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        self.0.push(listen(SignalAction::Continue, kind)?);
        Ok(self)
    }

    /// Discards interrupts that have arrived but were not waited for.
    pub fn forget_pending(&mut self) {
        for (action, signal) in &mut self.0 {
            if *action == SignalAction::Interrupt {
                while signal.recv().now_or_never().flatten().is_some() {}
            }
        }
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> SignalAction {
        let received = self.0.iter_mut().map(|(action, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *action
            })
        });
        if received.len() == 0 {
            return std::future::pending().await;
        }
        futures_util::future::select_all(received).await.0
    }
}

fn listen(action: SignalAction, kind: SignalKind) -> io::Result<(SignalAction, Signal)> {
    let signal = signal(kind).map_err(|error| {
        io::Error::new(error.kind(), format!("signals cannot be received: {error}"))
    })?;
    Ok((action, signal))
}

/// Returns true if the signal disposition is "ignore". Must be called before a listener for it exists. Returns false if
/// `/proc/self/status` is not available.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Waits for a signal that ends the program.
pub async fn end_signal(mut signals: Signals) {
    loop {
        match signals.next().await {
            SignalAction::Interrupt | SignalAction::End => return,
            SignalAction::Continue => {}
        }
    }
}
