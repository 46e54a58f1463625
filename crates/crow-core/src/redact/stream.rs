//! Text that comes in parts.

use super::Redactor;

/// Redacts text that comes in parts. What may be the beginning of a secret is held back until more comes.
#[derive(Debug, Clone, Default)]
pub struct RedactedStream {
    redactor: Redactor,
    held: String,
}

impl RedactedStream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, held: String::new() }
    }

    /// Takes the next part in and returns what can be shown by now.
    pub fn push(&mut self, part: String) -> String {
        let Some(known) = self.redactor.known() else { return part };
        let prepared = known.prepared();
        let text = if self.held.is_empty() { part } else { std::mem::take(&mut self.held) + &part };
        let mut open = prepared.open_end(&text);
        // A secret that is whole ends what was open before it.
        let mut at = 0;
        let mut shown = String::with_capacity(text.len());
        while let Some(found) = prepared.find(&text, at).filter(|found| found.start < open) {
            shown.push_str(text.get(at..found.start).unwrap_or_default());
            shown.push_str(Redactor::MARK);
            at = found.end;
            open = open.max(at);
        }
        shown.push_str(text.get(at..open).unwrap_or_default());
        text.get(open..).unwrap_or_default().clone_into(&mut self.held);
        shown
    }

    /// Ends the stream and returns what was held back.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.redactor.redact(&held).into_owned()
    }
}
