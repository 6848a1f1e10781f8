//! What `status` says to someone who has never seen the site: what is half done, what is left, what to do next.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use outhaul_bundle::report::{ComplianceStatus, GenerationState, ReportEvent};
use outhaul_test_kit::folder::tree;
use outhaul_test_kit::{Centre, Draft, Load};
use outhaul_tests::Checked as _;

use crate::hooks;
use crate::reconcilers::Gate;
use crate::site::{Site, assert_reports, code, stderr, stdout};

/// Three assignments; the program that applies them can stop at the second for want of something on the host.
pub fn stuck_at_the_second() -> (Centre, Site, std::path::PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let obstacle = site.folder.path().join("no-power");
    let text = format!(
        "#!/bin/sh\nmessage=$(cat)\nverb=${{message#*'\"verb\":\"'}}\nverb=${{verb%%'\"'*}}\n\
         name=${{message#*'\"generation\":1,\"name\":\"'}}\nname=${{name%%'\"'*}}\n\
         say() {{ printf '{{\"protocol\":\"outhaul.dev/hook/v1\",%s}}' \"$1\"; }}\n\
         [ \"$verb$name\" = applybeta ] && [ -e '{}' ] && {{ echo no power >&2; exit 3; }}\n\
         case $verb in\nplan) say '\"status\":\"ok\",\"items\":[{{\"item\":\"'\"$name\"'\",\"digest\":\"1\"}}]';;\n\
         *) say '\"status\":\"ok\"';;\nesac\n",
        obstacle.display()
    );
    fs::write(hooks::path(&site), text).unwrap();
    fs::set_permissions(hooks::path(&site), fs::Permissions::from_mode(0o755)).unwrap();
    hooks::configure(&site, "");
    (centre, site, obstacle)
}

pub fn three() -> Draft {
    let load = |name: &str| Load::new(name).file("thing.yaml", format!("name: {name}\n"));
    Draft::new(["alpha", "beta", "gamma"].map(load)).reconciler("presses")
}

#[test]
fn half_applied_work_is_told_assignment_by_assignment_here_and_in_the_report() {
    let (centre, site, obstacle) = stuck_at_the_second();
    fs::write(&obstacle, "").unwrap();
    let printed = site.import(&centre.publish(&three()));
    assert_eq!(
        code(&printed),
        3,
        "{}{}",
        stdout(&printed),
        stderr(&printed)
    );
    assert!(stderr(&printed).contains("no power"));
    let printed = stdout(&site.run(&["status"]));
    for line in [
        "alpha: applied",
        "beta: half applied",
        "gamma: not applied yet",
    ] {
        assert!(printed.contains(line), "`{line}` is not in: {printed}");
    }
    let status = site.status();
    assert_eq!(status["steps"][1]["progress"], "half-applied", "{status}");
    let next = status["next"][0].as_str().unwrap();
    assert!(
        next.contains("no power") && next.contains("outhaul-agent apply"),
        "{next}"
    );
    // The hub learns the same.
    let reports = site.reports();
    let ReportEvent::Generation(printed) = &reports.last().unwrap().event else {
        panic!("{reports:?}")
    };
    assert_eq!(printed.state, GenerationState::Failed);
    let results: Vec<_> = printed
        .assignments
        .iter()
        .map(|result| (result.name.as_str(), result.status))
        .collect();
    let (good, bad, waits) = (
        ComplianceStatus::Compliant,
        ComplianceStatus::Failed,
        ComplianceStatus::InProgress,
    );
    let expected = [("alpha", good), ("beta", bad), ("gamma", waits)];
    assert_eq!(results, expected);
    assert!(printed.assignments[1].message.contains("half applied"));
    // When it can go on, nothing of that is left.
    fs::remove_file(obstacle).unwrap();
    site.ok(&["apply"]);
    let status = site.status();
    assert_eq!(status["active"], 1);
    assert!(status.get("steps").is_none(), "{status}");
    let shown = status.to_string();
    for stale in ["no power", "half applied", "cannot go on"] {
        assert!(!shown.contains(stale), "`{stale}` is in: {shown}");
    }
}

#[test]
fn what_a_failed_first_bundle_left_is_listed_until_a_newer_one_runs() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let target = site.state().join("applied/beta");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("thing.yaml"), "someone's").unwrap();
    let load = |name: &str| Load::new(name).file("thing.yaml", "x\n");
    let both = Draft::new(["alpha", "beta"].map(load));
    let printed = site.import(&centre.publish(&both));
    assert_eq!(code(&printed), 1, "{}", stderr(&printed));
    assert!(
        stdout(&printed).contains("not Outhaul's"),
        "{}",
        stdout(&printed)
    );
    let status = site.status();
    let attention = &status["attention"][0];
    assert_eq!(attention["what"], "leftovers", "{status}");
    assert_eq!(attention["assignment"], "alpha");
    assert!(
        attention["message"]
            .as_str()
            .unwrap()
            .contains("alpha/thing.yaml")
    );
    // A bundle without it takes it away, and the list with it. (One that removes everything waits for a person.)
    let other = centre.publish(&Draft::new([load("gamma")]));
    site.import(&other);
    site.run(&["approve", "2"]);
    assert_eq!(site.active(), Some(2));
    let status = site.status();
    assert!(status.get("attention").is_none(), "{status}");
    assert!(!site.applied().contains_key("alpha/thing.yaml"));
}

#[test]
fn while_a_command_is_at_work_its_end_is_to_be_waited_for() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate(folder.path().to_owned());
    let program = folder.path().join("asked");
    fs::write(&program, format!("#!/bin/sh\n{}\n", gate.shell())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.configure(&format!(
        "[health]\nask = [{{ name = \"press\", program = [{program:?}], timeout_s = 60 }}]"
    ));
    let two = centre.publish(&Draft::hello("two"));
    let import = site
        .command(&["import", two.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut import = import.unwrap();
    let begun = Instant::now();
    while !gate.at_work() && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = site.status();
    gate.open();
    assert!(import.wait().unwrap().success());
    let to_do = status["to_do"].as_str().unwrap_or_default();
    let who = format!(
        "a command is at work on this site (process {}): wait",
        import.id()
    );
    assert!(to_do.starts_with(&who), "{status}");
    assert!(!to_do.contains("no service"), "{status}");
    // Its end is the end of that.
    let after = site.status();
    assert!(
        after.get("to_do").is_none_or(serde_json::Value::is_null),
        "{after}"
    );
    assert_eq!(after["active"], 2, "{after}");
}

#[test]
fn the_next_steps_and_the_clock_are_told_and_the_page_holds_no_markup_of_strangers() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let printed = stdout(&site.run(&["status"]));
    assert!(
        printed.contains("imports a bundle from a stick"),
        "{printed}"
    );
    assert!(printed.contains("export FOLDER"), "{printed}");
    site.take(&centre.publish(&Draft::hello("one")));
    site.ok(&["hold", "--who", "ann", "--why", "<script>alert(1)</script>"]);
    let none = site.folder.path().join("none");
    site.configure(&format!("[clock]\nsynchronized = {none:?}"));
    let status = site.status();
    assert_eq!(status["clock"]["trusted"], false, "{status}");
    fs::write(&none, "").unwrap();
    assert_eq!(site.status()["clock"]["trusted"], true);
    let page = site.folder.path().join("status.html");
    let printed = site.run(&["status", "--page", page.to_str().unwrap()]);
    assert_reports(&printed, 0, &["a browser opens `file://"]);
    let page = fs::read_to_string(page).unwrap();
    // The key that a person tells the centre by telephone, as the terminal shows it.
    let shown = stdout(&site.run(&["status"]));
    let enrolment = shown
        .lines()
        .find(|line| line.starts_with("enrolment: requested, key "));
    let enrolment = enrolment.unwrap();
    for words in [
        "Bundle 1",
        "What to do next",
        "hello",
        "&lt;script&gt;",
        enrolment,
    ] {
        assert!(page.contains(words), "`{words}` is not in: {page}");
    }
    for never in ["<script", "http://", "https://", "src="] {
        assert!(!page.contains(never), "`{never}` is in: {page}");
    }
}

#[test]
fn a_page_is_written_over_an_earlier_page_and_over_nothing_else() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let before = tree(&site.state());
    let page = site.folder.path().join("page.html");
    let other = site.folder.path().join("other.html");
    fs::write(&other, "<!doctype html>\n<p>mine</p>").unwrap();
    let link = site.folder.path().join("link.html");
    std::os::unix::fs::symlink(&page, &link).unwrap();
    let own = [
        "agent.db",
        "site.key",
        "new.html",
        "generations/../new.html",
    ]
    .map(|name| site.state().join(name));
    for path in own.iter().chain([&other, &link]) {
        let done = site.run(&["status", "--page", path.to_str().unwrap()]);
        assert_reports(&done, 2, &["no page is written to", "nothing was changed"]);
        // How the site stands is printed all the same.
        assert!(stdout(&done).contains("active: bundle 1"));
    }
    assert_eq!(tree(&site.state()), before);
    assert_eq!(
        fs::read_to_string(&other).unwrap(),
        "<!doctype html>\n<p>mine</p>"
    );
    for _ in 0..2 {
        let done = site.run(&["status", "--page", page.to_str().unwrap()]);
        assert_reports(&done, 0, &["a browser opens"]);
    }
    assert!(fs::read_to_string(&page).unwrap().contains("drone-7"));
}

#[test]
fn a_page_of_a_site_that_cannot_be_read_says_so_and_one_of_before_is_recognised() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let page = site.folder.path().join("page.html");
    let write = |code: i32, words: &[&str]| {
        let done = site.run(&["status", "--page", page.to_str().unwrap()]);
        assert_reports(&done, code, words);
        fs::read_to_string(&page).unwrap()
    };
    let written = write(0, &["a browser opens"]);
    let mark = "<meta name=\"generator\" content=\"outhaul-agent status\">";
    assert!(written.contains(mark));
    // As the version before wrote it.
    fs::write(&page, written.replacen(mark, "", 1)).unwrap();
    write(0, &["a browser opens"]);

    let database = site.state().join("agent.db");
    fs::write(&database, vec![7; 8192]).unwrap();
    let said = write(3, &["states that this site cannot be read"]);
    assert!(
        said.contains("This site cannot be read") && said.contains("agent.db"),
        "{said}"
    );
    assert!(!said.contains("No action needed"), "{said}");
    // Where there is no site a page that is there is not touched, and that is said.
    fs::remove_dir_all(site.state()).unwrap();
    let done = site.run(&["status", "--page", page.to_str().unwrap()]);
    assert_reports(
        &done,
        2,
        &["is not written; a page that is there is from before"],
    );
    assert_eq!(fs::read_to_string(&page).unwrap(), said);
}

#[test]
fn what_to_do_next_names_the_state_folder_in_json_and_on_the_page_too() {
    let site = Site::new(&Centre::new(), "drone-7");
    let page = site.folder.path().join("page.html");
    let command = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        let done = command.env_remove("OUTHAUL_STATE").checked().unwrap();
        stdout(&done)
    };
    let named = format!("`outhaul-agent --state {} ", site.state().display());
    let json = command(&["status", "--output", "json"]);
    assert!(json.contains(&named), "{json}");
    command(&["status", "--page", page.to_str().unwrap()]);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains(&named), "{html}");
}

#[test]
fn what_stands_in_the_place_of_an_applied_file_is_named_and_moved_away_by_a_person_alone() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let draft = Draft {
        drift: outhaul_bundle::index::DriftPolicy::Correct,
        ..Draft::hello("one")
    };
    site.take(&centre.publish(&draft));
    let file = site.state().join("applied/hello/manifest.yaml");
    let was = fs::read(&file).unwrap();
    let outside = site.folder.path().join("outside");
    fs::write(&outside, &was).unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&outside, &file).unwrap();

    site.run(&["run", "--once"]);
    let named = format!(
        "a symbolic link is in its place, which is not Outhaul's: move `{}` away",
        file.display()
    );
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains(&named), "{status}");
    let way =
        "move away what is named there, then `outhaul-agent apply` puts back what was applied";
    assert!(status.contains(way), "{status}");
    let reported = site.reports().into_iter().any(|report| {
        let (ReportEvent::Generation(of) | ReportEvent::Observation(of)) = report.event else {
            return false;
        };
        of.assignments
            .iter()
            .any(|one| one.message.contains(&named))
    });
    assert!(reported);
    let refused = site.run(&["apply"]);
    assert_reports(&refused, 1, &["was written: it is a symbolic link"]);
    assert_eq!(fs::read_link(&file).unwrap(), outside);
    assert_eq!(fs::read(&outside).unwrap(), was);

    fs::remove_file(&file).unwrap();
    site.ok(&["apply"]);
    assert_eq!(fs::read(&file).unwrap(), was);
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
}

#[test]
fn what_is_not_looked_at_by_status_is_said_with_the_time_and_what_is_shows_the_truth() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let text = || stdout(&site.run(&["status"]));
    assert!(text().contains("  hello: as desired\n"), "{}", text());
    fs::remove_dir_all(site.state().join("applied")).unwrap();
    let printed = text();
    let changed = "  hello: changed since it was last checked\n";
    assert!(printed.contains(changed), "{printed}");
    assert!(printed.contains("it is missing"), "{printed}");
    assert!(!printed.contains("no action needed"), "{printed}");
    // Where nothing can be compared, nothing is said to be so now.
    fs::remove_dir_all(site.state().join("generations/1")).unwrap();
    let printed = text();
    let found = "  hello: as desired when it was last checked (";
    assert!(printed.contains(found), "{printed}");
    // A playbook that would have to run is not run for `status`.
    let site = Site::new(&centre, "drone-8");
    site.configure("[ansible]\nplaybook_program = \"/bin/true\"\n");
    let load = Load::new("hello").file("reconciler.yaml", "[]\n");
    site.take(&centre.publish(&Draft::new([load]).ansible()));
    let looked = site.status()["observed_ms"].as_i64().unwrap();
    let looked = jiff::Timestamp::from_millisecond(looked).unwrap();
    let printed = stdout(&site.run(&["status"]));
    let found = format!("  hello: as desired when it was last checked ({looked})");
    assert!(printed.contains(&found), "{printed}");
}
