//! The numbers of a run, per agent and model.

use serde::Serialize;

use crate::{
    run_folder::StoredRun,
    statistics::{ConfidenceInterval, wilson_interval},
    trial::{AgentVariant, TrialOutcome, TrialRecord},
};

/// The numbers of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSummary {
    /// The line of the program under test, if it is not Crow itself.
    pub other_program: Option<String>,
    /// A row per agent and model.
    pub rows: Vec<SummaryRow>,
    /// Trials that say nothing about the agent.
    pub uncounted: Vec<UncountedTrials>,
}

/// The numbers of an agent and a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryRow {
    /// Agent and model as they were asked for.
    #[serde(flatten)]
    pub variant: AgentVariant,
    /// The model that worked in all of these trials; none if there were several, or a program did not say.
    pub used_model: Option<String>,
    /// What is measured, in a few words.
    pub label: String,
    /// Number of counted trials.
    pub trials: u64,
    /// Number of those whose check passes.
    pub solved: u64,
    /// 95 % Wilson interval of the share of solved trials; none without trials.
    pub interval: Option<ConfidenceInterval>,
    /// Number of trials with exit code 0 whose check fails.
    pub false_done: u64,
    /// Number of trials with another exit code, a signal or a timeout whose check fails.
    pub stopped: u64,
    /// Number of trials whose check did not end in time.
    pub check_timed_out: u64,
    /// Number of trials whose program was ended at its time limit, whatever the check says.
    pub timed_out: u64,
    /// Model calls per trial; none if a program did not say.
    pub mean_steps: Option<f64>,
    /// Input tokens of all trials; none if a program did not say.
    pub input_tokens: Option<u64>,
    /// Output tokens of all trials; none if a program did not say.
    pub output_tokens: Option<u64>,
    /// US dollars of all trials; none if the price of one is unknown.
    pub cost_usd: Option<f64>,
    /// Seconds per trial.
    pub mean_seconds: Option<f64>,
}

/// Trials with an outcome that is not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UncountedTrials {
    /// The outcome.
    pub outcome: TrialOutcome,
    /// The tasks, sorted.
    pub tasks: Vec<String>,
    /// The reason that the last of these trials gave.
    pub message: String,
}

impl RunSummary {
    /// Counts the trials of a run.
    pub fn new(run: &StoredRun) -> Self {
        let rows = run.manifest.variants.iter().map(|variant| {
            let of_variant = run.records.iter().filter(|record| record.key.variant == *variant);
            SummaryRow::new(variant, run.manifest.label(variant), &of_variant.collect::<Vec<_>>())
        });
        let outcomes =
            [TrialOutcome::SetupFailed, TrialOutcome::AlwaysPasses, TrialOutcome::ProgramFailed];
        let uncounted = outcomes.iter().filter_map(|outcome| {
            let trials = run.records.iter().filter(|record| record.outcome == *outcome);
            let message = trials.clone().next_back()?.message.clone();
            let mut tasks: Vec<_> = trials.map(|record| record.key.task.clone()).collect();
            tasks.sort();
            tasks.dedup();
            Some(UncountedTrials { outcome: *outcome, tasks, message })
        });
        Self {
            other_program: run.manifest.other_program().map(str::to_owned),
            rows: rows.collect(),
            uncounted: uncounted.collect(),
        }
    }
}

impl SummaryRow {
    fn new(variant: &AgentVariant, label: String, records: &[&TrialRecord]) -> Self {
        let counted: Vec<_> =
            records.iter().copied().filter(|record| record.outcome.is_counted()).collect();
        let with = |outcome: TrialOutcome| {
            counted.iter().filter(|record| record.outcome == outcome).count() as u64
        };
        let trials = counted.len() as u64;
        let solved = with(TrialOutcome::Solved);
        // A sum over some of the trials would look like that of all.
        let sum = |value: fn(&TrialRecord) -> Option<f64>| {
            let values: Option<Vec<f64>> = counted.iter().map(|record| value(record)).collect();
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>())
        };
        let tokens = |value: fn(&TrialRecord) -> Option<u64>| {
            let values: Option<Vec<u64>> = counted.iter().map(|record| value(record)).collect();
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
        };
        #[expect(clippy::cast_precision_loss, reason = "counts of trials are far below 2^52")]
        let mean = |sum: Option<f64>| sum.map(|sum| sum / trials as f64);
        Self {
            variant: variant.clone(),
            used_model: only_model(&counted),
            label,
            trials,
            solved,
            interval: wilson_interval(solved, trials),
            false_done: with(TrialOutcome::FalseDone),
            stopped: with(TrialOutcome::Stopped),
            check_timed_out: with(TrialOutcome::CheckTimedOut),
            timed_out: counted.iter().filter(|record| record.timed_out).count() as u64,
            mean_steps: mean(sum(|record| record.usage.steps.map(f64::from))),
            input_tokens: tokens(|record| record.usage.input_tokens),
            output_tokens: tokens(|record| record.usage.output_tokens),
            cost_usd: sum(|record| record.usage.cost_usd),
            mean_seconds: mean(sum(|record| Some(record.seconds))),
        }
    }
}

/// Returns the model of all trials, if it is the same.
fn only_model(records: &[&TrialRecord]) -> Option<String> {
    let (first, others) = records.split_first()?;
    let is_same = others.iter().all(|record| record.used_model == first.used_model);
    first.used_model.clone().filter(|_| is_same)
}
