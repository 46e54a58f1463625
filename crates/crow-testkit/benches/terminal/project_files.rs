//! A project of many files, with names as they are in large repositories.

use std::{fs, path::Path};

/// Files of a folder, and folders of a package.
const FILES: usize = 20;
const FOLDERS: [&str; 10] = [
    "src",
    "src/components",
    "src/components/forms",
    "src/handlers",
    "src/models",
    "src/queries/generated",
    "tests",
    "tests/fixtures",
    "docs/guides",
    "migrations",
];
const AREAS: [&str; 16] = [
    "account",
    "billing",
    "catalog",
    "checkout",
    "customer",
    "delivery",
    "gateway",
    "identity",
    "inventory",
    "ledger",
    "messaging",
    "notification",
    "partner",
    "pricing",
    "reporting",
    "search",
];
const PARTS: [&str; 11] = [
    "api", "client", "common", "consumer", "events", "jobs", "schema", "service", "store", "sync",
    "web",
];
const VERBS: [&str; 8] =
    ["apply", "build", "create", "delete", "fetch", "parse", "render", "validate"];
const NOUNS: [&str; 9] = [
    "address", "contract", "discount", "invoice", "order", "payment", "session", "shipment",
    "token",
];
const ENDINGS: [&str; 5] = ["ts", "rs", "py", "test.ts", "json"];

/// The first entry of the list of all files.
pub(crate) const FIRST_ENTRY: &str = "packages/";
/// Search text, and its best match: the shortest path whose file name begins with it. It is not among the first files of the
/// list, which the chat searches at once.
pub(crate) const QUERY: &str = "tok";
pub(crate) const BEST_MATCH: &str = "packages/zone/tok.rs";

/// Size of the generated project.
pub(crate) struct ProjectSize {
    /// Files and directories.
    pub(crate) paths: usize,
    /// Length of all their paths in bytes.
    pub(crate) length: usize,
}

/// Makes about so many files.
pub(crate) fn make(root: &Path, files: usize) -> ProjectSize {
    let mut size = ProjectSize { paths: 0, length: 0 };
    let mut count = |path: &str| {
        size.paths += 1;
        size.length += path.len();
    };
    count("packages");
    let packages = files / (FILES * FOLDERS.len());
    for package in 0..packages {
        let base = format!(
            "packages/{}-{}-{package}",
            element(&AREAS, package),
            element(&PARTS, package / AREAS.len())
        );
        for directory in ["", "/src/queries", "/docs"] {
            count(&format!("{base}{directory}"));
        }
        for (number, folder) in FOLDERS.iter().enumerate() {
            let folder = format!("{base}/{folder}");
            fs::create_dir_all(root.join(&folder)).unwrap();
            count(&folder);
            for file in 0..FILES {
                let name = package + number * FILES + file;
                let path = format!(
                    "{folder}/{}_{}_{file}.{}",
                    element(&VERBS, name),
                    element(&NOUNS, name / 3),
                    element(&ENDINGS, name / 7)
                );
                fs::write(root.join(&path), "").unwrap();
                count(&path);
            }
        }
    }
    fs::create_dir_all(root.join(BEST_MATCH).parent().unwrap()).unwrap();
    fs::write(root.join(BEST_MATCH), "").unwrap();
    count("packages/zone");
    count(BEST_MATCH);
    size
}

fn element<'a>(words: &[&'a str], number: usize) -> &'a str {
    words.iter().copied().cycle().nth(number % words.len()).unwrap()
}
