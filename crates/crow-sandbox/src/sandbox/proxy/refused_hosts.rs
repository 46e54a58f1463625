//! Log of the hosts that the proxy refused, for reports to the model and the user.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::capability::RefusedHost;

/// Maximum number of remembered hosts.
const CAPACITY: usize = 64;

/// The most recently refused hosts, each once.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct RefusedHosts(Mutex<RefusalLog>);

#[derive(Debug, Default)]
struct RefusalLog {
    /// Number of refusals so far.
    count: u64,
    /// Hosts with the value of `count` at their last refusal, in that order.
    hosts: VecDeque<(u64, RefusedHost)>,
}

/// Refusals since the creation of this value, or since the last `take`.
#[derive(Debug, Clone)]
pub(in crate::sandbox) struct RefusalWindow {
    refused: Arc<RefusedHosts>,
    count: u64,
}

impl RefusedHosts {
    pub(super) fn push(&self, host: RefusedHost) {
        let mut log = self.log();
        log.count += 1;
        let count = log.count;
        log.hosts.retain(|(_, other)| *other != host);
        log.hosts.push_back((count, host));
        if log.hosts.len() > CAPACITY {
            log.hosts.pop_front();
        }
    }

    fn log(&self) -> MutexGuard<'_, RefusalLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RefusalWindow {
    pub(in crate::sandbox) fn now(refused: &Arc<RefusedHosts>) -> Self {
        Self { refused: Arc::clone(refused), count: refused.log().count }
    }

    /// Returns the refused hosts, and starts a new window.
    pub(in crate::sandbox) fn take(&mut self) -> Vec<RefusedHost> {
        let hosts = self.hosts();
        self.count = self.refused.log().count;
        hosts
    }

    /// Returns the refused hosts of this window. Commands that run at the same time share the proxy: a host
    /// refused to one of them is reported for all.
    pub(in crate::sandbox) fn hosts(&self) -> Vec<RefusedHost> {
        let log = self.refused.log();
        let since = log.hosts.iter().filter(|(count, _)| *count > self.count);
        since.map(|(_, host)| host.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crow_core::capability::HostRefusal;

    use super::*;

    fn host(port: u16) -> RefusedHost {
        RefusedHost { host: "evil.example".to_owned(), port, reason: HostRefusal::NotAllowed }
    }

    #[test]
    fn each_window_has_its_own_refusals_once() {
        let refused = Arc::new(RefusedHosts::default());
        let first = RefusalWindow::now(&refused);
        refused.push(host(1));
        refused.push(host(2));
        let second = RefusalWindow::now(&refused);
        refused.push(host(1));
        assert_eq!(first.hosts(), [host(2), host(1)]);
        assert_eq!(second.hosts(), [host(1)]);
        assert_eq!(RefusalWindow::now(&refused).hosts(), []);
    }

    #[test]
    fn only_the_last_refusals_are_remembered() {
        let refused = Arc::new(RefusedHosts::default());
        let since = RefusalWindow::now(&refused);
        (1..=1000).for_each(|port| refused.push(host(port)));
        let hosts = since.hosts();
        assert_eq!((hosts.len(), hosts.last()), (CAPACITY, Some(&host(1000))));
    }
}
