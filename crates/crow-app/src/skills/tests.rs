//! Tests of skills.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path, sync::Arc};

use crow_agent::layers::{ConfigLayer, LayerKind, Layers};
use crow_core::{
    tool::{Tool, ToolStatus, TypedToolAdapter},
    workspace::Workspace,
};
use crow_testkit::tools::{agent_context, call, tool_context};
use serde_json::{Value, json};

use super::{skill_file::SkillFile, *};
use crate::environment::ProcessEnvironment;

const PDF: &str = "---\nname: pdf\ndescription: Fills forms in PDF files.\n---\n\nRun ${CLAUDE_SKILL_DIR}/fill.py on $ARGUMENTS.\n";

fn parse(text: &str) -> Result<SkillFile, String> {
    SkillFile::parse("pdf", text)
}

#[test]
fn front_matter_is_yaml() {
    let text = "---\nname: pdf\ndescription: >\n  Fills forms\n  and \"more\".\nmetadata:\n  description: other\n  tags: [a, b]\nlicense: MIT\n---\nBody\n";
    let file = parse(text).unwrap();
    assert_eq!(file.description, "Fills forms and \"more\".");
    assert_eq!(&text[file.body_at..], "Body\n");
    assert_eq!(file.faults, [""; 0]);
}

#[test]
fn a_description_that_is_no_yaml_is_used_and_reported() {
    let file = parse("---\nname: pdf\ndescription: Use it when: forms\n---\n").unwrap();
    assert_eq!(file.description, "Use it when: forms");
    assert!(file.faults[0].starts_with("the front matter is no YAML"), "{:?}", file.faults);
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let long = format!("---\n{}", "a: b\n".repeat(20_000));
    for (text, why) in [
        ("# Title", "the first line is not `---`, so there is no front matter"),
        ("", "the first line is not `---`, so there is no front matter"),
        ("---\nname: pdf\n", "the front matter has no end: a line with `---`"),
        ("---\nname: pdf\n---\n", "the description is missing, so nobody knows what it is for"),
        ("---\ntext\n---\n", "the description is missing, so nobody knows what it is for"),
        (long.as_str(), "the front matter has more than 65536 bytes"),
    ] {
        assert_eq!(parse(text).unwrap_err(), why, "{:?}", text.get(..20.min(text.len())));
    }
}

#[test]
fn aliases_and_deep_nesting_stay_small() {
    let bomb = format!(
        "name: pdf\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\nd: {}{}\ndescription: d",
        "[".repeat(100),
        "]".repeat(100)
    );
    let file = parse(&format!("---\n{bomb}\n---\n")).unwrap();
    assert_eq!((file.description.as_str(), file.faults), ("d", Vec::new()));
}

#[test]
fn flags_are_read_in_any_case_and_an_unclear_one_closes() {
    let flags = |lines: &str| {
        let file = parse(&format!("---\nname: pdf\ndescription: d\n{lines}\n---\n")).unwrap();
        (file.only_user, file.only_model, file.faults.len())
    };
    assert_eq!(flags("disable-model-invocation: True\nuser-invocable: FALSE"), (true, true, 0));
    assert_eq!(flags("disable-model-invocation: no\nuser-invocable: yes"), (false, false, 0));
    assert_eq!(flags("disable-model-invocation: maybe\nuser-invocable: 1"), (true, true, 2));
}

#[test]
fn violations_of_the_format_are_told() {
    let file = SkillFile::parse("My Skill", "---\nname: other\ndescription: d\n---\n").unwrap();
    assert_eq!(
        file.faults,
        [
            "the name other is not that of the folder, which is used",
            "a name has at most 64 small letters, digits and single hyphens"
        ]
    );
}

/// A home with skills, and a project layer.
struct Fixture {
    home: tempfile::TempDir,
    project: BTreeMap<String, Vec<u8>>,
}

impl Fixture {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), project: BTreeMap::new() }
    }

    fn user(&self, folder: &str, name: &str, description: &str) {
        let folder = self.home.path().join(folder).join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo {name}.\n");
        fs::write(folder.join("SKILL.md"), text).unwrap();
    }

    fn project(&mut self, file: &str, text: &str) {
        self.project.insert(file.to_owned(), text.as_bytes().to_vec());
    }

    fn set(&self, disabled: &[&str]) -> SkillSet {
        let home = self.home.path().to_str().unwrap();
        let environment = ProcessEnvironment::with([("HOME", home)]);
        let layer = ConfigLayer::memory(LayerKind::Project, "/p/.crow-agent", self.project.clone());
        let disabled: Vec<String> = disabled.iter().map(|name| (*name).to_owned()).collect();
        SkillSet::read(&Layers::new(vec![layer]), &environment, &disabled, None)
    }
}

fn names(skills: &[Skill]) -> Vec<&str> {
    skills.iter().map(|skill| skill.name.as_str()).collect()
}

#[test]
fn skills_of_the_project_come_before_those_of_the_user_and_clashes_are_told() {
    let mut fixture = Fixture::new();
    fixture.user(".config/crow-agent/skills", "a", "mine");
    fixture.user(".claude/skills", "b", "from there");
    fixture.user(".claude/skills", "a", "other");
    fixture.user(".agents/skills", "off", "x");
    fixture.project("../.claude/skills/b/SKILL.md", "---\ndescription: theirs\n---\nDo it.\n");
    fixture.project("skills/c/SKILL.md", "---\ndescription: c\n---\n");
    fixture.project("skills/c/deep/SKILL.md", "---\ndescription: no\n---\n");
    let set = fixture.set(&["off"]);
    assert_eq!(names(&set.skills), ["a", "b", "c"]);
    assert_eq!(names(&set.disabled), ["off"]);
    let b = set.find("b").unwrap();
    assert_eq!((b.description.as_str(), b.origin), ("theirs", SkillOrigin::Project));
    assert_eq!(b.folder, Path::new("/p/.claude/skills/b"));
    assert_eq!(set.find("a").unwrap().description, "mine");
    assert_eq!(set.faults.len(), 2, "{:?}", set.faults);
    assert!(set.faults[0].starts_with("there are two skills named"), "{:?}", set.faults);
}

#[test]
fn one_skill_linked_from_two_folders_is_no_clash() {
    let fixture = Fixture::new();
    fixture.user(".agents/skills", "a", "mine");
    fs::create_dir_all(fixture.home.path().join(".claude/skills")).unwrap();
    let link = fixture.home.path().join(".claude/skills/a");
    symlink(fixture.home.path().join(".agents/skills/a"), link).unwrap();
    let set = fixture.set(&[]);
    assert_eq!((names(&set.skills), set.faults.len()), (vec!["a"], 0));
}

#[test]
fn an_unusable_skill_is_named_and_the_others_are_used() {
    let fixture = Fixture::new();
    fixture.user(".agents/skills", "a", "mine");
    let broken = fixture.home.path().join(".agents/skills/broken");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("SKILL.md"), [0xff, 0xfe]).unwrap();
    let set = fixture.set(&[]);
    assert_eq!(names(&set.skills), ["a"]);
    assert!(set.faults[0].contains("broken/SKILL.md: it is not UTF-8"), "{:?}", set.faults);
}

#[test]
fn descriptions_are_cut_evenly_to_two_percent_of_the_window() {
    let fixture = Fixture::new();
    for number in 0..20 {
        fixture.user(".agents/skills", &format!("skill-{number:02}"), &"word ".repeat(60));
    }
    let set = fixture.set(&[]);
    assert_eq!(SkillListing::new(&set, Some(1_000_000)).cut_to, None);
    let small = SkillListing::new(&set, Some(32_000));
    assert!(small.cut_to.is_some_and(|limit| limit < 100), "{small:?}");
    // 2 % of 32,000 tokens, at 3 bytes each.
    assert!(small.text.len() <= 1_920, "{}", small.text.len());
    let lengths: Vec<usize> = small.text.lines().skip(1).map(str::len).collect();
    assert_eq!(lengths.len(), 20);
    assert!(lengths.iter().all(|length| lengths[0].abs_diff(*length) < 8), "{lengths:?}");
}

#[test]
fn two_hundred_skills_are_found_by_a_search_and_take_less_than_two_percent() {
    let fixture = Fixture::new();
    for number in 0..200 {
        fixture.user(".agents/skills", &format!("skill-{number:03}"), "Does a thing.");
    }
    let set = fixture.set(&[]);
    let listing = SkillListing::new(&set, Some(128_000));
    assert!(listing.has_search && listing.unnamed == 0 && listing.text.len() < 7_680);
    let small = SkillListing::new(&set, Some(8_000));
    assert!(small.unnamed > 0 && small.text.ends_with(" more"), "{small:?}");
    let tool = TypedToolAdapter::new(SkillTool::new(Arc::new(set)).unwrap());
    let arguments = |definition: Value| definition["properties"]["query"].is_object();
    assert!(arguments(tool.definition().parameters));
}

async fn load(tool: &dyn Tool, arguments: Value) -> (ToolStatus, String) {
    let ctx = tool_context(agent_context(Workspace::new("/p")));
    let result = call(tool, arguments, &ctx).await;
    (result.status, result.error.unwrap_or(result.output))
}

#[tokio::test]
async fn a_skill_is_loaded_with_its_folder_and_the_names_of_its_files() {
    let fixture = Fixture::new();
    fixture.user(".agents/skills", "pdf", "x");
    let folder = fixture.home.path().canonicalize().unwrap().join(".agents/skills/pdf");
    fs::write(folder.join("SKILL.md"), PDF).unwrap();
    fs::create_dir(folder.join("scripts")).unwrap();
    fs::write(folder.join("scripts/fill.py"), "print(1)\n").unwrap();
    fs::write(folder.join(".hidden"), "x").unwrap();
    let tool = TypedToolAdapter::new(SkillTool::new(Arc::new(fixture.set(&[]))).unwrap());
    assert!(
        tool.description().ends_with("Skills:\n- pdf: Fills forms in PDF files."),
        "{}",
        tool.description()
    );
    let (status, text) = load(&tool, json!({"name": "pdf"})).await;
    assert_eq!(status, ToolStatus::Success);
    let path = folder.display();
    assert!(text.contains(&format!("Run {path}/fill.py on .")), "{text}");
    assert!(text.contains("Files in the folder: scripts/fill.py."), "{text}");
    let ctx = tool_context(agent_context(Workspace::new("/p")));
    let refused = tool.plan(&json!({"name": "pfd"}), &ctx).await.unwrap_err().to_string();
    assert!(refused.contains("did you mean \"pdf\"?"), "{refused}");
}

#[tokio::test]
async fn a_search_finds_the_skills_with_most_of_the_words() {
    let fixture = Fixture::new();
    for number in 0..41 {
        fixture.user(".agents/skills", &format!("s{number}"), "nothing");
    }
    fixture.user(".agents/skills", "forms", "fills PDF files");
    fixture.user(".agents/skills", "merge", "joins PDF files");
    let tool = TypedToolAdapter::new(SkillTool::new(Arc::new(fixture.set(&[]))).unwrap());
    let (_, text) = load(&tool, json!({"query": "PDF forms"})).await;
    assert_eq!(text, "forms: fills PDF files\nmerge: joins PDF files");
    let (_, text) = load(&tool, json!({"query": "xyzzy"})).await;
    assert_eq!(text, "No skill has these words.");
}

#[test]
fn without_skills_for_the_model_there_is_no_tool() {
    let fixture = Fixture::new();
    assert!(SkillTool::new(Arc::new(fixture.set(&[]))).is_none());
    fixture.user(".agents/skills", "a", "x\ndisable-model-invocation: true");
    let set = fixture.set(&[]);
    assert!(!set.skills[0].for_model && set.skills[0].for_user);
    assert!(SkillTool::new(Arc::new(set)).is_none());
}
