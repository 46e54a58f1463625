//! Which proxies requests go through.

use std::fmt;

use reqwest::NoProxy;

/// Never asked through a proxy: it could not reach a server on this machine.
const LOOPBACK: &str = "localhost,127.0.0.1,::1";

/// The proxies, as the usual environment variables name them. Their addresses may hold a password and do not show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http` addresses.
    pub http: Option<String>,
    /// For `https` addresses.
    pub https: Option<String>,
    /// Hosts that are asked directly, separated by commas.
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
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in lower case as well.
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

    /// Returns the proxies in the client's form.
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
