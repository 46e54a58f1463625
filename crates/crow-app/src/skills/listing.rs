//! The list of skills that the model sees, within a part of its context window.

use std::fmt::Write as _;

use super::discovery::{Skill, SkillSet};

/// Part of the context window that the list may take.
const WINDOW_PART: u64 = 50;
/// Window of a model whose window is not known, in tokens.
const DEFAULT_WINDOW: u64 = 128_000;
/// Bytes of a token of ordinary English. A low number, so that the list is rather too short.
const BYTES_PER_TOKEN: u64 = 3;
/// Number of skills above which only names are listed, and a search finds descriptions.
pub const MOST_LISTED: usize = 40;
/// Length below which a description says nothing, in bytes.
const SHORTEST: usize = 20;

/// The skills that a model may load, as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillListing {
    pub text: String,
    /// Number of bytes to which descriptions were cut; `None` if all are whole.
    pub cut_to: Option<usize>,
    /// True if only names are listed, and the tool has a search.
    pub has_search: bool,
    /// Number of skills that are not even named.
    pub unnamed: usize,
}

impl SkillListing {
    /// Lists the skills for a model with this context window, in tokens. All descriptions are cut to the same length, if they
    /// do not fit.
    pub fn new(set: &SkillSet, window: Option<u64>) -> Self {
        let bytes = window.unwrap_or(DEFAULT_WINDOW) / WINDOW_PART * BYTES_PER_TOKEN;
        let budget = usize::try_from(bytes).unwrap_or(usize::MAX);
        let skills: Vec<&Skill> = set.skills.iter().filter(|skill| skill.for_model).collect();
        if skills.len() > MOST_LISTED {
            return Self::of_names(&skills, budget);
        }
        let with = |limit: usize| {
            let line = |skill: &&Skill| {
                format!("\n- {}: {}", skill.name, crow_text::shorten(&skill.description, limit))
            };
            skills.iter().map(line).collect::<String>()
        };
        let longest = skills.iter().map(|skill| skill.description.len()).max().unwrap_or(0);
        let text = with(longest);
        if text.len() <= budget {
            return Self { text, cut_to: None, has_search: false, unnamed: 0 };
        }
        // The greatest limit that fits; the length grows with it.
        let (mut fits, mut too_long) = (0, longest);
        while too_long - fits > 1 {
            let middle = fits.midpoint(too_long);
            if with(middle).len() <= budget { fits = middle } else { too_long = middle }
        }
        if fits < SHORTEST {
            return Self::of_names(&skills, budget);
        }
        Self { text: with(fits), cut_to: Some(fits), has_search: false, unnamed: 0 }
    }

    /// Lists names alone, as many as fit.
    fn of_names(skills: &[&Skill], budget: usize) -> Self {
        let mut text = String::from("\n");
        let mut named = 0;
        for skill in skills {
            if text.len() + skill.name.len() + 2 > budget && named > 0 {
                break;
            }
            if named > 0 {
                text.push_str(", ");
            }
            text.push_str(&skill.name);
            named += 1;
        }
        let unnamed = skills.len() - named;
        if unnamed > 0 {
            let _ = write!(text, ", and {unnamed} more");
        }
        Self { text, cut_to: None, has_search: true, unnamed }
    }
}
