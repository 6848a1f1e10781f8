//! Alerts: kept until they are sent, claimed by one, and forgotten when nobody waits for them.

use super::*;
use crate::Store;

fn alert(subject: &str) -> StoredAlert {
    StoredAlert {
        id: 0,
        at_ms: 10,
        kind: "site".to_owned(),
        subject: subject.to_owned(),
        environment: Some("dev".to_owned()),
        severity: "bad".to_owned(),
        was: "ok".to_owned(),
        status: "failed".to_owned(),
        message: "é".repeat(2 * MAX_MESSAGE_CHARS),
    }
}

fn write<T>(store: &mut Store, work: impl FnOnce(&Session<'_>) -> Result<T, StoreError>) -> T {
    store.write(|session| work(session)).unwrap()
}

fn known_now(session: &Session<'_>) -> Result<Option<BTreeMap<String, String>>, StoreError> {
    session.alerts_known()
}

fn counts(session: &Session<'_>) -> Result<BTreeMap<String, u64>, StoreError> {
    session.alert_counts()
}

#[test]
fn what_is_claimed_is_due_again_when_its_claim_is_over_and_never_once_it_was_sent() {
    let mut store = Store::in_memory().unwrap();
    write(&mut store, |s| {
        s.add_alert(&alert("a"), &["mail", "hook"])?;
        s.add_alert(&alert("b"), &["mail"])
    });
    let claim = |store: &mut Store, to: &str, now: i64| -> Vec<u64> {
        let due = write(store, |s| s.claim_alerts(to, (now, now + 100), 10));
        due.iter().map(|alert| alert.id).collect()
    };
    assert_eq!(claim(&mut store, "mail", 9), [0; 0]);
    assert_eq!(claim(&mut store, "mail", 10), [1, 2]);
    assert_eq!(claim(&mut store, "mail", 50), [0; 0], "another has it");
    assert_eq!(claim(&mut store, "hook", 50), [1]);
    write(&mut store, |s| {
        s.alerts_went("mail", &[1, 2], ("sent", 60, ""))?;
        s.alerts_went("hook", &[1], ("waiting", 500, "no answer"))
    });
    assert_eq!(claim(&mut store, "mail", 1_000), [0; 0]);
    assert_eq!(claim(&mut store, "hook", 499), [0; 0]);
    assert_eq!(write(&mut store, |s| s.alert_attempts("hook", 1)), 1);
    assert_eq!(claim(&mut store, "hook", 500), [1]);
    write(&mut store, |s| {
        s.alerts_went("hook", &[1], ("given-up", 700, "no answer"))
    });
    let states = write(&mut store, counts);
    assert_eq!(
        states,
        BTreeMap::from([("given-up".into(), 1), ("sent".into(), 2)])
    );
    assert_eq!(write(&mut store, |s| s.retry_alerts("hook", 800)), 1);
    assert_eq!(claim(&mut store, "hook", 800), [1]);
    let listed = write(&mut store, |s| s.alerts(1));
    assert_eq!(listed[0].0.subject, "b");
    assert_eq!(listed[0].0.message.chars().count(), MAX_MESSAGE_CHARS);
}

#[test]
fn what_was_known_is_replaced_and_an_older_look_is_seen() {
    let mut store = Store::in_memory().unwrap();
    assert_eq!(write(&mut store, known_now), None);
    let known = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = |(name, status): &(&str, &str)| ((*name).to_owned(), (*status).to_owned());
        pairs.iter().map(owned).collect()
    };
    let first = known(&[("site:a", "ok"), ("site:b", "stale")]);
    write(&mut store, |s| {
        s.set_alerts_known(&BTreeMap::new(), &first, 100)
    });
    assert_eq!(write(&mut store, known_now), Some(first.clone()));
    let second = known(&[("site:a", "failed"), ("site:c", "ok")]);
    write(&mut store, |s| s.set_alerts_known(&first, &second, 200));
    assert_eq!(write(&mut store, known_now), Some(second));
    assert!(write(&mut store, |s| s.alerts_looked_since(200)));
    assert!(!write(&mut store, |s| s.alerts_looked_since(201)));
}

#[test]
fn sent_alerts_are_forgotten_beyond_the_bound_and_waiting_ones_never() {
    let mut store = Store::in_memory().unwrap();
    write(&mut store, |s| {
        s.add_alert(&alert("waits"), &["hook"])?;
        for _ in 0..20 {
            s.add_alert(&alert("sent"), &["mail"])?;
        }
        let text = "UPDATE alerts SET id = id + $1 WHERE id > 10";
        s.db.execute(text, params![MAX_ALERTS])?;
        let text = "UPDATE alert_deliveries SET alert = alert + $1 WHERE alert > 10";
        s.db.execute(text, params![MAX_ALERTS])?;
        let all: Vec<u64> = (2..=10).collect();
        s.alerts_went("mail", &all, ("sent", 20, ""))
    });
    let left: Vec<u64> = write(&mut store, |s| s.alerts(1_000))
        .iter()
        .map(|(a, _)| a.id)
        .collect();
    assert!(left.contains(&1), "{left:?}");
    assert!(!left.contains(&2), "{left:?}");
    assert_eq!(left.len(), 12);
}
