//! Seeded faults: commits and acts that break a site among others that do not, and the one that did it is to come first.
//!
//! What must come out: at least 95 of 100 right first, and an undo that heals the site each time. A usual run makes ten;
//! `OUTHAUL_BLAME_FAULTS=100` makes as many. The report names a value, a key, what a script calls, or a variable that is missing.

use std::fs;

use super::super::system::SystemFixture;
use super::{KEYS, blame, commit, first, heal, promote, replace, scene, set, ship};

/// Faults that a usual run makes.
const FAULTS: usize = 10;

/// What a fault is made of, from one number.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// A commit that changes what the site gets and harms nothing.
fn harmless(fixture: &SystemFixture, random: &mut Random, round: usize, harmed: usize) {
    // Not the value that does the harm: it would be healed.
    let key = (harmed + 1 + random.below(KEYS - 1)) % KEYS;
    let part = random.below(1_000);
    match random.below(4) {
        0 => commit(fixture, "main", "tune a value", |dir| {
            set(
                dir,
                "configs/common.yaml",
                &format!("K{key}"),
                &format!("ok-{round}-{part}"),
            );
        }),
        1 => commit(fixture, "dev", "tune a value of dev", |dir| {
            set(
                dir,
                "configs/environment.yaml",
                &format!("E{key}"),
                &format!("ok-{round}-{part}"),
            );
        }),
        2 => commit(fixture, "hello", "say what it does", |dir| {
            let path = dir.join("manifests/dev/hello.sh");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}# part {round}-{part}\n")).unwrap();
        }),
        _ => commit(fixture, "main", "a remark in the template", |dir| {
            let from = "      # Platform config of";
            replace(
                dir,
                "templates/env-file.yaml",
                from,
                &format!("      # {round}-{part}\n{from}"),
            );
        }),
    };
}

/// The one that harms, of one of six kinds; the commit's id, or nothing for what was done on site.
fn harmful(
    fixture: &SystemFixture,
    random: &mut Random,
    kind: usize,
    key: usize,
) -> Option<String> {
    let part = random.below(100_000);
    Some(match kind {
        0 => commit(fixture, "main", "tune a value", |dir| {
            set(dir, "configs/common.yaml", &format!("K{key}"), "none");
        }),
        1 => commit(fixture, "dev", "tune a value of dev", |dir| {
            set(dir, "configs/environment.yaml", &format!("E{key}"), "none");
        }),
        2 => commit(fixture, "main", "tune a value", |dir| {
            set(
                dir,
                "configs/common.yaml",
                &format!("K{key}"),
                &format!("mute{part}"),
            );
        }),
        3 => commit(fixture, "hello", "greet in another way", |dir| {
            let path = dir.join("manifests/dev/hello.sh");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{text}greet-all-of-them || exit 1\n")).unwrap();
        }),
        4 => commit(fixture, "main", "shorter names", |dir| {
            replace(
                dir,
                "templates/env-file.yaml",
                "{{ key | variable }}=",
                "{{ key | variable | replace(\"IRON\", \"\") }}=",
            );
        }),
        _ => return None,
    })
}

#[test]
fn of_seeded_faults_nearly_all_are_found_first_and_their_undo_heals() {
    let faults = std::env::var("OUTHAUL_BLAME_FAULTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(FAULTS);
    let fixture = scene();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut right, mut wrong) = (0, Vec::new());
    for round in 0..faults {
        let kind = round % 6;
        let (before, after) = (random.below(4), random.below(4));
        let key = random.below(KEYS);
        for _ in 0..before {
            harmless(&fixture, &mut random, round, key);
        }
        let bad = harmful(&fixture, &mut random, kind, key);
        for _ in 0..after {
            harmless(&fixture, &mut random, round, key);
        }
        promote(&fixture);
        ship(&fixture, i32::from(bad.is_some()));
        let Some(bad) = bad else {
            let script = fixture.path("sites/edge-1/applied/hello-dev/payload/hello.sh");
            let text = fs::read_to_string(&script).unwrap();
            fs::write(&script, format!("{text}# by hand, {round}\n")).unwrap();
            fixture.agent("edge-1", 3, &["run", "--once"]);
            fixture.home("edge-1");
            let answer = blame(&fixture, &[]);
            match first(&answer)["kind"] == "drift" {
                true => right += 1,
                false => wrong.push(format!("{round}: {:#}", first(&answer))),
            }
            fixture.agent("edge-1", 3, &["run", "--once"]);
            fixture.home("edge-1");
            continue;
        };
        let answer = blame(&fixture, &[]);
        match first(&answer)["commit"]["id"] == bad {
            true => right += 1,
            false => wrong.push(format!(
                "{round}, kind {kind}: {:#}",
                answer["faults"][0]["blame"]
            )),
        }
        let answer = blame(&fixture, &["--undo", "--commit", &bad]);
        let undo = &answer["undone"]["undo"];
        heal(
            &fixture,
            undo["branch"].as_str().unwrap(),
            undo["onto"].as_str().unwrap(),
        );
    }
    println!("blame: {right} of {faults} seeded faults right first");
    assert!(
        right * 100 >= faults * 95,
        "{right} of {faults}: {}",
        wrong.join("\n")
    );
}
