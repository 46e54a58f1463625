//! The fold over the events of a run: the state from which the report and the usage sums are computed.
//!
//! Events of all sessions are folded. Those of the root session alone decide text, outcome, last turn and last step;
//! usage, files, refusals and failures are collected from all. The text is that of the last reply of the root: streamed
//! deltas until the reply is complete, then its blocks.
//!
//! A report lists calls that failed and did not succeed later. An agent often repeats a failed command inside a longer
//! line (`cd web && npm test`): if that line succeeds, each of its parts did, so the earlier failure of `npm test` is
//! resolved.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    mem,
    path::PathBuf,
};

use crow_core::{
    ending::EndAssessment,
    event::{AgentEvent, Envelope, RunOutcome},
    ids::{CallId, ReplyId, SessionId},
    message::{Origin, ReplyBlock, ReplyContent},
    model::{ModelRef, ProviderError},
    permission::{Denial, DenialSource},
    tool::{ToolResult, ToolStatus},
    turn::TurnEnd,
    usage::TokenUsage,
};
use jiff::Timestamp;

use super::{ErrorReport, ExitCode, FailureReport, RefusalReport};
use crate::open_reply::{StreamedReplyProgress, text_of};

/// Maximum number of failed calls in the report.
const KEPT_FAILURES: usize = 20;

/// State of the fold over the events of a run.
#[derive(Debug, Default)]
pub(super) struct RunState {
    pub(super) outcome: Option<RunOutcome>,
    /// What the end of the run means.
    pub(super) assessment: Option<EndAssessment>,
    /// End of the last turn of the root session.
    pub(super) last_turn: Option<TurnEnd>,
    /// The last provider error; cleared by the next reply of any agent.
    pub(super) provider_error: Option<ProviderError>,
    /// The last error of the root session that was not a provider error.
    error: Option<String>,
    pub(super) turns: u32,
    pub(super) steps: u32,
    pub(super) refusals: Vec<RefusalReport>,
    pub(super) failures: VecDeque<FailureReport>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    reply: StreamedReplyProgress,
    text: String,
    usage: ModelUsageSums,
    files: Vec<PathBuf>,
    known_files: HashSet<PathBuf>,
    titles: HashMap<(SessionId, CallId), String>,
    last_step: Option<LastStep>,
    /// True if the reply of `text` is complete.
    is_whole: bool,
}

/// Call that the policy refused.
#[derive(Debug)]
pub(super) struct RefusedCall {
    /// Title of the call.
    pub(super) title: String,
    /// Reason of the refusal.
    pub(super) reason: String,
}

/// The last step of the root session that had calls. Discarded when a completion is accepted.
#[derive(Debug)]
struct LastStep {
    reply_id: ReplyId,
    /// The last of its calls that the policy refused.
    refused: Option<RefusedCall>,
}

impl RunState {
    /// Adds an event.
    pub(super) fn on_event(&mut self, envelope: &Envelope) {
        self.start.get_or_insert(envelope.time);
        self.end = Some(envelope.time);
        self.apply(envelope);
    }

    fn apply(&mut self, envelope: &Envelope) {
        // The match names every event, so that a new one cannot be forgotten here. Guards select events of the root
        // session; those of other sessions fall through to the empty arm.
        match &envelope.event {
            AgentEvent::RunEnd { result, assessment, .. } if envelope.is_root() => {
                self.outcome = Some(result.clone());
                self.assessment = assessment.as_deref().cloned();
            }
            AgentEvent::TurnStart { .. } => self.turns += 1,
            AgentEvent::TurnComplete { end, .. } if envelope.is_root() => {
                self.last_turn = Some(end.clone());
            }
            AgentEvent::TextDelta { reply_id, offset, delta } if envelope.is_root() => {
                self.on_text(reply_id, *offset, delta);
            }
            AgentEvent::TextComplete { reply_id, text } if envelope.is_root() => {
                self.on_text(reply_id, 0, text);
            }
            AgentEvent::ThinkingDelta { reply_id, .. } if envelope.is_root() => {
                self.switch_to(reply_id);
            }
            AgentEvent::ReplyReset { .. } if envelope.is_root() => self.on_reset(),
            AgentEvent::Reply { reply_id, blocks, origin, .. } => {
                self.on_reply(envelope, reply_id, blocks, origin);
            }
            AgentEvent::Usage { reply_id, usage, .. } => {
                self.usage.add(&envelope.session_id, reply_id, *usage);
            }
            AgentEvent::CallPending { call_id, title, .. }
            | AgentEvent::CallStart { call_id, title, .. } => {
                self.titles.insert(key(envelope, call_id), title.clone());
            }
            AgentEvent::CallEnd { call_id, reply_id, tool, result, denial } => {
                self.on_call_end(envelope, (call_id, reply_id), tool, (result, denial.as_ref()));
            }
            AgentEvent::FilesChanged { files, .. } | AgentEvent::JobChanges { files, .. } => {
                self.on_files(files);
            }
            AgentEvent::Error { error, provider } => {
                self.on_error(envelope, error, provider.as_ref());
            }
            AgentEvent::TaskComplete { .. } if envelope.is_root() => self.last_step = None,
            AgentEvent::RunEnd { .. }
            | AgentEvent::TurnComplete { .. }
            | AgentEvent::TextDelta { .. }
            | AgentEvent::TextComplete { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::ReplyReset { .. }
            | AgentEvent::TaskComplete { .. }
            | AgentEvent::SessionStart { .. }
            | AgentEvent::RunStart { .. }
            | AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::UserInput { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::ThinkingComplete { .. }
            | AgentEvent::CallProgress { .. }
            | AgentEvent::ModelWait { .. }
            | AgentEvent::ToolsWait { .. }
            | AgentEvent::CallWait { .. }
            | AgentEvent::Instructions { .. }
            | AgentEvent::FilesRestored { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::PermissionRequest { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::PermissionDecision { .. }
            | AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::QuestionWithdrawn { .. }
            | AgentEvent::Plan { .. }
            | AgentEvent::Handoff { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::SubagentStart { .. }
            | AgentEvent::SubagentEnd { .. }
            | AgentEvent::Checks { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::Cancelling
            | AgentEvent::StateChange { .. }
            | AgentEvent::Switch { .. }
            | AgentEvent::Compaction { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Cancelled => {}
        }
    }

    /// Returns the text of the last reply of the root session; empty if the reply broke off and the run failed.
    pub(super) fn text(&self) -> &str {
        // The text of a reply that broke off is not an answer.
        let is_answer =
            self.is_whole || !matches!(self.outcome, None | Some(RunOutcome::Failed { .. }));
        if is_answer { &self.text } else { "" }
    }

    /// Returns the tokens for each model; those of replies that never arrived are under `None`.
    pub(super) fn usage(&self) -> BTreeMap<Option<&ModelRef>, TokenUsage> {
        self.usage.all()
    }

    /// Returns the files that were changed, in the order of their first change.
    pub(super) fn files(&self) -> Vec<String> {
        self.files.iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Returns the time from the first event to the last, in milliseconds.
    pub(super) fn duration_ms(&self) -> u64 {
        let Some((start, end)) = self.start.zip(self.end) else { return 0 };
        u64::try_from(end.as_millisecond() - start.as_millisecond()).unwrap_or(0)
    }

    /// Returns the call of the last step that the policy refused, if any.
    pub(super) fn refused(&self) -> Option<&RefusedCall> {
        self.last_step.as_ref()?.refused.as_ref()
    }

    /// Returns the end of the turn that decided the outcome; `None` for completed, cancelled and failed runs.
    pub(super) fn deciding_turn_end(&self) -> Option<&TurnEnd> {
        match &self.outcome {
            Some(RunOutcome::Stopped { reason }) => Some(reason),
            Some(RunOutcome::NeedsInput) => self.last_turn.as_ref(),
            Some(
                RunOutcome::Completed { .. } | RunOutcome::Cancelled | RunOutcome::Failed { .. },
            )
            | None => None,
        }
    }

    /// Builds the report of a failure without a provider error.
    pub(super) fn failure(&self, code: ExitCode) -> ErrorReport {
        let message = match (&self.outcome, self.deciding_turn_end()) {
            (Some(RunOutcome::Failed { error, .. }), _) | (_, Some(TurnEnd::Error { error })) => {
                error.clone()
            }
            (_, Some(end)) => end.to_string(),
            (_, None) => {
                let unknown = || "the run broke off without a result".to_owned();
                self.error.clone().unwrap_or_else(unknown)
            }
        };
        ErrorReport::new(code, message)
    }

    fn on_error(&mut self, envelope: &Envelope, error: &str, provider: Option<&ProviderError>) {
        match provider {
            Some(provider) => self.provider_error = Some(provider.clone()),
            None if envelope.is_root() => self.error = Some(error.to_owned()),
            None => {}
        }
    }

    fn on_text(&mut self, reply_id: &ReplyId, offset: u64, delta: &str) {
        self.switch_to(reply_id);
        self.text.push_str(self.reply.text.take(offset, delta));
    }

    fn switch_to(&mut self, reply_id: &ReplyId) {
        if self.reply.switch_to(reply_id) {
            self.is_whole = false;
            self.text.clear();
        }
    }

    fn on_reply(
        &mut self,
        envelope: &Envelope,
        reply_id: &ReplyId,
        blocks: &[ReplyBlock],
        origin: &Origin,
    ) {
        self.steps += 1;
        self.provider_error = None;
        self.usage.set_model(&envelope.session_id, reply_id, model_of(origin));
        if !envelope.is_root() {
            return;
        }
        self.switch_to(reply_id);
        self.text = text_of(blocks);
        self.is_whole = true;
        let is_call = |block: &ReplyBlock| matches!(block.content, ReplyContent::Call(_));
        if blocks.iter().any(is_call) {
            self.last_step = Some(LastStep { reply_id: reply_id.clone(), refused: None });
        }
    }

    fn on_reset(&mut self) {
        self.reply.reset();
        self.text.clear();
    }

    fn on_files(&mut self, files: &[PathBuf]) {
        for file in files {
            if self.known_files.insert(file.clone()) {
                self.files.push(file.clone());
            }
        }
    }

    /// Records the end of a call: its changed files, and its result or refusal.
    fn on_call_end(
        &mut self,
        envelope: &Envelope,
        (call_id, reply_id): (&CallId, &ReplyId),
        tool: &str,
        (result, denial): (&ToolResult, Option<&Denial>),
    ) {
        self.on_files(&result.metadata.files_modified);
        let title = self.titles.remove(&key(envelope, call_id));
        let title = title.unwrap_or_else(|| tool.to_owned());
        match denial {
            Some(denial) => self.on_denial(envelope, (call_id, reply_id), (tool, title), denial),
            None => self.on_result(envelope, call_id, (tool, title), result.status),
        }
    }

    /// Updates the failed calls. A later call with the same tool and title replaces the earlier failure; a successful
    /// command line also removes the failures of the commands in it, see [`joined_commands`].
    fn on_result(
        &mut self,
        envelope: &Envelope,
        call_id: &CallId,
        (tool, title): (&str, String),
        status: ToolStatus,
    ) {
        let repeats = |failed: &FailureReport| failed.tool == tool && failed.title == title;
        self.failures.retain(|failed| !repeats(failed));
        if status != ToolStatus::Error {
            let succeeded = joined_commands(&title);
            let is_repaired =
                |failed: &FailureReport| failed.tool == tool && succeeded.contains(&failed.title);
            self.failures.retain(|failed| !is_repaired(failed));
            return;
        }
        if self.failures.len() == KEPT_FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back(FailureReport {
            agent: envelope.agent.clone(),
            call_id: call_id.to_string(),
            tool: tool.to_owned(),
            title,
        });
    }

    fn on_denial(
        &mut self,
        envelope: &Envelope,
        (call_id, reply_id): (&CallId, &ReplyId),
        (tool, title): (&str, String),
        denial: &Denial,
    ) {
        if let Some(step) = &mut self.last_step
            && envelope.is_root()
            && step.reply_id == *reply_id
            && denial.source != DenialSource::User
        {
            step.refused =
                Some(RefusedCall { title: title.clone(), reason: denial.reason.clone() });
        }
        self.refusals.push(RefusalReport {
            agent: envelope.agent.clone(),
            call_id: call_id.to_string(),
            tool: tool.to_owned(),
            title,
            source: denial.source,
            reason: denial.reason.clone(),
        });
    }
}

/// Returns the model of a reply.
pub(super) fn model_of(origin: &Origin) -> ModelRef {
    ModelRef { provider: origin.provider.clone(), model: origin.model.clone() }
}

fn key(envelope: &Envelope, call_id: &CallId) -> (SessionId, CallId) {
    (envelope.session_id.clone(), call_id.clone())
}

/// Sums of tokens for each model. The model of a reply and its tokens arrive in two events, in either order: the last
/// reply of each session is kept in `last` until the next one begins, and then added to `sums`.
#[derive(Debug, Default)]
struct ModelUsageSums {
    /// Ordered by name, so that floating-point sums of costs do not differ from run to run.
    sums: BTreeMap<Option<ModelRef>, TokenUsage>,
    last: BTreeMap<SessionId, ModelCallUsage>,
}

#[derive(Debug)]
struct ModelCallUsage {
    reply_id: ReplyId,
    model: Option<ModelRef>,
    usage: TokenUsage,
}

impl ModelUsageSums {
    /// Sets the model of a reply.
    fn set_model(&mut self, session: &SessionId, reply: &ReplyId, model: ModelRef) {
        self.call(session, reply).model = Some(model);
    }

    /// Adds tokens of one attempt at a reply.
    pub(super) fn add(&mut self, session: &SessionId, reply: &ReplyId, usage: TokenUsage) {
        self.call(session, reply).usage += usage;
    }

    /// Returns the tokens for each model; those of replies that never arrived are under `None`.
    pub(super) fn all(&self) -> BTreeMap<Option<&ModelRef>, TokenUsage> {
        let sums = self.sums.iter().map(|(model, usage)| (model.as_ref(), *usage));
        let last = self.last.values().map(|call| (call.model.as_ref(), call.usage));
        let mut all = BTreeMap::new();
        for (model, usage) in sums.chain(last) {
            *all.entry(model).or_insert_with(TokenUsage::default) += usage;
        }
        all
    }

    fn call(&mut self, session: &SessionId, reply: &ReplyId) -> &mut ModelCallUsage {
        let fresh = || ModelCallUsage {
            reply_id: reply.clone(),
            model: None,
            usage: TokenUsage::default(),
        };
        let call = self.last.entry(session.clone()).or_insert_with(fresh);
        if call.reply_id != *reply {
            let ModelCallUsage { model, usage, .. } = std::mem::replace(call, fresh());
            *self.sums.entry(model).or_default() += usage;
        }
        call
    }
}

/// Returns the commands of a line `a && b && c`, all of which succeeded if the line did. Returns no commands for a line
/// in which a part can fail without failing the line: `a; b`, `a || b`, `a &`, several lines. Here-documents are not
/// parsed and also give none.
fn joined_commands(line: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    // A scanner that tracks quotes and the depth of parentheses and braces: only operators at depth 0 outside quotes
    // count.
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied();
        part.push(char);
        match (quote, char) {
            (Some('"') | None, '\\') => part.extend(chars.next()),
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"' | '`') => quote = Some(char),
            (None, '(' | '{') => depth += 1,
            (None, ')' | '}') => depth = depth.saturating_sub(1),
            // A here-document.
            (None, '<') if next == Some('<') => return Vec::new(),
            (None, '&') if next == Some('&') && depth == 0 => {
                part.pop();
                chars.next();
                parts.push(mem::take(&mut part));
            }
            // In `2>&1` and `&>file` the `&` belongs to a redirection.
            (None, '&') if next == Some('>') || matches!(before, '>' | '<') => {}
            (None, '|') if next == Some('|') && depth == 0 => return Vec::new(),
            (None, '&' | ';' | '\n') if depth == 0 => return Vec::new(),
            (Some(_) | None, _) => {}
        }
        before = char;
    }
    parts.push(part);
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_only_if_no_part_can_fail_unnoticed() {
        for (line, parts) in [
            ("make test", vec!["make test"]),
            ("cd web && npm test && echo ok", vec!["cd web", "npm test", "echo ok"]),
            (
                "sh check.sh && { cat a; echo; } | sh b.sh",
                vec!["sh check.sh", "{ cat a; echo; } | sh b.sh"],
            ),
            ("echo 'a && b' && make 2>&1", vec!["echo 'a && b'", "make 2>&1"]),
            ("echo \"\\\" && \" && make", vec!["echo \"\\\" && \"", "make"]),
            ("make test; true", vec![]),
            ("make test || true", vec![]),
            ("make test && make install || true", vec![]),
            ("make test &", vec![]),
            ("make test\ntrue", vec![]),
            ("cat <<END && make", vec![]),
        ] {
            assert_eq!(joined_commands(line), parts, "{line}");
        }
    }
}
