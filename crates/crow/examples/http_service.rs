//! A service for tasks: `POST /tasks` starts one and answers with its number, `GET /tasks/NUMBER/events` streams its
//! events as server-sent events.
//!
//! It also needs the crates `axum` and `futures-util`. Whoever reaches the address can use your model, so let it listen
//! on this machine only. Try it:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example http_service -- anthropic/claude-sonnet-4-5 127.0.0.1:8080`, then
//! `curl --data "tell me a joke" localhost:8080/tasks` and `curl -N localhost:8080/tasks/1/events`
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::sse::{Event, Sse},
    routing::{get, post},
};
use crow::{
    prelude::*,
    serde_json,
    tokio::{self, net::TcpListener, sync::mpsc, task::JoinSet},
};
use futures_util::{Stream, stream};

/// Maximum number of tasks under way, and of tasks whose events nobody has asked for yet.
const MOST_TASKS: usize = 16;

/// The service: the model that it asks, and its tasks.
struct Service {
    model: ResolvedModel,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    started: u64,
    /// The events that nobody has asked for yet, by the number of their task.
    events: HashMap<u64, mpsc::Receiver<Arc<Envelope>>>,
    /// The tasks under way. They end with the service.
    running: JoinSet<()>,
}

/// Starts a task. It waits when it is 32 events ahead of its reader.
async fn start_task(State(service): State<Arc<Service>>, task: String) -> (StatusCode, String) {
    let context =
        ContextManager::new(Environment::default(), 8_000, "You are a helpful assistant.");
    let model = service.model.clone();
    let executor = AgentExecutor::new(context, ToolRegistry::new(), model, AgentConfig::default());
    let mut tasks = service.tasks.lock().unwrap_or_else(PoisonError::into_inner);
    while tasks.running.try_join_next().is_some() {} // forgets those that ended
    if tasks.running.len().max(tasks.events.len()) >= MOST_TASKS {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many tasks\n".to_owned());
    }
    tasks.started += 1;
    let number = tasks.started;
    let (sender, events) = mpsc::channel(32);
    tasks.events.insert(number, events);
    tasks.running.spawn(async move {
        if let Err(error) = executor.execute(task, sender).await {
            eprintln!("task {number}: {error}");
        }
    });
    (StatusCode::CREATED, format!("{number}\n"))
}

/// Streams the events of a task, from its first to its last one, to one reader.
async fn stream_events(
    State(service): State<Arc<Service>>,
    Path(number): Path<u64>,
) -> Result<Sse<impl Stream<Item = Result<Event, serde_json::Error>>>, StatusCode> {
    let mut tasks = service.tasks.lock().unwrap_or_else(PoisonError::into_inner);
    let events = tasks.events.remove(&number).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Sse::new(stream::unfold(events, |mut events| async {
        let event = events.recv().await?;
        let json = serde_json::to_string(&*event);
        Some((json.map(|json| Event::default().data(json)), events))
    })))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, address] = &args[..] else {
        return Err("usage: http_service MODEL ADDRESS".into());
    };
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;
    let service = Arc::new(Service { model, tasks: Mutex::default() });
    let router = Router::new()
        .route("/tasks", post(start_task))
        .route("/tasks/{number}/events", get(stream_events))
        .with_state(service);
    let listener = TcpListener::bind(address).await?;
    println!("Listening on http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
