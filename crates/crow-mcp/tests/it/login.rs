//! Logins at a server over HTTP, with an authorization server beside it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use crow_core::{
    capability::{
        Http, HttpError, HttpReach, HttpRequest, HttpResponse, QuestionAnswer, UserQuestion,
        UserQuestions,
    },
    ids::CallId,
    mcp::{McpServerConfig, McpTransport},
    tool::{AgentContext, ToolContext, ToolResult, ToolSource as _},
    workspace::Workspace,
};
use crow_mcp::{
    AuthorizationPage, ClientKey, ConnectionContext, LoginAccess, LoginDialog, LoginError,
    LoginOutcome, LoginStorage, LoginStorageError, McpSettings, McpTools, OAuthGrant,
    RedirectListener, UserBrowser, log_in,
};
use crow_testkit::tools::{agent_context, call, tool_context};
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::support::{Fakes, text_result, tool};

const SERVER: &str = "https://mcp.test/mcp";

/// An MCP server and its authorization server, which tests change.
#[derive(Debug)]
struct World {
    /// Access tokens that the server accepts, and whether they suffice for calls.
    valid: BTreeMap<String, bool>,
    metadata: Value,
    /// The authorization server that the MCP server names.
    named_server: String,
    /// Answers to requests for tokens, in turn.
    tokens: Vec<Value>,
    /// Requests to the authorization server: URL and form.
    requests: Vec<(String, String)>,
    /// Addresses that requests could not have reached.
    restricted: Vec<String>,
    /// The redirect of the browser, after the redirect address.
    redirect: String,
    /// Pages that were opened.
    pages: Vec<String>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            valid: BTreeMap::from([("first".to_owned(), true)]),
            metadata: json!({
                "issuer": "https://auth.test",
                "authorization_endpoint": "https://auth.test/authorize",
                "token_endpoint": "https://auth.test/token",
                "registration_endpoint": "https://auth.test/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "scopes_supported": ["read", "write"],
            }),
            named_server: "https://auth.test".to_owned(),
            tokens: vec![tokens("first", "refresh-1")],
            requests: Vec::new(),
            restricted: Vec::new(),
            redirect: "?code=abc&state=STATE".to_owned(),
            pages: Vec::new(),
        }
    }
}

fn tokens(access: &str, refresh: &str) -> Value {
    json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": 3600})
}

#[derive(Debug, Clone, Default)]
struct FakeWeb(Arc<Mutex<World>>);

fn answer(status: u16, headers: &[(&str, &str)], body: &Value) -> HttpResponse {
    let headers =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let body = body.to_string().into_bytes();
    HttpResponse { status, headers, body: Box::pin(stream::iter([Ok(body)])) }
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[async_trait]
impl Http for FakeWeb {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = Url::parse(&request.url).unwrap();
        let host = url.host_str().unwrap().to_owned();
        let mut world = self.0.lock().unwrap();
        if request.reach == HttpReach::Public {
            world.restricted.push(host.clone());
        }
        if host == "mcp.test" && url.path() == "/mcp" {
            return Ok(world.serve(&request));
        }
        let body = String::from_utf8(request.body.clone()).unwrap();
        Ok(match (host.as_str(), url.path()) {
            ("mcp.test", "/.well-known/oauth-protected-resource/mcp") => answer(
                200,
                &[JSON],
                &json!({"resource": SERVER, "authorization_servers": [world.named_server]}),
            ),
            // An imposter, which says that it is another.
            ("evil.test", "/.well-known/x") => {
                let mut metadata = world.metadata.clone();
                metadata["token_endpoint"] = json!("https://evil.test/token");
                answer(200, &[JSON], &metadata)
            }
            ("auth.test", "/.well-known/oauth-authorization-server") => {
                answer(200, &[JSON], &world.metadata)
            }
            ("auth.test", "/register") => {
                world.requests.push((request.url.clone(), body));
                answer(201, &[JSON], &json!({"client_id": "crow-1", "redirect_uris": []}))
            }
            (_, "/token") => {
                world.requests.push((request.url.clone(), body));
                let tokens = world.tokens.remove(0);
                let status = if tokens.get("error").is_some() { 400 } else { 200 };
                answer(status, &[JSON], &tokens)
            }
            _ => answer(404, &[], &Value::Null),
        })
    }
}

impl World {
    fn serve(&self, request: &HttpRequest) -> HttpResponse {
        let token = request.headers.iter().find(|(name, _)| name == "authorization");
        let token = token.and_then(|(_, value)| value.strip_prefix("Bearer "));
        let Some(suffices) = token.and_then(|token| self.valid.get(token)) else {
            return answer(401, &[("www-authenticate", "Bearer scope=\"read\"")], &Value::Null);
        };
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "f", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [tool("t")]}),
            Some("tools/call") if !suffices => {
                let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
                return answer(403, &[("www-authenticate", challenge)], &Value::Null);
            }
            Some("tools/call") => text_result("called"),
            _ => return answer(202, &[], &Value::Null),
        };
        answer(200, &[JSON], &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

/// Logins in memory.
#[derive(Debug, Clone, Default)]
struct Logins {
    stored: Arc<Mutex<BTreeMap<String, String>>>,
    secrets: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl LoginStorage for Logins {
    async fn load(&self, url: &str) -> Result<Option<String>, LoginStorageError> {
        Ok(self.stored.lock().unwrap().get(url).cloned())
    }

    async fn save(&self, url: &str, login: String) -> Result<(), LoginStorageError> {
        self.stored.lock().unwrap().insert(url.to_owned(), login);
        Ok(())
    }

    async fn remove(&self, url: &str) -> Result<bool, LoginStorageError> {
        Ok(self.stored.lock().unwrap().remove(url).is_some())
    }

    async fn lock_login(&self, _url: &str) -> Result<Box<dyn Send>, LoginStorageError> {
        Ok(Box::new(()))
    }

    fn keep_secret(&self, secret: &str) {
        self.secrets.lock().unwrap().push(secret.to_owned());
    }
}

/// A browser that is redirected at once, as the world says.
#[derive(Debug, Clone)]
struct FakeBrowser(FakeWeb);

struct FakeRedirect(FakeWeb);

#[async_trait]
impl RedirectListener for FakeRedirect {
    fn redirect_uri(&self) -> &'static str {
        "http://127.0.0.1:7777/callback"
    }

    async fn wait_for_redirect(&mut self, state: &str) -> String {
        let redirect = self.0.0.lock().unwrap().redirect.replace("STATE", state);
        if redirect.is_empty() {
            return std::future::pending().await;
        }
        format!("{}{redirect}", self.redirect_uri())
    }
}

#[async_trait]
impl UserBrowser for FakeBrowser {
    async fn open(&self, url: &str) -> Result<(), String> {
        self.0.0.lock().unwrap().pages.push(url.to_owned());
        Ok(())
    }

    async fn listen(&self, _port: Option<u16>) -> Result<Box<dyn RedirectListener>, String> {
        Ok(Box::new(FakeRedirect(self.0.clone())))
    }
}

/// A user who agrees, and pastes these texts.
#[derive(Default)]
struct Agreeing {
    pasted: Mutex<Vec<String>>,
    pages: Mutex<Vec<AuthorizationPage>>,
}

#[async_trait]
impl LoginDialog for Agreeing {
    async fn confirm(&self, page: &AuthorizationPage) -> bool {
        self.pages.lock().unwrap().push(page.clone());
        true
    }

    async fn browser_failed(&self, _page: &AuthorizationPage, _why: &str) {}

    async fn read_pasted(
        &self,
        _fault: Option<&str>,
        _cancel: &CancellationToken,
    ) -> Option<String> {
        let next = self.pasted.lock().unwrap().pop();
        match next {
            Some(text) => Some(text),
            None => std::future::pending().await,
        }
    }
}

/// The parts of a test.
struct Setup {
    web: FakeWeb,
    logins: Logins,
    settings: McpSettings,
}

impl Setup {
    fn new() -> Self {
        let transport = McpTransport::Http { url: SERVER.to_owned(), headers: BTreeMap::new() };
        let settings = McpServerConfig { name: "shop".to_owned(), transport }.into();
        Self { web: FakeWeb::default(), logins: Logins::default(), settings }
    }

    fn context(&self, is_attended: bool) -> ConnectionContext {
        let browser = FakeBrowser(self.web.clone());
        ConnectionContext {
            processes: Arc::new(Fakes::none()),
            http: Arc::new(self.web.clone()),
            roots: vec!["/p".into()],
            logins: Some(LoginAccess {
                storage: Arc::new(self.logins.clone()),
                command: "crow login".to_owned(),
            }),
            browser: is_attended.then(|| Arc::new(browser) as Arc<dyn UserBrowser>),
        }
    }

    async fn log_in(&self, dialog: &Agreeing) -> Result<LoginOutcome, LoginError> {
        log_in(&self.settings, &self.context(true), dialog, &CancellationToken::new()).await
    }

    async fn refused(&self) -> String {
        self.log_in(&Agreeing::default()).await.unwrap_err().to_string()
    }

    async fn session(&self, is_attended: bool) -> McpTools {
        let context = self.context(is_attended);
        let tools = McpTools::new(vec![self.settings.clone()], None, context);
        tools.ready(&CancellationToken::new()).await;
        tools
    }

    fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.web.0.lock().unwrap())
    }
}

async fn call_tool(session: &McpTools, ctx: &ToolContext) -> ToolResult {
    call(session.tools().tools[0].as_ref(), json!({}), ctx).await
}

fn unattended() -> ToolContext {
    tool_context(agent_context(Workspace::new("/p")))
}

/// A user in a session, who opens each page.
#[derive(Debug, Default)]
struct Opening(AtomicUsize);

#[async_trait]
impl UserQuestions for Opening {
    async fn ask(
        &self,
        _call_id: &CallId,
        question: UserQuestion,
        cancellation: &CancellationToken,
    ) -> Option<QuestionAnswer> {
        if question.text.contains("Waiting for the login") {
            cancellation.cancelled().await;
            return None;
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        Some(QuestionAnswer::Chosen { labels: vec![question.choices[0].label.clone()] })
    }
}

fn attended(user: &Arc<Opening>) -> ToolContext {
    tool_context(AgentContext {
        is_attended: true,
        questions: Some(Arc::clone(user) as _),
        ..agent_context(Workspace::new("/p"))
    })
}

#[tokio::test]
async fn a_login_registers_crow_and_its_token_authorizes_calls() {
    let setup = Setup::new();
    let before = setup.session(false).await;
    let news: Vec<String> = before.take_notices().into_iter().map(|notice| notice.text).collect();
    assert_eq!(news, ["the MCP server shop is unavailable: it needs a login: crow login shop"]);
    let dialog = Agreeing::default();
    let outcome = setup.log_in(&dialog).await.unwrap();
    assert_eq!(outcome.scopes, ["read"]);
    assert_eq!(outcome.issuer.as_deref(), Some("https://auth.test"));
    let page = dialog.pages.lock().unwrap().remove(0);
    assert_eq!(page.to_string(), "at auth.test, with these permissions: read");
    let query: BTreeMap<String, String> =
        Url::parse(&page.url).unwrap().query_pairs().into_owned().collect();
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!((query["client_id"].as_str(), query["resource"].as_str()), ("crow-1", SERVER));
    let session = setup.session(false).await;
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
    // The server is on the internet, so it cannot direct requests to a private network.
    assert!(setup.world(|world| world.restricted.iter().all(|host| host == "auth.test")));
    assert!(setup.world(|world| world.restricted.contains(&"auth.test".to_owned())));
    let secrets = setup.logins.secrets.lock().unwrap().clone();
    for secret in ["abc", "first", "refresh-1"] {
        assert!(secrets.contains(&secret.to_owned()), "{secret}");
    }
}

#[tokio::test]
async fn a_rejected_token_is_renewed_once_for_parallel_calls_at_the_server_of_the_login() {
    let setup = Setup::new();
    setup.log_in(&Agreeing::default()).await.unwrap();
    let session = setup.session(false).await;
    setup.world(|world| {
        world.valid = BTreeMap::from([("second".to_owned(), true)]);
        world.tokens = vec![tokens("second", "refresh-2")];
        world.requests.clear();
        // The server now names another authorization server, which must not get the refresh token.
        world.metadata["token_endpoint"] = json!("https://evil.test/token");
        world.metadata["issuer"] = json!("https://evil.test");
    });
    let (one, other) = (unattended(), unattended());
    let (one, other) = tokio::join!(call_tool(&session, &one), call_tool(&session, &other));
    assert_eq!((one.output.as_str(), other.output.as_str()), ("called", "called"));
    let requests = setup.world(|world| world.requests.clone());
    let [(url, form)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(url, "https://auth.test/token");
    assert!(
        form.contains("refresh_token=refresh-1") && form.contains("client_id=crow-1"),
        "{form}"
    );
    let stored = setup.logins.stored.lock().unwrap()[SERVER].clone();
    assert!(stored.contains("refresh-2"), "{stored}");
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_is_forgotten_and_asked_for() {
    for error in ["invalid_grant", "invalid_client"] {
        let setup = Setup::new();
        setup.log_in(&Agreeing::default()).await.unwrap();
        let session = setup.session(false).await;
        setup.world(|world| {
            world.valid.clear();
            world.tokens = vec![json!({ "error": error })];
        });
        let result = call_tool(&session, &unattended()).await;
        assert_eq!(
            result.error.as_deref(),
            Some("the MCP server shop needs a login: crow login shop"),
            "{error}"
        );
        assert!(setup.logins.stored.lock().unwrap().is_empty(), "{error}");
    }
}

#[tokio::test]
async fn missing_permissions_are_asked_for_during_a_call_and_at_most_once() {
    let setup = Setup::new();
    setup.world(|world| world.valid = BTreeMap::from([("first".to_owned(), false)]));
    setup.log_in(&Agreeing::default()).await.unwrap();
    let session = setup.session(true).await;
    let without_user = call_tool(&session, &unattended()).await;
    assert_eq!(
        without_user.error.as_deref(),
        Some(
            "the MCP server shop needs a login with more permissions: crow login shop --scope write"
        )
    );
    // The new token suffices.
    setup.world(|world| {
        world.valid.insert("wide".to_owned(), true);
        world.tokens = vec![tokens("wide", "refresh-2")];
    });
    let user = Arc::<Opening>::default();
    assert_eq!(call_tool(&session, &attended(&user)).await.output, "called");
    assert_eq!(user.0.load(Ordering::SeqCst), 1);
    let page = setup.world(|world| world.pages.last().cloned().unwrap());
    assert!(page.contains("scope=write+read") || page.contains("scope=write+read"), "{page}");
    // A server that is never content asks once per call.
    setup.world(|world| {
        world.valid = BTreeMap::from([("wide".to_owned(), false), ("wider".to_owned(), false)]);
        world.tokens = vec![tokens("wider", "refresh-3")];
    });
    let refused = call_tool(&session, &attended(&user)).await;
    assert!(refused.error.unwrap().contains("the login does not permit this call"));
    assert_eq!(user.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn authorization_servers_that_weaken_the_login_are_refused() {
    let refused = |field: &'static str, value: Value| async move {
        let setup = Setup::new();
        setup.world(|world| world.metadata[field] = value);
        let why = setup.refused().await;
        assert!(setup.world(|world| world.pages.is_empty()), "{why}");
        why
    };
    for (field, value, expected) in [
        ("code_challenge_methods_supported", json!(["plain"]), "does not support PKCE"),
        ("code_challenge_methods_supported", Value::Null, "does not support PKCE"),
        ("token_endpoint", json!("http://auth.test/token"), "is not encrypted"),
        ("authorization_endpoint", json!("http://auth.test/authorize"), "is not encrypted"),
        ("authorization_endpoint", json!("https://bank.test@auth.test/"), "contains a user name"),
        ("issuer", json!("https://other.test"), "another authorization server than the one asked"),
    ] {
        let why = refused(field, value).await;
        assert!(why.contains(expected), "{field}: {why}");
    }
}

#[tokio::test]
async fn answers_of_another_server_or_login_are_refused() {
    let redirected = |redirect: &'static str| async move {
        let setup = Setup::new();
        setup.world(|world| {
            redirect.clone_into(&mut world.redirect);
            world.metadata["authorization_response_iss_parameter_supported"] = json!(true);
        });
        let outcome = setup.log_in(&Agreeing::default()).await;
        // The code was not sent anywhere.
        let sent =
            setup.world(|world| world.requests.iter().any(|(url, _)| url.ends_with("/token")));
        outcome.map(|_| sent).map_err(|error| (error.to_string(), sent))
    };
    assert_eq!(redirected("?code=abc&state=STATE&iss=https://auth.test").await, Ok(true));
    for (redirect, expected) in [
        ("?code=abc&state=STATE&iss=https://evil.test", "another authorization server"),
        ("?code=abc&state=STATE", "issuer"),
        ("?error=access_denied&error_description=no\u{1b}[2J&state=STATE", "access_denied: no"),
        ("?state=STATE", "without a code"),
    ] {
        let (why, sent) = redirected(redirect).await.unwrap_err();
        assert!(why.contains(expected) && !sent, "{redirect}: {why}");
    }
}

#[tokio::test]
async fn an_address_or_a_code_can_be_pasted() {
    let setup = Setup::new();
    setup.world(|world| world.redirect.clear());
    let dialog = Agreeing::default();
    // Taken from the end: an address of another login and a text without a code are asked again.
    *dialog.pasted.lock().unwrap() = vec![
        "abc".to_owned(),
        "what is it?".to_owned(),
        "http://127.0.0.1:1/callback?code=x&state=other".to_owned(),
    ];
    setup.log_in(&dialog).await.unwrap();
    let form = setup.world(|world| world.requests.last().cloned().unwrap().1);
    assert!(form.contains("code=abc"), "{form}");
}

#[tokio::test]
async fn a_server_that_needs_none_gets_no_login() {
    let mut setup = Setup::new();
    let McpTransport::Http { headers, .. } = &mut setup.settings.server.transport else { panic!() };
    headers.insert("Authorization".to_owned(), "Bearer first".to_owned());
    assert!(setup.refused().await.contains("without a header `Authorization`"));
    let session = setup.session(false).await;
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
}

const KEY: &str = include_str!("../keys/p256.pem");

/// Returns the claims of an assertion in a form; panics if there is none.
fn claims(form: &str) -> Value {
    let field = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(form.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    assert_eq!(field("client_assertion_type").as_deref(), Some(kind), "{form}");
    assert_eq!(field("client_secret"), None, "{form}");
    let assertion = field("client_assertion").unwrap();
    let [_, claims, _] = assertion.split('.').collect::<Vec<_>>()[..] else {
        panic!("{assertion}")
    };
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

impl Setup {
    /// Sets credentials with which Crow logs in by itself.
    fn without_user(mut self, secret: Option<&str>) -> Self {
        self.settings.oauth.grant = OAuthGrant::ClientCredentials;
        self.settings.oauth.client_id = Some("machine".to_owned());
        self.settings.oauth.client_secret = secret.map(str::to_owned);
        if secret.is_none() {
            self.settings.oauth.private_key = Some(ClientKey::from_pem(KEY, None).unwrap());
        }
        self
    }
}

#[tokio::test]
async fn with_a_key_a_login_and_its_renewals_are_authenticated_by_assertions() {
    let mut setup = Setup::new();
    setup.settings.oauth.client_id = Some("own".to_owned());
    setup.settings.oauth.private_key = Some(ClientKey::from_pem(KEY, None).unwrap());
    setup.log_in(&Agreeing::default()).await.unwrap();
    let session = setup.session(false).await;
    setup.world(|world| {
        world.valid = BTreeMap::from([("second".to_owned(), true)]);
        world.tokens = vec![tokens("second", "refresh-2")];
    });
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
    let requests = setup.world(|world| world.requests.clone());
    let forms: Vec<&str> = requests.iter().map(|(_, form)| form.as_str()).collect();
    assert!(forms.len() == 2 && forms[0].contains("code=abc"), "{forms:?}");
    assert!(forms[1].contains("refresh_token=refresh-1"), "{forms:?}");
    for form in forms {
        let claims = claims(form);
        assert_eq!((&claims["sub"], &claims["aud"]), (&json!("own"), &json!("https://auth.test")));
    }
}

#[tokio::test]
async fn without_a_user_crow_logs_in_by_itself_and_again_when_a_token_is_rejected() {
    for secret in [None, Some("s3cret")] {
        let setup = Setup::new().without_user(secret);
        setup.world(|world| {
            world.tokens = vec![tokens("first", ""), tokens("second", "")];
            // Servers for programs have no page, so they need no PKCE.
            world.metadata["code_challenge_methods_supported"] = Value::Null;
            world.metadata["token_endpoint_auth_methods_supported"] =
                json!(["client_secret_post", "private_key_jwt"]);
        });
        let session = setup.session(false).await;
        assert_eq!(call_tool(&session, &unattended()).await.output, "called");
        setup.world(|world| world.valid = BTreeMap::from([("second".to_owned(), true)]));
        let (one, other) = (unattended(), unattended());
        let (one, other) = tokio::join!(call_tool(&session, &one), call_tool(&session, &other));
        assert_eq!((one.output.as_str(), other.output.as_str()), ("called", "called"));
        let requests = setup.world(|world| world.requests.clone());
        assert_eq!(requests.len(), 2, "{requests:?}");
        for (_, form) in requests {
            assert!(form.contains("grant_type=client_credentials"), "{form}");
            assert!(form.contains("resource=https%3A%2F%2Fmcp.test%2Fmcp"), "{form}");
            match secret {
                Some(secret) => {
                    assert!(form.contains(&format!("client_secret={secret}")), "{form}");
                }
                None => assert_eq!(claims(&form)["iss"], "machine"),
            }
        }
    }
}

#[tokio::test]
async fn without_a_user_more_permissions_are_requested_once() {
    let setup = Setup::new().without_user(Some("s3cret"));
    setup.world(|world| {
        world.valid = BTreeMap::from([("first".to_owned(), false), ("wide".to_owned(), true)]);
        world.tokens = vec![tokens("first", ""), tokens("wide", "")];
    });
    let session = setup.session(false).await;
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
    let requests = setup.world(|world| world.requests.clone());
    assert!(requests[1].1.contains("scope=write+read"), "{requests:?}");
    setup.world(|world| {
        world.valid = BTreeMap::from([("third".to_owned(), false)]);
        world.tokens = vec![tokens("third", ""), tokens("third", "")];
    });
    let refused = call_tool(&session, &unattended()).await.error.unwrap();
    assert!(
        refused.contains("it wants more permissions than the login without a user has"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_refused_login_without_a_user_is_reported_with_its_reason() {
    let setup = Setup::new().without_user(None);
    setup.world(|world| world.tokens = vec![json!({"error": "invalid_client"})]);
    let session = setup.session(false).await;
    let news: Vec<String> = session.take_notices().into_iter().map(|notice| notice.text).collect();
    let [news] = &news[..] else { panic!("{news:?}") };
    assert_eq!(
        news,
        "the MCP server shop is unavailable: Crow cannot log in there: the authorization server refused the login: invalid_client"
    );
}

#[tokio::test]
async fn credentials_go_only_to_the_issuer_of_the_configuration() {
    let mut setup = Setup::new().without_user(Some("s3cret"));
    setup.settings.oauth.issuer = Some("https://auth.test".to_owned());
    setup.world(|world| world.named_server = "https://evil.test/.well-known/x".to_owned());
    let session = setup.session(false).await;
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
    let requests = setup.world(|world| world.requests.clone());
    let addresses: Vec<&str> = requests.iter().map(|(url, _)| url.as_str()).collect();
    assert_eq!(addresses, ["https://auth.test/token"]);
}

#[tokio::test]
async fn the_login_of_a_user_is_not_used_where_crow_logs_in_without_one() {
    let setup = Setup::new();
    setup.log_in(&Agreeing::default()).await.unwrap();
    let setup = setup.without_user(None);
    setup.world(|world| {
        world.valid.insert("machine".to_owned(), true);
        world.tokens = vec![tokens("machine", "")];
    });
    let session = setup.session(false).await;
    assert_eq!(call_tool(&session, &unattended()).await.output, "called");
    let stored = setup.logins.stored.lock().unwrap()[SERVER].clone();
    assert!(stored.contains("machine") && !stored.contains("refresh-1"), "{stored}");
}

#[tokio::test]
async fn a_fresh_token_that_is_rejected_asks_for_no_login() {
    let setup = Setup::new().without_user(None);
    setup.world(|world| world.valid.clear());
    let session = setup.session(false).await;
    let news: Vec<String> = session.take_notices().into_iter().map(|notice| notice.text).collect();
    assert_eq!(
        news,
        [
            "the MCP server shop is unavailable: it rejects the token that Crow obtained without a user"
        ]
    );
}
