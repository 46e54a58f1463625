use proptest::prelude::*;

use super::*;
use crate::layers::{SourceFile, parse};

/// Generates texts from pieces of agent files, so that random ones come near to real ones.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("---\n".to_owned()),
        Just("name: x\n".to_owned()),
        Just("tools: Read, Bash(git:*)\n".to_owned()),
        Just("tools:\n  write: false\n".to_owned()),
        Just("description: |\n  a\n".to_owned()),
        Just("[agent]\n".to_owned()),
        Just("[prompt]\nsystem = \"\"\"\n".to_owned()),
        Just("enabled = [\"bash\", ".to_owned()),
        Just("{{#each tools}}".to_owned()),
        Just("{{#if role}}{{else}}".to_owned()),
        Just("{{/each}}{{/if}}".to_owned()),
        Just("{{> trust}}".to_owned()),
        Just("{{".to_owned()),
        "\\PC{0,8}",
        "[\\[\\]{}=\"'\n.#:-]{0,6}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn flat(text: &str, layer: LayerKind) -> Option<crate::layers::Node> {
    parse(SourceFile { layer, path: "a.toml".into(), text: text.to_owned() }).ok()
}

fn leaves(node: &crate::layers::Node) -> Vec<String> {
    node.leaves().iter().map(|(key, leaf)| format!("{key} = {leaf}")).collect()
}

/// Generates small files that have keys in common.
fn overlays() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec!["a", "b", "c.a", "c.b", "c.d.a", "e.type", "e.a"]);
    let values = prop::sample::select(vec!["1", "2", "\"x\"", "[1, 2]", "true", "0.5"]);
    prop::collection::btree_map(keys, values, 0..6).prop_map(|entries| {
        let lines: Vec<_> =
            entries.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        lines.concat()
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_rejected_without_a_panic(text in pieces()) {
        for file in ["agents/base/x.toml", "agents/x.md", "agents/acp/x.toml"] {
            let registry = registry(&[(file, &text), ("prompts/system/x.md", &text)]);
            drop(registry.base("x").map_err(|error| error.to_string()));
            drop(registry.composition("x").map_err(|error| error.to_string()));
            drop(registry.prompts().parse_system("{{> x}}").map_err(|error| error.to_string()));
        }
    }

    #[test]
    fn a_value_overrides_those_of_lower_layers(below in overlays(), over in overlays()) {
        let (Some(below), Some(over)) =
            (flat(&below, LayerKind::BuiltIn), flat(&over, LayerKind::User)) else { return Ok(()) };
        let merged = leaves(&below.clone().overlaid_by(over.clone()));
        for line in leaves(&over) {
            prop_assert!(merged.contains(&line), "{line} of {merged:?}");
        }
        prop_assert_eq!(leaves(&below.clone().overlaid_by(below.clone())), leaves(&below));
        // Merging the same layer once more changes nothing.
        let twice = below.overlaid_by(over.clone()).overlaid_by(over);
        prop_assert_eq!(leaves(&twice), merged);
    }
}
