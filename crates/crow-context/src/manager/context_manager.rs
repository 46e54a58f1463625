//! [`ContextManager`]: environment and conversation within a budget, as messages or as one text.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    ops::Range,
    sync::Arc,
};

use async_trait::async_trait;
use crow_core::{
    context::TokenEstimator,
    ids::MessageId,
    message::{Block, Message, ReplyContent, UserMessage, unpaired_call, wrap_in_tag},
};

use super::{
    MaskedOutputs, OldTurns, PruneTarget, PruningStrategy, SupersededOutputs,
    told_environment::ToldEnvironment,
};
use crate::{
    TokenCounter,
    counter::TextCounter,
    environment::{Environment, EnvironmentError},
};

/// Part of the budget that a snapshot of the environment may take at most, in percent.
const ENVIRONMENT_PERCENT: u64 = 10;
/// Length of a conversation after it was pruned, in percent of its part of the budget.
const PRUNED_PERCENT: u64 = 60;
/// Number of the newest outputs that pruning leaves alone.
const KEPT_OUTPUTS: usize = 3;
/// Maximum tokens of a summary.
const SUMMARY: u64 = 2_000;

/// Decides what a model is sent: an environment and a conversation within a budget of tokens.
///
/// A snapshot of the environment opens the conversation, and what changes in it is appended: requests begin with all of
/// the one before until the conversation is pruned. A snapshot gets at most its share of the budget; changes count as
/// conversation.
pub struct ContextManager {
    environment: Environment,
    /// The conversation, with the messages that tell the environment.
    messages: Vec<Arc<Message>>,
    told: ToldEnvironment,
    counter: Arc<dyn TokenCounter>,
    max_tokens: u64,
    environment_percent: u64,
    template: String,
    strategies: Vec<Box<dyn PruningStrategy>>,
    metrics: ContextMetrics,
    followed: HistoryPosition,
}

/// The position up to which a history was taken over.
#[derive(Debug, Default)]
enum HistoryPosition {
    /// Nothing of it was.
    #[default]
    Start,
    /// All up to this message was taken over.
    After {
        /// Its index in the history.
        index: usize,
        id: MessageId,
    },
}

/// Counters of a context manager.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextMetrics {
    /// Number of requests and prompts that were built.
    pub built: u64,
    /// Their tokens in total.
    pub tokens: u64,
    /// The tokens of the environment in them.
    pub environment_tokens: u64,
    /// Number of times that the conversation was pruned.
    pub prunings: u64,
    /// Tokens that pruning and summaries removed.
    pub removed_tokens: u64,
    /// Number of messages that were left out.
    pub removed_messages: u64,
    /// Number of summaries.
    pub summaries: u64,
}

/// The messages of a request.
#[derive(Debug, Clone)]
pub struct ContextView {
    /// The messages: the conversation, with the environment in it.
    pub messages: Vec<Arc<Message>>,
    /// Their tokens.
    pub tokens: u64,
}

/// The effect of a pruning. All zero if none was needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Tokens of the conversation before.
    pub tokens_before: u64,
    /// Tokens of the conversation afterwards.
    pub tokens_after: u64,
    /// Number of messages that were left out.
    pub removed_messages: usize,
}

impl ContextManager {
    /// Makes a manager without a conversation. The `template` is the system prompt of [`build_prompt`](Self::build_prompt):
    /// `{{environment}}`, `{{history}}` and `{{task}}` in it are filled; what it does not name follows it.
    /// Loops that send messages use its [`instructions`](Self::instructions).
    ///
    /// Tokens are estimated unless another counter is given.
    pub fn new(environment: Environment, max_tokens: u64, template: impl Into<String>) -> Self {
        Self {
            environment,
            messages: Vec::new(),
            told: ToldEnvironment::default(),
            counter: Arc::new(TokenEstimator::new("", &[])),
            max_tokens,
            environment_percent: ENVIRONMENT_PERCENT,
            template: template.into(),
            strategies: vec![
                Box::new(SupersededOutputs),
                Box::new(MaskedOutputs),
                Box::new(OldTurns),
            ],
            metrics: ContextMetrics::default(),
            followed: HistoryPosition::Start,
        }
    }

    /// Begins with these messages.
    #[must_use]
    pub fn with_history(mut self, messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        self.messages.extend(messages);
        self
    }

    /// Counts tokens with this counter.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.counter = counter;
        self
    }

    /// Counts the tokens of texts with this function; everything is counted by its text.
    #[must_use]
    pub fn with_text_counter(self, count: impl Fn(&str) -> u64 + Send + Sync + 'static) -> Self {
        self.with_counter(Arc::new(TextCounter::new(count)))
    }

    /// Sets the part of the budget that a snapshot of the environment may take at most, in percent; more than 100 is 100.
    #[must_use]
    pub fn with_environment_percent(mut self, percent: u64) -> Self {
        self.environment_percent = percent.min(100);
        self
    }

    /// Sets the strategies that shorten the conversation, in the order in which they are tried.
    #[must_use]
    pub fn with_strategies(mut self, strategies: Vec<Box<dyn PruningStrategy>>) -> Self {
        self.strategies = strategies;
        self
    }

    /// Returns the template without its places: the system prompt for a model that takes messages.
    pub fn instructions(&self) -> String {
        without_places(&self.template).trim().to_owned()
    }

    /// Returns the environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the environment, to be changed.
    pub fn environment_mut(&mut self) -> &mut Environment {
        &mut self.environment
    }

    /// Updates the environment from the result of a tool.
    ///
    /// # Errors
    /// Fails if the handler of the tool fails or the state would violate its schema; then nothing changes.
    pub fn update_environment(&mut self, tool: &str, result: &str) -> Result<(), EnvironmentError> {
        self.environment.update_from_tool_result(tool, result)
    }

    /// Returns the conversation as it is sent, with the messages that tell the environment.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Adds a message to the conversation.
    pub fn add_to_history(&mut self, message: impl Into<Arc<Message>>) {
        self.messages.push(message.into());
    }

    /// Takes over the messages of a history that came since the last time. A history that was rewound or compacted since
    /// replaces the conversation.
    pub fn follow(&mut self, history: &[Arc<Message>]) {
        let known = match &self.followed {
            HistoryPosition::Start => 0,
            HistoryPosition::After { index, id } => match history.get(*index) {
                Some(message) if message.id() == id => index + 1,
                Some(_) | None => {
                    self.messages.clear();
                    0
                }
            },
        };
        self.messages.extend_from_slice(&history[known..]);
        if let Some(last) = history.last() {
            self.followed =
                HistoryPosition::After { index: history.len() - 1, id: last.id().clone() };
        }
    }

    /// Goes on with the messages of another history, from its first one: they come after the conversation so far.
    pub fn follow_another(&mut self) {
        self.followed = HistoryPosition::Start;
    }

    /// Returns the tokens of the conversation.
    pub fn token_count(&self) -> u64 {
        self.count(&self.messages)
    }

    /// Returns what the manager did so far.
    pub fn metrics(&self) -> ContextMetrics {
        self.metrics
    }

    /// Shortens the conversation if it is longer than the budget. The next request then begins with a fresh snapshot of
    /// the environment.
    pub fn prune_if_needed(&mut self) -> PruneReport {
        let is_told = self.told.is_in(&self.messages);
        let snapshot = if is_told { 0 } else { self.counter.text(&self.snapshot()) };
        if self.token_count() + snapshot <= self.max_tokens {
            return PruneReport::default();
        }
        self.prune()
    }

    /// Builds the messages of a request: the conversation with what the model must be told of the environment.
    ///
    /// # Errors
    /// Fails if the last message and the environment alone are longer than the budget.
    pub fn build_request(&mut self) -> Result<ContextView, ContextError> {
        self.tell_environment();
        if self.token_count() > self.max_tokens {
            self.prune();
            self.tell_environment();
        }
        let tokens = self.token_count();
        if tokens > self.max_tokens {
            return Err(ContextError::BudgetTooSmall { needed: tokens, budget: self.max_tokens });
        }
        let told = self.messages.iter().filter(|message| self.told.contains(message));
        let environment = told.map(|message| self.counter.message(message)).sum();
        self.record(tokens, environment);
        self.told.on_sent(&self.messages);
        Ok(ContextView { messages: self.messages.clone(), tokens })
    }

    /// Builds one text for a model that takes no messages: the template with the environment, the newest part of the
    /// conversation and the task. Whole messages are left out where it would be too long, the oldest first.
    ///
    /// # Errors
    /// Fails if the template and the task alone are longer than the budget.
    pub fn build_prompt(&mut self, task: &str) -> Result<String, ContextError> {
        let template = complete(&self.template);
        let fixed = self.counter.text(&without_places(&template)) + self.counter.text(task);
        if fixed > self.max_tokens {
            return Err(ContextError::BudgetTooSmall { needed: fixed, budget: self.max_tokens });
        }
        let cap = (self.max_tokens * self.environment_percent / 100).min(self.max_tokens - fixed);
        let environment = self.environment.to_context(cap, self.counter.as_ref());
        // Counts of parts need not add up to the count of the whole: the whole is what is checked.
        let others = self.messages.iter().filter(|message| !self.told.contains(message));
        let paragraphs: Vec<_> = others.map(|message| paragraph(message)).collect();
        let mut first = paragraphs.len();
        let mut text = fill(&template, &environment, "", task);
        let mut left = self.max_tokens.saturating_sub(self.counter.text(&text));
        while let Some(paragraph) = first.checked_sub(1).map(|index| &paragraphs[index]) {
            let tokens = self.counter.text(paragraph);
            if tokens > left {
                break;
            }
            left -= tokens;
            first -= 1;
        }
        loop {
            text = fill(&template, &environment, &paragraphs[first..].concat(), task);
            let tokens = self.counter.text(&text);
            if tokens <= self.max_tokens {
                let taken = self.counter.text(&environment);
                self.record(tokens, taken);
                return Ok(text);
            }
            if first == paragraphs.len() {
                // The environment is the only part left that can go.
                text = fill(&template, "", "", task);
                let needed = self.counter.text(&text);
                if needed > self.max_tokens {
                    return Err(ContextError::BudgetTooSmall { needed, budget: self.max_tokens });
                }
                self.record(needed, 0);
                return Ok(text);
            }
            first += 1;
        }
    }

    /// Replaces messages by a summary of them.
    ///
    /// # Errors
    /// Fails and changes nothing if the range does not exist or separates a call from its result, or if the summary is
    /// empty, longer than what it replaces, or there is none.
    pub async fn summarize(
        &mut self,
        range: Range<usize>,
        summarizer: &dyn Summarizer,
    ) -> Result<(), ContextError> {
        let Range { start, end } = range;
        let length = self.messages.len();
        if start >= end || end > length {
            return Err(ContextError::NoSuchMessages { start, end, length });
        }
        let replaced = &self.messages[start..end];
        if unpaired_call(replaced).is_some() {
            return Err(ContextError::SeparatesCall { start, end });
        }
        let tokens = self.count(replaced);
        let refused = |reason: String| ContextError::Summary { reason };
        let text = transcript(replaced);
        let most = SUMMARY.min(tokens);
        let summary = summarizer.summarize(&text, most).await.map_err(refused)?;
        if summary.trim().is_empty() {
            return Err(refused("it is empty".to_owned()));
        }
        let text = wrap_in_tag("summary", "the conversation before", summary.trim());
        // The first message that it replaces makes its id unique.
        let id = MessageId::new(format!("{}-summary", self.messages[start].id()));
        let message = Message::User(UserMessage { id, content: vec![Block::text(text)] });
        let length = self.counter.message(&message);
        if length >= tokens {
            return Err(refused(format!("it has {length} tokens, what it replaces {tokens}")));
        }
        self.messages.splice(start..end, [Arc::new(message)]);
        self.metrics.summaries += 1;
        self.metrics.removed_tokens += tokens - length;
        self.metrics.removed_messages += (end - start - 1) as u64;
        Ok(())
    }

    /// Shortens the conversation to a part of the budget, without what was told of the environment.
    fn prune(&mut self) -> PruneReport {
        let tokens_before = self.token_count();
        let budget = self.max_tokens.saturating_sub(self.counter.text(&self.snapshot()));
        self.told.remove_from(&mut self.messages);
        let length = self.messages.len();
        let goal = budget * PRUNED_PERCENT / 100;
        for strategy in &self.strategies {
            if self.count(&self.messages) <= goal {
                break;
            }
            let target = PruneTarget {
                counter: self.counter.as_ref(),
                tokens: goal,
                kept_outputs: KEPT_OUTPUTS,
            };
            strategy.prune(&mut self.messages, target);
        }
        let tokens_after = self.token_count();
        let removed_messages = length - self.messages.len();
        self.metrics.prunings += 1;
        self.metrics.removed_tokens += tokens_before.saturating_sub(tokens_after);
        self.metrics.removed_messages += removed_messages as u64;
        PruneReport { tokens_before, tokens_after, removed_messages }
    }

    /// Returns the most tokens of a text about the environment.
    fn environment_cap(&self) -> u64 {
        self.max_tokens.saturating_mul(self.environment_percent) / 100
    }

    fn snapshot(&self) -> String {
        self.environment.to_context(self.environment_cap(), self.counter.as_ref())
    }

    /// Adds to the conversation what the model must be told of the environment: all of it, or what changed.
    fn tell_environment(&mut self) {
        if self.told.is_in(&self.messages) {
            let cap = self.environment_cap();
            self.told.add_changes(
                &mut self.messages,
                &self.environment,
                cap,
                self.counter.as_ref(),
            );
        } else {
            let snapshot = self.snapshot();
            self.told.remove_from(&mut self.messages);
            self.told.add_snapshot(&mut self.messages, &self.environment, &snapshot);
        }
    }

    fn record(&mut self, tokens: u64, environment: u64) {
        self.metrics.built += 1;
        self.metrics.tokens += tokens;
        self.metrics.environment_tokens += environment;
    }

    fn count(&self, messages: &[Arc<Message>]) -> u64 {
        messages.iter().map(|message| self.counter.message(message)).sum()
    }
}

impl fmt::Debug for ContextManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextManager")
            .field("messages", &self.messages.len())
            .field("max_tokens", &self.max_tokens)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

/// Error of building what a model is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// What cannot be left out is longer than the budget: the template, the task, the last message.
    #[error("the request needs at least {needed} tokens, and its budget is {budget}")]
    BudgetTooSmall {
        /// Tokens of what cannot be left out.
        needed: u64,
        /// The budget in tokens.
        budget: u64,
    },
    /// A range of messages does not exist.
    #[error("there are no messages {start} to {end}: the conversation has {length}")]
    NoSuchMessages {
        /// The first message.
        start: usize,
        /// The message after the last one.
        end: usize,
        /// Number of messages.
        length: usize,
    },
    /// A range of messages would leave a result without its call, or a call without its result.
    #[error("the messages {start} to {end} separate a call from its result")]
    SeparatesCall {
        /// The first message.
        start: usize,
        /// The message after the last one.
        end: usize,
    },
    /// A summary cannot be used.
    #[error("the summary is not used: {reason}")]
    Summary {
        /// Why.
        reason: String,
    },
}

/// Writes summaries, with a model or without one.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Returns a summary of a transcript, at most about `max_tokens` long.
    ///
    /// # Errors
    /// Fails with the reason if there is none.
    async fn summarize(&self, transcript: &str, max_tokens: u64) -> Result<String, String>;
}

/// Place of the environment in a template.
const ENVIRONMENT: &str = "{{environment}}";
/// Place of the conversation in a template.
const HISTORY: &str = "{{history}}";
/// Place of the task in a template.
const TASK: &str = "{{task}}";

/// A template in which every place occurs.
fn complete(template: &str) -> Cow<'_, str> {
    let missing: Vec<_> = [ENVIRONMENT, HISTORY, TASK]
        .into_iter()
        .filter(|place| !template.contains(place))
        .collect();
    if missing.is_empty() {
        Cow::Borrowed(template)
    } else {
        Cow::Owned(format!("{}\n{}\n", template.trim_end(), missing.join("\n")))
    }
}

/// Returns the length of a template without its places.
fn without_places(template: &str) -> String {
    [ENVIRONMENT, HISTORY, TASK]
        .into_iter()
        .fold(template.to_owned(), |text, place| text.replace(place, ""))
}

/// Fills the places. A text is inserted as it is: places in it are not filled again.
fn fill(template: &str, environment: &str, history: &str, task: &str) -> String {
    let places = [(ENVIRONMENT, environment), (HISTORY, history), (TASK, task)];
    let mut text = String::new();
    let mut rest = template;
    loop {
        let next = places
            .iter()
            .filter_map(|(place, value)| Some((rest.find(place)?, *place, *value)))
            .min_by_key(|(at, _, _)| *at);
        let Some((at, place, value)) = next else { break };
        text.push_str(&rest[..at]);
        text.push_str(value.trim_end_matches('\n'));
        rest = &rest[at + place.len()..];
    }
    text.push_str(rest);
    text
}

/// Renders a message as a paragraph with its author.
fn paragraph(message: &Message) -> String {
    match message {
        Message::User(user) => format!("user: {}\n", Block::text_of(&user.content)),
        Message::Assistant(reply) => {
            let mut text = String::new();
            for block in &reply.blocks {
                match &block.content {
                    ReplyContent::Text { text: words } => {
                        text.push_str("agent: ");
                        text.push_str(words);
                        text.push('\n');
                    }
                    ReplyContent::Call(call) => {
                        let arguments = call.arguments.to_object();
                        // Writing to a string cannot fail.
                        let _ = writeln!(text, "call of {}: {arguments}", call.name);
                    }
                    ReplyContent::Thinking { .. } | ReplyContent::Opaque => {}
                }
            }
            text
        }
        Message::Results(results) => {
            let outputs = results.results.iter().map(|result| {
                let failed = if result.is_error { ", which failed" } else { "" };
                format!("output of {}{failed}: {}\n", result.tool, Block::text_of(&result.content))
            });
            outputs.collect()
        }
    }
}

/// Renders messages, each as a paragraph.
fn transcript(messages: &[Arc<Message>]) -> String {
    messages.iter().map(|message| paragraph(message)).collect()
}
