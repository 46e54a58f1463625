//! Questions to a model server on this machine, beside requests: its models, and the context window that it runs one with.
//!
//! The window of such a server is a choice of its start, not a fact about the model, and some servers cut a longer
//! conversation without a word. Each kind of server tells it in its own place.

use std::time::Duration;

use futures_util::future::join;
use reqwest::Url;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::endpoint::ExtraHeader;

/// Maximum bytes of an answer; the rest is not read.
const LONGEST: u64 = 1024 * 1024;

/// Returns the path of the list of models of a server.
pub(crate) fn list_of_models(base_url: &Url) -> String {
    format!("{}/models", base_url.path().trim_end_matches('/'))
}

/// Gets a JSON document from a server. HTTP/1.0 is written by hand, since it has no chunks and a single request needs no
/// client.
pub(crate) async fn get(url: &Url, path: String, headers: &[ExtraHeader]) -> Option<Value> {
    if url.scheme() != "http" {
        return None;
    }
    let host = url.host_str()?;
    let address = (host.trim_matches(['[', ']']), url.port_or_known_default()?);
    let mut stream = TcpStream::connect(address).await.ok()?;
    let headers = headers.iter().map(|header| format!("{}: {}\r\n", header.name, header.value));
    let headers: String = headers.collect();
    let question = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n{headers}Connection: close\r\n\r\n"
    );
    stream.write_all(question.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_ascii_whitespace().nth(1)?;
    serde_json::from_str(body).ok().filter(|_| status == "200")
}

/// Time limit for all answers together.
const PATIENCE: Duration = Duration::from_millis(300);

/// Asks a server for the window that it runs `model` with. Returns `None` if it does not say in time.
pub(crate) async fn context_window(
    base_url: &Url,
    headers: &[ExtraHeader],
    model: &str,
) -> Option<u64> {
    let at_root = |path: &str| get(base_url, path.to_owned(), headers);
    let list = get(base_url, list_of_models(base_url), headers);
    let answers =
        join(join(at_root("/props"), at_root("/api/ps")), join(at_root("/api/v0/models"), list));
    let ((props, running), (loaded, list)) = timeout(PATIENCE, answers).await.ok()?;
    llama_cpp(props.as_ref())
        .or_else(|| ollama(running.as_ref(), model))
        .or_else(|| lm_studio(loaded.as_ref(), model))
        .or_else(|| listed(list.as_ref(), model))
        .filter(|window| *window > 0)
}

/// llama.cpp serves one model, with this window for each of its slots.
fn llama_cpp(props: Option<&Value>) -> Option<u64> {
    props?.pointer("/default_generation_settings/n_ctx")?.as_u64()
}

/// Ollama tells the window of the models that are loaded.
fn ollama(running: Option<&Value>, model: &str) -> Option<u64> {
    let loaded = running?.get("models")?.as_array()?.iter();
    let of_model = |entry: &&Value| {
        ["name", "model"].iter().any(|key| {
            let name = entry.get(*key).and_then(Value::as_str);
            // A name without a tag is that of the tag `latest`.
            name.is_some_and(|name| name == model || name.strip_suffix(":latest") == Some(model))
        })
    };
    loaded.into_iter().find(of_model)?.get("context_length")?.as_u64()
}

/// LM Studio tells the window of a loaded model.
fn lm_studio(loaded: Option<&Value>, model: &str) -> Option<u64> {
    entry(loaded?, model)?.get("loaded_context_length")?.as_u64()
}

/// vLLM and others tell it in the list of models.
fn listed(list: Option<&Value>, model: &str) -> Option<u64> {
    window_in_list(entry(list?, model)?)
}

/// Returns the window in an entry of a list of models: vLLM has that of the model, llama.cpp the one that it was started
/// with.
pub(crate) fn window_in_list(entry: &Value) -> Option<u64> {
    entry.get("max_model_len").or_else(|| entry.pointer("/meta/n_ctx")).and_then(Value::as_u64)
}

fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = list.get("data")?.as_array()?;
    entries.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(model))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use tokio::{net::TcpListener, task::JoinSet};

    use super::*;

    /// A server with an answer for each path; it answers 404 to others.
    struct WindowServer {
        base_url: Url,
        _task: JoinSet<()>,
    }

    impl WindowServer {
        async fn start(answers: &[(&str, &str)]) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let base_url = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
            let answers: HashMap<String, String> = answers
                .iter()
                .map(|(path, body)| ((*path).to_owned(), (*body).to_owned()))
                .collect();
            let answers = Arc::new(answers);
            let mut task = JoinSet::new();
            task.spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut bytes = vec![0; 4096];
                    let length = stream.read(&mut bytes).await.unwrap();
                    let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    let path = request.split_ascii_whitespace().nth(1).unwrap();
                    let answer = answers.get(path).map_or(
                        "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}".to_owned(),
                        |body| {
                            format!(
                                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                                body.len()
                            )
                        },
                    );
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
            Self { base_url, _task: task }
        }

        async fn window(&self, model: &str) -> Option<u64> {
            context_window(&self.base_url, &[], model).await
        }
    }

    #[tokio::test]
    async fn every_kind_of_server_tells_its_window() {
        let table = [
            ("/props", r#"{"default_generation_settings":{"n_ctx":8192},"total_slots":1}"#, 8192),
            (
                "/api/ps",
                r#"{"models":[{"name":"other:1b","context_length":1},{"name":"qwen3:latest","context_length":4096}]}"#,
                4096,
            ),
            (
                "/api/v0/models",
                r#"{"data":[{"id":"qwen3","state":"loaded","loaded_context_length":16384,"max_context_length":40960}]}"#,
                16384,
            ),
            ("/v1/models", r#"{"data":[{"id":"qwen3","max_model_len":32768}]}"#, 32768),
        ];
        for (path, body, window) in table {
            let server = WindowServer::start(&[(path, body)]).await;
            assert_eq!(server.window("qwen3").await, Some(window), "{path}");
        }
    }

    #[tokio::test]
    async fn the_window_in_use_counts_more_than_that_of_the_model() {
        let server = WindowServer::start(&[
            ("/v1/models", r#"{"data":[{"id":"m.gguf","meta":{"n_ctx":131072}}]}"#),
            ("/props", r#"{"default_generation_settings":{"n_ctx":4096}}"#),
        ])
        .await;
        assert_eq!(server.window("m.gguf").await, Some(4096));
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_or_nonsense_leaves_it_unknown() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"default_generation_settings":{"n_ctx":0}}"#,
            r#"{"default_generation_settings":{"n_ctx":"many"}}"#,
        ] {
            let server = WindowServer::start(&[("/props", body)]).await;
            assert_eq!(server.window("m").await, None, "{body}");
        }
    }
}
