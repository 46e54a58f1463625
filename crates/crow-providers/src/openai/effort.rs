//! The effort of thinking, in the values of `OpenAI`.

use crow_core::model::Thinking;

/// Returns the effort to request from `model`.
pub(super) fn effort(thinking: Thinking, model: &str) -> &'static str {
    match thinking {
        Thinking::Off => least_effort(model),
        Thinking::Low | Thinking::Tokens(..=2_048) => "low",
        Thinking::Medium | Thinking::Tokens(2_049..=8_192) => "medium",
        Thinking::High | Thinking::Tokens(8_193..) => "high",
    }
}

/// Returns the lowest effort of a model: not every model can do without thinking, and an unknown value is refused.
fn least_effort(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_first_five = name == "gpt-5" || name.starts_with("gpt-5-");
    if is_first_five && !name.contains("codex") {
        "minimal"
    } else if is_first_five || name.starts_with("gpt-6.1") || is_reasoning_series(name) {
        "low"
    } else {
        "none"
    }
}

/// Returns true for names such as `o1`, `o3-mini`, `o4-mini-2025-04-16`.
fn is_reasoning_series(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next() == Some('o') && chars.next().is_some_and(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_amount_has_an_effort_that_the_model_accepts() {
        for (thinking, model, expected) in [
            (Thinking::Off, "gpt-5", "minimal"),
            (Thinking::Off, "gpt-5-mini", "minimal"),
            (Thinking::Off, "gpt-5-codex", "low"),
            (Thinking::Off, "gpt-5.2", "none"),
            (Thinking::Off, "gpt-6-sol", "none"),
            (Thinking::Off, "gpt-6.1-sol", "low"),
            (Thinking::Off, "openai/o3", "low"),
            (Thinking::Off, "olmo-3", "none"),
            (Thinking::Low, "gpt-5", "low"),
            (Thinking::Medium, "gpt-5", "medium"),
            (Thinking::High, "gpt-5", "high"),
            (Thinking::Tokens(1_000), "gpt-5", "low"),
            (Thinking::Tokens(8_000), "gpt-5", "medium"),
            (Thinking::Tokens(16_000), "gpt-5", "high"),
        ] {
            assert_eq!(effort(thinking, model), expected, "{thinking:?} {model}");
        }
    }
}
