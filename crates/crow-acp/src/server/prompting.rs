//! Prompts: what a client says to the agent, and what it is answered.

use agent_client_protocol::{
    Error, RequestCancellation,
    v1::schema::{ContentBlock, PromptResponse},
};
use crow_core::{
    event::{AgentEvent, Envelope, RunOutcome},
    ids::RunId,
    message::Block,
    usage::TokenUsage,
};
use crow_runtime::CommandOutcome;
use tokio::task::AbortHandle;

use super::{
    fault::{handle_error, host_error, prompt_fault},
    peer::{PromptReply, SessionProgress},
    pump::Pump,
    requests::CancelMark,
};
use crate::view::{self, EventSource};

/// A prompt whose run has not ended.
pub(super) struct OpenPrompt {
    pub(super) run_id: RunId,
    /// What was said.
    pub(super) content: Vec<ContentBlock>,
    /// None if it was given before the end.
    pub(super) reply: Option<PromptReply>,
    pub(super) usage: TokenUsage,
    /// Waits for the client to give it up.
    pub(super) watch: Option<AbortHandle>,
}

impl Pump {
    /// Answers a prompt whose run is over.
    pub(super) fn answer(&self, prompt: OpenPrompt, result: &RunOutcome) {
        if let Some(watch) = &prompt.watch {
            watch.abort();
        }
        let response = response(result, &prompt.usage);
        match prompt.reply {
            Some(PromptReply::Ended(reply)) => {
                self.peer.progress(&self.root, SessionProgress::Ended(&response));
                reply.give(response);
            }
            // It was cancelled before the agent read it.
            Some(PromptReply::Inserted(reply)) => {
                reply.give(response.and(Err(Error::request_cancelled())));
            }
            None => self.peer.progress(&self.root, SessionProgress::Ended(&response)),
        }
    }

    /// Keeps an error from being shown until it is known whether the answer to a prompt says it. Returns whether it does.
    /// At the end of the run it shows those that the answer does not say.
    pub(super) fn holds_back(&mut self, envelope: &Envelope) -> bool {
        if envelope.session_id != envelope.root_id {
            return false;
        }
        if let AgentEvent::Error { .. } = &envelope.event {
            let run = self.run_id.as_ref();
            let is_answered = self.prompts.iter().any(|prompt| Some(&prompt.run_id) == run);
            if is_answered {
                self.errors.push(envelope.clone());
            }
            return is_answered;
        }
        if let AgentEvent::RunEnd { result, .. } = &envelope.event {
            let answered = match result {
                RunOutcome::Failed { error, .. } if view::run_end(result).is_err() => Some(error),
                RunOutcome::Failed { .. }
                | RunOutcome::Completed { .. }
                | RunOutcome::NeedsInput
                | RunOutcome::Stopped { .. }
                | RunOutcome::Cancelled => None,
            };
            for held in std::mem::take(&mut self.errors) {
                let is_answered = matches!(
                    &held.event,
                    AgentEvent::Error { error, .. } if Some(error) == answered
                );
                if !is_answered {
                    self.view.event(&held, EventSource::Live, &mut self.out);
                }
            }
        }
        false
    }

    /// Tells that the agent has read a prompt.
    pub(super) fn inserted(&mut self, message_id: &str) {
        let run = self.run_id.as_ref();
        let prompt = self.prompts.iter_mut().find(|prompt| Some(&prompt.run_id) == run);
        let Some(prompt) = prompt else { return };
        let began = SessionProgress::Began { message_id, prompt: &prompt.content };
        match prompt.reply.take() {
            Some(PromptReply::Inserted(reply)) => {
                reply.give(Ok(message_id.to_owned()));
                self.peer.progress(&self.root, began);
            }
            ended => prompt.reply = ended,
        }
    }

    pub(super) async fn prompt(
        &mut self,
        content: Vec<ContentBlock>,
        withdrawn: Option<RequestCancellation>,
        received: CancelMark,
        reply: PromptReply,
    ) {
        if received.is_cancelled() {
            return refuse_cancelled(reply);
        }
        let cwd = self.handle.metadata().crow().cwd;
        let command = self.command(&content).await;
        let blocks = match view::prompt_blocks(content.clone(), &cwd) {
            Ok(blocks) => blocks,
            Err(fault) => return reply.refuse(prompt_fault(&fault)),
        };
        match command {
            Some(Ok(CommandOutcome::Shown(text))) => self.shown(&text, &content, reply).await,
            Some(Ok(CommandOutcome::Prompt(blocks))) => {
                self.start(content, blocks, withdrawn, &received, reply);
            }
            Some(Err(error)) => reply.refuse(error),
            None => self.start(content, blocks, withdrawn, &received, reply),
        }
    }

    /// Answers a prompt that was a command.
    async fn shown(&mut self, text: &str, content: &[ContentBlock], reply: PromptReply) {
        self.commands += 1;
        let message_id = format!("command-{}", self.commands);
        let reply = match reply {
            PromptReply::Inserted(reply) => {
                reply.give(Ok(message_id.clone()));
                None
            }
            PromptReply::Ended(reply) => Some(reply),
        };
        let began = SessionProgress::Began { message_id: &message_id, prompt: content };
        self.peer.progress(&self.root, began);
        self.view.say_aside(text, &mut self.out);
        self.published.tell_options(&mut self.out).await;
        self.published.tell_title(&self.handle, &mut self.out);
        self.flush().await;
        let response = response(&RunOutcome::NeedsInput, &TokenUsage::default());
        self.peer.progress(&self.root, SessionProgress::Ended(&response));
        if let Some(reply) = reply {
            reply.give(response);
        }
    }

    /// Runs the command that a prompt is, if it is one.
    async fn command(&mut self, prompt: &[ContentBlock]) -> Option<Result<CommandOutcome, Error>> {
        let (name, argument) = view::as_command(prompt)?;
        let id = self.handle.session_id().clone();
        let commands = self.host.commands(&id).await.ok()?;
        commands.iter().find(|command| command.name == name)?;
        let done = self.host.run_command(&id, &name, &argument).await;
        Some(done.map_err(|error| host_error(&error)))
    }

    fn start(
        &mut self,
        content: Vec<ContentBlock>,
        blocks: Vec<Block>,
        withdrawn: Option<RequestCancellation>,
        received: &CancelMark,
        reply: PromptReply,
    ) {
        if received.is_cancelled() {
            return refuse_cancelled(reply);
        }
        let run_id = match self.handle.send_input(blocks) {
            Ok(run_id) => run_id,
            Err(error) => return reply.refuse(handle_error(&error)),
        };
        // A cancel that came meanwhile may have interrupted the agent before it had this prompt.
        if received.is_cancelled() {
            self.handle.cancel_run(&run_id);
        }
        let watch = withdrawn.map(|withdrawn| {
            let (handle, run_id) = (self.handle.clone(), run_id.clone());
            self.tasks.spawn(async move {
                withdrawn.cancelled().await;
                handle.cancel_run(&run_id);
            })
        });
        let (reply, usage) = (Some(reply), TokenUsage::default());
        self.prompts.push_back(OpenPrompt { run_id, content, reply, usage, watch });
    }
}

/// Answers a prompt that was cancelled before the agent had it.
fn refuse_cancelled(reply: PromptReply) {
    match reply {
        PromptReply::Ended(reply) => {
            reply.give(response(&RunOutcome::Cancelled, &TokenUsage::default()));
        }
        PromptReply::Inserted(reply) => reply.give(Err(Error::request_cancelled())),
    }
}

/// Answers a prompt whose run has ended.
fn response(outcome: &RunOutcome, usage: &TokenUsage) -> Result<PromptResponse, Error> {
    let response = PromptResponse::new(view::run_end(outcome)?);
    Ok(if *usage == TokenUsage::default() {
        response
    } else {
        response.usage(view::prompt_usage(usage))
    })
}
