//! Bounding of tool outputs before they enter the history.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crow_core::{ids::CallId, tool::ToolResult};

/// Bytes by which an output may exceed its limit: the marks of a tool that keeps to the limit itself.
const MARKS: usize = 1024;

/// Maximum number of stored outputs per call id.
const MOST_FILES: u32 = 10_000;

/// Cuts the middle out of an output that is longer than `limit` bytes, and stores the full output in a file.
pub(super) fn bound_output(
    mut result: ToolResult,
    limit: usize,
    scratch: Option<&Path>,
    call_id: &CallId,
) -> ToolResult {
    let total = result.output.len();
    if total <= limit + MARKS {
        return result;
    }
    let head = result.output.floor_char_boundary(limit * 3 / 5);
    let tail = result.output.ceil_char_boundary(total - limit * 2 / 5);
    let kept = match scratch.map(|folder| store_full_output(folder, call_id, &result.output)) {
        Some(Ok(path)) => format!("the whole output is in {path}"),
        None => "they are not kept".to_owned(),
        Some(Err(error)) => format!("the whole output could not be saved: {error}"),
    };
    let omitted = tail - head;
    let (first, last) = (&result.output[..head], &result.output[tail..]);
    result.output = format!(
        "[cut in the middle: {omitted} bytes left out; {kept}]\n{first}\n[… {omitted} bytes left out …]\n{last}"
    );
    result
}

fn store_full_output(scratch: &Path, call_id: &CallId, output: &str) -> std::io::Result<String> {
    let name: String = call_id
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(100)
        .collect();
    fs::create_dir_all(scratch)?;
    let mut number = 1_u32;
    // Ids come from models and may repeat: the earlier file is kept, since its path was reported.
    let (mut file, path) = loop {
        let again = if number == 1 { String::new() } else { format!("-{number}") };
        let path = scratch.join(format!("{name}{again}.txt"));
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => break (file, path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST_FILES => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    };
    file.write_all(output.as_bytes())?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64 * 1024;

    #[test]
    fn a_long_output_keeps_both_ends_and_a_file_with_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("begin{}end", "ü".repeat(100_000));
        let bounded = bound_output(
            ToolResult::success(text.clone()),
            LIMIT,
            Some(folder.path()),
            &CallId::new("c/1"),
        );
        let (remark, shown) = bounded.output.split_once('\n').unwrap();
        assert!(remark.contains("bytes left out; the whole output is in "), "{remark}");
        assert!(shown.starts_with("begin") && shown.ends_with("end"));
        assert!(bounded.output.len() < LIMIT + 500);
        assert_eq!(fs::read_to_string(folder.path().join("c_1.txt")).unwrap(), text);
    }

    #[test]
    fn a_second_call_with_the_same_id_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let texts = ["a", "b"].map(|letter| letter.repeat(LIMIT + MARKS + 1));
        for text in &texts {
            let result = ToolResult::success(text.clone());
            bound_output(result, LIMIT, Some(folder.path()), &CallId::new("c"));
        }
        for (name, text) in ["c.txt", "c-2.txt"].iter().zip(&texts) {
            assert_eq!(&fs::read_to_string(folder.path().join(name)).unwrap(), text);
        }
    }

    #[test]
    fn an_output_that_fits_is_left_alone() {
        let result = ToolResult::success("short");
        assert_eq!(bound_output(result.clone(), LIMIT, None, &CallId::new("c")), result);
    }
}
