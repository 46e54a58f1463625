//! Comparison of two runs on the same tasks, pair by pair.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    report::{columns, percent},
    run_folder::StoredRun,
    statistics::mcnemar_exact,
    task::TaskHash,
    trial::{AgentVariant, TrialOutcome, TrialRecord},
};

/// The comparison of two runs, per pair of agents and models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// The comparisons.
    pub pairs: Vec<VariantComparison>,
}

/// The comparison of two agents and models on the trials that both have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantComparison {
    /// Agent and model of the first run, or its program.
    pub first: String,
    /// Agent and model of the second run, or its program.
    pub second: String,
    /// Number of pairs: same task, same seed, counted in both runs.
    pub pairs: u64,
    /// Number of pairs that both solved.
    pub both_solved: u64,
    /// Pairs that only the first solved, as task and seed.
    pub only_first: Vec<(String, u64)>,
    /// Pairs that only the second solved, as task and seed.
    pub only_second: Vec<(String, u64)>,
    /// Number of false dones in the first run, among the pairs.
    pub false_done_first: u64,
    /// Number of false dones in the second run, among the pairs.
    pub false_done_second: u64,
    /// Two-sided p-value of the exact `McNemar` test.
    pub p_value: f64,
    /// Number of trials without a partner that is counted.
    pub unpaired: u64,
}

/// Error for runs that cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Both runs have several agents and models, and none of them is the same.
    #[error("the runs have no agent and model in common: {first} and {second}")]
    NothingInCommon {
        /// Those of the first run.
        first: String,
        /// Those of the second run.
        second: String,
    },
    /// The runs have no trial of the same task.
    #[error(
        "the runs have no task in common that is counted in both; a task that has changed is another task"
    )]
    NoPairs,
}

impl RunComparison {
    /// Compares two runs. If each has a single agent and model, these are compared; else those that both runs have.
    ///
    /// # Errors
    /// Fails if there is nothing to compare.
    pub fn new(first: &StoredRun, second: &StoredRun) -> Result<Self, CompareError> {
        let (of_first, of_second) = (&first.manifest.variants, &second.manifest.variants);
        let chosen: Vec<(&AgentVariant, &AgentVariant)> =
            match (of_first.as_slice(), of_second.as_slice()) {
                ([one], [other]) => vec![(one, other)],
                _ => of_first
                    .iter()
                    .filter(|variant| of_second.contains(variant))
                    .map(|variant| (variant, variant))
                    .collect(),
            };
        if chosen.is_empty() {
            let names = |variants: &[AgentVariant]| {
                variants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            return Err(CompareError::NothingInCommon {
                first: names(of_first),
                second: names(of_second),
            });
        }
        let pairs: Vec<_> = chosen
            .into_iter()
            .map(|(one, other)| VariantComparison::new((first, one), (second, other)))
            .collect();
        if pairs.iter().all(|pair| pair.pairs == 0) {
            return Err(CompareError::NoPairs);
        }
        Ok(Self { pairs })
    }

    /// Returns the comparison for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for pair in &self.pairs {
            text.push_str(&pair.to_text());
        }
        text
    }
}

type TrialIdentity<'a> = (&'a str, &'a TaskHash, u64);

fn counted<'a>(
    run: &'a StoredRun,
    variant: &AgentVariant,
) -> BTreeMap<TrialIdentity<'a>, &'a TrialRecord> {
    let chosen = run
        .records
        .iter()
        .filter(|record| record.key.variant == *variant && record.outcome.is_counted());
    chosen
        .map(|record| ((record.key.task.as_str(), &record.key.task_hash, record.key.seed), record))
        .collect()
}

impl VariantComparison {
    fn new(
        (first_run, first): (&StoredRun, &AgentVariant),
        (second_run, second): (&StoredRun, &AgentVariant),
    ) -> Self {
        let (ones, others) = (counted(first_run, first), counted(second_run, second));
        let mut comparison = Self {
            first: first_run.manifest.label(first),
            second: second_run.manifest.label(second),
            pairs: 0,
            both_solved: 0,
            only_first: Vec::new(),
            only_second: Vec::new(),
            false_done_first: 0,
            false_done_second: 0,
            p_value: 1.0,
            unpaired: 0,
        };
        for (identity, one) in &ones {
            let Some(other) = others.get(identity) else { continue };
            comparison.pairs += 1;
            let name = || (one.key.task.clone(), one.key.seed);
            let is_solved = |record: &TrialRecord| record.outcome == TrialOutcome::Solved;
            match (is_solved(one), is_solved(other)) {
                (true, true) => comparison.both_solved += 1,
                (true, false) => comparison.only_first.push(name()),
                (false, true) => comparison.only_second.push(name()),
                (false, false) => {}
            }
            let is_false = |record: &TrialRecord| record.outcome == TrialOutcome::FalseDone;
            comparison.false_done_first += u64::from(is_false(one));
            comparison.false_done_second += u64::from(is_false(other));
        }
        comparison.unpaired = (ones.len() + others.len()) as u64 - 2 * comparison.pairs;
        comparison.p_value =
            mcnemar_exact(comparison.only_first.len() as u64, comparison.only_second.len() as u64);
        comparison
    }

    fn to_text(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "counts of trials are far below 2^52")]
        let rate = |solved: u64| match self.pairs {
            0 => "-".to_owned(),
            pairs => percent(solved as f64 / pairs as f64),
        };
        let line = |name: &str, label: &str, only: usize, false_done: u64| {
            let solved = self.both_solved + only as u64;
            vec![
                name.to_owned(),
                label.to_owned(),
                self.pairs.to_string(),
                solved.to_string(),
                rate(solved),
                only.to_string(),
                false_done.to_string(),
            ]
        };
        let headings = ["run", "measured", "pairs", "solved", "rate", "only here", "false done"];
        let mut text = columns(
            &[
                headings.map(str::to_owned).to_vec(),
                line("A", &self.first, self.only_first.len(), self.false_done_first),
                line("B", &self.second, self.only_second.len(), self.false_done_second),
            ],
            2,
        );
        for (run, only) in [("A", &self.only_first), ("B", &self.only_second)] {
            if !only.is_empty() {
                let names = only.iter().map(|(task, seed)| format!("{task} (seed {seed})"));
                let names = names.collect::<Vec<_>>().join(", ");
                let _ = writeln!(text, "only {run}: {names}");
            }
        }
        let verdict = if self.p_value < 0.05 {
            "significant at 5 %"
        } else {
            "not significant at 5 %: the difference may be chance"
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "McNemar, exact: p = {}; {verdict}", p_text(self.p_value));
        let _ = match self.unpaired {
            0 => Ok(()),
            1 => writeln!(text, "1 trial has no partner and is left out"),
            count => writeln!(text, "{count} trials have no partner and are left out"),
        };
        text
    }
}

fn p_text(p_value: f64) -> String {
    if p_value < 0.001 { format!("{p_value:.1e}") } else { format!("{p_value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        run_folder::sample_run,
        trial::TrialOutcome::{FalseDone, SetupFailed, Solved, Stopped},
    };

    #[test]
    fn pairs_are_trials_of_the_same_task_and_seed_that_count_in_both_runs() {
        let first = sample_run(
            &["m"],
            &[("a", "m", Solved), ("b", "m", Solved), ("c", "m", FalseDone), ("d", "m", Solved)],
        );
        let second = sample_run(
            &["n"],
            &[
                ("a", "n", Solved),
                ("b", "n", Stopped),
                ("c", "n", FalseDone),
                ("d", "n", SetupFailed),
            ],
        );
        let comparison = RunComparison::new(&first, &second).unwrap();
        let [pair] = comparison.pairs.as_slice() else { panic!("{comparison:?}") };
        assert_eq!((pair.pairs, pair.both_solved, pair.unpaired), (3, 1, 1));
        assert_eq!((&pair.only_first[..], pair.only_second.len()), (&[("b".to_owned(), 1)][..], 0));
        assert_eq!((pair.false_done_first, pair.false_done_second), (1, 1));
        let expected = "run  measured  pairs  solved  rate  only here  false done\n\
                        A    m             3       2  67 %          1           1\n\
                        B    n             3       1  33 %          0           1\n\
                        only A: b (seed 1)\n\
                        McNemar, exact: p = 1.000; not significant at 5 %: the difference may be chance\n\
                        1 trial has no partner and is left out\n";
        assert_eq!(comparison.to_text(), expected);
    }

    #[test]
    fn runs_with_several_models_are_compared_model_by_model() {
        let first = sample_run(&["m", "n"], &[("a", "m", Solved), ("a", "n", Solved)]);
        let second = sample_run(&["n", "o"], &[("a", "n", Stopped), ("a", "o", Solved)]);
        let comparison = RunComparison::new(&first, &second).unwrap();
        let labels: Vec<_> = comparison
            .pairs
            .iter()
            .map(|pair| (pair.first.as_str(), pair.second.as_str()))
            .collect();
        assert_eq!(labels, [("n", "n")]);
        let third = sample_run(&["x", "y"], &[("a", "x", Solved)]);
        assert_eq!(
            RunComparison::new(&first, &third),
            Err(CompareError::NothingInCommon {
                first: "m, n".to_owned(),
                second: "x, y".to_owned()
            })
        );
        let other_task = sample_run(&["n"], &[("b", "n", Solved)]);
        assert_eq!(RunComparison::new(&first, &other_task), Err(CompareError::NoPairs));
    }
}
