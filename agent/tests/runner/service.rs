//! The service: what it tells systemd, what it does by itself, and how it ends.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use outhaul_test_kit::{Centre, Draft, Load};

use crate::server::Server;
use crate::site::{Site, assert_reports};
use crate::web::unpack_for_web;
use outhaul_tests::Checked as _;

/// A running service that said that it is ready; ended when dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
    socket: UnixDatagram,
}

impl Service {
    pub fn start(site: &Site) -> Self {
        let service = Self::spawned(site, None);
        service.wait_for("READY=1");
        service
    }

    /// A service that systemd expects a heartbeat from each second.
    pub fn with_watchdog(site: &Site) -> Self {
        Self::spawned(site, Some("1000000"))
    }

    fn spawned(site: &Site, watchdog: Option<&str>) -> Self {
        let path = site.folder.path().join("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        // Only so that a broken service fails the test; a working one answers at once.
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut command = site.command(&["run"]);
        command
            .env("NOTIFY_SOCKET", &path)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(log(site)).unwrap());
        if let Some(microseconds) = watchdog {
            command.env("WATCHDOG_USEC", microseconds);
        }
        Self {
            child: command.spawn().unwrap(),
            socket,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// As [`Self::wait_for`], with another limit than a minute.
    #[track_caller]
    pub fn wait_within(&self, limit: Duration, word: &str) {
        self.socket.set_read_timeout(Some(limit)).unwrap();
        self.wait_for(word);
    }

    /// Waits until the service tells systemd `word`.
    #[track_caller]
    pub fn wait_for(&self, word: &str) {
        let mut bytes = [0; 1024];
        loop {
            let count = self
                .socket
                .recv(&mut bytes)
                .unwrap_or_else(|_| panic!("never reported: {word}"));
            if String::from_utf8_lossy(&bytes[..count]).contains(word) {
                return;
            }
        }
    }

    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Asks it to end, as systemd does, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        let id = self.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.wait_for("STOPPING=1");
        self.child.wait().unwrap()
    }
}

/// Waits until `is`, for a minute at most; `what` is what did not come.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is() {
        assert!(begun.elapsed().as_secs() < 60, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the service of a site said.
pub fn log(site: &Site) -> std::path::PathBuf {
    site.folder.path().join("service.log")
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_bundle_that_appears_in_a_watched_folder_is_applied_and_a_stop_is_clean() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    std::fs::create_dir(stick.path().join("reports")).unwrap();
    site.configure(&format!("watch = [{:?}]", stick.path()));
    let mut service = Service::start(&site);
    service.wait_for("STATUS=no bundle yet");
    // As a file manager copies: under another name first.
    let bundle = centre.publish(&Draft::hello("one"));
    std::fs::copy(bundle, stick.path().join("copying")).unwrap();
    std::fs::rename(
        stick.path().join("copying"),
        stick.path().join("one.outhaul"),
    )
    .unwrap();
    service.wait_for("STATUS=bundle 1 is active");
    // `status` and decisions work while it runs.
    assert_eq!(site.active(), Some(1));
    assert!(service.terminate().success());
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    // The stick had a folder for reports: they are on it.
    let printed = crate::site::tree(&stick.path().join("reports"));
    assert!(!printed.is_empty());
}

/// What happens to the state folder of a site while its service runs; the path is where it may be moved to.
type Loss = fn(&Site, &std::path::Path);

#[test]
fn a_service_whose_database_is_gone_or_replaced_writes_nothing_more_and_ends() {
    let centre = Centre::new();
    let whole = Site::new(&centre, "drone-7");
    whole.take(&centre.publish(&Draft::hello("one")));
    let backup = whole.folder.path().join("drone-7.backup");
    whole.ok(&["backup", "--to", backup.to_str().unwrap()]);
    let losses: [(Loss, &str, &str); 4] = [
        (
            |site, _| std::fs::remove_file(site.state().join("agent.db")).unwrap(),
            "is gone, while this process worked",
            "put the saved one in its place",
        ),
        (
            |site, aside| std::fs::rename(site.state().join("agent.db"), aside).unwrap(),
            "is gone, while this process worked",
            "move it back",
        ),
        (
            |site, aside| std::fs::rename(site.state(), aside).unwrap(),
            "is gone, while this process worked",
            "`outhaul-agent restore FILE`",
        ),
        (
            |site, aside| {
                std::fs::rename(site.state(), aside).unwrap();
                let backup = aside.with_file_name("drone-7.backup");
                let restored = site.run(&["restore", backup.to_str().unwrap(), "--who", "ann"]);
                assert_eq!(restored.status.code(), Some(0), "{restored:?}");
            },
            "is another file now, while this process worked",
            "systemd starts the service again by itself",
        ),
    ];
    for (lose, what, help) in losses {
        let site = whole.copy();
        std::fs::copy(&backup, site.folder.path().join("drone-7.backup")).unwrap();
        let aside = site.folder.path().join("aside");
        let mut service = Service::start(&site);
        service.wait_for("STATUS=bundle 1 is active");
        // While it runs, nothing is put into its folder.
        let beside = site.run(&["restore", backup.to_str().unwrap()]);
        assert_reports(&beside, 3, &["works on the state folder", "systemctl stop"]);
        lose(&site, &aside);
        assert_eq!(service.ended().code(), Some(3), "{what}");
        let said = std::fs::read_to_string(log(&site)).unwrap();
        assert!(said.contains(what), "{said}");
        assert!(
            said.contains("what is on this host stays as it is"),
            "{said}"
        );
        assert!(said.contains(help), "{said}");
    }
}

#[test]
fn what_people_decide_while_it_runs_is_done_by_it() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 2 is active");
    site.ok(&["rollback", "--who", "ann"]);
    service.wait_for("STATUS=bundle 1 is active");
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
}

#[test]
fn what_people_decide_beside_the_service_is_answered_with_what_came_of_it() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 2 is active");
    assert_eq!(site.ok(&["rollback", "--who", "ann"])["active"], 1);
    assert_eq!(site.ok(&["apply", "--who", "ann"])["active"], 1);
    // Someone's folder lies where the file goes: it fails, and the command says so and ends by it.
    let file = site.state().join("applied/hello/manifest.yaml");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    std::fs::write(file.join("foreign"), "x").unwrap();
    let words = [
        "waits for its answer",
        "error:",
        "only partly applied",
        "help:",
    ];
    assert_reports(&site.run(&["apply"]), 1, &words);
    std::fs::remove_dir_all(&file).unwrap();
    assert_eq!(site.ok(&["apply"])["active"], 1);
    drop(service);
    // What waits is applied, and the command says that it runs.
    site.configure("approval = \"always\"");
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    let three = centre.publish(&Draft::hello("three"));
    assert_eq!(
        site.ok(&["import", three.to_str().unwrap()])["state"],
        "gated"
    );
    assert_eq!(site.ok(&["approve", "3"])["state"], "active");
    assert_eq!(site.active(), Some(3));
}

#[test]
fn work_that_cannot_go_on_does_not_end_the_service() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let load = Load::new("hello").file("reconciler.yaml", "[]\n");
    let bundle = centre.publish(&Draft::new([load]).ansible());
    site.configure("[ansible]\nplaybook_program = \"/bin/true\"");
    // Cut off while applying; then the program goes missing.
    let cut = site
        .command(&["import", bundle.to_str().unwrap()])
        .env("OUTHAUL_CUT", "applying-committed")
        .checked()
        .unwrap();
    assert_eq!(cut.status.code(), None);
    site.configure(
        "reconciler = \"ansible\"\n[ansible]\nplaybook_program = \"/nowhere/ansible-playbook\"",
    );
    let mut service = Service::start(&site);
    service.wait_for("STATUS=no bundle is active");
    assert!(service.terminate().success());
    assert_eq!(site.state_of(1), "applying");
    // It is there again: the next start goes on.
    site.configure("[ansible]\nplaybook_program = \"/bin/true\"");
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
}

#[test]
fn a_round_asked_for_while_the_service_runs_pulls_and_sends() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let web = tempfile::tempdir().unwrap();
    let server = Server::files(web.path().to_owned());
    // The first poll finds nothing; the next would come in a week.
    site.configure(&format!(
        "[repository]\nurl = \"{}\"\npoll_s = 604800",
        server.url
    ));
    let bundle = centre.publish(&Draft::hello("one"));
    unpack_for_web(&bundle, web.path());
    let service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    unpack_for_web(&centre.publish(&Draft::hello("two")), web.path());
    let output = site.run(&["run", "--once"]);
    assert_reports(&output, 0, &["waits for its answer"]);
    assert_eq!(site.active(), Some(2));
}

/// In a network namespace of its own, whose loopback has no address at first: what a cable out of its socket is.
#[test]
fn a_network_that_comes_up_is_used_at_once() {
    const INSIDE: &str = "OUTHAUL_TEST_IN_NAMESPACE";
    const NAME: &str = "service::a_network_that_comes_up_is_used_at_once";
    if std::env::var_os(INSIDE).is_none() {
        let namespace = Command::new("unshare").args(["-rn", "ip", "link"]).output();
        if !namespace.is_ok_and(|output| output.status.success()) {
            outhaul_tests::skipped("needs network namespaces and `ip` (iproute2)");
            return;
        }
        let mut inside = Command::new("unshare");
        inside
            .arg("-rn")
            .arg(std::env::current_exe().unwrap())
            .args([NAME, "--exact", "--nocapture"])
            .env(INSIDE, "1");
        let output = inside.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let ip = |arguments: &str| {
        let done = Command::new("ip").args(arguments.split(' ')).status();
        assert!(done.unwrap().success(), "ip {arguments}");
    };
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let web = tempfile::tempdir().unwrap();
    ip("link set lo up");
    let server = Server::files(web.path().to_owned());
    unpack_for_web(&centre.publish(&Draft::hello("one")), web.path());
    site.configure(&format!(
        "[repository]\nurl = \"{}\"\npoll_s = 604800",
        server.url
    ));
    ip("addr del 127.0.0.1/8 dev lo");
    let service = Service::start(&site);
    service.wait_for("STATUS=no bundle yet");
    assert!(server.asked().is_empty());
    ip("addr add 127.0.0.1/8 dev lo");
    ip("route add 192.0.2.0/24 dev lo");
    // The first pause after a failure is a minute; this does not wait for it.
    service.wait_within(Duration::from_secs(30), "STATUS=bundle 1 is active");
}
