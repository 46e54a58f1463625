//! The table.

/// One measured figure.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) bound: &'static str,
    pub(crate) crow: String,
    pub(crate) bare: String,
}

/// Writes the rows as Markdown.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text = String::from("| what | bound | crow-agent | bare loop |\n|---|---|---|---|\n");
    for Row { what, bound, crow, bare } in rows {
        text.push_str(&format!("| {what} | {bound} | {crow} | {bare} |\n"));
    }
    text
}
