//! A client of the Agent Client Protocol sets the addresses at which models are called.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::program::{Fixture, any_file_contains};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
/// The key that [`Fixture::with_server`] sets.
const KEY: &str = "sk-test-0123456789";
const TOKEN: &str = "gateway-0123456789-abcdef";
/// Path of the program's log, relative to the home.
const LOG: &str = "log";
const TENANT: &str = "tenant0123456789abcdef";

/// A client that exchanges JSON lines with the program.
struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Messages received from the program.
    messages: Vec<Value>,
    next_id: u64,
}

impl Editor {
    /// Starts the program with its most detailed log.
    fn start(fixture: &Fixture, args: &[&str]) -> Self {
        let mut command = fixture.command(&[&["acp"], args].concat());
        // The log goes to a file: an unread pipe would block the program.
        let log = fs::File::create(fixture.home(LOG)).unwrap();
        command.env("CROW_LOG", "trace").stdin(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut editor = Self { child, input, output, messages: Vec::new(), next_id: 0 };
        let hello = editor.request("initialize", &json!({ "protocolVersion": 1 }));
        assert_eq!(hello["result"]["agentCapabilities"]["providers"], json!({}));
        editor
    }

    fn session(&mut self, fixture: &Fixture) -> String {
        let params = json!({ "cwd": fixture.project(""), "mcpServers": [] });
        let response = self.request("session/new", &params);
        response["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", &json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Sends a request and waits for its response.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{line}").unwrap();
        self.wait_for(|message| message["id"] == id)
    }

    /// Returns the first matching message, of those received earlier or of the following ones.
    fn find(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let earlier = self.messages.iter().find(|message| matches(message)).cloned();
        earlier.unwrap_or_else(|| self.wait_for(matches))
    }

    /// Reads messages until one matches, and returns it.
    fn wait_for(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let length = block_in_place(|| self.output.read_line(&mut line)).unwrap();
            assert!(length > 0, "the program has gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            self.messages.push(message.clone());
            if matches(&message) {
                return message;
            }
        }
    }

    /// Sets the address of a provider to a server, with two secret headers.
    fn set(&mut self, provider: &str, server: &ModelServer, dialect: WireDialect) -> Value {
        let protocol = match dialect {
            WireDialect::AnthropicMessages => "anthropic",
            WireDialect::OpenAiResponses | WireDialect::OpenAiChat => "openai",
            WireDialect::Gemini => "_gemini",
        };
        let params = json!({
            "providerId": provider,
            "apiType": protocol,
            "baseUrl": server.base_url(dialect),
            "headers": { "authorization": format!("Bearer {TOKEN}"), "x-tenant": TENANT },
        });
        self.request("providers/set", &params)
    }

    /// Returns the current settings of a provider, `null` if it is disabled.
    fn current(&mut self, provider: &str) -> Value {
        let answer = self.request("providers/list", &json!({}));
        let list = answer["result"]["providers"].as_array().unwrap().clone();
        let found = list.into_iter().find(|one| one["providerId"] == provider);
        found.unwrap_or_else(|| panic!("{answer}"))["current"].clone()
    }

    /// Returns the agent's text since the last call, and clears the messages.
    fn agent_text(&mut self) -> String {
        let messages = std::mem::take(&mut self.messages);
        let chunk = |message: &Value| {
            let update = &message["params"]["update"];
            let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
            is_chunk.then(|| update["content"]["text"].as_str().unwrap().to_owned())
        };
        messages.iter().filter_map(chunk).collect()
    }

    /// Closes the program's input and waits for its end.
    fn close(self) {
        let Self { mut child, input, .. } = self;
        drop(input);
        assert!(block_in_place(|| child.wait()).unwrap().success());
    }
}

async fn server(texts: &[&str]) -> ModelServer {
    ModelServer::start(
        texts.iter().map(|text| ScriptedReply::new().text(*text)).collect::<Vec<_>>(),
    )
    .await
}

fn fixture(server: &ModelServer) -> Fixture {
    Fixture::new().with_server(server, WireDialect::AnthropicMessages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_session_moves_to_a_new_provider_address_without_the_key() {
    let (first, second) = (server(&["One."]).await, server(&["Two."]).await);
    let fixture = fixture(&first);
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    let session = editor.session(&fixture);
    editor.prompt(&session, "first");
    let before = editor.current("anthropic");
    assert_eq!(before["baseUrl"], first.base_url(WireDialect::AnthropicMessages));
    let set = editor.set("anthropic", &second, WireDialect::AnthropicMessages);
    assert_eq!(set["result"], json!({}), "{set}");
    let end = editor.prompt(&session, "second");
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    assert_eq!(editor.agent_text(), "One.Two.");
    editor.close();
    let (first, second) = (first.finish().await.unwrap(), second.finish().await.unwrap());
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(first[0].header("x-api-key"), Some(KEY));
    assert_eq!(second[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(second[0].header("x-tenant"), Some(TENANT));
    let headers = format!("{:?}", second[0].headers);
    assert!(!headers.contains(KEY), "{headers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_headers_are_never_shown_logged_or_stored() {
    let echo = format!("Your token is {TOKEN}, your tenant {TENANT}.");
    let (first, second) = (server(&[]).await, server(&[&echo]).await);
    let fixture = fixture(&first);
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    let session = editor.session(&fixture);
    editor.set("anthropic", &second, WireDialect::AnthropicMessages);
    let current = editor.current("anthropic");
    let base_url = second.base_url(WireDialect::AnthropicMessages);
    assert_eq!(current, json!({ "apiType": "anthropic", "baseUrl": base_url }));
    editor.prompt(&session, &format!("use {TOKEN}"));
    let refused = json!({
        "providerId": "anthropic",
        "apiType": "anthropic",
        "baseUrl": format!("nowhere?{TOKEN}"),
        "headers": { "x-tenant": TENANT },
    });
    let refused = editor.request("providers/set", &refused);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let transcript = format!("{:?}", editor.messages);
    let mark = "[redacted by crow]";
    assert_eq!(editor.agent_text(), format!("Your token is {mark}, your tenant {mark}."));
    editor.close();
    let log = fs::read_to_string(fixture.home(LOG)).unwrap();
    assert!(log.contains("providers/set"), "the log is on");
    for secret in [TOKEN, TENANT, KEY] {
        assert!(!transcript.contains(secret), "{secret} was shown");
        assert!(!log.contains(secret), "{secret} was logged");
        assert!(!any_file_contains(&fixture.home(""), secret), "{secret} was stored");
    }
    drop((first.finish().await, second.finish().await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disabled_provider_is_not_called_until_it_is_set_again() {
    let server = server(&["One.", "Two."]).await;
    let fixture = fixture(&server);
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    let session = editor.session(&fixture);
    editor.prompt(&session, "first");
    let disabled = editor.request("providers/disable", &json!({ "providerId": "anthropic" }));
    assert_eq!(disabled["result"], json!({}), "{disabled}");
    let update = editor
        .find(|message| message["params"]["update"]["sessionUpdate"] == "config_option_update");
    let models = update["params"]["update"]["configOptions"].as_array().unwrap();
    let models = models.iter().find(|option| option["id"] == "model").unwrap();
    let others = models["options"].to_string().replace(MODEL, "");
    assert!(!others.contains("anthropic/claude"), "{models}");
    assert_eq!(editor.current("anthropic"), Value::Null);
    let refused = editor.prompt(&session, "second");
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("anthropic") && message.contains("disabled"), "{message}");
    let chosen = json!({
        "sessionId": session,
        "configId": "model",
        "value": "anthropic/claude-opus-4-5",
    });
    let chosen = editor.request("session/set_config_option", &chosen);
    assert_eq!(chosen["error"]["code"], -32602, "{chosen}");
    editor.set("anthropic", &server, WireDialect::AnthropicMessages);
    let end = editor.prompt(&session, "third");
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    editor.close();
    assert_eq!(server.finish().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_set_by_the_client_works_without_a_stored_key() {
    let server = server(&["Hello."]).await;
    let fixture = Fixture::new();
    let mut editor = Editor::start(&fixture, &[]);
    let params = json!({ "cwd": fixture.project(""), "mcpServers": [] });
    let refused = editor.request("session/new", &params);
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    editor.set("openai-chat", &server, WireDialect::OpenAiChat);
    let session = editor.session(&fixture);
    editor.prompt(&session, "hi");
    assert_eq!(editor.agent_text(), "Hello.");
    editor.close();
    let requests = server.finish().await.unwrap();
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_settings_are_not_shared_with_another_process() {
    let (first, second) = (server(&["One."]).await, server(&[]).await);
    let fixture = fixture(&first);
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    editor.set("anthropic", &second, WireDialect::AnthropicMessages);
    editor.request("providers/disable", &json!({ "providerId": "openai" }));
    editor.close();
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    let current = editor.current("anthropic");
    assert_eq!(current["baseUrl"], first.base_url(WireDialect::AnthropicMessages));
    assert_ne!(editor.current("openai"), Value::Null);
    let session = editor.session(&fixture);
    editor.prompt(&session, "first");
    editor.close();
    assert_eq!(first.finish().await.unwrap().len(), 1);
    assert!(second.finish().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_session_stops_using_the_key_after_a_logout() {
    let server = server(&["One.", "Two."]).await;
    let mut fixture = Fixture::new();
    fixture.set_env("ANTHROPIC_BASE_URL", &server.base_url(WireDialect::AnthropicMessages));
    fixture.run_with_input(&["login", "anthropic", "--yes"], KEY).await.exited(0);
    let mut editor = Editor::start(&fixture, &["--model", MODEL]);
    let session = editor.session(&fixture);
    editor.prompt(&session, "first");
    let gone = editor.request("logout", &json!({}));
    assert_eq!(gone["result"], json!({}), "{gone}");
    let refused = editor.prompt(&session, "second");
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("ANTHROPIC_API_KEY"), "{message}");
    // After another login the same session works again.
    fixture.run_with_input(&["login", "anthropic", "--yes"], KEY).await.exited(0);
    let end = editor.prompt(&session, "third");
    assert_eq!(end["result"]["stopReason"], "end_turn", "{end}");
    editor.close();
    assert_eq!(server.finish().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_model_of_a_key_is_offered_once() {
    let server = server(&[]).await;
    let fixture = Fixture::new().with_server(&server, WireDialect::OpenAiResponses);
    for (model, offered) in [("openai/gpt-5", "openai/"), ("openai-chat/gpt-5", "openai-chat/")] {
        let mut editor = Editor::start(&fixture, &["--model", model]);
        let params = json!({ "cwd": fixture.project(""), "mcpServers": [] });
        let response = editor.request("session/new", &params);
        let options = response["result"]["configOptions"].as_array().unwrap();
        let models = options.iter().find(|option| option["id"] == "model").unwrap();
        let models = models["options"].as_array().unwrap().iter();
        let values: Vec<_> = models.map(|model| model["value"].as_str().unwrap()).collect();
        assert!(values.len() > 2, "{values:?}");
        assert!(values.iter().all(|value| value.starts_with(offered)), "{values:?}");
        editor.close();
    }
}
