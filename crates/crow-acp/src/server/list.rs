//! The list of sessions, page by page.

use agent_client_protocol::{
    Error,
    v1::schema::{ListSessionsRequest, ListSessionsResponse},
};
use crow_core::ids::SessionId;
use crow_runtime::{AgentHost, ListCursor, SessionFilter, SessionMetadata, UnusedSessions};

use super::{
    fault::{host_error, invalid},
    setup::absolute,
};
use crate::view;

/// Number of sessions per page.
const PAGE: usize = 50;

/// Lists the used sessions, last updated first. The cursor names the last session of the previous page.
pub(super) async fn list(
    host: &dyn AgentHost,
    request: ListSessionsRequest,
) -> Result<ListSessionsResponse, Error> {
    if let Some(cwd) = &request.cwd {
        absolute(cwd, "cwd")?;
    }
    let after = request.cursor.as_deref().map(parse).transpose()?;
    // One more than a page, to know whether there are further pages.
    let filter = SessionFilter {
        cwd: request.cwd,
        limit: Some(PAGE + 1),
        after,
        unused: UnusedSessions::LeftOut,
    };
    let mut sessions = host.list(filter).await.map_err(|error| host_error(&error))?;
    let has_more = sessions.len() > PAGE;
    sessions.truncate(PAGE);
    let next = sessions.last().filter(|_| has_more).map(cursor);
    let sessions = sessions.iter().map(view::session_info).collect();
    Ok(ListSessionsResponse::new(sessions).next_cursor(next))
}

fn cursor(last: &SessionMetadata) -> String {
    format!("{} {}", last.updated_at, last.session_id)
}

fn parse(cursor: &str) -> Result<ListCursor, Error> {
    let parsed = cursor.split_once(' ').and_then(|(time, id)| {
        Some(ListCursor { updated_at: time.parse().ok()?, id: SessionId::new(id) })
    });
    parsed.ok_or_else(|| invalid("cursor: not one that session/list returned"))
}
