//! Records of today and of before: all three formats of before were written by the programs of then.

use super::*;

const FOLDER: &str = include_str!("golden/out.outhaul.json");
const BRANCH: &str = include_str!("golden/platform.json");

#[test]
fn a_folders_and_a_branchs_record_of_before_are_read_alike() {
    let folder = Record::parse(FOLDER.as_bytes()).unwrap();
    let branch = Record::parse(BRANCH.as_bytes()).unwrap();
    assert!(FOLDER.contains(FOLDER_BEFORE) && BRANCH.contains(BRANCH_BEFORE));
    assert_eq!(folder.environment, "dev");
    assert_eq!(folder.kept.len(), 1);
    assert!(!folder.files.is_empty());
    let format = branch.format.clone();
    assert_eq!(Record { format, ..folder }, branch);
}

#[test]
fn what_is_written_is_of_one_format_and_read_back() {
    let old = Record::parse(FOLDER.as_bytes()).unwrap();
    let commit = Some("1".repeat(40));
    let mut new = Record::new(
        &old.environment,
        &old.snapshot,
        commit.as_deref(),
        old.kept.clone(),
    );
    new.files.clone_from(&old.files);
    let bytes = new.bytes().unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains(FORMAT));
    assert_eq!(Record::parse(&bytes).unwrap(), new);
    assert_eq!(new.assignments(), old.assignments());
}

#[test]
fn a_record_of_another_format_or_without_its_environment_is_an_error() {
    let newer = BRANCH.replace(BRANCH_BEFORE, "outhaul.dev/output/v2");
    let problem = Record::parse(newer.as_bytes()).unwrap_err();
    assert_eq!(
        problem,
        "its format is `outhaul.dev/output/v2`, not `outhaul.dev/output/v1`"
    );
    let without = FOLDER.replace(FOLDER_BEFORE, FORMAT);
    let problem = Record::parse(without.as_bytes()).unwrap_err();
    assert_eq!(problem, "it names no environment");
    assert!(Record::parse(&BRANCH.as_bytes()[..BRANCH.len() / 2]).is_err());
}

/// What a program of before wrote of a stream: two assignments with overlays, of which `hello-second` was kept.
const STREAM: &str = include_str!("golden/rendered.json");
/// The same as it is written now.
const STREAM_NOW: &str = include_str!("golden/stream.json");

const SOUND: &str = "sha256:a58f98cefa1f16d93924e7bd3d201d3e15b643c134214f4b12f4caa212714cb1";
const EARLIER: &str = "sha256:1d1dfb3e50f6b5160313d03cc155325761bf71e5cd419bc54c627b0e24d72ea7";

#[test]
fn a_streams_record_of_before_is_read_and_written_as_the_others_are() {
    let old = Record::parse_stream(STREAM.as_bytes()).unwrap();
    let names = ["edge/hello-dev", "edge/hello-second"];
    assert!(old.assignments().iter().eq(names));
    assert_eq!(old.origin(names[0]).to_string(), SOUND);
    assert_eq!(old.origin(names[1]).to_string(), EARLIER);
    let before: serde_json::Value = serde_json::from_str(STREAM).unwrap();
    for name in names {
        let one = old.shipped(name).unwrap();
        let before = &before["assignments"][&name["edge/".len()..]];
        assert_eq!(
            before["payload_commit"],
            *one.payload_commit.as_ref().unwrap()
        );
        let mut now = serde_json::to_value(&one.rendered).unwrap();
        now["from"] = before["from"].clone();
        now["payload_commit"] = before["payload_commit"].clone();
        assert_eq!(now, *before);
    }
    let bytes = old.bytes().unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), STREAM_NOW);
    assert_eq!(Record::parse_stream(&bytes).unwrap(), old);
}

#[test]
fn the_record_of_a_stream_is_not_that_of_a_folder_and_the_other_way_round() {
    let problem = |bytes: &str| Record::parse(bytes.as_bytes()).unwrap_err();
    assert_eq!(problem(STREAM), "it is the record of a stream");
    assert_eq!(problem(STREAM_NOW), "it is the record of a stream");
    let problem = Record::parse_stream(FOLDER.as_bytes()).unwrap_err();
    assert_eq!(problem, "it is not the record of a stream");
}

#[test]
fn damage_of_a_streams_record_is_an_error_wherever_it_is() {
    for whole in [STREAM, STREAM_NOW] {
        for length in 0..whole.trim_end().len() {
            let torn = &whole.as_bytes()[..length];
            assert!(Record::parse_stream(torn).is_err(), "{length}");
        }
        let later = whole.replacen("/v1", "/v2", 1);
        assert!(Record::parse_stream(later.as_bytes()).is_err());
        let unknown = whole.replacen("\"workload\"", "\"of_later\": 1, \"workload\"", 1);
        assert_ne!(unknown, whole);
        assert!(Record::parse_stream(unknown.as_bytes()).is_err());
    }
    // What each change makes of it, and why that is no record.
    let says = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json: serde_json::Value = serde_json::from_str(STREAM_NOW).unwrap();
        change(&mut json);
        Record::parse_stream(json.to_string().as_bytes()).unwrap_err()
    };
    let digests = "its files are not what their digests say";
    let lost = |json: &mut serde_json::Value| {
        let all = json["stream"]["assignments"].as_object_mut().unwrap();
        all.remove("edge/hello-dev").unwrap();
    };
    assert_eq!(says(&lost), digests);
    assert_eq!(says(&|json| json["files"] = serde_json::json!({})), digests);
    let changed = |json: &mut serde_json::Value| {
        let one = &mut json["stream"]["assignments"]["edge/hello-dev"]["rendered"];
        one["files"]["namespace.yaml"] = "namespace: other\n".into();
    };
    assert_eq!(says(&changed), digests);
    let other = says(&|json| json["stream"]["cluster_type"] = "core".into());
    assert_eq!(other, "`edge/hello-dev` is of another stream");
    assert!(says(&|json| json["stream"] = serde_json::Value::Null).contains("not the record"));
}
