//! The steps of the setup in their order, and what is written at their end.

use std::{collections::BTreeSet, sync::Arc};

use crow_app::{
    ProcessEnvironment,
    config::Configuration,
    credentials::{Credential, CredentialFile},
    host::{SEND_PROMPTS_QUESTION, agree_to_server, consented_servers},
    product,
    trust::{Project, project_of},
};
use crow_console::ConsoleStyle;
use crow_core::model::{ModelRef, ProviderErrorKind};
use crow_providers::{
    ApiKey, CredentialStatus, FoundModel, FoundServer, KeyDestination, KeyStore, ModelListError,
    ProviderModels, ProviderSummary, StoredKey, discover,
};
use crow_terminal::ThemeChoice;
use tokio::signal::ctrl_c;

use super::{
    dialog::{SetupDialog, StepResult, ask_answer, ask_key},
    model_step::{ModelOffers, NamedModel},
    source_step::{ModelSource, key_page, model_sources, parse_source, search_help},
};
use crate::{
    command::{config::write_value, key_announcement},
    error::CliError,
    terminal::console_style,
};

/// End of the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetupEnd {
    /// A model can be used.
    Done,
    /// The user left, and nothing was written.
    Left,
}

/// Asks for what Crow needs to have a model, and stores it. `reason` says why, if the user did not ask for it. Blocks the
/// thread while it asks.
///
/// # Errors
/// Fails if the terminal or the user's files cannot be used.
pub(crate) async fn set_up(
    environment: &ProcessEnvironment,
    reason: Option<&str>,
) -> Result<SetupEnd, CliError> {
    let keys = product::credential_file(environment)?;
    // An unusable file is reported before anything is asked.
    keys.load()?;
    let style = console_style(environment);
    let project = project_of(environment.current_dir()?, environment)?;
    let wizard = SetupWizard { environment, style, dialog: SetupDialog::new(style), keys, project };
    if let Some(reason) = reason {
        wizard.dialog.say(&format!("crow-agent: {reason}"))?;
    }
    let Some(choices) = wizard.ask_all().await? else { return Ok(SetupEnd::Left) };
    wizard.write(choices)?;
    Ok(SetupEnd::Done)
}

/// A source of models that can be used.
#[derive(Debug)]
struct ChosenSource {
    /// The key to store, and the name under which it is stored.
    key: Option<(String, Credential)>,
    /// Address of a server to which the user agreed.
    agreed: Option<String>,
    offers: ModelOffers,
}

/// What the user chose.
#[derive(Debug)]
struct SetupChoices {
    source: ChosenSource,
    model: ModelRef,
    /// Name of the theme, if it is to be stored.
    theme: Option<String>,
}

/// What a provider said to a key.
enum KeyCheck {
    /// It is accepted, or the provider lists its models to anyone.
    Accepted(Vec<FoundModel>),
    Refused(String),
    /// The provider cannot be asked now.
    Unknown(String),
}

/// The key that was just typed, as if it were stored.
#[derive(Debug)]
struct TypedKey {
    name: String,
    key: StoredKey,
}

impl KeyStore for TypedKey {
    fn find(&self, name: &str) -> Result<Option<StoredKey>, String> {
        Ok((name == self.name).then(|| self.key.clone()))
    }
}

struct SetupWizard<'a> {
    environment: &'a ProcessEnvironment,
    style: ConsoleStyle,
    dialog: SetupDialog,
    keys: CredentialFile,
    project: Project,
}

impl SetupWizard<'_> {
    /// Asks all questions. Returns `None` if the user leaves.
    async fn ask_all(&self) -> Result<Option<SetupChoices>, CliError> {
        self.dialog.say(
            "Crow needs a language model: one of a provider, for which you need a key, or one of a server on this machine. Nothing is stored before the last answer; q leaves.",
        )?;
        loop {
            let source = match self.choose_source().await? {
                StepResult::Answer(source) => source,
                StepResult::Back => continue,
                StepResult::Leave => return Ok(None),
            };
            let Some(model) = self.choose_model(&source.offers)? else { return Ok(None) };
            return Ok(match self.choose_theme()? {
                StepResult::Answer(theme) => Some(SetupChoices { source, model, theme }),
                StepResult::Back | StepResult::Leave => None,
            });
        }
    }

    fn write(&self, choices: SetupChoices) -> Result<(), CliError> {
        let SetupChoices { source, model, theme } = choices;
        if let Some((name, credential)) = source.key {
            self.keys.add(&name, credential)?;
        }
        if let Some(address) = source.agreed {
            agree_to_server(self.environment, &address)?;
        }
        write_value("model", &model.to_string(), self.environment)?;
        if let Some(theme) = theme {
            write_value("terminal.theme", &theme, self.environment)?;
        }
        self.dialog.say(&format!(
            "Stored. The model is {model}; `crow-agent setup` asks all this again, and `crow-agent login` and `config set` change parts of it."
        ))
    }

    fn models(&self) -> Result<ProviderModels, CliError> {
        Ok(product::models(self.environment, &self.project.additions.providers)?)
    }

    /// Lists the sources of models, and prepares the chosen one.
    async fn choose_source(&self) -> Result<StepResult<ChosenSource>, CliError> {
        let models = self.models()?;
        let servers = tokio::select! {
            servers = discover(&models) => servers,
            _ = ctrl_c() => return Ok(StepResult::Leave),
        };
        let sources = model_sources(models.list(), servers);
        self.dialog.say("Where is the model from?")?;
        for (number, source) in (1..).zip(&sources) {
            self.dialog.entry(number, &source.describe())?;
        }
        self.dialog.say("A number or a name; q leaves.")?;
        let source = loop {
            let Some(answer) = ask_answer()? else { return Ok(StepResult::Leave) };
            match parse_source(&answer, &sources) {
                Ok(source) => break source,
                Err(reason) => self.dialog.say(&reason)?,
            }
        };
        match source {
            ModelSource::Provider(provider) => self.prepare_provider(models, provider).await,
            ModelSource::Keyless(provider) => self.prepare_keyless(&models, provider).await,
            ModelSource::Server(server) => self.prepare_server(server),
            ModelSource::Search => {
                self.dialog.say(&search_help())?;
                self.dialog.say("Enter looks again.")?;
                Ok(match ask_answer()? {
                    Some(_) => StepResult::Back,
                    None => StepResult::Leave,
                })
            }
        }
    }

    /// Checks the key that a provider has, or asks for one.
    async fn prepare_provider(
        &self,
        models: ProviderModels,
        provider: &ProviderSummary,
    ) -> Result<StepResult<ChosenSource>, CliError> {
        let home = models.key_home(&provider.name)?;
        let is_stored = provider.credentials == CredentialStatus::Stored;
        if is_stored || provider.credentials == CredentialStatus::Present {
            let Some(check) = self.check(&models, &provider.name).await? else {
                return Ok(StepResult::Leave);
            };
            match check {
                KeyCheck::Accepted(served) => {
                    let offers = ModelOffers::of_provider(provider, &served);
                    return Ok(StepResult::Answer(ChosenSource {
                        key: None,
                        agreed: None,
                        offers,
                    }));
                }
                KeyCheck::Refused(why) if !is_stored => {
                    let place = home.variable.as_deref().unwrap_or("its file");
                    self.dialog.say(&format!("{} Change the key in {place}.", sentence(&why)))?;
                    return Ok(StepResult::Back);
                }
                KeyCheck::Refused(why) => self.dialog.say(&sentence(&why))?,
                KeyCheck::Unknown(why) => {
                    let question = format!("{} Use it all the same?", sentence(&why));
                    return Ok(match self.dialog.confirm(&question)? {
                        Some(true) => {
                            let offers = ModelOffers::of_provider(provider, &[]);
                            StepResult::Answer(ChosenSource { key: None, agreed: None, offers })
                        }
                        Some(false) => StepResult::Back,
                        None => StepResult::Leave,
                    });
                }
            }
        }
        for line in key_announcement(&provider.name, &home, &self.keys) {
            self.dialog.say(&line)?;
        }
        let page = key_page(provider);
        self.dialog.say(&format!(
            "Type or paste the key {page}; it is not shown. Enter alone goes back, q leaves."
        ))?;
        self.ask_for_key(provider, &home).await
    }

    /// Asks for the key of a provider until it accepts one.
    async fn ask_for_key(
        &self,
        provider: &ProviderSummary,
        home: &KeyDestination,
    ) -> Result<StepResult<ChosenSource>, CliError> {
        loop {
            let Some(text) = ask_key()? else {
                return Ok(StepResult::Leave);
            };
            if text.is_empty() {
                return Ok(StepResult::Back);
            }
            let key = match ApiKey::check(&text) {
                Ok(key) => key,
                Err(reason) => {
                    self.dialog.say(&sentence(&format!("This cannot be a key: it {reason}")))?;
                    continue;
                }
            };
            self.environment.late_secrets.learn(vec![text.clone()]);
            let stored = StoredKey { key, origin: home.origin.clone() };
            let typed = TypedKey { name: home.name.clone(), key: stored };
            let models = self.models()?.with_stored_keys(Arc::new(typed));
            let Some(check) = self.check(&models, &provider.name).await? else {
                return Ok(StepResult::Leave);
            };
            let served = match check {
                KeyCheck::Accepted(served) => served,
                KeyCheck::Refused(why) => {
                    let why = sentence(&why.replace(&text, "***"));
                    self.dialog.say(&format!("{why} Type another key, or enter to go back."))?;
                    continue;
                }
                KeyCheck::Unknown(why) => {
                    let why = sentence(&why.replace(&text, "***"));
                    match self.dialog.confirm(&format!("{why} Use the key all the same?"))? {
                        Some(true) => Vec::new(),
                        Some(false) => {
                            self.dialog.say("Type the key again, or enter to go back.")?;
                            continue;
                        }
                        None => return Ok(StepResult::Leave),
                    }
                }
            };
            let credential = Credential { origin: home.origin.clone(), key: text };
            let key = Some((home.name.clone(), credential));
            let offers = ModelOffers::of_provider(provider, &served);
            return Ok(StepResult::Answer(ChosenSource { key, agreed: None, offers }));
        }
    }

    /// Asks a provider for its models, which also checks the key. Returns `None` on ctrl-c.
    async fn check(
        &self,
        models: &ProviderModels,
        provider: &str,
    ) -> Result<Option<KeyCheck>, CliError> {
        self.dialog.say(&format!("Asking {provider} for its models ..."))?;
        let answer = tokio::select! {
            answer = models.ask_for_models(provider) => answer,
            _ = ctrl_c() => return Ok(None),
        };
        Ok(Some(match answer {
            Ok(served) => KeyCheck::Accepted(served),
            Err(
                error @ ModelListError::Refused {
                    kind: ProviderErrorKind::Auth | ProviderErrorKind::Permission,
                    ..
                },
            ) => KeyCheck::Refused(error.to_string()),
            Err(error) => KeyCheck::Unknown(error.to_string()),
        }))
    }

    /// Asks a provider that needs no key for its models.
    async fn prepare_keyless(
        &self,
        models: &ProviderModels,
        provider: &ProviderSummary,
    ) -> Result<StepResult<ChosenSource>, CliError> {
        let served = match self.check(models, &provider.name).await? {
            Some(KeyCheck::Accepted(served)) => served,
            Some(KeyCheck::Refused(why) | KeyCheck::Unknown(why)) => {
                match self.dialog.confirm(&format!("{} Use it all the same?", sentence(&why)))? {
                    Some(true) => Vec::new(),
                    Some(false) => return Ok(StepResult::Back),
                    None => return Ok(StepResult::Leave),
                }
            }
            None => return Ok(StepResult::Leave),
        };
        let offers = ModelOffers::of_provider(provider, &served);
        Ok(StepResult::Answer(ChosenSource { key: None, agreed: None, offers }))
    }

    /// Asks for the consent to send prompts to a server that was found, unless it was given before.
    fn prepare_server(&self, server: &FoundServer) -> Result<StepResult<ChosenSource>, CliError> {
        let FoundServer { provider, base_url, models } = server;
        let agreed: BTreeSet<String> = consented_servers(self.environment)?;
        if !agreed.contains(base_url) {
            let question =
                format!("The server of {provider} is at {base_url}. {SEND_PROMPTS_QUESTION}");
            match self.dialog.confirm(&question)? {
                Some(true) => {}
                Some(false) => return Ok(StepResult::Back),
                None => return Ok(StepResult::Leave),
            }
        }
        let offers = ModelOffers::of_server(provider, models);
        let agreed = Some(base_url.clone());
        Ok(StepResult::Answer(ChosenSource { key: None, agreed, offers }))
    }

    /// Asks for a model. Returns `None` if the user leaves.
    fn choose_model(&self, offers: &ModelOffers) -> Result<Option<ModelRef>, CliError> {
        for (number, line) in (1..).zip(offers.lines()) {
            self.dialog.entry(number, &line)?;
        }
        self.dialog.say(&offers.question())?;
        loop {
            let Some(answer) = ask_answer()? else { return Ok(None) };
            match offers.parse(&answer) {
                Ok(NamedModel::Known(model)) => return Ok(Some(model)),
                Ok(NamedModel::Unlisted(model)) => {
                    let question = format!(
                        "{} does not list {}. Use it all the same?",
                        model.provider, model.model
                    );
                    match self.dialog.confirm(&question)? {
                        Some(true) => return Ok(Some(model)),
                        Some(false) => self.dialog.say("Give another model.")?,
                        None => return Ok(None),
                    }
                }
                Err(reason) => self.dialog.say(&reason)?,
            }
        }
    }

    /// Asks for the theme, if the terminal shows colours. The one in use stays without being written.
    fn choose_theme(&self) -> Result<StepResult<Option<String>>, CliError> {
        if !self.style.colour || !self.style.live {
            return Ok(StepResult::Answer(None));
        }
        let configuration = Configuration::load(self.environment, &self.project.additions)?;
        let current = configuration.settings.terminal.theme.map(|theme| theme.text);
        let names = ThemeChoice::NAMES.map(|(_, name)| name).join(", ");
        let default = current.as_deref().unwrap_or("auto");
        self.dialog.say(&format!("Which colours? {names}; enter for {default}, q leaves."))?;
        loop {
            let Some(answer) = ask_answer()? else { return Ok(StepResult::Leave) };
            if answer.is_empty() || answer == default {
                return Ok(StepResult::Answer(None));
            }
            match answer.parse::<ThemeChoice>() {
                Ok(_) => return Ok(StepResult::Answer(Some(answer))),
                Err(error) => self.dialog.say(&error.to_string())?,
            }
        }
    }
}

/// Ends a text with a period, unless it is a sentence already.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}
