//! Prompts of a client, and the replies to them.

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, PromptResponse},
};
use crow_core::{
    event::{AgentEvent, Envelope, RunOutcome},
    ids::RunId,
    message::UserPrompt,
    usage::TokenUsage,
};
use crow_runtime::CommandOutcome;
use tokio::task::AbortHandle;

use super::{
    attached::CancelMark,
    peer::{PromptReply, SessionProgress},
    pump::Pump,
};
use crate::view::{self, EventSource, handle_error, host_error, prompt_error};

/// A prompt whose run has not ended.
pub(super) struct OpenPrompt {
    pub(super) run_id: RunId,
    /// Content as the client sent it.
    pub(super) content: Vec<ContentBlock>,
    /// `None` if the prompt was answered before the end of its run.
    pub(super) reply: Option<PromptReply>,
    pub(super) usage: TokenUsage,
    /// Task that cancels the run when the client cancels the prompt.
    pub(super) watch: Option<AbortHandle>,
}

impl Pump {
    /// Answers a prompt whose run has ended.
    pub(super) fn answer(&self, prompt: OpenPrompt, result: &RunOutcome) {
        if let Some(watch) = &prompt.watch {
            watch.abort();
        }
        let response = response(result, &prompt.usage);
        let (run, is_ok) = (&prompt.run_id, response.is_ok());
        tracing::debug!(session = %self.handle.session_id(), %run, is_ok, "prompt answered");
        match prompt.reply {
            Some(PromptReply::Ended(reply)) => {
                self.peer.report_progress(&self.root, SessionProgress::Ended(&response));
                reply.send(response);
            }
            // It was cancelled before the agent read it.
            Some(PromptReply::Inserted(reply)) => {
                reply.send(response.and(Err(Error::request_cancelled())));
            }
            None => self.peer.report_progress(&self.root, SessionProgress::Ended(&response)),
        }
    }

    /// Holds back an error event while a prompt of its run is open, and returns true if it did. At the end of the run,
    /// shows those held back errors that the response to the prompt does not report.
    pub(super) fn hold_back_error(&mut self, envelope: &Envelope) -> bool {
        if envelope.session_id != envelope.root_id {
            return false;
        }
        // 1) Errors of a run with an open prompt wait for its end.
        if let AgentEvent::Error { .. } = &envelope.event {
            let run = self.run_id.as_ref();
            let is_answered = self.prompts.iter().any(|prompt| Some(&prompt.run_id) == run);
            if is_answered {
                self.errors.push(envelope.clone());
            }
            return is_answered;
        }
        // 2) At the end, the response reports at most one of them.
        if let AgentEvent::RunEnd { result, .. } = &envelope.event {
            let reported = match result {
                RunOutcome::Failed { error, .. } if view::run_end(result).is_err() => Some(error),
                RunOutcome::Failed { .. }
                | RunOutcome::Completed { .. }
                | RunOutcome::NeedsInput
                | RunOutcome::Stopped { .. }
                | RunOutcome::Cancelled => None,
            };
            for deferred in std::mem::take(&mut self.errors) {
                let is_answered = matches!(
                    &deferred.event,
                    AgentEvent::Error { error, .. } if Some(error) == reported
                );
                if !is_answered {
                    self.view.on_event(&deferred, EventSource::Live, &mut self.updates);
                }
            }
        }
        false
    }

    /// Answers the prompt of the current run in version 2, because the agent has read it.
    pub(super) fn on_inserted(&mut self, message_id: &str) {
        let run = self.run_id.as_ref();
        let prompt = self.prompts.iter_mut().find(|prompt| Some(&prompt.run_id) == run);
        let Some(prompt) = prompt else { return };
        let began = SessionProgress::Started { message_id, prompt: &prompt.content };
        match prompt.reply.take() {
            Some(PromptReply::Inserted(reply)) => {
                reply.send(Ok(message_id.to_owned()));
                self.peer.report_progress(&self.root, began);
            }
            ended => prompt.reply = ended,
        }
    }

    /// Runs a prompt as a command if it names one, else sends it to the agent. The reply is given in both cases.
    pub(super) async fn prompt(
        &mut self,
        content: Vec<ContentBlock>,
        cancellation: Option<RequestCancellation>,
        cancel_mark: CancelMark,
        reply: PromptReply,
    ) {
        if cancel_mark.is_cancelled() {
            return refuse_cancelled(reply);
        }
        let cwd = self.handle.metadata().crow().cwd;
        let command = self.command(&content).await;
        let blocks = match view::prompt_blocks(content.clone(), &cwd) {
            Ok(blocks) => blocks,
            Err(fault) => return reply.refuse(prompt_error(&fault)),
        };
        match command {
            Some(Ok(CommandOutcome::Shown(text))) => self.show_output(&text, &content, reply).await,
            Some(Ok(CommandOutcome::Started(run_id))) => {
                self.record_open(run_id, content, cancellation, &cancel_mark, reply);
            }
            Some(Ok(CommandOutcome::Prompt(prompt))) => {
                self.start(content, prompt, cancellation, &cancel_mark, reply);
            }
            Some(Err(error)) => reply.refuse(error),
            None => self.start(content, blocks.into(), cancellation, &cancel_mark, reply),
        }
    }

    /// Shows the output of a command, and answers its prompt.
    async fn show_output(&mut self, text: &str, content: &[ContentBlock], reply: PromptReply) {
        self.command_count += 1;
        let message_id = format!("command-{}", self.command_count);
        let reply = match reply {
            PromptReply::Inserted(reply) => {
                reply.send(Ok(message_id.clone()));
                None
            }
            PromptReply::Ended(reply) => Some(reply),
        };
        let began = SessionProgress::Started { message_id: &message_id, prompt: content };
        self.peer.report_progress(&self.root, began);
        self.view.show_command_output(text, &mut self.updates);
        self.published.push_options(&mut self.updates).await;
        self.published.push_title(&self.handle, &mut self.updates);
        self.flush().await;
        let response = response(&RunOutcome::NeedsInput, &TokenUsage::default());
        self.peer.report_progress(&self.root, SessionProgress::Ended(&response));
        if let Some(reply) = reply {
            reply.send(response);
        }
    }

    /// Runs the command that a prompt names; `None` if it names no command of the session.
    async fn command(&mut self, prompt: &[ContentBlock]) -> Option<Result<CommandOutcome, Error>> {
        let (name, argument) = view::as_command(prompt)?;
        let id = self.handle.session_id().clone();
        let commands = self.host.commands(&id).await.ok()?;
        commands.iter().find(|command| command.name == name)?;
        let outcome = self.host.run_command(&id, &name, &argument).await;
        Some(outcome.map_err(|error| host_error(&error)))
    }

    /// Sends a prompt to the agent and records it as open, unless it was cancelled before.
    fn start(
        &mut self,
        content: Vec<ContentBlock>,
        prompt: UserPrompt,
        cancellation: Option<RequestCancellation>,
        cancel_mark: &CancelMark,
        reply: PromptReply,
    ) {
        if cancel_mark.is_cancelled() {
            return refuse_cancelled(reply);
        }
        let run_id = match self.handle.send_prompt(prompt) {
            Ok(run_id) => run_id,
            Err(error) => return reply.refuse(handle_error(&error)),
        };
        tracing::debug!(session = %self.handle.session_id(), run = %run_id, "prompt passed to the agent");
        self.record_open(run_id, content, cancellation, cancel_mark, reply);
    }

    /// Records a prompt whose run the agent has as open.
    fn record_open(
        &mut self,
        run_id: RunId,
        content: Vec<ContentBlock>,
        cancellation: Option<RequestCancellation>,
        cancel_mark: &CancelMark,
        reply: PromptReply,
    ) {
        // A cancel that arrived meanwhile may have interrupted the agent before it had this prompt.
        if cancel_mark.is_cancelled() {
            self.handle.cancel_run(&run_id);
        }
        let watch = cancellation.map(|cancellation| {
            let (handle, run_id) = (self.handle.clone(), run_id.clone());
            self.tasks.spawn(async move {
                cancellation.cancelled().await;
                handle.cancel_run(&run_id);
            })
        });
        let (reply, usage) = (Some(reply), TokenUsage::default());
        self.prompts.push_back(OpenPrompt { run_id, content, reply, usage, watch });
    }
}

/// Answers a prompt that was cancelled before it reached the agent.
fn refuse_cancelled(reply: PromptReply) {
    match reply {
        PromptReply::Ended(reply) => {
            reply.send(response(&RunOutcome::Cancelled, &TokenUsage::default()));
        }
        PromptReply::Inserted(reply) => reply.send(Err(Error::request_cancelled())),
    }
}

/// Returns the response to a prompt for the outcome of its run.
fn response(outcome: &RunOutcome, usage: &TokenUsage) -> Result<PromptResponse, Error> {
    let response = PromptResponse::new(view::run_end(outcome)?);
    Ok(if *usage == TokenUsage::default() {
        response
    } else {
        response.usage(view::prompt_usage(usage))
    })
}
