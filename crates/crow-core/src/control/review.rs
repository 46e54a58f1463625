//! Reviews and their evaluation.

use serde::{Deserialize, Serialize};

use super::CompletionOwner;
use crate::run::Verdict;

/// The number of reviewers that must approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consensus {
    /// All.
    #[default]
    All,
    /// More than half.
    Majority,
    /// One.
    Any,
}

impl Consensus {
    /// Returns true if that many approvals of that many reviewers are enough. Without reviewers it is never reached.
    pub fn is_reached(self, approvals: usize, reviewers: usize) -> bool {
        match self {
            Self::All => approvals == reviewers && reviewers > 0,
            Self::Majority => approvals * 2 > reviewers,
            Self::Any => approvals > 0,
        }
    }
}

/// The outcome of one reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The reviewer.
    pub reviewer: String,
    /// Its vote. It approves by calling `task_complete`, and by nothing else.
    pub verdict: Verdict,
    /// The summary of its approval, or its last text.
    pub text: String,
}

impl Review {
    /// Joins the reviews' texts to one message. Several reviewers are named, with their verdicts if they own the end.
    pub(super) fn join(reviews: &[Self], owner: CompletionOwner) -> String {
        let has_text = |review: &&Self| !review.text.trim().is_empty();
        match reviews {
            [one] => one.text.trim().to_owned(),
            several => {
                let texts = several.iter().filter(has_text).map(|review| {
                    let Self { reviewer, verdict, text } = review;
                    let text = text.trim();
                    match owner {
                        CompletionOwner::Primary => format!("{reviewer}:\n{text}"),
                        CompletionOwner::Coagent => {
                            format!("{reviewer} ({}):\n{text}", verdict_text(*verdict))
                        }
                    }
                });
                texts.collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approves",
        Verdict::Rejected => "does not approve",
        Verdict::Unfinished => "did not finish",
    }
}
