use std::{collections::HashMap, path::Path};

use super::*;

type VariableTable = &'static [(&'static str, &'static str)];

fn models_with(environment: VariableTable, files: &[&str]) -> ProviderModels {
    let variables: HashMap<&str, &str> = environment.iter().copied().collect();
    let lookup = move |name: &str| variables.get(name).map(|value| (*value).to_owned());
    let config = |text: &&str| ProviderConfig::parse(Path::new("x.toml"), text).unwrap();
    ProviderModels::new(files.iter().map(config).collect(), lookup, HttpClient::default()).unwrap()
}

fn reference(text: &str) -> ModelRef {
    text.parse().unwrap()
}

async fn resolve(models: &ProviderModels, text: &str) -> Result<ResolvedModel, String> {
    models.resolve(&reference(text)).await.map_err(|error| error.to_string())
}

fn summary(models: &ProviderModels, name: &str) -> ProviderSummary {
    models.list().into_iter().find(|provider| provider.name == name).unwrap()
}

#[test]
fn the_environment_overrides_the_address_of_a_provider() {
    for (provider, environment, expected) in [
        ("anthropic", &[][..], "https://api.anthropic.com"),
        ("anthropic", &[("ANTHROPIC_BASE_URL", "http://box:1/")], "http://box:1"),
        ("openai", &[], "https://api.openai.com/v1"),
        ("openai", &[("OPENAI_BASE_URL", "http://box:1/v1/")], "http://box:1/v1"),
        ("openai-chat", &[("OPENAI_BASE_URL", "http://box:1/v1")], "http://box:1/v1"),
        ("gemini", &[], "https://generativelanguage.googleapis.com"),
        ("gemini", &[("GEMINI_BASE_URL", "http://box:1")], "http://box:1"),
        ("openrouter", &[], "https://openrouter.ai/api/v1"),
        ("openrouter", &[("OPENROUTER_BASE_URL", "http://box:1/api/v1")], "http://box:1/api/v1"),
        ("ollama", &[], "http://127.0.0.1:11434/v1"),
        ("ollama", &[("OLLAMA_HOST", "0.0.0.0")], "http://127.0.0.1:11434/v1"),
        ("ollama", &[("OLLAMA_HOST", " ")], "http://127.0.0.1:11434/v1"),
        ("llamacpp", &[], "http://127.0.0.1:8080/v1"),
        ("llamacpp", &[("LLAMACPP_HOST", "box:1")], "http://box:1/v1"),
        ("lmstudio", &[], "http://127.0.0.1:1234/v1"),
        ("lmstudio", &[("LMSTUDIO_HOST", "box")], "http://box:1234/v1"),
        ("vllm", &[], "http://127.0.0.1:8000/v1"),
        ("vllm", &[("VLLM_HOST", "https://box.example")], "https://box.example/v1"),
    ] {
        let summary = summary(&models_with(environment, &[]), provider);
        assert_eq!(summary.base_url, Ok(expected.to_owned()), "{provider} {environment:?}");
    }
}

#[tokio::test]
async fn an_invalid_address_in_the_environment_is_reported_with_its_variable() {
    for (model, environment, expected) in [
        (
            "openai/gpt-5",
            &[("OPENAI_API_KEY", "sk"), ("OPENAI_BASE_URL", "box:1")][..],
            "provider openai cannot be used: OPENAI_BASE_URL cannot be used: \"box:1\" must begin with https:// or http://",
        ),
        (
            "ollama/x",
            &[("OLLAMA_HOST", "no host")],
            "provider ollama cannot be used: OLLAMA_HOST cannot be used: \"http://no host\" is not a URL: invalid international domain name",
        ),
    ] {
        let models = models_with(environment, &[]);
        assert_eq!(resolve(&models, model).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn a_missing_or_invalid_key_is_reported_with_its_variable() {
    for (model, environment, expected) in [
        ("anthropic/x", &[][..], "no credentials for anthropic: set ANTHROPIC_API_KEY"),
        ("openai/x", &[], "no credentials for openai: set OPENAI_API_KEY"),
        ("openai-chat/x", &[], "no credentials for openai-chat: set OPENAI_API_KEY"),
        ("gemini/x", &[], "no credentials for gemini: set GEMINI_API_KEY"),
        ("openrouter/x/y", &[], "no credentials for openrouter: set OPENROUTER_API_KEY"),
        (
            "anthropic/x",
            &[("ANTHROPIC_API_KEY", "\n")],
            "no credentials for anthropic: set ANTHROPIC_API_KEY",
        ),
        (
            "anthropic/x",
            &[("ANTHROPIC_API_KEY", "sk one\nsk-two")],
            "provider anthropic cannot be used: the key in ANTHROPIC_API_KEY has white space in its middle; was more \
             than the key copied?",
        ),
    ] {
        let models = models_with(environment, &[]);
        assert_eq!(resolve(&models, model).await.unwrap_err(), expected, "{model}");
    }
}

#[tokio::test]
async fn a_provider_that_needs_no_key_is_resolved_without_one() {
    let models = models_with(&[], &[]);
    for model in ["ollama/qwen3", "llamacpp/x", "lmstudio/a/b", "vllm/x"] {
        assert!(resolve(&models, model).await.is_ok(), "{model}");
    }
}

#[tokio::test]
async fn an_unknown_window_is_no_warning_where_the_server_is_asked_for_it() {
    let elsewhere = &[("LLAMACPP_HOST", "box:1")][..];
    for (environment, model, is_warned) in
        [(&[][..], "llamacpp/x", false), (&[], "ollama/x", false), (elsewhere, "llamacpp/x", true)]
    {
        let models = models_with(environment, &[]);
        let resolved = models.resolve(&model.parse().unwrap()).await.unwrap();
        assert_eq!(resolved.warning.is_some(), is_warned, "{model}: {:?}", resolved.warning);
    }
}

#[tokio::test]
async fn an_unknown_provider_is_reported_with_the_nearest_name() {
    let models = models_with(&[], &["[provider]\nname = 'work'\ntype = 'ollama'\n"]);
    let error = resolve(&models, "antropic/x").await.unwrap_err();
    assert_eq!(
        error,
        "unknown provider \"antropic\", did you mean \"anthropic\"?; known are anthropic, openai, openai-chat, gemini, \
         openrouter, ollama, llamacpp, lmstudio, vllm, replay, work"
    );
}

#[tokio::test]
async fn the_file_takes_precedence_over_the_table_of_models() {
    let environment = &[("ANTHROPIC_API_KEY", "sk")];
    let file = "
        [provider]
        name = 'anthropic'
        type = 'anthropic'
        [models.claude-sonnet-4-5]
        context_window = 1000000
        supports_vision = false
        price = { input = 1.0, output = 2.0 }
    ";
    for (files, window, vision, input, cache_read) in
        [(&[][..], 200_000, true, 3.0, 0.3), (&[file], 1_000_000, false, 1.0, 1.0)]
    {
        let models = models_with(environment, files);
        let resolved = resolve(&models, "anthropic/claude-sonnet-4-5").await.unwrap();
        assert_eq!(resolved.info.context_window, Some(window));
        assert_eq!(resolved.info.max_output_tokens, Some(64_000));
        assert_eq!(resolved.info.abilities.vision, vision);
        assert!(resolved.info.abilities.thinking);
        assert_eq!(resolved.warning, None);
        let price = models.price(&resolved.info.reference).await.unwrap();
        let expected = Price { input, cache_read, ..price };
        assert_eq!(price, expected);
    }
}

#[tokio::test]
async fn an_unknown_model_is_accepted_with_a_warning() {
    let environment = &[("ANTHROPIC_API_KEY", "sk"), ("OLLAMA_HOST", "http://box:11434")];
    let models = models_with(
        environment,
        &[
            "[provider]\nname = 'box'\ntype = 'openai-chat'\nbase_url = 'http://box:1/v1'\n[models.m]\n",
        ],
    );
    let mut report = Vec::new();
    for model in ["anthropic/claude-sonet-5-5", "anthropic/zzz", "ollama/qwen3", "box/a/b", "box/m"]
    {
        let resolved = resolve(&models, model).await.unwrap();
        assert_eq!(resolved.info.context_window, None);
        report.push(resolved.warning.unwrap());
    }
    let models = models.with_folder("/config/providers");
    for model in ["anthropic/zzz", "box/m"] {
        report.push(resolve(&models, model).await.unwrap().warning.unwrap());
    }
    insta::assert_snapshot!(report.join("\n"));
    assert_eq!(models.price(&reference("anthropic/zzz")).await, None);
    let own = models.price(&reference("ollama/qwen3")).await.unwrap();
    assert_eq!(own, crate::catalogue::FREE, "one's own machine charges nothing");
}

#[test]
fn the_default_model_is_that_of_the_first_provider_with_a_key() {
    const WORK: &str = "[provider]\nname = 'work'\ntype = 'openai'\n[defaults]\nmodel = 'gpt-5'\n[auth]\napi_key = { env = 'WORK' }\n";
    const BOX: &str = "[provider]\nname = 'box'\ntype = 'vllm'\n[defaults]\nmodel = 'qwen3'\n";
    const OWN: &str = "[provider]\nname = 'anthropic'\ntype = 'anthropic'\n[defaults]\nmodel = 'claude-opus-5-5'\n";
    for (environment, files, expected) in [
        (&[][..], &[][..], None),
        (
            &[("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")],
            &[],
            Some("anthropic/claude-sonnet-5-5"),
        ),
        (&[("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k")], &[], Some("openai/gpt-6.1-sol")),
        (&[("GEMINI_API_KEY", "k")], &[], Some("gemini/gemini-3.8-flash")),
        (&[("OPENROUTER_API_KEY", "k")], &[], Some("openrouter/anthropic/claude-sonnet-5.5")),
        (&[("ANTHROPIC_API_KEY", "k"), ("WORK", "k")], &[WORK], Some("work/gpt-5")),
        (&[("ANTHROPIC_API_KEY", "k")], &[WORK], Some("anthropic/claude-sonnet-5-5")),
        (&[("ANTHROPIC_API_KEY", "k")], &[BOX, OWN], Some("anthropic/claude-opus-5-5")),
        (&[], &[BOX, OWN], Some("box/qwen3")),
        (&[("OLLAMA_API_KEY", "k")], &[], None),
    ] {
        let models = models_with(environment, files);
        let found = models.default_model().map(|model| model.to_string());
        assert_eq!(found.as_deref(), expected, "{environment:?} {files:?}");
    }
    let models = models_with(&[], &[]);
    assert_eq!(models.default_model_of("ollama"), Ok(None));
    assert!(models.default_model_of("zzz").is_err());
}

#[test]
fn the_list_shows_every_provider_without_asking_any() {
    let file = "
        [provider]
        name = 'work'
        type = 'openai-chat'
        base_url = 'https://user:secret@llm.example/v1'
        [auth]
        api_key = { env = 'WORK_KEY' }
        [defaults]
        model = 'm'
        [models.m]
        context_window = 1000
    ";
    let environment =
        &[("ANTHROPIC_API_KEY", "sk"), ("OPENAI_API_KEY", "a b"), ("OLLAMA_HOST", "x y")];
    let mut report = Vec::new();
    for provider in models_with(environment, &[file]).list() {
        let ProviderSummary { name, dialect, base_url, credentials, default_model, models, .. } =
            provider;
        let first = models.first().map(|model| model.info.reference.to_string());
        report.push(format!(
            "{name} | {dialect} | {base_url:?} | {credentials:?} | {default_model:?} | {} models, first {first:?}",
            models.len()
        ));
    }
    assert!(!report.join("").contains("secret"), "{report:?}");
    insta::assert_snapshot!(report.join("\n"));
}

#[test]
fn two_files_with_one_name_are_an_error() {
    let config = || {
        ProviderConfig::parse(Path::new("x"), "[provider]\nname = 'a'\ntype = 'ollama'").unwrap()
    };
    let outcome = ProviderModels::new(vec![config(), config()], |_| None, HttpClient::default());
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "provider a cannot be used: it is configured twice"
    );
}

#[tokio::test]
async fn a_recording_is_read_from_its_path() {
    let models = models_with(&[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.json");
    let text = r#"{"format":"crow-replay","version":1,"replies":[{"blocks":[{"text":"Hi"}]}]}"#;
    std::fs::write(&path, text).unwrap();
    let model = format!("replay/{}", path.display());
    let resolved = resolve(&models, &model).await.unwrap();
    assert_eq!((resolved.provider.name(), resolved.warning), ("replay", None));
    assert_eq!(models.price(&reference(&model)).await, Some(crate::catalogue::FREE));
    let error = resolve(&models, "replay/no/such.json").await.unwrap_err();
    assert!(
        error.starts_with("provider replay cannot be used: read the recording no/such.json: "),
        "{error}"
    );
}
