//! Evaluation: the one way from rules and mode to a decision, and its explanation.
//!
//! A call is split into parts, each held in a [`WeighedPart`]. Every rule that denies or asks is noted first, then
//! every rule that allows; of several the one with the greatest rank stays. [`Evaluation::verdict`] then combines
//! denial, mode, question, doubt and permissions in a fixed order. The order of the rules never matters.

use std::cmp::max_by;

use super::{
    CallFacts, PermissionMode, PermissionRule, RuleDecision, RuleMatcher, RuleScope, SandboxPaths,
    access_class::{RUNS_A_COMMAND, by_mode, is_unguarded},
    call_part::{CallPart, RuleMatch, parts},
    policy::SandboxGuarantees,
    rule::{names_tool, restricts_tool},
};
use crate::{network::Network, workspace::Workspace};

/// The inputs of a decision besides the rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecisionContext<'a> {
    pub(super) mode: PermissionMode,
    pub(super) containment: SandboxGuarantees,
    pub(super) sandbox_paths: &'a SandboxPaths,
    pub(super) network: &'a Network,
    pub(super) workspace: &'a Workspace,
}

/// A decision, its reason and the rules behind it.
#[derive(Debug)]
pub(super) struct RuleVerdict<'r> {
    pub(super) decision: RuleDecision,
    /// The reason.
    pub(super) reason: String,
    /// The rules that made the decision. Empty if the mode made it.
    pub(super) deciders: Vec<&'r PermissionRule>,
    /// All rules that matched the call or a part of it, the strongest first.
    pub(super) matched: Vec<&'r PermissionRule>,
}

/// A call with its parts, and what the rules decide about them.
pub(super) struct Evaluation<'a, 'r> {
    context: DecisionContext<'a>,
    facts: CallFacts<'a>,
    parts: Vec<WeighedPart<'a, 'r>>,
    /// The strongest rule that denies, with the index of the part.
    denial: Option<(&'r PermissionRule, usize)>,
    matched: Vec<&'r PermissionRule>,
}

/// A part, with the rules that matched it.
struct WeighedPart<'a, 'r> {
    part: CallPart<'a>,
    /// The strongest rule that allows or asks.
    best: Option<&'r PermissionRule>,
    /// A denial that may match it: then only the user can allow it.
    doubt: Option<&'r PermissionRule>,
}

impl<'a, 'r> Evaluation<'a, 'r> {
    /// Evaluates the rules on a call.
    pub(super) fn new(
        setting: DecisionContext<'a>,
        rules: impl Iterator<Item = &'r PermissionRule> + Clone,
        facts: CallFacts<'a>,
    ) -> Self {
        let parts = parts(&facts, &setting);
        let parts = parts.into_iter().map(|part| WeighedPart { part, best: None, doubt: None });
        let mut evaluation = Self {
            context: setting,
            facts,
            parts: parts.collect(),
            denial: None,
            matched: Vec::new(),
        };
        let rules = rules.filter(|rule| rule.applies_to(&facts));
        for rule in rules.clone().filter(|rule| rule.decision != RuleDecision::Allow) {
            evaluation.restrict(rule);
        }
        for rule in rules.filter(|rule| rule.decision == RuleDecision::Allow) {
            evaluation.permit(rule);
        }
        evaluation.matched.sort_by(|left, right| right.rank().cmp(&left.rank()));
        evaluation
    }

    /// Draws the decision: denials, then the mode that permits no change, then questions, then doubts, then
    /// permissions, then the mode.
    pub(super) fn verdict(&self) -> RuleVerdict<'r> {
        let (by_mode, mode_reason) = by_mode(&self.context, &self.facts);
        let question = self.question();
        let (decision, reason, deciders) = if let Some((rule, index)) = self.denial {
            (RuleDecision::Deny, self.reason(rule, index), vec![rule])
        } else if by_mode == RuleDecision::Deny {
            let reason = format!(
                "the mode is {} and {} is not read-only",
                self.context.mode, self.facts.tool
            );
            (RuleDecision::Deny, reason, Vec::new())
        } else if let Some((rule, index)) = question {
            (RuleDecision::AskUser, self.reason(rule, index), vec![rule])
        } else if let Some((rule, index)) = self.doubt() {
            let reason = format!("it is unclear whether {}", self.reason(rule, index));
            (RuleDecision::AskUser, reason, vec![rule])
        } else if let Some(deciders) = self.permission() {
            (RuleDecision::Allow, reason_to_allow(&deciders), deciders)
        } else {
            (by_mode, self.reason_of_mode(by_mode, mode_reason), Vec::new())
        };
        RuleVerdict { decision, reason, deciders, matched: self.matched.clone() }
    }

    /// Returns the parts that a grant would have to allow.
    pub(super) fn open_parts(&self) -> Vec<&CallPart<'a>> {
        let only_free = self.parts.iter().all(|element| element.part.is_free());
        self.parts
            .iter()
            .filter(|element| !element.is_allowed() && (only_free || !element.passes_along()))
            .map(|element| &element.part)
            .collect()
    }

    /// Returns true if further rules that allow, and nothing else, would make the question to the user unnecessary.
    pub(super) fn would_be_allowed_by(&self, further: &[PermissionRule]) -> bool {
        self.parts.iter().all(|element| {
            let covering = further.iter().filter(|rule| self.covers(element, rule));
            if element.doubt.is_some() {
                return false;
            }
            let best =
                covering.chain(element.best).max_by(|one, other| one.rank().cmp(&other.rank()));
            best.map_or(element.passes_along(), |rule| rule.decision == RuleDecision::Allow)
        })
    }

    /// Returns true if the permission mode alone is the reason to ask, about nothing that a rule must name.
    pub(super) fn is_asked_by_mode_alone(&self) -> bool {
        self.question().is_none()
            && self.doubt().is_none()
            && self.parts.iter().all(|element| element.part.warning().is_none())
            && is_unguarded(&self.context, &self.facts)
    }

    /// Records a rule that denies or asks.
    fn restrict(&mut self, rule: &'r PermissionRule) {
        let call_match = match_of_call(rule, &self.facts);
        let mut matched = false;
        for (index, element) in self.parts.iter_mut().enumerate() {
            let part_match = call_match.unwrap_or_else(|| {
                element.part.match_restriction(&rule.matcher, self.context.workspace)
            });
            match (part_match, rule.decision) {
                (RuleMatch::No, _) => continue,
                (RuleMatch::Maybe, RuleDecision::Deny) => {
                    element.doubt = Some(stronger(element.doubt, rule));
                }
                (RuleMatch::Yes, RuleDecision::Deny) => {
                    if self.denial.is_none_or(|(denial, _)| rule.rank() > denial.rank()) {
                        self.denial = Some((rule, index));
                    }
                }
                (
                    RuleMatch::Maybe | RuleMatch::Yes,
                    RuleDecision::AskUser | RuleDecision::Allow,
                ) => {
                    element.weigh(rule);
                }
            }
            matched = true;
        }
        if matched {
            self.matched.push(rule);
        }
    }

    /// Records a rule that allows.
    fn permit(&mut self, rule: &'r PermissionRule) {
        let call_match = match_of_call(rule, &self.facts);
        let mut matched = false;
        for element in &mut self.parts {
            if element.is_covered_by(rule, call_match, &self.context) {
                element.weigh(rule);
                matched = true;
            }
        }
        if matched {
            self.matched.push(rule);
        }
    }

    fn covers(&self, element: &WeighedPart<'_, '_>, rule: &PermissionRule) -> bool {
        let call_match = match_of_call(rule, &self.facts);
        element.is_covered_by(rule, call_match, &self.context)
    }

    /// Returns the strongest rule that asks and is not overruled, with the index of its part.
    fn question(&self) -> Option<(&'r PermissionRule, usize)> {
        let asking = self.parts.iter().enumerate().filter_map(|(index, element)| {
            let rule = element.best?;
            (rule.decision == RuleDecision::AskUser).then_some((rule, index))
        });
        asking.reduce(|first, next| if next.0.rank() > first.0.rank() { next } else { first })
    }

    /// Returns the strongest denial that may match the call, with the index of its part.
    fn doubt(&self) -> Option<(&'r PermissionRule, usize)> {
        let parts = self.parts.iter().enumerate();
        let doubts = parts.filter_map(|(index, element)| Some((element.doubt?, index)));
        doubts.reduce(|first, next| if next.0.rank() > first.0.rank() { next } else { first })
    }

    /// Returns the rules that together allow every part that needs it.
    fn permission(&self) -> Option<Vec<&'r PermissionRule>> {
        let mut deciders: Vec<&'r PermissionRule> = Vec::new();
        for element in &self.parts {
            match element.best {
                Some(rule) if deciders.iter().any(|known| std::ptr::eq(*known, rule)) => {}
                Some(rule) => deciders.push(rule),
                None if element.passes_along() => {}
                None => return None,
            }
        }
        (!deciders.is_empty()).then_some(deciders)
    }

    /// Returns the reason for the mode's decision, with a warning about the first part that reaches too far.
    fn reason_of_mode(&self, decision: RuleDecision, reason: &str) -> String {
        // In a mode in which unknown commands run, that one is unknown is no reason to ask.
        let is_reason = |part: &CallPart<'_>| {
            self.context.mode != PermissionMode::ReadOnly || !matches!(part, CallPart::Command(_))
        };
        let mut open =
            self.parts.iter().filter(|element| !element.is_allowed() && is_reason(&element.part));
        let warning = open.find_map(|element| element.part.warning());
        match (decision, warning) {
            (RuleDecision::AskUser, Some(warning)) if reason == RUNS_A_COMMAND => warning,
            (RuleDecision::AskUser, Some(warning)) => format!("{warning}, and {reason}"),
            (RuleDecision::AskUser | RuleDecision::Allow | RuleDecision::Deny, _) => {
                reason.to_owned()
            }
        }
    }

    fn reason(&self, rule: &PermissionRule, index: usize) -> String {
        let verb = match rule.decision {
            RuleDecision::Deny => "forbids",
            RuleDecision::AskUser => "asks about",
            RuleDecision::Allow => "allows",
        };
        let name = self.parts[index].part.name(self.facts.tool);
        let why = rule.description.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let file =
            rule.file.as_ref().map_or_else(String::new, |path| format!(" ({})", path.display()));
        format!("the rule `{}`{file} {verb} `{name}`{why}", rule.id)
    }
}

impl<'r> WeighedPart<'_, 'r> {
    /// Returns true if a rule that allows covers the part. `call_match` is its match with the whole call, if it has
    /// one.
    fn is_covered_by(
        &self,
        rule: &PermissionRule,
        call_match: Option<RuleMatch>,
        setting: &DecisionContext<'_>,
    ) -> bool {
        match call_match {
            Some(call_match) => call_match == RuleMatch::Yes && self.part.is_open(),
            None => self.part.is_covered_by(&rule.matcher, setting),
        }
    }

    /// Keeps the rule if it is stronger than the best so far.
    fn weigh(&mut self, rule: &'r PermissionRule) {
        self.best = Some(stronger(self.best, rule));
    }

    /// Returns true if it needs no rule of its own when other parts are allowed. A doubt about it is weighed before.
    fn passes_along(&self) -> bool {
        self.best.is_none() && self.part.is_free()
    }

    fn is_allowed(&self) -> bool {
        self.best.is_some_and(|rule| rule.decision == RuleDecision::Allow)
    }
}

/// Returns the stronger of two rules. No two rules have the same rank.
fn stronger<'r>(best: Option<&'r PermissionRule>, rule: &'r PermissionRule) -> &'r PermissionRule {
    best.map_or(rule, |best| max_by(best, rule, |one, other| one.rank().cmp(&other.rank())))
}

fn reason_to_allow(deciders: &[&PermissionRule]) -> String {
    let names: Vec<String> = deciders.iter().map(|rule| format!("`{}`", rule.id)).collect();
    match names.as_slice() {
        [one] => format!("the rule {one} allows it"),
        several => format!("the rules {} together allow it", several.join(", ")),
    }
}

/// Returns whether a rule matches the whole call, or none if it matches single parts.
fn match_of_call(rule: &PermissionRule, facts: &CallFacts<'_>) -> Option<RuleMatch> {
    match &rule.matcher {
        RuleMatcher::All => Some(RuleMatch::Yes),
        RuleMatcher::ToolName(name) => Some(
            match rule.decision {
                RuleDecision::Deny | RuleDecision::AskUser => restricts_tool(name, facts.tool),
                RuleDecision::Allow => names_tool(name, facts.tool),
            }
            .into(),
        ),
        RuleMatcher::ToolCategory(category) => Some((*category == facts.category).into()),
        RuleMatcher::Custom(custom) => Some(custom.matches(facts)),
        RuleMatcher::CommandPrefix(_)
        | RuleMatcher::Regex(_)
        | RuleMatcher::CommandRegex(_)
        | RuleMatcher::Path { .. }
        | RuleMatcher::Host(_) => None,
    }
}

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
