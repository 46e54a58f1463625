//! Filters the names in a root by the beginnings of protected paths.

use std::{collections::BTreeSet, sync::LazyLock};

use crow_core::protected::{PROTECTED, PROTECTED_SUFFIXES};
use crow_fs::EntryName;

/// Returns the first component of a relative path.
pub(super) fn first_name(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// Returns the name in lower case, if a protected path may begin with it. Some file systems ignore case.
pub(super) fn protected_beginning(name: &str) -> Option<&'static str> {
    static BEGINNINGS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        PROTECTED.iter().map(|path| first_name(path).to_ascii_lowercase()).collect()
    });
    /// Upper bound for the length of protected names, in bytes.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    BEGINNINGS.get(&name.to_ascii_lowercase()).map(String::as_str)
}

/// Returns true if files with this name's ending are protected anywhere in a root.
pub(super) fn has_protected_suffix(name: &EntryName) -> bool {
    let bytes = name.as_os_str().as_encoded_bytes();
    PROTECTED_SUFFIXES.iter().any(|suffix| bytes.ends_with(suffix.as_bytes()))
}

/// Returns true if a protected path may begin with this name, or it has a protected ending.
pub(super) fn may_be_protected(name: &EntryName) -> bool {
    has_protected_suffix(name)
        || name.as_os_str().to_str().is_some_and(|name| protected_beginning(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protected_path_is_found_by_its_first_name() {
        for path in PROTECTED {
            let first = first_name(path);
            for name in [first.to_owned(), first.to_ascii_uppercase()] {
                assert!(protected_beginning(&name).is_some(), "{path}");
            }
        }
        assert_eq!(protected_beginning("src"), None);
    }
}
