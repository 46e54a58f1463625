//! Checks of the dependencies between crates and on libraries. The diagram is in `ARCHITECTURE.md`.

use std::collections::BTreeSet;

use crate::{
    tree,
    workspace::{cargo, packages},
};

/// Crates, and the crates of the workspace that each may use outside its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("crow-text", &[]),
    ("crow-fs", &[]),
    ("crow-edit", &["crow-text"]),
    ("crow-core", &["crow-text"]),
    ("crow-context", &["crow-core", "crow-text"]),
    ("crow-shell", &["crow-core", "crow-fs", "crow-text"]),
    ("crow-snapshot", &["crow-core", "crow-fs"]),
    ("crow-sandbox", &["crow-core", "crow-fs", "crow-text"]),
    ("crow-runtime", &["crow-core", "crow-snapshot", "crow-sandbox", "crow-fs", "crow-text"]),
    ("crow-agent", &["crow-context", "crow-core", "crow-runtime", "crow-fs", "crow-text"]),
    ("crow-providers", &["crow-core", "crow-text"]),
    ("crow-tools", &["crow-core", "crow-edit", "crow-shell", "crow-fs", "crow-text"]),
    ("crow-mcp", &["crow-core", "crow-runtime", "crow-text"]),
    ("crow-telemetry", &["crow-context", "crow-core", "crow-text"]),
    ("crow-acp", &["crow-core", "crow-runtime", "crow-fs", "crow-text"]),
    (
        "crow-app",
        &[
            "crow-core",
            "crow-fs",
            "crow-runtime",
            "crow-agent",
            "crow-providers",
            "crow-text",
            "crow-tools",
            "crow-mcp",
            "crow-sqlite",
            "crow-telemetry",
        ],
    ),
    ("crow-console", &["crow-core", "crow-runtime", "crow-text"]),
    ("crow-sqlite", &[]),
    ("crow-terminal", &["crow-console", "crow-core", "crow-fs", "crow-runtime", "crow-text"]),
    ("crow-eval", &["crow-app", "crow-core", "crow-runtime", "crow-fs", "crow-text"]),
    ("crow-serve", &["crow-app", "crow-core", "crow-runtime", "crow-telemetry", "crow-text"]),
    (
        "crow-cli",
        &[
            "crow-core",
            "crow-runtime",
            "crow-agent",
            "crow-providers",
            "crow-text",
            "crow-tools",
            "crow-mcp",
            "crow-acp",
            "crow-app",
            "crow-console",
            "crow-context",
            "crow-eval",
            "crow-serve",
            "crow-telemetry",
            "crow-terminal",
        ],
    ),
    (
        "crow",
        &[
            "crow-context",
            "crow-core",
            "crow-runtime",
            "crow-agent",
            "crow-providers",
            "crow-tools",
            "crow-app",
            "crow-console",
            "crow-telemetry",
        ],
    ),
    ("crow-testkit", &["crow-core", "crow-runtime", "crow-agent", "crow-telemetry", "crow-text"]),
];

/// Words that indicate the use of files, the network, threads, a clock or an executor.
const OUTSIDE: &[&str] = &["fs", "net", "thread", "Instant", "SystemTime", "tokio"];

/// Maximum number of external crates that core and runtime may depend on.
const EXTERNAL_CRATES: usize = 81;

/// Returns the crates that may use a library; `None` if all may.
fn only_users(library: &str) -> Option<&'static [&'static str]> {
    match library {
        "reqwest" | "rustls" => Some(&["crow-providers"]),
        "tree-sitter" | "tree-sitter-bash" => Some(&["crow-shell", "crow-tools"]),
        _ if library.starts_with("tree-sitter-") => Some(&["crow-tools"]),
        // The snapshot store needs the rules of ignored files; the benchmark uses the walker as a reference.
        "ignore" => Some(&[
            "crow-tools",
            "crow-shell",
            "crow-snapshot",
            "crow-sandbox",
            "crow-terminal",
            "crow-testkit",
        ]),
        "anyhow" | "miette" => Some(&["crow-cli"]),
        "toml_edit" => Some(&["crow-app", "crow-cli"]),
        "rmcp" => Some(&["crow-mcp"]),
        "handlebars" => Some(&["crow-agent"]),
        "agent-client-protocol" => Some(&["crow-acp"]),
        _ if library.starts_with("grep-") => Some(&["crow-tools"]),
        _ if library.starts_with("clap") => Some(&["crow-cli"]),
        _ => None,
    }
}

#[test]
fn crates_use_only_what_the_picture_allows() {
    let mut wrong = BTreeSet::new();
    for package in packages() {
        let name = &package.name;
        let Some((_, allowed)) = ALLOWED.iter().find(|(own, _)| own == name) else {
            wrong.insert(format!("{name} is not in the picture"));
            continue;
        };
        for used in package.dependencies.iter().filter(|used| !used.is_dev()) {
            let is_ours = used.name == "crow" || used.name.starts_with("crow-");
            if is_ours && !allowed.contains(&used.name.as_str()) {
                wrong.insert(format!("{name} -> {}", used.name));
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

#[test]
fn nothing_depends_on_the_product_or_the_facade_not_even_in_tests() {
    let users = packages().into_iter().filter(|package| {
        let is_top = |name: &str| ["crow-cli", "crow"].contains(&name);
        let mut used = package.dependencies.iter().map(|used| used.name.as_str());
        used.any(|used| is_top(used) && used != package.name)
    });
    assert_eq!(users.map(|package| package.name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_library_of_the_outside_is_known_to_one_crate() {
    let mut wrong = BTreeSet::new();
    for package in packages() {
        for used in &package.dependencies {
            if only_users(&used.name).is_some_and(|users| !users.contains(&package.name.as_str())) {
                wrong.insert(format!("{} -> {}", package.name, used.name));
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

#[test]
fn core_decides_and_touches_nothing() {
    let mut wrong = BTreeSet::new();
    for source in tree::shipped_sources() {
        if source.path.starts_with("crates/crow-core/") {
            // `core::net` has the types of addresses, and nothing that connects.
            let is_of_core = |at: usize| source.code[..at].ends_with("core::");
            let reaching =
                source.words().filter(|(at, word)| OUTSIDE.contains(word) && !is_of_core(*at));
            wrong.extend(reaching.map(|(at, word)| format!("{}: {word}", source.location(at))));
        }
    }
    assert_eq!(wrong, BTreeSet::new());
}

/// The test kit depends on these crates, so their unit tests would see two copies of their types.
#[test]
fn the_crates_under_the_test_kit_use_it_only_from_integration_tests() {
    let below = ["crates/crow-core/src/", "crates/crow-runtime/src/", "crates/crow-agent/src/"];
    let users = tree::sources().into_iter().filter(|source| {
        below.iter().any(|folder| source.path.starts_with(folder))
            && source.words().any(|(_, word)| word == "crow_testkit")
    });
    assert_eq!(users.map(|source| source.path).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn core_and_runtime_bring_few_external_crates() {
    let printed = cargo(&[
        "tree",
        "--frozen",
        "--edges=normal",
        "--prefix=none",
        "--package=crow-core",
        "--package=crow-runtime",
    ]);
    let external: BTreeSet<String> = printed
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("crow-"))
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert!(!external.is_empty(), "cargo tree lists nothing:\n{printed}");
    assert!(external.len() <= EXTERNAL_CRATES, "{} crates: {external:#?}", external.len());
}

#[test]
fn a_base_agent_knows_nothing_of_what_comes_after_its_turn() {
    let sources = crate::tree::shipped_sources();
    let base = sources.iter().find(|source| source.path.ends_with("crow-agent/src/base_agent.rs"));
    let code = &base.unwrap().code;
    for word in ["control::", "ControlFlow", "EndTool", "Coagent", "AcpAgent"] {
        assert!(!code.contains(word), "base_agent.rs names {word}");
    }
}
