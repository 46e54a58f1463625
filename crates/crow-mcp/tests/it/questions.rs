//! Questions of servers to the user: forms, pages, input in place of a result, and tasks.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use crow_core::{
    capability::{
        QuestionAnswer, SideModel, SideReply, SideRequest, SideRequestError, UserQuestion,
        UserQuestions,
    },
    ids::CallId,
    message::Block,
    model::{ModelRef, StopReason},
    tool::{AgentContext, Progress, ToolContext, ToolResult, ToolSource as _},
    workspace::Workspace,
};
use crow_mcp::{RedirectListener, UserBrowser};
use crow_testkit::tools::{agent_context, tool_context};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Io, Servers, Session, call, text_result, tool};

/// A user who gives these answers in turn, and then none: the question stays open.
#[derive(Debug, Default)]
struct User {
    answers: Mutex<VecDeque<QuestionAnswer>>,
    asked: Mutex<Vec<UserQuestion>>,
}

impl User {
    fn who_answers(answers: impl IntoIterator<Item = QuestionAnswer>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().collect());
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    fn texts(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|question| question.text.clone()).collect()
    }
}

#[async_trait]
impl UserQuestions for User {
    async fn ask(
        &self,
        _call_id: &CallId,
        question: UserQuestion,
        cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer> {
        let answer = self.answers.lock().unwrap().pop_front();
        if let Some(answer) = &answer {
            assert!(question.accepts(answer), "{answer:?} does not fit {question:?}");
        }
        self.asked.lock().unwrap().push(question);
        if answer.is_none() {
            cancellation.cancelled().await;
        }
        answer
    }
}

/// A browser that notes what it opens.
#[derive(Debug, Default)]
struct Pages(Mutex<Vec<String>>);

#[async_trait]
impl UserBrowser for Pages {
    async fn open(&self, url: &str) -> Result<(), String> {
        self.0.lock().unwrap().push(url.to_owned());
        Ok(())
    }

    async fn listen(&self, _port: Option<u16>) -> Result<Box<dyn RedirectListener>, String> {
        Err("no redirect is expected".to_owned())
    }
}

fn text(text: &str) -> QuestionAnswer {
    QuestionAnswer::Text { text: text.to_owned() }
}

fn chosen(labels: &[&str]) -> QuestionAnswer {
    QuestionAnswer::Chosen { labels: labels.iter().map(|&label| label.to_owned()).collect() }
}

fn context_of(user: &Arc<User>) -> ToolContext {
    tool_context(AgentContext {
        is_attended: true,
        questions: Some(Arc::clone(user) as _),
        ..agent_context(Workspace::new("/p"))
    })
}

/// A server that sends a request during each call, and returns its answer.
fn asking(method: &'static str, params: Value) -> Servers {
    Servers::of("shop", move |_, mut io| {
        let params = params.clone();
        async move {
            io.offer(&json!([tool("buy")])).await;
            while let Some(call) = io.call().await {
                let request =
                    json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
                io.write(request).await;
                let answer = io.read().await.unwrap();
                let shown = answer.get("result").or(answer.get("error")).unwrap().to_string();
                io.answer(&call, text_result(&shown)).await;
            }
        }
    })
}

async fn buy(session: &Session, user: &Arc<User>) -> ToolResult {
    call(session.tool("mcp__shop__buy").as_ref(), json!({}), &context_of(user)).await
}

fn form(schema: &Value) -> Servers {
    asking(
        "elicitation/create",
        json!({"message": "Your order\u{1b}[2J?", "requestedSchema": schema}),
    )
}

#[tokio::test]
async fn a_form_is_asked_field_by_field_and_invalid_answers_are_asked_again() {
    let schema = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "title": "Size", "minimum": 30, "maximum": 50},
            "mail": {"type": "string", "format": "email", "description": "for the bill"},
            "colour": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
            "extras": {"type": "array", "items": {"type": "string", "enum": ["box", "card"]}},
            "gift": {"type": "boolean", "default": false},
            "note": {"type": "string"},
        },
        "required": ["size", "mail", "colour", "gift"],
    });
    let user = User::who_answers([
        chosen(&["Fill in"]),
        text("huge"),
        text("60"),
        text("41.0"),
        text("nobody"),
        text("ann@example.com"),
        chosen(&["Green"]),
        chosen(&["box", "card"]),
        chosen(&["Yes"]),
        chosen(&["Leave empty"]),
    ]);
    let session = form(&schema).attended(Arc::<Pages>::default()).start().await;
    let result = buy(&session, &user).await;
    let answer: Value = serde_json::from_str(&result.output).unwrap();
    let content = json!({"size": 41, "mail": "ann@example.com", "colour": "g", "extras": ["box", "card"], "gift": true});
    assert_eq!(answer, json!({"action": "accept", "content": content}));
    insta::assert_snapshot!(user.texts().join("\n---\n"));
}

#[tokio::test]
async fn suggested_values_are_taken_all_at_once_or_for_a_single_field() {
    let two = json!({
        "type": "object",
        "properties": {
            "size": {"type": "number", "default": 41.5},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"], "default": "g"},
        },
        "required": ["size"],
    });
    let session = form(&two).attended(Arc::<Pages>::default()).start().await;
    let user = User::who_answers([chosen(&["Use the suggested values"])]);
    let answer: Value = serde_json::from_str(&buy(&session, &user).await.output).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"size": 41.5, "colour": "g"}}));
    let one =
        json!({"type": "object", "properties": {"name": {"type": "string", "default": "Ann"}}});
    let session = form(&one).attended(Arc::<Pages>::default()).start().await;
    let user = User::who_answers([chosen(&["Suggested: Ann"])]);
    let answer: Value = serde_json::from_str(&buy(&session, &user).await.output).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"name": "Ann"}}));
}

#[tokio::test]
async fn a_form_is_declined_by_the_user_or_if_it_cannot_be_shown() {
    let simple =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let session = form(&simple).attended(Arc::<Pages>::default()).start().await;
    let declined = buy(&session, &User::who_answers([QuestionAnswer::Declined])).await;
    assert_eq!(declined.output, r#"{"action":"decline"}"#);
    let fields = (0..21).map(|at| (format!("f{at}"), json!({"type": "string"})));
    let many = json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()});
    let session = form(&many).attended(Arc::<Pages>::default()).start().await;
    let user = User::who_answers([]);
    assert_eq!(buy(&session, &user).await.output, r#"{"action":"decline"}"#);
    assert_eq!(user.texts(), [""; 0]);
}

/// A model that notes what it is asked.
#[derive(Debug, Default)]
struct Model(Mutex<Vec<SideRequest>>);

#[async_trait]
impl SideModel for Model {
    async fn ask(
        &self,
        request: SideRequest,
        _cancellation: &CancellationToken,
    ) -> Result<SideReply, SideRequestError> {
        self.0.lock().unwrap().push(request);
        let model = ModelRef { provider: "p".to_owned(), model: "m".to_owned() };
        Ok(SideReply { text: "Blue.".to_owned(), model, stop: StopReason::MaxTokens })
    }
}

#[tokio::test]
async fn a_server_may_ask_the_model_after_a_question() {
    let said =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let params = json!({
        "messages": [said("user", "Colour?\u{1b}[2J"), said("assistant", "Of what?"), said("user", "The sky.")],
        "systemPrompt": "Be brief.",
        "maxTokens": 1_000_000,
    });
    let session =
        asking("sampling/createMessage", params).attended(Arc::<Pages>::default()).start().await;
    let user = User::who_answers([
        chosen(&["Decline"]),
        chosen(&["Allow"]),
        chosen(&["Allow always while the server is connected"]),
    ]);
    let model = Arc::<Model>::default();
    let ctx = tool_context(AgentContext {
        is_attended: true,
        questions: Some(Arc::clone(&user) as _),
        side_model: Some(Arc::clone(&model) as _),
        ..agent_context(Workspace::new("/p"))
    });
    let tool = session.tool("mcp__shop__buy");
    let declined = call(tool.as_ref(), json!({}), &ctx).await;
    assert!(declined.output.contains("the user rejected the request"), "{}", declined.output);
    assert_eq!(model.0.lock().unwrap().len(), 0);
    for _ in 0..3 {
        let answer: Value =
            serde_json::from_str(&call(tool.as_ref(), json!({}), &ctx).await.output).unwrap();
        let content = json!({"type": "text", "text": "Blue."});
        let expected = json!({"model": "m", "stopReason": "maxTokens", "role": "assistant", "content": content});
        assert_eq!(answer, expected);
    }
    assert_eq!(user.texts().len(), 3);
    insta::assert_snapshot!(user.texts()[0]);
    let asked = model.0.lock().unwrap().remove(0);
    assert_eq!((asked.system.as_str(), asked.max_tokens), ("Be brief.", 8192));
    assert_eq!(
        Block::text_of(&asked.content),
        "[user]\nColour?\n[assistant]\nOf what?\n[user]\nThe sky."
    );
}

#[tokio::test]
async fn without_a_user_a_server_may_not_ask() {
    let simple = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let session = form(&simple).start().await;
    let result = buy(&session, &User::who_answers([])).await;
    assert!(result.output.contains("-32601"), "{}", result.output);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_does_not_pass_while_the_user_thinks() {
    #[derive(Debug)]
    struct Slow;

    #[async_trait]
    impl UserQuestions for Slow {
        async fn ask(
            &self,
            _call_id: &CallId,
            _question: UserQuestion,
            _cancellation: &CancellationToken,
        ) -> Option<QuestionAnswer> {
            tokio::time::sleep(Duration::from_hours(2)).await;
            Some(QuestionAnswer::Text { text: "Ann".to_owned() })
        }
    }

    let simple =
        json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let session = form(&simple).attended(Arc::<Pages>::default()).start().await;
    let agent = agent_context(Workspace::new("/p"));
    let ctx = tool_context(AgentContext { questions: Some(Arc::new(Slow)), ..agent });
    let result = call(session.tool("mcp__shop__buy").as_ref(), json!({}), &ctx).await;
    assert_eq!(result.output, r#"{"action":"accept","content":{"name":"Ann"}}"#);
}

#[tokio::test]
async fn a_page_is_opened_after_a_question_and_only_if_it_is_encrypted() {
    let page = |url: &str| {
        let params = json!({"mode": "url", "message": "Pay", "url": url, "elicitationId": "1"});
        asking("elicitation/create", params)
    };
    let browser = Arc::<Pages>::default();
    let session = page("https://pay.test/x?a=b").attended(Arc::clone(&browser)).start().await;
    let user = User::who_answers([chosen(&["Open the page"]), chosen(&["Decline"])]);
    assert_eq!(buy(&session, &user).await.output, r#"{"action":"accept"}"#);
    assert_eq!(buy(&session, &user).await.output, r#"{"action":"decline"}"#);
    assert_eq!(*browser.0.lock().unwrap(), ["https://pay.test/x?a=b"]);
    assert!(user.texts()[0].contains("at pay.test: https://pay.test/x?a=b"), "{:?}", user.texts());
    for unsafe_page in ["http://pay.test/", "https://bank.test@pay.test/", "javascript:alert(1)"] {
        let session = page(unsafe_page).attended(Arc::clone(&browser)).start().await;
        let result = buy(&session, &User::who_answers([])).await;
        assert_eq!(result.output, r#"{"action":"decline"}"#, "{unsafe_page}");
    }
}

#[tokio::test]
async fn a_call_that_needs_a_page_first_is_repeated_after_the_user_visited_it() {
    let servers = Servers::of("shop", |_, mut io| async move {
        io.offer(&json!([tool("buy")])).await;
        let call = io.call().await.unwrap();
        let page = json!({"mode": "url", "message": "Sign in", "url": "https://shop.test/", "elicitationId": "1"});
        let error = json!({"code": -32042, "message": "page", "data": {"elicitations": [page]}});
        io.write(json!({"jsonrpc": "2.0", "id": call["id"], "error": error})).await;
        io.echo().await;
    });
    let browser = Arc::<Pages>::default();
    let session = servers.attended(Arc::clone(&browser)).start().await;
    let user = User::who_answers([chosen(&["Open the page"]), chosen(&["Continue"])]);
    assert_eq!(buy(&session, &user).await.output, "{}");
    assert_eq!(browser.0.lock().unwrap().len(), 1);
}

/// Answers the discovery of a server without a handshake, and lists a tool.
async fn without_handshake(io: &mut Io) {
    let hello = io.read_method("initialize").await.unwrap();
    let error = json!({"code": -32601, "message": "unknown method"});
    io.write(json!({"jsonrpc": "2.0", "id": hello["id"], "error": error})).await;
}

async fn discovered(io: &mut Io) {
    let discover = io.read_method("server/discover").await.unwrap();
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "fake", "version": "1"},
        "ttlMs": 1000, "cacheScope": "private",
    });
    io.answer(&discover, result).await;
    let list = io.read_method("tools/list").await.unwrap();
    let result = json!({"resultType": "complete", "tools": [tool("buy")], "ttlMs": 0, "cacheScope": "private"});
    io.answer(&list, result).await;
}

#[tokio::test]
async fn a_server_without_a_handshake_gets_input_with_the_repeated_call() {
    let servers = Servers::of("shop", |number, mut io| async move {
        if number == 0 {
            return without_handshake(&mut io).await;
        }
        discovered(&mut io).await;
        let call = io.call().await.unwrap();
        let form = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}});
        let requests = json!({
            "who": {"method": "elicitation/create", "params": form},
            "where": {"method": "roots/list"},
        });
        let result = json!({"resultType": "input_required", "inputRequests": requests, "requestState": "s1"});
        io.answer(&call, result).await;
        let again = io.call().await.unwrap();
        let params = &again["params"];
        let shown = json!({"responses": params["inputResponses"], "state": params["requestState"]});
        let mut result = text_result(&shown.to_string());
        result["resultType"] = json!("complete");
        io.answer(&again, result).await;
        io.read().await;
    });
    let session = servers.attended(Arc::<Pages>::default()).start().await;
    let result = buy(&session, &User::who_answers([text("Ann")])).await;
    let shown: Value = serde_json::from_str(&result.output).unwrap();
    let who = json!({"action": "accept", "content": {"name": "Ann"}});
    let place = json!({"roots": [{"uri": "file:///p/my%20project"}]});
    assert_eq!(shown, json!({"responses": {"who": who, "where": place}, "state": "s1"}));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_awaited_and_cancelled_with_its_call() {
    let task = |status: &str| {
        json!({
            "resultType": "complete", "taskId": "t1", "status": status, "statusMessage": format!("now {status}"),
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": null, "pollIntervalMs": 500,
        })
    };
    let cancelled = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&cancelled);
    let servers = Servers::of("shop", move |number, mut io| {
        let seen = Arc::clone(&seen);
        async move {
            if number == 0 {
                return without_handshake(&mut io).await;
            }
            discovered(&mut io).await;
            let mut polls = 0;
            while let Some(message) = io.read().await {
                match message["method"].as_str() {
                    Some("tools/call") => {
                        let mut created = task("working");
                        created["resultType"] = json!("task");
                        io.answer(&message, created).await;
                    }
                    Some("tasks/get") => {
                        polls += 1;
                        let mut state = task(if polls == 2 { "completed" } else { "working" });
                        if polls == 2 {
                            state["result"] = text_result("bought");
                        }
                        io.answer(&message, state).await;
                    }
                    Some("tasks/cancel") => {
                        *seen.lock().unwrap() = true;
                        io.answer(&message, json!({"resultType": "complete"})).await;
                    }
                    _ => {}
                }
            }
        }
    });
    let session = servers.start().await;
    let user = User::who_answers([]);
    let told = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&told);
    let mut ctx = context_of(&user);
    ctx.progress = Progress::new(move |text: String| sink.lock().unwrap().push_str(&text));
    let result = call(session.tool("mcp__shop__buy").as_ref(), json!({}), &ctx).await;
    assert_eq!(result.output, "bought", "{result:?}");
    assert_eq!(*told.lock().unwrap(), "now working\n");
    // The second task is never done.
    let ctx = context_of(&user);
    let cancel = ctx.cancellation.clone();
    let tool = session.tool("mcp__shop__buy");
    let running = call(tool.as_ref(), json!({}), &ctx);
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(running, stop);
    assert!(result.is_error(), "{result:?}");
    let is_cancelled = async {
        while !*cancelled.lock().unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_cancelled).await.unwrap();
    session.tools.close().await;
}
