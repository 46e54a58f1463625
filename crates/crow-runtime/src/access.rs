//! Access tokens and the host check of HTTP servers on a loopback address.

use std::{fmt, net::SocketAddr};

/// Token that a client must send to be served over HTTP: `Authorization: Bearer TOKEN`.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// Minimum length of a token in bytes, so that it cannot be guessed.
    pub const SHORTEST: usize = 16;

    /// Creates a token; `None` if it is too short, or has characters that are not printable ASCII.
    pub fn new(token: impl Into<String>) -> Option<Self> {
        let token = token.into();
        let fits =
            token.len() >= Self::SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then_some(Self(token))
    }

    /// Creates a token from random bytes.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
    }

    /// Returns the token, to hand it to its user.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the tokens are equal. The time taken does not reveal how many characters match.
    pub fn matches(&self, presented: &str) -> bool {
        let differs = self
            .0
            .bytes()
            .zip(presented.bytes())
            .fold(0, |differs, (own, presented)| differs | (own ^ presented));
        differs == 0 && self.0.len() == presented.len()
    }
}

/// Does not print the token.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken").finish_non_exhaustive()
    }
}

/// Returns true if `host`, the `Host` header of a request, names this machine: `localhost` or a loopback address, with or
/// without a port. Under another name, a page of the web may have reached the server through its own domain.
pub fn is_loopback_host(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let address = host.parse::<SocketAddr>().map(|address| address.ip());
    let address = address.or_else(|_| name.trim_matches(['[', ']']).parse());
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_printable_ascii_and_is_not_printed() {
        assert_eq!(AccessToken::new("short"), None);
        assert_eq!(AccessToken::new("0123456789 abcdef"), None);
        let token = AccessToken::new("0123456789abcdef").unwrap();
        assert!(token.matches("0123456789abcdef"));
        for other in ["", "0123456789abcdeX", "0123456789abcdef0", "0123456789abcde"] {
            assert!(!token.matches(other), "{other}");
        }
        assert!(!format!("{token:?}").contains("0123"));
        let mut bytes = [0xa7; 32];
        bytes[0] = 0x0f;
        assert_eq!(AccessToken::from_random(bytes).as_str(), format!("0f{}", "a7".repeat(31)));
    }

    #[test]
    fn only_names_of_this_machine_are_loopback_hosts() {
        for host in ["127.0.0.1:7", "localhost", "LOCALHOST:80", "[::1]:9", "127.9.9.9"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1:7"]
        {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
