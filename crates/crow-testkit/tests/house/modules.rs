//! Check of cyclic dependencies between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::{source::Source, tree};

/// For each crate, its top-level modules and the top-level modules of the crate that each uses.
type ModuleGraph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

#[test]
fn the_top_level_modules_of_a_crate_form_no_circle() {
    let mut circles = BTreeSet::new();
    for (name, graph) in module_graph(&tree::shipped_sources()) {
        for circle in strongly_connected(&graph) {
            circles.insert((name.clone(), circle));
        }
    }
    assert_eq!(circles, BTreeSet::new());
}

#[test]
fn a_circle_is_found_through_groups_of_imports() {
    let source =
        |path: &str, text: &str| Source::new(format!("crates/crow-x/src/{path}"), text.to_owned());
    let sources = [
        source("a.rs", "use crate::{b::{C, D}, e};\n"),
        source("b/f.rs", "fn f() { crate::e::g(); }\n"),
        source("e.rs", "use crate::b::C;\n// crate::a\n"),
    ];
    let graph = &module_graph(&sources)["crow-x"];
    assert_eq!(strongly_connected(graph), [["b".to_owned(), "e".to_owned()]]);
}

/// Reads the uses between top-level modules from paths that begin with `crate`.
fn module_graph(sources: &[Source]) -> ModuleGraph {
    let mut graph = ModuleGraph::new();
    for source in sources {
        let mut parts = source.path.split('/').skip(1);
        let (Some(name), Some("src"), Some(module)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let module = module.strip_suffix(".rs").unwrap_or(module);
        if ["lib", "main"].contains(&module) {
            continue;
        }
        graph.entry(name.to_owned()).or_default().entry(module.to_owned()).or_default();
    }
    for source in sources {
        let mut parts = source.path.split('/').skip(1);
        let (Some(name), Some("src"), Some(module)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let module = module.strip_suffix(".rs").unwrap_or(module).to_owned();
        let Some(modules) = graph.get_mut(name) else { continue };
        let known: BTreeSet<String> = modules.keys().cloned().collect();
        let Some(used) = modules.get_mut(&module) else { continue };
        used.extend(
            names_behind_crate(&source.code)
                .into_iter()
                .filter(|used| *used != module && known.contains(used)),
        );
    }
    graph
}

/// Returns the first name after `crate::` of each path, including each path of a group in braces.
fn names_behind_crate(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(leading_name(rest));
            continue;
        };
        // A group: the first name after the brace and after each comma of the outer level.
        let mut depth = 0_u32;
        let mut is_at_name = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_at_name = true,
                _ if depth == 0 && is_at_name && !c.is_whitespace() => {
                    names.insert(leading_name(&group[at..]));
                    is_at_name = false;
                }
                _ => {}
            }
        }
    }
    names
}

fn leading_name(code: &str) -> String {
    code.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns the strongly connected components of more than one module, each sorted. Computed from plain reachability,
/// since a crate has a few dozen modules.
fn strongly_connected(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut pending = vec![from.clone()];
        while let Some(module) = pending.pop() {
            for used in &graph[&module] {
                if seen.insert(used.clone()) {
                    pending.push(used.clone());
                }
            }
        }
        seen
    };
    let reachable: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|module| (module, reach(module))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for module in graph.keys() {
        if circles.iter().flatten().any(|found| found == module) {
            continue;
        }
        let circle: Vec<String> = reachable[module]
            .iter()
            .filter(|other| reachable[other].contains(module))
            .cloned()
            .collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}
