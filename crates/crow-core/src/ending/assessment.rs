//! The assessment of a run that ended by itself: whether it is done, answered, or stopped before its work was done.

use super::{
    ClosingKind, ClosingText, Contradiction, WorkRecord,
    closing_text::{
        admits_failure, asks_for_work, says_checked, says_done, says_tested, tells_failure,
    },
};
use crate::{
    control::RunFinish,
    run::{EndAssessment, EndKind},
    todo::TodoItem,
    turn::TurnEnd,
};

/// The facts of a run that its end is assessed by.
#[derive(Debug, Clone, Copy)]
pub struct EndFacts<'a> {
    /// The user's request.
    pub request: &'a str,
    /// The last text.
    pub text: &'a str,
    /// What the calls did.
    pub work: &'a WorkRecord,
    /// The todo list.
    pub todo: &'a [TodoItem],
    /// Files that the request names and that are nowhere, although the run deleted none of them.
    pub missing_files: &'a [String],
}

impl EndFacts<'_> {
    /// Assesses a run. Returns `None` if a limit, a cancel or a failure ended it.
    pub fn assess(&self, finish: &RunFinish) -> Option<EndAssessment> {
        match finish {
            RunFinish::Completed { .. } => {
                let evidence = self.work.evidence();
                let contradiction = self.work.contradiction(evidence);
                let is_idle = self.work.calls() == 0;
                let nothing =
                    (is_idle && asks_for_work(self.request)).then_some(Contradiction::NothingDone);
                Some(match contradiction.or(nothing) {
                    Some(contradiction) => self.stopped(contradiction.to_string()),
                    None if is_idle => answered(),
                    None => self.done(evidence),
                })
            }
            RunFinish::NeedsInput => Some(self.assess_text()),
            RunFinish::Stopped(_) | RunFinish::Cancelled | RunFinish::Failed(_) => None,
        }
    }

    fn assess_text(&self) -> EndAssessment {
        let contradiction = self.contradiction().or_else(|| self.contradicted_report());
        if let Some(contradiction) = contradiction {
            return self.stopped(contradiction.to_string());
        }
        // A text that names the files says something about them.
        let is_silent = self.missing_files.iter().all(|file| !self.text.contains(file.as_str()));
        let is_missing = is_silent && !self.work.has_changed_files();
        if let Some(note) = self.missing_file_note().filter(|_| is_missing) {
            return EndAssessment { notes: self.work.findings(self.todo), ..self.stopped(note) };
        }
        match self.closing_kind() {
            ClosingKind::Answer if self.work.has_changed_files() => self.done(None),
            ClosingKind::Answer => answered(),
            kind => {
                let is_question = kind == ClosingKind::Question;
                EndAssessment { is_question, ..self.stopped(reason(kind).to_owned()) }
            }
        }
    }

    /// Returns what the model is told before an end counts: findings that speak against a claim, and promises that
    /// were not kept. `None` if nothing speaks against the end.
    ///
    /// `has_person` says whether somebody can answer a question.
    pub fn objection(&self, end: &TurnEnd, has_person: bool) -> Option<String> {
        if *end != TurnEnd::Text {
            return None;
        }
        let kind = self.closing_kind();
        match kind {
            ClosingKind::Answer => {}
            ClosingKind::Question | ClosingKind::Plan if has_person => return None,
            // It knows already what it may not do.
            ClosingKind::Plan | ClosingKind::UnfoundedClaim if self.work.was_refused() => {
                return None;
            }
            ClosingKind::Question => {
                return Some("Your last message asks something, but no person is there to answer. Choose what is most likely meant, say what you chose, and do the work.".to_owned());
            }
            ClosingKind::Promise | ClosingKind::Plan => {
                return Some("Your last message announces work instead of doing it, and the run ends with a message without a tool call. Do the work now. If it cannot be done, say why.".to_owned());
            }
            ClosingKind::UnfoundedClaim => {
                return Some("Your last message says that work was done, but no call of this run did it. Do it now with your tools, or say plainly that it is not done.".to_owned());
            }
        }
        if admits_failure(self.text) {
            return None;
        }
        let mut facts = Vec::new();
        if let Some(note) = self.missing_file_note() {
            facts.push(format!("{note}: code that was only run is not saved, write the file"));
        }
        if self.work.has_changed_files() {
            facts.extend(self.contradiction().map(|contradiction| contradiction.to_string()));
            facts.extend(self.work.findings(self.todo));
        }
        (!facts.is_empty()).then(|| objection_to_claim(&facts))
    }

    /// Names the files that the work should have made, as far as the request tells.
    fn missing_file_note(&self) -> Option<String> {
        let [first, rest @ ..] = self.missing_files else { return None };
        let request = self.request.to_lowercase();
        let takes_away = TAKING_AWAY.iter().any(|stem| request.contains(stem));
        if !self.work.has_acted() || takes_away || !asks_for_work(self.request) {
            return None;
        }
        let more = match rest.len() {
            0 => String::new(),
            1 => " and one more".to_owned(),
            number => format!(" and {number} more"),
        };
        Some(format!("the task names {first}{more}, and there is no such file"))
    }

    /// Returns what speaks against the end without contradicting it.
    fn notes(&self) -> Vec<String> {
        self.missing_file_note().into_iter().chain(self.work.findings(self.todo)).collect()
    }

    /// Returns what contradicts the last text if it reports a check or finished work.
    fn contradicted_report(&self) -> Option<Contradiction> {
        let failed = self.work.failed_command().map(str::to_owned);
        let checked = says_checked(self.text);
        let is_honest = tells_failure(self.text);
        if let Some(command) = failed.clone().filter(|_| checked && !is_honest) {
            return Some(Contradiction::CheckFailed { command });
        }
        if let Some(change) = self.work.unchecked_change().filter(|_| says_tested(self.text)) {
            return Some(Contradiction::CheckNeverRan { change: change.to_owned() });
        }
        let is_told = self.work.names_failed_command(self.text);
        let command = failed.filter(|_| says_done(self.text) && !is_told && !is_honest)?;
        Some(Contradiction::CommandFailed { command })
    }

    /// Returns what contradicts the last text. One that admits a failure does not claim that a single write succeeded.
    fn contradiction(&self) -> Option<Contradiction> {
        let contradiction = self.work.contradiction(None)?;
        let is_of_write = matches!(
            contradiction,
            Contradiction::WriteFailed { .. } | Contradiction::WriteRefused { .. }
        );
        let is_admitted = is_of_write && self.work.has_changed_files() && admits_failure(self.text);
        (!is_admitted).then_some(contradiction)
    }

    fn closing_kind(&self) -> ClosingKind {
        let closing = ClosingText {
            request: self.request,
            text: self.text,
            calls: self.work.calls(),
            has_changed_files: self.work.has_changed_files(),
            has_run_commands: self.work.has_run_commands(),
            has_acted: self.work.has_acted(),
            has_only_looked: self.work.has_only_looked(),
        };
        closing.kind()
    }

    fn done(&self, evidence: Option<&str>) -> EndAssessment {
        EndAssessment {
            kind: EndKind::Done,
            is_question: false,
            reason: None,
            evidence: evidence.map(str::to_owned),
            notes: self.notes(),
        }
    }

    fn stopped(&self, reason: String) -> EndAssessment {
        let notes = self.notes();
        EndAssessment {
            kind: EndKind::Stopped,
            is_question: false,
            reason: Some(reason),
            evidence: None,
            notes,
        }
    }
}

fn answered() -> EndAssessment {
    EndAssessment {
        kind: EndKind::Answered,
        is_question: false,
        reason: None,
        evidence: None,
        notes: Vec::new(),
    }
}

/// Beginnings of words that ask to take files away, in lower case: then it is right that they are missing.
const TAKING_AWAY: [&str; 22] = [
    "delete",
    "remov",
    "renam",
    "move ",
    "clean",
    "drop ",
    "lösch",
    "entfern",
    "umbenenn",
    "verschieb",
    "supprim",
    "renomm",
    "efface",
    "elimin",
    "borra",
    "renomb",
    "apag",
    "удал",
    "переимен",
    "删除",
    "重命名",
    "削除",
];

/// Returns the text with which a model is told once what speaks against its claim.
fn objection_to_claim(facts: &[String]) -> String {
    format!(
        "Before this counts as done, the log says:\n- {}\nDo what is missing. If nothing is, say so. End with your whole report: only the last message is shown.",
        facts.join("\n- ")
    )
}

fn reason(kind: ClosingKind) -> &'static str {
    match kind {
        ClosingKind::Answer => "it ended with an answer",
        ClosingKind::Promise => "it ended with an announcement of work that was not done",
        ClosingKind::Plan => "it ended with a plan, and nothing was done",
        ClosingKind::Question => "it ended with a question, and nothing was done",
        ClosingKind::UnfoundedClaim => "it says that work was done which no call of the run did",
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{
        control::CompletionOwner,
        ending::{WorkCall, WorkKind, WorkStatus},
    };

    fn call(title: &str, kind: WorkKind, status: WorkStatus, changed: bool) -> WorkCall {
        WorkCall {
            title: title.to_owned(),
            kind,
            status,
            changed_files: if changed { vec![PathBuf::from("a.rs")] } else { Vec::new() },
            has_changed_files: changed,
        }
    }

    fn record(calls: &[WorkCall]) -> WorkRecord {
        let mut record = WorkRecord::default();
        for call in calls {
            record.on_call(call);
        }
        record
    }

    fn assess(calls: &[WorkCall], request: &str, text: &str, finish: &RunFinish) -> EndAssessment {
        let work = record(calls);
        EndFacts { request, text, work: &work, todo: &[], missing_files: &[] }
            .assess(finish)
            .unwrap()
    }

    fn completed() -> RunFinish {
        RunFinish::Completed { summary: String::new(), by: CompletionOwner::Primary }
    }

    #[test]
    fn the_first_end_that_applies_counts() {
        let edit = || call("edit_file a.rs", WorkKind::Write, WorkStatus::Succeeded, true);
        let test = || call("make test", WorkKind::Command, WorkStatus::Succeeded, false);
        let refused = || call("edit_file a.rs", WorkKind::Write, WorkStatus::Refused, false);
        let by_text = RunFinish::NeedsInput;
        let table = [
            (vec![edit(), test()], "Fixed it.", &by_text, EndKind::Done),
            (vec![edit()], "Fixed it.", &by_text, EndKind::Done),
            (vec![edit(), refused()], "Fixed it.", &by_text, EndKind::Stopped),
            (vec![edit()], "The first is done. Let me fix the second:", &by_text, EndKind::Stopped),
            (vec![refused()], "All done.", &by_text, EndKind::Stopped),
            (vec![refused()], "I may not change a.rs.", &by_text, EndKind::Stopped),
            (vec![edit(), refused()], "I may not change b.rs.", &by_text, EndKind::Done),
            (vec![], "Which file do you mean?", &by_text, EndKind::Stopped),
            (vec![], "I fixed the bug in a.rs.", &by_text, EndKind::Stopped),
            (
                vec![test()],
                "It cannot be fixed here: there is no a.rs.",
                &by_text,
                EndKind::Answered,
            ),
            (vec![edit(), test()], "", &completed(), EndKind::Done),
            (vec![edit(), refused()], "", &completed(), EndKind::Stopped),
            (vec![], "", &completed(), EndKind::Stopped),
        ];
        for (calls, text, finish, expected) in table {
            let assessed = assess(&calls, "Fix the bug in a.rs", text, finish);
            assert_eq!(assessed.kind, expected, "{calls:?} {text} {assessed:?}");
            assert_eq!(assessed.reason.is_some(), expected == EndKind::Stopped);
        }
    }

    #[test]
    fn limits_and_failures_are_not_assessed() {
        let work = WorkRecord::default();
        let facts = EndFacts { request: "", text: "", work: &work, todo: &[], missing_files: &[] };
        assert_eq!(facts.assess(&RunFinish::Cancelled), None);
        assert_eq!(facts.assess(&RunFinish::Stopped(TurnEnd::InvalidCalls)), None);
    }

    #[test]
    fn an_objection_tells_facts_and_leaves_questions_to_a_person() {
        let edit = call("edit_file a.rs", WorkKind::Write, WorkStatus::Succeeded, true);
        let changed = record(&[edit]);
        let empty = WorkRecord::default();
        let objection = |work, text, has_person| {
            let request = "Fix the bug in a.rs";
            let facts = EndFacts { request, text, work, todo: &[], missing_files: &[] };
            facts.objection(&TurnEnd::Text, has_person)
        };
        let never_run = objection(&changed, "Fixed.", true).unwrap();
        assert!(never_run.contains("nothing was run after the last change of a.rs"), "{never_run}");
        assert_eq!(objection(&empty, "Which file do you mean?", true), None);
        let chosen = objection(&empty, "Which file do you mean?", false).unwrap();
        assert!(chosen.contains("Choose"), "{chosen}");
        assert!(objection(&empty, "Let me look at the file.", true).is_some());
        assert_eq!(
            objection(&empty, "There is no bug: the test failed already before.", true),
            None
        );
    }

    #[test]
    fn files_that_the_task_names_and_that_are_missing_are_told_after_work() {
        let ran = call("python gen.py", WorkKind::Command, WorkStatus::Succeeded, false);
        let missing = ["fib.py".to_owned(), "README.md".to_owned()];
        let objection = |request, work: &WorkRecord, text| {
            let facts = EndFacts { request, text, work, todo: &[], missing_files: &missing };
            facts.objection(&TurnEnd::Text, true)
        };
        let (worked, idle) = (record(&[ran]), WorkRecord::default());
        let told = objection("Write fib.py with a README.md", &worked, "Both are there.").unwrap();
        assert!(told.contains("names fib.py and one more, and there is no such file"), "{told}");
        assert_eq!(objection("What is in fib.py?", &worked, "It has a function."), None);
        assert_eq!(objection("Write fib.py", &worked, "I could not write fib.py."), None);
        let facts = EndFacts {
            request: "Write fib.py",
            text: "I'm sorry, but I can't help with that.",
            work: &worked,
            todo: &[],
            missing_files: &missing,
        };
        assert_eq!(facts.assess(&RunFinish::NeedsInput).unwrap().kind, EndKind::Stopped);
        assert_eq!(objection("Delete fib.py", &worked, "It is gone."), None);
        let idle = objection("Write fib.py", &idle, "It is written.").unwrap_or_default();
        assert!(!idle.contains("no such file"), "{idle}");
    }

    const WITH_CALLS: &str = include_str!("../../tests/data/endings_with_calls.jsonl");

    /// The most of these endings that may count as answered or done, although they are not.
    const MOST_MISSED: usize = 15;

    /// An ending with the calls of its run, labelled without sight of the rules.
    #[derive(Debug, serde::Deserialize)]
    struct LabelledEnding {
        id: String,
        prompt: String,
        calls: Vec<LabelledCall>,
        changed: Vec<PathBuf>,
        text: String,
        label: String,
    }

    #[derive(Debug, serde::Deserialize)]
    struct LabelledCall {
        tool: String,
        input: serde_json::Value,
        ok: bool,
    }

    impl LabelledEnding {
        fn record(&self) -> WorkRecord {
            let mut left: Vec<&PathBuf> = self.changed.iter().collect();
            let path_of = |call: &LabelledCall| call.input["path"].as_str().map(PathBuf::from);
            let written = self.calls.iter().filter(|call| call.ok);
            let named: Vec<PathBuf> = written.filter_map(path_of).collect();
            left.retain(|path| !named.contains(path));
            let mut record = WorkRecord::default();
            let last_command = self.calls.iter().rposition(|call| call.tool == "bash");
            for (index, call) in self.calls.iter().enumerate() {
                let kind = match call.tool.as_str() {
                    "bash" => WorkKind::Command,
                    "edit_file" | "write_file" => WorkKind::Write,
                    "read_file" | "grep" | "glob" | "list_directory" => WorkKind::Look,
                    // Calls about the session itself are not recorded.
                    "todo_write" => continue,
                    _ => WorkKind::Other,
                };
                let argument = call.input.as_object().and_then(|input| input.values().next());
                let argument = argument.and_then(|value| value.as_str()).unwrap_or_default();
                let title = match kind {
                    WorkKind::Command => argument.to_owned(),
                    _ => format!("{} {argument}", call.tool),
                };
                let mut changed_files: Vec<PathBuf> = path_of(call)
                    .filter(|_| kind == WorkKind::Write && call.ok)
                    .into_iter()
                    .collect();
                // Files that no write names were changed by a command.
                if Some(index) == last_command {
                    changed_files.extend(left.drain(..).cloned());
                }
                record.on_call(&WorkCall {
                    title,
                    kind,
                    status: if call.ok { WorkStatus::Succeeded } else { WorkStatus::Failed },
                    has_changed_files: !changed_files.is_empty(),
                    changed_files,
                });
            }
            record
        }
    }

    #[test]
    fn of_the_endings_with_calls_no_answer_counts_as_stopped() {
        let (mut alarms, mut missed) = (Vec::new(), Vec::new());
        for line in WITH_CALLS.lines() {
            let ending: LabelledEnding = serde_json::from_str(line).unwrap();
            let work = ending.record();
            let facts = EndFacts {
                request: &ending.prompt,
                text: &ending.text,
                work: &work,
                todo: &[],
                missing_files: &[],
            };
            let assessed = facts.assess(&RunFinish::NeedsInput).unwrap();
            let is_stopped = assessed.kind == EndKind::Stopped;
            match (ending.label == "answered", is_stopped) {
                (true, true) => alarms.push(format!("{} {:?}", ending.id, assessed.reason)),
                (false, false) => missed.push(format!("{} {}", ending.id, ending.label)),
                (true, false) | (false, true) => {}
            }
        }
        assert_eq!(alarms, Vec::<String>::new());
        // Where the signs are weak, a text counts as an answer.
        assert!(missed.len() <= MOST_MISSED, "{missed:#?}");
    }
}
