//! Exact token counts for the models of `OpenAI`, with the feature `tiktoken`.

use std::fmt;

use tiktoken_rs::{CoreBPE, bpe_for_model, cl100k_base_singleton, o200k_base_singleton};

use crate::TokenCounter;

/// Counts the tokens of texts as `OpenAI` does. Several megabytes of text a second; the first use reads a vocabulary.
#[derive(Clone, Copy)]
pub struct OpenAiCounter(&'static CoreBPE);

impl OpenAiCounter {
    /// Makes the counter of a model by its id, such as `gpt-5`; `None` if its vocabulary is not known.
    pub fn for_model(model: &str) -> Option<Self> {
        bpe_for_model(model).ok().map(Self)
    }

    /// Makes the counter of the vocabulary `o200k_base`, of GPT-4o and later models.
    pub fn o200k() -> Self {
        Self(o200k_base_singleton())
    }

    /// Makes the counter of the vocabulary `cl100k_base`, of GPT-4.
    pub fn cl100k() -> Self {
        Self(cl100k_base_singleton())
    }
}

impl TokenCounter for OpenAiCounter {
    fn text(&self, text: &str) -> u64 {
        self.0.count_ordinary(text) as u64
    }
}

impl fmt::Debug for OpenAiCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiCounter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crow_core::context::TokenEstimator;

    use super::*;

    /// Texts with their tokens in `o200k_base`, as the library of `OpenAI` counts them.
    macro_rules! sample {
        ($name:literal, $tokens:literal) => {
            (include_str!(concat!("../../crow-core/src/context/samples/", $name)), $tokens)
        };
    }

    const SAMPLES: [(&str, u64); 5] = [
        sample!("base64.txt", 209),
        sample!("chinese.txt", 100),
        sample!("english.txt", 66),
        sample!("json.txt", 175),
        sample!("rust.txt", 150),
    ];

    #[test]
    fn texts_have_the_tokens_that_openai_counts() {
        for (text, tokens) in SAMPLES {
            assert_eq!(OpenAiCounter::o200k().text(text), tokens, "{text}");
        }
        // The example of their documentation.
        assert_eq!(OpenAiCounter::cl100k().text("tiktoken is great!"), 6);
    }

    #[test]
    fn models_are_known_by_their_ids() {
        assert!(OpenAiCounter::for_model("gpt-4o-mini").is_some());
        assert!(OpenAiCounter::for_model("no-such-model").is_none());
    }

    #[test]
    fn estimates_are_within_a_quarter_of_the_exact_count() {
        let (exact, estimate) = (OpenAiCounter::o200k(), TokenEstimator::new("", &[]));
        for text in
            [include_str!("exact.rs"), include_str!("../Cargo.toml"), include_str!("lib.rs")]
        {
            let (exact, estimate) = (exact.text(text), estimate.text(text));
            assert!(
                estimate * 4 >= exact * 3 && estimate * 4 <= exact * 5,
                "{estimate} for {exact}"
            );
        }
    }
}
