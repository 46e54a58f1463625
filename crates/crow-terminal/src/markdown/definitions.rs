//! The addresses that links refer to by a label.

use std::{collections::HashMap, sync::Arc};

use pulldown_cmark::{Options, Parser};

/// Number of labels that are kept: text of others must not fill the memory.
const MOST_DEFINITIONS: usize = 4096;

/// The link reference definitions that have been seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Definitions(Arc<HashMap<String, Arc<str>>>);

impl Definitions {
    /// Returns the address of a label.
    pub(super) fn address(&self, label: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&normalised(label)).map(|address| &**address)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the definitions at the beginning of a paragraph, and returns the length of the text that they take.
    pub(super) fn take_from(&mut self, paragraph: &str) -> usize {
        if !paragraph.starts_with('[') {
            return 0;
        }
        let parser = Parser::new_ext(paragraph, Options::empty());
        let mut found: Vec<_> = parser
            .reference_definitions()
            .iter()
            .map(|(label, definition)| {
                (definition.span.start, label.to_owned(), Arc::from(&*definition.dest))
            })
            .collect();
        // Definitions make no events: the first event is what follows them.
        let end =
            parser.into_offset_iter().next().map_or(paragraph.len(), |(_, range)| range.start);
        found.sort_unstable_by_key(|(start, ..)| *start);
        for (start, label, address) in found {
            if start < end && self.0.len() < MOST_DEFINITIONS {
                Arc::make_mut(&mut self.0).entry(normalised(&label)).or_insert(address);
            }
        }
        end
    }
}

/// Returns a label without differences of case and white space. Both conversions are needed for a full folding of case.
fn normalised(label: &str) -> String {
    let words: Vec<&str> = label.split_whitespace().collect();
    words.join(" ").to_lowercase().to_uppercase()
}
