//! The user's part of a login: the browser, the redirect back to Crow, and the questions in between.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use crow_core::{
    capability::{QuestionAnswer, QuestionChoice, UserQuestion},
    tool::ToolContext,
};
use tokio_util::sync::CancellationToken;

use super::stored::LoginStorage;
use crate::text;

/// Logins of the servers of a session.
#[derive(Debug, Clone)]
pub struct LoginAccess {
    /// Storage of the logins.
    pub storage: Arc<dyn LoginStorage>,
    /// Command with which a user logs in, up to the server's name: a part of messages.
    pub command: String,
}

impl LoginAccess {
    /// Returns the command by which a user logs in at a server.
    pub(crate) fn hint(&self, server: &str, scopes: &[String]) -> String {
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
        let word = |text: &str| {
            // Quoted for a shell, since users paste the command.
            let text = text::one_line(text, 200);
            if text.chars().all(is_plain) {
                text
            } else {
                format!("'{}'", text.replace('\'', "'\\''"))
            }
        };
        let scopes = scopes.iter().map(|scope| format!(" --scope {}", word(scope)));
        format!("{} {}{}", self.command, word(server), scopes.collect::<String>())
    }
}

/// The browser of the user, and the address to which it is redirected at the end of a login.
#[async_trait]
pub trait UserBrowser: Send + Sync + fmt::Debug {
    /// Opens an address in the browser. The error is a sentence.
    async fn open(&self, url: &str) -> Result<(), String>;

    /// Listens for redirects on this machine, on the port `port` or on any. The error is a sentence.
    async fn listen(&self, port: Option<u16>) -> Result<Box<dyn RedirectListener>, String>;
}

/// Receives the redirect at the end of a login. Dropping it stops listening.
#[async_trait]
pub trait RedirectListener: Send {
    /// Returns the address to which the browser is to be redirected.
    fn redirect_uri(&self) -> &str;

    /// Waits until the browser is redirected with this `state`, and returns the whole address. Redirects with another
    /// state belong to no login of this process and are answered with an error.
    async fn wait_for_redirect(&mut self, state: &str) -> String;
}

/// The page on which the user authorizes Crow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationPage {
    /// Display name of the server.
    pub server: String,
    /// Address of the page.
    pub url: String,
    /// Host of the page.
    pub host: String,
    /// Host that gets the code from the page and issues the tokens, if it is another.
    pub token_host: Option<String>,
    /// Scopes that are requested.
    pub scopes: Vec<String>,
}

/// Describes where the user logs in and with which permissions, as the end of a sentence.
impl fmt::Display for AuthorizationPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", self.host)?;
        if let Some(host) = &self.token_host {
            write!(f, " (the login is used by {host})")?;
        }
        if self.scopes.is_empty() {
            return Ok(());
        }
        write!(f, ", with these permissions: {}", self.scopes.join(" "))
    }
}

/// Talks to the user during a login.
#[async_trait]
pub trait LoginDialog: Send + Sync {
    /// Shows the page to the user. Returns false if the user does not want to log in.
    async fn confirm(&self, page: &AuthorizationPage) -> bool;

    /// Reports that the browser cannot be opened; the user may open the page elsewhere.
    async fn browser_failed(&self, page: &AuthorizationPage, why: &str);

    /// Waits for the address or the code that the user pastes from a browser on another machine. Never returns if the
    /// user can paste nothing, `None` if the user gave up. `fault` is the reason why the last one was not usable.
    async fn read_pasted(&self, fault: Option<&str>, cancel: &CancellationToken) -> Option<String>;
}

/// Asks the user of a session, as questions about a call.
pub(crate) struct QuestionDialog<'a>(pub(crate) &'a ToolContext);

const OPEN: &str = "Open the page";
const STOP: &str = "Stop waiting";

impl QuestionDialog<'_> {
    async fn ask(&self, question: UserQuestion, cancel: &CancellationToken) -> QuestionAnswer {
        let nobody = || QuestionAnswer::Nobody { hint: "nobody can be asked".to_owned() };
        let Some(questions) = &self.0.agent.questions else { return nobody() };
        questions.ask(&self.0.call_id, question, cancel).await.unwrap_or_else(nobody)
    }
}

#[async_trait]
impl LoginDialog for QuestionDialog<'_> {
    async fn confirm(&self, page: &AuthorizationPage) -> bool {
        let AuthorizationPage { server, url, .. } = page;
        let text = format!("The MCP server {server} needs a login {page}. The page is {url}");
        let choice = |label: &str| QuestionChoice { label: label.to_owned(), description: None };
        let question = UserQuestion {
            text,
            header: Some("Login".to_owned()),
            choices: vec![choice(OPEN), choice("Not now")],
            multiple: false,
            free_text: false,
        };
        let answer = self.ask(question, &self.0.cancellation).await;
        matches!(answer, QuestionAnswer::Chosen { labels } if labels == [OPEN])
    }

    async fn browser_failed(&self, _page: &AuthorizationPage, why: &str) {
        self.0.progress.report(format!("the browser cannot be opened: {why}\n"));
    }

    async fn read_pasted(&self, fault: Option<&str>, cancel: &CancellationToken) -> Option<String> {
        let fault = fault.map(|fault| format!("{fault}. ")).unwrap_or_default();
        let text = format!(
            "{fault}Waiting for the login in the browser. If the browser is on another machine, paste the address that it shows at the end"
        );
        let stop = QuestionChoice { label: STOP.to_owned(), description: None };
        let question = UserQuestion {
            text,
            header: Some("Login".to_owned()),
            choices: vec![stop],
            multiple: false,
            free_text: true,
        };
        match self.ask(question, cancel).await {
            QuestionAnswer::Text { text } => Some(text),
            QuestionAnswer::Chosen { .. }
            | QuestionAnswer::Declined
            | QuestionAnswer::Nobody { .. } => None,
        }
    }
}
