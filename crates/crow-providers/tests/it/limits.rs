//! Rate limits: requests that wait for their turn.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::Path,
    sync::Arc,
    time::Duration,
};

use crow_agent::{AcpAgent, AgentConfig, BaseAgent, Surroundings, serve};
use crow_core::{
    event::AgentEvent,
    message::Block,
    model::{
        ModelEvent, ModelRef, ModelRequest, ModelStream, Models as _, Provider, ProviderError,
        ProviderErrorKind, RateLimitWait, ResolvedModel,
    },
    tool::ToolRegistry,
};
use crow_providers::{
    ApiKey, Endpoint, HttpClient, HttpProvider, ProviderConfig, ProviderModels,
    RateLimitedProvider, RateLimiter, RateLimits, RetryPolicy, Timeouts,
};
use crow_runtime::{AgentSession, RuntimeConfig, SessionSpec};
use crow_testkit::telemetry::CheckedRuntime;
use crow_testkit::{
    ModelServer, ScriptStep, ScriptedReply, VendorError, WireDialect,
    scripted::{Play, ScriptedModel, reply, text},
};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use crate::support::{KEY, Talk, model, next_part};

/// Returns the models of a provider with a configuration file.
fn configured(server: &ModelServer, limits: &str) -> ProviderModels {
    let base_url = server.base_url(WireDialect::AnthropicMessages);
    let file = format!(
        "[provider]\nname = 'work'\ntype = 'anthropic'\nbase_url = '{base_url}'\n\
         [auth]\napi_key = 'sk-test'\n[limits]\n{limits}"
    );
    let config = ProviderConfig::parse(Path::new("work.toml"), &file).unwrap();
    ProviderModels::new(vec![config], |_| None, HttpClient::default()).unwrap()
}

async fn provider(models: &ProviderModels) -> Arc<dyn Provider> {
    let reference = ModelRef { provider: "work".to_owned(), model: "claude-x".to_owned() };
    models.resolve(&reference).await.unwrap().provider
}

fn stream(talk: &mut Talk) -> ModelStream {
    talk.conversation.stream(ModelRequest {
        system: &talk.system,
        tools: &talk.tools,
        messages: &talk.messages,
        config: &talk.config,
        tool_choice: talk.tool_choice,
    })
}

/// Reads a stream to its end, which must be a complete reply.
async fn finish(stream: ModelStream) {
    let items: Vec<_> = stream.collect().await;
    assert!(matches!(items.last(), Some(Ok(ModelEvent::Completed(_)))), "{items:?}");
}

fn waiting(reason: &str, wait: Option<Duration>) -> ModelEvent {
    ModelEvent::Waiting(RateLimitWait { reason: reason.to_owned(), wait })
}

/// A scripted model behind a limiter.
fn scripted(
    plays: impl IntoIterator<Item = Play>,
    limiter: &RateLimiter,
) -> (ScriptedModel, RateLimitedProvider) {
    let script = ScriptedModel::new(plays);
    let provider: Arc<dyn Provider> = Arc::new(script.clone());
    (script, RateLimitedProvider::new(provider, limiter.clone()))
}

#[tokio::test]
async fn a_retry_after_of_one_request_delays_the_others() {
    let limited = VendorError::RateLimited { retry_after: Some(Duration::from_secs(1)) };
    let script = [
        ScriptStep::Error(limited),
        ScriptedReply::new().text("Hi").into(),
        ScriptedReply::new().text("Hi").into(),
    ];
    let server = ModelServer::start(script).await;
    let provider = provider(&configured(&server, "")).await;
    let mut first = Talk::of(&*provider, &model("claude-x"));
    let mut second = Talk::of(&*provider, &model("claude-x"));
    let mut refused = stream(&mut first);
    let event = refused.next().await.unwrap().unwrap();
    assert!(matches!(event, ModelEvent::Retrying(_)), "{event:?}");
    let mut delayed = stream(&mut second);
    let event = delayed.next().await.unwrap().unwrap();
    let ModelEvent::Waiting(wait) = event else { panic!("{event:?}") };
    assert_eq!(wait.reason, "work asked to wait 1 s");
    assert_eq!(server.requests().len(), 1, "the second request is not sent yet");
    tokio::join!(finish(refused), finish(delayed));
    assert_eq!(server.finish().await.unwrap().len(), 3);
}

#[tokio::test]
async fn the_configured_concurrency_limits_simultaneous_requests() {
    let hi = || ScriptStep::from(ScriptedReply::new().text("Hi"));
    let server = ModelServer::start([hi(), hi(), hi()]).await;
    let provider = provider(&configured(&server, "concurrency = 1")).await;
    let mut talks = [0, 1, 2].map(|_| Talk::of(&*provider, &model("claude-x")));
    let [first, second, third] = talks.each_mut().map(stream);
    let (mut first, mut second, mut third) = (first, second, third);
    assert!(matches!(next_part(&mut first).await, ModelEvent::TextDelta(_)));
    let full = waiting("1 request at once at work", None);
    assert_eq!(second.next().await, Some(Ok(full.clone())));
    assert_eq!(third.next().await, Some(Ok(full)));
    assert!(second.next().now_or_never().is_none(), "it is told once");
    drop(first);
    assert!(matches!(next_part(&mut second).await, ModelEvent::TextDelta(_)));
    finish(second).await;
    finish(third).await;
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_retry_counts_as_a_request() {
    let script = [
        ScriptStep::Error(VendorError::Overloaded),
        ScriptStep::from(ScriptedReply::new().text("Hi")),
    ];
    let server = ModelServer::start(script).await;
    let endpoint = Endpoint {
        provider: "tested".to_owned(),
        dialect: crow_providers::Dialect::AnthropicMessages,
        base_url: server.base_url(WireDialect::AnthropicMessages),
        key: ApiKey::new(KEY),
        headers: Vec::new(),
    };
    let (client, retry) = (HttpClient::default(), RetryPolicy::without_waits(3));
    let provider = HttpProvider::with_timeouts(endpoint, client, retry, Timeouts::default());
    let two = RateLimits { requests_per_minute: NonZeroU32::new(2), ..RateLimits::default() };
    let limiter = RateLimiter::new("tested", two);
    let provider = RateLimitedProvider::new(Arc::new(provider.unwrap()), limiter.clone());
    assert!(Talk::of(&provider, &model("test-model")).ask().await.reply.is_ok());
    assert!(limiter.acquire(0).now_or_never().is_none(), "both requests of the minute are gone");
}

#[tokio::test]
async fn a_custom_loop_shares_the_limiter_of_a_configured_provider() {
    let server = ModelServer::start([ScriptStep::from(ScriptedReply::new().text("Hi"))]).await;
    let models = configured(&server, "concurrency = 1");
    let permit = models.limiter("work").unwrap().acquire(0).await;
    let provider = provider(&models).await;
    let mut talk = Talk::of(&*provider, &model("claude-x"));
    let mut delayed = stream(&mut talk);
    assert_eq!(delayed.next().await, Some(Ok(waiting("1 request at once at work", None))));
    assert!(server.requests().is_empty());
    drop(permit);
    finish(delayed).await;
    assert!(models.limiter("wrok").is_err());
}

#[tokio::test]
async fn a_completed_reply_frees_its_slot_before_its_stream_is_dropped() {
    let one = RateLimits { concurrency: NonZeroU32::new(1), ..RateLimits::default() };
    let limiter = RateLimiter::new("scripted", one);
    let (_, provider) = scripted([reply([]), reply([])], &limiter);
    let mut talk = Talk::of(&provider, &model("model"));
    let mut first = stream(&mut talk);
    assert!(matches!(first.next().await, Some(Ok(ModelEvent::Completed(_)))));
    assert!(limiter.acquire(0).now_or_never().is_some());
    assert_eq!(first.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_counted_by_the_usage_of_the_reply() {
    let limits = RateLimits { tokens_per_minute: NonZeroU64::new(110), ..RateLimits::default() };
    let limiter = RateLimiter::new("scripted", limits);
    // The usage of a scripted reply is 110 tokens.
    let (_, provider) = scripted([reply([text("Hi")])], &limiter);
    assert!(Talk::of(&provider, &model("model")).ask().await.reply.is_ok());
    let began = Instant::now();
    drop(limiter.acquire(11).await);
    assert_eq!(began.elapsed(), Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_error_pauses_other_requests_unless_the_wait_is_too_long() {
    for (retry_after, expected) in [(None, 0), (Some(12), 12), (Some(60), 60), (Some(600), 0)] {
        let limiter = RateLimiter::new("scripted", RateLimits::default());
        let mut error = ProviderError::new(ProviderErrorKind::RateLimited, "slow down");
        error.retry_after = retry_after.map(Duration::from_secs);
        let (_, provider) = scripted([Play::Fail(error.clone())], &limiter);
        assert_eq!(Talk::of(&provider, &model("model")).ask().await.error(), error);
        let began = Instant::now();
        drop(limiter.acquire(0).await);
        assert_eq!(began.elapsed(), Duration::from_secs(expected), "{retry_after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_emits_an_event_while_it_waits_for_its_provider() {
    let limiter = RateLimiter::new("scripted", RateLimits::default());
    let (script, provider) = scripted([reply([text("Hi")])], &limiter);
    let resolved = ResolvedModel { provider: Arc::new(provider), ..script.resolved() };
    let folder = tempfile::tempdir().unwrap();
    let config = RuntimeConfig::default();
    let spec = SessionSpec::new("builder", resolved.info.reference.clone(), folder.path());
    let session = AgentSession::create(&config, spec).unwrap();
    let runtime = CheckedRuntime::new(config);
    let agent =
        BaseAgent::new("builder", AgentConfig::default(), resolved, ToolRegistry::default());
    let surroundings = Surroundings { cwd: folder.path().to_owned(), ..Surroundings::default() };
    let handle =
        runtime.spawn(session, |internals| serve(AcpAgent::solo(agent), surroundings, internals));
    let mut events = handle.stream().unwrap();
    limiter.pause(Duration::from_secs(12));
    handle.send_input(vec![Block::text("Hello")]).unwrap();
    let mut waits = Vec::new();
    while let Some(envelope) = events.next().await {
        if let AgentEvent::ModelWait { reason, wait_ms, .. } = &envelope.event {
            waits.push((reason.clone(), *wait_ms));
        }
        if matches!(envelope.event, AgentEvent::RunEnd { .. }) {
            break;
        }
    }
    let [(reason, Some(wait_ms))] = &waits[..] else { panic!("{waits:?}") };
    assert_eq!(reason, "scripted asked to wait 12 s");
    assert!((11_000..=12_000).contains(wait_ms), "{wait_ms}");
    runtime.shutdown(handle.session_id(), Duration::from_secs(1)).await;
}
