//! The kinds of nodes of the grammar, grouped by their treatment.

/// Kinds that only contain other nodes.
pub(super) const PLAIN: [&str; 31] = [
    "program",
    "list",
    "pipeline",
    "subshell",
    "do_group",
    "if_statement",
    "elif_clause",
    "else_clause",
    "while_statement",
    "case_statement",
    "case_item",
    "negated_command",
    "variable_assignments",
    "command_name",
    "concatenation",
    "string",
    "number",
    "simple_expansion",
    "special_variable_name",
    "variable_name",
    "process_substitution",
    "brace_expression",
    "array",
    "ternary_expression",
    "postfix_expression",
    "test_operator",
    "heredoc_start",
    "heredoc_end",
    "file_descriptor",
    "herestring_redirect",
    "file_redirect",
];

/// Kinds that are one word of a command.
pub(super) const WORDS: [&str; 12] = [
    "word",
    "concatenation",
    "string",
    "raw_string",
    "ansi_c_string",
    "number",
    "expansion",
    "simple_expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
    "brace_expression",
];

/// Kinds that are accepted in arithmetic. A variable there is evaluated recursively, and may run commands, unless it
/// holds a number.
pub(super) const ARITHMETIC: [&str; 8] = [
    "number",
    "variable_name",
    "simple_expansion",
    "unary_expression",
    "binary_expression",
    "ternary_expression",
    "parenthesized_expression",
    "arithmetic_expansion",
];

/// Kinds of leaves that are plain text.
pub(super) const TEXTS: [&str; 13] = [
    "word",
    "number",
    "variable_name",
    "special_variable_name",
    "string_content",
    "heredoc_content",
    "regex",
    "extglob_pattern",
    "test_operator",
    "brace_expression",
    "array",
    "string",
    "command_name",
];

/// Kinds in which a comment between statements is accepted.
pub(super) const COMMENTED: [&str; 13] = [
    "program",
    "list",
    "pipeline",
    "subshell",
    "compound_statement",
    "do_group",
    "if_statement",
    "elif_clause",
    "else_clause",
    "while_statement",
    "for_statement",
    "case_statement",
    "case_item",
];
