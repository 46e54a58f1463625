//! The places of nodes in a syntax tree: parents and siblings.
//!
//! The parser itself looks for a parent or a sibling from the root each time, which takes quadratic time for a line of
//! many commands.

use std::{collections::HashMap, rc::Rc};

use tree_sitter::Node;

use super::syntax_walk::children;

/// The places of the nodes that a walk has reached.
#[derive(Debug, Default)]
pub(super) struct NodePlaces<'tree>(HashMap<usize, NodePlace<'tree>>);

#[derive(Debug)]
struct NodePlace<'tree> {
    parent: Node<'tree>,
    siblings: Rc<[Node<'tree>]>,
    index: usize,
    /// Offset of the first `elif` or `else` among the siblings.
    alternative: Option<usize>,
}

impl<'tree> NodePlaces<'tree> {
    /// Adds the children of a node, and returns them.
    pub(super) fn add_children(&mut self, parent: Node<'tree>) -> Rc<[Node<'tree>]> {
        let siblings: Rc<[Node<'tree>]> = children(parent).into();
        let is_other = |part: &&Node<'_>| matches!(part.kind(), "elif_clause" | "else_clause");
        let alternative = siblings.iter().find(is_other).map(Node::start_byte);
        for (index, node) in siblings.iter().enumerate() {
            let siblings = Rc::clone(&siblings);
            self.0.insert(node.id(), NodePlace { parent, siblings, index, alternative });
        }
        siblings
    }

    pub(super) fn parent(&self, node: Node<'_>) -> Option<Node<'tree>> {
        Some(self.0.get(&node.id())?.parent)
    }

    /// Returns the kind of the parent; empty for the root.
    pub(super) fn kind_of_parent(&self, node: Node<'_>) -> &'tree str {
        self.parent(node).map_or("", |parent| parent.kind())
    }

    pub(super) fn sibling_before(&self, node: Node<'_>) -> Option<Node<'tree>> {
        let place = self.0.get(&node.id())?;
        place.siblings.get(place.index.checked_sub(1)?).copied()
    }

    pub(super) fn sibling_after(&self, node: Node<'_>) -> Option<Node<'tree>> {
        let place = self.0.get(&node.id())?;
        place.siblings.get(place.index + 1).copied()
    }

    /// Returns the offset of the first `elif` or `else` beside a node.
    pub(super) fn alternative(&self, node: Node<'_>) -> Option<usize> {
        self.0.get(&node.id())?.alternative
    }
}
