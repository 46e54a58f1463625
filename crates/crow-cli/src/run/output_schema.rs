//! Answers that must fit a JSON Schema: the instruction for the model, the check, and the request for another answer.

use std::{fs::File, io::Read as _, path::Path};

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
use crow_console::RunReport;
use serde_json::Value;

use crate::error::CliError;

/// Maximum size of a schema, in bytes.
const LARGEST: u64 = 256 * 1024;
/// Maximum number of further answers that the model is asked for.
pub(crate) const MOST_REPAIRS: u32 = 2;
/// Maximum length of what is wrong with an answer, in bytes.
const LONGEST_FAULT: usize = 2_000;
/// Address of the schema while it is compiled.
const ADDRESS: &str = "schema://answer/schema.json";

/// A JSON Schema that the answer of a run must fit.
pub(crate) struct OutputSchema {
    /// The schema, as the model reads it.
    text: String,
    schemas: Schemas,
    index: SchemaIndex,
}

/// Refuses to load other schemas: neither files nor the network are read for one.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is another schema, and only the file itself is read").into())
    }
}

impl OutputSchema {
    /// Reads a schema from a file. Blocks.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let usage = |why: String| CliError::usage(format!("--output-schema: {why}"));
        let shown = path.display();
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
            .map_err(|error| usage(format!("{shown}: {error}")))?;
        if bytes.len() as u64 > LARGEST {
            return Err(usage(format!("{shown} is larger than {} KiB", LARGEST >> 10)));
        }
        let schema: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let (line, column, why) = (error.line(), error.column(), error.to_string());
            let why = why.split(" at line ").next().unwrap_or_default();
            usage(format!("{shown}:{line}:{column}: {why}"))
        })?;
        Self::new(schema).map_err(|why| usage(format!("{shown}: {why}")))
    }

    /// Compiles a schema. The error is a part of a sentence.
    pub(crate) fn new(schema: Value) -> Result<Self, String> {
        let text = schema.to_string();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(NoLoader));
        compiler.enable_format_assertions();
        compiler.add_resource(ADDRESS, schema).map_err(|error| reason(&format!("{error:#}")))?;
        let index = compiler
            .compile(ADDRESS, &mut schemas)
            .map_err(|error| reason(&format!("{error:#}")))?;
        Ok(Self { text, schemas, index })
    }

    /// Returns what is added to the prompt.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "\n\nWhen you are done, end with an answer that is one JSON value and nothing else, without a word or a mark around it. It must fit this JSON Schema:\n{}",
            self.text
        )
    }

    /// Returns the prompt for another answer.
    pub(crate) fn repair_prompt(fault: &str) -> String {
        format!(
            "Your answer does not fit the JSON Schema:\n{fault}\n\nAnswer again, with one JSON value that fits and nothing else. Do no more work for it."
        )
    }

    /// Returns the value of an answer. The error says what is wrong with it.
    pub(crate) fn check(&self, answer: &str) -> Result<Value, String> {
        let value = value_of(answer)?;
        match self.schemas.validate(&value, self.index) {
            Ok(()) => Ok(value),
            Err(error) => Err(crow_text::shorten(&reason(&format!("{error:#}")), LONGEST_FAULT)),
        }
    }
}

/// Removes the address of the schema, which only this program knows, from a message.
fn reason(text: &str) -> String {
    let text = text.replace(&format!("'{ADDRESS}#'"), "the schema").replace(ADDRESS, "");
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the JSON value of an answer: the whole text, a block of code at its end, or what comes after some words. Nothing but
/// the end of a block may follow.
fn value_of(answer: &str) -> Result<Value, String> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err("it is empty".to_owned());
    }
    let error = match serde_json::from_str(answer) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    // The first line of a block names the language.
    let block = answer.split_once("```").and_then(|(_, block)| block.split_once('\n'));
    let object = answer.find(['{', '[']).and_then(|at| answer.get(at..));
    let mut starts = block.map(|(_, text)| text).into_iter().chain(object);
    let value = starts.find_map(|text| {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let rest = text.get(values.byte_offset()..).unwrap_or_default().trim();
        matches!(rest, "" | "```").then_some(value)
    });
    value.ok_or_else(|| format!("it is not JSON: {error}"))
}

/// Adds to the report of the last run what earlier runs of the same task did.
pub(crate) fn add_earlier(last: &mut RunReport, earlier: &RunReport) {
    last.turns += earlier.turns;
    last.steps += earlier.steps;
    last.duration_ms += earlier.duration_ms;
    last.usage.tokens += earlier.usage.tokens;
    last.usage.cost_usd =
        last.usage.cost_usd.zip(earlier.usage.cost_usd).map(|(one, other)| one + other);
    last.verified |= earlier.verified && last.files_changed.is_empty();
    if last.summary.is_none() {
        last.summary.clone_from(&earlier.summary);
    }
    let files: Vec<String> = std::mem::take(&mut last.files_changed);
    last.files_changed.clone_from(&earlier.files_changed);
    for file in files {
        if !last.files_changed.contains(&file) {
            last.files_changed.push(file);
        }
    }
    last.refusals.splice(0..0, earlier.refusals.iter().cloned());
    last.failures.splice(0..0, earlier.failures.iter().cloned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_is_found_as_models_write_it() {
        for answer in [
            "{\"a\": 1}",
            "  {\"a\": 1}\n",
            "Here it is:\n```json\n{\"a\": 1}\n```",
            "```\n{\"a\": 1}\n```\n",
            "The answer is {\"a\": 1}",
        ] {
            assert_eq!(value_of(answer).unwrap(), json!({"a": 1}), "{answer}");
        }
        let with_block = "```json\n{\"a\": \"use ```x``` here\"}\n```";
        assert_eq!(value_of(with_block).unwrap(), json!({"a": "use ```x``` here"}));
        let followed = "I would say\n```json\n{\"a\": 1}\n```\nbut I am not sure.";
        for answer in ["", "no", "{\"a\": 1", "{\"a\": 1} and {\"b\": 2}", followed] {
            assert!(value_of(answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_place() {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
            "required": ["name", "count"],
            "additionalProperties": false,
        });
        let schema = OutputSchema::new(schema).unwrap();
        assert!(schema.check(r#"{"name": "a", "count": 2}"#).is_ok());
        for (answer, expected) in [
            (r#"{"name": "a", "count": 0}"#, "/count"),
            (r#"{"name": "a"}"#, "count"),
            (r#"{"name": 1, "count": 2}"#, "/name"),
            (r#"{"name": "a", "count": 2, "more": 1}"#, "more"),
            ("[]", "object"),
            ("none", "it is not JSON"),
        ] {
            let fault = schema.check(answer).unwrap_err();
            assert!(fault.contains(expected) && !fault.contains("schema:"), "{fault}");
        }
    }

    #[test]
    fn a_schema_may_name_itself() {
        let schema = json!({"$id": "person.schema.json", "$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}});
        assert!(OutputSchema::new(schema).unwrap().check("\"a\"").is_ok());
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        for (schema, expected) in [
            (json!({"type": "strin"}), "type"),
            (json!({"$ref": "https://example.com/x.json"}), "another schema"),
            (json!({"$ref": "file:///etc/passwd"}), "another schema"),
            (json!({"pattern": "("}), "pattern"),
        ] {
            let Err(why) = OutputSchema::new(schema.clone()) else { panic!("{schema}") };
            assert!(why.contains(expected), "{why}");
        }
    }
}
