//! Variables whose values change the behaviour of the shell or of later programs.

/// Variables that decide which program a name means, or what else the shell runs.
const OF_THE_SHELL: [&str; 17] = [
    "PATH",
    "IFS",
    "ENV",
    "CDPATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS4",
    "GLOBIGNORE",
    "EXECIGNORE",
    "FIGNORE",
    "POSIXLY_CORRECT",
    "SHELL",
];

/// Prefixes of the names of such variables.
const PREFIXES: [&str; 3] = ["LD_", "DYLD_", "BASH"];

/// Variables that the shell itself sets while a line runs, some of them to words of the line.
const SET_BY_THE_SHELL: [&str; 12] = [
    "COPROC",
    "DIRSTACK",
    "FUNCNAME",
    "HISTCMD",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "PIPESTATUS",
    "REPLY",
    "_",
    "BASH",
];

/// Returns whether the shell itself sets a variable, so that its value may be a word of the line.
pub(crate) fn is_set_by_the_shell(name: &str) -> bool {
    SET_BY_THE_SHELL.contains(&name) || name.starts_with("BASH_") || name.starts_with("COMP_")
}

/// The effect of setting a variable on later commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableEffect {
    /// No program reads it: a lower-case name without underscore, as in loops.
    Shell,
    /// Programs that are started later may read it from their environment.
    Programs,
    /// Names may mean other programs afterwards.
    ChangesLookup,
    /// Not a name but an index, which is arithmetic and may run commands.
    NoName,
}

/// Returns the effect of setting a variable.
pub(super) fn variable_effect(name: &str) -> VariableEffect {
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    if name.is_empty()
        || !name.chars().all(is_name)
        || name.starts_with(|char: char| char.is_ascii_digit())
    {
        VariableEffect::NoName
    } else if OF_THE_SHELL.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    {
        VariableEffect::ChangesLookup
    } else if name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit()) {
        VariableEffect::Shell
    } else {
        VariableEffect::Programs
    }
}
