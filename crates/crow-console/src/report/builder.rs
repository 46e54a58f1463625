//! Builds the report of a run from its events.

use std::collections::HashMap;

use crow_core::{
    event::{AgentEvent, Envelope, FORMAT_VERSION, RunOutcome},
    ids::SessionId,
    model::{ModelRef, Models, Price},
    usage::TokenUsage,
};

use super::{
    ErrorReport, ExitCode, ProgramHints, ReportOutcome, RunFacts, RunReport, UsageReport, advice,
    run_state::{RunState, model_of},
};

/// Builds the report of a run from the events of all its sessions.
///
/// A new run of the root session starts a new report. Other agents contribute usage, changed files, refusals and
/// failures; outcome and answer come from the root session alone.
#[derive(Debug, Default)]
pub struct ReportBuilder {
    session: Option<SessionId>,
    model: Option<String>,
    prices: HashMap<ModelRef, Price>,
    run: RunState,
    /// Options and commands of the program that advice may name.
    hints: ProgramHints,
    /// Code and error set by the caller; they take precedence over the events.
    verdict: Option<(ExitCode, ErrorReport)>,
}

impl ReportBuilder {
    /// Creates a builder without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the options and commands of the program that advice may name.
    #[must_use]
    pub fn with_hints(self, hints: ProgramHints) -> Self {
        Self { hints, ..self }
    }

    /// Adds an event to the report.
    pub fn on_event(&mut self, envelope: &Envelope) {
        if self.session.is_none() {
            self.session = Some(envelope.root_id.clone());
        }
        if envelope.is_root() {
            self.on_root_event(envelope);
        }
        self.run.on_event(envelope);
    }

    /// Records that a signal interrupted the process.
    pub fn on_interrupt(&mut self) {
        let error = advice::interrupt_error(self.session_id(), &self.hints);
        self.verdict = Some((ExitCode::Interrupted, error));
    }

    /// Records a failure that no event reports.
    pub fn on_failure(&mut self, code: ExitCode, error: ErrorReport) {
        self.verdict = Some((code, error));
    }

    /// Returns the models that were called; the caller looks up their prices.
    pub fn models(&self) -> Vec<ModelRef> {
        self.run.usage().into_keys().flatten().cloned().collect()
    }

    /// Sets the price of a model.
    pub fn set_price(&mut self, model: ModelRef, price: Price) {
        self.prices.insert(model, price);
    }

    /// Returns the report of the events so far.
    pub fn report(&self) -> RunReport {
        let (code, error) = self.code_and_error();
        let (outcome, summary, verified) = self.outcome(code);
        let reply = self.run.text();
        let text = if reply.is_empty() { summary.as_deref().unwrap_or_default() } else { reply };
        RunReport {
            schema_version: FORMAT_VERSION,
            session_id: self.session.as_ref().map(ToString::to_string),
            outcome,
            exit_code: code.number(),
            text: text.to_owned(),
            structured_output: None,
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
            assessment: self.run.assessment.clone().filter(|_| self.verdict.is_none()),
            error,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "`RunSoFar::on_event` names all events")]
    fn on_root_event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::RunStart { .. } => {
                self.run = RunState::default();
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
        let code = ExitCode::from_facts(&RunFacts {
            outcome: run.outcome.as_ref(),
            last_turn: run.last_turn.as_ref(),
            provider_error: run.provider_error.as_ref().map(|error| error.kind),
            refused: run.refused().is_some(),
            end: run.assessment.as_ref().map(|assessment| assessment.kind),
        });
        let error = match code {
            ExitCode::Done | ExitCode::Findings => None,
            ExitCode::Interrupted => Some(advice::interrupt_error(self.session_id(), &self.hints)),
            ExitCode::Limit => Some(run.deciding_turn_end().map_or_else(
                || run.failure(ExitCode::Failed),
                |end| advice::limit_error(end, &self.hints),
            )),
            ExitCode::Stopped => run.assessment.as_ref().map(|assessment| {
                advice::stopped_error(assessment, self.session_id(), &self.hints)
            }),
            ExitCode::Refused => run.refused().map(|call| advice::refusal_error(call, &self.hints)),
            ExitCode::Failed | ExitCode::Usage | ExitCode::Credentials | ExitCode::Provider => {
                let provider = run
                    .provider_error
                    .as_ref()
                    .map(|error| advice::provider_error(error, &self.hints));
                Some(provider.unwrap_or_else(|| run.failure(code)))
            }
        };
        (code, error)
    }

    fn usage(&self) -> UsageReport {
        usage(&self.run, |model| self.prices.get(model).copied())
    }
}

/// Sums the usage of all runs in the events of a session and its descendants.
pub fn usage_of(events: &[Envelope], prices: &[(ModelRef, Price)]) -> UsageReport {
    let mut all = RunState::default();
    for envelope in events {
        all.on_event(envelope);
    }
    usage(&all, |model| prices.iter().find(|(priced, _)| priced == model).map(|(_, price)| *price))
}

/// Returns the prices of the models that replied in the events, as far as they are known. Makes no request.
pub async fn prices_of(events: &[Envelope], models: &dyn Models) -> Vec<(ModelRef, Price)> {
    let mut builder = ReportBuilder::new();
    for envelope in events {
        builder.run.on_event(envelope);
    }
    let mut prices = Vec::new();
    for model in builder.models() {
        if let Some(price) = models.price(&model).await {
            prices.push((model, price));
        }
    }
    prices
}

/// Sums tokens and cost over all models. The cost is `None` if no model was used or the price of one is unknown.
fn usage(run: &RunState, price_of: impl Fn(&ModelRef) -> Option<Price>) -> UsageReport {
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
