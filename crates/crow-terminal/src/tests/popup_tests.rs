use std::num::NonZero;

use crow_console::ConsoleStyle;
use proptest::prelude::*;

use crate::{
    file_index::FileMatch,
    inline_screen::{InlineScreen, InputView},
    input_decoder::InputDecoder,
    keys::{InputEvent, Key, KeyCode},
    line_layout::clipped_line,
    live_region::ResizeBehavior,
    popup::ListedCommand,
    prompt_input::{InputAction, PromptInput},
    screen_size::ScreenSize,
    styled_text::{Emphasis, StyledLine, TextRole},
    theme::Theme,
};

const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const LEFT: &str = "\u{1b}[D";
const TAB: &str = "\t";
const ENTER: &str = "\r";
const CTRL_P: &str = "\u{10}";
const CTRL_N: &str = "\u{e}";
const BACKSPACE: &str = "\u{7f}";
const SCREEN: ScreenSize = ScreenSize { columns: 80, rows: 24 };

fn command(name: &str, argument: &str, description: &str) -> ListedCommand {
    ListedCommand {
        name: name.to_owned(),
        argument: argument.to_owned(),
        description: description.to_owned(),
    }
}

fn prompt() -> PromptInput {
    let commands = vec![
        command("compact", "[WHAT MATTERS]", "replace the conversation by a summary"),
        command("help", "[NAME]", "show this"),
        command("model", "[PROVIDER/MODEL]", "show the model, or switch to another"),
        command("new", "", "start a new session"),
        command("newest", "", "show the newest session"),
        command("quit", "", "leave"),
        command("rename", "NAME", "change the title"),
        command("status", "", "show settings and usage"),
    ];
    PromptInput::new(commands, vec!["/help".to_owned(), "older".to_owned(), "newer".to_owned()])
}

fn press(prompt: &mut PromptInput, keys: &[&str]) -> Vec<InputAction> {
    let events = InputDecoder::default().push(keys.concat().as_bytes());
    events.into_iter().filter_map(|event| prompt.on_event(event)).collect()
}

fn escape(prompt: &mut PromptInput) -> Option<InputAction> {
    prompt.on_event(InputEvent::Key(Key::plain(KeyCode::Escape)))
}

fn paste(prompt: &mut PromptInput, text: &str) {
    assert_eq!(prompt.on_event(InputEvent::Paste(text.to_owned())), None);
}

fn view(prompt: &mut PromptInput, size: ScreenSize) -> InputView {
    let mut view = prompt.view(size, "> ");
    let mut status = StyledLine::default();
    status.push("status", TextRole::Dim);
    view.below.push(clipped_line(&status, size.columns.saturating_sub(1).max(1)));
    view
}

/// Returns the rows of the list.
fn lines(prompt: &mut PromptInput, size: ScreenSize) -> Vec<StyledLine> {
    let mut below = view(prompt, size).below;
    below.pop();
    below
}

fn rows(prompt: &mut PromptInput) -> Vec<String> {
    lines(prompt, SCREEN).iter().map(StyledLine::text).collect()
}

/// Returns the first words of the rows with their marks.
fn heads(prompt: &mut PromptInput) -> Vec<String> {
    let head = |row: String| match row.split_once("  ").filter(|(mark, _)| !mark.is_empty()) {
        Some((head, _)) => head.to_owned(),
        None => row.trim_start().split("  ").next().unwrap_or_default().to_owned(),
    };
    rows(prompt).into_iter().map(head).collect()
}

/// Returns a row with the matched characters in brackets.
fn matched(line: &StyledLine) -> String {
    let mut text = String::new();
    for span in line.spans() {
        if span.look.emphasis.contains(Emphasis::UNDERLINE) {
            text.extend(["[", &span.text, "]"]);
        } else {
            text.push_str(&span.text);
        }
    }
    text
}

fn file(path: &str) -> FileMatch {
    FileMatch { path: path.to_owned(), positions: Vec::new() }
}

fn set_files(prompt: &mut PromptInput, paths: &[&str]) {
    let query = prompt.file_query().unwrap().to_owned();
    prompt.set_file_matches(&query, paths.iter().map(|path| file(path)).collect());
}

/// Asserts the text, and that there is no list.
fn assert_closed(prompt: &mut PromptInput, text: &str) {
    assert_eq!(prompt.text(), text);
    assert_eq!(prompt.file_query(), None, "{text}");
    assert_eq!(rows(prompt), [""; 0], "{text}");
}

fn line(text: &str) -> Vec<InputAction> {
    vec![InputAction::Line(text.to_owned().into())]
}

#[test]
fn a_slash_lists_the_commands_with_arguments_and_descriptions() {
    let mut prompt = prompt();
    press(&mut prompt, &["/"]);
    assert_eq!(
        rows(&mut prompt),
        [
            "  /compact [WHAT MATTERS]  replace the conversation by a summary",
            "  /help [NAME]             show this",
            "  /model [PROVIDER/MODEL]  show the model, or switch to another",
            "  /new                     start a new session",
            "  /newest                  show the newest session",
            "  /quit                    leave",
            "  … 2 more",
        ]
    );
}

#[test]
fn names_are_matched_before_descriptions() {
    let table: [(&str, &[&str]); 6] = [
        ("ne", &["› /[ne]w", "  /[ne]west", "  /re[n]am[e] NAME"]),
        ("mdl", &["› /[m]o[d]e[l] [PROVIDER/MODEL]"]),
        ("HELP", &["› /[help] [NAME]"]),
        ("title", &["  /rename NAME  change the [title]"]),
        ("session", &["  /new     start a new [session]", "  /newest  show the newest [session]"]),
        ("xyz", &[]),
    ];
    for (typed, expected) in table {
        let mut prompt = prompt();
        press(&mut prompt, &["/", typed]);
        let lines = lines(&mut prompt, SCREEN);
        assert_eq!(lines.len(), expected.len(), "{typed}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(matched(line).starts_with(expected), "{typed}: {}", matched(line));
        }
    }
}

#[test]
fn the_selected_row_is_accented_and_others_are_dim() {
    let mut prompt = prompt();
    press(&mut prompt, &["/ne", DOWN]);
    let roles = |line: &StyledLine| -> Vec<TextRole> {
        let mut roles: Vec<_> = line.spans().iter().map(|span| span.look.role).collect();
        roles.dedup();
        roles
    };
    let lines = lines(&mut prompt, SCREEN);
    let expected = [[TextRole::Dim], [TextRole::Accent], [TextRole::Dim]];
    assert_eq!(lines.iter().map(roles).collect::<Vec<_>>(), expected);
}

#[test]
fn the_selection_moves_around_the_list_and_rows_follow_it() {
    let table: [(&[&str], &str, &str); 8] = [
        (&["/", DOWN], "› /compact [WHAT MATTERS]", "… 2 more"),
        (&["/", CTRL_N, CTRL_N], "› /help [NAME]", "… 2 more"),
        (&["/", UP], "› /status", "… 2 more"),
        (&["/", CTRL_P, CTRL_P], "› /rename NAME", "… 2 more"),
        (&["/", UP, DOWN], "› /compact [WHAT MATTERS]", "… 2 more"),
        (&["/", UP, UP, UP, UP], "› /newest", "… 2 more"),
        (&["/ne", DOWN], "› /newest", "/rename NAME"),
        (&["/ne", UP, UP], "› /newest", "/rename NAME"),
    ];
    for (keys, selected, last) in table {
        let mut prompt = prompt();
        // The rows are drawn after every key.
        for key in keys {
            assert_eq!(press(&mut prompt, &[key]), []);
            rows(&mut prompt);
        }
        let heads = heads(&mut prompt);
        let marked: Vec<&String> = heads.iter().filter(|head| head.starts_with('›')).collect();
        assert_eq!(marked, [selected], "{keys:?}");
        assert_eq!(heads.last().unwrap(), last, "{keys:?}");
    }
}

#[test]
fn tab_completes_a_command() {
    let table: [(&[&str], &str); 8] = [
        (&["/mo", TAB], "/model "),
        (&["/", TAB], "/compact "),
        (&["/ne", TAB], "/new "),
        (&["/ne", DOWN, TAB], "/newest "),
        (&["/new", TAB], "/new "),
        (&["/title", TAB], "/rename "),
        (&["/xyz", TAB], "/xyz"),
        (&["/mo x", LEFT, LEFT, TAB], "/model x"),
    ];
    for (keys, expected) in table {
        let mut prompt = prompt();
        assert_eq!(press(&mut prompt, keys), [], "{keys:?}");
        assert_eq!(prompt.text(), expected, "{keys:?}");
        assert_eq!(rows(&mut prompt), [""; 0], "{keys:?}");
    }
}

#[test]
fn enter_runs_the_marked_command() {
    let table: [(&[&str], &str); 9] = [
        (&["/mo", ENTER], "/model"),
        (&["/st", ENTER], "/status"),
        (&["/ne", DOWN, ENTER], "/newest"),
        (&["/", DOWN, DOWN, ENTER], "/help"),
        // What names a command is entered as it is.
        (&["/new", ENTER], "/new"),
        (&["/New", ENTER], "/New"),
        (&["/rename", ENTER], "/rename"),
        // Nothing is marked.
        (&["/", ENTER], "/"),
        (&["/title", ENTER], "/title"),
    ];
    for (keys, expected) in table {
        let mut prompt = prompt();
        assert_eq!(press(&mut prompt, keys), line(expected), "{keys:?}");
        assert!(prompt.is_empty());
        assert_eq!(rows(&mut prompt), [""; 0], "{keys:?}");
    }
}

#[test]
fn enter_completes_a_command_that_needs_an_argument() {
    let mut prompt = prompt();
    assert_eq!(press(&mut prompt, &["/rena", ENTER]), []);
    assert_eq!(prompt.text(), "/rename ");
    assert_eq!(press(&mut prompt, &["it", ENTER]), line("/rename it"));
}

#[test]
fn enter_leaves_a_command_alone_that_has_text_behind_it() {
    let mut prompt = prompt();
    press(&mut prompt, &["/mo x", LEFT, LEFT, BACKSPACE, "o"]);
    assert_eq!(heads(&mut prompt), ["› /model [PROVIDER/MODEL]"]);
    assert_eq!(press(&mut prompt, &[ENTER]), line("/mo x"));
    press(&mut prompt, &["/mo x", LEFT, LEFT, BACKSPACE, "o", DOWN]);
    assert_eq!(press(&mut prompt, &[ENTER]), []);
    assert_eq!(prompt.text(), "/model x");
}

#[test]
fn escape_closes_the_list_and_only_the_next_one_is_reported() {
    let mut prompt = prompt();
    press(&mut prompt, &["/ne"]);
    assert_eq!(escape(&mut prompt), None);
    assert_closed(&mut prompt, "/ne");
    // It stays closed for this word.
    press(&mut prompt, &["w"]);
    assert_eq!(rows(&mut prompt), [""; 0]);
    assert_eq!(escape(&mut prompt), Some(InputAction::Escape));
    // Tab opens it again.
    press(&mut prompt, &[TAB]);
    assert_eq!(heads(&mut prompt), ["› /new", "/newest"]);
    assert_eq!(prompt.text(), "/new");
    // Another word has a list of its own.
    escape(&mut prompt);
    press(&mut prompt, &[" @a"]);
    assert_eq!(rows(&mut prompt), ["  searching files…"]);
}

#[test]
fn earlier_prompts_open_no_list() {
    let mut prompt = prompt();
    for expected in ["newer", "older", "/help", "/help"] {
        press(&mut prompt, &[UP]);
        assert_closed(&mut prompt, expected);
    }
    press(&mut prompt, &[DOWN]);
    assert_eq!(prompt.text(), "older");
    // An earlier prompt that takes the place of a word without matches.
    prompt.replace("");
    press(&mut prompt, &["/xyz", UP, UP, UP]);
    assert_closed(&mut prompt, "/help");
    assert_eq!(press(&mut prompt, &[ENTER]), line("/help"));
    // Found by a search.
    press(&mut prompt, &["\u{12}", "hel", "\u{5}"]);
    assert_eq!(prompt.text(), "/help");
}

#[test]
fn a_text_that_is_set_opens_no_list() {
    let mut prompt = prompt();
    press(&mut prompt, &["/ne"]);
    prompt.replace("/he");
    assert_eq!(rows(&mut prompt), [""; 0]);
    prompt.append("l");
    assert_eq!(rows(&mut prompt), [""; 0]);
    press(&mut prompt, &["p"]);
    assert_eq!(heads(&mut prompt), ["› /help [NAME]"]);
    prompt.put_before("x", &[]);
    assert_eq!(rows(&mut prompt), [""; 0]);
}

#[test]
fn a_paste_opens_no_list_but_continues_the_word_of_an_open_one() {
    let mut prompt = prompt();
    paste(&mut prompt, "/ne");
    assert_eq!(rows(&mut prompt), [""; 0]);
    assert_eq!(press(&mut prompt, &[ENTER]), line("/ne"));
    press(&mut prompt, &["see @"]);
    set_files(&mut prompt, &["src/", "a.rs"]);
    paste(&mut prompt, "src/ma");
    assert_eq!(prompt.file_query(), Some("src/ma"));
    set_files(&mut prompt, &["src/main.rs"]);
    assert_eq!(rows(&mut prompt), ["› src/main.rs"]);
    paste(&mut prompt, " and more\nlines");
    assert_closed(&mut prompt, "see @src/ma and more\nlines");
}

#[test]
fn files_are_sought_while_they_are_typed() {
    let mut prompt = prompt();
    assert_eq!(prompt.file_query(), None);
    press(&mut prompt, &["look at @"]);
    assert_eq!(prompt.file_query(), Some(""));
    assert_eq!(rows(&mut prompt), ["  searching files…"]);
    set_files(&mut prompt, &["src/", "README.md"]);
    assert_eq!(rows(&mut prompt), ["› src/", "  README.md"]);
    press(&mut prompt, &["ma"]);
    assert_eq!(prompt.file_query(), Some("ma"));
    prompt.set_file_matches("m", vec![file("stale")]);
    assert_eq!(rows(&mut prompt), ["  searching files…"]);
    set_files(&mut prompt, &["src/main.rs", "Makefile"]);
    assert_eq!(rows(&mut prompt), ["› src/main.rs", "  Makefile"]);
    press(&mut prompt, &[" "]);
    assert_eq!(prompt.file_query(), None);
    prompt.set_file_matches("ma", vec![file("late")]);
    assert_eq!(rows(&mut prompt), [""; 0]);
}

#[test]
fn files_of_an_earlier_query_are_narrowed_until_the_results_arrive() {
    let mut prompt = prompt();
    press(&mut prompt, &["@"]);
    set_files(&mut prompt, &["src/", "src/main.rs", "lib.rs"]);
    press(&mut prompt, &["ma"]);
    let lines = lines(&mut prompt, SCREEN);
    assert_eq!(lines.iter().map(matched).collect::<Vec<_>>(), ["› src/[ma]in.rs"]);
    press(&mut prompt, &[TAB]);
    assert_eq!(prompt.text(), "@src/main.rs ");
}

#[test]
fn tab_and_enter_insert_a_file() {
    let table: [(&[&str], &str, &[&str], &str); 9] = [
        (&["see @m"], "src/main.rs", &[TAB], "see @src/main.rs "),
        (&["see @m"], "src/main.rs", &[ENTER], "see @src/main.rs "),
        (&["@m"], "my file.rs", &[ENTER], "@\"my file.rs\" "),
        (&["@\"my f"], "my file.rs", &[TAB], "@\"my file.rs\" "),
        (&["@m x", LEFT, LEFT, BACKSPACE, "m"], "main.rs", &[TAB], "@main.rs x"),
        (&["@\"m\" x", LEFT, LEFT, LEFT, BACKSPACE, "m"], "m n", &[TAB], "@\"m n\" x"),
        (&["@s"], "src/", &[TAB], "@src/"),
        (&["@m"], "my dir/", &[ENTER], "@\"my dir/\""),
        (&["(@m"], "漢字/main.rs", &[TAB], "(@漢字/main.rs "),
    ];
    for (keys, path, choose, expected) in table {
        let mut prompt = prompt();
        press(&mut prompt, keys);
        set_files(&mut prompt, &[path]);
        assert_eq!(press(&mut prompt, choose), [], "{keys:?}");
        assert_eq!(prompt.text(), expected, "{keys:?}");
        if !path.ends_with('/') {
            assert_closed(&mut prompt, expected);
        }
    }
}

#[test]
fn a_directory_is_completed_further() {
    let mut prompt = prompt();
    press(&mut prompt, &["@m"]);
    set_files(&mut prompt, &["my dir/", "main.rs"]);
    press(&mut prompt, &[TAB]);
    assert_eq!((prompt.text(), prompt.file_query()), ("@\"my dir/\"", Some("my dir/")));
    assert_eq!(rows(&mut prompt), ["  searching files…"]);
    set_files(&mut prompt, &["my dir/a.rs", "my dir/b.rs"]);
    assert_eq!(rows(&mut prompt), ["› my dir/a.rs", "  my dir/b.rs"]);
    press(&mut prompt, &[DOWN, ENTER]);
    assert_eq!(prompt.text(), "@\"my dir/b.rs\" ");
    assert_eq!(press(&mut prompt, &[ENTER]), line("@\"my dir/b.rs\" "));
}

#[test]
fn a_file_that_is_typed_completely_is_entered_as_it_is() {
    let mut prompt = prompt();
    press(&mut prompt, &["see @main.rs"]);
    set_files(&mut prompt, &["main.rs", "src/main.rs"]);
    assert_eq!(press(&mut prompt, &[ENTER]), line("see @main.rs"));
    press(&mut prompt, &["see @main.rs"]);
    set_files(&mut prompt, &["main.rs", "src/main.rs"]);
    press(&mut prompt, &[DOWN, ENTER]);
    assert_eq!(prompt.text(), "see @src/main.rs ");
}

#[test]
fn a_query_without_matches_leaves_the_keys_to_the_editor() {
    let mut prompt = prompt();
    press(&mut prompt, &["@nobody"]);
    set_files(&mut prompt, &[]);
    assert_eq!(rows(&mut prompt), [""; 0]);
    assert_eq!(prompt.file_query(), Some("nobody"));
    assert_eq!(escape(&mut prompt), Some(InputAction::Escape));
    press(&mut prompt, &[TAB]);
    assert_eq!(prompt.text(), "@nobody");
    assert_eq!(press(&mut prompt, &[ENTER]), line("@nobody"));
    press(&mut prompt, &["@nobody"]);
    set_files(&mut prompt, &[]);
    press(&mut prompt, &[UP]);
    assert_eq!(prompt.text(), "newer");
}

#[test]
fn keys_during_a_search_for_files_change_nothing_but_enter_submits() {
    let mut prompt = prompt();
    press(&mut prompt, &["@x", UP, DOWN, TAB]);
    assert_eq!(prompt.text(), "@x");
    assert_eq!(rows(&mut prompt), ["  searching files…"]);
    assert_eq!(escape(&mut prompt), None);
    assert_closed(&mut prompt, "@x");
    assert_eq!(press(&mut prompt, &[ENTER]), line("@x"));
    press(&mut prompt, &["@x"]);
    assert_eq!(press(&mut prompt, &[ENTER]), line("@x"));
}

#[test]
fn the_selection_stays_on_its_entry_when_results_arrive() {
    let mut prompt = prompt();
    press(&mut prompt, &["@m"]);
    set_files(&mut prompt, &["a.m", "b.m", "c.m"]);
    press(&mut prompt, &[DOWN]);
    set_files(&mut prompt, &["b.m", "new.m", "a.m", "c.m"]);
    assert_eq!(rows(&mut prompt), ["› b.m", "  new.m", "  a.m", "  c.m"]);
    set_files(&mut prompt, &["x.m", "a.m", "y.m", "b.m"]);
    assert_eq!(rows(&mut prompt), ["  x.m", "  a.m", "  y.m", "› b.m"]);
    set_files(&mut prompt, &["a.m", "c.m"]);
    assert_eq!(rows(&mut prompt), ["› a.m", "  c.m"]);
}

#[test]
fn a_long_path_keeps_the_name_of_its_file() {
    let path = "crates/crow-terminal/src/editor/prompt_editor.rs";
    let wide = "漢字漢字漢字/漢字.rs";
    let table = [
        (path, 60, "› crates/crow-terminal/src/editor/prompt_editor.rs"),
        (path, 40, "› crates/crow-terminal/…prompt_editor.rs"),
        (path, 20, "› c…prompt_editor.rs"),
        (path, 16, "› prompt_…tor.rs"),
        (path, 6, "› pr…s"),
        (path, 5, "pr…rs"),
        (path, 2, "p…"),
        (path, 1, "…"),
        ("crates/crow-terminal/src/editor/", 20, "› crates/cro…editor/"),
        (wide, 20, "› 漢字漢字漢…漢字.rs"),
        (wide, 19, "› 漢字漢字…漢字.rs"),
        (wide, 12, "› 漢…漢字.rs"),
        (wide, 9, "› 漢….rs"),
        (wide, 4, "漢…s"),
        (wide, 1, "…"),
    ];
    for (path, columns, expected) in table {
        let mut prompt = prompt();
        press(&mut prompt, &["@x"]);
        set_files(&mut prompt, &[path]);
        let lines = lines(&mut prompt, ScreenSize { columns: columns + 1, rows: 24 });
        assert_eq!(lines[0].text(), expected, "{columns}");
    }
}

#[test]
fn a_name_of_a_file_can_do_nothing_to_the_terminal() {
    let mut prompt = prompt();
    press(&mut prompt, &["@x"]);
    set_files(&mut prompt, &["a\u{1b}[2J\u{202e}b\u{200b}\tc/x"]);
    assert_eq!(rows(&mut prompt), ["› a␛[2J<U+202E>b<U+200B>    c/x"]);
}

#[test]
fn a_description_can_do_nothing_to_the_terminal() {
    let commands = vec![command("x", "[\u{1b}c\n]", "one\ntwo\u{202e} \u{1b}[2J")];
    let mut prompt = PromptInput::new(commands, Vec::new());
    press(&mut prompt, &["/"]);
    assert_eq!(rows(&mut prompt), ["  /x [␛c ]  one two\\u{202e} ␛[2J"]);
}

#[test]
fn commands_are_cut_to_narrow_terminals() {
    let table = [
        (40, "› /model [PROVID…  show the model, or s…"),
        (30, "› /model [PR…  show the model…"),
        (20, "› /model [PROVIDER/…"),
        (6, "› /mo…"),
        (5, "/mod…"),
        (1, "…"),
    ];
    for (columns, expected) in table {
        let mut prompt = prompt();
        press(&mut prompt, &["/mod"]);
        let lines = lines(&mut prompt, ScreenSize { columns: columns + 1, rows: 24 });
        assert_eq!(lines[0].text(), expected, "{columns}");
    }
}

#[test]
fn the_list_leaves_room_for_the_prompt_and_the_status_line() {
    let table = [(24, 7), (20, 6), (15, 4), (10, 2), (8, 1), (5, 1), (3, 0), (1, 0)];
    for (rows, expected) in table {
        let mut prompt = prompt();
        press(&mut prompt, &["/", DOWN, DOWN]);
        let size = ScreenSize { columns: 80, rows };
        let lines = lines(&mut prompt, size);
        assert_eq!(lines.len(), expected, "{rows}");
        let is_marked = lines.iter().any(|line| line.text().starts_with("› /help"));
        assert_eq!(is_marked, expected > 0, "{rows}");
    }
}

#[test]
fn the_selected_entry_is_seen_on_a_small_screen() {
    let mut prompt = prompt();
    press(&mut prompt, &["/", DOWN, DOWN, DOWN]);
    let size = ScreenSize { columns: 40, rows: 10 };
    let view = view(&mut prompt, size);
    let mut output = Vec::new();
    let style = ConsoleStyle::plain(size.columns);
    let resize = ResizeBehavior::Wrap;
    let mut screen = InlineScreen::new(&mut output, size, Theme::Dark, resize, style);
    screen.set_input(view, None).unwrap();
    let [rows, columns] = [10, 40].map(|number| NonZero::new(number).unwrap());
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    terminal.process(&output);
    let shown = terminal.screen().contents();
    let expected = ["> /", "› /model [PROVI…  show the model, or s…", "  … 7 more", "status"];
    assert_eq!(shown.lines().map(str::trim_end).collect::<Vec<_>>(), expected);
}

#[test]
fn a_list_without_room_takes_no_keys() {
    let mut prompt = prompt();
    let size = ScreenSize { columns: 80, rows: 3 };
    press(&mut prompt, &["@m"]);
    assert_eq!((lines(&mut prompt, size).len(), prompt.file_query()), (0, None));
    prompt.replace("");
    press(&mut prompt, &["/mo"]);
    assert_eq!(press(&mut prompt, &[ENTER]), line("/mo"));
}

#[derive(Debug, Clone)]
enum Step {
    Bytes(String),
    Pause,
    Files(Vec<String>),
    View(usize, usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let keys = vec![
        UP,
        DOWN,
        LEFT,
        "\u{1b}[C",
        TAB,
        ENTER,
        CTRL_P,
        CTRL_N,
        BACKSPACE,
        "/",
        "@",
        "\"",
        " ",
        "\\",
        "\u{1b}",
        "\u{12}",
        "\u{1f}",
        "\u{17}",
        "\u{15}",
        "\u{1}",
        "\u{1b}[200~",
        "\u{1b}[201~",
    ];
    let path = "([a-c漢é \u{202e}\u{1b}👩\u{200d}\u{fe0f}❤\"]{1,9}/){0,3}[a-c漢👩.]{0,9}";
    prop_oneof![
        6 => prop::sample::select(keys).prop_map(|key| Step::Bytes(key.to_owned())),
        4 => "[a-z漢]".prop_map(Step::Bytes),
        1 => "\\PC{0,6}".prop_map(Step::Bytes),
        2 => Just(Step::Pause),
        4 => prop::collection::vec(path, 0..12).prop_map(Step::Files),
        4 => (0_usize..50, 0_usize..30).prop_map(|(columns, rows)| Step::View(columns, rows)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_keys_are_fine_and_every_row_fits(steps in prop::collection::vec(any_step(), 0..60)) {
        let mut prompt = prompt();
        let mut decoder = InputDecoder::default();
        let mut size = SCREEN;
        for step in steps {
            match step {
                Step::Bytes(bytes) => {
                    for event in decoder.push(bytes.as_bytes()) {
                        prompt.on_event(event);
                    }
                }
                Step::Pause => {
                    for event in decoder.flush() {
                        prompt.on_event(event);
                    }
                }
                Step::Files(paths) => {
                    let query = prompt.file_query().unwrap_or_default().to_owned();
                    let positions = |path: &String| (0..20).step_by(2).take(path.len()).collect();
                    let files = paths.into_iter().map(|path| FileMatch { positions: positions(&path), path });
                    prompt.set_file_matches(&query, files.collect());
                }
                Step::View(columns, rows) => size = ScreenSize { columns, rows },
            }
            let view = view(&mut prompt, size);
            let columns = size.columns.saturating_sub(1).max(1);
            for line in view.rows.iter().chain(&view.below) {
                prop_assert!(line.width() <= columns, "{} in {}: {:?}", line.width(), columns, line);
            }
            prop_assert!(view.below.len() <= 8);
            prop_assert!(view.below.len() <= size.rows.saturating_sub(2).max(1));
        }
    }
}
