//! Search for secrets, in all forms in which they may be written, and their replacement by a mark; also in text that
//! arrives in parts.
//!
//! A [`Redactor`] holds an immutable [`SecretSet`] that is replaced as a whole when a secret is learned. The set
//! builds its [`SecretMatcher`] on first use: an Aho-Corasick automaton over all forms of all secrets.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::{self, Write as _},
    ops::Range,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

/// Finds known secrets in all their forms and replaces them by [`MARK`](Self::MARK).
///
/// The default has no secrets. Clones share their secrets, including those that any of them [learns](Self::learn).
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<SecretSet>>>);

#[derive(Default)]
struct SecretSet {
    secrets: Vec<String>,
    /// Secrets added by [`Redactor::learn`], the oldest first.
    learned: Vec<String>,
    /// Built on first use.
    prepared: OnceLock<SecretMatcher>,
}

struct SecretMatcher {
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
    fn secrets(&self) -> Option<Arc<SecretSet>> {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (set.count() > 0).then(|| Arc::clone(&set))
    }
}

/// Trims secrets and leaves out those that are too short.
fn long_enough(secrets: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let trimmed = secrets.into_iter().map(|secret| secret.trim().to_owned());
    trimmed.filter(|secret| secret.len() >= SHORTEST)
}

impl SecretSet {
    fn matcher(&self) -> &SecretMatcher {
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
    fn find(&self, text: &str, at: usize) -> Option<Range<usize>> {
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
    fn partial_match_start(&self, text: &str) -> usize {
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

/// Redacts text that arrives in parts. Text that may be the beginning of a secret is retained until the next part.
#[derive(Debug, Clone, Default)]
pub struct RedactedStream {
    redactor: Redactor,
    pending: String,
}

impl RedactedStream {
    fn new(redactor: Redactor) -> Self {
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

/// Minimum length of a secret, in bytes: redacting shorter texts would garble output.
const SHORTEST: usize = 8;
/// Minimum length of a line of a multi-line secret that is searched for on its own.
const SHORTEST_LINE: usize = 20;
/// Maximum length of a secret that is searched for in encoded forms. Longer ones are searched for as they are, quoted
/// in JSON, and line by line: every byte of every form costs time before the first request.
const LONGEST_ENCODED: usize = 1024;
/// Line lengths of base64 in common programs.
const LINES: [usize; 2] = [76, 64];

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns a secret and its other forms: quoted in JSON or in a URL, as base64 alone or within longer base64, as
/// hexadecimal digits.
fn forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    if secret.len() < SHORTEST {
        return Vec::new();
    }
    let mut forms = vec![secret.to_owned()];
    let lines = secret.lines().map(str::trim);
    // Lines such as `-----BEGIN KEY-----` are the same in all private keys.
    let distinctive =
        lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----"));
    forms.extend(distinctive.map(str::to_owned));
    forms.push(in_json(secret));
    if secret.len() <= LONGEST_ENCODED {
        forms.extend(in_address(secret));
        for alphabet in [STANDARD, URL_SAFE] {
            forms.extend((0..3).map(|before| within_base64(secret.as_bytes(), before, alphabet)));
            for text in [secret.to_owned(), format!("{secret}\n")] {
                forms.extend(broken_base64(text.as_bytes(), alphabet));
            }
        }
        forms.extend(hexadecimal(secret.as_bytes()));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

fn in_json(secret: &str) -> String {
    let quoted = serde_json::Value::from(secret).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn in_address(secret: &str) -> [String; 2] {
    let (mut upper, mut lower) = (String::new(), String::new());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            upper.push(char::from(byte));
            lower.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(upper, "%{byte:02X}");
            let _ = write!(lower, "%{byte:02x}");
        }
    }
    [upper, lower]
}

fn hexadecimal(bytes: &[u8]) -> [String; 2] {
    let (mut upper, mut lower) = (String::new(), String::new());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(upper, "{byte:02X}");
        let _ = write!(lower, "{byte:02x}");
    }
    [upper, lower]
}

/// Returns the characters that depend on the secret alone, if `before` bytes modulo 3 precede it.
fn within_base64(secret: &[u8], before: usize, alphabet: &[u8; 64]) -> String {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret);
    let encoded = base64(&bytes, alphabet);
    let (first, end) = ((8 * before).div_ceil(6), 8 * bytes.len() / 6);
    encoded[first..end].to_owned()
}

/// Returns the lines of a secret that was encoded alone and does not fit into one line.
fn broken_base64(secret: &[u8], alphabet: &[u8; 64]) -> Vec<String> {
    let end = 8 * secret.len() / 6;
    let encoded = base64(secret, alphabet);
    let encoded = &encoded[..end];
    let lengths = LINES.into_iter().filter(|length| encoded.len() > *length);
    lengths
        .flat_map(|length| encoded.as_bytes().chunks(length))
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

/// Encodes as base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |position: usize| u32::from(chunk.get(position).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..=chunk.len() {
            let index = group >> (18 - 6 * position) & 63;
            text.push(char::from(alphabet[index as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_standard_encoding() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes(), STANDARD), expected);
        }
        assert_eq!(base64(&[0xfb, 0xff], STANDARD), "+/8");
        assert_eq!(base64(&[0xfb, 0xff], URL_SAFE), "-_8");
    }

    #[test]
    fn a_short_secret_has_no_forms() {
        assert_eq!(forms(" secret \n"), Vec::<String>::new());
        assert_eq!(forms("12345678")[0], "12345678");
    }
}
