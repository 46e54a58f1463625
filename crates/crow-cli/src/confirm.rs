//! Questions to the person at the terminal before an agent runs.

use std::io::{self, Write as _};

use rustix::termios::{QueueSelector, tcflush};

use crow_app::AppError;

/// Asks a yes-or-no question on stderr. Any answer but a yes, and end of input, is a no. Blocks.
pub(crate) fn confirm(question: &str) -> Result<bool, AppError> {
    // Discards input typed before the question. Fails without a terminal, which does not matter.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes())
        .and_then(|()| err.write_all(b" [y/N] "))
        .and_then(|()| err.flush())
        .map_err(|error| AppError::failed(format!("the question cannot be shown: {error}")))?;
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|error| AppError::failed(format!("the terminal cannot be read: {error}")))?;
    if !line.ends_with('\n') {
        drop(err.write_all(b"\n"));
    }
    Ok(is_yes(&line))
}

/// Returns true for `y` and `yes`, ignoring case and blanks around it.
pub(crate) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_and_yes_confirm() {
        for (line, expected) in [
            ("y\n", true),
            ("YES\n", true),
            ("", false),
            ("\n", false),
            ("n\n", false),
            ("yep\n", false),
        ] {
            assert_eq!(is_yes(line), expected, "{line:?}");
        }
    }
}
