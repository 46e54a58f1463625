//! The live view over its interface, with the real program. What a browser makes of it is checked by
//! `.ci/third-party/serve.sh`.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
    time::Duration,
};

use crow_testkit::{ModelServer, ScriptStep, ScriptedReply, WireDialect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::timeout,
};

use crate::program::Fixture;

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// Longest wait for an answer or a message.
const DEADLINE: Duration = Duration::from_mins(1);

/// The running program. It is killed when dropped.
struct LiveView {
    child: Child,
    host: String,
    token: String,
}

impl LiveView {
    fn start(fixture: &Fixture, options: &[&str]) -> Self {
        let args = ["serve", "--listen", "127.0.0.1:0", "-m", MODEL];
        let mut child = fixture.start(&[&args, options].concat());
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (host, token) = loop {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
            let address = said.lines().last().and_then(|line| line.split_once("http://"));
            let parts = address.and_then(|(_, rest)| rest.split_once("/#token="));
            if let Some((host, rest)) = parts {
                break (host.to_owned(), rest.split(';').next().unwrap().to_owned());
            }
        };
        Self { child, host, token }
    }

    /// Sends a request and returns the status and the body.
    async fn request(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let stream = self.send(method, path, &self.token, &body.to_string(), "close").await;
        let mut answer = String::new();
        let mut stream = stream;
        timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// Sends a request that must succeed, and returns what it answers.
    async fn json(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, text) = self.request(method, path, &body).await;
        assert!(status < 300, "{method} {path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
        connection: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: {connection}\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn events(&self, path: &str) -> EventReader {
        let stream = self.send("GET", path, &self.token, "", "keep-alive").await;
        let (reader, writer) = stream.into_split();
        EventReader { lines: tokio::io::BufReader::new(reader), _writer: writer }
    }

    /// Ends the program as ctrl-c does.
    async fn end(mut self) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let code = self.child.wait().unwrap().code();
            (code, self)
        });
        assert_eq!(timeout(DEADLINE, ended).await.unwrap().unwrap().0, Some(0));
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct EventReader {
    lines: tokio::io::BufReader<tokio::net::tcp::OwnedReadHalf>,
    /// The server ends the stream when the client closes its half.
    _writer: OwnedWriteHalf,
}

impl EventReader {
    /// Waits for a message of a type that satisfies a condition, and returns it.
    async fn wait_for(&mut self, kind: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let search = async {
            loop {
                let mut line = String::new();
                assert!(self.lines.read_line(&mut line).await.unwrap() > 0, "the stream ended");
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let message: Value = serde_json::from_str(data).unwrap();
                if message["type"] == kind && condition(&message) {
                    return message;
                }
            }
        };
        let found = timeout(DEADLINE, search).await;
        found.unwrap_or_else(|_| panic!("no {kind} in time"))
    }
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    let refused = Fixture::new().run(&["serve", "--listen", "0.0.0.0:0"]).await;
    refused.exited(2);
    assert!(refused.err.contains("--host-name"), "{}", refused.err);
    let refused = Fixture::new().run(&["serve", "--listen", "localhost:8421"]).await;
    refused.exited(2);
    assert!(refused.err.contains("such as 127.0.0.1:8421"), "{}", refused.err);
}

#[tokio::test]
async fn each_start_has_a_new_token_unless_it_is_kept() {
    let server = ModelServer::start([] as [ScriptStep; 0]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let first = LiveView::start(&fixture, &["--keep-token"]);
    let kept = first.token.clone();
    first.end().await;
    let second = LiveView::start(&fixture, &["--keep-token"]);
    assert_eq!(second.token, kept);
    second.end().await;
    let third = LiveView::start(&fixture, &[]);
    assert_ne!(third.token, kept);
    let stream = third.send("GET", "/api/about", &kept, "", "close").await;
    let mut answer = String::new();
    { stream }.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    third.end().await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_session_is_started_answered_and_undone_through_the_interface() {
    let write = json!({"path": "notes.txt", "content": "one\n"});
    let server = ModelServer::start([
        ScriptedReply::new().call("c1", "write_file", &write),
        ScriptedReply::new().text("Wrote it."),
    ])
    .await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let view = LiveView::start(&fixture, &[]);
    let mut list = view.events("/api/events").await;
    let cwd = fixture.project("").display().to_string();
    let new = json!({"cwd": cwd, "prompt": "write a note"});
    let id = view.json("POST", "/api/sessions", new).await["session"].as_str().unwrap().to_owned();

    // 1) The question is in the list and in the session, with the change that it is about.
    list.wait_for("sessions", |message| message["changed"][0]["state"] == "asking").await;
    let session = format!("/api/sessions/{id}");
    let mut events = view.events(&format!("{session}/events")).await;
    let history = events.wait_for("history", |_| true).await;
    assert!(history["html"].as_str().unwrap().contains("write a note"), "{history}");
    let asked = |message: &Value| message["permissions"][0]["tool"] == "write_file";
    let question = events.wait_for("questions", asked).await;
    let change = question["permissions"][0]["html"].as_str().unwrap();
    assert!(change.contains("notes.txt") && change.contains("+one"), "{change}");
    let request = question["permissions"][0]["id"].as_str().unwrap().to_owned();
    assert!(!fixture.project("notes.txt").exists());

    // 2) What was not offered is refused, and the question stays open; then it is answered.
    let answer = format!("{session}/permissions/{request}");
    let foreign = json!({"answer": "allow_session", "offer": 99});
    assert_eq!(view.request("POST", &answer, &foreign).await.0, 409);
    view.json("POST", &answer, json!({"answer": "allow_once"})).await;
    let reply = |message: &Value| message["html"].as_str().unwrap().contains("Wrote it.");
    events.wait_for("entry", reply).await;
    events.wait_for("state", |message| message["state"] == "idle").await;
    assert_eq!(view.request("POST", &answer, &json!({"answer": "allow_once"})).await.0, 409);

    // 3) A page that comes now is shown all of it, and a command that is none is not sent to the model.
    let mut late = view.events(&format!("{session}/events")).await;
    let history = late.wait_for("history", |_| true).await;
    assert!(history["html"].as_str().unwrap().contains("Wrote it."), "{history}");
    let messages = format!("{session}/messages");
    assert_eq!(view.request("POST", &messages, &json!({"text": "/udno"})).await.0, 422);

    // 4) The views of the report, and the undo.
    let views = view.json("GET", &format!("{session}/views"), Value::Null).await;
    assert!(views["decisions"].as_str().unwrap().contains("permission for write_file"), "{views}");
    let undone = view.json("POST", &messages, json!({"text": "/undo"})).await;
    assert!(undone["shown"].as_str().unwrap().contains("notes.txt"), "{undone}");
    assert!(!fixture.project("notes.txt").exists());
    view.end().await;
    server.finish().await.unwrap();
}
