//! The lower bound of time under every clock of the design's matrix, and that it never falls.

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn boot(id: &str, since_boot_ms: u64) -> BootReading {
    BootReading {
        boot_id: id.to_owned(),
        since_boot_ms,
    }
}

#[test]
fn signed_times_raise_the_bound_and_never_lower_it() {
    let mut bound = LowerBound::new(at("2026-01-01T00:00:00Z"));
    assert!(bound.raise(at("2026-06-01T00:00:00Z")));
    assert!(!bound.raise(at("2026-03-01T00:00:00Z")));
    assert_eq!(bound.at(), at("2026-06-01T00:00:00Z"));
}

#[test]
fn the_boot_clock_carries_the_bound_through_a_boot_and_a_reboot() {
    let mut bound = LowerBound::new(at("2026-01-01T00:00:00Z"));
    bound.advance(boot("a", 5_000_000));
    assert_eq!(
        bound.at(),
        at("2026-01-01T00:00:00Z"),
        "the first reading is only a mark"
    );
    bound.advance(boot("a", 5_060_000));
    assert_eq!(bound.at(), at("2026-01-01T00:01:00Z"));
    bound.advance(boot("b", 30_000));
    assert_eq!(
        bound.at(),
        at("2026-01-01T00:01:30Z"),
        "all of the new boot came after"
    );
}

#[test]
fn a_boot_clock_that_runs_backwards_raises_nothing_twice() {
    let mut bound = LowerBound::new(at("2026-01-01T00:00:00Z"));
    bound.advance(boot("a", 60_000));
    bound.advance(boot("a", 0));
    bound.advance(boot("a", 60_000));
    assert_eq!(bound.at(), at("2026-01-01T00:00:00Z"));
}

#[test]
fn the_bound_survives_being_stored() {
    let mut bound = LowerBound::new(at("2026-01-01T00:00:00Z"));
    bound.advance(boot("a", 7));
    let text = serde_json::to_string(&bound).unwrap();
    assert_eq!(serde_json::from_str::<LowerBound>(&text).unwrap(), bound);
}

/// Signed 2026-06-01, expires 2026-12-01, read at a true time of 2026-07-01 by clocks that say what
/// the table states. On a stick no clock is trusted; over HTTPS one is, if the site has reached a hub.
#[test]
fn a_clock_of_any_date_on_either_road_gives_the_outcome_of_the_table() {
    let expires = at("2026-12-01T00:00:00Z");
    let signed_at = at("2026-06-01T00:00:00Z");
    let table = [
        // wall clock             trusted  expired  stale (older than 45 days)
        ("1970-01-01T00:00:00Z", false, false, false),
        ("1970-01-01T00:00:00Z", true, false, false),
        ("2000-01-01T00:00:00Z", false, false, false),
        ("2000-01-01T00:00:00Z", true, false, false),
        ("2026-05-31T00:00:00Z", false, false, false), // a day before it was signed
        ("2026-05-31T00:00:00Z", true, false, false),
        ("2026-07-01T00:00:00Z", false, false, false), // right
        ("2026-07-01T00:00:00Z", true, false, false),
        ("2028-07-01T00:00:00Z", false, false, false), // plus two years
        ("2028-07-01T00:00:00Z", true, true, true),
        ("2099-01-01T00:00:00Z", false, false, false),
        ("2099-01-01T00:00:00Z", true, true, true),
    ];
    for (wall, wall_trusted, expired, stale) in table {
        let policy = TimePolicy {
            lower_bound: signed_at,
            wall: at(wall),
            wall_trusted,
        };
        assert_eq!(
            policy.has_passed(expires),
            expired,
            "{wall} trusted={wall_trusted}"
        );
        let within = SignedDuration::from_hours(45 * 24);
        assert_eq!(
            policy.is_stale(signed_at, within),
            stale,
            "{wall} trusted={wall_trusted}"
        );
    }
}

#[test]
fn a_jump_of_the_wall_clock_between_two_checks_leaves_the_bound_where_it_was() {
    let mut bound = LowerBound::new(at("2026-06-01T00:00:00Z"));
    bound.advance(boot("a", 1_000));
    for wall in [
        "2026-07-01T00:00:00Z",
        "2099-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
    ] {
        let policy = TimePolicy {
            lower_bound: bound.at(),
            wall: at(wall),
            wall_trusted: false,
        };
        assert_eq!(policy.now(), bound.at());
        bound.advance(boot("a", 1_000));
    }
    assert_eq!(bound.at(), at("2026-06-01T00:00:00Z"));
}

#[test]
fn a_proven_bound_beyond_the_date_expires_without_any_wall_clock() {
    let lower_bound = at("2027-01-01T00:00:00Z");
    let policy = TimePolicy {
        lower_bound,
        wall: at("1970-01-01T00:00:00Z"),
        wall_trusted: false,
    };
    assert!(policy.has_passed(at("2026-12-01T00:00:00Z")));
    assert!(
        policy.has_passed(lower_bound),
        "at the date itself it has passed"
    );
}

proptest! {
    #[test]
    fn the_bound_never_falls(steps in prop::collection::vec((0u8..3, any::<u64>()), 0..20)) {
        let mut bound = LowerBound::new(at("2026-01-01T00:00:00Z"));
        for (kind, value) in steps {
            let before = bound.at();
            match kind {
                0 => bound.advance(boot("a", value)),
                1 => bound.advance(boot("b", value % 1_000_000)),
                _ => {
                    let second = i64::try_from(value % 4_000_000_000).unwrap();
                    bound.raise(Timestamp::from_second(second).unwrap());
                }
            }
            prop_assert!(bound.at() >= before);
        }
    }
}

#[test]
fn a_hub_raises_the_bound_by_the_slack_at_most_however_often_it_speaks() {
    let start = at("2026-06-01T00:00:00Z");
    let mut bound = LowerBound::new(start);
    bound.raise_by_hub(start + SignedDuration::from_hours(1));
    assert_eq!(bound.at(), start + SignedDuration::from_hours(1));
    for _ in 0..3 {
        bound.raise_by_hub(at("2099-01-01T00:00:00Z"));
        assert_eq!(bound.at(), start + HUB_SLACK);
    }
    // What the fleet signs takes the place of it, and the slack begins there.
    let later = start + SignedDuration::from_hours(24);
    bound.raise(later);
    assert_eq!(bound.at(), start + HUB_SLACK);
    bound.raise(start + HUB_SLACK + SignedDuration::from_hours(1));
    assert_eq!(
        bound.at(),
        start + HUB_SLACK + SignedDuration::from_hours(1)
    );
    let text = serde_json::to_string(&bound).unwrap();
    assert!(!text.contains("hub_ahead_ms"), "{text}");
    // A stored value beyond the slack counts for no more than the slack.
    let edited = r#"{"at":"2026-06-01T00:00:00Z","hub_ahead_ms":9999999999999}"#;
    let edited: LowerBound = serde_json::from_str(edited).unwrap();
    assert_eq!(edited.at(), start + HUB_SLACK);
}

#[test]
fn a_bound_that_restarts_forgets_what_the_old_key_signed() {
    let mut bound = LowerBound::new(at("2029-06-01T00:00:00Z"));
    bound.raise_by_hub(at("2099-01-01T00:00:00Z"));
    bound.restart(at("2026-06-01T00:00:00Z"));
    assert_eq!(bound.at(), at("2026-06-01T00:00:00Z"));
}
