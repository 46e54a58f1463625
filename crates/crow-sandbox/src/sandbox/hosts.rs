//! Patterns for the hosts that commands may reach.

use std::{fmt, str::FromStr};

/// List of host patterns: names, and wildcards of the form `*.example.org`. Sorted, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<HostPattern>);

/// Pattern for one host, or for all hosts below a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPattern {
    /// Host name in lower case, without a dot at its end.
    name: String,
    /// True if the pattern matches hosts below the name, and not the name itself.
    is_below: bool,
    /// Allowed port; ports 80 and 443 if absent.
    port: Option<u16>,
}

/// Error for an invalid host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a host: {reason}")]
pub struct HostPatternError {
    given: String,
    reason: &'static str,
}

impl AllowedHosts {
    /// Creates a list from patterns.
    pub fn new(patterns: impl IntoIterator<Item = HostPattern>) -> Self {
        let mut patterns: Vec<_> = patterns.into_iter().collect();
        patterns.sort();
        patterns.dedup();
        Self(patterns)
    }

    /// Returns true if no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if a host may be reached at a port. The name is compared exactly except for its case: a
    /// proxy must use the same name for its connection that it checked.
    pub fn allows(&self, host: &str, port: u16) -> bool {
        let Ok(host) = clean(host) else { return false };
        self.0.iter().any(|pattern| pattern.matches(&host, port))
    }
}

impl AllowedHosts {
    /// Returns true if a pattern without wildcard matches the host and the port.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        self.0.iter().any(|pattern| !pattern.is_below && pattern.matches(host, port))
    }
}

impl fmt::Display for AllowedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pattern) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{pattern}")?;
        }
        Ok(())
    }
}

impl HostPattern {
    fn matches(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or(matches!(port, 80 | 443), |allowed| allowed == port);
        let is_host = if self.is_below {
            host.strip_suffix(&self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        } else {
            host == self.name
        };
        is_port && is_host
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.is_below { "*." } else { "" };
        write!(f, "{below}{}", self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let error = |reason| HostPatternError { given: given.to_owned(), reason };
        let (is_below, rest) = match given.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, given),
        };
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (name, Some(port.ok_or_else(|| error("the port must be a number up to 65535"))?))
            }
            Some(_) | None => (rest, None),
        };
        let name = clean(name).map_err(error)?;
        if is_below && !name.contains('.') {
            return Err(error("a whole top-level domain is too much"));
        }
        Ok(Self { name, is_below, port })
    }
}

/// Normalizes a host name for comparisons: lower case, no dot at its end. Fails if it is invalid.
pub(super) fn clean(name: &str) -> Result<String, &'static str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if name.is_empty() || name.len() > 253 {
        return Err("it must have 1 to 253 characters");
    }
    if !name.bytes().all(is_plain) {
        return Err(
            "only letters, digits, `-`, `_` and `.` are allowed; other scripts in their ASCII form",
        );
    }
    if name.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return Err("it has an empty or too long part between dots");
    }
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> AllowedHosts {
        AllowedHosts::new(patterns.iter().map(|pattern| pattern.parse().unwrap()))
    }

    #[test]
    fn a_host_is_allowed_only_by_its_full_name_and_port() {
        let allowed = hosts(&["crates.io", "*.npmjs.org", "localhost:3000", "example.org:8443"]);
        for (host, port, is_allowed) in [
            ("crates.io", 443, true),
            ("CRATES.IO.", 80, true),
            ("crates.io", 22, false),
            ("xcrates.io", 443, false),
            ("crates.io.evil.org", 443, false),
            ("static.crates.io", 443, false),
            ("registry.npmjs.org", 443, true),
            ("npmjs.org", 443, false),
            ("evilnpmjs.org", 443, false),
            (".npmjs.org", 443, false),
            ("crates.io\0.evil.org", 443, false),
            ("crates.io%00", 443, false),
            ("crates.io/", 443, false),
            ("user@crates.io", 443, false),
            ("localhost", 3000, true),
            ("localhost", 443, false),
            ("example.org", 8443, true),
            ("example.org", 443, false),
            ("", 443, false),
            ("cratés.io", 443, false),
        ] {
            assert_eq!(allowed.allows(host, port), is_allowed, "{host:?}:{port}");
        }
    }

    #[test]
    fn invalid_host_patterns_are_refused_with_the_reason() {
        for given in [
            "",
            "*",
            "*.org",
            "a b",
            "http://crates.io",
            "crates.io:",
            "crates.io:0",
            "a..b",
            "[::1]",
            "x:1:2",
        ] {
            assert!(given.parse::<HostPattern>().is_err(), "{given:?}");
        }
        let error = "http://crates.io".parse::<HostPattern>().unwrap_err().to_string();
        assert!(error.contains("http://crates.io"), "{error}");
    }
}
