//! Why a call is decided upon as it is.

use super::{PermissionMode, PermissionRule, RuleDecision, RuleScope, evaluate::RuleVerdict};

/// Why a call is decided upon as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: RuleDecision,
    /// Why, as the user or the model is told.
    pub reason: String,
    /// What made the decision.
    pub cause: DecisionCause,
    /// Rules that spoke of the call or a part of it and did not decide, the strongest first.
    pub overruled: Vec<MatchedRule>,
}

/// What makes a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionCause {
    /// These rules. Several, if each of them allows a part of the call.
    Rules(Vec<MatchedRule>),
    /// The mode: no rule speaks of the call, or not of all of it, or it permits no changes at all.
    Mode(PermissionMode),
}

/// A rule that speaks of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    /// Its id.
    pub id: String,
    /// Its scope.
    pub scope: RuleScope,
    /// What it says.
    pub decision: RuleDecision,
}

impl Explanation {
    pub(super) fn new(verdict: RuleVerdict<'_>, mode: PermissionMode) -> Self {
        let named = |rule: &&PermissionRule| MatchedRule {
            id: rule.id.clone(),
            scope: rule.scope.clone(),
            decision: rule.decision,
        };
        let decided = |rule: &PermissionRule| {
            verdict.deciders.iter().any(|decider| std::ptr::eq(*decider, rule))
        };
        let overruled = verdict.matched.iter().filter(|rule| !decided(rule)).map(named).collect();
        let cause = if verdict.deciders.is_empty() {
            DecisionCause::Mode(mode)
        } else {
            DecisionCause::Rules(verdict.deciders.iter().map(named).collect())
        };
        Self { decision: verdict.decision, reason: verdict.reason, cause, overruled }
    }
}
