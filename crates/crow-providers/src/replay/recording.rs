//! A recorded conversation.

use std::{path::PathBuf, time::Duration};

use crow_core::{
    ids::CallId,
    message::{CallArguments, ReplyBlock, ReplyContent, ToolCall},
    model::StopReason,
    usage::TokenUsage,
};
use serde::Deserialize;
use serde_json::{Map, Value};

const FORMAT: &str = "crow-replay";
const VERSION: u32 = 1;

/// Error of a recording that cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("read the recording {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// It is not a valid recording.
    #[error("the recording is not well formed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is JSON of another format.
    #[error("the recording has the format \"{given}\" where \"{FORMAT}\" is expected")]
    OtherFormat {
        /// Its `format`.
        given: String,
    },
    /// It was made for another version of Crow.
    #[error("the recording has version {given}, this program supports version {VERSION}")]
    OtherVersion {
        /// Its `version`.
        given: u32,
    },
    /// It has no reply.
    #[error("the recording has no replies")]
    Empty,
}

/// A recorded conversation.
#[derive(Debug)]
pub(super) struct RecordedConversation {
    pub(super) model: String,
    pub(super) pace: Duration,
    pub(super) replies: Vec<RecordedReply>,
}

/// A recorded reply.
#[derive(Debug)]
pub(super) struct RecordedReply {
    pub(super) expect: Option<String>,
    pub(super) blocks: Vec<ReplyBlock>,
    pub(super) usage: TokenUsage,
    pub(super) stop: StopReason,
}

/// Fields that are parsed first, to distinguish a recording of another version from an invalid one.
#[derive(Debug, Deserialize)]
struct RawHead {
    format: String,
    version: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecording {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    #[serde(default)]
    model: String,
    #[serde(default)]
    pace_ms: u64,
    replies: Vec<RawReply>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    expect: Option<String>,
    blocks: Vec<RawBlock>,
    #[serde(default)]
    usage: TokenUsage,
    stop: Option<StopReason>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawBlock {
    Text(String),
    Thinking(String),
    Call(RawCall),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl RecordedConversation {
    pub(super) fn parse(text: &str) -> Result<Self, RecordingError> {
        let head: RawHead = serde_json::from_str(text)?;
        if head.format != FORMAT {
            return Err(RecordingError::OtherFormat { given: head.format });
        }
        if head.version != VERSION {
            return Err(RecordingError::OtherVersion { given: head.version });
        }
        let raw: RawRecording = serde_json::from_str(text)?;
        if raw.replies.is_empty() {
            return Err(RecordingError::Empty);
        }
        let replies = raw.replies.into_iter().enumerate();
        Ok(Self {
            model: raw.model,
            pace: Duration::from_millis(raw.pace_ms),
            replies: replies.map(|(number, reply)| reply.resolve(number + 1)).collect(),
        })
    }
}

impl RawReply {
    fn resolve(self, number: usize) -> RecordedReply {
        let blocks = self.blocks.into_iter().enumerate();
        let blocks: Vec<ReplyBlock> = blocks
            .map(|(position, block)| {
                ReplyBlock::without_native_item(block.resolve(number, position + 1))
            })
            .collect();
        let has_calls = blocks.iter().any(|block| matches!(block.content, ReplyContent::Call(_)));
        let default = if has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
        RecordedReply {
            expect: self.expect,
            blocks,
            usage: self.usage,
            stop: self.stop.unwrap_or(default),
        }
    }
}

impl RawBlock {
    fn resolve(self, number: usize, position: usize) -> ReplyContent {
        match self {
            Self::Text(text) => ReplyContent::Text { text },
            Self::Thinking(text) => ReplyContent::Thinking { text },
            Self::Call(RawCall { id, name, arguments }) => {
                let id = id.unwrap_or_else(|| format!("replay_{number}_{position}"));
                ReplyContent::Call(ToolCall {
                    id: CallId::new(id),
                    name,
                    arguments: CallArguments::Json(Value::Object(arguments)),
                })
            }
        }
    }
}
