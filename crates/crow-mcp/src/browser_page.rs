//! Addresses that are opened in the user's browser on behalf of a server.

use url::{Host, Url};

/// Maximum length of an address in bytes.
const LONGEST: usize = 8 * 1024;

/// Parses the address of a page and returns it with its host. The error says what is wrong, as the end of a sentence.
///
/// The page must be encrypted, or on this machine; an address with a user name can pretend to be of another host.
pub(crate) fn page_address(url: &str) -> Result<(String, String), &'static str> {
    if url.len() > LONGEST {
        return Err("is too long");
    }
    let url = Url::parse(url).map_err(|_| "is invalid")?;
    let host = url.host().ok_or("names no host")?;
    let is_loopback = match &host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
        return Err("is not encrypted");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user name");
    }
    let host = host.to_string();
    Ok((url.into(), host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_pages_and_those_of_this_machine_are_opened() {
        for (url, expected) in [
            ("https://a.test/x?y", Ok("a.test")),
            ("http://localhost:1/x", Ok("localhost")),
            ("http://[::1]:1/x", Ok("[::1]")),
            ("http://a.test/x", Err("is not encrypted")),
            ("http://10.0.0.1/x", Err("is not encrypted")),
            ("https://login.test@evil.test/x", Err("contains a user name")),
            ("javascript:alert(1)", Err("names no host")),
            ("file:///etc/passwd", Err("names no host")),
            ("--help", Err("is invalid")),
        ] {
            let host = page_address(url).map(|(_, host)| host);
            assert_eq!(host.as_deref().map_err(|why| *why), expected, "{url}");
        }
    }
}
