//! Suggestions for a missing file.

use std::path::{Path, PathBuf};

use crow_core::tool::ToolContext;
use crow_fs::Directory;
use strsim::normalized_damerau_levenshtein;

use crate::paths::display_path;

/// Most names that are suggested.
const SUGGESTIONS: usize = 3;
/// Most names of a folder that are compared.
const MAX_LOOKED_AT: usize = 5000;
/// Lowest similarity of names that are suggested.
const ALIKE: f64 = 0.5;

/// Describes a missing file, with files of similar names.
pub(crate) fn missing_file_message(path: &Path, ctx: &ToolContext) -> String {
    let name = display_path(path, ctx);
    // Outside of the workspace, permission was given for this path and not for the names beside it.
    let similar = if ctx.workspace.contains(path) { similar_names(path) } else { Vec::new() };
    let similar: Vec<String> = similar.iter().map(|path| display_path(path, ctx)).collect();
    match path.parent() {
        _ if !similar.is_empty() => {
            format!("{name} does not exist; did you mean {}?", similar.join(", "))
        }
        Some(folder) if Directory::open(folder).is_err() => {
            format!("{name} does not exist, nor does its folder; find it with glob")
        }
        _ => format!("{name} does not exist; find it with glob or list_directory"),
    }
}

/// Returns the paths of up to three files with a similar name in the folder where `path` should be.
fn similar_names(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let entries = Directory::open(folder).and_then(|directory| directory.entries(MAX_LOOKED_AT));
    let Ok(entries) = entries else { return Vec::new() };
    let target = name.to_string_lossy().to_lowercase();
    let stem = stem(&target);
    let mut alike: Vec<(f64, PathBuf)> = entries
        .into_iter()
        .filter_map(|(entry, _)| {
            let name = entry.as_os_str().to_string_lossy().to_lowercase();
            let same_stem = if self::stem(&name) == stem { 1.0 } else { 0.0 };
            let score = normalized_damerau_levenshtein(&target, &name).max(same_stem);
            (score >= ALIKE).then(|| (score, folder.join(entry.as_os_str())))
        })
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    alike.into_iter().take(SUGGESTIONS).map(|(_, path)| path).collect()
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["main.rs", "Main.java", "mian.rs", "other.txt", "maine.rs"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = similar_names(&folder.path().canonicalize().unwrap().join("main.ts"))
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["Main.java", "main.rs", "maine.rs"]);
    }
}
