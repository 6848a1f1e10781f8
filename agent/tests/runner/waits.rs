//! What makes a bundle wait on a site by itself: who asks for later, maintenance windows, content that was left too often;
//! and the time for which health has to be good.
//!
//! The real agent runs under `faketime` where time has to pass; without it those tests say `SKIPPED`, and fail in CI.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::report::{GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;

use crate::clocks::{faketime_is_missing, greeting, reboot, under};
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// A site on which bundle 1 runs, with `settings`; its clock is trusted.
fn site(settings: &str) -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let there = site.folder.path().join("synchronized");
    fs::write(&there, "").unwrap();
    site.configure(&format!("{settings}\n[clock]\nsynchronized = {there:?}\n"));
    (centre, site)
}

fn import(site: &Site, bundle: &Path) -> serde_json::Value {
    site.ok(&["import", bundle.to_str().unwrap()])
}

fn round_at(site: &Site, clock: &str) {
    let done = under(clock, site, &["run", "--once"]).checked().unwrap();
    assert_reports(&done, 0, &[]);
}

/// A program that says no, with the reason in a file beside it, while that file is there.
fn asked(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, reason) = (folder.join("busy"), folder.join("reason"));
    let text = format!(
        "#!/bin/sh\n[ -e {0} ] || exit 0\ncat {0}\nexit 1\n",
        reason.display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, reason)
}

fn decisions(site: &Site) -> Vec<(String, String, String)> {
    let reports = site.reports().into_iter();
    let printed = reports.filter_map(|report| match report.event {
        ReportEvent::Decision {
            what, who, reason, ..
        } => Some((what, who, reason.unwrap_or_default())),
        _ => None,
    });
    printed.collect()
}

#[test]
fn a_file_and_a_program_delay_what_waits_until_they_no_longer_do() {
    let folder = tempfile::tempdir().unwrap();
    let (program, reason) = asked(folder.path());
    let delays = folder.path().join("delay.d");
    fs::create_dir(&delays).unwrap();
    let settings = format!(
        "[delay]\nfolder = {delays:?}\nask = [{{ name = \"press\", program = [{program:?}] }}]"
    );
    let (centre, site) = site(&settings);
    fs::write(
        delays.join("harvest"),
        r#"{"reason": "combine is out", "until": "8h"}"#,
    )
    .unwrap();
    fs::write(&reason, "batch 7 runs\nsecond line\n").unwrap();
    let two = centre.publish(&Draft::hello("two"));
    let taken = import(&site, &two);
    assert_eq!(taken["state"], "gated", "{taken}");
    let why = taken["message"].as_str().unwrap();
    for words in [
        "`harvest` asks for later: combine is out; until 2",
        "`press` asks for later: batch 7 runs; until 2",
    ] {
        assert!(why.contains(words), "`{words}` is not in: {why}");
    }
    let status = site.status();
    assert_eq!(status["attention"][0]["what"], "delay", "{status}");
    assert_eq!(status["delays"]["press"]["why"], "batch 7 runs");
    let next = status["next"][0].as_str().unwrap();
    assert!(
        next.contains("`outhaul-agent approve 2` applies it now"),
        "{next}"
    );
    // The centre learns who and why, once.
    site.ok(&["run", "--once"]);
    let printed = decisions(&site);
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert_eq!(
        (&*printed[0].0, &*printed[0].1),
        ("delay", "`harvest` on this site")
    );
    assert!(
        printed[0].2.starts_with("combine is out; until 2"),
        "{printed:?}"
    );
    // One after the other no longer asks.
    fs::remove_file(delays.join("harvest")).unwrap();
    site.ok(&["run", "--once"]);
    assert_eq!(site.active(), Some(1));
    fs::remove_file(&reason).unwrap();
    site.ok(&["run", "--once"]);
    assert_eq!(site.active(), Some(2));
    let printed = decisions(&site);
    assert_eq!(
        printed
            .iter()
            .filter(|printed| printed.0 == "delay-over")
            .count(),
        2,
        "{printed:?}"
    );
    assert!(site.status().get("delays").is_none());
    // A program that is gone cannot be asked; a person decides.
    fs::remove_file(program).unwrap();
    let taken = import(&site, &centre.publish(&Draft::hello("three")));
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("it cannot be asked"),
        "{taken}"
    );
    site.ok(&["approve", "3"]);
    assert_eq!(site.active(), Some(3));
}

#[test]
fn at_the_deadline_of_a_delay_it_goes_on_unless_a_person_is_to_be_asked() {
    if faketime_is_missing() {
        return;
    }
    for (policy, runs) in [("go", 2), ("ask", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let delays = folder.path().to_owned();
        let (centre, site) = site(&format!(
            "[delay]\nfolder = {delays:?}\nat_deadline = \"{policy}\""
        ));
        fs::write(delays.join("press"), "batch 7 runs\n").unwrap();
        assert_eq!(
            import(&site, &centre.publish(&Draft::hello("two")))["state"],
            "gated"
        );
        round_at(&site, "+71h");
        assert_eq!(site.active(), Some(1));
        // The reason changes every hour, and the owner's longest delay stays what it is.
        fs::write(
            delays.join("press"),
            r#"{"reason": "batch 8", "until": "1000h"}"#,
        )
        .unwrap();
        round_at(&site, "+73h");
        assert_eq!(site.active(), Some(1), "the clock jumped");
        reboot(&site);
        round_at(&site, "+73h");
        assert_eq!(site.active(), Some(runs), "{policy}");
        let printed = decisions(&site);
        let passed = printed
            .iter()
            .find(|printed| printed.0 == "delay-over")
            .unwrap();
        assert!(passed.2.contains("has passed"), "{printed:?}");
        if policy == "ask" {
            let printed = stdout(&site.run(&["status"]));
            assert!(
                printed.contains("a person decides: approve it with"),
                "{printed}"
            );
        }
    }
}

/// Sunday night in the site's own time: Saturday's window goes on over midnight.
#[test]
fn what_is_new_waits_for_a_maintenance_window_and_a_wrong_clock_for_a_person() {
    if faketime_is_missing() {
        return;
    }
    let window = "[maintenance]\noffset = \"+02:00\"\n\
                  windows = [{ days = [\"sat\"], from = \"22:00\", to = \"04:00\" }]\n";
    let (centre, site) = site(window);
    let two = centre.publish(&Draft::hello("two"));
    let at = |clock: &str, arguments: &[&str]| under(clock, &site, arguments).checked().unwrap();
    // The next Wednesday noon and Saturday night, so that what is signed now is not from the future.
    let date = |day: &str, time: &str| {
        let mut date = std::process::Command::new("date");
        date.env("TZ", "UTC")
            .args(["-d", &format!("next {day} {time}"), "+%Y-%m-%d %H:%M:%S"]);
        String::from_utf8(date.output().unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    };
    let import = ["import", two.to_str().unwrap(), "--output", "json"];
    let before = at(&date("wednesday", "12:00"), &import);
    let printed = stdout(&before);
    assert!(
        printed.contains("no maintenance window is open; the next one begins"),
        "{printed}{}",
        stderr(&before)
    );
    assert!(printed.contains("T22:00:00 (UTC+02)"), "{printed}");
    // At that time: by the machine's own clock the window may be open now.
    let status = at(&date("wednesday", "12:00"), &["status", "--output", "json"]);
    let status = outhaul_tests::result(&stdout(&status));
    assert_eq!(status["attention"][0]["what"], "window", "{status}");
    // Without a clock that is right nothing opens.
    fs::remove_file(site.folder.path().join("synchronized")).unwrap();
    round_at(&site, &date("saturday", "21:00"));
    assert_eq!(site.active(), Some(1));
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains("its clock is not trusted"), "{printed}");
    let other = site.copy();
    other.ok(&["approve", "2"]);
    assert_eq!(other.active(), Some(2));
    // With one, the window does: 1 in the morning there.
    fs::write(site.folder.path().join("synchronized"), "").unwrap();
    round_at(&site, &date("saturday", "23:00"));
    assert_eq!(site.active(), Some(2));
}

/// The machine was started again since the last look, and the looks before it come to so much.
fn looked_at(site: &Site, observed_ms: i64) {
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    let changed = db.execute(
        "UPDATE meta SET value = json_set(value, '$.observed_ms', ?1, '$.last.boot_id', 'before')
          WHERE name = 'soak'",
        [observed_ms],
    );
    assert_eq!(changed.unwrap(), 1);
}

/// A site that looks at health for an hour, and a program that counts as its health.
fn soaking() -> (Centre, Site, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (program, reason) = asked(folder.path());
    let settings =
        format!("[health]\nsoak_s = 3600\nask = [{{ name = \"press\", program = [{program:?}] }}]");
    let (centre, site) = site(&settings);
    (centre, site, folder, reason)
}

#[test]
fn a_bundle_is_confirmed_when_health_stayed_good_and_not_before() {
    if faketime_is_missing() {
        return;
    }
    let (centre, site, _folder, _) = soaking();
    let taken = import(&site, &centre.publish(&Draft::hello("two")));
    assert_eq!(taken["state"], "soaking", "{taken}");
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .starts_with("healthy so far"),
        "{taken}"
    );
    let status = site.status();
    assert_eq!(
        (&status["active"], &status["watched"]),
        (&1.into(), &true.into()),
        "{status}"
    );
    assert!(status.get("to_do").is_none(), "{status}");
    assert_eq!(greeting(&site), "greeting: two\n");
    round_at(&site, "+50m");
    assert_eq!(site.state_of(2), "soaking");
    let applied = site.ok(&["apply", "--who", "ann"]);
    assert_eq!(applied["soaking"], 2, "{applied}");
    round_at(&site, "+70m");
    assert_eq!(site.active(), Some(1), "the clock jumped");
    // The time in which the machine was off proves no health, whether the wall clock is trusted or not.
    looked_at(&site, 0);
    round_at(&site, "+70m");
    assert_eq!(site.state_of(2), "soaking");
    looked_at(&site, 3_600_000);
    round_at(&site, "+70m");
    assert_eq!(site.active(), Some(2));
    // Reported once that it is looked at, and once that it runs.
    let event_log = site.event_log();
    let of_two = event_log.iter().filter(|line| line.starts_with("2 "));
    let of_two: Vec<_> = of_two.filter(|line| *line != "2 observed").collect();
    assert_eq!(
        of_two,
        ["2 staged", "2 applying", "2 soaking", "2 active"],
        "{event_log:?}"
    );
    let status = site.status();
    let shown = status.to_string();
    assert!(!shown.contains("healthy so far"), "{shown}");
}

#[test]
fn health_that_fails_within_the_soak_goes_back_and_the_bundle_is_remembered() {
    let (centre, site, _folder, reason) = soaking();
    let two = centre.publish(&Draft::hello("two"));
    assert_eq!(import(&site, &two)["state"], "soaking");
    fs::write(&reason, "pressure drops\n").unwrap();
    let done = site.run(&["run", "--once"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(
        (site.active(), site.state_of(2)),
        (Some(1), "reverted".to_owned())
    );
    assert_eq!(greeting(&site), "greeting: one\n");
    let why = "this site is not well: `press`: pressure drops";
    let status = site.status();
    let attention = &status["attention"][0];
    assert_eq!(attention["what"], "health", "{status}");
    let printed = attention["message"].as_str().unwrap();
    assert!(
        printed.contains(why) && printed.ends_with("bundle 1 is active again"),
        "{printed}"
    );
    assert!(
        status["next"][0]
            .as_str()
            .unwrap()
            .contains("`outhaul-agent approve 2`"),
        "{status}"
    );
    assert_reports(&site.import(&two), 1, &[why, "not tried again"]);
    let reports = site.reports();
    let left = reports.iter().find_map(|report| match &report.event {
        ReportEvent::Generation(printed) if printed.state == GenerationState::Failed => {
            Some(printed)
        }
        _ => None,
    });
    assert!(left.unwrap().message.contains(why));
}

#[test]
fn a_newer_bundle_takes_the_place_of_one_that_is_looked_at() {
    let (centre, site, _folder, _) = soaking();
    assert_eq!(
        import(&site, &centre.publish(&Draft::hello("two")))["state"],
        "soaking"
    );
    assert_eq!(
        import(&site, &centre.publish(&Draft::hello("three")))["state"],
        "soaking"
    );
    assert_eq!(site.state_of(2), "superseded");
    assert_eq!(greeting(&site), "greeting: three\n");
    // And back goes to what was confirmed.
    site.ok(&["rollback"]);
    assert_eq!(
        (site.active(), greeting(&site)),
        (Some(1), "greeting: one\n".to_owned())
    );
}

#[test]
fn content_that_was_left_twice_needs_a_person_whatever_its_number() {
    let (centre, site, _folder, reason) = soaking();
    fs::write(&reason, "pressure drops\n").unwrap();
    for number in [2, 3] {
        let printed = site.import(&centre.publish(&Draft::hello("bad")));
        assert_eq!(code(&printed), 1, "{}", stderr(&printed));
        assert_eq!(site.state_of(number), "reverted");
    }
    let four = import(&site, &centre.publish(&Draft::hello("bad")));
    assert_eq!(four["state"], "gated", "{four}");
    let why = four["message"].as_str().unwrap();
    assert!(why.contains("rolled back here 2 times"), "{why}");
    assert!(
        why.contains("approve it with `outhaul-agent approve 4`"),
        "{why}"
    );
    // Other content is let in.
    fs::remove_file(&reason).unwrap();
    assert_eq!(
        import(&site, &centre.publish(&Draft::hello("good")))["state"],
        "soaking"
    );
}

#[test]
fn a_signal_while_health_is_asked_counts_against_no_bundle() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let [program, hangs, asked] =
            ["press", "hangs", "asked"].map(|name| folder.path().join(name));
        let text = format!(
            "#!/bin/sh\n[ -e {0} ] || exit 0\n: >{1}\nexec sleep 600\n",
            hangs.display(),
            asked.display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let (centre, site) = site(&format!(
            "[health]\nask = [{{ name = \"press\", program = [{program:?}], timeout_s = 60 }}]"
        ));
        fs::write(&hangs, "").unwrap();
        let two = centre.publish(&Draft::hello("two"));
        let mut import = site.command(&["import", two.to_str().unwrap()]);
        let import = import.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let begun = std::time::Instant::now();
        while !asked.exists() {
            assert!(begun.elapsed().as_secs() < 60, "health was never asked");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let id = import.id().to_string();
        let kill = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(kill.unwrap().success());
        let printed = import.wait_with_output().unwrap();
        assert!(!printed.status.success(), "{}", stderr(&printed));
        assert_eq!(site.state_of(2), "soaking", "{}", stderr(&printed));
        fs::remove_file(hangs).unwrap();
        site.ok(&["run", "--once"]);
        assert_eq!(site.active(), Some(2));
        assert_eq!(greeting(&site), "greeting: two\n");
    }
}

#[test]
fn a_name_and_a_reason_are_one_line_each() {
    let (_centre, site) = site("");
    for arguments in [
        [
            "hold",
            "--why",
            "harvest\nbundle 9 is active",
            "--who",
            "ann",
        ],
        ["hold", "--why", "harvest", "--who", "ann\u{1b}[2J"],
        ["rollback", "--why", "x", "--who", "ann\rbob"],
    ] {
        let refused = site.run(&arguments);
        assert_reports(&refused, 2, &["give one line of text"]);
    }
    assert!(site.status().get("hold").is_none());
    let held = site
        .command(&["hold", "--why", "harvest"])
        .env("SUDO_USER", "ann\nbob")
        .output();
    assert!(held.unwrap().status.success());
    assert_eq!(site.status()["hold"]["who"], "ann\\u{a}bob");
}

#[test]
fn a_delay_whose_deadline_has_passed_asks_a_person_while_another_one_goes_on() {
    if faketime_is_missing() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let delays = folder.path().to_owned();
    let settings = format!("[delay]\nfolder = {delays:?}\nat_deadline = \"ask\"");
    let (centre, site) = site(&settings);
    let ask = |who: &str, why: &str, until: &str| {
        let text = format!(r#"{{"reason": "{why}", "until": "{until}"}}"#);
        fs::write(delays.join(who), text).unwrap();
    };
    ask("harvest", "combine is out", "8h");
    ask("press", "batch 7 runs", "12h");
    let two = centre.publish(&Draft::hello("two"));
    // The power goes before anybody was asked.
    let cut = site
        .command(&["import", two.to_str().unwrap()])
        .env("OUTHAUL_CUT", "staged-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    round_at(&site, "+0h");
    reboot(&site);
    round_at(&site, "+9h");
    let status = under("+9h", &site, &["status"]).checked().unwrap();
    let status = stdout(&status);
    for words in [
        "`harvest` asks for later: combine is out; the deadline was 2",
        "`press` asks for later: batch 7 runs; until 2",
        ", and a person decides: approve it with `outhaul-agent approve 2`",
    ] {
        assert!(status.contains(words), "`{words}` is not in: {status}");
    }
    assert!(!status.contains("applies it when that is over"), "{status}");
    fs::remove_file(delays.join("press")).unwrap();
    round_at(&site, "+9h");
    assert_eq!(site.active(), Some(1));
    site.ok(&["approve", "2"]);
    assert_eq!(site.active(), Some(2));
}
