//! A running process: reads its output, waits for it, and ends what it leaves behind.
//!
//! In a sandbox with an init, that reports when the command and everything it started has ended; its own exit is
//! awaited in the background.
//!
//! Three things may outlive the first process: members of its group, orphans outside of the group (found by
//! the mark in their environment), and others that hold the output pipe open. After the exit or a timeout,
//! group and orphans get SIGTERM, and SIGKILL after [`TERM_GRACE`].

use std::{
    io,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{Containment, ProcessEnd, ProcessError, QuarantinedFile, RefusedHost},
    tool::Progress,
};
use tokio::{
    net::unix::pipe,
    time::{MissedTickBehavior, interval_at, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    command_process::CommandProcess, group::ProcessGroup, live_output::LiveOutput,
    output::OutputBuffer,
};
use crate::orphans::{self, CommandMark, OrphanForce};
use crate::sandbox::{SandboxedCommand, process_end};

/// Time for a group to end by itself after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// Time to wait until killed processes are gone.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// Time to wait for output when the process has exited and something else still holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// Interval of the autorun guard's checks while a process runs.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;
/// Number of SIGKILL.
const KILLED: i32 = 9;

/// Receiver of a process's output.
pub(super) trait OutputSink: Send {
    /// Adds the next bytes of the stream.
    fn push(&mut self, bytes: &[u8]);

    /// Returns the pause before the next read, so that endless output leaves time for other tasks.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

impl OutputSink for OutputBuffer {
    fn push(&mut self, bytes: &[u8]) {
        Self::push(self, bytes);
    }
}

/// Running process with its output pipe, group and sandbox.
pub(super) struct RunningProcess<S> {
    child: CommandProcess,
    group: ProcessGroup,
    mark: CommandMark,
    pipe: pipe::Receiver,
    sink: S,
    chunk: Vec<u8>,
    /// True if the other end of the pipe is closed.
    drained: bool,
    live: LiveOutput,
    timeout: Duration,
    /// Time at which SIGTERM turns into SIGKILL; set at the first SIGTERM.
    grace: Option<Instant>,
    sandboxed_command: Option<SandboxedCommand>,
    /// True if the process is an init that has reported the command's end, and has perhaps not exited yet.
    has_reported: bool,
}

/// Parts of a [`RunningProcess`].
pub(super) struct ProcessParts<S> {
    pub child: CommandProcess,
    pub group: ProcessGroup,
    pub mark: CommandMark,
    pub pipe: pipe::Receiver,
    pub sink: S,
    pub progress: Progress,
    pub timeout: Duration,
    pub sandboxed_command: Option<SandboxedCommand>,
}

/// Ended process; everything that it had started has ended, too.
pub(super) struct EndedProcess<S> {
    pub end: ProcessEnd,
    pub left_running: bool,
    pub detached: usize,
    pub sink: S,
    pub containment: Containment,
    pub put_aside: Vec<QuarantinedFile>,
    pub refused_hosts: Vec<RefusedHost>,
}

impl<S: OutputSink> RunningProcess<S> {
    pub(super) fn new(parts: ProcessParts<S>) -> Self {
        let ProcessParts {
            child,
            group,
            mark,
            pipe,
            sink,
            progress,
            timeout,
            sandboxed_command: confined,
        } = parts;
        Self {
            child,
            group,
            mark,
            pipe,
            sink,
            chunk: vec![0; CHUNK],
            drained: false,
            live: LiveOutput::new(progress),
            timeout,
            grace: None,
            sandboxed_command: confined,
            has_reported: false,
        }
    }

    /// Returns the id of the process, as this program sees it.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Reads output until the process exits, times out or is cancelled, and ends what it leaves behind.
    pub(super) async fn end(
        mut self,
        cancellation: &CancellationToken,
    ) -> Result<EndedProcess<S>, ProcessError> {
        let end = self.wait(cancellation).await;
        self.live.finish();
        let end = end?;
        if self.has_reported {
            // Only init was in this group, and it is exiting.
            self.group.forget();
        } else {
            self.mark.on_reaped();
        }
        let left_running = self.end_rest().await;
        let detached = self.mark.on_end();
        let mut ended = EndedProcess {
            end,
            left_running,
            detached,
            sink: self.sink,
            containment: Containment::None,
            put_aside: Vec::new(),
            refused_hosts: Vec::new(),
        };
        if let Some(mut confined) = self.sandboxed_command.take() {
            ended.add_sandbox_results(&mut confined);
            if self.has_reported {
                let (mut child, mut mark) = (self.child, self.mark);
                confined.exit_in_background(async move {
                    if child.wait().await.is_ok() {
                        mark.on_reaped();
                    }
                });
            }
        }
        Ok(ended)
    }

    async fn wait(&mut self, cancellation: &CancellationToken) -> Result<ProcessEnd, ProcessError> {
        let deadline = sleep(self.timeout);
        tokio::pin!(deadline);
        let mut checks = interval_at((Instant::now() + CHECK_EVERY).into(), CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => return self.stop(ProcessEnd::Cancelled).await,
                () = &mut deadline => return self.stop(ProcessEnd::TimedOut).await,
                _ = checks.tick(), if self.sandboxed_command.is_some() => self.check(),
                () = wait_until(self.live.due()) => self.live.report(),
                read = read_later(self.sink.pause(), &self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                () = report_of(&mut self.sandboxed_command) => {
                    self.drain().await;
                    self.has_reported = self.can_exit_in_background();
                    if !self.has_reported {
                        self.child.wait().await.map_err(ProcessError::Watch)?;
                    }
                    // The sandbox's report says how it ended.
                    return Ok(ProcessEnd::Exited(0));
                }
                status = self.child.wait() => {
                    let status = status.map_err(ProcessError::Watch)?;
                    self.drain().await;
                    return Ok(process_end(status));
                }
            }
        }
    }

    fn can_exit_in_background(&self) -> bool {
        self.sandboxed_command.as_ref().is_some_and(SandboxedCommand::can_exit_in_background)
    }

    /// Checks for files that start programs and that the command should not have made. Takes some tenths of
    /// a millisecond.
    fn check(&mut self) {
        if let Some(confined) = &self.sandboxed_command {
            confined.check();
        }
    }

    fn take(&mut self, read: &io::Result<usize>) {
        match read {
            Ok(0) | Err(_) => self.drained = true,
            Ok(count) => {
                let bytes = &self.chunk[..*count];
                self.sink.push(bytes);
                self.live.push(bytes);
            }
        }
    }

    /// Reads the remaining output, at most for [`DRAIN`]: another process may hold the pipe open.
    async fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN;
        while !self.drained {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match timeout(remaining, read_some(&self.pipe, &mut self.chunk)).await {
                Ok(read) => self.take(&read),
                Err(_) => return,
            }
        }
    }

    /// Sends SIGTERM to the group, and SIGKILL if it does not end in time.
    async fn stop(&mut self, end: ProcessEnd) -> Result<ProcessEnd, ProcessError> {
        self.group.terminate();
        self.mark.end_orphans(OrphanForce::Ask);
        let deadline = self.grace();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(deadline.into()) => {
                    self.group.kill();
                    break;
                }
                read = read_some(&self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                // Descendants may need the rest of the grace period; `end_rest` handles them.
                _ = self.child.wait() => break,
            }
        }
        self.child.wait().await.map_err(ProcessError::Watch)?;
        self.drain().await;
        Ok(end)
    }

    /// Ends what the process left behind, in its group and outside of it. Returns true if there was
    /// anything.
    async fn end_rest(&mut self) -> bool {
        let mut any_left = !self.drained;
        let mut pause = Duration::from_millis(1);
        loop {
            let now = Instant::now();
            let force = match self.grace {
                Some(grace) if now >= grace => OrphanForce::Kill,
                Some(_) | None => OrphanForce::Ask,
            };
            // Orphans first: zombies that were not reaped may keep a group alive.
            let orphans = self.mark.end_orphans(force);
            if orphans == 0 && !self.group.is_alive() {
                break;
            }
            any_left = true;
            match force {
                OrphanForce::Ask if self.grace.is_none() => self.group.terminate(),
                OrphanForce::Ask => {}
                OrphanForce::Kill => self.group.kill(),
            }
            // Where orphans are not adopted here, their new parent may never reap them, so there is no
            // extra wait.
            let patience = if orphans::are_adopted() { KILL_GRACE } else { Duration::ZERO };
            if now >= self.grace() + patience {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        self.group.forget();
        any_left
    }

    /// Returns the end of the grace period, which begins with the first call.
    fn grace(&mut self) -> Instant {
        *self.grace.get_or_insert_with(|| Instant::now() + TERM_GRACE)
    }
}

impl<S> EndedProcess<S> {
    /// Adds the results of the sandbox: true exit status, refused hosts, files put aside.
    fn add_sandbox_results(&mut self, confined: &mut SandboxedCommand) {
        let report = confined.end();
        if let ProcessEnd::Exited(_) | ProcessEnd::Signaled(_) = self.end
            && confined.ends_descendants()
        {
            // The awaited process was only the command's init; the init reports the command's own status.
            self.end = report.map_or(ProcessEnd::Signaled(KILLED), |report| report.end);
        }
        self.left_running |= report.is_some_and(|report| report.left_running);
        self.put_aside = confined.put_aside();
        self.refused_hosts = confined.refused_hosts();
        self.containment = confined.containment().clone();
    }
}

/// Waits for the report that a command has ended and left nothing behind; forever without a sandbox.
async fn report_of(confined: &mut Option<SandboxedCommand>) {
    match confined {
        Some(confined) => confined.wait_for_report().await,
        None => std::future::pending().await,
    }
}

/// Waits until a moment; forever if there is none.
async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Reads after a pause. A zero pause does not wait for the timer's next tick.
async fn read_later(pause: Duration, pipe: &pipe::Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    if !pause.is_zero() {
        sleep(pause).await;
    }
    read_some(pipe, chunk).await
}

/// Reads available bytes, or waits for some.
async fn read_some(pipe: &pipe::Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}
