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

/// Creates a limiter; 0 means no limit.
fn limiter(concurrency: u32, requests: u32, tokens: u64) -> RateLimiter {
    let limits = RateLimits {
        concurrency: NonZeroU32::new(concurrency),
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU64::new(tokens),
    };
    RateLimiter::new("openai", limits)
}

/// Takes a slot and returns the waits that were reported before.
async fn acquire_reporting(
    limiter: &RateLimiter,
    tokens: u64,
) -> (RequestSlot, Vec<(String, Option<Duration>)>) {
    let mut waits = Vec::new();
    let slot = limiter.acquire_with(tokens, |wait| waits.push((wait.reason, wait.wait))).await;
    (slot, waits)
}

#[tokio::test(start_paused = true)]
async fn without_limits_no_request_waits() {
    let limiter = limiter(0, 0, 0);
    let slots: Vec<_> = (0..100).map(|_| limiter.acquire(1_000_000).now_or_never()).collect();
    assert!(slots.iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_reported_once_with_its_reason_and_its_length() {
    for (limits, expected) in [
        ((0, 1, 0), "1 request per minute at openai"),
        ((0, 0, 60), "60 tokens per minute at openai"),
    ] {
        let limiter = limiter(limits.0, limits.1, limits.2);
        let (_slot, none) = acquire_reporting(&limiter, 60).await;
        assert!(none.is_empty());
        let (_slot, waits) = acquire_reporting(&limiter, 60).await;
        assert_eq!(waits, [(expected.to_owned(), Some(seconds(60)))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reported_wait_includes_the_queue_ahead() {
    let limiter = limiter(0, 60, 0);
    for _ in 0..60 {
        drop(limiter.acquire(0).await);
    }
    let waits = join_all((0..3).map(|_| acquire_reporting(&limiter, 0))).await;
    let waits: Vec<_> =
        waits.into_iter().flat_map(|(_, waits)| waits).map(|(_, wait)| wait).collect();
    assert_eq!(waits, [1, 2, 3].map(|second| Some(seconds(second))));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_slot_admits_the_next_request() {
    let limiter = limiter(2, 0, 0);
    let (first, _second) = (limiter.acquire(0).await, limiter.acquire(0).await);
    let end_later = async {
        sleep(seconds(5)).await;
        drop(first);
    };
    let began = Instant::now();
    let ((_slot, waits), ()) = join(acquire_reporting(&limiter, 0), end_later).await;
    assert_eq!(began.elapsed(), seconds(5));
    assert_eq!(waits, [("2 requests at once at openai".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_blocks_all_requests_and_expires() {
    let limiter = limiter(0, 0, 0);
    limiter.pause(seconds(12));
    advance(seconds(2)).await;
    let began = Instant::now();
    let waited = join_all((0..10).map(|_| acquire_reporting(&limiter, 0))).await;
    assert_eq!(began.elapsed(), seconds(10));
    let expected = [("openai asked to wait 12 s".to_owned(), Some(seconds(10)))];
    assert!(waited.iter().all(|(_, waits)| *waits == expected), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_extended_during_a_wait_is_kept() {
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
async fn returned_tokens_admit_a_waiter_at_once() {
    let limiter = limiter(0, 0, 600);
    let mut first = limiter.acquire(600).await;
    let report = async {
        sleep(seconds(1)).await;
        first.set_used_tokens(100);
    };
    let began = Instant::now();
    let (_slot, ()) = join(limiter.acquire(300), report).await;
    assert_eq!(began.elapsed(), seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_counts_again() {
    let limiter = limiter(0, 2, 0);
    limiter.acquire(0).await.count_retry();
    let began = Instant::now();
    drop(limiter.acquire(0).await);
    assert_eq!(began.elapsed(), seconds(30));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_leaves_the_queue_takes_nothing() {
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
        // Ten tokens are added each second: those of the request that left were not taken.
        assert_eq!(began.elapsed(), seconds(2), "number {leaving} left");
        assert_eq!(limiter.0.gate().queued, RequestNeed::default());
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_are_admitted_in_order_of_arrival() {
    let limiter = limiter(3, 60, 6000);
    let order = Mutex::new(Vec::new());
    let agents = (0..100_u64).map(|number| {
        let (limiter, order) = (&limiter, &order);
        async move {
            // Large and small requests: the large ones are not overtaken.
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
        // Arrival, time in flight, and the time after which it leaves the queue, if it does.
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

/// Returns the start of each request, and the maximum in flight.
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
