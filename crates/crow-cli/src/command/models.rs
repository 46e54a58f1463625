//! `models`: listing providers and models.

use std::fmt::Write as _;

use crow_app::{ProcessEnvironment, product};
use crow_console::ExitCode;
use crow_providers::{CredentialStatus, FoundModel, ModelSummary, ProviderSummary, discover};
use crow_text::one_line;
use serde_json::json;

use super::trust::project_around;
use crate::{
    args::{ModelsArgs, OutputForm},
    error::CliError,
    terminal::write_out,
};

/// Lists all providers, or the named one, with their models and the discovered local servers.
pub(crate) async fn models(
    args: &ModelsArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let project = project_around(environment.current_dir()?, environment)?;
    let models = product::models(environment, &project.additions.providers)?;
    if let Some(name) = &args.provider {
        models.default_model_of(name)?;
    }
    let is_selected = |name: &str| args.provider.as_deref().is_none_or(|provider| provider == name);
    let servers = discover(&models).await;
    let mut text = String::new();
    for provider in models.list().iter().filter(|provider| is_selected(&provider.name)) {
        let served = servers
            .iter()
            .find(|server| server.provider == provider.name)
            .map(|server| server.models.as_slice());
        match args.output {
            OutputForm::Text => describe(provider, served, &mut text),
            OutputForm::Json => describe_json(provider, served, &mut text),
        }
    }
    if args.output == OutputForm::Text {
        text.push_str("Any other model id works too, with --model PROVIDER/ID.\n");
    }
    write_out(text.as_bytes())
}

fn describe(provider: &ProviderSummary, served: Option<&[FoundModel]>, text: &mut String) {
    let address = match &provider.base_url {
        Ok(url) => url.clone(),
        Err(reason) => format!("unusable: {reason}"),
    };
    let state = match (&provider.credentials, served) {
        (_, Some(models)) => format!("running, {} models", models.len()),
        (CredentialStatus::Present, None) => "key found".to_owned(),
        (CredentialStatus::Stored, None) => "key stored".to_owned(),
        (CredentialStatus::NotNeeded, None)
            if provider.models.is_empty() && !address.is_empty() =>
        {
            "not running".to_owned()
        }
        (CredentialStatus::NotNeeded, None) => "no key needed".to_owned(),
        (CredentialStatus::Missing { variable }, None) => {
            format!("no key: set {variable}, or `crow-agent login {}`", provider.name)
        }
        (CredentialStatus::Unusable { reason }, None) => format!("key unusable: {reason}"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}  {}  {}", provider.name, one_line(&state), one_line(&address));
    for model in &provider.models {
        let marker =
            if provider.default_model.as_deref() == Some(model.info.reference.model.as_str()) {
                "*"
            } else {
                " "
            };
        let _ =
            writeln!(text, "  {marker} {:<42}{}", model.info.reference.to_string(), facts(model));
    }
    for model in served.unwrap_or_default() {
        let _ = writeln!(text, "    {}/{}", provider.name, one_line(&model.id));
    }
    text.push('\n');
}

fn facts(model: &ModelSummary) -> String {
    let window = model
        .info
        .context_window
        .map_or_else(|| "window unknown".to_owned(), |tokens| format!("{}k", tokens / 1000));
    let price = model.price.map_or_else(
        || "price unknown".to_owned(),
        |price| format!("${} in, ${} out per 1M", price.input, price.output),
    );
    format!("{window:>8}  {price}")
}

fn describe_json(provider: &ProviderSummary, served: Option<&[FoundModel]>, text: &mut String) {
    let (credentials, missing) = match &provider.credentials {
        CredentialStatus::Present => ("present", None),
        CredentialStatus::Stored => ("stored", None),
        CredentialStatus::NotNeeded => ("not_needed", None),
        CredentialStatus::Missing { variable } => ("missing", Some(variable)),
        CredentialStatus::Unusable { .. } => ("unusable", None),
    };
    let models = provider.models.iter().map(|model| {
        json!({
            "model": model.info.reference.to_string(),
            "context_window": model.info.context_window,
            "max_output_tokens": model.info.max_output_tokens,
            "vision": model.info.abilities.vision,
            "thinking": model.info.abilities.thinking,
            "price": model.price.map(|price| json!({"input": price.input, "output": price.output, "cache_read": price.cache_read, "cache_write": price.cache_write})),
        })
    });
    let line = json!({
        "provider": provider.name,
        "dialect": provider.dialect,
        "base_url": provider.base_url.as_ref().ok(),
        "credentials": credentials,
        "variable": missing,
        "default_model": provider.default_model,
        "models": models.collect::<Vec<_>>(),
        "served": served.map(|models| models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>()),
    });
    let _ = writeln!(text, "{line}");
}
