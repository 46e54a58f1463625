//! Questions of servers to the user (elicitation), as questions about the call that is in progress.
//!
//! A form becomes one question per field; its suggested values can be taken all at once. A page is opened in the browser
//! after the user agreed. Without a user, a question is declined.

use std::collections::BTreeSet;

use crow_core::{
    capability::{QuestionAnswer, QuestionChoice, UserQuestion},
    tool::ToolContext,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};
use url::Url;

use crate::{browser_page::page_address, oauth::UserBrowser, text};

/// Maximum number of fields of a form.
const MOST_FIELDS: usize = 20;
/// Maximum number of choices of a field.
const MOST_CHOICES: usize = 100;
/// Maximum length in bytes of a server's message in a question.
const LONGEST_MESSAGE: usize = 2000;
/// Maximum length in bytes of a label, title or value in a question.
const LONGEST_LABEL: usize = 120;
/// Number of invalid answers to a field after which the question is given up.
const MOST_ATTEMPTS: u32 = 5;

const OPEN: &str = "Open the page";
const DECLINE: &str = "Decline";
const SUGGESTED: &str = "Use the suggested values";
const FILL_IN: &str = "Fill in";
const CONFIRM: &str = "Confirm";
const ENTER: &str = "Enter a value";
const LEAVE_EMPTY: &str = "Leave empty";

/// Asks the user of a call what a server wants to know.
pub(crate) async fn elicit(
    server: &str,
    request: &ElicitRequestParams,
    browser: &dyn UserBrowser,
    ctx: &ToolContext,
) -> ElicitResult {
    let dialog = Dialog { server, ctx };
    let answered = match request {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            match form(requested_schema) {
                Some(fields) => dialog.fill_in(message, &fields).await,
                None => Err(ElicitationAction::Decline),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            dialog.open_page(message, url, browser).await.map(|()| None)
        }
        _ => Err(ElicitationAction::Decline),
    };
    match answered {
        Ok(Some(content)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
        }
        Ok(None) => ElicitResult::new(ElicitationAction::Accept),
        Err(action) => ElicitResult::new(action),
    }
}

/// Asks whether to continue a call after the user was sent to a page.
pub(crate) async fn confirm_page_done(server: &str, ctx: &ToolContext) -> bool {
    const CONTINUE: &str = "Continue";
    let dialog = Dialog { server, ctx };
    let question = question(
        &format!("Continue with the call of the MCP server {server} when you are done on the page"),
        &[CONTINUE.to_owned(), "Stop".to_owned()],
    );
    dialog.ask(question).await.is_ok_and(|answer| is_choice(&answer, CONTINUE))
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
struct Field {
    name: String,
    title: String,
    description: String,
    is_required: bool,
    kind: FieldKind,
    default: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum FieldKind {
    Text {
        shortest: u64,
        longest: u64,
        format: Option<String>,
    },
    Number {
        is_integer: bool,
        least: f64,
        most: f64,
    },
    Boolean,
    /// One of the values, or several.
    Choice {
        choices: Vec<Choice>,
        is_multiple: bool,
        fewest: u64,
        most: u64,
    },
}

/// A value, and the label under which it is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    value: String,
    label: String,
}

/// Reads the fields of a form, in the order of the server; `None` if one has an unknown kind or too many
/// choices, or there are too many fields.
fn form(schema: &ElicitationSchema) -> Option<Vec<Field>> {
    let order = schema.property_order.clone();
    let schema = serde_json::to_value(schema).ok()?;
    let properties = schema.get("properties")?.as_object()?;
    let names = order.unwrap_or_else(|| properties.keys().cloned().collect());
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.into_iter().flatten().any(|one| one.as_str() == Some(name));
    if names.len() > MOST_FIELDS {
        return None;
    }
    let has_few_choices = |kind: &FieldKind| match kind {
        FieldKind::Choice { choices, .. } => choices.len() <= MOST_CHOICES,
        FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Boolean => true,
    };
    let field = |name: &String| {
        let schema = properties.get(name)?;
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let title = if text("title").is_empty() { name.as_str() } else { text("title") };
        let kind = field_kind(schema).filter(has_few_choices)?;
        let default = schema.get("default").filter(|value| kind.check(value).is_ok());
        Some(Field {
            name: name.clone(),
            title: text::one_line(title, LONGEST_LABEL),
            description: text::one_line(text("description"), LONGEST_MESSAGE),
            is_required: is_required(name),
            default: default.cloned(),
            kind,
        })
    };
    names.iter().map(field).collect()
}

fn field_kind(schema: &Value) -> Option<FieldKind> {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let count = |key: &str| schema.get(key).and_then(Value::as_u64);
    let kind = schema.get("type").and_then(Value::as_str)?;
    if let Some(choices) = choices(schema, schema.get("enumNames")) {
        return Some(FieldKind::Choice { choices, is_multiple: false, fewest: 1, most: 1 });
    }
    Some(match kind {
        "string" => FieldKind::Text {
            shortest: count("minLength").unwrap_or(0),
            longest: count("maxLength").unwrap_or(u64::MAX),
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
        },
        "number" | "integer" => FieldKind::Number {
            is_integer: kind == "integer",
            least: number("minimum").unwrap_or(f64::MIN),
            most: number("maximum").unwrap_or(f64::MAX),
        },
        "boolean" => FieldKind::Boolean,
        "array" => FieldKind::Choice {
            choices: choices(schema.get("items")?, None)?,
            is_multiple: true,
            fewest: count("minItems").unwrap_or(0),
            most: count("maxItems").unwrap_or(u64::MAX),
        },
        _ => return None,
    })
}

/// Returns the values of an enumeration: `enum` with optional `enumNames`, or constants with titles.
fn choices(schema: &Value, names: Option<&Value>) -> Option<Vec<Choice>> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let choice = |value: &str, title: Option<&str>| Choice {
        value: value.to_owned(),
        label: text::one_line(title.unwrap_or(value), LONGEST_LABEL),
    };
    let mut choices: Vec<Choice> = if let Some(values) = list("enum") {
        let title = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
        let values = values.iter().enumerate();
        values.map(|(at, value)| Some(choice(value.as_str()?, title(at)))).collect::<Option<_>>()?
    } else {
        let constants = list("oneOf").or_else(|| list("anyOf"))?;
        let constant = |one: &Value| {
            let title = one.get("title").and_then(Value::as_str);
            Some(choice(one.get("const")?.as_str()?, title))
        };
        constants.iter().map(constant).collect::<Option<_>>()?
    };
    // Labels must differ, and must not be taken for those of the questions themselves.
    let mut taken: BTreeSet<String> = BTreeSet::from([LEAVE_EMPTY.to_owned(), String::new()]);
    for choice in &mut choices {
        let (label, mut number) = (choice.label.clone(), 1);
        while !taken.insert(choice.label.clone()) {
            number += 1;
            choice.label = format!("{label} ({number})");
        }
    }
    Some(choices)
}

impl FieldKind {
    /// Checks a value. The error is a sentence for the user.
    fn check(&self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::Text { shortest, longest, format }, Value::String(text)) => {
                let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                if length < *shortest {
                    return Err(format!("it must have at least {shortest} characters"));
                }
                if length > *longest {
                    return Err(format!("it may have at most {longest} characters"));
                }
                let format = format.as_deref().unwrap_or_default();
                if has_format(text, format) { Ok(()) } else { Err(format!("it is no {format}")) }
            }
            (Self::Number { is_integer, least, most }, Value::Number(number)) => {
                let value = number.as_f64().unwrap_or(f64::NAN);
                if *is_integer && value.fract() != 0.0 {
                    return Err("it must be a whole number".to_owned());
                }
                if value < *least {
                    return Err(format!("it must be at least {least}"));
                }
                if value > *most {
                    return Err(format!("it may be at most {most}"));
                }
                Ok(())
            }
            (Self::Boolean, Value::Bool(_)) => Ok(()),
            (Self::Choice { choices, is_multiple: false, .. }, Value::String(text)) => {
                let is_known = choices.iter().any(|choice| choice.value == *text);
                if is_known { Ok(()) } else { Err("it is none of the choices".to_owned()) }
            }
            (Self::Choice { choices, is_multiple: true, fewest, most }, Value::Array(values)) => {
                let is_known = |value: &Value| {
                    choices.iter().any(|choice| value.as_str() == Some(&choice.value))
                };
                if !values.iter().all(is_known) {
                    return Err("it is none of the choices".to_owned());
                }
                let count = u64::try_from(values.len()).unwrap_or(u64::MAX);
                if (*fewest..=*most).contains(&count) {
                    return Ok(());
                }
                Err(match *most {
                    u64::MAX => format!("choose at least {fewest}"),
                    most => format!("choose from {fewest} to {most}"),
                })
            }
            _ => Err("it has the wrong type".to_owned()),
        }
    }

    /// Converts an answer to a value.
    fn value(&self, answer: &QuestionAnswer) -> Result<Value, String> {
        let value = match (self, answer) {
            (Self::Text { .. }, QuestionAnswer::Text { text }) => json!(text),
            (Self::Number { .. }, QuestionAnswer::Text { text }) => {
                match serde_json::from_str::<Value>(text.trim()) {
                    Ok(number @ Value::Number(_)) => number,
                    Ok(_) | Err(_) => return Err("it must be a number".to_owned()),
                }
            }
            (Self::Boolean, QuestionAnswer::Chosen { labels }) => json!(labels == &[YES]),
            (Self::Choice { choices, is_multiple, .. }, QuestionAnswer::Chosen { labels }) => {
                let chosen = choices.iter().filter(|choice| labels.contains(&choice.label));
                let mut values = chosen.map(|choice| json!(choice.value));
                if *is_multiple {
                    Value::Array(values.collect())
                } else {
                    values.next().unwrap_or_default()
                }
            }
            _ => return Err("choose one of the answers".to_owned()),
        };
        // A whole number may be written as 3.0.
        let value = match (self, value.as_f64()) {
            (Self::Number { is_integer: true, .. }, Some(number)) if value.as_i64().is_none() => {
                format!("{number:.0}").parse::<i64>().map_or(value, |whole| json!(whole))
            }
            _ => value,
        };
        self.check(&value)?;
        Ok(value)
    }

    /// Describes what values are valid; empty if all are.
    fn limits(&self) -> String {
        let range = |least: Option<String>, most: Option<String>, unit: &str| match (least, most) {
            (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
            (Some(least), None) => format!("at least {least}{unit}"),
            (None, Some(most)) => format!("at most {most}{unit}"),
            (None, None) => String::new(),
        };
        match self {
            Self::Text { shortest, longest, format } => {
                let shortest = (*shortest > 0).then(|| shortest.to_string());
                let longest = (*longest < u64::MAX).then(|| longest.to_string());
                let length = range(shortest, longest, " characters");
                let format = format.as_ref().map(|format| text::one_line(format, LONGEST_LABEL));
                let parts = format.into_iter().chain([length]).filter(|part| !part.is_empty());
                parts.collect::<Vec<_>>().join(", ")
            }
            Self::Number { is_integer, least, most } => {
                let least = (*least > f64::MIN).then(|| least.to_string());
                let most = (*most < f64::MAX).then(|| most.to_string());
                let kind = if *is_integer { "a whole number" } else { "a number" };
                let range = range(least, most, "");
                if range.is_empty() { kind.to_owned() } else { format!("{kind}, {range}") }
            }
            Self::Boolean | Self::Choice { is_multiple: false, .. } => String::new(),
            Self::Choice { fewest, most, .. } => {
                let fewest = (*fewest > 0).then(|| fewest.to_string());
                let most = (*most < u64::MAX).then(|| most.to_string());
                range(fewest, most, " of them")
            }
        }
    }

    /// Returns the labels to choose from; none if the user writes.
    fn labels(&self) -> Vec<String> {
        match self {
            Self::Text { .. } | Self::Number { .. } => Vec::new(),
            Self::Boolean => vec![YES.to_owned(), "No".to_owned()],
            Self::Choice { choices, .. } => {
                choices.iter().map(|choice| choice.label.clone()).collect()
            }
        }
    }

    /// Returns a value as the user sees it.
    fn shown(&self, value: &Value) -> String {
        let label = |value: &Value| match (self, value) {
            (Self::Boolean, Value::Bool(value)) => if *value { YES } else { "No" }.to_owned(),
            (Self::Choice { choices, .. }, Value::String(text)) => {
                let choice = choices.iter().find(|choice| choice.value == *text);
                choice.map_or_else(|| text.clone(), |choice| choice.label.clone())
            }
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        };
        let shown = match value {
            Value::Array(values) => values.iter().map(label).collect::<Vec<_>>().join(", "),
            value => label(value),
        };
        text::one_line(&shown, LONGEST_LABEL)
    }
}

const YES: &str = "Yes";

/// Checks the four formats of the protocol roughly; others are not checked.
fn has_format(text: &str, format: &str) -> bool {
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        lengths == [4, 2, 2]
            && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match format {
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && host.contains('.') && !text.contains(char::is_whitespace)
        }),
        "uri" => Url::parse(text).is_ok(),
        "date" => is_date(text),
        "date-time" => text
            .split_once(['T', ' '])
            .is_some_and(|(date, time)| is_date(date) && time.contains(':')),
        _ => true,
    }
}

/// The questions about one request.
struct Dialog<'a> {
    server: &'a str,
    ctx: &'a ToolContext,
}

impl Dialog<'_> {
    /// Asks the user. The error is the action that answers the server without an answer of the user.
    async fn ask(&self, question: UserQuestion) -> Result<QuestionAnswer, ElicitationAction> {
        let Some(questions) = &self.ctx.agent.questions else {
            return Err(ElicitationAction::Decline);
        };
        let asked = questions.ask(&self.ctx.call_id, question, &self.ctx.cancellation).await;
        match asked {
            None => Err(ElicitationAction::Cancel),
            Some(QuestionAnswer::Declined | QuestionAnswer::Nobody { .. }) => {
                Err(ElicitationAction::Decline)
            }
            Some(answer) => Ok(answer),
        }
    }

    /// Returns the beginning of a question with the server's message.
    fn message(&self, message: &str) -> String {
        let message = text::one_line(message, LONGEST_MESSAGE);
        format!("The MCP server {} asks: {message}", self.server)
    }

    /// Asks for the fields of a form, and returns the values of those that were not left empty.
    async fn fill_in(
        &self,
        message: &str,
        fields: &[Field],
    ) -> Result<Option<Map<String, Value>>, ElicitationAction> {
        let message = self.message(message);
        let mut content = Map::new();
        if fields.len() != 1 {
            let suggested =
                fields.iter().all(|field| field.default.is_some() || !field.is_required);
            let has_suggestion = fields.iter().any(|field| field.default.is_some());
            let listed: Vec<String> = fields.iter().map(Field::summary).collect();
            let fill_in = if fields.is_empty() { CONFIRM } else { FILL_IN };
            let mut labels = vec![fill_in.to_owned(), DECLINE.to_owned()];
            if suggested && has_suggestion {
                labels.insert(0, SUGGESTED.to_owned());
            }
            let wanted =
                if listed.is_empty() { String::new() } else { format!(" ({})", listed.join("; ")) };
            let answer = self.ask(question(&format!("{message}{wanted}"), &labels)).await?;
            if is_choice(&answer, SUGGESTED) {
                let values = fields.iter();
                content.extend(
                    values.filter_map(|field| Some((field.name.clone(), field.default.clone()?))),
                );
                return Ok(Some(content));
            }
            if !is_choice(&answer, fill_in) {
                return Err(ElicitationAction::Decline);
            }
        }
        for field in fields {
            let about = if fields.len() == 1 { message.as_str() } else { "" };
            if let Some(value) = self.ask_field(field, about).await? {
                content.insert(field.name.clone(), value);
            }
        }
        Ok(Some(content))
    }

    /// Asks for a field until the answer is valid. `None` if it is left empty.
    async fn ask_field(
        &self,
        field: &Field,
        message: &str,
    ) -> Result<Option<Value>, ElicitationAction> {
        let (labels, is_written) = (field.kind.labels(), field.kind.labels().is_empty());
        let suggestion = field
            .default
            .as_ref()
            .map(|default| format!("Suggested: {}", field.kind.shown(default)))
            .filter(|_| is_written);
        let mut extra: Vec<String> = suggestion.clone().into_iter().collect();
        if !field.is_required {
            extra.push(LEAVE_EMPTY.to_owned());
        }
        let text = self.field_text(field, message);
        // 1) A value that is written has its own question: among choices, a number could be taken for one of them.
        if is_written && !extra.is_empty() {
            let choices: Vec<String> =
                [ENTER.to_owned()].into_iter().chain(extra.clone()).collect();
            let answer = self.ask(question(&text, &choices)).await?;
            if is_choice(&answer, LEAVE_EMPTY) {
                return Ok(None);
            }
            if suggestion.as_ref().is_some_and(|label| is_choice(&answer, label)) {
                return Ok(field.default.clone());
            }
        }
        // 2) The value.
        let choices = if is_written { Vec::new() } else { [labels, extra].concat() };
        let mut fault = String::new();
        for _ in 0..MOST_ATTEMPTS {
            let mut question = question(&format!("{fault}{text}"), &choices);
            question.free_text = is_written;
            question.multiple = matches!(field.kind, FieldKind::Choice { is_multiple: true, .. });
            let answer = self.ask(question).await?;
            if !field.is_required && is_choice(&answer, LEAVE_EMPTY) {
                return Ok(None);
            }
            match field.kind.value(&answer) {
                Ok(value) => return Ok(Some(value)),
                Err(why) => fault = format!("That does not fit: {why}.\n"),
            }
        }
        Err(ElicitationAction::Cancel)
    }

    /// Returns the question for a field. It names the server, since the rest is the server's text.
    fn field_text(&self, field: &Field, message: &str) -> String {
        let Field { title, description, kind, .. } = field;
        let limits = Some(kind.limits()).filter(|limits| !limits.is_empty());
        let limits = limits.map(|limits| format!(" ({limits})")).unwrap_or_default();
        let suggested = field.default.as_ref().filter(|_| !kind.labels().is_empty());
        let suggested = suggested.map(|value| format!(", suggested: {}", kind.shown(value)));
        let suggested = suggested.unwrap_or_default();
        let description =
            if description.is_empty() { String::new() } else { format!(": {description}") };
        let asked = format!("{title}{limits}{suggested}{description}");
        if message.is_empty() {
            format!("The MCP server {} asks for {asked}", self.server)
        } else {
            format!("{message}\n{asked}")
        }
    }

    /// Asks whether a page may be opened, and opens it.
    async fn open_page(
        &self,
        message: &str,
        url: &str,
        browser: &dyn UserBrowser,
    ) -> Result<(), ElicitationAction> {
        let Ok((url, host)) = page_address(url) else { return Err(ElicitationAction::Decline) };
        let message = self.message(message);
        let text = format!("{message}\nIt wants you to open a page at {host}: {url}");
        let answer = self.ask(question(&text, &[OPEN.to_owned(), DECLINE.to_owned()])).await?;
        if !is_choice(&answer, OPEN) {
            return Err(ElicitationAction::Decline);
        }
        if let Err(why) = browser.open(&url).await {
            let text = format!("the page was not opened ({why}); open it yourself: {url}\n");
            self.ctx.progress.report(text);
        }
        Ok(())
    }
}

impl Field {
    /// Returns the title, with the suggested value.
    fn summary(&self) -> String {
        match &self.default {
            Some(default) => format!("{}: {}", self.title, self.kind.shown(default)),
            None => self.title.clone(),
        }
    }
}

fn question(text: &str, labels: &[String]) -> UserQuestion {
    let choice = |label: &String| QuestionChoice { label: label.clone(), description: None };
    UserQuestion {
        text: text.to_owned(),
        header: None,
        choices: labels.iter().map(choice).collect(),
        multiple: false,
        free_text: false,
    }
}

fn is_choice(answer: &QuestionAnswer, label: &str) -> bool {
    matches!(answer, QuestionAnswer::Chosen { labels } if labels == &[label])
}
