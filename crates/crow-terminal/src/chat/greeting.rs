//! The texts around a conversation: the greeting, the recap of a resumed session, and the farewell.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crow_console::text_of;
use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
    permission::Grant,
    tool::Access,
};
use crow_runtime::{AgentHandle, AgentHost, HostError, SessionStore};
use crow_text::one_line;
use tokio::task::spawn_blocking;

use super::chat_loop::ChatLoop;

/// The texts at the start of a session.
#[derive(Debug)]
pub(super) struct SessionGreeting {
    text: String,
    /// The last prompt and answer; empty for a new session.
    recap: String,
}

/// Sources of the facts in a greeting.
pub(super) struct GreetingSources {
    pub(super) host: Arc<dyn AgentHost>,
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) home: Option<PathBuf>,
    pub(super) program: String,
}

/// Returns the sources of the facts in a greeting.
pub(super) fn greeting_sources(chat: &ChatLoop) -> GreetingSources {
    GreetingSources {
        host: Arc::clone(&chat.host),
        store: Arc::clone(&chat.store),
        home: chat.setup.home.clone(),
        program: chat.setup.program.clone(),
    }
}

/// Shows a greeting and its recap.
pub(super) fn show_greeting(chat: &mut ChatLoop, greeting: SessionGreeting) {
    let cwd = chat.handle.metadata().crow().cwd;
    chat.title_subject = cwd.file_name().unwrap_or_default().to_string_lossy().into_owned();
    chat.say(greeting.text);
    if !greeting.recap.is_empty() {
        chat.say_dimly(greeting.recap);
    }
}

/// Makes the greeting of a session. For a resumed one it has a recap.
///
/// # Errors
/// Fails if the session is not open.
pub(super) async fn session_greeting(
    sources: GreetingSources,
    handle: &AgentHandle,
    is_resumed: bool,
) -> Result<SessionGreeting, HostError> {
    let GreetingSources { host, store, home, program } = sources;
    let options = host.options(handle.session_id()).await?;
    let value = |name: &str| {
        let option = options.iter().find(|option| option.name == name);
        option.map_or("", |option| option.value.as_str())
    };
    let crow = handle.metadata().crow();
    let greeting = ChatGreeting {
        program: &program,
        model: value("model"),
        cwd: &crow.cwd,
        home: home.as_deref(),
        agent: value("agent"),
        mode: value("mode"),
        permissions: value("permissions"),
        resumed: is_resumed.then_some(crow.title.as_str()),
    };
    let text = greeting.text();
    let mut recap_text = String::new();
    if is_resumed {
        let id = handle.session_id().clone();
        // The recap is optional: a log that cannot be read is ignored.
        if let Ok(Ok(stored)) = spawn_blocking(move || store.read(&id)).await {
            recap_text = recap(&stored.events);
        }
    }
    Ok(SessionGreeting { text, recap: recap_text })
}

/// Facts of the session in the greeting.
struct ChatGreeting<'a> {
    program: &'a str,
    model: &'a str,
    cwd: &'a Path,
    home: Option<&'a Path>,
    agent: &'a str,
    mode: &'a str,
    permissions: &'a str,
    /// Title of a resumed session.
    resumed: Option<&'a str>,
}

impl ChatGreeting<'_> {
    /// Formats the greeting in at most five lines.
    fn text(&self) -> String {
        let model = one_line(self.model);
        let cwd = one_line(&below_home(self.cwd, self.home));
        let agent = one_line(self.agent);
        let program = self.program;
        let (mode, permissions) = (self.mode, self.permissions);
        let resumed = self.resumed.map(|title| format!("resuming: {}\n", one_line(title)));
        format!(
            "{program}  {model}\n{cwd}\n{}agent: {agent}  mode: {mode}  permissions: {permissions}\n/help shows commands and keys",
            resumed.unwrap_or_default()
        )
    }
}

/// Returns the command that resumes a session.
pub(super) fn farewell(session: &str) -> String {
    format!("resume with: crow-agent --resume {}", one_line(session))
}

/// Returns a folder as it is shown, with `~` for the user's home.
pub(super) fn below_home(cwd: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| cwd.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => cwd.display().to_string(),
    }
}

/// Maximum length of a shown prompt or answer, in characters.
const SHOWN: usize = 300;

/// Formats the last prompt, its answer and the grants of the session; empty for an empty session.
fn recap(events: &[Envelope]) -> String {
    let (mut prompt, mut answer) = (String::new(), String::new());
    for envelope in events.iter().filter(|envelope| envelope.is_root()) {
        if let AgentEvent::UserInput { source: InputSource::Prompt, content, .. } = &envelope.event
        {
            prompt = text_of_input(content);
            answer.clear();
        }
        if let AgentEvent::Reply { blocks, .. } = &envelope.event
            && !text_of(blocks).trim().is_empty()
        {
            answer = text_of(blocks);
        }
    }
    let mut lines = Vec::new();
    if !prompt.is_empty() {
        lines.push(format!("> {}", shorten(&prompt, SHOWN)));
    }
    if !answer.is_empty() {
        lines.push(format!("  {}", shorten(&answer, SHOWN)));
    }
    let allowed = allowed(events);
    if !allowed.is_empty() {
        lines.push(format!("allowed in this session: {}", allowed.join(", ")));
    }
    lines.join("\n")
}

/// Describes each grant of the session once.
fn allowed(events: &[Envelope]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for envelope in events {
        let AgentEvent::PermissionDecision {
            answer: PermissionAnswer::AllowSession { grants },
            ..
        } = &envelope.event
        else {
            continue;
        };
        for name in grants.iter().map(grant_description) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn grant_description(grant: &Grant) -> String {
    match grant {
        Grant::Tool(tool) => format!("`{}`", one_line(tool)),
        Grant::Command(words) => format!("`{} …`", one_line(&words.join(" "))),
        Grant::Path { access: Access::Read, path } => {
            format!("reading `{}`", one_line(&path.display().to_string()))
        }
        Grant::Path { access: Access::Write, path } => {
            format!("changes of `{}`", one_line(&path.display().to_string()))
        }
        Grant::Host(host) => format!("requests to `{host}`"),
    }
}

fn text_of_input(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns at most `longest` characters of a text, in one line.
pub(super) fn shorten(text: &str, longest: usize) -> String {
    let text = one_line(text);
    let prefix: String = text.chars().take(longest).collect();
    if prefix.len() < text.len() { prefix + "…" } else { prefix }
}
