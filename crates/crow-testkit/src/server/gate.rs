//! A gate by which a test controls a stream.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

/// A gate that holds a stream until the test lets it pass; clones are the same gate.
#[derive(Debug, Clone)]
pub struct StreamGate(Arc<GateInner>);

#[derive(Debug)]
struct GateInner {
    passes: Semaphore,
    arrivals: watch::Sender<usize>,
}

impl Default for StreamGate {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamGate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self(Arc::new(GateInner { passes: Semaphore::new(0), arrivals: watch::Sender::new(0) }))
    }

    /// Lets the next `count` arrivals pass.
    pub fn release(&self, count: usize) {
        self.0.passes.add_permits(count);
    }

    /// Lets all arrivals pass from now on.
    pub fn open(&self) {
        self.0.passes.close();
    }

    /// Waits for the `count`th arrival at the gate.
    ///
    /// With one gate per chunk this means that `count - 1` chunks have been written.
    pub async fn wait_for_arrival(&self, count: usize) {
        let mut arrivals = self.0.arrivals.subscribe();
        // Cannot fail, since `self` owns the sender.
        drop(arrivals.wait_for(|arrived| *arrived >= count).await);
    }

    /// Arrives at the gate and waits until it may pass.
    pub(super) async fn pass(&self) {
        self.0.arrivals.send_modify(|arrived| *arrived += 1);
        if let Ok(permit) = self.0.passes.acquire().await {
            permit.forget();
        }
    }
}
