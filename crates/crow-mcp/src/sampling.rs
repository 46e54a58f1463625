//! Requests of servers to the session's model (sampling). The user is asked, since they cost money and the text of the
//! server goes to the model's provider.

#![expect(deprecated, reason = "servers ask for sampling, whatever becomes of it in the protocol")]

use std::sync::atomic::{AtomicBool, Ordering};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crow_core::{
    capability::{
        QuestionAnswer, QuestionChoice, SideReply, SideRequest, SideRequestError, UserQuestion,
    },
    message::{Block, Image},
    model::StopReason,
    tool::ToolContext,
};
use rmcp::{
    ErrorData,
    model::{
        CreateMessageRequestParams, CreateMessageResult, ErrorCode, Role, SamplingMessage,
        SamplingMessageContentBlock,
    },
};

use crate::text;

/// Maximum number of tokens of a reply, whatever the server asks for.
const MOST_TOKENS: u64 = 8192;
/// Maximum size of a request in bytes.
const LARGEST: usize = 512 * 1024;
/// Maximum length in bytes of the text that the question shows.
const SHOWN: usize = 1500;
/// Code of the error for a request that the user rejects.
const REJECTED: ErrorCode = ErrorCode(-1);

const ALLOW: &str = "Allow";
const ALWAYS: &str = "Allow always while the server is connected";
const DECLINE: &str = "Decline";

/// Sends a server's request to the model of the session, if the user of the call allows it. `is_allowed` remembers that
/// the user allowed all requests.
pub(crate) async fn sample(
    server: &str,
    request: CreateMessageRequestParams,
    ctx: &ToolContext,
    is_allowed: &AtomicBool,
) -> Result<CreateMessageResult, ErrorData> {
    let Some(model) = &ctx.agent.side_model else {
        return Err(ErrorData::internal_error("there is no model", None));
    };
    let max_tokens = u64::from(request.max_tokens).clamp(1, MOST_TOKENS);
    let side_request = SideRequest {
        system: text::sanitise(request.system_prompt.as_deref().unwrap_or_default()),
        content: content(request.messages, ctx.agent.model.abilities().vision)?,
        max_tokens,
        temperature: request.temperature,
    };
    if side_request.system.len() > LARGEST {
        return Err(ErrorData::invalid_params("the request is too large", None));
    }
    if !is_allowed.load(Ordering::Relaxed) {
        match ask(server, &side_request, ctx).await {
            Some(ALLOW) => {}
            Some(ALWAYS) => is_allowed.store(true, Ordering::Relaxed),
            _ => return Err(ErrorData::new(REJECTED, "the user rejected the request", None)),
        }
    }
    let replied = model.ask(side_request, &ctx.cancellation).await;
    let SideReply { text, model, stop } = replied.map_err(|error| match error {
        SideRequestError::Cancelled => ErrorData::new(REJECTED, error.to_string(), None),
        error => ErrorData::internal_error(error.to_string(), None),
    })?;
    let reason = match stop {
        StopReason::MaxTokens => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        StopReason::StopSequence => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal | StopReason::Pause => {
            CreateMessageResult::STOP_REASON_END_TURN
        }
    };
    let message = SamplingMessage::assistant_text(text);
    Ok(CreateMessageResult::new(message, model.model).with_stop_reason(reason))
}

/// Returns the label that the user chose.
async fn ask(server: &str, request: &SideRequest, ctx: &ToolContext) -> Option<&'static str> {
    let questions = ctx.agent.questions.as_ref()?;
    let shown = text::one_line(&Block::text_of(&request.content), SHOWN);
    let system = match request.system.as_str() {
        "" => String::new(),
        system => format!(" (system prompt: {})", text::one_line(system, SHOWN)),
    };
    let text = format!(
        "The MCP server {server} wants to send a request to your model {}, at your cost, for up to {} tokens. The request: \u{201c}{shown}\u{201d}{system}",
        ctx.agent.model.reference(),
        request.max_tokens
    );
    let labels = [ALLOW, ALWAYS, DECLINE];
    let choice = |label: &&str| QuestionChoice { label: (*label).to_owned(), description: None };
    let question = UserQuestion {
        text,
        header: None,
        choices: labels.iter().map(choice).collect(),
        multiple: false,
        free_text: false,
    };
    let answer = questions.ask(&ctx.call_id, question, &ctx.cancellation).await?;
    let QuestionAnswer::Chosen { labels: chosen } = answer else { return None };
    labels.into_iter().find(|label| chosen == [*label])
}

/// Converts the messages of a request to the content of one message. Several messages become a transcript.
fn content(messages: Vec<SamplingMessage>, takes_images: bool) -> Result<Vec<Block>, ErrorData> {
    let invalid = |why: &'static str| ErrorData::invalid_params(why, None);
    let is_transcript = messages.len() > 1;
    let (mut blocks, mut size) = (Vec::new(), 0_usize);
    for message in messages {
        let role = match message.role {
            Role::Assistant => "[assistant]\n",
            Role::User => "[user]\n",
        };
        let mut role = if is_transcript { role } else { "" };
        for block in message.content.into_vec() {
            match block {
                SamplingMessageContentBlock::Text(content) => {
                    let plain = text::sanitise(&content.text);
                    size = size.saturating_add(plain.len());
                    blocks.push(Block::text(format!("{role}{plain}")));
                    role = "";
                }
                SamplingMessageContentBlock::Image(image) if takes_images => {
                    size = size.saturating_add(image.data.len());
                    let bytes =
                        STANDARD.decode(&image.data).map_err(|_| invalid("an image is broken"))?;
                    let media_type = Image::media_type_of(&bytes)
                        .ok_or_else(|| invalid("an image is neither PNG, JPEG, GIF nor WebP"))?;
                    let media_type = media_type.to_owned();
                    blocks.push(Block::Image(Image { media_type, data: image.data }));
                }
                _ => return Err(invalid("only text, and images for models that take them")),
            }
        }
    }
    if blocks.is_empty() {
        return Err(invalid("there is no message"));
    }
    if size > LARGEST {
        return Err(invalid("the request is too large"));
    }
    Ok(blocks)
}
