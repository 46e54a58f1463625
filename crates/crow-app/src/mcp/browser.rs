//! The browser of the user, for logins at MCP servers.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use crow_mcp::{RedirectListener, UserBrowser};
use crow_runtime::start_detached;

use super::redirect::LoopbackListener;
use crate::environment::ProcessEnvironment;

/// Time after which a program that still runs counts as an open browser.
const STARTED: Duration = Duration::from_secs(3);
/// Maximum length of an address in bytes: programs take arguments of limited length.
const LONGEST_URL: usize = 16 * 1024;

/// Opens pages with the program in `BROWSER`, otherwise with the one of the desktop (`xdg-open`).
#[derive(Debug)]
pub struct SystemBrowser {
    /// The browser is the user's own program and gets all of the user's variables.
    variables: BTreeMap<String, String>,
    /// The programs to try in turn, with their arguments; `%s` stands for the address. Empty without a desktop.
    commands: Vec<Vec<String>>,
}

impl SystemBrowser {
    /// Finds the program in the environment.
    pub fn new(environment: &ProcessEnvironment) -> Self {
        let variables = environment
            .utf8_variables()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let set = |name: &str| environment.var(name).filter(|value| !value.trim().is_empty());
        // `BROWSER` lists alternatives.
        let own = set("BROWSER").unwrap_or_default();
        let words =
            |command: &str| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut commands: Vec<Vec<String>> = own.split(':').map(words).collect();
        commands.retain(|command| !command.is_empty());
        let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| set(name).is_some());
        if commands.is_empty() && cfg!(target_os = "macos") {
            commands.push(vec!["open".to_owned()]);
        } else if commands.is_empty() && has_desktop {
            commands.push(vec!["xdg-open".to_owned()]);
        }
        Self { variables, commands }
    }

    /// Opens no page: the user opens it, perhaps on another machine.
    #[must_use]
    pub fn without_program(self) -> Self {
        Self { commands: Vec::new(), ..self }
    }
}

/// Returns the command line that opens an address.
fn command_line(command: &[String], url: &str) -> Vec<String> {
    let mut argv: Vec<String> = command.iter().map(|word| word.replace("%s", url)).collect();
    if !command.iter().any(|word| word.contains("%s")) {
        argv.push(url.to_owned());
    }
    argv
}

#[async_trait]
impl UserBrowser for SystemBrowser {
    async fn open(&self, url: &str) -> Result<(), String> {
        if url.len() > LONGEST_URL {
            return Err("its address is too long".to_owned());
        }
        let mut fault = "there is no desktop here".to_owned();
        for command in &self.commands {
            let argv = command_line(command, url);
            let program = argv.first().cloned().unwrap_or_default();
            fault = match start_detached(&argv, &self.variables, STARTED).await {
                // It still runs: a browser in the foreground.
                Ok(None) => return Ok(()),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => format!("{program} ended with {status}"),
                Err(error) => format!("{program} cannot be started: {error}"),
            };
        }
        Err(fault)
    }

    async fn listen(&self, port: Option<u16>) -> Result<Box<dyn RedirectListener>, String> {
        Ok(Box::new(LoopbackListener::bind(port).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(variables: &[(&str, &str)]) -> Vec<String> {
        let environment = ProcessEnvironment::with(variables.iter().copied());
        let browser = SystemBrowser::new(&environment);
        let url = "https://a.test/?b=c";
        browser.commands.iter().map(|command| command_line(command, url).join(" ")).collect()
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_program_is_the_users_or_that_of_the_desktop() {
        for (variables, expected) in [
            (&[][..], &[][..]),
            (&[("DISPLAY", ":0")], &["xdg-open https://a.test/?b=c"]),
            (&[("BROWSER", "w3m:lynx")], &["w3m https://a.test/?b=c", "lynx https://a.test/?b=c"]),
            (&[("BROWSER", "b --new %s --x")], &["b --new https://a.test/?b=c --x"]),
            (&[("BROWSER", " "), ("DISPLAY", "")], &[]),
        ] {
            assert_eq!(lines(variables), expected, "{variables:?}");
        }
    }

    #[tokio::test]
    async fn the_next_program_is_tried_if_one_fails() {
        let folder = tempfile::tempdir().unwrap();
        let opened = folder.path().join("opened");
        let browser = format!("/nowhere/browser:false:touch {} %s", opened.display());
        let variables = [("BROWSER", browser.as_str()), ("PATH", "/usr/bin:/bin")];
        let browser = SystemBrowser::new(&ProcessEnvironment::with(variables));
        browser.open(&folder.path().join("url").display().to_string()).await.unwrap();
        assert!(opened.exists());
        let none = browser.without_program();
        assert_eq!(none.open("https://a.test").await.unwrap_err(), "there is no desktop here");
    }
}
