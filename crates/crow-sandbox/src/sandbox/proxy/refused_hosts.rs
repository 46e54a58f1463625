//! What commands asked for and did not get, so that it can be told.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::capability::RefusedHost;

/// How many are kept.
const KEPT: usize = 64;

/// The hosts that were refused last, each once.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct RefusedHosts(Mutex<RefusalLog>);

#[derive(Debug, Default)]
struct RefusalLog {
    /// How many were refused ever.
    count: u64,
    /// With the count when it happened last, in that order.
    hosts: VecDeque<(u64, RefusedHost)>,
}

/// The refused hosts of a time that began when it was made.
#[derive(Debug, Clone)]
pub(in crate::sandbox) struct RefusalWindow {
    refused: Arc<RefusedHosts>,
    count: u64,
}

impl RefusedHosts {
    pub(super) fn push(&self, host: RefusedHost) {
        let mut kept = self.kept();
        kept.count += 1;
        let count = kept.count;
        kept.hosts.retain(|(_, other)| *other != host);
        kept.hosts.push_back((count, host));
        if kept.hosts.len() > KEPT {
            kept.hosts.pop_front();
        }
    }

    fn kept(&self) -> MutexGuard<'_, RefusalLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RefusalWindow {
    pub(in crate::sandbox) fn now(refused: &Arc<RefusedHosts>) -> Self {
        Self { refused: Arc::clone(refused), count: refused.kept().count }
    }

    /// Returns what was refused, and begins again.
    pub(in crate::sandbox) fn take(&mut self) -> Vec<RefusedHost> {
        let hosts = self.hosts();
        self.count = self.refused.kept().count;
        hosts
    }

    /// Returns what was refused. Commands that run at the same time share the way out: what one of them was refused is
    /// told of all.
    pub(in crate::sandbox) fn hosts(&self) -> Vec<RefusedHost> {
        let kept = self.refused.kept();
        let since = kept.hosts.iter().filter(|(count, _)| *count > self.count);
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
    fn what_was_refused_is_told_once_to_those_who_were_there() {
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
    fn no_more_than_the_last_are_kept() {
        let refused = Arc::new(RefusedHosts::default());
        let since = RefusalWindow::now(&refused);
        (1..=1000).for_each(|port| refused.push(host(port)));
        let hosts = since.hosts();
        assert_eq!((hosts.len(), hosts.last()), (KEPT, Some(&host(1000))));
    }
}
