//! Limits of a turn and of a run, and the budget of a run, which all agents that work for it share.

use std::{
    collections::BTreeSet,
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// Parts of a limit, in percent, at which the model is warned that it comes to an end.
pub(super) const WARNING_PARTS: [u8; 2] = [80, 95];

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

impl RunLimits {
    /// Returns these limits, or those of a budget where they are narrower.
    #[must_use]
    pub fn within(self, budget: BudgetLimits) -> Self {
        let narrower_money = |one: f64, other: f64| one.min(other);
        Self {
            max_rounds: self.max_rounds,
            max_tokens: narrower(self.max_tokens, budget.tokens, Ord::min),
            max_money: narrower(self.max_money, budget.money, narrower_money),
            max_time: narrower(self.max_time, budget.time, Ord::min),
        }
    }
}

fn narrower<T>(one: Option<T>, other: Option<T>, least: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(least(one, other)),
        (one, other) => one.or(other),
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
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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

/// Limits of a budget. A missing one means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BudgetLimits {
    /// Tokens, input and output together.
    pub tokens: Option<u64>,
    /// US dollars.
    pub money: Option<f64>,
    /// Time since the budget was made.
    pub time: Option<Duration>,
    /// Model calls.
    pub steps: Option<u64>,
}

/// The budget of a run. Cheap to clone: clones share one account.
///
/// Invariant: usage that is drawn from a part is also drawn from every budget above it, so that the parts together
/// never exceed the whole, however many there are. A call that is running when a limit is reached still counts, so
/// each agent may exceed a limit by one model call.
#[derive(Debug, Clone)]
pub struct Budget(Arc<BudgetAccount>);

#[derive(Debug)]
struct BudgetAccount {
    limits: BudgetLimits,
    /// Start of the time limit, on the monotonic clock.
    since: Duration,
    drawn: Mutex<BudgetUsage>,
    /// The warnings that were taken: the limit, and its part in percent.
    warned: Mutex<BTreeSet<(LimitKind, u8)>>,
    /// The budget that this one is a part of.
    above: Option<Budget>,
}

/// The usage drawn so far.
#[derive(Debug, Clone, Copy)]
struct BudgetUsage {
    usage: TokenUsage,
    /// None once usage of an unknown price was drawn.
    money: Option<f64>,
    steps: u64,
}

impl From<RunLimits> for BudgetLimits {
    fn from(limits: RunLimits) -> Self {
        let RunLimits { max_rounds: _, max_tokens, max_money, max_time } = limits;
        Self { tokens: max_tokens, money: max_money, time: max_time, steps: None }
    }
}

impl BudgetLimits {
    /// Divides every limit by `parts`.
    #[must_use]
    pub fn divided(self, parts: NonZeroU32) -> Self {
        let number = u64::from(parts.get());
        Self {
            tokens: self.tokens.map(|tokens| tokens / number),
            money: self.money.map(|money| money / f64::from(parts.get())),
            time: self.time.map(|time| time / parts.get()),
            steps: self.steps.map(|steps| steps / number),
        }
    }

    /// Returns the lower of both, limit by limit.
    fn and(self, other: Self) -> Self {
        fn lower<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(if other < one { other } else { one }),
                (one, other) => one.or(other),
            }
        }
        Self {
            tokens: lower(self.tokens, other.tokens),
            money: lower(self.money, other.money),
            time: lower(self.time, other.time),
            steps: lower(self.steps, other.steps),
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(BudgetLimits::default(), Duration::ZERO)
    }
}

impl Budget {
    /// Makes a budget. Its time starts at `now`.
    pub fn new(limits: BudgetLimits, now: Duration) -> Self {
        Self::below(None, limits, now)
    }

    /// Makes a budget within this one: usage drawn from it is drawn from this one, too.
    #[must_use]
    pub fn within(&self, limits: BudgetLimits, now: Duration) -> Self {
        Self::below(Some(self.clone()), limits, now)
    }

    /// Makes a budget with one of `parts` equal parts of what remains here. Nothing is reserved: usage that others draw
    /// meanwhile is gone.
    #[must_use]
    pub fn share(&self, parts: NonZeroU32, now: Duration) -> Self {
        self.within(self.remaining(now).divided(parts), now)
    }

    fn below(above: Option<Self>, limits: BudgetLimits, now: Duration) -> Self {
        let drawn = BudgetUsage { usage: TokenUsage::default(), money: Some(0.0), steps: 0 };
        let (drawn, warned) = (Mutex::new(drawn), Mutex::default());
        Self(Arc::new(BudgetAccount { limits, since: now, drawn, warned, above }))
    }

    /// Draws the usage of one model call. Its price is in US dollars, if known.
    pub fn draw(&self, usage: TokenUsage, price: Option<f64>) {
        self.draw_for(usage, price, 1);
    }

    /// Draws the usage of a failed attempt at a model call, which does not count as a step.
    pub fn draw_attempt(&self, usage: TokenUsage, price: Option<f64>) {
        self.draw_for(usage, price, 0);
    }

    fn draw_for(&self, usage: TokenUsage, price: Option<f64>, steps: u64) {
        for account in self.accounts() {
            let mut drawn = account.drawn();
            drawn.usage += usage;
            drawn.money = drawn.money.zip(price).map(|(all, one)| all + one);
            drawn.steps = drawn.steps.saturating_add(steps);
        }
    }

    /// Returns the first limit that is reached, of this budget or of one above it.
    pub fn reached(&self, now: Duration) -> Option<LimitKind> {
        self.accounts().find_map(|account| account.reached(now))
    }

    /// Returns a warning for the model when 80 % and 95 % of a limit of this budget are used, once each.
    pub fn take_warning(&self, now: Duration) -> Option<String> {
        let account = &self.0;
        let mut warned = account.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut warnings = Vec::new();
        for (kind, used) in account.used_parts(now) {
            let passed =
                WARNING_PARTS.into_iter().rev().find(|part| used >= f64::from(*part) / 100.0);
            let Some(part) = passed.filter(|_| used < 1.0) else { continue };
            if warned.insert((kind, part)) {
                warnings.push(format!("More than {part} % of the limit of {kind} are used."));
            }
        }
        (!warnings.is_empty()).then(|| format!("{} Finish with what is left.", warnings.join(" ")))
    }

    /// Returns the part of this budget, or of one above it, that is used, where 1 is all of it: the largest part of any
    /// limit. Returns `None` if nothing is limited.
    pub fn used_part(&self, now: Duration) -> Option<f64> {
        self.accounts()
            .flat_map(|account| account.used_parts(now))
            .map(|(_, part)| part)
            .reduce(f64::max)
    }

    /// Returns what remains: the lowest of this budget and all above it.
    pub fn remaining(&self, now: Duration) -> BudgetLimits {
        let remainders = self.accounts().map(|account| account.remaining(now));
        remainders.reduce(BudgetLimits::and).unwrap_or_default()
    }

    /// Returns true if money is limited here or above, so that the price of a model must be known.
    pub fn limits_money(&self) -> bool {
        self.accounts().any(|account| account.limits.money.is_some())
    }

    /// Returns the usage so far. Rounds are not counted here and are 0.
    pub fn spent(&self, now: Duration) -> RunUsage {
        let BudgetUsage { usage, money, .. } = *self.0.drawn();
        RunUsage { rounds: 0, usage, money, time: now.saturating_sub(self.0.since) }
    }

    /// Iterates over this account and those above it.
    fn accounts(&self) -> impl Iterator<Item = &BudgetAccount> {
        std::iter::successors(Some(self.0.as_ref()), |account| {
            account.above.as_ref().map(|above| above.0.as_ref())
        })
    }
}

impl BudgetAccount {
    fn drawn(&self) -> MutexGuard<'_, BudgetUsage> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reached(&self, now: Duration) -> Option<LimitKind> {
        let BudgetUsage { usage, money, steps } = *self.drawn();
        let limits = &self.limits;
        if limits.tokens.is_some_and(|limit| usage.total() >= limit) {
            return Some(LimitKind::Tokens);
        }
        // An unknown price may be any price, so it counts as reached.
        if limits.money.is_some_and(|limit| money.is_none_or(|money| money >= limit)) {
            return Some(LimitKind::Money);
        }
        if limits.time.is_some_and(|limit| now.saturating_sub(self.since) >= limit) {
            return Some(LimitKind::Time);
        }
        limits.steps.is_some_and(|limit| steps >= limit).then_some(LimitKind::Steps)
    }

    /// Returns the part of each limit that is used; 1 is all of it.
    #[expect(clippy::cast_precision_loss, reason = "a part need not be exact")]
    fn used_parts(&self, now: Duration) -> impl Iterator<Item = (LimitKind, f64)> + use<> {
        let BudgetUsage { usage, money, steps } = *self.drawn();
        let time = now.saturating_sub(self.since);
        let limits = self.limits;
        let part = |used: u64, limit: u64| used as f64 / limit.max(1) as f64;
        let parts = [
            (LimitKind::Tokens, limits.tokens.map(|limit| part(usage.total(), limit))),
            (LimitKind::Money, limits.money.zip(money).map(|(limit, money)| money / limit)),
            (
                LimitKind::Time,
                limits.time.map(|limit| time.as_secs_f64() / limit.as_secs_f64().max(f64::EPSILON)),
            ),
            (LimitKind::Steps, limits.steps.map(|limit| part(steps, limit))),
        ];
        parts.into_iter().filter_map(|(kind, used)| Some((kind, used?)))
    }

    fn remaining(&self, now: Duration) -> BudgetLimits {
        let BudgetUsage { usage, money, steps } = *self.drawn();
        let BudgetLimits { tokens, money: limit, time, steps: step_limit } = self.limits;
        BudgetLimits {
            tokens: tokens.map(|limit| limit.saturating_sub(usage.total())),
            money: limit.map(|limit| money.map_or(0.0, |money| (limit - money).max(0.0))),
            time: time.map(|limit| limit.saturating_sub(now.saturating_sub(self.since))),
            steps: step_limit.map(|limit| limit.saturating_sub(steps)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tokens(input_tokens: u64) -> TokenUsage {
        TokenUsage { input_tokens, ..TokenUsage::default() }
    }

    fn two() -> NonZeroU32 {
        NonZeroU32::new(2).unwrap()
    }

    fn limits() -> BudgetLimits {
        BudgetLimits {
            tokens: Some(100),
            money: Some(1.0),
            time: Some(10 * SECOND),
            steps: Some(4),
        }
    }

    #[test]
    fn each_limit_warns_once_at_80_and_once_at_95_percent() {
        let budget = Budget::new(limits(), Duration::ZERO);
        let warning = |now| budget.take_warning(now);
        budget.draw_attempt(tokens(79), Some(0.1));
        assert_eq!(warning(SECOND), None);
        budget.draw_attempt(tokens(1), None);
        let expected = "More than 80 % of the limit of tokens are used. Finish with what is left.";
        assert_eq!(warning(SECOND).as_deref(), Some(expected));
        assert_eq!(warning(7 * SECOND), None);
        let expected = "More than 80 % of the limit of time are used. Finish with what is left.";
        assert_eq!(warning(8 * SECOND).as_deref(), Some(expected));
        budget.draw_attempt(tokens(16), None);
        let expected = "More than 95 % of the limit of tokens are used. More than 95 % of the limit of time are used. Finish with what is left.";
        assert_eq!(warning(Duration::from_millis(9_600)).as_deref(), Some(expected));
        assert_eq!(warning(Duration::from_millis(9_700)), None);
        assert_eq!(Budget::default().take_warning(SECOND), None);
    }

    #[test]
    fn each_limit_of_a_run_is_reached_at_its_value() {
        let limits = RunLimits {
            max_rounds: 3,
            max_tokens: Some(100),
            max_money: Some(1.0),
            max_time: Some(10 * SECOND),
        };
        let table = [
            (RunUsage::default(), None),
            (RunUsage { rounds: 3, ..RunUsage::default() }, Some(LimitKind::Rounds)),
            (RunUsage { usage: tokens(99), ..RunUsage::default() }, None),
            (RunUsage { usage: tokens(100), ..RunUsage::default() }, Some(LimitKind::Tokens)),
            (RunUsage { money: Some(1.0), ..RunUsage::default() }, Some(LimitKind::Money)),
            (RunUsage { time: 10 * SECOND, ..RunUsage::default() }, Some(LimitKind::Time)),
        ];
        for (spent, expected) in table {
            assert_eq!(limits.reached(&spent), expected, "{spent:?}");
        }
    }

    #[test]
    fn each_bound_is_reached_at_its_value() {
        let table: [(u64, f64, Duration, u32, Option<LimitKind>); 6] = [
            (0, 0.0, SECOND, 3, None),
            (99, 0.99, 9 * SECOND, 1, None),
            (100, 0.0, SECOND, 1, Some(LimitKind::Tokens)),
            (0, 1.0, SECOND, 1, Some(LimitKind::Money)),
            (0, 0.0, 11 * SECOND, 1, Some(LimitKind::Time)),
            (0, 0.0, SECOND, 4, Some(LimitKind::Steps)),
        ];
        for (used, money, now, steps, expected) in table {
            let budget = Budget::new(limits(), SECOND);
            budget.draw(tokens(used), Some(money));
            (1..steps).for_each(|_| budget.draw(tokens(0), Some(0.0)));
            assert_eq!(budget.reached(now), expected, "{used} {money} {now:?} {steps}");
        }
    }

    #[test]
    fn the_used_part_is_that_of_the_limit_that_is_used_most() {
        let whole = Budget::new(limits(), Duration::ZERO);
        whole.draw(tokens(10), Some(0.2));
        let part =
            whole.within(BudgetLimits { tokens: Some(50), ..BudgetLimits::default() }, SECOND);
        let used = |budget: &Budget, now| budget.used_part(now).map(|part| (part * 100.0).round());
        assert_eq!(used(&whole, SECOND), Some(25.0), "steps");
        assert_eq!(used(&part, 5 * SECOND), Some(50.0), "time of the whole");
        part.draw(tokens(40), None);
        assert_eq!(used(&part, 5 * SECOND), Some(80.0), "tokens of the part");
        assert_eq!(Budget::default().used_part(SECOND), None);
    }

    #[test]
    fn a_share_gets_its_part_of_the_remainder_and_draws_from_the_whole() {
        let parent = Budget::new(limits(), Duration::ZERO);
        parent.draw(tokens(20), Some(0.5));
        let part = parent.share(two(), 2 * SECOND);
        let remainder = part.remaining(2 * SECOND);
        assert_eq!(
            remainder,
            BudgetLimits {
                tokens: Some(40),
                money: Some(0.25),
                time: Some(4 * SECOND),
                steps: Some(1)
            }
        );
        part.draw(tokens(40), Some(0.1));
        assert_eq!(part.reached(2 * SECOND), Some(LimitKind::Tokens));
        assert_eq!(parent.reached(2 * SECOND), None);
        assert_eq!(parent.spent(2 * SECOND).usage.total(), 60);
    }

    #[test]
    fn usage_drawn_from_the_whole_is_gone_for_a_share() {
        let parent = Budget::new(limits(), Duration::ZERO);
        let part = parent.share(two(), Duration::ZERO);
        parent.draw(tokens(100), Some(0.0));
        assert_eq!(part.reached(Duration::ZERO), Some(LimitKind::Tokens));
        assert_eq!(part.remaining(Duration::ZERO).tokens, Some(0));
    }

    #[test]
    fn an_unknown_price_reaches_the_money_limit_only() {
        let bounded = Budget::new(limits(), Duration::ZERO);
        let free = Budget::default();
        for budget in [&bounded, &free] {
            budget.draw(tokens(1), None);
        }
        assert_eq!(bounded.reached(Duration::ZERO), Some(LimitKind::Money));
        assert_eq!((free.reached(SECOND), free.spent(SECOND).money), (None, None));
        assert!(bounded.within(BudgetLimits::default(), SECOND).limits_money());
        assert!(!free.limits_money());
    }

    proptest! {
        #[test]
        fn nested_shares_of_a_budget_never_get_more_than_the_budget(
            most in 1_u64..10_000,
            steps in prop::collection::vec((0_usize..8, 1_u32..5, 1_u64..500), 1..60),
        ) {
            let parent = Budget::new(BudgetLimits { tokens: Some(most), ..BudgetLimits::default() }, Duration::ZERO);
            let mut all = vec![parent.clone()];
            let mut largest = 0;
            for (index, parts, used) in steps {
                let budget = all[index % all.len()].clone();
                if all.len() < 8 {
                    all.push(budget.share(NonZeroU32::new(parts).unwrap(), Duration::ZERO));
                }
                // Only budgets without a reached limit draw, so at most the last draw exceeds the limit.
                if budget.reached(Duration::ZERO).is_none() {
                    budget.draw(tokens(used), None);
                    largest = largest.max(used);
                }
            }
            let drawn = parent.spent(Duration::ZERO).usage.total();
            prop_assert!(drawn < most + largest.max(1), "{drawn} of {most}");
        }
    }
}
