//! The number of parameters in the name of a model.

use std::sync::LazyLock;

use regex::Regex;

/// Returns the number of parameters, in billions, that the name of a model gives: 1.5 for `qwen2.5-coder-1.5b-instruct`,
/// 0.6 for `qwen3:0.6b`, 56 for `mixtral-8x7b`, 0.5 for `smol-500M`. The active parameters of a mixture, such as `a3b`,
/// do not count.
pub(super) fn billions_in(name: &str) -> Option<f64> {
    static SIZE: LazyLock<Regex> = LazyLock::new(|| {
        // For names in lower case and without `\d`: digits and cases of all scripts would take 1 ms to compile.
        let pattern =
            r"(?:^|[^a-z0-9.])(?:([0-9]{1,2})x)?([0-9]{1,4}(?:\.[0-9]{1,3})?)([bm])(?:$|[^a-z0-9])";
        Regex::new(pattern).expect("invariant: a constant expression")
    });
    let name = name.to_ascii_lowercase();
    let found = SIZE.captures(&name)?;
    let number = |index: usize| found.get(index)?.as_str().parse::<f64>().ok();
    let unit = if &found[3] == "m" { 0.001 } else { 1.0 };
    Some(number(1).unwrap_or(1.0) * number(2)? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_parameters_is_read_from_the_name() {
        for (name, expected) in [
            ("ollama/qwen2.5-coder:1.5b", Some(1.5)),
            ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", Some(1.5)),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", Some(30.0)),
            ("meta-llama/Llama-3.1-8B-Instruct", Some(8.0)),
            ("gemma3:270m", Some(0.27)),
            ("mixtral-8x7b", Some(56.0)),
            ("llama3.2:3b", Some(3.0)),
            ("gpt-oss-120b", Some(120.0)),
            ("gpt-oss:20b", Some(20.0)),
            ("claude-sonnet-4-5", None),
            ("gpt-4.1-mini", None),
            ("model-v2b", None),
            ("/models/4bit/model.gguf", None),
        ] {
            let found = billions_in(name);
            let is_same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            assert!(is_same, "{name}: {found:?}");
        }
    }
}
