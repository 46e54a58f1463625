//! The texts before the first prompt and after the last one.

use std::path::Path;

use crow_app::ProcessEnvironment;
use crow_text::one_line;

/// Facts of the session in the greeting.
pub(super) struct ChatGreeting<'a> {
    pub(super) model: &'a str,
    pub(super) cwd: &'a Path,
    pub(super) agent: &'a str,
    pub(super) mode: &'a str,
    pub(super) permissions: &'a str,
    /// Title of a resumed session.
    pub(super) resumed: Option<&'a str>,
}

impl ChatGreeting<'_> {
    /// Formats the greeting in at most five lines.
    pub(super) fn text(&self, environment: &ProcessEnvironment) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let model = one_line(self.model);
        let cwd = one_line(&below_home(self.cwd, environment));
        let agent = one_line(self.agent);
        let (mode, permissions) = (self.mode, self.permissions);
        let resumed = self.resumed.map(|title| format!("resuming: {}\n", one_line(title)));
        format!(
            "crow-agent {version}  {model}\n{cwd}\n{}agent: {agent}  mode: {mode}  permissions: {permissions}\n/help shows commands and keys",
            resumed.unwrap_or_default()
        )
    }
}

/// Returns the command that resumes a session.
pub(super) fn farewell(session: &str) -> String {
    format!("resume with: crow-agent --resume {}", one_line(session))
}

fn below_home(cwd: &Path, environment: &ProcessEnvironment) -> String {
    let home = environment.var("HOME");
    match home.and_then(|home| cwd.strip_prefix(home).ok().map(Path::to_path_buf)) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => cwd.display().to_string(),
    }
}
