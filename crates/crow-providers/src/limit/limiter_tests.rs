use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{
    FutureExt as _,
    future::{join, join_all},
};
use proptest::prelude::*;
use tokio::time::{advance, sleep};

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A limiter; 0 stands for no limit.
fn limiter(concurrency: u32, requests: u32, tokens: u64) -> RateLimiter {
    let limits = RateLimits {
        concurrency: NonZeroU32::new(concurrency),
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU64::new(tokens),
    };
    RateLimiter::new("openai", limits)
}

/// Takes a slot and returns what it was told before.
async fn told(
    limiter: &RateLimiter,
    tokens: u64,
) -> (RequestSlot, Vec<(String, Option<Duration>)>) {
    let mut told = Vec::new();
    let slot = limiter.acquire_with(tokens, |wait| told.push((wait.reason, wait.wait))).await;
    (slot, told)
}

#[tokio::test(start_paused = true)]
async fn without_limits_nobody_waits() {
    let limiter = limiter(0, 0, 0);
    let slots: Vec<_> = (0..100).map(|_| limiter.acquire(1_000_000).now_or_never()).collect();
    assert!(slots.iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_once_with_its_reason_and_its_length() {
    for (limits, expected) in [
        ((0, 1, 0), "1 request per minute at openai"),
        ((0, 0, 60), "60 tokens per minute at openai"),
    ] {
        let limiter = limiter(limits.0, limits.1, limits.2);
        let (_slot, none) = told(&limiter, 60).await;
        assert!(none.is_empty());
        let (_slot, waits) = told(&limiter, 60).await;
        assert_eq!(waits, [(expected.to_owned(), Some(seconds(60)))]);
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_are_told_how_long_the_whole_queue_takes() {
    let limiter = limiter(0, 60, 0);
    for _ in 0..60 {
        drop(limiter.acquire(0).await);
    }
    let waits = join_all((0..3).map(|_| told(&limiter, 0))).await;
    let waits: Vec<_> =
        waits.into_iter().flat_map(|(_, told)| told).map(|(_, wait)| wait).collect();
    assert_eq!(waits, [1, 2, 3].map(|second| Some(seconds(second))));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_dropped_lets_the_next_one_go() {
    let limiter = limiter(2, 0, 0);
    let (first, _second) = (limiter.acquire(0).await, limiter.acquire(0).await);
    let end_later = async {
        sleep(seconds(5)).await;
        drop(first);
    };
    let began = Instant::now();
    let ((_slot, waits), ()) = join(told(&limiter, 0), end_later).await;
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(waits, [("2 requests at once at openai".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_everybody_and_ends_by_itself() {
    let limiter = limiter(0, 0, 0);
    limiter.pause(seconds(12));
    advance(seconds(2)).await;
    let began = Instant::now();
    let waited = join_all((0..10).map(|_| told(&limiter, 0))).await;
    assert_eq!(began.elapsed(), seconds(10));
    let expected = [("openai asked to wait 12 s".to_owned(), Some(seconds(10)))];
    assert!(waited.iter().all(|(_, waits)| *waits == expected), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_becomes_longer_meanwhile_is_kept() {
    let limiter = limiter(0, 0, 0);
    limiter.pause(seconds(2));
    let longer = async {
        sleep(seconds(1)).await;
        limiter.pause(seconds(9));
    };
    let began = Instant::now();
    let (_slot, ()) = join(limiter.acquire(0), longer).await;
    assert_eq!(began.elapsed(), seconds(10));
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_the_bucket_waits_for_a_full_one() {
    let limiter = limiter(0, 0, 600);
    drop(limiter.acquire(300).await);
    let began = Instant::now();
    drop(limiter.acquire(100_000).await);
    assert_eq!(began.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn tokens_that_were_not_used_let_a_waiter_go_at_once() {
    let limiter = limiter(0, 0, 600);
    let mut first = limiter.acquire(600).await;
    let report = async {
        sleep(seconds(1)).await;
        first.used(100);
    };
    let began = Instant::now();
    let (_slot, ()) = join(limiter.acquire(300), report).await;
    assert_eq!(began.elapsed(), seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_counts_again() {
    let limiter = limiter(0, 2, 0);
    limiter.acquire(0).await.sent_again();
    let began = Instant::now();
    drop(limiter.acquire(0).await);
    assert_eq!(began.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_queue_leaves_no_hole() {
    for leaving in 0..3 {
        let limiter = limiter(1, 60, 600);
        let first = limiter.acquire(600).await;
        let mut queue: Vec<_> = (0..3).map(|_| Box::pin(limiter.acquire(10))).collect();
        for waiter in &mut queue {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        drop(queue.remove(leaving));
        drop(first);
        let began = Instant::now();
        for waiter in queue {
            drop(waiter.await);
        }
        // Ten tokens come in each second: what the one that left wanted was not taken.
        assert_eq!(began.elapsed(), seconds(2), "number {leaving} left");
        assert_eq!(limiter.0.gate().queued, RequestNeed::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_at_once_go_out_in_the_order_in_which_they_came() {
    let limiter = limiter(3, 60, 6000);
    let order = Mutex::new(Vec::new());
    let agents = (0..100_u64).map(|number| {
        let (limiter, order) = (&limiter, &order);
        async move {
            // Large and small ones: the large ones are not overtaken.
            let _slot = limiter.acquire(number % 7 * 100).await;
            order.lock().unwrap().push(number);
            sleep(Duration::from_millis(100 + number * 37 % 900)).await;
        }
    });
    join_all(agents).await;
    assert_eq!(order.into_inner().unwrap(), (0..100).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn neither_rate_nor_concurrency_is_ever_exceeded(
        concurrency in 1_u32..5,
        rate in 1_u32..30,
        // When it comes, how long it takes, and whether it leaves after a while.
        requests in prop::collection::vec((0_u64..90_000, 0_u64..20_000, prop::option::of(0_u64..60_000)), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (starts, most) = runtime.block_on(play(concurrency, rate, &requests));
        prop_assert!(most <= usize::try_from(concurrency).unwrap());
        for (index, from) in starts.iter().enumerate() {
            let minute = starts[index..].iter().take_while(|at| at.duration_since(*from) < seconds(60));
            prop_assert!(minute.count() <= 2 * usize::try_from(rate).unwrap());
        }
        let patient = requests.iter().filter(|(_, _, patience)| patience.is_none()).count();
        prop_assert!(starts.len() >= patient, "somebody was forgotten");
    }
}

/// Returns when each request began, and how many were in flight at most.
async fn play(
    concurrency: u32,
    rate: u32,
    requests: &[(u64, u64, Option<u64>)],
) -> (Vec<Instant>, usize) {
    let limiter = limiter(concurrency, rate, 0);
    let (in_flight, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let starts = Mutex::new(Vec::new());
    let agents = requests.iter().map(|(comes, takes, patience)| {
        let (limiter, in_flight, most, starts) = (&limiter, &in_flight, &most, &starts);
        async move {
            sleep(Duration::from_millis(*comes)).await;
            let patience = patience.map_or(seconds(100_000), Duration::from_millis);
            let Ok(_slot) = timeout(patience, limiter.acquire(0)).await else { return };
            starts.lock().unwrap().push(Instant::now());
            most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(*takes)).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
        }
    });
    join_all(agents).await;
    (starts.into_inner().unwrap(), most.into_inner())
}
