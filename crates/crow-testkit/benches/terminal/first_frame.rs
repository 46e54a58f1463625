//! How long it takes from the start of the program to its prompt.

use crow_testkit::{Delivery, Script};

use crate::{
    chat_program::{ChatProgram, start_server},
    figures::{Timings, ms},
    table::TableRow,
};

/// How often the program is started.
const TIMES: usize = 15;

pub(crate) async fn rows(program: &ChatProgram) -> Vec<TableRow> {
    let server = start_server(Script::new(), Delivery::Each).await;
    // The first start fills the home.
    program.open_chat(&server).quit();
    let (mut prompts, mut helps) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let mut chat = program.start_chat(&server);
        prompts.push(chat.wait_for_empty_prompt() - chat.started());
        chat.quit();
        let mut help = program.start_on_terminal(&["--help"], &server);
        helps.push(help.wait_for_end() - help.started());
    }
    let figures = |times: Vec<_>| {
        let times = Timings::new(times);
        format!("{}, {}", ms(times.median()), ms(times.percentile(95)))
    };
    vec![TableRow {
        what: "start of the program to its prompt on the screen, median and 95 % of 15",
        bound: "≤ 50 ms",
        ours: figures(prompts),
        reference: format!("{} (`--help` to its last row)", figures(helps)),
    }]
}
