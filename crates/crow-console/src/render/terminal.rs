//! Queries to the terminal.

use std::os::fd::AsFd;

/// Returns the width in columns of the terminal behind `file`; `None` if it is not a terminal or its width is unknown.
pub fn terminal_width(file: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(file).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_width() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(terminal_width(reader), None);
    }
}
