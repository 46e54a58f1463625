//! The page: files that are part of the program and hold no data.

use axum::{Router, http::header, response::IntoResponse, routing::get};
use crow_telemetry::report::REPORT_STYLE;

/// Files of the page: path, media type, and content.
const FILES: [(&str, &str, &[u8]); 8] = [
    ("/", "text/html; charset=utf-8", include_bytes!("assets/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("assets/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("assets/app.css")),
    ("/report.css", "text/css; charset=utf-8", REPORT_STYLE.as_bytes()),
    ("/icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
    ("/icon.png", "image/png", include_bytes!("assets/icon.png")),
    ("/app.webmanifest", "application/manifest+json", include_bytes!("assets/app.webmanifest")),
    (
        "/service-worker.js",
        "text/javascript; charset=utf-8",
        include_bytes!("assets/service-worker.js"),
    ),
];

/// Adds the routes of the files.
pub(crate) fn add_routes(router: Router) -> Router {
    FILES.into_iter().fold(router, |router, (path, media_type, content)| {
        router.route(path, get(move || async move { file(media_type, content) }))
    })
}

fn file(media_type: &'static str, content: &'static [u8]) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, media_type)], content)
}
