//! The one place that makes text of others harmless.

use std::borrow::Cow;

/// Returns `text` with visible signs for what a terminal would obey or not show.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(crow_text::neutralise(text))
    }
}
