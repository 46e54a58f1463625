//! Events that are neither replies nor calls: notices for clients that take them, else thoughts or messages of the
//! agent, or nothing.

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, MessageId, Notice,
    NoticeSeverity, SessionId as AcpSessionId, SessionUpdate, ToolCallStatus, ToolKind,
};
use crow_core::{
    event::{
        AgentEvent, AgentRole, CheckRun, CompactionReport, InputSource, NoticeAudience,
        NoticeLevel, RunOutcome,
    },
    ids::{MessageId as InputId, SessionId},
    message::Block,
    turn::TurnEnd,
};

use super::{
    call::done_call,
    child::{ChildDisplay, Direction, acp_id},
    content::{fenced, fenced_text, image, sanitise, title},
    diff::KnownChange,
    event::{EventContext, EventSource, SessionUpdateOut, SessionView},
    tool_display::{Rank, ResultDisplay, ToolDisplay},
};

/// Text about a completed task that the checks confirm.
const BORNE_OUT: &str = "The checks confirm it.";

/// Importance of a text, and its form for clients that take no notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// A notice or nothing.
    Aside,
    /// A notice or a thought.
    Info,
    /// A notice or a message.
    Warning,
    /// A notice or a message.
    Error,
}

/// Sends texts that are not replies: as notices to clients that take them, else as thoughts or messages.
#[derive(Debug)]
pub(super) struct NoticeSender {
    root: SessionId,
    takes_notices: bool,
    /// Number of messages that are not replies, for their ids.
    sent: u64,
}

impl NoticeSender {
    pub(super) fn new(root: SessionId, takes_notices: bool) -> Self {
        Self { root, takes_notices, sent: 0 }
    }

    /// Returns the number of the next message.
    pub(super) fn next_number(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Reports a text, in the form that fits its weight.
    pub(super) fn report(&mut self, at: &mut EventContext<'_>, weight: Weight, text: &str) {
        let text = sanitise(text.trim());
        if text.is_empty() {
            return;
        }
        let session = at.display.session(&self.root);
        let text = match at.display {
            ChildDisplay::Session(_) => text,
            ChildDisplay::InCall(_) => format!("{}{text}", at.who.prefix()),
        };
        if self.takes_notices {
            let severity = match weight {
                Weight::Aside | Weight::Info => NoticeSeverity::Info,
                Weight::Warning => NoticeSeverity::Warning,
                Weight::Error => NoticeSeverity::Error,
            };
            let short = title(&text);
            let more = (short != text).then_some(text);
            let notice = Notice::new(severity, short).description(more).meta(at.who.meta());
            at.send(session, SessionUpdate::Notice(notice));
            return;
        }
        match weight {
            Weight::Aside => {}
            Weight::Info => self.chunk(at, session, SessionUpdate::AgentThoughtChunk, &text),
            Weight::Warning | Weight::Error => {
                self.chunk(at, session, SessionUpdate::AgentMessageChunk, &text);
            }
        }
    }

    /// Sends a text as a message of its own.
    fn chunk(
        &mut self,
        at: &mut EventContext<'_>,
        session: AcpSessionId,
        form: fn(ContentChunk) -> SessionUpdate,
        text: &str,
    ) {
        let id = self.message_id(at);
        let chunk = ContentChunk::new(text.into()).message_id(id).meta(at.who.meta());
        at.send(session, form(chunk));
    }

    /// Returns an id for a message that is not a reply: derived from its event, so that a replay gives the same one.
    fn message_id(&mut self, at: &EventContext<'_>) -> MessageId {
        let number = self.next_number();
        match at.seq {
            Some(seq) => MessageId::new(format!("event-{seq}")),
            None => MessageId::new(format!("passing-{number}")),
        }
    }
}

impl SessionView {
    /// Shows the output of a command as a message of the agent. Several lines go into a code fence, to keep their
    /// layout.
    pub(crate) fn show_command_output(&mut self, text: &str, out: &mut Vec<SessionUpdateOut>) {
        let who = self.who(&self.root.clone());
        let stage = ChildDisplay::Session(acp_id(&self.root));
        let session = acp_id(&self.root);
        let at = &mut EventContext::live(&who, &stage, out);
        let text = sanitise(text);
        let text = if text.contains('\n') { fenced_text(&text, "text") } else { text };
        self.notices.chunk(at, session, SessionUpdate::AgentMessageChunk, &text);
    }

    /// Shows a warning that comes from no event.
    pub(super) fn report_warning(&mut self, text: &str, out: &mut Vec<SessionUpdateOut>) {
        let who = self.who(&self.root.clone());
        let stage = ChildDisplay::Session(acp_id(&self.root));
        let at = &mut EventContext::live(&who, &stage, out);
        self.notices.report(at, Weight::Warning, text);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller names every event")]
    pub(super) fn show_notice(&mut self, at: &mut EventContext<'_>, event: &AgentEvent) {
        match event {
            AgentEvent::Checks { checks, passed, unverified } => {
                self.on_checks(at, checks, *passed, unverified.as_deref());
            }
            AgentEvent::JobChanges { .. } => self.on_job_changes(at, event),
            AgentEvent::TaskComplete { summary, verified } => {
                self.on_complete(at, summary, *verified);
            }
            AgentEvent::Switch { change } => self.notices.report(at, Weight::Aside, change),
            AgentEvent::Instructions { files, .. } => {
                let files: Vec<_> = files.iter().map(ToString::to_string).collect();
                self.notices.report(
                    at,
                    Weight::Aside,
                    &format!("instructions: {}", files.join(", ")),
                );
            }
            AgentEvent::FilesRestored { text, .. } => self.notices.report(at, Weight::Info, text),
            AgentEvent::Rewind { .. } => {
                let text = "The conversation was rewound to an earlier point.";
                self.notices.report(at, Weight::Info, text);
            }
            AgentEvent::Compaction { summary, report, .. } => {
                self.on_compaction(at, summary, report.as_ref());
            }
            AgentEvent::Notice { level, audience: NoticeAudience::User, text } => {
                let weight = match level {
                    NoticeLevel::Info => Weight::Info,
                    NoticeLevel::Warning => Weight::Warning,
                };
                self.notices.report(at, weight, text);
            }
            AgentEvent::Error { error, .. } => {
                self.notices.report(at, Weight::Error, &format!("Error: {error}"));
            }
            // Notices for the model alone.
            _ => {}
        }
    }

    /// Shows input of an agent. The user's input is only shown in a replay, because a live client shows it already;
    /// input from the control flow or a reviewer is never shown as the user's.
    pub(super) fn on_input(
        &mut self,
        at: &mut EventContext<'_>,
        id: &InputId,
        source: InputSource,
        content: &[Block],
    ) {
        let blocks = content.iter().map(|block| match block {
            Block::Text { text } => ContentBlock::from(text.as_str()),
            Block::Image(shown) => image(shown),
        });
        let is_child = at.who.session != self.root;
        match source {
            _ if is_child => {
                let session = at.who.session.clone();
                self.children.message(
                    at,
                    &session,
                    Direction::ToChild,
                    &blocks.collect::<Vec<_>>(),
                );
            }
            InputSource::Prompt | InputSource::Steering if at.source == EventSource::Live => {}
            InputSource::Prompt | InputSource::Steering => {
                for block in blocks {
                    let id = MessageId::new(id.as_str());
                    let chunk = ContentChunk::new(block).message_id(id);
                    at.send(acp_id(&self.root), SessionUpdate::UserMessageChunk(chunk));
                }
            }
            InputSource::ControlFlow | InputSource::Generator => {
                let text = Block::text_of(content);
                self.notices.report(at, Weight::Info, &format!("Round {}: {text}", at.who.round));
            }
            // Clients without child sessions have the text in the call of the review.
            InputSource::Reviewer => {
                if let Some(reviewer) = self.children.only_reviewer(&at.who.session) {
                    self.children.message(
                        at,
                        &reviewer,
                        Direction::ToParent,
                        &blocks.collect::<Vec<_>>(),
                    );
                }
            }
        }
    }

    /// Shows the summary of a completed task. The summary of a reviewer of the root is shown in the root session.
    fn on_complete(&mut self, at: &mut EventContext<'_>, summary: &str, verified: bool) {
        let (session, prefix) = match at.display {
            _ if self.children.is_coagent_of_root(&at.who.session) => {
                (acp_id(&self.root), at.who.prefix())
            }
            ChildDisplay::Session(session) => (session.clone(), String::new()),
            ChildDisplay::InCall(_) => return,
        };
        let summary = summary.trim();
        let is_repeated = prefix.is_empty() && self.last_words.trim() == summary;
        let text = match (is_repeated || summary.is_empty(), verified) {
            (true, false) => return,
            (true, true) => BORNE_OUT.to_owned(),
            (false, true) => format!("{prefix}{}\n\n{BORNE_OUT}", sanitise(summary)),
            (false, false) => format!("{prefix}{}", sanitise(summary)),
        };
        self.notices.chunk(at, session, SessionUpdate::AgentMessageChunk, &text);
    }

    fn on_compaction(
        &mut self,
        at: &mut EventContext<'_>,
        summary: &str,
        report: Option<&CompactionReport>,
    ) {
        let ChildDisplay::Session(session) = at.display else { return };
        if !self.abilities.compaction.is_yes() {
            let report = report.map(|report| format!(": {report}")).unwrap_or_default();
            let text = format!("The conversation was compacted{report}.");
            return self.notices.report(at, Weight::Aside, &text);
        }
        let id = self.notices.message_id(at);
        let update = CompactionUpdate::new(id.0, CompactionStatus::Completed)
            .summary(vec![ContentBlock::from(sanitise(summary))])
            .meta(at.who.meta());
        at.send(session.clone(), SessionUpdate::CompactionUpdate(update));
    }

    fn on_checks(
        &mut self,
        at: &mut EventContext<'_>,
        checks: &[CheckRun],
        passed: bool,
        unverified: Option<&str>,
    ) {
        if checks.is_empty() {
            return;
        }
        let showing = ToolDisplay {
            kind: ToolKind::Execute,
            body: ResultDisplay::Command,
            rank: Rank::Major,
        };
        let failed = checks.iter().filter(|check| !check.passed()).count();
        let title = match failed {
            0 => format!("Checks: {} passed", checks.len()),
            _ => format!("Checks: {failed} of {} failed", checks.len()),
        };
        let lines: Vec<_> = checks.iter().map(check_line).collect();
        let text = match unverified {
            Some(reason) => format!("{}\n{reason}", lines.join("\n")),
            None => lines.join("\n"),
        };
        let status = if passed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let id = format!("checks-{}", self.notices.message_id(at).0);
        let session = at.display.session(&self.root);
        let content = vec![fenced(&text, "")];
        done_call(session, at, &id, (title, "checks"), (showing, status), content);
    }

    fn on_job_changes(&mut self, at: &mut EventContext<'_>, event: &AgentEvent) {
        let AgentEvent::JobChanges { files, before, after, changes, .. } = event else { return };
        let known = KnownChange {
            patch: None,
            files,
            paths: changes.paths(),
            before: Some(before),
            after: Some(after),
        };
        let shown = self.calls.display_of_change(known);
        let showing =
            ToolDisplay { kind: ToolKind::Edit, body: ResultDisplay::Change, rank: Rank::Major };
        let title = match changes.paths() {
            1 => "A background job changed a file".to_owned(),
            paths => format!("A background job changed {paths} files"),
        };
        let id = format!("job-{}", self.notices.message_id(at).0);
        let named = (title, "job_changes");
        let session = at.display.session(&self.root);
        let state = (showing, ToolCallStatus::Completed);
        done_call(session, at, &id, named, state, shown.content);
    }

    /// Shows the course of runs, rounds and turns.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller names every event")]
    pub(super) fn show_course(&mut self, at: &mut EventContext<'_>, event: &AgentEvent) {
        match event {
            AgentEvent::TurnStart { .. } => self.children.set_running(at),
            AgentEvent::TurnComplete { end, .. } => {
                self.replies.forget(at);
                self.children.set_idle(at, Some(end));
            }
            AgentEvent::RoundEnd => self.end_reviews(at),
            AgentEvent::RunEnd { result, .. } => self.on_run_end(at, result),
            AgentEvent::Cancelled => self.replies.forget(at),
            _ => {}
        }
    }

    /// Ends the calls of a run that are open at its end. Those of background agents stay open: they belong to other
    /// runs.
    fn on_run_end(&mut self, at: &mut EventContext<'_>, result: &RunOutcome) {
        self.replies.forget(at);
        self.calls.settle_session(at, "This ended with the run.");
        let end = match result {
            RunOutcome::Stopped { reason } => Some(reason.clone()),
            RunOutcome::Cancelled => Some(TurnEnd::Cancelled),
            RunOutcome::Failed { error, .. } => Some(TurnEnd::Error { error: error.clone() }),
            RunOutcome::Completed { .. } | RunOutcome::NeedsInput => None,
        };
        self.children.set_idle(at, end.as_ref());
        if let RunOutcome::Stopped { reason } = result
            && at.who.role == AgentRole::Primary
        {
            self.notices.report(at, Weight::Warning, &format!("Stopped: {reason}."));
        }
    }
}

fn check_line(check: &CheckRun) -> String {
    let end = match (&check.error, check.fresh) {
        (Some(error), _) => format!("failed: {error}"),
        (None, true) => "passed before, nothing changed since".to_owned(),
        (None, false) => format!("passed in {} ms", check.duration_ms),
    };
    format!("{}: {end}  ({})", title(&check.name), title(&check.command))
}
