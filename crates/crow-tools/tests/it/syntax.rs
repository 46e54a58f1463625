//! The syntax check after `edit_file` and `write_file`.

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn an_edit_that_breaks_the_syntax_is_applied_and_told() {
    let bench = Bench::new();
    bench.write("src/a.py", "def f(x):\n    return g(x)\n");
    bench.ok("read_file", json!({"path": "src/a.py"})).await;
    let call = json!({"path": "src/a.py", "old_string": "g(x)", "new_string": "g(x))"});
    let output = bench.ok("edit_file", call).await;
    assert_eq!(
        output,
        "Edited src/a.py: +1 -1 lines, first change in line 2.\nNote: src/a.py may not parse: line 2:5 near `return g(x))`."
    );
    assert_eq!(bench.content("src/a.py"), "def f(x):\n    return g(x))\n");
    // The file is broken already, so the next edit is not blamed for it.
    let call = json!({"path": "src/a.py", "old_string": "def f", "new_string": "def h"});
    let output = bench.ok("edit_file", call).await;
    assert_eq!(output, "Edited src/a.py: +1 -1 lines, first change in line 1.");
}

#[tokio::test]
async fn a_valid_edit_has_no_note() {
    let bench = Bench::new();
    bench.write("a.go", "package a\n\nfunc f() {}\n");
    bench.ok("read_file", json!({"path": "a.go"})).await;
    let call = json!({"path": "a.go", "old_string": "f()", "new_string": "f(x int)"});
    let output = bench.ok("edit_file", call).await;
    assert_eq!(output, "Edited a.go: +1 -1 lines, first change in line 3.");
}

#[tokio::test]
async fn a_new_file_with_an_error_is_written_and_told() {
    let bench = Bench::new();
    let content = "{\n  \"a\": 1,\n}\n";
    let output = bench.ok("write_file", json!({"path": "a.json", "content": content})).await;
    assert_eq!(
        output,
        "Created a.json: 3 lines.\nNote: a.json may not parse: line 3:1 key must be a string."
    );
    assert_eq!(bench.content("a.json"), content);
}

#[tokio::test]
async fn a_replaced_file_is_compared_with_its_former_content() {
    let bench = Bench::new();
    bench.write("a.toml", "a = 1\n");
    bench.write("b.toml", "b = \n");
    for (name, is_told) in [("a.toml", true), ("b.toml", false)] {
        bench.ok("read_file", json!({"path": name})).await;
        let output = bench.ok("write_file", json!({"path": name, "content": "c ="})).await;
        assert_eq!(output.contains("may not parse"), is_told, "{output}");
        assert_eq!(bench.content(name), "c =");
    }
}

#[tokio::test]
async fn other_encodings_are_checked_as_text_and_damaged_ones_not_at_all() {
    let bench = Bench::new();
    bench.write("latin.py", b"x = 'caf\xe9'\n");
    bench.write("damaged.py", b"x = '\xc3\xa9 \xff'\n");
    for (name, is_told) in [("latin.py", true), ("damaged.py", false)] {
        bench.ok("read_file", json!({"path": name})).await;
        let call = json!({"path": name, "old_string": "x = ", "new_string": "x = = "});
        let output = bench.run("edit_file", call).await.output;
        assert_eq!(output.contains("may not parse"), is_told, "{output}");
    }
}

#[tokio::test]
async fn a_template_or_other_file_is_not_checked() {
    let bench = Bench::new();
    for name in ["a.py.j2", "a.txt", "a.rs", "Makefile"] {
        let output = bench.ok("write_file", json!({"path": name, "content": "((("})).await;
        assert_eq!(output, format!("Created {name}: 1 lines."));
    }
}
