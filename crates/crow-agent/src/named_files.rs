//! The beginnings of the files that a message of the user names, for models that would guess what is in them.

use std::{
    fmt::Write as _,
    path::{Component, Path},
    sync::Arc,
};

use crow_core::{
    message::{Block, escape_tags},
    tool::{AgentContext, Tool},
};
use crow_runtime::{AgentError, AgentInternals, readable_unasked};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::file_start::read_start;

/// Maximum number of files that are shown.
const MOST_FILES: usize = 6;
/// Maximum number of words that are looked up.
const MOST_NAMES: usize = 24;
/// Maximum number of bytes that are read of a file, for redaction beyond the part that is shown.
const MOST_READ: u64 = 16 * 1024;
/// Maximum number of lines of a file.
const MOST_LINES: usize = 20;
/// Maximum number of bytes of a file, of those lines.
const MOST_BYTES: usize = 1200;
/// Maximum length of a path in bytes.
const LONGEST_PATH: usize = 200;
/// The tags around a file.
const TAG: &str = "named_file";

/// Reads the files that the text names and that may be read without a question. Returns `None` if there are none. The
/// agent has not read them: it must do so before it changes them with a tool.
pub(crate) async fn describe_named_files(
    agent: &mut AgentInternals,
    reader: &Arc<dyn Tool>,
    content: &[Block],
    cancel: &CancellationToken,
) -> Result<Option<String>, AgentError> {
    let (mut described, mut count) = (String::new(), 0);
    for name in named_paths(&Block::text_of(content)) {
        let input = json!({"path": name});
        let Some(path) = readable_unasked(agent, reader, &input, cancel).await? else { continue };
        let start = tokio::task::spawn_blocking(move || read_start(&path, MOST_READ)).await;
        let Ok(Ok(start)) = start else { continue };
        let Some(mut text) = text_of(start) else { continue };
        // Redacted before it is cut: half a secret is a secret, too.
        agent.config().redactor.redact_string(&mut text);
        let shown = shorten(&text);
        let cut = if shown.len() < text.trim_end().len() { "\n…" } else { "" };
        let shown = escape_tags(shown, &[TAG]);
        // Writing to a string cannot fail.
        let _ = writeln!(described, "<{TAG} path=\"{name}\">\n{shown}{cut}\n</{TAG}>");
        count += 1;
        if count == MOST_FILES {
            break;
        }
    }
    Ok((!described.is_empty()).then_some(described))
}

/// Returns the files that a request names, that are nowhere in the working directory, and that the run neither changed nor
/// deleted. They are those that the work should have made.
pub(crate) async fn missing_files(context: Arc<AgentContext>, request: &str) -> Vec<String> {
    let (request, cwd) = (request.to_owned(), context.workspace.cwd().to_owned());
    let find = move || find_missing_files(&request, &cwd);
    let mut missing = tokio::task::spawn_blocking(find).await.unwrap_or_default();
    let work = context.work.lock();
    missing.retain(|path| {
        Path::new(path).file_name().is_none_or(|name| !work.has_changed_file_named(name))
    });
    missing
}

/// Maximum number of entries of the project that are searched for a file.
const MOST_ENTRIES: usize = 20_000;
/// Folders with files that a task does not mean.
const SKIPPED: [&str; 5] = [".git", "node_modules", "target", ".venv", "__pycache__"];
/// Extensions of files as tasks name them. Others may be parts of names in code: `os.path`, `console.log`, `process.env`.
const EXTENSIONS: [&str; 47] = [
    "bat", "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "dart", "docx", "gif", "go", "gz",
    "h", "hpp", "html", "ini", "ipynb", "java", "jpg", "js", "json", "jsonl", "jsx", "kt", "lua",
    "md", "pdf", "php", "pl", "png", "py", "rb", "rs", "scss", "sh", "svg", "tar", "toml", "ts",
    "tsv", "tsx", "txt", "xlsx", "yaml", "yml",
];

/// Returns true if a word of a request can be the path of a file that it is about.
fn is_meant(name: &str, text: &str) -> bool {
    let path = Path::new(name);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_known = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    // `response.json()` is a call, `Node.js` a product, and `example.org/a.json` an address.
    let is_call = text.contains(&format!("{name}("));
    let is_product = extension == Some("js") && name.starts_with(|c: char| c.is_ascii_uppercase());
    let is_address = name.split_once('/').is_some_and(|(first, _)| first.contains('.'));
    is_known && is_below && !is_call && !is_product && !is_address
}

/// Returns a text without its fenced blocks: code names things that are no files.
fn without_fences(text: &str) -> String {
    let mut is_inside = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        !is_inside && !is_fence
    });
    prose.collect::<Vec<_>>().join("\n")
}

/// Returns the files that a text names by a path in the working directory, and that are nowhere in it. A file in another
/// folder of it counts, since people leave out folders. Empty if the directory is too large to be searched. Blocks.
fn find_missing_files(text: &str, cwd: &Path) -> Vec<String> {
    let text = without_fences(text);
    let mut missing: Vec<String> = named_paths(&text)
        .into_iter()
        .map(|name| name.trim_start_matches("./"))
        .filter(|name| is_meant(name, &text) && cwd.join(name).symlink_metadata().is_err())
        .map(str::to_owned)
        .collect();
    let mut pending = vec![cwd.to_owned()];
    let mut entries = 0;
    while let Some(folder) = pending.pop().filter(|_| !missing.is_empty()) {
        let Ok(list) = std::fs::read_dir(&folder) else { continue };
        for entry in list.flatten() {
            entries += 1;
            if entries > MOST_ENTRIES {
                return Vec::new();
            }
            let name = entry.file_name();
            missing.retain(|path| Path::new(path).file_name() != Some(&name));
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !SKIPPED.iter().any(|skipped| name == *skipped) {
                pending.push(entry.path());
            }
        }
    }
    missing
}

/// Returns the text of the beginning of a file, without an incomplete last character; `None` if it is no text.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let utf8 = error.utf8_error();
            let end = utf8.valid_up_to();
            if utf8.error_len().is_some() {
                return None;
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(end);
            String::from_utf8(bytes).ok()?
        }
    };
    (!text.trim().is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns the first lines, within the bounds.
fn shorten(text: &str) -> &str {
    let lines: usize = text.split_inclusive('\n').take(MOST_LINES).map(str::len).sum();
    text[..text.floor_char_boundary(lines.min(MOST_BYTES))].trim_end()
}

/// Returns the words of a text that look like paths of files, each once, in their order.
fn named_paths(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '@');
    let mut paths: Vec<&str> = Vec::new();
    for word in text.split(|c: char| !is_part(c)) {
        let word = word.trim_end_matches(['.', '/', '-']).trim_start_matches(['-', '+', '@']);
        let name = word.rsplit('/').next().unwrap_or(word);
        // The extension is what tells a file from a word; a version number has none.
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        let is_file = extension.is_some_and(|extension| {
            extension.len() <= 10 && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        });
        if is_file && word.len() <= LONGEST_PATH && !paths.contains(&word) {
            paths.push(word);
        }
        if paths.len() == MOST_NAMES {
            break;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_named_and_nowhere_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        std::fs::write(folder.path().join("src/deep/parse.rs"), "").unwrap();
        std::fs::write(folder.path().join("a.csv"), "").unwrap();
        let text = "Sum a.csv into out/total.txt, fix parse.rs as os.path does, not ../b.txt, and write fib.py.";
        assert_eq!(find_missing_files(text, folder.path()), ["out/total.txt", "fib.py"]);
        for text in [
            "Replace console.log by our logger, and read process.env in Node.js.",
            "Why is response.json() empty? See example.org/a/data.json.",
            "Fix this:\n```python\nimport data.json\nopen('x.csv')\n```",
        ] {
            assert_eq!(find_missing_files(text, folder.path()), Vec::<String>::new(), "{text}");
        }
        assert_eq!(find_missing_files("Write ./b.py", folder.path()), ["b.py"]);
    }

    #[test]
    fn words_with_an_extension_are_paths() {
        for (text, expected) in [
            ("Fix src/main.rs, please.", vec!["src/main.rs"]),
            ("Sum `a.csv` into \"total.txt\".", vec!["a.csv", "total.txt"]),
            ("В файле scores.csv 30 строк (см. scores.csv).", vec!["scores.csv"]),
            ("Use version 1.2.3 and e.g. nothing", vec!["e.g"]),
            ("Look at ../x/y.toml and ./z.sh!", vec!["../x/y.toml", "./z.sh"]),
            ("no files here", vec![]),
        ] {
            assert_eq!(named_paths(text), expected, "{text}");
        }
        let many: Vec<_> = (0..99).map(|number| format!("f{number}.txt")).collect();
        assert_eq!(named_paths(&many.join(" ")).len(), MOST_NAMES);
    }

    #[test]
    fn the_beginning_of_a_text_is_shown_and_of_other_files_nothing() {
        let long = "a line\n".repeat(50);
        assert_eq!(shorten(&long).lines().count(), MOST_LINES);
        assert!(shorten(&"ä".repeat(5000)).len() <= MOST_BYTES);
        assert_eq!(shorten("one\n\n"), "one");
        let cut = "日本".as_bytes()[..4].to_vec();
        assert_eq!(text_of(cut).as_deref(), Some("日"));
        for bytes in [b"\xff\xfe text".to_vec(), b"a\0b".to_vec(), b" \n".to_vec()] {
            assert_eq!(text_of(bytes), None);
        }
    }
}
