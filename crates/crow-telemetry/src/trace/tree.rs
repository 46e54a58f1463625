//! Spans as a tree, for those who show them.

use std::collections::HashMap;

use crow_core::trace::SpanId;

use super::{RunTotals, SpanWork, TraceSpan};

/// Spans of a session by what they are part of.
#[derive(Debug)]
pub struct SpanTree<'a> {
    spans: &'a [TraceSpan],
    /// Parts of each span, by their start.
    children: HashMap<SpanId, Vec<&'a TraceSpan>>,
}

impl<'a> SpanTree<'a> {
    /// Sorts spans into a tree.
    pub fn new(spans: &'a [TraceSpan]) -> Self {
        let mut children: HashMap<SpanId, Vec<&TraceSpan>> = HashMap::new();
        for span in spans {
            if let Some(parent) = span.parent {
                children.entry(parent).or_default().push(span);
            }
        }
        for list in children.values_mut() {
            list.sort_by_key(|span| span.start);
        }
        Self { spans, children }
    }

    /// Returns the runs, in order.
    pub fn runs(&self) -> impl Iterator<Item = (&'a TraceSpan, &'a RunTotals)> {
        self.spans.iter().filter_map(|span| match &span.work {
            SpanWork::Run(run) => Some((span, run)),
            _ => None,
        })
    }

    /// Returns all parts of a span and their parts, each before its own parts, with their depth: 0 for direct parts.
    pub fn parts(&self, span: &TraceSpan) -> impl Iterator<Item = (&'a TraceSpan, usize)> {
        let mut pending: Vec<(&TraceSpan, usize)> = Vec::new();
        self.push_parts(span, 0, &mut pending);
        std::iter::from_fn(move || {
            let (span, depth) = pending.pop()?;
            self.push_parts(span, depth + 1, &mut pending);
            Some((span, depth))
        })
    }

    /// Adds the direct parts of a span so that the first one is taken first.
    fn push_parts(
        &self,
        span: &TraceSpan,
        depth: usize,
        pending: &mut Vec<(&'a TraceSpan, usize)>,
    ) {
        let parts = self.children.get(&span.id).into_iter().flatten();
        pending.extend(parts.rev().map(|part| (*part, depth)));
    }
}
