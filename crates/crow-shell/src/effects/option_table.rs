//! Programs that users allow by their first words, and the options that do not widen such a permission.
//!
//! A permission for `make test` covers what the project does under that name. An option that starts a program, reads
//! settings from elsewhere or runs code of the command line goes beyond it. So the harmless options are listed, from
//! the manuals of the programs, and the user is asked about any other one.

/// The option syntax of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionStyle {
    /// `-abc`, `-a value`, `--name`, `--name=value`.
    Gnu,
    /// Long names after one dash or two: `-run X`, `-run=X`.
    SingleDash,
    /// The first word may be a cluster of letters without a dash: `tar xf`.
    Tar,
    /// A compiler of C and its like: the first letters of an option decide its meaning.
    Compiler,
}

/// The words after `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterDashes {
    /// Operands.
    Operands,
    /// Arguments of the user's own program, which the permission is for.
    Anything,
    /// Arguments of another program, of which these options are harmless.
    Options(&'static str),
    /// Arguments of another program, of which only these options and numbers are harmless.
    Only(&'static str),
}

/// The operands that a permission for the first words covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandRule {
    /// All: names of files, targets, text.
    Any,
    /// All but addresses, which lead to hosts other than the project's.
    NoAddress,
    /// One web address.
    WebAddress,
    /// Targets of make and its like, and settings without an effect on what is started.
    Target,
    /// At most this many. Further ones are a value to set, a script or a command.
    Most(usize),
}

/// The harmless options of a program. Lists in strings are divided by blanks.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionTable {
    pub names: &'static [&'static str],
    /// The first words that the table applies to; empty for all.
    pub subcommands: &'static [&'static str],
    pub style: OptionStyle,
    /// Option letters without a value.
    pub flags: &'static str,
    /// Option letters with a value.
    pub valued: &'static str,
    /// Long names without a value, or with one after `=`.
    pub long: &'static str,
    /// Long names with a value, after `=` or in the next word.
    pub long_valued: &'static str,
    /// Options, with their dashes, whose value is an output file. They are also listed as options with a value.
    /// Unless the program [makes files](Self::makes_files), a permission covers them only if it names the option and
    /// the file.
    pub outputs: &'static str,
    /// True if the purpose of the program is to create files, as for a compiler or packer.
    pub makes_files: bool,
    /// Options, with their dashes, that a permission covers only if it names them: those that change files which the
    /// program otherwise only reads, or use the network. They are also listed above.
    pub only_named: &'static str,
    /// Options, with their dashes, whose value is an input file or `-`. They are also listed as options with a value.
    pub inputs: &'static str,
    /// Words accepted only as a whole.
    pub words: &'static str,
    /// Options with their dashes that are harmless only with one of these values, as `option=value`: the file or
    /// folder that the program takes anyway, or a value of its own. They are also listed as options with a value.
    pub only_with: &'static str,
    pub operands: OperandRule,
    pub after_dashes: AfterDashes,
}

pub(super) const NONE: OptionTable = OptionTable {
    names: &[],
    subcommands: &[],
    style: OptionStyle::Gnu,
    flags: "",
    valued: "",
    long: "",
    long_valued: "",
    outputs: "",
    makes_files: false,
    only_named: "",
    inputs: "",
    words: "",
    only_with: "",
    operands: OperandRule::Any,
    after_dashes: AfterDashes::Operands,
};

const CARGO: OptionTable = OptionTable {
    names: &["cargo"],
    flags: "rvqnhd",
    valued: "pjFDWAie",
    long: "--all --all-features --all-targets --allow-dirty --allow-no-vcs --allow-staged --benches --bins --check --dev \
--doc --dry-run --each-feature --examples --fix --frozen --help --ignore-rust-version --invert --keep-going --lib --list \
--locked --message-format --no-capture --no-default-features --no-deps --no-fail-fast --no-run --offline --open \
--optional --quiet --release --tests --timings --verbose --version --workspace",
    long_valued: "--bench --bin --build-jobs --color --depth --edges --example --exclude --features --filter-expr \
--format --format-version --jobs --message-format --package --prefix --profile --target --target-dir --test --test-threads",
    outputs: "--target-dir",
    makes_files: true,
    only_named: "--fix",
    after_dashes: AfterDashes::Options(
        "--all --check --color --edition --emit --exact --format --ignored --include-ignored --list --no-capture --nocapture \
--quiet --show-output --skip --stdin --test --test-threads -A -D -F -W -q -v",
    ),
    ..NONE
};

/// Runners of the scripts of a `package.json`.
const NPM: OptionTable = OptionTable {
    names: &["npm", "pnpm", "yarn", "bun"],
    flags: "sqyrwDEPOdf",
    valued: "wFt",
    long: "--all --audit --bail --ci --color --coverage --dev --dry-run --fix --foreground-scripts --frozen-lockfile \
--help --if-present --ignore-scripts --immutable --include-workspace-root --json --legacy-peer-deps --long \
--no-audit --no-color --no-coverage --no-fund --no-save --noEmit --offline --package-lock-only --parallel --passWithNoTests \
--prefer-offline --prod --production --quiet --recursive --run --runInBand --save --save-dev --save-exact --silent \
--stream --update --verbose --version --watch --watchAll --workspaces --yes",
    long_valued: "--depth --filter --include --loglevel --omit --testNamePattern --workspace",
    only_named: "--fix",
    after_dashes: AfterDashes::Options(
        "--bail --ci --color --coverage --fix --host --mode --no-coverage --noEmit --passWithNoTests --port --run --runInBand \
--silent --update --updateSnapshot --verbose --watch --watchAll -i -t -u -w",
    ),
    ..NONE
};

const PYTEST: OptionTable = OptionTable {
    names: &["pytest", "py.test"],
    flags: "vqsxlh",
    valued: "kmnr",
    long: "--co --collect-only --cov --exitfirst --failed-first --ff --help --last-failed --lf --new-first --nf --no-cov \
--no-header --no-summary --pdb --quiet --setup-plan --setup-show --showlocals --stepwise --strict-config --strict-markers \
--sw --verbose --version",
    long_valued: "--capture --color --deselect --dist --durations --ignore --maxfail --numprocesses --tb --timeout \
--verbosity",
    words: "--cov-report=term --cov-report=term-missing",
    ..NONE
};

const GO: OptionTable = OptionTable {
    names: &["go"],
    style: OptionStyle::SingleDash,
    long: "a asan benchmem cache compiled cover d deps e export failfast find fullpath i json linkshared m modcache msan n r \
race retracted short t test testcache trimpath u v versions x",
    long_valued: "bench benchtime blockprofile buildmode buildvcs count covermode coverpkg coverprofile cpu cpuprofile \
f fuzz fuzztime list memprofile mod mutexprofile o outputdir p parallel run shuffle skip tags timeout trace",
    outputs: "-blockprofile -coverprofile -cpuprofile -memprofile -mutexprofile -o -outputdir -trace",
    only_named: "-mod",
    words: "-gcflags=-m -gcflags=-N -gcflags=all=-N -ldflags=-s -ldflags=-w",
    ..NONE
};

const MAKE: OptionTable = OptionTable {
    names: &["make", "gmake"],
    // `-j` and `-l` may stand without a number, so the next word is no value.
    flags: "Bkjlnpqrsdtiw0123456789",
    long: "--always-make --debug --dry-run --help --ignore-errors --jobs --just-print --keep-going --load-average \
--no-builtin-rules --no-keep-going --no-print-directory --output-sync --print-data-base --print-directory --question \
--quiet --recon --silent --touch --trace --version --warn-undefined-variables",
    operands: OperandRule::Target,
    ..NONE
};

const COMPILER: OptionTable = OptionTable {
    names: &["gcc", "g++", "cc", "c++", "clang", "clang++"],
    style: OptionStyle::Compiler,
    outputs: "-o",
    makes_files: true,
    ..NONE
};

const TAR: OptionTable = OptionTable {
    names: &["tar", "bsdtar", "gtar"],
    style: OptionStyle::Tar,
    flags: "cxtvzjJapkmrSOulUWZ",
    valued: "fbC",
    long: "--acls --auto-compress --bzip2 --create --diff --extract --get --gunzip --gzip --keep-newer-files --keep-old-files \
--list --no-recursion --no-same-owner --no-same-permissions --no-wildcards --numeric-owner --preserve-permissions \
--same-permissions --show-transformed-names --skip-old-files --sparse --to-stdout --totals --verbose --verify --version \
--wildcards --xattrs --xz --zstd",
    long_valued: "--blocking-factor --directory --exclude --file --format --group --mode --mtime --owner --sort \
--strip-components",
    ..NONE
};

/// Options with which a reader follows links or takes patterns from a file. The user is asked, and may allow the
/// program for longer.
const GREP: OptionTable = OptionTable {
    names: &["grep", "egrep", "fgrep"],
    flags: "EFGPiyvwxcLlqsbHhnTUzZroaIR0123456789",
    valued: "emABCdDf",
    long: super::reader_table::GREP_LONG,
    long_valued: "--exclude-from --file",
    inputs: "-f --exclude-from --file",
    ..NONE
};

const RG: OptionTable = OptionTable {
    names: &["rg"],
    flags: "acFHhIilnNoPpqSsUuVvwx0.L",
    valued: "eABCEgjmMtTrdf",
    long: super::reader_table::RG_LONG,
    long_valued: "--file --ignore-file",
    inputs: "-f --file --ignore-file",
    words: "--follow",
    ..NONE
};

pub(super) const TABLES: [OptionTable; 48] = [
    GREP,
    RG,
    OptionTable {
        names: &["ls"],
        flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        valued: "ITw",
        long: "--all --color --dereference",
        ..NONE
    },
    OptionTable {
        names: &["jq"],
        flags: "acCejMnrRsS",
        valued: "f",
        long_valued: "--from-file",
        inputs: "-f --from-file",
        long: "--arg --argjson --args --ascii-output --compact-output --exit-status --join-output --jsonargs \
--null-input --raw-input --raw-output --slurp --sort-keys --stream --tab",
        ..NONE
    },
    OptionTable { subcommands: &["run", "r"], after_dashes: AfterDashes::Anything, ..CARGO },
    OptionTable { subcommands: &["nextest"], valued: "pjFDWAieE", ..CARGO },
    CARGO,
    // In other subcommands, `-g` installs outside of the project.
    OptionTable {
        subcommands: &["bin", "la", "list", "ll", "ls", "outdated", "prefix", "root"],
        flags: "agl",
        long: "--all --global --json --long --parseable",
        long_valued: "--depth",
        ..NPM
    },
    // Without `-r`, which loads a file first.
    OptionTable { names: &["bun"], flags: "sqywDEPOdf", ..NPM },
    NPM,
    PYTEST,
    OptionTable { subcommands: &["env"], long: "changed json", long_valued: "", outputs: "", ..GO },
    OptionTable { subcommands: &["build"], makes_files: true, ..GO },
    GO,
    MAKE,
    // The make of the BSDs: most of its options have another meaning.
    OptionTable { names: &["bmake", "pmake"], flags: "Bikjnqrstw0123456789", long: "", ..MAKE },
    COMPILER,
    TAR,
    OptionTable {
        names: &["ninja"],
        flags: "vnh",
        valued: "jklC",
        // Where cmake and meson put their build files.
        only_with: "-C=build -C=builddir",
        long: "--verbose --quiet --version",
        ..NONE
    },
    // Without scripts (`-S`, `-D`).
    OptionTable {
        names: &["ctest"],
        flags: "VQN",
        valued: "jRELIC",
        long: "--output-on-failure --parallel --progress --quiet --rerun-failed --schedule-random --show-only --stop-on-failure \
--verbose --version",
        long_valued: "--exclude-regex --label-exclude --label-regex --parallel --repeat --test-dir --tests-regex --timeout",
        only_with: "--test-dir=build --test-dir=builddir",
        ..NONE
    },
    OptionTable {
        names: &["zip"],
        flags: "rqjyuvX0123456789",
        long: "--quiet --recurse-paths",
        ..NONE
    },
    OptionTable {
        names: &["split"],
        flags: "dex",
        valued: "abClnt",
        long: "--elide-empty-files --numeric-suffixes --verbose",
        long_valued: "--additional-suffix --bytes --line-bytes --lines --number --separator --suffix-length",
        ..NONE
    },
    OptionTable {
        names: &["rustc"],
        flags: "gOVvh",
        valued: "oA",
        long: "--help --test --verbose --version",
        long_valued: "--cap-lints --cfg --color --crate-name --crate-type --edition --explain --print --target",
        outputs: "-o",
        makes_files: true,
        ..NONE
    },
    OptionTable {
        names: &["rustfmt"],
        flags: "lqv",
        long: "--check --quiet --verbose --version",
        long_valued: "--color --edition --emit",
        only_named: "--emit",
        ..NONE
    },
    OptionTable {
        names: &["gofmt"],
        style: OptionStyle::SingleDash,
        long: "d e l s w",
        only_named: "-w",
        ..NONE
    },
    OptionTable {
        names: &["cmake"],
        flags: "vhN",
        valued: "BSGAtj",
        long: "--clean-first --fresh --help --list-presets --parallel --verbose --version",
        long_valued: "--build --config --install --parallel --prefix --preset --target",
        words: "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_BUILD_TYPE=Release -DCMAKE_BUILD_TYPE=RelWithDebInfo \
-DCMAKE_BUILD_TYPE=MinSizeRel -DBUILD_TESTING=ON -DBUILD_TESTING=OFF -DBUILD_SHARED_LIBS=ON -DBUILD_SHARED_LIBS=OFF \
-DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_VERBOSE_MAKEFILE=ON",
        outputs: "--prefix -B",
        makes_files: true,
        after_dashes: AfterDashes::Only(
            "-j -k -n -s -v --jobs --keep-going --quiet --silent --verbose",
        ),
        ..NONE
    },
    OptionTable {
        names: &["tsc"],
        flags: "bwvh",
        valued: "p",
        only_with: "-p=. -p=tsconfig.json --project=. --project=tsconfig.json",
        long: "--allowJs --build --clean --dry --force --incremental --listFiles --noEmit --noEmitOnError --preserveWatchOutput \
--pretty --skipLibCheck --strict --verbose --version --watch",
        long_valued: "--declarationDir --jsx --module --moduleResolution --outDir --project --target",
        outputs: "--declarationDir --outDir",
        makes_files: true,
        ..NONE
    },
    OptionTable {
        names: &["jest", "vitest"],
        flags: "iouwbh",
        valued: "t",
        long: "--all --bail --ci --clearCache --colors --coverage --detectOpenHandles --forceExit --help --lastCommit --listTests \
--no-color --no-coverage --no-watch --onlyChanged --passWithNoTests --run --runInBand --silent --update --updateSnapshot --ui \
--verbose --version --watch --watchAll",
        long_valued: "--findRelatedTests --maxWorkers --testNamePattern --testTimeout",
        ..NONE
    },
    OptionTable {
        names: &["mocha"],
        flags: "bwC",
        valued: "gftsR",
        long: "--bail --check-leaks --exit --forbid-only --forbid-pending --no-color --parallel --recursive --version --watch",
        long_valued: "--fgrep --grep --jobs --retries --slow --timeout",
        ..NONE
    },
    OptionTable {
        names: &["eslint"],
        long: "--cache --color --debug --fix --fix-dry-run --no-color --no-error-on-unmatched-pattern --no-ignore --quiet --version",
        long_valued: "--ext --fix-type --ignore-pattern --max-warnings",
        only_named: "--fix",
        ..NONE
    },
    OptionTable {
        names: &["prettier"],
        flags: "wclu",
        long: "--cache --check --ignore-unknown --list-different --no-color --version --write",
        long_valued: "--log-level --parser --print-width --tab-width",
        only_named: "--write -w",
        ..NONE
    },
    OptionTable {
        names: &["webpack", "vite"],
        flags: "w",
        long: "--force --host --open --strictPort --version --watch",
        long_valued: "--host --mode --port",
        ..NONE
    },
    OptionTable {
        names: &["mypy"],
        flags: "vpm",
        long: "--check-untyped-defs --disallow-untyped-defs --ignore-missing-imports --no-color-output --no-error-summary \
--no-incremental --pretty --show-column-numbers --show-error-codes --show-error-context --strict --verbose --version --warn-unreachable",
        long_valued: "--exclude --follow-imports --module --package --platform --python-version",
        ..NONE
    },
    OptionTable {
        names: &["ruff"],
        flags: "qvnew",
        only_named: "--fix --fix-only",
        long: "--check --diff --exit-zero --fix --fix-only --no-cache --no-fix --output-format --preview --quiet --show-fixes --statistics \
--unsafe-fixes --verbose --version --watch",
        long_valued: "--exclude --extend-ignore --extend-select --ignore --line-length --output-format --select --target-version",
        ..NONE
    },
    OptionTable {
        names: &["black", "isort"],
        flags: "qvcC",
        valued: "lt",
        long: "--check --check-only --color --diff --quiet --verbose --version",
        long_valued: "--exclude --include --line-length --profile --target-version",
        ..NONE
    },
    OptionTable {
        names: &["flake8", "pylint"],
        flags: "vqE",
        valued: "j",
        long: "--count --errors-only --quiet --show-source --statistics --verbose --version",
        long_valued: "--disable --enable --exclude --extend-ignore --ignore --jobs --max-complexity --max-line-length --score --select",
        ..NONE
    },
    OptionTable {
        names: &["mvn", "mvnw", "./mvnw"],
        style: OptionStyle::SingleDash,
        long: "B DskipTests Dmaven.test.skip=true U V X am amd e ff fae fn ntp no-transfer-progress o q v version",
        long_valued: "Dtest P T pl rf",
        words: "-DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false -DskipTests=true -DskipITs",
        ..NONE
    },
    OptionTable {
        names: &["gradle", "gradlew", "./gradlew"],
        flags: "qimsSdw",
        valued: "x",
        long: "--build-cache --continue --daemon --debug --dry-run --full-stacktrace --info --no-build-cache --no-daemon --offline \
--parallel --profile --quiet --refresh-dependencies --rerun-tasks --scan --stacktrace --status --stop --version --warn",
        long_valued: "--console --exclude-task --max-workers --tests --warning-mode",
        ..NONE
    },
    OptionTable {
        names: &["just"],
        flags: "lnqv",
        long: "--dry-run --evaluate --list --quiet --summary --verbose --version --yes",
        operands: OperandRule::Target,
        ..NONE
    },
    OptionTable {
        names: &["rake"],
        flags: "mnqstvPTA",
        long: "--all --dry-run --prereqs --quiet --silent --tasks --trace --verbose --version",
        operands: OperandRule::Target,
        ..NONE
    },
    OptionTable {
        names: &["rspec", "rubocop"],
        flags: "abAcfpx",
        valued: "et",
        long: "--autocorrect --autocorrect-all --backtrace --color --dry-run --fail-fast --no-color --only-failures --profile \
--next-failure --version",
        long_valued: "--example --format --only --order --seed --tag",
        // Any other formatter is a class that may be loaded from a file.
        only_with: "--format=documentation --format=progress --format=failures --format=json --format=simple \
--format=offenses",
        only_named: "--autocorrect --autocorrect-all -a -A",
        ..NONE
    },
    OptionTable {
        names: &["kubectl", "oc"],
        flags: "AwRph",
        valued: "nolc",
        long: "--all-containers --all-namespaces --follow --no-headers --prefix --previous --recursive --show-labels --timestamps --watch",
        long_valued: "--container --context --field-selector --namespace --output --selector --since --sort-by --tail",
        ..NONE
    },
    OptionTable {
        names: &["terraform", "tofu"],
        style: OptionStyle::SingleDash,
        long: "check compact-warnings destroy detailed-exitcode diff json list lock no-color recursive refresh refresh-only upgrade version write",
        long_valued: "input lock lock-timeout out parallelism refresh target var",
        outputs: "-out",
        ..NONE
    },
    OptionTable {
        names: &["yq"],
        flags: "rPCjeMnsN",
        valued: "op",
        long: "--exit-status --no-colors --no-doc --prettyPrint --raw-output",
        long_valued: "--indent --input-format --output-format",
        ..NONE
    },
    OptionTable {
        names: &["nox"],
        flags: "vqprRl",
        valued: "eskt",
        long: "--list --parallel --quiet --recreate --verbose --version",
        ..NONE
    },
    OptionTable {
        names: &["tox"],
        flags: "vqprRl",
        valued: "efskt",
        long: "--list --parallel --quiet --recreate --verbose --version",
        ..NONE
    },
    OptionTable {
        names: &["pre-commit"],
        flags: "av",
        long: "--all-files --show-diff-on-failure --verbose --version",
        ..NONE
    },
    OptionTable {
        names: &["shellcheck"],
        flags: "aCx",
        valued: "efosS",
        long: "--color --external-sources --version",
        long_valued: "--exclude --format --severity --shell",
        ..NONE
    },
];
