//! The option `--budget`.

use std::time::Duration;

use crow_core::turn::BudgetLimits;

/// Amounts that are understood, for error messages.
const EXAMPLES: &str = "write amounts such as $2, 30m, 1h30m or 200k tokens, separated by commas";

/// Parses a budget of a run: `$2, 30m, 200k tokens`.
pub(super) fn budget(text: &str) -> Result<BudgetLimits, String> {
    let mut limits = BudgetLimits::default();
    for amount in text.split(',').map(str::trim) {
        let is_new = match parse(amount).ok_or_else(|| format!("\"{amount}\": {EXAMPLES}"))? {
            BudgetAmount::Money(money) => limits.money.replace(money).is_none(),
            BudgetAmount::Time(time) => limits.time.replace(time).is_none(),
            BudgetAmount::Tokens(tokens) => limits.tokens.replace(tokens).is_none(),
        };
        if !is_new {
            return Err(format!("\"{amount}\": there are two amounts of one kind"));
        }
    }
    Ok(limits)
}

enum BudgetAmount {
    /// US dollars.
    Money(f64),
    Time(Duration),
    Tokens(u64),
}

/// Returns `None` if it is no amount, or not more than zero.
fn parse(amount: &str) -> Option<BudgetAmount> {
    let text = amount.to_ascii_lowercase();
    let money = text.strip_prefix('$').or_else(|| text.strip_suffix('$'));
    let money = money.or_else(|| text.strip_suffix("usd"));
    if let Some(money) = money {
        return positive(money).map(BudgetAmount::Money);
    }
    let tokens = text.strip_suffix("tokens").or_else(|| text.strip_suffix("token"));
    let is_thousands = text.ends_with('k');
    if let Some(tokens) = tokens.or_else(|| is_thousands.then_some(text.as_str())) {
        return count(tokens.trim()).map(BudgetAmount::Tokens);
    }
    time(&text).map(BudgetAmount::Time)
}

/// Returns a number that is more than zero.
fn positive(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0)
}

/// Returns a whole number, which may end with `k` or `m`.
fn count(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix(['k', 'm']) {
        Some(number) if text.ends_with('k') => (number, 1e3),
        Some(number) => (number, 1e6),
        None => (text, 1.0),
    };
    let count = (positive(number)? * factor).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked: a whole number within the range"
    )]
    ((1.0..=1e15).contains(&count)).then_some(count as u64)
}

/// Returns a time such as `90s`, `30m` or `1h30m`.
fn time(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = positive(&rest[..number_len])?;
        let after = rest[number_len..].trim_start();
        let unit_len = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let seconds = match &after[..unit_len] {
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = after[unit_len..].trim_start();
    }
    (!total.is_zero()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(money: Option<f64>, seconds: Option<u64>, tokens: Option<u64>) -> BudgetLimits {
        BudgetLimits { money, time: seconds.map(Duration::from_secs), tokens, steps: None }
    }

    #[test]
    fn amounts_of_money_time_and_tokens_are_understood() {
        for (text, expected) in [
            ("$2, 30m, 200k tokens", limits(Some(2.0), Some(1800), Some(200_000))),
            ("0.5 USD", limits(Some(0.5), None, None)),
            ("2$", limits(Some(2.0), None, None)),
            ("1h30m", limits(None, Some(5400), None)),
            ("90 seconds", limits(None, Some(90), None)),
            ("1.5h", limits(None, Some(5400), None)),
            ("1.5M tokens,2 min", limits(None, Some(120), Some(1_500_000))),
            ("50000 tokens", limits(None, None, Some(50_000))),
            ("200K", limits(None, None, Some(200_000))),
        ] {
            assert_eq!(budget(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_examples() {
        for text in [
            "",
            "2",
            "$0",
            "$-1",
            "$nan",
            "30",
            "30x",
            "0m",
            "0.4 tokens",
            "1e99 tokens",
            "$2,,30m",
            "m",
            "1e99h",
        ] {
            let error = budget(text).unwrap_err();
            assert!(error.contains("write amounts such as"), "{text}: {error}");
        }
        assert_eq!(budget("1m, 2m").unwrap_err(), "\"2m\": there are two amounts of one kind");
    }
}
