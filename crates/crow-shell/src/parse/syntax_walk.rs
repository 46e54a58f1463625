//! The walk through a syntax tree, in the order of writing and without recursion.
//!
//! A stack holds the nodes still to visit, each with its [`NodeContext`] and depth. [`SyntaxWalk::enter`] checks a
//! node before its children and collects commands; [`SyntaxWalk::leaf`] checks the text of a leaf, and that only
//! space lies between it and the last one. So every byte of the line is accounted for: `at` is the end of the last
//! leaf, and never goes back.
//!
//! Redirections after a compound statement belong to its last command. They are stored in `attached` under that
//! node's id until the walk reaches it.

use std::{collections::HashMap, ops::Range};

use crow_core::tool::{CommandWord, Redirect, SimpleCommand};
use tree_sitter::Node;

use super::{
    line::{FilePassing, FoundFiles, ParsedLine, PipeSource, UnclearReason},
    node_kinds::{ARITHMETIC, COMMENTED, PLAIN, TEXTS, WORDS},
    node_places::NodePlaces,
    opaque_text, redirects,
    variables::{VariableEffect, variable_effect},
    words::{is_whole_ansi_string, read_word},
    wrappers,
};

/// The most filters between a command and the one whose output it gets.
const MOST_FILTERS: usize = 16;
/// The deepest nesting of substitutions and strings.
const MAX_DEPTH: usize = 24;

/// The construct that contains a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeContext {
    Statements,
    String,
    /// The text of a here-document.
    Document,
    Expansion,
    Arithmetic,
    /// `[ … ]`, which is an ordinary command.
    Test,
    /// `[[ … ]]`, which is part of the grammar.
    Condition,
}

#[derive(Debug, Clone, Copy)]
struct WalkStep<'tree> {
    node: Node<'tree>,
    scope: NodeContext,
    depth: usize,
}

/// Redirections and words that belong to a statement but are written after it.
#[derive(Debug, Default)]
struct StatementAttachments {
    redirects: Vec<Redirect>,
    words: Vec<CommandWord>,
}

/// A loop over files that a command lists.
#[derive(Debug)]
struct FileLoop {
    variable: String,
    body: Range<usize>,
    lister: ListSource,
}

/// The command whose output is a list of files.
#[derive(Debug, Clone, Copy)]
enum ListSource {
    /// The node of a command in a substitution.
    Node(usize),
    /// The index of a command whose output comes through a pipe.
    Index(usize),
}

/// A word of a command that stands for listed files.
#[derive(Debug)]
struct ListedWord {
    /// The index of the command.
    index: usize,
    word: String,
    variable: Option<String>,
    lister: ListSource,
}

/// The state of one walk.
pub(super) struct SyntaxWalk<'text, 'reading, 'tree> {
    text: &'text str,
    pub(super) line: &'reading mut ParsedLine,
    pub(super) places: NodePlaces<'tree>,
    attached: HashMap<usize, StatementAttachments>,
    /// The end of the last leaf.
    at: usize,
    /// True if the last leaf was only digits, and not a descriptor.
    is_number_last: bool,
    /// For nodes of commands that start no others: the index of the command.
    singles: HashMap<usize, usize>,
    loops: Vec<FileLoop>,
    listed: Vec<ListedWord>,
}

impl<'text, 'reading, 'tree> SyntaxWalk<'text, 'reading, 'tree> {
    pub(super) fn new(text: &'text str, reading: &'reading mut ParsedLine) -> Self {
        Self {
            text,
            line: reading,
            places: NodePlaces::default(),
            attached: HashMap::new(),
            at: 0,
            is_number_last: false,
            singles: HashMap::new(),
            loops: Vec::new(),
            listed: Vec::new(),
        }
    }

    /// Walks through the tree and passes each command to `reading`.
    pub(super) fn walk(mut self, root: Node<'tree>) -> Result<(), UnclearReason> {
        let mut stack = vec![WalkStep { node: root, scope: NodeContext::Statements, depth: 0 }];
        while let Some(step) = stack.pop() {
            if step.depth > MAX_DEPTH {
                return Err("nested too deep".into());
            }
            let parts = self.places.add_children(step.node);
            let inner = self.enter(step)?;
            if parts.is_empty() {
                self.leaf(step)?;
            }
            // Children are pushed in reverse, so that they are visited in order.
            let deeper = usize::from(inner != step.scope || is_deepening(step.node.kind()));
            let depth = step.depth + deeper;
            let steps =
                parts.iter().rev().map(|node| WalkStep { node: *node, scope: inner, depth });
            stack.extend(steps);
        }
        let rest = self.slice(self.at, self.text.len());
        if !opaque_text::is_space(self.slice(0, self.at), rest, "") {
            return Err("text outside of any command".into());
        }
        // A substitution is visited after the command that it is part of, and a variable may be set later.
        for ListedWord { index, word, variable, lister } in self.listed {
            let finder = match lister {
                ListSource::Node(node) => self.singles.get(&node).copied(),
                ListSource::Index(index) => Some(index),
            };
            if let Some(finder) = finder {
                let found = FoundFiles { finder, passing: FilePassing::Shell, word };
                self.line.expand_to_files(index, found, variable.as_deref());
            }
        }
        Ok(())
    }

    /// Notes a loop over the files that one command in a substitution lists.
    pub(super) fn list_loop(&mut self, node: Node<'_>, variable: &str) {
        let values: Vec<Node<'_>> = children(node)
            .into_iter()
            .skip_while(|part| part.kind() != "in")
            .skip(1)
            .take_while(|part| part.is_named() && part.kind() != "do_group")
            .collect();
        let body = node.child_by_field_name("body");
        if let ([value], Some(body)) = (values.as_slice(), body)
            && let Some(lister) = listing_command(*value)
        {
            self.add_loop(variable, body, ListSource::Node(lister));
        }
    }

    /// Notes a loop over the lines of a command: `git ls-files | while read -r f; do …; done`.
    fn line_loop(&mut self, node: Node<'_>) {
        let condition = node.child_by_field_name("condition");
        let words: Option<Vec<&str>> = condition
            .filter(|condition| {
                condition.kind() == "command" && self.text_of(node).starts_with("while")
            })
            .map(|condition| children(condition).into_iter().map(|part| self.text_of(part)))
            .map(Iterator::collect);
        // Without separators only blanks around a name are kept.
        let words = words.as_deref().map(|words| words.strip_prefix(&["IFS="]).unwrap_or(words));
        let Some(["read", variable] | ["read", "-r", variable]) = words else { return };
        let body = node.child_by_field_name("body");
        if let (Some(body), Some(source)) = (body, self.pipe_source(node)) {
            self.add_loop(variable, body, ListSource::Index(source.index));
        }
    }

    fn add_loop(&mut self, variable: &str, body: Node<'_>, lister: ListSource) {
        if variable_effect(variable) == VariableEffect::Shell {
            let (variable, body) = (variable.to_owned(), body.byte_range());
            self.loops.push(FileLoop { variable, body, lister });
        }
    }

    /// Notes the words of a command that stand for listed files.
    fn add_listed_words(&mut self, node: Node<'_>, index: usize) {
        for part in children(node) {
            let text = self.text_of(part);
            let listed = if part.kind() == "command_substitution" {
                listing_command(part).map(|lister| (None, ListSource::Node(lister)))
            } else {
                let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                let name = inner.unwrap_or(text).strip_prefix('$');
                let name = name.map(|name| {
                    name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name)
                });
                let around = self.loops.iter().rev().find(|around| {
                    name == Some(around.variable.as_str())
                        && around.body.contains(&node.start_byte())
                });
                around.map(|around| (Some(around.variable.clone()), around.lister))
            };
            if let Some((variable, lister)) = listed {
                let word = text.to_owned();
                self.listed.push(ListedWord { index, word, variable, lister });
            }
        }
    }

    fn slice(&self, start: usize, end: usize) -> &'text str {
        &self.text[start..end]
    }

    pub(super) fn text_from(&self, start: usize) -> &'text str {
        self.slice(start, self.text.len())
    }

    pub(super) fn text_of(&self, node: Node<'_>) -> &'text str {
        self.slice(node.start_byte(), node.end_byte())
    }

    /// Checks a leaf, and the gap between it and the last one.
    fn leaf(&mut self, step: WalkStep<'_>) -> Result<(), UnclearReason> {
        let (node, start, end) = (step.node, step.node.start_byte(), step.node.end_byte());
        if start == end {
            return Ok(());
        }
        let gap = self.text.get(self.at..start).ok_or("parts in an unexpected order")?;
        let (before, after) = (self.slice(0, self.at), self.slice(start, self.text.len()));
        let is_known = step.scope == NodeContext::String && gap.trim().is_empty()
            || step.scope == NodeContext::Document && opaque_text::is_inert(gap)
            // The grammar drops this one word; `redirected` adds it.
            || node.kind().starts_with("<<") && is_lost_dash(gap)
            || opaque_text::is_space(before, gap, after);
        if !is_known {
            return Err("text outside of any command".into());
        }
        self.at = end;
        let text = self.text_of(node);
        // To the shell, digits directly before a redirection are a descriptor.
        let is_redirect = !node.is_named() && text.starts_with(['<', '>']);
        let last = std::mem::replace(
            &mut self.is_number_last,
            is_number(text) && node.kind() != "file_descriptor",
        );
        if is_redirect && last && gap.is_empty() && step.scope == NodeContext::Statements {
            return Err("digits directly before a redirection".into());
        }
        if is_redirect && gap.is_empty() && names_descriptor(before) {
            return Err("a redirection that sets a variable".into());
        }
        let is_understood = match node.kind() {
            "comment" => opaque_text::may_comment_follow(self.slice(0, start)),
            "raw_string" => {
                step.scope != NodeContext::Expansion || opaque_text::is_plain_in_expansion(text)
            }
            "ansi_c_string" => is_whole_ansi_string(text) && step.scope != NodeContext::Expansion,
            "heredoc_start" | "heredoc_end" => true,
            "file_descriptor" => is_number(text),
            "heredoc_body" => self.is_raw(node) || opaque_text::is_inert(text),
            _ if !node.is_named() => true,
            kind if TEXTS.contains(&kind) => opaque_text::is_inert(text),
            _ => false,
        };
        if is_understood { Ok(()) } else { Err("a piece of text that may hide a command".into()) }
    }

    /// Checks a node before its children, and returns the context of these.
    fn enter(&mut self, step: WalkStep<'_>) -> Result<NodeContext, UnclearReason> {
        let WalkStep { node, scope, .. } = step;
        if !node.is_named() {
            return Ok(scope);
        }
        // 1) Contexts that accept only listed kinds.
        let kind = node.kind();
        if scope == NodeContext::Arithmetic && !ARITHMETIC.contains(&kind) {
            return Err("arithmetic with more than plain numbers".into());
        }
        // 2) Kinds with rules of their own; plain kinds need none, unknown ones are refused.
        match kind {
            "variable_name" if scope == NodeContext::Arithmetic => {
                self.line.use_as_number(self.text_of(node), node.start_byte());
            }
            "string" => return Ok(NodeContext::String),
            "heredoc_body" => return Ok(NodeContext::Document),
            "command_substitution" => {
                self.substitution(node, scope)?;
                return Ok(NodeContext::Statements);
            }
            "process_substitution" => return Ok(NodeContext::Statements),
            "expansion" => return self.expansion(node).map(|()| NodeContext::Expansion),
            "arithmetic_expansion" => return Ok(NodeContext::Arithmetic),
            "compound_statement" if self.text_of(node).starts_with("((") => {
                return Ok(NodeContext::Arithmetic);
            }
            "compound_statement" | "raw_string" | "ansi_c_string" | "word" | "string_content"
            | "regex" | "extglob_pattern" | "heredoc_content" => {}
            "test_command" => return self.test(node),
            "binary_expression" | "unary_expression" | "parenthesized_expression" => {
                self.expression(node, scope)?;
            }
            "comment" => self.comment(node)?,
            "command" => self.command(node)?,
            "declaration_command" | "unset_command" => self.declaration(node)?,
            "variable_assignment" => self.assignment(node)?,
            "subscript" => self.subscript(node)?,
            "for_statement" => self.for_statement(node)?,
            "while_statement" => {
                self.line.repeat();
                self.line_loop(node);
            }
            "redirected_statement" if scope == NodeContext::Statements => self.redirected(node)?,
            "heredoc_redirect" => return self.heredoc(step),
            "file_redirect" => self.lone_redirect(node)?,
            _ if PLAIN.contains(&kind) => {}
            _ => {
                return Err(UnclearReason(format!("{} is not supported", kind.replace('_', " "))));
            }
        }
        // 3) Words outside of commands must be readable too.
        if scope == NodeContext::Statements && WORDS.contains(&kind) {
            self.word(node)?;
        }
        Ok(scope)
    }

    pub(super) fn word(&self, node: Node<'_>) -> Result<CommandWord, UnclearReason> {
        read_word(self.text_of(node)).ok_or_else(|| "an unsupported kind of word".into())
    }

    /// Checks a substitution. Quoting inside back quotes has rules of its own, and is refused.
    fn substitution(&self, node: Node<'_>, scope: NodeContext) -> Result<(), UnclearReason> {
        // The grammar counts blanks before a substitution in a string as part of it.
        let text = self.text_of(node).trim_start_matches([' ', '\t']);
        if text.starts_with("$(") {
            return Ok(());
        }
        let is_odd =
            |char: char| matches!(char, '\\' | '#') || char == '"' && scope == NodeContext::String;
        if text.starts_with('`') && text.matches('`').count() == 2 && !text.contains(is_odd) {
            return Ok(());
        }
        Err("backquotes with quotes inside".into())
    }

    /// Checks that no line ends between the parts of a node: to the shell, a command would end there.
    pub(super) fn one_line(&self, node: Node<'_>) -> Result<(), UnclearReason> {
        let parts = children(node);
        for (left, right) in parts.iter().zip(parts.iter().skip(1)) {
            if opaque_text::ends_line(self.slice(left.end_byte(), right.start_byte())) {
                return Err("a command over several lines".into());
            }
        }
        Ok(())
    }

    /// Builds a command from its parts, and unwraps what it starts.
    fn command(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        self.one_line(node)?;
        let mut command = SimpleCommand::default();
        let mut word_end = None;
        for part in children(node) {
            let kind = part.kind();
            let is_redirect = kind.ends_with("_redirect");
            if !is_redirect && word_end == Some(part.start_byte()) {
                return Err("words without a space between them".into());
            }
            word_end = (!is_redirect).then(|| part.end_byte());
            match kind {
                "variable_assignment" => {
                    let name = part.child(0).map_or("", |name| self.text_of(name));
                    command.assignments.push(name.to_owned());
                }
                "file_redirect" => {
                    let (redirect, more) = redirects::read(part, self.text)?;
                    command.redirects.extend(redirect);
                    command.words.extend(more);
                }
                "herestring_redirect" => {}
                "$" | "==" | "=~" => command.words.push(CommandWord::Literal(kind.to_owned())),
                "command_name" => command.words.push(self.name(part)?),
                _ if WORDS.contains(&kind) => command.words.push(self.word(part)?),
                _ => return Err("an unsupported kind of argument".into()),
            }
        }
        if let Some(attached) = self.attached.remove(&node.id()) {
            command.redirects.extend(attached.redirects);
            command.words.extend(attached.words);
        }
        if self.line.may_lead() && self.is_lead(node) && self.surely_begins(node) {
            self.line.lead();
        }
        self.line.set_pipe_source(self.pipe_source(node));
        let index = self.line.command_count();
        wrappers::unwrap(command, self.line)?;
        if self.line.command_count() == index + 1 {
            self.singles.insert(node.id(), index);
            self.add_listed_words(node, index);
        }
        Ok(())
    }

    /// Returns the command whose output a command reads, if nothing else is read. Filters in between that only leave lines
    /// out are passed over. The pipes must be plain ones: `|&` passes on errors, too.
    fn pipe_source(&self, node: Node<'_>) -> Option<PipeSource> {
        let pipeline = self.places.parent(node).filter(|around| around.kind() == "pipeline")?;
        // A redirection of the last command stands behind the whole pipeline.
        let around = self.places.parent(pipeline);
        let around = around.filter(|outer| outer.kind() == "redirected_statement");
        let mut parts = children(node).into_iter().chain(around.into_iter().flat_map(children));
        let reads = |part: &Node<'_>| {
            part.kind().ends_with("_redirect") && self.text_of(*part).contains('<')
        };
        if parts.any(|part| reads(&part)) {
            return None;
        }
        let mut is_filtered = false;
        let mut reader = node;
        for _ in 0..=MOST_FILTERS {
            let pipe = self.places.sibling_before(reader).filter(|pipe| pipe.kind() == "|")?;
            let mut source = self.places.sibling_before(pipe)?;
            let outer = source;
            if source.kind() == "redirected_statement" {
                let is_silenced = |part: &Node<'_>| self.text_of(*part) == "2>/dev/null";
                match children(source).as_slice() {
                    [command, redirect] if is_silenced(redirect) => source = *command,
                    _ => return None,
                }
            }
            // Input of its own takes the place of what comes through the pipe.
            if children(source).iter().any(reads) {
                return None;
            }
            let index = *self.singles.get(&source.id())?;
            if !self.line.command(index).is_some_and(leaves_out_lines) {
                return Some(PipeSource { index, is_filtered });
            }
            is_filtered = true;
            reader = outer;
        }
        None
    }

    /// Returns whether nothing that the shell does before it starts a command can fail or run others. If a file
    /// cannot be opened, a descriptor is closed or a variable cannot be set, the command is skipped and the line
    /// continues; and commands in the words of redirections and assignments run in the previous folder.
    fn surely_begins(&self, node: Node<'_>) -> bool {
        let around = self.places.parent(node);
        let around = around.filter(|outer| outer.kind() == "redirected_statement");
        let attached = around.into_iter().flat_map(children).filter(|part| part.id() != node.id());
        children(node).into_iter().chain(attached).all(|part| match part.kind() {
            "variable_assignment" => false,
            kind if kind.ends_with("_redirect") => redirects::is_sure(self.text_of(part)),
            _ => true,
        })
    }

    fn name(&self, node: Node<'_>) -> Result<CommandWord, UnclearReason> {
        if wrappers::is_grammar(&CommandWord::Literal(self.text_of(node).to_owned())) {
            return Err("a keyword in an unexpected place".into());
        }
        self.word(node)
    }

    /// Attaches the redirections after a statement to the command that they belong to.
    fn redirected(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        self.one_line(node)?;
        let mut attached = StatementAttachments::default();
        let mut end = node.start_byte();
        for part in children(node) {
            if part.kind() == "heredoc_redirect" && is_lost_dash(self.slice(end, part.start_byte()))
            {
                attached.words.push(CommandWord::Literal("-".to_owned()));
            }
            end = part.end_byte();
            let inner = if part.kind() == "heredoc_redirect" { children(part) } else { vec![part] };
            for part in inner.into_iter().filter(|part| part.kind() == "file_redirect") {
                let (redirect, more) = redirects::read(part, self.text)?;
                attached.redirects.extend(redirect);
                attached.words.extend(more);
            }
        }
        // The last command of the body gets them; they may come from nested statements too.
        let body = node.child_by_field_name("body").map(last_statement);
        match body {
            Some(body) if matches!(body.kind(), "command" | "redirected_statement") => {
                let known = self.attached.remove(&node.id()).unwrap_or_default();
                let entry = self.attached.entry(body.id()).or_default();
                entry.redirects.extend(attached.redirects.into_iter().chain(known.redirects));
                entry.words.extend(attached.words.into_iter().chain(known.words));
                Ok(())
            }
            Some(_) | None if !attached.words.is_empty() => Err("words after a redirection".into()),
            Some(_) | None => {
                let known = self.attached.remove(&node.id()).unwrap_or_default();
                let redirects: Vec<Redirect> =
                    attached.redirects.into_iter().chain(known.redirects).collect();
                self.files(redirects)
            }
        }
    }

    /// Adds files that are opened without starting a program.
    fn files(&mut self, redirects: Vec<Redirect>) -> Result<(), UnclearReason> {
        if redirects.is_empty() {
            return Ok(());
        }
        self.line.push(SimpleCommand { redirects, ..SimpleCommand::default() })
    }

    /// Checks a redirection without a command: `$(< file)`.
    fn lone_redirect(&mut self, node: Node<'_>) -> Result<(), UnclearReason> {
        match self.places.kind_of_parent(node) {
            "command" | "redirected_statement" | "heredoc_redirect" => Ok(()),
            _ => {
                let (redirect, more) = redirects::read(node, self.text)?;
                if !more.is_empty() {
                    return Err("words after a redirection".into());
                }
                self.files(redirect.into_iter().collect())
            }
        }
    }

    /// Returns whether the shell takes a here-document literally.
    fn is_raw(&self, body: Node<'_>) -> bool {
        let start = self.places.sibling_before(body).and_then(|_| {
            let parts = children(self.places.parent(body)?);
            parts.into_iter().find(|part| part.kind() == "heredoc_start")
        });
        start
            .and_then(|start| opaque_text::delimiter(self.text_of(start)))
            .is_some_and(|delimiter| delimiter.is_quoted)
    }

    /// Checks that a here-document ends where the shell ends it.
    fn heredoc(&self, step: WalkStep<'_>) -> Result<NodeContext, UnclearReason> {
        let parts = children(step.node);
        let find = |kind: &str| parts.iter().copied().find(|part| part.kind() == kind);
        let start = find("heredoc_start").ok_or("a here-document without a word")?;
        let end = find("heredoc_end").ok_or("a here-document without an end")?;
        let delimiter =
            opaque_text::delimiter(self.text_of(start)).ok_or("the word of a here-document")?;
        if parts.iter().any(|part| WORDS.contains(&part.kind())) {
            return Err("words after a here-document".into());
        }
        let rest = self.slice(start.end_byte(), self.text.len());
        let line_end = start.end_byte() + rest.find('\n').ok_or("a here-document without text")?;
        let is_behind = |part: &Node<'_>| matches!(part.kind(), "heredoc_body" | "heredoc_end");
        let is_apart = parts.iter().all(|part| {
            if is_behind(part) { part.start_byte() > line_end } else { part.end_byte() <= line_end }
        });
        let body = self.slice(line_end + 1, end.start_byte());
        let after = self.slice(end.end_byte(), self.text.len());
        let takes_tabs = find("<<-").is_some();
        if !is_apart || !delimiter.ends(body, self.text_of(end), after, takes_tabs) {
            return Err("a here-document without a clear end".into());
        }
        // Bash joins the rest of a substitution after it into other commands than the written ones.
        if step.depth > 0 && !after.trim_start().starts_with(')') {
            return Err("a here-document in a substitution".into());
        }
        Ok(NodeContext::Statements)
    }

    /// Returns whether a command is first in its line, in the shell that runs all of the line, with nothing running in
    /// parallel.
    fn is_lead(&self, node: Node<'_>) -> bool {
        let mut inner = node;
        while let Some(outer) = self.places.parent(inner) {
            let is_beside = children(outer).iter().any(|part| part.kind() == "&");
            let is_first = outer.named_child(0).is_some_and(|first| first.id() == inner.id());
            let is_whole = match outer.kind() {
                "program" | "list" | "redirected_statement" => true,
                "subshell" => self
                    .places
                    .parent(outer)
                    .is_some_and(|it| it.kind() == "program" && it.named_child_count() == 1),
                _ => false,
            };
            if is_beside || !is_first || !is_whole {
                return false;
            }
            inner = outer;
        }
        true
    }

    fn comment(&self, node: Node<'_>) -> Result<(), UnclearReason> {
        let parent = self.places.kind_of_parent(node);
        let is_in_dollar = parent == "command_substitution";
        if COMMENTED.contains(&parent) || is_in_dollar || parent == "redirected_statement" {
            Ok(())
        } else {
            Err("a comment in the middle of a command".into())
        }
    }
}

/// Returns whether the space before a here-document holds a `-`, as in `python - <<E`.
fn is_lost_dash(gap: &str) -> bool {
    gap.starts_with(' ') && gap.ends_with(' ') && gap.trim_matches(' ') == "-"
}

/// Returns true if a text ends with the variable that gets the descriptor of a redirection: `{f}` in `cat {f}< a.txt`.
fn names_descriptor(text: &str) -> bool {
    let Some((before, name)) = text.strip_suffix('}').and_then(|text| text.rsplit_once('{')) else {
        return false;
    };
    let is_name = !name.is_empty()
        && name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '[' | ']'));
    is_name && before.chars().next_back().is_none_or(|char| !matches!(char, '$' | '\\'))
}

pub(super) fn is_number(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_digit())
}

/// Returns the node of the only command in a substitution, which lists files if its program does.
fn listing_command(node: Node<'_>) -> Option<usize> {
    let parts = children(node);
    match (node.kind(), parts.as_slice()) {
        ("command_substitution", [_, command, _]) if command.kind() == "command" => {
            Some(command.id())
        }
        _ => None,
    }
}

fn is_deepening(kind: &str) -> bool {
    matches!(kind, "command_substitution" | "process_substitution" | "expansion" | "string")
}

pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// Returns the last statement of a list or pipeline.
fn last_statement(node: Node<'_>) -> Node<'_> {
    let mut last = node;
    while matches!(last.kind(), "list" | "pipeline" | "negated_command") {
        let Some(count) = last.named_child_count().checked_sub(1) else { break };
        let inner = u32::try_from(count).ok().and_then(|count| last.named_child(count));
        let Some(inner) = inner else { break };
        last = inner;
    }
    last
}

/// Returns true if a command prints its input unchanged but for the order of lines and lines that are left out.
fn leaves_out_lines(command: &SimpleCommand) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().map(CommandWord::as_literal).collect();
    let Some((name, arguments)) = words.as_deref().and_then(|words| words.split_first()) else {
        return false;
    };
    let is_flag = |word: &&str, letters: &str| {
        word.strip_prefix('-').is_some_and(|flags| {
            !flags.is_empty() && flags.chars().all(|flag| letters.contains(flag))
        })
    };
    let is_count = |word: &str| {
        let word = word.strip_prefix("-n").or_else(|| word.strip_prefix('-')).unwrap_or(word);
        !word.is_empty() && word.chars().all(|char| char.is_ascii_digit() || char == '+')
    };
    let is_understood = match *name {
        "sort" => arguments.iter().all(|word| is_flag(word, "urnfVbhd")),
        "uniq" => arguments.is_empty(),
        "head" | "tail" => arguments.iter().all(|word| *word == "-n" || is_count(word)),
        "grep" | "egrep" | "fgrep" => {
            let (flags, patterns): (Vec<&str>, Vec<&str>) =
                arguments.iter().copied().partition(|word| word.starts_with('-'));
            patterns.len() == 1 && flags.iter().all(|word| is_flag(word, "viEFwx"))
        }
        _ => false,
    };
    is_understood
        && command.redirects.iter().all(Redirect::is_device)
        && command.assignments.is_empty()
        && command.wrappers.is_empty()
}
