//! Tests of reports and JSON lines with sample runs.

use crow_console::{ErrorReport, ExitCode, ReportBuilder, RunReport};
use crow_core::{
    event::{AgentEvent, Envelope},
    ids::CallId,
};
use crow_testkit::sample::{self, Story};
use serde_json::{Value, json};

use super::*;

fn build(story: &Story) -> ReportBuilder {
    let mut builder = ReportBuilder::new().with_hints(crate::terminal::PROGRAM_HINTS);
    story.events.iter().for_each(|envelope| builder.on_event(envelope));
    builder
}

/// Returns a patch with a file of each kind.
pub(crate) fn sample_patch() -> crow_core::tool::Patch {
    sample::patch()
}

fn report(story: &Story) -> RunReport {
    build(story).report()
}

fn lines(events: &[Envelope], report: &RunReport) -> Vec<String> {
    let mut sink = Vec::new();
    let mut writer = JsonWriter::new(&mut sink);
    for envelope in events {
        writer.event(envelope).unwrap();
    }
    writer.result(report).unwrap();
    let text = String::from_utf8(sink).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn parsed(events: &[Envelope], report: &RunReport) -> Vec<Value> {
    lines(events, report).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_event_is_a_line_and_the_last_is_the_one_result() {
    let story = sample::good_run();
    let values = parsed(&story.events, &report(&story));
    assert_eq!(values.len(), story.events.len() + 1);
    assert!(values.iter().all(|line| line["v"] == 1));
    let results = values.iter().filter(|line| line["type"] == "result").count();
    assert_eq!((results, &values.last().unwrap()["type"]), (1, &json!("result")));
}

#[test]
fn a_line_is_the_envelope_and_can_be_read_as_one() {
    for story in [sample::good_run(), sample::bad_run(), sample::reviewed_run()] {
        for (line, envelope) in lines(&story.events, &report(&story)).iter().zip(&story.events) {
            let value: Value = serde_json::from_str(line).unwrap();
            let is_delta = matches!(
                envelope.event,
                AgentEvent::TextDelta { .. } | AgentEvent::ThinkingDelta { .. }
            );
            if is_delta && value.get("session_id").is_none() {
                let full = serde_json::to_value(&envelope.event).unwrap();
                for (key, value) in value.as_object().unwrap() {
                    assert!(key == "v" || full[key] == *value, "{line}");
                }
                continue;
            }
            assert_eq!(&serde_json::from_str::<Envelope>(line).unwrap(), envelope);
        }
    }
}

#[test]
fn only_the_first_delta_of_a_reply_has_its_origin() {
    let mut story = Story::run();
    let before = story.events.len();
    for number in 0..3 {
        story.text_delta(number * 5, "word ");
    }
    let deltas = parsed(&story.events, &report(&Story::run())).split_off(before);
    assert_eq!(deltas[0]["session_id"], sample::ROOT);
    for (number, later) in deltas.iter().enumerate().take(3).skip(1) {
        let reply_id = &deltas[0]["reply_id"];
        let expected = json!({
            "v": 1, "type": "text_delta", "reply_id": reply_id, "offset": number * 5, "delta": "word "
        });
        assert_eq!(*later, expected);
    }
}

#[test]
fn deltas_can_be_left_out_and_the_complete_text_is_written() {
    let story = sample::good_run();
    let mut sink = Vec::new();
    let mut writer = JsonWriter::new(&mut sink).with_deltas(Deltas::LeftOut);
    story.events.iter().for_each(|envelope| writer.event(envelope).unwrap());
    writer.result(&report(&story)).unwrap();
    let text = String::from_utf8(sink).unwrap();
    let types: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone())
        .collect();
    assert!(types.iter().all(|kind| kind != "text_delta" && kind != "thinking_delta"), "{types:?}");
    assert!(types.contains(&json!("reply")), "{types:?}");
}

#[test]
fn a_report_round_trips_through_its_line() {
    let report = report(&sample::bad_run());
    let line = lines(&[], &report).pop().unwrap();
    assert_eq!(serde_json::from_str::<RunReport>(&line).unwrap(), report);
}

#[test]
fn control_characters_are_escaped_without_a_change_for_parsers() {
    let text = "a\u{9b}2J\u{1b}[0m\u{202e}b\u{7f}\u{e0041}é\u{200d}漢\r\n\"";
    let mut story = Story::run();
    story.text_delta(0, text);
    let line = lines(&story.events, &report(&story))[story.events.len() - 1].clone();
    assert!(!line.chars().any(|c| c.is_control() || crow_text::is_unseen(c)), "{line}");
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["delta"], text);
}

#[test]
fn the_output_size_is_linear_in_the_number_of_deltas() {
    let size = |deltas: usize| {
        let mut story = Story::run();
        (0..deltas).for_each(|number| {
            story.text_delta(number * 5, "word ");
        });
        lines(&story.events, &report(&Story::run())).iter().map(String::len).sum::<usize>()
    };
    let (once, twice) = (size(1000), size(2000));
    assert!(twice < once * 21 / 10, "{once} {twice}");
    let per_delta = (twice - once) / 1000;
    assert!(per_delta <= 130, "{per_delta} bytes for a delta of 5");
}

#[cfg(unix)]
#[test]
fn an_event_that_json_cannot_represent_becomes_a_notice() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut story = Story::run();
    let path = std::ffi::OsStr::from_bytes(b"caf\xe9").into();
    story.push(AgentEvent::FilesChanged {
        call_id: CallId::new("c"),
        files: vec![path],
        snapshot: None,
    });
    let report = report(&story);
    assert_eq!(report.files_changed, ["caf\u{fffd}"]);
    let values = parsed(&story.events, &report);
    let notice = &values[story.events.len() - 1];
    assert_eq!((&notice["type"], &notice["level"]), (&json!("notice"), &json!("warning")));
    assert_eq!(notice["session_id"], sample::ROOT);
}

#[test]
fn every_line_conforms_to_the_schema() {
    let schema = schema();
    let mut hostile = sample::reviewed_run();
    hostile.with_child("reviewer", |story| {
        story.push(AgentEvent::SubagentStart {
            parent: "reviewer".into(),
            subagent: "explorer".into(),
            child_id: crow_core::ids::SessionId::new("grandchild"),
            task: "look".into(),
        });
    });
    for story in [sample::good_run(), sample::bad_run(), hostile] {
        for line in parsed(&story.events, &report(&story)) {
            let faults = faults(&schema, &schema, &line);
            assert!(faults.is_empty(), "{faults:#?}\n{line}");
        }
    }
    let error = ErrorReport::new(ExitCode::Usage, "no");
    let line = parsed(&[], &RunReport::not_started(ExitCode::Usage, error)).remove(0);
    assert!(faults(&schema, &schema, &line).is_empty());
}

/// Function that makes a line invalid.
type Break = fn(&mut Value);

#[test]
fn lines_that_break_the_contract_are_not_valid() {
    let schema = schema();
    let story = sample::good_run();
    let values = parsed(&story.events, &report(&story));
    let breaks: [(&str, Break); 5] = [
        ("no version", |line| drop(line.as_object_mut().unwrap().shift_remove("v"))),
        ("another version", |line| line["v"] = json!(2)),
        ("no type", |line| drop(line.as_object_mut().unwrap().shift_remove("type"))),
        ("unknown type", |line| line["type"] = json!("unheard_of")),
        ("session is a number", |line| line["session_id"] = json!(1)),
    ];
    for (name, break_it) in breaks {
        for line in [values.first().unwrap(), values.last().unwrap()] {
            let mut line = line.clone();
            break_it(&mut line);
            assert!(!faults(&schema, &schema, &line).is_empty(), "{name}: {line}");
        }
    }
}

/// Returns the violations of `schema` in `value`. Supports the keywords that our schema uses and panics on others.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let Some(rules) = schema.as_object() else { return Vec::new() };
    let unknown = value.as_object().into_iter().flatten().filter(|(key, _)| {
        schema["additionalProperties"] == false && schema["properties"].get(key).is_none()
    });
    let unknown = unknown.map(|(key, _)| format!("{key} is not known"));
    let faults = rules.iter().flat_map(|(rule, wanted)| rule_faults(root, rule, wanted, value));
    faults.chain(unknown).collect()
}

fn rule_faults(root: &Value, rule: &str, wanted: &Value, value: &Value) -> Vec<String> {
    let fault = |holds: bool| {
        if holds { Vec::new() } else { vec![format!("{rule} {wanted} does not hold for {value}")] }
    };
    let matching = || {
        wanted.as_array().unwrap().iter().filter(|one| faults(root, one, value).is_empty()).count()
    };
    match rule {
        "$ref" => {
            let pointer = wanted.as_str().unwrap().trim_start_matches('#');
            faults(root, root.pointer(pointer).unwrap(), value)
        }
        "oneOf" => fault(matching() == 1),
        "anyOf" => fault(matching() > 0),
        "const" => fault(value == wanted),
        "enum" => fault(wanted.as_array().unwrap().contains(value)),
        "type" => fault(match wanted.as_array() {
            Some(types) => types.iter().any(|one| has_type(value, one)),
            None => has_type(value, wanted),
        }),
        "minimum" => fault(value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap())),
        "maximum" => fault(value.as_f64().is_none_or(|number| number <= wanted.as_f64().unwrap())),
        "required" => {
            let missing = |key: &Value| value.get(key.as_str().unwrap()).is_none();
            fault(!value.is_object() || !wanted.as_array().unwrap().iter().any(missing))
        }
        "properties" => {
            let present = wanted.as_object().unwrap().iter();
            let present = present.filter_map(|(key, rules)| Some((rules, value.get(key)?)));
            present.flat_map(|(rules, value)| faults(root, rules, value)).collect()
        }
        "items" => value
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|item| faults(root, wanted, item))
            .collect(),
        "prefixItems" => {
            let items = value.as_array().into_iter().flatten().zip(wanted.as_array().unwrap());
            items.flat_map(|(item, rules)| faults(root, rules, item)).collect()
        }
        "minItems" | "maxItems" => fault(value.as_array().is_none_or(|items| {
            (items.len() as u64 >= wanted.as_u64().unwrap()) == (rule == "minItems")
                || items.len() as u64 == wanted.as_u64().unwrap()
        })),
        "additionalProperties" if wanted.is_object() => {
            let other = value.as_object().into_iter().flatten();
            other.flat_map(|(_, value)| faults(root, wanted, value)).collect()
        }
        "additionalProperties"
        | "$schema"
        | "$defs"
        | "title"
        | "description"
        | "format"
        | "pattern"
        | "default" => Vec::new(),
        other => panic!("the schema uses {other}, which this test does not know"),
    }
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("unknown type {other}"),
    }
}
