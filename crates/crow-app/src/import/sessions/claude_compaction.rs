//! The messages that compactions of Claude Code keep.
//!
//! The program links them when it reads a file: the first one follows the record that the compaction names as the anchor, and
//! what followed the anchor follows the last one. The anchor is the summary if the end of the conversation is kept, and the
//! compaction itself if its beginning is: then the summary comes after it. Everything else before the last compaction is not sent
//! to the model.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use crow_core::message::Block;
use serde_json::{Map, Value};

use super::{claude::ClaudeRecord, conversation::EntryContent, json_lines::text_at};

/// The messages that a compaction keeps.
#[derive(Debug)]
pub(super) struct KeptMessages {
    /// The id of the record that they follow.
    anchor: String,
    list: KeptList,
}

#[derive(Debug)]
enum KeptList {
    Ids(Vec<String>),
    /// Those on the way from the last one to the first one, as older versions wrote it.
    Segment {
        first: String,
        last: String,
    },
}

impl KeptMessages {
    /// Reads a record; `None` for any but a compaction that keeps messages.
    pub(super) fn of(record: &Map<String, Value>) -> Option<Self> {
        if text_at(record, "subtype") != Some("compact_boundary") {
            return None;
        }
        let metadata = record.get("compactMetadata")?;
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        if let Some(messages) = metadata.get("preservedMessages") {
            let ids = messages.get("uuids")?.as_array()?.iter();
            let ids = ids.filter_map(|id| id.as_str().map(str::to_owned)).collect();
            let anchor = text(messages, "anchorUuid")?;
            return Some(Self { anchor, list: KeptList::Ids(ids) });
        }
        let segment = metadata.get("preservedSegment")?;
        let (first, last) = (text(segment, "headUuid")?, text(segment, "tailUuid")?);
        let anchor = text(segment, "anchorUuid")?;
        Some(Self { anchor, list: KeptList::Segment { first, last } })
    }

    /// Returns the positions of those that are in the file, before the compaction at `end`.
    fn positions(
        &self,
        records: &[ClaudeRecord],
        positions: &HashMap<String, usize>,
        end: usize,
    ) -> Vec<usize> {
        let position = |id: &String| positions.get(id).copied().filter(|found| *found < end);
        let (first, last) = match &self.list {
            KeptList::Ids(ids) => return ids.iter().filter_map(position).collect(),
            KeptList::Segment { first, last } => (first, last),
        };
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut next = position(last);
        while let Some(at) = next.filter(|at| seen.insert(*at)) {
            found.push(at);
            if records[at].id == *first {
                found.reverse();
                return found;
            }
            next = records[at].parent.as_ref().and_then(position);
        }
        Vec::new()
    }
}

/// The first and the last one of the messages that a compaction keeps, by their positions.
#[derive(Debug, Clone, Copy)]
struct KeptRange {
    first: usize,
    last: usize,
    place: KeptPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptPlace {
    BeforeSummary,
    AfterSummary,
}

/// A compaction whose kept messages are linked.
#[derive(Debug)]
struct LinkedCompaction {
    position: usize,
    kept: HashSet<usize>,
    last: usize,
}

/// Positions in the conversation to which the links of kept messages lead.
#[derive(Debug, Default)]
pub(super) struct CompactionLinks {
    /// The position of the first message that a summary keeps, by the id of the summary.
    pub(super) first_kept: HashMap<String, usize>,
    /// The position of the last record of the conversation.
    pub(super) leaf: Option<usize>,
}

impl CompactionLinks {
    /// Links the messages that compactions keep.
    pub(super) fn of(records: &mut [ClaudeRecord]) -> Self {
        let mut positions = HashMap::new();
        for (position, record) in records.iter().enumerate() {
            positions.entry(record.id.clone()).or_insert(position);
        }
        let mut leaf = records.iter().rposition(|record| !record.content.contents.is_empty());
        let mut anchors: HashMap<String, KeptRange> = HashMap::new();
        let mut linked: Option<LinkedCompaction> = None;
        for position in 0..records.len() {
            if let Some(kept) = records[position].content.kept.take() {
                let chain = kept.positions(records, &positions, position);
                let (Some(first), Some(last)) = (chain.first(), chain.last()) else { continue };
                let (first, last) = (*first, *last);
                let place = link_chain(records, &chain, position, &kept.anchor);
                let is_end = |leaf: usize| leaf < position || records[leaf].id == kept.anchor;
                leaf = leaf.map(|leaf| if is_end(leaf) { last } else { leaf });
                anchors.insert(kept.anchor, KeptRange { first, last, place });
                let kept = chain.into_iter().collect();
                linked = Some(LinkedCompaction { position, kept, last });
            } else if let Some(parent) = &records[position].parent {
                let anchored = anchors.get(parent);
                let is_left_out = |linked: &&LinkedCompaction| {
                    positions.get(parent).is_some_and(|parent| {
                        *parent < linked.position && !linked.kept.contains(parent)
                    })
                };
                let before = linked.as_ref().filter(is_left_out).map(|linked| linked.last);
                let place = anchored.map(|kept| kept.place);
                let Some(last) = anchored.map(|kept| kept.last).or(before) else { continue };
                records[position].parent = Some(records[last].id.clone());
                if place == Some(KeptPlace::BeforeSummary) {
                    summaries_to_prompts(&mut records[position].content.contents);
                }
            }
        }
        let after = anchors.into_iter().filter(|(_, kept)| kept.place == KeptPlace::AfterSummary);
        Self { first_kept: after.map(|(anchor, kept)| (anchor, kept.first)).collect(), leaf }
    }
}

/// Links kept messages behind the anchor, and the compaction behind what was before them.
fn link_chain(
    records: &mut [ClaudeRecord],
    chain: &[usize],
    compaction: usize,
    anchor: &str,
) -> KeptPlace {
    let first = chain[0];
    let before = records[first].parent.replace(anchor.to_owned());
    for pair in chain.windows(2) {
        records[pair[1]].parent = Some(records[pair[0]].id.clone());
    }
    if records[compaction].id != anchor {
        records[compaction].parent = before;
        return KeptPlace::AfterSummary;
    }
    // Messages that an earlier summary replaced stay in the log.
    let is_summary = |content: &EntryContent| matches!(content, EntryContent::Summary { .. });
    records[compaction].parent =
        before.filter(|_| records[first].content.contents.iter().any(is_summary));
    KeptPlace::BeforeSummary
}

/// Makes summaries messages that replace nothing.
fn summaries_to_prompts(contents: &mut [EntryContent]) {
    for content in contents {
        if let EntryContent::Summary { text, .. } = content {
            *content = EntryContent::Prompt(vec![Block::text(mem::take(text))]);
        }
    }
}
