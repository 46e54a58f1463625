//! The question whether a check that was found must pass, for projects that configure none.

use std::path::Path;

use crow_runtime::HostError;

use super::product_host::{ProductHost, refused};
use crate::{dialog::UserDialog, project_checks::propose_check};

impl ProductHost {
    /// Asks the user once whether a check that was found must pass before work in a directory counts as done, if its
    /// project configures none. Sessions that are opened later have it. Blocks.
    ///
    /// # Errors
    /// Fails if the configuration of the directory or the file of answers cannot be used, or the question cannot be shown.
    pub fn propose_check(&self, cwd: &Path, dialog: &dyn UserDialog) -> Result<(), HostError> {
        let place = self.directory_configs.for_directory(cwd)?;
        if place.agents.checks().is_empty()
            && propose_check(&self.environment, cwd, dialog).map_err(refused)?
        {
            self.directory_configs.forget(cwd);
        }
        Ok(())
    }
}
