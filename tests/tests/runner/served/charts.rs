//! A chart of a chart repository, from `helm package` at the centre to `helm pull` on site.
//!
//! What comes in: a chart that the real helm made, in a folder with the `index.yaml` that it wrote, served over HTTP here; an
//! image that the release's values name. What must come out: helm on site gets the same bytes under the original
//! address and behind the mirror's own, without a network; and what cannot travel is named by its chart.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use outhaul_tests::kubernetes::{ADMIN, ApiServer};
use outhaul_tests::{isolated_or_skip, run_script};

use super::{Registry, at_plain_mirror, crane_or_skip, program, push, with_image};
use crate::cluster::{SITE, follow_the_example};
use crate::system::{SystemFixture, TO_STICK};

/// Serves the files of a folder until the test ends; its address, as `localhost:PORT`.
fn file_server(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut path = String::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap_or_default();
                if path.is_empty() {
                    line.split(' ').nth(1).unwrap_or("/").clone_into(&mut path);
                }
                if line.is_empty() {
                    break;
                }
            }
            let found = fs::read(folder.join(path.trim_start_matches('/')));
            let (status, bytes) = match found {
                Ok(bytes) => ("200 OK", bytes),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let length = bytes.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // A client that left is ignored.
            drop(
                stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(&bytes)),
            );
        }
    });
    format!("localhost:{port}")
}

fn helm_or_skip() -> Option<PathBuf> {
    let folder = std::env::var_os("OUTHAUL_OCI_CLIENTS").map(PathBuf::from);
    let helm = folder.map(|folder| folder.join("helm"));
    let found = helm.filter(|helm| helm.is_file());
    if found.is_none() {
        outhaul_tests::skipped(
            "`helm` is not here: set OUTHAUL_OCI_CLIENTS (`.ci/programs/build cluster`)",
        );
    }
    found
}

/// Makes the chart `app`, and the index of the repository in `charts/stable`.
fn package(fixture: &SystemFixture, helm: &Path, script: &str) {
    let script = format!(
        "mkdir -p charts/stable\n{script}\n\"$HELM\" package app --version 1.2.3+site --destination charts/stable >/dev/null\n\
         \"$HELM\" repo index charts/stable\n"
    );
    let mut shell = fixture.command(Path::new("bash"));
    shell.args(["-euc", &script]).env("HELM", helm);
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
}

/// The team's manifests: a repository of charts, and a release of one with its own image.
fn release(fixture: &SystemFixture, url: &str, chart: &str, version: &str, image: &str) {
    let text = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: stable}}\nspec: {{url: '{url}'}}\n\
         ---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app}}\nspec:\n  chart:\n    \
         spec:\n      chart: {chart}\n      version: '{version}'\n      sourceRef: {{kind: HelmRepository, name: stable}}\n  \
         values:\n    image: {{repository: {image}, tag: '1'}}\n"
    );
    fixture.on_branch("manifests", "dev", |folder| {
        fs::write(folder.join("report.yaml"), &text).unwrap();
    });
}

#[test]
fn a_chart_of_a_chart_repository_is_pulled_on_site_by_helm_with_the_image_of_its_values() {
    if !isolated_or_skip() {
        return;
    }
    let (Some(crane), Some(helm)) = (crane_or_skip(), helm_or_skip()) else {
        return;
    };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let image = format!("{}/team/app", registry.address);
    push(&fixture, &crane, &format!("{image}:1"), "first");
    with_image(&fixture, "unused");
    package(&fixture, &helm, "\"$HELM\" create app >/dev/null");
    let charts = file_server(fixture.path("charts"));
    let url = format!("http://{charts}/stable");
    let archive = fs::read(fixture.path("charts/stable/app-1.2.3+site.tgz")).unwrap();
    let keys = [&TO_STICK[..], &["--allow-host", &registry.address]].concat();
    let allowed = [&keys[..], &["--allow-host", &charts]].concat();

    // A host of this machine is not asked because a team's manifest names it.
    release(&fixture, &url, "app", "1.2.3+site", &image);
    let refused = fixture.plane(1, "bundle", "dev", &keys);
    assert!(refused.stderr.contains(&url), "{}", refused.everything());

    // What would travel is listed before anything is written, the image of the values with it.
    let estimate = [
        "--fleet",
        "fleet",
        "--allow-host",
        &registry.address,
        "--allow-host",
        &charts,
        "--estimate",
    ];
    let listed = fixture.plane(0, "bundle", "dev", &estimate);
    let name = format!("{charts}/stable/index.yaml/app:1.2.3_site");
    assert!(listed.stdout.contains(&name), "{}", listed.everything());
    assert!(
        listed.stdout.contains(&format!("{image}:1")),
        "{}",
        listed.everything()
    );
    fixture.plane(0, "bundle", "dev", &allowed);
    let lock = fs::read_to_string(fixture.path("fleet/outhaul.lock")).unwrap();
    assert!(lock.contains(&format!("\"{name}\": \"sha256:")), "{lock}");

    // Another archive under the same version does not float into a bundle.
    package(&fixture, &helm, "echo '# changed' >>app/values.yaml");
    let same = fixture.plane(0, "bundle", "dev", &allowed);
    assert!(same.stderr.contains("unchanged"), "{}", same.everything());

    fixture.carry(SITE);
    fs::write(fixture.path("original.tgz"), &archive).unwrap();
    let script = r#"
        export HELM_CACHE_HOME=$PWD/cache HELM_CONFIG_HOME=$PWD/config HELM_DATA_HOME=$PWD/data
        "$HELM" repo add original "$URL" >/dev/null
        "$HELM" search repo original --output json
        "$HELM" pull original/app --version 1.2.3+site
        cmp app-1.2.3+site.tgz original.tgz && echo the same bytes
        "$HELM" repo add mirror "http://127.0.0.1:${PORT}/$PREFIX/stable" >/dev/null
        "$HELM" template name mirror/app --version 1.2.3+site --set image.repository="$IMAGE" | grep image:
        "$CRANE" digest "$IMAGE:1"
        code=$(curl -s -o /dev/null -w '%{http_code}' "$URL/app-9.9.9.tgz"); echo "another version: $code"
        curl -s "$URL/index.yaml" | sha256sum
    "#;
    let (_, port) = charts.split_once(':').unwrap();
    let listen = format!("127.0.0.1:{port}");
    // The image's registry has another port: it is asked for behind the mirror's own address.
    let mirrored = format!("{listen}/{}", image.replacen(':', "_", 1));
    let programs: [(&str, &Path); 6] = [
        ("HELM", &helm),
        ("CRANE", &crane),
        ("URL", Path::new(&url)),
        ("PORT", Path::new(port)),
        ("PREFIX", Path::new(&charts)),
        ("IMAGE", Path::new(&mirrored)),
    ];
    let seen = at_plain_mirror(&fixture, &listen, script, &programs);
    assert!(
        seen.contains(r#""name":"original/app","version":"1.2.3+site","app_version":"1.16.0""#),
        "{seen}"
    );
    assert!(seen.contains("the same bytes\n"), "{seen}");
    assert!(seen.contains("another version: 404\n"), "{seen}");
    let again = at_plain_mirror(
        &fixture,
        &listen,
        "curl -s \"$URL/index.yaml\" | sha256sum",
        &programs,
    );
    let sum = again.lines().next().unwrap();
    assert!(seen.contains(sum), "{seen}: {again}");
    installed(&fixture, &helm, &charts);
}

/// Installs the chart from the mirror into a real cluster, which is on this machine and not without a network.
#[track_caller]
fn installed(fixture: &SystemFixture, helm: &Path, charts: &str) {
    let Some(server) = ApiServer::start_or_skip(&fixture.path("server")) else {
        return;
    };
    let server = server.unwrap();
    let script = r#"
        export HELM_CACHE_HOME=$PWD/cache HELM_CONFIG_HOME=$PWD/config HELM_DATA_HOME=$PWD/data
        exec 3< <("$MIRROR" run --state "$STATE" --plain-http --listen 127.0.0.1:0)
        mirror=$!
        trap 'kill $mirror' EXIT
        read -r url <&3
        "$HELM" repo add site "$url$CHARTS/stable" >/dev/null
        "$HELM" install web site/app --version 1.2.3+site --namespace default
    "#;
    let mut shell = fixture.command(Path::new("bash"));
    shell
        .args(["-euo", "pipefail", "-c", script])
        .env("HELM", helm)
        .env("CHARTS", charts)
        .env("KUBECONFIG", server.kubeconfig(ADMIN))
        .env("MIRROR", program("outhaul-mirror").unwrap())
        .env("STATE", fixture.path(&format!("sites/{SITE}")));
    let ran = run_script(&mut shell).unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.everything());
    assert!(
        ran.stdout.contains("STATUS: deployed"),
        "{}",
        ran.everything()
    );
    let path = "/apis/apps/v1/namespaces/default/deployments/web-app";
    let found = server.get(path).unwrap().unwrap();
    let label = &found["metadata"]["labels"]["helm.sh/chart"];
    assert_eq!(label, "app-1.2.3_site", "{found}");
}

#[test]
fn what_only_helm_fills_in_is_named_and_travels_where_a_policy_asks_that_charts_are_rendered() {
    let (Some(crane), Some(helm)) = (crane_or_skip(), helm_or_skip()) else {
        return;
    };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    let registry = Registry::start(&crane);
    let image = format!("{}/team/app", registry.address);
    push(&fixture, &crane, &format!("{image}:1"), "first");
    let computed = format!("{}/team/computed", registry.address);
    push(&fixture, &crane, &format!("{computed}:7"), "second");
    with_image(&fixture, "unused");
    let pod = format!(
        "{{{{- $tag := add 3 4 }}}}\napiVersion: v1\nkind: Pod\nmetadata: {{name: more}}\nspec:\n  containers:\n  - \
         name: a\n    image: {computed}:{{{{ $tag }}}}\n"
    );
    fs::write(fixture.path("pod.yaml"), pod).unwrap();
    let create = "\"$HELM\" create app >/dev/null; cp pod.yaml app/templates/";
    package(&fixture, &helm, create);
    let charts = file_server(fixture.path("charts"));
    let url = format!("http://{charts}/stable");
    release(&fixture, &url, "app", "1.2.3+site", &image);
    let bundle = |code: i32, command: &Path| {
        let mut outhaul = fixture.command(&program("outhaul").unwrap());
        outhaul.env("OUTHAUL_HELM", command).args([
            "bundle",
            "--environment",
            "dev",
            "--control-plane",
            "control-plane",
            "--cache",
            "cache",
            "--fleet",
            "fleet",
            "--estimate",
            "--allow-host",
            &registry.address,
            "--allow-host",
            &charts,
        ]);
        for source in &fixture.sources {
            outhaul.args(["--source", source]);
        }
        outhaul_tests::run_expecting(&mut outhaul, code).unwrap()
    };
    let named = bundle(0, &helm);
    let unknown =
        format!("which image `{computed}:{{{{ $tag }}}}` is (templates/pod.yaml, line 8)");
    assert!(named.stderr.contains(&unknown), "{}", named.everything());
    assert!(
        !named.stdout.contains("computed:7"),
        "{}",
        named.everything()
    );

    fixture.on_branch("control-plane", "dev", |folder| {
        let path = folder.join("delivery/cluster.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            path,
            text.replace("images: carry", "charts: render\n  images: carry"),
        )
        .unwrap();
    });
    let rendered = bundle(0, &helm);
    assert!(
        rendered.stdout.contains(&format!("{computed}:7")),
        "{}",
        rendered.everything()
    );
    assert!(
        rendered.stdout.contains(&format!("{image}:1")),
        "{}",
        rendered.everything()
    );
    assert!(
        !rendered.stderr.contains("chart-images-unknown"),
        "{}",
        rendered.everything()
    );
    // Without the command it is named, and not left out in silence.
    let without = bundle(0, Path::new("/nonexistent/helm"));
    assert!(
        without.stderr.contains("it is not rendered"),
        "{}",
        without.everything()
    );
    assert!(
        without.stderr.contains("`helm` was not found"),
        "{}",
        without.everything()
    );
}

#[test]
fn a_chart_that_cannot_travel_is_named_with_its_versions_and_is_one_assignment_s_finding() {
    let Some(helm) = helm_or_skip() else { return };
    let mut fixture = SystemFixture::new();
    follow_the_example(&mut fixture);
    with_image(&fixture, "unused");
    package(&fixture, &helm, "\"$HELM\" create app >/dev/null");
    let charts = file_server(fixture.path("charts"));
    let url = format!("http://{charts}/stable");
    let keys = [&TO_STICK[..], &["--allow-host", &charts]].concat();
    for (chart, version, expected) in [
        (
            "app",
            "^1.2",
            "is requested as `^1.2`, which is not a single version; the repository has 1.2.3+site",
        ),
        (
            "app",
            "1.2.4",
            "has no version 1.2.4; the repository has 1.2.3+site",
        ),
        (
            "other",
            "1.2.3",
            "chart `other` is not in the index, which lists app",
        ),
        ("app", "", "no version is named, and a bundle contains one"),
        ("''", "1.2.3", "no chart is named"),
    ] {
        release(&fixture, &url, chart, version, "unused");
        let printed = fixture.plane(1, "bundle", "dev", &keys);
        assert!(
            printed.stderr.contains(expected),
            "{version}: {}",
            printed.everything()
        );
        assert!(
            printed.stderr.contains("stock-report-nightly"),
            "{}",
            printed.everything()
        );
    }
    // A damaged archive: the index has another digest.
    release(&fixture, &url, "app", "1.2.3+site", "unused");
    let path = fixture.path("charts/stable/app-1.2.3+site.tgz");
    let mut bytes = fs::read(&path).unwrap();
    bytes.push(0);
    fs::write(&path, bytes).unwrap();
    let printed = fixture.plane(1, "bundle", "dev", &keys);
    let expected = "is not the archive that the index lists: it has the digest sha256:";
    assert!(
        printed.stderr.contains(expected),
        "{}",
        printed.everything()
    );
}
