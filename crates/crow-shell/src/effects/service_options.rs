//! Harmless options of programs that fetch, send, install or run services. Left out are options that start a program,
//! read settings or send a file (`curl -K`, `-d @file`), act on another host (`docker -H`) or delete something.

use super::option_table::{NONE, OperandRule, OptionStyle, OptionTable};

const PIP: OptionTable = OptionTable {
    names: &["pip", "pip3"],
    flags: "Uqvy",
    valued: "re",
    long: "--dry-run --no-build-isolation --no-cache-dir --no-color --no-deps --no-input --outdated --pre --quiet --upgrade \
--user --verbose",
    long_valued: "--editable --format --progress-bar --requirement",
    inputs: "-r --requirement -e --editable",
    only_named: "--outdated",
    ..NONE
};

pub(super) const TABLES: [OptionTable; 19] = [
    OptionTable {
        names: &["curl"],
        flags: "sSfiILvN046#",
        valued: "mAo",
        long: "--compressed --fail --fail-with-body --globoff --head --http1.1 --http2 --include --ipv4 --ipv6 --location \
--no-buffer --no-progress-meter --progress-bar --show-error --silent --verbose --version",
        long_valued: "--connect-timeout --max-redirs --max-time --output --retry --retry-delay --user-agent",
        outputs: "-o --output",
        operands: OperandRule::WebAddress,
        ..NONE
    },
    OptionTable {
        names: &["wget"],
        flags: "qSNc46nv",
        valued: "OTt",
        long: "--continue --no-verbose --quiet --server-response --spider --timestamping --version",
        long_valued: "--output-document --timeout --tries",
        outputs: "-O --output-document",
        operands: OperandRule::WebAddress,
        ..NONE
    },
    OptionTable { names: &["scp"], flags: "rpqCv346", ..NONE },
    OptionTable {
        names: &["rsync"],
        flags: "avzrthpPnuqxlcHAX",
        long: "--archive --checksum --compress --dry-run --human-readable --itemize-changes --links --perms --progress --quiet \
--recursive --stats --times --update --verbose",
        long_valued: "--exclude --include",
        ..NONE
    },
    OptionTable {
        names: &["unzip"],
        flags: "lvtonqjup",
        valued: "d",
        outputs: "-d",
        makes_files: true,
        ..NONE
    },
    OptionTable {
        names: &["duckdb", "sqlite3"],
        style: OptionStyle::SingleDash,
        long: "batch box column csv header json line list markdown noheader readonly table version",
        operands: OperandRule::Most(1),
        ..NONE
    },
    OptionTable {
        names: &["docker", "podman"],
        subcommands: &["build"],
        flags: "q",
        valued: "t",
        long: "--load --no-cache --pull --quiet --rm",
        long_valued: "--build-arg --platform --progress --tag --target",
        ..NONE
    },
    OptionTable {
        names: &["docker", "podman"],
        subcommands: &["compose"],
        flags: "daq",
        long: "--all --build --detach --follow --force-recreate --no-build --no-color --no-deps --no-log-prefix --pull --quiet \
--quiet-pull --services --timestamps --wait",
        long_valued: "--since --tail",
        ..NONE
    },
    OptionTable {
        names: &["docker", "podman"],
        subcommands: &[
            "diff", "history", "images", "info", "inspect", "logs", "port", "ps", "search",
            "stats", "top", "version",
        ],
        flags: "aqlnfst",
        long: "--all --details --digests --follow --human --last --latest --no-stream --no-trunc --quiet --size --timestamps",
        long_valued: "--filter --format --limit --since --tail --type --until",
        ..NONE
    },
    // In `gh api`, `-f` is a field, with which it changes data.
    OptionTable {
        names: &["gh"],
        subcommands: &["api"],
        flags: "i",
        valued: "q",
        long: "--include --paginate --silent --slurp",
        long_valued: "--jq",
        operands: OperandRule::NoAddress,
        ..NONE
    },
    OptionTable {
        names: &["gh"],
        operands: OperandRule::NoAddress,
        flags: "dfL",
        valued: "stbBlaAH",
        long: "--all --checks --closed --comments --draft --exit-status --fill --log --log-failed --name-only --patch --watch",
        long_valued: "--assignee --author --base --body --body-file --branch --head --json --label --limit --milestone --reviewer \
--search --state --status --title --workflow",
        inputs: "--body-file",
        ..NONE
    },
    PIP,
    OptionTable { names: &["uv"], subcommands: &["pip"], ..PIP },
    OptionTable {
        names: &["poetry", "uv", "pdm", "pipenv"],
        flags: "qvn",
        valued: "G",
        long: "--all-extras --all-groups --dev --frozen --locked --latest --no-dev --no-interaction --no-root --offline --outdated \
--quiet --sync --top-level --tree --upgrade --verbose",
        long_valued: "--extra --group --only --with --without",
        only_named: "--outdated --latest",
        ..NONE
    },
    OptionTable {
        names: &["bundle", "gem"],
        flags: "qvV",
        valued: "jv",
        long: "--local --no-document --quiet --verbose",
        long_valued: "--jobs --retry --version",
        ..NONE
    },
    OptionTable {
        names: &["composer"],
        flags: "nqvoa",
        long: "--dev --no-dev --no-interaction --no-progress --no-scripts --optimize-autoloader --prefer-dist --quiet --verbose \
--with-all-dependencies",
        ..NONE
    },
    OptionTable {
        names: &["dotnet"],
        valued: "cvfr",
        long: "--force --interactive --list-tests --no-build --no-dependencies --no-incremental --no-logo --no-restore --nologo \
--verify-no-changes",
        long_valued: "--configuration --filter --framework --runtime --verbosity",
        ..NONE
    },
    OptionTable {
        names: &["mix"],
        long: "--all --check-formatted --color --cover --dry-run --failed --force --no-color --no-compile --no-deps-check --stale \
--trace --warnings-as-errors",
        long_valued: "--exclude --include --max-failures --only --seed",
        ..NONE
    },
    OptionTable {
        names: &["swift"],
        flags: "qv",
        valued: "cj",
        long: "--enable-code-coverage --parallel --quiet --show-bin-path --skip-build --skip-update --verbose",
        long_valued: "--configuration --filter --jobs --product --skip --target",
        ..NONE
    },
];
