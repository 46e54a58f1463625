//! `models`: listing providers and models.

use std::fmt::Write as _;

use crow_agent::{EditTool, ModelProfile, ProfileRegistry, layers::LayerKind};
use crow_app::{
    ModelLists, ProcessEnvironment,
    config::{layers, tool_names},
    product,
};
use crow_console::ExitCode;
use crow_core::model::{ModelRef, ModelRefError, ToolCallFormat};
use crow_providers::{
    CredentialStatus, FoundModel, ModelListError, ModelSummary, ProviderModels, ProviderSummary,
    discover,
};
use crow_text::one_line;
use futures_util::future::join_all;
use serde_json::json;

use super::trust::project_around;
use crate::{
    args::{ModelsArgs, ModelsCommand, OutputForm},
    error::CliError,
    output::visible_json,
    terminal::{print_message, write_out},
};

/// Lists all providers, or the named one, with their models and the discovered local servers.
pub(crate) async fn models(
    args: &ModelsArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    if let Some(ModelsCommand::Show { model, output }) = &args.command {
        return show(model, *output, environment);
    }
    let project = project_around(environment.current_dir()?, environment)?;
    let models = product::models(environment, &project.additions.providers)?;
    if let Some(name) = &args.provider {
        models.default_model_of(name)?;
    }
    let is_selected = |name: &str| args.provider.as_deref().is_none_or(|provider| provider == name);
    let servers = discover(&models).await;
    if args.refresh {
        let is_quiet = |provider: &ProviderSummary| {
            args.provider.is_none() && provider.credentials == CredentialStatus::NotNeeded
        };
        refresh(&models, &is_selected, &is_quiet, environment).await?;
    }
    let lists = ModelLists::load(environment);
    let mut text = String::new();
    for provider in models.list().iter().filter(|provider| is_selected(&provider.name)) {
        let served = servers
            .iter()
            .find(|server| server.provider == provider.name)
            .map(|server| server.models.as_slice());
        match args.output {
            OutputForm::Text => describe(provider, served, &lists, &mut text),
            OutputForm::Json => describe_json(provider, served, &lists, &mut text),
        }
    }
    if args.output == OutputForm::Text {
        text.push_str("Any other model id works too, with --model PROVIDER/ID.\n");
    }
    write_out(text.as_bytes())
}

/// Asks the selected providers that have credentials for their models, all at the same time, and stores the lists. One that
/// does not answer keeps its list, and is named.
async fn refresh(
    models: &ProviderModels,
    is_selected: &impl Fn(&str) -> bool,
    is_quiet: &impl Fn(&ProviderSummary) -> bool,
    environment: &ProcessEnvironment,
) -> Result<(), CliError> {
    let providers = models.list().into_iter().filter(|provider| {
        let is_usable = matches!(
            provider.credentials,
            CredentialStatus::Present | CredentialStatus::Stored | CredentialStatus::NotNeeded
        );
        // A recording has no address, and no list.
        let has_address = provider.base_url.as_ref().is_ok_and(|url| !url.is_empty());
        is_selected(&provider.name) && is_usable && has_address && provider.same_as.is_none()
    });
    let asked = providers.map(|provider| async move {
        let answer = models.ask_for_models(&provider.name).await;
        (provider, answer)
    });
    for (provider, answer) in join_all(asked).await {
        match answer {
            Ok(listed) => ModelLists::store(environment, &provider.name, &listed)
                .map_err(|error| CliError::config(error.to_string()))?,
            // Local servers are asked without being configured; most of them do not run.
            Err(ModelListError::Unreachable { .. }) if is_quiet(&provider) => {}
            Err(error) => print_message(&format!("warning: {error}")),
        }
    }
    Ok(())
}

/// Shows what is known of a model without a request, and what its profile changes.
fn show(
    model: &str,
    output: OutputForm,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let reference: ModelRef =
        model.parse().map_err(|error: ModelRefError| CliError::usage(error.to_string()))?;
    let project = project_around(environment.current_dir()?, environment)?;
    let models = product::models(environment, &project.additions.providers)?;
    let model = models.summary_of(&reference)?;
    let profiles = ProfileRegistry::new(layers(environment, &project.additions)?, tool_names());
    let profile = profiles.for_model(&reference)?;
    let layer = profiles.layer_of(&profile.name);
    let text = match output {
        OutputForm::Text => model_text(&model, &profile, layer),
        OutputForm::Json => format!("{}\n", visible_json(&model_json(&model, &profile, layer))),
    };
    write_out(text.as_bytes())
}

fn model_text(model: &ModelSummary, profile: &ModelProfile, layer: LayerKind) -> String {
    let abilities = model.info.abilities;
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let output = model.info.max_output_tokens;
    let calls = model.info.tool_calls.or(profile.tool_calls).unwrap_or_default();
    let calls_from = if model.info.tool_calls.is_some() { " (provider file)" } else { "" };
    let mut rows = vec![
        ("model", model.info.reference.to_string()),
        ("window and price", model_facts(model).trim().to_owned()),
        ("longest reply", output.map_or("unknown".to_owned(), |tokens| format!("{tokens} tokens"))),
        ("pictures", yes_or_no(abilities.vision).to_owned()),
        ("thinking", yes_or_no(abilities.thinking).to_owned()),
        ("profile", format!("{} ({layer}): {}", profile.name, profile.description)),
        ("tool calls", format!("{}{calls_from}", calls_name(calls))),
        ("system prompt", profile.prompt_style.as_str().to_owned()),
    ];
    if let Some(edit_tool) = profile.edit_tool {
        rows.push(("edits with", edit_tool.tool_name().to_owned()));
    }
    if !profile.left_out.is_empty() {
        rows.push(("without", profile.left_out.join(", ")));
    }
    if !profile.descriptions.is_empty() {
        let names: Vec<&str> = profile.descriptions.keys().map(String::as_str).collect();
        rows.push(("reworded tools", names.join(", ")));
    }
    if let Some(thinking) = profile.thinking.filter(|_| abilities.thinking) {
        rows.push((
            "thinking levels",
            format!(
                "{} in the first {} steps, {} between, {} after a refused claim",
                thinking.opening, thinking.opening_steps, thinking.between, thinking.closing
            ),
        ));
    }
    if profile.shows_named_files {
        rows.push(("named files", "shown with the message".to_owned()));
    }
    if !profile.tells_contradictions {
        rows.push(("contradictions", "not told to the model".to_owned()));
    }
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<18}{}", one_line(value));
        text
    })
}

fn calls_name(format: ToolCallFormat) -> &'static str {
    match format {
        ToolCallFormat::Native => "native",
        ToolCallFormat::Text => "text",
        ToolCallFormat::CodeBlocks => "code_blocks",
    }
}

fn model_json(model: &ModelSummary, profile: &ModelProfile, layer: LayerKind) -> serde_json::Value {
    let thinking = profile.thinking.map(|thinking| {
        json!({
            "opening": thinking.opening,
            "opening_steps": thinking.opening_steps,
            "between": thinking.between,
            "closing": thinking.closing,
        })
    });
    let mut shown = json_of_model(model);
    let calls = model.info.tool_calls.or(profile.tool_calls).unwrap_or_default();
    shown["tool_calls"] = calls_name(calls).into();
    shown["profile"] = json!({
        "name": profile.name,
        "from": layer.as_str(),
        "description": profile.description,
        "prompt_style": profile.prompt_style.as_str(),
        "edit_tool": profile.edit_tool.map(EditTool::tool_name),
        "left_out": profile.left_out,
        "described": profile.descriptions.keys().collect::<Vec<_>>(),
        "thinking": thinking,
        "show_named_files": profile.shows_named_files,
        "tell_contradictions": profile.tells_contradictions,
    });
    shown
}

fn json_of_model(model: &ModelSummary) -> serde_json::Value {
    json!({
        "model": model.info.reference.to_string(),
        "context_window": model.info.context_window,
        "max_output_tokens": model.info.max_output_tokens,
        "vision": model.info.abilities.vision,
        "thinking": model.info.abilities.thinking,
        "price": model.price.map(|price| json!({"input": price.input, "output": price.output, "cache_read": price.cache_read, "cache_write": price.cache_write})),
    })
}

fn describe(
    provider: &ProviderSummary,
    served: Option<&[FoundModel]>,
    lists: &ModelLists,
    text: &mut String,
) {
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
        let _ = writeln!(
            text,
            "  {marker} {:<42}{}",
            model.info.reference.to_string(),
            model_facts(model)
        );
    }
    for id in unknown_models(provider, served, lists) {
        let _ = writeln!(text, "    {}/{}", provider.name, one_line(id));
    }
    text.push('\n');
}

/// Returns the models that a provider serves or listed when it was last asked, without those that are known anyway.
fn unknown_models<'a>(
    provider: &'a ProviderSummary,
    served: Option<&'a [FoundModel]>,
    lists: &'a ModelLists,
) -> Vec<&'a str> {
    let served = served.unwrap_or_default().iter().map(|model| model.id.as_str());
    let listed = lists.of(&provider.name).iter().map(String::as_str);
    let mut ids: Vec<&str> = Vec::new();
    for id in served.chain(listed) {
        let is_known = provider.models.iter().any(|model| model.info.reference.model == id);
        if !is_known && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Describes window and price of a model.
pub(crate) fn model_facts(model: &ModelSummary) -> String {
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

fn describe_json(
    provider: &ProviderSummary,
    served: Option<&[FoundModel]>,
    lists: &ModelLists,
    text: &mut String,
) {
    let (credentials, missing) = match &provider.credentials {
        CredentialStatus::Present => ("present", None),
        CredentialStatus::Stored => ("stored", None),
        CredentialStatus::NotNeeded => ("not_needed", None),
        CredentialStatus::Missing { variable } => ("missing", Some(variable)),
        CredentialStatus::Unusable { .. } => ("unusable", None),
    };
    let models = provider.models.iter().map(json_of_model);
    let line = json!({
        "provider": provider.name,
        "dialect": provider.dialect,
        "base_url": provider.base_url.as_ref().ok(),
        "credentials": credentials,
        "variable": missing,
        "default_model": provider.default_model,
        "models": models.collect::<Vec<_>>(),
        "listed": lists.of(&provider.name),
        "served": served.map(|models| models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>()),
    });
    let _ = writeln!(text, "{}", visible_json(&line));
}
