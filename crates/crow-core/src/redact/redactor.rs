//! Search for secrets and their replacement by a mark.
//!
//! A [`Redactor`] holds an immutable [`SecretSet`] that is replaced as a whole when a secret is learned. The set
//! builds its [`SecretMatcher`] on first use: an Aho-Corasick automaton over all forms of all secrets.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    ops::Range,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use super::{RedactedStream, forms::forms};

/// Finds known secrets in all their forms and replaces them by [`MARK`](Self::MARK).
///
/// The default has no secrets. Clones share their secrets, including those that any of them [learns](Self::learn).
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<SecretSet>>>);

#[derive(Default)]
pub(super) struct SecretSet {
    secrets: Vec<String>,
    /// Secrets added by [`Redactor::learn`], the oldest first.
    learned: Vec<String>,
    /// Built on first use.
    prepared: OnceLock<SecretMatcher>,
}

pub(super) struct SecretMatcher {
    /// All forms, sorted.
    forms: Vec<String>,
    /// Length of the longest form, in bytes.
    longest: usize,
    /// First bytes of the forms.
    first_bytes: BTreeSet<u8>,
    /// None if there are more forms than it supports: they are searched for one by one then.
    searcher: Option<AhoCorasick>,
}

impl Redactor {
    /// The text that replaces a secret.
    pub const MARK: &str = "[redacted by crow]";
    /// Maximum number of learned secrets.
    pub const MAX_LEARNED: usize = 1024;

    /// Makes a redactor for these secrets. Ignores those of fewer than eight bytes: they would garble output.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets: BTreeSet<String> = long_enough(secrets).collect();
        let set = SecretSet { secrets: secrets.into_iter().collect(), ..SecretSet::default() };
        Self(Arc::new(RwLock::new(Arc::new(set))))
    }

    /// Adds secrets for this redactor and all its clones. Of the learned ones only the last
    /// [`MAX_LEARNED`](Self::MAX_LEARNED) are retained: keys that are renewed do not accumulate.
    pub fn learn(&self, secrets: impl IntoIterator<Item = String>) {
        let mut set = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut learned = set.learned.clone();
        for secret in long_enough(secrets) {
            // A secret that is learned again becomes the newest.
            learned.retain(|one| *one != secret);
            learned.push(secret);
        }
        learned.drain(..learned.len().saturating_sub(Self::MAX_LEARNED));
        if learned != set.learned {
            let secrets = set.secrets.clone();
            *set = Arc::new(SecretSet { secrets, learned, prepared: OnceLock::new() });
        }
    }

    /// Returns true if there are secrets to search for.
    pub fn is_active(&self) -> bool {
        self.secrets().is_some()
    }

    /// Returns the text with each secret replaced by the mark.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(set) = self.secrets() else { return Cow::Borrowed(text) };
        let prepared = set.matcher();
        let Some(first) = prepared.find(text, 0) else { return Cow::Borrowed(text) };
        let mut redacted = String::with_capacity(text.len());
        let (mut at, mut next) = (0, Some(first));
        while let Some(found) = next {
            redacted.push_str(&text[at..found.start]);
            redacted.push_str(Self::MARK);
            at = found.end;
            next = prepared.find(text, at);
        }
        redacted.push_str(&text[at..]);
        Cow::Owned(redacted)
    }

    /// Redacts a text in place. Returns true if there was a secret.
    pub fn redact_string(&self, text: &mut String) -> bool {
        match self.redact(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                *text = redacted;
                true
            }
        }
    }

    /// Redacts all texts in a value, including the names of fields. Returns true if there was a secret.
    pub fn redact_value(&self, value: &mut Value) -> bool {
        if !self.is_active() {
            return false;
        }
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact_value(item) | found)
            }
            Value::Object(fields) => {
                let mut found = false;
                if fields.keys().any(|name| matches!(self.redact(name), Cow::Owned(_))) {
                    found = true;
                    let named = std::mem::take(fields).into_iter();
                    fields.extend(
                        named.map(|(name, value)| (self.redact(&name).into_owned(), value)),
                    );
                }
                fields.values_mut().fold(found, |found, value| self.redact_value(value) | found)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Returns true if a value contains the mark, which replaces a text that the writer of the value never saw.
    pub fn contains_mark(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(Self::MARK),
            Value::Array(items) => items.iter().any(Self::contains_mark),
            Value::Object(fields) => fields.values().any(Self::contains_mark),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Starts a stream of text in which a secret may be split into parts.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self.clone())
    }

    /// Returns the current secrets, or none if there are none.
    pub(super) fn secrets(&self) -> Option<Arc<SecretSet>> {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (set.count() > 0).then(|| Arc::clone(&set))
    }
}

/// Trims secrets and leaves out those that are too short.
fn long_enough(secrets: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let trimmed = secrets.into_iter().map(|secret| secret.trim().to_owned());
    trimmed.filter(|secret| secret.len() >= super::forms::SHORTEST)
}

impl SecretSet {
    pub(super) fn matcher(&self) -> &SecretMatcher {
        self.prepared.get_or_init(|| SecretMatcher::new(self.secrets.iter().chain(&self.learned)))
    }

    fn count(&self) -> usize {
        self.secrets.len() + self.learned.len()
    }
}

impl SecretMatcher {
    fn new<'a>(secrets: impl Iterator<Item = &'a String>) -> Self {
        let forms: BTreeSet<String> = secrets.flat_map(|secret| forms(secret)).collect();
        let forms: Vec<String> = forms.into_iter().collect();
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // The fastest kind to build: it is needed before the first request.
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .build(&forms);
        let longest = forms.iter().map(String::len).max().unwrap_or_default();
        let first_bytes = forms.iter().filter_map(|form| form.bytes().next()).collect();
        Self { forms, longest, first_bytes, searcher: searcher.ok() }
    }

    /// Returns the range of the first secret from `at` on, in its longest form.
    pub(super) fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
        let rest = &text[at..];
        let found = if let Some(searcher) = &self.searcher {
            searcher.find(rest)?.range()
        } else {
            let candidates = self.forms.iter().filter_map(|form| {
                let start = rest.find(form.as_str())?;
                Some(start..start + form.len())
            });
            candidates.min_by_key(|found| (found.start, std::cmp::Reverse(found.end)))?
        };
        Some(at + found.start..at + found.end)
    }

    /// Returns the start of the longest suffix of a text that may be the beginning of a secret, or the text's length.
    pub(super) fn partial_match_start(&self, text: &str) -> usize {
        let begins = |end: &str| {
            let index = self.forms.partition_point(|form| form.as_str() <= end);
            self.forms.get(index).is_some_and(|form| form.starts_with(end))
        };
        // Only the last `longest` bytes can begin a form that is still incomplete. The forms are sorted, so the first one
        // greater than a suffix is the only candidate that may begin with it.
        let first = text.ceil_char_boundary(text.len().saturating_sub(self.longest));
        let ends = text.bytes().enumerate().skip(first);
        let mut starts = ends.filter(|(_, byte)| self.first_bytes.contains(byte)).map(|(at, _)| at);
        starts.find(|at| text.get(*at..).is_some_and(begins)).unwrap_or(text.len())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({})", self.secrets().map_or(0, |set| set.count()))
    }
}
