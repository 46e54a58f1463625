//! Reading that no model asked for, such as the files that the user names.

use std::{collections::BTreeMap, fmt::Write as _, io, path::PathBuf, sync::Arc, time::Duration};

use crow_core::{
    capability::{OutputLimits, ProcessEnd, ProcessError, ProcessSpec},
    ids::CallId,
    permission::{CallFacts, Decision, Disclosure, Permit, WithheldReads},
    tool::{
        Access, AgentContext, CallPlan, Effects, Progress, Tool, ToolCategory, ToolContext,
        ToolError, ToolRegistry, ToolResult,
    },
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    CallPipeline,
    prepare::{PolicyDecision, guarded},
};
use crate::agent::{AgentError, session_writer::SessionWriter};

/// Time limit of a line that reads, and the output that is kept, in bytes.
const LINE_TIMEOUT: Duration = Duration::from_mins(1);
const LINE_HEAD: usize = 10 * 1024;
const LINE_TAIL: usize = 20 * 1024;

impl CallPipeline {
    /// Returns the only file that a call of a reading tool would read, with links resolved, if the policy allows the call
    /// without a question. Nothing is run or recorded, and nobody is asked: `None` if the call is invalid, reads several
    /// files, would have to be asked about, is denied, or `cancel` is cancelled.
    pub(crate) async fn readable_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Option<PathBuf>, AgentError> {
        let permitted = self.permit_unasked(session, tool, input, cancel).await?;
        Ok(permitted.ok().map(|permitted| permitted.path))
    }

    /// Calls a reading tool, if the policy allows the call without a question and it reads one file, folder or pattern.
    /// Nothing is recorded, and nobody is asked. A file counts as read afterwards. The text is redacted.
    pub(crate) async fn read_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<UnaskedRead, AgentError> {
        let permitted = match self.permit_unasked(session, tool, &input, cancel).await? {
            Ok(permitted) => permitted,
            Err(refused) => return Ok(refused),
        };
        let PermittedRead { permit, plan, ctx, path } = permitted;
        // Otherwise a file that was shown before would only be called unchanged.
        ctx.file_views.remove(&path);
        let mut tools = ToolRegistry::new();
        tools.register_shared(Arc::clone(tool));
        let reading = async { Ok(tools.execute(permit, tool.name(), input, &plan, &ctx).await) };
        let mut result = match guarded(cancel, reading).await {
            Ok(result) => result,
            Err(ToolError::Cancelled) => return Ok(UnaskedRead::Cancelled),
            Err(error) => return Ok(UnaskedRead::Invalid(error.to_string())),
        };
        let redactor = &session.config().redactor;
        redactor.redact_string(&mut result.output);
        if let Some(error) = &mut result.error {
            redactor.redact_string(error);
        }
        Ok(UnaskedRead::Read { result: Box::new(result), path })
    }

    /// Runs a line in the shell of an agent, so that it can change nothing. The rules count as in the read-only mode: what is
    /// denied or asked about does not run, and without a sandbox only what is known to read does. Nothing is recorded.
    pub(crate) async fn run_reading_line(
        &mut self,
        session: &mut SessionWriter,
        shell: &Arc<dyn Tool>,
        line: ReadingLine<'_>,
        cancel: &CancellationToken,
    ) -> Result<ReadingLineEnd, AgentError> {
        self.sandbox.update(session).await?;
        let context = Arc::clone(session.context());
        let ctx = tool_context(&context, cancel);
        let input = json!({ "command": line.line });
        let plan = match guarded(cancel, shell.plan(&input, &ctx)).await {
            Ok(plan) => plan,
            Err(ToolError::Cancelled) => return Ok(ReadingLineEnd::Cancelled),
            Err(error) => return Ok(ReadingLineEnd::NotRun(error.to_string())),
        };
        let agent = context.agent_name.get();
        let facts = CallFacts {
            call_id: &ctx.call_id,
            session_id: &context.root_id,
            agent: &agent,
            input: &input,
            tool: shell.name(),
            category: shell.category(),
            requires_permission: shell.requires_permission(),
            plan: &plan,
        };
        match self.read_only_decision(facts, &context.workspace) {
            Decision::Allow(_) => {}
            Decision::Ask(ask) => return Ok(ReadingLineEnd::NotRun(ask.reason)),
            Decision::Deny(denial) => return Ok(ReadingLineEnd::NotRun(denial.reason)),
        }
        let words = line.words.iter().cloned();
        let run = |shell: &str| {
            let start = [shell, "-c", line.line, "command"].map(str::to_owned);
            let spec = ProcessSpec {
                argv: start.into_iter().chain(words.clone()).collect(),
                cwd: context.workspace.cwd().to_owned(),
                env: BTreeMap::from([("ARGUMENTS".to_owned(), line.argument.to_owned())]),
                timeout: LINE_TIMEOUT,
                output: OutputLimits {
                    head: LINE_HEAD,
                    tail: LINE_TAIL,
                    spill: None,
                    spill_cap: 0,
                },
                progress: Progress::default(),
                only_reads: true,
            };
            context.processes.run(spec, cancel.child_token())
        };
        let mut outcome = run("bash").await;
        if matches!(&outcome, Err(ProcessError::Start { source, .. }) if source.kind() == io::ErrorKind::NotFound)
        {
            outcome = run("sh").await;
        }
        let outcome = match outcome {
            Ok(outcome) if outcome.end == ProcessEnd::Cancelled => {
                return Ok(ReadingLineEnd::Cancelled);
            }
            Ok(outcome) => outcome,
            Err(ProcessError::Cancelled) => return Ok(ReadingLineEnd::Cancelled),
            Err(error) => return Ok(ReadingLineEnd::NotRun(error.to_string())),
        };
        let mut output = String::from_utf8_lossy(&outcome.output.head).into_owned();
        let omitted = outcome.output.omitted();
        if omitted > 0 {
            let _ = write!(output, "\n[{omitted} bytes left out]\n");
        }
        output.push_str(&String::from_utf8_lossy(&outcome.output.tail));
        session.config().redactor.redact_string(&mut output);
        Ok(ReadingLineEnd::Ran { output, end: outcome.end })
    }

    async fn permit_unasked(
        &mut self,
        session: &mut SessionWriter,
        tool: &Arc<dyn Tool>,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Result<PermittedRead, UnaskedRead>, AgentError> {
        if tool.category() != ToolCategory::Read {
            return Ok(Err(UnaskedRead::NotPermitted));
        }
        let Ok(links) = guarded(cancel, self.sandbox.links()).await else {
            return Ok(Err(UnaskedRead::Cancelled));
        };
        self.sandbox.add_links(links, session).await?;
        let context = Arc::clone(session.context());
        let mut ctx = tool_context(&context, cancel);
        let plan = match guarded(cancel, tool.plan(input, &ctx)).await {
            Ok(plan) => plan,
            Err(ToolError::Cancelled) => return Ok(Err(UnaskedRead::Cancelled)),
            Err(error) => return Ok(Err(UnaskedRead::Invalid(error.to_string()))),
        };
        let agent = context.agent_name.get();
        let facts = CallFacts {
            call_id: &ctx.call_id,
            session_id: &context.root_id,
            agent: &agent,
            input,
            tool: tool.name(),
            category: tool.category(),
            requires_permission: tool.requires_permission(),
            plan: &plan,
        };
        let PolicyDecision { decision, withheld_reads, .. } =
            self.policy_decision(facts, &context.workspace, Vec::new());
        let permit = match decision {
            Decision::Allow(permit) => permit,
            Decision::Ask(_) => return Ok(Err(UnaskedRead::NotPermitted)),
            Decision::Deny(_) => return Ok(Err(UnaskedRead::Denied)),
        };
        let path = match &plan.effects {
            Effects::Paths(effects) => match effects.as_slice() {
                [effect] if effect.access == Access::Read => {
                    let is_hidden = withheld_reads.contains(&effect.path, &context.workspace);
                    (!is_hidden).then(|| effect.path.clone())
                }
                [] | [_, ..] => None,
            },
            Effects::None | Effects::Unknown | Effects::UserCommands => None,
        };
        ctx.withheld_reads = withheld_reads;
        let permitted = path.map(|path| PermittedRead { permit, plan, ctx, path });
        Ok(permitted.ok_or(UnaskedRead::NotPermitted))
    }
}

/// Returns the context of a call that no model asked for.
fn tool_context(agent: &Arc<AgentContext>, cancel: &CancellationToken) -> ToolContext {
    ToolContext {
        agent: Arc::clone(agent),
        call_id: CallId::new("unasked-read"),
        cancellation: cancel.child_token(),
        preview: None,
        withheld_reads: WithheldReads::default(),
        disclosure: Disclosure::AfterApproval,
        progress: Progress::default(),
    }
}

/// A line that is to run without changing anything.
#[derive(Debug, Clone, Copy)]
pub struct ReadingLine<'a> {
    /// The line for a shell.
    pub line: &'a str,
    /// Its variable `ARGUMENTS`.
    pub argument: &'a str,
    /// Its positional parameters.
    pub words: &'a [String],
}

/// The end of such a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadingLineEnd {
    /// It ran.
    Ran {
        /// What it printed, redacted.
        output: String,
        /// How it ended.
        end: ProcessEnd,
    },
    /// It did not run, for this reason.
    NotRun(String),
    /// It was cancelled.
    Cancelled,
}

/// The outcome of a read that no model asked for.
#[derive(Debug)]
pub enum UnaskedRead {
    /// The read was permitted, and the tool ran.
    Read {
        /// The result.
        result: Box<ToolResult>,
        /// The path that was read, with links resolved.
        path: PathBuf,
    },
    /// The user would have to be asked, or it is more than one path.
    NotPermitted,
    /// A rule denies it.
    Denied,
    /// The call is invalid, or the tool failed: a sentence.
    Invalid(String),
    /// It was cancelled.
    Cancelled,
}

/// A call of a reading tool that may run without a question.
struct PermittedRead {
    permit: Permit,
    plan: CallPlan,
    ctx: ToolContext,
    /// The only path that it reads, with links resolved.
    path: PathBuf,
}
