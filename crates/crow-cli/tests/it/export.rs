//! The output of `sessions show` and `sessions export`.

use crow_testkit::{ScriptStep, ScriptedReply};
use serde_json::json;

use crate::undo_fixture::{MODEL, bash, with_replies};

fn call(id: &str, tool: &str, summary: &str) -> ScriptStep {
    ScriptedReply::new().call(id, tool, &json!({ "summary": summary })).into()
}

#[tokio::test]
async fn a_session_is_shown_and_exported_with_outputs_reviews_tokens_and_cost() {
    let (server, fixture) = with_replies([
        bash("c1", "echo made > new.txt; echo printed-$((40+2))"),
        call("s1", "submit_for_review", "It is made."),
        ScriptedReply::new().text("The second line is missing.").into(),
        bash("c2", "echo more >> new.txt; echo printed-$((40+3))"),
        call("s2", "submit_for_review", "It is longer."),
        bash("c3", "wc -l new.txt; echo seen-$((40+4))"),
        call("t", "task_complete", "Both lines are there."),
    ])
    .await;
    let args = ["run", "--agent", "BUILD-JUDGE", "-m", MODEL, "-p", "full-auto", "write new.txt"];
    fixture.run(&args).await.exited(0);
    let export = fixture.run(&["sessions", "export", &fixture.root()]).await;
    let show = fixture.run(&["sessions", "show", &fixture.root()]).await;
    for text in [&export.exited(0).out, &show.exited(0).out] {
        for part in [
            "printed-42",
            "printed-43",
            "The second line is missing.",
            "seen-44",
            "Both lines are there.",
            // Seven replies of 100 and 20 tokens, at 3 and 15 dollars a million.
            "700 in · 140 out · $0.0042",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Each message appears only once.
        assert_eq!(text.matches("The second line is missing.").count(), 1, "{text}");
    }
    // The JSON output has the events of all agents in order.
    let lines = fixture.run(&["sessions", "show", &fixture.root(), "-o", "json"]).await;
    let seqs: Vec<_> =
        lines.exited(0).lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    server.finish().await.unwrap();
}
