//! Changing one value of a TOML file, and writing files atomically.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crow_core::config::{ConfigError, SourceText};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::{error::AppError, private_file::create_folder};

/// Sets the value at a path of keys. Comments, order and layout of everything else stay unchanged.
pub fn set_value(
    source: SourceText<'_>,
    path: &[&str],
    value: Value,
) -> Result<String, ConfigError> {
    let wrong = |message: String| ConfigError::of_file(source.path, message);
    let mut document: DocumentMut =
        source.text.parse().map_err(|error: toml_edit::TomlError| {
            source.syntax_error(error.span(), error.message())
        })?;
    let Some((last, tables)) = path.split_last() else {
        return Err(wrong("a whole file cannot be set; name a key in it".to_owned()));
    };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    // Descends to the table of the key; missing tables are created.
    for (depth, name) in tables.iter().enumerate() {
        let item = table.entry(name).or_insert_with(|| {
            let mut new = Table::new();
            // A table that contains only tables needs no header line.
            new.set_implicit(depth + 1 < tables.len());
            Item::Table(new)
        });
        is_inline = item.is_inline_table();
        table = item
            .as_table_like_mut()
            .ok_or_else(|| wrong(format!("{name} is a value, and holds no keys")))?;
    }
    // The comments and blanks around a replaced value are kept with it.
    match table.get_mut(last) {
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        Some(item @ (Item::Table(_) | Item::ArrayOfTables(_))) if !value.is_inline_table() => {
            let what = if item.is_table() { "a table" } else { "a list of tables" };
            return Err(wrong(format!("{} is {what}; set a key in it", path.join("."))));
        }
        Some(_) | None => {
            table.insert(last, Item::Value(value));
            if is_inline {
                table.fmt();
            }
        }
    }
    Ok(document.to_string())
}

/// Creates a file or replaces it atomically. Keeps its mode; if it is a link, replaces the target and keeps the link.
/// Blocks.
pub fn write(path: &Path, text: &str) -> Result<(), AppError> {
    let failed = |error: io::Error| AppError {
        code: "storage",
        ..AppError::usage(format!("cannot write {}: {error}", path.display()))
    };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = target.parent().unwrap_or(Path::new("/"));
    create_folder(folder).map_err(failed)?;
    let mode = fs::metadata(&target).map(|found| found.permissions().mode() & 0o7777);
    let mut temporary =
        tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(failed)?;
    temporary.write_all(text.as_bytes()).map_err(failed)?;
    if let Ok(mode) = mode {
        let permissions = fs::Permissions::from_mode(mode);
        temporary.as_file().set_permissions(permissions).map_err(failed)?;
    }
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &str, path: &[&str], value: Value) -> Result<String, String> {
        let source = SourceText { path: Path::new("a.toml"), text };
        super::set_value(source, path, value).map_err(|error| error.to_string())
    }

    const COMMENTED: &str = "\
# Mine.
[model] # which one
model   = \"old\"   # cheap
temperature = 0.5

# Bounds.
[react]
max_iterations = 20
";

    #[test]
    fn a_change_leaves_comments_order_and_layout() {
        let changed = put(COMMENTED, &["model", "model"], "new".into()).unwrap();
        assert_eq!(changed, COMMENTED.replace("\"old\"", "\"new\""));
        let added = put(COMMENTED, &["react", "doom_loop_threshold"], 3.into()).unwrap();
        assert_eq!(added, format!("{COMMENTED}doom_loop_threshold = 3\n"));
        let table = put(COMMENTED, &["agent", "description"], "d".into()).unwrap();
        assert_eq!(table, format!("{COMMENTED}\n[agent]\ndescription = \"d\"\n"));
        let dotted = put("model.model = \"a\" # b\n", &["model", "model"], "c".into()).unwrap();
        assert_eq!(dotted, "model.model = \"c\" # b\n");
        let inline =
            put("model = { model = \"a\" }\n", &["model", "provider"], "c".into()).unwrap();
        assert_eq!(inline, "model = { model = \"a\", provider = \"c\" }\n");
        assert_eq!(put("", &["model"], "a/b".into()).unwrap(), "model = \"a/b\"\n");
    }

    #[test]
    fn a_key_cannot_be_set_in_something_that_is_no_table() {
        assert_eq!(
            put("model = 1\n", &["model", "model"], "c".into()).unwrap_err(),
            "a.toml: model is a value, and holds no keys"
        );
        assert_eq!(
            put(COMMENTED, &["model"], "c".into()).unwrap_err(),
            "a.toml: model is a table; set a key in it"
        );
        assert!(put("[a\n", &["a"], "c".into()).is_err());
    }
}
