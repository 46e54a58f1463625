//! Files that a call works on.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::ToolCallLocation;
use serde_json::Value;

/// Returns the files that a call names in its arguments. Clients open them: folders are no locations.
pub(super) fn of_arguments(tool: &str, arguments: &Value, cwd: &Path) -> Vec<ToolCallLocation> {
    let line = match tool {
        "read_file" => arguments.get("offset").and_then(Value::as_u64),
        "edit_file" | "write_file" => None,
        _ => return Vec::new(),
    };
    let path = arguments.get("path").or_else(|| arguments.get("file_path"));
    let Some(path) = path.and_then(Value::as_str).filter(|path| !path.is_empty()) else {
        return Vec::new();
    };
    let line = line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0);
    vec![at_line(absolute(cwd, Path::new(path)), line)]
}

pub(super) fn at_line(path: PathBuf, line: Option<u32>) -> ToolCallLocation {
    ToolCallLocation::new(path).line(line)
}

/// Makes a path absolute and removes `.` and `..`, without looking at the disk.
pub(super) fn absolute(cwd: &Path, path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}
