//! Checks of files: their size, the content of `mod.rs` and `lib.rs`, invisible characters, and paths of a developer's
//! machine.

use crate::{
    source::{attribute_len, words},
    tree,
};

/// Maximum number of lines of a file, without its inline tests. About 150 is usual; up to 600 is left to review.
const LINES: usize = 800;

/// Top-level folders of a developer's machine. Invented paths in tests begin with others.
const MACHINE_FOLDERS: &[&str] = &["work", "root", "home", "Users"];

/// Files that may contain such a path.
const MACHINE_FOLDERS_ALLOWED: &[&str] = &[];

#[test]
fn files_are_short() {
    let long = tree::shipped_sources().into_iter().filter_map(|source| {
        let lines = lines_of_code(&source.text);
        (lines > LINES).then(|| format!("{}: {lines} lines", source.path))
    });
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn tests_at_the_end_of_a_file_are_not_counted() {
    let file = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n";
    assert_eq!(lines_of_code(file), 2);
    assert_eq!(lines_of_code("#[cfg(test)]\nmod tests;\nfn a() {}\n"), 3);
}

#[test]
fn module_roots_contain_only_modules_uses_and_attributes() {
    let wrong = tree::shipped_sources().into_iter().filter_map(|source| {
        let is_root = source.path.ends_with("/mod.rs") || source.path.ends_with("/lib.rs");
        let item = is_root.then(|| first_other_item(&source.code)).flatten()?;
        Some(format!("{}: {item}", source.path))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn other_items_in_a_module_root_are_found() {
    let fine = "#![expect(a, b)]\nmod a;\npub(crate) mod b;\n#[cfg(test)]\nmod c;\npub use a::{\n    A, B,\n};\nextern crate d;\n";
    assert_eq!(first_other_item(fine), None);
    for wrong in
        ["fn a() {}", "mod a { use b; }", "macro_rules! a { () => {}; }", "pub type A = B;"]
    {
        assert_eq!(first_other_item(&format!("mod x;\n{wrong}\n")).as_deref(), Some(wrong));
    }
}

#[test]
fn no_source_holds_a_control_or_invisible_character() {
    let mut wrong = Vec::new();
    for source in tree::sources() {
        let is_wrong = |c: &char| (c.is_control() && !['\n', '\t'].contains(c)) || is_invisible(*c);
        for (at, c) in source.text.char_indices().filter(|(_, c)| is_wrong(c)) {
            wrong.push(format!("{}: U+{:04X}", source.location(at), u32::from(c)));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Returns true for a character that git, grep and readers would miss: it has no width, or changes the text direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[test]
fn no_file_names_a_machine() {
    let mut wrong = Vec::new();
    for (path, text) in tree::texts() {
        // In a linked worktree of git, `.git` is a file that contains a path.
        if path == ".git" || MACHINE_FOLDERS_ALLOWED.contains(&path.as_str()) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if names_a_machine(line) {
                wrong.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_crate_comes_from_the_public_registry() {
    let lock = std::fs::read_to_string(tree::root().join("Cargo.lock")).unwrap();
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let others: Vec<_> =
        lock.lines().filter(|line| line.starts_with("source") && *line != public).collect();
    assert_eq!(others, [""; 0]);
}

fn lines_of_code(text: &str) -> usize {
    let code = text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code);
    code.lines().count()
}

/// Returns the first line of the first item that is not a module, a use or an attribute.
fn first_other_item(code: &str) -> Option<String> {
    let mut rest = code.trim_start();
    while !rest.is_empty() {
        let len = if let Some(len) = attribute_len(rest) {
            len
        } else {
            let len = rest.find(';').map_or(rest.len(), |at| at + 1);
            let item = rest.get(..len).unwrap();
            if !is_root_item(item) {
                return rest.lines().next().map(str::to_owned);
            }
            len
        };
        rest = rest.get(len..).unwrap().trim_start();
    }
    None
}

/// Returns true for a module without a body, a use and an extern crate.
fn is_root_item(item: &str) -> bool {
    let public = item.strip_prefix("pub").unwrap_or(item).trim_start();
    let bare = match public.strip_prefix('(').and_then(|scope| scope.split_once(')')) {
        Some((_, bare)) => bare,
        None => public,
    };
    match words(bare).next().map(|(_, word)| word) {
        Some("mod") => !bare.contains('{'),
        Some("use") => true,
        Some("extern") => bare.trim_start().starts_with("extern crate "),
        _ => false,
    }
}

fn names_a_machine(line: &str) -> bool {
    MACHINE_FOLDERS.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            // Deeper in a path the name does not indicate a machine.
            let before = line.get(..at).unwrap().chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-~)}]>*".contains(c))
        })
    })
}
