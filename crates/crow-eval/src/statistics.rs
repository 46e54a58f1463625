//! Statistics of counted successes: the interval of a proportion, and the significance of a difference between paired
//! results. Pure.

use serde::Serialize;

/// The 97.5 % quantile of the standard normal distribution: an interval between its negative and itself has 95 %.
const QUANTILE: f64 = 1.959_963_984_540_054;

/// An interval that contains a proportion with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ConfidenceInterval {
    /// Lower end, from 0 to 1.
    pub low: f64,
    /// Upper end, from 0 to 1.
    pub high: f64,
}

/// Returns the Wilson score interval (95 %, without continuity correction) of a proportion; `None` without trials.
///
/// # Panics
/// Panics if there are more successes than trials.
#[expect(clippy::cast_precision_loss, reason = "counts of trials are far below 2^52")]
pub fn wilson_interval(successes: u64, trials: u64) -> Option<ConfidenceInterval> {
    assert!(successes <= trials, "{successes} of {trials} trials cannot be successes");
    if trials == 0 {
        return None;
    }
    let n = trials as f64;
    let rate = successes as f64 / n;
    let z2 = QUANTILE * QUANTILE;
    let divisor = 1.0 + z2 / n;
    let centre = (rate + z2 / (2.0 * n)) / divisor;
    let half = QUANTILE / divisor * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
    Some(ConfidenceInterval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) })
}

/// Returns the two-sided p-value of the exact (binomial) `McNemar` test: the probability of a difference at least this
/// large if both sides were equally good. The arguments are the numbers of pairs in which only one side succeeded.
#[expect(clippy::cast_precision_loss, reason = "counts of trials are far below 2^52")]
pub fn mcnemar_exact(only_first: u64, only_second: u64) -> f64 {
    let pairs = only_first + only_second;
    let fewer = only_first.min(only_second);
    // Sums C(n, i) / 2^n by its logarithm: 2^-n is 0 for a thousand pairs and more.
    let mut log_term = -(pairs as f64) * std::f64::consts::LN_2;
    let mut sum = log_term.exp();
    for i in 0..fewer {
        log_term += ((pairs - i) as f64).ln() - ((i + 1) as f64).ln();
        sum += log_term.exp();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values of R. G. Newcombe, "Two-sided confidence intervals for the single proportion: comparison of seven methods",
    /// Statistics in Medicine 17 (1998), table I, method 3.
    #[test]
    fn intervals_agree_with_published_values() {
        for (successes, trials, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let interval = wilson_interval(successes, trials).unwrap();
            assert!((interval.low - low).abs() < 5e-5, "{successes}/{trials}: {interval:?}");
            assert!((interval.high - high).abs() < 5e-5, "{successes}/{trials}: {interval:?}");
        }
        assert_eq!(wilson_interval(0, 0), None);
    }

    /// The first value is in the tests of statsmodels (`mcnemar`, exact), the second in the documentation of the R package
    /// exact2x2 (Agresti's survey of approval); the others are sums of binomial coefficients, by hand.
    #[test]
    fn significance_agrees_with_other_implementations() {
        for (only_first, only_second, expected) in [
            (121, 59, 4.434e-6),
            (86, 150, 3.716e-5),
            (0, 0, 1.0),
            (3, 3, 1.0),
            (0, 5, 2.0 / 32.0),
            (6, 0, 2.0 / 64.0),
            (1, 9, 22.0 / 1024.0),
            (2, 8, 112.0 / 1024.0),
        ] {
            let p = mcnemar_exact(only_first, only_second);
            assert!((p / expected - 1.0).abs() < 2e-4, "{only_first}, {only_second}: {p}");
        }
        assert!(mcnemar_exact(5000, 5000) > 0.99);
        assert!(mcnemar_exact(4000, 6000) < 1e-60);
    }

    proptest! {
        #[test]
        fn an_interval_contains_the_rate_and_shrinks_with_more_trials(trials in 1_u64..5000, share in 0.0_f64..=1.0) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a small count")]
            let successes = (share * trials as f64) as u64;
            let interval = wilson_interval(successes, trials).unwrap();
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            let rate = successes as f64 / trials as f64;
            let slack = 1e-12;
            prop_assert!(interval.low <= rate + slack && rate - slack <= interval.high);
            let larger = wilson_interval(successes * 4, trials * 4).unwrap();
            prop_assert!(larger.high - larger.low < interval.high - interval.low);
        }

        #[test]
        fn significance_is_a_probability_and_symmetric(one in 0_u64..400, other in 0_u64..400) {
            let p = mcnemar_exact(one, other);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - mcnemar_exact(other, one)).abs() < 1e-12);
        }
    }
}
