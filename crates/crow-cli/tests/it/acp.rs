//! The command `acp`, which serves editors.

use crate::program::Fixture;

#[tokio::test]
async fn a_public_address_without_a_token_is_refused_before_listening() {
    let refused = Fixture::new().run(&["acp", "--listen", "0.0.0.0:0"]).await;
    refused.exited(2);
    assert!(refused.err.contains("--token-file"), "{}", refused.err);
    assert!(!refused.err.contains("serving"), "{}", refused.err);
    assert_eq!(refused.out, "");
}

#[tokio::test]
async fn acp_with_empty_input_writes_nothing_and_exits() {
    let ran = Fixture::new().run_with_input(&["acp"], "").await;
    ran.exited(0);
    assert_eq!(ran.out, "");
}
