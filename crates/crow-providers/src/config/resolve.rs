//! Conversion of parsed TOML to the configuration of a provider, and validation of addresses.

use std::{
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

use crow_core::{
    config::{self, ConfigError, SourceText},
    model::ToolCallFormat,
};
use reqwest::{
    Url,
    header::{HeaderName, HeaderValue},
};
use toml::Spanned;

use super::{
    BUILT_IN, KeySource, ModelSettings, PriceSettings, ProviderConfig, ProviderKind, built_in,
    raw::{
        RawIdentity, RawKey, RawPrice, RawProvider, RawProviderLimits, RawProviderModel,
        RawToolCallFormat,
    },
};
use crate::{dialect::Dialect, endpoint::ExtraHeader, limit::RateLimits, secret::ApiKey};

pub(super) fn resolve(
    raw: RawProvider,
    source: SourceText<'_>,
) -> Result<ProviderConfig, ConfigError> {
    let name = name(&raw.provider.name, source)?;
    let base_url = match &raw.provider.base_url {
        Some(url) => Some(base_url(url.get_ref()).map_err(|reason| {
            source.error(&url.span(), format!("base_url cannot be used: {reason}"))
        })?),
        None => None,
    };
    let kind = kind(&raw.provider, source)?;
    let models = raw
        .models
        .into_iter()
        .map(|(id, model)| Ok((id, model_settings(&model, source)?)))
        .collect::<Result<_, _>>()?;
    let headers = raw
        .headers
        .iter()
        .map(|(name, value)| header(name, value, source))
        .collect::<Result<_, _>>()?;
    Ok(ProviderConfig {
        file: Some(source.path.to_owned()),
        name,
        kind,
        base_url,
        key: key_source(raw.auth.api_key, source)?,
        default_model: raw.defaults.model.map(|model| not_blank(model, source)).transpose()?,
        max_tokens: positive(raw.defaults.max_tokens.as_ref(), source)?,
        models,
        headers,
        idle_timeout: positive(raw.timeouts.idle_seconds.as_ref(), source)?
            .map(Duration::from_secs),
        progress_timeout: positive(raw.timeouts.progress_seconds.as_ref(), source)?
            .map(Duration::from_secs),
        limits: limits(&raw.limits, source)?,
    })
}

/// Validates a name, which is the part of model references before the slash and occurs in messages.
fn name(name: &Spanned<String>, source: SourceText<'_>) -> Result<String, ConfigError> {
    let text = name.get_ref();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(is_plain) {
        let message =
            format!("name \"{text}\" must consist of letters, digits, \"-\", \"_\" and \".\"");
        return Err(source.error(&name.span(), message));
    }
    Ok(text.clone())
}

/// Returns the kind for a `type`. One that names both a built-in provider and a dialect is the built-in provider,
/// unless a base URL is set.
fn kind(raw: &RawIdentity, source: SourceText<'_>) -> Result<ProviderKind, ConfigError> {
    let text = raw.kind.get_ref().as_str();
    let found = (built_in::find(text), Dialect::find(text), &raw.base_url);
    match found {
        (_, Some(dialect), Some(_)) => Ok(ProviderKind::Dialect(dialect)),
        (Some(built_in), _, _) => Ok(ProviderKind::BuiltIn(built_in)),
        (None, Some(_), None) => {
            let message = format!("type \"{text}\" is a wire format and needs a base_url");
            Err(source.error(&raw.kind.span(), message))
        }
        (None, None, _) => Err(source
            .error(&raw.kind.span(), config::unknown_word_message("type", text, &known_types()))),
    }
}

/// Returns the possible values of `type`: the built-in providers, then the wire formats that are not among them.
pub(super) fn known_types() -> Vec<&'static str> {
    let mut known: Vec<&str> = BUILT_IN.iter().map(|built_in| built_in.name).collect();
    for dialect in Dialect::names() {
        if !known.contains(&dialect) {
            known.push(dialect);
        }
    }
    known
}

fn key_source(
    raw: Option<Spanned<RawKey>>,
    source: SourceText<'_>,
) -> Result<KeySource, ConfigError> {
    let Some(raw) = raw else { return Ok(KeySource::BuiltIn) };
    let span = raw.span();
    match raw.into_inner() {
        RawKey::Variable(name) if name.trim().is_empty() || name.contains('=') => {
            Err(source.error(&span, format!("\"{name}\" cannot name a variable")))
        }
        RawKey::Variable(name) => Ok(KeySource::Variable(name)),
        RawKey::Direct(text) => match ApiKey::check(&text) {
            Ok(key) => Ok(KeySource::Direct(key)),
            Err(reason) => Err(source.error(&span, format!("api_key {reason}"))),
        },
    }
}

fn model_settings(
    raw: &RawProviderModel,
    source: SourceText<'_>,
) -> Result<ModelSettings, ConfigError> {
    let tool_calls = match (&raw.tool_calls, raw.supports_tools) {
        (None, _) => None,
        (Some(format), supports_tools) => match format.get_ref() {
            RawToolCallFormat::Text => Some(ToolCallFormat::Text),
            RawToolCallFormat::CodeBlocks => Some(ToolCallFormat::CodeBlocks),
            RawToolCallFormat::Native if supports_tools == Some(false) => {
                let message = "tool_calls = \"native\" contradicts supports_tools = false; \"text\" works without";
                return Err(source.error(&format.span(), message));
            }
            RawToolCallFormat::Native => Some(ToolCallFormat::Native),
        },
    };
    Ok(ModelSettings {
        tool_calls,
        context_window: positive(raw.context_window.as_ref(), source)?,
        max_output_tokens: positive(raw.max_output_tokens.as_ref(), source)?,
        tools: raw.supports_tools,
        vision: raw.supports_vision,
        thinking: raw.supports_extended_thinking,
        price: raw.price.as_ref().map(|price| price_settings(price, source)).transpose()?,
    })
}

fn price_settings(raw: &RawPrice, source: SourceText<'_>) -> Result<PriceSettings, ConfigError> {
    let amount = |value: &Spanned<f64>| {
        let number = *value.get_ref();
        if number.is_finite() && number >= 0.0 {
            return Ok(number);
        }
        let message = format!("{number} is not a price in US dollars per million tokens");
        Err(source.error(&value.span(), message))
    };
    Ok(PriceSettings {
        input: amount(&raw.input)?,
        output: amount(&raw.output)?,
        cache_read: raw.cache_read.as_ref().map(amount).transpose()?,
        cache_write: raw.cache_write.as_ref().map(amount).transpose()?,
    })
}

fn header(
    name: &Spanned<String>,
    value: &Spanned<String>,
    source: SourceText<'_>,
) -> Result<ExtraHeader, ConfigError> {
    if HeaderName::try_from(name.get_ref()).is_err() {
        let message = format!("\"{}\" cannot name a header", name.get_ref());
        return Err(source.error(&name.span(), message));
    }
    if HeaderValue::try_from(value.get_ref()).is_err() {
        let message = "a header may have only printable ASCII";
        return Err(source.error(&value.span(), message));
    }
    Ok(ExtraHeader { name: name.get_ref().clone(), value: value.get_ref().clone() })
}

fn limits(raw: &RawProviderLimits, source: SourceText<'_>) -> Result<RateLimits, ConfigError> {
    let small = |number: Option<&Spanned<u64>>| match (positive(number, source)?, number) {
        (Some(value), Some(number)) => u32::try_from(value).map(NonZeroU32::new).map_err(|_| {
            let message = format!("{value} is too much: the most is {}", u32::MAX);
            source.error(&number.span(), message)
        }),
        (_, _) => Ok(None),
    };
    Ok(RateLimits {
        concurrency: small(raw.concurrency.as_ref())?,
        requests_per_minute: small(raw.requests_per_minute.as_ref())?,
        tokens_per_minute: positive(raw.tokens_per_minute.as_ref(), source)?
            .and_then(NonZeroU64::new),
    })
}

fn not_blank(text: Spanned<String>, source: SourceText<'_>) -> Result<String, ConfigError> {
    if text.get_ref().trim().is_empty() {
        return Err(source.error(&text.span(), "model is empty; leave it out to have no default"));
    }
    Ok(text.into_inner())
}

fn positive(
    number: Option<&Spanned<u64>>,
    source: SourceText<'_>,
) -> Result<Option<u64>, ConfigError> {
    match number {
        Some(number) if *number.get_ref() == 0 => {
            Err(source.error(&number.span(), "0 is not possible here; leave the key out instead"))
        }
        Some(number) => Ok(Some(*number.get_ref())),
        None => Ok(None),
    }
}

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
