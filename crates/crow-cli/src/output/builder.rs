//! Accumulates a report from the events of a run.

use std::collections::HashMap;

use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION, RunOutcome},
    ids::SessionId,
    model::{ModelRef, Price},
    usage::TokenUsage,
};

use super::{
    ErrorReport, ExitCode, ReportOutcome, RunFacts, RunReport, UsageReport, advice,
    run_so_far::{RunSoFar, model_of},
};

/// Accumulates a report from the events of a run, those of its children included.
///
/// A new run of the root session starts a new report. Other agents count only in what they used, changed and were
/// refused: how the run ended and what the answer is are the root session's to say.
#[derive(Debug, Default)]
pub struct ReportBuilder {
    session: Option<SessionId>,
    model: Option<String>,
    prices: HashMap<ModelRef, Price>,
    run: RunSoFar,
    /// What the caller says, which goes before what the events say.
    verdict: Option<(ExitCode, ErrorReport)>,
}

impl ReportBuilder {
    /// Makes a builder that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in an event.
    pub fn on_event(&mut self, envelope: &Envelope) {
        if self.session.is_none() {
            self.session = Some(envelope.root_id.clone());
        }
        if envelope.is_root() {
            self.on_root_event(envelope);
        }
        self.run.on_event(envelope);
    }

    /// The process was told to stop.
    pub fn on_interrupt(&mut self) {
        self.verdict = Some((ExitCode::Interrupted, advice::interrupted(self.session_id())));
    }

    /// The run failed in a way that no event tells.
    pub fn on_failure(&mut self, code: ExitCode, error: ErrorReport) {
        self.verdict = Some((code, error));
    }

    /// Returns the models that were called, whose prices are to be looked up.
    pub fn models(&self) -> Vec<ModelRef> {
        self.run.usage().into_keys().flatten().cloned().collect()
    }

    /// Learns what a model costs.
    pub fn set_price(&mut self, model: ModelRef, price: Price) {
        self.prices.insert(model, price);
    }

    /// Reports what is known.
    pub fn report(&self) -> RunReport {
        let (code, error) = self.code_and_error();
        let (outcome, summary, verified) = self.outcome(code);
        let said = self.run.text();
        let text = if said.is_empty() { summary.as_deref().unwrap_or_default() } else { said };
        RunReport {
            schema_version: FORMAT_VERSION,
            session_id: self.session.as_ref().map(ToString::to_string),
            outcome,
            exit_code: code.number(),
            text: text.to_owned(),
            summary,
            verified,
            turns: self.run.turns,
            steps: self.run.steps,
            usage: self.usage(),
            duration_ms: self.run.duration_ms(),
            model: self.model.clone(),
            files_changed: self.run.files(),
            refusals: self.run.refusals.clone(),
            failures: self.run.failures.iter().cloned().collect(),
            error,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`RunSoFar::on_event` names all events")]
    fn on_root_event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::RunStart { .. } => {
                self.run = RunSoFar::default();
                self.verdict = None;
            }
            AgentEvent::SessionStart { model, .. } => self.model = Some(model.clone()),
            AgentEvent::Reply { origin, .. } => self.model = Some(model_of(origin).to_string()),
            _ => {}
        }
    }

    fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(SessionId::as_str)
    }

    fn outcome(&self, code: ExitCode) -> (ReportOutcome, Option<String>, bool) {
        if self.verdict.is_some() {
            let interrupted = code == ExitCode::Interrupted;
            let outcome =
                if interrupted { ReportOutcome::Cancelled } else { ReportOutcome::Failed };
            return (outcome, None, false);
        }
        match &self.run.outcome {
            Some(RunOutcome::Completed { summary, verified }) => {
                (ReportOutcome::Completed, Some(summary.clone()), *verified)
            }
            Some(RunOutcome::NeedsInput) => (ReportOutcome::NeedsInput, None, false),
            Some(RunOutcome::Stopped { .. }) => (ReportOutcome::Stopped, None, false),
            Some(RunOutcome::Cancelled) => (ReportOutcome::Cancelled, None, false),
            Some(RunOutcome::Failed { .. }) | None => (ReportOutcome::Failed, None, false),
        }
    }

    fn code_and_error(&self) -> (ExitCode, Option<ErrorReport>) {
        if let Some((code, error)) = &self.verdict {
            return (*code, Some(error.clone()));
        }
        let run = &self.run;
        let code = ExitCode::of(&RunFacts {
            outcome: run.outcome.as_ref(),
            last_turn: run.last_turn.as_ref(),
            provider_error: run.provider_error.as_ref().map(|error| error.kind),
            refused: run.refused().is_some(),
        });
        let error = match code {
            ExitCode::Done => None,
            ExitCode::Interrupted => Some(advice::interrupted(self.session_id())),
            ExitCode::Limit => {
                Some(run.end().map_or_else(|| run.failure(ExitCode::Failed), advice::limit))
            }
            ExitCode::Refused => run.refused().map(advice::refused),
            ExitCode::Failed | ExitCode::Usage | ExitCode::Credentials | ExitCode::Provider => {
                let provider = run.provider_error.as_ref().map(advice::provider);
                Some(provider.unwrap_or_else(|| run.failure(code)))
            }
        };
        (code, error)
    }

    fn usage(&self) -> UsageReport {
        usage(&self.run, |model| self.prices.get(model).copied())
    }
}

/// Sums up what the models of all runs were asked for, in the events of a session and of those below it.
pub(crate) fn usage_of(events: &[Envelope], prices: &[(ModelRef, Price)]) -> UsageReport {
    let mut all = RunSoFar::default();
    for envelope in events {
        all.on_event(envelope);
    }
    usage(&all, |model| prices.iter().find(|(known, _)| known == model).map(|(_, price)| *price))
}

/// Returns the models that replied.
pub(crate) fn models_of(events: &[Envelope]) -> Vec<ModelRef> {
    let mut builder = ReportBuilder::new();
    for envelope in events {
        builder.run.on_event(envelope);
    }
    builder.models()
}

fn usage(run: &RunSoFar, price_of: impl Fn(&ModelRef) -> Option<Price>) -> UsageReport {
    let mut tokens = TokenUsage::default();
    let mut cost = None;
    for (index, (model, usage)) in run.usage().into_iter().enumerate() {
        tokens += usage;
        let price = model.and_then(&price_of);
        let so_far = if index == 0 { Some(0.0) } else { cost };
        cost = so_far.zip(price).map(|(sum, price)| sum + price.cost(&usage));
    }
    UsageReport { tokens, cost_usd: cost }
}
