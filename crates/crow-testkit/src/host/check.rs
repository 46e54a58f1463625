//! Conformance checks for implementations of [`AgentHost`].

use std::path::Path;

use crow_core::{event::AgentEvent, ids::SessionId, message::Block, permission::PermissionMode};
use crow_runtime::{
    AgentHandle, AgentHost, CommandOutcome, HostError, ListCursor, NewSession, ProviderAddress,
    ProviderChange, ProviderHeader, ProviderNecessity, ProviderProtocol, ProviderRoute, SecretText,
    SessionError, SessionFilter, SessionMetadata, SessionSetup,
};
use futures_util::StreamExt as _;

/// Takes a session of a host through its whole life cycle. Panics if the host breaks a rule. The host's model must
/// have one plain text reply left.
pub async fn check_host(host: &dyn AgentHost, cwd: &Path) {
    // 1) A new session: one run, title, options, commands
    let handle = create_session(host, cwd).await;
    let id = handle.session_id().clone();
    run(&handle).await;
    check_title(host, cwd, &id).await;
    check_options(host, &id).await;
    check_commands(host, &id).await;
    check_setup_of_open(host, &handle).await;
    let entries = handle.history().unwrap().entries().len();
    let mode = other_than(handle.permissions().policy().mode());
    handle.permissions().set_mode(mode).unwrap();
    assert!(host.usage(&id).await.unwrap().context_tokens > 0, "the model was asked");
    // 2) Closed: it can be renamed and listed, but not used
    let options = values(host, &id).await;
    drop(handle);
    host.close(&id).await.unwrap();
    assert_not_open(host, &id).await;
    host.set_title(&id, "while closed").await.unwrap();
    let titles: Vec<_> =
        list_sessions(host, cwd).await.iter().map(|one| one.crow().title).collect();
    assert_eq!(titles, ["while closed"]);
    // 3) Opened again: history, permissions and options persist; another directory is refused
    let elsewhere = SessionSetup { cwd: Some(cwd.join("elsewhere")), ..SessionSetup::default() };
    let refused = host.open(&id, elsewhere.clone()).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    assert_not_open(host, &id).await;
    let opened = open_concurrently(host, &id).await;
    let refused = host.open(&id, elsewhere.clone()).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    let refused = host.fork(&id, elsewhere).await;
    assert!(matches!(refused, Err(HostError::Refused { .. })), "{refused:?}");
    assert_eq!(opened.history().unwrap().entries().len(), entries, "an opened session goes on");
    assert_eq!(opened.permissions().policy().mode(), mode, "what is permitted is kept");
    assert_eq!(values(host, &id).await, options, "what was set is kept");
    assert!(host.usage(&id).await.unwrap().context_tokens > 0, "what it fills is known again");
    // 4) Forks
    let fork = host.fork(&id, SessionSetup::default()).await.unwrap();
    assert_eq!(fork.permissions().policy().mode(), mode, "a fork is permitted the same");
    assert_eq!(values(host, fork.session_id()).await, options, "a fork has the same options");
    assert_ne!(fork.session_id(), &id);
    assert_eq!(fork.history().unwrap().entries().len(), entries, "a fork has the same history");
    let setup = SessionSetup { permissions: Some(other_than(mode)), ..SessionSetup::default() };
    let other = host.fork(&id, setup).await.unwrap();
    assert_eq!(
        other.permissions().policy().mode(),
        other_than(mode),
        "a fork is what it is asked to be"
    );
    check_pages(host, cwd, 3).await;
    // 5) Deletion
    for id in [&id, fork.session_id(), other.session_id()] {
        host.delete(id).await.unwrap();
        let gone = host.open(id, SessionSetup::default()).await;
        assert!(matches!(gone, Err(HostError::Session(SessionError::Unknown { .. }))), "{gone:?}");
        assert!(host.delete(id).await.is_err(), "what is not there cannot be deleted");
        assert!(host.set_title(id, "x").await.is_err(), "what is not there has no title");
        assert!(host.fork(id, SessionSetup::default()).await.is_err());
    }
    assert!(list_sessions(host, cwd).await.is_empty(), "nothing stays of what was deleted");
    check_providers(host).await;
}

/// Checks that a provider's address is the one set last, and that a refused change has no effect.
async fn check_providers(host: &dyn AgentHost) {
    if !host.routes_providers() {
        let refused = host.providers().await;
        assert!(matches!(refused, Err(HostError::Unsupported { .. })), "{refused:?}");
        return;
    }
    let first = host.providers().await.unwrap();
    let mut ids: Vec<_> = first.iter().map(|route| route.id.clone()).collect();
    ids.dedup();
    assert_eq!(ids.len(), first.len(), "each one is listed once");
    for route in &first {
        let own = route.supported.first().expect("something can be spoken").clone();
        for (id, protocol, base_url) in [
            (route.id.as_str(), &ProviderProtocol::from("_no-such"), "https://ok.test"),
            (route.id.as_str(), &own, "no address"),
            ("no such provider", &own, "https://ok.test"),
        ] {
            let refused = host.set_provider(change(id, protocol, base_url)).await;
            assert!(matches!(refused, Err(HostError::Refused { .. })), "{id} {base_url}");
        }
    }
    host.disable_provider("no such provider").await.unwrap();
    assert_eq!(host.providers().await.unwrap(), first, "what is refused changes nothing");
    for (index, route) in first.iter().enumerate() {
        let disabled = host.disable_provider(&route.id).await;
        if route.necessity == ProviderNecessity::Required {
            assert!(matches!(disabled, Err(HostError::Refused { .. })), "{} is needed", route.id);
        } else {
            disabled.unwrap();
            host.disable_provider(&route.id).await.unwrap();
            let routes = host.providers().await.unwrap();
            assert_eq!(routes.get(index), Some(&ProviderRoute { current: None, ..route.clone() }));
        }
        for protocol in &route.supported {
            host.set_provider(change(&route.id, protocol, "https://ok.test/v1")).await.unwrap();
            let base_url = "https://ok.test/v1".to_owned();
            let current = Some(ProviderAddress { protocol: protocol.clone(), base_url });
            let routes = host.providers().await.unwrap();
            assert_eq!(routes.get(index), Some(&ProviderRoute { current, ..route.clone() }));
        }
    }
}

fn change(id: &str, protocol: &ProviderProtocol, base_url: &str) -> ProviderChange {
    let value = SecretText::new("Bearer check-0123456789");
    ProviderChange {
        id: id.to_owned(),
        protocol: protocol.clone(),
        base_url: SecretText::new(base_url),
        headers: vec![ProviderHeader { name: "authorization".to_owned(), value }],
    }
}

/// Checks that opening an open session applies the setup to its agent.
async fn check_setup_of_open(host: &dyn AgentHost, handle: &AgentHandle) {
    let mode = other_than(handle.permissions().policy().mode());
    let setup = SessionSetup { permissions: Some(mode), ..SessionSetup::default() };
    let same = host.open(handle.session_id(), setup).await.unwrap();
    assert_eq!(
        (same.session_id(), same.permissions().policy().mode()),
        (handle.session_id(), mode)
    );
    assert_eq!(handle.permissions().policy().mode(), mode, "a session has one agent");
}

/// Checks that a list read page by page equals the whole list.
async fn check_pages(host: &dyn AgentHost, cwd: &Path, count: usize) {
    let expected: Vec<_> =
        list_sessions(host, cwd).await.iter().map(ListCursor::of_session).collect();
    assert_eq!(expected.len(), count);
    let mut pages = Vec::new();
    while pages.len() < count {
        let filter = SessionFilter {
            cwd: Some(cwd.to_path_buf()),
            limit: Some(1),
            after: pages.last().cloned(),
            ..SessionFilter::default()
        };
        let page = host.list(filter).await.unwrap();
        assert_eq!(page.len(), 1);
        pages.extend(page.iter().map(ListCursor::of_session));
    }
    assert_eq!(pages, expected);
    let filter = SessionFilter { after: pages.pop(), ..SessionFilter::default() };
    let filter = SessionFilter { cwd: Some(cwd.to_path_buf()), ..filter };
    assert!(host.list(filter).await.unwrap().is_empty(), "nothing is behind the last one");
}

/// Returns the name and value of each option.
async fn values(host: &dyn AgentHost, id: &SessionId) -> Vec<(&'static str, String)> {
    let options = host.options(id).await.unwrap();
    options.into_iter().map(|option| (option.name, option.value)).collect()
}

/// Creates a session and checks that it is stored, unique and open.
async fn create_session(host: &dyn AgentHost, cwd: &Path) -> AgentHandle {
    let new = || NewSession {
        cwd: cwd.to_path_buf(),
        id: Some(SessionId::new("chosen")),
        ..NewSession::default()
    };
    let handle = host.create(new()).await.unwrap();
    assert_eq!(
        list_sessions(host, cwd).await.len(),
        1,
        "a session is stored before it is given out"
    );
    let again = host.create(new()).await;
    assert!(matches!(again, Err(HostError::Session(SessionError::Exists { .. }))), "{again:?}");
    assert_eq!(
        host.open(handle.session_id(), SessionSetup::default()).await.unwrap().session_id(),
        handle.session_id()
    );
    handle
}

async fn run(handle: &AgentHandle) {
    let mut events = handle.stream().unwrap();
    handle.send_input(vec![Block::text("say something")]).unwrap();
    loop {
        let event = events.next().await.expect("the run has an end");
        if matches!(event.event, AgentEvent::RunEnd { .. }) {
            return;
        }
    }
}

/// Opens a session twice concurrently, and checks that both handles belong to the same agent.
async fn open_concurrently(host: &dyn AgentHost, id: &SessionId) -> AgentHandle {
    let (one, other) = tokio::join!(
        host.open(id, SessionSetup::default()),
        host.open(id, SessionSetup::default())
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    one.header().set_title("by one").unwrap();
    assert_eq!(other.metadata().crow().title, "by one", "a session has one agent");
    one
}

fn other_than(mode: PermissionMode) -> PermissionMode {
    if mode == PermissionMode::ReadOnly { PermissionMode::Ask } else { PermissionMode::ReadOnly }
}

async fn check_title(host: &dyn AgentHost, cwd: &Path, id: &SessionId) {
    host.set_title(id, "a better title").await.unwrap();
    let titles: Vec<_> =
        list_sessions(host, cwd).await.iter().map(|session| session.crow().title).collect();
    assert_eq!(titles, ["a better title"]);
}

async fn check_options(host: &dyn AgentHost, id: &SessionId) {
    for option in host.options(id).await.unwrap() {
        let values = option.choices.iter().filter(|choice| choice.value == option.value).count();
        assert_eq!(
            values,
            usize::from(!option.choices.is_empty()),
            "{} has its value",
            option.name
        );
        for choice in &option.choices {
            host.set_option(id, option.name, &choice.value).await.unwrap();
            let options = host.options(id).await.unwrap();
            let set = options.iter().find(|known| known.name == option.name).unwrap();
            assert_eq!(set.value, choice.value, "{} is what it was set to", option.name);
        }
        let refused = host.set_option(id, option.name, "no such value").await;
        assert!(refused.is_err(), "{} takes anything", option.name);
    }
    assert!(host.set_option(id, "no such option", "x").await.is_err());
}

async fn check_commands(host: &dyn AgentHost, id: &SessionId) {
    for command in host.commands(id).await.unwrap() {
        match host.run_command(id, &command.name, "").await.unwrap() {
            CommandOutcome::Shown(_) | CommandOutcome::Started(_) => {}
            CommandOutcome::Prompt(prompt) => {
                assert!(!prompt.content.is_empty(), "{}", command.name);
            }
        }
    }
    assert!(host.run_command(id, "no such command", "").await.is_err());
}

async fn assert_not_open(host: &dyn AgentHost, id: &SessionId) {
    let refused = host.options(id).await;
    assert!(matches!(refused, Err(HostError::NotOpen { .. })), "{refused:?}");
    let refused = host.usage(id).await;
    assert!(matches!(refused, Err(HostError::NotOpen { .. })), "{refused:?}");
    let refused = host.commands(id).await;
    assert!(matches!(refused, Err(HostError::NotOpen { .. })), "{refused:?}");
    let refused = host.close(id).await;
    assert!(matches!(refused, Err(HostError::NotOpen { .. })), "{refused:?}");
}

async fn list_sessions(host: &dyn AgentHost, cwd: &Path) -> Vec<SessionMetadata> {
    host.list(SessionFilter { cwd: Some(cwd.to_path_buf()), ..SessionFilter::default() })
        .await
        .unwrap()
}
