//! The parts of a server's command that can name project files, and which files, folders, modules and package scripts their words
//! may name.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crow_core::mcp::McpTransport;
use crow_text::shell_spellings;

use crate::{
    config::{ProjectAdditions, ServerTable, configured_servers},
    environment::ProcessEnvironment,
    error::AppError,
};

/// A program that is started as an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedServer {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    /// Folders from which its relative paths are resolved.
    pub(super) folders: Vec<PathBuf>,
    /// Value of `PATH` with which it is started, unless its own variables set another.
    search_path: Option<String>,
}

impl StartedServer {
    /// Creates the program of a server that is started in a folder.
    pub(crate) fn new(argv: Vec<String>, env: BTreeMap<String, String>, folder: PathBuf) -> Self {
        Self { argv, env, folders: vec![folder], search_path: None }
    }

    /// Returns the program with other spellings of its words, if a shell may read them in others.
    pub(super) fn in_other_spellings(&self) -> Vec<Self> {
        let spellings: Vec<_> = self.argv.iter().map(|word| shell_spellings(word)).collect();
        let most = spellings.iter().map(Vec::len).max().unwrap_or_default();
        let argv = |at: usize| {
            let words = self.argv.iter().zip(&spellings);
            words.map(|(word, others)| others.get(at).unwrap_or(word).clone()).collect()
        };
        (0..most).map(|at| Self { argv: argv(at), ..self.clone() }).collect()
    }

    /// Sets the `PATH` with which servers are started.
    #[must_use]
    pub(crate) fn with_search_path(self, environment: &ProcessEnvironment) -> Self {
        Self { search_path: environment.var("PATH"), ..self }
    }

    /// Returns the absolute folders in which programs without a slash in their name are looked for.
    pub(super) fn program_folders(&self) -> Vec<PathBuf> {
        let value = self.env.get("PATH").or(self.search_path.as_ref());
        let folders = value.map(|value| std::env::split_paths(value).collect::<Vec<_>>());
        let folders = folders.unwrap_or_default().into_iter();
        folders.filter(|folder| folder.is_absolute()).collect()
    }

    /// Returns the program of a server in a project's configuration. Returns `None` if it is disabled or not started
    /// as a program.
    pub(in crate::trust) fn of_project(root: &Path, server: &ServerTable) -> Option<Self> {
        let command = server.command.as_ref().filter(|_| server.is_enabled())?;
        let argv = std::iter::once(command).chain(&server.args).cloned().collect();
        let own = server.cwd.as_ref().map(|cwd| root.join(cwd));
        let folders = own.into_iter().chain([root.to_path_buf()]).collect();
        Some(Self { argv, env: server.env.clone(), folders, search_path: None })
    }

    /// Returns the program of a server that a session in `cwd` starts, regardless of its source. Returns `None` if it
    /// is not started as a program.
    pub(crate) fn of_session(cwd: &Path, transport: &McpTransport) -> Option<Self> {
        let McpTransport::Stdio { command, args, env, cwd: own } = transport else { return None };
        let argv = std::iter::once(command).chain(args).cloned().collect();
        let folder = own.as_ref().map_or_else(|| cwd.to_path_buf(), |own| cwd.join(own));
        Some(Self::new(argv, env.clone(), folder))
    }
}

/// Returns the programs of the user's own servers as a session in `cwd` would start them. Blocks.
pub(crate) fn user_servers(
    cwd: &Path,
    environment: &ProcessEnvironment,
) -> Result<Vec<StartedServer>, AppError> {
    let configured = configured_servers(environment, &ProjectAdditions::default())?;
    let servers = configured.servers.iter();
    Ok(servers
        .filter_map(|(server, _)| StartedServer::of_session(cwd, &server.server.transport))
        .map(|server| server.with_search_path(environment))
        .collect())
}

/// Maximum number of pieces of a text.
const MOST_PIECES: usize = 400;
/// Maximum length of a piece, in bytes.
const LONGEST: usize = 300;

/// Maximum number of letters before the value of an option, after the first.
const MOST_LETTERS: usize = 3;

/// File extensions that interpreters and compilers read.
const CODE_EXTENSIONS: &[&str] = &[
    "py", "pyw", "pyc", "pyo", "pyd", "pth", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx",
    "sh", "bash", "zsh", "fish", "rb", "pl", "pm", "php", "lua", "ps1", "go", "rs", "java", "kt",
    "kts", "scala", "groovy", "clj", "cs", "fs", "swift", "ex", "exs", "erl", "hs", "ml", "r",
    "jl", "nix", "so", "dylib", "node", "wasm", "jar", "class", "mk", "tcl", "scm", "el", "vim",
    "awk", "sed",
];
/// File extensions of data, which servers change themselves: a database is no program.
const DATA_EXTENSIONS: &[&str] = &[
    "db", "sqlite", "sqlite3", "duckdb", "parquet", "csv", "tsv", "log", "txt", "md", "rst", "pdf",
    "png", "jpg", "jpeg", "gif", "svg", "webp", "mp3", "mp4", "html", "css", "lock", "pid", "sock",
];
/// Extensions that interpreters add to the name of a module.
const MODULE_EXTENSIONS: &[&str] = &["js", "mjs", "cjs", "ts", "py", "rb", "sh"];

/// Programs that run code of their working directory, and the files that tell which.
const RUNNERS: &[(&[&str], &[&str])] = &[
    (
        &["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node", "tsx", "ts-node"],
        &["package.json"],
    ),
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (&["task", "go-task"], &["Taskfile.yml", "Taskfile.yaml"]),
    (
        &["cargo"],
        &[
            "Cargo.toml",
            "build.rs",
            "src/main.rs",
            "src/lib.rs",
            "rust-toolchain",
            "rust-toolchain.toml",
            ".cargo/config",
            ".cargo/config.toml",
        ],
    ),
    (&["go"], &["go.mod", "go.work", "main.go"]),
    (&["tsx", "ts-node", "bun", "deno"], &["tsconfig.json", "bunfig.toml"]),
    (
        &["dotnet"],
        &[
            "Directory.Build.props",
            "Directory.Build.targets",
            "Directory.Packages.props",
            "global.json",
            "Program.cs",
        ],
    ),
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
        &[
            "compose.yaml",
            "compose.yml",
            "compose.override.yaml",
            "compose.override.yml",
            "docker-compose.yml",
            "docker-compose.yaml",
            "docker-compose.override.yml",
            "docker-compose.override.yaml",
            "Dockerfile",
        ],
    ),
    (&["nix"], &["flake.nix"]),
    (&["mise"], &["mise.toml", ".mise.toml"]),
];
/// Folders in which mise looks for the file of a task.
pub(super) const TASK_FOLDERS: [&str; 5] =
    ["mise-tasks", ".mise-tasks", "mise/tasks", ".mise/tasks", ".config/mise/tasks"];
/// Interpreters that run a folder by one of its [`ENTRIES`].
const INTERPRETERS: &[&str] =
    &["node", "tsx", "ts-node", "bun", "deno", "ruby", "php", "perl", "go", "uv", "cargo", "make"];
/// Files with which interpreters start in a folder that they are given as their script.
pub(super) const SCRIPT_ENTRIES: &[&str] =
    &["package.json", "index.js", "index.mjs", "index.cjs", "index.ts", "__main__.py"];
/// Files with which interpreters start in a folder.
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

/// Variables that name the folder of the user's own settings.
pub(super) const HOME_VARIABLES: [&str; 4] =
    ["HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "PYTHONUSERBASE"];
/// Files in such a folder that shells and git read at their start. Python's are beside its packages.
pub(super) const STARTUP_FILES: [&str; 16] = [
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config/git/config",
    ".gitconfig",
    ".kshrc",
    ".npmrc",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    "fish/config.fish",
    ".config/fish/config.fish",
    "git/config",
];

/// Kind of a file by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Code,
    Data,
    Unknown,
}

/// Returns the kind of a file by its extension.
pub(super) fn name_kind(name: &str) -> NameKind {
    let Some((_, extension)) = name.rsplit_once('.') else { return NameKind::Unknown };
    let extension = extension.to_ascii_lowercase();
    if CODE_EXTENSIONS.contains(&extension.as_str()) {
        NameKind::Code
    } else if DATA_EXTENSIONS.contains(&extension.as_str()) {
        NameKind::Data
    } else {
        NameKind::Unknown
    }
}

/// Returns the pieces of a text that may be paths: the whole text, and the parts between blanks, quotes and signs of
/// shells and options. So `--config=x.json`, `-r./hook.js`, `a:b`, `file://a` and `sh -c 'cd a && ./b'` are split.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let is_sign = |char: char| char.is_whitespace() || "'\"`;|&()<>{}[]$=:,@!".contains(char);
    let mut parts = vec![text];
    for piece in text.split(is_sign) {
        parts.push(piece);
        // A one-letter option with its value attached.
        let mut letters = piece.chars();
        if letters.next() == Some('-') && letters.next().is_some_and(|char| char != '-') {
            parts.push(letters.as_str());
            // The value may follow several letters: `-Bmtools.x`, `-wItools`.
            for _ in 0..MOST_LETTERS {
                let is_letter = letters.next().is_some_and(|char| char.is_ascii_alphabetic());
                if !is_letter {
                    break;
                }
                parts.push(letters.as_str());
            }
        }
        // The part behind a variable or a tilde: `$PWD/tools/x.sh`.
        if let Some((_, rest)) = piece.split_once('/') {
            parts.push(rest);
        }
    }
    parts.retain(|piece| !piece.is_empty() && piece.len() <= LONGEST && *piece != "/");
    parts.truncate(MOST_PIECES);
    parts
}

/// Returns the names under which an interpreter would look for a piece: unchanged, with an extension, or as a Python
/// module.
pub(super) fn spellings(piece: &str) -> Vec<String> {
    let mut names = vec![piece.to_owned()];
    names.extend(MODULE_EXTENSIONS.iter().map(|extension| format!("{piece}.{extension}")));
    if !piece.contains('/') && piece.contains('.') {
        let path = piece.replace('.', "/");
        names.push(format!("{path}.py"));
        names.push(format!("{path}/__main__.py"));
    }
    names
}

/// Returns the manifests that the programs of a command line read in their working directory.
pub(super) fn manifests(pieces: &[&str]) -> Vec<&'static str> {
    let runs = |names: &&[&str]| pieces.iter().any(|piece| names.contains(&program(piece)));
    let runners = RUNNERS.iter().filter(|(names, _)| runs(names));
    runners.flat_map(|(_, files)| files.iter().copied()).collect()
}

/// Returns true if a command line contains an interpreter that runs folders.
pub(super) fn runs_folders(pieces: &[&str]) -> bool {
    pieces.iter().map(|piece| program(piece)).any(|name| {
        INTERPRETERS.contains(&name) || name.starts_with("python") || name.starts_with("pypy")
    })
}

/// Returns true if a program runs the script, or the folder, that is its first operand.
pub(super) fn runs_first_operand(program_path: &str) -> bool {
    const SCRIPT_INTERPRETERS: [&str; 8] =
        ["node", "tsx", "ts-node", "bun", "deno", "ruby", "perl", "php"];
    let name = program(program_path);
    SCRIPT_INTERPRETERS.contains(&name) || name.starts_with("python") || name.starts_with("pypy")
}

/// Returns true if a command line adds folders to the search path of modules: `-Ilib`, `-wIlib`, `-Mlib=.`, `use lib`.
pub(super) fn includes_folders(words: &[&str]) -> bool {
    words.iter().any(|word| {
        let is_option = word.starts_with('-') && !word.starts_with("--");
        is_option && word.chars().take(MOST_LETTERS + 2).any(|char| char == 'I')
            || ["lib", "-Mlib", "-mlib"].contains(word)
    })
}

/// Returns true if a variable makes programs search their working folder: by an empty element of a search path, or
/// because perl is told so.
pub(super) fn searches_working_folder(variable: &str, value: &str) -> bool {
    let has_empty_element =
        is_search_path(variable) && value.contains(':') && value.split(':').any(str::is_empty);
    has_empty_element || variable == "PERL_USE_UNSAFE_INC" && value == "1"
}

/// Returns true if a variable names folders from which programs or modules are loaded.
pub(super) fn is_search_path(variable: &str) -> bool {
    variable.ends_with("PATH") || variable.ends_with("LIB") || variable.ends_with("LIBS")
}

/// Returns the name of a program without its folder.
pub(super) fn program(piece: &str) -> &str {
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
