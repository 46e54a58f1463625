use std::time::Duration;

use proptest::prelude::*;

use super::{
    StatusFacts, StatusTemplate, StatusTemplateError, field::FIELDS,
    template::DEFAULT_STATUS_TEMPLATE,
};
use crate::styled_text::TextRole;

fn facts() -> StatusFacts {
    StatusFacts {
        agent: Some("coder".into()),
        mode: Some("plan".into()),
        permissions: Some("ask".into()),
        model: Some("claude-opus-4-5".into()),
        thinking: Some("high".into()),
        tokens_in: Some(12_345),
        tokens_out: Some(950),
        cache_percent: Some(91),
        cost_usd: Some(1.25),
        context_percent: Some(34),
        budget_percent: Some(56),
        branch: Some("main".into()),
        cwd: Some("~/src/crow".into()),
        session: Some("fix the parser".into()),
        time: Some(Duration::from_secs(125)),
        jobs: 2,
    }
}

fn render(template: &str, facts: &StatusFacts, columns: usize) -> String {
    StatusTemplate::parse(template).unwrap().render(facts, columns).text()
}

/// All fields, with a blank between them.
fn all_fields() -> String {
    FIELDS.map(|(_, name)| format!("{{{name}}}")).join(" ")
}

#[test]
fn every_field_has_a_text() {
    assert_eq!(
        render(&all_fields(), &facts(), 200),
        "coder plan ask claude-opus-4-5 high 12.3k 950 91 % $1.25 34 % 56 % main ~/src/crow fix the parser 2 min 5 s 2 jobs"
    );
}

#[test]
fn no_field_has_a_text_without_facts() {
    assert_eq!(render(&all_fields(), &StatusFacts::default(), 200), "");
    let zero =
        StatusFacts { cost_usd: Some(0.0), agent: Some(" \n".into()), ..StatusFacts::default() };
    assert_eq!(render("{cost} · {agent} · {jobs}", &zero, 80), "");
}

#[test]
fn an_empty_field_takes_its_segment_and_separator_with_it() {
    let without = |change: fn(&mut StatusFacts)| {
        let mut facts = facts();
        change(&mut facts);
        facts
    };
    let table = [
        ("{agent} · {model} · {cost}", "coder · claude-opus-4-5"),
        ("{cost} · {agent}", "coder"),
        ("{agent} · {cost} | {branch}", "coder | main"),
        ("{agent} · costs {cost} so far · {branch}", "coder · main"),
        ("{agent} ({cost}) · {branch}", "main"),
        ("{tokens_in}/{cost} · {branch}", "main"),
        ("{agent} {cost} {branch}", "coder main"),
        ("{agent} / {cost} / {branch}", "coder / main"),
        ("{agent} - {cost} — {branch}", "coder — main"),
        ("{agent}·{cost}·{branch}", "coder·main"),
        ("crow · {cost}", "crow"),
        ("{cost}", ""),
    ];
    for (template, expected) in table {
        let facts = without(|facts| facts.cost_usd = None);
        assert_eq!(render(template, &facts, 80), expected, "{template}");
    }
}

#[test]
fn text_of_a_template_is_shown_as_it_is() {
    let table = [
        ("", ""),
        ("   ", ""),
        ("  {agent}  ", "coder"),
        ("· {agent} ·", "coder"),
        ("↑ {tokens_in} ↓ {tokens_out}", "↑ 12.3k ↓ 950"),
        ("{tokens_in}/{tokens_out}", "12.3k/950"),
        ("{agent}-{mode}", "coder-plan"),
        ("{{{agent}}}", "{coder}"),
        ("{{}}", "{}"),
        ("{context} of context", "34 % of context"),
        ("{agent}\t{mode}\nx", "coder plan x"),
        ("{agent}  ·  {mode}", "coder  ·  plan"),
        ("{agent} · · {mode}", "coder · · plan"),
        ("-v {agent}", "-v coder"),
    ];
    for (template, expected) in table {
        assert_eq!(render(template, &facts(), 80), expected, "{template:?}");
    }
}

#[test]
fn a_field_has_the_role_of_the_template_unless_it_needs_attention() {
    let role = |template: &str, facts: &StatusFacts| {
        let line = StatusTemplate::parse(template).unwrap().render(facts, 80);
        line.spans()[0].look.role
    };
    let context = |percent| StatusFacts { context_percent: Some(percent), ..facts() };
    let table = [
        ("{model}", facts(), TextRole::Dim),
        ("{model:accent}", facts(), TextRole::Accent),
        ("{model:plain}", facts(), TextRole::Plain),
        ("{context}", context(79), TextRole::Dim),
        ("{context:accent}", context(79), TextRole::Accent),
        ("{context}", context(80), TextRole::Warning),
        ("{context:accent}", context(94), TextRole::Warning),
        ("{context}", context(95), TextRole::Error),
        ("{context:accent}", context(120), TextRole::Error),
    ];
    for (template, facts, expected) in table {
        assert_eq!(role(template, &facts), expected, "{template} {:?}", facts.context_percent);
    }
}

#[test]
fn the_least_important_segments_are_dropped_first() {
    let table = [
        (
            120,
            "coder · plan · ask · claude-opus-4-5 · 34 % of context · 56 % of budget · $1.25 · main · 2 jobs",
        ),
        (
            95,
            "coder · plan · ask · claude-opus-4-5 · 34 % of context · 56 % of budget · $1.25 · main · 2 jobs",
        ),
        (
            90,
            "coder · plan · ask · claude-opus-4-5 · 34 % of context · 56 % of budget · $1.25 · 2 jobs",
        ),
        (80, "coder · plan · ask · claude-opus-4-5 · 34 % of context · 56 % of budget · $1.25"),
        (60, "ask · claude-opus-4-5 · 34 % of context · 56 % of budget"),
        (40, "ask · 34 % of context · 56 % of budget"),
        (20, "ask"),
        (10, "plan · ask"),
        (9, "ask"),
        (3, "ask"),
        (2, ""),
        (0, ""),
    ];
    for (columns, expected) in table {
        assert_eq!(render(DEFAULT_STATUS_TEMPLATE, &facts(), columns), expected, "{columns}");
    }
}

#[test]
fn all_fields_are_dropped_by_their_importance() {
    let table = [
        (
            120,
            "coder plan ask claude-opus-4-5 high 12.3k 950 91 % $1.25 34 % 56 % main ~/src/crow fix the parser 2 min 5 s 2 jobs",
        ),
        (80, "coder plan ask claude-opus-4-5 high $1.25 34 % 56 % main 2 min 5 s 2 jobs"),
        (40, "coder plan ask claude-opus-4-5 34 % 56 %"),
    ];
    for (columns, expected) in table {
        assert_eq!(render(&all_fields(), &facts(), columns), expected, "{columns}");
    }
}

#[test]
fn a_segment_that_can_never_fit_drops_no_other() {
    let facts = StatusFacts { permissions: Some("p".repeat(100)), ..facts() };
    assert_eq!(render("{permissions} · {cwd} · {cache}", &facts, 40), "~/src/crow · 91 %");
}

#[test]
fn a_wrong_template_is_refused_with_the_position() {
    let field = |position, name: &str| StatusTemplateError::UnknownField {
        position,
        name: name.to_owned(),
    };
    let role =
        |position, name: &str| StatusTemplateError::UnknownRole { position, name: name.to_owned() };
    let table = [
        ("{modle}", field(2, "modle")),
        ("ä · {agent} {x:dim}", field(14, "x")),
        ("{}", field(2, "")),
        ("{ model }", field(2, " model ")),
        ("{model:red}", role(8, "red")),
        ("ä{model:}", role(9, "")),
        ("{model:dim:dim}", role(8, "dim:dim")),
        ("ab {model", StatusTemplateError::UnclosedField { position: 4 }),
        ("{", StatusTemplateError::UnclosedField { position: 1 }),
        ("{a{b}", StatusTemplateError::UnclosedField { position: 1 }),
        ("{model}}", StatusTemplateError::UnopenedField { position: 8 }),
        ("}", StatusTemplateError::UnopenedField { position: 1 }),
    ];
    for (template, expected) in table {
        assert_eq!(StatusTemplate::parse(template), Err(expected), "{template}");
    }
}

#[test]
fn the_message_of_an_error_names_the_nearest_and_all_known_names() {
    let message = |template: &str| StatusTemplate::parse(template).unwrap_err().to_string();
    assert_eq!(
        message("{agent} {modle}"),
        "at character 10: unknown field \"modle\", did you mean \"model\"? known are agent, mode, permissions, model, thinking, tokens_in, tokens_out, cache, cost, context, budget, branch, cwd, session, time, jobs"
    );
    assert_eq!(
        message("{model:acent}"),
        "at character 8: unknown role \"acent\", did you mean \"accent\"? known are plain, dim, accent, heading, code, success, warning, error"
    );
    assert_eq!(message("{model"), "at character 1: `{` without `}`; `{{` stands for a brace");
    assert_eq!(message("model}"), "at character 6: `}` without `{`; `}}` stands for a brace");
    let hostile = message("{\u{1b}]0;x\u{7}\u{202e}\n}");
    assert!(
        hostile.starts_with("at character 2: unknown field \"␛]0;x␇\\u{202e}\"; known"),
        "{hostile}"
    );
}

#[test]
fn every_field_has_its_own_rank() {
    let mut ranks: Vec<usize> = FIELDS.iter().map(|(field, _)| field.rank()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (0..FIELDS.len()).collect::<Vec<_>>());
}

#[test]
fn the_default_template_is_correct() {
    assert_eq!(StatusTemplate::default(), DEFAULT_STATUS_TEMPLATE.parse().unwrap());
}

#[test]
fn hostile_texts_are_harmless() {
    let hostile = "a\u{1b}[2J\u{7}\u{9b}\u{9c}b\nc\td\u{202e}\u{0}";
    let facts = StatusFacts {
        branch: Some(hostile.into()),
        cwd: Some(hostile.into()),
        ..StatusFacts::default()
    };
    let harmless = "a␛[2J␇\\u{9b}\\u{9c}b c d\\u{202e}␀";
    assert_eq!(render("{branch} · {cwd}", &facts, 200), format!("{harmless} · {harmless}"));
    let template = "\u{1b}]0;x\u{7}\u{202e} {branch}";
    let facts = StatusFacts { branch: Some("main".into()), ..StatusFacts::default() };
    assert_eq!(render(template, &facts, 200), "␛]0;x␇\\u{202e} main");
    let marks = StatusFacts { branch: Some(format!("a{}", "\u{301}".repeat(9000))), ..facts };
    assert!(render("{branch}", &marks, 80).len() < 100);
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_columns(
        branch in "(\\PC|[\u{0}-\u{a0}]){0,20}",
        model in "[a-z漢👩\u{200d}\u{301}]{0,20}",
        separator in "\\PC{0,4}",
        columns in 0_usize..130,
    ) {
        let template =
            format!("{{branch}} · {{model:accent}}{separator} | {{cost}} {{context}} {{time}}");
        let Ok(template) = StatusTemplate::parse(&template) else { return Ok(()) };
        let facts = StatusFacts { branch: Some(branch), model: Some(model), ..facts() };
        let line = template.render(&facts, columns);
        prop_assert!(line.width() <= columns, "{:?}", line.text());
        prop_assert!(!line.text().contains(char::is_control));
    }

    #[test]
    fn any_text_is_a_template_or_an_error(template in "(\\PC|[{}:· |a-z]){0,40}") {
        if let Ok(template) = StatusTemplate::parse(&template) {
            template.render(&facts(), 80);
        }
    }
}
