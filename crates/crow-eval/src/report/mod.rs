//! Tables of a run: as data, as text and as a page.

mod html_page;
mod run_summary;
mod text_table;

pub use html_page::html_page;
pub use run_summary::{RunSummary, SummaryRow, UncountedTrials};
pub use text_table::text_table;
pub(crate) use text_table::{columns, percent};
