//! The browser of the user, for logins at MCP servers.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use crow_core::capability::{OutputTail, PipedProcesses as _, PipedSpec, ProcessEnd};
use crow_mcp::{RedirectListener, UserBrowser};
use crow_runtime::ProcessRunner;
use tokio::time::timeout;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::redirect::LoopbackListener;
use crate::environment::ProcessEnvironment;

/// Time after which a program that still runs counts as an open browser.
const STARTED: Duration = Duration::from_secs(3);
/// Number of bytes of the program's standard error that are retained.
const ERRORS: usize = 1024;

/// Opens pages with the program in `BROWSER`, otherwise with the one of the desktop (`xdg-open`).
#[derive(Debug)]
pub struct SystemBrowser {
    runner: ProcessRunner,
    /// The program and its arguments; `%s` stands for the address. `None` without a desktop.
    command: Option<Vec<String>>,
    /// Browsers that run in the foreground.
    tasks: TaskTracker,
    stop: CancellationToken,
    _stops: DropGuard,
}

impl SystemBrowser {
    /// Finds the program in the environment. The browser is the user's own program and gets all of the user's variables.
    pub fn new(environment: &ProcessEnvironment) -> Self {
        let variables: BTreeMap<String, String> = environment
            .utf8_variables()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let set = |name: &str| environment.var(name).filter(|value| !value.trim().is_empty());
        // `BROWSER` may list alternatives, of which the first is used.
        let own = set("BROWSER").and_then(|value| {
            let first = value.split(':').next().unwrap_or_default();
            let words: Vec<String> = first.split_whitespace().map(str::to_owned).collect();
            (!words.is_empty()).then_some(words)
        });
        let desktop = || {
            let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| set(name).is_some());
            has_desktop.then(|| vec!["xdg-open".to_owned()])
        };
        let stop = CancellationToken::new();
        Self {
            runner: ProcessRunner::new(variables),
            command: own.or_else(desktop),
            tasks: TaskTracker::new(),
            _stops: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Opens no page: the user opens it, perhaps on another machine.
    #[must_use]
    pub fn without_program(self) -> Self {
        Self { command: None, ..self }
    }

    fn argv(&self, url: &str) -> Option<Vec<String>> {
        let mut argv: Vec<String> =
            self.command.as_ref()?.iter().map(|word| word.replace("%s", url)).collect();
        if !self.command.iter().flatten().any(|word| word.contains("%s")) {
            argv.push(url.to_owned());
        }
        Some(argv)
    }
}

#[async_trait]
impl UserBrowser for SystemBrowser {
    async fn open(&self, url: &str) -> Result<(), String> {
        let Some(argv) = self.argv(url) else {
            return Err("there is no desktop here".to_owned());
        };
        let program = argv.first().cloned().unwrap_or_default();
        let errors = OutputTail::new(ERRORS);
        let spec =
            PipedSpec { argv, cwd: "/".into(), env: BTreeMap::new(), stderr_tail: errors.clone() };
        let process = self.runner.start(spec, self.stop.clone()).await;
        let process = process.map_err(|error| error.to_string())?;
        // The pipes stay open as long as the program runs.
        let (input, output, end) = (process.input, process.output, process.end);
        let running = self.tasks.spawn(async move {
            let _pipes = (input, output);
            end.await
        });
        match timeout(STARTED, running).await {
            // A browser in the foreground: its task ends with it, or with this value.
            Err(_) => Ok(()),
            Ok(Ok(Ok(ProcessEnd::Exited(0)))) => Ok(()),
            Ok(_) => Err(format!("{program} failed {}", errors.to_text().trim()).trim().to_owned()),
        }
    }

    async fn listen(&self, port: Option<u16>) -> Result<Box<dyn RedirectListener>, String> {
        Ok(Box::new(LoopbackListener::bind(port).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(variables: &[(&str, &str)]) -> Option<Vec<String>> {
        let environment = ProcessEnvironment::with(variables.iter().copied());
        SystemBrowser::new(&environment).argv("https://a.test/?b=c")
    }

    #[tokio::test]
    async fn the_program_is_the_users_or_that_of_the_desktop() {
        let words = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        for (variables, expected) in [
            (&[][..], None),
            (&[("DISPLAY", ":0")], words(&["xdg-open", "https://a.test/?b=c"])),
            (&[("BROWSER", "w3m:lynx")], words(&["w3m", "https://a.test/?b=c"])),
            (
                &[("BROWSER", "b --new %s --x")],
                words(&["b", "--new", "https://a.test/?b=c", "--x"]),
            ),
            (&[("BROWSER", " "), ("DISPLAY", "")], None),
        ] {
            assert_eq!(argv(variables), expected, "{variables:?}");
        }
    }
}
