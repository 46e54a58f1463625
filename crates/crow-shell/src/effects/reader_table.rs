//! Programs that only read, and the options with which they still do.

use super::{options::ProgramOptions, scripts::Language};

/// The meaning of a program's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Files.
    Files,
    /// At most one file: a second one would be written.
    OneFile,
    /// Files or folders; the working directory if there are none.
    Listed,
    /// Folders, read recursively; the working directory if there are none.
    Trees,
    /// A pattern, unless an option gives it, then files; with `-r` folders, read recursively.
    Pattern,
    /// A pattern, unless an option gives it or makes it unnecessary, then folders.
    PatternTrees,
    /// Files; with `-r` folders, read recursively, also over links.
    Compared,
    /// A script that must be checked itself, then files.
    Script(Language),
}

pub(super) struct ReaderProgram {
    pub name: &'static str,
    pub options: ProgramOptions,
    pub operands: Operands,
}

const fn reader(
    name: &'static str,
    operands: Operands,
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
) -> ReaderProgram {
    ReaderProgram { name, options: ProgramOptions { flags, valued, long }, operands }
}

/// Programs that touch no file and start nothing, with any arguments.
pub(super) const INERT: [&str; 38] = [
    ":", "arch", "basename", "break", "cal", "continue", "dirname", "echo", "exit", "expr",
    "factor", "false", "free", "getconf", "groups", "help", "id", "locale", "logname", "lscpu",
    "nproc", "pathchk", "pwd", "read", "return", "seq", "set", "shift", "sleep", "tr", "trap",
    "true", "tty", "type", "uname", "uptime", "which", "whoami",
];

pub(super) const READERS: [ReaderProgram; 52] = [
    reader(
        "cat",
        Operands::Files,
        "AbeEnstTuv",
        "",
        "--number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank \
--show-nonprinting",
    ),
    reader(
        "head",
        Operands::Files,
        "qvz0123456789",
        "nc",
        "--lines --bytes --quiet --silent --verbose --zero-terminated",
    ),
    reader(
        "tail",
        Operands::Files,
        "qvfFz0123456789",
        "nc",
        "--lines --bytes --quiet --silent --verbose --zero-terminated --follow",
    ),
    reader("wc", Operands::Files, "clmLw", "", "--lines --words --bytes --chars --max-line-length"),
    reader(
        "ls",
        Operands::Listed,
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1",
        "ITw",
        "--all --almost-all --author --block-size --classify --color --directory --escape \
--file-type --format --full-time --group-directories-first --hide --human-readable \
--hyperlink --ignore --indicator-style --inode --no-group --numeric-uid-gid \
--quoting-style --recursive --reverse --si --size --sort --time --time-style --zero",
    ),
    reader("dir", Operands::Listed, "aAlR1", "", ""),
    reader("grep", Operands::Pattern, "EFGPiyvwxcLlqsbHhnTUzZroaI0123456789", "emABCdD", GREP_LONG),
    reader(
        "egrep",
        Operands::Pattern,
        "EFGPiyvwxcLlqsbHhnTUzZroaI0123456789",
        "emABCdD",
        GREP_LONG,
    ),
    reader(
        "fgrep",
        Operands::Pattern,
        "EFGPiyvwxcLlqsbHhnTUzZroaI0123456789",
        "emABCdD",
        GREP_LONG,
    ),
    reader("rg", Operands::PatternTrees, "acFHhIilnNoPpqSsUuVvwx0.", "eABCEgjmMtTrd", RG_LONG),
    reader(
        "fd",
        Operands::PatternTrees,
        "HIusigapF0l1",
        "edtE",
        "--hidden --no-ignore --type --extension --max-depth --exclude --glob --absolute-path \
--full-path --color --unrestricted --max-results --fixed-strings --ignore-case \
--case-sensitive",
    ),
    reader(
        "sort",
        Operands::Files,
        "bdfghiMnRrVcCmsuz",
        "kt",
        "--reverse --numeric-sort --human-numeric-sort --unique --version-sort \
--general-numeric-sort --ignore-case --ignore-leading-blanks --key --field-separator \
--stable --check --random-sort --month-sort --zero-terminated",
    ),
    reader("uniq", Operands::OneFile, "cdDiuz", "fsw", "--count --repeated --unique --ignore-case"),
    reader(
        "cut",
        Operands::Files,
        "nsz",
        "bcdf",
        "--complement --output-delimiter --fields --delimiter --only-delimited --characters \
--bytes",
    ),
    reader("nl", Operands::Files, "p", "bdfhilnsvw", "--body-numbering"),
    reader("tac", Operands::Files, "br", "s", ""),
    reader("rev", Operands::Files, "", "", ""),
    reader("paste", Operands::Files, "sz", "d", "--serial --delimiters"),
    reader("column", Operands::Files, "tx", "so", "--table --separator --output-separator"),
    reader("fold", Operands::Files, "bs", "w", "--width --spaces"),
    reader("fmt", Operands::Files, "cstu", "w", "--width"),
    reader("expand", Operands::Files, "i", "t", "--tabs"),
    reader("unexpand", Operands::Files, "a", "t", "--tabs"),
    reader("comm", Operands::Files, "123iz", "", "--check-order --nocheck-order --total"),
    reader("join", Operands::Files, "iz", "1j2toave", "--header --check-order"),
    reader(
        "diff",
        Operands::Compared,
        "abBcdeEinNpqrstTuwyZ0123456789",
        "UWCI",
        "--brief --unified --context --recursive --color --ignore-all-space \
--ignore-space-change --ignore-blank-lines --ignore-case --side-by-side \
--suppress-common-lines --strip-trailing-cr --text --report-identical-files \
--new-file --exclude --width --minimal --normal",
    ),
    reader("cmp", Operands::Files, "bls", "n", "--silent --quiet --print-bytes --verbose --bytes"),
    reader(
        "stat",
        Operands::Files,
        "Lfxt",
        "c",
        "--format --printf --terse --dereference --file-system",
    ),
    reader(
        "file",
        Operands::Files,
        "bhikL",
        "",
        "--brief --mime --mime-type --mime-encoding --no-dereference",
    ),
    reader(
        "du",
        Operands::Trees,
        "abchkmsxS0",
        "dBt",
        "--max-depth --human-readable --summarize --apparent-size --all --total --exclude \
--bytes --time --threshold",
    ),
    reader(
        "df",
        Operands::Files,
        "ahHiklmPT",
        "",
        "--human-readable --total --output --print-type --inodes",
    ),
    reader(
        "tree",
        Operands::Trees,
        "adfiJpsughDFrtUvxCn",
        "LIP",
        "--dirsfirst --noreport --gitignore --prune --du --charset --filesfirst --matchdirs",
    ),
    reader(
        "realpath",
        Operands::Files,
        "emLPqsz",
        "",
        "--relative-to --relative-base --canonicalize-existing --canonicalize-missing \
--no-symlinks",
    ),
    reader(
        "readlink",
        Operands::Files,
        "efmnqsvz",
        "",
        "--canonicalize --canonicalize-existing --canonicalize-missing --no-newline",
    ),
    reader("md5sum", Operands::Files, "btz", "", "--tag --binary --text --zero"),
    reader("sha1sum", Operands::Files, "btz", "", "--tag --binary --text --zero"),
    reader("sha256sum", Operands::Files, "btz", "", "--tag --binary --text --zero"),
    reader("sha512sum", Operands::Files, "btz", "", "--tag --binary --text --zero"),
    reader("b2sum", Operands::Files, "btz", "l", "--tag --binary --text --zero --length"),
    reader("cksum", Operands::Files, "", "a", "--algorithm"),
    reader("shasum", Operands::Files, "bt", "a", "--algorithm"),
    reader("xxd", Operands::OneFile, "abeipu", "clg", ""),
    reader(
        "od",
        Operands::Files,
        "abcdfhilosvx",
        "AjNt",
        "--address-radix --format --read-bytes --skip-bytes",
    ),
    reader("hexdump", Operands::Files, "bcCdovx", "ns", ""),
    reader(
        "strings",
        Operands::Files,
        "afw0123456789",
        "nte",
        "--all --bytes --encoding --include-all-whitespace --print-file-name --radix",
    ),
    reader("base64", Operands::OneFile, "d", "w", "--decode --wrap"),
    reader(
        "jq",
        Operands::Script(Language::Jq),
        "acCejMnrRsS",
        "",
        "--raw-output --compact-output --null-input --sort-keys --exit-status --raw-input \
--slurp --tab --join-output --ascii-output --color-output --monochrome-output --seq \
--stream",
    ),
    reader("awk", Operands::Script(Language::Awk), "", "Fv", ""),
    reader("gawk", Operands::Script(Language::Awk), "", "Fv", ""),
    reader("mawk", Operands::Script(Language::Awk), "", "Fv", ""),
    reader(
        "sed",
        Operands::Script(Language::Sed),
        "nErsuz",
        "e",
        "--quiet --silent --regexp-extended --expression --null-data --separate --unbuffered \
--posix",
    ),
    reader("numfmt", Operands::OneFile, "z", "d", "--to --from --field --suffix --format --header"),
];

pub(super) const GREP_LONG: &str = "--after-context --basic-regexp --before-context --binary-files --byte-offset --color \
--colour --context --count --exclude --exclude-dir --extended-regexp \
--files-with-matches --files-without-match --fixed-strings --ignore-case --include \
--invert-match --label --line-buffered --line-number --line-regexp --max-count \
--no-filename --no-ignore-case --no-messages --null --only-matching --perl-regexp \
--quiet --recursive --regexp --silent --text --with-filename --word-regexp";

pub(super) const RG_LONG: &str = "--after-context --before-context --case-sensitive --color --colors --column \
--context --count --count-matches --encoding --files --files-with-matches \
--files-without-match --fixed-strings --glob --heading --hidden --iglob \
--ignore-case --invert-match --json --line-number --line-regexp --max-columns \
--max-count --max-depth --max-filesize --multiline --multiline-dotall --no-config \
--no-filename --no-heading --no-ignore --no-ignore-vcs --no-line-number \
--no-messages --null --only-matching --passthru --pcre2 --quiet --regexp --replace \
--smart-case --sort --sortr --stats --text --trim --type --type-list --type-not \
--unrestricted --vimgrep --with-filename --word-regexp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_both_a_flag_and_one_with_a_value() {
        for reader in &READERS {
            let ProgramOptions { flags, valued, .. } = reader.options;
            assert!(!flags.contains(|letter| valued.contains(letter)), "{}", reader.name);
        }
        assert!(READERS.iter().all(|reader| !INERT.contains(&reader.name)));
    }
}
