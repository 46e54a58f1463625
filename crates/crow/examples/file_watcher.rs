//! Watches a folder: each time files in it change, the agent is told which ones, and reports on them.
//!
//! Ends with ctrl-c. Try it in a folder with notes:
//! `ANTHROPIC_API_KEY=… cargo run -p crow --example file_watcher -- anthropic/claude-sonnet-4-5 notes`
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crow::{
    prelude::*,
    tokio::{self, time},
};

/// Time between two looks at the folder.
const INTERVAL: Duration = Duration::from_millis(200);

/// The files of a folder, each with the time of its last change and its length.
type Listing = BTreeMap<PathBuf, (SystemTime, u64)>;

/// Lists the files of a folder, without those in folders below it.
fn list(folder: &Path) -> io::Result<Listing> {
    let mut files = Listing::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file that is gone meanwhile has no metadata.
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            files.insert(entry.path(), (metadata.modified()?, metadata.len()));
        }
    }
    Ok(files)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, model, folder] = &args[..] else {
        return Err("usage: file_watcher MODEL FOLDER".into());
    };
    let folder = fs::canonicalize(folder)?;
    let models = crow::app::product::models(&ProcessEnvironment::from_process(), &[])?;
    let model = models.resolve(&model.parse()?).await?;

    // The agent may only look at files: one that changed them would start its own next turn.
    let mut tools = ToolRegistry::new();
    register_builtin(&mut tools);
    tools.retain(|tool| tool.category() == ToolCategory::Read);
    let instructions =
        "You are told which files changed. Read them, and sum up each in a sentence.";
    let context = ContextManager::new(Environment::default(), 16_000, instructions);
    let executor =
        AgentExecutor::new(context, tools, model, AgentConfig::default()).in_directory(&folder);

    let mut known = list(&folder)?;
    let mut ticks = time::interval(INTERVAL);
    println!("Watching {} files.", known.len());
    loop {
        ticks.tick().await;
        // What changes during a turn differs from `known` at the next look, so it is not missed.
        let files = list(&folder)?;
        let changed: Vec<_> = files
            .iter()
            .filter(|(path, stamp)| known.get(*path) != Some(*stamp))
            .filter_map(|(path, _)| path.file_name()?.to_str())
            .collect();
        let changed = changed.join(", ");
        known = files;
        if !changed.is_empty() {
            println!("Changed: {changed}");
            let task = format!("These files changed: {changed}");
            println!("{}", executor.run(task).await?.into_answer()?);
        }
    }
}
