//! `ask_user`: a question to the user.

use async_trait::async_trait;
use crow_core::{
    capability::{QuestionAnswer, QuestionChoice, UserQuestion},
    tool::{CallPlan, ToolCategory, ToolContext, ToolError, ToolResult, TypedTool},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Most choices of a question, since nobody reads a longer list.
const MOST_CHOICES: usize = 20;

/// Asks the user a question and waits for the answer.
#[derive(Debug)]
pub(crate) struct AskUser;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskUserInput {
    #[serde(alias = "text", alias = "prompt")]
    question: String,
    #[serde(default, alias = "options")]
    #[schemars(with = "Vec<String>")]
    choices: Vec<ChoiceInput>,
    #[serde(default, alias = "multiSelect", alias = "multi_select")]
    multiple: bool,
    /// What it is about.
    #[serde(default, alias = "title")]
    header: Option<String>,
}

/// A choice: only its label, which is the form in the schema, or a label with a description.
#[derive(Debug, Deserialize)]
#[serde(from = "AnyChoice")]
struct ChoiceInput(QuestionChoice);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum AnyChoice {
    Label(String),
    Described {
        label: String,
        #[serde(default)]
        description: Option<String>,
    },
}

impl From<AnyChoice> for ChoiceInput {
    fn from(choice: AnyChoice) -> Self {
        let (label, description) = match choice {
            AnyChoice::Label(label) => (label, None),
            AnyChoice::Described { label, description } => (label, description),
        };
        let description = description.filter(|text| !text.trim().is_empty());
        Self(QuestionChoice { label: label.trim().to_owned(), description })
    }
}

#[async_trait]
impl TypedTool for AskUser {
    type Input = AskUserInput;
    const NAME: &'static str = "ask_user";
    const CATEGORY: ToolCategory = ToolCategory::Session;

    fn description(&self) -> &'static str {
        "Asks the user what only they can decide."
    }

    fn requires_permission(&self) -> bool {
        false
    }

    fn exposes_argument(&self, argument: &str) -> bool {
        argument != "header"
    }

    async fn plan(&self, input: &AskUserInput, _ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        question(input).map_err(ToolError::Model)?;
        let first = input.question.trim().lines().next().unwrap_or_default();
        Ok(CallPlan::without_effects(format!("ask: {first}")))
    }

    async fn execute(
        &self,
        input: AskUserInput,
        _plan: &CallPlan,
        ctx: &ToolContext,
    ) -> ToolResult {
        let question = match question(&input) {
            Ok(question) => question,
            Err(message) => return ToolResult::failure(message),
        };
        let Some(questions) = &ctx.questions else {
            return no_user("no user is connected");
        };
        match questions.ask(&ctx.call_id, question, &ctx.cancellation).await {
            Some(answer) => answer_result(answer),
            None => ToolResult::cancelled(),
        }
    }
}

/// Makes the question from the arguments, or describes what is wrong with them.
fn question(input: &AskUserInput) -> Result<UserQuestion, String> {
    let text = input.question.trim().to_owned();
    if text.is_empty() {
        return Err("question is empty: write what the user is to decide".to_owned());
    }
    let choices: Vec<_> = input.choices.iter().map(|choice| choice.0.clone()).collect();
    if choices.len() > MOST_CHOICES {
        return Err(format!("there are {} choices; give {MOST_CHOICES} at most", choices.len()));
    }
    for (index, choice) in choices.iter().enumerate() {
        let before = choices.iter().take(index);
        if choice.label.is_empty() || before.into_iter().any(|other| other.label == choice.label) {
            return Err(format!("choice {} is empty or a duplicate", index + 1));
        }
    }
    let header = input.header.clone().filter(|header| !header.trim().is_empty());
    let multiple = input.multiple && choices.len() > 1;
    Ok(UserQuestion { text, header, choices, multiple, free_text: true })
}

/// Makes the result with the answer of the user.
fn answer_result(answer: QuestionAnswer) -> ToolResult {
    let extra = json!({ "answer": answer });
    let mut result = match answer {
        QuestionAnswer::Text { text } => ToolResult::success(format!("The user wrote: {text}")),
        QuestionAnswer::Chosen { labels } => {
            ToolResult::success(format!("The user chose: {}", labels.join("; ")))
        }
        QuestionAnswer::Declined => ToolResult::success(
            "The user does not want to answer. Do not ask again: go on as you think best, and say what you assumed.",
        ),
        QuestionAnswer::Nobody { hint } => no_user(&hint),
    };
    result.metadata.extra = extra;
    result
}

fn no_user(hint: &str) -> ToolResult {
    ToolResult::failure(format!(
        "The user cannot be asked now: {hint}. Go on with the most sensible assumption and name it; if every assumption could do harm, end your turn with the question."
    ))
}
