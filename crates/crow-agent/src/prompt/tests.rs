use std::collections::BTreeMap;

use super::*;
use crate::{
    definition::PromptContext,
    layers::{ConfigLayer, LayerKind, Layers},
};

fn registry(partials: &[(&str, &str)]) -> PromptRegistry {
    let files = partials
        .iter()
        .map(|(name, text)| (format!("prompts/system/{name}.md"), text.as_bytes().to_vec()));
    let files: BTreeMap<_, _> = files.collect();
    PromptRegistry::new(Layers::new(vec![ConfigLayer::memory(LayerKind::User, "user", files)]))
}

fn context() -> PromptContext {
    PromptContext {
        agent_name: "a<b>".to_owned(),
        role: "primary".to_owned(),
        description: String::new(),
        tools: vec!["bash".to_owned(), "grep".to_owned()],
        can_edit: false,
        end_tool: "task_complete".to_owned(),
        attended: true,
        brief: false,
    }
}

#[test]
fn a_template_is_rendered_without_escapes() {
    for (text, expected) in [
        ("I am {{agent_name}}.", "I am a<b>."),
        ("I am {{{agent_name}}}.", "I am a<b>."),
        ("{{#if can_edit}}yes{{else}}no{{/if}}", "no"),
        ("{{#unless can_edit}}no{{/unless}}", "no"),
        ("{{#each tools}}{{this}} of {{../agent_name}};{{/each}}", "bash of a<b>;grep of a<b>;"),
        ("{{#each tools as |tool|}}{{@index}}{{tool}} {{/each}}", "0bash 1grep"),
        ("{{#if attended}}asks{{else}}chooses{{/if}}", "asks"),
        ("{{#if (eq end_tool \"task_complete\")}}ends{{/if}}", "ends"),
        ("{{#if (and can_edit (not role))}}x{{else}}y{{/if}}", "y"),
        ("{{!-- nothing of it --}}x", "x"),
        ("\\{{agent_name}}", "{{agent_name}}"),
        ("{{> one word=\"w\"}}!", "one w a<b>!"),
    ] {
        let registry = registry(&[("one", "one {{word}} {{> two}}"), ("two", "{{agent_name}}")]);
        assert_eq!(registry.system(text, &context()), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_may_not_stand_in_a_template_is_told_with_its_place() {
    let registry = registry(&[
        ("itself", "{{> itself}}"),
        ("ping", "\n{{> pong}}"),
        ("pong", "{{> ping}}"),
        ("bad", "x\n {{tsk}}"),
        ("open", "{{#if role}}"),
    ]);
    let lines: Vec<_> = [
        "{{name}}",
        "a\n  {{agent_nme}}",
        "{{role.name}}",
        "{{this}}",
        "{{../role}}x",
        "{{@root.role}}",
        "{{#each tools}}{{agent_name}}{{/each}}",
        "{{#with tools}}x{{/with}}",
        "{{#each nothing}}x{{/each}}",
        "{{lookup tools 0}}",
        "{{log \"x\"}}",
        "{{upper role}}",
        "{{#*inline \"x\"}}y{{/inline}}",
        "{{* set x=1}}",
        "{{#> itself}}x{{/itself}}",
        "{{> itself}}",
        "{{> ping}}",
        "{{> absent}}",
        "{{> (lookup tools 0)}}",
        "{{> ../../key}}",
        "{{> bad}}",
        "{{> open}}",
        "{{#if role}}",
        "{{/if}}",
        "{{",
        "{{role",
        "jinja {% if %} {{ user.name }}",
    ]
    .iter()
    .map(|text| match registry.system(text, &context()) {
        Ok(filled) => format!("{text:?}\n    is {filled:?}"),
        Err(error) => format!("{text:?}\n    {error}"),
    })
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_template_that_would_grow_without_limit_is_rejected() {
    let tenfold = |name: &str| format!("{{{{> {name}}}}}").repeat(10);
    let partials: Vec<_> =
        (0..7).map(|n| (format!("p{n}"), tenfold(&format!("p{}", n + 1)))).collect();
    let mut partials: Vec<_> =
        partials.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let large = "x".repeat(200 * 1024);
    partials.extend([("p7", ""), ("large", large.as_str())]);
    let registry = registry(&partials);
    let each =
        "{{#each tools}}".to_owned() + &"{{#each ../tools}}".repeat(29) + &"{{/each}}".repeat(30);
    let deep = "{{#if role}}".repeat(5_000) + &"{{/if}}".repeat(5_000);
    let brackets = format!("{{{{#if {}role{}}}}}{{{{/if}}}}", "(not ".repeat(300), ")".repeat(300));
    let raw = "{{{{".repeat(50_000);
    for (text, reason) in [
        (tenfold("p0"), "repeats and includes more than 20000 parts"),
        (each, "repeats and includes more than 20000 parts"),
        (deep, "more than 200 blocks"),
        (brackets, "a tag of more than 400 bytes"),
        (raw, "more than 200 blocks"),
        (tenfold("large"), "the text grows to more than 512 KiB"),
    ] {
        let started = std::time::Instant::now();
        let error = registry.system(&text, &context()).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert!(started.elapsed().as_secs() < 5, "{reason}: {:?}", started.elapsed());
    }
}
