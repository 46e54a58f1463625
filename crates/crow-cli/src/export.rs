//! Export of a session as a Markdown document.
//!
//! The document is one pass over the events of the root session and its descendants, in order. Text of models, tools
//! and users passes through `neutralise`, outputs are fenced so that they cannot end their block, and names are reduced
//! to one line.

use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crow_app::SessionRecord;
use crow_console::{ConsoleStyle, usage_of, usage_text};
use crow_core::{
    event::{AgentEvent, AgentRole, Envelope, InputSource, NoticeAudience, RunOutcome, Verdict},
    ids::SessionId,
    message::{Block, ReplyBlock, ReplyContent},
    model::{ModelRef, Price},
    tool::{FileDiff, Patch, ToolResult},
};
use crow_runtime::{AgentHandle, HostError, SessionMetadata};
use crow_text::neutralise;

/// Maximum number of lines of an output.
const OUTPUT_LINES: usize = 60;
/// Maximum number of bytes of an output.
const OUTPUT_BYTES: usize = 8 * 1024;

/// Returns a session as Markdown: messages, calls with their results, and usage, including those of subagents and
/// reviewers. The reasoning of the models is left out.
pub(crate) fn to_markdown(record: &SessionRecord, prices: &[(ModelRef, Price)]) -> String {
    let cwd = record.metadata.crow().cwd;
    let mut document =
        MarkdownDocument { text: String::new(), cwd, message: MessageSection::Unseen };
    let used = usage_text(&ConsoleStyle::plain(80), &usage_of(&record.events, prices));
    document.head(&record.metadata, &used);
    for envelope in &record.events {
        document.event(envelope);
    }
    document.text.truncate(document.text.trim_end().len());
    document.text.push('\n');
    document.text
}

struct MarkdownDocument {
    text: String,
    cwd: std::path::PathBuf,
    message: MessageSection,
}

/// State of the last text of a coagent: written means that its text is in the document already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageSection {
    Unseen,
    Written,
}

impl MarkdownDocument {
    fn head(&mut self, metadata: &SessionMetadata, used: &str) {
        let crow = metadata.crow();
        let title = if crow.title.is_empty() { "Session" } else { crow.title.as_str() };
        self.part(&format!("# {}", single_line(title)));
        self.part(&format!(
            "- session: {}\n- directory: {}\n- model: {}\n- from {} to {}{}",
            inline_code(metadata.session_id.as_str()),
            inline_code(&crow.cwd.display().to_string()),
            inline_code(&metadata.model_ref().to_string()),
            metadata.created_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            metadata.updated_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            if used.is_empty() { String::new() } else { format!("\n- used: {used}") },
        ));
    }

    fn event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::UserInput { source, content, .. } => {
                self.input(envelope, *source, content);
            }
            AgentEvent::Reply { blocks, .. } => self.reply(envelope, blocks),
            AgentEvent::CallStart { tool, title, .. } => {
                let (prefix, tool) = (agent_prefix(envelope), single_line(tool));
                self.part(&format!("### {prefix}{tool}: {}", single_line(title)));
            }
            AgentEvent::CallEnd { tool, result, denial, .. } => {
                if denial.is_some() {
                    self.part(&format!("### {}{}: not permitted", agent_prefix(envelope), single_line(tool)));
                }
                self.result(result);
            }
            AgentEvent::Handoff { from, to, .. } => {
                self.note(&format!("{from} hands its work to {to}"));
            }
            AgentEvent::ReviewVerdict { reviewer, verdict } => {
                self.note(&format!("{reviewer} {}", verdict_words(*verdict)));
            }
            AgentEvent::Checks { checks, passed, .. } => {
                let word = if *passed { "passed" } else { "failed" };
                let names: Vec<_> = checks.iter().map(|check| check.name.as_str()).collect();
                self.note(&format!("checks {word}: {}", names.join(", ")));
            }
            AgentEvent::TaskComplete { summary, verified } => {
                let word = if *verified { "verified" } else { "not verified" };
                self.part(&format!("**Done ({word}).** {}", neutralise(summary)));
            }
            AgentEvent::Switch { change } => self.note(change),
            AgentEvent::Instructions { files, .. } => {
                let files: Vec<_> = files.iter().map(ToString::to_string).collect();
                self.note(&format!("instructions: {}", files.join(", ")));
            }
            AgentEvent::FilesRestored { .. } => self.note("changes of files were undone or redone"),
            AgentEvent::Rewind { .. } => {
                self.note("the conversation was rewound to an earlier point");
            }
            AgentEvent::Compaction { summary, .. } => {
                self.note("the conversation before was compacted");
                self.part(&neutralise(summary));
            }
            AgentEvent::Notice { audience: NoticeAudience::User, text, .. } => self.note(text),
            AgentEvent::Error { error, .. } => self.note(&format!("error: {error}")),
            AgentEvent::RunEnd { result, .. } => self.end(result),
            AgentEvent::SessionStart { .. }
            | AgentEvent::RunStart { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::TurnStart { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::TextDelta { .. }
            | AgentEvent::TextComplete { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::ThinkingComplete { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::ModelWait { .. }
            | AgentEvent::ToolsWait { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::CallPending { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::PermissionDecision { .. }
            // The call shows the question, and its result the answer.
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. }
            | AgentEvent::Plan { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. }
            | AgentEvent::StateChange { .. }
            | AgentEvent::Notice { audience: NoticeAudience::Model, .. }
            | AgentEvent::Cancelling
            | AgentEvent::Cancelled => {}
        }
    }

    fn input(&mut self, envelope: &Envelope, source: InputSource, content: &[Block]) {
        let agent = single_line(&envelope.agent);
        let message = std::mem::replace(&mut self.message, MessageSection::Unseen);
        // A text that was written with the reply of the coagent is not repeated.
        match source {
            InputSource::Reviewer if message == MessageSection::Written => {
                return self.note(&format!("the review goes to {agent}"));
            }
            InputSource::Generator if message == MessageSection::Written => {
                return self.note(&format!("the message goes to {agent}"));
            }
            InputSource::Prompt
            | InputSource::Steering
            | InputSource::ControlFlow
            | InputSource::Generator
            | InputSource::Reviewer => {}
        }
        let is_below = !envelope.is_root();
        let heading = match source {
            InputSource::Prompt | InputSource::Steering => "User",
            InputSource::ControlFlow | InputSource::Generator => "Control flow",
            InputSource::Reviewer => "Reviewer",
        };
        let heading = if is_below { format!("To {agent}") } else { heading.to_owned() };
        self.part(&format!("## {heading}"));
        for block in content {
            match block {
                // Inputs of other agents are long: they contain the work of the previous one.
                Block::Text { text } if is_below => {
                    self.fenced("text", &bounded(&neutralise(text)));
                }
                Block::Text { text } => self.part(&neutralise(text)),
                Block::Image(image) => self.note(&format!("an image ({})", image.media_type)),
            }
        }
    }

    fn reply(&mut self, envelope: &Envelope, blocks: &[ReplyBlock]) {
        let texts = blocks.iter().filter_map(|block| match &block.content {
            ReplyContent::Text { text } => Some(text.trim()).filter(|text| !text.is_empty()),
            ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
        });
        let texts: Vec<_> = texts.collect();
        if !texts.is_empty() {
            self.part(&format!("## {}", single_line(&envelope.agent)));
            self.part(&neutralise(&texts.join("\n\n")));
            if envelope.role == AgentRole::Coagent {
                self.message = MessageSection::Written;
            }
        }
    }

    /// Writes the output of a call, or its error, and its patch.
    fn result(&mut self, result: &ToolResult) {
        let error = result.error.as_deref().unwrap_or_default();
        let output = if result.output.trim().is_empty() { error } else { &result.output };
        if !output.trim().is_empty() {
            self.fenced("text", &bounded(&neutralise(output)));
        }
        if let Some(patch) = &result.metadata.diff {
            self.patch(patch);
        }
    }

    fn patch(&mut self, patch: &Patch) {
        for file in &patch.files {
            let FileDiff { path, additions, deletions, hunks, .. } = file;
            let name = path.strip_prefix(&self.cwd).unwrap_or(Path::new(path)).display();
            self.part(&format!("{} (+{additions} -{deletions})", inline_code(&name.to_string())));
            if !hunks.trim().is_empty() {
                self.fenced("diff", &bounded(&neutralise(hunks)));
            }
        }
    }

    fn end(&mut self, result: &RunOutcome) {
        match result {
            RunOutcome::Completed { .. } | RunOutcome::NeedsInput => {}
            RunOutcome::Stopped { .. } => self.note("the run was stopped by a limit"),
            RunOutcome::Cancelled => self.note("the run was cancelled"),
            RunOutcome::Failed { error, .. } => self.note(&format!("the run failed: {error}")),
        }
    }

    fn note(&mut self, text: &str) {
        self.part(&format!("> {}", single_line(text)));
    }

    /// Writes a code block whose fence is longer than any run of backticks in the text.
    fn fenced(&mut self, language: &str, text: &str) {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        self.part(&format!("{fence}{language}\n{}\n{fence}", text.trim_end()));
    }

    fn part(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}\n\n", text.trim_end());
    }
}

/// Returns the prefix that names the agent of an event; empty for the root session.
fn agent_prefix(envelope: &Envelope) -> String {
    if envelope.is_root() { String::new() } else { format!("{}: ", single_line(&envelope.agent)) }
}

fn single_line(text: &str) -> String {
    let line = neutralise(text);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats a name as inline code; double backticks delimit a name that contains one.
fn inline_code(name: &str) -> String {
    let name = single_line(name);
    if name.contains('`') { format!("`` {name} ``") } else { format!("`{name}`") }
}

fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approves",
        Verdict::Rejected => "sends it back",
        Verdict::Unfinished => "did not finish its review",
    }
}

/// Cuts a text to [`OUTPUT_LINES`] and [`OUTPUT_BYTES`] at the end of a line, with the number of lines left out.
fn bounded(text: &str) -> String {
    let text = text.trim_end();
    let (mut result, lines) = (String::new(), text.lines().count());
    for (number, line) in text.lines().enumerate() {
        if number == OUTPUT_LINES || result.len() + line.len() > OUTPUT_BYTES {
            let _ = write!(result, "… and {} more lines", lines - number);
            return result;
        }
        result.push_str(line);
        result.push('\n');
    }
    result
}

/// Number of default names that are tried if the user gives none.
const MOST_NAMES: usize = 100;

/// Writes `text`, the exported session, to a new file in the working directory of the session. `file` is the path,
/// relative to that directory; if it is blank, the name is derived from the session id. Returns the message to show.
/// Blocks.
///
/// # Errors
/// Fails if the file exists already or cannot be written.
pub(crate) fn write(text: &str, handle: &AgentHandle, file: &str) -> Result<String, HostError> {
    let dir = handle.metadata().crow().cwd;
    let refused = |path: &Path, error: &io::Error| HostError::Refused {
        message: format!("{} cannot be written: {error}", path.display()),
        hint: "/export FILE names another one".to_owned(),
    };
    let file = file.trim();
    if !file.is_empty() {
        let path = dir.join(file);
        return match write_new(&path, text) {
            Ok(()) => Ok(success_message(&path)),
            Err(error) => Err(refused(&path, &error)),
        };
    }
    let mut path = PathBuf::new();
    for number in 1..=MOST_NAMES {
        path = dir.join(default_name(handle.session_id(), number));
        match write_new(&path, text) {
            Ok(()) => return Ok(success_message(&path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(refused(&path, &error)),
        }
    }
    Err(refused(&path, &io::ErrorKind::AlreadyExists.into()))
}

fn default_name(id: &SessionId, number: usize) -> String {
    let id: String = id.as_str().chars().take(18).collect();
    match number {
        1 => format!("crow-session-{id}.md"),
        number => format!("crow-session-{id}-{number}.md"),
    }
}

fn success_message(path: &Path) -> String {
    format!("written to {}", path.display())
}

/// Creates the file with mode 0600, since conversations are private; never overwrites an existing file.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use crow_testkit::sample::Story;

    use super::*;

    fn document() -> MarkdownDocument {
        MarkdownDocument { text: String::new(), cwd: "/p".into(), message: MessageSection::Unseen }
    }

    #[test]
    fn an_output_cannot_end_its_fence() {
        let mut document = document();
        document.fenced("text", "a\n````\n# heading\n");
        assert_eq!(document.text, "`````text\na\n````\n# heading\n`````\n\n");
    }

    #[test]
    fn a_long_output_is_cut_with_the_number_of_lines_left_out() {
        let long = "line\n".repeat(OUTPUT_LINES + 7);
        let cut = bounded(&long);
        assert_eq!(cut.lines().count(), OUTPUT_LINES + 1);
        assert!(cut.ends_with("… and 7 more lines"), "{cut}");
        assert!(bounded(&"x".repeat(OUTPUT_BYTES + 1)).len() < 100);
    }

    #[test]
    fn a_generated_message_is_written_once() {
        let mut document = document();
        let mut story = Story::session();
        story.generated_message("See to the tests.");
        for envelope in &story.events {
            document.event(envelope);
        }
        let message = "## generator\n\nSee to the tests.\n\n> the message goes to builder\n\n";
        assert!(document.text.ends_with(message), "{}", document.text);
    }

    #[test]
    fn a_name_cannot_leave_its_line_or_its_code_span() {
        let mut document = document();
        document.note("a\n# b\u{1b}[2J");
        assert!(!document.text.contains('\u{1b}') && document.text.starts_with("> a # b"));
        assert_eq!(inline_code("a`b"), "`` a`b ``");
    }
}
