//! The commands `login` and `logout`.

use std::{
    fmt::{self, Write as _},
    io::{self, Read as _},
};

use crow_app::{
    ProcessEnvironment,
    credentials::{Credential, CredentialFile, MCP_LOGIN, forget},
    has_stored_search_key, product, search_key_destination, search_services_with_keys, trust,
};
use crow_console::ExitCode;
use crow_providers::{ApiKey, CredentialStatus, KeyDestination, ProviderModels};
use crow_text::one_line;

use crate::{
    args::{LoginArgs, LogoutArgs},
    error::CliError,
    terminal::{
        TypedInput, ask_hidden, confirm_hidden, is_yes, print_message, write_line, write_out,
    },
};

/// Maximum length of a key from standard input, in bytes.
const LONGEST: u64 = 64 * 1024;

/// Runs `login`: prints the status of all keys, or asks for a provider's key and stores it.
pub(crate) fn login(
    args: &LoginArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let file = product::credential_file(environment)?;
    let models = models(environment)?;
    if args.status {
        return status(&models, &file, environment);
    }
    let provider = args.provider.as_deref().ok_or_else(|| no_provider(&models))?;
    let home = match (models.key_home(provider), search_key_destination(provider)) {
        (Err(_), Some(home)) => home,
        (home, _) => home?,
    };
    // An unusable credentials file is reported before the key is asked for.
    file.load()?;
    announce(provider, &home, KeyLocation::of(args, &file));
    if !args.yes && !environment.stdin_is_terminal {
        return Err(CliError::usage("a key from standard input is stored only with --yes")
            .hint("read the above, and pass --yes if you want that"));
    }
    // The key is asked for first: a key that is pasted at once must not be echoed by another question.
    let key = if environment.stdin_is_terminal {
        let input = ask_hidden(&format!("key of {provider} (it is not shown): "));
        match input.map_err(|error| unreadable(&error))? {
            TypedInput::Line(line) => line,
            TypedInput::Nothing => return Ok(ExitCode::Interrupted),
        }
    } else {
        read_piped_key()?
    };
    let key = ApiKey::check(&key)
        .map_err(|reason| CliError::usage(format!("this cannot be a key: it {reason}")))
        .map(|_| key.trim().to_owned())?;
    if !args.yes {
        match confirm_hidden("Store it?").map_err(|error| unreadable(&error))? {
            TypedInput::Line(line) if is_yes(&line) => {}
            TypedInput::Line(_) => return write_line("not stored"),
            TypedInput::Nothing => return Ok(ExitCode::Interrupted),
        }
    }
    KeyLocation::of(args, &file)
        .add(&home.name, Credential { origin: home.origin.clone(), key })?;
    write_line(&format!("stored; `crow-agent logout {}` deletes it", home.name))
}

/// Storage of a key.
#[derive(Debug, Clone, Copy)]
enum KeyLocation<'a> {
    File(&'a CredentialFile),
    #[cfg(feature = "keyring")]
    Keyring,
}

impl<'a> KeyLocation<'a> {
    #[cfg_attr(
        not(feature = "keyring"),
        expect(unused_variables, reason = "without the feature there is nothing to choose")
    )]
    fn of(args: &LoginArgs, file: &'a CredentialFile) -> Self {
        #[cfg(feature = "keyring")]
        if args.keyring {
            return Self::Keyring;
        }
        Self::File(file)
    }

    fn add(self, name: &str, credential: Credential) -> Result<(), CliError> {
        match self {
            Self::File(file) => Ok(file.add(name, credential)?),
            #[cfg(feature = "keyring")]
            Self::Keyring => {
                crow_app::credentials::keyring_add(name, &credential).map_err(CliError::failed)
            }
        }
    }
}

impl fmt::Display for KeyLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => {
                let path = file.path().display().to_string();
                write!(f, "{}, readable by you alone", one_line(&path))
            }
            #[cfg(feature = "keyring")]
            Self::Keyring => f.write_str("the keyring of the system"),
        }
    }
}

/// Prints where the key will be stored and which origin it will be sent to.
fn announce(provider: &str, home: &KeyDestination, location: KeyLocation<'_>) {
    for line in announcement(provider, home, location) {
        print_message(&line);
    }
}

/// Says where the key of a provider will be stored in a file, and which origin it will be sent to.
pub(crate) fn key_announcement(
    provider: &str,
    home: &KeyDestination,
    file: &CredentialFile,
) -> Vec<String> {
    announcement(provider, home, KeyLocation::File(file))
}

fn announcement(provider: &str, home: &KeyDestination, location: KeyLocation<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(variable) = &home.redirect_variable {
        lines.push(format!(
            "{variable} sets another address than {provider}'s own: the key will be used for {} only",
            one_line(&home.origin)
        ));
    }
    lines.push(format!(
        "the key of {provider} will be stored in {location}, and sent to {} and nowhere else",
        one_line(&home.origin)
    ));
    if let Some(variable) = &home.variable {
        lines.push(format!("if {variable} is set, it takes precedence over the stored key"));
    }
    lines
}

/// Reads the key from standard input. Fails if it is longer than [`LONGEST`].
fn read_piped_key() -> Result<String, CliError> {
    let mut text = String::new();
    let read = io::stdin().lock().take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(&error))?;
    if text.len() as u64 > LONGEST {
        return Err(CliError::usage("the text on standard input is too long for a key"));
    }
    Ok(text)
}

/// Runs `logout`: removes the key of a provider, or the only stored one.
pub(crate) fn logout(
    args: &LogoutArgs,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let file = product::credential_file(environment)?;
    let mut stored = file.load()?;
    // Those are deleted by `mcp logout`.
    stored.retain(|name, _| !name.starts_with(MCP_LOGIN));
    let name = match (&args.provider, stored.keys().next(), stored.len()) {
        (Some(provider), _, _) => {
            // A provider that is no longer configured may have left a key under its own name.
            models(environment)?
                .key_home(provider)
                .map_or_else(|_| provider.clone(), |home| home.name)
        }
        (None, Some(only), 1) => only.clone(),
        (None, None, _) => return write_line("no key is stored"),
        (None, Some(_), _) => {
            let names: Vec<_> = stored.keys().map(String::as_str).collect();
            return Err(CliError::usage("several keys are stored")
                .hint(format!("name one of {}", names.join(", "))));
        }
    };
    if !forget(&file, &name)? {
        return write_line(&format!("no key of {name} is stored"));
    }
    write_line(&format!("the key of {name} is deleted"))?;
    let home = models(environment)?.key_home(&name).ok();
    let variable = home.or_else(|| search_key_destination(&name)).and_then(|home| home.variable);
    // The user may expect to be logged out, but the variable still supplies a key.
    if let Some(variable) = variable.filter(|variable| environment.is_set(variable)) {
        print_message(&format!("{variable} is still set, and its key is used"));
    }
    Ok(ExitCode::Done)
}

/// Prints the state of each provider's key.
fn status(
    models: &ProviderModels,
    file: &CredentialFile,
    environment: &ProcessEnvironment,
) -> Result<ExitCode, CliError> {
    let mut text = String::new();
    for provider in models.list() {
        let home = models.key_home(&provider.name).ok();
        let variable = home.as_ref().and_then(|home| home.variable.as_deref());
        let state = match &provider.credentials {
            CredentialStatus::Present => match variable {
                Some(variable) => format!("key in {variable}"),
                None => "key in its file".to_owned(),
            },
            CredentialStatus::Stored => "key stored".to_owned(),
            CredentialStatus::NotNeeded => "no key needed".to_owned(),
            CredentialStatus::Missing { variable } => format!("no key; {variable} is not set"),
            CredentialStatus::Unusable { reason } => reason.clone(),
        };
        let origin = home.map_or_else(String::new, |home| home.origin);
        let (state, origin) = (one_line(&state), one_line(&origin));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<12} {origin:<44} {state}", provider.name);
    }
    for name in search_services_with_keys() {
        let Some(home) = search_key_destination(name) else { continue };
        let variable = home.variable.filter(|variable| environment.is_set(variable));
        let state = match (variable, has_stored_search_key(name, environment)) {
            (Some(variable), _) => format!("key in {variable}, for web_search"),
            (None, true) => "key stored, for web_search".to_owned(),
            (None, false) => continue,
        };
        let _ = writeln!(text, "{name:<12} {:<44} {state}", home.origin);
    }
    let _ = writeln!(text, "stored keys are in {}", one_line(&file.path().display().to_string()));
    write_out(text.as_bytes())
}

/// Returns the providers of the current directory, including those of a trusted project.
fn models(environment: &ProcessEnvironment) -> Result<ProviderModels, CliError> {
    let providers = match environment.current_dir() {
        Ok(cwd) => trust::project_of(cwd, environment)?.additions.providers,
        Err(_) => Vec::new(),
    };
    Ok(product::models(environment, &providers)?)
}

fn no_provider(models: &ProviderModels) -> CliError {
    let wants =
        |credentials: &CredentialStatus| !matches!(credentials, CredentialStatus::NotNeeded);
    let providers = models.list();
    let names: Vec<_> = providers
        .iter()
        .filter(|provider| wants(&provider.credentials))
        .map(|provider| provider.name.as_str())
        .collect();
    CliError::usage("which provider's key is it?")
        .hint(format!("crow-agent login PROVIDER, with one of {}", names.join(", ")))
}

fn unreadable(error: &io::Error) -> CliError {
    CliError::failed(format!("the key cannot be read: {error}"))
}
