//! An agent that analyses tables: the results of its tools update a typed value in its environment.
//!
//! Try it in a folder with CSV files, the first line of which names the columns:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example data_analysis -- anthropic/claude-sonnet-4-5 "Analyse sales.csv"`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use crow::{
    core::tool::{Access, Effects, PathEffect, Subject},
    prelude::*,
    schemars::{self, JsonSchema},
    serde::{Deserialize, Serialize},
    serde_json::{Value, from_value, json},
    tokio,
};

/// The extension of the environment: what the agent knows of each table, by path.
type Datasets = BTreeMap<String, Dataset>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(crate = "crow::serde")]
struct Dataset {
    rows: usize,
    columns: Vec<String>,
    /// Results of analyses by column.
    #[serde(default)]
    summary_stats: BTreeMap<String, Value>,
}

/// A table: the names of its columns and its rows.
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a file whose rows are lines.
    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let mut lines = text.lines().filter(|line| !line.is_empty()).map(csv_fields);
        let columns = lines.next().ok_or("the file is empty")?;
        let rows: Vec<_> = lines.collect();
        match rows.iter().position(|row| row.len() != columns.len()) {
            Some(index) => Err(format!("row {} has another number of fields", index + 1)),
            None => Ok(Self { columns, rows }),
        }
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let index = self.columns.iter().position(|column| column == name);
        index.ok_or_else(|| format!("no column is named {name}: {}", self.columns.join(", ")))
    }
}

/// Splits a line of CSV. A field in quotes may contain commas, and two quotes in it stand for one.
fn csv_fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// Plans to read a file. Without a question, an agent may read what is in its folder.
fn plan_read(path: &str, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
    let resolved = fs::canonicalize(ctx.workspace.resolve(path));
    let resolved = resolved.map_err(|error| ToolError::Model(format!("{path}: {error}")))?;
    Ok(CallPlan {
        title: format!("read {path}"),
        effects: Effects::Paths(vec![PathEffect::new(&resolved, Access::Read)]),
        subject: Subject::Path(resolved),
    })
}

/// Reads the file that a call was planned for.
fn planned_table(plan: &CallPlan) -> Result<Table, String> {
    let Subject::Path(path) = &plan.subject else { unreachable!("`plan_read` names a path") };
    Table::read(path)
}

struct ReadCsv;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "crow::serde")]
struct ReadCsvInput {
    /// The file, relative to the working directory.
    path: String,
}

#[async_trait]
impl TypedTool for ReadCsv {
    type Input = ReadCsvInput;
    const NAME: &'static str = "read_csv";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Returns the columns of a CSV file, its number of rows and the first of them."
    }

    async fn plan(&self, input: &ReadCsvInput, ctx: &ToolContext) -> Result<CallPlan, ToolError> {
        plan_read(&input.path, ctx)
    }

    async fn execute(&self, input: ReadCsvInput, plan: &CallPlan, _: &ToolContext) -> ToolResult {
        match planned_table(plan) {
            Ok(Table { columns, rows }) => {
                let sample = &rows[..rows.len().min(3)];
                let result = json!({
                    "path": input.path, "rows": rows.len(), "columns": columns, "sample": sample
                });
                ToolResult::success(result.to_string())
            }
            Err(reason) => ToolResult::failure(reason),
        }
    }
}

struct AnalyzeData;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "crow::serde")]
struct AnalyzeDataInput {
    /// The CSV file, relative to the working directory.
    path: String,
    /// The column whose numbers are added up.
    column: String,
    /// The column by which they are grouped.
    group_by: String,
}

#[async_trait]
impl TypedTool for AnalyzeData {
    type Input = AnalyzeDataInput;
    const NAME: &'static str = "analyze_data";
    const CATEGORY: ToolCategory = ToolCategory::Read;

    fn description(&self) -> &'static str {
        "Adds up a column of a CSV file, in total and by the values of another column."
    }

    async fn plan(
        &self,
        input: &AnalyzeDataInput,
        ctx: &ToolContext,
    ) -> Result<CallPlan, ToolError> {
        plan_read(&input.path, ctx)
    }

    async fn execute(
        &self,
        input: AnalyzeDataInput,
        plan: &CallPlan,
        _: &ToolContext,
    ) -> ToolResult {
        match planned_table(plan).and_then(|table| analyze(&table, &input)) {
            Ok(result) => ToolResult::success(result.to_string()),
            Err(reason) => ToolResult::failure(reason),
        }
    }
}

fn analyze(table: &Table, input: &AnalyzeDataInput) -> Result<Value, String> {
    let (column, group) = (table.column(&input.column)?, table.column(&input.group_by)?);
    let (mut total, mut groups) = (0.0, BTreeMap::<&str, f64>::new());
    for row in &table.rows {
        let number: f64 =
            row[column].parse().map_err(|_| format!("\"{}\" is no number", row[column]))?;
        total += number;
        *groups.entry(&row[group]).or_default() += number;
    }
    Ok(json!({
        "path": input.path, "column": input.column, "total": total, "by_group": groups
    }))
}

/// Makes an environment in which the results of the two tools become [`Datasets`].
fn environment() -> Environment {
    let mut environment = Environment::builder()
        .task(TaskState {
            objective: "Analyse tables and report on them".to_owned(),
            status: TaskStatus::InProgress,
            ..TaskState::default()
        })
        .extension("datasets", json!({}))
        .build();
    // A handler works on a copy of the state: if it fails, nothing changes, and the user is notified.
    environment.register_handler(ReadCsv::NAME, |state, result| {
        let dataset: Dataset = from_value(result.clone()).map_err(|error| error.to_string())?;
        let path = result["path"].as_str().ok_or("no path")?.to_owned();
        let mut datasets: Datasets = state.get_extension("datasets")?;
        datasets.insert(path, dataset);
        Ok(state.set_extension("datasets", datasets)?)
    });
    environment.register_handler(AnalyzeData::NAME, |state, result| {
        let mut datasets: Datasets = state.get_extension("datasets")?;
        let path = result["path"].as_str().ok_or("no path")?;
        let dataset = datasets.get_mut(path).ok_or_else(|| format!("{path} was not read"))?;
        let column = result["column"].as_str().ok_or("no column")?.to_owned();
        let stats = json!({"total": result["total"], "by_group": result["by_group"]});
        dataset.summary_stats.insert(column, stats);
        state.task.steps_completed += 1;
        Ok(state.set_extension("datasets", datasets)?)
    });
    environment
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, task] = &args[..] else { return Err("usage: data_analysis MODEL TASK".into()) };
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;
    let mut tools = ToolRegistry::new();
    tools.register(TypedToolAdapter::new(ReadCsv));
    tools.register(TypedToolAdapter::new(AnalyzeData));

    let context = ContextManager::new(environment(), 8_000, "You analyse data with your tools.");
    let executor = AgentExecutor::new(context, tools, model, AgentConfig::default())
        .in_directory(fs::canonicalize(".")?);
    println!("{}", executor.run(task).await?.into_answer()?);

    let context = executor.context();
    let datasets: Datasets = context.environment().get_extension("datasets")?;
    for (path, Dataset { rows, columns, summary_stats }) in datasets {
        println!("{path}: {rows} rows of {}", columns.join(", "));
        for (column, stats) in summary_stats {
            println!("{path}: {column} {stats}");
        }
    }
    Ok(())
}
