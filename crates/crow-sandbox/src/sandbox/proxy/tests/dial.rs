use std::{net::SocketAddr, sync::Arc, time::Duration};

use crow_core::{capability::HostRefusal, network::AllowedHosts};
use futures_util::future;
use proptest::prelude::*;

use super::{
    super::{
        dial::{ADDRESSES, AllowedAddresses, Resolver, connect, decide, public},
        proxy_error::ProxyError,
        request::{ProxyRequest, ProxyTarget},
    },
    request::heads,
};

fn allowed(patterns: &[&str]) -> AllowedHosts {
    AllowedHosts::new(patterns.iter().map(|pattern| pattern.parse().unwrap()))
}

fn target(text: &str) -> ProxyTarget {
    let (host, port) = text.split_once(':').unwrap();
    ProxyTarget { host: host.to_owned(), port: port.parse().unwrap() }
}

#[test]
fn only_targets_that_the_user_allows_have_addresses() {
    let hosts =
        allowed(&["good.example", "*.below.example", "localhost:3000", "10.0.0.1:8080", "*.0.1"]);
    let named = |addresses: &[&str]| {
        Some(AllowedAddresses::Named(
            addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ))
    };
    for (text, place) in [
        ("good.example:443", Some(AllowedAddresses::Public)),
        ("a.below.example:80", Some(AllowedAddresses::Public)),
        ("localhost:3000", named(&["127.0.0.1", "::1"])),
        ("10.0.0.1:8080", named(&["10.0.0.1"])),
        ("good.example:22", None),
        ("below.example:443", None),
        ("evil.example:443", None),
        ("good.example.evil:443", None),
        ("localhost:80", None),
        ("localhost.evil:3000", None),
        ("127.0.0.1:3000", None),
        ("127.0.0.1:443", None),
        ("10.0.0.1:443", None),
        ("127.1:3000", None),
        ("127.0.1:443", None),
        ("2130706433:3000", None),
        ("0x7f000001:3000", None),
        ("0x.0.1:443", None),
        ("0177.0.0.1:443", None),
    ] {
        assert_eq!(decide(&target(text), &hosts).ok(), place, "{text}");
    }
}

#[test]
fn names_with_only_local_addresses_are_refused() {
    let good = target("good.example:443");
    let found = |addresses: &[&str]| {
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|text| text.parse().unwrap()).collect();
        public(&good, &addresses).map_err(|refusal| {
            let ProxyError::Host(host) = refusal else { panic!("{refusal}") };
            host.reason
        })
    };
    for private in
        ["127.0.0.1:443", "169.254.169.254:443", "[::ffff:10.0.0.1]:443", "[fe80::1]:443"]
    {
        assert_eq!(found(&[private]), Err(HostRefusal::NotPublic), "{private}");
        assert_eq!(found(&[private, "1.1.1.1:443"]), Ok(vec!["1.1.1.1:443".parse().unwrap()]));
    }
    assert_eq!(found(&[]), Ok(vec![]));
    assert_eq!(found(&["1.1.1.1:443"; 20]).unwrap().len(), ADDRESSES);
}

#[tokio::test]
async fn a_name_is_resolved_only_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let lookups = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let resolver = Resolver::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(vec!["127.0.0.1:1".parse().unwrap()]) })
    });
    let good = target("good.example:443");
    let result = connect(&good, AllowedAddresses::Public, &resolver, Duration::from_secs(5)).await;
    assert!(matches!(result, Err(ProxyError::Host(host)) if host.reason == HostRefusal::NotPublic));
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_system_resolver_is_used() {
    let local = target("localhost:443");
    let result =
        connect(&local, AllowedAddresses::Public, &Resolver::system(), Duration::from_secs(5))
            .await;
    assert!(matches!(result, Err(ProxyError::Host(host)) if host.reason == HostRefusal::NotPublic));
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_up_times_out() {
    let resolver = Resolver::new(|_| Box::pin(future::pending()));
    let good = target("good.example:443");
    let result = connect(&good, AllowedAddresses::Public, &resolver, Duration::from_secs(10)).await;
    assert!(matches!(result, Err(ProxyError::TimedOut(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_bytes_lead_to_a_host_that_is_not_allowed(bytes in heads()) {
        let hosts = allowed(&["good.example"]);
        if let Ok(ProxyRequest { target, .. }) = ProxyRequest::parse(&bytes)
            && decide(&target, &hosts).is_ok()
        {
            prop_assert_eq!(target.host.as_str(), "good.example");
            prop_assert!(matches!(target.port, 80 | 443));
            // The host is in the request line.
            let line = bytes.split(|byte| *byte == b'\r').next().unwrap().to_ascii_lowercase();
            prop_assert!(String::from_utf8(line).unwrap().contains("good.example"));
        }
    }
}
