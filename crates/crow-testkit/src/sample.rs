//! Sample runs, for tests of what shows or folds events.

use crow_core::{
    event::{
        AgentEvent, AgentRole, Envelope, Failure, InputSource, NoticeAudience, NoticeLevel,
        ParentCall, RunOutcome, Verdict,
    },
    ids::{CallId, MessageId, ReplyId, RequestId, RunId, SessionId},
    message::{Block, CallArguments, Origin, ReplyBlock, ReplyContent, ToolCall},
    model::{ProviderError, ProviderErrorKind, StopReason},
    permission::{Denial, DenialSource},
    todo::{TodoItem, TodoStatus},
    tool::{FileDiff, Patch, Subject, ToolResult},
    turn::TurnEnd,
    usage::TokenUsage,
};
use jiff::Timestamp;
use serde_json::json;

/// Id of the root session.
pub const ROOT: &str = "018f2b6e-0000-7000-8000-000000000001";

/// Builder of a sequence of events, with a clock that advances 10 ms per event.
#[derive(Debug, Clone)]
pub struct Story {
    pub events: Vec<Envelope>,
    now: i64,
    agent: &'static str,
    session: &'static str,
    replies: u32,
}

impl Story {
    /// Begins a session.
    pub fn session() -> Self {
        let mut story = Self {
            events: Vec::new(),
            now: 1_700_000_000_000,
            agent: "builder",
            session: ROOT,
            replies: 0,
        };
        let model = "anthropic/claude-sonnet-4-5".to_owned();
        story.push(AgentEvent::SessionStart {
            format_version: 1,
            model,
            cwd: "/p/crow".into(),
            settings: None,
        });
        story
    }

    /// Begins a session and its first run.
    pub fn run() -> Self {
        let mut story = Self::session();
        story.prompt("Fix the greeting and run the tests");
        story
    }

    /// Begins a run.
    pub fn prompt(&mut self, text: &str) -> &mut Self {
        self.push(AgentEvent::RunStart { run_id: RunId::new("run"), settings: None });
        self.push(AgentEvent::UserInput {
            message_id: MessageId::new("message"),
            source: InputSource::Prompt,
            context: Some("facts about the machine".into()),
            content: vec![Block::text(text)],
        });
        self.push(AgentEvent::TurnStart { turn: 1 })
    }

    pub fn push(&mut self, event: AgentEvent) -> &mut Self {
        self.now += 10;
        let seq = event.is_durable().then_some(self.events.len() as u64 + 1);
        let child = self.session != ROOT;
        self.events.push(Envelope {
            seq,
            time: Timestamp::from_millisecond(self.now).unwrap(),
            session_id: SessionId::new(self.session),
            root_id: SessionId::new(ROOT),
            agent: self.agent.into(),
            role: if child { AgentRole::Coagent } else { AgentRole::Primary },
            parent: child.then(|| ParentCall { session_id: SessionId::new(ROOT), call_id: None }),
            round: 1,
            event,
        });
        self
    }

    pub fn wait(&mut self, millis: i64) -> &mut Self {
        self.now += millis;
        self
    }

    /// Returns the current time of the story.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.now).unwrap()
    }

    /// Adds the events of `tell` as those of another agent in the session `child`.
    pub fn with_child(&mut self, agent: &'static str, tell: impl FnOnce(&mut Self)) -> &mut Self {
        let (own_agent, own_session) = (self.agent, self.session);
        (self.agent, self.session) = (agent, "child");
        tell(self);
        (self.agent, self.session) = (own_agent, own_session);
        self
    }

    /// Adds a message that the generator writes and the agent gets.
    pub fn generated_message(&mut self, text: &str) -> &mut Self {
        let input = |source, text: &str| AgentEvent::UserInput {
            message_id: MessageId::new("generated"),
            source,
            context: None,
            content: vec![Block::text(text)],
        };
        self.with_child("generator", |story| {
            story.push(input(InputSource::ControlFlow, "Write a message."));
            story.reply("", text, &[]).next_reply();
        });
        self.push(input(InputSource::Generator, &format!("{text}\n\nGo on with the task.")))
    }

    pub fn reply_id(&self) -> ReplyId {
        ReplyId::new(format!("reply-{}", self.replies))
    }

    pub fn text_delta(&mut self, offset: usize, delta: &str) -> &mut Self {
        let (reply_id, offset) = (self.reply_id(), offset as u64);
        self.push(AgentEvent::TextDelta { reply_id, offset, delta: delta.into() })
    }

    /// Adds a complete reply with its deltas, one for each word.
    pub fn reply(&mut self, thinking: &str, text: &str, calls: &[(&str, &str)]) -> &mut Self {
        let reply_id = self.reply_id();
        let mut offset = 0;
        for piece in thinking.split_inclusive(' ') {
            let (reply_id, delta) = (reply_id.clone(), piece.to_owned());
            self.push(AgentEvent::ThinkingDelta { reply_id, offset, delta });
            offset += piece.len() as u64;
        }
        let mut offset = 0;
        for piece in text.split_inclusive(' ') {
            self.text_delta(offset, piece);
            offset += piece.len();
        }
        self.reply_without_deltas(thinking, text, calls)
    }

    pub fn reply_without_deltas(
        &mut self,
        thinking: &str,
        text: &str,
        calls: &[(&str, &str)],
    ) -> &mut Self {
        let mut blocks = Vec::new();
        if !thinking.is_empty() {
            blocks.push(ReplyBlock::without_native_item(ReplyContent::Thinking {
                text: thinking.into(),
            }));
        }
        if !text.is_empty() {
            blocks.push(ReplyBlock::without_native_item(ReplyContent::Text { text: text.into() }));
        }
        blocks.extend(calls.iter().map(|(id, tool)| {
            let arguments = CallArguments::Json(json!({}));
            ReplyBlock::without_native_item(ReplyContent::Call(ToolCall {
                id: CallId::new(*id),
                name: (*tool).into(),
                arguments,
            }))
        }));
        let reply_id = self.reply_id();
        let origin = Origin {
            dialect: "messages".into(),
            provider: "anthropic".into(),
            base_url: "https://example.test".into(),
            model: "claude-sonnet-4-5".into(),
        };
        let stop = StopReason::EndTurn;
        self.push(AgentEvent::Reply {
            reply_id: reply_id.clone(),
            blocks,
            stop,
            origin,
            response_id: None,
        });
        let usage = TokenUsage {
            input_tokens: 6000,
            output_tokens: 150,
            cache_read_tokens: 4000,
            ..TokenUsage::default()
        };
        self.push(AgentEvent::Usage {
            reply_id,
            usage,
            estimated: false,
            prefix: None,
            timing: None,
            request_bytes: None,
        });
        if calls.is_empty() {
            self.replies += 1;
        }
        self
    }

    /// Ends the step: later events belong to the next reply.
    pub fn next_reply(&mut self) -> &mut Self {
        self.replies += 1;
        self
    }

    pub fn pending(
        &mut self,
        id: &str,
        tool: &str,
        title: &str,
        preview: Option<Patch>,
    ) -> &mut Self {
        self.push(AgentEvent::CallPending {
            call_id: CallId::new(id),
            tool: tool.into(),
            title: title.into(),
            arguments: json!({}),
            preview,
        })
    }

    pub fn start(&mut self, id: &str, tool: &str, title: &str) -> &mut Self {
        let reply_id = self.reply_id();
        self.push(AgentEvent::CallStart {
            call_id: CallId::new(id),
            reply_id,
            tool: tool.into(),
            title: title.into(),
            arguments: json!({}),
            snapshot: None,
        })
    }

    pub fn end(
        &mut self,
        id: &str,
        tool: &str,
        result: ToolResult,
        denial: Option<Denial>,
    ) -> &mut Self {
        let reply_id = self.reply_id();
        self.push(AgentEvent::CallEnd {
            call_id: CallId::new(id),
            reply_id,
            tool: tool.into(),
            result,
            denial,
        })
    }

    /// Adds a call that runs for 500 ms.
    pub fn call(&mut self, id: &str, tool: &str, title: &str, result: ToolResult) -> &mut Self {
        self.pending(id, tool, title, None).start(id, tool, title).wait(500);
        self.end(id, tool, result, None)
    }

    /// Adds a call that is refused.
    pub fn refused(
        &mut self,
        id: &str,
        title: &str,
        source: DenialSource,
        reason: &str,
    ) -> &mut Self {
        let denial = Denial { source, reason: reason.into() };
        let result = ToolResult::failure(denial.to_model_text());
        self.pending(id, "edit_file", title, None).end(id, "edit_file", result, Some(denial))
    }

    pub fn question(&mut self, id: &str, title: &str) -> &mut Self {
        self.push(AgentEvent::PermissionRequest {
            request_id: RequestId::new("request"),
            call_id: CallId::new(id),
            tool: "edit_file".into(),
            title: title.into(),
            subject: Subject::Nothing,
            reason: "it changes files".into(),
            offers: Vec::new(),
        })
    }

    pub fn retry(&mut self, attempt: u32) -> &mut Self {
        let mut error = ProviderError::new(ProviderErrorKind::Overloaded, "try later");
        error.provider = "anthropic".into();
        let reply_id = self.reply_id();
        self.push(AgentEvent::ReplyReset { reply_id, error, attempt, wait_ms: 2000 })
    }

    pub fn notice(
        &mut self,
        level: NoticeLevel,
        audience: NoticeAudience,
        text: &str,
    ) -> &mut Self {
        self.push(AgentEvent::Notice { level, audience, text: text.into() })
    }

    pub fn turn_end(&mut self, end: TurnEnd) -> &mut Self {
        self.push(AgentEvent::TurnComplete { turn: 1, end })
    }

    pub fn run_end(&mut self, result: RunOutcome) -> &mut Self {
        self.push(AgentEvent::RunEnd { run_id: RunId::new("run"), result, assessment: None })
    }

    /// Adds a reply with text that ends the run, which then waits for the user.
    pub fn answer(&mut self, text: &str) -> &mut Self {
        self.reply("", text, &[]).turn_end(TurnEnd::Text).run_end(RunOutcome::NeedsInput)
    }
}

/// Returns a change of one file.
pub fn patch() -> Patch {
    let hunks = "@@ -1,3 +1,4 @@\n fn main() {\n-    println!(\"Helo, world\");\n+    println!(\"Hello, world\");\n+    done();\n }\n";
    let file = FileDiff {
        path: "src/main.rs".into(),
        additions: 2,
        deletions: 1,
        hunks: hunks.into(),
        truncated: false,
        ..FileDiff::without_lines("")
    };
    Patch { files: vec![file] }
}

/// Returns the result of an edit with its change.
pub fn edit_result() -> ToolResult {
    let mut result = ToolResult::success("edited");
    result.metadata.files_modified = vec!["src/main.rs".into()];
    result.metadata.diff = Some(patch());
    result.metadata.duration_ms = 12;
    result
}

/// Returns the result of a command that took this many milliseconds.
pub fn command_result(millis: u64) -> ToolResult {
    let mut result = ToolResult::success("ok");
    result.metadata.duration_ms = millis;
    result
}

/// Returns a successful run: thinking, text, calls, a diff, todos, notices, an answer.
pub fn good_run() -> Story {
    let mut story = Story::run();
    let item =
        |content: &str, status| TodoItem { content: content.into(), status, active_form: None };
    story
        .notice(NoticeLevel::Info, NoticeAudience::User, "AGENTS.md of this folder is read")
        .notice(NoticeLevel::Info, NoticeAudience::Model, "not for people")
        .reply(
            "The user wants the greeting fixed. It is best to look at the file first and then to change it.",
            "I will fix the greeting.",
            &[("c1", "edit_file"), ("c2", "todo_write")],
        )
        .call("c1", "edit_file", "edit src/main.rs", edit_result())
        .call("c2", "todo_write", "2 todos", command_result(0))
        .push(AgentEvent::Plan {
            items: vec![
                item("Fix the greeting", TodoStatus::Completed),
                item("Run the tests of the whole workspace, twice", TodoStatus::InProgress),
                item("Report", TodoStatus::Pending),
            ],
        })
        .next_reply()
        .reply("", "", &[("c3", "bash")])
        .call(
            "c3",
            "bash",
            "cargo nextest run --workspace --all-features --no-fail-fast",
            command_result(2345),
        )
        .next_reply()
        .answer("The greeting is right now.\n\nAll tests pass.");
    story
}

/// Returns a failing run: a retry, a failed call, refusals, an error.
pub fn bad_run() -> Story {
    let mut story = Story::run();
    story
        .text_delta(0, "I will lo")
        .retry(2)
        .reply("", "I will look.", &[("c1", "read_file"), ("c2", "edit_file"), ("c3", "edit_file")])
        .call(
            "c1",
            "read_file",
            "read src/\u{1b}[31mgone.rs",
            ToolResult::failure("src/gone.rs: no such file\nmore"),
        )
        .refused(
            "c2",
            "edit src/main.rs",
            DenialSource::Policy,
            "it changes files and nobody is there to ask",
        )
        .refused("c3", "edit src/lib.rs", DenialSource::User, "leave that one")
        .next_reply()
        .notice(NoticeLevel::Warning, NoticeAudience::User, "the todo list is long");
    let mut error = ProviderError::new(ProviderErrorKind::Overloaded, "try later");
    error.provider = "anthropic".into();
    error.status = Some(529);
    let text = error.to_string();
    story.push(AgentEvent::Error { error: text.clone(), provider: Some(error) });
    story.turn_end(TurnEnd::Error { error: text.clone() });
    story.run_end(Failure::other(text).into());
    story
}

/// Returns a run with a coagent, checks and a completion.
pub fn reviewed_run() -> Story {
    let mut story = Story::run();
    let (from, to) = ("builder".to_owned(), "reviewer".to_owned());
    story
        .reply("", "", &[("c1", "submit_for_review")])
        .call("c1", "submit_for_review", "submit the work", command_result(1))
        .next_reply()
        .push(AgentEvent::Handoff { from, to, prompt: "judge this".into() })
        .with_child("reviewer", |story| {
            story
                .reply("Hm.", "It looks good to me, and the tests agree.", &[("c1", "bash")])
                .call("c1", "bash", "cargo test", command_result(800));
        })
        .next_reply()
        .push(AgentEvent::ReviewVerdict { reviewer: "reviewer".into(), verdict: Verdict::Approved })
        .push(AgentEvent::Checks {
            checks: vec![crow_core::event::CheckRun {
                name: "test".into(),
                command: "cargo test".into(),
                exit_code: Some(0),
                error: None,
                duration_ms: 5,
                fresh: false,
            }],
            passed: true,
            unverified: None,
        })
        .push(AgentEvent::TaskComplete { summary: "The greeting is fixed.".into(), verified: true })
        .run_end(RunOutcome::Completed {
            summary: "The greeting is fixed.".into(),
            verified: true,
        });
    story
}

/// Replaces escape sequences by readable tags.
pub fn with_readable_escapes(text: &str) -> String {
    let tags = [
        ("\r\u{1b}[2K", "<clear>"),
        ("\u{1b}[0m", "</>"),
        ("\u{1b}[1m", "<bold>"),
        ("\u{1b}[2m", "<dim>"),
        ("\u{1b}[31m", "<red>"),
        ("\u{1b}[32m", "<green>"),
        ("\u{1b}[33m", "<yellow>"),
        ("\u{1b}[36m", "<cyan>"),
        ("\u{1b}[7;31m", "<red word>"),
        ("\u{1b}[7;32m", "<green word>"),
    ];
    tags.iter().fold(text.to_owned(), |text, (sequence, tag)| text.replace(sequence, tag))
}
