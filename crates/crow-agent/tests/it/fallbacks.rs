//! Fallback models, which are asked when the first one cannot answer.

use crow_agent::{AcpAgent, BaseAgent};
use crow_core::{
    event::{AgentEvent, NoticeLevel, RunOutcome},
    model::{ModelRef, ProviderError, ProviderErrorKind, ResolvedModel},
};
use crow_testkit::{
    harness::{AgentHarness, HarnessOptions},
    scripted::{Play, ScriptedModel, reply, text},
};

fn named(model: &ScriptedModel, name: &str) -> ResolvedModel {
    let mut resolved = model.resolved();
    resolved.info.reference = ModelRef { provider: "spare".to_owned(), model: name.to_owned() };
    resolved
}

fn fails(kind: ProviderErrorKind) -> Play {
    Play::Fail(ProviderError::new(kind, "no"))
}

fn start(first: ScriptedModel, spares: Vec<ResolvedModel>) -> AgentHarness {
    AgentHarness::start_composed(first, HarnessOptions::default(), |agent: BaseAgent| {
        AcpAgent::solo(agent.with_fallbacks(spares))
    })
}

#[tokio::test]
async fn a_failing_model_is_replaced_for_one_turn_with_a_warning() {
    let first = ScriptedModel::new([fails(ProviderErrorKind::Quota), reply([text("I am back")])]);
    let (second, third) = (
        ScriptedModel::new([fails(ProviderErrorKind::Auth)]),
        ScriptedModel::new([reply([text("I can")])]),
    );
    let mut harness = start(first.clone(), vec![named(&second, "b"), named(&third, "c")]);
    let events = harness.run("go").await;
    let notices: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event {
            AgentEvent::Notice { level: NoticeLevel::Warning, text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices[1].ends_with("spare/c is used instead"), "{notices:?}");
    assert!(matches!(
        &events.last().unwrap().event,
        AgentEvent::RunEnd { result: RunOutcome::NeedsInput, .. }
    ));
    // The next turn begins with the first one again.
    harness.run("and now?").await;
    for model in [first, second, third] {
        model.assert_finished();
    }
}

#[tokio::test]
async fn an_invalid_request_is_not_sent_to_a_fallback_model() {
    let first = ScriptedModel::new([fails(ProviderErrorKind::InvalidRequest)]);
    let spare = ScriptedModel::new([]);
    let mut harness = start(first, vec![named(&spare, "b")]);
    let events = harness.run("go").await;
    assert!(matches!(
        &events.last().unwrap().event,
        AgentEvent::RunEnd { result: RunOutcome::Failed { .. }, .. }
    ));
    assert!(spare.requests().is_empty());
}
