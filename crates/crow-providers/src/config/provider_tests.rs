use std::num::{NonZeroU32, NonZeroU64};

use crow_core::config::TextPosition;

use super::*;
use crate::{openai::ChatVariant, secret::ApiKey};

fn parse(text: &str) -> Result<ProviderConfig, ConfigError> {
    ProviderConfig::parse(Path::new("providers/work.toml"), text)
}

/// The provider of seed 001, which sets few fields.
const SEED: &str = r#"
[provider]
name = "anthropic"
type = "anthropic"

[auth]
# Can be env var reference or direct (not recommended)
api_key = { env = "ANTHROPIC_API_KEY" }

[defaults]
model = "claude-sonnet-4-20250514"
max_tokens = 8192

[models.claude-sonnet-4-20250514]
context_window = 200000
supports_tools = true
supports_vision = true

[models.claude-opus-4-20250514]
context_window = 200000
supports_tools = true
supports_vision = true
supports_extended_thinking = true
"#;

#[test]
fn the_provider_of_the_specification_is_read() {
    let config = parse(SEED).unwrap();
    assert_eq!(config.name(), "anthropic");
    assert!(matches!(config.kind, ProviderKind::BuiltIn(built_in) if built_in.name == "anthropic"));
    assert_eq!(config.key, KeySource::Variable("ANTHROPIC_API_KEY".to_owned()));
    assert_eq!(config.default_model.as_deref(), Some("claude-sonnet-4-20250514"));
    assert_eq!(config.max_tokens, Some(8192));
    let settings = |thinking| ModelSettings {
        context_window: Some(200_000),
        tools: Some(true),
        vision: Some(true),
        thinking,
        ..ModelSettings::default()
    };
    let models = [
        ("claude-opus-4-20250514".to_owned(), settings(Some(true))),
        ("claude-sonnet-4-20250514".to_owned(), settings(None)),
    ];
    assert_eq!(config.models, BTreeMap::from(models));
}

#[test]
fn all_fields_are_read() {
    let config = parse(
        r#"
        [provider]
        name = "deep_seek.2"
        type = "openai-chat"
        base_url = "https://api.deepseek.com/v1/"
        [auth]
        api_key = "sk-direct "
        [models."deepseek-ai/DeepSeek-V3.2"]
        max_output_tokens = 8192
        supports_tools = false
        tool_calls = "text"
        price = { input = 0.28, output = 1, cache_read = 0.028, cache_write = 0 }
        [headers]
        X-Team = "crow"
        [timeouts]
        idle_seconds = 300
        progress_seconds = 900
        [limits]
        concurrency = 2
        requests_per_minute = 30
        tokens_per_minute = 40000
        "#,
    )
    .unwrap();
    let settings = ModelSettings {
        max_output_tokens: Some(8192),
        tools: Some(false),
        tool_calls: Some(ToolCallFormat::Text),
        price: Some(PriceSettings {
            input: 0.28,
            output: 1.0,
            cache_read: Some(0.028),
            cache_write: Some(0.0),
        }),
        ..ModelSettings::default()
    };
    let expected = ProviderConfig {
        file: Some("providers/work.toml".into()),
        name: "deep_seek.2".to_owned(),
        kind: ProviderKind::Dialect(Dialect::OpenAiChat(ChatVariant::COMPATIBLE)),
        base_url: Some("https://api.deepseek.com/v1".to_owned()),
        key: KeySource::Direct(ApiKey::new("sk-direct").unwrap()),
        default_model: None,
        max_tokens: None,
        models: BTreeMap::from([("deepseek-ai/DeepSeek-V3.2".to_owned(), settings)]),
        headers: vec![ExtraHeader { name: "X-Team".to_owned(), value: "crow".to_owned() }],
        idle_timeout: Some(Duration::from_mins(5)),
        progress_timeout: Some(Duration::from_mins(15)),
        limits: RateLimits {
            concurrency: NonZeroU32::new(2),
            requests_per_minute: NonZeroU32::new(30),
            tokens_per_minute: NonZeroU64::new(40_000),
        },
    };
    assert_eq!(config, expected);
    assert!(!format!("{config:?}").contains("sk-direct"));
}

#[test]
fn an_ambiguous_type_is_the_built_in_provider_unless_it_has_a_base_url() {
    for (kind, base_url, expected) in [
        ("openai-chat", "", "built in"),
        ("openai-chat", "base_url = 'http://box:8000/v1'", "dialect openai-chat"),
        ("gemini", "", "built in"),
        ("gemini", "base_url = 'http://box:8000'", "dialect gemini"),
        ("openai", "base_url = 'http://box:8000/v1'", "built in"),
        ("openai-responses", "base_url = 'http://box:8000/v1'", "dialect openai-responses"),
        ("anthropic-messages", "base_url = 'http://box:8000'", "dialect anthropic-messages"),
        ("ollama", "base_url = 'http://box:8000/v1'", "built in"),
        ("replay", "", "built in"),
    ] {
        let text = format!("[provider]\nname = 'x'\ntype = '{kind}'\n{base_url}\n");
        let found = match parse(&text).unwrap().kind {
            ProviderKind::BuiltIn(built_in) => {
                assert_eq!(built_in.name, kind);
                "built in".to_owned()
            }
            ProviderKind::Dialect(dialect) => format!("dialect {}", dialect.name()),
        };
        assert_eq!(found, expected, "{kind} {base_url}");
    }
}

#[test]
fn every_mistake_is_told_with_its_place_and_what_to_do() {
    let head = "[provider]\nname = \"work\"\ntype = \"anthropic\"\n";
    let cases: Vec<(&str, String)> = vec![
        ("empty", String::new()),
        ("not TOML", "[provider\nname = 1".to_owned()),
        ("a string without end", format!("{head}base_url = \"http://x\n")),
        ("a key twice", format!("{head}name = \"again\"\n")),
        ("no name", "[provider]\ntype = \"anthropic\"\n".to_owned()),
        ("an unknown form of calls", format!("{head}[models.x]\ntool_calls = \"xml\"\n")),
        (
            "native calls without tools",
            format!("{head}[models.x]\nsupports_tools = false\ntool_calls = \"native\"\n"),
        ),
        ("a number for a name", "[provider]\nname = 5\ntype = \"anthropic\"\n".to_owned()),
        ("a name with a slash", "[provider]\nname = \"a/b\"\ntype = \"anthropic\"\n".to_owned()),
        ("an empty name", "[provider]\nname = \"\"\ntype = \"anthropic\"\n".to_owned()),
        ("a type like another", "[provider]\nname = \"x\"\ntype = \"antropic\"\n".to_owned()),
        ("a type like none", "[provider]\nname = \"x\"\ntype = \"zzz\"\n".to_owned()),
        (
            "a dialect without a place",
            "[provider]\nname = \"x\"\ntype = \"openai-responses\"\n".to_owned(),
        ),
        ("an unknown key", format!("{head}basee_url = \"http://x\"\n")),
        ("an unknown key like none", format!("{head}zzz = 1\n")),
        ("an unknown table", format!("{head}[model]\n")),
        ("an unknown key of a model", format!("{head}[models.\"größe\"]\nsupport_tools = true\n")),
        (
            "an unknown key of a price",
            format!("{head}[models.x]\nprice = {{ inptu = 1.0, output = 2.0 }}\n"),
        ),
        ("half a price", format!("{head}[models.x]\nprice = {{ input = 1.0 }}\n")),
        (
            "a negative price",
            format!("{head}[models.x]\nprice = {{ input = 1.0, output = -2.0 }}\n"),
        ),
        (
            "no number for a price",
            format!("{head}[models.x]\nprice = {{ input = nan, output = 2.0 }}\n"),
        ),
        ("a bad URL", format!("{head}base_url = \"api.example.org\"\n")),
        ("a key that is no key", format!("{head}[auth]\napi_key = 5\n")),
        ("a key of another form", format!("{head}[auth]\napi_key = {{ file = \"x\" }}\n")),
        ("a key with a line break", format!("{head}[auth]\napi_key = \"sk-1\\nsk-2\"\n")),
        ("an empty key", format!("{head}[auth]\napi_key = \" \"\n")),
        ("an empty variable", format!("{head}[auth]\napi_key = {{ env = \"\" }}\n")),
        ("an empty model", format!("{head}[defaults]\nmodel = \"\"\n")),
        ("zero tokens", format!("{head}[defaults]\nmax_tokens = 0\n")),
        ("a negative window", format!("{head}[models.x]\ncontext_window = -1\n")),
        ("a word for a number", format!("{head}[models.x]\ncontext_window = \"200k\"\n")),
        ("zero seconds", format!("{head}[timeouts]\nidle_seconds = 0\n")),
        ("no requests", format!("{head}[limits]\nconcurrency = 0\n")),
        ("too many requests", format!("{head}[limits]\nrequests_per_minute = 4294967296\n")),
        ("a word for a limit", format!("{head}[limits]\ntokens_per_minute = \"many\"\n")),
        ("an unknown limit", format!("{head}[limits]\nrequest_per_minute = 5\n")),
        ("a header with a space", format!("{head}[headers]\n\"x y\" = \"z\"\n")),
        ("a header with a line break", format!("{head}[headers]\nx = \"a\\nb\"\n")),
    ];
    let report: Vec<String> = cases
        .iter()
        .map(|(name, text)| format!("{name}\n  {}", parse(text).unwrap_err()))
        .collect();
    insta::assert_snapshot!(report.join("\n"));
}

#[test]
fn line_and_column_count_characters() {
    let error = parse("[provider]\nname = \"x\"\ntype = \"anthropic\"\n[headers]\n\"ä\" = \"b\"\n");
    let error = error.unwrap_err();
    assert_eq!(error.position, Some(TextPosition { line: 5, column: 1 }));
    let error = parse("[provider]\nname = \"x\"\n'ö' = 1\ntype = \"anthropic\"\n").unwrap_err();
    assert_eq!(error.position, Some(TextPosition { line: 3, column: 1 }));
}

fn look(value: Option<&'static str>) -> impl Fn(&str) -> Option<String> {
    move |_| value.map(str::to_owned)
}

#[test]
fn a_key_is_looked_up_in_its_source() {
    let key = |text| KeyLookup::Key(ApiKey::new(text).unwrap());
    let missing = |variable: &str| KeyLookup::Missing { variable: variable.to_owned() };
    let variable = KeySource::Variable("MY_KEY".to_owned());
    let direct = KeySource::Direct(ApiKey::new("sk-direct").unwrap());
    for (source, rule, value, expected) in [
        (&KeySource::BuiltIn, KeyRule::Required("K"), Some("sk-1"), key("sk-1")),
        (&KeySource::BuiltIn, KeyRule::Required("K"), Some(" sk-1\r\n"), key("sk-1")),
        (&KeySource::BuiltIn, KeyRule::Required("K"), Some("  "), missing("K")),
        (&KeySource::BuiltIn, KeyRule::Required("K"), None, missing("K")),
        (&KeySource::BuiltIn, KeyRule::Optional("K"), None, KeyLookup::NotNeeded),
        (&KeySource::BuiltIn, KeyRule::Optional("K"), Some("sk-1"), key("sk-1")),
        (&KeySource::BuiltIn, KeyRule::None, Some("sk-1"), KeyLookup::NotNeeded),
        (&variable, KeyRule::None, None, missing("MY_KEY")),
        (&variable, KeyRule::Required("K"), Some("sk-1"), key("sk-1")),
        (&direct, KeyRule::Required("K"), None, key("sk-direct")),
    ] {
        assert_eq!(find_key(source, rule, &look(value)), expected, "{source:?} {rule:?}");
    }
}

#[test]
fn a_key_that_cannot_stand_in_a_header_is_refused_without_showing_it() {
    let mut report = Vec::new();
    for text in ["sk-1 sk-2", "sk-1\nsk-2", "sk-\u{1b}[0m", "sk-\u{200b}1", "sk-ä"] {
        let found =
            find_key(&KeySource::BuiltIn, KeyRule::Required("MY_KEY"), &|_| Some(text.to_owned()));
        let KeyLookup::Unusable { reason } = found else { panic!("{text:?}: {found:?}") };
        report.push(format!("{text:?}: {reason}"));
    }
    insta::assert_snapshot!(report.join("\n"));
}
