//! The one way from rules and mode to a decision.

use std::cmp::max_by;

use super::{
    CallFacts, PermissionMode, PermissionRule, RuleDecision, RuleMatcher, SandboxPlaces,
    access_class::{RUNS_A_COMMAND, by_mode},
    call_part::{CallPart, RuleMatch, parts},
    matcher::names_tool,
    policy::SandboxGuarantees,
};
use crate::workspace::Workspace;

/// What decides besides the rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecisionContext<'a> {
    pub(super) mode: PermissionMode,
    pub(super) containment: SandboxGuarantees,
    pub(super) places: &'a SandboxPlaces,
    pub(super) workspace: &'a Workspace,
}

/// A decision, and all that led to it.
#[derive(Debug)]
pub(super) struct RuleVerdict<'r> {
    pub(super) decision: RuleDecision,
    /// Why.
    pub(super) reason: String,
    /// The rules that made the decision. Without any it was the mode.
    pub(super) deciders: Vec<&'r PermissionRule>,
    /// All rules that spoke of the call or a part of it, the strongest first.
    pub(super) matched: Vec<&'r PermissionRule>,
}

/// A call while rules are held against it.
pub(super) struct Evaluation<'a, 'r> {
    setting: DecisionContext<'a>,
    facts: CallFacts<'a>,
    parts: Vec<WeighedPart<'a, 'r>>,
    denial: Option<(&'r PermissionRule, usize)>,
    matched: Vec<&'r PermissionRule>,
}

/// A part, and what rules say about it.
struct WeighedPart<'a, 'r> {
    part: CallPart<'a>,
    /// The strongest rule that allows or asks.
    best: Option<&'r PermissionRule>,
    /// A denial that may speak of it: then nothing allows it but the user.
    doubt: Option<&'r PermissionRule>,
}

impl<'a, 'r> Evaluation<'a, 'r> {
    /// Holds rules against a call.
    pub(super) fn new(
        setting: DecisionContext<'a>,
        rules: impl Iterator<Item = &'r PermissionRule> + Clone,
        facts: CallFacts<'a>,
    ) -> Self {
        let parts = parts(&facts, &setting);
        let parts = parts.into_iter().map(|part| WeighedPart { part, best: None, doubt: None });
        let mut evaluation =
            Self { setting, facts, parts: parts.collect(), denial: None, matched: Vec::new() };
        let rules = rules.filter(|rule| rule.holds_for(&facts));
        for rule in rules.clone().filter(|rule| rule.decision != RuleDecision::Allow) {
            evaluation.restrict(rule);
        }
        for rule in rules.filter(|rule| rule.decision == RuleDecision::Allow) {
            evaluation.permit(rule);
        }
        evaluation.matched.sort_by(|left, right| right.rank().cmp(&left.rank()));
        evaluation
    }

    /// Draws the decision: denials, then the mode that permits no change, then questions, then permissions, then the
    /// mode.
    pub(super) fn verdict(&self) -> RuleVerdict<'r> {
        let (by_mode, mode_reason) = by_mode(&self.setting, &self.facts);
        let question = self.question();
        let (decision, reason, deciders) = if let Some((rule, place)) = self.denial {
            (RuleDecision::Deny, self.reason(rule, place), vec![rule])
        } else if by_mode == RuleDecision::Deny {
            let reason =
                format!("the mode is {} and {} is not a read", self.setting.mode, self.facts.tool);
            (RuleDecision::Deny, reason, Vec::new())
        } else if let Some((rule, place)) = question {
            (RuleDecision::AskUser, self.reason(rule, place), vec![rule])
        } else if let Some((rule, place)) = self.doubt() {
            let reason = format!("it is not known whether {}", self.reason(rule, place));
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
        let only_free = self.parts.iter().all(|weighed| weighed.part.is_free());
        self.parts
            .iter()
            .filter(|weighed| !weighed.is_allowed() && (only_free || !weighed.passes_along()))
            .map(|weighed| &weighed.part)
            .collect()
    }

    /// Returns whether further rules that allow, and nothing else, would make the user's answer superfluous.
    pub(super) fn would_be_allowed_by(&self, further: &[PermissionRule]) -> bool {
        self.parts.iter().all(|weighed| {
            let covering = further.iter().filter(|rule| self.covers(weighed, rule));
            if weighed.doubt.is_some() {
                return false;
            }
            let best =
                covering.chain(weighed.best).max_by(|one, other| one.rank().cmp(&other.rank()));
            best.map_or(weighed.passes_along(), |rule| rule.decision == RuleDecision::Allow)
        })
    }

    /// Notes what a rule that denies or asks says.
    fn restrict(&mut self, rule: &'r PermissionRule) {
        let whole = speaks_of_call(rule, &self.facts);
        let mut matched = false;
        for (place, weighed) in self.parts.iter_mut().enumerate() {
            let found = whole.unwrap_or_else(|| {
                weighed.part.is_touched_by(&rule.matcher, self.setting.workspace)
            });
            match (found, rule.decision) {
                (RuleMatch::No, _) => continue,
                (RuleMatch::Maybe, RuleDecision::Deny) => {
                    if weighed.doubt.is_none_or(|doubt| rule.rank() > doubt.rank()) {
                        weighed.doubt = Some(rule);
                    }
                }
                (RuleMatch::Yes, RuleDecision::Deny) => {
                    if self.denial.is_none_or(|(denial, _)| rule.rank() > denial.rank()) {
                        self.denial = Some((rule, place));
                    }
                }
                (
                    RuleMatch::Maybe | RuleMatch::Yes,
                    RuleDecision::AskUser | RuleDecision::Allow,
                ) => {
                    weighed.weigh(rule);
                }
            }
            matched = true;
        }
        if matched {
            self.matched.push(rule);
        }
    }

    /// Notes what a rule that allows says.
    fn permit(&mut self, rule: &'r PermissionRule) {
        let whole = speaks_of_call(rule, &self.facts);
        let mut matched = false;
        for weighed in &mut self.parts {
            if weighed.is_covered_by(rule, whole, &self.setting) {
                weighed.weigh(rule);
                matched = true;
            }
        }
        if matched {
            self.matched.push(rule);
        }
    }

    fn covers(&self, weighed: &WeighedPart<'_, '_>, rule: &PermissionRule) -> bool {
        let whole = speaks_of_call(rule, &self.facts);
        weighed.is_covered_by(rule, whole, &self.setting)
    }

    /// Returns the strongest rule that asks and was not overruled.
    fn question(&self) -> Option<(&'r PermissionRule, usize)> {
        let asking = self.parts.iter().enumerate().filter_map(|(place, weighed)| {
            let rule = weighed.best?;
            (rule.decision == RuleDecision::AskUser).then_some((rule, place))
        });
        asking.reduce(|first, next| if next.0.rank() > first.0.rank() { next } else { first })
    }

    /// Returns the strongest denial of which it is not known whether it speaks of the call.
    fn doubt(&self) -> Option<(&'r PermissionRule, usize)> {
        let parts = self.parts.iter().enumerate();
        let doubts = parts.filter_map(|(place, weighed)| Some((weighed.doubt?, place)));
        doubts.reduce(|first, next| if next.0.rank() > first.0.rank() { next } else { first })
    }

    /// Returns the rules that together allow every part that needs it.
    fn permission(&self) -> Option<Vec<&'r PermissionRule>> {
        let mut deciders: Vec<&'r PermissionRule> = Vec::new();
        for weighed in &self.parts {
            match weighed.best {
                Some(rule) if deciders.iter().any(|known| std::ptr::eq(*known, rule)) => {}
                Some(rule) => deciders.push(rule),
                None if weighed.passes_along() => {}
                None => return None,
            }
        }
        (!deciders.is_empty()).then_some(deciders)
    }

    /// Says why the mode decides as it does, with the first place that the call may not touch.
    fn reason_of_mode(&self, decision: RuleDecision, reason: &str) -> String {
        let mut open = self.parts.iter().filter(|weighed| !weighed.is_allowed());
        let told = open.find_map(|weighed| weighed.part.warning());
        match (decision, told) {
            (RuleDecision::AskUser, Some(told)) if reason == RUNS_A_COMMAND => told,
            (RuleDecision::AskUser, Some(told)) => format!("{told}, and {reason}"),
            (RuleDecision::AskUser | RuleDecision::Allow | RuleDecision::Deny, _) => {
                reason.to_owned()
            }
        }
    }

    fn reason(&self, rule: &PermissionRule, place: usize) -> String {
        let verb = match rule.decision {
            RuleDecision::Deny => "forbids",
            RuleDecision::AskUser => "asks about",
            RuleDecision::Allow => "allows",
        };
        let name = self
            .parts
            .get(place)
            .map(|weighed| weighed.part.name(self.facts.tool))
            .unwrap_or_default();
        let why = rule.description.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let file =
            rule.file.as_ref().map_or_else(String::new, |path| format!(" ({})", path.display()));
        format!("the rule `{}`{file} {verb} `{name}`{why}", rule.id)
    }
}

impl<'r> WeighedPart<'_, 'r> {
    /// Returns whether a rule that allows speaks of the part. `whole` is what it says about the call, if it does.
    fn is_covered_by(
        &self,
        rule: &PermissionRule,
        whole: Option<RuleMatch>,
        setting: &DecisionContext<'_>,
    ) -> bool {
        match whole {
            Some(speaks) => speaks == RuleMatch::Yes && self.part.is_open(),
            None => self.part.is_covered_by(&rule.matcher, setting),
        }
    }

    fn weigh(&mut self, rule: &'r PermissionRule) {
        let stronger = |best| max_by(best, rule, |one, other| one.rank().cmp(&other.rank()));
        self.best = Some(self.best.map_or(rule, stronger));
    }

    /// Returns whether it needs no rule of its own beside parts that are allowed.
    fn passes_along(&self) -> bool {
        self.best.is_none() && self.doubt.is_none() && self.part.is_free()
    }

    fn is_allowed(&self) -> bool {
        self.best.is_some_and(|rule| rule.decision == RuleDecision::Allow)
    }
}

fn reason_to_allow(deciders: &[&PermissionRule]) -> String {
    let names: Vec<String> = deciders.iter().map(|rule| format!("`{}`", rule.id)).collect();
    match names.as_slice() {
        [one] => format!("the rule {one} allows it"),
        several => format!("the rules {} together allow it", several.join(", ")),
    }
}

/// Returns whether a rule speaks of the whole call, or nothing if it speaks of parts.
fn speaks_of_call(rule: &PermissionRule, facts: &CallFacts<'_>) -> Option<RuleMatch> {
    match &rule.matcher {
        RuleMatcher::All => Some(RuleMatch::Yes),
        RuleMatcher::ToolName(name) => Some(names_tool(name, facts.tool).into()),
        RuleMatcher::ToolCategory(category) => Some((*category == facts.category).into()),
        RuleMatcher::Custom(custom) => Some(custom.matches(facts)),
        RuleMatcher::CommandPrefix(_) | RuleMatcher::Regex(_) | RuleMatcher::Path { .. } => None,
    }
}
