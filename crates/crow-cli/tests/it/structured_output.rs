//! Answers that must fit a schema: `run --output-schema` and `review`.

use std::fs;

use crow_testkit::{ModelServer, ScriptedReply, WireDialect};

use crate::program::{Fixture, RunOutput};

const MODEL: &str = "anthropic/claude-sonnet-4-5";
const SCHEMA: &str = r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"], "additionalProperties": false}"#;

/// Runs the program with replies of the model, and returns the output and the requests.
async fn run_with(
    fixture: &mut Fixture,
    replies: &[&str],
    args: &[&str],
) -> (RunOutput, Vec<String>) {
    let replies = replies.iter().map(|reply| ScriptedReply::new().text(*reply)).collect::<Vec<_>>();
    let server = ModelServer::start(replies).await;
    fixture.set_env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    fixture.set_env("ANTHROPIC_BASE_URL", &server.base_url(WireDialect::AnthropicMessages));
    let ran = fixture.run(&[args, &["-m", MODEL]].concat()).await;
    let requests = server.finish().await.unwrap();
    (ran, requests.into_iter().map(|request| request.body.to_string()).collect())
}

fn with_schema() -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.project("schema.json"), SCHEMA).unwrap();
    fixture
}

const RUN: [&str; 4] = ["run", "Count the files.", "--output-schema", "schema.json"];

#[tokio::test]
async fn an_answer_that_fits_is_printed_as_json() {
    let mut fixture = with_schema();
    let (ran, requests) = run_with(&mut fixture, &["```json\n{\"count\": 3}\n```"], &RUN).await;
    ran.exited(0);
    assert_eq!(ran.out.trim(), "{\n  \"count\": 3\n}");
    assert!(requests[0].contains("It must fit this JSON Schema"));
}

#[tokio::test]
async fn a_wrong_answer_is_repaired_and_both_runs_are_in_the_result() {
    let mut fixture = with_schema();
    let args = [&RUN[..], &["-o", "json"]].concat();
    let (ran, requests) =
        run_with(&mut fixture, &["{\"count\": \"3\"}", "{\"count\": 3}"], &args).await;
    ran.exited(0);
    assert_eq!(requests.len(), 2);
    assert!(requests[1].contains("does not fit the JSON Schema") && requests[1].contains("/count"));
    let result = ran.result();
    assert_eq!(result["structured_output"]["count"], 3);
    assert_eq!(result["steps"], 2);
}

#[tokio::test]
async fn after_two_repairs_a_wrong_answer_fails_the_run() {
    let mut fixture = with_schema();
    let args = [&RUN[..], &["-o", "json"]].concat();
    let (ran, requests) = run_with(&mut fixture, &["no", "{}", "[]"], &args).await;
    ran.exited(1);
    assert_eq!(requests.len(), 3);
    let result = ran.result();
    assert!(result["error"]["message"].as_str().unwrap().contains("does not fit the schema"));
    assert_eq!(result["structured_output"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_refused_before_the_model_is_asked() {
    let mut fixture = Fixture::new();
    for (text, expected) in [
        ("{\n  \"type\":,\n}", "schema.json:2:10:"),
        ("{\"type\": \"strin\"}", "schema.json: "),
        ("{\"$ref\": \"file:///etc/passwd\"}", "another schema"),
    ] {
        fs::write(fixture.project("schema.json"), text).unwrap();
        let (ran, requests) = run_with(&mut fixture, &[], &RUN).await;
        ran.exited(2);
        assert!(requests.is_empty());
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    let (ran, _) = run_with(&mut fixture, &[], &["run", "x", "--output-schema", "gone.json"]).await;
    ran.exited(2);
}

const FINDING: &str = r#"{"findings": [{"file": "total.sh", "line": 2, "severity": "high", "confidence": 0.9, "title": "It adds nothing", "explanation": "The sum is never printed."}], "summary": "One fault."}"#;

#[tokio::test]
async fn a_review_shows_the_changes_to_a_reader_and_its_findings_to_the_user() {
    let mut fixture = Fixture::new();
    let git = |line: &str| {
        let done = fixture.shell(line).output();
        assert!(done.unwrap().status.success(), "{line}");
    };
    git("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first");
    fs::write(fixture.project("total.sh"), "sum=0\necho\n").unwrap();
    git("git add total.sh");
    let (ran, requests) = run_with(&mut fixture, &[FINDING], &["review", "--staged"]).await;
    ran.exited(8);
    assert!(ran.out.contains("total.sh:2  high, 90 % sure: It adds nothing"), "{}", ran.out);
    assert!(requests[0].contains("+sum=0"), "{}", requests[0]);
    for tool in ["write_file", "edit_file"] {
        assert!(!requests[0].contains(&format!("\"name\":\"{tool}\"")), "{tool}");
    }
    let none = r#"{"findings": [], "summary": "Fine."}"#;
    let (ran, _) = run_with(&mut fixture, &[none], &["review", "total.sh", "-o", "json"]).await;
    ran.exited(0);
    assert_eq!(ran.result()["structured_output"]["summary"], "Fine.");
}

#[tokio::test]
async fn a_review_that_cannot_see_the_changes_fails() {
    let mut fixture = Fixture::new();
    let (ran, _) = run_with(&mut fixture, &[], &["review", "--base", "typo"]).await;
    assert!(ran.exited(1).err.contains("git --no-pager diff"), "{}", ran.err);
    let (ran, _) = run_with(&mut fixture, &[], &["review", "typo.rs"]).await;
    assert!(ran.exited(2).err.contains("there is no typo.rs"), "{}", ran.err);
}

#[tokio::test]
async fn a_review_of_a_strange_base_is_refused() {
    let mut fixture = Fixture::new();
    for base in ["--output=x", ""] {
        let base = format!("--base={base}");
        let (ran, _) = run_with(&mut fixture, &[], &["review", &base]).await;
        ran.exited(2);
    }
    let (ran, _) = run_with(&mut fixture, &[], &["review", "--staged", "a.rs"]).await;
    ran.exited(2);
}
