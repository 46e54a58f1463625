//! Logs of sessions, for tests and benchmarks of what reads a log.

use std::time::Duration;

use crow_core::{
    event::{
        AgentEvent, AgentRole, CompactionReport, CompactionTrigger, Envelope, InputSource,
        RequestPrefix,
    },
    ids::{CallId, MessageId, ReplyId, SessionId},
    message::{Block, CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::StopReason,
    tool::ToolResult,
    usage::TokenUsage,
};
use jiff::Timestamp;
use serde_json::json;

/// Builder of a log, event by event. Its lines are numbered from 1, and its clock stands unless it is told to wait.
///
/// ```
/// use crow_testkit::session_log::LogBuilder;
///
/// let mut log = LogBuilder::new();
/// log.input("m1", "make it work").request(900, 0, "error: no such file");
/// assert_eq!(log.lines().len(), 4);
/// ```
#[derive(Debug, Clone)]
pub struct LogBuilder {
    lines: Vec<Envelope>,
    time: Timestamp,
    model: String,
    requests: usize,
}

/// A request that is answered with a call of `bash`, and the result.
#[derive(Debug, Clone)]
pub struct LoggedRequest {
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of them that the provider read from its cache.
    pub cached_tokens: u64,
    /// The command of the call.
    pub command: String,
    /// The output of the command.
    pub output: String,
    /// System prompt and tools, if they differ from those before.
    pub prefix: Option<RequestPrefix>,
}

impl LoggedRequest {
    /// Makes a request with this usage, whose command has this output.
    pub fn new(input_tokens: u64, cached_tokens: u64, output: impl Into<String>) -> Self {
        let (command, output) = ("make".to_owned(), output.into());
        Self { input_tokens, cached_tokens, command, output, prefix: None }
    }

    /// Sets system prompt and tools.
    #[must_use]
    pub fn with_prefix(self, prefix: RequestPrefix) -> Self {
        Self { prefix: Some(prefix), ..self }
    }
}

impl Default for LogBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl LogBuilder {
    /// Makes an empty log that begins on 1 March 2026 at 9:00 UTC.
    pub fn new() -> Self {
        let time = "2026-03-01T09:00:00Z".parse().unwrap();
        Self { lines: Vec::new(), time, model: "m".to_owned(), requests: 0 }
    }

    /// Returns the lines so far.
    pub fn lines(&self) -> &[Envelope] {
        &self.lines
    }

    /// Adds an event of the root session.
    pub fn push(&mut self, event: AgentEvent) -> &mut Self {
        let id = SessionId::new("s");
        self.lines.push(Envelope {
            seq: Some(self.lines.len() as u64 + 1),
            time: self.time,
            session_id: id.clone(),
            root_id: id,
            agent: "a".to_owned(),
            role: AgentRole::Primary,
            parent: None,
            round: 1,
            event,
        });
        self
    }

    /// Advances the clock.
    pub fn wait(&mut self, time: Duration) -> &mut Self {
        self.time += time;
        self
    }

    /// Sets the model of later replies; the first one is `m` of the provider `p`.
    pub fn set_model(&mut self, model: &str) -> &mut Self {
        model.clone_into(&mut self.model);
        self
    }

    /// Adds a message of the user.
    pub fn input(&mut self, id: &str, text: &str) -> &mut Self {
        self.push_input(id, None, text)
    }

    /// Adds a message of the user with what the loop put before it.
    pub fn input_after(&mut self, id: &str, context: &str, text: &str) -> &mut Self {
        self.push_input(id, Some(context.to_owned()), text)
    }

    fn push_input(&mut self, id: &str, context: Option<String>, text: &str) -> &mut Self {
        self.push(AgentEvent::UserInput {
            message_id: MessageId::new(id),
            source: InputSource::Prompt,
            context,
            content: vec![Block::text(text)],
        })
    }

    /// Adds a request with this usage, a call of `bash` and its output. The replies are `r1`, `r2` and so on, the calls
    /// `c1`, `c2`.
    pub fn request(&mut self, input_tokens: u64, cached_tokens: u64, output: &str) -> &mut Self {
        self.request_with(LoggedRequest::new(input_tokens, cached_tokens, output))
    }

    /// Adds a request, a call of `bash` and its output.
    pub fn request_with(&mut self, request: LoggedRequest) -> &mut Self {
        let LoggedRequest { input_tokens, cached_tokens, command, output, prefix } = request;
        self.requests += 1;
        let reply_id = ReplyId::new(format!("r{}", self.requests));
        let call_id = CallId::new(format!("c{}", self.requests));
        let call = ToolCall {
            id: call_id.clone(),
            name: "bash".to_owned(),
            arguments: CallArguments::Json(json!({ "command": command })),
        };
        self.push(AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks: vec![ReplyBlock::without_native_item(ReplyContent::Call(call))],
            stop: StopReason::ToolUse,
            origin: Origin {
                dialect: "d".into(),
                provider: "p".into(),
                base_url: "u".into(),
                model: self.model.clone(),
            },
            response_id: None,
        });
        self.push(AgentEvent::Usage {
            reply_id: reply_id.clone(),
            usage: TokenUsage {
                input_tokens,
                output_tokens: 20,
                cache_read_tokens: cached_tokens,
                ..TokenUsage::default()
            },
            estimated: false,
            prefix: prefix.map(Box::new),
            timing: None,
            request_bytes: None,
        });
        self.push_output(call_id, reply_id, &output)
    }

    /// Adds the output of a call of `bash` without its reply.
    pub fn output(&mut self, call_id: &str, output: &str) -> &mut Self {
        self.push_output(CallId::new(call_id), ReplyId::new("r"), output)
    }

    fn push_output(&mut self, call_id: CallId, reply_id: ReplyId, output: &str) -> &mut Self {
        self.push(AgentEvent::CallEnd {
            call_id,
            reply_id,
            tool: "bash".to_owned(),
            result: ToolResult::success(output),
            denial: None,
        })
    }

    /// Adds a compaction: a summary of what comes before `first_kept`, without the messages `kept`, and placeholders for
    /// the outputs `masked`.
    pub fn compaction(
        &mut self,
        summary: &str,
        first_kept: &str,
        kept: &[&str],
        masked: &[&str],
    ) -> &mut Self {
        self.push(AgentEvent::Compaction {
            summary: summary.to_owned(),
            first_kept: MessageId::new(first_kept),
            kept: kept.iter().map(|id| MessageId::new(*id)).collect(),
            masked: masked.iter().map(|id| CallId::new(*id)).collect(),
            report: Some(CompactionReport {
                trigger: CompactionTrigger::Window,
                tokens_before: 9_000,
                tokens_after: 3_000,
            }),
        })
    }
}
