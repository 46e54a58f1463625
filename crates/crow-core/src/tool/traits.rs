//! The tool traits: for any arguments, and for those that are a Rust type; and the tool that is run outside of the agent.

use std::{error::Error, fmt};

use async_trait::async_trait;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CallPlan, Effects, Preview, Subject, ToolCategory, ToolContext, ToolResult};
use crate::model::ToolDefinition;

/// Error of planning or previewing a call, by who must act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The model: it gets the text and tries something else.
    #[error("{0}")]
    Model(String),
    /// No one needs to act: the call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// The user: the tool itself is broken.
    #[error("the tool failed")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl ToolError {
    /// Makes the result with which the call is answered.
    pub fn to_result(&self) -> ToolResult {
        match self {
            Self::Model(message) => ToolResult::failure(message.clone()),
            Self::Cancelled => ToolResult::cancelled(),
            Self::Fatal(source) => ToolResult::failure(format!("the tool failed: {source}")),
        }
    }
}

/// A tool that a model can call.
///
/// [`plan`](Self::plan) uses arguments and file metadata only, [`preview`](Self::preview) may read files,
/// [`execute`](Self::execute) has effects.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name that the model calls.
    fn name(&self) -> &str;

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns the JSON Schema of the arguments.
    fn parameters_schema(&self) -> Value;

    /// Returns the category of the tool.
    fn category(&self) -> ToolCategory;

    /// Returns true if a call that no rule matches needs permission.
    fn requires_permission(&self) -> bool {
        true
    }

    /// Returns true if a successful call ends the turn.
    fn ends_turn(&self) -> bool {
        false
    }

    /// Returns true if calls are run outside: the result is passed through the agent's handle, possibly before the
    /// call waits.
    fn is_delegated(&self) -> bool {
        false
    }

    /// Checks the arguments. The error text goes to the model.
    fn check(&self, input: &Value) -> Result<(), String> {
        let _ = input;
        Ok(())
    }

    /// Plans a call: returns what it would touch. By default that is what tools of its category may touch, and
    /// permission is asked for accordingly.
    async fn plan(&self, input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let _ = (input, ctx);
        Ok(CallPlan::of_category(self.name(), self.category()))
    }

    /// Returns the preview that the user is shown before allowing the call, if any.
    async fn preview(
        &self,
        input: &Value,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let _ = (input, plan, ctx);
        Ok(None)
    }

    /// Runs the call. Called only with a permit, see [`ToolRegistry::execute`](super::ToolRegistry::execute).
    async fn execute(&self, input: Value, plan: &CallPlan, ctx: &ToolContext) -> ToolResult;

    /// Returns the definition for a model with this context window, in tokens, if it is another than the ordinary one: for
    /// tools whose description takes a part of the window.
    fn definition_for_window(&self, window: u64) -> Option<ToolDefinition> {
        let _ = window;
        None
    }

    /// Returns the definition for the model.
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name().to_owned(),
            description: self.description().to_owned(),
            parameters: self.parameters_schema(),
        }
    }
}

/// A tool whose arguments are a Rust type. The model reads the docs of the type's fields.
///
/// [`TypedToolAdapter`] makes a [`Tool`] of it and provides schema, parsing and error texts.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// The arguments.
    type Input: DeserializeOwned + JsonSchema + Send + Sync;

    /// The name that the model calls.
    const NAME: &'static str;

    /// The category of the tool.
    const CATEGORY: ToolCategory;

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns true if a call that no rule matches needs permission.
    fn requires_permission(&self) -> bool {
        true
    }

    /// Returns true if a successful call ends the turn.
    fn ends_turn(&self) -> bool {
        false
    }

    /// Returns true if the schema for the model includes an argument. Arguments that it omits are accepted
    /// nevertheless.
    fn exposes_argument(&self, argument: &str) -> bool {
        let _ = argument;
        true
    }

    /// Returns the definition for a model with this context window, in tokens, if it is another than the ordinary one.
    fn definition_for_window(&self, window: u64) -> Option<ToolDefinition> {
        let _ = window;
        None
    }

    /// Plans a call: returns what it would touch. By default that is what tools of its category may touch.
    async fn plan(&self, input: &Self::Input, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let _ = (input, ctx);
        Ok(CallPlan::of_category(Self::NAME, Self::CATEGORY))
    }

    /// Returns the preview that the user is shown before allowing the call, if any.
    async fn preview(
        &self,
        input: &Self::Input,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let _ = (input, plan, ctx);
        Ok(None)
    }

    /// Runs the call. Called only with a permit.
    async fn execute(&self, input: Self::Input, plan: &CallPlan, ctx: &ToolContext) -> ToolResult;
}

/// A [`TypedTool`] as a [`Tool`].
pub struct TypedToolAdapter<T> {
    tool: T,
    schema: Value,
}

impl<T: TypedTool> TypedToolAdapter<T> {
    /// Wraps `tool` and generates its schema.
    pub fn new(tool: T) -> Self {
        let mut schema = schema_of::<T::Input>();
        if let Some(Value::Object(arguments)) = schema.get_mut("properties") {
            arguments.retain(|argument, _| tool.exposes_argument(argument));
        }
        Self { tool, schema }
    }

    fn parse(input: &Value) -> Result<T::Input, String> {
        serde_path_to_error::deserialize(input).map_err(argument_error)
    }
}

impl<T: TypedTool> fmt::Debug for TypedToolAdapter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Typed").field(&T::NAME).finish()
    }
}

#[async_trait]
impl<T: TypedTool> Tool for TypedToolAdapter<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn description(&self) -> &str {
        self.tool.description()
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    fn category(&self) -> ToolCategory {
        T::CATEGORY
    }

    fn requires_permission(&self) -> bool {
        self.tool.requires_permission()
    }

    fn ends_turn(&self) -> bool {
        self.tool.ends_turn()
    }

    fn definition(&self) -> ToolDefinition {
        let mut parameters = self.schema.clone();
        remove_closed(&mut parameters);
        let (name, description) = (self.name().to_owned(), self.description().to_owned());
        ToolDefinition { name, description, parameters }
    }

    fn definition_for_window(&self, window: u64) -> Option<ToolDefinition> {
        self.tool.definition_for_window(window)
    }

    fn check(&self, input: &Value) -> Result<(), String> {
        Self::parse(input).map(drop)
    }

    async fn plan(&self, input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        let input = Self::parse(input).map_err(ToolError::Model)?;
        self.tool.plan(&input, ctx).await
    }

    async fn preview(
        &self,
        input: &Value,
        plan: &CallPlan,
        ctx: &ToolContext,
    ) -> Result<Option<Preview>, ToolError> {
        let input = Self::parse(input).map_err(ToolError::Model)?;
        self.tool.preview(&input, plan, ctx).await
    }

    async fn execute(&self, input: Value, plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        match Self::parse(&input) {
            Ok(input) => self.tool.execute(input, plan, ctx).await,
            Err(message) => ToolResult::failure(message),
        }
    }
}

/// Returns the text of an error in arguments, with the name of the argument.
fn argument_error(error: serde_path_to_error::Error<serde_json::Error>) -> String {
    let path = error.path().to_string();
    let inner = error.into_inner();
    if path == "." { inner.to_string() } else { format!("{path}: {inner}") }
}

/// Returns the schema of a type, with references inlined and without keywords that only cost tokens.
fn schema_of<I: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    trimmed(settings.into_generator().into_root_schema_for::<I>().to_value())
}

/// Returns a schema without keywords that only cost tokens.
fn trimmed(mut schema: Value) -> Value {
    trim_schema(&mut schema);
    if let Value::Object(map) = &mut schema {
        map.remove("description");
        map.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    schema
}

/// Removes titles, number formats, defaults, a minimum of 0, and the null of optional fields (which are simply
/// omitted).
fn trim_schema(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    for keyword in ["title", "format", "default"] {
        map.remove(keyword);
    }
    // A model rarely passes a negative number, and parsing reports it.
    if map.get("minimum").and_then(Value::as_f64) == Some(0.0) {
        map.remove("minimum");
    }
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = map.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    drop_null_variant(map);
    constants_to_enum(map);
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values_mut().for_each(trim_schema);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(trim_schema);
            }
            ("items" | "additionalProperties", value) => {
                trim_schema(value);
                // The doc of the type; what counts is that of the field.
                if let Value::Object(item) = value
                    && item.contains_key("properties")
                {
                    item.remove("description");
                }
            }
            _ => {}
        }
    }
}

/// Removes `additionalProperties: false`, which costs tokens in every tool. Parsing refuses unknown arguments anyway.
fn remove_closed(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.get("additionalProperties") == Some(&Value::Bool(false)) {
        map.remove("additionalProperties");
    }
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values_mut().for_each(remove_closed);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(remove_closed);
            }
            ("items", value) => remove_closed(value),
            _ => {}
        }
    }
}

/// Turns `oneOf` of string constants, the schema of an enum with documented variants, into `enum`, which is a third
/// of the size and which every provider accepts.
fn constants_to_enum(map: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(variants)) = map.get("oneOf") else { return };
    let constants: Vec<Value> = variants
        .iter()
        .filter_map(|variant| variant.get("const").filter(|constant| constant.is_string()).cloned())
        .collect();
    if constants.len() == variants.len() {
        map.remove("oneOf");
        map.insert("type".to_owned(), "string".into());
        map.insert("enum".to_owned(), Value::Array(constants));
    }
}

/// Turns `anyOf: [T, null]`, the schema of an optional structure, into T.
fn drop_null_variant(map: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(variants)) = map.get("anyOf") else { return };
    let mut rest =
        variants.iter().filter(|variant| variant.get("type").is_none_or(|kind| kind != "null"));
    if let (Some(Value::Object(only)), None) = (rest.next().cloned(), rest.next()) {
        map.remove("anyOf");
        for (key, value) in only {
            map.entry(key).or_insert(value);
        }
    }
}

/// A tool that is run outside: its calls are decided and announced like any other, and the result is passed through the
/// agent's handle.
#[derive(Debug, Clone)]
pub struct DelegatedTool {
    definition: ToolDefinition,
    category: ToolCategory,
}

impl DelegatedTool {
    /// Makes a tool from its definition for the model.
    pub fn new(definition: ToolDefinition, category: ToolCategory) -> Self {
        Self { definition, category }
    }
}

#[async_trait]
impl Tool for DelegatedTool {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn description(&self) -> &str {
        &self.definition.description
    }

    fn parameters_schema(&self) -> Value {
        self.definition.parameters.clone()
    }

    fn category(&self) -> ToolCategory {
        self.category
    }

    fn is_delegated(&self) -> bool {
        true
    }

    /// The effects of an outside call are unknown.
    async fn plan(&self, _input: &Value, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        if let Some(outside) = &ctx.agent.delegated_calls {
            // A client may answer the announced call before it has started here.
            outside.expect(&ctx.call_id);
        }
        let title = self.definition.name.clone();
        Ok(CallPlan { title, effects: Effects::Unknown, subject: Subject::Nothing })
    }

    async fn execute(&self, _input: Value, _plan: &CallPlan, ctx: &ToolContext) -> ToolResult {
        match &ctx.agent.delegated_calls {
            Some(outside) => outside.result(&ctx.call_id, &ctx.cancellation).await,
            None => ToolResult::failure("this runtime accepts no external results"),
        }
    }
}
