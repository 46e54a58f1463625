//! What a run is asked to do.

use std::{num::NonZeroUsize, time::Duration};

use crate::{
    task::EvalTask,
    trial::{AgentVariant, TestedProgram, TrialKey},
};

/// What a run is asked to do: each task with each agent and model, once per seed.
#[derive(Debug, Clone)]
pub struct EvalPlan {
    /// The tasks.
    pub tasks: Vec<EvalTask>,
    /// Agents and models.
    pub variants: Vec<AgentVariant>,
    /// Numbers of the repetitions.
    pub seeds: Vec<u64>,
    /// The program.
    pub program: TestedProgram,
    /// Number of trials at the same time.
    pub jobs: NonZeroUsize,
    /// What may be used.
    pub budget: EvalBudget,
}

/// What a run may use. Once a limit is reached no further trial begins; those that run are finished.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EvalBudget {
    /// Time from the start of this run.
    pub time: Option<Duration>,
    /// US dollars for all trials in the folder of the run, those of earlier runs included.
    pub money: Option<f64>,
}

impl EvalPlan {
    /// Returns the trials in their order, each with the index of its task. The repetitions come one after the other, so
    /// that a run that is cut short has tried every task equally often.
    pub(crate) fn trials(&self) -> Vec<(usize, TrialKey)> {
        let mut trials = Vec::new();
        for seed in &self.seeds {
            for (index, task) in self.tasks.iter().enumerate() {
                for variant in &self.variants {
                    let key = TrialKey {
                        task: task.name.clone(),
                        task_hash: task.hash().clone(),
                        variant: variant.clone(),
                        seed: *seed,
                    };
                    trials.push((index, key));
                }
            }
        }
        trials
    }
}
