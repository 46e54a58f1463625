//! Redaction of events: every text in them that may be shown.

use serde_json::Value;

use super::Redactor;
use crate::{
    capability::{PermissionAnswer, PermissionRequest, QuestionAnswer, UserQuestion},
    ending::EndAssessment,
    event::{AgentEvent, AgentState, CheckRun, RunOutcome},
    message::{Block, CallArguments, ReplyBlock, ReplyContent},
    model::ProviderError,
    permission::GrantOffer,
    settings::SystemPrompt,
    tool_types::{CommandLine, CommandMeaning, CommandWord, Patch, Subject, ToolResult},
    turn::TurnEnd,
};

impl Redactor {
    /// Redacts an event. Ids, names of tools and paths stay: calls are matched and undone by them.
    pub fn redact_event(&self, event: &mut AgentEvent) {
        if self.is_active() {
            self.redact_active(event);
        }
    }

    fn redact_active(&self, event: &mut AgentEvent) {
        match event {
            AgentEvent::UserInput { context, content, .. } => {
                self.texts(context);
                self.redact_blocks(content);
            }
            AgentEvent::RunEnd { result, assessment, .. } => {
                self.outcome(result);
                if let Some(assessment) = assessment {
                    self.assessment(assessment);
                }
            }
            AgentEvent::ToolsWait { servers } => self.texts(servers),
            AgentEvent::TurnComplete { end, .. } => self.turn_end(end),
            AgentEvent::TextDelta { delta: text, .. }
            | AgentEvent::ThinkingDelta { delta: text, .. }
            | AgentEvent::TextComplete { text, .. }
            | AgentEvent::ThinkingComplete { text, .. }
            | AgentEvent::ModelWait { reason: text, .. }
            | AgentEvent::CallWait { reason: text, .. }
            | AgentEvent::CallProgress { output: text, .. }
            | AgentEvent::Handoff { prompt: text, .. }
            | AgentEvent::SubagentStart { task: text, .. }
            | AgentEvent::SubagentEnd { result: text, .. }
            | AgentEvent::TaskComplete { summary: text, .. }
            | AgentEvent::Switch { change: text }
            | AgentEvent::Instructions { text, .. }
            | AgentEvent::FilesRestored { text, .. }
            | AgentEvent::Compaction { summary: text, .. }
            | AgentEvent::Notice { text, .. } => self.texts([text]),
            AgentEvent::ReplyReset { error, .. } => self.provider_error(error),
            AgentEvent::Reply { blocks, .. } => self.reply(blocks),
            AgentEvent::CallPending { title, arguments, preview, .. } => {
                self.call(title, arguments);
                self.patches(preview);
            }
            AgentEvent::CallStart { title, arguments, .. } => self.call(title, arguments),
            AgentEvent::CallEnd { result, denial, .. } => {
                self.redact_result(result);
                self.texts(denial.as_mut().map(|denial| &mut denial.reason));
            }
            AgentEvent::PermissionRequest { title, subject, reason, offers, .. } => {
                self.texts([title, reason]);
                self.subject(subject);
                offers.retain(|offer| !self.is_in_offer(offer));
            }
            AgentEvent::PermissionDecision { answer, .. } => self.answer(answer),
            AgentEvent::QuestionAsked { question, .. } => self.redact_question(question),
            AgentEvent::QuestionAnswered { answer, .. } => self.question_answer(answer),
            AgentEvent::Plan { items } => self.texts(
                items
                    .iter_mut()
                    .flat_map(|item| [&mut item.content].into_iter().chain(&mut item.active_form)),
            ),
            AgentEvent::Checks { checks, unverified, .. } => {
                self.checks(checks);
                self.texts(unverified.as_mut());
            }
            AgentEvent::Error { error, provider } => {
                self.texts([error]);
                if let Some(error) = provider {
                    self.provider_error(error);
                }
            }
            AgentEvent::StateChange { state } => self.state(state),
            AgentEvent::SessionStart { settings, .. } | AgentEvent::RunStart { settings, .. } => {
                let with = settings.iter_mut().filter_map(|settings| settings.opened_with.as_mut());
                self.texts(with.filter_map(|with| match &mut with.system_prompt {
                    Some(SystemPrompt::Append(text) | SystemPrompt::Replace(text)) => Some(text),
                    None => None,
                }));
            }
            AgentEvent::RoundStart
            | AgentEvent::RoundEnd
            | AgentEvent::TurnStart { .. }
            | AgentEvent::StepComplete { .. }
            | AgentEvent::Usage { .. }
            | AgentEvent::FilesChanged { .. }
            | AgentEvent::JobChanges { .. }
            | AgentEvent::PermissionWithdrawn { .. }
            | AgentEvent::QuestionWithdrawn { .. }
            | AgentEvent::CoagentStart { .. }
            | AgentEvent::CoagentEnd { .. }
            | AgentEvent::ReviewVerdict { .. }
            | AgentEvent::Rewind { .. }
            | AgentEvent::Cancelling
            | AgentEvent::Cancelled => {}
        }
    }

    fn checks(&self, checks: &mut [CheckRun]) {
        for check in checks {
            self.texts([&mut check.name, &mut check.command]);
            self.texts(check.error.as_mut());
        }
    }

    /// Redacts the result of a call.
    pub fn redact_result(&self, result: &mut ToolResult) {
        if !self.is_active() {
            return;
        }
        self.texts([&mut result.output]);
        self.texts(&mut result.error);
        let metadata = &mut result.metadata;
        self.patches(&mut metadata.diff);
        self.texts(metadata.not_restorable.iter_mut().map(|one| &mut one.reason));
        self.redact_value(&mut metadata.extra);
    }

    /// Redacts text blocks. Pictures stay.
    pub fn redact_blocks(&self, blocks: &mut [Block]) {
        self.texts(blocks.iter_mut().filter_map(|block| match block {
            Block::Text { text } => Some(text),
            Block::Image(_) => None,
        }));
    }

    /// Redacts a question about a call.
    pub fn redact_request(&self, request: &mut PermissionRequest) {
        if !self.is_active() {
            return;
        }
        self.texts([&mut request.title, &mut request.reason]);
        self.subject(&mut request.subject);
        request.offers.retain(|offer| !self.is_in_offer(offer));
        self.patches(request.preview.as_mut().map(|preview| &mut preview.patch));
    }

    /// Redacts a question of an agent to the user.
    pub fn redact_question(&self, question: &mut UserQuestion) {
        if !self.is_active() {
            return;
        }
        self.texts([&mut question.text]);
        self.texts(&mut question.header);
        for choice in &mut question.choices {
            self.texts([&mut choice.label]);
            self.texts(&mut choice.description);
        }
    }

    fn texts<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        for text in texts {
            self.redact_string(text);
        }
    }

    fn patches<'a>(&self, patches: impl IntoIterator<Item = &'a mut Patch>) {
        for file in patches.into_iter().flat_map(|patch| &mut patch.files) {
            self.texts([&mut file.hunks, &mut file.note]);
        }
    }

    fn reply(&self, blocks: &mut [ReplyBlock]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn state(&self, state: &mut AgentState) {
        match state {
            AgentState::Error(text) => self.texts([text]),
            AgentState::Idle
            | AgentState::Processing
            | AgentState::WaitingForPermission
            | AgentState::ExecutingTool(_)
            | AgentState::WaitingForSubagent(_)
            | AgentState::Done => {}
        }
    }

    fn call(&self, title: &mut String, arguments: &mut Value) {
        self.texts([title]);
        self.redact_value(arguments);
    }

    fn assessment(&self, assessment: &mut EndAssessment) {
        let EndAssessment { kind: _, is_question: _, reason, evidence, notes } = assessment;
        self.texts(reason.iter_mut().chain(evidence).chain(notes));
    }

    fn outcome(&self, outcome: &mut RunOutcome) {
        match outcome {
            RunOutcome::Completed { summary: text, .. }
            | RunOutcome::Failed { error: text, .. } => {
                self.texts([text]);
            }
            RunOutcome::Stopped { reason } => self.turn_end(reason),
            RunOutcome::NeedsInput | RunOutcome::Cancelled => {}
        }
    }

    fn turn_end(&self, end: &mut TurnEnd) {
        match end {
            TurnEnd::TaskComplete { summary: text }
            | TurnEnd::SubmitForReview { summary: text }
            | TurnEnd::DoomLoop { reason: text }
            | TurnEnd::Condition { reason: text }
            | TurnEnd::Error { error: text } => self.texts([text]),
            TurnEnd::Text
            | TurnEnd::MaxSteps { .. }
            | TurnEnd::InvalidCalls
            | TurnEnd::OutputLimit
            | TurnEnd::Refusal
            | TurnEnd::Budget { .. }
            | TurnEnd::Cancelled => {}
        }
    }

    fn provider_error(&self, error: &mut ProviderError) {
        self.texts([&mut error.url, &mut error.message]);
    }

    /// Redacts a block. Drops the provider's own item if it contains a secret: it may be signed and cannot be changed.
    fn block(&self, block: &mut ReplyBlock) {
        let mut has_secret =
            block.native_item().is_some_and(|item| self.redact_value(&mut item.clone()));
        has_secret |= match &mut block.content {
            ReplyContent::Text { text } | ReplyContent::Thinking { text } => {
                self.redact_string(text)
            }
            ReplyContent::Call(call) => match &mut call.arguments {
                CallArguments::Json(value) => self.redact_value(value),
                CallArguments::Malformed(text) => self.redact_string(text),
            },
            ReplyContent::Opaque => false,
        };
        if has_secret {
            block.native = None;
        }
    }

    fn subject(&self, subject: &mut Subject) {
        match subject {
            Subject::Command(command) => self.command(command),
            Subject::Nothing | Subject::Path(_) | Subject::Host(_) => {}
        }
    }

    fn command(&self, command: &mut CommandLine) {
        self.texts([&mut command.text]);
        match &mut command.meaning {
            CommandMeaning::Unclear(reason) => self.texts([reason]),
            CommandMeaning::Commands(commands) => {
                for command in commands {
                    let targets = command.redirects.iter_mut().map(|redirect| &mut redirect.target);
                    let words =
                        command.words.iter_mut().chain(&mut command.wrappers).chain(targets);
                    self.texts(words.map(|word| match word {
                        CommandWord::Literal(word) | CommandWord::Computed(word) => word,
                    }));
                }
            }
        }
    }

    /// Returns true if an offer contains a secret. It is then removed: the shown grant would differ from the real one.
    fn is_in_offer(&self, offer: &GrantOffer) -> bool {
        serde_json::to_value(offer).is_ok_and(|mut value| self.redact_value(&mut value))
    }

    fn answer(&self, answer: &mut PermissionAnswer) {
        match answer {
            PermissionAnswer::Deny { feedback } => self.texts(feedback),
            PermissionAnswer::Nobody { hint } => self.texts([hint]),
            PermissionAnswer::AllowOnce | PermissionAnswer::AllowSession { .. } => {}
        }
    }

    fn question_answer(&self, answer: &mut QuestionAnswer) {
        match answer {
            QuestionAnswer::Text { text } | QuestionAnswer::Nobody { hint: text } => {
                self.texts([text]);
            }
            QuestionAnswer::Chosen { labels } => self.texts(labels),
            QuestionAnswer::Declined => {}
        }
    }
}
