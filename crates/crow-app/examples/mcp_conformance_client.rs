//! The client under test of the conformance suite of the Model Context Protocol.
//!
//! The suite starts this program with the URL of its server as last argument, and names the scenario in
//! `MCP_CONFORMANCE_SCENARIO`. The program logs in where the server wants it, lists the tools, and calls each of them, as a
//! session of Crow does. Questions are answered with the first choice. The user's part of a login is done by the program
//! in `BROWSER`, which must follow redirects: `BROWSER="curl -sL -o /dev/null"`.

#![expect(clippy::disallowed_methods, reason = "a program of its own, which the suite starts")]

use std::{collections::BTreeMap, env, error::Error, io::Write as _, sync::Arc};

use async_trait::async_trait;
use crow_app::{
    ProcessEnvironment,
    mcp::{CredentialLogins, McpLaunch, SystemBrowser},
    trust,
};
use crow_core::{
    capability::{QuestionAnswer, UserQuestion, UserQuestions},
    ids::CallId,
    mcp::{McpServerConfig, McpTransport},
    tool::{AgentContext, ToolSource as _},
    workspace::Workspace,
};
use crow_mcp::{
    AuthorizationPage, ClientKey, LoginDialog, LoginError, McpSettings, McpTools, OAuthGrant,
    OAuthSettings, log_in,
};
use crow_providers::{HttpClient, Proxies};
use crow_testkit::tools::{agent_context, call, tool_context};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A user who always takes the first choice.
#[derive(Debug)]
struct FirstChoice;

#[async_trait]
impl UserQuestions for FirstChoice {
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
        let first = question.choices.first().map(|choice| choice.label.clone());
        Some(match first {
            Some(label) => QuestionAnswer::Chosen { labels: vec![label] },
            None => QuestionAnswer::Text { text: "text".to_owned() },
        })
    }
}

/// A login without questions: the browser does it all.
struct SilentDialog;

#[async_trait]
impl LoginDialog for SilentDialog {
    async fn confirm(&self, _page: &AuthorizationPage) -> bool {
        true
    }

    async fn browser_failed(&self, page: &AuthorizationPage, why: &str) {
        drop(writeln!(std::io::stderr(), "{}: {why}", page.url));
    }

    async fn read_pasted(
        &self,
        _fault: Option<&str>,
        _cancel: &CancellationToken,
    ) -> Option<String> {
        std::future::pending().await
    }
}

/// Arguments that fit the schema of a tool.
fn arguments(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object).cloned();
    let argument = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let arguments = properties.unwrap_or_default().into_iter();
    arguments
        .map(|(name, schema)| (name, argument(&schema)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().next_back().ok_or("the URL of a server is missing")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context: Value = env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let home = tempfile::tempdir()?;
    let home_text = home.path().display().to_string();
    let browser = env::var("BROWSER").unwrap_or_default();
    let path = env::var("PATH").unwrap_or_default();
    let environment = ProcessEnvironment::with([
        ("HOME", home_text.as_str()),
        ("BROWSER", browser.as_str()),
        ("PATH", path.as_str()),
    ]);
    let launch = McpLaunch::new(
        environment.clone(),
        HttpClient::new(Proxies::default()),
        BTreeMap::<String, String>::new(),
    )
    .with_browser(Arc::new(SystemBrowser::new(&environment)));
    let outside = launch.connection_context(vec![home.path().into()], &trust::Project::default());
    drop(CredentialLogins::new(&environment)?);
    let server = McpServerConfig {
        name: "conformance".to_owned(),
        transport: McpTransport::Http { url, headers: BTreeMap::new() },
    };
    let is_without_user = scenario.starts_with("auth/client-credentials");
    let key = text("private_key_pem").map(|key| ClientKey::from_pem(&key, None)).transpose()?;
    let settings = McpSettings {
        oauth: OAuthSettings {
            private_key: key,
            grant: if is_without_user {
                OAuthGrant::ClientCredentials
            } else {
                OAuthGrant::AuthorizationCode
            },
            client_id: text("client_id"),
            client_secret: text("client_secret"),
            client_metadata_url: Some(
                "https://conformance-test.local/client-metadata.json".to_owned(),
            ),
            ..OAuthSettings::default()
        },
        ..McpSettings::from(server)
    };
    let cancel = CancellationToken::new();
    if scenario.starts_with("auth/") {
        match log_in(&settings, &outside, &SilentDialog, &cancel).await {
            Ok(outcome) => writeln!(std::io::stderr(), "logged in: {outcome:?}")?,
            Err(LoginError::NotNeeded) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let source = McpTools::new(vec![settings], None, outside);
    source.ready(&cancel).await;
    let agent = agent_context(Workspace::new(home.path()));
    let ctx = tool_context(AgentContext {
        is_attended: true,
        questions: Some(Arc::new(FirstChoice)),
        ..agent
    });
    for notice in source.take_notices() {
        writeln!(std::io::stderr(), "{}", notice.text)?;
    }
    for tool in source.tools().tools.iter() {
        let result = call(tool.as_ref(), arguments(&tool.parameters_schema()), &ctx).await;
        writeln!(std::io::stderr(), "{}: {:?} {}", tool.name(), result.status, result.output)?;
    }
    source.close().await;
    Ok(())
}
