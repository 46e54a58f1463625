//! Syntax that only bash reads as this parser does.

/// Returns whether a plain `sh` may read a line differently: a test in double brackets is grammar to bash and a list
/// of commands to `sh`. May return true for lines that both read alike.
pub fn needs_bash(text: &str) -> bool {
    const MARKS: [&str; 12] =
        ["[[", "((", "&>", ">&", "<&", "|&", "<(", ">(", "<<<", "$'", "$\"", "=("];

    let copies = ["2>&1", "1>&2", ">&2", ">&1"];
    let bare = copies.iter().fold(text.to_owned(), |text, copy| text.replace(copy, ""));
    let has_list = text.contains('{') && (text.contains(',') || text.contains(".."));
    let arithmetic = bare.replace("$((", "");
    has_list || MARKS.iter().any(|mark| arithmetic.contains(mark))
}
