//! Variables, their values and tests: constructs in which a shell evaluates text, and may run commands in it.

use std::ops::Range;

use crow_core::tool::CommandWord;
use tree_sitter::Node;

use super::{
    builtins,
    line::{UnclearReason, VariableContent},
    parameter::{NodeEnds, Operator, parameter_expansion},
    syntax_walk::{NodeContext, SyntaxWalk, children, is_number},
    variables::{VariableEffect, variable_effect},
};

impl SyntaxWalk<'_, '_, '_> {
    /// Checks an expansion. The grammar's node is accepted only if it ends where the shells end the expansion.
    pub(super) fn expansion(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        let start = node.start_byte();
        let is_twice = |part: &Node<'_>| part.kind() == "@";
        // `${!name}` and `${name@…}` evaluate the value of the variable.
        if self.text_of(node).starts_with("${!") || children(node).iter().any(is_twice) {
            return Err("a variable that is evaluated twice".into());
        }
        // Inner substitutions are nodes that are checked separately; only their extent matters here.
        let inner: NodeEnds = substitutions(node)
            .into_iter()
            .map(|inner| (inner.start_byte() - start, inner.end_byte() - start))
            .collect();
        let expansion = parameter_expansion(self.text_from(start), &inner)
            .ok_or("an expansion that shells parse differently")?;
        if start + expansion.end != node.end_byte() {
            return Err("an expansion without a clear end".into());
        }
        match expansion.operator {
            Operator::Value => Ok(()),
            Operator::Assign => self.set(expansion.name),
        }
    }

    /// Records that a variable is set for the rest of the line.
    pub(super) fn set(&mut self, name: &str) -> Result<(), UnclearReason> {
        self.set_to(name, None, VariableContent::Anything)
    }

    /// Records that a variable is set, and to which values.
    fn set_to(
        &mut self,
        name: &str,
        values: Option<Vec<CommandWord>>,
        content: VariableContent,
    ) -> Result<(), UnclearReason> {
        self.line.bind(
            name,
            values.filter(|_| variable_effect(name) == VariableEffect::Shell),
            content,
        );
        match variable_effect(name) {
            VariableEffect::Shell => {}
            VariableEffect::Programs => self.line.export(name)?,
            VariableEffect::ChangesLookup => {
                return Err(UnclearReason(format!(
                    "{name} is set, which may change what programs run"
                )));
            }
            VariableEffect::NoName => return Err("a variable without a valid name".into()),
        }
        Ok(())
    }

    pub(super) fn subscript(&self, node: Node<'_>) -> Result<(), UnclearReason> {
        let text = self.text_of(node);
        let index = text.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
        match index {
            Some("@" | "*") => Ok(()),
            Some(index) if is_number(index) => Ok(()),
            Some(_) | None => Err("an index that is not a plain number".into()),
        }
    }

    /// Records the variable of a loop with its values, as far as they are known.
    pub(super) fn for_statement(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        let name = node.child_by_field_name("variable").ok_or("a loop without variable")?;
        let name = self.text_of(name);
        self.line.repeat();
        let parts = children(node);
        // The words between `in` and the body.
        let values: Result<Vec<CommandWord>, UnclearReason> = parts
            .iter()
            .skip_while(|part| part.kind() != "in")
            .skip(1)
            .take_while(|part| part.is_named() && part.kind() != "do_group")
            .map(|part| self.word(*part))
            .collect();
        let values = values.ok().filter(|values| !values.is_empty());
        self.list_loop(node, name);
        let are_numbers = |values: &Vec<CommandWord>| {
            values.iter().all(|value| value.as_literal().is_some_and(is_number))
        };
        let content = if values.as_ref().is_some_and(are_numbers) {
            VariableContent::Number
        } else {
            VariableContent::Anything
        };
        if let Some(body) = node.child_by_field_name("body") {
            self.line.set_within(name, body.byte_range());
        }
        self.set_to(name, values, content)
    }

    /// Records an assignment. An index before a command may be evaluated, and is refused.
    pub(super) fn assignment(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        let name = node.child(0).ok_or("an assignment without name")?;
        let is_index = name.kind() == "subscript";
        let text = self.text_of(name);
        // Before a command, it sets the variable for that command only.
        if self.places.kind_of_parent(node) == "command" {
            self.line.bind(text, None, VariableContent::Anything);
            return if is_index { Err("an index before a command".into()) } else { Ok(()) };
        }
        let name = text.split_once('[').filter(|_| is_index).map_or(text, |(name, _)| name);
        self.one_line(node)?;
        let is_set = children(node).iter().any(|part| part.kind() == "=");
        let value = node.child_by_field_name("value").filter(|_| is_set && !is_index);
        let is_result = value.is_some_and(|value| value.kind() == "arithmetic_expansion");
        // The value counts as known only if it is a literal, and as a number only if it is digits or arithmetic.
        let value = value.and_then(|value| self.word(value).ok());
        let literal = value.filter(|value| value.as_literal().is_some());
        let is_digits = literal.as_ref().and_then(CommandWord::as_literal).is_some_and(is_number);
        let content = if is_result || is_digits {
            VariableContent::Number
        } else {
            VariableContent::Anything
        };
        if let Some(range) = self.reach_of_assignment(node) {
            self.line.set_within(name, range);
        }
        self.set_to(name, literal.map(|value| vec![value]), content)
    }

    /// Checks `export`, `local`, `unset` and the like.
    pub(super) fn declaration(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        self.one_line(node)?;
        for part in children(node).into_iter().skip(1) {
            let kind = part.kind();
            if kind == "variable_assignment" {
                continue;
            }
            let word = if kind == "variable_name" {
                self.text_of(part).to_owned()
            } else {
                match self.word(part)? {
                    CommandWord::Literal(word) => word,
                    CommandWord::Computed(_) => {
                        return Err("a variable without a valid name".into());
                    }
                }
            };
            match word.as_str() {
                "-x" | "-r" | "-g" | "-p" | "-a" | "-A" | "-v" => {}
                name => self.set(name.split_once('=').map_or(name, |(name, _)| name))?,
            }
        }
        Ok(())
    }

    /// Checks a test, and returns the context of its children.
    pub(super) fn test(&mut self, node: Node<'_>) -> Result<NodeContext, UnclearReason> {
        let text = self.text_of(node);
        if text.starts_with("[[") {
            return Ok(NodeContext::Condition);
        }
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or("x");
        // To the shell, `[` and `]` are words, so blanks must separate them.
        let is_apart = |char: char| char == ' ' || char == '\t';
        if !inner.starts_with(is_apart) || !inner.ends_with(is_apart) || inner.ends_with("\\ ") {
            return Err("a test without spaces inside its brackets".into());
        }
        self.expression(node, NodeContext::Test)?;
        let words = self.words_of_test(node)?;
        for name in builtins::test(&words)? {
            self.line.use_as_number(name, node.start_byte());
        }
        Ok(NodeContext::Test)
    }

    /// Returns the words between single brackets, as the command `[` gets them.
    fn words_of_test(&self, node: Node<'_>) -> Result<Vec<CommandWord>, UnclearReason> {
        let mut words = Vec::new();
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            match node.kind() {
                "[" | "]" => {}
                "test_command" | "binary_expression" | "unary_expression" => {
                    stack.extend(children(node).into_iter().rev());
                }
                kind if !node.is_named() => words.push(CommandWord::Literal(kind.to_owned())),
                _ => words.push(self.word(node)?),
            }
        }
        Ok(words)
    }

    /// Checks a part of a test. Single brackets are a command, so the shell sees its own operators in them.
    pub(super) fn expression(
        &self,
        node: Node<'_>,
        context: NodeContext,
    ) -> Result<(), UnclearReason> {
        if context == NodeContext::Arithmetic {
            return Ok(());
        }
        let parts = children(node);
        if context == NodeContext::Test {
            self.one_line(node)?;
            let known = ["[", "]", "=", "==", "!=", "!"];
            if parts.iter().any(|part| !part.is_named() && !known.contains(&part.kind())) {
                return Err("an operator in single brackets".into());
            }
        }
        let operators = parts.iter().filter(|part| part.kind() == "test_operator");
        for operator in operators {
            match self.text_of(*operator) {
                "-v" | "-R" => return Err("a variable that is evaluated twice".into()),
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge"
                    if context == NodeContext::Condition =>
                {
                    return Err("arithmetic with more than plain numbers".into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the range of the line in which an assignment certainly holds: the rest of its block, if it is reached
    /// unconditionally and does not run in a background process.
    fn reach_of_assignment(&self, node: Node<'_>) -> Option<Range<usize>> {
        let mut inner = node;
        loop {
            let outer = self.places.parent(inner)?;
            // In a list, only the first command runs unconditionally.
            let is_first = || outer.named_child(0).is_some_and(|first| first.id() == inner.id());
            match outer.kind() {
                "variable_assignments" => inner = outer,
                "list" if is_first() => inner = outer,
                "program"
                | "do_group"
                | "compound_statement"
                | "subshell"
                | "command_substitution"
                | "if_statement"
                | "elif_clause"
                | "else_clause"
                | "case_item" => {
                    // With `&` it runs in a process of its own.
                    let next = self.places.sibling_after(inner);
                    let is_beside = next.is_some_and(|next| next.kind() == "&");
                    // The range ends where an alternative branch begins.
                    let end = self.places.alternative(inner).unwrap_or(outer.end_byte());
                    return (!is_beside).then(|| node.end_byte()..end);
                }
                _ => return None,
            }
        }
    }
}

/// Returns the outermost substitutions and expansions in an expansion.
fn substitutions(node: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    let mut rest = children(node);
    while let Some(part) = rest.pop() {
        match part.kind() {
            "command_substitution" | "expansion" | "arithmetic_expansion" => found.push(part),
            _ => rest.extend(children(part)),
        }
    }
    found
}
