//! Progress output of running calls, on its way to events.

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

/// Maximum number of bytes of progress output shown per call. The full output is in the result.
const SHOWN_BYTES: usize = 4 << 20;
const CUT: &str = "\n[the rest is not shown while it runs: more than 4 MiB]\n";

/// The progress output of the calls of a batch. Reporting never blocks: output is buffered until it is taken, up to
/// [`SHOWN_BYTES`] per call.
#[derive(Debug, Default)]
pub(super) struct CallReports {
    calls: BTreeMap<usize, (CallId, Arc<CallReport>)>,
    said: Arc<Notify>,
}

#[derive(Debug)]
struct CallReport(Mutex<ReportBuffer>);

#[derive(Debug)]
struct ReportBuffer {
    /// Holds back text that may be the start of a secret.
    stream: RedactedStream,
    unread: String,
    /// Number of bytes that may still be shown.
    remaining: usize,
}

impl CallReports {
    /// Registers a call and returns its progress sink.
    pub(super) fn begin(
        &mut self,
        index: usize,
        call_id: &CallId,
        redactor: &Redactor,
    ) -> Progress {
        let buffer = ReportBuffer {
            stream: redactor.stream(),
            unread: String::new(),
            remaining: SHOWN_BYTES,
        };
        let report = Arc::new(CallReport(Mutex::new(buffer)));
        self.calls.insert(index, (call_id.clone(), Arc::clone(&report)));
        let notify = Arc::clone(&self.said);
        Progress::new(move |output| {
            if report.lock().push(output) {
                notify.notify_one();
            }
        })
    }

    /// Waits until a call has produced output. Cancel-safe.
    pub(super) async fn wait_for_output(&self) {
        self.said.notified().await;
    }

    /// Takes the output of all calls since the last time.
    pub(super) fn take(&self) -> Vec<(CallId, String)> {
        let outputs = self
            .calls
            .values()
            .map(|(call_id, report)| (call_id.clone(), std::mem::take(&mut report.lock().unread)));
        outputs.filter(|(_, output)| !output.is_empty()).collect()
    }

    /// Removes a call and takes the rest of its output.
    pub(super) fn end(&mut self, index: usize) -> Option<(CallId, String)> {
        let (call_id, report) = self.calls.remove(&index)?;
        let mut buffer = report.lock();
        let last = buffer.stream.finish();
        buffer.show(&last);
        Some((call_id, std::mem::take(&mut buffer.unread)))
    }
}

impl CallReport {
    fn lock(&self) -> MutexGuard<'_, ReportBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportBuffer {
    /// Adds output of the call. Returns true if there is more to show.
    fn push(&mut self, output: String) -> bool {
        let shown = self.stream.push(output);
        self.show(&shown)
    }

    fn show(&mut self, output: &str) -> bool {
        if self.remaining == 0 || output.is_empty() {
            return false;
        }
        let fits = output.floor_char_boundary(self.remaining);
        self.unread.push_str(&output[..fits]);
        self.remaining -= fits;
        if fits < output.len() {
            self.remaining = 0;
            self.unread.push_str(CUT);
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
    fn output_is_taken_once_and_in_order() {
        let mut reports = CallReports::default();
        let progress = progress(&mut reports);
        let (mut taken, mut output) = (String::new(), String::new());
        for number in 0..1000 {
            let part = format!("{number} ");
            output.push_str(&part);
            progress.report(part);
            if number % 100 == 0 {
                taken.extend(reports.take().into_iter().map(|(_, output)| output));
            }
        }
        taken.extend(reports.end(0).map(|(_, output)| output));
        assert_eq!(taken, output);
        assert!(reports.take().is_empty());
    }

    #[test]
    fn a_possible_start_of_a_secret_is_held_back_until_the_end() {
        let redactor = Redactor::new(["sk-0123456789abcdef".to_owned()]);
        let mut reports = CallReports::default();
        let progress = reports.begin(0, &CallId::new("c1"), &redactor);
        progress.report("key: sk-0123456789abcdef and sk-01");
        let mut output: String = reports.take().into_iter().map(|(_, output)| output).collect();
        assert!(!output.contains("sk-"), "{output}");
        output.extend(reports.end(0).map(|(_, output)| output));
        assert!(output.ends_with(" and sk-01"), "{output}");
    }

    #[test]
    fn endless_output_is_cut_with_one_notice() {
        let mut reports = CallReports::default();
        let progress = progress(&mut reports);
        for _ in 0..100 {
            progress.report("é".repeat(50_000));
        }
        let output: String = reports.take().into_iter().map(|(_, output)| output).collect();
        assert_eq!(output.matches("the rest is not shown").count(), 1);
        assert_eq!(output.len(), SHOWN_BYTES + CUT.len());
    }
}
