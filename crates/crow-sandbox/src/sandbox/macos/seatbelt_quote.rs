//! Quotes paths for Seatbelt profiles.

use std::path::{Path, PathBuf};

/// Path that a profile cannot express. Nothing runs under a profile that would lack it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnquotablePath {
    /// The path is not valid UTF-8.
    #[error("the name {} is not valid UTF-8, which a profile of the sandbox needs", .0.display())]
    NotText(PathBuf),
    /// The path has control characters: line ends or invisible ones.
    #[error("the name {0:?} has control characters, which a profile of the sandbox cannot hold")]
    Control(PathBuf),
    /// The path is relative.
    #[error("the path {} is not absolute, which a profile of the sandbox needs", .0.display())]
    Relative(PathBuf),
}

/// Returns the path as a string literal of the profile language.
pub(super) fn quote(path: &Path) -> Result<String, UnquotablePath> {
    let text = path.to_str().ok_or_else(|| UnquotablePath::NotText(path.to_owned()))?;
    if !path.is_absolute() {
        return Err(UnquotablePath::Relative(path.to_owned()));
    }
    if text.chars().any(char::is_control) {
        return Err(UnquotablePath::Control(path.to_owned()));
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_quoted_or_refused() {
        for (path, quoted) in [
            ("/a/b", r#""/a/b""#),
            ("/with blank", r#""/with blank""#),
            (r#"/"))(allow default)(""#, r#""/\"))(allow default)(\"""#),
            (r"/back\slash", r#""/back\\slash""#),
            (r#"/both\""#, r#""/both\\\"""#),
            ("/;comment", r#""/;comment""#),
            ("/ä/漢字", r#""/ä/漢字""#),
        ] {
            assert_eq!(quote(Path::new(path)).as_deref(), Ok(quoted));
        }
        for path in ["/new\nline", "/tab\t", "/return\r", "/escape\x1b", "/nul\0", "/c1\u{85}"] {
            assert_eq!(quote(Path::new(path)), Err(UnquotablePath::Control(path.into())));
        }
        let path = Path::new(OsStr::from_bytes(b"/\xff"));
        assert_eq!(quote(path), Err(UnquotablePath::NotText(path.into())));
        for path in ["", "a", "./a", "../a"] {
            assert_eq!(quote(Path::new(path)), Err(UnquotablePath::Relative(path.into())));
        }
    }

    proptest! {
        #[test]
        fn a_quoted_path_is_one_string_that_reads_as_the_path(name in "\\PC*") {
            let path = format!("/{name}");
            let Ok(quoted) = quote(Path::new(&path)) else { return Ok(()) };
            let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
            let (mut read, mut characters) = (String::new(), inside.chars());
            while let Some(character) = characters.next() {
                prop_assert_ne!(character, '"');
                read.push(if character == '\\' { characters.next().unwrap() } else { character });
            }
            prop_assert_eq!(read, path);
        }
    }
}
