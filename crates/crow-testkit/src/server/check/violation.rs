//! Rules, and violations of them.

use std::collections::BTreeSet;
use std::fmt;

use super::PrefixCheck;

/// A rule that requests are checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Known endpoint, well-formed HTTP.
    Http,
    /// The body is JSON.
    Json,
    /// The request asks for streaming in the dialect's way.
    Streaming,
    /// Fields and headers that the vendor requires are present.
    Required,
    /// Tools have legal, distinct names and object schemas, and are declared where calls need them.
    Tools,
    /// Roles and content are legal in the dialect.
    Roles,
    /// Each call has exactly one result, in the dialect's form.
    Pairing,
    /// The request begins with the previous request of its conversation.
    Prefix,
    /// At most four cache marks, none on reasoning.
    CacheMarks,
    /// Reasoning is sent back verbatim.
    Echo,
    /// The body is not too large.
    BodySize,
    /// The script has a step for the request.
    Script,
}

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Index of the request; `None` if it was refused before it got one.
    pub request: Option<usize>,
    /// Violated rule.
    pub rule: Rule,
    /// Description of the violation.
    pub detail: String,
}

impl Violation {
    pub(in super::super) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self { request: None, rule, detail: detail.into() }
    }

    pub(in super::super) fn of_request(mut self, index: usize) -> Self {
        self.request = Some(index);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.request {
            Some(index) => write!(formatter, "request {index}: ")?,
            None => write!(formatter, "outside a model request: ")?,
        }
        write!(formatter, "{:?}: {}", self.rule, self.detail)
    }
}

/// All violations that a server has found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violations(pub Vec<Violation>);

impl fmt::Display for Violations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the model server saw {} violation(s)", self.0.len())?;
        for violation in &self.0 {
            write!(formatter, "\n  {violation}")?;
        }
        Ok(())
    }
}

/// Settings of a server's checks.
#[derive(Debug, Clone)]
pub struct ServerChecks {
    /// Scope of the prefix check.
    pub prefix: PrefixCheck,
    /// Maximum size of a body, in bytes.
    pub max_body: usize,
    /// Rules that are not checked.
    pub skipped: BTreeSet<Rule>,
}

impl Default for ServerChecks {
    fn default() -> Self {
        Self {
            prefix: PrefixCheck::default(),
            max_body: 32 * 1024 * 1024,
            skipped: BTreeSet::new(),
        }
    }
}

impl ServerChecks {
    /// Disables a rule.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.skipped.insert(rule);
        self
    }

    /// Returns true if a rule is checked.
    pub fn covers(&self, rule: Rule) -> bool {
        !self.skipped.contains(&rule)
    }
}
