//! The command that serves editors.

use crate::program::Place;

#[tokio::test]
async fn an_address_that_others_reach_is_refused_without_a_token_before_anything_listens() {
    let refused = Place::new().run(&["acp", "--listen", "0.0.0.0:0"]).await;
    refused.exited(2);
    assert!(refused.err.contains("--token-file"), "{}", refused.err);
    assert!(!refused.err.contains("serving"), "{}", refused.err);
    assert_eq!(refused.out, "");
}

#[tokio::test]
async fn an_editor_that_says_nothing_gets_nothing_and_the_program_ends() {
    let ran = Place::new().run_with_input(&["acp"], "").await;
    ran.exited(0);
    assert_eq!(ran.out, "");
}
