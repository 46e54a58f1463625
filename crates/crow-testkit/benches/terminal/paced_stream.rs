//! A long reply that the server sends at a fixed rate.

use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crow_testkit::{DeltaSize, Fault, ScriptStep, ScriptedReply, StreamGate};

use crate::chat_program::wait_for_arrival;

/// Deltas per second.
const RATE: usize = 5000;
/// Events before the first delta.
const OPENING_EVENTS: usize = 3;
/// Part of the reply: what answers of coding agents consist of. No row of it looks like a prompt.
const CHAPTER: &str = "\
## What the session does at its end

The loop in `src/session/loop.rs` waits for **two** things: the end of the reply, and the end of every call that it made. It \
asks the *store* to write what is left, and only then tells [the host](https://example.com/host) that nothing more will come.

- A call that was stopped has an answer in the history, so that the model knows about it.
- A call that goes on is told to stop, and gets *five seconds* for that.
  - Its process group is killed after that time.
- What the log could not take is kept until the next write, and counted.

```rust
pub fn finish(&mut self, reason: StopReason) -> Result<(), SessionError> {
    let pending = self.calls.drain(..).filter(|call| !call.is_done());
    for call in pending {
        call.cancel(&reason)?;
    }
    self.store.flush().map_err(SessionError::Store)
}
```

| field | meaning | default |
|---|---|---|
| `grace` | time for calls to stop | 5 s |
| `flush` | writes the log at the end | true |

1. First the calls are stopped, in the order in which they were made.
2. Then the log is written, with a note if something of it was lost.

";

/// When the deltas of a stream are sent. Each is written by itself.
#[derive(Clone, Copy)]
pub(crate) enum DeltaSpacing {
    /// Five each millisecond, one after the other.
    Groups,
    /// One every 200 microseconds.
    Even,
}

impl DeltaSpacing {
    fn group(self) -> usize {
        match self {
            Self::Groups => RATE / 1000,
            Self::Even => 1,
        }
    }
}

/// A reply that waits before its first event and after its last delta.
pub(crate) struct PacedStream {
    deltas: usize,
    spacing: DeltaSpacing,
    pace: StreamGate,
    end: StreamGate,
}

/// How a stream was sent.
pub(crate) struct SentStream {
    pub(crate) duration: Duration,
    /// Deltas per second.
    pub(crate) rate: f64,
}

impl PacedStream {
    pub(crate) fn new(duration: Duration, spacing: DeltaSpacing) -> Self {
        let deltas = RATE * usize::try_from(duration.as_millis()).unwrap() / 1000;
        Self { deltas, spacing, pace: StreamGate::new(), end: StreamGate::new() }
    }

    /// Returns the step of the server's script.
    pub(crate) fn step(&self) -> ScriptStep {
        ScriptedReply::new().text(text_of(self.deltas)).with(Fault::Gated(self.pace.clone())).with(
            Fault::StallAfter { events: self.deltas + OPENING_EVENTS, gate: self.end.clone() },
        )
    }

    /// Starts the stream. The thread returns the time at which the last delta was due.
    pub(crate) fn start(&self) -> StartedStream<'_> {
        let (pace, mut left) = (self.pace.clone(), self.deltas + OPENING_EVENTS);
        let group = self.spacing.group();
        let period =
            Duration::from_secs(1) * u32::try_from(group).unwrap() / u32::try_from(RATE).unwrap();
        let started = Instant::now();
        let pacing = thread::spawn(move || {
            let mut due = started;
            while left > 0 {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                pace.release(group.min(left));
                left = left.saturating_sub(group);
                due += period;
            }
            pace.open();
            Instant::now()
        });
        StartedStream { stream: self, started, pacing }
    }
}

/// A stream that is being sent.
pub(crate) struct StartedStream<'a> {
    stream: &'a PacedStream,
    started: Instant,
    pacing: JoinHandle<Instant>,
}

impl StartedStream<'_> {
    /// Waits until the last delta was sent.
    ///
    /// # Panics
    /// If the last delta was due before `busy_until`.
    pub(crate) async fn wait(self, busy_until: Instant) -> SentStream {
        wait_for_arrival(&self.stream.end).await;
        let duration = self.started.elapsed();
        assert!(self.pacing.join().unwrap() > busy_until, "the stream ended too early");
        SentStream { duration, rate: self.stream.deltas as f64 / duration.as_secs_f64() }
    }
}

impl PacedStream {
    /// Ends the reply.
    pub(crate) fn end(&self) {
        self.end.open();
    }
}

/// Returns a text that the server cuts into so many deltas.
pub(crate) fn text_of(deltas: usize) -> String {
    // Where two chapters meet, two deltas become one.
    let fewest = DeltaSize::Words.cut(CHAPTER).len() - 1;
    let text = CHAPTER.repeat(deltas.div_ceil(fewest) + 1);
    let text: String = DeltaSize::Words.cut(&text).into_iter().take(deltas).collect();
    assert_eq!(DeltaSize::Words.cut(&text).len(), deltas);
    text
}
