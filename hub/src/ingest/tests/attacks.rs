//! Lines that nobody sends by mistake: each is refused, within bounds.
//!
//! What comes in: a batch that an attacker would send. What must come out: the refusal, and nothing on record.

use super::*;

/// The attack: sixteen megabytes of `{}` lines, each of which was parsed, listed and counted.
#[test]
fn attack_lines_that_are_no_reports_are_read_up_to_a_bound() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let mut lines = site.started();
    lines.extend(b"{}\n".repeat(100_000));
    let mut rest = lines.as_slice();
    let batch = Batch {
        fleet: FLEET,
        via: "http",
        received_ms: 5,
    };
    let done = ingest(&mut store, &mut rest, &batch).unwrap();
    assert_eq!(done.accepted, 1);
    assert!(done.refused_lines < 5_000, "{}", done.refused_lines);
    let last = done.refused.last().unwrap();
    assert_eq!(last.rule, "not-read");
    assert!(!rest.is_empty());
}

#[test]
fn attack_a_time_that_no_clock_shows_is_refused() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    for ms in [i64::MAX, -1, 253_402_300_800_000] {
        for lower in [false, true] {
            let mut report = site.report(ReportEvent::Started {
                agent_version: "1".to_owned(),
            });
            if lower {
                report.at.lower_bound_ms = ms;
            } else {
                report.at.wall_ms = ms;
            }
            let done = take(&mut store, &[site.sign(&report)]);
            assert_eq!(done.accepted, 0, "{ms}");
            assert_eq!(done.refused[0].rule, "malformed");
        }
    }
}
