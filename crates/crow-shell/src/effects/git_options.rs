//! The options of git's subcommands that only choose what is shown or recorded. Left out are those that start a
//! program (`--ext-diff`, `--textconv`, `-O`, `--upload-pack`), write a file (`--output`) or read an arbitrary one
//! (`--contents`, `-f`). The meaning of some letters depends on the subcommand, so each has its own list.

use super::option_table::{NONE, OperandRule, OptionTable};

const DIFF_LONG: &str = "--abbrev --anchored --base --binary --break-rewrites --cached --cc --check --color --color-moved \
--color-moved-ws --color-words --combined-all-paths --compact-summary --cumulative --default-prefix --diff-algorithm \
--diff-filter --dirstat --exit-code --find-copies --find-copies-harder --find-renames --full-index --function-context \
--histogram --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol --ignore-matching-lines --ignore-space-at-eol \
--ignore-space-change --ignore-submodules --indent-heuristic --inter-hunk-context --irreversible-delete --merge-base \
--minimal --name-only --name-status --no-color --no-color-moved --no-commit-id --no-ext-diff --no-indent-heuristic --no-patch --no-prefix \
--no-relative --no-renames --no-textconv --numstat --ours --patch --patch-with-raw --patch-with-stat --patience \
--pickaxe-all --pickaxe-regex --quiet --raw --relative --rename-empty --root --shortstat --staged --stat --submodule --summary \
--text --theirs --unified --word-diff --word-diff-regex --ws-error-highlight";

const LOG_LONG: &str = "--abbrev --abbrev-commit --after --all --all-match --ancestry-path --anchored --author \
--author-date-order --basic-regexp --before --binary --boundary --branches --cc --check --cherry --cherry-mark \
--cherry-pick --color --color-moved --color-words --committer --compact-summary --count --date --date-order --decorate \
--decorate-refs --decorate-refs-exclude --dense --diff-algorithm --diff-filter --diff-merges --dirstat --encoding --exclude \
--expand-tabs --extended-regexp --find-copies --find-renames --first-parent --fixed-strings --follow --format \
--full-diff --full-history --full-index --function-context --glob --graph --grep --grep-reflog --histogram \
--ignore-all-space --ignore-blank-lines --ignore-space-at-eol --ignore-space-change --ignore-submodules --invert-grep \
--left-only --left-right --log-size --mailmap --max-count --max-parents --merge --merges --min-parents --minimal \
--name-only --name-status --no-abbrev-commit --no-color --no-decorate --no-diff-merges --no-expand-tabs --no-ext-diff \
--no-mailmap --no-max-parents --no-merges --no-min-parents --no-notes --no-patch --no-prefix --no-renames --no-textconv \
--no-walk --not --notes --numstat --objects --oneline --parents --patch --patch-with-stat --patience --perl-regexp \
--pickaxe-all --pickaxe-regex --pretty --quiet --raw --regexp-ignore-case --relative --relative-date --remerge-diff \
--remotes --remove-empty --reverse --right-only --root --shortstat --show-notes --show-pulls --since --simplify-by-decoration \
--simplify-merges --skip --source --sparse --stat --submodule --summary --tags --text --timestamp --topo-order --unified \
--until --use-mailmap --walk-reflogs --word-diff --word-diff-regex --children --full-name --cumulative";

/// Letters shared by all subcommands that show differences.
const DIFF_FLAGS: &str = "pusaRbwWzticmrDBMC0123456789";

const fn command(
    names: &'static [&'static str],
    flags: &'static str,
    valued: &'static str,
    long: &'static str,
) -> OptionTable {
    OptionTable { names, flags, valued, long, ..NONE }
}

static TABLES: [OptionTable; 39] = [
    command(
        &["diff", "diff-tree", "diff-index", "diff-files", "range-diff"],
        DIFF_FLAGS,
        "UGSIl",
        DIFF_LONG,
    ),
    command(
        &["log", "show", "rev-list", "whatchanged", "reflog", "stash", "notes"],
        "pusaRbwWzticmrDBMCgEFPq0123456789",
        "UGSIlnL",
        LOG_LONG,
    ),
    command(&["shortlog"], "nsceEFPiw", "", LOG_LONG),
    command(
        &["grep"],
        "aIiwvhHEGPFnclLoqpWzr0123456789",
        "eABCm",
        "--after-context --all-match --and --basic-regexp --before-context --break --cached --color --column --context --count \
--exclude-standard --extended-regexp --files-with-matches --files-without-match --fixed-strings --full-name \
--function-context --heading --ignore-case --invert-match --line-number --max-count --max-depth --name-only --no-color \
--no-exclude-standard --not --null --only-matching --or --perl-regexp --quiet --recurse-submodules --recursive \
--show-function --text --threads --untracked --word-regexp",
    ),
    command(
        &["status"],
        "sbvuz",
        "",
        "--ahead-behind --branch --column --find-renames --ignore-submodules --ignored --long --no-ahead-behind --no-column \
--no-renames --porcelain --renames --short --show-stash --untracked-files --verbose",
    ),
    command(
        &["blame", "annotate"],
        "bltfsewncMCpk",
        "L",
        "--abbrev --color-by-age --color-lines --date --first-parent --ignore-rev --incremental --line-porcelain --minimal \
--porcelain --progress --no-progress --reverse --root --score-debug --show-email --show-name --show-number --show-stats --since",
    ),
    command(
        &["cat-file"],
        "tsep",
        "",
        "--batch --batch-all-objects --batch-check --buffer --follow-symlinks --no-mailmap --unordered --use-mailmap",
    ),
    command(
        &["describe"],
        "",
        "",
        "--abbrev --all --always --broken --candidates --contains --debug --dirty --exact-match --exclude --first-parent --long \
--match --tags",
    ),
    command(
        &["ls-files"],
        "cdomikustvfz",
        "x",
        "--abbrev --cached --debug --deduplicate --deleted --directory --eol --error-unmatch --exclude --exclude-standard \
--format --full-name --ignored --killed --modified --no-empty-directory --others --recurse-submodules --sparse --stage \
--unmerged --with-tree",
    ),
    command(
        &["ls-tree"],
        "drtlz",
        "",
        "--abbrev --format --full-name --full-tree --long --name-only --name-status --object-only",
    ),
    command(&["merge-base"], "a", "", "--all --fork-point --independent --is-ancestor --octopus"),
    command(
        &["rev-parse"],
        "q",
        "",
        "--abbrev-ref --absolute-git-dir --all --branches --default --disambiguate --exclude --flags --git-common-dir \
--git-dir --git-path --glob --is-bare-repository --is-inside-git-dir --is-inside-work-tree --is-shallow-repository \
--no-flags --no-revs --not --path-format --quiet --remotes --revs-only --short --show-cdup --show-object-format \
--show-prefix --show-superproject-working-tree --show-toplevel --since --sq --symbolic --symbolic-full-name --tags \
--until --verify",
    ),
    command(
        &["for-each-ref"],
        "",
        "",
        "--color --contains --count --exclude --format --ignore-case --include-root-refs --merged --no-contains --no-merged \
--omit-empty --points-at --sort",
    ),
    command(
        &["name-rev"],
        "",
        "",
        "--all --always --exclude --name-only --no-undefined --refs --tags",
    ),
    command(
        &["show-ref"],
        "dqs",
        "",
        "--abbrev --branches --dereference --hash --head --heads --quiet --tags --verify",
    ),
    command(
        &["show-branch"],
        "arg",
        "",
        "--all --color --current --date-order --independent --list --merge-base --more --no-color --no-name --reflog --remotes \
--sha1-name --sparse --topics --topo-order",
    ),
    command(&["check-ignore"], "qvnz", "", "--non-matching --quiet --verbose"),
    command(&["check-attr"], "az", "", "--all --cached"),
    command(&["count-objects"], "vH", "", "--human-readable --verbose"),
    command(&["var"], "l", "", ""),
    command(
        &["add"],
        "vnfpuAN",
        "",
        "--all --chmod --dry-run --force --ignore-errors --ignore-missing --ignore-removal --intent-to-add --no-all \
--no-ignore-removal --patch --refresh --renormalize --sparse --update --verbose",
    ),
    OptionTable {
        long_valued: "--file",
        inputs: "-F --file",
        ..command(
            &["commit"],
            "aqvspnoiez",
            "mFCc",
            "--all --allow-empty --allow-empty-message --amend --author --branch --cleanup --date --dry-run --edit --fixup \
--include --interactive --long --message --no-edit --no-gpg-sign --no-post-rewrite --no-status --no-verify --null --only \
--patch --porcelain --quiet --reset-author --reuse-message --short --signoff --squash --status --untracked-files --verbose",
        )
    },
    OptionTable {
        operands: OperandRule::NoAddress,
        ..command(
            &["fetch"],
            "aptnvqfkPm46",
            "j",
            "--all --append --atomic --deepen --depth --dry-run --force --ipv4 --ipv6 --jobs --keep --multiple --no-auto-gc \
--no-recurse-submodules --no-tags --no-write-fetch-head --progress --prune --prune-tags --quiet --recurse-submodules \
--set-upstream --shallow-exclude --shallow-since --tags --unshallow --verbose",
        )
    },
    OptionTable {
        operands: OperandRule::NoAddress,
        ..command(
            &["ls-remote"],
            "hqtb",
            "",
            "--branches --exit-code --get-url --heads --quiet --refs --sort --symref --tags",
        )
    },
    command(&["remote"], "v", "", "--verbose --all --push"),
    OptionTable {
        operands: OperandRule::NoAddress,
        ..command(
            &["push"],
            "uqvn46",
            "",
            "--atomic --dry-run --follow-tags --ipv4 --ipv6 --no-progress --porcelain --progress --quiet --set-upstream --tags --verbose",
        )
    },
    OptionTable {
        operands: OperandRule::NoAddress,
        ..command(
            &["pull"],
            "qvnt46",
            "",
            "--all --autostash --dry-run --ff --ff-only --ipv4 --ipv6 --no-autostash --no-commit --no-edit --no-ff --no-rebase \
--no-stat --no-tags --progress --prune --quiet --rebase --squash --stat --tags --verbose",
        )
    },
    // Without `--force` it removes nothing.
    OptionTable {
        only_named: "-f --force",
        ..command(&["clean"], "ndfqxX", "e", "--dry-run --exclude --force --quiet")
    },
    command(
        &["checkout", "switch", "restore"],
        "bcqltdpsSW",
        "",
        "--conflict --create --detach --guess --ignore-skip-worktree-bits --merge --no-guess --no-overlay --no-progress \
--no-track --ours --overlay --patch --progress --quiet --source --staged --theirs --track --worktree",
    ),
    command(
        &["branch"],
        "alrvqt",
        "",
        "--all --color --column --contains --format --ignore-case --list --merged --no-abbrev --no-color --no-column \
--no-contains --no-merged --no-track --points-at --quiet --remotes --show-current --sort --track --verbose",
    ),
    command(
        &["tag"],
        "aln0123456789",
        "m",
        "--annotate --column --contains --format --ignore-case --list --merged --message --no-contains --no-merged --points-at --sort",
    ),
    command(
        &["merge"],
        "qvn",
        "m",
        "--abort --autostash --commit --continue --ff --ff-only --no-commit --no-edit --no-ff --no-gpg-sign --no-stat --quiet \
--quit --squash --stat --verbose",
    ),
    command(
        &["rebase"],
        "qvnr",
        "",
        "--abort --autosquash --autostash --continue --edit-todo --keep-base --no-autosquash --no-autostash --no-stat --onto \
--quiet --quit --rebase-merges --root --show-current-patch --skip --stat --update-refs --verbose",
    ),
    command(
        &["cherry-pick", "revert"],
        "nx",
        "m",
        "--abort --allow-empty --continue --mainline --no-commit --no-edit --no-gpg-sign --quit --skip",
    ),
    command(&["reset"], "qN", "", "--keep --mixed --no-refresh --patch --quiet --refresh --soft"),
    command(&["rm", "mv"], "nqrv", "", "--cached --dry-run --ignore-unmatch --quiet --verbose"),
    command(
        &["clone"],
        "lnqv46",
        "bj",
        "--bare --branch --depth --filter --ipv4 --ipv6 --jobs --mirror --no-checkout --no-hardlinks --no-single-branch \
--no-tags --progress --quiet --single-branch --sparse --verbose",
    ),
    OptionTable {
        long_valued: "--default --type",
        words: "get list",
        operands: OperandRule::Most(1),
        ..command(
            &["config"],
            "lz",
            "",
            "--all --bool --get --get-all --get-regexp --int --list --local --name-only --null --path --regexp --show-names \
--show-origin --show-scope --worktree",
        )
    },
    command(&["worktree"], "vz", "", "--porcelain --verbose"),
];

/// Returns the harmless options of a subcommand of git, if they are listed.
pub(super) fn table(command: &str) -> Option<&'static OptionTable> {
    TABLES.iter().find(|table| table.names.contains(&command))
}
