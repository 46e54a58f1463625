//! The scripted model and its provider.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    ids::SessionId,
    message::{Origin, ReplyContent},
    model::{
        Abilities, Conversation, ModelEvent, ModelInfo, ModelRef, ModelReply, ModelRequest,
        ModelStream, Models, ModelsError, Price, Provider, ProviderError, ProviderErrorKind,
        ResolvedModel, Retry, StopReason, ToolCallFormat, WindowAnswer,
    },
};
use futures_util::{StreamExt as _, stream};

use super::{Play, SeenRequest};

/// A model that plays a script, one [`Play`] for each request. Panics if a request has unpaired calls and results, or
/// does not begin with the previous request of its session.
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    shared: Arc<ScriptedModelState>,
}

#[derive(Debug)]
struct ScriptedModelState {
    plays: Mutex<VecDeque<Play>>,
    requests: Mutex<Vec<SeenRequest>>,
    request_count: tokio::sync::watch::Sender<usize>,
    may_rewind: AtomicBool,
    /// True if a request need not begin with the previous one.
    accepts_views: AtomicBool,
    /// The answer to each request for a summary, which takes none of the script.
    summary: Mutex<Option<Play>>,
    thinks: AtomicBool,
    window: Mutex<Option<u64>>,
    /// The window that the server tells when it is asked.
    told_window: Mutex<Option<u64>>,
}

impl ScriptedModel {
    /// Creates a model from its script.
    pub fn new(plays: impl IntoIterator<Item = Play>) -> Self {
        let shared = ScriptedModelState {
            plays: Mutex::new(plays.into_iter().collect()),
            requests: Mutex::new(Vec::new()),
            request_count: tokio::sync::watch::Sender::new(0),
            may_rewind: AtomicBool::new(false),
            accepts_views: AtomicBool::new(false),
            summary: Mutex::new(None),
            thinks: AtomicBool::new(true),
            window: Mutex::new(Some(100_000)),
            told_window: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Appends a play to the script.
    pub fn push(&self, play: Play) {
        self.shared.plays.lock().unwrap().push_back(play);
    }

    /// Permits the next request not to begin with the previous one, for a conversation that is rewound.
    pub fn allow_rewind(&self) {
        self.shared.may_rewind.store(true, Ordering::Relaxed);
    }

    /// Permits requests that do not begin with the previous one, for loops that choose what is sent.
    #[must_use]
    pub fn with_views(self) -> Self {
        self.shared.accepts_views.store(true, Ordering::Relaxed);
        self
    }

    /// Sets the context window in tokens, or makes it unknown.
    #[must_use]
    pub fn with_window(self, window: Option<u64>) -> Self {
        self.set_window(window);
        self
    }

    /// Sets the context window in tokens, or makes it unknown, for sessions that begin from now on.
    pub fn set_window(&self, window: Option<u64>) {
        *self.shared.window.lock().unwrap() = window;
    }

    /// Sets the context window that the server tells when it is asked, because the window is unknown.
    pub fn tell_window(&self, window: Option<u64>) {
        *self.shared.told_window.lock().unwrap() = window;
    }

    /// Answers requests for a summary of the conversation with this play, instead of the next one of the script.
    #[must_use]
    pub fn with_summary(self, play: Play) -> Self {
        *self.shared.summary.lock().unwrap() = Some(play);
        self
    }

    /// Makes it a model that cannot think before it answers.
    #[must_use]
    pub fn without_thinking(self) -> Self {
        self.shared.thinks.store(false, Ordering::Relaxed);
        self
    }

    /// Returns the model with its provider, as model resolution does.
    pub fn resolved(&self) -> ResolvedModel {
        let reference = ModelRef { provider: "scripted".to_owned(), model: "model".to_owned() };
        let thinking = self.shared.thinks.load(Ordering::Relaxed);
        let abilities = Abilities { tools: true, vision: true, thinking };
        let info = ModelInfo {
            reference,
            context_window: *self.shared.window.lock().unwrap(),
            max_output_tokens: Some(8_000),
            abilities,
            tool_calls: Some(ToolCallFormat::Native),
        };
        ResolvedModel { provider: Arc::new(self.clone()), info, warning: None }
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until `count` requests have been received.
    pub async fn wait_for_request(&self, count: usize) {
        self.shared
            .request_count
            .subscribe()
            .wait_for(|request_count| *request_count >= count)
            .await
            .unwrap();
    }

    /// Panics unless the whole script was played.
    pub fn assert_finished(&self) {
        let remaining = self.shared.plays.lock().unwrap();
        assert!(remaining.is_empty(), "the model was not asked for {remaining:?}");
    }
}

impl Provider for ScriptedModel {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn conversation(&self, _model: &ModelInfo, session: &SessionId) -> Box<dyn Conversation> {
        Box::new(ScriptedConversation { model: self.clone(), session: session.clone() })
    }

    fn context_window<'a>(&'a self, _model: &'a ModelInfo) -> WindowAnswer<'a> {
        Box::pin(std::future::ready(*self.shared.told_window.lock().unwrap()))
    }
}

struct ScriptedConversation {
    model: ScriptedModel,
    session: SessionId,
}

impl Conversation for ScriptedConversation {
    fn stream(&mut self, request: ModelRequest<'_>) -> ModelStream {
        let received = SeenRequest::new(self.session.clone(), request);
        received.check_pairing();
        let mut requests = self.model.shared.requests.lock().unwrap();
        let is_rewind = self.model.shared.may_rewind.swap(false, Ordering::Relaxed)
            || self.model.shared.accepts_views.load(Ordering::Relaxed);
        let summary =
            received.asks_for_summary().then(|| self.model.shared.summary.lock().unwrap().clone());
        let earlier = requests
            .iter()
            .rev()
            .find(|earlier| earlier.session == received.session && !earlier.asks_for_summary());
        if let Some(earlier) = earlier.filter(|_| !is_rewind) {
            received.check_prefix(earlier);
        }
        requests.push(received);
        let request_count = requests.len();
        drop(requests);
        let play = match summary.flatten() {
            Some(play) => Some(play),
            None => self.model.shared.plays.lock().unwrap().pop_front(),
        };
        self.model.shared.request_count.send_replace(request_count);
        let unscripted = || {
            let message = format!("request {request_count} is not in the script");
            Play::Fail(ProviderError::new(ProviderErrorKind::InvalidRequest, message))
        };
        perform(play.unwrap_or_else(unscripted))
    }
}

fn perform(play: Play) -> ModelStream {
    match play {
        Play::Reply { blocks, stop, usage, text_calls } => {
            let mut events: Vec<Result<ModelEvent, ProviderError>> =
                blocks.iter().filter_map(delta).map(Ok).collect();
            let has_calls =
                blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
            let stop =
                stop.unwrap_or(if has_calls { StopReason::ToolUse } else { StopReason::EndTurn });
            events.push(Ok(ModelEvent::Completed(ModelReply {
                blocks,
                stop,
                usage,
                origin: origin(),
                response_id: None,
                text_calls,
            })));
            stream::iter(events).boxed()
        }
        Play::Stall(text) => {
            stream::iter([Ok(ModelEvent::TextDelta(text))]).chain(stream::pending()).boxed()
        }
        Play::Fail(error) => stream::iter([Err(error)]).boxed(),
        Play::Retried(text, then) => {
            let mut error = ProviderError::new(ProviderErrorKind::Truncated, "it broke off");
            error.mid_stream = true;
            let retry = ModelEvent::Retrying(Retry { error, attempt: 1, wait: Duration::ZERO });
            let interrupted = [Ok(ModelEvent::TextDelta(text)), Ok(retry)];
            stream::iter(interrupted).chain(perform(*then)).boxed()
        }
    }
}

fn delta(block: &crow_core::message::ReplyBlock) -> Option<ModelEvent> {
    match &block.content {
        ReplyContent::Text { text } => Some(ModelEvent::TextDelta(text.clone())),
        ReplyContent::Thinking { text } => Some(ModelEvent::ThinkingDelta(text.clone())),
        ReplyContent::Call(call) => Some(ModelEvent::CallStarted { name: call.name.clone() }),
        ReplyContent::Opaque => None,
    }
}

fn origin() -> Origin {
    Origin {
        dialect: "scripted".into(),
        provider: "scripted".into(),
        base_url: String::new(),
        model: "model".into(),
    }
}

/// Resolves every reference to one scripted model.
#[derive(Debug, Clone)]
pub struct ScriptedModels(pub ScriptedModel);

#[async_trait]
impl Models for ScriptedModels {
    async fn resolve(&self, _reference: &ModelRef) -> Result<ResolvedModel, ModelsError> {
        Ok(self.0.resolved())
    }

    async fn price(&self, _reference: &ModelRef) -> Option<Price> {
        None
    }
}
