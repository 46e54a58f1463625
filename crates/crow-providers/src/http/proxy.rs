//! The proxies that requests use.

use std::fmt;

use reqwest::NoProxy;

/// Hosts that never use a proxy: it could not reach a server on this machine.
const LOOPBACK: &str = "localhost,127.0.0.1,::1";

/// Addresses of proxies, as in the usual environment variables. They may contain a password and are not shown by
/// `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Proxy for `http` addresses.
    pub http: Option<String>,
    /// Proxy for `https` addresses.
    pub https: Option<String>,
    /// Hosts that use no proxy, separated by commas.
    pub exceptions: Option<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("exceptions", &self.exceptions)
            .finish()
    }
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; the same names in lower case take precedence.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let find = |name: &str| {
            lookup(&name.to_ascii_lowercase())
                .or_else(|| lookup(name))
                .filter(|value| !value.trim().is_empty())
        };
        let all = find("ALL_PROXY");
        Self {
            http: find("HTTP_PROXY").or_else(|| all.clone()),
            https: find("HTTPS_PROXY").or(all),
            exceptions: find("NO_PROXY"),
        }
    }

    /// Converts to the proxies of the HTTP library.
    pub(super) fn to_reqwest(&self) -> Result<Vec<reqwest::Proxy>, reqwest::Error> {
        let exceptions = match &self.exceptions {
            Some(hosts) => format!("{LOOPBACK},{hosts}"),
            None => LOOPBACK.to_owned(),
        };
        let http = self.http.as_ref().map(reqwest::Proxy::http);
        let https = self.https.as_ref().map(reqwest::Proxy::https);
        let exempt = |proxy: reqwest::Proxy| proxy.no_proxy(NoProxy::from_string(&exceptions));
        http.into_iter().chain(https).map(|proxy| proxy.map(exempt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_variables_are_read() {
        for (variables, expected) in [
            (vec![], Proxies::default()),
            (
                vec![
                    ("https_proxy", "http://a:1"),
                    ("HTTPS_PROXY", "http://b:1"),
                    ("NO_PROXY", "x"),
                ],
                Proxies {
                    http: None,
                    https: Some("http://a:1".to_owned()),
                    exceptions: Some("x".to_owned()),
                },
            ),
            (
                vec![("ALL_PROXY", "http://c:1"), ("HTTP_PROXY", " ")],
                Proxies {
                    http: Some("http://c:1".to_owned()),
                    https: Some("http://c:1".to_owned()),
                    exceptions: None,
                },
            ),
        ] {
            let lookup = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Proxies::from_lookup(lookup), expected);
        }
    }
}
