//! Limits of a turn and of a run.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// Limits of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLimits {
    /// Model calls, not counting the last one that only reports.
    pub max_steps: u32,
    /// Number of identical calls with identical results in a row that ends the turn.
    pub doom_loop_threshold: u32,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { max_steps: 100, doom_loop_threshold: 5 }
    }
}

/// Outer limits of a run. The first one that is reached ends it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Number of rounds.
    pub max_rounds: u32,
    /// Tokens, input and output together.
    pub max_tokens: Option<u64>,
    /// US dollars.
    pub max_money: Option<f64>,
    /// Wall-clock time.
    pub max_time: Option<Duration>,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { max_rounds: 25, max_tokens: None, max_money: None, max_time: None }
    }
}

/// Usage of a run so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunUsage {
    /// Number of rounds.
    pub rounds: u32,
    /// Tokens.
    pub usage: TokenUsage,
    /// Cost in US dollars, if the price is known.
    pub money: Option<f64>,
    /// Time since the run started.
    pub time: Duration,
}

/// Which bound was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Rounds.
    Rounds,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
    /// Time.
    Time,
    /// Model calls.
    Steps,
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rounds => "rounds",
            Self::Tokens => "tokens",
            Self::Money => "money",
            Self::Time => "time",
            Self::Steps => "steps",
        })
    }
}

impl RunLimits {
    /// Returns the first limit that `spent` reaches.
    pub fn reached(&self, spent: &RunUsage) -> Option<LimitKind> {
        if spent.rounds >= self.max_rounds {
            return Some(LimitKind::Rounds);
        }
        if self.max_tokens.is_some_and(|limit| spent.usage.total() >= limit) {
            return Some(LimitKind::Tokens);
        }
        if self.max_money.zip(spent.money).is_some_and(|(limit, used)| used >= limit) {
            return Some(LimitKind::Money);
        }
        self.max_time.is_some_and(|limit| spent.time >= limit).then_some(LimitKind::Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_reached_at_its_value() {
        let limits = RunLimits {
            max_rounds: 3,
            max_tokens: Some(100),
            max_money: Some(1.0),
            max_time: Some(Duration::from_secs(10)),
        };
        let tokens = |input_tokens| TokenUsage { input_tokens, ..TokenUsage::default() };
        let table = [
            (RunUsage::default(), None),
            (RunUsage { rounds: 3, ..RunUsage::default() }, Some(LimitKind::Rounds)),
            (RunUsage { usage: tokens(99), ..RunUsage::default() }, None),
            (RunUsage { usage: tokens(100), ..RunUsage::default() }, Some(LimitKind::Tokens)),
            (RunUsage { money: Some(1.0), ..RunUsage::default() }, Some(LimitKind::Money)),
            (
                RunUsage { time: Duration::from_secs(10), ..RunUsage::default() },
                Some(LimitKind::Time),
            ),
        ];
        for (spent, expected) in table {
            assert_eq!(limits.reached(&spent), expected, "{spent:?}");
        }
    }
}
