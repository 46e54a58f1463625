//! The JSON Schema of the JSON output.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{
    context::{ContextCompactionLine, ContextLine, ContextRequestLine},
    line::{DeltaLine, EventLine, ResultLine},
    undo::{CallLine, DiffLine, RecordLine, UndoLine},
};

/// Returns the JSON Schema (draft 2020-12) of one line of the JSON output.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let event = generator.subschema_for::<EventLine<'static>>();
    let delta = generator.subschema_for::<DeltaLine<'static>>();
    let result = generator.subschema_for::<ResultLine<'static>>();
    let undo = generator.subschema_for::<UndoLine>();
    let call = generator.subschema_for::<CallLine>();
    let record = generator.subschema_for::<RecordLine>();
    let diff = generator.subschema_for::<DiffLine<'static>>();
    let context = generator.subschema_for::<ContextLine>();
    let request = generator.subschema_for::<ContextRequestLine>();
    let compaction = generator.subschema_for::<ContextCompactionLine>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of `crow-agent … --output json`",
        "description": "`run`: every line is an event, but the last, which is the result; the deltas of a reply after its first name only the reply. `undo`, `redo` and `restore`: one undo_report. `diff`: one diff. `sessions show --changes`: a call_changes or an undo_record each. `sessions show --context`: one context, then a context_request for each model call and a context_compaction for each compaction. Where a command fails, its last line is a result with the error.",
        "oneOf": [event, delta, result, undo, call, record, diff, context, request, compaction],
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_file_in_docs_is_the_schema() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/book/src/json-output.schema.json");
        let fresh = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if fs::read_to_string(&path).is_ok_and(|stored| stored == fresh) {
            return;
        }
        fs::write(&path, fresh).unwrap();
        panic!(
            "docs/book/src/json-output.schema.json was not up to date and is written anew: review it and run the test again"
        );
    }

    #[test]
    fn no_event_has_a_key_of_its_envelope() {
        let schema = schema();
        let line = &schema["$defs"]["EventLine"];
        let envelope = line["properties"].as_object().unwrap();
        for event in line["oneOf"].as_array().unwrap() {
            let keys = event["properties"].as_object().unwrap().keys();
            let shared: Vec<_> = keys.filter(|key| envelope.contains_key(*key)).collect();
            assert!(shared.is_empty(), "{shared:?} in {event}");
        }
    }

    #[test]
    fn a_result_has_all_its_keys() {
        let schema = schema();
        let result = &schema["$defs"]["ResultLine"];
        let required = result["required"].as_array().unwrap();
        let keys = result["properties"].as_object().unwrap().keys();
        assert!(keys.into_iter().all(|key| required.iter().any(|required| required == key)));
    }
}
