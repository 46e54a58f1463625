//! What the words of a command line may name: files, folders, modules and scripts of package managers.

/// The most pieces of a text that are looked at.
const MOST_PIECES: usize = 400;
/// The longest piece.
const LONGEST: usize = 300;

/// Ends of the names of files that interpreters and compilers read.
const CODE: &[&str] = &[
    "py", "pyw", "pyc", "pyo", "pyd", "pth", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx",
    "sh", "bash", "zsh", "fish", "rb", "pl", "pm", "php", "lua", "ps1", "go", "rs", "java", "kt",
    "kts", "scala", "groovy", "clj", "cs", "fs", "swift", "ex", "exs", "erl", "hs", "ml", "r",
    "jl", "nix", "so", "dylib", "node", "wasm", "jar", "class", "mk", "tcl", "scm", "el", "vim",
    "awk", "sed",
];
/// Ends of the names of files that hold data, which servers themselves change: a database is no program.
const DATA: &[&str] = &[
    "db", "sqlite", "sqlite3", "duckdb", "parquet", "csv", "tsv", "log", "txt", "md", "rst", "pdf",
    "png", "jpg", "jpeg", "gif", "svg", "webp", "mp3", "mp4", "html", "css", "lock", "pid", "sock",
];
/// What interpreters add to the name of a module.
const ADDED: &[&str] = &["js", "mjs", "cjs", "ts", "py", "rb", "sh"];

/// Programs that run code of the folder that they are started in, and the files that say which.
const RUNNERS: &[(&[&str], &[&str])] = &[
    (
        &["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node", "tsx", "ts-node"],
        &["package.json"],
    ),
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (&["task", "go-task"], &["Taskfile.yml", "Taskfile.yaml"]),
    (&["cargo"], &["Cargo.toml", "build.rs", "src/main.rs", "src/lib.rs", "rust-toolchain.toml"]),
    (&["go"], &["go.mod", "main.go"]),
    (&["uv", "poetry", "pdm", "hatch", "pipenv", "rye"], &["pyproject.toml", "Pipfile"]),
    (&["deno"], &["deno.json", "deno.jsonc", "import_map.json"]),
    (&["bundle", "rake"], &["Gemfile", "Rakefile"]),
    (&["composer"], &["composer.json"]),
    (
        &["gradle", "gradlew"],
        &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
    ),
    (&["mvn", "mvnw"], &["pom.xml"]),
    (
        &["docker", "docker-compose", "podman", "podman-compose"],
        &["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "Dockerfile"],
    ),
    (&["nix"], &["flake.nix"]),
    (&["mise"], &["mise.toml", ".mise.toml"]),
];
/// Interpreters that run a folder by the file in it that has one of [`ENTRIES`] as its name.
const INTERPRETERS: &[&str] =
    &["node", "tsx", "ts-node", "bun", "deno", "ruby", "php", "perl", "go", "uv", "cargo", "make"];
/// Where interpreters begin in a folder.
pub(super) const ENTRIES: &[&str] = &[
    "package.json",
    "index.js",
    "index.mjs",
    "index.cjs",
    "index.ts",
    "__main__.py",
    "__init__.py",
    "main.py",
    "main.go",
    "go.mod",
    "Cargo.toml",
    "src/main.rs",
    "pyproject.toml",
    "deno.json",
    "Makefile",
];

/// What the end of a file's name says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Code,
    Data,
    Unknown,
}

/// Tells code from data by the end of a name.
pub(super) fn name_kind(name: &str) -> NameKind {
    let Some((_, end)) = name.rsplit_once('.') else { return NameKind::Unknown };
    let end = end.to_ascii_lowercase();
    if CODE.contains(&end.as_str()) {
        NameKind::Code
    } else if DATA.contains(&end.as_str()) {
        NameKind::Data
    } else {
        NameKind::Unknown
    }
}

/// Returns the pieces of a text that may be paths: the text, and what stands between blanks, quotes and signs of a shell or
/// an option. So `--config=x.json`, `-r./hook.js`, `a:b`, `file://a` and `sh -c 'cd a && ./b'` come apart.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let is_sign = |char: char| char.is_whitespace() || "'\"`;|&()<>{}[]$=:,@!".contains(char);
    let mut found = vec![text];
    for piece in text.split(is_sign) {
        found.push(piece);
        // An option of one letter with its value behind it.
        let mut letters = piece.chars();
        if letters.next() == Some('-') && letters.next().is_some_and(|char| char != '-') {
            found.push(letters.as_str());
        }
        // Behind a variable or a tilde: `$PWD/tools/x.sh`.
        if let Some((_, rest)) = piece.split_once('/') {
            found.push(rest);
        }
    }
    found.retain(|piece| !piece.is_empty() && piece.len() <= LONGEST && *piece != "/");
    found.truncate(MOST_PIECES);
    found
}

/// Returns the names under which an interpreter would look for a piece: itself, with an end, or as a Python module.
pub(super) fn spellings(piece: &str) -> Vec<String> {
    let mut names = vec![piece.to_owned()];
    names.extend(ADDED.iter().map(|end| format!("{piece}.{end}")));
    if !piece.contains('/') && piece.contains('.') {
        let path = piece.replace('.', "/");
        names.push(format!("{path}.py"));
        names.push(format!("{path}/__main__.py"));
    }
    names
}

/// Returns the files that the programs of a command line read in the folder that they are started in.
pub(super) fn manifests(pieces: &[&str]) -> Vec<&'static str> {
    let runs = |names: &&[&str]| pieces.iter().any(|piece| names.contains(&program(piece)));
    let found = RUNNERS.iter().filter(|(names, _)| runs(names));
    found.flat_map(|(_, files)| files.iter().copied()).collect()
}

/// Returns whether a command line has an interpreter in it that runs folders.
pub(super) fn runs_folders(pieces: &[&str]) -> bool {
    pieces.iter().map(|piece| program(piece)).any(|name| {
        INTERPRETERS.contains(&name) || name.starts_with("python") || name.starts_with("pypy")
    })
}

/// The name of a program without the folder that it is in.
fn program(piece: &str) -> &str {
    piece.rsplit('/').next().unwrap_or(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_any_form_of_argument() {
        for (text, path) in [
            ("tools/x.py", "tools/x.py"),
            ("--config=tools/x.json", "tools/x.json"),
            ("-r./hook.js", "./hook.js"),
            ("--require ./hook.js --inspect", "./hook.js"),
            ("exec 'tools/x.sh' \"$@\"", "tools/x.sh"),
            ("cd tools&&./x.sh", "./x.sh"),
            ("lib:vendor/lib", "vendor/lib"),
            ("--import=file:///p/x.mjs", "///p/x.mjs"),
            ("$PWD/tools/x.sh", "tools/x.sh"),
        ] {
            assert!(pieces(text).contains(&path), "{text}: {:?}", pieces(text));
        }
        assert!(spellings("pkg.server").contains(&"pkg/server.py".to_owned()));
    }
}
