//! The table.

/// One measured figure beside that of the reference.
pub(crate) struct TableRow {
    pub(crate) what: &'static str,
    pub(crate) bound: &'static str,
    pub(crate) ours: String,
    pub(crate) reference: String,
}

/// Writes the rows as Markdown.
pub(crate) fn render(ours: &str, reference: &str, rows: &[TableRow]) -> String {
    let mut text = format!("| what | bound | {ours} | {reference} |\n|---|---|---|---|\n");
    for TableRow { what, bound, ours, reference } in rows {
        text.push_str(&format!("| {what} | {bound} | {ours} | {reference} |\n"));
    }
    text
}
