//! What reviewers say, and what it comes to.

use serde::{Deserialize, Serialize};

use super::OwnerOfTheEnd;
use crate::run::Verdict;

/// How many of several reviewers must approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consensus {
    /// Every one.
    #[default]
    All,
    /// More than half.
    Majority,
    /// One.
    Any,
}

impl Consensus {
    /// Returns whether so many approvals of so many reviewers are enough. Nobody approves of nothing.
    pub fn is_reached(self, approvals: usize, reviewers: usize) -> bool {
        match self {
            Self::All => approvals == reviewers && reviewers > 0,
            Self::Majority => approvals * 2 > reviewers,
            Self::Any => approvals > 0,
        }
    }
}

/// What one reviewer came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The reviewer.
    pub reviewer: String,
    /// Its vote. It approves by calling `task_complete`, and by nothing else.
    pub verdict: Verdict,
    /// What it says: the summary of its approval, or its last words.
    pub text: String,
}

impl Review {
    /// Writes what was said as one message. Several reviewers are named, and where it is theirs to say so, whether they
    /// approve.
    pub(super) fn join(reviews: &[Self], owner: OwnerOfTheEnd) -> String {
        let said = |review: &&Self| !review.text.trim().is_empty();
        match reviews {
            [one] => one.text.trim().to_owned(),
            several => {
                let texts = several.iter().filter(said).map(|review| {
                    let Self { reviewer, verdict, text } = review;
                    let text = text.trim();
                    match owner {
                        OwnerOfTheEnd::Primary => format!("{reviewer}:\n{text}"),
                        OwnerOfTheEnd::Coagent => {
                            format!("{reviewer} ({}):\n{text}", word(*verdict))
                        }
                    }
                });
                texts.collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approved => "approves",
        Verdict::Rejected => "does not approve",
        Verdict::Unfinished => "did not finish",
    }
}
