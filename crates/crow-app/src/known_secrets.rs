//! The secrets known to the program, which must not appear in any output: those in its environment, in the
//! configuration of MCP servers, and the keys of providers.
//!
//! A value counts as a secret if its name suggests one, or if it contains one (a password in a URL, a known token),
//! and if it looks random: redacting a common word would garble all output.

use std::path::Path;

use crow_core::{
    mcp::{McpServerConfig, McpTransport},
    redact::Redactor,
};
use crow_mcp::McpSettings;
use crow_providers::ProviderModels;

use crate::{
    child_environment::{contains_secret, is_secret},
    config::ProjectAdditions,
    config::configured_servers,
    credentials::CredentialFile,
    environment::ProcessEnvironment,
};

/// Minimum length, in bytes, of a secret of only one kind of characters.
const RANDOM: usize = 20;
/// Variables with names of persons and paths. Their values are not secrets, in other variables either.
const PUBLIC: [&str; 8] =
    ["USER", "LOGNAME", "USERNAME", "HOME", "HOSTNAME", "PWD", "OLDPWD", "SHELL"];
/// Words in the names of variables that may contain a public name.
const NAMES: [&str; 2] = ["LOGIN", "USER"];

/// Last words in the names of variables that contain a path.
const PLACES: [&str; 5] = ["SOCK", "SOCKET", "FILE", "PATH", "DIR"];

/// Returns a redactor of the known secrets: those of the environment and the stored keys, and with `providers` also
/// their keys and the secrets of MCP servers. Reads small files. Blocks.
pub fn redactor(environment: &ProcessEnvironment, providers: Option<&ProviderModels>) -> Redactor {
    let mut secrets = of_environment(environment);
    if let Some(providers) = providers {
        secrets.extend(providers.secrets());
        secrets.extend(of_servers(environment));
    }
    // All stored keys, also of other providers. An unreadable file supplies no keys, so there are none to redact.
    let file = environment.config_dir().map(|folder| CredentialFile::new(&folder).load());
    if let Ok(Ok(keys)) = file {
        for credential in keys.into_values() {
            secrets.extend(secrets_of_login(&credential.key));
            secrets.push(credential.key);
        }
    }
    Redactor::new(secrets)
}

/// Returns the tokens of a login at an MCP server, and the secret of its registration; none for other keys.
fn secrets_of_login(key: &str) -> Vec<String> {
    let Ok(login) = serde_json::from_str::<serde_json::Value>(key) else { return Vec::new() };
    let tokens = "/credentials/token_response";
    let pointers = ["access_token", "refresh_token", "id_token"]
        .map(|name| format!("{tokens}/{name}"))
        .into_iter()
        .chain(["/registration/client_secret".to_owned()]);
    let secrets = pointers.filter_map(|pointer| login.pointer(&pointer)?.as_str());
    secrets.filter(|secret| looks_random(secret)).map(str::to_owned).collect()
}

/// Returns the secrets in the user's MCP servers. Unreadable configuration has none: it is reported elsewhere, and
/// starts no server.
fn of_servers(environment: &ProcessEnvironment) -> Vec<String> {
    let Ok(found) = configured_servers(environment, &ProjectAdditions::default()) else {
        return Vec::new();
    };
    let of_settings = |settings: &McpSettings| {
        let secret = settings.oauth.client_secret.clone();
        let key = settings.oauth.private_key.iter().flat_map(|key| key.secret_lines().to_vec());
        secrets_of_server(&settings.server).into_iter().chain(secret).chain(key).collect::<Vec<_>>()
    };
    found.servers.iter().flat_map(|(settings, _)| of_settings(settings)).collect()
}

/// Returns the secrets in the variables, headers and URL of an MCP server.
pub(crate) fn secrets_of_server(server: &McpServerConfig) -> Vec<String> {
    let (values, address) = match &server.transport {
        McpTransport::Stdio { env, .. } => (env, ""),
        McpTransport::Http { headers, url } => (headers, url.as_str()),
        // The client has the credentials.
        McpTransport::Client(_) => return Vec::new(),
    };
    let values = values.iter().flat_map(|(name, value)| secrets_of_header(name, value));
    values.chain(passwords(address).into_iter().filter(|secret| looks_random(secret))).collect()
}

/// Returns the secrets in a header or a variable of a server: `Authorization: Bearer SECRET`.
fn secrets_of_header(name: &str, value: &str) -> Vec<String> {
    if name.eq_ignore_ascii_case("authorization") {
        let last = value.split_whitespace().last().unwrap_or_default();
        return Some(last.to_owned()).filter(|secret| looks_random(secret)).into_iter().collect();
    }
    secrets_of(&name.replace('-', "_"), value)
}

/// Returns the secrets in a header that a client sends with each model request. Words that look like a token count too,
/// since the header names of all gateways cannot be known.
pub(crate) fn secrets_of_client_header(name: &str, value: &str) -> Vec<String> {
    let mut secrets = secrets_of_header(name, value);
    secrets.extend(value.split_whitespace().filter(|word| is_token(word)).map(str::to_owned));
    secrets
}

/// Returns the secrets in a URL: a password, and parts of its path or query that look like a token.
pub(crate) fn secrets_of_url(url: &str) -> Vec<String> {
    let mut secrets = passwords(url);
    secrets.retain(|secret| looks_random(secret));
    let after_host = url.split_once("://").and_then(|(_, rest)| rest.split_once(['/', '?']));
    let parts = after_host.map(|(_, rest)| rest.split(['/', '?', '&', '=', '#']));
    secrets.extend(parts.into_iter().flatten().filter(|part| is_token(part)).map(str::to_owned));
    secrets
}

/// Returns true for a word of at least [`RANDOM`] bytes with both letters and digits.
fn is_token(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    word.len() >= RANDOM && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

fn of_environment(environment: &ProcessEnvironment) -> Vec<String> {
    let public: Vec<String> = PUBLIC.iter().filter_map(|name| environment.var(name)).collect();
    let variables =
        environment.utf8_variables().filter(|(_, value)| !public.iter().any(|one| one == value));
    variables.flat_map(|(name, value)| secrets_of(name, value)).collect()
}

/// Returns the secrets in a variable: its value, or the passwords of the URLs in it.
fn secrets_of(name: &str, value: &str) -> Vec<String> {
    let upper = name.to_ascii_uppercase();
    let is_named = |words: &[&str]| upper.split('_').any(|word| words.contains(&word));
    if is_secret(&upper)
        && !is_named(&NAMES)
        && looks_random(value)
        && !is_path_of_secret(&upper, value)
    {
        return vec![value.to_owned()];
    }
    if !contains_secret(&upper, value) {
        return Vec::new();
    }
    let mut secrets = passwords(value);
    if secrets.is_empty() && !value.contains(char::is_whitespace) && !value.contains("://") {
        secrets.push(value.to_owned());
    }
    secrets.retain(|secret| looks_random(secret));
    secrets
}

/// Returns the passwords in URLs: `https://ann:PASSWORD@host`. A user without a password counts, since it may be a
/// token.
fn passwords(value: &str) -> Vec<String> {
    let after = value.match_indices("://").filter_map(|(at, mark)| value.get(at + mark.len()..));
    let users = after.filter_map(|rest| {
        let host = rest.split(['/', '?', '#', ',', ' ', '"', '\'']).next()?;
        host.rsplit_once('@').map(|(user, _)| user)
    });
    users
        .map(|user| user.split_once(':').map_or(user, |(_, password)| password).to_owned())
        .collect()
}

/// Returns true for a value that is long or mixes kinds of characters. Redacting a word such as `postgres` or
/// `disabled` would garble all output, and such a word is not much of a secret.
fn looks_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    let kinds = [
        has(u8::is_ascii_lowercase),
        has(u8::is_ascii_uppercase),
        has(u8::is_ascii_digit),
        has(u8::is_ascii_punctuation),
    ];
    let mixed = kinds.iter().filter(|has| **has).count() >= 2;
    value.len() >= RANDOM || mixed
}

/// Returns true if a value is the path of a secret and not the secret itself: `SSH_AUTH_SOCK`.
fn is_path_of_secret(upper: &str, value: &str) -> bool {
    let path = Path::new(value);
    if path.is_absolute() && upper.rsplit('_').next().is_some_and(|last| PLACES.contains(&last)) {
        return true;
    }
    path.is_absolute()
        && (path.exists()
            || path.parent().is_some_and(|parent| parent.parent().is_some() && parent.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_server_is_a_secret() {
        let secrets = |name, value| secrets_of_header(name, value);
        assert_eq!(secrets("Authorization", "Bearer abc-0123456789"), ["abc-0123456789"]);
        assert_eq!(secrets("X-Api-Key", "abc-0123456789"), ["abc-0123456789"]);
        assert_eq!(secrets("Accept-Language", "en"), [""; 0]);
    }

    #[test]
    fn credentials_of_a_server_are_secrets() {
        let server = |transport| McpServerConfig { name: "x".to_owned(), transport };
        let map_of = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        let stdio = server(McpTransport::Stdio {
            command: "x".to_owned(),
            args: Vec::new(),
            env: map_of("GITHUB_TOKEN", "ghp_abcdefghij"),
            cwd: None,
        });
        let http = server(McpTransport::Http {
            url: "https://ann:s3cret-pw@mcp.example/x".to_owned(),
            headers: map_of("authorization", "Bearer abc-0123456789"),
        });
        assert_eq!(secrets_of_server(&stdio), ["ghp_abcdefghij"]);
        assert_eq!(secrets_of_server(&http), ["abc-0123456789", "s3cret-pw"]);
    }

    #[test]
    fn client_headers_and_urls_contain_keys_under_any_name() {
        for (name, value, expected) in [
            ("Authorization", "Bearer abc-0123456789", &["abc-0123456789"][..]),
            ("X-Gateway", "v1 0123456789abcdef0123", &["0123456789abcdef0123"]),
            ("Authorization", "Bearer test", &[]),
            // Common words.
            ("X-Team", "engineering", &[]),
            ("User-Agent", "crow-agent/1.0", &[]),
        ] {
            let mut secrets = secrets_of_client_header(name, value);
            secrets.dedup();
            assert_eq!(secrets, expected, "{name}: {value}");
        }
        for (url, expected) in [
            ("https://ann:s3cret-pw@gateway.example/v1", Some("s3cret-pw")),
            ("https://a.example/v1?k=0123456789abcdef0123", Some("0123456789abcdef0123")),
            ("https://gateway-number-0123456789.example/v1", None),
            ("http://127.0.0.1:8080/v1", None),
        ] {
            assert_eq!(secrets_of_url(url).first().map(String::as_str), expected, "{url}");
        }
    }

    #[test]
    fn secrets_are_recognized_and_common_words_are_not() {
        for (variable, expected) in [
            ("ANTHROPIC_API_KEY=sk-ant-0123", Some("sk-ant-0123")),
            ("GITHUB_TOKEN=ghp_abcdefghij", Some("ghp_abcdefghij")),
            ("DB_PASSWORD=Tr0ub4dor&3", Some("Tr0ub4dor&3")),
            ("DB_PASSWORD=correcthorsebatterystaple", Some("correcthorsebatterystaple")),
            ("PIP_INDEX_URL=https://ann:s3cret-pw@pypi.example/simple", Some("s3cret-pw")),
            ("GOPROXY=https://tok3n-0123@proxy.example,direct", Some("tok3n-0123")),
            ("CARGO_G=AKIAIOSFODNN7EXAMPLE", Some("AKIAIOSFODNN7EXAMPLE")),
            // Common words and names.
            ("POSTGRES_PASSWORD=postgres", None),
            ("WEBHOOK_AUTH=disabled", None),
            ("SONAR_LOGIN=benjamin1", None),
            // Paths.
            ("SSH_AUTH_SOCK=/tmp/ssh-xyz/agent.1", None),
            ("GPG_KEY=/etc/passwd", None),
            ("PASSWORD_STORE_DIR=/tmp/store-1", None),
            // No secrets.
            ("PATH=/usr/bin:/bin", None),
            ("JAVA_TOOL_OPTIONS=-Da.password=x1 -Db=2", None),
        ] {
            let (name, value) = variable.split_once('=').unwrap();
            let secrets = secrets_of(name, value);
            assert_eq!(secrets.first().map(String::as_str), expected, "{variable}");
        }
    }
}
