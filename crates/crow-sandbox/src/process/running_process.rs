//! A process under way, and its end.

use std::{
    io,
    time::{Duration, Instant},
};

use crow_core::{
    capability::{Containment, ProcessEnd, ProcessError, PutAside, RefusedHost},
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
use crate::sandbox::SandboxedCommand;

/// How long a group may take to end by itself after it was asked to.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long is waited for what was killed to be gone.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// How long output is waited for when the process has exited and something else still holds the pipe.
const DRAIN: Duration = Duration::from_millis(200);
/// How often is looked, while a process runs, for files that it should not have made.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// How much is read at once.
const CHUNK: usize = 16 * 1024;
/// The signal that cannot be caught.
const KILLED: i32 = 9;

/// Takes what a process prints.
pub(super) trait OutputSink: Send {
    /// Takes in the next bytes of the stream.
    fn push(&mut self, bytes: &[u8]);

    /// Returns how long to wait before more is read, so that a process that prints without end leaves time for others.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

impl OutputSink for OutputBuffer {
    fn push(&mut self, bytes: &[u8]) {
        Self::push(self, bytes);
    }
}

/// A process under way.
pub(super) struct RunningProcess<S> {
    child: CommandProcess,
    group: ProcessGroup,
    mark: CommandMark,
    pipe: pipe::Receiver,
    sink: S,
    chunk: Vec<u8>,
    /// Whether the other end of the pipe is closed.
    drained: bool,
    live: LiveOutput,
    timeout: Duration,
    /// Until when what was asked to end may take its time.
    grace: Option<Instant>,
    confined: Option<SandboxedCommand>,
}

/// What a process under way is made of.
pub(super) struct ProcessParts<S> {
    pub child: CommandProcess,
    pub group: ProcessGroup,
    pub mark: CommandMark,
    pub pipe: pipe::Receiver,
    pub sink: S,
    pub progress: Progress,
    pub timeout: Duration,
    pub confined: Option<SandboxedCommand>,
}

/// A process that has ended with all that it had started.
pub(super) struct EndedProcess<S> {
    pub end: ProcessEnd,
    pub left_running: bool,
    pub detached: usize,
    pub sink: S,
    pub containment: Containment,
    pub put_aside: Vec<PutAside>,
    pub refused_hosts: Vec<RefusedHost>,
}

impl<S: OutputSink> RunningProcess<S> {
    pub(super) fn new(parts: ProcessParts<S>) -> Self {
        let ProcessParts { child, group, mark, pipe, sink, progress, timeout, confined } = parts;
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
            confined,
        }
    }

    /// Reads output until the process exits, its time is up, or it is cancelled, and ends what it leaves behind.
    pub(super) async fn end(
        mut self,
        cancellation: &CancellationToken,
    ) -> Result<EndedProcess<S>, ProcessError> {
        let end = self.wait(cancellation).await;
        self.live.finish();
        let end = end?;
        self.mark.on_reaped();
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
        if let Some(confined) = self.confined.take() {
            ended.tell(confined);
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
                _ = checks.tick(), if self.confined.is_some() => self.check(),
                () = until(self.live.due()) => self.live.report(),
                read = read_later(self.sink.pause(), &self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                status = self.child.wait() => {
                    let status = status.map_err(ProcessError::Watch)?;
                    self.drain().await;
                    return Ok(end_of(status));
                }
            }
        }
    }

    /// Looks for files that start programs, which it should not have made. Takes some tenths of a millisecond.
    fn check(&mut self) {
        if let Some(confined) = &self.confined {
            confined.check();
        }
    }

    fn take(&mut self, read: &io::Result<usize>) {
        match read {
            Ok(0) | Err(_) => self.drained = true,
            Ok(count) => {
                let bytes = self.chunk.get(..*count).unwrap_or_default();
                self.sink.push(bytes);
                self.live.push(bytes);
            }
        }
    }

    /// Reads what is left. Something that the process started may hold the pipe open: that is not waited for long.
    async fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while !self.drained {
            let left = until.saturating_duration_since(Instant::now());
            match timeout(left, read_some(&self.pipe, &mut self.chunk)).await {
                Ok(read) => self.take(&read),
                Err(_) => return,
            }
        }
    }

    /// Asks the group to end and ends it if it does not.
    async fn stop(&mut self, end: ProcessEnd) -> Result<ProcessEnd, ProcessError> {
        self.group.terminate();
        self.mark.end_orphans(OrphanForce::Ask);
        let until = self.grace();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until.into()) => {
                    self.group.kill();
                    break;
                }
                read = read_some(&self.pipe, &mut self.chunk), if !self.drained => self.take(&read),
                // What the process had started may need the rest of the time: the end of the group sees to it.
                _ = self.child.wait() => break,
            }
        }
        self.child.wait().await.map_err(ProcessError::Watch)?;
        self.drain().await;
        Ok(end)
    }

    /// Ends what the process left behind, in its group and outside of it. Returns whether there was anything.
    async fn end_rest(&mut self) -> bool {
        let mut left = !self.drained;
        let mut pause = Duration::from_millis(1);
        loop {
            let now = Instant::now();
            let force = match self.grace {
                Some(grace) if now >= grace => OrphanForce::Kill,
                Some(_) | None => OrphanForce::Ask,
            };
            // Orphans first: a group may be kept alive by some that have ended and were not waited for.
            let orphans = self.mark.end_orphans(force);
            if orphans == 0 && !self.group.is_alive() {
                break;
            }
            left = true;
            match force {
                OrphanForce::Ask if self.grace.is_none() => self.group.terminate(),
                OrphanForce::Ask => {}
                OrphanForce::Kill => self.group.kill(),
            }
            // Where orphans go elsewhere, those who take them in may never wait for them.
            let patience = if orphans::are_adopted() { KILL_GRACE } else { Duration::ZERO };
            if now >= self.grace() + patience {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        self.group.forget();
        left
    }

    /// Returns until when what was asked to end may take its time; it begins with the first time that this is asked.
    fn grace(&mut self) -> Instant {
        *self.grace.get_or_insert_with(|| Instant::now() + TERM_GRACE)
    }
}

impl<S> EndedProcess<S> {
    /// Adds what the sandbox has to say.
    fn tell(&mut self, mut confined: SandboxedCommand) {
        let told = confined.end();
        if let ProcessEnd::Exited(_) | ProcessEnd::Signaled(_) = self.end
            && confined.ends_all()
        {
            // What was waited for only watched it.
            self.end = told.map_or(ProcessEnd::Signaled(KILLED), |told| told.end);
        }
        self.left_running |= told.is_some_and(|told| told.was_left);
        self.put_aside = confined.put_aside();
        self.refused_hosts = confined.refused_hosts();
        self.containment = confined.containment().clone();
    }
}

/// Ends at a moment; never without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Reads after a pause. No tick of the clock is waited for if there is none.
async fn read_later(pause: Duration, pipe: &pipe::Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    if !pause.is_zero() {
        sleep(pause).await;
    }
    read_some(pipe, chunk).await
}

/// Reads what is there, or waits until something is.
async fn read_some(pipe: &pipe::Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

fn end_of(status: std::process::ExitStatus) -> ProcessEnd {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnd::Exited(code),
        (None, signal) => ProcessEnd::Signaled(signal.unwrap_or(0)),
    }
}
