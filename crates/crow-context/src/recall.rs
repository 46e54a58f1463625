//! Search in the log of a session, for what is no longer sent to the model.

use std::fmt::Write as _;

use crow_core::{
    event::{AgentEvent, Envelope},
    ids::CallId,
    message::{Block, CallArguments, ReplyBlock, ReplyContent},
};
use crow_text::{one_line, shorten};
use regex::Regex;

/// Name of the tool that searches. Its own calls and outputs are not searched.
pub const RECALL: &str = "recall";
/// Maximum number of messages with hits that a search tells of, the newest.
const FOUND_MOST: usize = 12;
/// Maximum number of matching lines of one message.
const LINES_MOST: usize = 4;
/// Maximum number of characters of a line.
const LINE_MOST: usize = 240;
/// Maximum number of bytes of one part of an output.
const PART: usize = 8_000;

/// A part of the conversation in the log.
#[derive(Debug)]
struct RecordedText {
    /// Its author, and the id of the call if there is one.
    heading: String,
    text: String,
}

/// Searches messages, replies, calls and outputs for lines that match, the newest first. Returns a text for the model.
pub fn search_log(lines: &[Envelope], pattern: &Regex) -> String {
    let mut found = String::new();
    let (mut shown, mut more) = (0, 0);
    for recorded in lines.iter().rev().flat_map(recorded_texts) {
        let hits: Vec<_> =
            recorded.text.lines().enumerate().filter(|(_, line)| pattern.is_match(line)).collect();
        if hits.is_empty() {
            continue;
        }
        if shown == FOUND_MOST {
            more += 1;
            continue;
        }
        shown += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(found, "[{}]", recorded.heading);
        for (index, line) in hits.iter().take(LINES_MOST) {
            let _ =
                writeln!(found, "  line {}: {}", index + 1, shorten(&one_line(line), LINE_MOST));
        }
        if hits.len() > LINES_MOST {
            let _ = writeln!(found, "  and {} more lines", hits.len() - LINES_MOST);
        }
    }
    if more > 0 {
        let _ = writeln!(found, "{more} older messages match as well: make the query narrower");
    }
    found
}

/// Returns a part of the output of a call, beginning at a byte. `None` if no call with that id was answered.
pub fn recorded_output(lines: &[Envelope], id: &CallId, offset: usize) -> Option<String> {
    let text = lines.iter().rev().find_map(|line| match &line.event {
        AgentEvent::CallEnd { call_id, result, .. } if call_id == id => Some(result.output.clone()),
        _ => None,
    })?;
    if offset >= text.len() && offset > 0 {
        return Some(format!("the output has only {} bytes", text.len()));
    }
    let start = text.floor_char_boundary(offset);
    let end = text.floor_char_boundary((start + PART).min(text.len()));
    let rest = text.len() - end;
    let mut part = text[start..end].to_owned();
    if rest > 0 {
        let _ = write!(part, "\n[{rest} more bytes: go on with offset {end}]");
    }
    Some(part)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most events have no text of the conversation")]
fn recorded_texts(line: &Envelope) -> Vec<RecordedText> {
    match &line.event {
        AgentEvent::UserInput { content, .. } => {
            vec![RecordedText { heading: "message to you".into(), text: Block::text_of(content) }]
        }
        AgentEvent::Reply { blocks, .. } => blocks.iter().rev().filter_map(of_block).collect(),
        AgentEvent::CallEnd { call_id, tool, result, .. } if tool != RECALL => vec![RecordedText {
            heading: format!("output of {}, id {}", one_line(tool), one_line(call_id.as_str())),
            text: result.output.clone(),
        }],
        _ => Vec::new(),
    }
}

fn of_block(block: &ReplyBlock) -> Option<RecordedText> {
    match &block.content {
        ReplyContent::Text { text } => {
            Some(RecordedText { heading: "your text".into(), text: text.clone() })
        }
        ReplyContent::Call(call) if call.name != RECALL => {
            let heading =
                format!("call of {}, id {}", one_line(&call.name), one_line(call.id.as_str()));
            let text = match &call.arguments {
                CallArguments::Json(value) => value.to_string(),
                CallArguments::Malformed(text) => text.clone(),
            };
            Some(RecordedText { heading, text })
        }
        ReplyContent::Call(_) | ReplyContent::Thinking { .. } | ReplyContent::Opaque => None,
    }
}

#[cfg(test)]
mod tests {
    use crow_testkit::session_log::LogBuilder;

    use super::*;

    fn pattern(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    #[test]
    fn a_search_tells_the_newest_messages_with_their_lines() {
        let mut log = LogBuilder::new();
        log.input("m", "use port 8123")
            .output("c1", "one\nport 1\nport 2\nport 3\nport 4\nport 5\n");
        let lines = log.lines();
        assert_eq!(
            search_log(lines, &pattern("port \\d")),
            "[output of bash, id c1]\n  line 2: port 1\n  line 3: port 2\n  line 4: port 3\n  line 5: port 4\n  and 1 more lines\n[message to you]\n  line 1: use port 8123\n"
        );
        assert_eq!(search_log(lines, &pattern("nowhere")), "");
    }

    #[test]
    fn a_search_with_many_hits_is_bounded() {
        let mut log = LogBuilder::new();
        for number in 0..200 {
            log.output(&format!("c{number}"), &"x".repeat(100_000));
        }
        let found = search_log(log.lines(), &pattern("x"));
        assert!(found.len() < 8_000, "{}", found.len());
        assert!(found.contains("id c199") && !found.contains("id c100"));
        assert!(found.ends_with("188 older messages match as well: make the query narrower\n"));
    }

    #[test]
    fn the_parts_of_an_output_are_the_whole_output() {
        let text = "ä€x".repeat(7_000);
        let mut log = LogBuilder::new();
        let lines = log.output("c1", "before").output("c1", &text).lines();
        let (mut offset, mut whole) = (0, String::new());
        loop {
            let part = recorded_output(lines, &CallId::new("c1"), offset).unwrap();
            let Some((part, rest)) = part.split_once("\n[") else {
                whole.push_str(&part);
                break;
            };
            whole.push_str(part);
            let next = rest.rsplit_once(' ').unwrap().1;
            offset = next.trim_end_matches(']').parse().unwrap();
        }
        assert_eq!(whole, text);
        assert_eq!(recorded_output(lines, &CallId::new("c2"), 0), None);
        let beyond = recorded_output(lines, &CallId::new("c1"), usize::MAX).unwrap();
        assert_eq!(beyond, "the output has only 42000 bytes");
    }
}
