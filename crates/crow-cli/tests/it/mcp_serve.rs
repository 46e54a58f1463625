//! Crow as a server of the Model Context Protocol, over its standard streams and over HTTP.

use std::{process::Stdio, time::Duration};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::program::Fixture;

const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A client of the program.
struct Client {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Messages that are no answers: progress.
    others: Vec<Value>,
    next_id: u64,
    /// Answers to questions that the server asks, in turn.
    forms: Vec<Value>,
}

impl Client {
    async fn start(fixture: &Fixture, capabilities: Value) -> Self {
        let mut command = Command::from(fixture.command(&["mcp", "serve"]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        let mut client =
            Self { child, input, output, others: Vec::new(), next_id: 0, forms: Vec::new() };
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let hello = client.request("initialize", params).await;
        assert_eq!(hello["serverInfo"]["name"], "crow-agent");
        client.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn write(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Sends a request and returns its result. Questions of the server are answered meanwhile.
    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer_to(id).await
    }

    async fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let line =
                timeout(TIME_LIMIT, self.output.next_line()).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == "elicitation/create" {
                let answer = self.forms.remove(0);
                self.others.push(message.clone());
                self.write(json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
            } else if message["id"] == id {
                return message["result"].clone();
            } else {
                self.others.push(message);
            }
        }
    }

    /// Calls a tool, and returns its result for programs.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let meta = json!({"progressToken": "p"});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        self.request("tools/call", params).await
    }

    /// Disconnects and waits until the program ends.
    async fn end(mut self) {
        drop(self.input);
        let status = timeout(TIME_LIMIT, self.child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status:?}");
    }
}

fn script() -> [ScriptedReply; 3] {
    [
        ScriptedReply::new().call(
            "c1",
            "write_file",
            &json!({"path": "new.txt", "content": "hello\n"}),
        ),
        ScriptedReply::new().text("I wrote it."),
        ScriptedReply::new().text("It says hello."),
    ]
}

#[tokio::test]
async fn a_task_runs_to_its_end_and_is_continued_and_its_diff_is_read() {
    let server = ModelServer::start(script()).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut client = Client::start(&fixture, json!({})).await;
    let tools = client.request("tools/list", json!({})).await;
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(names.join(" "));
    let arguments = json!({"prompt": "write it", "permissions": "full-auto"});
    let done = client.call("run_task", arguments).await;
    let state = &done["structuredContent"];
    assert_eq!(
        (&state["state"], &state["text"]),
        (&json!("done"), &json!("I wrote it.")),
        "{done}"
    );
    assert!(fixture.project("new.txt").exists());
    let progress: Vec<&Value> = client
        .others
        .iter()
        .filter(|message| message["method"] == "notifications/progress")
        .collect();
    assert!(
        progress.iter().any(|message| {
            message["params"]["message"].as_str().is_some_and(|text| text.contains("new.txt"))
        }),
        "{progress:?}"
    );
    let task = state["task"].clone();
    let diff = client.call("task_diff", json!({"task": task})).await;
    assert!(diff["content"][0]["text"].as_str().unwrap().contains("+hello"), "{diff}");
    // The same session goes on.
    let more = client.call("run_task", json!({"prompt": "what does it say?", "task": task})).await;
    assert_eq!(more["structuredContent"]["text"], "It says hello.");
    let listed = client.call("list_tasks", json!({})).await;
    assert_eq!(listed["structuredContent"]["tasks"].as_array().unwrap().len(), 1);
    for (tool, arguments, expected) in [
        ("run_task", json!({"prompt": " "}), "the prompt is empty"),
        ("run_task", json!({"prompt": "x", "directory": "relative"}), "absolute"),
        ("run_task", json!({"promt": "x"}), "unknown field `promt`"),
        ("task_diff", json!({"task": "none"}), "no task of this id"),
        ("nonsense", json!({}), "no tool nonsense"),
    ] {
        let refused = client.call(tool, arguments).await;
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(refused["isError"] == true && text.contains(expected), "{tool}: {refused}");
    }
    client.end().await;
    server.finish().await.unwrap();
}

#[tokio::test]
async fn questions_go_to_the_user_of_a_client_that_can_ask() {
    let server = ModelServer::start(script()).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut client = Client::start(&fixture, json!({"elicitation": {}})).await;
    client.forms.push(json!({"action": "accept", "content": {"answer": "allow"}}));
    let done = client.call("run_task", json!({"prompt": "write it", "permissions": "ask"})).await;
    assert_eq!(done["structuredContent"]["state"], "done", "{done}");
    assert!(fixture.project("new.txt").exists());
    let asked = client.others.iter().find(|message| message["method"] == "elicitation/create");
    let message = asked.unwrap()["params"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("May write_file run?") && message.contains("new.txt"), "{message}");
    client.end().await;
}

#[tokio::test]
async fn a_client_that_cannot_ask_answers_with_a_tool() {
    let server = ModelServer::start(script()).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut client = Client::start(&fixture, json!({})).await;
    let waiting =
        client.call("run_task", json!({"prompt": "write it", "permissions": "ask"})).await;
    let state = waiting["structuredContent"].clone();
    assert_eq!(state["state"], "waiting", "{waiting}");
    let question = &state["questions"][0];
    let answer = |text: &str| json!({"task": state["task"], "question": question["question"], "answer": text});
    let wrong = client.call("answer_question", answer("maybe")).await;
    assert!(
        wrong["content"][0]["text"].as_str().unwrap().contains("answer with one of: allow"),
        "{wrong}"
    );
    let mut denied = answer("deny");
    denied["feedback"] = json!("not today");
    client.call("answer_question", denied).await;
    let done = client.call("follow_task", json!({"task": state["task"]})).await;
    assert_eq!(done["structuredContent"]["state"], "done", "{done}");
    assert!(!fixture.project("new.txt").exists());
    let again = client.call("answer_question", answer("allow")).await;
    assert!(again["content"][0]["text"].as_str().unwrap().contains("no open question"), "{again}");
    client.end().await;
}

#[tokio::test]
async fn a_task_is_cancelled_by_its_tool_and_with_its_request() {
    let slow = || ScriptedReply::new().call("c1", "bash", &json!({"command": "sleep 600"}));
    let server = ModelServer::start([slow(), slow()]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    let mut client = Client::start(&fixture, json!({})).await;
    let arguments = json!({"prompt": "sleep", "permissions": "full-auto", "wait": false});
    let started = client.call("run_task", arguments).await;
    let task = started["structuredContent"]["task"].clone();
    server.wait_for_request(0).await;
    client.call("cancel_task", json!({"task": task})).await;
    let ended = client.call("follow_task", json!({"task": task})).await;
    assert_eq!(ended["structuredContent"]["state"], "cancelled", "{ended}");
    // A request that the client withdraws.
    let params =
        json!({"name": "run_task", "arguments": {"prompt": "sleep", "permissions": "full-auto"}});
    let id = client.send("tools/call", params).await;
    server.wait_for_request(1).await;
    let params = json!({"requestId": id, "reason": "changed my mind"});
    client
        .write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    let ended = async {
        loop {
            let listed = client.call("list_tasks", json!({})).await;
            let tasks = listed["structuredContent"]["tasks"].as_array().unwrap().clone();
            if tasks.len() == 2 && tasks.iter().all(|task| task["state"] == "cancelled") {
                return;
            }
        }
    };
    timeout(TIME_LIMIT, ended).await.unwrap();
    client.end().await;
}

/// Sends a POST and returns the whole answer.
async fn post(address: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    // The stream of events stays open: one answer is enough.
    while !String::from_utf8_lossy(&answer).contains("serverInfo") {
        match timeout(TIME_LIMIT, stream.read(&mut buffer)).await.unwrap().unwrap() {
            0 => break,
            count => answer.extend_from_slice(&buffer[..count]),
        }
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn over_http_only_clients_with_the_token_are_served() {
    let server = ModelServer::start(script()).await;
    let mut fixture = Fixture::new().with_server(&server, WireDialect::AnthropicMessages);
    fixture.set_env("CROW_MCP_TOKEN", "0123456789abcdef0123");
    let command = fixture.command(&["mcp", "serve", "--listen", "127.0.0.1:0"]);
    let mut command = Command::from(command);
    command.stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
        assert!(!line.contains("0123456789abcdef0123"), "{line}");
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split('/').next().unwrap().to_owned();
        }
    };
    let token = "authorization: Bearer 0123456789abcdef0123\r\n";
    let host = format!("host: {address}\r\n");
    let answered = post(&address, &format!("{host}{token}")).await;
    assert!(answered.starts_with("HTTP/1.1 200") && answered.contains("crow-agent"), "{answered}");
    for (headers, status) in [
        (host.clone(), 401),
        (format!("{host}authorization: Bearer wrong\r\n"), 401),
        (format!("host: evil.example\r\n{token}"), 403),
        (format!("{host}{token}origin: https://evil.example\r\n"), 403),
    ] {
        let refused = post(&address, &headers).await;
        assert!(refused.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {refused}");
    }
    let elsewhere = fixture.run(&["mcp", "serve", "--listen", "0.0.0.0:0"]).await;
    assert!(elsewhere.exited(2).err.contains("other machines"), "{}", elsewhere.err);
}
