//! Validation of providers' addresses.

use reqwest::Url;

/// Validates the base URL of a provider and returns it without slashes at its end. The error is a sentence about the
/// URL.
pub(crate) fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let mut url = Url::parse(text).map_err(|error| match error.to_string().as_str() {
        "relative URL without a base" => {
            format!("\"{text}\" is not a URL; it must begin with https:// or http://")
        }
        reason => format!("\"{text}\" is not a URL: {reason}"),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("\"{text}\" must begin with https:// or http://"));
    }
    if url.fragment().is_some() {
        return Err(format!("\"{text}\" has a \"#\", which a service address may not have"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    let shown = url.as_str();
    Ok(if path.is_empty() { shown.trim_end_matches('/') } else { shown }.to_owned())
}

/// Converts the address of a local server, `host`, `host:port`, `:port` or a URL, to its base URL with `/v1`.
pub(crate) fn host(text: &str, default_port: u16) -> Result<String, String> {
    let text = text.trim();
    if text.contains("://") {
        let url = base_url(text)?;
        return Ok(with_version(&client_side(&url)));
    }
    let text = text.trim_end_matches('/');
    let text = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    let url = base_url(&format!("http://{text}"))?;
    let has_port = Url::parse(&url).is_ok_and(|url| url.port().is_some()) || text.ends_with(":80");
    if has_port {
        return Ok(with_version(&client_side(&url)));
    }
    let mut url = Url::parse(&url).map_err(|error| format!("\"{text}\": {error}"))?;
    url.set_port(Some(default_port)).map_err(|()| format!("\"{text}\" cannot have a port"))?;
    Ok(with_version(&client_side(url.as_str().trim_end_matches('/'))))
}

/// Replaces a wildcard address with loopback: `OLLAMA_HOST=0.0.0.0` tells a server where to listen, not a client where
/// it is.
fn client_side(url: &str) -> String {
    url.replacen("//0.0.0.0", "//127.0.0.1", 1).replacen("//[::]", "//[::1]", 1)
}

fn with_version(url: &str) -> String {
    if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_end_with_slashes() {
        for (text, expected) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
            (" https://api.anthropic.com// \n", "https://api.anthropic.com"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080/api/v1", "http://[::1]:8080/api/v1"),
            ("https://example.org/v1/?api-version=1", "https://example.org/v1?api-version=1"),
        ] {
            assert_eq!(base_url(text), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn a_bad_base_url_is_refused_with_the_reason() {
        let mut report = Vec::new();
        for text in [
            "",
            "api.openai.com/v1",
            "localhost:8080",
            "/v1",
            "ftp://example.org",
            "https://",
            "https://example.org:99999",
            "https://example.org/#v1",
        ] {
            let reason = base_url(text).unwrap_err();
            report.push(format!("{text:30} {reason}"));
        }
        insta::assert_snapshot!(report.join("\n"));
    }

    #[test]
    fn a_local_server_is_named_by_host_and_port_or_by_url() {
        for (text, expected) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("localhost", "http://localhost:11434/v1"),
            ("localhost:80", "http://localhost/v1"),
            (":5000", "http://127.0.0.1:5000/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:5000", "http://127.0.0.1:5000/v1"),
            ("[::1]:5000", "http://[::1]:5000/v1"),
            ("[::]:5000", "http://[::1]:5000/v1"),
            ("http://box.local:5000/", "http://box.local:5000/v1"),
            ("http://box.local:5000/v1", "http://box.local:5000/v1"),
            ("https://box.example/ollama", "https://box.example/ollama/v1"),
        ] {
            assert_eq!(host(text, 11434), Ok(expected.to_owned()), "{text}");
        }
        for text in ["", "local host", "box:port", "http://"] {
            assert!(host(text, 11434).is_err(), "{text}");
        }
    }
}
