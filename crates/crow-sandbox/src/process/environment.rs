//! Environment variables of child processes, including those exported by a login shell.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crow_core::{
    capability::{OutputLimits, ProcessEnd, ProcessSpec},
    tool::Progress,
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{output::OutputBuffer, runner};
use crate::orphans::MARK;

/// Time limit for the login shell.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of the shell's output, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Marker printed before and after the variables, since profile scripts print text, too.
const MARKER: &str = "\0crow-login-environment\0";
const SCRIPT: &str =
    r"printf '\0%s\0' crow-login-environment; env -0; printf '\0%s\0' crow-login-environment";
/// Variables that describe the shell process itself and are not taken over.
const SHELL_VARIABLES: [&str; 5] = ["SHLVL", "PWD", "OLDPWD", "_", MARK];

type Variables = BTreeMap<String, String>;
type VariableFilter = dyn Fn(&str, &str) -> bool + Send + Sync;

/// Environment of every process that a runtime starts. Clones share the result of the login shell.
#[derive(Debug, Clone, Default)]
pub struct ChildEnvironment {
    base: Arc<Variables>,
    login: Option<Arc<LoginShell>>,
}

struct LoginShell {
    program: PathBuf,
    keeps: Box<VariableFilter>,
    time: Duration,
    /// Merged variables, cached after the shell has run.
    merged: OnceCell<Arc<Variables>>,
}

impl From<Variables> for ChildEnvironment {
    fn from(base: Variables) -> Self {
        Self { base: Arc::new(base), login: None }
    }
}

impl ChildEnvironment {
    /// Adds the variables that a login shell exports and that `keeps` (name, value) accepts: for programs
    /// that were not started from a shell. The first process waits for the shell, at most five seconds; a
    /// shell that fails adds nothing.
    #[must_use]
    pub fn with_login_shell(
        self,
        shell: impl Into<PathBuf>,
        keeps: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (program, keeps) = (shell.into(), Box::new(keeps));
        let login = LoginShell { program, keeps, time: TIME_LIMIT, merged: OnceCell::new() };
        Self { login: Some(Arc::new(login)), ..self }
    }

    /// Returns the variables. The first caller runs the login shell; dropping this future stops it, and the
    /// next caller runs it again.
    pub(super) async fn variables(&self) -> Arc<Variables> {
        let Some(login) = &self.login else { return Arc::clone(&self.base) };
        Arc::clone(login.merged.get_or_init(|| login.ask(&self.base)).await)
    }
}

impl LoginShell {
    async fn ask(&self, base: &Arc<Variables>) -> Arc<Variables> {
        match self.exported(base).await {
            Ok(exported) => {
                let mut merged = Variables::clone(base);
                merged
                    .extend(exported.into_iter().filter(|(name, value)| (self.keeps)(name, value)));
                Arc::new(merged)
            }
            Err(reason) => {
                let shell = self.program.display();
                tracing::warn!(%shell, reason, "the login shell does not tell its environment");
                Arc::clone(base)
            }
        }
    }

    async fn exported(&self, base: &Arc<Variables>) -> Result<Variables, String> {
        let home = base.get("HOME").map(Path::new).filter(|home| home.is_dir());
        let program = self.program.to_str().ok_or("its path is not text")?;
        let spec = ProcessSpec {
            argv: [program, "-l", "-c", SCRIPT].map(str::to_owned).to_vec(),
            cwd: home.unwrap_or(Path::new("/")).to_owned(),
            env: Variables::new(),
            timeout: self.time,
            output: OutputLimits { head: MAX_OUTPUT, tail: 0, spill: None, spill_cap: 0 },
            progress: Progress::default(),
            only_reads: false,
        };
        let buffer = OutputBuffer::new(spec.output.clone());
        // The profile is the user's own script, so it runs outside of the sandbox.
        let prepared = runner::ProcessSetup {
            env: Arc::clone(base),
            sandboxed_command: None,
            roots: Arc::default(),
        };
        let running = runner::start(prepared, spec, buffer).map_err(|error| error.to_string())?;
        // Cancellation drops this whole future, so no token is needed here.
        let ended = running.end(&CancellationToken::new()).await;
        let ended = ended.map_err(|error| error.to_string())?;
        if ended.end == ProcessEnd::TimedOut {
            return Err(format!("it took longer than {:?}", self.time));
        }
        parse(&ended.sink.finish().head)
            .ok_or_else(|| format!("it ended otherwise: {:?}", ended.end))
    }
}

/// Extracts the variables between the two markers in the shell's output.
fn parse(printed: &[u8]) -> Option<Variables> {
    let printed = String::from_utf8_lossy(printed);
    let (_, rest) = printed.split_once(MARKER)?;
    let (variables, _) = rest.split_once(MARKER)?;
    let variables = variables.split('\0').filter_map(|variable| variable.split_once('='));
    let variables = variables
        .filter(|(name, value)| !SHELL_VARIABLES.contains(name) && !value.contains('\u{fffd}'));
    Some(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

impl fmt::Debug for LoginShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginShell").field("program", &self.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_shell_is_stopped_after_its_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("shell");
        std::fs::write(&program, "#!/bin/sh\nsleep 1000\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, executable).unwrap();
        let time = Duration::from_millis(50);
        let login =
            LoginShell { program, keeps: Box::new(|_, _| true), time, merged: OnceCell::new() };
        let error = login.exported(&Arc::default()).await.unwrap_err();
        assert_eq!(error, "it took longer than 50ms");
    }

    #[test]
    fn only_variables_between_the_markers_are_parsed() {
        let marker = MARKER;
        for (printed, expected) in [
            (
                format!("hello\n{marker}A=1\0B=x\ny=z\0{marker}bye"),
                Some(vec![("A", "1"), ("B", "x\ny=z")]),
            ),
            (
                format!("{marker}A=1\0SHLVL=2\0PWD=/\0_=x\0CROW_CALL=x\0{marker}"),
                Some(vec![("A", "1")]),
            ),
            (format!("{marker}A=\0no variable\0{marker}"), Some(vec![("A", "")])),
            (format!("{marker}A=1\0"), None),
            ("A=1\0".to_owned(), None),
        ] {
            let expected = expected.map(|variables| {
                variables
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect()
            });
            assert_eq!(parse(printed.as_bytes()), expected, "{printed:?}");
        }
    }
}
