//! People who log in at an identity provider: whose name is whose, and how long a session holds, out of both stores.

use crate::store::{PersonLogin, PersonSession, Store};

fn person(subject: &str) -> PersonSession {
    PersonSession {
        name: "oidc:ann".to_owned(),
        issuer: "https://id.example".to_owned(),
        subject: subject.to_owned(),
        client: "hub".to_owned(),
        facts: r#"[["groups","ops"]]"#.to_owned(),
    }
}

fn begins(store: &mut Store, session: &str, person: &PersonSession, times: (i64, i64)) -> bool {
    let done = store.write(|s| s.begin_person_session(session, person, times));
    done.unwrap() == PersonLogin::Begun
}

#[test]
fn one_account_is_one_person_whatever_the_provider_calls_it_later() {
    let mut store = super::empty();
    assert!(begins(&mut store, "s1", &person("7"), (10, 40)));
    let renamed = PersonSession {
        name: "oidc:eve2".to_owned(),
        ..person("7")
    };
    let done = store.write(|s| s.begin_person_session("s2", &renamed, (10, 40)));
    assert_eq!(done.unwrap(), PersonLogin::OtherName("oidc:ann".to_owned()));
    assert_eq!(store.read(|s| s.people(10)).unwrap().len(), 1);
    // Another provider may call someone the same.
    let elsewhere = PersonSession {
        issuer: "https://other.example".to_owned(),
        ..renamed
    };
    assert!(begins(&mut store, "s3", &elsewhere, (10, 40)));
}

fn of(store: &mut Store, session: &str, at: i64) -> Option<PersonSession> {
    store
        .read(|s| s.person_of_session(session, (at, 50)))
        .unwrap()
}

#[test]
fn a_session_of_a_person_holds_until_it_ends_is_ended_or_is_too_long() {
    let mut store = super::empty();
    assert!(begins(&mut store, "s1", &person("7"), (10, 40)));
    assert!(begins(&mut store, "s2", &person("7"), (20, 100)));
    assert_eq!(of(&mut store, "s1", 39), Some(person("7")));
    assert_eq!(of(&mut store, "s1", 40), None, "it has ended");
    assert_eq!(of(&mut store, "s2", 69), Some(person("7")));
    assert_eq!(of(&mut store, "s2", 70), None, "no longer than that");
    assert_eq!(of(&mut store, "s3", 39), None);
    let all = store.read(|s| s.people(39)).unwrap();
    assert_eq!(
        (all.len(), all[0].sessions, all[0].until_ms),
        (1, 2, Some(100))
    );
    assert_eq!((all[0].added_ms, all[0].seen_ms), (10, 20));
    store.write(|s| s.end_session("s1")).unwrap();
    assert_eq!(of(&mut store, "s1", 39), None);
    assert_eq!(
        store
            .write(|s| s.end_sessions_of_person("oidc:ann"))
            .unwrap(),
        Some(1)
    );
    assert_eq!(of(&mut store, "s2", 39), None);
    assert_eq!(
        store
            .write(|s| s.end_sessions_of_person("oidc:bob"))
            .unwrap(),
        None
    );
    assert_eq!(store.read(|s| s.people(39)).unwrap()[0].until_ms, None);
}

#[test]
fn a_name_is_the_first_person_s_until_it_is_forgotten() {
    let mut store = super::empty();
    assert!(begins(&mut store, "s1", &person("7"), (10, 40)));
    assert!(
        !begins(&mut store, "s2", &person("8"), (11, 40)),
        "someone else"
    );
    let elsewhere = PersonSession {
        issuer: "https://other.example".to_owned(),
        ..person("7")
    };
    assert!(
        !begins(&mut store, "s2", &elsewhere, (11, 40)),
        "another provider's"
    );
    assert_eq!(
        (of(&mut store, "s2", 12), of(&mut store, "s1", 12)),
        (None, Some(person("7")))
    );
    assert!(store.write(|s| s.forget_person("oidc:ann")).unwrap());
    assert_eq!(of(&mut store, "s1", 12), None, "its sessions are gone");
    assert!(!store.write(|s| s.forget_person("oidc:ann")).unwrap());
    assert!(begins(&mut store, "s2", &person("8"), (11, 40)));
}

#[test]
fn a_login_is_used_once() {
    let mut store = super::empty();
    let mut uses = |times| store.write(|s| s.use_login("l", times)).unwrap();
    assert!(uses((10, 20)));
    assert!(!uses((19, 20)));
    assert!(uses((20, 30)), "it ended by itself");
}

#[test]
fn a_person_has_a_bounded_number_of_sessions_and_the_oldest_ends() {
    let mut store = super::empty();
    for at in 1..=51 {
        assert!(begins(
            &mut store,
            &format!("s{at}"),
            &person("7"),
            (at, 99)
        ));
    }
    assert_eq!(of(&mut store, "s1", 50), None);
    assert_eq!(of(&mut store, "s2", 50), Some(person("7")));
    assert_eq!(store.read(|s| s.people(50)).unwrap()[0].sessions, 50);
}
