//! Checks of `docs/seeds.md`: its paths are public, and what it calls planned does not exist.

use std::collections::{HashMap, HashSet};

use crate::{source::words, tree};

const SEEDS: &str = "docs/seeds.md";

/// Crates of the product: their types of a planned name mean something else.
const PRODUCT: &[&str] = &["crow-cli", "crow-app"];

/// Readers of `docs/seeds.md` must be able to use the paths in it.
#[test]
fn modules_on_paths_in_the_table_of_the_seeds_are_public() {
    let mut public: HashSet<(String, String)> = HashSet::new();
    for source in tree::sources() {
        let crate_name = source.path.split('/').nth(1).unwrap().replace('-', "_");
        let words: Vec<&str> = source.words().map(|(_, word)| word).collect();
        for next in words.windows(3) {
            if next[..2] == ["pub", "mod"] {
                public.insert((crate_name.clone(), next[2].to_owned()));
            }
        }
    }
    let mut private = Vec::new();
    for (path, line, token) in crate::documents::tokens() {
        if path != SEEDS || !token.starts_with("crow_") {
            continue;
        }
        let parts: Vec<&str> = words(&token).map(|(_, word)| word).collect();
        let Some((crate_name, parts)) = parts.split_first() else { continue };
        let is_module = |part: &&&str| part.starts_with(char::is_lowercase);
        // The last part is a function, not a module.
        let modules = parts.iter().take(parts.len().saturating_sub(1)).take_while(is_module);
        for module in modules {
            if !public.contains(&((*crate_name).to_owned(), (*module).to_owned())) {
                private.push(format!("{path}:{line}: {token}"));
            }
        }
    }
    assert_eq!(private, [""; 0]);
}

/// The module on the path has the type or function, and members of types that are neither traits nor enums are `pub`:
/// readers of `docs/seeds.md` can use them.
#[test]
fn names_in_the_table_of_the_seeds_are_public() {
    let crates = words_of_crates();
    let texts: HashMap<String, String> =
        tree::sources().into_iter().map(|source| (source.path, source.code)).collect();
    let mut private = Vec::new();
    for (path, line, token) in crate::documents::tokens() {
        if path != SEEDS || !token.starts_with("crow_") {
            continue;
        }
        let parts: Vec<&str> = words(&token).map(|(_, word)| word).collect();
        // A crate may export a type of crow-core.
        let files: Vec<&[String]> = ["crow_core", parts[0]]
            .iter()
            .flat_map(|name| &crates[*name])
            .map(Vec::as_slice)
            .collect();
        let is_lowercase = |part: &&str| part.starts_with(char::is_lowercase);
        let first = parts.iter().position(|part| !is_lowercase(part)).unwrap_or(parts.len() - 1);
        let (modules, names) = parts.split_at(first);
        let (item, members) = names.split_first().unwrap();
        // Everything of a private module may be exported: `pub use result::*;`.
        let is_exported = module_files(modules).iter().any(|file| {
            texts.get(file).is_some_and(|text| {
                text.contains("::*;") || words(text).any(|(_, word)| word == *item)
            })
        });
        let is_public = is_exported
            && files.iter().any(|words| is_public_item(words, item))
            && (is_enum_or_trait(&files, item)
                || members.iter().all(|member| is_public_member(&files, item, member)));
        if !is_public {
            private.push(format!("{path}:{line}: {token}"));
        }
    }
    assert_eq!(private, [""; 0]);
}

/// In a row whose second column begins with `planned`, the types and functions of the first column and the names after
/// `planned:` are defined nowhere in the libraries.
#[test]
fn planned_names_of_the_seeds_do_not_exist() {
    let definitions = definitions();
    let text = std::fs::read_to_string(tree::root().join(SEEDS)).unwrap();
    let mut planned = 0;
    let mut wrong = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [seed, here, ..] = cells[..] else { continue };
        let Some(plan) = here.strip_prefix("planned") else { continue };
        planned += 1;
        for name in quoted(seed).chain(named_by(plan)).filter(|name| is_name(name)) {
            let places = definitions.get(name).into_iter().flatten();
            wrong.extend(
                places.map(|place| format!("{SEEDS}:{}: {name} is at {place}", number + 1)),
            );
        }
    }
    assert!(planned > 0);
    assert_eq!(wrong, [""; 0]);
}

/// Returns the texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the names that directly follow `planned: `.
fn named_by(plan: &str) -> impl Iterator<Item = &str> {
    let names = plan.strip_prefix(": ").unwrap_or_default();
    let end =
        names.split('`').step_by(2).take_while(|between| ["", ", "].contains(between)).count();
    quoted(names).take(end)
}

/// Returns true for a type, and for a function of at least two words: others are too common to be looked for.
fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && (name.starts_with(char::is_uppercase) || name.contains('_'))
}

/// Returns the places where the libraries define types, functions, tools and spans, by name.
fn definitions() -> HashMap<String, Vec<String>> {
    const KINDS: &[&str] = &["struct", "enum", "trait", "type", "fn"];
    let mut places: HashMap<String, Vec<String>> = HashMap::new();
    for source in tree::shipped_sources() {
        if PRODUCT.iter().any(|name| source.path.starts_with(&format!("crates/{name}/"))) {
            continue;
        }
        let words: Vec<(usize, &str)> = source.words().collect();
        let items = words.windows(2).filter(|pair| KINDS.contains(&pair[0].1)).map(|pair| pair[1]);
        // The names of tools and spans are texts.
        let texts = ["&'static str = \"", "span!(\""].into_iter().flat_map(|start| {
            source.text.match_indices(start).map(move |(at, start)| at + start.len())
        });
        let texts = texts.map(|at| (at, source.text[at..].split('"').next().unwrap()));
        for (at, name) in items.chain(texts) {
            places.entry(name.to_owned()).or_default().push(source.location(at));
        }
    }
    places
}

/// Returns the files that may contain a module: `crow_core::event` is in `event.rs` or `event/mod.rs`.
fn module_files(modules: &[&str]) -> Vec<String> {
    let (crate_name, modules) = modules.split_first().unwrap();
    let folder = format!("crates/{}/src", crate_name.replace('_', "-"));
    if modules.is_empty() {
        return vec![format!("{folder}/lib.rs")];
    }
    let path = modules.join("/");
    vec![format!("{folder}/{path}.rs"), format!("{folder}/{path}/mod.rs")]
}

/// Returns the words of each file, by the Rust name of its crate.
fn words_of_crates() -> HashMap<String, Vec<Vec<String>>> {
    let mut crates: HashMap<String, Vec<Vec<String>>> = HashMap::new();
    for source in tree::sources() {
        let name = source.path.split('/').nth(1).unwrap().replace('-', "_");
        let words = source.words().map(|(_, word)| word.to_owned()).collect();
        crates.entry(name).or_default().push(words);
    }
    crates
}

/// Returns true if a file defines a public item of this name.
fn is_public_item(words: &[String], name: &str) -> bool {
    const KINDS: &[&str] = &["struct", "enum", "trait", "type", "fn", "mod", "const"];
    words
        .windows(3)
        .any(|three| three[0] == "pub" && KINDS.contains(&three[1].as_str()) && three[2] == name)
        || words.windows(4).any(|four| {
            four[0] == "pub"
                && ["async", "const"].contains(&four[1].as_str())
                && four[2] == "fn"
                && four[3] == name
        })
}

fn is_enum_or_trait(files: &[&[String]], name: &str) -> bool {
    files.iter().any(|words| {
        words.windows(2).any(|two| ["enum", "trait"].contains(&two[0].as_str()) && two[1] == name)
    })
}

/// Returns true if a file that names the type has a public function or field of this name.
fn is_public_member(files: &[&[String]], type_name: &str, member: &str) -> bool {
    files.iter().filter(|words| words.iter().any(|word| word == type_name)).any(|words| {
        let is_field = words.windows(2).any(|two| two[0] == "pub" && two[1] == member);
        is_field || is_public_item(words, member)
    })
}
