//! Adding the sessions of a program to a plan.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    conversation::ImportedConversation,
    format::{SessionFile, SessionFormat, session_id},
};
use crate::{
    import::{
        plan::{ImportPlan, SessionChoice, SessionImport},
        source::ImportSource,
    },
    trust::project_root,
};

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
    let here = plan.current_dir().map(|cwd| project_root(&cwd));
    let mut elsewhere = 0_usize;
    let files = match format.files() {
        Ok(files) => files,
        Err(why) => return plan.leave_out(format!("sessions of {}", program.title()), why),
    };
    for file in files {
        match format.cwd(&file) {
            Ok(None) => {}
            Ok(Some(cwd)) if plan.sessions == SessionChoice::All || is_in(&cwd, here.as_ref()) => {
                match format.read(&file) {
                    // A session in which nothing was said has nothing to import.
                    Ok(conversation) if conversation.entries.is_empty() => {}
                    Ok(conversation) => {
                        add_session(plan, program, file, &conversation, Arc::clone(&format));
                    }
                    Err(why) => plan.leave_out(describe(&file), why),
                }
            }
            Ok(Some(_)) => elsewhere += 1,
            Err(why) => plan.leave_out(describe(&file), why),
        }
    }
    if elsewhere > 0 {
        let what = format!("sessions of other folders: {elsewhere}");
        plan.leave_out(what, "import in that folder, or with --sessions all");
    }
}

/// Returns true for a directory in the project that the user is in.
fn is_in(cwd: &Path, project: Option<&PathBuf>) -> bool {
    let real = cwd.canonicalize();
    project.is_some_and(|project| real.as_deref().unwrap_or(cwd).starts_with(project))
}

fn add_session(
    plan: &mut ImportPlan,
    program: ImportSource,
    file: SessionFile,
    conversation: &ImportedConversation,
    format: Arc<dyn SessionFormat>,
) {
    let Some(id) = session_id(program.name(), &conversation.id) else {
        return plan
            .leave_out(describe(&file), "its id has characters that an id here must not have");
    };
    let prompts = conversation.prompts();
    let mut notes = vec![format!(
        "{:?}, {prompts} {}, last on {}",
        conversation.title(),
        if prompts == 1 { "prompt" } else { "prompts" },
        conversation.updated().strftime("%Y-%m-%d"),
    )];
    notes.extend(conversation.notes.iter().cloned());
    let session = SessionImport {
        program: program.title(),
        id,
        entries: conversation.entries.len(),
        file,
        format,
    };
    plan.add_session(session, notes);
}

fn describe(file: &SessionFile) -> String {
    match &file.session {
        Some(session) => format!("{session} of {}", file.path.display()),
        None => file.path.display().to_string(),
    }
}
