//! Placeholder texts where a history contains nothing that a service accepts.

/// Text of an empty user message, which keeps the roles in order.
pub(crate) const EMPTY_MESSAGE: &str = "(empty message)";
/// Text of an empty result.
pub(crate) const EMPTY_OUTPUT: &str = "(no output)";
/// Text in place of an image, for a model without vision.
pub(crate) const IMAGE_OMITTED: &str = "[a picture was left out: this model cannot see pictures]";

/// Converts a name to a legal tool name, since a model may call a name that no tool can have. `marks` are the
/// characters that are allowed besides ASCII letters and digits.
pub(crate) fn wire_name(name: &str, marks: &str, longest: usize) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || marks.contains(c);
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '_' });
    let legal: String = legal.take(longest).collect();
    if legal.is_empty() { "unnamed".to_owned() } else { legal }
}
