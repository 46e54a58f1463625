//! The command `setup`: sets up a model step by step, at a terminal.

use crow_app::{
    ProcessEnvironment, config::Configuration, host::no_model, product, trust::project_of,
};
use crow_console::ExitCode;

use super::{SetupEnd, set_up};
use crate::{error::CliError, terminal::write_line};

/// Runs the setup. Without a terminal it fails; a user who leaves without any model gets the instructions of a start without
/// one.
pub(crate) async fn setup(environment: &ProcessEnvironment) -> Result<ExitCode, CliError> {
    if !environment.stdin_is_terminal || !environment.stderr_is_terminal {
        return Err(CliError::usage("the setup needs a terminal").hint(
            "without one: `crow-agent login PROVIDER --yes` reads a key from standard input, and `crow-agent config set model PROVIDER/MODEL` chooses a model",
        ));
    }
    match set_up(environment, None).await? {
        SetupEnd::Done => write_line("`crow-agent` starts a chat"),
        SetupEnd::Left if has_model(environment)? => write_line("nothing was changed"),
        SetupEnd::Left => Err(no_model().into()),
    }
}

/// Returns true if the configuration names a model, or a provider has a key and a default.
fn has_model(environment: &ProcessEnvironment) -> Result<bool, CliError> {
    let project = project_of(environment.current_dir()?, environment)?;
    let models = product::models(environment, &project.additions.providers)?;
    let configuration = Configuration::load(environment, &project.additions)?;
    Ok(configuration.settings.model.is_some() || models.default_model().is_some())
}
