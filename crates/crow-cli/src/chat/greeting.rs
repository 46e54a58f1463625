//! The texts around a conversation: the greeting, the recap of a resumed session, and the farewell.

use std::path::Path;

use crow_app::ProcessEnvironment;
use crow_console::text_of;
use crow_core::{
    capability::PermissionAnswer,
    event::{AgentEvent, Envelope, InputSource},
    message::Block,
    permission::Grant,
    tool::Access,
};
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

/// Maximum length of a shown prompt or answer, in characters.
const SHOWN: usize = 300;

/// Formats the last prompt, its answer and the grants of the session; empty for an empty session.
pub(super) fn recap(events: &[Envelope]) -> String {
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
        for name in grants.iter().map(name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn name(grant: &Grant) -> String {
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
