//! Checks code with the grammars of tree-sitter.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::{
    language::CodeLanguage,
    problem::{ProblemList, SyntaxProblem, SyntaxVerdict},
};

/// The effort that the checks of one change may take together. The parser reports its progress at regular numbers of
/// steps; a step is usually short, but some contents make it long.
#[derive(Debug)]
pub(super) struct ParseAllowance {
    /// Number of reports so far.
    reports: usize,
    deadline: Instant,
}

impl ParseAllowance {
    /// Maximum number of reports; a file of 2,000 lines takes about 500.
    const MAX_REPORTS: usize = 2_000;
    /// Number of reports that are granted even after the deadline: small files are checked on a busy machine as well.
    const MIN_REPORTS: usize = 100;
    const MAX_TIME: Duration = Duration::from_millis(50);

    pub(super) fn new() -> Self {
        Self { reports: 0, deadline: Instant::now() + Self::MAX_TIME }
    }

    /// Counts a report. Returns whether the parser may continue.
    fn count_report(&mut self) -> ControlFlow<()> {
        self.reports += 1;
        let is_late = || Instant::now() > self.deadline;
        if self.reports > Self::MAX_REPORTS || (self.reports > Self::MIN_REPORTS && is_late()) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Checks code.
pub(super) fn check_code(
    language: CodeLanguage,
    text: &str,
    allowance: &mut ParseAllowance,
) -> SyntaxVerdict {
    match parse(language, text, allowance) {
        None => SyntaxVerdict::Undecided,
        Some(tree) if !tree.root_node().has_error() => SyntaxVerdict::Valid,
        Some(tree) => SyntaxVerdict::Broken(problems(&tree, text)),
    }
}

/// Parses code. Returns `None` if that takes more than is allowed.
fn parse(language: CodeLanguage, text: &str, allowance: &mut ParseAllowance) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&language.grammar())
        .expect("invariant: the linked grammars have a version that the parser supports");
    let mut on_progress = |_: &ParseState| allowance.count_report();
    let options = ParseOptions::new().progress_callback(&mut on_progress);
    let bytes = text.as_bytes();
    // The parser asks for an empty piece at the end.
    let mut piece = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut piece, None, Some(options))
}

/// Collects the problems of a tree that has errors. The innermost error nodes are the most precise: the outer ones often
/// begin long before the error.
fn problems(tree: &Tree, text: &str) -> ProblemList {
    let mut list = ProblemList { first: Vec::new(), count: 0 };
    let mut cursor = tree.walk();
    // Goes through the nodes with errors in the order of the text, without recursion: trees may be deep.
    loop {
        let node = cursor.node();
        let is_outer = node.has_error() && cursor.goto_first_child();
        if !is_outer || is_innermost_error(node) {
            add_problem(&mut list, node, text);
        }
        if is_outer {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return list;
            }
        }
    }
}

/// Returns true for an error node without another one in it.
fn is_innermost_error(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    node.is_error() && !node.children(&mut cursor).any(|child| child.has_error())
}

fn add_problem(list: &mut ProblemList, node: Node<'_>, text: &str) {
    if !node.is_error() && !node.is_missing() {
        return;
    }
    list.count += 1;
    if list.first.len() < ProblemList::SHOWN {
        let at = node.start_byte();
        list.first.push(if node.is_missing() {
            SyntaxProblem::missing(text, at, node.kind())
        } else {
            SyntaxProblem::near(text, at, &text[node.byte_range()])
        });
    }
}
