//! Merging of consecutive text chunks into larger updates.

use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, SessionUpdate};

use crate::view::SessionUpdateOut;

/// Largest text of a merged chunk, in bytes.
const LONGEST: usize = 16 << 10;

/// Merges consecutive text chunks of the same message.
pub(super) fn merged(updates: Vec<SessionUpdateOut>) -> Vec<SessionUpdateOut> {
    let mut merged: Vec<SessionUpdateOut> = Vec::with_capacity(updates.len());
    for mut update in updates {
        let joined = merged.last_mut().is_some_and(|last| join(last, &mut update));
        if !joined {
            merged.push(update);
        }
    }
    merged
}

/// Appends the text of `next` to `last` and returns true, if both are chunks of the same message.
fn join(last: &mut SessionUpdateOut, next: &mut SessionUpdateOut) -> bool {
    if last.session_id != next.session_id {
        return false;
    }
    match (&mut last.update, &next.update) {
        (SessionUpdate::AgentMessageChunk(last), SessionUpdate::AgentMessageChunk(next))
        | (SessionUpdate::AgentThoughtChunk(last), SessionUpdate::AgentThoughtChunk(next)) => {
            append(last, next)
        }
        _ => false,
    }
}

fn append(last: &mut ContentChunk, next: &ContentChunk) -> bool {
    let fits =
        last.message_id.is_some() && last.message_id == next.message_id && last.meta == next.meta;
    if let (true, ContentBlock::Text(text), ContentBlock::Text(more)) =
        (fits, &mut last.content, &next.content)
        && text.text.len() + more.text.len() <= LONGEST
        && text.annotations == more.annotations
        && text.meta == more.meta
    {
        text.text.push_str(&more.text);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::TextContent;

    use super::*;

    fn chunk(id: &str, text: &str) -> SessionUpdateOut {
        let content = ContentBlock::Text(TextContent::new(text));
        let chunk = ContentChunk::new(content).message_id(Some(id.to_owned().into()));
        SessionUpdateOut { session_id: "s".into(), update: SessionUpdate::AgentMessageChunk(chunk) }
    }

    fn texts(updates: Vec<SessionUpdateOut>) -> Vec<String> {
        let text = |update: SessionUpdateOut| {
            let update = serde_json::to_value(update.update).unwrap();
            update["content"]["text"].as_str().unwrap().to_owned()
        };
        merged(updates).into_iter().map(text).collect()
    }

    #[test]
    fn chunks_of_one_message_are_joined_up_to_a_bound() {
        assert_eq!(texts(vec![chunk("1", "a"), chunk("1", "b"), chunk("2", "c")]), ["ab", "c"]);
        let long = "x".repeat(LONGEST);
        assert_eq!(texts(vec![chunk("1", &long), chunk("1", "b")]), [long.as_str(), "b"]);
        assert_eq!(texts(Vec::new()), [""; 0]);
    }
}
