//! What is sent where a history says nothing that a service takes.

/// Keeps the roles in order where a user message says nothing.
pub(crate) const NO_WORDS: &str = "(empty message)";
/// A result that says nothing.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// A picture, for a model that cannot see it.
pub(crate) const NO_VISION: &str = "[a picture was left out: this model cannot see pictures]";

/// Makes a tool's name of one that may be none: a model may call a tool by a name that no tool can have.
pub(crate) fn wire_name(name: &str, marks: &str, longest: usize) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '_' });
    let legal: String = legal.take(longest).collect();
    if legal.is_empty() { "unnamed".to_owned() } else { legal }
}
