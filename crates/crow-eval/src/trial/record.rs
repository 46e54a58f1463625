//! What a trial is called, and how it ended.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::task::TaskHash;

/// The agent and the model of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentVariant {
    /// The agent; without it the default of the configuration.
    pub agent: Option<String>,
    /// The model as `provider/model`; without it the default of the configuration.
    pub model: Option<String>,
}

impl fmt::Display for AgentVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.agent, &self.model) {
            (Some(agent), Some(model)) => write!(f, "{agent} with {model}"),
            (Some(agent), None) => f.write_str(agent),
            (None, Some(model)) => f.write_str(model),
            (None, None) => f.write_str("default"),
        }
    }
}

/// What identifies a trial in a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// Name of the task.
    pub task: String,
    /// Hash of the task.
    pub task_hash: TaskHash,
    /// Agent and model.
    #[serde(flatten)]
    pub variant: AgentVariant,
    /// Number of the repetition.
    pub seed: u64,
}

impl TrialKey {
    /// Returns the name of the trial's folder: readable, and different for different trials.
    pub(crate) fn folder_name(&self) -> String {
        let mut text: String = format!("{} {}", self.task, self.variant)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        text.truncate(80);
        let mut hasher = blake3::Hasher::new();
        for part in [
            self.task.as_str(),
            self.variant.agent.as_deref().unwrap_or(""),
            self.variant.model.as_deref().unwrap_or(""),
        ] {
            crate::folder_copy::add_part(&mut hasher, part.as_bytes());
        }
        format!("{text}-{}-{}", self.seed, &hasher.finalize().to_hex()[..8])
    }
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// The check passes.
    Solved,
    /// The program ended with exit code 0, and the check fails.
    FalseDone,
    /// The program ended with another code, by a signal or at its time limit, and the check fails.
    Stopped,
    /// The check did not end in time.
    CheckTimedOut,
    /// The task is invalid: its check passes before the program has done anything. Not counted.
    AlwaysPasses,
    /// The files of the task could not be set up. Not counted, and tried again by the next run.
    SetupFailed,
    /// The program could not work: wrong usage or configuration, no credentials, no answer from the provider. Not
    /// counted, and tried again by the next run.
    ProgramFailed,
}

impl TrialOutcome {
    /// Returns true if the trial counts in rates.
    pub fn is_counted(self) -> bool {
        match self {
            Self::Solved | Self::FalseDone | Self::Stopped | Self::CheckTimedOut => true,
            Self::AlwaysPasses | Self::SetupFailed | Self::ProgramFailed => false,
        }
    }

    /// Returns true if the next run need not try again.
    pub fn is_final(self) -> bool {
        self.is_counted() || self == Self::AlwaysPasses
    }

    /// Returns the words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::FalseDone => "false done",
            Self::Stopped => "stopped",
            Self::CheckTimedOut => "check timed out",
            Self::AlwaysPasses => "invalid: the check always passes",
            Self::SetupFailed => "set-up failed",
            Self::ProgramFailed => "the program could not work",
        }
    }
}

/// What a program says it used. A program without JSON output says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialUsage {
    /// Model calls that were answered.
    pub steps: Option<u32>,
    /// Input tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// The part of the input tokens that was read from the provider's cache.
    pub cache_read_tokens: Option<u64>,
    /// Price in US dollars, if it is known.
    pub cost_usd: Option<f64>,
}

/// The result of a trial: a line of `results.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// The trial.
    #[serde(flatten)]
    pub key: TrialKey,
    /// How it ended.
    pub outcome: TrialOutcome,
    /// Exit code of the program; none if it did not run or was ended by a signal.
    pub exit_code: Option<i32>,
    /// True if the program was ended at its time limit.
    pub timed_out: bool,
    /// The model that worked, as the program says.
    #[serde(default)]
    pub used_model: Option<String>,
    /// What it used.
    #[serde(flatten)]
    pub usage: TrialUsage,
    /// Run time of the program in seconds.
    pub seconds: f64,
    /// The end of the failed check's, set-up's or program's output, in one line.
    pub message: String,
    /// Folder with the outputs, relative to the run's folder; empty if there are none.
    pub log: String,
    /// When the trial began.
    pub started: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(task: &str, agent: Option<&str>, seed: u64) -> TrialKey {
        let hash = serde_json::from_str("\"0\"").unwrap();
        let variant = AgentVariant { agent: agent.map(str::to_owned), model: None };
        TrialKey { task: task.to_owned(), task_hash: hash, variant, seed }
    }

    #[test]
    fn folder_names_are_plain_and_different() {
        let keys = [
            key("a/b", None, 1),
            key("a_b", None, 1),
            key("a b", None, 1),
            key("a/b", Some("X"), 1),
            key("a/b", None, 2),
            key(&"é".repeat(200), None, 1),
            key("../..", None, 1),
        ];
        let names: std::collections::BTreeSet<_> = keys.iter().map(TrialKey::folder_name).collect();
        assert_eq!(names.len(), keys.len());
        for name in names {
            assert!(name.len() < 120 && !name.contains(['/', '.', ' ']), "{name}");
        }
    }

    #[test]
    fn a_record_is_one_flat_line() {
        let record = TrialRecord {
            key: key("t", Some("A"), 3),
            outcome: TrialOutcome::FalseDone,
            exit_code: Some(0),
            timed_out: false,
            used_model: None,
            usage: TrialUsage { steps: Some(4), ..TrialUsage::default() },
            seconds: 1.5,
            message: "no".to_owned(),
            log: "trials/t".to_owned(),
            started: Timestamp::UNIX_EPOCH,
        };
        let line = serde_json::to_string(&record).unwrap();
        assert!(line.starts_with(r#"{"task":"t","task_hash":"0","agent":"A","model":null,"seed":3,"outcome":"false_done","exit_code":0"#), "{line}");
        assert_eq!(serde_json::from_str::<TrialRecord>(&line).unwrap(), record);
    }
}
