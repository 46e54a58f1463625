//! Tests of the notes, by language.

use std::path::Path;

use proptest::prelude::*;

use super::{SourceLanguage, changed_block::changed_block, syntax_note};

/// A valid file of a language, and an edit that breaks it.
struct LanguageSample {
    path: &'static str,
    valid: &'static str,
    edit: (&'static str, &'static str),
}

impl LanguageSample {
    fn broken(&self) -> String {
        let (part, replacement) = self.edit;
        assert_eq!(self.valid.matches(part).count(), 1, "{}: {part}", self.path);
        self.valid.replace(part, replacement)
    }
}

const SAMPLES: &[LanguageSample] = &[
    LanguageSample {
        path: "a.py",
        valid: r#"import os


@decorated
def f(a: int, *, b="x") -> list[int]:
    match a:
        case 1:
            return [f"{b!r:>{a}}"]
        case _:
            return [x async for x in g() if (y := x)]


class C:
    x: int = 1
"#,
        edit: ("match a:", "match a"),
    },
    LanguageSample {
        path: "a.js",
        valid: r"import a from 'a';

export function f(x) {
  return <b c={x}>{x}</b>;
}

const g = async (...rest) => {
  await f(`${a?.b ?? /[/]/g}`);
};
",
        edit: ("/g}`);", "/g}`;"),
    },
    LanguageSample {
        path: "a.ts",
        valid: r#"interface A<T> {
  b?: T;
}

export const f = (a: A<number>): number => {
  return a.b! satisfies number;
};

enum E { A = "a" }
"#,
        edit: ("satisfies number;", "satisfies;"),
    },
    LanguageSample {
        path: "a.tsx",
        valid: r"type P = { a: string };

export function F({ a }: P) {
  return (
    <>
      <p title={a as string}>text</p>
    </>
  );
}
",
        edit: ("</p>", ""),
    },
    LanguageSample {
        path: "a.go",
        valid: r#"package main

import "fmt"

func f[T any](x T) (int, error) {
	for i := range 3 {
		fmt.Println(i, x)
	}
	return 1, nil
}
"#,
        edit: ("range 3 {", "range 3"),
    },
    LanguageSample {
        path: "a.json",
        valid: "{\n  \"a\": [1, 2],\n  \"ü\": null, \"b\": 1\n}\n",
        edit: ("null, ", "null "),
    },
    LanguageSample {
        path: "a.toml",
        valid: "[a]\nb = \"c\"\n\n[d]\ne = [1, 2]\n",
        edit: ("\"c\"", "\"c"),
    },
    LanguageSample {
        path: "a.sh",
        valid: "if [ -f a ]; then\n  echo \"$(cat a)\"\nfi\n",
        edit: ("fi\n", ""),
    },
];

fn note(path: &str, old: &str, new: &str) -> Option<String> {
    syntax_note(SourceLanguage::of_path(Path::new(path))?, path, old, new)
}

#[test]
fn valid_files_and_edits_have_no_note() {
    for sample in SAMPLES {
        let edited = format!("{}\n\n", sample.valid);
        assert_eq!(note(sample.path, "", sample.valid), None);
        assert_eq!(note(sample.path, sample.valid, &edited), None);
        assert_eq!(note(sample.path, &sample.broken(), sample.valid), None);
        assert_eq!(note(sample.path, sample.valid, ""), None);
    }
}

#[test]
fn a_broken_edit_is_told_with_its_place() {
    let notes =
        SAMPLES.iter().map(|sample| note(sample.path, sample.valid, &sample.broken()).unwrap());
    insta::assert_snapshot!(notes.collect::<Vec<_>>().join("\n"), @r#"
    Note: a.py may not parse: line 6:11 near `a`, line 9:9 near `case _:`, line 13:1 near `class`.
    Note: a.js may not parse: line 8:30 missing `)`.
    Note: a.ts may not parse: line 6:24 missing `type_identifier`.
    Note: a.tsx may not parse: line 4:3 near `return (`.
    Note: a.go may not parse: line 6:17 near `3`.
    Note: a.json may not parse: line 3:13 expected `,` or `}`.
    Note: a.toml may not parse: line 2:7 invalid basic string, expected `"`.
    Note: a.sh may not parse: line 3:1 missing `fi`.
    "#);
}

#[test]
fn a_file_that_was_broken_before_has_no_note() {
    for sample in SAMPLES {
        let broken = sample.broken();
        assert_eq!(note(sample.path, &broken, &format!("{broken}\n)")), None);
    }
}

#[test]
fn a_broken_new_file_is_told_except_for_shell_scripts() {
    for sample in SAMPLES {
        let is_told = note(sample.path, "", &sample.broken()).is_some();
        assert_eq!(is_told, sample.path != "a.sh", "{}", sample.path);
    }
}

#[test]
fn a_note_is_one_line_with_at_most_three_places() {
    let new = "a = (\n\n\nb = 1 2\nc = 'x\u{1b}\nd = 3 )\ne = ]\nf = = 1\ng = 2 )\n";
    let note = note("a.py", "", new).unwrap();
    insta::assert_snapshot!(note, @"Note: a.py may not parse: line 4:1 near `b = 1 2`, line 5:7 near `␛`, line 7:5 near `]` (and 2 more).");
    assert_eq!(note.lines().count(), 1);
}

#[test]
fn columns_count_characters() {
    let told = note("a.json", "", "{\"äöü\": 1 2}").unwrap();
    assert!(told.contains("line 1:11 "), "{told}");
}

#[test]
fn an_unfinished_content_is_told_at_its_end() {
    let told = note("a.json", "[1]", "[1\n").unwrap();
    assert!(told.contains("line 2:1 "), "{told}");
}

#[test]
fn json_with_comments_has_no_note() {
    for text in ["// a\n{}", "{\n  \"a\": 1, // one\n  \"b\": 2,\n}", "{/* a */}"] {
        assert_eq!(note("a.json", "", text), None, "{text}");
    }
}

#[test]
fn toml_that_is_too_deep_for_the_parser_has_no_note() {
    let nested = format!("a = {}{}\n", "[".repeat(200), "]".repeat(200));
    assert_eq!(note("a.toml", "", &nested), None);
    assert_eq!(note("a.toml", "", &format!("{}a = 1\n", "a.".repeat(200))), None);
}

#[test]
fn type_script_that_the_grammar_of_tsx_rejects_has_no_note() {
    for text in ["const f = <T>(x: T): T => x;\n", "let a = <any>b;\n"] {
        assert_eq!(note("a.ts", "", text), None, "{text}");
        assert_eq!(note("a.ts", "let x = 1;\n", text), None, "{text}");
    }
}

#[test]
fn a_character_that_the_grammar_of_bash_cannot_take_is_not_parsed() {
    assert_eq!(note("a.sh", "echo a\n", "echo {✓ $(\n"), None);
}

#[test]
fn an_error_is_told_among_many_items() {
    let items: Vec<String> =
        (0..50).map(|n| format!("function f{n}() {{\n  g();\n}}\n\n")).collect();
    let items = items.concat();
    let told = note("a.js", &items, &items.replacen("f49() {", "f49( {", 1)).unwrap();
    assert!(told.contains("line 197:"), "{told}");
    let told = note("a.js", &items, &items.replacen("f3() {", "f3() {{", 1));
    assert!(told.is_some());
}

#[test]
fn large_files_and_long_parses_are_skipped() {
    let large = format!("{}\n)", "x = 1\n".repeat(100_000));
    assert_eq!(note("a.py", "", &large), None);
    let many_tokens = format!("{}\n)", "a,".repeat(250_000));
    assert_eq!(note("a.py", "", &many_tokens), None);
}

#[test]
fn deeply_nested_content_is_checked_without_recursion() {
    for (path, start, open) in [
        ("a.py", "", "("),
        ("a.js", "", "[{a:"),
        ("a.go", "", "("),
        ("a.json", "", "["),
        ("a.json", "", "{\"a\":"),
        ("a.toml", "a = ", "["),
        ("a.toml", "a = ", "{a="),
        ("a.toml", "", "a."),
        ("a.toml", "[", "a."),
    ] {
        for depth in [2_000, 100_000] {
            for end in ["", "a = 1", "a]"] {
                let told = note(path, "", &format!("{start}{}{end}", open.repeat(depth)));
                assert!(told.is_none_or(|told| told.lines().count() == 1), "{path}");
            }
        }
    }
}

#[test]
fn only_the_items_around_a_change_are_parsed_first() {
    let old = "a\n\nb {\n\n  b\n}\n\nc\nc\n\nd\n\ne\n";
    for (new, block) in [
        (old.replace("c\nc", "c\nx"), "c\nx\n\n"),
        (old.replace("  b\n", "  x\n"), "b {\n\n  x\n}\n\n"),
        (old.replace("d\n\n", ""), "c\nc\n\ne\n"),
        (format!("x{old}"), "xa\n\n"),
        (format!("{old}x"), "e\nx"),
    ] {
        assert_eq!(changed_block(old, &new), block);
    }
}

proptest! {
    #[test]
    fn any_content_is_checked_without_a_panic(
        sample in 0..SAMPLES.len(),
        old in ".{0,60}",
        new in ".{0,200}",
        at in any::<prop::sample::Index>(),
    ) {
        let LanguageSample { path, valid, .. } = &SAMPLES[sample];
        let at = valid.floor_char_boundary(at.index(valid.len()));
        let mixed = format!("{}{new}{}", &valid[..at], &valid[at..]);
        for (old, new) in [("", new.as_str()), (valid, &mixed), (&old, &mixed), (&mixed, valid)] {
            let lines = note(path, old, new).map(|note| note.lines().count());
            prop_assert!(lines.is_none_or(|lines| lines == 1));
        }
    }

    #[test]
    fn a_changed_block_contains_the_change(old in "[a}\n ]{0,30}", new in "[a}\n ü]{0,30}") {
        let block = changed_block(&old, &new);
        let start = block.as_ptr() as usize - new.as_ptr() as usize;
        let (before, after) = (&new[..start], &new[start + block.len()..]);
        prop_assert!(old.starts_with(before) && old.ends_with(after));
        prop_assert!(old.len() >= before.len() + after.len());
    }
}
