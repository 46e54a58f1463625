//! Names of hosts, and patterns for those that may be reached.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Network that the commands and web tools of a session can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Commands: only a loopback device, shared by the commands of a session. Web tools: hosts that the user permits.
    #[default]
    Loopback,
    /// Also these hosts. Commands reach them through a proxy, which programs find by the usual environment variables.
    /// It connects directly: a proxy that is configured for the agent itself is not used. Without namespaces commands
    /// reach none.
    Hosts(AllowedHosts),
    /// Everything.
    All,
}

impl Network {
    /// Returns true if the user lets everything in the session reach this host.
    pub fn allows(&self, host: &HostAddress) -> bool {
        match self {
            Self::Loopback => false,
            Self::Hosts(hosts) => hosts.allows(host.name(), host.port()),
            Self::All => true,
        }
    }

    /// Returns true if the user named exactly this host and port.
    pub fn names(&self, host: &HostAddress) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.names(host.name(), host.port()),
            Self::Loopback | Self::All => false,
        }
    }
}

/// A host with a port, as an address of the web names it. As text it has its port unless that is 80 or 443.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct HostAddress {
    /// Host name in lower case, without a dot at its end, or an address of IP version 4.
    name: String,
    port: u16,
}

impl HostAddress {
    /// Makes a host of its name and port. Fails if the name is none: among others, addresses of IP version 6 are not.
    pub fn new(name: &str, port: u16) -> Result<Self, HostPatternError> {
        let error = |reason| HostPatternError { given: name.to_owned(), reason };
        if port == 0 {
            return Err(error("there is no port 0"));
        }
        Ok(Self { name: normalize_host(name).map_err(error)?, port })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if is_web_port(self.port) { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl TryFrom<String> for HostAddress {
    type Error = HostPatternError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        let HostPattern { name, is_below, port } = given.parse()?;
        if is_below {
            return Err(HostPatternError { given, reason: "it is a pattern" });
        }
        Ok(Self { name, port: port.unwrap_or(443) })
    }
}

impl From<HostAddress> for String {
    fn from(host: HostAddress) -> Self {
        host.to_string()
    }
}

/// Returns true for the ports of `http` and `https`.
fn is_web_port(port: u16) -> bool {
    matches!(port, 80 | 443)
}

/// List of host patterns: names, and wildcards of the form `*.example.org`. Sorted, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<HostPattern>);

/// Pattern for one host, or for all hosts below a name. As text: `docs.rs`, `*.example.org`, `example.org:8443`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
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
        let Ok(host) = normalize_host(host) else { return false };
        self.0.iter().any(|pattern| pattern.matches(&host, port))
    }

    /// Returns true if a pattern without wildcard matches the host and the port.
    pub fn names(&self, host: &str, port: u16) -> bool {
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
    /// Returns true if the pattern matches a host and its port.
    pub fn covers(&self, host: &HostAddress) -> bool {
        self.matches(&host.name, host.port)
    }

    /// Returns how narrow the pattern is: the greater, the fewer hosts.
    pub(crate) fn specificity(&self) -> usize {
        let labels = self.name.split('.').count() * 2;
        if self.is_below { labels } else { labels + 1 }
    }

    fn matches(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or(is_web_port(port), |allowed| allowed == port);
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

impl From<&HostAddress> for HostPattern {
    /// Makes the pattern for exactly this host.
    fn from(host: &HostAddress) -> Self {
        let port = (!is_web_port(host.port)).then_some(host.port);
        Self { name: host.name.clone(), is_below: false, port }
    }
}

impl TryFrom<String> for HostPattern {
    type Error = HostPatternError;

    fn try_from(given: String) -> Result<Self, Self::Error> {
        given.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
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
        let name = normalize_host(name).map_err(error)?;
        if is_below && !name.contains('.') {
            return Err(error("a whole top-level domain is too much"));
        }
        Ok(Self { name, is_below, port })
    }
}

/// Normalizes a host name for comparisons: lower case, no dot at its end. Fails if it is invalid.
pub fn normalize_host(name: &str) -> Result<String, &'static str> {
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
