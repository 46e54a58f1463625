//! Redaction of text that arrives in parts.

use super::Redactor;

/// Redacts text that arrives in parts. Text that may be the beginning of a secret is retained until the next part.
#[derive(Debug, Clone, Default)]
pub struct RedactedStream {
    redactor: Redactor,
    pending: String,
}

impl RedactedStream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, pending: String::new() }
    }

    /// Adds the next part and returns the text that can be shown so far.
    pub fn push(&mut self, part: String) -> String {
        let Some(set) = self.redactor.secrets() else { return part };
        let prepared = set.matcher();
        let text =
            if self.pending.is_empty() { part } else { std::mem::take(&mut self.pending) + &part };
        let mut open_start = prepared.partial_match_start(&text);
        // A complete secret ends what was open before it.
        let mut position = 0;
        let mut redacted = String::with_capacity(text.len());
        while let Some(found) =
            prepared.find(&text, position).filter(|found| found.start < open_start)
        {
            redacted.push_str(&text[position..found.start]);
            redacted.push_str(Redactor::MARK);
            position = found.end;
            open_start = open_start.max(position);
        }
        redacted.push_str(&text[position..open_start]);
        text[open_start..].clone_into(&mut self.pending);
        redacted
    }

    /// Ends the stream and returns the retained text, redacted.
    pub fn finish(&mut self) -> String {
        let pending = std::mem::take(&mut self.pending);
        self.redactor.redact(&pending).into_owned()
    }
}
