//! Adding the sessions of a program to a plan.

use std::{
    cmp::Reverse,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    conversation::ImportedConversation,
    format::{SessionFile, SessionFormat, session_id},
};
use crate::{
    import::{
        plan::{ImportPlan, SessionChoice, SessionImport},
        source::ImportSource,
    },
    known_secrets,
    trust::project_root,
};

/// Maximum number of unreadable files that are named one by one.
const MOST_NAMED: usize = 5;

/// Adds the sessions that are chosen. Those of other folders are counted.
pub(in crate::import) fn add_sessions(
    plan: &mut ImportPlan,
    program: ImportSource,
    format: impl SessionFormat + 'static,
) {
    let format: Arc<dyn SessionFormat> = Arc::new(format);
    if plan.sessions == SessionChoice::None {
        return;
    }
    let files = match format.files() {
        Ok(files) => files,
        Err(why) => return plan.leave_out(format!("sessions of {}", program.title()), why),
    };
    let here = plan.current_dir().map(|cwd| project_root(&cwd));
    let (mut elsewhere, mut unreadable, mut found) = (0_usize, Vec::new(), Vec::new());
    for file in files {
        match format.cwd(&file) {
            Ok(None) => {}
            Ok(Some(cwd)) if !cwd.is_absolute() => {
                unreadable.push((file, "its working directory is not absolute".to_owned()));
            }
            Ok(Some(cwd))
                if plan.sessions == SessionChoice::All || is_in_project(&cwd, here.as_ref()) =>
            {
                match format.read(&file) {
                    // A session in which nothing was said has nothing to import.
                    Ok(conversation) if conversation.entries.is_empty() => {}
                    Ok(conversation) => {
                        found.push(FoundSession::new(plan, file, &conversation));
                    }
                    Err(why) => unreadable.push((file, why)),
                }
            }
            Ok(Some(_)) => elsewhere += 1,
            Err(why) => unreadable.push((file, why)),
        }
    }
    // The copy of a session that went on goes before one that did not.
    found.sort_by_key(|session| Reverse(session.updated));
    for session in found {
        add_session(plan, program, session, Arc::clone(&format));
    }
    let more = unreadable.len().saturating_sub(MOST_NAMED);
    for (file, why) in unreadable.into_iter().take(MOST_NAMED) {
        plan.leave_out(describe(&file), why);
    }
    if more > 0 {
        plan.leave_out(format!("more session files: {more}"), "they cannot be read, either");
    }
    if elsewhere > 0 {
        let what = format!("sessions of other folders: {elsewhere}");
        plan.leave_out(what, "import in that folder, or with --sessions all");
    }
}

/// Returns true for a directory in the project that the user is in.
fn is_in_project(cwd: &Path, project: Option<&PathBuf>) -> bool {
    let real = cwd.canonicalize();
    let has_parent_components = cwd.components().any(|part| part == Component::ParentDir);
    project.is_some_and(|project| match &real {
        Ok(real) => real.starts_with(project),
        Err(_) => !has_parent_components && cwd.starts_with(project),
    })
}

/// A session that can be read.
struct FoundSession {
    file: SessionFile,
    /// The id that the other program gave it.
    id: String,
    digest: String,
    updated: Timestamp,
    notes: Vec<String>,
}

impl FoundSession {
    fn new(plan: &ImportPlan, file: SessionFile, conversation: &ImportedConversation) -> Self {
        let prompts = conversation.prompts();
        let title = conversation.title();
        let title = known_secrets::redactor(&plan.environment, None).redact(&title).into_owned();
        let updated = conversation.updated();
        let mut notes = vec![format!(
            "{title:?}, {prompts} {}, last on {}",
            if prompts == 1 { "prompt" } else { "prompts" },
            updated.strftime("%Y-%m-%d"),
        )];
        notes.extend(conversation.notes.iter().cloned());
        if !conversation.cwd.is_dir() {
            let cwd = conversation.cwd.display();
            notes.push(format!("the folder {cwd} is gone: it can be shown, but not continued"));
        }
        let (id, digest) = (conversation.id.clone(), conversation.digest());
        Self { file, id, digest, updated, notes }
    }
}

fn add_session(
    plan: &mut ImportPlan,
    program: ImportSource,
    session: FoundSession,
    format: Arc<dyn SessionFormat>,
) {
    let FoundSession { file, id, digest, notes, .. } = session;
    let Some(id) = session_id(program.name(), &id) else {
        let why = "its id cannot be used: letters, digits, `-` and `_`, at most 100";
        return plan.leave_out(describe(&file), why);
    };
    plan.add_session(SessionImport { program: program.title(), id, digest, file, format }, notes);
}

fn describe(file: &SessionFile) -> String {
    match &file.session {
        Some(session) => format!("{session} of {}", file.path.display()),
        None => file.path.display().to_string(),
    }
}
