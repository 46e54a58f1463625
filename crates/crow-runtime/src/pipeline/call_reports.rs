//! What running calls say of themselves, on its way to events.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crow_core::{
    ids::CallId,
    redact::{RedactedStream, Redactor},
    tool::Progress,
};
use tokio::sync::Notify;

/// How many bytes of what a call says are shown while it runs. The result says how it ended.
const SHOWN_BYTES: usize = 4 << 20;
const CUT: &str = "\n[the rest is not shown while it runs: more than 4 MiB]\n";

/// What the calls of a batch say. Nothing is lost and nothing waits: what a call said is kept until it is taken.
#[derive(Debug, Default)]
pub(super) struct CallReports {
    calls: BTreeMap<usize, (CallId, Arc<CallReport>)>,
    said: Arc<Notify>,
}

#[derive(Debug)]
struct CallReport(Mutex<ReportBuffer>);

#[derive(Debug)]
struct ReportBuffer {
    /// Holds back what may begin a secret.
    stream: RedactedStream,
    waiting: String,
    /// How much more is shown.
    room: usize,
}

impl CallReports {
    /// Returns where a call reports.
    pub(super) fn begin(
        &mut self,
        index: usize,
        call_id: &CallId,
        redactor: &Redactor,
    ) -> Progress {
        let said =
            ReportBuffer { stream: redactor.stream(), waiting: String::new(), room: SHOWN_BYTES };
        let report = Arc::new(CallReport(Mutex::new(said)));
        self.calls.insert(index, (call_id.clone(), Arc::clone(&report)));
        let notify = Arc::clone(&self.said);
        Progress::new(move |output| {
            if report.said().push(output) {
                notify.notify_one();
            }
        })
    }

    /// Waits until a call has said something. May be dropped at any time.
    pub(super) async fn said(&self) {
        self.said.notified().await;
    }

    /// Takes what the calls said since the last time.
    pub(super) fn take(&self) -> Vec<(CallId, String)> {
        let said = self
            .calls
            .values()
            .map(|(call_id, report)| (call_id.clone(), std::mem::take(&mut report.said().waiting)));
        said.filter(|(_, said)| !said.is_empty()).collect()
    }

    /// Takes the last of what a call said.
    pub(super) fn end(&mut self, index: usize) -> Option<(CallId, String)> {
        let (call_id, report) = self.calls.remove(&index)?;
        let mut said = report.said();
        let last = said.stream.finish();
        said.show(&last);
        Some((call_id, std::mem::take(&mut said.waiting)))
    }
}

impl CallReport {
    fn said(&self) -> MutexGuard<'_, ReportBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportBuffer {
    /// Takes in what the call says. Returns whether there is more to be shown.
    fn push(&mut self, output: String) -> bool {
        let shown = self.stream.push(output);
        self.show(&shown)
    }

    fn show(&mut self, output: &str) -> bool {
        if self.room == 0 || output.is_empty() {
            return false;
        }
        let fits = output.floor_char_boundary(self.room);
        self.waiting.push_str(output.get(..fits).unwrap_or_default());
        self.room -= fits;
        if fits < output.len() {
            self.room = 0;
            self.waiting.push_str(CUT);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(reports: &mut CallReports) -> Progress {
        reports.begin(0, &CallId::new("c1"), &Redactor::default())
    }

    #[test]
    fn all_that_was_said_is_taken_once_and_in_order() {
        let mut reports = CallReports::default();
        let progress = progress(&mut reports);
        let (mut taken, mut said) = (String::new(), String::new());
        for number in 0..1000 {
            let part = format!("{number} ");
            said.push_str(&part);
            progress.report(part);
            if number % 100 == 0 {
                taken.extend(reports.take().into_iter().map(|(_, said)| said));
            }
        }
        taken.extend(reports.end(0).map(|(_, said)| said));
        assert_eq!(taken, said);
        assert!(reports.take().is_empty());
    }

    #[test]
    fn what_may_begin_a_secret_comes_at_the_end_at_the_latest() {
        let redactor = Redactor::new(["sk-0123456789abcdef".to_owned()]);
        let mut reports = CallReports::default();
        let progress = reports.begin(0, &CallId::new("c1"), &redactor);
        progress.report("key: sk-0123456789abcdef and sk-01");
        let mut said: String = reports.take().into_iter().map(|(_, said)| said).collect();
        assert!(!said.contains("sk-"), "{said}");
        said.extend(reports.end(0).map(|(_, said)| said));
        assert!(said.ends_with(" and sk-01"), "{said}");
    }

    #[test]
    fn a_call_that_prints_without_end_is_cut_and_says_so_once() {
        let mut reports = CallReports::default();
        let progress = progress(&mut reports);
        for _ in 0..100 {
            progress.report("é".repeat(50_000));
        }
        let said: String = reports.take().into_iter().map(|(_, said)| said).collect();
        assert_eq!(said.matches("the rest is not shown").count(), 1);
        assert_eq!(said.len(), SHOWN_BYTES + CUT.len());
    }
}
