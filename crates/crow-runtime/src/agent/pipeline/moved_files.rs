//! Files that were moved aside because a command may have planted them: notices to the user, and questions whether they
//! are the user's own.

use std::{path::Path, sync::Arc};

use crow_core::{
    capability::{OriginalState, QuarantinedFile, QuestionAnswer, QuestionChoice, UserQuestion},
    event::{AgentEvent, NoticeAudience, NoticeLevel},
    workspace::Workspace,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    agent::{
        AgentError, agent_shared::AgentShared, questions::RecordQueue, recorder::Recorder,
        session_writer::SessionWriter,
    },
    agent_tree::AgentTree,
    quarantine_messages::describe_moved,
};

/// The answer that changes nothing.
const LEAVE: &str = "leave aside";
/// The answer that restores everything.
const PUT_BACK: &str = "put back";
/// Maximum number of files in a question.
const MOST: usize = 8;
/// Maximum number of commands named.
const COMMANDS: usize = 3;

/// Notifies the user of files that were moved aside because a command may have planted them, and puts back those that
/// the user calls their own.
pub(crate) struct MovedFileNotices {
    tree: Arc<AgentTree>,
    workspace: Workspace,
    tasks: TaskTracker,
}

impl MovedFileNotices {
    pub(crate) fn new(tree: Arc<AgentTree>, workspace: Workspace, tasks: TaskTracker) -> Self {
        Self { tree, workspace, tasks }
    }

    /// Notifies the user of files moved aside or put back because a command may have planted them, so that the user can
    /// find files of their own again.
    pub(crate) async fn report(&self, session: &mut SessionWriter) -> Result<(), AgentError> {
        let Some(sandbox) = &self.tree.sandbox else { return Ok(()) };
        for moved in sandbox.take_unreported() {
            let text = describe_moved(&while_ran(&moved.running_commands), &moved);
            session.warn_user(text).await?;
            if sandbox.can_bring_back(&moved) {
                self.tree.queue_moved_file(moved);
            }
        }
        Ok(())
    }

    /// Asks the user whether files moved aside are their own, and puts those back. Without an answer they stay moved.
    pub(crate) async fn ask(
        &self,
        session: &mut SessionWriter,
        questions: &mut RecordQueue,
        cancel: &CancellationToken,
    ) -> Result<(), AgentError> {
        while !cancel.is_cancelled() {
            let moved = self.tree.take_moved_files(MOST);
            let Some(question) = self.question_about(&moved) else { return Ok(()) };
            let answer = questions.ask_user(session, question, cancel).await?;
            let Some(QuestionAnswer::Chosen { labels }) = answer else { continue };
            for moved in moved {
                let put_back_only = put_back_only(&self.display_path(&moved.path));
                if labels.iter().any(|label| *label == PUT_BACK || *label == put_back_only) {
                    self.restore(session, moved).await?;
                }
            }
        }
        Ok(())
    }

    fn question_about(&self, moved: &[QuarantinedFile]) -> Option<UserQuestion> {
        let mut during: Vec<String> = Vec::new();
        for line in moved.iter().flat_map(|moved| &moved.running_commands) {
            if !during.contains(line) {
                during.push(line.clone());
            }
        }
        let when = while_ran(&during);
        let text = match moved {
            [] => return None,
            [one] => {
                let path = self.display_path(&one.path);
                let (did, then, whose) = match one.original {
                    OriginalState::Absent => ("appeared", "It was moved aside", "Is it"),
                    OriginalState::Restored => ("was changed", "It was restored", "Is the change"),
                    OriginalState::Disarmed => {
                        ("was changed", "The programs were taken out", "Is the change")
                    }
                    OriginalState::Lost => {
                        ("was changed", "The changed version was moved aside", "Is it")
                    }
                };
                format!("{path} {did} {when}: it would start programs. {then}. {whose} yours?")
            }
            several => {
                let paths: Vec<String> = several
                    .iter()
                    .map(|moved| format!("  {}", self.display_path(&moved.path)))
                    .collect();
                format!(
                    "These appeared or were changed {when}, and would start programs:\n{}\nThey were moved aside. Are they yours?",
                    paths.join("\n")
                )
            }
        };
        let choice = |label: &str, description: &str| QuestionChoice {
            label: label.to_owned(),
            description: Some(description.to_owned()),
        };
        let mut choices = vec![choice(PUT_BACK, "you made it, and know what it starts")];
        if moved.len() > 1 {
            let paths = moved.iter().map(|moved| put_back_only(&self.display_path(&moved.path)));
            choices.extend(paths.map(|label| QuestionChoice { label, description: None }));
        }
        choices.push(choice(LEAVE, "a command made it, or you do not know"));
        let header = Some("protected files".to_owned());
        Some(UserQuestion { text, header, choices, multiple: false, free_text: false })
    }

    async fn restore(
        &self,
        session: &mut SessionWriter,
        moved: QuarantinedFile,
    ) -> Result<(), AgentError> {
        let Some(sandbox) = self.tree.sandbox.clone() else { return Ok(()) };
        let path = moved.path.display().to_string();
        let kept =
            moved.moved_to.as_ref().map(|kept| kept.display().to_string()).unwrap_or_default();
        let done = self.tasks.spawn_blocking(move || sandbox.restore_quarantined(&moved)).await;
        let error = match done {
            Ok(Ok(())) => {
                return session.inform_user(format!("{path} was put back")).await;
            }
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                "something else is there now".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let text = format!("{path} was not put back ({error}): your version is in {kept}");
        session.warn_user(text).await
    }

    fn display_path(&self, path: &Path) -> String {
        self.workspace.display(path)
    }
}

fn put_back_only(path: &str) -> String {
    format!("{PUT_BACK} only {path}")
}

/// Notifies the user of files that were moved aside when the jobs of an agent ended with it.
pub(crate) async fn report_last_moved_files(shared: &AgentShared, recorder: &Recorder) {
    let Some(sandbox) = &shared.tree.sandbox else { return };
    for moved in sandbox.take_unreported() {
        let text = describe_moved(&while_ran(&moved.running_commands), &moved);
        let (level, audience) = (NoticeLevel::Warning, NoticeAudience::User);
        let event = recorder.redacted(AgentEvent::Notice { level, audience, text });
        if let Err(error) = recorder.record(event, &shared.session_token).await {
            tracing::warn!(session = %shared.id, %error, "a file that was moved aside is not told");
        }
    }
}

/// Describes which commands ran, for the middle of a sentence.
fn while_ran(during: &[String]) -> String {
    let named: Vec<String> = during.iter().take(COMMANDS).map(|line| format!("`{line}`")).collect();
    let more = during.len().saturating_sub(COMMANDS);
    match (named.as_slice(), more) {
        ([], _) => "while a command ran".to_owned(),
        ([line], _) => format!("while {line} ran"),
        ([first @ .., last], 0) => format!("while {} and {last} ran", first.join(", ")),
        (lines, more) => format!("while {} and {more} more commands ran", lines.join(", ")),
    }
}
