use proptest::prelude::*;

use super::*;
use crate::layers::{SourceFile, parse};

/// Pieces of which files of agents are made, so that random ones come near to real ones.
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

fn said(node: &crate::layers::Node) -> Vec<String> {
    node.leaves().iter().map(|(key, leaf)| format!("{key} = {leaf}")).collect()
}

/// Small files that have keys in common.
fn overlays() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec!["a", "b", "c.a", "c.b", "c.d.a", "e.type", "e.a"]);
    let values = prop::sample::select(vec!["1", "2", "\"x\"", "[1, 2]", "true", "0.5"]);
    prop::collection::btree_map(keys, values, 0..6).prop_map(|said| {
        let lines: Vec<_> =
            said.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        lines.concat()
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in pieces()) {
        for file in ["agents/base/x.toml", "agents/x.md", "agents/acp/x.toml"] {
            let registry = registry(&[(file, &text), ("prompts/system/x.md", &text)]);
            drop(registry.base("x").map_err(|error| error.to_string()));
            drop(registry.composition("x").map_err(|error| error.to_string()));
            drop(registry.prompts().parse_system("{{> x}}").map_err(|error| error.to_string()));
        }
    }

    #[test]
    fn what_a_layer_says_counts_whatever_lies_below(below in overlays(), over in overlays()) {
        let (Some(below), Some(over)) =
            (flat(&below, LayerKind::BuiltIn), flat(&over, LayerKind::User)) else { return Ok(()) };
        let merged = said(&below.clone().under(over.clone()));
        for line in said(&over) {
            prop_assert!(merged.contains(&line), "{line} of {merged:?}");
        }
        prop_assert_eq!(said(&below.clone().under(below.clone())), said(&below));
        // Laying the same over it once more changes nothing.
        let twice = below.under(over.clone()).under(over);
        prop_assert_eq!(said(&twice), merged);
    }
}
