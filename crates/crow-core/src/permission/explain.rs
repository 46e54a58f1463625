//! Explanations of decisions.

use super::{PermissionMode, PermissionRule, RuleDecision, RuleScope, evaluate::RuleVerdict};

/// The decision about a call, with its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The decision.
    pub decision: RuleDecision,
    /// The reason, as the user or the model gets it.
    pub reason: String,
    /// The cause of the decision.
    pub cause: DecisionCause,
    /// Rules that matched the call or a part of it and did not decide, the strongest first.
    pub overruled: Vec<MatchedRule>,
}

/// The cause of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionCause {
    /// These rules: several, if each of them allows a part of the call.
    Rules(Vec<MatchedRule>),
    /// The mode: no rule matches the call, or not all of its parts, or the mode permits no changes at all.
    Mode(PermissionMode),
}

/// A rule that matches a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    /// Its id.
    pub id: String,
    /// Its scope.
    pub scope: RuleScope,
    /// Its decision.
    pub decision: RuleDecision,
}

impl Explanation {
    pub(super) fn new(verdict: RuleVerdict<'_>, mode: PermissionMode) -> Self {
        let matched_rule = |rule: &&PermissionRule| MatchedRule {
            id: rule.id.clone(),
            scope: rule.scope.clone(),
            decision: rule.decision,
        };
        let is_decider = |rule: &PermissionRule| {
            verdict.deciders.iter().any(|decider| std::ptr::eq(*decider, rule))
        };
        let overruled =
            verdict.matched.iter().filter(|rule| !is_decider(rule)).map(matched_rule).collect();
        let cause = if verdict.deciders.is_empty() {
            DecisionCause::Mode(mode)
        } else {
            DecisionCause::Rules(verdict.deciders.iter().map(matched_rule).collect())
        };
        Self { decision: verdict.decision, reason: verdict.reason, cause, overruled }
    }
}
