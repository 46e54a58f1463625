//! Request handlers of the interface under `/api/`, but for the event streams.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::PathBuf,
    sync::Arc,
};

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use crow_app::SessionRecord;
use crow_core::{
    capability::QuestionAnswer,
    event::{AgentEvent, AgentState},
    ids::{RequestId, SessionId},
    message::Block,
    model::{ModelRef, Price},
    permission::{PermissionAnswer, PermissionMode},
};
use crow_runtime::{AgentHandle, CommandOutcome, NewSession, SessionOption, SessionSetup};
use crow_telemetry::report::{ReportSection, SessionReport};
use crow_text::{neutralise, shorten};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::task::{JoinError, spawn_blocking};

use crate::{error::ApiError, message::text_for_page, server_state::LiveServerState};

/// Maximum length of the output of a command, in bytes.
const MAX_SHOWN: usize = 200_000;

type ApiResult = Result<Response, ApiError>;

/// Returns the version, the default folder and the permission modes, for the form that starts a session.
pub(crate) async fn about(State(state): State<Arc<LiveServerState>>) -> ApiResult {
    json_response(&json!({
        "version": state.version,
        "cwd": state.cwd.display().to_string(),
        "permission_modes": PermissionMode::ALL.map(|mode| mode.to_string()),
    }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewSessionRequest {
    cwd: PathBuf,
    prompt: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    permissions: Option<PermissionMode>,
}

/// Starts a session with its first prompt.
pub(crate) async fn start(State(state): State<Arc<LiveServerState>>, body: Bytes) -> ApiResult {
    let NewSessionRequest { cwd, prompt, agent, model, permissions } = parse(&body)?;
    if prompt.trim().is_empty() {
        return Err(ApiError::invalid("the prompt is empty"));
    }
    if !cwd.is_absolute() {
        let message = format!("the folder {} is not absolute", cwd.display());
        return Err(ApiError::invalid(message));
    }
    let setup = SessionSetup { agent, model, permissions, ..SessionSetup::default() };
    let new = NewSession { cwd, id: None, setup };
    let session = to_its_end(&state, {
        let hosted = Arc::clone(&state.hosted);
        async move {
            let room = hosted.reserve_room()?;
            let handle = hosted.host().create(new).await?;
            hosted.add(handle.clone(), room);
            handle.send_input(vec![Block::text(prompt)])?;
            Ok(handle.session_id().clone())
        }
    });
    json_response(&json!({ "session": session.await? }))
}

/// Does something that must not stop half-way: the future of a request is dropped when its client disconnects.
async fn to_its_end<T: Send + 'static>(
    state: &LiveServerState,
    action: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    state.actions.spawn(action).await.map_err(|error| worker_failed(&error))?
}

/// Opens a stored session, so that it can be talked to.
pub(crate) async fn open(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    let hosted = Arc::clone(&state.hosted);
    to_its_end(&state, async move { Ok(hosted.open(&SessionId::new(id)).await.map(|_| ())?) })
        .await?;
    Ok(done())
}

/// Ends the agent of a session. The session is kept.
pub(crate) async fn close(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    let hosted = Arc::clone(&state.hosted);
    to_its_end(
        &state,
        async move { Ok(hosted.host().close(&SessionId::new(id)).await.map(|_| ())?) },
    )
    .await?;
    Ok(done())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageRequest {
    text: String,
}

/// Sends a prompt to an idle agent, a steering message to one that works, or runs a command.
pub(crate) async fn send(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> ApiResult {
    let MessageRequest { text } = parse(&body)?;
    let handle = opened(&state, &id)?;
    if text.trim().is_empty() {
        return Err(ApiError::invalid("the message is empty"));
    }
    if let Some((name, argument)) = command_of(&text) {
        let (name, argument) = (name.to_owned(), argument.to_owned());
        let hosted = Arc::clone(&state.hosted);
        let outcome = to_its_end(&state, {
            let handle = handle.clone();
            async move { Ok(hosted.host().run_command(handle.session_id(), &name, &argument).await?) }
        });
        return match outcome.await? {
            CommandOutcome::Shown(text) => {
                json_response(&json!({ "shown": shorten(&neutralise(&text), MAX_SHOWN) }))
            }
            CommandOutcome::Prompt(prompt) => {
                handle.send_prompt(prompt)?;
                Ok(done())
            }
            CommandOutcome::Started(_) => Ok(done()),
        };
    }
    let content = vec![Block::text(text)];
    if handle.state() == AgentState::Idle {
        handle.send_input(content)?;
        return json_response(&json!({ "sent": "prompt" }));
    }
    handle.steer(content)?;
    json_response(&json!({ "sent": "steering" }))
}

/// Splits `/name argument`. A path such as `/etc/hosts` is no command.
fn command_of(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('/')?;
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_name.then_some((name, argument.trim()))
}

/// Cancels the run under way and the queued ones.
pub(crate) async fn cancel(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    opened(&state, &id)?.interrupt();
    Ok(done())
}

/// Answer to a question whether a call may run.
#[derive(Debug, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
enum PermissionAnswerRequest {
    AllowOnce,
    /// Allows what the offer with this index, from 0, allows.
    AllowSession {
        offer: usize,
    },
    Deny {
        #[serde(default)]
        feedback: String,
    },
}

/// Answers a question whether a call may run.
pub(crate) async fn answer_permission(
    State(state): State<Arc<LiveServerState>>,
    Path((id, request)): Path<(String, String)>,
    body: Bytes,
) -> ApiResult {
    let handle = opened(&state, &id)?;
    let request = RequestId::new(request);
    let answer = match parse(&body)? {
        PermissionAnswerRequest::AllowOnce => PermissionAnswer::AllowOnce,
        PermissionAnswerRequest::AllowSession { offer } => {
            let open = handle.open_questions().into_iter().find(|open| open.id == request);
            let offer = open.and_then(|open| open.offers.into_iter().nth(offer));
            let Some(offer) = offer else {
                let message = "no open question has that offer";
                return Err(ApiError::new(StatusCode::CONFLICT, message));
            };
            PermissionAnswer::AllowSession { grants: offer.grants }
        }
        PermissionAnswerRequest::Deny { feedback } => {
            let feedback = Some(feedback).filter(|text| !text.trim().is_empty());
            PermissionAnswer::Deny { feedback }
        }
    };
    handle.answer(&request, answer)?;
    Ok(done())
}

/// Answer to a question of an agent.
#[derive(Debug, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case", deny_unknown_fields)]
enum QuestionAnswerRequest {
    Text {
        text: String,
    },
    /// The choices with these indexes, from 0.
    Chosen {
        choices: Vec<usize>,
    },
    Declined,
}

/// Answers a question of an agent.
pub(crate) async fn answer_question(
    State(state): State<Arc<LiveServerState>>,
    Path((id, request)): Path<(String, String)>,
    body: Bytes,
) -> ApiResult {
    let handle = opened(&state, &id)?;
    let request = RequestId::new(request);
    let answer = match parse(&body)? {
        QuestionAnswerRequest::Text { text } => QuestionAnswer::Text { text },
        QuestionAnswerRequest::Chosen { choices } => {
            let open = handle.open_user_questions().into_iter().find(|open| open.id == request);
            let offered = open.map(|open| open.question.choices).unwrap_or_default();
            let label = |index: usize| offered.get(index).map(|choice| choice.label.clone());
            let labels = choices.into_iter().map(label).collect::<Option<Vec<_>>>();
            let labels = labels.ok_or_else(|| {
                ApiError::new(StatusCode::CONFLICT, "no open question has that choice")
            })?;
            QuestionAnswer::Chosen { labels }
        }
        QuestionAnswerRequest::Declined => QuestionAnswer::Declined,
    };
    handle.answer_question(&request, answer)?;
    Ok(done())
}

/// A setting of a session, as the page shows it.
#[derive(Debug, Serialize)]
struct OptionEntry {
    name: &'static str,
    description: String,
    value: String,
    choices: Vec<OptionChoiceEntry>,
}

#[derive(Debug, Serialize)]
struct OptionChoiceEntry {
    value: String,
    title: String,
}

impl From<SessionOption> for OptionEntry {
    fn from(option: SessionOption) -> Self {
        let choice = |choice: crow_runtime::OptionChoice| OptionChoiceEntry {
            title: text_for_page(if choice.title.is_empty() {
                &choice.value
            } else {
                &choice.title
            }),
            value: choice.value,
        };
        Self {
            name: option.name,
            description: text_for_page(&option.description),
            value: option.value,
            choices: option.choices.into_iter().map(choice).collect(),
        }
    }
}

/// Returns the settings of an open session.
pub(crate) async fn options(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    let options = state.hosted.host().options(&SessionId::new(id)).await?;
    let entries: Vec<OptionEntry> = options.into_iter().map(OptionEntry::from).collect();
    json_response(&entries)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionRequest {
    name: String,
    value: String,
}

/// Changes a setting of an open session.
pub(crate) async fn set_option(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
    body: Bytes,
) -> ApiResult {
    let OptionRequest { name, value } = parse(&body)?;
    let hosted = Arc::clone(&state.hosted);
    to_its_end(&state, async move {
        Ok(hosted.host().set_option(&SessionId::new(id), &name, &value).await?)
    })
    .await?;
    Ok(done())
}

/// Sections of the report of a session, as markup.
#[derive(Debug, Serialize)]
struct SessionViews {
    facts: String,
    runs: String,
    timeline: String,
    cost: String,
    context: String,
    decisions: String,
}

/// Returns the views of a session beside its transcript.
pub(crate) async fn views(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    let sections = [
        ReportSection::Facts,
        ReportSection::Runs,
        ReportSection::Timeline,
        ReportSection::Cost,
        ReportSection::Context,
        ReportSection::Decisions,
    ];
    let rendered = with_report(state, id, move |report| report.sections(&sections)).await?;
    let mut rendered = rendered.into_iter();
    let mut next = || rendered.next().unwrap_or_default();
    json_response(&SessionViews {
        facts: next(),
        runs: next(),
        timeline: next(),
        cost: next(),
        context: next(),
        decisions: next(),
    })
}

/// Returns the whole report of a session, to be saved.
pub(crate) async fn report(
    State(state): State<Arc<LiveServerState>>,
    Path(id): Path<String>,
) -> ApiResult {
    let page = |report: &SessionReport<'_>| report.to_html();
    let html = with_report(state, id, page).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, html).into_response())
}

/// Reads a session and renders something of its report.
async fn with_report<T: Send + 'static>(
    state: Arc<LiveServerState>,
    id: String,
    render: impl FnOnce(&SessionReport<'_>) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let id = SessionId::new(id);
    let store = Arc::clone(&state.store);
    // Each reads a whole log and renders it.
    let turn = Arc::clone(&state.rendering).acquire_owned().await;
    let redactor = match state.hosted.get(&id) {
        Some(handle) => handle.redactor().clone(),
        None => (state.redactor)(),
    };
    let read = spawn_blocking(move || SessionRecord::read(store.as_ref(), &id, &redactor));
    let record = read.await.map_err(|error| worker_failed(&error))??;
    let prices = prices_of(&state, &record).await;
    let (zone, version) = (state.zone.clone(), state.version.clone());
    let render = spawn_blocking(move || {
        // It goes on when the client disconnects.
        let _turn = turn;
        let crow = record.metadata.crow();
        render(&SessionReport {
            session_id: &record.metadata.session_id,
            title: &crow.title,
            cwd: &crow.cwd.display().to_string(),
            model: &record.metadata.model_ref().to_string(),
            events: &record.events,
            prices: &prices,
            zone,
            version: &version,
        })
    });
    render.await.map_err(|error| worker_failed(&error))
}

/// Returns the known prices of the models that answered in a session.
async fn prices_of(state: &LiveServerState, record: &SessionRecord) -> BTreeMap<ModelRef, Price> {
    let mut prices: BTreeMap<ModelRef, Option<Price>> = BTreeMap::new();
    for line in &record.events {
        if let AgentEvent::Reply { origin, .. } = &line.event {
            let (provider, model) = (origin.provider.clone(), origin.model.clone());
            let model = ModelRef { provider, model };
            if let Entry::Vacant(entry) = prices.entry(model) {
                let price = state.models.price(entry.key()).await;
                entry.insert(price);
            }
        }
    }
    prices.into_iter().filter_map(|(model, price)| Some((model, price?))).collect()
}

fn opened(state: &LiveServerState, id: &str) -> Result<AgentHandle, ApiError> {
    Ok(state.hosted.opened(&SessionId::new(id))?)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::invalid(error.to_string()))
}

fn worker_failed(error: &JoinError) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn json_response<T: Serialize>(value: &T) -> ApiResult {
    let body = serde_json::to_vec(value)
        .map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_begin_with_a_slash_and_a_name() {
        for (text, expected) in [
            ("/undo", Some(("undo", ""))),
            ("/undo turn 3 ", Some(("undo", "turn 3"))),
            ("/etc/hosts is broken", None),
            ("undo", None),
            ("/", None),
            ("/ help", None),
        ] {
            assert_eq!(command_of(text), expected, "{text}");
        }
    }
}
