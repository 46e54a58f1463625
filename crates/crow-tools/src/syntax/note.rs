//! Decides if the model is told about errors.

use super::{
    changed_block::changed_block,
    data_file::check_data,
    grammar::{ParseAllowance, check_code},
    language::{CodeLanguage, DataFormat, SourceLanguage},
    problem::{ProblemList, SyntaxVerdict},
};

/// Maximum size of a content that is checked, in bytes.
const MAX_BYTES: usize = 512 * 1024;

/// Returns a note, one line, if the change from `old` to `new` brought syntax errors into a file. `old` is empty for a new
/// file. A file that had errors before may be in a dialect, so no more is said about it.
pub(crate) fn syntax_note(
    language: SourceLanguage,
    name: &str,
    old: &str,
    new: &str,
) -> Option<String> {
    let is_new = old.trim().is_empty();
    let is_skipped = is_new && !language.covers_new_files();
    if is_skipped || new.trim().is_empty() || old.len().max(new.len()) > MAX_BYTES {
        return None;
    }
    let old = (!is_new).then_some(old);
    let problems = match language {
        SourceLanguage::Code(language) => new_problems_of_code(language, old, new),
        SourceLanguage::Data(format) => new_problems_of_data(format, old, new),
    }?;
    Some(format!("Note: {name} may not parse: {problems}."))
}

/// Returns the problems that a change brought into code. The checks run from the cheapest on.
fn new_problems_of_code(
    language: CodeLanguage,
    old: Option<&str>,
    new: &str,
) -> Option<ProblemList> {
    if [old.unwrap_or_default(), new].into_iter().any(|text| language.is_unsafe_for(text)) {
        return None;
    }
    let mut allowance = ParseAllowance::new();
    let mut check = |text: &str| check_code(language, text, &mut allowance);
    if old.is_some_and(|old| check(changed_block(old, new)) == SyntaxVerdict::Valid) {
        return None;
    }
    let SyntaxVerdict::Broken(problems) = check(new) else {
        return None;
    };
    if language.is_wider_than_grammar(new) {
        return None;
    }
    let was_valid = old.is_none_or(|old| check(old) == SyntaxVerdict::Valid);
    was_valid.then_some(problems)
}

/// Returns the problems that a change brought into a data file.
fn new_problems_of_data(format: DataFormat, old: Option<&str>, new: &str) -> Option<ProblemList> {
    let SyntaxVerdict::Broken(problems) = check_data(format, new) else {
        return None;
    };
    let was_valid = old.is_none_or(|old| check_data(format, old) == SyntaxVerdict::Valid);
    was_valid.then_some(problems)
}
