//! A session as Markdown.

use std::{fmt::Write as _, path::Path};

use crow_core::{
    event::{AgentEvent, Envelope, InputSource, NoticeAudience, RunOutcome, Verdict},
    message::{Block, ReplyBlock, ReplyContent},
    tool::{FileDiff, Patch, ToolResult},
};
use crow_runtime::SessionMetadata;

use crate::render::neutralise;

/// How many lines of an output are shown.
const OUTPUT_LINES: usize = 60;
/// How many bytes of it.
const OUTPUT_BYTES: usize = 8 * 1024;

/// Writes a session as Markdown: what was said, what was called and what came of it, in order. What the model thought is
/// left out.
pub(crate) fn to_markdown(metadata: &SessionMetadata, events: &[Envelope]) -> String {
    let mut document = Document { text: String::new(), cwd: metadata.crow().cwd };
    document.head(metadata);
    for envelope in events {
        document.event(envelope);
    }
    document.text.truncate(document.text.trim_end().len());
    document.text.push('\n');
    document.text
}

struct Document {
    text: String,
    cwd: std::path::PathBuf,
}

impl Document {
    fn head(&mut self, metadata: &SessionMetadata) {
        let crow = metadata.crow();
        let title = if crow.title.is_empty() { "Session" } else { crow.title.as_str() };
        self.part(&format!("# {}", in_a_line(title)));
        self.part(&format!(
            "- session: {}\n- directory: {}\n- model: {}\n- from {} to {}",
            code(metadata.session_id.as_str()),
            code(&crow.cwd.display().to_string()),
            code(&metadata.model_ref().to_string()),
            metadata.created_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            metadata.updated_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        ));
    }

    fn event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::UserInput { source, content, .. } => self.input(*source, content),
            AgentEvent::Reply { blocks, .. } => self.reply(&envelope.agent, blocks),
            AgentEvent::CallStart { tool, title, .. } => {
                self.part(&format!("### {}: {}", in_a_line(tool), in_a_line(title)));
            }
            AgentEvent::CallEnd { tool, result, denial, .. } => {
                if denial.is_some() {
                    self.part(&format!("### {}: not permitted", in_a_line(tool)));
                }
                self.result(result);
            }
            AgentEvent::Handoff { from, to, .. } => {
                self.note(&format!("{from} hands its work to {to}"));
            }
            AgentEvent::ReviewVerdict { reviewer, verdict } => {
                let said = match verdict {
                    Verdict::Approved => "approves",
                    Verdict::Rejected => "sends it back",
                    Verdict::Unfinished => "did not finish its review",
                };
                self.note(&format!("{reviewer} {said}"));
            }
            AgentEvent::Checks { checks, passed, .. } => {
                let said = if *passed { "passed" } else { "failed" };
                let names: Vec<_> = checks.iter().map(|check| check.name.as_str()).collect();
                self.note(&format!("checks {said}: {}", names.join(", ")));
            }
            AgentEvent::TaskComplete { summary, verified } => {
                let word = if *verified { "verified" } else { "not verified" };
                self.part(&format!("**Done ({word}).** {}", neutralise(summary)));
            }
            AgentEvent::Switch { change } => self.note(change),
            AgentEvent::FilesRestored { .. } => self.note("changes of files were undone or redone"),
            AgentEvent::Rewind { .. } => {
                self.note("the conversation goes on from an earlier point");
            }
            AgentEvent::Compaction { summary, .. } => {
                self.note("what was said before was made shorter");
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
            | AgentEvent::Usage { .. }
            | AgentEvent::CallPending { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::PermissionDecision { .. }
            // The call says what was asked, and its result what was answered.
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

    fn input(&mut self, source: InputSource, content: &[Block]) {
        let who = match source {
            InputSource::Prompt | InputSource::Steering => "User",
            InputSource::ControlFlow => "Control flow",
            InputSource::Reviewer => "Reviewer",
        };
        self.part(&format!("## {who}"));
        for block in content {
            match block {
                Block::Text { text } => self.part(&neutralise(text)),
                Block::Image(image) => self.note(&format!("an image ({})", image.media_type)),
            }
        }
    }

    fn reply(&mut self, agent: &str, blocks: &[ReplyBlock]) {
        let texts = blocks.iter().filter_map(|block| match &block.content {
            ReplyContent::Text { text } => Some(text.trim()).filter(|text| !text.is_empty()),
            ReplyContent::Thinking { .. } | ReplyContent::Call(_) | ReplyContent::Opaque => None,
        });
        let texts: Vec<_> = texts.collect();
        if !texts.is_empty() {
            self.part(&format!("## {}", in_a_line(agent)));
            self.part(&neutralise(&texts.join("\n\n")));
        }
    }

    fn result(&mut self, result: &ToolResult) {
        match &result.metadata.diff {
            Some(patch) if !patch.files.is_empty() => self.patch(patch),
            Some(_) | None => {
                let error = result.error.as_deref().unwrap_or_default();
                let output = if result.output.trim().is_empty() { error } else { &result.output };
                if !output.trim().is_empty() {
                    self.fenced("text", &bounded(&neutralise(output)));
                }
            }
        }
    }

    fn patch(&mut self, patch: &Patch) {
        for file in &patch.files {
            let FileDiff { path, additions, deletions, hunks, .. } = file;
            let shown = path.strip_prefix(&self.cwd).unwrap_or(Path::new(path)).display();
            self.part(&format!("{} (+{additions} -{deletions})", code(&shown.to_string())));
            if !hunks.trim().is_empty() {
                self.fenced("diff", &bounded(&neutralise(hunks)));
            }
        }
    }

    fn end(&mut self, result: &RunOutcome) {
        match result {
            RunOutcome::Completed { .. } | RunOutcome::NeedsInput => {}
            RunOutcome::Stopped { .. } => self.note("the run was stopped by a bound"),
            RunOutcome::Cancelled => self.note("the run was cancelled"),
            RunOutcome::Failed { error } => self.note(&format!("the run failed: {error}")),
        }
    }

    fn note(&mut self, text: &str) {
        self.part(&format!("> {}", in_a_line(text)));
    }

    /// Puts a text between fences that it cannot end.
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

fn in_a_line(text: &str) -> String {
    let line = neutralise(text);
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes a name as code that its own backticks cannot end.
fn code(name: &str) -> String {
    let name = in_a_line(name);
    if name.contains('`') { format!("`` {name} ``") } else { format!("`{name}`") }
}

fn bounded(text: &str) -> String {
    let text = text.trim_end();
    let (mut kept, lines) = (String::new(), text.lines().count());
    for (number, line) in text.lines().enumerate() {
        if number == OUTPUT_LINES || kept.len() + line.len() > OUTPUT_BYTES {
            let _ = write!(kept, "… and {} more lines", lines - number);
            return kept;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        Document { text: String::new(), cwd: "/p".into() }
    }

    #[test]
    fn an_output_cannot_end_its_fence() {
        let mut document = document();
        document.fenced("text", "a\n````\n# heading\n");
        assert_eq!(document.text, "`````text\na\n````\n# heading\n`````\n\n");
    }

    #[test]
    fn a_long_output_is_cut_and_says_so() {
        let long = "line\n".repeat(OUTPUT_LINES + 7);
        let kept = bounded(&long);
        assert_eq!(kept.lines().count(), OUTPUT_LINES + 1);
        assert!(kept.ends_with("… and 7 more lines"), "{kept}");
        assert!(bounded(&"x".repeat(OUTPUT_BYTES + 1)).len() < 100);
    }

    #[test]
    fn a_name_stays_in_its_line() {
        let mut document = document();
        document.note("a\n# b\u{1b}[2J");
        assert!(!document.text.contains('\u{1b}') && document.text.starts_with("> a # b"));
        assert_eq!(code("a`b"), "`` a`b ``");
    }
}
